"""The rotation of whitened data into the nonnegative orthant (section 2.1 of the paper; Plumbley 2003).

Given z = F x with unit covariance and its mean left in, find the orthogonal R that minimises the energy outside the
nonnegative orthant:

    J(R) = <|min(R z, 0)|^2> / 2,       R R' = I.

With y = R z and n = min(y, 0), moving along R <- exp(E) R with E' = -E changes J by <G, E>, G = <n y'>, so that the
gradient on the group is the skew part of G and J = tr(G) / 2: one pass over the data, two matrix products, gives both.

The plain alternation Y = max(Z R', 0), R = polar(Y'Z) majorises and minimises this J. Its step is that of a first-order
method and J is nearly flat at the solution for sources without an atom at zero (it grows with the cube of the angle),
so that it needs thousands of passes there. Here the same J is minimised by L-BFGS on the group: the pairs (step, change
of gradient) live in the skew matrices and are used without transport, as in Picard-O (Ablin, Cardoso and Gramfort
2018), and a step is taken by the Cayley transform, which keeps R orthogonal. It needs 20 to 150 passes.

The search starts on a random subset of the rows, where passes cost little, from a rotation that turns the mean towards
(1, ..., 1); its result and its curvature pairs start the search on more rows, and so on to all. A start is believed when
its J is what independent sources with these margins would show, or when another start ends at the same J: see `rotate`.
"""

import operator
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from .chunked import Rows, as_rows

Array = npt.NDArray[Any]
Pairs = deque[tuple[Array, Array]]

_BLOCK_BYTES = 1 << 17  # three blocks of rows (z, y, n) stay in the second-level cache
_GROWTH = 6  # of the subset, from one descent to the next
_LARGEST_SUBSET = 1 << 24  # numbers: subsets are brought into memory, wherever Z lies
_LARGEST_PERMUTATION = 1 << 24
_MEMORY = 10  # pairs of L-BFGS
_TOL = 0.03  # times n_samples ** -0.5, about the angle by which the best rotation is off
_START_TOL = 1e-4  # of the descents on subsets
_LARGEST_ANGLE = 0.5  # of one step, in radians
_FLOOR = (0.01, 3.0)  # times the J of independent surrogates: what the model predicts
_AGREE = 1.05  # two starts within 5 % of each other (or of half the expected J) are equally good
_SAME = 1e-2  # rotations that disagree by less need no second descent on all rows


class Descent(NamedTuple):
    """Where a descent ended: rotation, J, iterations, and whether it met its tolerance."""

    R: Array
    objective: float
    n_iter: int
    converged: bool


class Rotation(NamedTuple):
    """The result of `rotate`.

    `R` (d, d) is orthogonal; `objective` is J on all rows; `n_iter` counts the iterations of the winning start and
    of the descents that continued it; `converged` says whether the last met `tol`; `n_starts` counts starts; `confirmed`
    says whether the best start was what the model predicts or was matched by another start; `ambiguity` is the
    `disagreement` with that other start, after both descended on all rows (0.0 where one start was enough).
    """

    R: Array
    objective: float
    n_iter: int
    converged: bool
    n_starts: int
    confirmed: bool
    ambiguity: float


def value_and_gradient(Z: Array | Rows, R: Array) -> tuple[float, Array]:
    """J(R) and its gradient on the orthogonal group, a skew-symmetric matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import value_and_gradient
    >>> value_and_gradient(np.array([[3.0, -1.0]]), np.eye(2))
    (0.5, array([[ 0. ,  1.5],
           [-1.5,  0. ]]))
    """
    rows = as_rows(Z)
    G = rows.fold(_products, operator.add, R) / rows.shape[0]
    return 0.5 * float(np.trace(G)), 0.5 * (G - G.T)


def _products(Z: Array, R: Array) -> Array:
    """The sum of n y' over a part of the rows."""
    T, d = Z.shape
    right = np.ascontiguousarray(R.T, dtype=Z.dtype)
    G = np.zeros((d, d))
    size = min(T, max(64, _BLOCK_BYTES // (d * Z.itemsize)))
    y_buffer, n_buffer = np.empty((2, size, d), dtype=Z.dtype)
    for start in range(0, T, size):
        block = Z[start : start + size]
        y, n = y_buffer[: len(block)], n_buffer[: len(block)]
        np.matmul(block, right, out=y)
        np.minimum(y, 0, out=n)
        G += n.T @ y
    return G


def _cayley(E: Array) -> Array:
    """(I - E/2)^{-1} (I + E/2), orthogonal for skew E and exp(E) to second order."""
    half = 0.5 * E
    identity = np.eye(len(E))
    return np.linalg.solve(identity - half, identity + half)


def _direction(gradient: Array, pairs: Pairs) -> Array:
    """Minus the inverse Hessian times the gradient, as the pairs know it (the two loops of L-BFGS)."""
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


def descend(
    Z: Array | Rows, R: Array, *, tol: float = 1e-5, max_iter: int = 500, pairs: Pairs | None = None
) -> Descent:
    """Minimise J from R by L-BFGS on the orthogonal group.

    Parameters
    ----------
    Z : array of shape (n_samples, d), or Rows
        Whitened, mean included.
    R : array of shape (d, d)
        Orthogonal start; not changed.
    tol : float, default=1e-5
        Stop when the next step would turn no pair of outputs by more than `tol` radians.
    max_iter : int, default=500
        Largest number of steps.
    pairs : deque, optional
        Curvature pairs of an earlier descent on similar data; extended in place.

    Returns
    -------
    Descent

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import descend
    >>> S = np.random.default_rng(0).exponential(size=(1000, 2))
    >>> turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    >>> found = descend(S @ turn, np.eye(2))
    >>> found.converged, bool(np.abs(found.R @ turn.T).max() > 0.99)
    (True, True)
    """
    pairs = deque(maxlen=_MEMORY) if pairs is None else pairs
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
            if pairs:  # a stale curvature; once more along the gradient
                pairs.clear()
                continue
            return Descent(_orthogonal(R), objective, n_iter + 1, True)  # rounding hides any further descent
        s, y = length * step, new_gradient - gradient
        if np.vdot(s, y) > 1e-12 * np.sqrt(np.vdot(s, s) * np.vdot(y, y)):
            pairs.append((s, y))
        R, objective, gradient = trial, new_objective, new_gradient
    return Descent(_orthogonal(R), objective, max_iter, False)


def _orthogonal(R: Array) -> Array:
    """The orthogonal matrix nearest to R: takes out what rounding added up."""
    return np.asarray(linalg.polar(R)[0])


def start_rotation(mean: Array, rng: np.random.RandomState) -> Array:
    """A random rotation among those that turn `mean` towards (1, ..., 1).

    Sources of unit variance and positive mean have their whitened mean inside the orthant; so does this start.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import start_rotation
    >>> mean = np.array([3.0, 0.0, -4.0])
    >>> start_rotation(mean, np.random.RandomState(0)) @ mean / 5 * np.sqrt(3)
    array([1., 1., 1.])
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

    Each column of max(Y, 0) is shuffled on its own, which makes independent sources, and whitened by the symmetric
    square root of its sample covariance. What falls below zero is the work of chance correlations alone.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import expected_objective
    >>> rng = np.random.RandomState(0)
    >>> bool(expected_objective(rng.exponential(size=(2000, 3)), rng) < 1e-4)
    True
    """
    S = np.maximum(Y, 0).astype(np.float64)
    for column in S.T:
        rng.shuffle(column)
    w, U = np.linalg.eigh(np.cov(S.T, bias=True).reshape(S.shape[1], -1))
    if w[0] <= 1e-6 * w[-1]:
        return 0.0
    symmetric = (U / np.sqrt(w)) @ U.T
    return value_and_gradient(S, symmetric)[0]


def disagreement(R1: Array, R2: Array) -> float:
    """How far two rotations are from naming the same sources: 0 where they differ by a permutation, at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import disagreement
    >>> disagreement(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
    0.0
    >>> round(disagreement(np.eye(2), np.array([[0.8, -0.6], [0.6, 0.8]])), 2)
    0.36
    """
    return max(0.0, 1.0 - float(np.mean(np.max((R1 @ R2.T) ** 2, axis=1))))


def rotate(
    Z: Array | Rows,
    *,
    tol: float | None = None,
    max_iter: int = 500,
    n_init: int = 10,
    rng: np.random.RandomState,
) -> Rotation:
    """The rotation of Z into the nonnegative orthant, with as many starts as it takes to believe it.

    Starts run on a random subset of max(2000, 100 d) rows. The first is believed at once when its J is that of
    independent sources (0.01 to 3 times `expected_objective`). A larger J may be a local minimum, and one far smaller
    means that more than one rotation is nonnegative. In both cases starts are added until the best J has been found
    twice, at most `n_init`, and the two rotations are compared. The descent continues on subsets six times larger
    each (up to 128 MB), and ends on all rows.

    Parameters
    ----------
    Z : array of shape (n_samples, d), or Rows
        Whitened, mean included.
    tol : float, optional
        Of the last descent, see `descend`; by default 0.03 / sqrt(n_samples), a small part of the statistical error.
    max_iter : int, default=500
        Of each descent.
    n_init : int, default=10
        Largest number of starts.
    rng : RandomState
        For the subset and the starts.

    Returns
    -------
    Rotation

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.rotation import rotate
    >>> S = np.random.default_rng(0).exponential(size=(1000, 3))
    >>> found = rotate(S, rng=np.random.RandomState(0))
    >>> found.confirmed, bool(np.allclose(found.R @ found.R.T, np.eye(3)))
    (True, True)
    """
    Z = as_rows(Z)
    T, d = Z.shape
    tol = _TOL / np.sqrt(T) if tol is None else tol
    sizes = [max(2000, 100 * d)]
    while 3 * _GROWTH * sizes[-1] <= T and _GROWTH * sizes[-1] * d <= _LARGEST_SUBSET:
        sizes.append(_GROWTH * sizes[-1])
    resolved = d * _START_TOL**2  # by how much the J of a start may be off
    if T <= 3 * sizes[0]:
        Z = Z.take()
    subset = _some_rows(Z, sizes[0], rng).take()
    found: list[tuple[Descent, Pairs]] = []
    while len(found) < n_init:
        # The first start looks where the mean says; the others do not, so as to tell whether that mattered.
        towards = np.asarray(rng.standard_normal(d) if found else subset.array.mean(axis=0, dtype=np.float64))
        pairs: Pairs = deque(maxlen=_MEMORY)
        end = descend(subset, start_rotation(towards, rng), tol=_START_TOL, max_iter=max_iter, pairs=pairs)
        found.append((end, pairs))
        found.sort(key=lambda start: start[0].objective)
        if len(found) == 1:
            expected = expected_objective(subset.array @ end.R.T.astype(Z.dtype), rng)
            confirmed = d == 1 or max(_FLOOR[0] * expected, resolved) < end.objective <= _FLOOR[1] * expected
        else:
            confirmed = found[1][0].objective <= _AGREE * found[0][0].objective + 0.5 * expected + resolved
        if confirmed:
            break

    n_starts, rivals = len(found), found[: 2 if confirmed else 1]
    if len(rivals) > 1 and disagreement(rivals[0][0].R, rivals[1][0].R) < _SAME:
        del rivals[1:]
    for size in [*sizes[1:], T]:
        rows = _some_rows(Z, size, rng)
        goal = tol if size == T else _START_TOL
        ends = [descend(rows, end.R, tol=goal, max_iter=max_iter, pairs=pairs) for end, pairs in rivals]
        rivals = [(e._replace(n_iter=old.n_iter + e.n_iter), p) for e, (old, p) in zip(ends, rivals, strict=True)]
    best = min((end for end, _ in rivals), key=lambda end: end.objective)
    # A rival that all rows show to be worse contradicts nothing.
    level = _AGREE * best.objective + 0.5 * expected * (len(subset.array) / T) + resolved
    ambiguity = max(disagreement(best.R, end.R) for end, _ in rivals if end.objective <= level)
    return Rotation(*best, n_starts, confirmed, ambiguity)


def _some_rows(Z: Rows, size: int, rng: np.random.RandomState) -> Rows:
    """`size` random rows of Z in their order, or Z itself where that would save little."""
    T = Z.shape[0]
    if T <= 3 * size:
        return Z
    if T <= _LARGEST_PERMUTATION:
        return Z.take(np.sort(rng.choice(T, size, replace=False)))
    rows = np.empty(0, dtype=np.int64)  # choice would permute all T numbers
    while len(rows) < size:
        rows = np.union1d(rows, rng.randint(T, size=size - len(rows), dtype=np.int64))
    return Z.take(rows)
