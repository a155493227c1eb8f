"""The tables of `bionica bench`, and how long a start takes.

make bench            prints the tables
make bench WRITE=1    and writes them, with the figure of growth, to benchmarks/results
"""

import argparse
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

from bionica import bench
from bionica.bench.table import verdict
from bionica.cli.bench import LONG, setting, write_results

FIRST_FIT = (
    "import numpy as np; X = np.random.default_rng(0).exponential(size=(100, 3)); "
    "from bionica import TwoCompartmentNICA; t = time.perf_counter(); TwoCompartmentNICA(3, random_state=0).fit(X)"
)
STARTS = {
    "import bionica": ("import bionica", 0.6),
    "from sklearn.base import BaseEstimator": ("from sklearn.base import BaseEstimator", None),
    "from bionica import TwoCompartmentNICA": ("from bionica import TwoCompartmentNICA", None),
    "first fit, cache on disk": (FIRST_FIT, 1.5),
}


def seconds(code):
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True) for _ in range(5)]
    return min(float(run.stdout) for run in runs)


def start_up():
    rows = []
    for what, (code, target) in STARTS.items():
        value = seconds(code)
        rows.append({"what": what, "seconds": value, "target": verdict(value, "<=", target, "s") if target else ""})
    heads = {name: name for name in rows[0]}
    return bench.Table("start", "Start-up", "Each in a process of its own, the best of five.", heads, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--long", action="store_true", help="a stream of 10^9 samples")
    parser.add_argument("--write", action="store_true", help="write speed.md, tables and figure to benchmarks/results")
    args = parser.parse_args()
    sizes = bench.QUICK if args.quick else bench.FULL
    if args.long:
        sizes = replace(sizes, T=LONG)
    warnings.simplefilter("ignore")  # streams too short to learn from are long enough to be timed
    print(f"{setting()}\n")
    tables = []
    for table in (*bench.tables(sizes), start_up()):
        print(table.markdown(), flush=True)
        tables.append(table)
    if args.write:
        folder = Path(__file__).parent / "results"
        folder.mkdir(exist_ok=True)
        write_results(folder, tables, "make bench" + " --quick" * args.quick + " --long" * args.long)


if __name__ == "__main__":
    main()
