"""BatchNICA on a Dask array larger than the memory it may take, and what blocks cost beside the same array in memory.

python benchmarks/dask_memory.py                 4 GB, made block by block whenever it is read: peak resident memory, time, error
python benchmarks/dask_memory.py --gigabytes 1   less
python benchmarks/dask_memory.py --write         and writes benchmarks/results/dask.md
"""

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np

from bionica import BatchNICA
from bionica.metrics import permutation_error

MIXTURES, SOURCES, LIMIT_MB = 10, 5, 1000
RESULTS = Path(__file__).parent / "results" / "dask.md"


def large(gigabytes):
    """One row of the first table; runs in a process of its own, whose peak memory it reports."""
    n, rows = int(gigabytes * 1e9 / (8 * MIXTURES)), 300_000
    S = da.random.default_rng(0).standard_exponential((n, SOURCES), chunks=(rows, SOURCES))
    X = S @ np.random.default_rng(1).standard_normal((SOURCES, MIXTURES))
    passes = []

    def counted(block, block_info=None):
        passes.append(block_info[0]["chunk-location"][0] == 0)
        return block

    nica = BatchNICA(SOURCES, random_state=0)
    start = time.perf_counter()
    nica.fit(X.map_blocks(counted, dtype=X.dtype, meta=np.empty((0, 0))))
    seconds = time.perf_counter() - start
    error = permutation_error(S[:100_000].compute(), nica.transform(X[:100_000]).compute())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    verdict = "met" if peak < LIMIT_MB else "MISSED"
    return (
        f"| {X.nbytes / 1e9:.1f} GB, blocks of {X.blocks[0].nbytes / 1e6:.0f} MB | {n:,} x {MIXTURES} | {SOURCES} | {sum(passes)} "
        f"| {seconds:.0f} | {peak:.0f} | < {LIMIT_MB}: {verdict} | {error:.1g} |"
    )


def beside_memory(n=1_000_000, repeat=3):
    """The same rows in memory and as blocks of it: time, and how far the results are apart."""
    rng = np.random.default_rng(0)
    X = rng.standard_exponential((n, SOURCES)) @ rng.standard_normal((SOURCES, MIXTURES))
    yield "| array | seconds | of the time in memory | largest difference of components_ |"
    yield "|---|---|---|---|"
    kinds = {"in memory": X} | {
        f"blocks of {rows:,} rows": da.from_array(X, chunks=(rows, -1)) for rows in (13_107, 100_000)
    }
    first = None
    for name, data in kinds.items():
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            nica = BatchNICA(SOURCES, random_state=0).fit(data)
            times.append(time.perf_counter() - start)
        first = first or (min(times), nica.components_)
        yield f"| {name} | {min(times):.2f} | {min(times) / first[0]:.1f} | {np.abs(nica.components_ - first[1]).max():.1g} |"


def report(gigabytes):
    yield "# BatchNICA on Dask arrays, measured"
    yield ""
    yield "Printed by `python benchmarks/dask_memory.py`."
    yield f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__},"
    yield f"Dask {dask.__version__}, its threads. The machine was shared: read times as ratios within a table."
    yield from ("", "## An array that is never in memory", "", "Blocks are drawn again in every pass.", "")
    yield "| array | samples x mixtures | sources | passes | seconds | peak resident MB | target | error |"
    yield "|---|---|---|---|---|---|---|---|"
    command = [sys.executable, __file__, "--large", str(gigabytes)]
    yield subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    yield from ("", "## Beside the array in memory", "")
    yield from beside_memory()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--large", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.large:
        print(large(options.large))
        return
    lines = []
    for line in report(options.gigabytes):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        RESULTS.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
