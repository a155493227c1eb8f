"""Streams against BatchNICA: StreamingNICA and both networks at their defaults, on data that nobody tuned for.

    python benchmarks/streaming.py --jobs 2 --write                        everything
    python benchmarks/streaming.py --tables random,short --problems 10     a part of it
    python benchmarks/streaming.py --jobs 16 --json rows.jsonl             on another machine; continues an interrupted run
    python benchmarks/streaming.py --from-json rows.jsonl --write          tables from what was brought back

Every case is reported. A case that raises an exception is a row of its own and counts as MISSED.
"""

import sys

import bionica
from case_runner import Benchmark
from streams import tables
from streams.cases import cases
from streams.measures import ALONE, BATCH, MEASURES, PEERS, STREAMS

METHODS = (*STREAMS, BATCH, "TwoLayerNSM", *PEERS)
BENCHMARK = Benchmark("streaming", "Streams", MEASURES, {name: getattr(tables, name) for name in MEASURES}, ALONE)


def main():
    parser = BENCHMARK.parser(__doc__, METHODS, seed0=5000)
    parser.add_argument(
        "--problems", type=int, default=100, help="most seeds of a setting; 100 is the full size of all tables"
    )
    args = parser.parse_args()
    names = BENCHMARK.chosen_tables(parser, args.tables)
    if args.from_json:
        headers, rows = BENCHMARK.read(args.from_json)
    else:
        methods = [name for name in args.methods.split(",") if name in PEERS or hasattr(bionica, name)]
        if missing := set(args.methods.split(",")) - set(methods):
            print(f"not in this version of bionica, not measured: {', '.join(sorted(missing))}", file=sys.stderr)
        wanted = cases(names, methods, args.problems, args.scale, args.long_samples, args.seed0)
        headers, rows = BENCHMARK.run(wanted, args.jobs, args.json)
    BENCHMARK.show(headers, rows, (tables.failures, tables.costs), args.write)


if __name__ == "__main__":
    main()
