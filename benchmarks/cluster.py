"""Arrays of gigabytes on a cluster of processes, in memory and from the shell: seconds,
what the client does, peak memory.

    python benchmarks/cluster.py --workers 1 2                      12.8 million x 20 (2 GB), in the memory of the workers
    python benchmarks/cluster.py --workers 2 --rows 1.25e8 --lazy --methods cone   20 GB; blocks are computed at each pass
    python benchmarks/cluster.py --memory 0.1 0.3 1 2               in memory, arrays of these sizes in GB
    python benchmarks/cluster.py --shell 0.1 0.3 1 2                bionica separate FILE.npy --sources 5 -o OUT.npy

Every worker has one thread. "client, s": CPU seconds of the client's thread, in which
no worker computes. "16 workers, s": what these would take at best, client + workers'
CPU / 16. "passes": how often X was read.
"""

import argparse
import json
import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np

import bionica
from bionica.core.dask import DaskRows
from bionica.metrics import sinr
from runner import markdown

D = 5
K = 20
CHUNK = 100_000
FITS = {
    "cone": lambda X: bionica.MinimumVolumeCone(D, random_state=0).fit(X),
    "batch": lambda X: bionica.BatchNICA(D, random_state=0).fit(X),
    "separate": lambda X: bionica.separate(X, D, method="cone", random_state=0),
}
METHODS = [*FITS, "diagnose"]  # of the fit before it, without its time


def block(seed, n, noise):
    """Sources and mixtures of n samples; the mixing matrix is the same for all blocks."""
    A = np.random.default_rng([0, 7]).standard_normal((D, K))
    rng = np.random.default_rng([0, 8, seed])
    S = rng.exponential(size=(n, D))
    X = S @ A
    X += noise * rng.standard_normal(X.shape)
    return S, X


def blocks(n, noise):
    """The blocks of n rows."""
    for i in range(0, n, CHUNK):
        yield block(i // CHUNK, min(CHUNK, n - i), noise)[1]


def fitted(method, X, last=None):
    with warnings.catch_warnings(action="ignore"):
        if method == "diagnose":
            last.diagnose(X)
            return last
        return FITS[method](X)


def decibels(model, noise):
    S, X = block(10**6, 20_000, noise)
    return sinr(S, model.transform(X))


def lazy(n, noise):
    import dask
    import dask.array as da

    sizes = [min(CHUNK, n - i) for i in range(0, n, CHUNK)]
    make = dask.delayed(lambda i, m: block(i, m, noise)[1], pure=True)
    return da.concatenate(
        [da.from_delayed(make(i, m), (m, K), float) for i, m in enumerate(sizes)]
    )


class Watch:
    """Counts what `DaskRows` computes on the workers."""

    def __init__(self):
        self.bytes = 0
        self.passes = 0
        original = DaskRows._joined

        def joined(*arguments):
            result = original(*arguments)
            self.bytes += len(pickle.dumps(result))
            self.passes += 1
            return result

        DaskRows._joined = joined


def peak(who=resource.RUSAGE_SELF):
    """The largest memory so far, in GB."""
    return resource.getrusage(who).ru_maxrss * 1024 / 1e9


def cpu(who=resource.RUSAGE_SELF):
    """CPU seconds so far, of which other load on the machine takes none."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def on_cluster(workers, n, noises, methods, keep):
    """A row for each method, noise and number of workers."""
    import dask
    import distributed

    # Workers that return freed memory to the system at once, Dask's default, take twice
    # the CPU time: every array is new pages.
    malloc = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**30}
    dask.config.set(
        {
            "distributed.nanny.pre-spawn-environ": {
                "OMP_NUM_THREADS": 1,
                "OPENBLAS_NUM_THREADS": 1,
                **malloc,
            }
        }
    )
    watch = Watch()
    rows = []
    model = None
    for n_workers in workers:
        options = {
            "n_workers": n_workers,
            "threads_per_worker": 1,
            "dashboard_address": None,
            "memory_limit": 0,
        }
        with (
            distributed.LocalCluster(**options) as cluster,
            distributed.Client(cluster) as client,
        ):
            client.run(lambda: __import__("bionica").MinimumVolumeCone)
            for noise in noises:
                X = lazy(n, noise)
                if keep:
                    X = X.persist()
                    distributed.wait(X)
                for method in methods:
                    watch.bytes = 0
                    watch.passes = 0
                    before = sum(client.run(cpu).values())
                    start = time.perf_counter()
                    thread = time.thread_time()
                    model = fitted(method, X, model)
                    seconds = time.perf_counter() - start
                    alone = time.thread_time() - thread
                    used = sum(client.run(cpu).values()) - before
                    row = {
                        "what": method,
                        "noise": noise,
                        "workers": n_workers,
                        "seconds": seconds,
                        "client, s": alone,
                        "workers' CPU, s": used,
                        "16 workers, s": alone + used / 16 if n_workers == 1 else None,
                        "GB of a worker": max(client.run(peak).values()),
                        "passes": watch.passes,
                        "MB to the client": watch.bytes / 1e6,
                        "SINR, dB": decibels(model, noise),
                    }
                    rows.append(row)
                    print(row, file=sys.stderr, flush=True)
                del X
    return rows


def in_memory(gigabytes, noise, method):
    """Seconds of a fit in memory, and its peak beside X over the size of X, in this
    process.
    """
    n = int(gigabytes * 1e9 / (8 * K))
    X = np.empty((n, K))
    for i, rows in enumerate(blocks(n, noise)):
        X[i * CHUNK :][: len(rows)] = rows
    model = fitted(method, X[:3000])  # imports; compiles
    before = peak()
    start = time.perf_counter()
    used = cpu()
    model = fitted(method, X, model)
    seconds = time.perf_counter() - start
    used = cpu() - used
    more = (peak() - before) * 1e9 / X.nbytes
    return {
        "seconds": seconds,
        "CPU, s": used,
        "peak / X": 1 + more,
        "SINR, dB": decibels(model, noise),
    }


def from_shell(gigabytes, noise, _):
    """Seconds and peak memory of `bionica separate`; this process must stay smaller,
    because a child begins with its peak.
    """
    n = int(gigabytes * 1e9 / (8 * K))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        with Path(folder, "x.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f8", "fortran_order": False, "shape": (n, K)}
            )
            for rows in blocks(n, noise):
                rows.tofile(file)
        command = [
            sys.executable,
            "-m",
            "bionica",
            "separate",
            "x.npy",
            "--sources",
            str(D),
            "-o",
            "out.npy",
            "-q",
        ]
        start = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True)
        seconds = time.perf_counter() - start
        quality = sinr(
            block(0, CHUNK, noise)[0],
            np.load(Path(folder, "out.npy"), mmap_mode="r")[:CHUNK],
        )
    child = resource.RUSAGE_CHILDREN
    return {
        "seconds": seconds,
        "CPU, s": cpu(child),
        "peak, GB": peak(child),
        "SINR, dB": quality,
    }


ALONE = {"memory": in_memory, "shell": from_shell}


def apart(how, gigabytes, noises, methods):
    """A row for each method, size and noise, each measured in a process of its own."""
    rows = []
    for method, size, noise in product(methods, gigabytes, noises):
        command = [sys.executable, __file__, "--alone", how, str(size), str(noise)]
        found = subprocess.check_output([*command, method])
        row = {"what": method, "GB": size, "noise": noise} | json.loads(found)
        rows.append(row)
        print(row, file=sys.stderr, flush=True)
    return rows


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, nargs="+", default=[])
    parser.add_argument("--rows", type=float, default=12.8e6)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.3, 0.0])
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--memory", type=float, nargs="+", default=[], metavar="GB")
    parser.add_argument("--shell", type=float, nargs="+", default=[], metavar="GB")
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--alone", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        how, size, noise, method = args.alone
        print(json.dumps(ALONE[how](float(size), float(noise), method)))
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    workers = [n for n in args.workers if n <= (os.cpu_count() or 1)]
    if workers:
        n = int(args.rows)
        rows = on_cluster(workers, n, args.noise, args.methods, keep=not args.lazy)
        where = "in the memory of the workers"
        if args.lazy:
            where = "computed again whenever it is read"
        note = f"{n:,} x {K}, {n * K * 8e-9:.3g} GB, {where}."
        print(markdown("On a cluster", note, rows))
    if args.memory:
        rows = apart("memory", args.memory, args.noise, args.methods)
        print(markdown("In memory", "One process.", rows))
    if args.shell:
        rows = apart("shell", args.shell, args.noise, ["separate"])
        note = f"`bionica separate x.npy --sources {D} -o out.npy`."
        print(markdown("From the shell", note, rows))


if __name__ == "__main__":
    main()
