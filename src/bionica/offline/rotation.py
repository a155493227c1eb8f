"""The rotation of whitened data into the nonnegative orthant (section 2.1 of the paper; Plumbley 2003).

Given z = F x with unit covariance and its mean, find the orthogonal R that minimises J, the energy of R z outside the
nonnegative orthant (`descend`). The search starts on a random subset of the rows, where a pass is cheap, from a
rotation that turns the mean towards (1, ..., 1). Its result and its curvature pairs start the search on more rows, up to all
of them. A start is accepted if its J is what independent sources with these margins would show, or if another start ends at
the same J: see `rotate`.
"""

import operator
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg
from sklearn.utils.random import sample_without_replacement

from .whitening import ChunkedRows, fold

Array = npt.NDArray[Any]
Pairs = deque[tuple[Array, Array]]

_BLOCK_BYTES = 1 << 17  # three blocks of rows (z, y, n) stay in the second-level cache
_LARGEST_ANGLE = 0.5  # of one step, in radians


class Descent(NamedTuple):
    """The end of a descent: rotation, J, number of iterations, and whether it met its tolerance."""

    R: Array
    objective: float
    n_iter: int
    converged: bool


def no_pairs() -> Pairs:
    """An empty memory of L-BFGS, for ten curvature pairs."""
    return deque(maxlen=10)


def value_and_gradient(Z: Array | ChunkedRows, R: Array) -> tuple[float, Array]:
    """J(R) and its gradient on the orthogonal group, a skew-symmetric matrix."""
    G = fold(Z, _products, operator.add, R) / Z.shape[0]
    return 0.5 * float(np.trace(G)), 0.5 * (G - G.T)


def _products(Z: Array, R: Array) -> Array:
    """The sum of n y' over the rows of a block."""
    T, d = Z.shape
    right = np.ascontiguousarray(R.T, dtype=Z.dtype)
    G = np.zeros((d, d))
    size = max(64, _BLOCK_BYTES // (d * Z.itemsize))
    y_buffer, n_buffer = np.empty((2, min(T, size), d), dtype=Z.dtype)
    for start in range(0, T, size):
        block = Z[start : start + size]
        y, n = y_buffer[: len(block)], n_buffer[: len(block)]
        np.matmul(block, right, out=y)
        np.minimum(y, 0, out=n)
        G += n.T @ y
    return G


def descend(
    Z: Array | ChunkedRows, R: Array, *, tol: float = 1e-5, max_iter: int = 500, pairs: Pairs | None = None
) -> Descent:
    """Minimise J from the orthogonal R by L-BFGS on the orthogonal group; Z is whitened, its mean included.

    The descent ends when the next step would rotate no pair of outputs by more than `tol` radians, or after `max_iter` steps.
    `pairs` are the curvature pairs of an earlier descent on similar data; they are extended in place.
    """
    pairs = no_pairs() if pairs is None else pairs
    objective, gradient = value_and_gradient(Z, R)
    for n_iter in range(max_iter):
        step = _direction(gradient, pairs)
        largest = float(np.abs(step).max())
        if objective == 0 or largest == 0 or (pairs and largest <= tol):
            return Descent(_orthogonal(R), objective, n_iter + 1, True)
        slope = float(np.vdot(gradient, step))
        length = min(1.0, _LARGEST_ANGLE / largest)
        for _ in range(12):
            trial = _cayley(length * step) @ R
            new_objective, new_gradient = value_and_gradient(Z, trial)
            if new_objective <= objective + 1e-4 * length * slope:
                break
            length *= 0.3
        else:
            if pairs:  # the curvature is stale: try once more along the gradient
                pairs.clear()
                continue
            return Descent(_orthogonal(R), objective, n_iter + 1, True)  # rounding hides any further descent
        s, y = length * step, new_gradient - gradient
        if np.vdot(s, y) > 1e-12 * np.sqrt(np.vdot(s, s) * np.vdot(y, y)):
            pairs.append((s, y))
        R, objective, gradient = trial, new_objective, new_gradient
    return Descent(_orthogonal(R), objective, max_iter, False)


def _direction(gradient: Array, pairs: Pairs) -> Array:
    """Minus the inverse Hessian times the gradient (the two loops of L-BFGS)."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        rho = 1.0 / np.vdot(s, y)
        a = rho * np.vdot(s, q)
        q -= a * y
        weights.append((rho, a))
    if pairs:
        s, y = pairs[-1]
        q *= np.vdot(s, y) / np.vdot(y, y)
    for (s, y), (rho, a) in zip(pairs, reversed(weights), strict=True):
        q += (a - rho * np.vdot(y, q)) * s
    return -q


def _cayley(E: Array) -> Array:
    """(I - E/2)^{-1} (I + E/2): orthogonal for skew E, and exp(E) to second order."""
    half = 0.5 * E
    identity = np.eye(len(E))
    return np.linalg.solve(identity - half, identity + half)


def _orthogonal(R: Array) -> Array:
    """The orthogonal matrix nearest to R, which removes accumulated rounding."""
    return np.asarray(linalg.polar(R)[0])


_GROWTH = 6  # of the subset, from one descent to the next
_LARGEST_SUBSET = 1 << 24  # numbers: subsets of a Dask array are brought into memory
_LARGEST_PERMUTATION = 1 << 24
_TOL = 0.03  # times n_samples ** -0.5, about the statistical error of the best rotation
_START_TOL = 1e-4  # of the descents on subsets
_FLOOR = (0.01, 3.0)  # times the J of independent surrogates: what the model predicts
_AGREE = 1.05  # two starts within 5 % of each other (or of half the expected J) are equally good
_SAME = 1e-2  # rotations that disagree by less need no second descent on all rows


class Rotation(NamedTuple):
    """The result of `rotate`.

    `R` (d, d) is orthogonal; `objective` is J on all rows; `n_iter` counts the iterations of the winning start and of the
    descents that continued it; `converged` says whether the last met `tol`; `n_starts` counts starts; `confirmed` says whether
    the best start was what the model predicts or was matched by another start; `ambiguity` is the `disagreement` with that
    other start after both descended on all rows (0.0 if one start was enough).
    """

    R: Array
    objective: float
    n_iter: int
    converged: bool
    n_starts: int
    confirmed: bool
    ambiguity: float


def start_rotation(mean: Array, rng: np.random.RandomState) -> Array:
    """A random rotation among those that turn `mean` towards (1, ..., 1).

    Sources of unit variance and positive mean have their mean inside the orthant, and so does this start.
    """
    d = len(mean)

    def basis(first: Array) -> Array:
        Q, r = np.linalg.qr(np.column_stack([first, rng.standard_normal((d, d - 1))]))
        return np.asarray(Q * np.where(np.diag(r) < 0, -1.0, 1.0))

    if not np.any(mean):
        mean = rng.standard_normal(d)
    return np.asarray(basis(np.ones(d)) @ basis(mean).T)


def expected_objective(Y: Array, rng: np.random.RandomState) -> float:
    """J that exactly independent nonnegative sources with the margins of Y would show after whitening.

    Each column of max(Y, 0) is shuffled, which makes the sources independent, and all are whitened by the symmetric square
    root of their sample covariance. Chance correlations alone then make some outputs negative.
    """
    S = np.maximum(Y, 0).astype(np.float64)
    for column in S.T:
        rng.shuffle(column)
    w, U = np.linalg.eigh(np.cov(S.T, bias=True).reshape(S.shape[1], -1))
    if w[0] <= 1e-6 * w[-1]:
        return 0.0
    return value_and_gradient(S, (U / np.sqrt(w)) @ U.T)[0]


def disagreement(R1: Array, R2: Array) -> float:
    """How far two rotations are from giving the same sources: 0 if they differ by a permutation, at most 1."""
    return max(0.0, 1.0 - float(np.mean(np.max((R1 @ R2.T) ** 2, axis=1))))


def rotate(
    Z: Array | ChunkedRows,
    *,
    tol: float | None = None,
    max_iter: int = 500,
    n_init: int = 10,
    rng: np.random.RandomState,
) -> Rotation:
    """The rotation of Z into the nonnegative orthant, with as many starts as needed to trust it.

    Starts run on a random subset of max(2000, 100 d) rows. The first is accepted if its J is that of independent sources (0.01
    to 3 times `expected_objective`). A larger J may be a local minimum; a much smaller one means that more than one rotation
    is nonnegative. In both cases starts are added until the best J has been found twice, at most `n_init`, and the two
    rotations are compared. The descent continues on subsets that are six times larger each (up to 128 MB), then on all rows.

    Z (n_samples, d) is whitened, its mean included. `tol` is that of the last descent (see `descend`), by default
    0.03 / sqrt(n_samples), a small part of the statistical error; `max_iter` is that of each descent.
    """
    T, d = Z.shape
    tol = _TOL / np.sqrt(T) if tol is None else tol
    sizes = [max(2000, 100 * d)]
    while 3 * _GROWTH * sizes[-1] <= T and _GROWTH * sizes[-1] * d <= _LARGEST_SUBSET:
        sizes.append(_GROWTH * sizes[-1])
    resolution = d * _START_TOL**2  # by how much the J of a start may be off
    if T <= 3 * sizes[0]:
        Z = Z[:]
    subset: Array = _some_rows(Z, sizes[0], rng)[:]
    starts: list[tuple[Descent, Pairs]] = []
    while len(starts) < n_init:
        # The first start uses the mean. The others do not, to find out whether that mattered.
        towards = np.asarray(rng.standard_normal(d) if starts else subset.mean(axis=0, dtype=np.float64))
        pairs = no_pairs()
        end = descend(subset, start_rotation(towards, rng), tol=_START_TOL, max_iter=max_iter, pairs=pairs)
        starts.append((end, pairs))
        starts.sort(key=lambda start: start[0].objective)
        if len(starts) == 1:
            expected = expected_objective(subset @ end.R.T.astype(Z.dtype), rng)
            confirmed = d == 1 or max(_FLOOR[0] * expected, resolution) < end.objective <= _FLOOR[1] * expected
        else:
            confirmed = starts[1][0].objective <= _AGREE * starts[0][0].objective + 0.5 * expected + resolution
        if confirmed:
            break

    rivals = starts[: 2 if confirmed else 1]
    if len(rivals) > 1 and disagreement(rivals[0][0].R, rivals[1][0].R) < _SAME:
        del rivals[1:]
    for size in [*sizes[1:], T]:
        rows = _some_rows(Z, size, rng)
        goal = tol if size == T else _START_TOL
        ends = [descend(rows, end.R, tol=goal, max_iter=max_iter, pairs=pairs) for end, pairs in rivals]
        rivals = [(e._replace(n_iter=old.n_iter + e.n_iter), p) for e, (old, p) in zip(ends, rivals, strict=True)]
    best = min((end for end, _ in rivals), key=lambda end: end.objective)
    # A rival that is worse on all rows does not make the result ambiguous.
    level = _AGREE * best.objective + 0.5 * expected * (len(subset) / T) + resolution
    ambiguity = max(disagreement(best.R, end.R) for end, _ in rivals if end.objective <= level)
    return Rotation(*best, len(starts), confirmed, ambiguity)


def _some_rows(Z: Array | ChunkedRows, size: int, rng: np.random.RandomState) -> Array | ChunkedRows:
    """`size` random rows of Z in their order, or Z itself if that would save little."""
    T = Z.shape[0]
    if T <= 3 * size:
        return Z
    if T <= _LARGEST_PERMUTATION:
        return Z[np.sort(rng.choice(T, size, replace=False))]
    rows = np.sort(sample_without_replacement(T, size, random_state=rng))  # choice would permute all T numbers
    return Z[rows]
