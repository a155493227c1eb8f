"""The number of sources: as many as two halves of the samples agree on.

For q = 1, 2, ... a minimum-volume cone is fitted to two random halves of the samples. The spectra of the sources agree between
halves. If one more is asked for than there are, it is noise, or a source is cut in two at random, so that the worst angle between
matched spectra jumps (`halves`). The number before the largest jump of log(angle) is taken. Numbers whose jump is at least half as
large are named as candidates. A single source shows in no jump, because its angle is that of the mean: it is taken in place of two
sources if all other directions look like white noise, and if no other number agrees.

The cones are rough: one start by successive projection, walls as wide as the residual of q directions. Mixtures of more than 12
sources are counted only if their number is given (`most`). Beyond the rank of X no number agrees: its angle is 90 degrees.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .cone.fit import successive_projection
from .cone.objective import Wall, minimise_on_all, unweighted
from .halves import match, splits
from .outliers import inliers_of

Array = npt.NDArray[Any]

MOST = 12
_ROWS = 1000  # of each half
_SPLITS = 3
_FEW = 200  # samples: of fewer, two subsets of 80 % that overlap are compared in place of halves
_FLOOR = 0.3  # degrees: smaller angles are equally good
_CLEAR = 5.0  # factor of a jump after which `_BEYOND` more numbers are tried, and no more
_BEYOND = 3
_ALONE = 20.0  # degrees: if no number of two or more is better, there is one source
_WHITE = 1.5
_EMPTY = 1e-7  # of the largest singular value: rounding of float32, and of a Gram matrix
_ROUNDING = 1e-5  # of the mean energy of a direction: the narrowest wall


class Count(NamedTuple):
    """How many sources there are: `n_sources`, other `candidates`, and the angle in degrees for each number that was tried."""

    n_sources: int
    candidates: tuple[int, ...]
    angles: dict[int, float]


def count_sources(X: Array, *, most: int = MOST, seed: int = 0) -> Count:
    """Count the sources of the samples X (n, k), finite; a few thousand of them are enough.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S, A = rng.exponential(size=(2000, 3)), rng.random((3, 8))
    >>> count_sources(S @ A + 0.01 * rng.standard_normal((2000, 8))).n_sources
    3
    """
    X = _coordinates(inliers_of(np.asarray(X, np.float64)[:: max(1, len(X) // (4 * _ROWS))]), 4 * most)
    n, rank = X.shape
    if n < 4 or rank < 2:
        return Count(1, (), {})
    pairs = [tuple(X[rows] for rows in pair) for pair in _subsets(n, np.random.RandomState(seed))]
    last = min(rank, most, n // 4)
    angles: dict[int, float] = {}
    for q in range(1, last + 2):
        angles[q] = 90.0 if q > rank else float(np.median([_angle(pair, q) for pair in pairs]))
        best, jumps = _largest_jump(angles)
        if q - best > _BEYOND and jumps.get(best, 0.0) > np.log(_CLEAR):
            break
    alone = min(angle for q, angle in angles.items() if q > 1) > _ALONE and angles[1] < _ALONE
    if alone or (best == 2 and _is_single(X)):
        best = 1
    others = tuple(q for q, jump in jumps.items() if q != best and jump > 0.5 * jumps.get(best, np.inf))
    return Count(best, others, angles)


def _largest_jump(angles: dict[int, float]) -> tuple[int, dict[int, float]]:
    """The number before the largest jump, and the jump of log(angle) after each number of two or more."""
    log = {q: float(np.log(max(angle, _FLOOR))) for q, angle in angles.items()}
    jumps = {q: log[q + 1] - log[q] for q in log if q > 1 and q + 1 in log}
    return max(jumps, key=lambda q: jumps[q], default=1), jumps


def _subsets(n: int, rng: np.random.RandomState) -> list[tuple[Array, Array]]:
    if n >= _FEW:
        return [(a[:: max(1, len(a) // _ROWS)], b[:: max(1, len(b) // _ROWS)]) for a, b in splits(n, _SPLITS, rng)]
    orders = [rng.permutation(n) for _ in range(_SPLITS)]
    return [(order[: 4 * n // 5], order[n // 5 :]) for order in orders]


def _is_single(X: Array) -> bool:
    """Whether no direction but the first exceeds the largest eigenvalue of white noise (Marchenko and Pastur) by half."""
    energy = np.sum(X**2, axis=0)
    return X.shape[1] > 2 and bool(energy[1] < _WHITE * energy[2:].mean() * (1 + np.sqrt(X.shape[1] / len(X))) ** 2)


def _angle(pair: Any, q: int) -> float:
    try:
        return float(match(*(_cone(x, q) for x in pair))[1].max())
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return 90.0


def _cone(x: Array, q: int) -> Array:
    """Spectra of a rough minimum-volume cone of q sources."""
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    values, P = np.maximum(values[::-1], 0), vectors[:, ::-1][:, :q]
    if q == 1:
        return P
    data = unweighted(x @ P)
    variance = max(values[q:].sum() / max(min(x.shape) - q, 1), _ROUNDING * values[:q].mean())
    wall = Wall(np.ones(q), np.full(q, variance), np.full(q, 1e-3), 0.1, 0.0)
    return P @ np.linalg.inv(minimise_on_all(successive_projection(data), data, wall, tol=1e-2).V)


def _coordinates(X: Array, most: int) -> Array:
    """X in its leading directions, at most `most`, mean included and without those that rounding explains."""
    size = float(np.abs(X).max(initial=0.0))
    if not size:
        return X[:, :0]
    if X.shape[1] > len(X):
        values, vectors = np.linalg.eigh((X / size) @ (X / size).T)
        U, sigma = vectors[:, ::-1], np.sqrt(np.maximum(values[::-1], 0))
    else:
        U, sigma = np.linalg.svd(X / size, full_matrices=False)[:2]
    rank = min(int(np.sum(sigma > _EMPTY * sigma[0])), most)
    return np.asarray(U[:, :rank] * sigma[:rank])
