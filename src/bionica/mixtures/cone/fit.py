"""The minimum-volume cone of mixtures: starts, rounds of wall and cone, which start
wins, how soft the wall must be.

Two starts always descend: successive projection (Araujo et al. 2001; Gillis and Vavasis
2014) and nonnegative ICA, which does not exist for data with a constant sum. A round
finds the leakage at every facet, from it the wall (`noise`), and the cone inside that
wall (`objective`), until neither changes. If no noise is seen, the better cone is
tightened by linear programs (Chan et al. 2009): det V is linear in each row, and with
the other rows fixed the best row V_i solves

    maximise det V    subject to    V_i u >= 0 for all samples u,
                                    V_i u_bar = 1.                               (7)

If the noise of an output exceeds its mean, facets cannot be seen. Then the cone is that
of nonnegative ICA, unless X is nonnegative.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import cholesky, eigh, inv, lstsq, norm, pinv
from numpy.random import RandomState
from scipy.optimize import linear_sum_assignment, linprog

from bionica.core.blocks import Array
from bionica.mixtures.cone.noise import (
    EDGES,
    FIRST_C,
    NO_NOISE,
    Channels,
    Coordinates,
    leakages,
    next_wall,
)
from bionica.mixtures.cone.objective import (
    LEAST_MEAN,
    LEAST_NEAR,
    LOST,
    Data,
    Wall,
    feasible,
    minimise_on_all,
    objective,
    unweighted,
)
from bionica.mixtures.nica.rotation import rotate
from bionica.mixtures.verdict.halves import match

_HARD = 1e5  # m of the wall on spectra
_SOFT = 3e-2  # e of a wall without noise
MAX_ROUNDS = 30
_HARDER = 10.0
_STILL = 0.1  # change of P, and of the logarithms of c and of the noise
_STOP = 1e-4  # of the noise of an output: 1e-2 is a standard error of a million samples
_TIE = 0.02  # of the objective, for each source
# share of samples or channels that an end of the possible cones counts for, if none
# touch it
_LEAST_TOUCHED = 0.05
# share of the energy of a spectrum; a third of it costs a measured reaction .004 of its
# worst r
_NEGATIVE = 3e-3


class Cone(NamedTuple):
    """A cone in coordinates u, with V u_bar = 1, and the last wall.

    `n_iter` counts iterations of L-BFGS and sweeps of linear programs; `converged` says
    whether the wall has settled.
    """

    V: Array
    wall: Wall
    n_iter: int
    converged: bool

    @property
    def noise(self) -> Array:
        """Standard deviation of the noise of each output, (d,)."""
        return np.sqrt(self.wall.variance) * norm(self.V, axis=1)


# --- starts


def successive_projection(data: Data) -> Array:
    """V (d, d) such that d samples are the edges of the cone, with V u_bar = 1; the
    known spectra are the first edges.
    """
    along = data.U @ data.mean / (data.mean @ data.mean)
    ahead = along > LEAST_MEAN
    edges = np.vstack([data.known.T, data.U[ahead] / along[ahead, None]])
    rest = edges.copy()
    chosen: list[Any] = []
    for j in range(len(data.mean)):
        size = np.einsum("ij,ij->i", rest, rest)
        chosen.append(j if j < data.known.shape[1] else np.argmax(size))
        q = rest[chosen[-1]] / np.sqrt(max(size[chosen[-1]], 1e-300))
        rest -= np.outer(rest @ q, q)
    return hold_mean(pinv(edges[chosen].T), data)


def hold_mean(V: Array, data: Data) -> Array:
    """Turn facets until every output has a mean of at least 0.1 times its RMS; scale
    rows so that V u_bar = 1.

    A facet turns about the known edges that it holds, all but that of its own source.
    """
    rms = np.sqrt((V @ data.U.T) ** 2 @ data.weights)
    missing = np.maximum(LEAST_MEAN * rms - V @ data.mean, 0)
    V = V.copy()
    for i in np.flatnonzero(missing):
        held = data.known[:, np.arange(data.known.shape[1]) != i]
        towards = data.mean - held @ lstsq(held, data.mean, rcond=None)[0]
        V[i] += missing[i] * towards / max(towards @ data.mean, 1e-300)
    return V / np.maximum(V @ data.mean, 1e-300)[:, None]


def rotation(data: Data, variance: float, rng: RandomState) -> Array | None:
    """Nonnegative ICA's V, with outputs of unit variance; None if the covariance is
    singular, or nearly so beside the noise.
    """
    covariance = np.cov(data.U.T, aweights=data.weights, bias=True)
    w, E = eigh(np.atleast_2d(covariance))
    if w[0] <= max(1e-10 * w[-1], 2 * variance):
        return None
    F = (E / np.sqrt(w)).T
    return hold_known(rotate(data.U @ F.T, rng=rng).R @ F, data)


def hold_known(V: Array, data: Data) -> Array:
    """V with the edges that are nearest to the known spectra replaced by these, which
    come first.
    """
    if not data.known.size:
        return V
    edges = inv(V)
    cosines = data.known.T @ edges / norm(edges, axis=0)
    others = np.delete(edges, linear_sum_assignment(-cosines)[1], axis=1)
    return pinv(np.hstack([data.known, others]))


def in_order(V: Array, data: Data) -> Array:
    """V with its rows, but those of known spectra, in the likeliest order of the known
    amounts, each with its own error.
    """
    p = data.known.shape[1]
    errors = np.einsum("jk,ikl,jl->ij", V[p:], data.amounts[p:], V[p:])
    order = linear_sum_assignment(np.log(np.maximum(errors, 1e-300)))[1]
    return np.vstack([V[:p], V[p:][order]])


# --- the cone of coordinates


def fit_cone(
    data: Data, variance: float | None, rng: RandomState
) -> tuple[Cone, float]:
    """The minimum-volume cone of `data`, and its ambiguity in degrees (`better`).

    `variance` is that of the noise in every coordinate: 0 for none, None to find it.
    """
    starts = [successive_projection(data)]
    rotated = rotation(data, variance or 0.0, rng)
    if rotated is not None:
        starts.insert(0, hold_mean(rotated, data))
    starts = [in_order(V, data) for V in starts if feasible(V, data)] or starts
    soft = [False, True] if variance is None else [not variance]
    cones = [_descend(data, V, variance, first) for V in starts for first in soft]
    best = cones[0]
    ambiguity = 0.0
    for cone in cones[1:]:
        best, ambiguity = better(data, best, cone, ambiguity)
    if not best.wall.variance.any():
        best = without_noise(data, best)
    return best, ambiguity


def _descend(data: Data, V: Array, variance: float | None, soft: bool) -> Cone:
    """The cone that a start leads to: inside a `soft` wall or none, then as the noise
    asks, unless there is none.

    Noise that is not known is first what lies below zero. A soft wall first helps a
    start that is far, and pushes sparse sources into a wrong cone.
    """
    d = len(V)
    n_iter = 0
    if soft:
        wall = Wall.uniform(d, FIRST_C, 0, _SOFT, _HARD)
        V, _, n_iter = minimise_on_all(V, data, wall, tol=_STILL * _SOFT)
    if variance == 0:
        return Cone(V, wall, n_iter, True)
    V, Y = data.outputs(V)
    # Eq. (6) for a density, of what lies below zero.
    below = np.maximum((Y < 0) @ data.weights, 1e-300)
    tails = 1.5 * (np.minimum(Y, 0) ** 2 @ data.weights) / below
    shown = np.median(np.maximum(tails, 1e-16) / np.sum(V**2, axis=1))
    wall = Wall.uniform(d, np.nan, variance or shown, 0, _HARD)
    return settle_walls(data, Cone(V, wall, n_iter, False), known=variance is not None)


def better(
    data: Data, first: Cone, second: Cone, ambiguity: float
) -> tuple[Cone, float]:
    """The cone that has settled, then the one with the better objective, then the one
    that needs less noise; and the ambiguity.

    Objectives are compared inside one wall, as soft as the softer of both, because a
    wide cone with hard walls that few samples touch is a minimum inside its own wall,
    and with the lesser noise of both, because more noise explains any smaller cone. In
    a tie the ambiguity is the largest angle between the spectra of both in degrees.
    Otherwise it is as it was, or 0 if `second` wins. The objectives of two cones that
    have not settled mean nothing.
    """
    gain = float(second.converged - first.converged)
    walls = (first.wall, second.wall)
    needed = [np.median(wall.variance) for wall in walls]
    if first.converged and second.converged:
        # the same wall for all facets, whose order may differ
        d = len(first.V)
        c = min(np.exp(np.log(wall.c).mean()) for wall in walls)
        e = min(np.median(wall.e) for wall in walls)
        one = Wall.uniform(d, c, min(needed), max(e, NO_NOISE))
        one = one._replace(m=first.wall.m)
        gain = (objective(first.V, data, one) - objective(second.V, data, one)) / d
    if abs(gain) < _TIE:
        angle = float(match(inv(first.V), inv(second.V))[1].max())
        return (second if needed[1] < needed[0] else first), max(ambiguity, angle)
    return (second, 0.0) if gain > 0 else (first, ambiguity)


def settle_walls(
    data: Data, cone: Cone, *, known: bool, prior: float | None = None
) -> Cone:
    """Alternate between the wall that the leakage asks for and the cone inside that
    wall, until neither changes by more than 10 %.

    `known` says whether the noise is, `prior` what is believed of its variance
    otherwise. The wall on the spectra is as hard as their noise: least squares for
    given outputs y determines a_j up to noise of variance v (<y y'>^{-1})_jj / n in
    every channel. Over n, as all of (1), its likelihood has m_j = k <|a_j|>^2 / (v (<y
    y'>^{-1})_jj). If that cone leaves the samples, it is solved again from where it
    was, inside a wall that is ten times as hard, and counts as not settled.
    """
    wall = cone.wall
    n_iter = cone.n_iter
    hardness = 1.0
    n_spectra = len(data.B)
    V, Y = data.outputs(cone.V)
    for r in range(MAX_ROUNDS):
        size = norm(V, axis=1)
        leaks = leakages(Y, np.sqrt(wall.variance) * size, data.weights)
        wall, change = next_wall(
            wall, leaks, size, hardness, known=known, prior=prior, one=n_spectra > 0
        )
        if not wall.variance.any():
            return Cone(V, wall, n_iter, True)
        if n_spectra:
            spectra = np.abs(data.B @ inv(V)).mean(axis=0)
            error = wall.variance * np.diag(inv((Y * data.weights) @ Y.T))
            wall = wall._replace(m=np.minimum(n_spectra * spectra**2 / error, _HARD))
        tol = _STOP * np.min(np.sqrt(wall.variance) * size)
        moved, turn, iterations = minimise_on_all(V, data, wall, tol=tol)
        n_iter += iterations
        noise = np.sqrt(wall.variance) * norm(moved, axis=1)
        if not max(turn, noise.max()) < LOST:
            if not n_spectra:  # `fit_data` falls back to nonnegative ICA
                break
            hardness *= _HARDER
            continue
        V, Y = data.outputs(moved)
        if r > 1 and max(turn, change) < _STILL:
            return Cone(V, wall, n_iter, hardness == 1)
    return Cone(V, wall, n_iter, False)


# --- the cone without noise, exactly

# of a coefficient of a row: the first with which the row holds all samples
_MOST_CHANGE = (0.5, 5.0, 50.0)
_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def without_noise(data: Data, cone: Cone) -> Cone:
    """The smallest cone that holds all samples, from a cone near it; as it was, if
    spectra would become negative.
    """
    V, sweeps, converged = tighten(data.U, cone.V, data.mean)
    zero = np.zeros(len(V))
    cone = cone._replace(wall=cone.wall._replace(variance=zero, e=zero))
    if data.known.size or data.amounts.any() or not _spectra_hold(V, data):
        return cone
    return cone._replace(V=V, n_iter=cone.n_iter + sweeps, converged=converged)


def _spectra_hold(V: Array, data: Data) -> bool:
    """Whether the spectra of V have next to no negative entries, or may have them."""
    A = data.B @ inv(V)
    negative = np.minimum(A, 0)
    return (norm(negative, axis=0) ** 2 <= _NEGATIVE * norm(A, axis=0) ** 2).all()


def tighten(U: Array, V: Array, mean: Array) -> tuple[Array, int, bool]:
    """The smallest cone around U (n_samples, d), from V near it.

    Return V with V u_bar = 1, the sweeps, and whether rows have settled. Only the
    samples nearest to a facet, in angle, are given to its linear program (7); the next
    sweep adds those that it missed.
    """
    d = len(V)
    n = len(U)
    candidates = [np.empty(0, int)] * d
    nearest = min(LEAST_NEAR, n - 1)
    V = V / (V @ mean)[:, None]
    for sweep in range(MAX_ROUNDS):
        Y = V @ U.T
        size = np.abs(Y).sum(axis=0)
        # the apex has no angle
        angle = np.where(size > 1e-8, Y / np.maximum(size, 1e-8), np.inf)
        P = np.eye(d)
        for i, row in enumerate(angle):
            near = np.argpartition(row, nearest)[: nearest + 1]
            candidates[i] = np.union1d(candidates[i], near)
            P[i] = _best_row(P, i, Y[:, candidates[i]])
        V = P @ V
        V /= (V @ mean)[:, None]
        if np.abs(P - np.eye(d)).max() < 1e-9:
            return V, sweep + 1, True
    return V, MAX_ROUNDS, False


def _best_row(P: Array, i: int, near: Array) -> Array:
    """Row i that maximises det P with near' p >= 0 and sum(p) = 1; as it was if there
    is no such row.
    """
    size = np.maximum(norm(near, axis=0), 1e-300)
    for change in _MOST_CHANGE:
        solution = linprog(
            -inv(P)[:, i],
            A_ub=-(near / size).T,
            b_ub=np.zeros(near.shape[1]),
            A_eq=np.ones((1, len(P))),
            b_eq=[1.0],
            bounds=np.stack([P[i] - change, P[i] + change], axis=1),
            method="highs",
            options=_EXACT,
        )
        if solution.x is not None and -solution.fun > 1e-3:
            return solution.x
    return P[i]


# --- the cone of mixtures


class Settings(NamedTuple):
    """The parameters of a fit: `horizon` inf is none, `nonnegative` None is as X shows,
    `known` are the known spectra (k, p).

    Of the samples `given` (n, k) there are amounts (n, d) that are known, NaN where
    they are not.
    """

    outliers: float
    horizon: float
    nonnegative: bool | None
    known: Array
    n_components: Any
    noise: Any = "estimate"
    normalize: str = "variance"
    seed: int = 0
    given: tuple[Array, Array] | None = None


class Fit(NamedTuple):
    """W (d, q) with outputs of mean 1, its right inverse (q, d), the coordinates, the
    cone in them.

    `negativity` is the share of the energy of the outputs that is negative, `has_mean`
    says whether the mean of x lies in some cone at all (if the mean was removed from x,
    it does not), and `nonnegative` whether there was a wall on the spectra. `ambiguity`
    is that of `fit_cone`.
    """

    components: Array
    mixing: Array
    coordinates: Coordinates
    cone: Cone
    negativity: float
    has_mean: bool
    nonnegative: bool
    ambiguity: float

    def near(self, Z: Array) -> Array:
        """Which of the samples Z (n, q) are near a facet."""
        limits = EDGES[-1] * self.cone.noise[:, None]
        return (self.components @ Z.T < limits).any(axis=0)


def largest_distance(distance: Array, outliers: float) -> float:
    """Beyond which samples are outliers: a share `outliers` of them, and three standard
    errors of that number.
    """
    inside = 1 - outliers - 3 * np.sqrt(outliers / len(distance))
    return np.quantile(distance, max(inside, 0.3))


def distance_outside(Z: Array, fit: Fit) -> Array:
    """How far samples lie outside the cone: off its subspace, and beyond its farthest
    facet, in units of the noise.
    """
    at = fit.coordinates
    V = fit.cone.V / norm(fit.cone.V, axis=1)[:, None]
    U = Z @ at.matrix.T
    noise = at.channel_noise
    scale = np.maximum(noise, 1e-300) if noise.any() else 1.0
    off = norm((Z - U @ at.inverse.T) / scale, axis=1)
    beyond = np.minimum((V @ U.T).min(axis=0), 0)
    return np.hypot(off, beyond)


def data_of(
    Z: Array,
    weights: Array,
    mean: Array,
    at: Coordinates,
    channels: Channels,
    nonnegative: bool,
    settings: Settings,
) -> Data:
    """Samples Z (n, q) of the channels, whose mean is `mean` (q,), in coordinates; a
    wall on the spectra if `nonnegative`.
    """
    B = at.inverse
    if at.variance and at.channel_noise.all():
        B = B / at.channel_noise[:, None]
    B = channels.lifted(B)
    edges = at.matrix @ channels.rows(settings.known.T, weighted=False).T
    K = np.zeros((len(at.matrix),) * 3)
    if settings.given is not None:
        X, amounts = settings.given
        for i, amount in enumerate(amounts.T):
            there = ~np.isnan(amount)
            u = channels.rows(X[there], weighted=False) @ at.matrix.T
            c = amount[there]
            # V_i rest: outputs beside a multiple of the amounts
            rest = u - np.outer(c, c @ u / max(c @ c, 1e-300))
            K[i] = rest.T @ rest / max(len(c), 1)
    B = B if nonnegative else B[:0]
    edges = edges / norm(edges, axis=0)
    return Data(Z @ at.matrix.T, weights, at.matrix @ mean, B, edges, K)


def between_ends(data: Data, cone: Cone) -> Cone:
    """A cone between the smallest one around the samples, `cone`, and the largest one
    with nonnegative spectra.

    Samples that follow a curve touch the facets of the smallest cone at a few points
    only, and any cone between both ends may be the right one. With whitened samples z,
    u = L z, the largest one is the smallest cone around the channels, whose coordinates
    are the rows of B L, with a wall on the outputs: the same problem, transposed. Each
    end counts as much as samples, or channels, touch its least touched facet, the
    smallest cone so much more that spectra are not negative.
    """
    L = cholesky((data.U.T * data.weights) @ data.U)
    whitened = data.U @ inv(L).T
    channels = unweighted(data.B @ L)._replace(B=whitened, known=data.known)
    variance = np.median(cone.wall.variance) / len(data.U)
    V = inv(cone.V @ L).T
    wall = Wall.uniform(len(L), FIRST_C, variance, 0.0 if variance else _SOFT, _HARD)
    width = wall.width(channels.outputs(V)[0])
    V, _, n_iter = minimise_on_all(V, channels, wall, tol=1e-2 * width.min())
    small = _touched(data, cone)
    large = _touched(channels, Cone(V, wall, n_iter, True))
    step = data.outputs(inv(L @ V.T))[0] - cone.V
    low = 0.0
    high = share = large / (small + large)
    # bisection: with coarser steps, rounding would decide between two of them
    for _ in range(MAX_ROUNDS):
        if _spectra_hold(cone.V + share * step, data):
            low = share
        else:
            high = share
        share = (low + high) / 2
    return cone._replace(V=cone.V + low * step)


def _touched(data: Data, cone: Cone) -> float:
    """What the least touched facet counts for: the share of samples that touch it."""
    near = data.outputs(cone.V)[1] < 2 * cone.noise[:, None]
    return _LEAST_TOUCHED + near.mean(axis=1).min()


def fit_data(
    data: Data,
    at: Coordinates,
    channels: Channels,
    rng: RandomState,
    *,
    curve: bool = False,
    start: Fit | None = None,
) -> Fit:
    """The cone of data in these coordinates. `curve`: samples follow a smooth curve.

    `start`: the fit to a sample of them.
    """
    ambiguity = 0.0 if start is None else start.ambiguity
    # Without a mean no cone holds the samples: the rotation is arbitrary.
    energy = data.weights @ np.sum(data.U**2, axis=1)
    has_mean = bool(data.mean @ data.mean > 1e-12 * energy)
    if not has_mean:
        d = len(at.matrix)
        V = rotation(data, 0.0, rng)
        if V is None:
            V = np.eye(d)
        cone = Cone(V, Wall.uniform(d, 1, 0, 0), 0, False)
    else:
        if len(data.B) and not feasible(successive_projection(data), data):
            # most samples are negative, and so are all spectra that could be meant
            data = data._replace(B=data.B[:0])
        if start is None:
            cone, ambiguity = fit_cone(data, at.variance if at.known else None, rng)
        else:
            cone = _continued(data, at, start.cone)
        cone = _adapted(data, at, cone, channels.estimate, curve, rng)
    Y = cone.V @ data.U.T
    energy = np.sum(Y**2 @ data.weights)
    negative = np.sum(np.minimum(Y, 0) ** 2 @ data.weights)
    return Fit(
        cone.V @ at.matrix,
        at.inverse @ inv(cone.V),
        at,
        cone,
        float(negative / max(energy, 1e-300)),
        has_mean,
        bool(len(data.B)),
        ambiguity,
    )


def _continued(data: Data, at: Coordinates, cone: Cone) -> Cone:
    """The cone of data from that of a sample of them."""
    if not cone.noise.any():
        return without_noise(data, cone)
    if at.known:
        variance = np.full(len(cone.V), at.variance)
        cone = cone._replace(wall=cone.wall._replace(variance=variance))
    return settle_walls(data, cone, known=at.known)


def _adapted(
    data: Data,
    at: Coordinates,
    cone: Cone,
    estimate: bool,
    curve: bool,
    rng: RandomState,
) -> Cone:
    """The cone inside walls for the noise that the tails show; for samples that follow
    a curve one between both ends; the rotation if noise hides the facets.
    """
    if estimate and at.variance and (len(data.B) or at.doubtful):
        # Real data differ from the model by more than noise, and only part of it is
        # seen in the directions left out. The tails of the outputs, eq. (6), show all
        # of it. Without a wall on the spectra the cone would shrink.
        tails = settle_walls(data, cone, known=False, prior=at.variance)
        cone = tails if tails.converged and tails.wall.variance.any() else cone
    if curve and len(data.B) and len(cone.V) > 1:
        middle = between_ends(data._replace(known=data.known[:, :0]), cone).V
        cone = cone._replace(V=data.outputs(hold_known(middle, data))[0])
    if not len(data.B) and cone.noise.max() > 1:
        rotated = rotation(data, at.variance, rng)
        if rotated is not None:
            cone = cone._replace(V=in_order(hold_mean(rotated, data), data))
    return cone
