"""ns a sample of the loop of every network, for this checkout beside another one.

python benchmarks/loop_speed.py                        this checkout
python benchmarks/loop_speed.py --src OTHER/src        and another, with ratios

Each checkout runs in a process of its own that lives through the whole measurement. The two take turns, so that other
load on the machine slows them alike, and the best of all rounds counts. The networks have the paper's published settings
and learn from sparse uniform sources with `partial_fit`, on one thread.
"""

import argparse
import importlib
import os
import subprocess
import sys
import warnings
from functools import cache, partial
from pathlib import Path

from common import NETWORKS, parser, problem, report, seconds, table

#: d -> samples of one measurement.
SIZES = {3: 400_000, 10: 100_000, 50: 8000}


def published_network(name, d):
    """Return the paper's network with its settings for 3 sources, or for 10."""
    import bionica

    setting = "d3" if d == 3 else "d10"
    return getattr(bionica, name).as_published(setting, n_components=d, random_state=0)


def work():
    """Measure what is asked for on standard input, a line "network d samples" at a time; print the seconds."""
    warnings.simplefilter("ignore")
    for module in ("bionica.engines.loop", "bionica.networks.stream"):
        try:  # older versions compile a loop for one size after 20 s, which is not what is compared
            importlib.import_module(module).MANY = sys.maxsize
        except ImportError:
            continue
    mixtures, networks = cache(problem), {}
    for name, d, n in map(str.split, sys.stdin):
        X = mixtures(int(n), int(d))
        if (name, d) not in networks:
            networks[name, d] = published_network(name, int(d)).fit(X)
        print(seconds(partial(networks[name, d].partial_fit, X)), flush=True)


def start_worker(src):
    environment = os.environ | {"PYTHONPATH": str(src), "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--worker"]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measured(worker, *request):
    print(*request, file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


def loop_speeds(sources, sizes=SIZES, rounds=7, networks=NETWORKS):
    workers = {label: start_worker(src) for label, src in sources.items()}
    rows = []
    try:
        for name in networks:
            for d, n in sizes.items():
                best = dict.fromkeys(workers, float("inf"))
                for _ in range(rounds + 1):  # the first round compiles
                    for label, worker in workers.items():
                        best[label] = min(best[label], measured(worker, name, d, n))
                row = {"network": name, "d": d} | {f"{label}, ns a sample": 1e9 * s / n for label, s in best.items()}
                rows.append(row | ({"now / before": best["now"] / best["before"]} if "before" in best else {}))
    finally:
        for worker in workers.values():
            worker.communicate()
    note = f"Published settings, sparse uniform sources, learning on, one thread; best of {rounds} rounds in turn."
    return table("Loop", note, rows)


def main():
    arguments = parser(__doc__, "loop_speed")
    arguments.add_argument("--src", type=Path, help="the src folder of another checkout")
    arguments.add_argument("--rounds", type=int, default=7, help="more on a busy machine")
    arguments.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = arguments.parse_args()
    if args.worker:
        work()
        return
    sources = {"before": args.src.resolve()} if args.src else {}
    sources["now"] = Path(__file__).parents[1] / "src"
    options = [f"--src {args.src}"] * bool(args.src)
    report("loop_speed", "Speed of the loops", options, [partial(loop_speeds, sources, rounds=args.rounds)], args.write)


if __name__ == "__main__":
    main()
