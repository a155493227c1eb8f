"""ns a sample of every network, beside the line-by-line NumPy + quadprog version in the same process; start-up times.

make bench            prints the tables
make bench WRITE=1    and writes them to benchmarks/results/speed.md
"""

import argparse
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import bionica
import naive
from bionica.schedules import learning_rates

SIZES = {3: (400_000, 4000), 10: (100_000, 3000), 50: (4000, 300)}
TARGETS = {("TwoCompartmentNICA", 3): 200, ("TwoCompartmentNICA", 10): 30}
REPEATS = 5


def problem(n, d, seed=0):
    rng = np.random.default_rng(seed)
    S = bionica.datasets.sparse_uniform(n, d, rng=rng)
    return S @ np.linalg.qr(rng.standard_normal((d, d)))[0].T


def best(function, repeats=REPEATS):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def naive_run(name, X, d):
    eye, W = np.eye(d), np.linalg.qr(np.random.default_rng(1).standard_normal((d, d)))[0]
    rates, zetas = learning_rates(0.01, 1e-3, 1.0, 0, len(X)), learning_rates(0.01, 0.01, 1.0, 0, len(X))
    if name == "InterneuronNICA":
        guards = ("silent", "row", "spectrum")
        return lambda: naive.interneuron(X, {"W_xy": W, "W_yn": eye, "W_ny": eye}, rates, guards=guards)
    if name == "TwoCompartmentNICA":
        return lambda: naive.two_compartment(X, {"W_xz": W, "W_zz": eye}, rates, tau=0.8, guards=("silent", "spectrum"))
    if name == "TwoLayerNSM":
        weights = {"W_xh": W, "W_hg": eye, "W_hy": W, "W_yy": eye}
        return lambda: naive.two_layer_nsm(X, weights, rates, zetas, guards=("silent",))
    return lambda: naive.nonnegative_pca(X, {"W": W}, rates, F=eye, guards=("silent",))


def speed_table():
    lines = [
        "| network | d | the paper's rule, ns a sample | NumPy + quadprog, ns a sample | times faster | target | at defaults, ns |",
        "|---|---|---|---|---|---|---|",
    ]
    for d, (n, n_naive) in SIZES.items():
        X = problem(n, d)
        for Network in (
            bionica.TwoCompartmentNICA, bionica.InterneuronNICA, bionica.TwoLayerNSM, bionica.NonnegativePCA,
        ):  # fmt: skip
            name = Network.__name__
            single_layer = name in ("TwoCompartmentNICA", "InterneuronNICA")
            published = {"precondition": None, "average": False, "init": "random"} if single_layer else {}
            network = Network(d, eta0=0.01, decay=1e-3, random_state=0, **published).fit(X)
            ours = best(lambda: network.partial_fit(X)) / n * 1e9  # noqa: B023
            natural = ""
            if single_layer:
                network = Network(d, random_state=0).fit(X)
                natural = f"{best(lambda: network.partial_fit(X)) / n * 1e9:,.0f}"  # noqa: B023
            slow = best(naive_run(name, X[:n_naive], d), 2) / n_naive * 1e9
            target = TARGETS.get((name, d))
            verdict = "" if target is None else f">= {target}: {'met' if slow / ours >= target else 'MISSED'}"
            lines.append(f"| {name} | {d} | {ours:,.0f} | {slow:,.0f} | {slow / ours:,.0f} | {verdict} | {natural} |")
    return lines


def start_up_table():
    def seconds(code):
        timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
        runs = [
            subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True) for _ in range(5)
        ]
        return min(float(run.stdout) for run in runs)

    first_call = (
        "import numpy as np; X = np.random.default_rng(0).exponential(size=(100, 3)); "
        "from bionica import TwoCompartmentNICA; t = time.perf_counter(); TwoCompartmentNICA(3, random_state=0).fit(X)"
    )
    rows = {
        "import bionica": ("import bionica", 0.6),
        "from sklearn.base import BaseEstimator": ("from sklearn.base import BaseEstimator", None),
        "from bionica import TwoCompartmentNICA": ("from bionica import TwoCompartmentNICA", None),
        "first fit, cache on disk": (first_call, 1.5),
    }
    lines = ["| what | seconds | target |", "|---|---|---|"]
    for what, (code, target) in rows.items():
        value = seconds(code)
        verdict = "" if target is None else f"< {target}: {'met' if value < target else 'MISSED'}"
        lines.append(f"| {what} | {value:.2f} | {verdict} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/speed.md")
    args = parser.parse_args()
    text = [
        "# Speed",
        "",
        f"`make bench`, one thread, best of {REPEATS}, {platform.processor() or platform.machine()}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "Guards on, learning on; the NumPy + quadprog version is tests/naive.py.",
        "",
        *speed_table(),
        "",
        *start_up_table(),
    ]
    print("\n".join(text))
    if args.write:
        path = Path(__file__).parent / "results" / "speed.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
