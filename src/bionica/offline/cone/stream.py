"""The minimum-volume cone of a stream: one pass, bounded memory, the same result for any chunking.

Samples are taken in blocks of 1000, counted from the first sample. Between two solutions a block costs the running moments <x>,
<x x'> and a product; of its samples only those near a facet are kept. With z = y_i / noise, facet i keeps

    z < 1        at most 1000 samples, which pull at the facet,
    1 <= z < 9   at most 2000 samples, which tell atom, density and slope (`leakage`).

`leakage` reads z < 6. Facets move between solutions: if only z < 6 were kept, samples would be missing at the far edge of the next
solution, which looks like an atom and makes the wall too soft (uniform sources, rho = 0.7, 20 dB: -2.9 dB in one of ten streams).

Each sample has a mark, a hash of its number that is uniform on (0, 1), and is kept if its mark is below the rate of its stratum.
If a stratum overflows, its rate is halved. A sample that was kept with rate r stands for 1 / r samples, so that sums over the kept
samples estimate sums over all (Horvitz and Thompson 1952). The first quarter of the stream is forgotten, because its samples were
kept for facets that were still far off. Without noise the 1000 samples nearest in angle are kept instead, and the outermost ones
along many directions (`extreme_samples`).

The cone is solved again from the last one each time the number of samples has grown by half, and every quarter of the horizon;
without noise already after a tenth more samples, if one lies outside.

With a horizon h, the weight of a sample decays as exp(-age / h), and samples older than 2 h are forgotten: they lie outside the
cone of today, and walls are hard on those far outside. The hardness of the wall then follows its estimate slowly. A facet that
lags behind has few samples near it, so that the estimate grows, which drives the facet further out (all of A turns in 1e6 samples,
h = 3000: the lowest of 1000 windows rises from 14 and 18 dB to 23 and 21 dB in two runs). It can still happen if h is too long: two
other runs have 20 and 7 dB in their lowest window with h = 3000, and 27 and 24 dB with h = 1500.

At most 3000 random samples of the whole stream per source (20,000, if these are more) are kept too (`random_samples`). If the
facets cannot be seen (`Fit.fallback`), or if the noise is not known (k = d) and fewer than 20,000 samples were seen, or if the
samples near the facets do not suffice, the cone is solved afresh from them. After 20,000 samples those near the facets tell more
(k = d = 3, rho = 0.5, 60 dB, 50,000 samples: random samples throughout end 20 and 18 dB below the batch in two streams, those near
the facets 0 and 3 dB).

The random samples also check the solution, if the noise is known. If sources are on and off for long, the first blocks hold some
combinations of sources only. Their cone may be far off, and the samples near its facets then say nothing of the right facets: walls
get hard, and it stays. So a cone is solved from new starts on the random samples at every second solution, or at the next one if
the last check did not agree, and it replaces the solution if that is worse (`compare`). Sources that are on and off in runs of
100 to 3000 samples, d = 3, k = 6, 34 dB, 100,000 samples: 34 of 48 streams ended more than 0.5 degrees further off than the batch
without such checks, 3 with them. In the two worst of these, new starts end in a cone whose facets have little support, too.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from .channels import Channels, find_channels, noiseless
from .compare import seen_on, worse
from .coordinates import coordinates
from .fit import FINAL, supported, touched, without_noise
from .kept_facets import KeptFacets, settle_on_kept
from .kept_samples import Kept, add, keep_first, nothing_kept, prune, since
from .mixtures import Fit, assemble, cone_from_starts, distance_outside, fit_mixtures, largest_distance
from .random_samples import RandomSamples, add_random, marks, no_samples

Array = npt.NDArray[Any]

BLOCK = 1000
_GROWTH = 1.5
_OUTSIDE, _GROWTH_OUTSIDE = (
    1e-3,
    1.1,
)  # share of an output that is negative although there is no noise: the cone is solved sooner
_MEMORY = 2.0  # horizons
_SLOWLY = 0.05  # exponent with which the hardness of a wall follows its estimate, from 2 horizons on
_FEW_KEPT = 50  # samples of a facet
_EARLY = 20_000  # samples
_CHECK, _CHECK_SOON = 16.0, 4.0  # horizons until the next check, by whether the last agreed
_LEAST_CHECKED = 1000  # random samples


class Averages(NamedTuple):
    """Sum of the weights of samples, and their weighted mean (q,) and second moment (q, q)."""

    weight: float
    mean: Array
    second: Array


class State(NamedTuple):
    """What is known of the stream.

    `n` counts samples. `raw` are averages of x / scale in the subspace, `weighted` those with the weights of Poisson counts
    (the same for other noise). `fit` is the last solution, `negativity` the share of the output energy that is negative in it,
    `limit` the distance outside the cone beyond which samples are outliers, `kept` the samples near its facets (none if the next
    solution starts `fresh`), `random` random samples, `next_solve` the number of samples at which the cone is solved again, and
    `next_check` the number from which on a solution is checked against a new start.
    """

    n: int
    channels: Channels
    raw: Averages
    weighted: Averages
    fit: Fit
    negativity: float
    limit: float
    kept: Kept
    random: RandomSamples
    fresh: bool
    next_solve: int
    next_check: int


class Settings(NamedTuple):
    """Share of outliers, and the horizon (inf: none)."""

    outliers: float
    horizon: float


def first_block(d: int) -> int:
    """Number of samples from which a stream starts."""
    return max(2 * BLOCK, 200 * d)


def begin(X: Array, d: int, noise: Any, settings: Settings, rng: np.random.RandomState) -> State:
    """Solve the cone of X (n_samples, k), and keep what a stream that continues from there needs."""
    channels = find_channels(X, d, noise)
    Z = channels.rows(X)
    fit, used = fit_mixtures(Z, d, channels.noise, settings.outliers, rng, single=X.dtype == np.float32)
    limit = np.inf
    if settings.outliers:
        limit = largest_distance(distance_outside(Z, fit), settings.outliers)
        X, Z = X[used], Z[used]
    raw = weighted = _averages(Z)
    if channels.poisson is not None:
        raw = _averages(channels.raw(X))
    fit = _by_share(fit, weighted)
    n, number = len(used), np.flatnonzero(used).astype(np.float64)
    fresh = _starts_fresh(fit, n, settings)
    return State(
        n=n,
        channels=channels,
        raw=raw,
        weighted=weighted,
        fit=fit,
        negativity=_negativity(fit.components @ Z.T),
        limit=limit,
        kept=nothing_kept(d, Z.shape[1]) if fresh else keep_first(fit, Z, number),
        random=add_random(no_samples(Z.shape[1]), Z, number, marks(number), d, n - _MEMORY * settings.horizon),
        fresh=fresh,
        next_solve=_next(n, settings.horizon),
        next_check=_next_check(n, settings.horizon),
    )


def _by_share(fit: Fit, seen: Averages) -> Fit:
    """Outputs in the order of their share of the data."""
    W = fit.components
    variance = np.einsum("ij,jk,ik->i", W, seen.second, W) - (W @ seen.mean) ** 2
    share = np.sum(fit.mixing**2, axis=0) * variance
    return _ordered(fit, np.argsort(-share, kind="stable"))


def _ordered(fit: Fit, order: Array) -> Fit:
    cone = fit.cone
    wall = cone.wall._replace(c=cone.wall.c[order], variance=cone.wall.variance[order], e=cone.wall.e[order])
    fields = {name: getattr(cone, name)[order] for name in ("V", "noise", "rho", "expected_rho", "support", "atom")}
    cone = cone._replace(wall=wall, **fields)
    return fit._replace(components=fit.components[order], mixing=fit.mixing[:, order], cone=cone)


def _negativity(Y: Array) -> float:
    """Share of the energy of the outputs Y that is negative."""
    negative = np.minimum(Y, 0)
    return float(np.vdot(negative, negative)) / max(float(np.vdot(Y, Y)), 1e-300)


def _averages(Z: Array) -> Averages:
    return Averages(float(len(Z)), Z.mean(axis=0), Z.T @ Z / len(Z))


def _next(n: int, horizon: float, growth: float = _GROWTH) -> int:
    return n + int(min(max(n * (growth - 1), BLOCK), max(horizon / 4, BLOCK)))


def _next_check(n: int, horizon: float, *, agreed: bool = True) -> int:
    """When a solution is checked next: at the next solution unless the check agreed; with a horizon, some horizons later."""
    if n < _CHECK_SOON * horizon:
        return n + int(min(n, _CHECK * horizon)) if agreed else n
    return n + int((_CHECK if agreed else _CHECK_SOON) * horizon)


def _outside(fit: Fit, Z: Array) -> bool:
    """Whether a sample lies far outside a cone that holds all samples so far."""
    Y = fit.components @ Z.T
    return bool(np.any(Y.min(axis=0) < -_OUTSIDE * np.abs(Y).sum(axis=0)))


def learn(state: State, X: Array, settings: Settings) -> State:
    """Learn from a block of samples X (n_samples, k), and solve the cone again if it is time."""
    channels = state.channels
    raw = channels.raw(X)
    Z = raw if channels.poisson is None else channels.rows(X)
    numbers = np.arange(state.n, state.n + len(X), dtype=np.float64)
    if settings.outliers:
        inside = distance_outside(Z, state.fit) <= state.limit
        raw, Z, numbers = raw[inside], Z[inside], numbers[inside]
    decay = float(np.exp(-len(X) / settings.horizon))
    weighted = _joined(state.weighted, Z, decay)
    both = weighted if channels.poisson is None else _joined(state.raw, raw, decay)
    mark = marks(numbers)
    kept = state.kept if state.fresh else add(state.kept, state.fit, Z, numbers, mark)
    n, next_solve = state.n + len(X), state.next_solve
    random = add_random(state.random, Z, numbers, mark, len(state.fit.components), n - _MEMORY * settings.horizon)
    if not state.fit.cone.noise.any() and _outside(state.fit, Z):
        next_solve = min(next_solve, _next(n, settings.horizon, _GROWTH_OUTSIDE))
    state = state._replace(n=n, raw=both, weighted=weighted, kept=kept, random=random, next_solve=next_solve)
    return solve(state, settings) if state.n >= state.next_solve else state


def _joined(old: Averages, Z: Array, decay: float) -> Averages:
    weight = decay * old.weight + len(Z)
    share = len(Z) / weight
    new = _averages(Z)
    return Averages(weight, old.mean + share * (new.mean - old.mean), old.second + share * (new.second - old.second))


def solve(state: State, settings: Settings) -> State:
    """Solve the cone on the kept samples, starting from the last one; then keep what is near the new facets."""
    next_solve = _next(state.n, settings.horizon)
    if not state.fit.has_mean:
        return state._replace(next_solve=next_solve)
    found = None if state.fresh else _again(state, settings)
    if found is None:
        return _afresh(state, settings)._replace(next_solve=next_solve)
    fit, negativity, kept = found
    state = state._replace(fit=fit, negativity=negativity, kept=kept, next_solve=next_solve)
    return state if state.n < state.next_check else _checked(state, settings)


def _checked(state: State, settings: Settings) -> State:
    """Replace the solution by one from new starts on random samples, if that one is better on these."""
    at = state.fit.coordinates
    state = state._replace(next_check=_next_check(state.n, settings.horizon, agreed=False))
    X, number, rate = state.random.since(state.n - _MEMORY * settings.horizon)
    if len(state.fit.cone.V) == 1 or not at.variance or len(X) < _LEAST_CHECKED:
        return state
    U = X @ at.matrix.T
    last, new = (seen_on(U, cone) for cone in (state.fit.cone, cone_from_starts(U, at, np.random.RandomState(0))))
    sound = supported(last, at.known)
    if not (new.converged and supported(new, at.known)):
        return state if sound else _afresh(state, settings)
    if sound and not worse(last, new, U):
        return state._replace(next_check=_next_check(state.n, settings.horizon))
    fit = _in_order_of(assemble(at, new), state.fit)
    kept = keep_first(fit, X, number, rate)
    return state._replace(fit=fit, negativity=_negativity(fit.components @ X.T), kept=kept)


def _starts_fresh(fit: Fit, n: int, settings: Settings) -> bool:
    """Whether the next solution starts from random samples rather than from this one."""
    early = n < min(_EARLY, 2 * settings.horizon)
    return fit.has_mean and (fit.fallback or (early and not fit.coordinates.known))


def _afresh(state: State, settings: Settings) -> State:
    """Solve from the start on random samples."""
    X, number, rate = state.random.since(state.n - _MEMORY * settings.horizon)
    d, channels = len(state.fit.components), state.channels
    if channels.estimate and noiseless(X, d):
        channels = channels._replace(estimate=False)
    fit, _ = fit_mixtures(X, d, channels.noise, 0.0, np.random.RandomState(0))
    fit = _in_order_of(fit, state.fit)
    fresh = _starts_fresh(fit, state.n, settings)
    kept = nothing_kept(d, len(state.weighted.mean)) if fresh else keep_first(fit, X, number, rate)
    negativity = _negativity(fit.components @ X.T)
    return state._replace(channels=channels, fit=fit, negativity=negativity, kept=kept, fresh=fresh)


def _in_order_of(fit: Fit, last: Fit) -> Fit:
    """Outputs in the order of the last solution, matched by what they have in common."""
    _, order = linear_sum_assignment(-np.abs(last.components @ fit.mixing))
    return _ordered(fit, order)


def _again(state: State, settings: Settings) -> tuple[Fit, float, Kept] | None:
    """Solve from the last cone on the samples that were kept near its facets.

    None if these do not suffice: there are few, or they show noise where none was seen so far.
    """
    cone, seen = state.fit.cone, state.weighted
    d = len(cone.V)
    at = coordinates(seen.second, d, seen.weight, state.channels.noise)
    u_bar = at.matrix @ seen.mean
    V = np.linalg.inv(at.matrix @ state.fit.mixing)
    V /= (V @ u_bar)[:, None]
    variance = np.full(d, at.variance) if at.known else (cone.noise / np.linalg.norm(V, axis=1)) ** 2
    noisy = bool(variance.any())
    oldest = max(state.n / 4 if noisy else 0.0, state.n - _MEMORY * settings.horizon)
    kept = since(state.kept, oldest)
    U = kept.x @ at.matrix.T
    wall = cone.wall._replace(variance=variance, e=np.zeros(d), kappa=FINAL)
    if not noisy:
        rows = np.unique(kept.number, return_index=True)[1]
        cone = without_noise(U[rows], cone._replace(V=V), u_bar, known=at.known)
        if not (at.known or touched(cone.V @ U[rows].T)):
            return None
    negative = 0.0
    if noisy:
        if np.bincount(kept.facet.astype(np.intp), minlength=d)[:d].min() < _FEW_KEPT:
            return None
        age = (kept.number - state.n) / settings.horizon
        facets = KeptFacets(kept, U, np.exp(age) / kept.chance, _weight_since(oldest, state.n, settings))
        cone, negative = settle_on_kept(
            V, facets, u_bar, wall, known=at.known, haste=_SLOWLY if state.n > 2 * settings.horizon else 1.0
        )
    fit = assemble(at, cone)
    energy = float(np.einsum("ij,jk,ik->", fit.components, seen.second, fit.components))
    return fit, negative / energy, prune(kept, fit)


def _weight_since(oldest: float, n: int, settings: Settings) -> float:
    """Sum of the weights of the samples since `oldest`, without outliers."""
    age, h = n - oldest, settings.horizon
    return (1 - settings.outliers) * (age if np.isinf(h) else h * -float(np.expm1(-age / h)))
