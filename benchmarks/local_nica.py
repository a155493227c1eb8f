"""LocalNICA on random mixing matrices: the tables of docs/local-nica.md.

    python benchmarks/local_nica.py --seed 700000                      all tables
    python benchmarks/local_nica.py problems map photographs time      some; another is theory

Every problem has its own sources, mixing matrix and initial weights. One pass of
100,000 samples unless said; 5,000 others are separated with averaged weights. A problem
is solved if the error, the mean of |s - P y|^2 / d, is below .05. Wilson intervals.
"""

import argparse
import inspect
import math
import warnings

import numpy as np
from scipy.signal import lfilter
from scipy.stats import binomtest

import bionica
from bionica import LocalNICA
from bionica.datasets import natural_images, random_mixing
from bionica.metrics import permutation_error, sinr

T = 100_000
NETWORK = [LocalNICA]  # --network
KINDS = {
    "sparse uniform": (
        lambda rng, shape: rng.uniform(0, 3.1, shape) * (rng.random(shape) < 0.5)
    ),
    "exponential": lambda rng, shape: rng.exponential(size=shape),
    "half-normal": lambda rng, shape: np.abs(rng.standard_normal(shape)),
}


def interval(solved, n):
    """As text: solved of n, and the Wilson interval of the share in percent."""
    low, high = binomtest(solved, n).proportion_ci(method="wilson")
    return f"{solved} of {n} ({100 * low:.0f} to {100 * high:.0f} %)"


def error(kind, d, A, rng, seed):
    """Of one problem."""
    S = KINDS[kind](rng, (T + 5000, d))
    S /= S.std(axis=0)
    X = S @ A.T
    return permutation_error(
        S[T:], NETWORK[0](d, random_state=seed).partial_fit(X[:T]).transform(X[T:])
    )


def problems(seed, matrices):
    """Gaussian mixing matrices, three kinds of sources, three sizes, four seeds each."""
    errors = []
    for kind in KINDS:
        own = []
        for d, k in ((3, 3), (3, 6), (10, 10)):
            for i in range(4):
                rng = np.random.default_rng([seed, i, d, k])
                own.append(error(kind, d, rng.standard_normal((k, d)), rng, i))
        print(
            f"- {kind}: {np.sum(np.array(own) < 0.05)} of 12, median"
            f" {np.median(own):.4f}",
            flush=True,
        )
        errors += own
    print("- all:", interval(int(np.sum(np.array(errors) < 0.05)), 36), flush=True)


def cells(seed, matrices, kind, sizes, conditions):
    """Rows of a table: solved and median error by condition number, and all of them."""
    if kind == "sparse uniform":
        names = [f"{T:,} samples", *(f"condition {c}" for c in conditions), "all"]
        print(f"\n| {' | '.join(names)} |\n|{'---|' * len(names)}")
    for d in sizes:
        row = []
        total = 0
        for condition in conditions:
            errors = []
            for i in range(matrices):
                rng = np.random.default_rng([seed, i, d, condition, T])
                A = random_mixing(d, d, condition, rng=rng)
                errors.append(error(kind, d, A, rng, i))
            solved = int(np.sum(np.array(errors) < 0.05))
            total += solved
            row.append(f"{solved}/{matrices} {np.median(errors):.4f}")
        print(
            f"| {kind}, d = {d} | {' | '.join(row)} |"
            f" {interval(total, matrices * len(conditions))} |",
            flush=True,
        )


def mixing_map(seed, matrices):
    """By condition number 10, 30, 100: solved, median error."""
    cells(seed, matrices, "sparse uniform", (2, 3, 5, 10), (10, 30, 100))
    cells(seed, matrices, "exponential", (3, 5, 10), (10, 30, 100))
    cells(seed, matrices, "half-normal", (3, 5, 10), (10, 30, 100))
    cells(seed, matrices, "sparse uniform", (20,), (100,))


def photographs(seed, matrices):
    """Twelve Gaussian 3 x 3 matrices, pixels in random order, one pass."""
    sources = natural_images()
    errors = []
    for i in range(12):
        rng = np.random.default_rng([seed, i])
        S = sources[rng.permutation(len(sources))]
        X = S @ rng.standard_normal((3, 3)).T
        errors.append(
            permutation_error(
                S, NETWORK[0](3, random_state=i).partial_fit(X).transform(X)
            )
        )
    print(
        f"- photographs: median {np.median(errors):.3f},"
        f" {np.sum(np.array(errors) < 0.1)} of 12 below .1",
        flush=True,
    )
    print("- sorted:", np.sort(errors).round(3), flush=True)


def alike_in_time(seed, matrices):
    """Rectified AR(1) sources, d = 3, Gaussian matrices: SINR in dB, and the condition
    numbers of matrices below 25 dB.
    """
    for tau, n in ((0, T), (10, T), (100, T), (100, 10 * T)):
        scores = []
        for i in range(matrices):
            rng = np.random.default_rng([seed, i, tau, n])
            noise = rng.standard_normal((n + 20_000 + 10 * tau, 3))
            S = np.maximum(
                lfilter([1], [1, -math.exp(-1 / tau)] if tau else [1], noise, axis=0)[
                    10 * tau :
                ],
                0,
            )
            A = rng.standard_normal((3, 3))
            X = S / S.std(axis=0) @ A.T
            Y = NETWORK[0](3, random_state=i).partial_fit(X[:n]).transform(X[n:])
            scores.append((sinr(S[n:], Y), np.linalg.cond(A)))
        values = np.sort([score for score, _ in scores]).round(1)
        low = [
            f"{score:.0f} dB at condition {condition:.0f}"
            for score, condition in scores
            if score < 25
        ]
        print(
            f"- time constant {tau}, T = {n:.0e}: {values}; {', '.join(low)}",
            flush=True,
        )


def theory(seed, matrices):
    """A symmetric perturbation of the solution, .1 of a mode, every 2,000 samples:
    linear theory, and the mean of 8 streams.

    The sources are uniform from 1.3 on: nothing is silent, so that only the first term
    of eq. 2 acts. r is constant, 1/530.
    """
    n = 24_000
    r = 1 / 530
    m = 0.06 / 530
    A = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0] * [
        1,
        0.3,
        0.1,
    ]
    # sources have mean 3 and variance 1
    power = (A**2).sum(axis=1) + (3 * A.sum(axis=1)) ** 2
    modes, V = np.linalg.eigh(A.T / (3 * power) @ A)
    for mode, v in zip(modes, V.T, strict=True):
        w = 0.1
        u = 0.0
        e = 0.0
        expected = []
        for t in range(n):
            expected += [w] if t % 2000 == 0 else []
            drive = -0.07 * mode * e
            u += m * (12 * drive - u)
            w, e = w + drive + u, e + r * (2 * w - 3 * e)
        print(f"- lambda = {mode:.4f}, theory:   {np.round(expected, 3)}", flush=True)
        measured = np.mean([_decay(A, v, n, seed + i) for i in range(8)], axis=0)
        print(f"- measured: {measured.round(3)}", flush=True)


def _decay(A, v, n, seed):
    """v'(W A - I) v every 2,000 samples, from .1."""
    S = 3 + math.sqrt(12) * (np.random.default_rng(seed).random((n + 300, 3)) - 0.5)
    X = S @ A.T
    sizes = []
    network = LocalNICA(3, horizon=50_000, random_state=0).partial_fit(X[:300])
    state = network._learner.state
    state.W_xz[:] = (np.eye(3) + 0.1 * np.outer(v, v)) @ np.linalg.inv(A)
    state.U[:] = 0
    state.W_zz[:], state.H[:], state.n[:] = np.eye(3), np.eye(3), 50_000
    state.x.mean[:], state.x.variance[:], state.z_bar[:] = (
        X.mean(axis=0),
        X.var(axis=0),
        3,
    )
    for start in range(300, n + 300, 2000):
        sizes.append(v @ (state.W_xz @ A - np.eye(3)) @ v)
        network.partial_fit(X[start : start + 2000])
    return sizes


TABLES = {
    "problems": problems,
    "map": mixing_map,
    "photographs": photographs,
    "time": alike_in_time,
    "theory": theory,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES])
    parser.add_argument("--seed", type=int, default=700_000)
    parser.add_argument("--matrices", type=int, default=10)
    parser.add_argument(
        "--network", default="LocalNICA", help="for the first four tables"
    )
    arguments = parser.parse_args()
    NETWORK[0] = getattr(bionica, arguments.network)
    warnings.simplefilter("ignore")
    for table in arguments.tables or TABLES:
        print(
            f"\n## {table.capitalize()}:"
            f" {arguments.network}\n\n{inspect.getdoc(TABLES[table])}\n",
            flush=True,
        )
        TABLES[table](arguments.seed, arguments.matrices)
