"""The samples of a stream that lie farthest out along many directions, for a cone without noise.

The smallest cone around all samples touches a few of them, and only their directions matter. In what order samples come must not
matter either: the first rows of an image may be sky, and the facets of their cone turn by far when the rest comes. A facet that
turns outward at one end turns inward at the other, where samples were not near it so far. So samples are kept that are lowest
along fixed directions, relative to the outputs y of the last solution,

    q = g' y / |y|_1,    g = e_i + tau r,    |r| = 1,

tilted from each facet i by angles on all scales, tau = 0.01 to 10. With three sources these are all corners of the cone.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DIRECTIONS = 1000  # and up to d - 1 more
_TILTS = (0.01, 10.0)
_APEX = 1e-5  # |y|_1 of samples that have no direction; outputs have mean 1


@lru_cache(maxsize=8)
def _directions(d: int) -> Array:
    rng = np.random.RandomState(0)
    n = -(-DIRECTIONS // d)
    r = rng.standard_normal((d, n, d))
    r /= np.linalg.norm(r, axis=2, keepdims=True)
    low, high = _TILTS
    tau = low * (high / low) ** rng.uniform(size=(d, n, 1))
    G: Array = (np.eye(d)[:, None] + tau * r).reshape(d * n, d)
    G.setflags(write=False)
    return G


def _positions(Y: Array) -> Array:
    """q of the samples with outputs Y (d, n) along all directions, (m, n); inf at the apex."""
    size = np.abs(Y).sum(axis=0)
    q = _directions(len(Y)) @ (Y / np.maximum(size, _APEX))
    q[:, size < _APEX] = np.inf
    return np.asarray(q)


def extremes(Y: Array) -> Array:
    """Which of the samples with outputs Y (d, n) are lowest along some direction."""
    return np.unique(_positions(Y).argmin(axis=1)) if Y.shape[1] else np.empty(0, dtype=np.intp)


def new_extremes(Y: Array, last: Array) -> Array:
    """Which of the samples with outputs Y (d, n) are lower along some direction than all samples with outputs `last` (d, m)."""
    q = _positions(Y)
    lowest = q.argmin(axis=1)
    beyond = q[np.arange(len(q)), lowest] < _positions(last).min(axis=1, initial=np.inf)
    return np.unique(lowest[beyond])
