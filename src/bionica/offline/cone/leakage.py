"""How hard the wall of a facet must be, and how large the noise is, from the samples near the facet.

At the right facet the gradient of (1) vanishes if, on average over j,

    c_i <[-y_i]_+ y_j> / w_i^2 = y_bar_j / y_bar_i.                                                                       (3)

The left-hand side is known without knowing where the facet is. If a source has, near zero, an atom a, a density p and a slope p'
(in units of the noise: z = y_i / s_i), then Gaussian noise leaks across the facet

    <[-z]_+> = a / sqrt(2 pi) + p / 4 + p' / (3 sqrt(2 pi)).                                                              (4)

a, p and p' follow from the numbers of samples with z < 2, 2 <= z < 4 and 4 <= z < 6 by a 3 x 3 linear system. These numbers
hardly depend on where exactly the facet is. (3) and (4) give c_i: 4 for an exponential source, 8 for a uniform one, about 20 for a
uniform one correlated at 0.5, 0.3 to 1 for a sparse one. An atom below 0.3 p is ignored, because it cannot be told from a facet
that is off by 0.3 s_i.

The discrepancy

    rho_i = <min(z, 0)^2> / P(z < 0),    expected: (a / 2 + 2 p / (3 sqrt(2 pi))) / (a / 2 + p / sqrt(2 pi)),             (5)

is 1 for an atom and 2/3 for a density; it is larger if the cone cuts into the data. Where no direction is left out that would
show the noise (k = d), it tells the noise.

The support of a facet is the ratio of (3) to (4): the mean of the other outputs at the facet, relative to their mean everywhere. It
is 1 for independent sources, larger for sums to one, about 0.4 for uniform sources correlated at 0.5 and 0.05 at 0.9. If it is near
zero although many samples lie at the facet (an atom), then all sources are silent in these samples. Any facet passes through that
apex, so such a facet is not identified: very sparse sources in noise have wide cones that explain all leakage, and are wrong.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from .objective import Wall

Array = npt.NDArray[Any]

EDGES = np.array([2.0, 4.0, 6.0])  # of the windows of z
_SQRT_2PI = float(np.sqrt(2 * np.pi))
_LEAST_ATOM = 0.3  # in units of p
_NO_NOISE = 1e-6  # of the mean of an output
_ENOUGH = 3000  # samples in the windows of a facet
_FEW = 20  # samples in the windows: too few to fit anything
_FEW_FOR_NOISE = 30
_POOLED = 100  # samples below zero that the noise of all outputs together counts for
_HARDEST = 1e3
_FIRST_C = 3.0


def _window_shares() -> Array:
    """Share of an atom, a unit density and a unit slope, blurred by unit noise, in each window of z: (3, 3)."""
    b = EDGES
    phi, Phi = np.exp(-(b**2) / 2) / _SQRT_2PI, ndtr(b)
    below = np.stack([Phi, b * Phi + phi, 0.5 * ((b**2 + 1) * Phi + b * phi)], axis=1)
    return np.diff(np.vstack([np.zeros(3), below]), axis=0)


_FROM_WINDOWS = np.linalg.inv(_window_shares())
_FIRST = np.array([1 / _SQRT_2PI, 0.25, 1 / (3 * _SQRT_2PI)])  # <[-z]_+> of atom, density, slope: eq. (4)
_SECOND = np.array([0.5, 2 / (3 * _SQRT_2PI)])  # <[-z]_+^2> of atom and density
_BELOW = np.array([0.5, 1 / _SQRT_2PI])  # P(z < 0)


class Leakage(NamedTuple):
    """What is seen near one facet.

    `force` is <[-z_i]_+ y_j>, averaged over j, that noise causes at the right facet; `rho` and `expected_rho` are the
    discrepancy, eq. (5); `support` is that of the facet; `atom` is the share of samples at zero; `n_near` and `n_below` are the
    numbers of samples in the windows and below zero.
    """

    force: float
    rho: float
    expected_rho: float
    support: float
    atom: float
    n_near: float
    n_below: float


def leakage(z: Array, others: Array, weight: Any, n: float) -> Leakage:
    """Fit atom, density and slope to the samples near a facet.

    z (n_near,) is the output over its noise; samples with z >= 6 are ignored and need not be given. `others` (n_near,) is the
    mean of the other outputs, `weight` how many samples each stands for, and n the number of all samples.
    """
    inside = z < EDGES[-1]
    w = np.broadcast_to(np.asarray(weight, float), z.shape)[inside]
    z, others = z[inside], others[inside]
    window = (z >= EDGES[0]).astype(np.intp) + (z >= EDGES[1])
    counts = np.bincount(window, w, minlength=3) / n
    sums = np.bincount(window, w * others, minlength=3) / n
    atom, density, _ = _FROM_WINDOWS @ counts
    density = max(density, 0.15 * counts[1])  # counts[1] / 2 is the density itself where it is flat
    share = max(0.0, 1 - _LEAST_ATOM * density / atom) if atom > 0 else 0.0
    parts = _FROM_WINDOWS @ sums * _FIRST
    flat = sums[1] / 8
    force = max(share * parts[0] + parts[1] + parts[2], 0.4 * flat)
    if not share:
        force = min(force, 2.5 * flat)
    below = z < 0
    seen = np.array([share * max(atom, 0.0), density])
    n_below = float(w[below].sum())
    return Leakage(
        force=float(force),
        rho=float(w[below] @ z[below] ** 2) / n_below if n_below else 0.0,
        expected_rho=float(seen @ _SECOND / max(seen @ _BELOW, 1e-300)),
        support=float(force / max(seen @ _FIRST[:2], 1e-300)),
        atom=float(seen[0]),
        n_near=float(len(z)),
        n_below=float(np.count_nonzero(below)),
    )


def leakages(Y: Array, s: Array) -> list[Leakage]:
    """`leakage` of every output of Y (d, n_samples) with noise s (d,). Every tenth sample is read if that is enough."""
    d = len(Y)
    found = []
    for i, noise in enumerate(s):
        for step in (10, 1):
            some = Y[:, ::step]
            near = np.flatnonzero(some[i] < EDGES[-1] * noise)
            if len(near) >= _ENOUGH:
                break
        y = some[i, near]
        others = (some[:, near].sum(axis=0) - y) / (d - 1) if d > 1 else np.ones(len(y))
        found.append(leakage(y / noise, others, 1.0, some.shape[1]))
    return found


def tail(Y: Array) -> Array:
    """Noise of every output as its negative part shows it: (3/2 <min(y, 0)^2> / P(y < 0))^{1/2}, eq. (5) for a density."""
    n = np.minimum(Y, 0)
    return np.asarray(np.sqrt(1.5 * np.einsum("ij,ij->i", n, n) / np.maximum(np.count_nonzero(n, axis=1), 1)))


def next_wall(
    wall: Wall,
    leaks: list[Leakage],
    size: Array,
    *,
    known: bool,
    largest: float,
    kappa: float,
    haste: int = 1,
    may_vanish: bool = True,
) -> tuple[Wall, float]:
    """The wall that the leakage asks for, eq. (3), and the largest change of a logarithm.

    `size` is |V_i|; `known` says whether the noise variance is known; `largest` bounds it otherwise. If no noise is seen, the
    variances are zero and e is the noise that was assumed last. With fewer than 30 samples near the facets no noise is seen,
    unless it may not vanish for that reason (more samples may come).
    """
    v = wall.variance
    if not known:
        if np.median([k.n_near for k in leaks]) >= _FEW_FOR_NOISE:
            v = _noise_from_tails(v, leaks, largest, haste)
        elif may_vanish:
            v = np.zeros_like(v)
        if np.median(np.sqrt(v) * size) < _NO_NOISE:
            c = np.where(np.isnan(wall.c), _FIRST_C, wall.c)
            return Wall(c, np.zeros_like(v), np.sqrt(wall.variance) * size, wall.kappa), 0.0
    s = np.sqrt(v) * size
    c = np.array([s_i / max(k.force, 1e-300) if k.n_near >= _FEW else 10.0 for s_i, k in zip(s, leaks, strict=True)])
    if not np.isnan(wall.c).any():
        c = np.clip(c, wall.c / 4, wall.c * 4)
    c = np.clip(c, np.minimum(2 * s, 1), _HARDEST)
    moved = max(np.abs(np.log(c / wall.c)).max(), np.abs(np.log(v / wall.variance)).max())
    return Wall(c, v, np.zeros(len(v)), kappa), float(moved)


def _noise_from_tails(v: Array, leaks: list[Leakage], largest: float, haste: int) -> Array:
    """Next estimate of the noise variances from the discrepancy, eq. (5).

    A wall too wide by 1 + h makes rho too large by 1 + 0.8 h, not 1 + 2 h: the exponent 1.5 makes up for most of it. At an atom
    rho tells the noise directly, and the exponent is 1. `haste` multiplies the exponent; it grows while the noise keeps
    shrinking, as it does if there is none. Outputs with few samples below zero take the noise of all outputs together.
    """
    below = np.array([k.n_below for k in leaks])
    expected = np.array([k.expected_rho for k in leaks])
    ratio = np.array([k.rho for k in leaks]) / np.maximum(expected, 1e-300)
    exponent = 1.5 - 1.5 * np.clip(expected - 2 / 3, 0, 1 / 3)
    own = np.log(np.clip(ratio, 0.1, 4.0)) * exponent * haste + np.log(v)
    pooled = float(np.median(own))
    own = np.clip((below * own + _POOLED * pooled) / (below + _POOLED), pooled - 1, pooled + 1)
    return np.asarray(np.minimum(np.exp(own), largest))
