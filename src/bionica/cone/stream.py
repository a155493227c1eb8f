"""The minimum-volume cone of a stream: one pass, bounded memory, the same result for any chunking; and of all rows at once.

Samples are taken in blocks of 1000, counted from the first sample. A block costs the running moments <z>, <z z'> and a product. A
random sample of all is stored (`sketch`). The cone is solved on it as in `fit`, each time the number of samples has grown by half.
Without noise, the samples that lie farthest out along many directions are stored too (`extremes`), because the smallest cone around
all samples touches a few of them only, and the cone is solved after each block that has a sample outside of it.

With a horizon h, the weight of a sample decays as exp(-age / h), samples older than 2 h are forgotten, and the cone is solved every
quarter of the horizon.
"""

import operator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, nnls

from ..offline.whitening import Moments, NumberedRows, merge_moments, moments
from ..trust.halves import follows_curve, is_nonnegative, noise_explains
from ..trust.outliers import are_inliers, limit_of, metric
from .fit import Fit, Settings, data_of, distance_outside, fit_data, largest_distance
from .noise import EDGES, LEAST_SHARE, Channels, coordinates, find_channels
from .objective import Data, Wall
from .sketch import (
    Gate,
    Samples,
    Totals,
    back_projection,
    capacity,
    extremes,
    farthest,
    marks,
    merge_totals,
    near_facets,
    outside,
    smallest,
    totals,
    union,
)

Array = npt.NDArray[Any]

BLOCK = 1000
_MEMORY = 2.0  # horizons
_NEAR_BYTES = 2**24  # of the samples near facets
_MOST_PASSES = 10  # for samples outside of a cone without noise


class State(NamedTuple):
    """What is known of the stream.

    `n` counts samples. `raw` are moments of x / scale in the subspace, `weighted` those with the weights of Poisson counts
    (the same for other noise). `fit` is the last solution, `limit` the distance outside the cone beyond which samples are outliers,
    `rate` the largest mark of a stored sample, `solved` the number of samples at the last solution, `seed` that of the starts.
    Numbers of samples begin at `first`, and `end` is the next one: those of other streams may lie between.
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
    first: int
    end: int


def first_block(d: int) -> int:
    """Number of samples from which a stream starts."""
    return max(2 * BLOCK, 200 * d)


def begin(X: Array, d: int, noise: Any, settings: Settings, seed: int) -> State:
    """Solve the cone of X (n_samples, k), and store what a stream that continues from there needs.

    A share `settings.outliers` of the samples is left out: those that lie farthest outside the cone and off its subspace, in units
    of the noise, which is found three times. (`trust.outliers` knows no cone and finds at most 0.5 %: more must be declared.)
    Outputs are in the order of their share of the data, those of known spectra first.
    """
    channels = find_channels(X, d, noise)
    Z, number = channels.rows(X), np.arange(len(X), dtype=np.float64)
    used, limit, rounds = np.ones(len(X), dtype=bool), np.inf, 1
    if settings.outliers:
        rounds, typical = 4, np.median(np.abs(Z), axis=0)
        distance = np.linalg.norm(Z / np.maximum(typical, max(LEAST_SHARE * typical.max(), 1e-300)), axis=1)
    for _ in range(rounds):
        if settings.outliers:
            used = distance <= largest_distance(distance, settings.outliers)
        x, z = (X, Z) if used.all() else (X[used], Z[used])
        total = totals(x, channels)
        fit = _first_fit(z, total, channels, d, settings, seed)[0]
        if settings.outliers:
            distance = distance_outside(Z, fit)
            limit = largest_distance(distance, settings.outliers)
    samples = Samples(z, number[used], np.ones(len(z), dtype=bool))
    return _first_state(len(X), channels, total, fit, limit, samples, 1.0, settings, seed)


def begin_on_all(
    X: NumberedRows, sample: Samples, rate: float, d: int, noise: Any, settings: Settings, seed: int
) -> State:
    """Solve the cone of all rows of X: first on a sample of them, which has this rate, then on those that decide.

    A first pass sums the moments, which determine coordinates and noise; a second one, if there are outliers. With noise, one more
    pass brings samples near the facets; a sample weighs the inverse of the share of its kind that is kept. Without noise, passes
    bring samples outside of the cone, until there are none.
    """
    rows, n = sample.z, X.shape[0]
    channels = find_channels(rows, d, noise)
    if channels.projected:  # the leading directions of all rows
        back = X.fold(back_projection, operator.add, channels)
        channels = channels._replace(subspace=np.ascontiguousarray(np.linalg.qr(back)[0]))
    gate = Gate()
    if settings.outliers:
        first = begin(rows, d, noise, settings, seed)
        gate = Gate(None, first.fit, first.limit)
    ruler = metric(rows / rows.dtype.type(channels.scale), None)
    total = X.fold(totals, merge_totals, channels, gate, ruler)
    if ruler is not None and (limit := limit_of(ruler, total.distances)) is not None:
        gate = gate._replace(limit=limit)
        total = X.fold(totals, merge_totals, channels, gate)
    z = channels.rows(rows)
    used = gate.used(rows, z, channels)
    samples = Samples(z[used], sample.number[used], np.ones(np.count_nonzero(used), dtype=bool))
    fit, data, curve = _first_fit(samples.z, total, channels, d, settings, seed)
    refit = partial(fit_data, at=fit.coordinates, channels=channels, rng=np.random.RandomState(seed))
    if fit.has_mean and not curve and fit.cone.noise.any():
        share = np.mean((fit.components @ samples.z.T < EDGES[-1] * fit.cone.noise[:, None]).any(axis=0))
        rates = float(np.clip(_NEAR_BYTES / (8 * d * n * max(share, 1e-3)), rate, 1)), rate
        near = X.fold_numbered(near_facets, union, channels, gate, fit, rates)
        weights = 1 / np.where(near.extreme, *rates)
        fit = refit(data._replace(U=near.z, weights=weights / weights.sum()), start=fit)
    elif fit.has_mean and not curve:
        for _ in range(_MOST_PASSES):
            found = X.fold_numbered(outside, partial(farthest, fit.components), channels, gate, fit)
            samples, last = union(samples, found), fit
            U = samples.z @ fit.coordinates.matrix.T
            fit = refit(data._replace(U=U, weights=np.full(len(U), 1 / len(U))), start=fit) if len(found.z) else fit
            if not (fit.components != last.components).any():
                break
    return _first_state(n, channels, total, fit, gate.distance, samples, rate, settings, seed)


def _first_fit(
    z: Array, total: Totals, channels: Channels, d: int, settings: Settings, seed: int
) -> tuple[Fit, Data, bool]:
    """The cone of samples z (m, q) in the coordinates of all samples, the data in them, and whether they follow a curve."""
    n, known = total.weighted.n, channels.rows(settings.known.T, weighted=False).T
    at = coordinates(total.weighted.second, d, n, channels, known)
    nonnegative = settings.nonnegative
    if nonnegative is None:
        noise = channels.scale * at.channel_noise
        nonnegative = channels.counts or noise_explains(total.least, total.largest, total.negative / n, noise)
    data = data_of(z, np.full(len(z), 1 / len(z)), at, channels, known, nonnegative)
    data = data._replace(mean=at.matrix @ total.weighted.mean)
    curve = nonnegative and follows_curve(z, d)
    return fit_data(data, at, channels, np.random.RandomState(seed), curve=curve), data, curve


def _first_state(
    n: int,
    channels: Channels,
    total: Totals,
    fit: Fit,
    limit: float,
    samples: Samples,
    rate: float,
    settings: Settings,
    seed: int,
) -> State:
    """The state after n samples: outputs in the order of their share of the data, those of known spectra first."""
    W, n_known = fit.components, settings.known.shape[1]
    share = np.sum(fit.mixing**2, axis=0) * np.einsum("ij,jk,ik->i", W, total.weighted.covariance, W)
    share[:n_known] = np.inf
    fit = _ordered(fit, np.argsort(-share, kind="stable"))
    weighted, raw = (m._replace(n=float(m.n)) for m in (total.weighted, total.raw))  # they may decay
    none = Samples(*(field[:0] for field in samples))
    return _stored(State(n, channels, raw, weighted, fit, limit, none, rate, n, seed, 0, n), samples, settings)


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is time."""
    numbers = np.arange(state.end, state.end + len(X), dtype=np.float64)
    state = state._replace(n=state.n + len(X), end=state.end + len(X))
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
        new = Samples(Z, numbers, np.ones(len(Z), dtype=bool))
        state = _stored(state._replace(raw=raw, weighted=weighted), new, settings)
        fit = state.fit
        if fit.nonnegative and settings.nonnegative is None and not channels.counts:
            nonnegative = is_nonnegative(X, channels.scale * fit.coordinates.channel_noise)
            state = state._replace(fit=fit._replace(nonnegative=nonnegative))
        Y = fit.components @ Z.T
        outside = not fit.cone.noise.any() and bool((Y.min(axis=0) < -LEAST_SHARE * np.abs(Y).sum(axis=0)).any())
    wait = max(min(state.solved / 2, settings.horizon / 4), BLOCK)
    is_time = state.n >= first_block(len(state.fit.components)) and (outside or state.n >= state.solved + wait)
    return solve(state, settings) if is_time else state


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the stored samples."""
    channels, last, averages, samples = state.channels, state.fit, state.weighted, state.samples
    known = channels.rows(settings.known.T, weighted=False).T
    at = coordinates(averages.second, len(last.components), averages.n, channels, known)
    weights = np.exp(-(state.end - samples.number) / settings.horizon)
    data = data_of(samples.z, weights / weights.sum(), at, channels, known, last.nonnegative)
    data = data._replace(mean=at.matrix @ averages.mean)
    curve = last.nonnegative and follows_curve(samples.z, len(last.components))  # they are stored in their order
    fit = fit_data(data, at, channels, np.random.RandomState(state.seed), curve=curve)
    fit = _ordered(fit, linear_sum_assignment(-np.abs(last.components @ fit.mixing))[1])
    return state._replace(fit=fit, solved=state.n)


# --- several streams


def branch(state: State, first: int) -> State:
    """A stream that has seen no sample, with the channels and the cone of another; numbers of its samples begin at `first`."""
    none = Samples(*(field[:0] for field in state.samples))
    empty = Moments(0.0, 0 * state.raw.mean, 0 * state.raw.scatter)
    return state._replace(n=0, raw=empty, weighted=empty, samples=none, rate=1.0, solved=0, first=first, end=first)


def merge(a: State, b: State, settings: Settings) -> State:
    """The stream that has seen the samples of both, which have the same channels; numbers of b are larger."""
    weighted, raw = merge_moments(a.weighted, b.weighted), merge_moments(a.raw, b.raw)
    fit = a.fit._replace(nonnegative=a.fit.nonnegative and b.fit.nonnegative)
    both = union(a.samples, b.samples)
    state = a._replace(n=a.n + b.n, raw=raw, weighted=weighted, fit=fit, end=b.end, samples=both)
    if len(both.z):  # first, because the extremes of both were measured from other cones
        state = solve(state, settings)
    return _stored(state._replace(rate=min(a.rate, b.rate)), Samples(*(field[:0] for field in both)), settings)


def is_same_start(a: State, b: State) -> bool:
    """Whether two streams have the same channels and seed, so that they can be merged."""
    same = (bool(np.all(x == y)) for x, y in zip(a.channels[:], b.channels[:], strict=True))
    return all(same) and a.fit.components.shape == b.fit.components.shape and a.seed == b.seed


def _stored(state: State, new: Samples, settings: Settings) -> State:
    """Add samples to those that are stored, of which each may be an extreme one; forget those that are too old, or too many."""
    stored = union(state.samples, new)
    _, order = np.unique(stored.number, return_index=True)  # curves are recognised by their order
    z, number, extreme = (field[order] for field in stored)
    candidates = np.flatnonzero(extreme)
    extreme[:] = False
    if not state.fit.cone.noise.any():
        extreme[candidates[extremes(state.fit.components @ z[candidates].T)]] = True
    kept, rate = smallest(marks(number), capacity(*state.fit.components.shape), state.rate)
    kept = (kept | extreme) & (number >= state.end - _MEMORY * settings.horizon)
    return state._replace(samples=Samples(z[kept], number[kept], extreme[kept]), rate=rate)


# --- readout


def _ordered(fit: Fit, order: Array) -> Fit:
    cone = fit.cone._replace(V=fit.cone.V[order], wall=Wall(*(field[order] for field in fit.cone.wall)))
    return fit._replace(components=fit.components[order], mixing=fit.mixing[:, order], cone=cone)


def readout(state: State, normalize: str, known: Array) -> tuple[Array, Array, Array, float]:
    """W (d, k) and A (k, d) of the last solution, with outputs y of mean 1 multiplied by gains g, the gains (d,), and the volume.

    "variance": g_i = var(y_i)^{-1/2}; "mean": g_i = 1 / <y_i>; "sum": g minimises <(g' s - 1)^2> over the sources s = y - noise,
    so that sum_i g_i s_i = 1 if they are closed. Otherwise the spectra of the first outputs are those in `known` (k, p), with their
    scale. The volume is det(<y y'>)^{-1/2}: that of the simplex whose corners are the edges
    of the cone, in coordinates in which the data have unit second moment.
    """
    fit, channels, cone = state.fit, state.channels, state.fit.cone
    W = fit.components
    mean, second = W @ state.raw.mean, W @ state.raw.second @ W.T
    spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", W, state.raw.covariance, W), 0))
    if normalize == "sum" and fit.has_mean and state.n:
        v = np.sqrt(cone.wall.variance)
        g = np.linalg.lstsq(second - np.outer(v, v) * (cone.V @ cone.V.T), mean, rcond=None)[0]
        if not (g > 0).all():
            g = nnls(second, mean)[0]
        g = np.where(g > 0, g, 1 / (len(g) * np.abs(mean)))
    elif (normalize == "mean" and fit.has_mean) or not (spread > 1e-12 * np.abs(mean)).all():
        g = 1 / np.where(mean != 0, np.abs(mean), 1.0)
    else:
        g = 1 / spread
    A, p = channels.lifted(fit.mixing) * channels.scale, known.shape[1]
    if normalize != "sum":
        units = np.sum(A[:, :p] * known, axis=0) / np.sum(known**2, axis=0)
        g[:p] = np.where(units > 0, units, g[:p])
    volume = float(np.exp(-0.5 * np.linalg.slogdet(W @ state.weighted.second @ W.T)[1]))
    return channels.lifted(W.T * g).T / channels.scale, A / g, g, volume
