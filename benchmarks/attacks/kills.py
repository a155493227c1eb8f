"""Kills, concurrent writers and scarce resources of `bionica separate`.

A run that was killed at a random moment, any number of times, and resumed must leave the bytes of one that was not. Processes that
write one file must leave it whole. A command that lacks something ends in one line, and leaves nothing half written.
"""

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from attacks import Row
from attacks.forked import run_forked
from bionica import StreamingNICA, datasets, load
from bionica.cli import app
from bionica.io import open_reader, open_writer

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_PIPES = {}  # folder -> where the command that runs in it speaks
SUFFIXES = (".npy", ".csv", ".zarr", ".h5", ".parquet", ".npz")


def attack(seed, scale=1.0):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        S = datasets.sparse_uniform(30_000, 3, rng=np.random.default_rng(0))
        np.save(folder / "x.npy", datasets.mix(S, datasets.paper_mixing("d3"))[0])
        # The loop is loaded before the first fork, so that no child waits for it.
        network = StreamingNICA(3, random_state=0).fit(np.load(folder / "x.npy")[:2000])
        return [
            _kills(folder, seed, max(3, round(105 * scale))),
            _writers(folder, seed, max(2, round(24 * scale))),
            _models(folder, network, max(2, round(24 * scale))),
            _resources(folder, max(6, round(48 * scale))),
        ]


# ---------------------------------------------------------------------------------------------- children


def _start(arguments, folder, prepare=lambda: None):
    """Run the command in a fork; its messages go to a pipe, which `_said` reads."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        _PIPES[folder] = reader
        return child
    status = 99
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        os.chdir(folder)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        for descriptor in (reader, writer, *_PIPES.values()):
            with suppress(OSError):
                os.close(descriptor)
        prepare()
        app(["separate", *arguments])
    except SystemExit as end:
        status = end.code or 0
    except KeyboardInterrupt as error:  # before the command began, or after its end
        frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        status = 98 if "separate" in frames else 130
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(status)


def _wait(child, seconds=60.0):
    """Return the exit status, -signal after a kill, or None after a hang."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _said(folder):
    """Return what the last command in a folder said, once it has ended."""
    with os.fdopen(_PIPES.pop(folder), "rb") as pipe:
        return pipe.read().decode(errors="replace")


def _bytes(path):
    """Return the content of a file, or of every file of a store."""
    if path.is_dir():
        return {file.relative_to(path): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}
    return path.read_bytes()


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


def _partials(folder):
    return [name for name in _names(folder) if name.endswith(".part")]


# ---------------------------------------------------------------------------------------------- kills


def _kills(folder, seed, n):
    failures, done, slowest = [], 0, 0.0
    for i in range(n):
        if done >= n:
            break
        rng = random.Random(f"{seed} {i}")
        suffix = SUFFIXES[i % len(SUFFIXES)]
        home = folder / f"kills{suffix}"
        arguments = [
            "x.npy",
            "--sources",
            "3",
            "--epochs",
            "10",
            "--checkpoint",
            "0",
            "--model",
            "m",
            "-o",
            f"y{suffix}",
        ]
        if not home.exists():
            failures += _reference(home, folder / "x.npy", arguments)
        took, kills, wrong = _kill_and_resume(home, arguments, rng)
        done, slowest = done + kills, max(slowest, took)
        failures += [f"seed {seed}, run {i}, {suffix}: {wrong}"] if wrong else []
    return Row("kills", "kill -9, SIGTERM, SIGINT and --resume", done, failures, None, slowest)


def _reference(home, x, arguments):
    """Run without a kill, and keep what it wrote and how long it took."""
    home.mkdir()
    shutil.copy(x, home / "x.npy")
    started = time.monotonic()
    status, said = _wait(_start(arguments, home)), _said(home)
    (home / "seconds").write_text(str(time.monotonic() - started))
    if status != 0:
        return [f"without a kill: status {status}: {said[-200:]}"]
    for name in ("m", arguments[-1]):
        (home / name).rename(home / f"whole-{name}")
    return []


def _kill_and_resume(home, arguments, rng):
    """Kill a run once or more, resume it, and compare; return seconds, kills, and what went wrong."""
    seconds, output, kills, slowest = float((home / "seconds").read_text()), home / arguments[-1], 0, 0.0
    command, wrong = arguments, None
    while wrong is None:
        how = rng.choice(SIGNALS)
        child = _start(command, home)
        time.sleep(rng.uniform(0, 1.1 * seconds))
        kills += 1
        os.kill(child, how)
        started = time.monotonic()
        status = _wait(child)
        slowest = max(slowest, time.monotonic() - started)
        said = _said(home)
        if status not in (0, 130, -how):
            wrong = f"{how.name} ended with status {status}: {said[-200:]}"
        elif "Traceback" in said and status != -how:
            wrong = f"{how.name} ended in a traceback: {said[-200:]}"
        elif output.exists() and _bytes(output) != _bytes(home / f"whole-{output.name}"):
            wrong = f"{how.name} left a partial output"
        command = [*arguments, "--resume"]
        if rng.random() < 0.6:
            break
    if wrong is None:
        status, said = _wait(_start(command, home)), _said(home)
        wrong = f"--resume ended with status {status}: {said[-300:]}" if status else None
    for name in ("m", output.name) if wrong is None else ():
        if _bytes(home / name) != _bytes(home / f"whole-{name}"):
            wrong = f"{name} differs from that of a run without a kill"
    if wrong is None and _partials(home):
        wrong = f"left {_partials(home)}"
    for path in (home / "m", output):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return slowest, kills, wrong


# ---------------------------------------------------------------------------------------------- concurrency


def _writers(folder, seed, n):
    """Eight processes write one file at once, some are killed: it holds what one of them wrote."""
    failures, writers = [], 0
    home = folder / "writers"
    home.mkdir()
    for i in range(n):
        rng = random.Random(f"{seed} writers {i}")
        path = home / f"shared{SUFFIXES[i % len(SUFFIXES)]}"
        children = [_start_writer(path, value, rng.random() * 0.05) for value in range(1, 9)]
        writers += len(children)
        killed = rng.sample(children, 2)
        time.sleep(rng.random() * 0.1)
        for child in killed:
            os.kill(child, signal.SIGKILL)
        ended = {child: _wait(child) for child in children}
        if wrong := [status for child, status in ended.items() if status and child not in killed]:
            failures.append(f"seed {seed}, round {i}, {path.name}: writers ended with {wrong}")
            continue
        with open_reader([str(path)]) as reader:
            Y = np.concatenate(list(reader.blocks()))
        if len(Y) != 1000 * int(Y[0, 0]) or len(np.unique(Y)) != 1:
            failures.append(f"seed {seed}, round {i}, {path.name}: {len(Y)} rows of {np.unique(Y)[:3]}")
        _remove_partials(home)  # of the two that were killed
    return Row("concurrency", "writers of one output, two of eight killed", writers, failures)


def _remove_partials(home):
    for name in _partials(home):
        shutil.rmtree(home / name, ignore_errors=True)


def _start_writer(path, value, delay):
    """Write 1000 * value rows of `value` in ten blocks."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with open_writer(path, 3, "float64") as writer:
            for _ in range(10):
                writer.write(np.full((100 * value, 3), float(value)))
                time.sleep(delay / 10)
        status = 0
    finally:
        os._exit(status)


def _models(folder, network, n):
    """Processes save one model and clean up after each other, while another one loads it."""
    home = folder / "models"
    home.mkdir()
    path = home / "m"
    network.save(path)

    def save(i):
        for _ in range(20):
            network.save(path)
            assert load(path).n_samples_seen_ == 2000

    children = []
    for i in range(n):
        child = os.fork()
        if not child:
            failed, *_ = run_forked([i], save)
            os._exit(bool(failed))
        children.append(child)
    failures = [f"process {i}: status {status}" for i, status in enumerate(map(_wait, children)) if status]
    if left := [name for name in _names(home) if name != "m"]:
        failures.append(f"left {left}")
    return Row("concurrency", "processes that save and load one model, 20 times each", 20 * n, failures)


# ---------------------------------------------------------------------------------------------- resources


def _resources(folder, n):
    """Run the command without something that it needs: one line and status 1, or a whole output."""
    home = folder / "resources"
    home.mkdir()
    shutil.copy(folder / "x.npy", home / "x.npy")
    np.savetxt(home / "x.csv", np.load(home / "x.npy")[:3000], delimiter=",")
    os.mkfifo(home / "pipe.csv")
    (home / "occupied").mkdir()

    def limit(kind, value):
        return lambda: resource.setrlimit(kind, (value, value))

    def few_descriptors(more):  # than the attack itself has open, and its children with it
        return limit(resource.RLIMIT_NOFILE, 3 + len(list(Path("/proc/self/fd").iterdir())) + more)

    def closed(*descriptors):
        def close():
            for descriptor in descriptors:
                os.close(descriptor)

        return close

    def full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    file = ["x.npy", "-o", "y.npy"]
    cases = [
        *((["x.npy", "-o", f"y{end}"], limit(resource.RLIMIT_FSIZE, size)) for end in SUFFIXES for size in (0, 5000, 200_000)),
        *(([*file, "--model", "m", "--report", "r"], limit(resource.RLIMIT_FSIZE, size)) for size in (0, 3000, 10_000, 720_000)),
        *((["x.npy", "-o", f"y{suffix}"], few_descriptors(6 + 3 * j)) for j, suffix in enumerate(SUFFIXES)),
        *((["x.csv", "-o", f"y{suffix}"], few_descriptors(j)) for j, suffix in enumerate(SUFFIXES)),
        (["-"], closed(0)), (file, closed(0)), (file, closed(0, 1)), (["x.npy", "-o", "-"], full), (["x.csv", "--follow"], full),
        (["pipe.csv"], closed()), (["x.npy", "-o", "occupied", "--force"], closed()), (["x.npy", "-o", "no/y.npy"], closed()),
        (["x.npy", "-o", "occupied/../x.npy", "--force"], closed()), (["x.npy", "-o", "y.npy", "--report", "y.npy"], closed()),
        (["/dev/zero"], closed()), (["x.npy", "-o", "/proc/y.npy"], closed()), (["x.npy", "-o", "y" * 300 + ".npy"], closed()),
        (["x.npy", "--sources", "1000000000"], closed()),
    ]  # fmt: skip
    failures, before = [], _names(home)
    kept = (home / "x.npy").read_bytes()
    chosen = cases[:: max(1, len(cases) // n)]
    for arguments, prepare in chosen:
        status, said = _wait(_start([*arguments, "-q"], home, prepare)), _said(home)
        lines = [line for line in said.splitlines() if line.startswith(("Error", "Traceback"))]
        if "Too many open files" in said:  # then a hidden folder may remain, which the next run removes
            _remove_partials(home)
        made = [name for name in _names(home) if name not in before]
        problem = None
        if status not in (0, 1):
            problem = f"status {status}: {said[-400:]}"
        elif (
            status == 1
            and (made or len(lines) != 1 or not lines[0].startswith("Error: "))
            and "--model" not in arguments
        ):
            problem = f"left {made}, said {said[-200:]}"
        elif any(name.endswith(".part") for name in made) or (home / "x.npy").read_bytes() != kept:
            problem = f"left {made}, or changed its input"
        failures += [f"{' '.join(arguments)[:80]}: {problem}"] if problem else []
        for name in made:
            shutil.rmtree(home / name) if (home / name).is_dir() else (home / name).unlink()
    return Row("resources", "limits of files and descriptors, closed streams, bad places", len(chosen), failures)
