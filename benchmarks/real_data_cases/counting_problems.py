"""Mixtures of a known number of sources, with noise of many kinds."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bionica.datasets import mix
from correlated_cases import sources


class Problem(NamedTuple):
    """`make(rng)` draws the mixtures (T, k); d sources, of which the covariance shows `varying`."""

    group: str
    name: str
    make: Callable
    d: int
    varying: int


def synthetic(d, k, T, snr_db, kind="sparse-uniform"):
    """Mixtures by a Gaussian matrix, each with the same signal-to-noise ratio."""

    def make(rng):
        return mix(sources.synthetic(kind, T, d, rng), n_mixtures=k, snr_db=snr_db, rng=rng)[0]

    return make


def unequal(d, k, T, snr_db, factor):
    """The same with noise that differs between mixtures by up to `factor` in standard deviation."""

    def make(rng):
        X = synthetic(d, k, T, None)(rng)
        level = np.exp(rng.uniform(0, np.log(factor), k))
        level *= np.sqrt(np.mean(X**2) / np.mean(level**2)) * 10 ** (-snr_db / 20)
        return X + level * rng.standard_normal(X.shape)

    return make


def orthogonal(d, k, T, snr_db=None):
    """Mixtures by a matrix with orthonormal columns."""

    def make(rng):
        X = sources.synthetic("sparse-uniform", T, d, rng) @ np.linalg.qr(rng.standard_normal((k, d)))[0].T
        return X if snr_db is None else X + _white(X, snr_db, rng)

    return make


def chemistry(kind, noise, T):
    """Spectra of benchmarks/correlated.py; `noise` is "none", "25 dB" (white) or "Poisson 20 dB"."""

    def make(rng):
        X = sources.chemistry(kind, T, rng)[0]
        if noise.startswith("Poisson"):
            counts = 10 ** (float(noise.split()[1]) / 10) * X.mean() / np.mean(X**2)
            return rng.poisson(counts * X).astype(float)
        return X if noise == "none" else X + _white(X, float(noise.split()[0]), rng)

    return make


def single(make):
    """The same mixtures as float32."""
    return lambda rng: make(rng).astype(np.float32)


def quantised(make, bits):
    """The same mixtures as integers of so many bits."""

    def made(rng):
        X = make(rng)
        return np.round(X / np.abs(X).max() * (2 ** (bits - 1) - 1))

    return made


def _white(X, snr_db, rng):
    return rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)


def problems():
    """Return all problems."""
    found = []

    def add(group, name, make, d, varying=None):
        found.append(Problem(group, name, make, d, d if varying is None else varying))

    for d, k, T, db in (
        *((3, 10, T, db) for T, db in ((60, 20), (1000, 10), (1000, 30), (100_000, 40))),
        *((5, 30, T, db) for T, db in ((60, 20), (1000, 10), (1000, 40), (100_000, 20))),
        *((10, 20, T, 20) for T in (60, 1000, 100_000)),
        *((10, 100, T, db) for T, db in ((60, 20), (1000, 10), (20_000, 30))),
        (5, 10, 1000, 20),
        (5, 10, 100_000, 30),
    ):
        add("equal noise", f"{db} dB, d = {d}, k = {k}, T = {T:,}", synthetic(d, k, T, db), d)
    for d, k, T, db, factor in (
        (3, 10, 1000, 20, 30),
        (5, 10, 5000, 30, 10),
        (5, 30, 60, 20, 10),
        (5, 30, 1000, 20, 30),
        (10, 20, 5000, 20, 30),
        (10, 100, 300, 20, 30),
        (10, 100, 20_000, 20, 30),
    ):
        name = f"x 1 to {factor}, {db} dB, d = {d}, k = {k}, T = {T:,}"
        add("unequal noise", name, unequal(d, k, T, db, factor), d)
    for kind in ("Dirichlet 0.5", "Dirichlet 1", "fluorescence", "chromatogram", "four notes"):
        closed = kind.startswith("Dirichlet")
        group = "sources do not add up" if kind == "four notes" else "spectra, closed" if closed else "spectra"
        for noise, T in (("Poisson 20 dB", 300), ("Poisson 20 dB", 3000), ("25 dB", 3000), ("40 dB", 3000)):
            add(group, f"{kind}, {noise}, T = {T:,}", chemistry(kind, noise, T), 4, 3 if closed else 4)
    add("spectra, closed", "Dirichlet 0.5, no noise, T = 1,000", chemistry("Dirichlet 0.5", "none", 1000), 4, 3)
    for rho in (0.3, 0.5):
        for d, k, T, db in ((5, 10, 1000, 20), (10, 20, 20_000, 20), (5, 100, 1000, 30)):
            name = f"copula {rho}, {db} dB, d = {d}, k = {k}, T = {T:,}"
            add("correlated sources", name, synthetic(d, k, T, db, f"copula {rho}"), d)
    for d, k in ((5, 10), (5, 5), (8, 10), (10, 10)):
        add("no noise", f"d = {d}, k = {k}, T = 1,000", synthetic(d, k, 1000, None), d)
    add("no noise", "orthogonal, d = 4, k = 4, T = 5,000", orthogonal(4, 4, 5000), 4)
    add("no noise", "d = 10, k = 100, T = 60", synthetic(10, 100, 60, None), 10)
    add("no noise", "float32, d = 5, k = 10, T = 1,000", single(synthetic(5, 10, 1000, None)), 5)
    add("no noise", "8 bits, d = 5, k = 20, T = 1,000", quantised(synthetic(5, 20, 1000, None), 8), 5)
    add("no noise", "12 bits, fluorescence, T = 3,000", quantised(chemistry("fluorescence", "none", 3000), 12), 4)
    add("few left over", "orthogonal, 20 dB, d = 4, k = 8, T = 5,000", orthogonal(4, 8, 5000, 20), 4)
    add("few left over", "30 dB, d = 5, k = 5, T = 5,000", synthetic(5, 5, 5000, 30), 5)
    add("few left over", "30 dB, d = 8, k = 10, T = 5,000", synthetic(8, 10, 5000, 30), 8)
    add("few left over", "30 dB, d = 9, k = 10, T = 5,000", synthetic(9, 10, 5000, 30), 9)
    for T in (200, 5000):
        add("wide", f"20 dB, d = 5, k = 4,000, T = {T:,}", synthetic(5, 4000, T, 20), 5)
    add("wide", "x 1 to 30, 20 dB, d = 5, k = 4,000, T = 200", unequal(5, 4000, 200, 20, 30), 5)
    add("wide", "20 dB, d = 40, k = 400, T = 5,000", synthetic(40, 400, 5000, 20), 40)
    return found
