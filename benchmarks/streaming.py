"""Streams against BatchNICA: StreamingNICA and both networks at their defaults, on data that nobody tuned for.

    python benchmarks/streaming.py --jobs 2 --write                        everything
    python benchmarks/streaming.py --tables random,short --problems 10     a part of it
    python benchmarks/streaming.py --jobs 16 --json rows.jsonl             on another machine; continues an interrupted run
    python benchmarks/streaming.py --from-json rows.jsonl --write          tables from what was brought back

Every case is reported. A case that raises an exception is a row of its own and counts as MISSED.
"""

import json
import subprocess
import sys
from contextlib import ExitStack
from inspect import signature
from pathlib import Path

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

import bionica
from common import RESULTS, parser, setting
from streams import tables
from streams.cases import cases
from streams.measures import ALONE, BATCH, MEASURES, PEERS, STREAMS, measure

METHODS = (*STREAMS, BATCH, "TwoLayerNSM", *PEERS)
#: What a case is made of.
ARGUMENTS = ("table", *sorted({name for function in MEASURES.values() for name in signature(function).parameters}))


def identity(row):
    """Return what tells a case from all others; rows have more than that."""
    return tuple(row.get(name) for name in ARGUMENTS)


def read(files):
    """Return the headers and the rows of files of JSON lines."""
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    rows = [line for line in lines if "setting" not in line]
    if len({identity(row) for row in rows}) < len(rows):
        raise SystemExit("some case is in these files twice: which of them is meant cannot be decided here")
    return [line for line in lines if "setting" in line], rows


def commit():
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def run(todo, jobs, file):
    """Measure the cases; write each row to the file as soon as it is there."""
    header = {"setting": f"{setting()}; commit {commit()}", "command": " ".join(sys.argv[1:])}
    rows = []
    with ExitStack() as stack:
        out = stack.enter_context(file.open("a")) if file else None
        # One thread: here, and in the processes that joblib starts (BLAS, OpenMP and Numba).
        stack.enter_context(threadpool_limits(1))
        stack.enter_context(parallel_config("loky", inner_max_num_threads=1))

        def keep(row):
            rows.append(row)
            if out:
                print(json.dumps(row), file=out, flush=True)
            problem = {k: v for k, v in row.items() if k in ("d", "T", "kind", "seed", "failure")}
            print(f"{len(rows)} of {len(todo)}: {row['table']} {row['method']} {problem}", file=sys.stderr, flush=True)

        if out:
            print(json.dumps(header), file=out, flush=True)
        for together in (False, True):
            some = [case for case in todo if (case["table"] not in ALONE) == together]
            parallel = Parallel(n_jobs=jobs if together else 1, return_as="generator_unordered", batch_size=1)
            for row in parallel(delayed(measure)(case) for case in some):
                keep(row)
    return header, rows


def show(headers, rows, write):
    told = "\n".join(f"- `{header['command']}`: {header['setting']}." for header in headers)
    rows = sorted(rows, key=lambda row: [str(value) for value in identity(row)])  # not in the order of their ends
    parts = [f"# Streams\n\n`python benchmarks/streaming.py`, run as\n\n{told}\n"]
    for name in MEASURES:
        some = [row for row in rows if row["table"] == name]
        if some:
            parts.append(getattr(tables, name)(some))
    parts += [part for part in (tables.failures(rows), tables.costs(rows)) if part]
    print("\n".join(parts))
    if write:
        (RESULTS / "streaming.md").write_text("\n".join(parts))


def main():
    arguments = parser(__doc__, "streaming")
    arguments.add_argument(
        "--tables", default=",".join(MEASURES), help="which, separated by commas (default: %(default)s)"
    )
    arguments.add_argument(
        "--methods", default=",".join(METHODS), help="which, separated by commas (default: %(default)s)"
    )
    arguments.add_argument(
        "--problems", type=int, default=100, help="most seeds of a setting; 100 is the full size of all tables"
    )
    arguments.add_argument("--scale", type=float, default=1.0, help="times the number of samples, for a trial")
    arguments.add_argument("--long-samples", type=int, default=10**7, help="length of the long stream")
    arguments.add_argument("--seed0", type=int, default=5000, help="the first seed; nothing was tuned on 5000 to 5099")
    arguments.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    arguments.add_argument(
        "--json", type=Path, help="write rows here as they come; cases that are in the file are not run again"
    )
    arguments.add_argument("--from-json", type=Path, nargs="+", help="run nothing, print the rows of these files")
    args = arguments.parse_args()
    if unknown := set(args.tables.split(",")) - set(MEASURES):
        arguments.error(f"--tables: {', '.join(sorted(unknown))} is unknown: choose from {', '.join(MEASURES)}")
    if args.from_json:
        headers, rows = read(args.from_json)
    else:
        methods = [name for name in args.methods.split(",") if name in PEERS or hasattr(bionica, name)]
        if missing := set(args.methods.split(",")) - set(methods):
            print(f"not in this version of bionica, not measured: {', '.join(sorted(missing))}", file=sys.stderr)
        wanted = cases(args.tables.split(","), methods, args.problems, args.scale, args.long_samples, args.seed0)
        headers, done = read([args.json]) if args.json and args.json.exists() else ([], [])
        seen = {identity(row) for row in done}
        header, rows = run([case for case in wanted if identity(case) not in seen], args.jobs, args.json)
        headers, rows = [*headers, header], [*done, *rows]
    show(headers, rows, args.write)


if __name__ == "__main__":
    main()
