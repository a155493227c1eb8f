"""Mixtures in files that were damaged, or made by somebody hostile.

Each mutated file must be read, or be refused with one InputError of one line. Each crafted one must be refused, and none may run
what is in it. The command line must answer mutated files with a result, or with one line and exit status 1.
"""

import random
import tempfile
import warnings
from pathlib import Path

from attacks import Row
from attacks.forked import run_forked
from attacks.mutated_files import copy, crafted_files, good_files, mutate
from bionica.io import InputError, open_reader

BLOCKS = 20  # of a mutated file that are read
MOST_MB, MOST_SECONDS = 500, 2.0  # for a file that is refused


def attack(seed, scale=1.0):
    n = max(40, round(2600 * scale))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("good", "bad", "crafted"):
            (folder / part).mkdir()
        # Made in a process of its own: some of these libraries start threads, which a fork does not survive.
        made, *_ = run_forked([0], lambda _: _make(folder), timeout=60)
        if made:
            return [Row("files", "good files", 1, made)]
        good = {path.name: path for path in sorted((folder / "good").iterdir()) if not path.name.startswith("1.")}
        names = list(good)

        def changed(i):
            rng = random.Random(f"{seed} {i}")
            path = good[names[i % len(names)]]
            pair = [path, path.with_name("1." + path.suffix[1:])] if path.name.startswith("0.") else [path]
            copies = copy(pair, folder / "bad")
            return f"{path.name}, {mutate(copies[0], rng)}", [str(file) for file in copies]

        def mutated(i):
            what, files = changed(i)
            return _prefixed(what, _read(files))

        def commanded(i):
            what, files = changed(10**6 + i)
            return _prefixed(what, _separate(files, folder))

        crafted = sorted((folder / "crafted").iterdir())

        def refused(i):
            path = crafted[i]
            wrong = _read([str(path)] * (2 if path.suffix == ".png" else 1), must_refuse=True)
            return _prefixed(path.name, "ran code" if (folder / "crafted" / "harm").exists() else wrong)

        return [
            _row("mutated files", n, *run_forked(range(n), mutated)),
            _row("crafted files", len(crafted), *run_forked(range(len(crafted)), refused)),
            _row("mutated files, command line", n // 10, *run_forked(range(n // 10), commanded, timeout=60), most=None),
        ]


def _make(folder):
    warnings.simplefilter("ignore")
    good_files(folder / "good")
    crafted_files(folder / "crafted")


def _row(what, n, failures, peak, slowest, most=MOST_SECONDS):
    if peak > MOST_MB:
        failures = [*failures, f"peak memory {peak:.0f} MB"]
    if most is not None and slowest > most:
        failures = [*failures, f"the slowest took {slowest:.1f} s"]
    return Row("files", what, n, failures, peak, slowest)


def _read(files, must_refuse=False):
    """Read some blocks; return what went wrong."""
    try:
        with open_reader(files) as reader:
            for _, _block in zip(range(BLOCKS), reader.blocks(), strict=False):
                pass
    except InputError as error:
        return f"an error of several lines: {error}" if "\n" in str(error) else None
    return "was not refused" if must_refuse else None


def _separate(files, folder):
    from typer.testing import CliRunner

    from bionica.cli import app

    output = folder / "sources.npy"
    result = CliRunner().invoke(app, ["separate", *files, "-o", str(output), "-q"])
    wrong = None
    if result.exit_code not in (0, 1):
        wrong = f"status {result.exit_code}: {result.stderr}"
    elif result.exit_code == 1 and not (result.stderr.startswith("Error: ") and result.stderr.count("\n") == 1):
        wrong = f"not one line: {result.stderr}"
    elif output.exists() == bool(result.exit_code):
        wrong = f"status {result.exit_code} and the output {'exists' if output.exists() else 'is missing'}"
    output.unlink(missing_ok=True)
    if left := [path.name for path in folder.iterdir() if path.name.endswith(".part")]:
        wrong = f"left {left}"
    return wrong


def _prefixed(what, wrong):
    return None if wrong is None else f"{what}: {wrong}"
