"""Times of loops, single samples, fits, wide inputs, first fits, `separate` and `sweep`; beside another checkout if one is given.

    python benchmarks/speed.py                         this checkout
    python benchmarks/speed.py --src OTHER/src         and another, with ratios
    python benchmarks/speed.py --quick --tables loops

Each checkout runs in a process of its own that lives through the whole measurement. The two take turns, so that other load on the
machine slows them alike, and the best of all rounds counts. On a busy machine read ratios, not nanoseconds. One thread.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from runner import markdown, seconds, setting

NETWORKS = ("TwoCompartmentNICA", "InterneuronNICA", "TwoLayerNSM", "NonnegativePCA")
ONLINE = ("ConeNetwork", "StreamingNICA", *NETWORKS)
#: d -> samples of one measurement.
SIZES = {3: 400_000, 10: 100_000, 50: 8000}


def mixtures(n, d, k=None, matrix="orthonormal"):
    """Return mixtures of sparse uniform sources by a matrix with orthonormal columns, a Gaussian one, or the paper's."""
    from bionica.datasets import paper_mixing, sparse_uniform

    rng = np.random.default_rng(0)
    S, A = sparse_uniform(n, d, rng=rng), rng.standard_normal((k or d, d))
    A = {"orthonormal": np.linalg.qr(A)[0], "gaussian": A}[matrix] if matrix != "paper" else paper_mixing(f"d{d}")
    return np.ascontiguousarray(S @ A.T)


# ------------------------------------------------------------------------------------------ what is timed
# A function for each task, called in the worker: it prepares, and returns what is timed and how many samples or calls that are.


def loop(method, name, setting, d, k=0, n=0, matrix="orthonormal"):
    import bionica

    d, k = int(d), int(k) or int(d)
    X = mixtures(int(n) or SIZES[d], d, k, matrix)
    cls = getattr(bionica, name)
    if setting == "defaults":
        network = cls(d, random_state=0)
    else:  # "published", or with averages besides
        options = {"average": True} if setting == "averaged" else {}
        network = cls.as_published("d3" if d == 3 else "d10", n_components=d, random_state=0, **options)
    return partial(getattr(network.fit(X), method), X), len(X)


def cpp(method, d, matrix):
    """The same in C++ (loop.cpp), from the same weights; it must learn the same."""
    import bionica

    X = mixtures(SIZES[int(d)], int(d), matrix=matrix)
    Z = np.empty_like(X) if method == "partial_fit_transform" else None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "loop.so")
        command = ["g++", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-o", library]
        subprocess.run([*command, Path(__file__).with_name("loop.cpp")], check=True)
        learn = getattr(ctypes.CDLL(str(library)), f"learn{d}")
    network = bionica.TwoCompartmentNICA.as_published(f"d{d}", random_state=0, guards=())
    rates = [ctypes.c_double(getattr(network, name)) for name in ("eta0", "decay", "tau")]
    W0 = np.linalg.qr(np.random.default_rng(1).standard_normal((int(d), int(d))))[0]

    def run():
        W = W0.copy()
        arrays = [a if a is None else a.ctypes.data_as(ctypes.c_void_p) for a in (X, W, Z)]
        learn(arrays[0], ctypes.c_long(len(X)), *rates, *arrays[1:])
        return W

    network.set_params(init={"W_xz": W0}).partial_fit(X)
    assert np.allclose(network.W_xz_, run(), atol=1e-6), "the two learned something else"
    return run, len(X)


def one(name, method, d=3, n=200):
    import bionica

    X = mixtures(3000, d)
    model = getattr(bionica, name)(d, random_state=0).partial_fit(X)

    def calls():
        for x in X[:n]:
            getattr(model, method)(x)

    return calls, n


def fit(name, kind, d, k, n):
    from bionica.datasets import random_sources
    from methods import fitted

    rng = np.random.default_rng(7)
    X = random_sources(kind, int(n), int(d), rng=rng) @ rng.uniform(size=(int(d), int(k)))
    return partial(fitted, name, int(d), X, 0), 1


def sweep(seeds):
    from bionica import sweep

    network = {"name": "TwoCompartmentNICA", "published": "d3", "grid": {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]}}
    data = {"kind": "sparse_uniform", "d": 3, "T": 10_000, "mixing": "d3"}
    plan = {"seeds": int(seeds), "data": [data], "network": [network]}
    return partial(sweep.run, plan, n_jobs=1, device="cpu"), 4 * int(seeds)


TASKS = {method: partial(loop, method) for method in ("partial_fit", "partial_fit_transform")}
TASKS |= {"cpp": cpp, "one": one, "fit": fit, "sweep": sweep}


def work():
    """Measure what is asked for on standard input, a line "task arguments" at a time; print the seconds of a sample or call."""
    warnings.simplefilter("ignore")
    prepared = {}
    for line in sys.stdin:
        name, *arguments = line.split()
        if line not in prepared:
            prepared.clear()
            try:
                prepared[line] = TASKS[name](*arguments)
                prepared[line][0]()  # compiles
            except AttributeError:  # this checkout does not have the estimator or the method
                prepared[line] = None, 1
        run, n = prepared[line]
        print(seconds(run) / n if run else "nan", flush=True)


# ------------------------------------------------------------------------------------------ measuring


def start_worker(src):
    environment = os.environ | {"PYTHONPATH": str(src), "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--worker"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def in_turns(title, note, unit, requests, sources, rounds):
    """Return the table of tasks, in `unit` (name, factor); each label of `sources` is a checkout."""
    workers = {label: start_worker(src) for label, src in sources.items()}
    rows = []
    try:
        for request in requests:
            best = dict.fromkeys(workers, float("inf"))
            for _ in range(rounds):
                for label, worker in workers.items():
                    print(request, file=worker.stdin, flush=True)
                    best[label] = min(float(worker.stdout.readline() or "nan"), best[label])
            row = {"what": request} | {f"{label}, {unit[0]}": unit[1] * s for label, s in best.items()}
            rows.append(row | ({"now / before": best["now"] / best["before"]} if "before" in best else {}))
    finally:
        for worker in workers.values():
            worker.communicate()
    return markdown(title, f"{note} Best of {rounds} rounds in turn.", rows)


FIRST_FIT = """
import time, warnings
import numpy as np
import bionica
warnings.simplefilter("ignore")
X = np.random.default_rng(0).exponential(size=(5000, 3))
estimator = bionica.{name}(3, random_state=0)
start = time.perf_counter()
estimator.fit(X)
print(time.perf_counter() - start)
"""


def first_fits(sources):
    """Seconds of the first fit in a new process: with an empty Numba cache, and with what this one left."""
    rows = []
    for name in (*ONLINE, "BatchNICA", "MinimumVolumeCone"):
        row = {"estimator": name}
        for label, src in sources.items():
            with tempfile.TemporaryDirectory() as cache:
                environment = os.environ | {
                    "PYTHONPATH": str(src),
                    "NUMBA_CACHE_DIR": cache,
                    "OPENBLAS_NUM_THREADS": "1",
                }
                for which in ("empty cache", "second process"):
                    command = [sys.executable, "-c", FIRST_FIT.format(name=name)]
                    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
                    row[f"{label}: {which}, s"] = float(done.stdout)
        rows.append(row)
    return markdown("First fit", "At defaults, 5000 x 3 mixtures, in a new process; imports are not counted.", rows)


def commands(sources, megabytes):
    """Seconds and peak memory of `bionica separate` in a new process."""
    n, rows = int(megabytes * 1e6 / 80), []
    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        X = rng.standard_exponential((n, 3)) @ rng.random((3, 10))
        np.save(Path(folder, "x.npy"), X)
        np.savetxt(Path(folder, "x.csv"), X[: n // 10], delimiter=",")
        for file in ("x.npy", "x.csv"):
            row = {"file": f"{file}, {Path(folder, file).stat().st_size / 1e6:.0f} MB"}
            for label, src in sources.items():
                command = [
                    sys.executable,
                    "-m",
                    "bionica",
                    "separate",
                    file,
                    "--sources",
                    "3",
                    "-o",
                    f"{label}-{file}",
                    "-q",
                ]
                start = time.perf_counter()
                process = subprocess.Popen(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(src)})
                _, status, usage = os.wait4(process.pid, 0)
                row |= {f"{label}, s": time.perf_counter() - start, f"{label}, peak MB": usage.ru_maxrss / 1000}
                row |= {f"{label}, status": os.waitstatus_to_exitcode(status)}
            rows.append(row)
    return markdown("Command line", "`bionica separate FILE --sources 3`, imports and compilation included.", rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, help="the src folder of another checkout")
    parser.add_argument("--rounds", type=int, help="more on a busy machine; 7, or 3 with --quick")
    parser.add_argument("--tables", default="loops,matrices,growth,one,fits,sweep,first_fit,command")
    parser.add_argument("--quick", action="store_true", help="three rounds, smaller sizes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
        return
    sources = {"before": args.src.resolve()} if args.src else {}
    sources["now"] = Path(__file__).parents[1] / "src"
    rounds = args.rounds or (3 if args.quick else 7)
    d, n = ((3, 10), 20_000) if args.quick else (SIZES, 100_000)
    ns, us, s = ("ns", 1e9), ("us", 1e6), ("s", 1.0)
    settings = [("published", name) for name in NETWORKS] + [("averaged", name) for name in NETWORKS[:2]]
    settings += [("defaults", name) for name in ("ConeNetwork", "StreamingNICA")]
    methods = ("partial_fit", "partial_fit_transform")
    loops = [f"{method} {name} {which} {i}" for which, name in settings for i in d for method in methods]
    matrices = [f"{method} {name} published {i} 0 0 {matrix}" for name in NETWORKS[:2] for i in (3, 10)
                for matrix in ("orthonormal", "gaussian", "paper") for method in methods]  # fmt: skip
    matrices += [
        f"cpp {method} {i} {matrix}"
        for i in (3, 10)
        for matrix in ("orthonormal", "gaussian", "paper")
        for method in methods
    ]
    growth = [f"partial_fit TwoCompartmentNICA published {i} {k} {size}" for i, k, size in
              ((3, 3, 10_000), (3, 3, 1_000_000), (20, 20, 20_000), (200, 200, 400), (10, 1000, 2000), (10, 20_000, 300),
               (100, 20_000, 300))]  # fmt: skip
    ones = [
        f"one {name} {method}" for name in (*ONLINE, "MinimumVolumeCone") for method in ("learn_one", "transform_one")
    ]
    fits = [
        f"fit {name} {kind} 10 10 {n}"
        for name in ("BatchNICA", "FastICA", "Picard")
        for kind in ("sparse_uniform", "gamma")
    ]
    fits += [f"fit {name} exponential 5 10 {n // 5}" for name in ("MinimumVolumeCone", "NMF")]
    tables = {
        "loops": partial(in_turns, "Loops", "Method, estimator, settings, d; sparse uniform sources.", ns, loops),
        "matrices": partial(in_turns, "Mixing matrices", "As above, by mixing matrix.", ns, matrices),
        "growth": partial(in_turns, "Growth", "The last three numbers: d, k and the number of samples.", ns, growth),
        "one": partial(in_turns, "Single samples", "d = 3, at defaults.", us, ones),
        "fits": partial(in_turns, "Offline fits", "d, k and the number of samples.", s, fits),
        "sweep": partial(
            in_turns, "Sweep", "A case of 10,000 samples at d = 3, in one process.", ("ms", 1e3), ["sweep 20"]
        ),
        "first_fit": lambda sources, rounds: first_fits(sources),
        "command": lambda sources, rounds: commands(sources, 100 if args.quick else 1000),
    }
    if unknown := set(args.tables.split(",")) - set(tables):
        parser.error(f"--tables: {', '.join(sorted(unknown))} is unknown: choose from {', '.join(tables)}")
    print(f"`python benchmarks/speed.py {' '.join(sys.argv[1:])}`\n\n{setting()}.\n", flush=True)
    for name in args.tables.split(","):
        print(tables[name](sources=sources, rounds=rounds), flush=True)


if __name__ == "__main__":
    main()
