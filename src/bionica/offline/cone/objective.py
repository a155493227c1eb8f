"""The volume of a cone with a soft wall at each facet, its gradient and its minimisation.

With outputs y = V u and u_bar = <u>, minimise

    f(V) = -log|det V| + sum_i log(V_i u_bar) + 1/2 sum_i c_i <min(V_i u, 0)^2> / w_i^2,                                  (1)

    w_i^2 = v_i |V_i|^2 / (1 + kappa) + [e_i^2 + kappa / (1 + kappa) s_i^2] (V_i u_bar)^2.                                (2)

The first two terms are the logarithm of the volume of the simplex that the cone cuts out of the hyperplane through the mean. No
term changes if a row of V is scaled. The third term is a wall at each facet: c_i is its hardness and w_i its width. v_i is the
variance of the noise of every coordinate of u, as output i shows it, s_i^2 = v_i |V_i|^2 is the noise variance of output i at
the base V, and e_i is the width of a wall without noise. For kappa = 0 the distance from a facet is measured perpendicular to
it, so that noise which is correlated between outputs does not bias the facets. kappa > 0 keeps (1) bounded below.

Minimisation changes the base: V becomes P V, starting at P = I with V u_bar = 1. Only samples near or beyond a facet have a
gradient. They are chosen at P = I (`near_facets`), and again if P has changed much (`minimise_on_all`).
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Pairs = deque[tuple[Array, Array]]

_LEAST_NEAR = 500  # samples per facet
_MEMORY = 15  # pairs of L-BFGS
_RADIUS = 0.3  # by which P may change before the samples near a facet are chosen again
_RUNAWAY = 1e3  # change of P: a facet that nothing holds moves until numbers overflow
_MAX_ITER = 100
_MAX_TOTAL = 200


class Wall(NamedTuple):
    """The wall of every facet, eq. (2): hardness c (NaN if not yet known), variance v (0 if there is no noise), e and kappa."""

    c: Array
    variance: Array
    e: Array
    kappa: float


class Facets(NamedTuple):
    """For each facet the samples near or beyond it, as columns of outputs (d, n_i) of the base V.

    `weights[i]` is the weight of each column of `near[i]` in an average over all samples. `gram` is V V'.
    """

    near: list[Array]
    weights: list[Any]
    gram: Array


def value_and_gradient(P: Array, facets: Facets, wall: Wall) -> tuple[float, Array]:
    """f(P V), eq. (1) without the constant -log|det V|, and its gradient with respect to P; inf if P V does not hold the mean."""
    sign, log_det = np.linalg.slogdet(P)
    m = P.sum(axis=1)
    if sign <= 0 or m.min() <= 0.1:
        return np.inf, np.empty(0)
    value = -log_det + float(np.log(m).sum())
    gradient = 1 / m[:, None] - np.linalg.inv(P).T
    half, width = _squared_widths(P, m, facets.gram, wall)
    for i, (Y, weight) in enumerate(zip(facets.near, facets.weights, strict=True)):
        negative = np.minimum(P[i] @ Y, 0)
        weighted = weight * negative
        energy = float(negative @ weighted)
        hardness = wall.c[i] / width[i]
        value += 0.5 * hardness * energy
        gradient[i] += hardness * (Y @ weighted - energy / width[i] * half[i])
    return value, gradient


def _squared_widths(P: Array, m: Array, gram: Array, wall: Wall) -> tuple[Array, Array]:
    """Half the gradient of w_i^2 with respect to P_i, and w_i^2: eq. (2)."""
    inside = wall.variance / (1 + wall.kappa)
    outside = wall.e**2 + wall.kappa * inside * np.diag(gram)
    half = inside[:, None] * (P @ gram) + (outside * m)[:, None]
    return half, np.einsum("ij,ij->i", half, P)


def inverse_curvature(P: Array, facets: Facets, wall: Wall) -> Array:
    """Inverse of the wall's Hessian per facet, to which a unit quadratic is added for the volume: (d, d, d)."""
    d = len(P)
    m = P.sum(axis=1)
    width = _squared_widths(P, m, facets.gram, wall)[1]
    H = np.empty((d, d, d))
    for i, (Y, weight) in enumerate(zip(facets.near, facets.weights, strict=True)):
        beyond = P[i] @ Y < 0
        n = Y[:, beyond]
        each = weight if np.isscalar(weight) else weight[beyond]
        H[i] = (wall.c[i] / width[i]) * ((n * each) @ n.T) + np.eye(d) / m[i] ** 2
    return np.linalg.inv(H)


def _direction(gradient: Array, pairs: Pairs, inverse: Array) -> Array:
    """The two loops of L-BFGS around the inverse curvature of the facets."""
    q = gradient.copy()
    weights = []
    for s, y in reversed(pairs):
        r = 1.0 / np.vdot(s, y)
        a = r * np.vdot(s, q)
        q -= a * y
        weights.append((r, a))
    q = np.einsum("ijk,ik->ij", inverse, q)
    for (s, y), (r, a) in zip(pairs, reversed(weights), strict=True):
        q += (a - r * np.vdot(y, q)) * s
    return np.asarray(-q)


def minimise(facets: Facets, wall: Wall, *, tol: float) -> tuple[Array, float, int]:
    """Minimise `value_and_gradient` from P = I by preconditioned L-BFGS; return P, the value and the number of iterations.

    It ends if no entry of P would change by more than `tol`, or the value by more than `tol` squared, and if P has changed by
    more than 0.3, because then other samples may be near the facets.
    """
    P = np.eye(len(facets.near))
    pairs: Pairs = deque(maxlen=_MEMORY)
    value, gradient = value_and_gradient(P, facets, wall)
    for n_iter in range(_MAX_ITER):
        if n_iter % 5 == 0:
            inverse = inverse_curvature(P, facets, wall)
        step = _direction(gradient, pairs, inverse)
        slope = float(np.vdot(step, gradient))
        largest = float(np.abs(step).max())
        if largest < tol or -slope < 1e-2 * tol**2:
            return P, value, n_iter
        length = min(1.0, 0.5 / largest)
        for _ in range(15):
            trial = P + length * step
            new_value, new_gradient = value_and_gradient(trial, facets, wall)
            if new_value <= value + 1e-4 * length * slope:
                break
            length *= 0.4
        else:
            if not pairs:
                return P, value, n_iter  # rounding hides any further descent
            pairs.clear()
            continue
        s, y = length * step, new_gradient - gradient
        if np.vdot(s, y) > 1e-10 * np.sqrt(np.vdot(s, s) * np.vdot(y, y)):
            pairs.append((s, y))
        P, value, gradient = trial, new_value, new_gradient
        if np.abs(P - np.eye(len(P))).max() > _RADIUS:
            return P, value, n_iter + 1
    return P, value, _MAX_ITER


def near_facets(Y: Array, gram: Array, width: Array) -> Facets:
    """The columns of Y (d, n_samples) near or beyond each facet: y_i < w_i, or about the 750 nearest if fewer than 500 are."""
    near = []
    T = Y.shape[1]
    for y, w in zip(Y, width, strict=True):
        index = np.flatnonzero(y < w)
        if len(index) < _LEAST_NEAR < T:
            index = np.flatnonzero(y <= _about_least(y, _LEAST_NEAR))
        near.append(Y[:, index])
    return Facets(near, [1.0 / T] * len(Y), gram)


def _about_least(y: Array, n: int) -> float:
    """A bound that about 1.5 n entries of y do not exceed, from every tenth entry or so: partitioning all of y is slow."""
    step = max(1, min(len(y) // 4000, n // 20))
    rank = min(-(-3 * n // (2 * step)), len(y) // step - 1)
    return float(np.partition(y[::step], rank)[rank])


class Minimum(NamedTuple):
    """The cone V with V u_bar = 1, the value of (1), the largest change of P, and the iterations."""

    V: Array
    value: float
    change: float
    n_iter: int


def minimise_on_all(V: Array, Y: Array, wall: Wall, *, tol: float) -> Minimum:
    """Minimise from V, with outputs Y = V u of mean 1, on the samples near facets; choose these again if facets move far."""
    identity = np.eye(len(V))
    first, P, n_iter, change = V, identity, 0, np.inf
    total = 0.0
    while change > _RADIUS and n_iter < _MAX_TOTAL and total < _RUNAWAY:
        if n_iter:
            Y = P @ Y / P.sum(axis=1, keepdims=True)
        gram = V @ V.T
        width = np.sqrt(wall.variance * np.diag(gram) + wall.e**2)
        P, value, more = minimise(near_facets(Y, gram, width), wall, tol=tol)
        value -= float(np.linalg.slogdet(V)[1])
        change = float(np.abs(P - identity).max())
        V = P @ V / P.sum(axis=1, keepdims=True)
        n_iter += more
        total = float(np.abs(V @ np.linalg.inv(first) - identity).max())
    return Minimum(V, value, total, n_iter)


def value(V: Array, Y: Array, wall: Wall) -> float:
    """f(V), eq. (1), on all samples, with outputs Y = V u of mean 1."""
    d = len(V)
    facets = Facets([Y] * d, [1.0 / Y.shape[1]] * d, V @ V.T)
    return value_and_gradient(np.eye(d), facets, wall)[0] - float(np.linalg.slogdet(V)[1])
