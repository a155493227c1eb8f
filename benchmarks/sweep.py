"""Cases a second of `bionica.sweep` on the paper's grid at d = 3: 390 settings x 10 seeds x 100,000 samples.

    python benchmarks/sweep.py                               # prints the table; some three minutes on two quiet cores
    python benchmarks/sweep.py --write                       # and writes it to benchmarks/results/sweep.md
    python benchmarks/sweep.py --seeds 1 --samples 10000     # a quick look

The ceiling is two processes of one thread each, at once, each with its own half of the seeds: what two cores give when nothing is
shared. On a machine that is busy with other things neither figure means much; `load` says how busy it was before.
"""

import argparse
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from bionica import estimators, metrics, sweep
from bionica.paper import paper_grid
from bionica.sweep.provenance import machine, versions

RESULTS = Path(__file__).parent / "results" / "sweep.md"
TARGET = 0.9  # of twice the rate of one thread


def plan_of(seeds, samples):
    body = tomllib.loads(paper_grid())
    body["seeds"] = list(seeds)
    body["data"][0]["T"] = samples
    return sweep.Plan.from_dict(body)


def seconds_of(plan, n_jobs):
    started = time.perf_counter()
    sweep.run(plan, n_jobs=n_jobs)
    return time.perf_counter() - started


def two_processes(seeds, samples):
    """Seconds of the slower of two processes that run half the seeds each, counted from when both are ready."""
    halves = [seeds[: len(seeds) // 2], seeds[len(seeds) // 2 :]]
    command = [sys.executable, __file__, "--samples", str(samples), "--half"]
    running = [
        subprocess.Popen([*command, ",".join(map(str, half))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for half in halves
    ]
    for process in running:
        process.stdout.readline()  # ready
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    return max(float(process.communicate()[0]) for process in running)


def half(seeds, samples):
    plan = plan_of(seeds, samples)
    warm_up()
    print("ready", flush=True)
    sys.stdin.readline()
    print(seconds_of(plan, 1))


def alone(plan, every=39):
    """Cases a second of a plain loop over estimators, on some of the cases."""
    cases = plan.cases()[::every]
    problem = cases[0].data.load(cases[0].seed, "float64")
    started = time.perf_counter()
    for case in cases:
        network, X = case.start(problem)
        try:
            metrics.permutation_error(problem.S, network.partial_fit_transform(X))
        except (ValueError, estimators.DivergenceError):
            continue
    return len(cases) / (time.perf_counter() - started)


def warm_up():
    sweep.run(plan_of([0], 300), n_jobs=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/sweep.md")
    parser.add_argument("--half", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.half is not None:
        half([int(seed) for seed in args.half.split(",")], args.samples)
        return
    load = os.getloadavg()[0]
    seeds = list(range(args.seeds))
    plan = plan_of(seeds, args.samples)
    warm_up()
    n = plan.size
    rates = {jobs: n / seconds_of(plan, jobs) for jobs in (1, 2)}
    ceiling = n / two_processes(seeds, args.samples) if args.seeds > 1 else None
    ratio = rates[2] / rates[1]
    verdict = "met" if ratio >= 2 * TARGET else "MISSED"
    text = [
        "# Sweep",
        "",
        f"`python benchmarks/sweep.py`: {n:,} cases of {args.samples:,} samples, the paper's grid at d = 3. {machine()}; "
        f"{versions()}; load before: {load:.1f}.",
        "",
        "| how | cases a second | times one thread | target |",
        "|---|---|---|---|",
        f"| a plain loop over estimators | {alone(plan):.1f} | | |",
        f"| one thread | {rates[1]:.1f} | 1 | |",
        f"| two threads | {rates[2]:.1f} | {ratio:.2f} | >= {2 * TARGET}: {verdict} |",
    ]
    if ceiling is not None:
        text.append(f"| two processes of one thread each, at once | {ceiling:.1f} | {ceiling / rates[1]:.2f} | |")
    print("\n".join(text))
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
