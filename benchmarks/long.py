"""A stream of 10^9 samples: the time of a sample in every decade (also part of `bionica bench --long`).

python benchmarks/long.py            prints the table, in five to ten minutes
python benchmarks/long.py --write    and writes it to benchmarks/results/long.md
"""

import argparse
import dataclasses
import warnings
from pathlib import Path

from bionica import bench
from bionica.bench.growth import along_T
from bionica.bench.timing import one_thread
from bionica.sweep.provenance import machine, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/long.md")
    args = parser.parse_args()
    with one_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a stream of 1000 samples is too short to learn from
        rows = along_T(dataclasses.replace(bench.FULL, T=10**9))
    lines = [
        "# A long stream",
        "",
        f"`python benchmarks/long.py`, d = 3, learning on, ns a sample in the last decade alone. {machine()}; {versions()}.",
        "",
        "| to sample | network | ns a sample |",
        "|---|---|---|",
        *(f"| {row['value']:,} | {row['network']} | {row['ns']:.0f} |" for row in rows),
    ]
    print("\n".join(lines))
    if args.write:
        (Path(__file__).parent / "results" / "long.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
