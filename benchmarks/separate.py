"""`bionica separate` on a .npy file larger than memory should be, and on a slow pipe.

python benchmarks/separate.py                 5 GB in a temporary folder: peak resident memory, time, error
python benchmarks/separate.py --gigabytes 1   less
python benchmarks/separate.py --write         and writes benchmarks/results/separate.md; make bench WRITE=1 does so too
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bionica.metrics import permutation_error

COMMAND = [sys.executable, "-m", "bionica", "separate"]
MIXTURES, SOURCES = 10, 3
LIMIT_MB, LIMIT_MS = 500, 50


def make(path, gigabytes, seed=0):
    """Write mixtures block by block; return their number and the sources of the first and the last 100,000."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((MIXTURES, SOURCES))
    n, block = int(gigabytes * 1e9 / (8 * MIXTURES)), 500_000
    kept = []
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (n, MIXTURES)}
        )  # fmt: skip
        for start in range(0, n, block):
            S = rng.standard_exponential((min(block, n - start), SOURCES))
            file.write((S @ A.T).tobytes())
            if start == 0:
                kept.append(S[:100_000])
        kept.append(S[-100_000:])
    return n, kept


def run(folder, arguments):
    """Return seconds, peak resident MB and the summary of one process."""
    started = time.perf_counter()
    with subprocess.Popen([*COMMAND, *arguments, "--json"], cwd=folder, stdout=subprocess.PIPE) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bionica separate ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_maxrss / 1000, json.loads(out)


def large_file(gigabytes, folder):
    path = Path(folder, "x.npy")
    n, (first, last) = make(path, gigabytes)
    seconds, peak, found = run(folder, ["x.npy", "--sources", str(SOURCES), "--model", "m.bionica", "-o", "y.npy"])
    Y = np.load(Path(folder, "y.npy"), mmap_mode="r")
    error = max(permutation_error(first, Y[: len(first)]), permutation_error(last, Y[-len(last) :]))
    verdict = "met" if peak < LIMIT_MB else "MISSED"
    return [
        "| file | samples x mixtures | sources | seconds | samples/s | peak resident MB | target | error | fit judged right |",
        "|---|---|---|---|---|---|---|---|---|",
        f"| .npy, {path.stat().st_size / 1e9:.1f} GB | {n:,} x {MIXTURES} | {SOURCES} | {seconds:.0f} | {n / seconds:,.0f} "
        f"| {peak:.0f} | < {LIMIT_MB}: {verdict} | {error:.1g} | {found['ok']} |",
    ]


def slow_pipe(arguments, lines=2000):
    """Return ms from sending each line to having its answer, a line every 5 ms."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(lines, SOURCES)) @ rng.standard_normal((SOURCES, 5))
    waits = []
    command = [*COMMAND, "-", "--sources", "3", *arguments]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1, bufsize=0, cwd=folder) as process,
    ):
        while not process.stderr.readline().startswith(b"Reading"):  # it may compile first
            pass
        due = time.perf_counter()
        for row in X:
            due = max(due + 0.005, time.perf_counter())
            time.sleep(due - time.perf_counter() if due > time.perf_counter() else 0)
            sent = time.perf_counter()
            process.stdin.write((",".join(map(repr, row.tolist())) + "\n").encode())
            process.stdout.readline()
            waits.append(1000 * (time.perf_counter() - sent))
        process.communicate()
    return waits


def slow_pipes():
    table = [
        "| pipe, 2000 lines of 5 mixtures, one every 5 ms | median ms to the answer | 99 % | longest | target |",
        "|---|---|---|---|---|",
    ]
    for what, arguments in {
        "no model": [],
        "--model, saved twice a second": ["--model", "m", "--checkpoint", "0.5"],
        "--model, saved all the time": ["--model", "m", "--checkpoint", "0"],
    }.items():
        waits = slow_pipe(arguments)
        verdict = "met" if max(waits) < LIMIT_MS else "MISSED"
        table.append(
            f"| {what} | {np.median(waits):.2f} | {np.quantile(waits, 0.99):.2f} | {max(waits):.2f} "
            f"| < {LIMIT_MS}: {verdict} |"
        )
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--folder", help="where to put the file; a temporary folder by default")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/separate.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        tables = [*slow_pipes(), "", *large_file(args.gigabytes, folder)]
    machine = (
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, {platform.processor() or platform.machine()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}"
    )
    said = [
        f"`python benchmarks/separate.py`, {machine}.",
        "Other work ran on the machine at the same time; waits for a core are in the figures.",
    ]
    text = "\n".join(["# `bionica separate`", "", *said, "", *tables, ""])
    print(text)
    if args.write:
        path = Path(__file__).parent / "results" / "separate.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
