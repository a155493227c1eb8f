"""Correlated sources: MinimumVolumeCone beside BatchNICA, NMF, FastICA and "knows A",
on data without any tuning.

    python benchmarks/correlated.py --jobs 2                       everything
    python benchmarks/correlated.py --quick --tables copula        a part of it, in minutes
    python benchmarks/correlated.py --json here.json, --beside     beside another checkout (see runner.py)

SINR is measured on 5,000 samples that were not learned from; correlations of spectra on
all samples.
"""

import numpy as np

from bionica.metrics import match_sources, sinr
from methods import BATCH, CONE, KNOWS_A, STREAM, mixed, passed, separated
from problems import CHEMISTRY, FORTY, HELD_OUT, sources, spectra
from runner import Table, main

EVERYONE = (CONE, BATCH, "NMF", "FastICA", KNOWS_A)
RHO = (0, 0.1, 0.3, 0.5, 0.7)


def problem(method, kind, d, k, snr_db, T, seed):
    """Return sources, mixtures and A, with 5,000 more samples than T."""
    rng = np.random.default_rng([seed, d])
    S = sources(kind, T + HELD_OUT, d, rng)
    return (S, *mixed(method, S, k, snr_db, rng))


def batch(method, kind, d, k, snr_db, T, seed):
    S, X, A = problem(method, kind, d, k, snr_db, T, seed)
    return {"sinr": sinr(S[T:], separated(method, d, X[:T], A, X[T:], seed))}


def chemistry(method, kind, noise, T, seed):
    """Correlation of the worst source with its output."""
    X, S, A = spectra(kind, noise, T, np.random.default_rng(seed))
    options = (
        {"noise": "poisson"} if method == CONE and noise.startswith("Poisson") else {}
    )
    Y = separated(method, A.shape[1], X, A, X, seed, **options)
    return {
        "worst": float(np.abs(match_sources(S, Y, by="correlation").correlation).min())
    }


def stream(method, rho, snr_db, T, seed, d=5):
    """One pass over independent samples in chunks of 1,000."""
    S, X, A = problem(method, f"copula {rho}", d, 2 * d, snr_db, T, seed)
    if method in (KNOWS_A, "NMF"):
        return {"sinr": sinr(S[T:], separated(method, d, X, A, X[T:], seed))}
    return {
        "sinr": sinr(S[T:], passed(method, d, X[:T], seed, chunk=1000).transform(X[T:]))
    }


def outliers(method, kind, k, snr_db, T, told, seed, d=5):
    """SINR on clean samples after a fit with 2 % outliers: Gaussian in all channels, 10
    times the root mean square of each.
    """
    S, X, A = problem(method, kind, d, k, snr_db, T, seed)
    rng = np.random.default_rng([seed, 1])
    rows = rng.choice(T, T // 50, replace=False)
    X[rows] = (
        10
        * np.sqrt(np.mean(X**2, axis=0))
        * rng.standard_normal((len(rows), X.shape[1]))
    )
    options = {"outliers": 0.02} if told and method == CONE else {}
    return {"sinr": sinr(S[T:], separated(method, d, X[:T], A, X[T:], seed, **options))}


def tables(seeds, quick):
    """Return the tables."""
    T = 20_000 if quick else 100_000
    few = seeds[:2]
    forty = FORTY[::7] if quick else FORTY

    def decibels(title, note, measure, cases, by):
        return Table(
            title, note, measure, cases, by, "sinr", "{:.1f}", large_is_good=True
        )

    def synthetic(kind, d, k, snr_db, n, seed):
        return {"kind": kind, "d": d, "k": k, "snr_db": snr_db, "T": n, "seed": seed}

    return {
        "copula": decibels(
            "Copula",
            "d = 5, k = 10.",
            batch,
            [
                (EVERYONE, synthetic(f"copula {rho}", 5, 10, snr_db, T, s))
                for snr_db in (30, 20)
                for rho in RHO
                for s in seeds
            ],
            ["snr_db", "kind"],
        ),
        "uncorrelated": decibels(
            "Uncorrelated sources",
            "Four kinds, d = 3 to 30, square and tall, T = 20,000.",
            batch,
            [
                ((CONE, BATCH, KNOWS_A), synthetic(kind, d, k, snr_db, 20_000, s))
                for kind, d, k in forty
                for snr_db in (None, 40, 30, 20)
                for s in few
            ],
            ["snr_db", "d"],
        ),
        "chemistry": Table(
            "Chemistry",
            "Correlation of the worst of four sources.",
            chemistry,
            [
                (
                    EVERYONE,
                    {
                        "kind": kind,
                        "noise": noise,
                        "T": 1500 if quick else 3000,
                        "seed": s,
                    },
                )
                for kind in CHEMISTRY
                for noise in ("40 dB", "25 dB", "Poisson 20 dB")
                for s in seeds
            ],
            ["kind", "noise"],
            "worst",
            "{:.3f}",
            large_is_good=True,
        ),
        "stream": decibels(
            "Streams",
            "One pass, d = 5, k = 10.",
            stream,
            [
                (
                    (CONE, STREAM, KNOWS_A),
                    {"rho": rho, "snr_db": snr_db, "T": T, "seed": s},
                )
                for snr_db in (30, 20)
                for rho in RHO
                for s in seeds
            ],
            ["snr_db", "rho"],
        ),
        "outliers": decibels(
            "Outliers",
            "2 % of the samples, 10 times as large. told: outliers=0.02 for"
            " MinimumVolumeCone.",
            outliers,
            [
                (
                    (CONE, BATCH),
                    {
                        "kind": kind,
                        "k": k,
                        "snr_db": snr_db,
                        "T": 20_000,
                        "told": told,
                        "seed": s,
                    },
                )
                for kind, k, snr_db in (
                    ("copula 0.5", 10, 30),
                    ("exponential", 10, 30),
                    ("copula 0.5", 5, 40),
                )
                for told in (False, True)
                for s in seeds
            ],
            ["kind", "k", "snr_db", "told"],
        ),
    }


if __name__ == "__main__":
    main(__doc__, "correlated", tables, seed0=7000)
