"""The minimum-volume cone of mixtures x: coordinates in units of the noise, the cone, outliers.

If the noise of an output exceeds half its mean (its mean, if the noise is known), or if a facet is seen at the apex only, facets
cannot be seen. Then the cone is that of nonnegative ICA (`Fit.fallback`). It is so already from 0.3 of the mean on if the noise
is not known and the sources that the cone finds are uncorrelated beyond sampling error, because nonnegative ICA then uses the noisy
data better (sparse-uniform d = 10, k = 10, 20 dB: 0.4 dB).

A share of the samples can be declared outliers. They are found three times: by their norm, then by how far they lie outside the
cone and off its subspace, in units of the noise.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .coordinates import Coordinates, coordinates
from .fit import MAX_ROUNDS, Cone, fit_cone, settle, supported
from .objective import Wall
from .starts import hold_mean, rotate_white, rotation_start, successive_projection
from .uncertain_noise import corrected, log_variance_covariance, uncertainty

Array = npt.NDArray[Any]

_TOO_NOISY = 1.0  # noise of an output over its mean, if it is known
_TOO_NOISY_UNKNOWN = 0.5
_TOO_NOISY_UNCORRELATED = 0.3  # half-normal and sparse-uniform d = 20 and 30 lose 0.5 dB from 0.33 on
_UNCORRELATED = 0.05  # root mean square correlation of the sources, beyond sampling error
_UNCERTAIN = 0.15  # standard deviation of the log noise variance of an output, from which on the tails are asked
_CORRECTIONS = 5
_SETTLED = 0.1  # change of a log noise variance
_GAP = (
    3.0  # ratio of distances; below 1.5 between samples of the same distribution, 5 to 1000 between outliers and others
)
_ROUNDING = 1e-6  # of the largest distance
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
    """Beyond which samples are outliers: a share `outliers` of them, give or take three standard errors of that number.

    The limit lies in the widest gap there. If there is none, three standard errors more than the share are left out. Without noise,
    samples at the facets decide where these are, and none of them should be lost.
    """
    n = len(distance)
    error = 3 * np.sqrt(outliers / n)
    fewest, most = int(n * max(outliers - error, 0)), int(np.ceil(n * min(outliers + error, 0.7)))
    ranked = np.sort(distance)[::-1][fewest : most + 1] + _ROUNDING * distance.max()
    ratio = ranked[:-1] / np.maximum(ranked[1:], 1e-300)
    if len(ratio) and ratio.max() > _GAP:
        at = int(np.argmax(ratio))
        return float(np.sqrt(ranked[at] * ranked[at + 1]) - _ROUNDING * distance.max())
    return float(np.quantile(distance, max(1 - outliers - error, 0.3)))


def distance_outside(X: Array, fit: Fit) -> Array:
    """How far samples lie outside the cone: off its subspace, and beyond its farthest facet, in units of the noise."""
    at, V = fit.coordinates, fit.cone.V
    U = X @ at.matrix.T
    scale = np.maximum(at.channel_noise, 1e-300) if at.channel_noise.any() else np.ones(X.shape[1])
    off = np.sum(((X - U @ at.inverse.T) / scale) ** 2, axis=1)
    beyond = np.minimum(np.min(V @ U.T / np.linalg.norm(V, axis=1)[:, None], axis=0), 0)
    return np.asarray(np.sqrt(off + beyond**2))


def _fit(X: Array, d: int, level: Any, rng: np.random.RandomState, single: bool) -> Fit:
    second_moment = X.T @ X / len(X)
    at = coordinates(second_moment, d, len(X), level, single=single)
    U = X @ at.matrix.T
    u_bar = U.mean(axis=0)
    if u_bar @ u_bar <= _LEAST_MEAN**2 * np.mean(np.sum(U**2, axis=1)):
        return assemble(at, without_mean(U, rng), has_mean=False)
    cone = cone_from_starts(U, at, rng)
    if level is None and at.variance:
        at, U, cone = _with_noise_of_tails(X, second_moment, at, U, cone, rng)
    fallback = False
    if cone.noise.max() > _largest_noise(cone, U, at.known) or not supported(cone, at.known):
        rotated = _least_negative_rotation(U, at.variance, rng)
        if rotated is not None:
            fallback, cone = True, cone._replace(V=rotated)
    return assemble(at, cone, fallback=fallback)


def _least_negative_rotation(U: Array, variance: float, rng: np.random.RandomState) -> Array | None:
    """The best of three solutions of nonnegative ICA.

    Strong noise makes local minima: one in six to one in three solutions is 1 to 2 dB worse, half-normal d = 10, 20 dB and others.
    """
    found = [rotate_white(U, variance, rng) for _ in range(3)]
    rotations = [V for V in found if V is not None]
    if not rotations:
        return None
    return hold_mean(min(rotations, key=lambda V: float(np.sum(np.minimum(V @ U.T, 0) ** 2))), U)


def cone_from_starts(U: Array, at: Coordinates, rng: np.random.RandomState) -> Cone:
    """The cone of U, which is in the coordinates `at`, from nonnegative ICA and from successive projection."""

    def by_rotation(samples: Array) -> Array | None:
        return rotation_start(samples, at.variance, rng)

    return fit_cone(U, at.variance if at.known else None, [by_rotation, successive_projection])


def _with_noise_of_tails(
    X: Array, second_moment: Array, at: Coordinates, U: Array, cone: Cone, rng: np.random.RandomState
) -> tuple[Coordinates, Array, Cone]:
    """Coordinates, X in them and the cone after the tails of the outputs have corrected noise that is uncertain.

    The cone is fitted afresh with each correction, because a cone of wrong coordinates is a poor start. The tails at facets
    that are seen at the apex only tell nothing.
    """
    n, d = U.shape
    size = np.sqrt(np.diag(second_moment))
    share = np.max(at.channel_noise[size > 0] / size[size > 0])
    least = np.where(
        size > 0, 1e-3 * share * size, 1e-3 * at.channel_noise.max()
    )  # a channel that is zero tells nothing
    first = D = np.maximum(at.channel_noise, least) ** 2
    C = log_variance_covariance(second_moment, d, n, D)
    if uncertainty(cone.V @ at.matrix, D, C) < _UNCERTAIN or not supported(cone, known=True):
        return at, U, cone
    best, lowest = (at, U, cone), np.inf
    for r in range(_CORRECTIONS + 1):
        tails = settle(U, cone, None, MAX_ROUNDS)
        if not tails.wall.variance.any():
            break
        n_below = np.count_nonzero(tails.V @ U.T < 0, axis=1)
        next_D, disagreement = corrected(tails.V @ at.matrix, D, first, C, tails.noise**2, n_below)
        if disagreement < lowest and supported(cone, known=True):
            best, lowest = (at, U, cone), disagreement
        next_D = next_D if r == 0 else np.sqrt(D * next_D)
        if r == _CORRECTIONS or disagreement < d or np.abs(np.log(next_D / D)).max() < _SETTLED:
            break
        D = next_D
        at = coordinates(second_moment, d, n, np.sqrt(D))
        U = X @ at.matrix.T
        cone = cone_from_starts(U, at, rng)
    return best


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
