"""The samples that a stream keeps near each facet, in two strata, by a hash of their number (see `stream`).

For a fresh start (`stream`), samples are kept at random instead, as samples of facet 0 in its first stratum.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .extreme_samples import DIRECTIONS, extremes, new_extremes
from .leakage import EDGES
from .mixtures import Fit

Array = npt.NDArray[Any]

_NEAR, _WINDOW = 1000, 2000  # samples per facet in the two strata
_NEAR_EDGE = 1.0
_KEPT_EDGE = 1.5 * EDGES[-1]  # so that no sample is missing in the windows of the next solution, see `stream`
_NEAREST = 1000  # samples per facet without noise
_FRESH, _LEAST_FRESH = 3000, 20_000  # samples per source, and at least, for a fresh start
_SLACK = 1.5  # by which a facet may exceed these numbers between two solutions


class Kept(NamedTuple):
    """Samples x (m, q), their numbers, inclusion probabilities and facets (m,); rates (d, 2) of the strata of each facet.

    Without noise `reach` (d,) is the angle beyond which samples are not kept; otherwise it is infinite.
    """

    x: Array
    number: Array
    chance: Array
    facet: Array
    rates: Array
    reach: Array


def keep_first(fit: Fit, X: Array, Y: Array, number: Array, *, fresh: bool) -> Kept:
    """The samples of X (n, q), with outputs Y (d, n), that lie near a facet: `add` to nothing, then `prune`."""
    noise, d = fit.cone.noise, len(Y)
    rates, reach = np.ones((d, 2)), np.full(d, np.inf)
    if fresh:
        keep = _at_random(marks(number), rates, d)
        n = int(keep.sum())
        return Kept(X[keep], number[keep], np.full(n, rates[0, 0]), np.zeros(n), rates, reach)
    parts = []
    size = np.maximum(np.abs(Y).sum(axis=0), 1e-300)
    for i, y in enumerate(Y):
        if noise[i] > 0:
            index = np.flatnonzero(y < _KEPT_EDGE * noise[i])
            keep, chance = _sampled(y[index] / noise[i], marks(number[index]), np.ones(len(index)), rates[i])
        else:
            angle = y / size
            if len(y) > _NEAREST:
                reach[i] = np.partition(angle, _NEAREST - 1)[_NEAREST - 1]
            index = np.flatnonzero(angle <= reach[i])
            keep, chance = np.ones(len(index), dtype=bool), np.ones(len(index))
        index = index[keep]
        parts.append((X[index], number[index], chance[keep], np.full(len(index), float(i))))
    if not noise.any():
        index = extremes(Y)
        parts.append((X[index], number[index], np.ones(len(index)), np.full(len(index), float(d))))
    x, numbers, chance, facet = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Kept(x, numbers, chance, facet, rates, reach)


def nothing_kept(d: int, q: int) -> Kept:
    """No samples yet."""
    none = np.empty(0)
    return Kept(np.empty((0, q)), none, none, none, np.ones((d, 2)), np.full(d, np.inf))


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.asarray((h >> np.uint64(11)) * 2.0**-53)


def add(kept: Kept, fit: Fit, X: Array, number: Array, *, fresh: bool) -> Kept:
    """Add the samples X (n, q) that lie near a facet."""
    Y = fit.components @ X.T
    mark = marks(number)
    noise = fit.cone.noise
    parts = [(kept.x, kept.number, kept.chance, kept.facet)]
    size = np.maximum(np.abs(Y).sum(axis=0), 1e-300)
    if fresh:
        index = np.flatnonzero(mark < kept.rates[0, 0])
        parts.append((X[index], number[index], np.full(len(index), kept.rates[0, 0]), np.zeros(len(index))))
    for i, y in enumerate(() if fresh else Y):
        if noise[i] > 0:
            z = y / noise[i]
            rate = np.where(z < _NEAR_EDGE, kept.rates[i, 0], kept.rates[i, 1])
            index = np.flatnonzero((z < _KEPT_EDGE) & (mark < rate))
        else:
            rate = np.ones(len(y))
            index = np.flatnonzero(y / size < kept.reach[i])
        if len(index):
            parts.append((X[index], number[index], rate[index], np.full(len(index), float(i))))
    if not (fresh or noise.any()):
        index = new_extremes(Y, fit.components @ kept.x[kept.facet == len(Y)].T)
        parts.append((X[index], number[index], np.ones(len(index)), np.full(len(index), float(len(Y)))))
    if len(parts) == 1:
        return kept
    x, numbers, chance, facet = (np.concatenate(part) for part in zip(*parts, strict=True))
    kept = Kept(x, numbers, chance, facet, kept.rates, kept.reach)
    most = (
        np.full(len(noise), max(_FRESH * len(noise), _LEAST_FRESH))
        if fresh
        else np.where(noise > 0, _NEAR + _WINDOW, _NEAREST)
    )
    crowded = np.bincount(kept.facet.astype(np.intp), minlength=len(noise) + 1) > _SLACK * np.append(most, DIRECTIONS)
    return prune(kept, fit, fresh=fresh) if crowded.any() else kept


def since(kept: Kept, oldest: float) -> Kept:
    """The samples from number `oldest` on."""
    young = kept.number >= oldest
    return Kept(kept.x[young], kept.number[young], kept.chance[young], kept.facet[young], kept.rates, kept.reach)


def prune(kept: Kept, fit: Fit, *, fresh: bool) -> Kept:
    """Forget what is far from the facets of `fit`; halve the rates of strata that overflow."""
    noise = fit.cone.noise
    Y = fit.components @ kept.x.T
    rates, reach = kept.rates.copy(), np.full(len(noise), np.inf)
    if fresh:
        keep = _at_random(marks(kept.number), rates, len(noise))
        chance = np.full(int(keep.sum()), rates[0, 0])
        return Kept(kept.x[keep], kept.number[keep], chance, kept.facet[keep], rates, reach)
    chance, keep = kept.chance.copy(), np.zeros(len(kept.number), dtype=bool)
    for i in range(len(noise)):
        own = np.flatnonzero(kept.facet == i)
        if noise[i] > 0:
            keep[own], chance[own] = _sampled(Y[i, own] / noise[i], marks(kept.number[own]), chance[own], rates[i])
            continue
        angle = Y[i, own] / np.maximum(np.abs(Y[:, own]).sum(axis=0), 1e-300)
        keep[own] = True
        if len(own) > _NEAREST:
            reach[i] = np.partition(angle, _NEAREST - 1)[_NEAREST - 1]
            keep[own] = angle <= reach[i]
    if not noise.any():
        outermost = np.flatnonzero(kept.facet == len(noise))
        keep[outermost[extremes(Y[:, outermost])]] = True
    return Kept(kept.x[keep], kept.number[keep], chance[keep], kept.facet[keep], rates, reach)


def _at_random(mark: Array, rates: Array, d: int) -> Array:
    """Which samples are kept for a fresh start; the rate of facet 0 is changed in place."""
    while np.count_nonzero(mark < rates[0, 0]) > max(_FRESH * d, _LEAST_FRESH):
        rates[0, 0] /= 2
    return np.asarray(mark < rates[0, 0])


def _sampled(z: Array, mark: Array, chance: Array, rates: Array) -> tuple[Array, Array]:
    """Which samples of a facet are kept, and with which probability; `rates` (2,) is changed in place."""
    keep = z < _KEPT_EDGE
    for j, (stratum, most) in enumerate(((z < _NEAR_EDGE, _NEAR), (z >= _NEAR_EDGE, _WINDOW))):
        while np.count_nonzero(keep & stratum & (mark < rates[j])) > most:
            rates[j] /= 2
        keep &= ~stratum | (mark < rates[j])
        chance = np.where(stratum, np.minimum(chance, rates[j]), chance)
    return keep, chance
