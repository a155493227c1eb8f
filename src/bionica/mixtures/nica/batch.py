"""Offline nonnegative ICA: noncentered whitening, then the rotation into the
nonnegative orthant.
"""

from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, linear_map, moments, shapes, some_rows, unit_of
from bionica.core.dask import DaskRows
from bionica.core.parameters import AUTO, COUNT, PARAMETERS, POSITIVE
from bionica.core.whitening import Whitening, refine, row_space, wider_than_long
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.nica.rotation import rotate
from bionica.mixtures.nica.whitener import whitening_or_error
from bionica.mixtures.separator import EstimatesMissing
from bionica.mixtures.verdict.count import count_sources, undecided
from bionica.mixtures.verdict.findings import Finding, finding
from bionica.mixtures.verdict.outliers import Limit, is_inlier, without_outliers


def _whitened(X: Array, matrix: Array, limit: Limit | None) -> Array:
    """matrix @ x for the rows x of X, and 0 for outliers, which then have no effect on
    the rotation.
    """
    Z = linear_map(X, matrix)
    if limit is not None:
        Z[~is_inlier(X, limit)] = 0
    return Z


class BatchNICA(EstimatesMissing):
    """Nonnegative ICA of a NumPy or Dask array: the method to use offline, and to
    compare the networks with.

    The model is x = A s with independent nonnegative sources that are often near zero
    ("well grounded"). The data are whitened without removing their mean, then rotated
    so that as little energy as possible is negative (Plumbley 2003, section 2.1 of the
    paper). Sources are nonnegative, have unit variance, and are ordered by their share
    of the data.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources d. None: the rank of X. "auto": as many as two halves of the
        samples agree on (`count_`).
    n_init : int, default=10
        Largest number of random starts of the rotation. Starts are added until two end
        at the smallest negativity; if none of `n_init` starts does so, a
        ConvergenceWarning says that the result may be a local minimum.
    max_iter : int, default=500
        Largest number of iterations of a descent.
    tol : float, default=None
        The descent ends when its next step rotates no pair of outputs by more than
        `tol` radians. None is 0.03 times n_samples ** -0.5, a small part of the
        statistical error.
    robust : bool, default=True
        Whether to leave outliers out of the fit: samples far beyond the tail of all the
        others (see `n_outliers_`). Set it to False if a source is active in 1 % of the
        samples or fewer, because its samples may look like outliers.
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_, mixing_, spectra_ : ndarray
        The unmixing matrix W, (n_components, n_features), with sources max(W x, 0); the
        estimated A, with W A = I; and its transpose, a spectrum in each row.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples seen (outliers too); names of the
        mixtures, if X had string column names.
    count_ : Count
        With n_components="auto": `n_sources`, other `candidates`, and the angle between
        halves for each number that was tried.
    whitening_ : ndarray of shape (n_components, n_features)
        F; `components_` is a rotation of it.
    mean_ : ndarray of shape (n_features,)
        Mean of the data without outliers (not removed; for information).
    negativity_ : float
        Share of the output energy outside the nonnegative orthant, before outputs are
        clipped at 0. Near 0 the model fits.
    ambiguity_ : float
        How far two equally nonnegative starts disagree, from 0 to 1. Above 0.02 a
        ConvergenceWarning says that nonnegativity does not determine the sources: they
        are not near zero often enough.
    n_iter_, n_restarts_ : int
        Iterations of the winning start and of the descents that continued it on more
        rows; starts after the first.
    n_outliers_ : int
        Number of samples that the fit left out; see Notes. `transform` treats them like
        all others.

    Notes
    -----
    Outliers are at most 0.5 % of the samples, of 200 or more, and are left out only if
    some sample is three times farther out than the quantiles of all distances predict
    (`bionica.mixtures.verdict.outliers`).

    Missing values (NaN, or masked) of X in memory are estimated by `fit`
    (`bionica.mixtures.missing`); `transform` uses the mixtures that are there.

    Besides X, memory holds one array of n_samples x n_components, and at most a third
    of its rows again. A Dask array is read once per iteration on all rows, and only a
    sample of at most 16 MB is gathered: call `X.persist()` first if its blocks are
    costly.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import BatchNICA
    >>> rng = np.random.default_rng(0)
    >>> S = rng.exponential(size=(5000, 3))
    >>> X = S @ rng.standard_normal((3, 6))
    >>> nica = BatchNICA(random_state=0)
    >>> Y = nica.fit_transform(X)
    >>> Y.shape, bool(Y.min() >= 0), bool(nica.negativity_ < 1e-4)
    ((5000, 3), True, True)
    >>> np.abs(np.corrcoef(S.T, Y.T)[:3, 3:]).max(axis=1).round(2)
    array([1., 1., 1.])
    """

    _parameter_constraints = PARAMETERS | {
        "n_components": [COUNT, AUTO, None],
        "n_init": [COUNT],
        "tol": [POSITIVE, None],
    }
    _saved: ClassVar = shapes(dk="components_ whitening_", kd="mixing_") | {
        "mean_": "k:float64",
        **dict.fromkeys(("negativity_", "ambiguity_"), ":float64"),
        **dict.fromkeys(
            ("n_iter_", "n_restarts_", "n_samples_seen_", "n_outliers_"), ":count"
        ),
    }

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        n_init: int = 10,
        max_iter: int = 500,
        tol: float | None = None,
        robust: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.robust = robust
        self.random_state = random_state

    def _fit(self, X: Any) -> None:
        rows = self._completed(X)
        sample = some_rows(rows)
        with one_blas_thread():
            rng = check_random_state(self.random_state)
            d = self.n_components
            if d == "auto":
                self.count_ = count_sources(sample, rough_cones)
                d = self.count_.n_sources
            data, basis, unit = _in_own_space(rows)
            m = moments(data)
            inliers, m = without_outliers(data, m, d) if self.robust else (data, m)
            n_features = None if basis is None else rows.shape[1]
            white = whitening_or_error(m, d, rows.dtype, n_features)
            white = refine(inliers, white)
            rotation = self._rotation(data, inliers, white.matrix, rng)
        # y has unit covariance without outliers, so its energy is d + |F <x>|^2. The
        # objective is a mean over all rows.
        energy = len(white.matrix) + float(np.sum((white.matrix @ m.mean) ** 2))
        F, inverse, mean = _in_features(white, m.mean, basis)
        W = rotation.R @ F
        mixing = inverse @ rotation.R.T
        order = np.argsort(-np.sum(mixing**2, axis=0), kind="stable")
        self.components_ = (W[order] / unit).astype(rows.dtype)
        self.mixing_ = (mixing[:, order] * unit).astype(rows.dtype)
        self.whitening_ = (F / unit).astype(rows.dtype)
        self.mean_ = mean * unit
        n = rows.shape[0]
        n_inliers = inliers.shape[0]
        self.negativity_ = 2 * rotation.objective * (n / n_inliers) / energy
        self.ambiguity_ = rotation.ambiguity
        self.n_iter_ = max(1, rotation.n_iter)  # one source needs no rotation
        self.n_restarts_ = rotation.n_starts - 1
        self.n_samples_seen_ = n
        self.n_outliers_ = n - n_inliers
        self._warn_about_fit(sample, n, *self._problems_of(rotation))

    def _rotation(self, data: Any, inliers: Any, matrix: Array, rng: Any) -> Any:
        """Turn the whitened data into the orthant."""
        limit = getattr(inliers, "limit", None)
        function = partial(_whitened, matrix=matrix, limit=limit)
        if isinstance(data, DaskRows):
            Z: Any = data.mapped(function, len(matrix))
        else:
            Z = function(data)
        return rotate(
            Z, tol=self.tol, max_iter=self.max_iter, n_init=self.n_init, rng=rng
        )

    def _problems_of(self, rotation: Any) -> list[Finding]:
        """What the descent itself says of its result."""
        reasons = []
        if rotation.ambiguity > 0.02:
            reasons.append(
                f"two rotations that disagree by {rotation.ambiguity:.2g} are equally"
                " nonnegative"
            )
        if not rotation.confirmed:
            reasons.append(
                f"the best of {rotation.n_starts} starts was met only once: raise"
                f" n_init={self.n_init}"
            )
        if not rotation.converged:
            reasons.append(
                f"no convergence in max_iter={self.max_iter} iterations: raise max_iter"
                " or tol"
            )
        problems = [finding("converged", reason=reason) for reason in reasons]
        if self.n_components == "auto":
            problems += undecided(self.count_)
        return problems


def _in_features(white: Whitening, mean: Array, basis: Array | None) -> Any:
    """F, its right inverse and the mean, of the features themselves."""
    if basis is None:
        return white.matrix, white.inverse, mean
    return white.matrix @ basis.T, basis @ white.inverse, basis @ mean


def _in_own_space(rows: Any) -> tuple[Any, Array | None, float]:
    """The rows in a unit near their size, in the space that they span if they are few
    and wide; a basis of that space, or None; and the unit.
    """
    if not isinstance(rows, np.ndarray):
        return rows, None, 1.0
    unit = unit_of(rows)
    data = rows if unit == 1 else rows / unit
    if not wider_than_long(rows):
        return data, None, unit
    return *row_space(data), unit
