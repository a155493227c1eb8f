"""What the problems of the table of `diagnose` share: the record of one, and how mixtures are drawn."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bionica.datasets import mix
from correlated_cases import sources


class Case(NamedTuple):
    """A fitted estimator, the mixtures that it is asked about, and the true sources of these (n_samples, d)."""

    estimator: object
    X: np.ndarray
    S: np.ndarray
    transposed: bool = False

    def outputs(self):
        """What the estimator takes for the sources; they are in `mixing_` if X was transposed."""
        return self.estimator.mixing_ if self.transposed else np.asarray(self.estimator.transform(self.X))


class Problem(NamedTuple):
    """`make(rng)` draws a Case. `expect`: words of which the diagnosis should have at least one; none for a sound problem.

    `visible` is false if the correlation with the true sources need not show what is wrong (scale, missing or surplus outputs).
    """

    name: str
    make: Callable
    expect: tuple[str, ...] = ()
    visible: bool = True


def draw(kind, T, d, rng):
    """Sources: kinds of benchmarks/correlated.py, "uniform", "gamma 2", "weibull 0.7"."""
    if kind == "uniform":
        return rng.random((T, d))
    if kind.startswith("gamma "):
        return rng.gamma(float(kind.split()[1]), size=(T, d))
    if kind.startswith("weibull "):
        return rng.weibull(float(kind.split()[1]), (T, d))
    return sources.synthetic(kind, T, d, rng)


def mixed(S, k, snr_db, rng):
    """Mixtures by a Gaussian matrix."""
    return mix(S, n_mixtures=k, snr_db=snr_db, rng=rng)[0]


def white(X, snr_db, rng):
    """White noise for the mixtures X."""
    return rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)


def fitted(make_estimator, X, S):
    return Case(make_estimator().fit(X), X, S)


def simple(make_estimator, kind, d, k, T, snr_db=30, change=None):
    """Sources of this kind, mixed; `change(X, S, rng)` returns the mixtures that are used."""

    def make(rng):
        S = draw(kind, T, d, rng)
        X = mixed(S, k, snr_db, rng)
        return fitted(make_estimator, X if change is None else change(X, S, rng), S)

    return make


def turning(S, k, rng, radians, at=None):
    """Mixtures by a matrix that turns evenly by so many radians in all, or at once after the share `at` of the samples."""
    d = S.shape[1]
    A = rng.standard_normal((k, d))
    G = rng.standard_normal((k, k))
    G = (G - G.T) / np.linalg.norm(G - G.T, 2)
    w, V = np.linalg.eigh(1j * G)
    share = np.linspace(0, 1, len(S)) if at is None else (np.linspace(0, 1, len(S)) > at).astype(float)
    X = np.empty((len(S), k))
    for block in np.array_split(np.arange(len(S)), 200 if at is None else np.flatnonzero(np.diff(share)) + 1):
        turn = (V * np.exp(-1j * w * radians * share[block].mean())) @ V.conj().T
        X[block] = S[block] @ (turn.real @ A).T
    return X
