"""Wide inputs: blocks of samples beside the sequential loop, in one process; memory at a million mixtures.

make bench            prints the tables
make bench WRITE=1    and writes them to benchmarks/results/wide.md
"""

import argparse
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import bionica
from bionica.engines import blocks as wide

K, D, N, REPEATS, TARGET = 20_000, 100, 1000, 5, 8
PAPER = {"precondition": None, "average": False, "init": "random", "eta0": 1e-3}
NETWORKS = {
    "TwoCompartmentNICA, the paper's rule": (bionica.TwoCompartmentNICA, PAPER),
    "the same, averaged weights": (bionica.TwoCompartmentNICA, {**PAPER, "average": True}),
    "InterneuronNICA, the paper's rule": (bionica.InterneuronNICA, PAPER),
    "the same, averaged weights ": (bionica.InterneuronNICA, {**PAPER, "average": True}),
    "TwoCompartmentNICA, natural": (bionica.TwoCompartmentNICA, {}),
    "InterneuronNICA, natural": (bionica.InterneuronNICA, {}),
    "TwoLayerNSM": (bionica.TwoLayerNSM, {"eta0": 1e-3, "whitening_eta0": 1e-3}),
    "NonnegativePCA, offline whitening": (bionica.NonnegativePCA, {}),
}
INPUTS = wide.INPUTS

MEMORY = """
import resource, sys
import numpy as np
import bionica
k, d, n, name = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
params = {"precondition": None, "average": False, "init": "random", "eta0": 1e-3} if name == "paper" else {}
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
rng = np.random.default_rng(0)
A = rng.standard_normal((d, k)) / np.sqrt(k)
X = np.empty((n, k))
network = bionica.TwoCompartmentNICA(d, random_state=0, **params)
bionica.TwoCompartmentNICA(2, random_state=0, **params).partial_fit(rng.exponential(size=(200, 2)))
X[:] = 0
before = peak()
for _ in range(4):
    np.matmul(rng.exponential(size=(n, d)), A, out=X)
    network.partial_fit(X)
print(peak() - before)
"""


def problem(n, k, d, seed=0):
    rng = np.random.default_rng(seed)
    S = bionica.datasets.sparse_uniform(n, d, rng=rng)
    return S @ np.linalg.qr(rng.standard_normal((k, d)))[0].T + 1e-3 * rng.standard_normal((n, k))


def times(network, X, n_sequential):
    """us a sample, sequential and in blocks, interleaved: the machine's moods meet both alike."""
    found = {"sequential": [], "blocks": []}
    for _ in range(REPEATS):
        for form, rows in (("sequential", X[:n_sequential]), ("blocks", X)):
            wide.INPUTS = 10**9 if form == "sequential" else 1
            start = time.perf_counter()
            network.partial_fit(rows)
            found[form].append((time.perf_counter() - start) / len(rows) * 1e6)
    wide.INPUTS = INPUTS
    return min(found["sequential"]), min(found["blocks"])


def speed_table():
    X = problem(N, K, D)
    lines = [
        "| network | sequential, us a sample | blocks, us a sample | times faster | target |",
        "|---|---|---|---|---|",
    ]
    for name, (Network, params) in NETWORKS.items():
        network = Network(D, random_state=0, **params).fit(X)
        slow, fast = times(network, X, 100)
        verdict = f">= {TARGET}: {'met' if slow / fast >= TARGET else 'MISSED'}"
        lines.append(f"| {name} | {slow:,.0f} | {fast:,.0f} | {slow / fast:.1f} | {verdict} |")
    return lines


def crossing_table():
    widths = (250, 500, 1000, 2000, 8000)
    lines = ["| d | " + " | ".join(f"k = {k}" for k in widths) + " |", "|---|" + "---|" * len(widths)]
    for d in (2, 10, 30, 100):
        row = []
        for k in widths:
            X = problem(600, k, d)
            network = bionica.TwoCompartmentNICA(d, random_state=0, **PAPER).fit(X)
            slow, fast = times(network, X, len(X))
            row.append(f"{slow / fast:.1f}")
        lines.append(f"| {d} | " + " | ".join(row) + " |")
    return lines


def memory_table(k=10**6, d=10):
    n = wide.rows(k, d, 8)
    W, block = 8 * k * d / 1e6, 8 * k * n / 1e6
    lines = ["| rule | W, MB | one block, MB | peak beyond the user's own block, MB |", "|---|---|---|---|"]
    for name in ("paper", "natural"):
        command = [sys.executable, "-c", MEMORY, str(k), str(d), str(n), name]
        peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e6
        lines.append(f"| {name} | {W:.0f} | {block:.0f} ({n} samples) | {peak:.0f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/wide.md")
    args = parser.parse_args()
    wide.SYNAPSES = 0
    text = [
        "# Wide inputs",
        "",
        f"`make bench`, best of {REPEATS}, {platform.processor() or platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, BLAS threads: {max(pool['num_threads'] for pool in threadpool_info())}. Guards on, learning on.",
        "",
        f"k = {K:,} mixtures, d = {D}: blocks of {wide.rows(K, D, 8)} samples beside the sequential loop.",
        "",
        *speed_table(),
        "",
        "Where blocks pay: how many times faster they are, Algorithm 2 by the paper's rule.",
        "",
        *crossing_table(),
        "",
        "A million mixtures, d = 10, four calls of `partial_fit` with a block each. The weights are there twice while a call",
        "runs: what was before it comes back if it fails. A natural network first collects samples (256 MB of them, but 4 d + 20",
        "at least: 480 MB here), in one place.",
        "",
        *memory_table(),
    ]
    print("\n".join(text))
    if args.write:
        (Path(__file__).parent / "results" / "wide.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
