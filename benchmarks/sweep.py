"""Cases a second of `bionica.sweep` on the paper's grid at d = 3: 390 settings x 10 seeds x 100,000 samples.

    python benchmarks/sweep.py                               # one process, and one per core
    python benchmarks/sweep.py --cores                       # 1, 2, 4, 8, 16, ... processes, as far as the machine has cores
    python benchmarks/sweep.py --write                       # and writes the table to benchmarks/results/sweep.md
    python benchmarks/sweep.py --seeds 1 --samples 10000     # a quick look

Each row is the best of `--repeats` runs with workers that have started; how long they take to start is in the last column. On a
machine that is busy with other things no row means much: `load` says how busy it was before.
"""

import argparse
import os
import time
import tomllib
from pathlib import Path

from joblib import cpu_count

from bionica import estimators, metrics, sweep
from bionica.paper import paper_grid
from bionica.sweep.run import machine, versions

RESULTS = Path(__file__).parent / "results" / "sweep.md"
TARGET = 0.75  # of as many times one process as there are processes: 12 times at 16


def plan_of(seeds, samples):
    body = tomllib.loads(paper_grid())
    body["seeds"] = seeds
    body["data"][0]["T"] = samples
    return sweep.Plan.from_dict(body)


def seconds_of(plan, n_jobs):
    """Seconds of a sweep in this many processes."""
    started = time.perf_counter()
    sweep.run(plan, n_jobs=n_jobs, device="cpu")
    return time.perf_counter() - started


def alone(plan, every=39):
    """Cases a second of a plain loop over estimators, on some of the cases."""
    cases = plan.cases()[::every]
    data = cases[0].data.load(cases[0].seed, "float64")
    started = time.perf_counter()
    for case in cases:
        network, X = case.start(data)
        try:
            metrics.permutation_error(data.S, network.partial_fit_transform(X))
        except (ValueError, estimators.DivergenceError):
            continue
    return len(cases) / (time.perf_counter() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--cores", action="store_true", help="every power of 2 up to the number of cores")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/sweep.md")
    args = parser.parse_args()
    load, cores = os.getloadavg()[0], cpu_count()
    counts = [2**i for i in range(cores.bit_length())] if args.cores else [1]
    plan, few = plan_of(args.seeds, args.samples), plan_of(1, 300)
    seconds_of(few, 1)  # compiles
    text = [
        "# Sweep",
        "",
        f"`python benchmarks/sweep.py{' --cores' if args.cores else ''}`: {plan.size:,} cases of {args.samples:,} samples, the "
        f"paper's grid at d = 3. {machine()}; {versions()}; load before: {load:.1f}.",
        "",
        "| processes | seconds | cases a second | times one process | target | seconds to start the workers |",
        "|---|---|---|---|---|---|",
        f"| a plain loop over estimators | | {alone(plan):.1f} | | | |",
    ]
    print("\n".join(text), flush=True)
    one = None
    for n in sorted({*counts, cores}):
        start = seconds_of(few, n) if n > 1 else 0.0
        start -= min(seconds_of(few, n) for _ in range(2)) if n > 1 else 0.0
        seconds = min(seconds_of(plan, n) for _ in range(args.repeats))
        one = one or seconds
        verdict = "met" if one / seconds >= TARGET * n else "MISSED"
        goal = f">= {TARGET * n:g}: {verdict}" if n > 1 else ""
        row = f"| {n} | {seconds:.2f} | {plan.size / seconds:.1f} | {one / seconds:.2f} | {goal} | {start:.1f} |"
        print(row, flush=True)
        text.append(row)
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
