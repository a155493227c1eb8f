"""The minimum-volume cone of a stream: one pass, bounded memory, the same result for any chunking.

Samples are taken in blocks of 1000, counted from the first sample. A block costs the running moments <z>, <z z'> and a product. Of
its samples some are stored. Each sample has a mark, a hash of its number that is uniform on (0, 1), and is stored if its mark is
below its inclusion probability

    min(1, rate)  if it lies near a facet of the last cone, y_i < 2 noise_i for some i,    min(1, rate / 5)  otherwise.

If there are too many, the rate is lowered, for samples that are stored already too. A sample that is stored with probability p
stands for 1 / p samples, so that sums over the stored samples estimate sums over all (Horvitz and Thompson 1952). The cone is
solved on them as in `fit`: from the last cone each time the number of samples has grown by half, from new starts each time it has
doubled. Without noise, the samples that lie farthest out along many directions are stored too (`extremes`), because the smallest
cone around all samples touches a few of them only.

With a horizon h, the weight of a sample decays as exp(-age / h), samples older than 2 h are forgotten, and the cone is solved every
quarter of the horizon, from new starts every 16 horizons.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, nnls

from ..outliers import are_inliers
from .fit import (
    Averages,
    Fit,
    Settings,
    averages_of,
    data_of,
    distance_outside,
    fit_data,
    fit_mixtures,
    is_nonnegative,
    largest_distance,
)
from .noise import Channels, coordinates, find_channels

Array = npt.NDArray[Any]

BLOCK = 1000
_GROWTH, _GROWTH_OUTSIDE = 1.5, 1.1  # the latter if a sample lies outside a cone without noise
_NEAR_EDGE = 2.0  # in units of the noise
_FAR = 0.2  # inclusion probability of samples that are not near a facet, over that of those that are
_PER_SOURCE, _LEAST = 3000, 20_000  # samples that are stored
_MOST_BYTES, _FEWEST = 2**26, 2000  # of many channels
_THINNED = 0.9  # share of the samples that remains if there are too many
_MEMORY, _NEW_START = 2.0, 16.0  # horizons
_DIRECTIONS, _TILTS = 1000, (0.01, 10.0)


class Samples(NamedTuple):
    """Stored channels z (m, q), their numbers (m,), and their importance (m,): 1 near a facet, 0.2 elsewhere, inf for extremes."""

    z: Array
    number: Array
    importance: Array

    def joined(self, others: "Samples") -> "Samples":
        """These samples and others."""
        return Samples(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))

    def take(self, index: Array) -> "Samples":
        """Some of the samples."""
        return Samples(*(field[index] for field in self))


class State(NamedTuple):
    """What is known of the stream.

    `n` counts samples. `raw` are averages of x / scale in the subspace, `weighted` those with the weights of Poisson counts
    (the same for other noise). `fit` is the last solution, `negativity` the share of the output energy that is negative in it,
    `limit` the distance outside the cone beyond which samples are outliers, `rate` that of the stored samples, and `next_solve` and
    `next_start` the numbers of samples at which the cone is solved again, and from new starts.
    """

    n: int
    channels: Channels
    raw: Averages
    weighted: Averages
    fit: Fit
    negativity: float
    limit: float
    samples: Samples
    rate: float
    next_solve: int
    next_start: int


def first_block(d: int) -> int:
    """Number of samples from which a stream starts."""
    return max(2 * BLOCK, 200 * d)


def begin(X: Array, d: int, noise: Any, settings: Settings, seed: int) -> State:
    """Solve the cone of X (n_samples, k), which has no outliers, and store what a stream that continues from there needs."""
    channels = find_channels(X, d, noise)
    Z = channels.rows(X)
    fit, used, weighted = fit_mixtures(X, Z, channels, d, settings, np.random.RandomState(seed))
    limit = largest_distance(distance_outside(Z, fit), settings.outliers) if settings.outliers else np.inf
    n, number = len(X), np.flatnonzero(used).astype(np.float64)
    Z = Z if used.all() else Z[used]
    raw = averages_of(channels.rows(X[used], weighted=False)) if channels.counts else weighted
    fit = _by_share(fit, weighted, settings.known.shape[1])
    q = Z.shape[1]
    none = Samples(np.empty((0, q)), np.empty(0), np.empty(0))
    state = State(n, channels, raw, weighted, fit, _negativity(fit, Z, np.ones(len(Z))), limit, none, 1 / _FAR, 0, 0)
    return _scheduled(_stored(state, Z, number, settings), settings, new_start=True)


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is time."""
    numbers = np.arange(state.n, state.n + len(X), dtype=np.float64)
    state = state._replace(n=state.n + len(X))
    sound = are_inliers(X)
    X, numbers, channels = X[sound], numbers[sound], state.channels
    Z = channels.rows(X)
    if settings.outliers:
        inside = distance_outside(Z, state.fit) <= state.limit
        X, Z, numbers = X[inside], Z[inside], numbers[inside]
    if len(Z):
        decay = float(np.exp(-len(sound) / settings.horizon))
        weighted = _joined(state.weighted, Z, decay)
        raw = _joined(state.raw, channels.rows(X, weighted=False), decay) if channels.counts else weighted
        state = _stored(state._replace(raw=raw, weighted=weighted), Z, numbers, settings)
        fit = state.fit
        if fit.nonnegative and settings.nonnegative is None and not channels.counts:
            nonnegative = is_nonnegative(X, channels.scale * fit.coordinates.channel_noise)
            state = state._replace(fit=fit._replace(nonnegative=nonnegative))
        Y = fit.components @ Z.T
        if not fit.cone.noise.any() and np.any(Y.min(axis=0) < -1e-3 * np.abs(Y).sum(axis=0)):
            soon = int(max(_GROWTH_OUTSIDE * state.n, state.n + BLOCK))
            state = state._replace(next_solve=min(state.next_solve, soon))
    return solve(state, settings) if state.n >= state.next_solve else state


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the stored samples, from the last cone or from new starts; then schedule the next solution."""
    new_start = state.n >= state.next_start
    if not state.fit.has_mean:
        return _scheduled(state, settings, new_start=new_start)
    channels, last, averages = state.channels, state.fit, state.weighted
    d = len(last.components)
    known = channels.spectra(settings.known)
    at = coordinates(averages.second, d, averages.weight, None if channels.estimate else channels.noise, known)
    weights = _weights(state, settings) if at.variance or not at.known else np.ones(len(state.samples.z))
    chosen = weights > 0
    Z, weights = state.samples.z[chosen], weights[chosen] / weights.sum()
    data = data_of(Z, weights, at, channels, settings.known, last.nonnegative)
    data = data._replace(mean=at.matrix @ averages.mean)
    V = np.linalg.inv(at.matrix @ last.mixing)
    cone = last.cone._replace(V=V / (V @ data.mean)[:, None], converged=True)
    fresh = new_start or last.fallback or not last.cone.converged
    fit = fit_data(data, at, channels, np.random.RandomState(0), None if fresh else cone)
    order = linear_sum_assignment(-np.abs(last.components @ fit.mixing))[1]
    fit = _ordered(fit, order)
    state = state._replace(fit=fit, negativity=_negativity(fit, Z, weights))
    return _scheduled(state, settings, new_start=fresh)


def _scheduled(state: State, settings: Settings, *, new_start: bool) -> State:
    n, horizon = state.n, settings.horizon
    next_solve = n + int(min(max(n * (_GROWTH - 1), BLOCK), max(horizon / 4, BLOCK)))
    next_start = n + int(min(n, _NEW_START * horizon)) if new_start else state.next_start
    return state._replace(next_solve=next_solve, next_start=next_start)


# --- stored samples


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.asarray((h >> np.uint64(11)) * 2.0**-53)


def _stored(state: State, Z: Array, number: Array, settings: Settings) -> State:
    """Add samples Z (n, q) of a block; if there are too many, forget those that are too old, then lower the rate."""
    samples, rate, noise = state.samples, state.rate, state.fit.cone.noise
    Y = state.fit.components @ Z.T
    near = (Y < _NEAR_EDGE * noise[:, None]).any(axis=0)
    new = Samples(Z, number, np.where(near, 1.0, _FAR))
    new = new.take(marks(number) < rate * new.importance)
    joined = samples.joined(new)
    if not noise.any():
        extreme = np.isinf(samples.importance)
        candidates = samples.take(extreme).joined(Samples(Z, number, np.full(len(Z), np.inf)))
        outermost = candidates.take(extremes(state.fit.components @ candidates.z.T))
        rest = Samples(joined.z, joined.number, np.where(np.isinf(joined.importance), 1.0, joined.importance))
        rest = rest.take((marks(rest.number) < rate * rest.importance) & ~np.isin(rest.number, outermost.number))
        joined = rest.joined(outermost)
    d, q = state.fit.components.shape
    most = min(max(_PER_SOURCE * d, _LEAST), max(_FEWEST, _MOST_BYTES // (8 * q)))
    if len(joined.z) > most:
        joined = joined.take(joined.number >= state.n - _MEMORY * settings.horizon)
        mark = marks(joined.number)
        while np.count_nonzero(mark < rate * joined.importance) > most:
            rate *= _THINNED
        joined = joined.take(mark < rate * joined.importance)
    return state._replace(samples=joined, rate=rate)


def _weights(state: State, settings: Settings) -> Array:
    """Weight of each stored sample: the samples that it stands for, 0 if it is too old."""
    samples = state.samples
    age = state.n - samples.number
    weights = np.exp(-age / settings.horizon) / np.minimum(1, state.rate * samples.importance)
    return np.asarray(np.where(age > _MEMORY * settings.horizon, 0.0, weights))


@lru_cache(maxsize=8)
def _directions(d: int) -> Array:
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
    q = _directions(len(Y)) @ (Y / np.maximum(size, 1e-5))
    q[:, size < 1e-5] = np.inf  # the apex has no direction; outputs have mean 1
    return np.unique(q.argmin(axis=1))


# --- averages and readout


def _joined(old: Averages, Z: Array, decay: float) -> Averages:
    weight = decay * old.weight + len(Z)
    share = len(Z) / weight
    new = averages_of(Z)
    return Averages(weight, old.mean + share * (new.mean - old.mean), old.second + share * (new.second - old.second))


def _negativity(fit: Fit, Z: Array, weights: Array) -> float:
    """Share of the energy of the outputs that is negative."""
    Y = fit.components @ Z.T
    return float(np.sum(np.minimum(Y, 0) ** 2 @ weights)) / max(float(np.sum(Y**2 @ weights)), 1e-300)


def _by_share(fit: Fit, averages: Averages, n_known: int) -> Fit:
    """Outputs in the order of their share of the data, those of known spectra first."""
    W = fit.components
    variance = np.einsum("ij,jk,ik->i", W, averages.second, W) - (W @ averages.mean) ** 2
    share = np.sum(fit.mixing**2, axis=0) * variance
    share[:n_known] = np.inf
    return _ordered(fit, np.argsort(-share, kind="stable"))


def _ordered(fit: Fit, order: Array) -> Fit:
    cone = fit.cone
    wall = cone.wall._replace(**{name: getattr(cone.wall, name)[order] for name in ("c", "variance", "e", "m")})
    cone = cone._replace(V=cone.V[order], wall=wall)
    return fit._replace(components=fit.components[order], mixing=fit.mixing[:, order], cone=cone)


def readout(state: State, normalize: str) -> tuple[Array, Array, Array]:
    """W (d, k) and A (k, d) of the last solution, with outputs y of mean 1 multiplied by gains g, and the gains (d,).

    "variance": g_i = var(y_i)^{-1/2}; "mean": g_i = 1 / <y_i>; "sum": g minimises <(g' s - 1)^2> over the sources s = y - noise,
    so that sum_i g_i s_i = 1 if they are closed.
    """
    fit, channels, cone = state.fit, state.channels, state.fit.cone
    W = fit.components
    mean, second = W @ state.raw.mean, W @ state.raw.second @ W.T
    spread = np.sqrt(np.maximum(np.diag(second) - mean**2, 0))
    if normalize == "sum" and fit.has_mean:
        v = np.sqrt(cone.wall.variance)
        g = np.linalg.lstsq(second - np.outer(v, v) * (cone.V @ cone.V.T), mean, rcond=None)[0]
        if not (g > 0).all():
            g = nnls(second, mean)[0]
        g = np.where(g > 0, g, 1 / (len(g) * np.abs(mean)))
    elif (normalize == "mean" and fit.has_mean) or not (spread > 1e-12 * np.abs(mean)).all():
        g = 1 / np.where(mean != 0, np.abs(mean), 1.0)
    else:
        g = 1 / spread
    return channels.components(g[:, None] * W), channels.mixtures(fit.mixing / g), g


def volume(state: State) -> float:
    """det(<y y'>)^{-1/2} for outputs of mean 1.

    That of the simplex whose corners are the edges of the cone, in coordinates in which the data have unit second moment.
    """
    W = state.fit.components
    return float(np.exp(-0.5 * np.linalg.slogdet(W @ state.weighted.second @ W.T)[1]))
