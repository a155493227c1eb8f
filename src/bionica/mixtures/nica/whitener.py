"""Noncentered whitening as a scikit-learn transformer; the mathematics is in
`bionica.core.whitening`.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from bionica.core import samples
from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, Moments, merge_moments, moments
from bionica.core.errors import Message
from bionica.core.estimator import Estimator, unchanged_on_error
from bionica.core.model_file import Record
from bionica.core.samples import finite_map
from bionica.core.whitening import Whitening, refine, whitening
from bionica.mixtures.verdict.outliers import without_outliers


def whitening_or_error(
    m: Moments,
    n_components: int | None,
    precision: npt.DTypeLike,
    n_features: int | None = None,
) -> Whitening:
    """`core.whitening.whitening` with errors that say what to do; `n_features` of X,
    if the moments are those of coordinates.
    """
    if not np.all(np.isfinite(m.scatter)):
        raise ValueError(
            "The variance of the data overflows (largest mean"
            f" {np.abs(m.mean).max():.3g}). Divide X by a constant first."
        )
    white = whitening(
        m, n_components, precision=precision, one_unit=n_features is not None
    )
    if not white.rank:
        raise ValueError(
            f"The {m.n} sample(s) seen so far do not vary, so there is nothing to"
            " whiten (rank 0). Pass at least two samples that differ."
        )
    if n_components is not None and n_components > white.rank:
        raise ValueError(
            Message(
                "{n_components:={}} exceeds the rank of the data: {} samples of {}"
                " features vary in {} independent direction(s) only. Use"
                " {n_components:=None} (keeps {}), a number up to {}, or more samples.",
                n_components,
                m.n,
                n_features or len(m.mean),
                white.rank,
                white.rank,
                white.rank,
            )
        )
    return white


class NoncenteredWhitener(Estimator):
    """Whiten without removing the mean, from an array or from a stream of chunks.

    z = F x with F = Lambda^{-1/2} U' on the leading eigenvectors of the covariance of x
    (section 2.1 of the paper): z has identity covariance (averages over n samples, not
    n - 1) and keeps its mean, as nonnegative ICA needs. ``PCA(whiten=True)`` and
    ``FastICA`` remove the mean.

    Parameters
    ----------
    n_components : int, default=None
        Number of leading directions to keep. None keeps every direction in which the
        data vary by more than rounding (`rank_` of them). A number above the rank
        raises ValueError, at `fit` or, after `partial_fit`, when the result is used.
    robust : bool, default=False
        Whether `fit` leaves outliers out of the mean and the covariance, as `BatchNICA`
        does. `partial_fit` cannot look back and always uses all samples.

    Attributes
    ----------
    components_, mixing_ : ndarray of shape (n_components, n_features), (n_features,
    n_components)
        F, and its right inverse U Lambda^{1/2}.
    mean_, covariance_ : ndarray of shape (n_features,), (n_features, n_features)
        Of the samples.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each direction kept, before whitening, largest first.
    rank_, n_components_ : int
        Directions in which the data vary, and those that are kept.
    n_features_in_, n_samples_seen_, feature_names_in_ : int, int, ndarray
        Mixtures per sample, samples without the outliers of a robust `fit`; names of
        the mixtures, if X had string column names.

    Notes
    -----
    `partial_fit` keeps count, mean and scatter (float64 for any input). If eigenvalues
    coincide, the eigenvectors are not unique, and another chunking may give others by
    rounding.

    A covariance squares the condition number of the mixing. `fit` reads X a second time
    where that costs digits. After `partial_fit` the covariance of the outputs is off by
    1e-8 at a condition number of 1e4, and by 1e-4 at 1e6.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import NoncenteredWhitener
    >>> S = np.random.default_rng(0).exponential(size=(1000, 3))
    >>> X = S @ np.array([[1, 2, 0], [0, 1, 1], [3, 0, 1.0]])
    >>> whitener = NoncenteredWhitener()
    >>> for chunk in np.array_split(X, 10):
    ...     whitener = whitener.partial_fit(chunk)
    >>> Z = whitener.transform(X)
    >>> bool(np.allclose(np.cov(Z.T, bias=True), np.eye(3), atol=1e-10))
    True
    >>> whitener.n_samples_seen_
    1000
    >>> bool(np.allclose(whitener.inverse_transform(Z), X))
    True
    """

    _saved: ClassVar = {
        "_moments": Record(Moments, {"n": ":count", "mean": "k", "scatter": "kk"}),
        "_whitening": Record(
            Whitening,
            {"matrix": "dk", "inverse": "kd", "eigenvalues": "r"},
            optional=True,
        ),
        "_coarse": ":bool",
    }

    def __init__(
        self, n_components: int | None = None, *, robust: bool = False
    ) -> None:
        self.n_components = n_components
        self.robust = robust

    def _restore(self, values: dict[str, Any]) -> None:
        if values["_whitening"] is not None:
            super()._restore(values)
        self.__dict__.update(values)

    def _fit(self, X: npt.ArrayLike) -> None:
        rows = samples.rows(self, X, reset=True, min_samples=2)
        with one_blas_thread():
            m = moments(rows)
            if self.robust:
                rows, m = without_outliers(rows, m, self.n_components)
            self._whitening: Whitening | None = refine(
                rows, whitening_or_error(m, self.n_components, rows.dtype)
            )
        self._moments = m
        self._coarse = rows.dtype == np.float32

    def partial_fit(self, X: npt.ArrayLike, y: None = None) -> Self:
        """Add a chunk of samples to the mean and the covariance.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            One sample or more. A chunk with a NaN or an infinity raises ValueError and
            leaves the model as it was.
        y : None
            Ignored.
        """
        first = not hasattr(self, "_moments")
        with unchanged_on_error(self), one_blas_thread():
            if first:
                self._freeze()
            else:
                self._check_config()
            rows = samples.rows(self, X, reset=first)
            m = moments(rows)
        # The rounding of float32 chunks stays in the moments.
        self._coarse = bool(rows.dtype == np.float32 or (not first and self._coarse))
        self._moments = m if first else merge_moments(self._moments, m)
        self._whitening = None
        return self

    def _outputs(self, X: Array) -> Array:
        return finite_map(X, self.components_)

    @property
    def _offset(self) -> Array:
        return self.mean_ - self.mixing_ @ (self.components_ @ self.mean_)

    @property
    def _solved(self) -> Whitening:
        """The whitening of the present moments, cached until the next chunk."""
        self._check_fitted()
        if self._whitening is None:
            precision = np.float32 if self._coarse else np.float64
            self._whitening = whitening_or_error(
                self._moments, self._config["n_components"], precision
            )
        return self._whitening

    @property
    def explained_variance_(self) -> Array:
        """Variance along each direction kept, before whitening, largest first."""
        return self._solved.eigenvalues[: len(self.components_)]

    @property
    def components_(self) -> Array:
        """F, (n_components, n_features)."""
        return self._solved.matrix

    @property
    def mixing_(self) -> Array:
        """The right inverse of F, U Lambda^{1/2}, (n_features, n_components)."""
        return self._solved.inverse

    @property
    def rank_(self) -> int:
        """Number of directions in which the data vary."""
        return self._solved.rank

    @property
    def mean_(self) -> Array:
        """Mean of the samples, (n_features,)."""
        self._check_fitted()
        return self._moments.mean

    @property
    def covariance_(self) -> Array:
        """Covariance of the samples, (n_features, n_features)."""
        self._check_fitted()
        return self._moments.covariance

    @property
    def n_samples_seen_(self) -> int:
        """Samples seen, without the outliers of a robust `fit`."""
        self._check_fitted()
        return int(self._moments.n)
