"""The minimum-volume cone of mixtures x: coordinates in units of the noise, the cone, outliers.

If the noise of an output exceeds half its mean (its mean, if the noise is known), or if a facet is seen at the apex only, facets
cannot be seen. Then the cone is that of nonnegative ICA (`Fit.fallback`). It is so already from a third of the mean on if the noise
is not known and the sources that the cone finds are uncorrelated beyond sampling error, because nonnegative ICA then uses the noisy
data better (sparse-uniform d = 10, k = 10, 20 dB: 0.4 dB).

A share of the samples can be declared outliers. They are found three times: by their norm, then by how far they lie outside the
cone and off its subspace, in units of the noise.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .coordinates import Coordinates, coordinates
from .fit import Cone, fit_cone, supported
from .objective import Wall
from .starts import rotate_white, rotation_start, successive_projection

Array = npt.NDArray[Any]

_TOO_NOISY = 1.0  # noise of an output over its mean, if it is known
_TOO_NOISY_UNKNOWN = 0.5
_TOO_NOISY_UNCORRELATED = 0.35
_UNCORRELATED = 0.05  # root mean square correlation of the sources, beyond sampling error
_LEAST_MEAN = 1e-6  # of the size of the data: with less, no cone holds the mean


class Fit(NamedTuple):
    """W (d, k) with outputs of mean 1, its right inverse (k, d), the coordinates, the cone in them.

    `fallback` says that the cone is nonnegative ICA's because the noise hides the facets, and `has_mean` whether the mean of x
    lies in some cone at all: if the mean was removed from x, it does not.
    """

    components: Array
    mixing: Array
    coordinates: Coordinates
    cone: Cone
    fallback: bool
    has_mean: bool


def fit_mixtures(
    X: Array, d: int, level: Any, outliers: float, rng: np.random.RandomState, *, single: bool = False
) -> tuple[Fit, Array]:
    """The cone of X (n_samples, k), float64, and which samples were used.

    `level` is the standard deviation of the noise of the channels, or None to estimate it (`coordinates`); `outliers` is the share
    of samples to leave out; `single` says that X was float32.
    """
    used = np.ones(len(X), dtype=bool)
    if not outliers:
        return _fit(X, d, level, rng, single), used
    typical = np.median(np.abs(X), axis=0)
    distance = np.linalg.norm(X / np.maximum(typical, max(1e-3 * typical.max(), 1e-300)), axis=1)
    for _ in range(4):
        used = distance <= largest_distance(distance, outliers)
        fit = _fit(X[used], d, level, rng, single)
        distance = distance_outside(X, fit)
    return fit, used


def largest_distance(distance: Array, outliers: float) -> float:
    """Beyond which samples are outliers: a share `outliers` of them, and three standard errors of that number more."""
    share = outliers + 3 * np.sqrt(outliers / len(distance))
    return float(np.quantile(distance, max(1 - share, 0.3)))


def distance_outside(X: Array, fit: Fit) -> Array:
    """How far samples lie outside the cone: off its subspace, and beyond its farthest facet, in units of the noise."""
    at, V = fit.coordinates, fit.cone.V
    U = X @ at.matrix.T
    scale = np.maximum(at.channel_noise, 1e-300) if at.channel_noise.any() else np.ones(X.shape[1])
    off = np.sum(((X - U @ at.inverse.T) / scale) ** 2, axis=1)
    beyond = np.minimum(np.min(V @ U.T / np.linalg.norm(V, axis=1)[:, None], axis=0), 0)
    return np.asarray(np.sqrt(off + beyond**2))


def _fit(X: Array, d: int, level: Any, rng: np.random.RandomState, single: bool) -> Fit:
    at = coordinates(X.T @ X / len(X), d, len(X), level, single=single)
    U = X @ at.matrix.T
    u_bar = U.mean(axis=0)
    variance = at.variance if at.known else None

    def by_rotation(samples: Array) -> Array | None:
        return rotation_start(samples, at.variance, rng)

    if u_bar @ u_bar <= _LEAST_MEAN**2 * np.mean(np.sum(U**2, axis=1)):
        return assemble(at, without_mean(U, rng), has_mean=False)
    cone = fit_cone(U, variance, [by_rotation, successive_projection])
    fallback = False
    if cone.noise.max() > _largest_noise(cone, U, at.known) or not supported(cone, at.known):
        rotated = rotation_start(U, at.variance, rng, thorough=True)
        if rotated is not None:
            fallback, cone = True, cone._replace(V=rotated)
    return assemble(at, cone, fallback=fallback)


def _largest_noise(cone: Cone, U: Array, known: bool) -> float:
    """Noise of an output, of mean 1, beyond which nonnegative ICA is believed rather than the cone."""
    if known:
        return _TOO_NOISY
    d = len(cone.V)
    v = np.sqrt(cone.wall.variance)
    covariance = np.cov(cone.V @ U.T, bias=True).reshape(d, d) - np.outer(v, v) * (cone.V @ cone.V.T)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlations = (covariance / spread / spread[:, None])[~np.eye(d, dtype=bool)]
    correlated = d > 1 and np.sqrt(np.mean(correlations**2)) > _UNCORRELATED + 2 / np.sqrt(len(U))
    return _TOO_NOISY_UNKNOWN if correlated else _TOO_NOISY_UNCORRELATED


def without_mean(U: Array, rng: np.random.RandomState) -> Cone:
    """Nonnegative ICA of data whose mean was removed: no cone holds their mean, and the result is arbitrary."""
    d = U.shape[1]
    V = rotate_white(U, 0.0, rng)
    zero = np.zeros(d)
    wall = Wall(zero + 1, zero, zero, 0.0)
    return Cone(np.eye(d) if V is None else V, wall, zero, zero, zero + 1, zero + 1, zero, 0, False)


def assemble(at: Coordinates, cone: Cone, *, fallback: bool = False, has_mean: bool = True) -> Fit:
    """The cone in coordinates as matrices for mixtures."""
    return Fit(cone.V @ at.matrix, at.inverse @ np.linalg.inv(cone.V), at, cone, fallback, has_mean)
