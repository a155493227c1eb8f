"""Runs numbered tries in subprocesses, so that a crash, a hang or an exhausted memory is seen and belongs to one try.

A module of tries has ``prepare(folder, seed)``, which returns what the tries share, and ``attempt(shared, kind, index)``, which
returns a `Try`. The worker writes the number of each try to a log before it begins it.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ADDRESS_SPACE = 8 * 2**30
STUCK = 60.0  # seconds without a new try, after the first


class Tally(NamedTuple):
    """Failures, and of the tries that were refused the largest memory in MB and the longest time in seconds."""

    failures: list[str]
    peak_mb: float
    slowest_s: float


class Try(NamedTuple):
    """What failed, as one line, or ""; of an input that was refused, the peak of the memory in MB and the time in seconds."""

    failure: str = ""
    peak_mb: float = 0.0
    seconds: float = 0.0


def run(module: str, kind: str, seed: int, tries: int, folder: Path) -> Tally:
    """Make the tries 0 to `tries` - 1 of a kind; start a new worker behind a try that ends one."""
    failures: list[str] = []
    start, peak, slowest = 0, 0.0, 0.0
    while start < tries:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            log = Path(place, "log")
            log.touch()
            command = [
                sys.executable,
                "-m",
                "attacks.worker",
                module,
                kind,
                str(seed),
                str(start),
                str(tries),
                str(folder),
                log,
            ]
            paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
            errors = Path(place, "errors")
            with errors.open("wb") as said, subprocess.Popen(command, env=environment, stderr=said) as process:
                ended = _watch(process, log, errors)
            lines = [json.loads(line) for line in log.read_text().splitlines()]
        begun = [line["begin"] for line in lines if "begin" in line]
        failures += [f"{kind} {line['failed']}: {line['why']}" for line in lines if "failed" in line]
        for line in lines:
            if "peak_mb" in line:
                peak, slowest = max(peak, line["peak_mb"]), max(slowest, line["slowest_s"])
        if not ended:
            break
        failures.append(f"{kind} {begun[-1] if begun else 'start'}: {ended}")
        start = begun[-1] + 1 if begun else tries
    return Tally(failures, peak, slowest)


def _watch(process: Any, log: Path, errors: Path) -> str:
    """Wait for a worker; return how it ended, if not as it should."""
    size, since = -1, time.monotonic() + STUCK  # the first try may have to compile
    while process.poll() is None:
        time.sleep(0.05)
        if log.stat().st_size != size:
            size, since = log.stat().st_size, max(since, time.monotonic())
        elif time.monotonic() > since + STUCK:
            process.kill()
            process.wait()
            return f"hung for {STUCK:.0f} s"
    if process.returncode == 0:
        return ""
    last = errors.read_text(errors="replace").strip().splitlines()[-1:]
    return f"the process ended with {process.returncode}: {' '.join(last)[:200]}"


def forget_peak() -> None:
    """Reset the peak memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float:
    """Return the peak of this process's memory in MB since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main(module: str, kind: str, seed: str, start: str, stop: str, folder: str, log: str) -> None:
    """Make tries and log them."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tries = import_module(f"attacks.{module}")
    shared = tries.prepare(Path(folder), int(seed))
    with open(log, "a", buffering=1) as file:  # noqa: PTH123
        peak = slowest = 0.0
        for index in range(int(start), int(stop)):
            print(json.dumps({"begin": index}), file=file)
            tried = tries.attempt(shared, kind, index)
            peak, slowest = max(peak, tried.peak_mb), max(slowest, tried.seconds)
            if tried.failure:
                print(json.dumps({"failed": index, "why": tried.failure}), file=file)
        print(json.dumps({"peak_mb": peak, "slowest_s": slowest}), file=file)


if __name__ == "__main__":
    main(*sys.argv[1:])
