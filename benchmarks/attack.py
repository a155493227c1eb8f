"""The attack: mutated models and files, extreme streams, kills, concurrent writers.

    python benchmarks/attack.py --write                  everything, at most 20 minutes on two cores
    python benchmarks/attack.py --areas models,files     a part of it
    python benchmarks/attack.py --scale 0.01             a smoke test

A try fails if a process crashes, hangs, lets a foreign exception out, leaves a
half-written file, or returns a wrong result without a word. A refused model or file
takes less than 500 MB. The exit status is 1 if there was a failure.
tests/core/test_attack.py runs a few tries of each kind in the test suite.
"""

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import bionica
from bionica import ModelFileError
from bionica.core.model_file import read_model, write_model
from bionica.io import InputError, open_reader
from runner import RESULTS, markdown, setting

MOST_MB = 500
TIMEOUT = 60.0
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


# --- tries


def in_forks(n, attempt):
    """Call `attempt(i)` for i < n in forked processes; it returns what went wrong. A
    crash or a hang is the failure of its try.

    Returns the failures and the peak memory in MB.
    """
    failures = []
    peak = 0.0
    first = 0
    while first < n:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _serve(range(first, n), attempt, writer)
        os.close(writer)
        with os.fdopen(reader, "r") as pipe:
            for line in pipe:
                failures += [f"try {first}: {line.strip()}"] if line.strip() else []
                first += 1
        _, status, usage = os.wait4(child, 0)
        peak = max(peak, usage.ru_maxrss / 1024)
        if first < n:
            failures.append(f"try {first}: the process died (status {status})")
            first += 1
    return failures, peak


def _serve(tries, attempt, writer):
    """Run tries in a child and write a line for each."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for i in tries:
        signal.alarm(int(TIMEOUT))  # a hang ends the child
        try:
            wrong = attempt(i)
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            wrong = (
                f"{type(error).__name__}: {error}"
                f" ({Path(where.filename).name}:{where.lineno})"
            )
        os.write(
            writer,
            f"{' '.join((wrong or '').split())[:300]}\n".encode(errors="replace"),
        )
    os._exit(0)


def mutate(content, rng):
    """Flip, cut, repeat, insert or replace bytes, or write extreme numbers over them."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        start = (
            rng.randrange(min(len(data), rng.choice([100, 1000, 10**9]))) if data else 0
        )
        end = start + rng.randint(1, 40)
        match rng.randrange(8):
            case 0 if data:
                data[start] ^= 1 << rng.randrange(8)
            case 1:
                data[start:end] = rng.randbytes(end - start)
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = data[start:end]
            case 4:
                del data[start:]
            case 5:
                data[start:end] = rng.choice([b"\0", b"\xff"]) * (end - start)
            case 6:
                data[start : start + 1] = rng.choice(
                    [
                        b"9" * 15,
                        b"-1",
                        b"1e999",
                        b"nan",
                        b"\xff\xff\xff\x7f",
                        b"\0\0\0\x80",
                    ]
                )
            case _:
                data[start:start] = rng.randbytes(rng.randint(1, 3000))
    return bytes(data)


# --- models


def estimators() -> list[Callable[[], Any]]:
    """Makers of every estimator, and of its main variants."""
    makers: list[Callable[[], Any]] = []
    for cls in (getattr(bionica, name) for name in bionica.__all__):
        if isinstance(cls, type) and hasattr(cls, "fit"):
            options = {"random_state": 0, "max_iter": 10}
            for name in options.keys() - cls().get_params().keys():
                del options[name]
            makers.append(lambda cls=cls, options=options: cls(2, **options))
    for cls in (bionica.InterneuronNICA, bionica.TwoCompartmentNICA):
        makers.append(
            lambda cls=cls: cls.as_published("d3", n_components=2, random_state=0)
        )
        makers.append(
            lambda cls=cls: cls(2, dynamics="gradient", settle_steps=30, random_state=0)
        )
    makers.append(lambda: bionica.StreamingNICA(2, horizon=50, random_state=0))
    return makers


@cache
def saved_models():
    """The bytes of every fitted estimator as a file."""
    X = np.random.default_rng(0).exponential(size=(300, 3)) @ np.random.default_rng(
        1
    ).random((3, 4))
    contents = []
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(action="ignore"),
    ):
        for make in estimators():
            make().fit(X).save(Path(folder, "model"))
            contents.append(Path(folder, "model").read_bytes())
            Path(folder, "model").unlink()
    return contents


#: What somebody could write into a header.
VALUES = (
    None,
    True,
    0,
    -1,
    7,
    10**15,
    2**63,
    -(10**30),
    0.5,
    1e-320,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "x",
    "auto",
    [],
    [1],
    {},
    [[[]]],
    "float16",
)


def mutate_model(path, rng):
    """Change fields or arrays of a model."""
    header, arrays = read_model(path)
    header = {key: value for key, value in header.items() if key != "format"}
    table = header
    while isinstance(table, dict) and table:
        key = rng.choice(sorted(table, key=str))
        if not isinstance(table[key], dict) or rng.random() < 0.2:
            table[key] = rng.choice(VALUES)
            break
        table = table[key]
    if arrays and rng.random() < 0.7:
        name = rng.choice(sorted(arrays))
        a = np.array(arrays[name])
        with np.errstate(all="ignore"):
            arrays[name] = rng.choice(
                [
                    lambda: np.full_like(a, -1),
                    lambda: np.zeros_like(a),
                    lambda: a * (1e300 if a.dtype.kind == "f" else 2),
                    lambda: np.full(a.shape, np.nan),
                    lambda: a.astype(np.float16),
                    lambda: a.ravel(),
                    lambda: np.atleast_1d(a)[:0],
                    lambda: np.concatenate([np.atleast_1d(a)] * 2),
                    lambda: a.astype(complex),
                    lambda: np.full(a.shape, "x"),
                ]
            )()
    path.unlink()
    write_model(path, header, arrays)


def use_model(path):
    """Load a file, and do with it what one does with a model; return what went wrong."""
    try:
        model = bionica.load(path)
    except ModelFileError as error:
        return None if str(error) else "refused without a reason"
    X = np.random.default_rng(0).exponential(
        size=(300, min(int(model.n_features_in_), 10_000))
    )
    steps = {
        "transform": lambda: model.transform(X),
        "float32": lambda: model.transform(X[:3].astype(np.float32)),
    }
    if hasattr(model, "partial_fit"):
        steps["partial_fit"] = lambda: model.partial_fit(X).transform(X)
    return _first_wrong(steps, not isinstance(model, bionica.NoncenteredWhitener))


def _first_wrong(steps, nonnegative=True):
    """Run steps; outputs must be finite and nonnegative, and errors must say what is
    wrong.
    """
    for name, step in steps.items():
        try:
            Y = step()
        except np.linalg.LinAlgError as error:
            return f"{name} let LinAlgError out: {error}"
        except (ValueError, bionica.DivergenceError):
            continue
        if isinstance(Y, np.ndarray) and not (
            np.isfinite(Y).all() and (not nonnegative or (Y >= 0).all())
        ):
            return f"{name} returned {Y.min()} to {Y.max()}"
    return None


def attack_models(folder, seed, scale):
    path = folder / "model"

    def attempt(i, fields=False):
        rng = random.Random(f"{seed} {i}")
        content = saved_models()[i % len(saved_models())]
        path.write_bytes(content if fields else mutate(content, rng))
        if fields:
            mutate_model(path, rng)
        return use_model(path)

    saved_models()
    n = max(10, round(4000 * scale))
    yield "mutated bytes", n, *in_forks(n, attempt)
    yield (
        "mutated fields, checksum right",
        n,
        *in_forks(n, lambda i: attempt(i, fields=True)),
    )


# --- files


def good_files(folder):
    """Write one file of every kind that the installed packages write."""
    X = np.random.default_rng(0).exponential(size=(300, 3))
    np.save(folder / "c.npy", X)
    np.save(folder / "f.npy", np.asfortranarray(X.astype(np.float32)))
    np.savez_compressed(folder / "deflated.npz", x=X)
    lines = "\n".join(",".join(map(repr, row)) for row in X.tolist()) + "\n"
    (folder / "header.csv").write_text("a,b,c\n" + lines)
    (folder / "quoted.tsv").write_text(
        '"a"\t"b"\t"c"\r\n' + lines.replace(",", "\t").replace("\n", "\r\n")
    )
    (folder / "spaces.txt").write_text(lines.replace(",", "  "))
    try:
        import h5py
        import openpyxl
        import pyarrow
        import pyarrow.parquet
        import tifffile
        from PIL import Image

        pyarrow.parquet.write_table(
            pyarrow.table({name: X[:, j] for j, name in enumerate("abc")}),
            folder / "x.parquet",
        )
        with h5py.File(folder / "x.h5", "w") as file:
            file.create_dataset(
                "g/x", data=X, chunks=(50, 3), compression="gzip", shuffle=True
            )
        tifffile.imwrite(
            folder / "x.tif",
            X.T.reshape(3, 20, 15).astype(np.float32),
            photometric="minisblack",
        )
        Image.fromarray((50 * X).astype(np.uint8).reshape(20, 15, 3)).save(
            folder / "x.png"
        )
        book = openpyxl.Workbook()
        for row in X[:20].tolist():
            book.active.append(row)
        book.save(folder / "x.xlsx")
    except ImportError:
        pass
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def read_file(path):
    """Read a file; return what went wrong. It is read, or refused with one line."""
    try:
        with open_reader([str(path)]) as reader:
            for _, _block in zip(range(20), reader.blocks(), strict=False):
                pass
    except InputError as error:
        return f"an error of several lines: {error}" if "\n" in str(error) else None
    return None


def attack_files(folder, seed, scale):
    (folder / "good").mkdir()
    good = good_files(folder / "good")

    def attempt(i):
        rng = random.Random(f"{seed} {i}")
        name = list(good)[i % len(good)]
        (folder / name).write_bytes(mutate(good[name], rng))
        wrong = read_file(folder / name)
        return f"{name}: {wrong}" if wrong else None

    n = max(20, round(3000 * scale))
    yield "mutated files", n, *in_forks(n, attempt)


# --- streams


def streams() -> dict[str, np.ndarray]:
    """Mixtures that no one should measure, by name."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(260, 3)) @ rng.random((3, 4))
    nan, inf, one, dead, stuck = (X.copy() for _ in range(5))
    nan[130, 2] = np.nan
    inf[200, 1] = np.inf
    one[100] *= 1e200
    dead[:, 1] = 0
    stuck[50:] = stuck[50]
    scaled = {
        f"{factor:g}": X * factor
        for factor in (1e300, 1e150, 1e30, 1e-30, 1e-160, 1e-310)
    }
    return scaled | {
        "constant": np.ones_like(X),
        "zeros": -np.zeros_like(X),
        "least": np.full_like(X, 5e-324),
        "most": np.full_like(X, 1.7e308),
        "alternating": X * np.where(np.arange(260) % 2, 1e150, 1e-150)[:, None],
        "nan": nan,
        "inf": inf,
        "one row 1e200": one,
        "rank one": np.outer(X[:, 0], [1.0, 2.0, 3.0, 4.0]),
        "one sample": X[:1],
        "three samples": X[:3],
        "one column": X[:, :1],
        "wide": rng.exponential(size=(40, 120)),
        "dead channel": dead,
        "stuck": stuck,
        "negative": -X,
        "centred": X - X.mean(axis=0),
        "duplicate columns": X[:, [0, 0, 1, 2]],
        "jump": X * np.where(np.arange(260) < 130, 1, 1e8)[:, None],
        "units": X * np.array([1e-200, 1.0, 1e100, 1e-30]),
        "one hot": np.eye(4)[rng.integers(4, size=260)],
        "cauchy": np.abs(rng.standard_cauchy(X.shape)),
        "big endian": X.astype(">f8"),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "read-only": np.frombuffer(X.tobytes()).reshape(X.shape),
    }


def use_stream(model, X):
    """Learn from a stream in pieces, then from all of it; return what went wrong."""
    good = np.random.default_rng(1).exponential(size=(60, X.shape[1]))
    steps = {}
    if hasattr(model, "partial_fit"):
        for i, part in enumerate(part for part in np.array_split(X, 3) if len(part)):
            steps[f"partial_fit {i}"] = lambda part=part: model.partial_fit(part)
    steps |= {
        "transform": lambda: model.transform(X),
        "good": lambda: model.transform(good),
        "fit": lambda: model.fit(X),
    }
    steps |= {
        "transform after fit": lambda: model.transform(X),
        "good after fit": lambda: model.transform(good),
    }
    return _first_wrong(steps, not isinstance(model, bionica.NoncenteredWhitener))


def attack_streams(folder, seed, scale):
    makers = estimators()
    data = list(streams().items())

    def attempt(i):
        name, X = data[i // len(makers) % len(data)]
        model = makers[i % len(makers)]()
        wrong = use_stream(model, X)
        return f"{type(model).__name__}, {name}: {wrong}" if wrong else None

    n = max(5, round(scale * len(makers) * len(data)))
    yield "extreme streams", n, *in_forks(n, attempt)


# --- kills and writers

PLAN = """
seeds = 12
[[data]]
kind = "sparse_uniform"
d = 3
T = 50_000
[[network]]
name = "TwoCompartmentNICA"
published = "d3"
"""


def attack_kills(folder, seed, scale):
    """A sweep that was killed any number of times must give the table of one that was
    not; `separate` leaves all or nothing.
    """
    from bionica.circuits import sweep

    (folder / "plan.toml").write_text(PLAN)

    def swept(output=None):
        table = sweep.run(folder / "plan.toml", output, n_jobs=1)
        return [(row["case"], row["t"], row["error"]) for row in table]

    whole = swept()
    np.save(folder / "x.npy", np.random.default_rng(0).exponential(size=(200_000, 3)))
    failures = []
    n = max(2, round(40 * scale))
    for i in range(n):
        rng = random.Random(f"{seed} {i}")
        output = folder / f"sweep{i // 4}"
        killed(
            ["sweep", "plan.toml", "-o", output, "--jobs", str(1 + i % 2), "-q"],
            folder,
            rng,
        )
        if (i % 4 == 3 or i == n - 1) and swept(output) != whole:
            failures.append(f"sweep {i}: other rows than without kills")
        result = folder / f"y{i}.npy"
        status = killed(
            ["separate", "x.npy", "--sources", "3", "-o", result, "-q"], folder, rng
        )
        if result.exists() and np.load(result).shape != (200_000, 3):
            failures.append(f"separate {i}: half an output")
        if status not in (0, 130, *(-how for how in SIGNALS)):
            failures.append(f"separate {i}: status {status}")
    left = [path.name for path in folder.glob("*.part")]
    failures += [f"left {name}" for name in left if ".y" not in name]
    yield "kills of a sweep and of separate", 2 * n, failures, 0.0


def killed(arguments, folder, rng):
    """Run a command, send a signal after a random time, and return its status."""
    command = [sys.executable, "-m", "bionica", *map(str, arguments)]
    process = subprocess.Popen(
        command, cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(rng.uniform(0.5, 6))
    process.send_signal(rng.choice(SIGNALS))
    return process.wait(timeout=TIMEOUT)


def attack_writers(folder, seed, scale):
    """Processes save and load one model at once: every load finds a whole one."""
    X = np.random.default_rng(0).exponential(size=(300, 3))
    model = bionica.BatchNICA(3, random_state=0).fit(X)
    path = folder / "model"
    model.save(path)
    n = max(2, round(24 * scale))
    children = []
    for _ in range(n):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for _ in range(20):
                    model.save(path)
                    assert np.array_equal(
                        bionica.load(path).components_, model.components_
                    )
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    failures = [
        f"process {child}: status {status}"
        for child in children
        if (status := os.waitpid(child, 0)[1])
    ]
    left = [file.name for file in folder.iterdir() if file.name != "model"]
    if left:
        failures.append(f"left {left}")
    yield "processes that save and load one model, 20 times each", 20 * n, failures, 0.0


AREAS = {
    "models": attack_models,
    "files": attack_files,
    "streams": attack_streams,
    "kills": attack_kills,
    "writers": attack_writers,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--areas",
        default=",".join(AREAS),
        help="which, separated by commas (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="times the number of tries"
    )
    parser.add_argument(
        "--write", action="store_true", help="write benchmarks/results/attack.md"
    )
    args = parser.parse_args()
    rows = []
    wrong = []
    for area in args.areas.split(","):
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            for what, tries, failures, peak in AREAS[area](
                Path(folder), args.seed, args.scale
            ):
                if peak > MOST_MB:
                    failures.append(f"peak memory {peak:.0f} MB")
                row = {
                    "area": area,
                    "tries of": what,
                    "tries": tries,
                    "failures": len(failures),
                    "peak MB": round(peak),
                    "s": time.perf_counter() - start,
                }
                rows.append(row)
                wrong += [f"- {area}, {what}: {failure}" for failure in failures]
    note = (
        f"`python benchmarks/attack.py --seed {args.seed} --scale {args.scale:g}`."
        f" {setting()}."
    )
    text = markdown("The attack", note, rows).replace("## ", "# ", 1) + "\n".join(
        ["", *wrong, ""]
    )
    print(text)
    if args.write:
        (RESULTS / "attack.md").write_text(text)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
