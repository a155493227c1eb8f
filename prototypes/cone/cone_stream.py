"""The minimum-volume cone of a stream: one pass, bounded memory, the same result however the stream is cut.

Samples are taken in blocks that are aligned to the number of samples seen. Between two solutions a block costs the running
moments <x>, <x x'> and a product; of its samples only those near a facet are kept. With z = y_i / noise, facet i keeps

    z < 1        at most 1000 samples, which pull at the facet,
    1 <= z < 6   at most 2000 samples, which tell atom, density and slope (`cone.leakage`).

Each sample has a mark, a hash of its number that is uniform on (0, 1), and is kept if its mark is below the rate of its
stratum. Where a stratum overflows, its rate is halved. A sample that was kept with rate r stands for 1/r samples, so that sums
over the kept samples estimate sums over all (Horvitz and Thompson 1952). The first quarter of the stream is forgotten, because
its samples were kept for facets that were still far off. Without noise the 1000 samples nearest in angle are
kept instead. The cone is solved again each time the number of samples has grown by half, and every quarter of the
horizon; it starts from the last cone. With a horizon h, the weight of a sample decays as exp(-age / h).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import cone as C

Array = npt.NDArray[Any]

_BLOCK = 1000
_NEAR, _WINDOW = 1000, 2000  # samples per facet in the two strata
_NEAREST = 1000  # samples per facet without noise
_NEAR_EDGE = 1.0
_GROWTH = 1.5
_ROUNDS = 4


class Kept(NamedTuple):
    """Samples kept for one facet: rows x, their numbers, marks and inclusion probabilities; rates of the strata."""

    x: Array
    number: Array
    mark: Array
    chance: Array
    rates: tuple[float, float]


class State(NamedTuple):
    """What is known of the stream.

    `n` counts all samples, `weight` is the sum of their weights, `mean` and `second` are weighted averages, `pending`
    samples wait for their block to fill, `fit` is the last solution (None before the first), `kept` one `Kept` per facet,
    `next_solve` the number of samples at which the cone is solved again.
    """

    d: int
    noise: Any
    horizon: float
    n: int
    weight: float
    mean: Array
    second: Array
    pending: Array
    fit: C.Fit | None
    kept: list[Kept]
    next_solve: int


def init(k: int, d: int, *, noise: Any = "estimate", horizon: float = np.inf) -> State:
    """A stream of which nothing has been seen."""
    first = max(2 * _BLOCK, 200 * d)
    return State(d, noise, horizon, 0, 0.0, np.zeros(k), np.zeros((k, k)), np.empty((0, k)), None, [], first)


def update(state: State, X: Array) -> State:
    """Learn from the rows of X.

    Parameters
    ----------
    state : State
        Not changed.
    X : array of shape (n_samples, k)

    Returns
    -------
    State
    """
    X = np.concatenate([state.pending, X]) if len(state.pending) else X
    block = state.next_solve if state.fit is None else _BLOCK
    start = 0
    while len(X) - start >= block:
        state = _learn(state, X[start : start + block])
        start += block
        block = _BLOCK
    return state._replace(pending=X[start:].copy())


def _learn(state: State, X: Array) -> State:
    """One full block."""
    b, h = len(X), state.horizon
    decay = float(np.exp(-b / h))
    weight = decay * state.weight + b
    share = b / weight
    mean = state.mean + share * (X.mean(axis=0) - state.mean)
    second = state.second + share * (X.T @ X / b - state.second)
    state = state._replace(weight=weight, mean=mean, second=second, n=state.n + b)
    if state.fit is None:
        return _first(state, X)
    numbers = np.arange(state.n - b, state.n, dtype=np.uint64)
    kept = _keep(state.fit, state.kept, X, numbers)
    state = state._replace(kept=kept)
    return _again(state) if state.n >= state.next_solve else state


def _first(state: State, X: Array) -> State:
    fit = C.minimum_volume_cone(X, state.d, noise=state.noise)
    empty = Kept(X[:0], np.empty(0, np.uint64), np.empty(0), np.empty(0), (1.0, 1.0))
    kept = _keep(fit, [empty] * state.d, X, np.arange(len(X), dtype=np.uint64))
    return state._replace(fit=fit, kept=kept, next_solve=_next(state))


def _next(state: State) -> int:
    step = min(max(state.n * (_GROWTH - 1), _BLOCK), max(state.horizon / 4, _BLOCK))
    return state.n + int(step)


def _marks(numbers: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return (h >> np.uint64(11)) * 2.0**-53


def _keep(fit: C.Fit, kept: list[Kept], X: Array, numbers: Array) -> list[Kept]:
    """Add the samples of a block that lie near a facet."""
    Y = fit.components @ X.T
    marks = _marks(numbers)
    noise = fit.cone.noise
    return [_add(kept[i], i, Y, noise[i], X, numbers, marks) for i in range(len(kept))]


def _add(old: Kept, i: int, Y: Array, noise: float, X: Array, numbers: Array, marks: Array) -> Kept:
    if noise == 0:
        index = np.flatnonzero(_angle(Y, i) < _farthest(old))
        if not len(index):
            return old
        new = _joined(old, X[index], numbers[index], marks[index], _angle(Y, i)[index])
        return _nearest(new) if len(new.x) > 2 * _NEAREST else new
    z = Y[i] / noise
    rate = np.where(z < _NEAR_EDGE, old.rates[0], old.rates[1])
    index = np.flatnonzero((z < C._EDGES[-1]) & (marks < rate))
    if not len(index):
        return old
    return _joined(old, X[index], numbers[index], marks[index], rate[index])


def _joined(old: Kept, x: Array, number: Array, mark: Array, chance: Array) -> Kept:
    pairs = ((old.x, x), (old.number, number), (old.mark, mark), (old.chance, chance))
    return Kept(*(np.concatenate(pair) for pair in pairs), old.rates)


def _angle(Y: Array, i: int) -> Array:
    return Y[i] / np.maximum(np.abs(Y).sum(axis=0), 1e-300)


def _farthest(old: Kept) -> float:
    """Without noise `chance` holds the angle; a sample beyond the nearest 1000 need not be kept."""
    return float(np.partition(old.chance, _NEAREST - 1)[_NEAREST - 1]) if len(old.x) >= _NEAREST else np.inf


def _nearest(old: Kept) -> Kept:
    index = np.sort(np.argpartition(old.chance, _NEAREST)[:_NEAREST])
    return Kept(old.x[index], old.number[index], old.mark[index], old.chance[index], old.rates)


def _again(state: State) -> State:
    """Solve the cone on the kept samples, starting from the last one; then keep what is near the new facets."""
    assert state.fit is not None
    at = C.coordinates(state.second, state.d, state.weight, state.noise)
    V = np.linalg.inv(at.matrix @ state.fit.mixing)
    cone = state.fit.cone
    if at.variance:
        known = np.full(state.d, at.variance)
    else:  # found from the tails, in coordinates of the same scale
        known = cone.wall.variance if at.variance is None else np.zeros(state.d)
    u_bar = at.matrix @ state.mean
    oldest = _oldest(state, bool(known.any()))
    kept = [_since(k, oldest) for k in state.kept]
    U = [k.x @ at.matrix.T for k in kept]
    if known.any():
        weights = [np.exp((k.number - float(state.n)) / state.horizon) / k.chance for k in kept]
        n = _weight_since(oldest, state)
        cone = _rounds(V, U, weights, n, u_bar, cone.wall._replace(variance=known), at)
    if not cone.wall.variance.any():
        rows = np.unique(np.concatenate([k.number for k in kept]), return_index=True)[1]
        cone = C.tighten(np.concatenate(U)[rows], cone._replace(V=V), u_bar=u_bar)
    fit = C.Fit(cone.V @ at.matrix, at.inverse @ np.linalg.inv(cone.V), at, cone)
    kept = [_pruned(k, i, fit) for i, k in enumerate(kept)]
    return state._replace(fit=fit, kept=kept, next_solve=_next(state))


def _oldest(state: State, noisy: bool) -> float:
    """Number of the oldest sample to use: samples kept for much earlier facets are not a fair sample of these facets."""
    return max(state.n / 4 if noisy else 0.0, state.n - 4 * state.horizon)


def _weight_since(oldest: float, state: State) -> float:
    age = state.n - oldest
    return age if np.isinf(state.horizon) else state.horizon * -float(np.expm1(-age / state.horizon))


def _since(k: Kept, oldest: float) -> Kept:
    young = k.number >= oldest
    return Kept(k.x[young], k.number[young], k.mark[young], k.chance[young], k.rates)


def _rounds(V: Array, U: list[Array], weights: list[Array], n: float, u_bar: Array, wall: C.Wall, at: Any) -> C.Cone:
    """As `cone._continue`, on samples that were kept per facet, with weights."""
    d = len(V)
    total = 0
    most = np.inf
    for _ in range(_ROUNDS):
        V = V / (V @ u_bar)[:, None]
        size = np.linalg.norm(V, axis=1)
        s = np.sqrt(wall.variance) * size
        Y = [V @ u.T for u in U]
        leaks = [
            C.leakage(y[i] / s[i], (y.sum(axis=0) - y[i]) / max(d - 1, 1), w, n)
            for i, (y, w) in enumerate(zip(Y, weights, strict=True))
        ]
        last = wall.c
        wall, moved = C.next_wall(wall, leaks, size, at.variance, most, C._FINAL)
        wall = wall._replace(c=np.sqrt(wall.c * last))  # average over solutions
        if not wall.variance.any():
            break
        facets = C.Facets(Y, [w / n for w in weights], V @ V.T)
        P, value, n_iter = C.minimise(facets, wall, tol=1e-2 * float(s.min()))
        V = P @ V
        total += n_iter
        if moved < 0.05:
            break
    V = V / (V @ u_bar)[:, None]
    return C._report(V, wall, leaks, value if total else np.nan, 0, total, True)


def _pruned(k: Kept, i: int, fit: C.Fit) -> Kept:
    """Forget what is far from the new facet; halve the rates of strata that overflow."""
    Y = fit.components @ k.x.T
    noise = fit.cone.noise[i]
    if noise == 0:
        k = k._replace(chance=_angle(Y, i))
        return _nearest(k) if len(k.x) > _NEAREST else k
    z = Y[i] / noise
    keep = z < C._EDGES[-1]
    chance = k.chance.copy()
    rates = list(k.rates)
    for j, (stratum, most) in enumerate(((z < _NEAR_EDGE, _NEAR), (z >= _NEAR_EDGE, _WINDOW))):
        while np.count_nonzero(keep & stratum & (k.mark < rates[j])) > most:
            rates[j] /= 2
        keep &= ~stratum | (k.mark < rates[j])
        chance = np.where(stratum, np.minimum(chance, rates[j]), chance)
    return Kept(k.x[keep], k.number[keep], k.mark[keep], chance[keep], (rates[0], rates[1]))
