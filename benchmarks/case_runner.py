"""Runs a benchmark that is a list of cases: one row per case, JSON lines that continue a run, tables from rows.

A case is a dict with the name of its table, a method and the arguments of the function that measures it. A row is the case with
what was measured, or with the failure.
"""

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import NamedTuple

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

import common


class Benchmark(NamedTuple):
    """Name of the script, title of its tables, table -> function that measures a case, table -> function that prints rows.

    `alone` names the tables that are measured one case after the other in one process, because their result is a time.
    """

    name: str
    title: str
    measures: dict[str, Callable]
    tables: dict[str, Callable]
    alone: tuple[str, ...]

    def identity(self, row):
        """Return what tells a case from all others; rows have more than that."""
        names = {name for function in self.measures.values() for name in signature(function).parameters}
        return tuple(row.get(name) for name in ("table", *sorted(names)))

    def read(self, files):
        """Return the headers and the rows of files of JSON lines."""
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        rows = [line for line in lines if "setting" not in line]
        if len({self.identity(row) for row in rows}) < len(rows):
            raise SystemExit("some case is in these files twice: which of them is meant cannot be decided here")
        return [line for line in lines if "setting" in line], rows

    def run(self, wanted, jobs, file):
        """Measure the cases that are not in the file; write each row to it as soon as it is there. Return headers and rows."""
        headers, rows = self.read([file]) if file and file.exists() else ([], [])
        seen = {self.identity(row) for row in rows}
        todo = [case for case in wanted if self.identity(case) not in seen]
        header = {"setting": f"{common.setting()}; commit {commit()}", "command": " ".join(sys.argv[1:])}
        with ExitStack() as stack:
            out = stack.enter_context(file.open("a")) if file else None
            # One thread: here, and in the processes that joblib starts (BLAS, OpenMP and Numba).
            stack.enter_context(threadpool_limits(1))
            stack.enter_context(parallel_config("loky", inner_max_num_threads=1))
            if out:
                print(json.dumps(header), file=out, flush=True)
            for n, row in enumerate(self._measured(todo, jobs), start=1):
                rows.append(row)
                if out:
                    print(json.dumps(row), file=out, flush=True)
                told = {k: v for k, v in row.items() if k in ("kind", "d", "T", "seed", "failure")}
                print(f"{n} of {len(todo)}: {row['table']} {row['method']} {told}", file=sys.stderr, flush=True)
        return [*headers, header], rows

    def _measured(self, todo, jobs):
        for together in (False, True):
            some = [case for case in todo if (case["table"] not in self.alone) == together]
            parallel = Parallel(n_jobs=jobs if together else 1, return_as="generator_unordered", batch_size=1)
            yield from parallel(delayed(measure)(self.measures[case["table"]], case) for case in some)

    def show(self, headers, rows, closing, write):
        """Print the tables of the rows, then the tables that the functions `closing` make of all rows, if any."""
        told = "\n".join(f"- `{header['command']}`: {header['setting']}." for header in headers)
        rows = sorted(
            rows, key=lambda row: [str(value) for value in self.identity(row)]
        )  # not in the order of their ends
        parts = [f"# {self.title}\n\n`python benchmarks/{self.name}.py`, run as\n\n{told}\n"]
        for name, printed in self.tables.items():
            some = [row for row in rows if row["table"] == name]
            if some:
                parts.append(printed(some))
        parts += [part for part in (function(rows) for function in closing) if part]
        print("\n".join(parts))
        if write:
            (common.RESULTS / f"{self.name}.md").write_text("\n".join(parts))

    def parser(self, doc, methods, seed0):
        """Return a parser of the command line with the options that all such benchmarks have."""
        made = common.parser(doc, self.name)
        for name, default in (("--tables", self.measures), ("--methods", methods)):
            made.add_argument(name, default=",".join(default), help="which, separated by commas (default: %(default)s)")
        made.add_argument("--scale", type=float, default=1.0, help="times the number of samples, for a trial")
        made.add_argument("--long-samples", type=int, default=10**7, help="length of the long stream")
        made.add_argument(
            "--seed0",
            type=int,
            default=seed0,
            help="the first seed; nothing was tuned on the default and the 99 after it",
        )
        made.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
        made.add_argument(
            "--json", type=Path, help="write rows here as they come; cases that are in the file are not run again"
        )
        made.add_argument("--from-json", type=Path, nargs="+", help="run nothing, print the rows of these files")
        return made

    def chosen_tables(self, parser, names):
        """Return the tables that --tables names."""
        if unknown := set(names.split(",")) - set(self.measures):
            parser.error(f"--tables: {', '.join(sorted(unknown))} is unknown: choose from {', '.join(self.measures)}")
        return names.split(",")


def commit():
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def measure(function, case):
    """Return the case with what was measured, or with the failure."""
    arguments = {name: value for name, value in case.items() if name != "table"}
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = function(**arguments)
    except Exception as error:  # one failing case is a row like any other
        found = {"failure": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"}
    return case | found | {"cpu_s": time.process_time() - start}
