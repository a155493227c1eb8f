"""Runs benchmarks that are lists of cases, prints their tables, beside those of another
checkout where one is given.

A table is a function that measures one case of one method, the cases, and what is
printed: rows of settings, a column for each method, median (worst) over the seeds. A
case that raises counts as the worst possible value and is listed.

    python benchmarks/streaming.py --json before.json                       in the other checkout, or with its source on PYTHONPATH
    python benchmarks/streaming.py --beside before.json                     the same cases here, both in the table
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed, parallel_config

RESULTS = Path(__file__).parent / "results"


class Table(NamedTuple):
    """`cases` are (methods, arguments of `measure`); `by` names the arguments that make
    a row, `value` what is printed.
    """

    title: str
    note: str
    measure: Callable[..., dict[str, Any]]
    cases: Sequence[tuple[Sequence[str], dict[str, Any]]]
    by: Sequence[str]
    value: str = "error"
    form: str = "{:.2g}"
    large_is_good: bool = False
    below: float | None = None  # print how many values are below, and the median


def main(doc, name, tables_of, seed0):
    """Parse the command line, run the tables that `tables_of(seeds, quick)` gives, and
    print them.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="two seeds, shorter streams"
    )
    parser.add_argument("--tables", help="which, separated by commas")
    parser.add_argument("--seeds", type=int, help="seeds of a setting")
    parser.add_argument(
        "--seed0", type=int, default=seed0, help="the first seed (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes, each with one thread"
    )
    parser.add_argument("--json", type=Path, help="write all rows here")
    parser.add_argument(
        "--beside", type=Path, help="rows of another checkout, to print beside these"
    )
    args = parser.parse_args()
    n_seeds = args.seeds or (2 if args.quick else 10)
    tables = tables_of(range(args.seed0, args.seed0 + n_seeds), args.quick)
    chosen = args.tables.split(",") if args.tables else list(tables)
    unknown = set(chosen) - set(tables)
    if unknown:
        parser.error(
            f"--tables: {', '.join(sorted(unknown))} is unknown: choose from"
            f" {', '.join(tables)}"
        )
    before = json.loads(args.beside.read_text()) if args.beside else []
    command = " ".join([f"python benchmarks/{name}.py", *sys.argv[1:]])
    print(f"`{command}`\n\n{setting()}.\n", flush=True)
    rows = []
    for key in chosen:
        mine = run(key, tables[key], args.jobs)
        print(
            show(tables[key], mine, [row for row in before if row["table"] == key]),
            flush=True,
        )
        rows += mine
    if args.json:
        args.json.write_text(json.dumps(rows, default=float))


def run(key, table, jobs=1):
    """Return a row for each case: its arguments, and what was measured or the failure."""
    cases = [
        {"method": method} | arguments
        for methods, arguments in table.cases
        for method in methods
    ]
    with parallel_config("loky", inner_max_num_threads=1):
        rows = Parallel(n_jobs=jobs, batch_size=1)(
            delayed(measured)(table.measure, case) for case in cases
        )
    return [{"table": key} | row for row in rows]


def measured(measure, case):
    """Return the case with what was measured, or with the failure."""
    start = time.process_time()
    try:
        with warnings.catch_warnings(action="ignore"):
            result = measure(**case)
    except Exception as error:  # one failing case is a row like any other
        result = {
            "failure": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        }
    return case | result | {"cpu_s": time.process_time() - start}


def show(table, rows, before=()):
    """Return the markdown of a table; with rows of another checkout, "here / there" in
    each cell.
    """

    def having(rows, values):
        return [row for row in rows if tuple(map(row.get, table.by)) == values]

    lines = []
    for values in dict.fromkeys(tuple(map(row.get, table.by)) for row in rows):
        line = dict(zip(table.by, map(str, values), strict=True))
        mine = having(rows, values)
        line["runs"] = len({row["seed"] for row in mine})
        for method in dict.fromkeys(row["method"] for row in rows):
            line[method] = summary(table, mine, method)
            if before:
                line[method] += f" / {summary(table, having(before, values), method)}"
        lines.append(line)
    kind = "median (worst)"
    if table.below is not None:
        kind = f"number below {table.below:g} (median)"
    beside = ", here / there" if before else ""
    text = markdown(table.title, f"{table.note} {table.value}: {kind}{beside}.", lines)
    failures = [
        f"- {row['method']}, {row}: {row['failure']}\n"
        for row in rows
        if "failure" in row
    ]
    if failures:
        text += f"\n{len(failures)} of {len(rows)} cases failed:\n{''.join(failures)}"
    return text


def summary(table, rows, method):
    """Return median (worst) of the value of a method, or the number below a limit
    (median); a failure is the worst possible value.
    """
    worst = -np.inf if table.large_is_good else np.inf
    values = [row.get(table.value, worst) for row in rows if row["method"] == method]
    values = np.array(values, dtype=float)
    values = np.where(np.isnan(values), worst, values)
    if not len(values):
        return ""
    median = table.form.format(np.median(values))
    if table.below is not None:
        return f"{np.count_nonzero(values < table.below)} ({median})"
    extreme = values.min() if table.large_is_good else values.max()
    return f"{median} ({table.form.format(extreme)})"


def markdown(title, note, lines):
    """Return lines (dicts from heading to value) as a markdown table."""
    head = dict.fromkeys(name for line in lines for name in line)
    rows = [
        f"| {' | '.join(_word(line.get(name)) for name in head)} |" for line in lines
    ]
    return "\n".join(
        [
            f"## {title}",
            "",
            note,
            "",
            f"| {' | '.join(head)} |",
            "|" + "---|" * len(head),
            *rows,
            "",
        ]
    )


def _word(value):
    # None, NaN: nothing was measured
    if value is None or isinstance(value, str) or value != value:
        return value if isinstance(value, str) else ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}"


def seconds(function):
    """Return the time of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def setting():
    """Return machine and versions in a line."""
    import platform

    import bionica

    packages = (
        f"bionica {bionica.__version__} python {platform.python_version()} numpy"
        f" {np.__version__}"
    )
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores; {packages}"
    )
