"""Outliers of the offline methods: samples far beyond the tail of all the others, which
are left out of the fit.

A covariance has no bound on the weight of a sample: one row times 1e6 among 100,000 is
a principal direction of its own. The distances of a sample are

    s = |F (x - <x>)|,     F C_xx F' = I     (Mahalanobis)
    e = |x - <x>| outside of the rows of F   (if F has fewer rows than x has features)

The metric (<x>, F) comes from a sample of the rows without the 0.5 % that are farthest
out, which are chosen again three times in the metric of the others, because the largest
outliers hide the smaller ones.

How far the tail of s may reach is extrapolated from its own quantiles. With s_2 and s_1
the distances that n_2 = 0.5 % and n_1 = 2 % of all n samples exceed, 0.2 samples of a
tail that falls exponentially are expected beyond

    s_* = s_2 + (s_2 - s_1) ln(n_2 / 0.2) / ln(n_1 / n_2)

If a sample lies beyond 3 s_*, all samples beyond s_* are outliers; otherwise there are
none. The distances e are treated in the same way. At most 0.5 % of the samples can be
outliers: more of them are not recognised, and a source that is active in 1 % of the
samples or fewer may look like them.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bionica.core.blocks import (
    Array,
    ArrayRows,
    ChunkedRows,
    Moments,
    fold,
    moments,
    row_blocks,
    row_sample,
    unit_of,
)
from bionica.core.whitening import whitening

T = TypeVar("T")

# of the samples that may be outliers: n_2 of them (5 in small samples), and n_1 = 4 n_2
_SHARE = 0.005
_LEAST_TAIL = 5
_LEAST_SAMPLES = 200  # fewer have no tail to extrapolate from
# times s_*: with 1.2, one of five fits to gamma(0.1) sources loses sound samples
_FAR = 3.0
_SAMPLES_PER_DIRECTION = 50  # with fewer, the samples are equally far from their mean
_OUTSIDE = 1e-9  # of the variance: less energy outside of F is rounding
_WIDEST = 32  # features; more are projected on so many random directions first
#: Of the histogram of log2(s^2): bins for a factor of two, in all, where it begins.
_OCTAVE = 64
_BINS = 64 * 192
_LOWEST = -64


class Limit(NamedTuple):
    """What tells outliers from other samples: how distances are measured, and the
    largest of samples that are none.

    `matrix` is F (d, k) and `offset` is F <x>. `outside` is for e, and None if e is not
    measured. `largest` are the largest s^2 and e^2, of those that are measured.
    """

    matrix: Array
    offset: Array
    outside: "Outside | None" = None
    largest: tuple[float, ...] = ()


class Outside(NamedTuple):
    """How e is measured: e^2 = (|x - mean|^2 - sum(variances (F (x - <x>))^2)) / floor
    + 1, in coordinates `basis` x if given.
    """

    basis: Array | None
    mean: Array
    variances: Array
    floor: float  # so large that rounding errors make no outliers


class Inliers(ChunkedRows):
    """The rows of X that are no outliers; n of them."""

    def __init__(self, X: Array | ChunkedRows, limit: Limit, n: int) -> None:
        self.X = X
        self.limit = limit
        self.shape = (n, X.shape[1])
        self.dtype = X.dtype

    def fold_numbered(
        self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any
    ) -> T:
        """Return ``of_block(inliers of the block, number of its first row,
        *arguments)`` for every block of X, joined as a tree.
        """
        X = self.X if isinstance(self.X, ChunkedRows) else ArrayRows(self.X)
        return X.fold_numbered(_of_inliers, join, of_block, self.limit, *arguments)

    def __getitem__(self, rows: slice | Array) -> Array:
        block = self.X[rows]
        return block[is_inlier(block, self.limit)]


def _of_inliers(
    block: Array, first: int, of_block: Callable[..., T], limit: Limit, *arguments: Any
) -> T:
    return of_block(block[is_inlier(block, limit)], first, *arguments)


def is_inlier(X: Array, limit: Limit) -> Array:
    """Which rows of X are no outliers."""
    largest = np.array(limit.largest)[:, None]
    return np.all(squared_distances(X, limit) <= largest, axis=0)


def squared_distances(X: Array, limit: Limit) -> Array:
    """s^2 of the rows of X, then e^2 if it is measured: (1 or 2, n_samples); infinite
    where they overflow.
    """
    outside = limit.outside
    distances = np.empty((1 if outside is None else 2, len(X)))
    right = np.ascontiguousarray(limit.matrix.T, dtype=X.dtype)
    offset = limit.offset.astype(X.dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(*X.shape):
            z = (X[rows] @ right - offset).astype(float)
            distances[0, rows] = np.einsum("ij,ij->i", z, z)
            if outside is not None:
                x = X[rows]
                if outside.basis is not None:
                    x = x @ outside.basis.T
                x = x.astype(float) - outside.mean
                energy = np.einsum("ij,ij->i", x, x) - z**2 @ outside.variances
                distances[1, rows] = np.maximum(energy, 0) / outside.floor + 1
    return np.nan_to_num(distances, copy=False, nan=np.inf, posinf=np.inf)


def histogram(X: Array, limit: Limit) -> Array:
    """How many rows have each squared distance, in bins of its logarithm."""
    with np.errstate(divide="ignore"):
        bins = _OCTAVE * (np.log2(squared_distances(X, limit)) - _LOWEST)
    bins = np.clip(bins, 0, _BINS - 1).astype(np.int64)
    return np.stack([np.bincount(b, minlength=_BINS) for b in bins])


def find_limit(X: Array | ChunkedRows, n_components: int | None = None) -> Limit | None:
    """What tells the outliers of X from its other samples; None if there are no
    outliers, or fewer than 200 samples.

    The distance s is measured along the `n_components` leading directions (by default
    all of them), fewer if there are fewer than 50 samples for each.
    """
    limit = metric(X, n_components) if X.shape[0] >= _LEAST_SAMPLES else None
    return limit and limit_of(limit, fold(X, histogram, operator.add, limit))


def limit_of(limit: Limit, counts: Array) -> Limit | None:
    """The limit of samples whose squared distances have these `histogram`s in this
    `metric`; None if there are no outliers.
    """
    largest = []
    exceeded = False
    for counts_of_one in counts:
        n = counts_of_one.sum()
        n_2 = max(_LEAST_TAIL, round(_SHARE * n))
        beyond = n - np.cumsum(counts_of_one)  # how many samples lie above each bin
        first, second, last = (int(np.argmax(beyond <= m)) for m in (4 * n_2, n_2, 0))
        # Where these bins begin; rounded so that the limit is never too tight.
        s_1, s_2, farthest = (
            2.0 ** ((b / _OCTAVE + _LOWEST) / 2) for b in (first, second + 1, last)
        )
        s_max = float(s_2 + (s_2 - s_1) * np.log(n_2 / 0.2) / np.log(4))
        largest.append(s_max**2)
        exceeded |= farthest > _FAR * s_max
    return limit._replace(largest=tuple(largest)) if exceeded else None


def without_outliers(
    X: Array | ChunkedRows, m: Moments, n_components: int | None
) -> tuple[Array | ChunkedRows, Moments]:
    """The rows of X that are no outliers, and their moments; X and `m`, its moments, if
    there are none.

    Nothing is done if fewer directions than `n_components` would remain.
    """
    limit = find_limit(X, n_components)
    if limit is None:
        return X, m
    inliers = moments(Inliers(X, limit, 0))
    if whitening(inliers, precision=X.dtype).rank < (n_components or 1):
        return X, m
    return Inliers(X, limit, int(inliers.n)), inliers


def are_inliers(X: Array) -> Array:
    """Which rows of an array are no outliers, in all of its directions."""
    scaled = X / unit_of(X)
    limit = find_limit(scaled)
    return is_inlier(scaled, limit) if limit else np.ones(len(X), bool)


def inliers_of(X: Array) -> Array:
    """The rows of an array that are no outliers; X itself if all are."""
    sound = are_inliers(X)
    return X if sound.all() else X[sound]


def metric(X: Array | ChunkedRows, n_components: int | None) -> Limit | None:
    """The metric of most samples, or None if they do not vary."""
    n, k = X.shape
    subset = X[row_sample(n, k)]
    basis = None
    if k > _WIDEST:
        deviation = subset.std(axis=0, dtype=float)
        directions = np.random.default_rng(0).standard_normal((_WIDEST, k))
        basis = directions / np.where(deviation > 0, deviation, 1) / np.sqrt(k)
        subset = subset @ basis.T
    d = min(n_components or k, max(1, len(subset) // _SAMPLES_PER_DIRECTION))
    nth = len(subset) - 1 - max(_LEAST_TAIL, round(_SHARE * len(subset)))
    inner = subset
    for _ in range(4):
        m = moments(inner)
        if not np.isfinite(m.scatter).all():
            return None
        white = whitening(m, d, precision=X.dtype)
        if not white.rank:
            return None
        limit = Limit(white.matrix, white.matrix @ m.mean)
        if len(white.matrix) < len(m.mean):
            variance = np.diag(m.covariance)
            rounding = np.finfo(X.dtype).eps ** 2 * np.sum(variance + m.mean**2)
            floor = _OUTSIDE * variance.sum() + 16 * rounding
            shares = (white.inverse**2).sum(axis=0)
            limit = limit._replace(outside=Outside(None, m.mean, shares, floor))
        squares = squared_distances(subset, limit)
        farthest = np.partition(squares, nth, axis=1)[:, nth, None]
        inner = subset[(squares <= farthest).all(axis=0)]
    if basis is None:
        return limit
    outside = limit.outside and limit.outside._replace(basis=basis)
    return limit._replace(matrix=limit.matrix @ basis, outside=outside)
