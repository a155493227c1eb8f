"""MinimumVolumeCone and BatchNICA on a cluster of processes, and the cone in memory: seconds, what the client does, peak memory.

    python benchmarks/cluster.py --workers 1 2 4 16                 12.8 million x 20 (2 GB), in the memory of the workers
    python benchmarks/cluster.py --workers 1 2 --rows 1e6           a part of it
    python benchmarks/cluster.py --workers 2 --rows 1.25e8 --lazy   20 GB, of which each block is made anew whenever it is read
    python benchmarks/cluster.py --memory 0.1 0.3 1 2               in memory, arrays of so many GB; each in a process of its own

Every worker has one thread. Columns: seconds of the fit; CPU seconds of the client's thread ("client"), in which no worker computes
("16 would take": client + (seconds of 1 worker - client) / 16), and of all workers; the largest peak memory of a worker; how often
X was read; megabytes that the client received; the SINR in dB.
"""

import argparse
import pickle
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

import bionica
from bionica.metrics import sinr
from bionica.samples import DaskRows

D, K, CHUNK = 5, 20, 100_000
FITS = {"cone": bionica.MinimumVolumeCone, "batch": bionica.BatchNICA}


def block(seed, n, noise, of=0):
    """Sources and mixtures of n samples; the mixing matrix is the same for all blocks."""
    A = np.random.default_rng([of, 7]).standard_normal((D, K))
    rng = np.random.default_rng([of, 8, seed])
    S = rng.exponential(size=(n, D))
    X = S @ A
    X += noise * rng.standard_normal(X.shape)
    return S, X


def fitted(method, X):
    with warnings.catch_warnings(action="ignore"):
        return FITS[method](D, random_state=0).fit(X)


def decibels(model, noise):
    S, X = block(10**6, 20_000, noise)
    return sinr(S, model.transform(X))


def lazy(n, noise):
    import dask
    import dask.array as da

    sizes = [min(CHUNK, n - i) for i in range(0, n, CHUNK)]
    make = dask.delayed(lambda i, m: block(i, m, noise)[1], pure=True)
    return da.concatenate([da.from_delayed(make(i, m), (m, K), float) for i, m in enumerate(sizes)])


class Watch:
    """Counts what `DaskRows` computes on the workers."""

    def __init__(self):
        self.bytes, self.passes, original = 0, 0, DaskRows._joined

        def joined(*arguments):
            result = original(*arguments)
            self.bytes += len(pickle.dumps(result))
            self.passes += 1
            return result

        DaskRows._joined = joined


def cpu_of_worker():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_of_worker():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def on_cluster(workers, n, noises, methods, keep):
    import dask
    import distributed

    # Workers that return freed memory to the system at once, Dask's default, take twice the CPU time: every array is new pages.
    malloc = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**30}
    dask.config.set(
        {"distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1, "OPENBLAS_NUM_THREADS": 1, **malloc}}
    )
    watch, one = Watch(), {}
    print(
        "method  noise  workers  seconds  client  workers' CPU  GB of a worker  passes  MB to client  SINR  16 would take",
        flush=True,
    )
    for n_workers in workers:
        options = {"n_workers": n_workers, "threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            client.run(lambda: __import__("bionica").MinimumVolumeCone)
            for noise in noises:
                X = lazy(n, noise)
                if keep:
                    X = X.persist()
                    distributed.wait(X)
                for method in methods:
                    watch.bytes, watch.passes = 0, 0
                    before, start, thread = (
                        sum(client.run(cpu_of_worker).values()),
                        time.perf_counter(),
                        time.thread_time(),
                    )
                    model = fitted(method, X)
                    seconds, alone = time.perf_counter() - start, time.thread_time() - thread
                    cpu = sum(client.run(cpu_of_worker).values()) - before
                    peak = max(client.run(peak_of_worker).values()) * 1024 / 1e9
                    one.setdefault((method, noise), seconds)
                    print(
                        f"{method:6} {noise:6g} {n_workers:8} {seconds:8.1f} {alone:7.2f} {cpu:13.1f} {peak:12.2f} "
                        f"{watch.passes:7} {watch.bytes / 1e6:13.1f} {decibels(model, noise):5.1f} "
                        f"{alone + (one[method, noise] - alone) / 16:14.1f}",
                        flush=True,
                    )
                del X


def in_memory(gigabytes, noise):
    """Seconds of a fit in memory, and its peak beside X over the size of X."""
    n = int(gigabytes * 1e9 / (8 * K))
    X = np.empty((n, K))
    for i in range(0, n, CHUNK):
        X[i : i + CHUNK] = block(i // CHUNK, min(CHUNK, n - i), noise)[1]
    fitted("cone", X[:3000])  # imports
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start, cpu = time.perf_counter(), time.process_time()
    model = fitted("cone", X)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / X.nbytes
    quality = decibels(model, noise)
    print(
        f"{gigabytes:4g} GB  noise {noise:5g}  {seconds:7.1f} s  {cpu:7.1f} s of CPU  peak {1 + more:.2f} X  {quality:.1f} dB"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[])
    parser.add_argument("--rows", type=float, default=12.8e6)
    parser.add_argument("--noise", type=float, nargs="+", default=[0.3, 0.0])
    parser.add_argument("--methods", nargs="+", default=["cone", "batch"], choices=FITS)
    parser.add_argument("--memory", type=float, nargs="+", default=[], metavar="GB")
    parser.add_argument("--lazy", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        in_memory(args.memory[0], args.noise[0])
        return
    for size in args.memory:
        for noise in args.noise:
            subprocess.run(
                [sys.executable, __file__, "--alone", "--memory", str(size), "--noise", str(noise)], check=True
            )
    if args.workers:
        on_cluster(args.workers, int(args.rows), args.noise, args.methods, keep=not args.lazy)


if __name__ == "__main__":
    main()
