"""A triangular factor of centred data, from a stream: R'R is the scatter.

A scatter squares the condition number of the data, a QR decomposition does not. Factors of disjoint sets of rows are joined by a QR
decomposition of one on top of the other, with one more row for the difference of their means.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from .chunked import ChunkedRows, fold, row_blocks
from .whitening import Moments

Array = npt.NDArray[Any]


class Factor(NamedTuple):
    """Count, mean and factor R (k, k) of the rows seen so far."""

    n: int
    mean: Array
    R: Array

    @property
    def moments(self) -> Moments:
        """Count, mean and scatter."""
        return Moments(self.n, self.mean, self.R.T @ self.R)


class FactorStream(NamedTuple):
    """A factor of all rows but the last few, and these: a decomposition for every row would take k^3 operations each."""

    done: Factor
    rows: Array


def factor(X: Array | ChunkedRows) -> Factor:
    """Count, mean and factor of the rows of X, in float64."""
    return fold(X, _factor_of_block, merge_factors)


def is_short(X: Array) -> bool:
    """Whether rows are kept until there are more of them."""
    return bool(len(X) < 2 * X.shape[1])


def new_stream(k: int) -> FactorStream:
    """A stream of rows of length k that has not begun."""
    return FactorStream(Factor(0, np.zeros(k), np.zeros((k, k))), np.empty((0, k)))


def add_rows(stream: FactorStream, X: Array) -> FactorStream:
    """Add a short chunk."""
    rows = np.vstack([stream.rows, X.astype(np.float64)])
    return FactorStream(stream.done, rows) if is_short(rows) else add_factor(stream, factor(rows), rows[:0])


def add_factor(stream: FactorStream, f: Factor, rows: Array | None = None) -> FactorStream:
    """Add the factor of a long chunk; `rows` are those that are still waiting, by default all that were."""
    return FactorStream(merge_factors(stream.done, f), stream.rows if rows is None else rows.copy())


def complete(stream: FactorStream) -> Factor:
    """The factor of all rows."""
    return merge_factors(stream.done, factor(stream.rows))


def merge_factors(a: Factor, b: Factor) -> Factor:
    """The factor of two disjoint sets of rows together."""
    return _join(a, b.n, b.mean, b.R)


def _factor_of_block(X: Array) -> Factor:
    k = X.shape[1]
    total = Factor(0, np.zeros(k), np.zeros((k, k)))
    for rows in row_blocks(*X.shape):
        block = X[rows].astype(np.float64)  # a copy, which is centred in place
        mean = block.mean(axis=0)
        block -= mean
        residual = block.mean(axis=0)  # the rounding error of the mean
        block -= residual
        total = _join(total, len(block), mean + residual, block)
    return total


def _join(a: Factor, n: int, mean: Array, centred: Array) -> Factor:
    """Add n rows with this mean; `centred` are the rows without it, or their factor."""
    if not n:
        return a
    k, delta = len(mean), mean - a.mean
    both = a.n + n
    stack = np.vstack([a.R, centred, delta * np.sqrt(a.n * (n / both))]) if a.n else centred
    R = np.zeros((k, k))
    found = linalg.qr(stack, mode="r", overwrite_a=a.n > 0, check_finite=False)[0][:k]
    R[: len(found)] = found
    return Factor(both, a.mean + delta * (n / both), R)
