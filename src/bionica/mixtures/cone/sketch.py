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
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment, nnls

from bionica.core.blocks import (
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
    EDGES,
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

Array = npt.NDArray[Any]

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
    number = np.arange(first, first + len(block), dtype=np.float64)
    kept = marks(number) < rate
    return Samples(
        block[kept], number[kept], np.zeros(np.count_nonzero(kept), dtype=bool)
    )


# --- totals of all samples


class Gate(NamedTuple):
    """Which samples are used: those within the `limit` of outliers, and at most
    `distance` outside of the cone `fit`, if given.
    """

    limit: Limit | None = None
    fit: Fit | None = None
    distance: float = np.inf

    def used(self, X: Array, Z: Array, channels: Channels) -> Array:
        """Which rows of X are used; Z are those of the channels."""
        used = np.ones(len(X), dtype=bool)
        if self.limit is not None:
            used &= is_inlier(X / X.dtype.type(channels.scale), self.limit)
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


def totals(
    X: Array, channels: Channels, gate: Gate, ruler: Limit | None = None
) -> Totals:
    """Totals of a block X (n, k); `ruler` measures the distances of outliers."""
    Z = channels.rows(X)
    distances = (
        np.zeros(1)
        if ruler is None
        else histogram(X / X.dtype.type(channels.scale), ruler)
    )
    used = gate.used(X, Z, channels)
    if not used.all():
        X = X[used]
        Z = Z[used]
    weighted = moments(Z)
    raw = moments(channels.rows(X, weighted=False)) if channels.counts else weighted
    least = float(X.min(initial=np.inf))
    largest = float(X.max(initial=-np.inf))
    negative = (
        np.sum(np.minimum(X, 0, dtype=np.float64) ** 2, axis=0)
        if least < 0
        else np.zeros(X.shape[1])
    )
    return Totals(weighted, raw, least, largest, negative, distances)


def merge_totals(a: Totals, b: Totals) -> Totals:
    """The totals of both."""
    weighted, raw = (merge_moments(*pair) for pair in zip(a[:2], b[:2], strict=True))
    ends = min(a.least, b.least), max(a.largest, b.largest)
    return Totals(
        weighted, raw, *ends, a.negative + b.negative, a.distances + b.distances
    )


# --- samples that decide where facets are


def rows_near_facets(
    block: Array,
    first: int,
    channels: Channels,
    gate: Gate,
    fit: Fit,
    rates: tuple[float, float],
) -> Samples:
    """Coordinates u of samples near a facet of `fit` with marks below the first rate,
    and of others with marks below the second.
    """
    Z = channels.rows(block)
    number = np.arange(first, first + len(block), dtype=np.float64)
    near = (fit.components @ Z.T < EDGES[-1] * fit.cone.noise[:, None]).any(axis=0)
    kept = marks(number) < np.where(near, *rates)
    Z = Z[kept]
    number = number[kept]
    near = near[kept]
    used = gate.used(block[kept], Z, channels)
    return Samples(Z[used] @ fit.coordinates.matrix.T, number[used], near[used])


def outside(
    block: Array, first: int, channels: Channels, gate: Gate, fit: Fit
) -> Samples:
    """The samples outside of the cone `fit`; of more than 1000 those that are farthest
    out along many directions.
    """
    Z = channels.rows(block)
    Y = fit.components @ Z.T
    size = np.abs(Y).sum(axis=0)
    # the apex has no direction
    rows = np.flatnonzero((Y.min(axis=0) < -_ROUNDING * size) & (size > _ROUNDING))
    rows = rows[gate.used(block[rows], Z[rows], channels)]
    return farthest(
        fit.components,
        Samples(
            Z[rows], first + rows.astype(np.float64), np.ones(len(rows), dtype=bool)
        ),
    )


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
    rng = np.random.RandomState(0)
    n = -(-_DIRECTIONS // d)
    r = rng.standard_normal((d, n, d))
    r /= np.linalg.norm(r, axis=2, keepdims=True)
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
    (`mixtures.verdict.outliers` knows no cone and finds at most 0.5 %: more must be declared.)
    Outputs are in the order of their share of the data, those of known spectra first.
    """
    rows = sample.z
    n = X.shape[0]
    d = settings.n_components
    channels = find_channels(rows, d, settings.noise)
    Z = channels.rows(rows)
    gate = Gate()

    def fitted(z: Array, total: Totals) -> tuple[Fit, Data, bool]:
        return _fit(
            z, np.full(len(z), 1 / len(z)), total.weighted, channels, settings, total
        )

    if settings.outliers:
        typical = np.median(np.abs(Z), axis=0)
        distance = np.linalg.norm(
            Z / np.maximum(typical, max(LEAST_SHARE * typical.max(), 1e-300)), axis=1
        )
        for _ in range(3):
            used = distance <= largest_distance(distance, settings.outliers)
            fit = fitted(Z[used], totals(rows[used], channels, gate))[0]
            distance = distance_outside(Z, fit)
        gate = Gate(None, fit, largest_distance(distance, settings.outliers))
    ruler = metric(rows / rows.dtype.type(channels.scale), None) if rate < 1 else None
    total = (
        totals(rows, channels, gate)
        if rate == 1
        else fold(X, totals, merge_totals, channels, gate, ruler)
    )
    if ruler is not None and (limit := limit_of(ruler, total.distances)) is not None:
        gate = gate._replace(limit=limit)
        total = fold(X, totals, merge_totals, channels, gate)
    samples = sample._replace(z=Z, extreme=np.ones(len(Z), dtype=bool)).take(
        gate.used(rows, Z, channels)
    )
    fit, data, curve = fitted(samples.z, total)
    refit = partial(
        fit_data,
        at=fit.coordinates,
        channels=channels,
        rng=np.random.RandomState(settings.seed),
    )
    if rate < 1 and fit.has_mean and not curve and fit.cone.noise.any():
        share = np.mean(
            (fit.components @ samples.z.T < EDGES[-1] * fit.cone.noise[:, None]).any(
                axis=0
            )
        )
        rates = (
            float(np.clip(_BYTES / (8 * d * n * max(share, LEAST_SHARE)), rate, 1)),
            rate,
        )
        near = X.fold_numbered(
            rows_near_facets, Samples.union, channels, gate, fit, rates
        )
        weights = 1 / np.where(near.extreme, *rates)
        fit = refit(data._replace(U=near.z, weights=weights / weights.sum()), start=fit)
    elif rate < 1 and fit.has_mean and not curve:
        for _ in range(MAX_ROUNDS):
            found = X.fold_numbered(
                outside, partial(farthest, fit.components), channels, gate, fit
            )
            samples = samples.union(found)
            last = fit
            U = samples.z @ fit.coordinates.matrix.T
            fit = (
                refit(
                    data._replace(U=U, weights=np.full(len(U), 1 / len(U))), start=fit
                )
                if len(found.z)
                else fit
            )
            if not (fit.components != last.components).any():
                break
    W = fit.components
    n_known = settings.known.shape[1]
    share = np.sum(fit.mixing**2, axis=0) * np.einsum(
        "ij,jk,ik->i", W, total.weighted.covariance, W
    )
    share[:n_known] = np.inf
    if settings.given is None:  # otherwise in the order of the known amounts
        fit = _ordered(fit, np.argsort(-share, kind="stable"))
    # they may decay
    weighted, raw = (m._replace(n=float(m.n)) for m in (total.weighted, total.raw))
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


def _fit(
    z: Array,
    weights: Array,
    averages: Moments,
    channels: Channels,
    settings: Settings,
    total: Totals | None = None,
) -> tuple[Fit, Data, bool]:
    """The cone of samples z (m, q) in the coordinates of all samples, the data in them,
    and whether they follow a curve.

    The totals show whether spectra are nonnegative, unless the settings say it.
    """
    d = settings.n_components
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
    return (
        fit_data(data, at, channels, np.random.RandomState(settings.seed), curve=curve),
        data,
        curve,
    )


def _ordered(fit: Fit, order: Array) -> Fit:
    cone = fit.cone._replace(
        V=fit.cone.V[order], wall=Wall(*(field[order] for field in fit.cone.wall))
    )
    return fit._replace(
        components=fit.components[order], mixing=fit.mixing[:, order], cone=cone
    )


# --- a stream


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is
    time.
    """
    numbers = np.arange(state.n, state.n + len(X), dtype=np.float64)
    state = state._replace(n=state.n + len(X))
    sound = are_inliers(X)
    X = X[sound]
    numbers = numbers[sound]
    channels = state.channels
    is_outside = False
    Z = channels.rows(X)
    if settings.outliers:
        inside = distance_outside(Z, state.fit) <= state.limit
        X = X[inside]
        Z = Z[inside]
        numbers = numbers[inside]
    if len(Z):
        decay = float(np.exp(-len(sound) / settings.horizon))
        weighted = merge_moments(state.weighted, moments(Z), decay)
        raw = weighted
        if channels.counts:
            raw = merge_moments(
                state.raw, moments(channels.rows(X, weighted=False)), decay
            )
        new = Samples(Z, numbers, np.ones(len(Z), dtype=bool))
        state = _stored(state._replace(raw=raw, weighted=weighted), new, settings)
        fit = state.fit
        if fit.nonnegative and settings.nonnegative is None and not channels.counts:
            nonnegative = is_nonnegative(
                X, channels.scale * fit.coordinates.channel_noise
            )
            state = state._replace(fit=fit._replace(nonnegative=nonnegative))
        Y = fit.components @ Z.T
        is_outside = not fit.cone.noise.any() and bool(
            (Y.min(axis=0) < -LEAST_SHARE * np.abs(Y).sum(axis=0)).any()
        )
    wait = max(min(state.solved / 2, settings.horizon / 4), BLOCK)
    return (
        solve(state, settings)
        if is_outside or state.n >= state.solved + wait
        else state
    )


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the stored samples."""
    last = state.fit
    samples = state.samples
    weights = np.exp(-(state.n - samples.number) / settings.horizon)
    settings = settings._replace(
        nonnegative=last.nonnegative, n_components=len(last.components), seed=state.seed
    )
    fit = _fit(
        samples.z, weights / weights.sum(), state.weighted, state.channels, settings
    )[0]
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
    channels = state.channels
    cone = state.fit.cone
    W = fit.components
    normalize = settings.normalize
    known = settings.known
    mean = W @ state.raw.mean
    second = W @ state.raw.second @ W.T
    spread = np.sqrt(
        np.maximum(np.einsum("ij,jk,ik->i", W, state.raw.covariance, W), 0)
    )
    if normalize == "sum" and fit.has_mean:
        v = np.sqrt(cone.wall.variance)
        g = np.linalg.lstsq(
            second - np.outer(v, v) * (cone.V @ cone.V.T), mean, rcond=None
        )[0]
        if not (g > 0).all():
            values, E = np.linalg.eigh(second)
            root = E * np.sqrt(np.maximum(values, 0))
            g = nnls(root.T, np.linalg.lstsq(root, mean, rcond=None)[0])[0]
        g = np.where(g > 0, g, 1 / (len(g) * np.abs(mean)))
    elif (normalize == "mean" and fit.has_mean) or not (
        spread > 1e-12 * np.abs(mean)
    ).all():
        g = 1 / np.where(mean != 0, np.abs(mean), 1.0)
    else:
        g = 1 / spread
    A = channels.lifted(fit.mixing) * channels.scale
    p = known.shape[1]
    if normalize != "sum":
        units = np.sum(A[:, :p] * known, axis=0) / np.sum(known**2, axis=0)
        g[:p] = np.where(units > 0, units, g[:p])
    return Readout(channels.lifted(W.T * g).T / channels.scale, A / g, g * cone.noise)
