"""The contenders, called alike: fitted to mixtures, applied to others, nonnegative
outputs.

- NMF takes nonnegative data only. Where A has negative entries it gets the same sources
  mixed by |A| (`mixed`), a problem that is easier than the others' in that respect;
  what noise makes negative is set to zero.
- FastICA knows neither sign nor offset. Its matrix is applied without centring, every
  output gets the sign of its mean, and negative values are set to zero,
  as in all other methods.
- "knows A" is pinv(A) x, clipped at zero. It does not know the noise, so a method that
  does can be better.

Only public names of bionica are used, so that another checkout can be measured too.
"""

import numpy as np
from sklearn.decomposition import NMF, FastICA

import bionica
from bionica.datasets import mix

STREAM = "StreamingNICA"
CONE = "MinimumVolumeCone"
BATCH = "BatchNICA"
KNOWS_A = "knows A"
NETWORKS = ("InterneuronNICA", "TwoCompartmentNICA")
PEERS = ("NMF", "FastICA")


def mixed(method, S, k, snr_db, rng, A=None):
    """Return mixtures and A: Gaussian if it is not given, |A| for NMF.

    All methods get the same draws.
    """
    A = rng.standard_normal((k, S.shape[1])) if A is None else A
    return mix(S, np.abs(A) if method == "NMF" else A, snr_db=snr_db, rng=rng)


def fitted(method, d, X, seed, **options):
    """Return an estimator after `fit`."""
    if method in PEERS:
        return _Peer(method, d, X, seed)
    return getattr(bionica, method)(d, random_state=seed, **options).fit(X)


def passed(method, d, X, seed, chunk=None, **options):
    """Return an estimator after one pass of `partial_fit`; BatchNICA after `fit`."""
    estimator = getattr(bionica, method)(d, random_state=seed, **options)
    if not hasattr(estimator, "partial_fit"):
        return estimator.fit(X)
    for start in range(0, len(X), chunk or len(X)):
        estimator.partial_fit(X[start : start + (chunk or len(X))])
    return estimator


def separated(method, d, X, A, unseen, seed, **options):
    """Return the outputs for unseen mixtures after a fit to X."""
    if method == KNOWS_A:
        return np.maximum(unseen @ np.linalg.pinv(A).T, 0)
    return fitted(method, d, X, seed, **options).transform(unseen)


class _Peer:
    """A method of scikit-learn with nonnegative outputs."""

    def __init__(self, method, d, X, seed):
        if method == "NMF":
            nmf = NMF(d, init="nndsvda", max_iter=1000, random_state=seed).fit(
                np.maximum(X, 0)
            )
            self.transform = lambda X: nmf.transform(np.maximum(X, 0))
            return
        W = FastICA(d, whiten="unit-variance", random_state=seed).fit(X).components_
        sign = np.sign((X @ W.T).mean(axis=0))
        self.transform = lambda X: np.maximum(X @ W.T * sign, 0)
