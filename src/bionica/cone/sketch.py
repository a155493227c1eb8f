"""What is kept of many samples: moments, a random sample, and the samples that decide where the facets are.

Everything here is a sum or a union over blocks of samples, so that blocks can be read in any order, on any machine.

- Moments <z>, <z z'> of the channels add.
- A sample has a number, and a mark: a hash of its number that is uniform on (0, 1). The random sample are those with the smallest
  marks. The sample of a union is the sample of the union of both samples.
- Of samples with noise, those near a facet decide where it is: a larger share of them is kept (`near_facets`).
- Without noise those outside of a cone decide (`outside`), or those that are farthest out along many directions (`extremes`): those
  of a union are among those of its parts.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..offline.whitening import Moments, NumberedRows, merge_moments, moments
from ..trust.outliers import Limit, histogram, is_inlier
from .fit import Fit, distance_outside
from .noise import EDGES, Channels

Array = npt.NDArray[Any]

_PER_SOURCE, _LEAST = 3000, 20_000  # samples that are kept
_MOST_BYTES, _FEWEST = 2**25, 2000  # of many channels
_DIRECTIONS, _TILTS = 1000, (0.01, 10.0)
_ROUNDING = 1e-8  # of |y|_1: a sample that is not farther outside is on the facet


class Samples(NamedTuple):
    """Samples z (m, q), their numbers (m,) and a mark for each (m,): whether it is an extreme one, or near a facet."""

    z: Array
    number: Array
    extreme: Array


def union(a: Samples, b: Samples) -> Samples:
    """Samples of a and then of b."""
    return Samples(*map(np.concatenate, zip(a, b, strict=True)))


# --- the random sample


def capacity(d: int, q: int) -> int:
    """How many samples of q channels are kept for d sources."""
    return min(max(_PER_SOURCE * d, _LEAST), max(_FEWEST, _MOST_BYTES // (8 * q)))


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.asarray((h >> np.uint64(11)) * 2.0**-53)


def smallest(mark: Array, most: int, rate: float = 1.0) -> tuple[Array, float]:
    """Which marks are below `rate` and among the `most` smallest, and the rate below which they are."""
    below = mark < rate
    if np.count_nonzero(below) > most:
        rate = float(np.partition(mark[below], most)[most])
        below = mark < rate
    return below, rate


def sample_rows(X: NumberedRows, most: int) -> tuple[Samples, float]:
    """The rows of X with the `most` smallest marks, in their order, and their rate; all if there are fewer than twice as many."""
    n = X.shape[0]
    if n < 2 * most:
        return X.fold_numbered(_rows_below, union, 2.0), 1.0
    rows = X.fold_numbered(_rows_below, union, (most + 6 * np.sqrt(most)) / n)
    kept, rate = smallest(marks(rows.number), most)
    return Samples(*(field[kept] for field in rows)), rate


def _rows_below(block: Array, first: int, rate: float) -> Samples:
    number = np.arange(first, first + len(block), dtype=np.float64)
    kept = marks(number) < rate
    return Samples(block[kept], number[kept], np.zeros(np.count_nonzero(kept), dtype=bool))


# --- totals of all samples


class Gate(NamedTuple):
    """Which samples are used: those within the `limit` of outliers, and at most `distance` outside of the cone `fit`, if given."""

    limit: Limit | None = None
    fit: Fit | None = None
    distance: float = np.inf

    def used(self, X: Array, Z: Array, channels: Channels) -> Array:
        """Which rows of X are used; Z are those of the channels."""
        used = np.ones(len(X), dtype=bool)
        if self.limit is not None:
            used &= is_inlier(X / X.dtype.type(channels.scale), self.limit)
        if self.fit is not None:
            used &= distance_outside(Z, self.fit) <= self.distance
        return used


class Totals(NamedTuple):
    """Of all samples that are used: moments of the channels, with the weights of counts and without; of x: least and largest entry,
    sums of min(x, 0)^2 (k,); of all samples the histogram of their distances, if it was asked for.
    """

    weighted: Moments
    raw: Moments
    least: float
    largest: float
    negative: Array
    distances: Array


def totals(X: Array, channels: Channels, gate: Gate = Gate(), ruler: Limit | None = None) -> Totals:  # noqa: B008
    """Totals of a block X (n, k); `ruler` measures the distances of outliers."""
    Z = channels.rows(X)
    distances = np.zeros(1) if ruler is None else histogram(X / X.dtype.type(channels.scale), ruler)
    used = gate.used(X, Z, channels)
    if not used.all():
        X, Z = X[used], Z[used]
    weighted = moments(Z)
    raw = moments(channels.rows(X, weighted=False)) if channels.counts else weighted
    least, largest = float(X.min(initial=np.inf)), float(X.max(initial=-np.inf))
    negative = np.sum(np.minimum(X, 0, dtype=np.float64) ** 2, axis=0) if least < 0 else np.zeros(X.shape[1])
    return Totals(weighted, raw, least, largest, negative, distances)


def merge_totals(a: Totals, b: Totals) -> Totals:
    """The totals of both."""
    weighted, raw = (merge_moments(*pair) for pair in zip(a[:2], b[:2], strict=True))
    ends = min(a.least, b.least), max(a.largest, b.largest)
    return Totals(weighted, raw, *ends, a.negative + b.negative, a.distances + b.distances)


def back_projection(X: Array, channels: Channels) -> Array:
    """Z' Z B for the subspace B of the channels and z = w x / scale: a step of the power method towards the leading directions."""
    Z = channels._replace(projected=False).rows(X)
    return np.asarray(Z.T @ (Z @ channels.subspace))


# --- samples that decide where facets are


def near_facets(
    block: Array, first: int, channels: Channels, gate: Gate, fit: Fit, rates: tuple[float, float]
) -> Samples:
    """Coordinates u of samples near a facet of `fit` with marks below the first rate, and of others with marks below the second."""
    Z = channels.rows(block)
    number = np.arange(first, first + len(block), dtype=np.float64)
    near = (fit.components @ Z.T < EDGES[-1] * fit.cone.noise[:, None]).any(axis=0)
    kept = marks(number) < np.where(near, *rates)
    Z, number, near = Z[kept], number[kept], near[kept]
    used = gate.used(block[kept], Z, channels)
    return Samples(Z[used] @ fit.coordinates.matrix.T, number[used], near[used])


def outside(block: Array, first: int, channels: Channels, gate: Gate, fit: Fit) -> Samples:
    """The samples outside of the cone `fit`; of more than 1000 those that are farthest out along many directions."""
    Z = channels.rows(block)
    Y = fit.components @ Z.T
    size = np.abs(Y).sum(axis=0)
    rows = np.flatnonzero((Y.min(axis=0) < -_ROUNDING * size) & (size > _ROUNDING))  # the apex has no direction
    rows = rows[gate.used(block[rows], Z[rows], channels)]
    return farthest(fit.components, Samples(Z[rows], first + rows.astype(np.float64), np.ones(len(rows), dtype=bool)))


def farthest(W: Array, a: Samples, b: Samples | None = None) -> Samples:
    """The samples of a and b; of more than 1000 the `extremes`."""
    both = a if b is None else union(a, b)
    if len(both.z) <= _DIRECTIONS:
        return both
    kept = extremes(W @ both.z.T)
    return Samples(*(field[kept] for field in both))


@lru_cache(maxsize=8)
def _probe_directions(d: int) -> Array:
    """g = e_i + tau r with |r| = 1: tilted from each facet i by angles on all scales, (m, d)."""
    rng = np.random.RandomState(0)
    n = -(-_DIRECTIONS // d)
    r = rng.standard_normal((d, n, d))
    r /= np.linalg.norm(r, axis=2, keepdims=True)
    low, high = _TILTS
    tau = low * (high / low) ** rng.uniform(size=(d, n, 1))
    G: Array = (np.eye(d)[:, None] + tau * r).reshape(d * n, d)
    G.setflags(write=False)
    return G


def extremes(Y: Array) -> Array:
    """Which of the samples with outputs Y (d, n) are lowest along some direction, g' y / |y|_1.

    In what order samples come must not matter: the first rows of an image may be sky, and the facets of their cone turn by far when
    the rest comes. A facet that turns outward at one end turns inward at the other, where samples were not near it so far.
    """
    size = np.abs(Y).sum(axis=0)
    direction = Y / np.maximum(size, 1e-8)
    G = _probe_directions(len(Y))
    lowest, index = np.full(len(G), np.inf), np.zeros(len(G), dtype=np.intp)
    for start in range(0, Y.shape[1], _DIRECTIONS):
        q = G @ direction[:, start : start + _DIRECTIONS]
        q[:, size[start : start + _DIRECTIONS] < 1e-8] = np.inf  # the apex has no direction; outputs have mean 1
        first = q.argmin(axis=1)
        value = q[np.arange(len(G)), first]
        index, lowest = np.where(value < lowest, start + first, index), np.minimum(value, lowest)
    return np.unique(index)
