"""Seconds of the first fit of every network in a new process: with an empty Numba cache, and with what this one left.

python benchmarks/first_fit.py                         this checkout
python benchmarks/first_fit.py --src OTHER/src         another checkout beside it, in one table
"""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from common import NETWORKS, parser, report, table

CODE = """
import time, warnings
import numpy as np
import bionica
warnings.simplefilter("ignore")
X = np.random.default_rng(0).exponential(size=(5000, 3))
network = bionica.{name}(3, random_state=0)
start = time.perf_counter()
network.fit(X)
print(time.perf_counter() - start)
"""


def fit_seconds(name, src, cache):
    """Return the seconds of `fit` in a new process that runs the code of `src`."""
    environment = os.environ | {"PYTHONPATH": str(src), "NUMBA_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE.format(name=name)]
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def first_fits(sources, networks=NETWORKS):
    rows = []
    for name in networks:
        row = {"network": name}
        for label, src in sources.items():
            with tempfile.TemporaryDirectory() as cache:
                row[f"{label}: empty cache, s"] = fit_seconds(name, src, cache)
                row[f"{label}: second process, s"] = fit_seconds(name, src, cache)
        rows.append(row)
    note = "At defaults, 5000 x 3 mixtures. Imports are not counted. Every network has an empty cache of its own."
    return table("First fit", note, rows)


def main():
    arguments = parser(__doc__, "first_fit")
    arguments.add_argument("--src", type=Path, help="the src folder of another checkout, measured first")
    args = arguments.parse_args()
    sources = {"before": args.src.resolve()} if args.src else {}
    sources["now"] = Path(__file__).parents[1] / "src"
    options = [f"--src {args.src}"] * bool(args.src)
    report("first_fit", "First fit", options, [partial(first_fits, sources)], args.write)


if __name__ == "__main__":
    main()
