"""The contenders, called alike: fitted to mixtures, applied to others, nonnegative outputs.

- NMF takes nonnegative data only. Where A has negative entries it gets the same sources mixed by |A| (`mixed`), a problem that is
  easier than the others' in that respect; what noise makes negative is set to zero.
- FastICA knows neither sign nor offset. Its matrix is applied without centring, every output gets the sign of its mean, and
  negative values are set to zero, as in all other methods.
- "knows A" is pinv(A) x, clipped at zero. It does not know the noise, so a method that does can be better.
"""

import numpy as np
from sklearn.decomposition import NMF, FastICA

import bionica
from bionica.datasets import mix

CONE, BATCH, KNOWS_A, ONLINE = "MinimumVolumeCone", "BatchNICA", "knows A", "StreamingNICA"
PEERS = ("NMF", "FastICA")
METHODS = (CONE, BATCH, *PEERS, KNOWS_A, ONLINE)


def available(method):
    return method in PEERS or method == KNOWS_A or hasattr(bionica, method)


def mixed(method, S, k, snr_db, rng, A=None):
    """Return mixtures and A: Gaussian if it is not given, |A| for NMF. All methods get the same draws."""
    A = rng.standard_normal((k, S.shape[1])) if A is None else A
    return mix(S, np.abs(A) if method == "NMF" else A, snr_db=snr_db, rng=rng)


def fitted(method, d, X, seed, nmf_iterations=1000, **options):
    """Return an estimator after `fit`."""
    if method == "NMF":
        return NMF(d, init="nndsvda", max_iter=nmf_iterations, random_state=seed).fit(np.maximum(X, 0))
    if method == "FastICA":
        return FastICA(d, whiten="unit-variance", random_state=seed).fit(X)
    return getattr(bionica, method)(d, random_state=seed, **options).fit(X)


def passed(method, d, X, seed, chunk=1000, **options):
    """Return an estimator after one pass of `partial_fit`."""
    estimator = getattr(bionica, method)(d, random_state=seed, **options)
    for start in range(0, len(X), chunk):
        estimator.partial_fit(X[start : start + chunk])
    return estimator


def outputs(method, estimator, X):
    """Return nonnegative outputs."""
    if method == "NMF":
        return estimator.transform(np.maximum(X, 0))
    if method == "FastICA":
        Y = X @ estimator.components_.T
        return np.maximum(Y * np.sign(Y.mean(axis=0)), 0)
    return estimator.transform(X)


def separated(method, d, X, A, unseen, seed, **options):
    """Return the outputs for unseen mixtures after a fit to X."""
    if method == KNOWS_A:
        return np.maximum(unseen @ np.linalg.pinv(A).T, 0)
    return outputs(method, fitted(method, d, X, seed, **options), unseen)
