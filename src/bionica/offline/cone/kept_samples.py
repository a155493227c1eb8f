"""The samples that a stream keeps near each facet, in two strata, by a hash of their number (see `stream`)."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .extreme_samples import DIRECTIONS, extremes, new_extremes
from .leakage import EDGES
from .mixtures import Fit
from .random_samples import marks

Array = npt.NDArray[Any]

_NEAR, _WINDOW = 1000, 2000  # samples per facet in the two strata
_NEAR_EDGE = 1.0
_KEPT_EDGE = 1.5 * EDGES[-1]  # so that no sample is missing in the windows of the next solution, see `stream`
_NEAREST = 1000  # samples per facet without noise
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


def keep_first(fit: Fit, X: Array, number: Array, rate: float = 1.0) -> Kept:
    """The samples of X (n, q) that lie near a facet: `add` to nothing, then `prune`. X was sampled with this rate."""
    Y = fit.components @ X.T
    noise, d = fit.cone.noise, len(Y)
    rates, reach = np.ones((d, 2)), np.full(d, np.inf)
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
    return Kept(x, numbers, np.minimum(chance, rate), facet, np.minimum(rates, rate), reach)


def nothing_kept(d: int, q: int) -> Kept:
    """No samples yet."""
    none = np.empty(0)
    return Kept(np.empty((0, q)), none, none, none, np.ones((d, 2)), np.full(d, np.inf))


def add(kept: Kept, fit: Fit, X: Array, number: Array, mark: Array) -> Kept:
    """Add the samples X (n, q), with these numbers and marks (n,), that lie near a facet."""
    Y = fit.components @ X.T
    noise = fit.cone.noise
    parts = [(kept.x, kept.number, kept.chance, kept.facet)]
    size = np.maximum(np.abs(Y).sum(axis=0), 1e-300)
    for i, y in enumerate(Y):
        if noise[i] > 0:
            z = y / noise[i]
            rate = np.where(z < _NEAR_EDGE, kept.rates[i, 0], kept.rates[i, 1])
            index = np.flatnonzero((z < _KEPT_EDGE) & (mark < rate))
        else:
            rate = np.ones(len(y))
            index = np.flatnonzero(y / size < kept.reach[i])
        if len(index):
            parts.append((X[index], number[index], rate[index], np.full(len(index), float(i))))
    if not noise.any():
        index = new_extremes(Y, fit.components @ kept.x[kept.facet == len(Y)].T)
        parts.append((X[index], number[index], np.ones(len(index)), np.full(len(index), float(len(Y)))))
    if len(parts) == 1:
        return kept
    x, numbers, chance, facet = (np.concatenate(part) for part in zip(*parts, strict=True))
    kept = Kept(x, numbers, chance, facet, kept.rates, kept.reach)
    most = np.where(noise > 0, _NEAR + _WINDOW, _NEAREST)
    crowded = np.bincount(kept.facet.astype(np.intp), minlength=len(noise) + 1) > _SLACK * np.append(most, DIRECTIONS)
    return prune(kept, fit) if crowded.any() else kept


def since(kept: Kept, oldest: float) -> Kept:
    """The samples from number `oldest` on."""
    young = kept.number >= oldest
    return Kept(kept.x[young], kept.number[young], kept.chance[young], kept.facet[young], kept.rates, kept.reach)


def prune(kept: Kept, fit: Fit) -> Kept:
    """Forget what is far from the facets of `fit`; halve the rates of strata that overflow."""
    noise = fit.cone.noise
    Y = fit.components @ kept.x.T
    rates, reach = kept.rates.copy(), np.full(len(noise), np.inf)
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


def _sampled(z: Array, mark: Array, chance: Array, rates: Array) -> tuple[Array, Array]:
    """Which samples of a facet are kept, and with which probability; `rates` (2,) is changed in place."""
    keep = z < _KEPT_EDGE
    for j, (stratum, most) in enumerate(((z < _NEAR_EDGE, _NEAR), (z >= _NEAR_EDGE, _WINDOW))):
        while np.count_nonzero(keep & stratum & (mark < rates[j])) > most:
            rates[j] /= 2
        keep &= ~stratum | (mark < rates[j])
        chance = np.where(stratum, np.minimum(chance, rates[j]), chance)
    return keep, chance
