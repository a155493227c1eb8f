"""Outliers of the offline methods: samples far beyond the tail of all the others, which are left out of the fit.

A covariance has no bound on the weight of a sample: one row times 1e6 among 100,000 is a principal direction of its own. The
distances of a sample are

    s = |F (x - <x>)|,     F C_xx F' = I                  (Mahalanobis)
    e = |x - <x>| outside of the rows of F                (only if F has fewer rows than x has features)

The metric (<x>, F) comes from at most 5,000 random samples without the 0.5 % that are farthest out. Which these are is found in
the metric of all 5,000. It is found again in the new metric as long as leaving them out halves a variance, because the
largest outliers hide the smaller ones.

How far the tail of s may reach is extrapolated from its own quantiles. With s_2 and s_1 the distances that n_2 = 0.5 % and
n_1 = 2 % of all n samples exceed, m samples of a tail that falls exponentially are expected beyond

    s(m) = s_2 + (s_2 - s_1) ln(n_2 / m) / ln(n_1 / n_2)

Nothing is done unless a sample lies beyond (1.5 + 60 / sqrt(n)) s(0.1), or 20 samples (2e-4 of all, if that is more) lie beyond
s(3). If they do, all samples beyond s(m) are outliers. With many outliers m is 3, with a single one 0.2: the fewer there are,
the fewer sound samples may be lost. The distances e are treated in the same way.

Sound data lose no sample: none of 308 draws each (n = 200 to 1e5, d = 1 to 10, k up to 20) of sparse-uniform, exponential,
half-normal, odor-like and gamma(0.1 to 2) sources. Weibull(0.7) sources lost one sample in 1 of 308 draws. Lognormal sources
lost about 25 of 1e5 samples.

If there are outliers, `without_negative_outliers` applies the same rule to n = (1 + |min(W x, 0)|^2)^{1/2}, once W is known: few
negative outputs are enough to mislead the rotation, also those of samples that are not far out.

At most 0.5 % of the samples can be outliers: more of them are not recognised, and a source that is active in 1 % of the
samples or fewer may look like them. The quantiles come from a histogram of s^2, a sum over blocks of rows.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .whitening import ChunkedRows, Moments, fold, moments, row_blocks, whitening

Array = npt.NDArray[Any]
T = TypeVar("T")

_SHARE = 0.005  # of the samples that may be outliers; n_2 of them, and n_1 = 4 n_2
_FEWEST = 5  # n_2 in small samples
_LEAST_SAMPLES = 200
_SUBSET = 5000  # samples of the metric
_TRIMS = 10  # at most; 1 if there are no outliers
_TRIGGER = (1.5, 60.0)  # times s(0.1): in large samples, and what is added in small ones, times n ** -0.5
_LOST = 3.0  # sound samples that may be lost, if there are many outliers
_MANY = (20, 2e-4)  # samples, and share of all of them, beyond s(3) that are no accident
_SAMPLES_PER_DIRECTION = 50  # with fewer, the samples are equally far from their mean
_OUTSIDE = 1e-9  # of the variance: less energy outside of F is rounding
_WIDEST = 128  # features; more are projected on so many random directions first
_SHIFT, _BINS = 16, 1 << 15  # a float32 without 16 of its 23 bits of mantissa: 128 bins for each factor of two
_LARGEST_VARIANCE = 1e30  # squared distances are kept as float32
_EDGES = (np.arange(_BINS - 127, dtype=np.int32) << _SHIFT).view(np.float32).astype(np.float64)  # lower, finite ones


class Limit(NamedTuple):
    """What tells outliers from other samples: how distances are measured, and the largest of samples that are none.

    `matrix` is F (d, k) and `offset` is F <x>. `outside` is for e, and None if e is not measured. `unmixing` is W (d, k), and
    None if n is not measured. `largest` are the largest s^2, e^2 and n^2, of those that are measured.
    """

    matrix: Array
    offset: Array
    outside: "Outside | None" = None
    unmixing: Array | None = None
    largest: tuple[float, ...] = ()


class Outside(NamedTuple):
    """How e is measured: e^2 = |x - mean|^2 - sum(variances (F (x - <x>))^2) + floor, in coordinates `basis` x if given.

    `floor` is so large that rounding errors make no outliers. e^2 is measured in units of a power of four near it: a float32
    holds it for mixtures of any unit, and no digit changes.
    """

    basis: Array | None
    mean: Array
    variances: Array
    floor: float

    @property
    def unit(self) -> float:
        """The unit of e^2."""
        return float(4.0 ** np.round(np.log2(max(self.floor, 1e-300)) / 2))


class Inliers(ChunkedRows):
    """The rows of X that are no outliers; n of them."""

    def __init__(self, X: Array | ChunkedRows, limit: Limit, n: int) -> None:
        self.X, self.limit = X, limit
        self.shape, self.dtype = (n, X.shape[1]), X.dtype

    def fold(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Return ``of_block(inliers of the block, *arguments)`` for every block of X, joined two by two."""
        X = self.X
        if isinstance(X, ChunkedRows):
            total: T = X.fold(_of_inliers, join, of_block, self.limit, *arguments)
            return total
        blocks = (X[rows] for rows in row_blocks(*X.shape))
        return reduce(join, (_of_inliers(block, of_block, self.limit, *arguments) for block in blocks))

    def __getitem__(self, rows: slice | Array) -> Array:
        block = self.X[rows]
        return np.asarray(block[is_inlier(block, self.limit)])


def _of_inliers(block: Array, of_block: Callable[..., T], limit: Limit, *arguments: Any) -> T:
    return of_block(block[is_inlier(block, limit)], *arguments)


def is_inlier(X: Array, limit: Limit) -> Array:
    """Which rows of X are no outliers."""
    largest = np.array(limit.largest)[:, np.newaxis]
    return np.asarray((squared_distances(X, limit) <= largest).all(axis=0))  # False for NaN, which overflow can produce


def squared_distances(X: Array, limit: Limit) -> Array:
    """s^2 of the rows of X, then e^2 and n^2 if they are measured: (1 to 3, n_samples), float32."""
    outside, W = limit.outside, limit.unmixing
    found = np.empty((1 + (outside is not None) + (W is not None), len(X)), dtype=np.float32)
    right, offset = np.ascontiguousarray(limit.matrix.T, dtype=X.dtype), limit.offset.astype(X.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(*X.shape):
            z = X[rows] @ right
            z -= offset
            found[0, rows] = np.einsum("ij,ij->i", z, z)
            if outside is not None:
                x = X[rows].astype(np.float64) if outside.basis is None else X[rows] @ outside.basis.T
                x -= outside.mean
                energy = np.einsum("ij,ij->i", x, x) - z**2 @ outside.variances
                found[1, rows] = (np.maximum(energy, 0) + outside.floor) / outside.unit
            if W is not None:
                found[-1, rows] = 1 + np.sum(np.minimum(X[rows] @ W.T, 0) ** 2, axis=1)
    return found


def _histogram(X: Array, limit: Limit) -> Array:
    """How many rows have each squared distance, in bins that are cut from the bits of a float32."""
    bins = squared_distances(X, limit).view(np.int32) >> _SHIFT
    return np.stack([np.bincount(b & (_BINS - 1), minlength=_BINS) for b in bins])


def _tail(counts: Array) -> tuple[float, bool]:
    """The largest s^2 of a sample that is no outlier, from a histogram of s^2, and whether there are outliers at all."""
    n = int(counts.sum())
    n_2 = _tail_size(n)
    n_1 = 4 * n_2
    beyond = n - np.cumsum(counts)  # how many samples lie above each bin
    first, second, last = (int(np.argmax(beyond <= m)) for m in (n_1, n_2, 0))
    s_1, s_2, s_last = np.sqrt(_EDGES[[first, second + 1, last]])  # rounded so that the limit is never too tight
    slope = (s_2 - s_1) / np.log(n_1 / n_2)

    def reach(m: float) -> float:
        return float(s_2 + slope * np.log(n_2 / m))

    far, near = (int(beyond[np.searchsorted(_EDGES, reach(m) ** 2)]) for m in (0.1, _LOST))
    is_far = s_last > (_TRIGGER[0] + _TRIGGER[1] / np.sqrt(n)) * reach(0.1)
    is_many = near >= max(_MANY[0], _MANY[1] * n)
    return reach(_LOST if is_many else min(max(0.2 * far, 0.1), _LOST)) ** 2, bool(is_far or is_many)


def _tail_size(n: int) -> int:
    return max(_FEWEST, round(_SHARE * n))


def without_outliers(
    X: Array | ChunkedRows, seen: Moments, n_components: int | None
) -> tuple[Array | ChunkedRows, Moments]:
    """The rows of X that are no outliers, and their moments; X and `seen`, its moments, if all are.

    The distance s is measured along the `n_components` leading directions (by default all of them), fewer if there are fewer
    than 50 samples for each. Below 200 samples nothing is done, nor if fewer directions than `n_components` would remain, nor if
    squared distances leave the range of float32.
    """
    if not np.all(np.isfinite(seen.scatter)) or np.trace(seen.covariance) > _LARGEST_VARIANCE:
        return X, seen
    limit = find_limit(X, np.sqrt(np.diag(seen.covariance)), n_components)
    if limit is None:
        return X, seen
    inliers = moments(Inliers(X, limit, 0))
    if whitening(inliers, precision=X.dtype).rank < (n_components or 1):
        return X, seen
    return Inliers(X, limit, inliers.n), inliers


def inliers_of(X: Array) -> Array:
    """The rows of an array that are no outliers, in all of its directions; X itself if all are, or if it is as good as constant."""
    deviation = X.std(axis=0, dtype=np.float64)
    if not float(np.sum(deviation**2)) <= _LARGEST_VARIANCE:
        return X
    limit = find_limit(X, deviation, None)
    return X if limit is None else np.asarray(X[is_inlier(X, limit)])


def find_limit(X: Array | ChunkedRows, deviation: Array, n_components: int | None) -> Limit | None:
    """What tells the outliers of X from its other samples; None if there are no outliers, or fewer than 200 samples.

    `deviation` has the standard deviations of the features, for scaling.
    """
    limit = _metric(X, deviation, n_components) if X.shape[0] >= _LEAST_SAMPLES else None
    if limit is None:
        return None
    largest, exceeded = zip(*map(_tail, fold(X, _histogram, operator.add, limit)), strict=True)
    return limit._replace(largest=largest) if any(exceeded) else None


def without_negative_outliers(rows: Inliers, W: Array) -> tuple[Inliers, Moments]:
    """The rows without those whose outputs W x are far more negative than all others, and their moments."""
    limit = rows.limit._replace(unmixing=W)
    largest, exceeded = _tail(fold(rows, _histogram, operator.add, limit)[-1])
    limit = limit._replace(largest=(*rows.limit.largest, largest if exceeded else np.inf))
    inliers = moments(Inliers(rows.X, limit, 0))
    return Inliers(rows.X, limit, inliers.n), inliers


def _metric(X: Array | ChunkedRows, deviation: Array, n_components: int | None) -> Limit | None:
    """The metric of most samples, or None if they do not vary."""
    rng = np.random.default_rng(0)
    n, k = X.shape
    subset = X[np.sort(rng.choice(n, _SUBSET, replace=False))] if n > _SUBSET else X[:]
    basis = None
    if k > _WIDEST:
        basis = rng.standard_normal((_WIDEST, k)) / np.where(deviation > 0, deviation, 1) / np.sqrt(k)
        subset = subset @ basis.T
    d = min(n_components or k, max(1, len(subset) // _SAMPLES_PER_DIRECTION))
    nth = len(subset) - 1 - _tail_size(len(subset))
    some = moments(subset)
    limit = _metric_of(some, d, X.dtype)
    for _ in range(_TRIMS):
        if limit is None:
            return None
        squares = squared_distances(subset, limit)
        inner = (squares <= np.partition(squares, nth, axis=1)[:, nth, np.newaxis]).all(axis=0)
        before, some = some, moments(subset[inner])
        limit = _metric_of(some, d, X.dtype)
        if not np.any(np.diag(some.covariance) < 0.5 * np.diag(before.covariance)):
            break
    if limit is None or basis is None:
        return limit
    outside = None if limit.outside is None else limit.outside._replace(basis=basis)
    return limit._replace(matrix=limit.matrix @ basis, outside=outside)


def _metric_of(seen: Moments, d: int, precision: npt.DTypeLike) -> Limit | None:
    """The distance along the d leading directions of a covariance, and outside of them if there are others."""
    found = whitening(seen, d, precision=precision)
    if not found.rank:
        return None
    F, outside = found.matrix, None
    if len(F) < len(seen.mean):
        variance = np.diag(seen.covariance)
        rounding = np.finfo(precision).eps ** 2 * float(np.sum(variance + seen.mean**2))
        floor = _OUTSIDE * float(variance.sum()) + 16 * rounding
        outside = Outside(None, seen.mean, np.sum(found.inverse**2, axis=0), floor)
    return Limit(F, F @ seen.mean, outside)
