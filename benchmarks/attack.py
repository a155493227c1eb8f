"""The attack: mutated and crafted models, files, plans and journals, extreme streams, kills, concurrent writers.

    python benchmarks/attack.py --write                  everything, at most 20 minutes on two cores
    python benchmarks/attack.py --areas models,files     a part of it
    python benchmarks/attack.py --scale 0.01             a smoke test

A try fails if a process crashes, hangs, leaves a foreign exception or a half-written file, or returns a wrong result without
a word. A refused file must take less than 500 MB and 2 s. The exit status is 1 if there was any failure.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pkgutil import iter_modules

import attacks
import common

MOST_MB, MOST_SECONDS = 500, 2


def run(area, seed, scale):
    """Return the rows of an area and the seconds that it took."""
    started = time.perf_counter()
    rows = import_module(f"attacks.{area}").attack(seed, scale)
    return rows, time.perf_counter() - started


def line(row):
    """Return a row of the table."""
    peak = "" if row.peak_mb is None else f"{row.peak_mb:.0f}"
    slowest = "" if row.slowest_s is None else f"{row.slowest_s:.1f}"
    return f"| {row.area} | {row.what} | {row.tries:,} | {len(row.failures)} | {peak} | {slowest} |"


def report(results, seed, scale):
    """Return the page: the table, the time of each area and the failures."""
    rows = [row for found, _ in results.values() for row in found]
    yield "# The attack"
    yield ""
    yield f"`python benchmarks/attack.py --seed {seed} --scale {scale:g}`. {common.setting()}."
    yield ""
    yield (
        f"Targets: no failure; a refused model or file takes at most {MOST_MB} MB and {MOST_SECONDS} s. Peaks and times are of all "
        "tries, refused or not; the first one compiles."
    )
    yield ""
    yield "| area | tries of | tries | failures | peak MB | slowest s |"
    yield "|---|---|---|---|---|---|"
    yield from map(line, rows)
    yield f"| all | | {sum(row.tries for row in rows):,} | {sum(len(row.failures) for row in rows)} | | |"
    yield ""
    yield "Seconds: " + ", ".join(f"{area} {seconds:.0f}" for area, (_, seconds) in results.items()) + "."
    for row in rows:
        for failure in row.failures:
            yield f"- {row.area}, {row.what}: {failure}"


def main():
    modules = (module.name for module in iter_modules(attacks.__path__))
    names = sorted(name for name in modules if hasattr(import_module(f"attacks.{name}"), "attack"))
    parser = common.parser(__doc__, "attack")
    parser.add_argument("--areas", default=",".join(names), help="which, separated by commas (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of tries")
    parser.add_argument("--jobs", type=int, default=2, help="areas at a time")
    args = parser.parse_args()
    areas = args.areas.split(",")
    if unknown := set(areas) - set(names):
        parser.error(f"--areas: {', '.join(sorted(unknown))} is unknown: choose from {', '.join(names)}")
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        waiting = {area: pool.submit(run, area, args.seed, args.scale) for area in areas}
        results = {area: future.result() for area, future in waiting.items()}
    text = "\n".join(report(results, args.seed, args.scale)) + "\n"
    print(text)
    if args.write:
        (common.RESULTS / "attack.md").write_text(text)
    sys.exit(any(row.failures for rows, _ in results.values() for row in rows))


if __name__ == "__main__":
    main()
