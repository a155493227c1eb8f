"""The minimum-volume cone of many samples, in bounded memory: of all rows in a few
passes, or of a stream in one.

What is kept is a sum or a union over blocks of samples, so that blocks can be read in
any order, on any machine.

- Moments <z>, <z z'> of the channels add.
- A sample has a number, and a mark: a hash of its number that is uniform on (0, 1). The
  random sample are those with the smallest marks. The sample of a union is the sample
  of the union of both samples.
- Of samples with noise, those near a facet decide where it is: a larger share of them
  is kept (`rows_near_facets`).
- Without noise those outside of a cone decide (`outside`), or those that are farthest
  out along many directions (`extremes`): those of a union are among those of its parts.

A stream takes samples in blocks of 1000, counted from the first sample, so that any
chunking gives the same result. A block costs the running moments and a product. The
cone is solved on the stored samples each time the number of samples has grown by half;
without noise also after each block that has a sample outside of it. With a horizon h,
the weight of a sample decays as exp(-age / h), samples older than 2 h are forgotten,
and the cone is solved every quarter of the horizon.
"""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import eigh, lstsq, norm
from numpy.random import RandomState
from scipy.optimize import linear_sum_assignment, nnls

from bionica.core.blocks import (
    Array,
    ChunkedRows,
    Moments,
    fold,
    marks,
    merge_moments,
    moments,
    smallest_marks,
)
from bionica.mixtures.cone.fit import (
    MAX_ROUNDS,
    Fit,
    Settings,
    data_of,
    distance_outside,
    fit_data,
    largest_distance,
)
from bionica.mixtures.cone.noise import (
    LEAST_SHARE,
    Channels,
    coordinates,
    find_channels,
)
from bionica.mixtures.cone.objective import Data, Wall
from bionica.mixtures.verdict.halves import (
    follows_curve,
    is_nonnegative,
    noise_explains,
)
from bionica.mixtures.verdict.outliers import (
    Limit,
    are_inliers,
    histogram,
    is_inlier,
    limit_of,
    metric,
)

BLOCK = 1000
_STORED = 20_000  # samples in the random sample
_BYTES = 2**25  # of the random sample, and of samples near facets
_DIRECTIONS = 1000
_TILTS = (0.01, 10.0)
_ROUNDING = 1e-8  # of |y|_1: a sample that is not farther outside is on the facet


class Samples(NamedTuple):
    """Samples z (m, q), their numbers (m,) and a mark for each (m,): whether it is an
    extreme one, or near a facet.
    """

    z: Array
    number: Array
    extreme: Array

    @classmethod
    def of(cls, z: Array, number: Array) -> "Samples":
        """Samples of which each may be an extreme one."""
        return cls(z, number, np.ones(len(z), dtype=bool))

    def take(self, rows: Any) -> "Samples":
        """Some of the samples."""
        return Samples(*(field[rows] for field in self))

    def union(self, other: "Samples") -> "Samples":
        """These samples and then those of `other`."""
        return Samples(*map(np.concatenate, zip(self, other, strict=True)))


class State(NamedTuple):
    """What is known of the stream.

    `n` counts samples. `raw` are moments of x / scale in the subspace, `weighted` those
    with the weights of Poisson counts (the same for other noise). `fit` is the last
    solution, `limit` the distance outside the cone beyond which samples are outliers,
    `rate` the largest mark of a stored sample, `solved` the number of samples at the
    last solution, `seed` that of the starts.
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


# --- the random sample


def capacity(q: int) -> int:
    """How many samples of q channels are kept."""
    return min(_STORED, max(2 * BLOCK, _BYTES // (8 * q)))


def sample_rows(X: ChunkedRows, most: int) -> tuple[Samples, float]:
    """The rows of X with the `most` smallest marks, in their order, and their rate; all
    if there are fewer than twice as many.
    """
    n = X.shape[0]
    if n < 2 * most:
        return X.fold_numbered(_rows_below, Samples.union, 2.0), 1.0
    rate = (most + 6 * np.sqrt(most)) / n
    rows = X.fold_numbered(_rows_below, Samples.union, rate)
    kept, rate = smallest_marks(marks(rows.number), most, rate)
    return rows.take(kept), rate


def _rows_below(block: Array, first: int, rate: float) -> Samples:
    number = first + np.arange(len(block), dtype=float)
    kept = marks(number) < rate
    return Samples.of(block[kept], number[kept])


# --- totals of all samples


class Gate(NamedTuple):
    """Which samples are used: those within the `limit` of outliers, and at most
    `distance` outside of the cone `fit`, if given.
    """

    channels: Channels
    limit: Limit | None = None
    fit: Fit | None = None
    distance: float = np.inf

    def used(self, X: Array, Z: Array) -> Array:
        """Which rows of X are used; Z are those of the channels."""
        used = np.ones(len(X), dtype=bool)
        if self.limit is not None:
            used &= is_inlier(self.channels.scaled(X), self.limit)
        if self.fit is not None:
            used &= distance_outside(Z, self.fit) <= self.distance
        return used


class Totals(NamedTuple):
    """Of all samples that are used: moments of the channels, with the weights of counts
    and without; of x: least and largest entry, sums of min(x, 0)^2 (k,); of all samples
    the histogram of their distances, if it was asked for.
    """

    weighted: Moments
    raw: Moments
    least: float
    largest: float
    negative: Array
    distances: Array


def totals(X: Array, gate: Gate, ruler: Limit | None = None) -> Totals:
    """Totals of a block X (n, k); `ruler` measures the distances of outliers."""
    channels = gate.channels
    Z = channels.rows(X)
    distances = np.zeros(1)
    if ruler:
        distances = histogram(channels.scaled(X), ruler)
    used = gate.used(X, Z)
    if not used.all():
        X = X[used]
        Z = Z[used]
    weighted = moments(Z)
    raw = moments(channels.rows(X, weighted=False)) if channels.counts else weighted
    least = X.min(initial=np.inf)
    largest = X.max(initial=-np.inf)
    negative = np.zeros(X.shape[1])
    if least < 0:
        negative = (np.minimum(X, 0, dtype=float) ** 2).sum(axis=0)
    return Totals(weighted, raw, least, largest, negative, distances)


def merge_totals(a: Totals, b: Totals) -> Totals:
    """The totals of both."""
    return Totals(
        merge_moments(a.weighted, b.weighted),
        merge_moments(a.raw, b.raw),
        min(a.least, b.least),
        max(a.largest, b.largest),
        a.negative + b.negative,
        a.distances + b.distances,
    )


# --- samples that decide where facets are


def rows_near_facets(
    block: Array, first: int, gate: Gate, fit: Fit, rates: tuple[float, float]
) -> Samples:
    """Coordinates u of samples near a facet of `fit` with marks below the first rate,
    and of others with marks below the second.
    """
    Z = gate.channels.rows(block)
    number = first + np.arange(len(block), dtype=float)
    near = fit.near(Z)
    rows = np.flatnonzero(marks(number) < np.where(near, *rates))
    rows = rows[gate.used(block[rows], Z[rows])]
    return Samples(Z[rows] @ fit.coordinates.matrix.T, number[rows], near[rows])


def outside(block: Array, first: int, gate: Gate, fit: Fit) -> Samples:
    """The samples outside of the cone `fit`; of more than 1000 those that are farthest
    out along many directions.
    """
    Z = gate.channels.rows(block)
    Y = fit.components @ Z.T
    size = np.abs(Y).sum(axis=0)
    # the apex has no direction
    rows = np.flatnonzero((Y.min(axis=0) < -_ROUNDING * size) & (size > _ROUNDING))
    rows = rows[gate.used(block[rows], Z[rows])]
    return farthest(fit.components, Samples.of(Z[rows], first + rows.astype(float)))


def farthest(W: Array, a: Samples, b: Samples | None = None) -> Samples:
    """The samples of a and b; of more than 1000 the `extremes`."""
    both = a if b is None else a.union(b)
    if len(both.z) <= _DIRECTIONS:
        return both
    return both.take(extremes(W @ both.z.T))


@lru_cache(maxsize=8)
def _probe_directions(d: int) -> Array:
    """g = e_i + tau r with |r| = 1: tilted from each facet i by angles on all scales,
    (m, d).
    """
    rng = RandomState(0)
    n = -(-_DIRECTIONS // d)
    r = rng.standard_normal((d, n, d))
    r /= norm(r, axis=2, keepdims=True)
    low, high = _TILTS
    tau = low * (high / low) ** rng.uniform(size=(d, n, 1))
    return (np.eye(d)[:, None] + tau * r).reshape(d * n, d)


def extremes(Y: Array) -> Array:
    """Which of the samples with outputs Y (d, n) are lowest along some direction, g' y
    / |y|_1.

    In what order samples come must not matter: the first rows of an image may be sky,
    and the facets of their cone turn by far when the rest comes. A facet that turns
    outward at one end turns inward at the other, where samples were not near it so far.
    """
    size = np.abs(Y).sum(axis=0)
    direction = Y / np.maximum(size, 1e-8)
    G = _probe_directions(len(Y))
    lowest = np.full(len(G), np.inf)
    index = np.zeros(len(G), dtype=np.intp)
    for start in range(0, Y.shape[1], _DIRECTIONS):
        q = G @ direction[:, start : start + _DIRECTIONS]
        # the apex has no direction; outputs have mean 1
        q[:, size[start : start + _DIRECTIONS] < 1e-8] = np.inf
        first = q.argmin(axis=1)
        value = q[np.arange(len(G)), first]
        index = np.where(value < lowest, start + first, index)
        lowest = np.minimum(value, lowest)
    return np.unique(index)


# --- all rows, or the first block of a stream


def begin(X: ChunkedRows, sample: Samples, rate: float, settings: Settings) -> State:
    """Solve the cone of all rows of X, and store what a stream that continues from
    there needs.

    `sample` are rows of X with marks below `rate`, of which 1 means all. If there are
    more, then all determine coordinates and noise, by their moments; one more pass
    leaves outliers out. With noise, a pass brings samples near the facets of a first
    cone; a sample weighs the inverse of the share of its kind that is kept. Without
    noise, passes bring samples outside of the cone, until there are none. A share
    `settings.outliers` of the samples is left out: those that lie farthest outside the
    cone and off its subspace, in units of the noise, which is found three times.
    (`mixtures.verdict.outliers` knows no cone and finds at most 0.5 %: more must be
    declared.) Outputs are in the order of their share of the data, those of known
    spectra first.
    """
    rows = sample.z
    channels = find_channels(rows, settings.n_components, settings.noise)
    gate = _declared(rows, channels, settings)
    if rate == 1:
        total = totals(rows, gate)
    else:
        ruler = metric(channels.scaled(rows), None)
        total = fold(X, totals, merge_totals, gate, ruler)
        limit = limit_of(ruler, total.distances) if ruler else None
        if limit:
            gate = gate._replace(limit=limit)
            total = fold(X, totals, merge_totals, gate)
    Z = channels.rows(rows)
    samples = sample._replace(z=Z).take(gate.used(rows, Z))
    fit, data, curve = _fit(samples.z, total.weighted, channels, settings, total)
    if rate < 1 and fit.has_mean and not curve:
        fit, samples = _of_all_rows(X, gate, fit, data, samples, rate, settings.seed)
    if settings.given is None:  # otherwise in the order of the known amounts
        W = fit.components
        variance = np.einsum("ij,jk,ik->i", W, total.weighted.covariance, W)
        share = (fit.mixing**2).sum(axis=0) * variance
        share[: settings.known.shape[1]] = np.inf
        fit = _ordered(fit, np.argsort(-share, kind="stable"))
    # they may decay
    weighted, raw = (m._replace(n=float(m.n)) for m in (total.weighted, total.raw))
    n = X.shape[0]
    state = State(
        n,
        channels,
        raw,
        weighted,
        fit,
        gate.distance,
        samples.take(slice(0)),
        rate,
        n,
        settings.seed,
    )
    return _stored(state, samples, settings)


def _declared(rows: Array, channels: Channels, settings: Settings) -> Gate:
    """The gate that leaves out the declared share of outliers, if there is one."""
    gate = Gate(channels)
    if not settings.outliers:
        return gate
    Z = channels.rows(rows)
    typical = np.median(np.abs(Z), axis=0)
    least = max(LEAST_SHARE * typical.max(), 1e-300)
    distance = norm(Z / np.maximum(typical, least), axis=1)
    for _ in range(3):
        used = distance <= largest_distance(distance, settings.outliers)
        total = totals(rows[used], gate)
        fit = _fit(Z[used], total.weighted, channels, settings, total)[0]
        distance = distance_outside(Z, fit)
    return Gate(
        channels, fit=fit, distance=largest_distance(distance, settings.outliers)
    )


def _of_all_rows(
    X: ChunkedRows,
    gate: Gate,
    fit: Fit,
    data: Data,
    samples: Samples,
    rate: float,
    seed: int,
) -> tuple[Fit, Samples]:
    """The cone of all rows from that of a sample, and the samples that decide where it
    is without noise.
    """

    def again(U: Array, weights: Array) -> Fit:
        rows = data._replace(U=U, weights=weights / weights.sum())
        rng = RandomState(seed)
        return fit_data(rows, fit.coordinates, gate.channels, rng, start=fit)

    if fit.cone.noise.any():
        share = max(fit.near(samples.z).mean(), LEAST_SHARE)
        size = 8 * len(fit.components) * X.shape[0] * share
        rates = (np.clip(_BYTES / size, rate, 1), rate)
        near = X.fold_numbered(rows_near_facets, Samples.union, gate, fit, rates)
        return again(near.z, 1 / np.where(near.extreme, *rates)), samples
    for _ in range(MAX_ROUNDS):
        last = fit.components
        found = X.fold_numbered(outside, partial(farthest, last), gate, fit)
        if not len(found.z):
            break
        samples = samples.union(found)
        U = samples.z @ fit.coordinates.matrix.T
        fit = again(U, np.ones(len(U)))
        if (fit.components == last).all():
            break
    return fit, samples


def _fit(
    z: Array,
    averages: Moments,
    channels: Channels,
    settings: Settings,
    total: Totals | None = None,
    weights: Array | None = None,
) -> tuple[Fit, Data, bool]:
    """The cone of samples z (m, q) in the coordinates of all samples, the data in them,
    and whether they follow a curve.

    The totals show whether spectra are nonnegative, unless the settings say it.
    """
    d = settings.n_components
    if weights is None:
        weights = np.full(len(z), 1 / len(z))
    known = channels.rows(settings.known.T, weighted=False).T
    at = coordinates(averages.second, d, averages.n, channels, known)
    nonnegative = settings.nonnegative
    if nonnegative is None and total is not None:
        noise = channels.scale * at.channel_noise
        negative = total.negative / total.weighted.n
        nonnegative = channels.counts or noise_explains(
            total.least, total.largest, negative, noise
        )
    data = data_of(z, weights, averages.mean, at, channels, bool(nonnegative), settings)
    told = settings.given is not None and (settings.given[1] > 0).any(axis=0).all()
    # samples are stored in their order
    curve = bool(nonnegative) and not told and follows_curve(z, d)
    rng = RandomState(settings.seed)
    return fit_data(data, at, channels, rng, curve=curve), data, curve


def _ordered(fit: Fit, order: Array) -> Fit:
    wall = Wall(*(field[order] for field in fit.cone.wall))
    return fit._replace(
        components=fit.components[order],
        mixing=fit.mixing[:, order],
        cone=fit.cone._replace(V=fit.cone.V[order], wall=wall),
    )


# --- a stream


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is
    time.
    """
    numbers = state.n + np.arange(len(X), dtype=float)
    state = state._replace(n=state.n + len(X))
    used = are_inliers(X)
    channels = state.channels
    is_outside = False
    if settings.outliers:
        used &= distance_outside(channels.rows(X), state.fit) <= state.limit
    X = X[used]
    Z = channels.rows(X)
    numbers = numbers[used]
    if len(Z):
        decay = np.exp(-len(used) / settings.horizon)
        weighted = merge_moments(state.weighted, moments(Z), decay)
        raw = weighted
        if channels.counts:
            unweighted = moments(channels.rows(X, weighted=False))
            raw = merge_moments(state.raw, unweighted, decay)
        state = state._replace(raw=raw, weighted=weighted)
        state = _stored(state, Samples.of(Z, numbers), settings)
        fit = state.fit
        if fit.nonnegative and settings.nonnegative is None and not channels.counts:
            noise = channels.scale * fit.coordinates.channel_noise
            nonnegative = is_nonnegative(X, noise)
            state = state._replace(fit=fit._replace(nonnegative=nonnegative))
        Y = fit.components @ Z.T
        beyond = Y.min(axis=0) < -LEAST_SHARE * np.abs(Y).sum(axis=0)
        is_outside = bool(beyond.any()) and not fit.cone.noise.any()
    wait = max(min(state.solved / 2, settings.horizon / 4), BLOCK)
    if is_outside or state.n >= state.solved + wait:
        state = solve(state, settings)
    return state


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the stored samples."""
    last = state.fit
    samples = state.samples
    weights = np.exp(-(state.n - samples.number) / settings.horizon)
    settings = settings._replace(
        nonnegative=last.nonnegative, n_components=len(last.components), seed=state.seed
    )
    weights = weights / weights.sum()
    z = samples.z
    fit = _fit(z, state.weighted, state.channels, settings, weights=weights)[0]
    fit = _ordered(fit, linear_sum_assignment(-np.abs(last.components @ fit.mixing))[1])
    return state._replace(fit=fit, solved=state.n)


def _stored(state: State, new: Samples, settings: Settings) -> State:
    """Add samples to those that are stored, of which each may be an extreme one; forget
    those that are too old, or too many.
    """
    stored = state.samples.union(new)
    # curves are recognised by their order
    _, order = np.unique(stored.number, return_index=True)
    z, number, extreme = stored.take(order)
    candidates = np.flatnonzero(extreme)
    extreme[:] = False
    if not state.fit.cone.noise.any():
        extreme[candidates[extremes(state.fit.components @ z[candidates].T)]] = True
    kept, rate = smallest_marks(
        marks(number), capacity(state.fit.components.shape[1]), state.rate
    )
    kept = (kept | extreme) & (number >= state.n - 2 * settings.horizon)
    return state._replace(samples=Samples(z, number, extreme).take(kept), rate=rate)


# --- readout


class Readout(NamedTuple):
    """W (d, k) and A (k, d), standard deviations of the noise of the outputs (d,)."""

    components: Array
    mixing: Array
    noise: Array


def readout(state: State, settings: Settings) -> Readout:
    """What the last solution does to mixtures, with outputs y of mean 1 multiplied by
    gains g.

    "variance": g_i = var(y_i)^{-1/2}; "mean": g_i = 1 / <y_i>; "sum": g minimises <(g'
    s - 1)^2> over the sources s = y - noise, so that sum_i g_i s_i = 1 if they are
    closed. Otherwise known spectra keep their scale.
    """
    fit = state.fit
    W = fit.components
    normalize = settings.normalize
    mean = W @ state.raw.mean
    size = np.abs(mean)
    second = W @ state.raw.second @ W.T
    variance = np.einsum("ij,jk,ik->i", W, state.raw.covariance, W)
    spread = np.sqrt(np.maximum(variance, 0))
    if normalize == "sum" and fit.has_mean:
        v = np.sqrt(fit.cone.wall.variance)
        sources = second - np.outer(v, v) * (fit.cone.V @ fit.cone.V.T)
        g = lstsq(sources, mean, rcond=None)[0]
        if not (g > 0).all():
            values, E = eigh(second)
            root = E * np.sqrt(np.maximum(values, 0))
            g = nnls(root.T, lstsq(root, mean, rcond=None)[0])[0]
        g = np.where(g > 0, g, 1 / (len(g) * size))
    elif (normalize == "mean" and fit.has_mean) or not (spread > 1e-12 * size).all():
        g = 1 / np.where(size > 0, size, 1.0)
    else:
        g = 1 / spread
    scale = state.channels.scale
    A = state.channels.lifted(fit.mixing) * scale
    if normalize != "sum":
        known = settings.known
        p = known.shape[1]
        units = (A[:, :p] * known).sum(axis=0) / (known**2).sum(axis=0)
        g[:p] = np.where(units > 0, units, g[:p])
    components = state.channels.lifted(W.T * g).T / scale
    return Readout(components, A / g, g * fit.cone.noise)
