"""What each method makes of a stream of mixtures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import estimators, metrics
from .reference import OFFLINE, UNTUNED

Array = NDArray[Any]


def outputs(network: str, setting: str, S: Array, X: Array, seed: int, params: dict[str, float]) -> Array:
    """Outputs as each sample arrived; of an offline method, those of its final solution.

    Parameters
    ----------
    network : str
        A name of `reference`.
    setting : str
        Which of the paper's hyperparameters.
    S, X : ndarray
        Sources, which only the sign and the scale of FastICA are taken from, and mixtures.
    seed : int
        Of the initial weights.
    params : dict
        Hyperparameters that differ from the paper's.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
    """
    d = S.shape[1]
    if network == "BatchNICA":
        return np.asarray(estimators.BatchNICA(d, random_state=seed).fit_transform(X))
    if network == "FastICA":
        return _fast_ica(S, X, seed)
    if network in UNTUNED:
        cls = getattr(estimators, network.split()[0])
        return np.asarray(cls(d, init="random", random_state=seed).partial_fit_transform(X))
    if network == "NonnegativePCA":
        X = estimators.NoncenteredWhitener(d).fit_transform(X)
        model = estimators.NonnegativePCA.as_published(setting, whiten=False, random_state=seed, **params)
        return np.asarray(model.partial_fit_transform(X))
    cls = getattr(estimators, network.split()[0])
    return np.asarray(cls.as_published(setting, random_state=seed, **params).partial_fit_transform(X))


def is_offline(network: str) -> bool:
    """Whether a method has one error, not a curve."""
    return network in OFFLINE


def _fast_ica(S: Array, X: Array, seed: int) -> Array:
    """FastICA with the mean left in, each output in the sign and scale that bring it closest to its source."""
    from sklearn.decomposition import FastICA

    ica = FastICA(S.shape[1], whiten="unit-variance", max_iter=500, random_state=seed).fit(X)
    Y = X @ ica.components_.T
    match = metrics.match_sources(S, Y, by="correlation")
    return np.asarray(Y[:, match.permutation] * match.scale)
