"""Coordinates u = B' D^{-1/2} x of the mixtures: the d leading directions, in units of the noise.

D are the noise variances of the channels (`channel_noise`), and B the d leading eigenvectors of D^{-1/2} <x x'> D^{-1/2}. The
second moment is not centred: sums to one make the covariance singular, but not the second moment. Noise of the coordinates is
white with variance 1. If there is no noise, or if it is not yet known (k = d), D is the identity.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .channel_noise import channel_noise

Array = npt.NDArray[Any]

_SAME_UNITS = 100.0  # channels whose sizes differ by more are scaled to unit size first
_LEAST_NOISE = 1e-6  # of the largest noise variance of a channel
_ROUNDING = 1e-13  # share of the energy that rounding of float64 can leave in the directions left out


class Coordinates(NamedTuple):
    """u = matrix x, x = inverse u + noise.

    `variance` is the variance of the noise in every coordinate if `known`: 1, or 0 if there is none. If it is not known, it must
    be found from the tails of the outputs. `channel_noise` (k,) is the standard deviation of the noise of each channel, or zeros.
    """

    matrix: Array
    inverse: Array
    known: bool
    variance: float
    channel_noise: Array


def coordinates(
    second_moment: Array, d: int, n: float, noise: float | Array | None = None, *, single: bool = False
) -> Coordinates:
    """Coordinates for d sources from <x x'> (k, k) of n samples.

    `noise` is the standard deviation of the noise of the channels (0: no noise), or None to estimate it: one for each channel if
    enough directions are left out, one for all if few are; if none is, it remains unknown. `single` says that x was float32.
    """
    k = len(second_moment)
    size = np.sqrt(np.diag(second_moment))
    size[size == 0] = 1.0
    units = size if _units_differ(second_moment, size, d) else np.ones(k)
    second_moment = second_moment / units / units[:, None]
    D, known = np.zeros(k), True
    if noise is not None:
        D = np.broadcast_to((np.asarray(noise, float) / units) ** 2, (k,))
    elif k == d:
        known = False
    else:
        eigenvalues = np.linalg.eigvalsh(second_moment)[::-1]
        if eigenvalues[d:].mean() > (100 if single else 1) * _ROUNDING * eigenvalues[0]:
            D = channel_noise(second_moment, d, n)
    scale = np.sqrt(np.maximum(D, _LEAST_NOISE * D.max())) if D.any() else np.ones(k)
    B = np.linalg.eigh(second_moment / scale / scale[:, None])[1][:, ::-1][:, :d]
    matrix, inverse = B.T / (scale * units), (scale * units)[:, None] * B
    return Coordinates(matrix, inverse, known, float(known and D.any()), np.sqrt(D) * units)


def _units_differ(second_moment: Array, size: Array, d: int) -> bool:
    """Whether channels are so small beside others that their units must differ.

    A small channel may instead hold little more than noise. Then the d leading directions explain less than half of it, and scaled
    to unit size it would distract from the sources.
    """
    small = size * _SAME_UNITS < size.max()
    if not small.any():
        return False
    w, B = np.linalg.eigh(second_moment)
    explained = (B[:, -d:] ** 2) @ w[-d:] / size**2
    return bool(np.median(explained[small]) > 0.5)


def second_moment_eigenvalues(second_moment: Array, *, single: bool = False) -> Array:
    """Eigenvalues of <x x'> that rounding cannot explain, largest first.

    How many there are is counted with every channel scaled to unit size, so that it does not depend on units.
    """
    size = np.sqrt(np.diag(second_moment))
    alive = size > 0
    if not alive.any():
        return np.empty(0)
    scaled = (second_moment / np.where(alive, size, 1) / np.where(alive, size, 1)[:, None])[np.ix_(alive, alive)]
    M = np.linalg.eigvalsh(scaled)[::-1]
    eps = np.finfo(np.float64).eps
    floor = len(M) * (4 * eps + (np.finfo(np.float32).eps ** 2 if single else 0.0)) * M[0]
    rank = int(np.sum(M > floor))
    return np.asarray(np.maximum(np.linalg.eigvalsh(second_moment)[::-1][:rank], 1e-300))
