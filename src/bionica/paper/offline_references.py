"""Offline references beside the networks, which are given the sources: estimators for a plan (see `sweep.estimator_names`)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .. import metrics

Array = NDArray[Any]


class ScaledFastICA(BaseEstimator):  # type: ignore[misc]
    """FastICA with the mean left in, and each output in the sign and scale that are closest to its source."""

    def __init__(self, n_components: int | None = None, *, random_state: Any = None):
        self.n_components = n_components
        self.random_state = random_state

    def fit_transform(self, X: Array, S: Array) -> Array:
        """Return the outputs in the order, sign and scale of the sources S."""
        from sklearn.decomposition import FastICA

        options = {"whiten": "unit-variance", "max_iter": 500, "random_state": self.random_state}
        Y = X @ FastICA(self.n_components, **options).fit(X).components_.T
        match = metrics.match_sources(S, Y, by="correlation")
        return np.asarray(Y[:, match.permutation] * match.scale)


class CorrelationFloor(BaseEstimator):  # type: ignore[misc]
    """The sources after their own correlations are whitened away; their error is `metrics.correlation_floor`."""

    def fit_transform(self, X: Array, S: Array) -> Array:
        """Return C^(-1/2) s for every source vector s, where C is the covariance of the sources."""
        eigenvalues, U = np.linalg.eigh(np.cov(S, rowvar=False, bias=True))
        if eigenvalues[0] <= len(U) * np.finfo(np.float64).eps * eigenvalues[-1]:
            raise ValueError("the sources have a singular covariance and cannot be whitened")
        return np.asarray(S @ (U / np.sqrt(eigenvalues)) @ U.T)
