"""The energy outside the nonnegative orthant, and its descent on the orthogonal group by L-BFGS.

    J(R) = <|min(R z, 0)|^2> / 2,       R R' = I

With y = R z and n = min(y, 0), moving along R <- exp(E) R with E' = -E changes J by <G, E>, where G = <n y'>. So the gradient
on the group is the skew part of G, and J = tr(G) / 2: one pass over the data and two matrix products give both.

The plain alternation Y = max(Z R', 0), R = polar(Y'Z) majorises and minimises the same J. It is a first-order method, and J is
nearly flat at the solution for sources without an atom at zero (it grows with the cube of the angle), so that it needs
thousands of passes. L-BFGS on the group needs 20 to 150: the pairs (step, change of gradient) are skew matrices that are used
without transport, as in Picard-O (Ablin, Cardoso and Gramfort 2018), and the Cayley transform keeps R orthogonal.
"""

import operator
from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from .chunked import ChunkedRows, fold

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
