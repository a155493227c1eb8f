"""Measurements on the outputs of a fit, for users who have no true sources to compare with.

The model asks for outputs that are nonnegative, of unit variance, uncorrelated and often near zero ("well grounded"). Each of
these is a number in `Diagnosis` (`_diagnosis_record`); `_diagnosis_sentences` says what the numbers mean.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import NotFittedError

from .._compat.sklearn import safe_indexing
from ..networks.rule import pseudoinverse
from ..offline.whitening import largest
from ._dask import is_dask
from ._diagnosis_closure import closed_sources
from ._diagnosis_count import ROWS, ROWS_WIDE, WIDE, counted
from ._diagnosis_outliers import screen
from ._diagnosis_record import Diagnosis, Floats, Method, Model
from ._diagnosis_residual import dependence
from ._diagnosis_sentences import NEAR_ZERO
from ._diagnosis_time import change_between_halves, frozen_columns, rising_columns
from ._fit_doubts import Rows, neighbours, transposition
from ._input import DivergenceError
from ._plots import EDGES

__all__ = ["EDGES", "Diagnosable", "Diagnosis", "Model", "diagnose"]

_LARGE = 1e100  # sums of squares of larger numbers may overflow
_BLOCK = 1 << 19  # numbers in a block of rows: 4 MiB of float64


class Diagnosable:
    """Mixin: gives an estimator with `components_`, `mixing_` and `transform` the method `diagnose`."""

    def diagnose(self, X: ArrayLike, *, plot: bool = False, before: ArrayLike | None = None) -> Diagnosis:
        """Say, without knowing the sources, whether the fit looks right, and what to do if not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Mixtures, those of the fit or others. At most 100,000 of them are used, evenly spaced.
        plot : bool, default=False
            Whether to draw the numbers in a new matplotlib figure as well.
        before : array-like of shape (n_components, n_features), optional
            An earlier `components_`, to measure how far the weights have moved since.

        Returns
        -------
        Diagnosis

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.exponential(size=(5000, 3)) @ rng.standard_normal((3, 6))
        >>> nica = BatchNICA(3, random_state=0).fit(X)
        >>> nica.diagnose(X).ok
        True
        >>> print(nica.diagnose(3 * X))
        - outputs 0, 1 and 2 have variance 9 where 1 is right: X is on another scale than the data of the fit.
        """
        found = diagnose(self, X, before=before)
        if plot:
            found.plot()
        return found


def diagnose(estimator: Any, X: ArrayLike, *, before: ArrayLike | None = None, max_samples: int = 100_000) -> Diagnosis:
    """Measure what `Diagnosis` holds on at most `max_samples` rows of X, in a few arrays of max_samples x n_components.

    The estimator has `components_`, `mixing_` and `transform`. X and `before` are as in `Diagnosable.diagnose`.
    """
    if not hasattr(estimator, "components_"):
        raise NotFittedError(f"{type(estimator).__name__} has no components_ to diagnose: call fit first")
    W, M = np.asarray(estimator.components_, np.float64), np.asarray(estimator.mixing_, np.float64)
    data: Any = X if hasattr(X, "shape") else np.asarray(X)
    (d, k), shape = W.shape, data.shape
    if len(shape) != 2 or shape[1] != k or shape[0] < 2:
        raise ValueError(f"X has shape {shape}: pass at least 2 samples of {k} features, (n_samples, {k})")
    W0 = np.empty((0, k)) if before is None else np.asarray(before, np.float64)
    if before is not None and (W0.shape != W.shape or not np.isfinite(W0).all()):
        raise ValueError(f"before has shape {W0.shape}: pass an earlier components_, {W.shape} and finite")
    if max_samples < 2:
        raise ValueError(f"max_samples={max_samples!r} must be 2 or more; 100_000 is the default")
    largest_weight, unit = float(np.abs(W).max()), 1.0
    if (
        largest_weight > 0 and not 1 / _LARGE < largest_weight < _LARGE
    ):  # a collapsed network, with weights whose squares overflow
        unit = largest_weight
        W = W / unit
        M = pseudoinverse(W)
    divergence = ""
    n, step = min(shape[0], int(max_samples)), max(1, _BLOCK // k)
    rows = np.arange(n) * shape[0] // n
    index = rows
    if is_dask(data):  # one pass over its blocks collects these rows
        data, index = data[rows].compute(), np.arange(n)
    screened = screen(lambda part: _finite(safe_indexing(data, index[part]), rows[part]), n, step, W)
    outliers, (rows, index) = rows[screened.is_outlier], (kept[~screened.is_outlier] for kept in (rows, index))
    n = len(rows)
    U, Y, U0 = np.empty((n, d)), np.empty((n, d)), np.empty((n, len(W0)))
    moments = np.zeros((3, 2, k))  # means and sums of squares about them: of x, x - M y and x - M u
    for start in range(0, n, step):
        part = slice(start, min(start + step, n))
        block = safe_indexing(data, index[part])
        x = _finite(block, rows[part])
        U[part], U0[part] = x @ W.T, x @ W0.T
        try:
            Y[part] = np.asarray(estimator.transform(block), dtype=np.float64) / unit
        except DivergenceError as error:  # what to say, not a reason to say nothing
            divergence = divergence or str(error)
            Y[part] = np.maximum(U[part], 0)
        weight = len(x) / part.stop
        for seen, e in zip(moments, (x, x - Y[part] @ M.T, x - U[part] @ M.T), strict=True):
            shift = e.mean(axis=0) - seen[0]
            seen[1] += len(e) * (e.var(axis=0) + shift**2 * (1 - weight))
            seen[0] += shift * weight
    total, residual, outside = moments[:, 1].sum(axis=1)

    energy, negative = np.sum(U**2, axis=0), np.sum(np.minimum(U, 0) ** 2, axis=0)
    u, u_std, std = U - U.mean(axis=0), U.std(axis=0), Y.std(axis=0)
    z = _ratio(Y - Y.mean(axis=0), std)
    eigenvalues, vectors = np.linalg.eigh(u.T @ u / n)
    every = slice(None, None, -(-n // max(100, min(1000, 4 * _BLOCK // k))))
    x = _finite(safe_indexing(data, index[every]), rows[every])
    with np.errstate(all="ignore"):  # of a collapsed network
        outside_of_span = np.clip(np.nan_to_num(x - x @ W.T @ M.T), -_LARGE, _LARGE)
        inside = np.clip(np.nan_to_num(M @ (vectors * np.sqrt(np.maximum(eigenvalues, 0)))), -_LARGE, _LARGE)
    model = getattr(estimator, "_diagnosis_model", Model())
    several = slice(None, None, -(-n // (ROWS if k <= WIDE else ROWS_WIDE)))
    many = _finite(safe_indexing(data, index[several]), rows[several])
    with np.errstate(all="ignore"):
        unexplained = np.clip(np.nan_to_num(many - U[several] @ M.T), -_LARGE, _LARGE)
    varying = np.delete(many, screened.constant, axis=1)
    count = counted(varying.astype(np.float32 if _is_single(data) else np.float64, copy=False), model.uncorrelated)
    # With hardly more mixtures than outputs, what the count takes for noise may be sources. The estimator may know an upper bound.
    noises = [np.full(k, count.noise)] if count.sure and k > d + 1 else []
    noises += [] if model.noise is None else [model.noise**2]
    mean, power = moments[0, 0], moments[0, 1] / n
    n_seen = int(getattr(estimator, "n_samples_seen_", 0))
    # New samples may be few and in order of time: X is not transposed if the fit has seen more samples than mixtures.
    first = slice(0, max(100, 4 * _BLOCK // k))
    together = _finite(safe_indexing(data, index[first]), rows[first]) if n_seen < k else np.empty((1, k))
    return Diagnosis(
        negativity=float(_ratio(negative.sum(), energy.sum())),
        negativity_per_output=_ratio(negative, energy),
        correlations=z.T @ z / n,
        variance=_scaled(std**2, unit),
        variance_error=_scaled(std**2, unit) * np.sqrt(np.mean((z**2 - 1) ** 2, axis=0) / n),
        firing=np.mean(Y > 1e-6 * np.sqrt(np.mean(Y**2)), axis=0),
        grounding=np.mean(Y <= NEAR_ZERO * std, axis=0),
        floor=_ratio(np.quantile(Y, 0.01, axis=0), std),
        lowest=_ratio(np.partition(Y, min(9, n - 1), axis=0)[min(9, n - 1)], std),
        noise_share=np.min([np.ones(d), *(_ratio(W**2 @ noise, u_std**2) for noise in noises)], axis=0) * bool(noises),
        mean_over_std=_ratio(U.mean(axis=0), u_std),
        residual=float(_ratio(residual, total)),
        outside=float(_ratio(outside, total)),
        inner=np.linalg.svd(inside, compute_uv=False) ** 2,
        outer=_spectrum(outside_of_span, k - d),
        spectrum=_spectrum(x, min(len(x) - 1, k)),
        dependence=dependence(unexplained / largest(unexplained), U[several]),
        over_noise=_over_noise(outside_of_span, model.noise, k - d),
        count=count,
        drift=None if before is None else _drift(U, U0 / unit),
        histogram=np.stack([np.histogram(column, EDGES)[0] / n for column in _ratio(U, u_std).T]),
        n_samples=n,
        n_samples_given=shape[0],
        n_mixtures=k,
        outliers=outliers,
        outlier_share=screened.share,
        constant=screened.constant,
        rising=rising_columns(x, rows[every]),
        transposed="".join(transposition(Rows(together, shape[0], neighbours(together, shape[0])))),
        frozen=frozen_columns(many),
        change=change_between_halves(x, U),
        mean_removed=bool(np.all(mean**2 <= 1e-12 * power)),
        closed=closed_sources(np.delete(x, screened.constant, axis=1), d),
        changed=bool(getattr(estimator, "change_detected_", False)),
        model=model,
        method=Method.of(estimator),
        n_samples_seen=n_seen,
        fit_doubts=_fit_doubts(estimator, model, x[0, list(screened.constant)], std),
        divergence=divergence,
    )


def _is_single(data: Any) -> bool:
    return getattr(data, "dtype", None) == np.float32


def _fit_doubts(estimator: Any, model: Model, constants: Floats, std: Floats) -> tuple[str, ...]:
    """What the last fit has warned of, and constant mixtures in a fit without an output for them."""
    known = getattr(estimator, "_known_doubts", lambda: None)()
    found = () if known is None else tuple(known)
    if not model.uncorrelated and constants.any() and std.all():
        found += (
            "has no output for mixtures that are constant and not zero, which are a source of their own for a cone: leave them "
            "out of X, or subtract their value, and fit again",
        )
    return found


def _scaled(variance: Floats, unit: float) -> Floats:
    """The variance of outputs in their own unit; at most the largest number."""
    with np.errstate(over="ignore"):
        return np.minimum(variance * unit * unit, np.finfo(np.float64).max)


def _spectrum(e: Floats, rank: int) -> Floats:
    """Variances of e in its principal directions, less what sampling adds to the largest (Marchenko and Pastur)."""
    e = e - e.mean(axis=0)
    values = np.maximum(np.linalg.eigvalsh(e @ e.T if len(e) < e.shape[1] else e.T @ e)[::-1][:rank], 0.0)
    return np.asarray(values / (np.sqrt(len(e)) + np.sqrt(rank)) ** 2)


def _over_noise(e: Floats, noise: Floats | None, rank: int) -> float:
    """The largest variance of e in units of the noise; or a tenth of it in units of the median, if that is more."""
    if noise is None or not rank:
        return np.inf
    most, *others = _spectrum(e / np.maximum(noise, 1e-3 * noise.max()), rank)
    typical = float(np.median(others)) if others else 1.0
    return float(max(most, 0.1 * most / max(typical, 1e-300)))


def _drift(U: Floats, U0: Floats) -> float:
    now, then = linear_sum_assignment(np.sum(U**2, axis=0)[:, np.newaxis] + np.sum(U0**2, axis=0) - 2 * U.T @ U0)
    return float(np.sqrt(_ratio(np.sum((U[:, now] - U0[:, then]) ** 2), np.sum(U0**2))))


def _finite(block: Any, rows: NDArray[np.intp]) -> Floats:
    x = np.asarray(block, dtype=np.float64)
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise ValueError(f"X[{rows[np.argmin(finite)]}] holds NaN or infinity: drop such samples first")
    # Squares of what is larger overflow. Such samples are outliers, and stay outliers.
    return np.clip(x, -_LARGE, _LARGE)


def _ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape), where=b > 0)
