"""Many tries in forked processes: a crash, a hang or a lack of memory is the failure of its try, and the next tries go on."""

import os
import resource
import select
import signal
import time
import traceback
from pathlib import Path

#: Bytes of address space that a try may take beside what the process has already.
ROOM = 4 * 2**30


def run_forked(tries, attempt, timeout=20.0):
    """Call `attempt(i)` for each of `tries` in forked processes; it returns None, or what went wrong.

    Returns the failures, the peak memory in MB and the seconds of the slowest try.
    """
    failures, peak, slowest = [], 0.0, 0.0
    tries = list(tries)
    while tries:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _serve(tries, attempt, writer)
        os.close(writer)
        done, took, ended = _follow(reader, tries, failures, timeout)
        slowest = max(slowest, took)
        if ended == "hangs":
            os.kill(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        peak = max(peak, usage.ru_maxrss / 1024)
        if done < len(tries):
            how = f"hangs for {timeout:.0f} s" if ended == "hangs" else f"the process died (status {status})"
            failures.append(f"try {tries[done]}: {how}")
        tries = tries[done + 1 :]
    return failures, peak, slowest


def _serve(tries, attempt, writer):
    """Run tries in a child and write a line for each."""
    address_space = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (address_space + ROOM,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        for i in tries:
            started = time.perf_counter()
            try:
                wrong = attempt(i)
            except BaseException as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                wrong = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
            line = f"{time.perf_counter() - started:.3f} {' '.join((wrong or '').split())[:300]}\n"
            os.write(writer, line.encode(errors="replace"))
    finally:
        os._exit(0)


def _follow(reader, tries, failures, timeout):
    """Read the lines of a child; return how many tries it did, the slowest, and how it ended."""
    done, slowest, rest = 0, 0.0, b""
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while done < len(tries):
            if not select.select([pipe], [], [], timeout)[0]:
                return done, slowest, "hangs"
            chunk = pipe.read(65536)
            if not chunk:
                return done, slowest, "died"
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                seconds, _, wrong = line.decode(errors="replace").partition(" ")
                slowest = max(slowest, float(seconds))
                if wrong:
                    failures.append(f"try {tries[done]}: {wrong}")
                done += 1
    return done, slowest, "done"
