"""The minimum-volume cone of a stream: one pass, bounded memory, the same result for any chunking.

Samples are taken in blocks of 1000, counted from the first sample. A block costs the running moments <z>, <z z'> and a product. A
random sample of all is stored: each sample has a mark, a hash of its number that is uniform on (0, 1), and those with the smallest
marks are stored. The cone is solved on them as in `fit`, each time the number of samples has grown by half. Without noise, the
samples that lie farthest out along many directions are stored too (`extremes`), because the smallest cone around all samples
touches a few of them only, and the cone is solved after each block that has a sample outside of it.

With a horizon h, the weight of a sample decays as exp(-age / h), samples older than 2 h are forgotten, and the cone is solved every
quarter of the horizon.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, nnls

from ..offline.whitening import Moments, merge_moments, moments
from ..trust.halves import follows_curve, is_nonnegative
from ..trust.outliers import are_inliers
from .fit import (
    Fit,
    Settings,
    data_of,
    distance_outside,
    fit_data,
    largest_distance,
)
from .noise import LEAST_SHARE, Channels, coordinates, find_channels
from .objective import Wall

Array = npt.NDArray[Any]

BLOCK = 1000
_PER_SOURCE, _LEAST = 3000, 20_000  # samples that are stored
_MOST_BYTES, _FEWEST = 2**26, 2000  # of many channels
_MEMORY = 2.0  # horizons
_DIRECTIONS, _TILTS = 1000, (0.01, 10.0)


class Samples(NamedTuple):
    """Stored channels z (m, q), their numbers (m,), and whether they are among the `extremes` (m,)."""

    z: Array
    number: Array
    extreme: Array


class State(NamedTuple):
    """What is known of the stream.

    `n` counts samples. `raw` are moments of x / scale in the subspace, `weighted` those with the weights of Poisson counts
    (the same for other noise). `fit` is the last solution, `limit` the distance outside the cone beyond which samples are outliers,
    `rate` the largest mark of a stored sample, `solved` the number of samples at the last solution, `seed` that of the starts.
    """

    n: int
    channels: Channels
    raw: Moments
    weighted: Moments
    fit: Fit
    limit: float
    samples: Samples
    rate: float
    solved: int
    seed: int


def first_block(d: int) -> int:
    """Number of samples from which a stream starts."""
    return max(2 * BLOCK, 200 * d)


def begin(X: Array, d: int, noise: Any, settings: Settings, seed: int) -> State:
    """Solve the cone of X (n_samples, k), and store what a stream that continues from there needs.

    A share `settings.outliers` of the samples is left out: those that lie farthest outside the cone and off its subspace, in units
    of the noise, which is found three times. (`trust.outliers` knows no cone and finds at most 0.5 %: more must be declared.)
    Outputs are in the order of their share of the data, those of known spectra first.
    """
    channels, rng = find_channels(X, d, noise), np.random.RandomState(seed)
    Z, known = channels.rows(X), channels.rows(settings.known.T, weighted=False).T
    used, limit, rounds = np.ones(len(X), dtype=bool), np.inf, 1
    if settings.outliers:
        rounds, typical = 4, np.median(np.abs(Z), axis=0)
        distance = np.linalg.norm(Z / np.maximum(typical, max(LEAST_SHARE * typical.max(), 1e-300)), axis=1)
    for _ in range(rounds):
        if settings.outliers:
            used = distance <= largest_distance(distance, settings.outliers)
        x, z = (X, Z) if used.all() else (X[used], Z[used])
        weighted = moments(z)
        at = coordinates(weighted.second, d, len(z), channels, known)
        nonnegative = settings.nonnegative
        if nonnegative is None:
            nonnegative = channels.counts or is_nonnegative(x, channels.scale * at.channel_noise)
        data = data_of(z, np.full(len(z), 1 / len(z)), at, channels, known, nonnegative)
        fit = fit_data(data, at, channels, rng, curve=nonnegative and follows_curve(x, d))
        if settings.outliers:
            distance = distance_outside(Z, fit)
            limit = largest_distance(distance, settings.outliers)
    weighted = weighted._replace(n=float(weighted.n))  # it may decay
    raw = weighted if not channels.counts else moments(channels.rows(x, weighted=False))._replace(n=weighted.n)
    W = fit.components
    share = np.sum(fit.mixing**2, axis=0) * np.einsum("ij,jk,ik->i", W, weighted.covariance, W)
    share[: known.shape[1]] = np.inf
    fit = _ordered(fit, np.argsort(-share, kind="stable"))
    number = np.flatnonzero(used).astype(np.float64)
    none = Samples(z[:0], number[:0], used[:0])
    state = State(len(X), channels, raw, weighted, fit, limit, none, 1.0, len(X), seed)
    return _stored(state, z, number, settings)


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is time."""
    numbers = np.arange(state.n, state.n + len(X), dtype=np.float64)
    state = state._replace(n=state.n + len(X))
    sound = are_inliers(X)
    X, numbers, channels, outside = X[sound], numbers[sound], state.channels, False
    Z = channels.rows(X)
    if settings.outliers:
        inside = distance_outside(Z, state.fit) <= state.limit
        X, Z, numbers = X[inside], Z[inside], numbers[inside]
    if len(Z):
        decay = float(np.exp(-len(sound) / settings.horizon))
        weighted = merge_moments(state.weighted, moments(Z), decay)
        raw = weighted
        if channels.counts:
            raw = merge_moments(state.raw, moments(channels.rows(X, weighted=False)), decay)
        state = _stored(state._replace(raw=raw, weighted=weighted), Z, numbers, settings)
        fit = state.fit
        if fit.nonnegative and settings.nonnegative is None and not channels.counts:
            nonnegative = is_nonnegative(X, channels.scale * fit.coordinates.channel_noise)
            state = state._replace(fit=fit._replace(nonnegative=nonnegative))
        Y = fit.components @ Z.T
        outside = not fit.cone.noise.any() and bool((Y.min(axis=0) < -LEAST_SHARE * np.abs(Y).sum(axis=0)).any())
    wait = max(min(state.solved / 2, settings.horizon / 4), BLOCK)
    return solve(state, settings) if outside or state.n >= state.solved + wait else state


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the stored samples."""
    channels, last, averages, samples = state.channels, state.fit, state.weighted, state.samples
    known = channels.rows(settings.known.T, weighted=False).T
    at = coordinates(averages.second, len(last.components), averages.n, channels, known)
    weights = np.exp(-(state.n - samples.number) / settings.horizon)
    data = data_of(samples.z, weights / weights.sum(), at, channels, known, last.nonnegative)
    data = data._replace(mean=at.matrix @ averages.mean)
    curve = last.nonnegative and follows_curve(samples.z, len(last.components))  # they are stored in their order
    fit = fit_data(data, at, channels, np.random.RandomState(state.seed), curve=curve)
    fit = _ordered(fit, linear_sum_assignment(-np.abs(last.components @ fit.mixing))[1])
    return state._replace(fit=fit, solved=state.n)


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
    """Add samples Z (n, q) of a block; forget those that are too old; if there are too many, lower the rate."""
    new = Samples(Z, number, np.ones(len(Z), dtype=bool))
    z, number, extreme = (np.concatenate(pair) for pair in zip(state.samples, new, strict=True))
    candidates = np.flatnonzero(extreme)
    extreme[:] = False
    if not state.fit.cone.noise.any():
        extreme[candidates[extremes(state.fit.components @ z[candidates].T)]] = True
    mark = np.where(extreme, 0.0, marks(number))
    kept, rate = (number >= state.n - _MEMORY * settings.horizon) & (mark < state.rate), state.rate
    d, q = state.fit.components.shape
    most = min(max(_PER_SOURCE * d, _LEAST), max(_FEWEST, _MOST_BYTES // (8 * q)))
    if np.count_nonzero(kept) > most:
        rate = float(np.partition(mark[kept], most)[most])
        kept &= mark < rate
    return state._replace(samples=Samples(z[kept], number[kept], extreme[kept]), rate=rate)


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
    q = _probe_directions(len(Y)) @ (Y / np.maximum(size, 1e-8))
    q[:, size < 1e-8] = np.inf  # the apex has no direction; outputs have mean 1
    return np.unique(q.argmin(axis=1))


# --- readout


def _ordered(fit: Fit, order: Array) -> Fit:
    cone = fit.cone._replace(V=fit.cone.V[order], wall=Wall(*(field[order] for field in fit.cone.wall)))
    return fit._replace(components=fit.components[order], mixing=fit.mixing[:, order], cone=cone)


def readout(state: State, normalize: str) -> tuple[Array, Array, Array, float]:
    """W (d, k) and A (k, d) of the last solution, with outputs y of mean 1 multiplied by gains g, the gains (d,), and the volume.

    "variance": g_i = var(y_i)^{-1/2}; "mean": g_i = 1 / <y_i>; "sum": g minimises <(g' s - 1)^2> over the sources s = y - noise,
    so that sum_i g_i s_i = 1 if they are closed. The volume is det(<y y'>)^{-1/2}: that of the simplex whose corners are the edges
    of the cone, in coordinates in which the data have unit second moment.
    """
    fit, channels, cone = state.fit, state.channels, state.fit.cone
    W = fit.components
    mean, second = W @ state.raw.mean, W @ state.raw.second @ W.T
    spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", W, state.raw.covariance, W), 0))
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
    volume = float(np.exp(-0.5 * np.linalg.slogdet(W @ state.weighted.second @ W.T)[1]))
    return channels.lifted(W.T * g).T / channels.scale, channels.lifted(fit.mixing / g) * channels.scale, g, volume
