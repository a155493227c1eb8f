"""Outliers of the offline methods: samples far beyond the tail of all the others, which are left out of the moments.

A covariance has no bound on the weight of a sample: one row times 1e6 among 100,000 is a principal direction of its own. The
distance of a sample is

    s^2 = q / (1 - q / (n - 1)),   q = |F (x - <x>)|^2,   F C_xx F' = I
    e^2 = |x - <x>|^2 outside of the rows of F, only if F has fewer rows than x has features

q is the squared Mahalanobis distance, at most n - 1. s is the distance of x in the moments of all other samples, up to a
factor of n / (n - 1): it is large also for a sample that makes a direction of C_xx its own.

How far the tail of s may reach is extrapolated from its own quantiles. With s_2 and s_1 the distances that n_2 = 0.5 % and
n_1 = 2 % of the n samples exceed, a tail that falls exponentially reaches

    s_max = s_2 + (s_2 - s_1) ln(n_2 / 0.1) / ln(n_1 / n_2)

where 0.1 samples are expected beyond. Exponential, gamma (shape 0.1 to 2), odor-like, half-normal and uniform sources (n = 1000
to 1e5, d = 1 to 10) stay below 1.7 s_max. So nothing is done unless a sample lies beyond 2 s_max. If one does, all samples
beyond s_max are left out, the moments are computed from the others, and the test is repeated until no sample fails. The
distances of e are treated in the same way.

A sample that fails a test stays out. Before the outliers are found they stretch the metric, but they stretch it for all samples,
and the quantiles follow. At most 0.5 % of the samples can fail a test: more outliers than that are not recognised, and a source
that is active in fewer than 0.5 % of the samples looks like them.

The quantiles come from a histogram of q (and e^2) with 128 bins for each factor of two, a sum over blocks of rows.
"""

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .chunked import ChunkedRows, fold, row_blocks
from .whitening import Moments, Whitening, moments, whitening

Array = npt.NDArray[Any]
T = TypeVar("T")

_SHARE = 0.005  # of the samples that may be outliers; n_2 of them, and n_1 = 4 n_2
_FEWEST = 5  # n_2 in small samples
_LEAST_SAMPLES = 200
_TRIGGER = 2.0  # times s_max, in large samples
_FEW_SAMPLES = 600  # over n is added to that, because s_max is not well known in small samples
_TESTS = 8  # outliers of 12 decades need 2 to 4
_SAMPLES_PER_DIRECTION = 50  # with fewer, the samples are equally far from their mean
_OUTSIDE = 1e-9  # of the variance: less energy outside of F is rounding
_SHIFT, _BINS = 16, 1 << 15  # a float32 without 16 of its 23 bits of mantissa: 128 bins for each factor of two


class Limit(NamedTuple):
    """A test that samples pass or fail: the metric, and the largest q and e^2 that pass.

    `mean` and `matrix` give q. `variances` are those along the rows of F; the energy outside of them is
    measured if `floor` is a number, which is added to it. `largest` has one number for each of the two.
    """

    mean: Array
    matrix: Array
    variances: Array
    floor: float | None
    largest: tuple[float, ...] = ()


class Kept(ChunkedRows):
    """The rows of X that pass all tests; `n_outliers` is the number of the others."""

    def __init__(self, X: Array | ChunkedRows, limits: tuple[Limit, ...], n_outliers: int) -> None:
        self.X, self.limits, self.n_outliers = X, limits, n_outliers
        self.shape, self.dtype = (X.shape[0] - n_outliers, X.shape[1]), X.dtype

    def fold(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Return ``of_block(passing rows of the block, *arguments)`` for every block of X, joined two by two."""
        if isinstance(self.X, ChunkedRows):
            return self.X.fold(_of_passing, join, of_block, self.limits, *arguments)
        X = self.X
        blocks = (X[rows] for rows in row_blocks(*X.shape))
        return reduce(join, (_of_passing(block, of_block, self.limits, *arguments) for block in blocks))

    def __getitem__(self, rows: slice | Array) -> Array:
        block = self.X[rows]
        return np.asarray(block[passing(block, self.limits)])


def _of_passing(block: Array, of_block: Callable[..., T], limits: tuple[Limit, ...], *arguments: Any) -> T:
    return of_block(block[passing(block, limits)], *arguments)


def passing(X: Array, limits: tuple[Limit, ...]) -> Array:
    """Which rows of X pass all tests."""
    passed = np.ones(len(X), dtype=bool)
    for limit in limits:
        for squares, largest in zip(squared_distances(X, limit), limit.largest, strict=True):
            passed &= squares <= largest  # False for NaN, which overflow can produce
    return passed


def squared_distances(X: Array, limit: Limit) -> Array:
    """q of the rows of X, and e^2 if it is measured: (1 or 2, n_samples), float32."""
    found = np.empty((1 if limit.floor is None else 2, len(X)), dtype=np.float32)
    right = np.ascontiguousarray(limit.matrix.T)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(*X.shape):
            x = X[rows] - limit.mean  # float64
            z = x @ right
            z *= z
            found[0, rows] = z.sum(axis=1)
            if limit.floor is not None:
                outside = np.einsum("ij,ij->i", x, x) - z @ limit.variances
                found[1, rows] = np.maximum(outside, 0) + limit.floor
    return found


def _histogram(X: Array, limit: Limit) -> Array:
    """How many rows have each squared distance, in bins that are cut from the bits of a float32."""
    bins = squared_distances(X, limit).view(np.int32) >> _SHIFT
    return np.stack([np.bincount(b & (_BINS - 1), minlength=_BINS) for b in bins])


def _tail(counts: Array, leverage: bool) -> tuple[float, bool]:
    """The largest squared distance that passes, from a histogram, and whether a sample lies beyond 2 s_max.

    If `leverage` is set, the histogram is of q, otherwise of e^2.
    """
    n = int(counts.sum())
    n_2 = max(_FEWEST, round(_SHARE * n))
    n_1 = 4 * n_2
    beyond = n - np.cumsum(counts)  # how many samples lie above each bin
    edges = (np.arange(_BINS, dtype=np.int32) << _SHIFT).view(np.float32).astype(np.float64)
    per_sample = 1 / (n - 1) if leverage else 0.0
    first, second, last = (int(np.argmax(beyond <= m)) for m in (n_1, n_2, 0))
    q = edges[[first, second + 1, last]]  # lower and upper edge: the limit is never too tight
    s_1, s_2, s_last = np.sqrt(q / np.maximum(1 - q * per_sample, 1e-3))
    s_max = s_2 + (s_2 - s_1) * np.log(n_2 / 0.1) / np.log(n_1 / n_2)
    return float(s_max**2 / (1 + s_max**2 * per_sample)), bool(s_last > (_TRIGGER + _FEW_SAMPLES / n) * s_max)


def without_outliers(
    X: Array | ChunkedRows, seen: Moments, n_components: int | None, precision: npt.DTypeLike
) -> tuple[Array | ChunkedRows, Moments]:
    """The rows of X that are no outliers, and their moments; X and `seen`, its moments, if there are none.

    The distance is measured along the `n_components` leading directions (by default all of them), fewer if there are fewer
    than 50 samples for each. Below 200 samples nothing is done, nor if too few directions would remain.
    """
    rows: Array | ChunkedRows = X
    inliers, limits = seen, tuple[Limit, ...]()
    while len(limits) < _TESTS and inliers.n >= _LEAST_SAMPLES and np.all(np.isfinite(inliers.scatter)):
        found = whitening(inliers, n_components, precision=precision)
        if limits and found.rank < (n_components or 1):
            return X, seen
        limit = _metric(inliers, found, precision)
        histograms = fold(rows, _histogram, operator.add, limit)
        largest, exceeded = zip(*map(_tail, histograms, (True, False)), strict=True)
        if not limits and not any(exceeded):
            break
        limits += (limit._replace(largest=largest),)
        passed = moments(Kept(X, limits, 0))
        if passed.n == inliers.n:
            break
        rows, inliers = Kept(X, limits, seen.n - passed.n), passed
    return rows, inliers


def _metric(seen: Moments, found: Whitening, precision: npt.DTypeLike) -> Limit:
    """The distance along the leading directions of a whitening, and outside of them if there are others."""
    d = min(len(found.matrix), max(1, seen.n // _SAMPLES_PER_DIRECTION))
    F, inverse = found.matrix[:d], found.inverse[:, :d]
    floor = None
    if d < len(seen.mean):
        variance = np.diag(seen.covariance)
        rounding = np.finfo(precision).eps ** 2 * float(np.sum(variance + seen.mean**2))
        floor = _OUTSIDE * float(variance.sum()) + 16 * rounding
    return Limit(seen.mean, F, np.sum(inverse**2, axis=0), floor)
