"""How many errors in the mathematics the tests notice: mutants drawn at random, one
change in each, tested one after the other.

    python benchmarks/mutants.py --n 30 --seed 0          or make mutants

A mutant multiplies a number by 1.5 or 0.5, changes a sign or an operator, a comparison
or its boundary, `and` or `or`, `min` or `max`, removes a `not`, or returns None. The
tests and doctests of the changed module (`TESTS`) run on a copy of the source until one
fails that passes without the change. Numbers below 1e-100, which guard against a
division by zero, messages, decorators, annotations and drawings are not changed. mutmut
and cosmic-ray change numbers by 1 only, and know no tests of a module.
"""

import argparse
import ast
import copy
import itertools
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
#: Module or folder -> its tests, the fastest first. The longest name that fits counts.
TESTS = {
    "core/blocks": ("core/blocks", "core/samples", "core/dask"),
    "core/dask": ("core/samples", "core/dask"),
    "core/parameters": ("core/parameters",),
    "core/samples": ("core/samples", "core/one_sample", "mixtures/cubes"),
    "core/whitening": ("mixtures/whitening", "mixtures/batch_nica"),
    "mixtures/cone": (
        "mixtures/cone_noise",
        "mixtures/cone_of_many_rows",
        "mixtures/minimum_volume_cone",
    ),
    "mixtures/cone/count": ("mixtures/source_count",),
    "mixtures/missing": ("mixtures/missing",),
    "mixtures/nica": ("mixtures/whitening", "mixtures/batch_nica", "mixtures/missing"),
    "mixtures/verdict": ("mixtures/findings", "mixtures/diagnosis"),
    "mixtures/verdict/count": ("mixtures/findings", "mixtures/source_count"),
    "mixtures/verdict/outliers": ("mixtures/outliers",),
    "metrics": ("metrics",),
    "datasets": ("datasets",),
    "circuits/paper": ("circuits/paper", "circuits/reproduce"),
    "circuits/paper/figures": (),  # is looked at
}
SWAPPED = {"min": "max", "minimum": "maximum", "fmin": "fmax", "argmin": "argmax"}
SWAPPED |= {b: a for a, b in SWAPPED.items()}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
COMPARISONS = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
UNCHANGED = {"annotation", "returns", "decorator_list"}


class Mutant(NamedTuple):
    """A change of the bytes start to end of a file of the package."""

    path: Path
    line: int
    start: int
    end: int
    before: str
    after: str


def changed(node: Any) -> Iterator[ast.AST]:
    """What may stand in place of a node."""

    def other(**fields: Any) -> ast.AST:
        new = copy.copy(node)
        vars(new).update(fields)
        return new

    match node:
        case ast.Constant(value=int() | float() as value) if (
            not isinstance(value, bool) and not 0 < value < 1e-100
        ):
            exact = 1.5 * value, 0.5 * value
            numbers = (
                exact
                if isinstance(value, float)
                else ((3 * value + 1) // 2, value // 2)
            )
            yield from (other(value=number) for number in (numbers if value else [1]))
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield node.operand
        case ast.BinOp() | ast.BoolOp() if type(node.op) in OPERATORS:
            yield other(op=OPERATORS[type(node.op)]())
        case ast.Compare(ops=[op]):
            yield from (other(ops=[new()]) for new in COMPARISONS[type(op)])
        case ast.Name(id=name) if name in SWAPPED:
            yield other(id=SWAPPED[name])
        case ast.Attribute(attr=name) if name in SWAPPED:
            yield other(attr=SWAPPED[name])
        case ast.Return(value=ast.AST()):
            yield other(value=ast.Constant(None))


def mutants(path: Path, package: Path) -> Iterator[Mutant]:
    """All mutants of a file of the package."""
    source = path.read_bytes()
    starts = [0, *itertools.accumulate(map(len, source.splitlines(keepends=True)))]
    waiting: list[Any] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        for new in changed(node):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            after = (
                ast.unparse(new)
                if isinstance(new, ast.Return | ast.Name | ast.Attribute)
                else f"({ast.unparse(new)})"
            )
            yield Mutant(
                path.relative_to(package),
                node.lineno,
                start,
                end,
                source[start:end].decode(),
                after,
            )
        for name, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            children = [
                c
                for c in children
                if isinstance(c, ast.AST)
                and not isinstance(c, ast.Raise | ast.JoinedStr)
            ]
            waiting += children if name not in UNCHANGED else []


def file_of(test: str) -> str:
    """The path of a file of tests, from its room and name."""
    room, _, name = test.rpartition("/")
    return (Path("tests") / room / f"test_{name}.py").as_posix()


def tests_of(path: Path, package: Path) -> tuple[str, ...]:
    """The arguments of pytest for a file of the package; none if it is not to be
    changed.
    """
    name = path.relative_to(package).with_suffix("").as_posix()
    best = max(
        (key for key in TESTS if f"{name}/".startswith(f"{key}/")), key=len, default=""
    )
    return (str(path), *map(file_of, TESTS[best])) if TESTS.get(best) else ()


def run(arguments: tuple[str, ...], folder: Path, limit: float) -> tuple[bool, str]:
    """Whether the tests pass, and the first that failed."""
    own = {
        "PYTHONPATH": str(folder),
        "NUMBA_CACHE_DIR": str(folder / "numba"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    own |= {
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = [
        "-xqq",
        "-c",
        "pyproject.toml",
        "--rootdir",
        ".",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "-m",
        "not slow",
    ]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | own,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return False, f"no end after {limit:.0f} s"
    failed = [
        line.split()[1]
        for line in done.stdout.splitlines()
        if line.startswith(("FAILED", "ERROR"))
    ]
    return done.returncode == 0, (
        failed[0] if failed else (done.stdout + done.stderr)[-300:]
    )


def judge(
    m: Mutant, folders: "queue.SimpleQueue[Path]", limit: float, broken: list[str]
) -> tuple[bool, str]:
    """Whether the tests notice a mutant, in one of the copies of the package; and a
    line that says so.
    """
    folder = folders.get()
    package = folder / "bionica"
    path = package / m.path
    start = time.perf_counter()
    failed = ""
    noticed = False
    source = path.read_bytes()
    while not noticed:
        path.write_bytes(source[: m.start] + m.after.encode() + source[m.end :])
        passed, failed = run((*tests_of(path, package), *broken), folder, limit)
        path.write_bytes(source)
        failed = f"{path}{failed}" if failed.startswith("::") else failed  # a doctest
        if passed:
            break
        noticed = "::" not in failed or run((failed,), folder, limit)[0]
        broken += [] if noticed else [f"--deselect={failed}"]
    folders.put(folder)
    change = f"{m.path}:{m.line}  {' '.join(m.before.split())}  ->  {m.after}"
    print(
        "noticed " if noticed else "SURVIVED",
        f" {change}  ({time.perf_counter() - start:.0f} s) {failed}",
        flush=True,
    )
    return noticed, change


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--n", type=int, default=30, help="mutants (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--limit",
        type=float,
        default=600,
        help="seconds for a mutant (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        default="",
        help="files whose name begins so, such as cone/ or trust/count",
    )
    parser.add_argument(
        "--n-jobs", type=int, default=1, help="mutants at a time (default: %(default)s)"
    )
    args = parser.parse_args()
    source = ROOT / "src" / "bionica"
    files = [path for path in sorted(source.rglob("*.py")) if tests_of(path, source)]
    every = [
        m
        for f in files
        if f.relative_to(source).as_posix().startswith(args.only)
        for m in mutants(f, source)
    ]
    drawn = random.Random(args.seed).sample(every, min(args.n, len(every)))
    print(f"{len(drawn)} of {len(every)} mutants", flush=True)
    folders: queue.SimpleQueue[Path] = queue.SimpleQueue()
    broken: list[str] = []  # tests that fail without a change too
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(args.n_jobs) as pool:
        for job in range(args.n_jobs):
            shutil.copytree(
                source,
                Path(name, str(job), "bionica"),
                ignore=shutil.ignore_patterns("__pycache__"),
            )
            folders.put(Path(name, str(job)))
        # if one is gone: an error
        files = {file_of(test) for tests in TESTS.values() for test in tests}
        passed, failed = run(
            ("--collect-only", *sorted(files)), Path(name, "0"), args.limit
        )
        if not passed:
            raise SystemExit(f"without a change the tests cannot be run:\n{failed}")
        survivors = [
            change
            for noticed, change in pool.map(
                lambda m: judge(m, folders, args.limit, broken), drawn
            )
            if not noticed
        ]
    print(*broken, sep="\n")
    print(
        f"\n{len(drawn) - len(survivors)} of {len(drawn)} mutants were noticed."
        " Survivors:",
        *survivors,
        sep="\n  ",
    )


if __name__ == "__main__":
    main()
