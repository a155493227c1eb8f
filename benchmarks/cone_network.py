"""ConeNetwork beside knowing the mixing matrix: dB lost on random mixing matrices, with each whitening.

    python benchmarks/cone_network.py --seed 1000      the tables of docs/cone-network.md

Every problem has its own sources, mixing matrix (standard normal, k = 2 d) and noise (30 dB below the mixtures unless said). One
pass with default parameters. Scores are the centred SINR in dB, the mean over the sources.
"""

import argparse
import warnings

import numpy as np
from scipy.special import ndtr
from scipy.stats import t as student

from bionica import BatchNICA, ConeNetwork
from bionica.metrics import sinr


def sources(kind, d, rho, n, rng):
    """Draw n samples of d sources."""
    if kind == "Dirichlet .5":
        return rng.dirichlet(np.full(d, 0.5), n)
    if kind == "sparse uniform":
        return rng.random((n, d)) * (rng.random((n, d)) < 0.5)
    G = np.sqrt(1 - rho) * rng.standard_normal((n, d)) + np.sqrt(rho) * rng.standard_normal((n, 1))
    if kind == "uniform, t copula":
        return student.cdf(G / np.sqrt(rng.chisquare(4, (n, 1)) / 4), 4)
    U = ndtr(G)
    return U if kind == "uniform" else -np.log1p(-U)


def mixtures(S, rng, noise=30.0):
    """Mix the sources; returns mixtures and mixing matrix (d, k)."""
    A = rng.standard_normal((S.shape[1], 2 * S.shape[1]))
    X = S @ A
    return (X if noise is None else X + rng.standard_normal(X.shape) * X.std() * 10 ** (-noise / 20)), A


def score(S, Y, n=20_000):
    """The mean SINR of the last n samples, centred."""
    S, Y = (A[-n:] - A[-n:].mean(axis=0) for A in (S, Y))
    return float(np.mean(sinr(S, Y, per_source=True)))


def median_and_worst(values):
    """For a cell of the table."""
    return f"{np.median(values):5.1f} / {np.min(values):5.1f}"


def one_pass(kind, d, rho, noise, arguments):
    """A row: the score with the true A; dB below it, or the score without noise; that of BatchNICA."""
    known, ours, nica = [], [], []
    for seed in range(arguments.matrices):
        rng = np.random.default_rng([arguments.seed, seed, d, int(10 * rho)])
        S = sources(kind, d, rho, 300_000 if d == 10 else 100_000, rng)
        X, A = mixtures(S, rng, noise)
        best = score(S, np.maximum(X[-20_000:] @ np.linalg.pinv(A), 0)) if noise else 0.0
        known.append(best)
        ours.append(score(S, ConeNetwork(d, random_state=seed).partial_fit(X).transform(X[-20_000:])) - best)
        if seed < arguments.nica:
            nica.append(score(S, BatchNICA(d, random_state=0).fit(X[:50_000]).transform(X[-20_000:])))
    cells = [f"{kind}, d = {d}", f"{rho:g}", f"{np.median(known):.1f}" if noise else "no noise", median_and_worst(ours)]
    print(
        "| " + " | ".join([*cells, f"{np.median(nica):.1f}" if nica else "-", str(arguments.matrices)]) + " |",
        flush=True,
    )


def whitenings(arguments):
    """Each value of `whiten`; without a whitening the network is strictly local."""
    print("\n| whiten | above 12 dB | median / worst |\n|---|---|---|")
    for whiten in (False, "online", "offline"):
        scores = []
        for seed in range(arguments.matrices):
            rng = np.random.default_rng([arguments.seed, seed, 77])
            S = sources("uniform", 3, 0.5, 300_000, rng)
            X, _ = mixtures(S, rng)
            network = ConeNetwork(3, whiten=whiten, random_state=seed).fit(X)
            scores.append(score(S, network.transform(X[-20_000:])))
        good = sum(value > 12 for value in scores)
        print(f"| `{whiten!r}` | {good} of {len(scores)} | {median_and_worst(scores)} |", flush=True)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--matrices", type=int, default=20)
    parser.add_argument("--nica", type=int, default=4, help="matrices on which BatchNICA is fitted too")
    parser.add_argument("--seed", type=int, default=1000)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| sources | rho | knows A | ConeNetwork less that, median / worst | BatchNICA | matrices |")
    print("|---|---|---|---|---|---|")
    for d in (3, 5, 10):
        for kind in ("uniform", "exponential"):
            for rho in (0.0, 0.5, 0.7):
                one_pass(kind, d, rho, 30.0, arguments)
    one_pass("uniform, t copula", 5, 0.5, 30.0, arguments)
    one_pass("sparse uniform", 5, 0.0, 30.0, arguments)
    for d in (3, 5):
        one_pass("Dirichlet .5", d, 0.0, 30.0, arguments)
    for kind, rho in (("sparse uniform", 0.0), ("exponential", 0.0), ("uniform", 0.5), ("exponential", 0.5)):
        one_pass(kind, 5, rho, None, arguments)
    whitenings(arguments)


if __name__ == "__main__":
    main()
