"""A running sweep that is killed at random moments, also within a case that does not settle.

SIGTERM and SIGINT must end it within 5 s, no process may be left, and the sweep that goes on from there must give the table of one
that was never interrupted.
"""

import contextlib
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from attacks import Row
from attacks.forked import run_forked
from attacks.journals import _rows
from bionica import sweep
from bionica.cli import app

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
#: Seconds that a signal may take to end a sweep, and that workers may live on after their parent was killed.
MOST_SECONDS = 5.0
PLAN = """
seeds = 8
times = 3
[[data]]
kind = "sparse_uniform"
d = 3
T = 100_000
[[network]]
name = "TwoCompartmentNICA"
published = "d3"
grid = { tau = [0.5, 0.8] }
"""
#: A sample of this network takes 0.03 s, all of them an hour.
STUCK = """
[[network]]
name = "TwoCompartmentNICA"
label = "stuck"
published = "d3"
params = { dynamics = "gradient", gamma = 1e-12, settle_steps = 1_000_000 }
"""


def attack(seed, scale=1.0):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan, stuck = folder / "plan.toml", folder / "stuck.toml"
        plan.write_text(PLAN)
        stuck.write_text(PLAN + STUCK)
        clean = _rows(sweep.run(plan, n_jobs=1, device="cpu"))

        def killed(i, path, jobs):
            rng = random.Random(f"{seed} {path.stem} {jobs} {i}")
            with tempfile.TemporaryDirectory(dir=folder) as output:
                wrong = _kill(path, Path(output), jobs, SIGNALS[i % 3], rng)
                if wrong is None and _rows(sweep.run(plan, output, n_jobs=1, device="cpu")) != clean:
                    wrong = "another table after going on"
                return wrong and f"{SIGNALS[i % 3].name}: {wrong}"

        rows = []
        for what, path, jobs, count in (
            ("kills of a sweep in 1 process", plan, 1, 24),
            ("kills of a sweep in 2 processes", plan, 2, 9),
            ("kills within a case that does not settle, 1 process", stuck, 1, 6),
            ("kills within a case that does not settle, 2 processes", stuck, 2, 3),
        ):
            n = round(count * scale) or (jobs == 1)  # starting processes takes too long for a smoke test
            attempt = lambda i, path=path, jobs=jobs: killed(i, path, jobs)  # noqa: E731
            rows.append(Row("sweep kills", what, n, *run_forked(range(n), attempt, timeout=90)))
        return rows


def _kill(path, output, jobs, how, rng):
    """Start a sweep, send it a signal at some moment, and return what is wrong with its end."""
    child = os.fork()
    if child == 0:
        _command(path, output, jobs)
    lines = rng.randrange(4) if path.stem == "stuck" and jobs == 1 else rng.randrange(16)
    longest = time.monotonic() + (2 if jobs == 1 else 8)
    while _lines(output) < min(lines, 1 if path.stem == "stuck" else 16) and time.monotonic() < longest:
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 0.3))
    sent = time.monotonic()
    os.kill(child, how)
    status = None
    while status is None and time.monotonic() < sent + 2 * MOST_SECONDS:
        ended, found = os.waitpid(child, os.WNOHANG)
        status = found if ended else None
        time.sleep(0.005)
    seconds = time.monotonic() - sent
    while _exists(child) and time.monotonic() < sent + 2 * MOST_SECONDS and status is not None:
        time.sleep(0.02)
    left = _exists(child)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    said = (output / "said.txt").read_text(errors="replace") if (output / "said.txt").exists() else ""
    if status is None:
        os.waitpid(child, 0)
        return f"runs on for {seconds:.0f} s"
    if seconds > MOST_SECONDS:
        return f"ended after {seconds:.1f} s"
    if left:
        return "left processes behind"
    return f"said {said[-200:]!r}" if "Traceback" in said else None


def _command(path, output, jobs):
    """Run the command in this process, which leads a group of its own, and leave it."""
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        handle = os.open(output / "said.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        app(["sweep", str(path), "-o", str(output), "--jobs", str(jobs), "--device", "cpu"])
    except SystemExit as end:
        status = int(end.code or 0)
    except KeyboardInterrupt:  # before the command began
        status = 130
    finally:
        os._exit(status)


def _lines(output):
    journal = output / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def _exists(group):
    """Whether a process of this group is alive."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
