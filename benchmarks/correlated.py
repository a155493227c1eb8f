"""Correlated sources: MinimumVolumeCone beside BatchNICA, NMF, FastICA and "knows A", on data that nobody tuned for.

    python benchmarks/correlated.py --jobs 2 --paper-images DIR --write      everything; DIR holds sources.npy (3 x 63504)
    python benchmarks/correlated.py --tables copula,sizes --seeds 3          a part of it
    python benchmarks/correlated.py --jobs 16 --json rows.jsonl              on another machine; continues an interrupted run
    python benchmarks/correlated.py --from-json rows.jsonl --write           tables from what was brought back

Every case is reported. A case that raises an exception is a row of its own and counts as MISSED. Data sets and methods that are
not installed are named on the standard error and left out.
"""

import os
import sys
from pathlib import Path

from case_runner import Benchmark
from correlated_cases import sources, stream_tables, tables
from correlated_cases.cases import cases
from correlated_cases.measures import ALONE, MEASURES
from correlated_cases.methods import METHODS, available
from streams.tables import costs, failures

TABLES = {name: getattr(tables, name, None) or getattr(stream_tables, name) for name in MEASURES}
BENCHMARK = Benchmark("correlated", "Correlated sources", MEASURES, TABLES, ALONE)


def main():
    parser = BENCHMARK.parser(__doc__, METHODS, seed0=7000)
    parser.add_argument("--seeds", type=int, default=10, help="most seeds of a setting")
    parser.add_argument(
        "--paper-images", type=Path, metavar="DIR", help="folder of sources.npy; never part of the repository"
    )
    args = parser.parse_args()
    names = BENCHMARK.chosen_tables(parser, args.tables)
    if args.from_json:
        headers, rows = BENCHMARK.read(args.from_json)
    else:
        if args.paper_images:
            os.environ[sources.PAPER_FOLDER] = str(args.paper_images.resolve(strict=True))
        methods = [name for name in args.methods.split(",") if available(name)]
        wanted, left_out = cases(names, methods, args.seeds, args.scale, args.long_samples, args.seed0)
        for what in (*left_out, *sorted(set(args.methods.split(",")) - set(methods))):
            print(f"not here, not measured: {what}", file=sys.stderr)
        headers, rows = BENCHMARK.run(wanted, args.jobs, args.json)
    BENCHMARK.show(headers, rows, (failures, costs), args.write)


if __name__ == "__main__":
    main()
