"""bionica's estimators in HyperSpy's decompositions (https://hyperspy.org). HyperSpy itself is not imported."""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

__all__ = ["HyperSpyDecomposition"]


class HyperSpyDecomposition(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An estimator for ``signal.decomposition(algorithm=...)``, whose factors are then the spectra.

    HyperSpy takes the transpose of `components_` for the factors. In bionica, as in FastICA, `components_` is the unmixing matrix;
    here, as in NMF, `components_` are the spectra, and loadings @ factors.T is the model of the data. For
    ``signal.blind_source_separation``, which needs the unmixing matrix, pass the estimator itself.

    Parameters
    ----------
    estimator
        For example `MinimumVolumeCone(3)`. It is cloned and itself stays unfitted.

    Attributes
    ----------
    estimator_
        The fitted clone.
    components_ : ndarray of shape (n_components, n_features)
        The spectra: `estimator_.spectra_`.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import BatchNICA, datasets
    >>> X, _ = datasets.mix(datasets.sparse_uniform(2000, 2, rng=0), n_mixtures=5, rng=0)
    >>> decomposition = HyperSpyDecomposition(BatchNICA(2, random_state=0))
    >>> loadings = decomposition.fit_transform(X)
    >>> bool(np.abs(loadings @ decomposition.components_ - X).max() < 0.01)
    True
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Fit a clone of the estimator to X, a spectrum in each row; y is ignored."""
        self.estimator_ = clone(self.estimator).fit(X)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Return the loadings of X, (n_samples, n_components)."""
        return self.estimator_.transform(X)

    @property
    def components_(self) -> NDArray[Any]:
        """The spectra, (n_components, n_features)."""
        return np.array(self.estimator_.spectra_)
