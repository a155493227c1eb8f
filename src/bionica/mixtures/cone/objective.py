"""The volume of a cone between two walls, its gradient and its minimisation.

With outputs y = V u, u_bar = <u>, spectra A = B V^{-1} (columns a_j) and averages <>
over samples or over channels, minimise

    f(V) = -log|det V| + sum_i log(V_i u_bar)
           + 1/2 sum_i c_i <min(V_i u, 0)^2> / w_i^2                             (1)
           + 1/2 sum_j m_j <min(a_j, 0)^2> / <|a_j|>^2
           + 1/2 sum_i c_i V_i K_i V_i' / w_i^2,

    w_i^2 = (1 + kappa) / [1 / (v_i |V_i|^2) + kappa / (s_i V_i u_bar)^2]
            + (e_i V_i u_bar)^2.                                                 (2)

The first line is the logarithm of the volume of the simplex that the cone cuts out of
the hyperplane through the mean. No term changes if a row of V is scaled. The second
line is a wall on the sources: c_i is its hardness and w_i its width. v_i is the
variance of the noise of every coordinate of u, as output i shows it, s_i^2 = v_i
|V_i|^2 is the noise variance of output i at the base V, and e_i is the width of a wall
without noise. For kappa = 0 the distance from a facet would be measured perpendicular
to it, so that noise which is correlated between outputs does not bias the facets. But
(1) would have no minimum: if V_i u_bar tends to 0, log(V_i u_bar) falls without end and
the wall stays finite. For kappa > 0 the width tends to 0 with V_i u_bar, the wall grows
as (V_i u_bar)^-2, and (1) is bounded below. Then the barrier must also be high enough.
A facet that moves along the mean is held, to second order, if 4 kappa / (1 + kappa) +
1.6 / s_i > 1 (density at zero): kappa = 1 holds it at any noise. kappa = 0.1 does so up
to s_i = 2.5 and biases sparse sources less if mixing matrices have both signs. The
third line is a wall on the spectra, for mixing matrices without negative entries. It is
absent if B has no rows. Beside it kappa is 1, because it pulls facets towards the mean,
and 0.1 otherwise. The last line holds amounts that are known: V_i K_i V_i' is the mean
square by which output i of the samples with a known amount of source i differs from a
multiple of these amounts.

Minimisation changes the base: V becomes P V and A becomes A P^{-1}, starting at P = I
with V u_bar = 1. If the first spectra are known, then P_ij = 0 for i != j in their
columns j, which keeps these columns of A. Only samples near or beyond a facet have a
gradient. They are chosen at P = I (`near_facets`), and again if P has changed much
(`minimise_on_all`).
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.linalg import inv, slogdet

from bionica.core.blocks import Array
from bionica.mixtures.nica import lbfgs

_KAPPA = {False: 0.1, True: 1.0}  # without and with a wall on the spectra
LEAST_NEAR = 500  # samples per facet
_RADIUS = 0.3  # by which P may change before the samples near a facet are chosen again
_MAX_ITER = 100
# of an output, over its RMS or over that at the base, and of a sample along the mean
LEAST_MEAN = 0.1
# change of P, or noise of an output over its mean: no sample holds the facet any more
LOST = 1e3


class Wall(NamedTuple):
    """Both walls: c (NaN if not yet known) and m of eq. (1), v and e of eq. (2).

    The variance v is 0 if there is no noise.
    """

    c: Array
    variance: Array
    e: Array
    m: Array

    @classmethod
    def uniform(
        cls, d: int, c: float, variance: float, e: float, m: float = 0.0
    ) -> "Wall":
        """The same wall for d facets and d spectra."""
        return cls(*(np.full(d, value, float) for value in (c, variance, e, m)))

    def width(self, V: Array) -> Array:
        """w_i at the base V."""
        return np.sqrt(self.variance * np.sum(V**2, axis=1) + self.e**2)


class Facets(NamedTuple):
    """The samples near or beyond each facet, and their weights (n_i,).

    `near` has both: samples are columns of outputs (d, n_i) of the base V, and weights
    are those in an average over all samples. `gram` is V V'. `spectra` (k, d) are those
    of the base; without rows there is no wall on them. The first `n_known` of them are
    known. `amounts` are V K_i V'.
    """

    near: list[tuple[Array, Array]]
    gram: Array
    spectra: Array
    n_known: int
    amounts: Array


def value_and_gradient(P: Array, facets: Facets, wall: Wall) -> tuple[float, Array]:
    """f(P V) without -log|det V|, eq. (1), and its gradient with respect to P.

    It is inf, and the gradient means nothing, if P V does not hold the mean.
    """
    sign, log_det = slogdet(P)
    mean = P.sum(axis=1)
    if sign <= 0 or mean.min() <= LEAST_MEAN:
        return np.inf, P
    value = -log_det + np.log(mean).sum()
    inverse = inv(P)
    gradient = 1 / mean[:, None] - inverse.T
    kappa = _KAPPA[len(facets.spectra) > 0]
    noise = wall.variance * np.diag(facets.gram) / kappa
    turned = wall.variance[:, None] * (P @ facets.gram)
    inside = np.einsum("ij,ij->i", turned, P)
    outside = noise * mean**2
    share = outside / np.maximum(inside + outside, 1e-300)
    # w_i^2, eq. (2), and half its gradient
    width = (1 + kappa) * share * inside + (wall.e * mean) ** 2
    along = ((1 + kappa) * (1 - share) ** 2 * noise + wall.e**2) * mean
    half = (1 + kappa) * (share**2)[:, None] * turned + along[:, None]
    for i, (Y, weight) in enumerate(facets.near):
        negative = np.minimum(P[i] @ Y, 0)
        weighted = weight * negative
        amiss = facets.amounts[i] @ P[i]
        energy = negative @ weighted + P[i] @ amiss
        hardness = wall.c[i] / width[i]
        value += 0.5 * hardness * energy
        gradient[i] += hardness * (Y @ weighted + amiss - energy / width[i] * half[i])
    if len(facets.spectra):
        A = facets.spectra @ inverse
        size = np.abs(A).mean(axis=0)
        if A.mean(axis=0).min() <= 0:
            return np.inf, P
        negative = np.minimum(A, 0) / size
        energies = (negative**2).mean(axis=0)
        value += 0.5 * wall.m @ energies
        slope = wall.m / (len(A) * size) * (negative - energies * np.sign(A))
        gradient -= (A.T @ slope) @ inverse.T
    gradient[:, : facets.n_known] = np.diag(np.diag(gradient))[:, : facets.n_known]
    return value, gradient


def inverse_curvature(facets: Facets, wall: Wall) -> Callable[[Array], Array]:
    """The map by the inverse Hessian of the walls at P = I.

    A unit quadratic is added for the volume. The wall on the sources has a block for
    each row of P, the wall on the spectra one for each column.
    """
    d = len(facets.gram)
    hardness = wall.c / (wall.variance * np.diag(facets.gram) + wall.e**2)
    rows = np.empty((d, d, d))
    for i, (Y, weight) in enumerate(facets.near):
        below = Y[i] < 0
        n = Y[:, below]
        curvature = (n * weight[below]) @ n.T + facets.amounts[i]
        rows[i] = hardness[i] * curvature + np.eye(d)
    free = np.ones((d, d))
    free[:, : facets.n_known] = 0
    if not len(facets.spectra):
        blocks = inv(rows)
        return lambda q: free * np.einsum("ijk,ik->ij", blocks, q)
    H = np.zeros((d, d, d, d))
    H[np.arange(d), :, np.arange(d)] = rows
    A = facets.spectra
    size = np.abs(A).mean(axis=0)
    for j in range(d):
        n = A[A[:, j] < 0]
        H[:, j, :, j] += wall.m[j] / (len(A) * size[j] ** 2) * (n.T @ n)
    dense: Array = H.reshape(d * d, d * d)
    dense[np.diag_indices(d * d)] += 1e-9 * np.trace(dense) / d**2
    dense = inv(dense)
    return lambda q: free * (dense @ q.ravel()).reshape(d, d)


class Data(NamedTuple):
    """Samples U (n, d) in coordinates, with what the objective must know of them.

    `weights` (n,) sum to one. B (k, d) is that of eq. (1), `known` (d, p) are edges.
    `mean` is u_bar. B has no rows if spectra may be negative. `known` has unit columns.
    `amounts` are K_i, zero without known ones.
    """

    U: Array
    weights: Array
    mean: Array
    B: Array
    known: Array
    amounts: Array

    def outputs(self, V: Array) -> tuple[Array, Array]:
        """V scaled so that V u_bar = 1, and the outputs V u as columns."""
        V = V / (V @ self.mean)[:, None]
        return V, V @ self.U.T


def unweighted(U: Array) -> Data:
    """Samples U (n, d) of equal weight, without a wall on the spectra."""
    n, d = U.shape
    return Data(
        U,
        np.full(n, 1 / n),
        U.mean(axis=0),
        np.empty((0, d)),
        np.empty((d, 0)),
        np.zeros((d, d, d)),
    )


def near_facets(Y: Array, V: Array, width: Array, data: Data) -> Facets:
    """The columns of Y (d, n_samples) near or beyond each facet of V.

    Those with y_i < w_i, or the 500 nearest if fewer are.
    """
    near = []
    for y, w in zip(Y, width, strict=True):
        index = np.flatnonzero(y < w)
        if len(index) < LEAST_NEAR:
            last = min(LEAST_NEAR, len(y)) - 1
            index = np.flatnonzero(y <= np.partition(y, last)[last])
        near.append((Y[:, index], data.weights[index]))
    n_known = data.known.shape[1]
    return Facets(near, V @ V.T, data.B @ inv(V), n_known, V @ data.amounts @ V.T)


def minimise_on_all(
    V: Array, data: Data, wall: Wall, *, tol: float
) -> tuple[Array, float, int]:
    """Minimise (1) from V by L-BFGS on the samples near facets.

    They are chosen again if an entry of P has changed by 0.3. It ends if no entry of P
    would change by more than `tol`. Return the cone V with V u_bar = 1, the largest
    change of P, and the number of iterations.
    """
    identity = np.eye(len(V))
    V = first = V / (V @ data.mean)[:, None]
    n_iter = 0
    total = 0.0
    change = np.inf
    while change > _RADIUS and n_iter < _MAX_ITER and total < LOST:
        facets = near_facets(V @ data.U.T, V, wall.width(V), data)
        end = lbfgs.minimise(
            partial(value_and_gradient, facets=facets, wall=wall),
            identity,
            tol=tol,
            max_iter=_MAX_ITER,
            inverse=inverse_curvature(facets, wall),
            stop=lambda P: np.abs(P - identity).max() > _RADIUS,
        )
        change = np.abs(end.x - identity).max()
        P = end.x / end.x.sum(axis=1, keepdims=True)
        V = P @ V
        n_iter += end.n_iter
        total = np.abs(V @ inv(first) - identity).max()
    return V, total, n_iter


def objective(V: Array, data: Data, wall: Wall) -> float:
    """f(V), eq. (1), on all samples."""
    V, Y = data.outputs(V)
    facets = near_facets(Y, V, np.full(len(V), np.inf), data)
    return value_and_gradient(np.eye(len(V)), facets, wall)[0] - slogdet(V)[1]


def feasible(V: Array, data: Data) -> bool:
    """Whether the mean of every output is positive, and that of every spectrum behind
    a wall.
    """
    if (V @ data.mean <= 0).any():
        return False
    A = data.B @ inv(V)
    return not len(A) or (A.mean(axis=0) > 0).all()
