"""Times of loops, of single samples and of sweeps; beside another checkout if one is
given.

    python benchmarks/speed.py                         this checkout
    python benchmarks/speed.py --src OTHER/src         and another, with ratios
    python benchmarks/speed.py --tables sweep          800 and 4000 cases, in one process and in one for each core

Each checkout runs in a process of its own that lives through the whole measurement. The
two take turns, so that other load on the machine slows them alike, and the least CPU
time of all rounds counts, but for sweeps. On a busy machine read ratios. One thread.
"""

import argparse
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from runner import markdown, seconds, setting

ONLINE = (
    "StreamingNICA",
    "TwoCompartmentNICA",
    "InterneuronNICA",
    "TwoLayerNSM",
    "MinimumVolumeCone",
)
#: d -> samples of one measurement.
SIZES = {3: 400_000, 10: 100_000}


def mixtures(n, d, matrix):
    """Return mixtures of sparse uniform sources by a matrix with orthonormal columns, a
    Gaussian one, or the paper's.

    The Gaussian one is as large as the paper's: published rates overshoot on larger
    mixtures, and the outputs become one.
    """
    from bionica.datasets import paper_mixing, sparse_uniform

    rng = np.random.default_rng(0)
    S = sparse_uniform(n, d, rng=rng)
    A = rng.standard_normal((d, d))
    paper = paper_mixing(f"d{d}")
    if matrix == "orthonormal":
        A = np.linalg.qr(A)[0]
    elif matrix == "paper":
        A = paper
    else:
        A *= np.linalg.norm(paper) / np.linalg.norm(A)
    return np.ascontiguousarray(S @ A.T)


# A function for each task, called in the worker: it prepares, and returns what is timed
# and how many samples that are.


def loop(name, d, matrix):
    import bionica

    X = mixtures(SIZES[int(d)], int(d), matrix)
    network = getattr(bionica, name).as_published(f"d{d}", random_state=0)
    return partial(network.fit(X).partial_fit_transform, X), len(X)


def one(name, method):
    import bionica

    X = mixtures(3000, 3, "orthonormal")
    model = getattr(bionica, name)(3, random_state=0).partial_fit(X)

    def calls():
        for x in X[:200]:
            getattr(model, method)(x)

    return calls, 200


TASKS = {"loop": loop, "one": one}


def work():
    """Measure what is asked for on standard input, a line "task arguments" at a time;
    print the seconds of a sample or call.
    """
    warnings.simplefilter("ignore")
    prepared = {}
    for line in sys.stdin:
        name, *arguments = line.split()
        if line not in prepared:
            prepared.clear()
            try:
                prepared[line] = TASKS[name](*arguments)
                prepared[line][0]()  # compiles
            except AttributeError:  # this checkout does not have it
                prepared[line] = None, 1
        run, n = prepared[line]
        start = time.process_time()
        if run:
            run()
        print((time.process_time() - start) / n if run else "nan", flush=True)


def start_worker(src):
    environment = os.environ | {
        "PYTHONPATH": str(src),
        "OPENBLAS_NUM_THREADS": "1",
        "NUMBA_NUM_THREADS": "1",
    }
    command = [sys.executable, __file__, "--worker"]
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def in_turns(title, note, unit, requests, sources, rounds):
    """Return the table of tasks, in `unit` (name, factor); each label of `sources` is a
    checkout.
    """
    workers = {label: start_worker(src) for label, src in sources.items()}
    rows = []
    try:
        for request in requests:
            best = dict.fromkeys(workers, float("inf"))
            for _ in range(rounds):
                for label, worker in workers.items():
                    print(request, file=worker.stdin, flush=True)
                    best[label] = min(
                        float(worker.stdout.readline() or "nan"), best[label]
                    )
            row = {"what": request}
            row |= {f"{label}, {unit[0]}": unit[1] * s for label, s in best.items()}
            if "before" in best:
                row["now / before"] = best["now"] / best["before"]
            rows.append(row)
    finally:
        for worker in workers.values():
            worker.communicate()
    return markdown(title, f"{note} CPU time, best of {rounds} rounds in turn.", rows)


def sweeps(sources, _rounds):
    """The table of a sweep in one process and in one for each core, of this checkout,
    with what is compiled in the cache.
    """
    sys.path.insert(0, str(sources["now"]))
    from joblib.externals.loky import get_reusable_executor

    from bionica.circuits import sweep

    grid = {
        "decay": np.geomspace(1e-3, 1e-1, 10).tolist(),
        "tau": np.linspace(0.3, 1, 8).tolist(),
    }
    plan = {
        "data": [{"kind": "sparse_uniform", "d": 3, "T": 100_000, "mixing": "d3"}],
        "network": [{"name": "TwoCompartmentNICA", "published": "d3", "grid": grid}],
    }

    def measured(seeds, n_jobs):
        """Seconds, and CPU seconds of all processes, which count when they have ended."""
        before = sum(os.times()[:4])
        took = seconds(partial(sweep.run, plan | {"seeds": seeds}, n_jobs=n_jobs))
        get_reusable_executor().shutdown()
        return took, sum(os.times()[:4]) - before

    n = os.cpu_count() or 1
    rows = []
    for seeds in (1, 10, 50):
        one, cpu = measured(seeds, 1)
        more, cpu_of_all = measured(seeds, n)
        rows.append(
            {
                "cases": 80 * seeds,
                "1 process, s": one,
                "CPU, s": cpu,
                f"{n} processes, s": more,
                "CPU of all, s": cpu_of_all,
                "ratio": one / more,
                "at most": n * cpu / cpu_of_all,
            }
        )
    note = (
        "Cases of 100,000 samples, d = 3, Algorithm 2 (`bionica.circuits.sweep.run`). At most:"
        " the ratio by CPU time, without other load."
    )
    return markdown("Sweep", note, rows[1:])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--src", type=Path, help="the src folder of another checkout")
    parser.add_argument("--rounds", type=int, default=7, help="more on a busy machine")
    parser.add_argument("--tables", default="matrices,one")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
        return
    sources = {"before": args.src.resolve()} if args.src else {}
    sources["now"] = Path(__file__).parents[1] / "src"
    cases = [
        f"{d} {matrix}"
        for d in SIZES
        for matrix in ("orthonormal", "gaussian", "paper")
    ]
    matrices = [f"loop {name} {case}" for name in ONLINE[1:3] for case in cases]
    ones = [
        f"one {name} {call}"
        for name in ONLINE
        for call in ("learn_one", "transform_one")
    ]
    tables = {
        "matrices": partial(
            in_turns,
            "Mixing matrices",
            "Time of a sample, with its outputs: network, d, mixing matrix; sparse uniform"
            " sources.",
            ("ns", 1e9),
            matrices,
        ),
        "one": partial(
            in_turns, "Single samples", "d = 3, at defaults.", ("us", 1e6), ones
        ),
        "sweep": sweeps,
    }
    unknown = set(args.tables.split(",")) - set(tables)
    if unknown:
        parser.error(
            f"--tables: {', '.join(sorted(unknown))} is unknown: choose from"
            f" {', '.join(tables)}"
        )
    print(
        f"`python benchmarks/speed.py {' '.join(sys.argv[1:])}`\n\n{setting()}.\n",
        flush=True,
    )
    for name in args.tables.split(","):
        print(tables[name](sources, args.rounds), flush=True)


if __name__ == "__main__":
    main()
