"""What the noise of the mixtures is, and how hard the wall of a facet must be for it.

**Channels.** z = B' (w x / scale). `scale` is a power of two near the largest entry, so
that no square overflows. w makes the noise of counts uniform and is 1 for other noise:
a sample of Poisson counts, divided by the root of its total count, has noise of
variance x_k / total in channel k (Keenan and Kotula 2004), and a cone does not change
if samples are scaled. B are the 2 d + 10 leading directions of more than 1000 channels,
otherwise the identity.

**Coordinates.** u = B' D^{-1/2} z, with D the noise variances of the channels and B the
d leading eigenvectors of D^{-1/2} <z z'> D^{-1/2}. The second moment is not centred:
sums to one make the covariance singular, but not the second moment. If there is no
noise, or if it is not known, D is the identity. Known spectra are among the directions
B; the others are the leading ones beside them.

With theta_j, b_j the eigenvalues and eigenvectors of D^{-1/2} <z z'> D^{-1/2}, n
samples and psi = log D, D minimises

    n/2 sum_{j > d} (theta_j - log theta_j - 1) + |psi - psi_0|^2 / 2            (3)

(factor analysis, maximum a posteriori): the gradient of the first term is n/2 sum_{j >
d} (1 - theta_j) b_j^2, and its expected Hessian is n/2 R * R with R = sum_{j > d} b_j
b_j'. psi_0 is white noise of the mean variance that is left out. If there are fewer
than 3 samples for each channel, or if what is left out is more than independent noise
(twice the first term is chi-squared with ((k - d)^2 - (k + d)) / 2 degrees of freedom
if the model holds), D is the variance that is left out of each channel. If too few
directions are left out to tell channels apart, (k - d)^2 < k + d, the noise is white,
and in doubt (`Coordinates.doubtful`).

Errors of the model (spectra that vary, baselines, saturation) have few directions, and
are as large in those of the sources. So the noise variance of the coordinates is
theta_{d+1} over what is expected of white noise, (1 + sqrt((k - d) / n))^2, at least 1.
For counts too: those of sequencing vary by more than the Poisson law says, and their
level is not known.

**Leakage.** At the right facet the gradient of (1) vanishes if, on average over j,

    c_i <[-y_i]_+ y_j> / w_i^2 = y_bar_j / y_bar_i.                              (4)

The left-hand side is known without knowing where the facet is. If a source has, near
zero, an atom a, a density p and a slope p' (in units of the noise: z = y_i / s_i), then
Gaussian noise leaks across the facet

    <[-z]_+> = a / sqrt(2 pi) + p / 4 + p' / (3 sqrt(2 pi)).                     (5)

a, p and p' follow from the numbers of samples with z < 2, 2 <= z < 4 and 4 <= z < 6 by
a 3 x 3 linear system. These numbers hardly depend on where exactly the facet is. (4)
and (5) give c_i: 4 for an exponential source, 8 for a uniform one, about 20 for a
uniform one correlated at 0.5, 0.3 to 1 for a sparse one. An atom below 0.3 p is
ignored, because it cannot be told from a facet that is off by 0.3 s_i. The discrepancy

    rho_i = <min(z, 0)^2> / P(z < 0),                                            (6)
    expected: (a / 2 + 2 p / (3 sqrt(2 pi))) / (a / 2 + p / sqrt(2 pi)),

is 1 for an atom and 2/3 for a density; it is larger if the cone cuts into the data.
Where no direction is left out that would show the noise (k = d), it tells the noise.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import eigh, inv, qr, solve
from scipy.spatial import KDTree
from scipy.special import ndtr
from sklearn.utils.extmath import randomized_svd

from bionica.core.blocks import WIDE, Array, largest, row_sample
from bionica.mixtures.cone.objective import Wall

# over its expectation; 1.0 to 1.2 if the noise of channels is independent, 9 to 46 for
# interfering notes
_MISFIT = 2.0
LEAST_SHARE = 1e-3  # of what is typical: floor of noise variances, counts and forces


# --- channels


class Channels(NamedTuple):
    """How mixtures x become channels z.

    `rounding` is the share of the energy that rounding of x can leave in the directions
    left out. `noise` (q,) is the standard deviation of the noise of z, unless
    `estimate` says that it must be estimated. `mean_total` is the typical total count
    of a sample over the scale if `counts`. The leading directions are the columns of
    `subspace` (k, q), if `projected`; otherwise it has no column.
    """

    scale: float
    rounding: float
    estimate: bool
    noise: Array
    counts: bool
    mean_total: float
    projected: bool
    subspace: Array

    def rows(self, X: Array, *, weighted: bool = True) -> Array:
        """Rows z of the channels, (n_samples, q), float64; those of x / scale without
        the weights of counts if not `weighted`.
        """
        Z = np.divide(X, self.scale, dtype=float)
        if weighted and self.counts:
            Z *= _poisson_weights(Z, self.mean_total)[:, None]
        return Z @ self.subspace if self.projected else Z

    def scaled(self, X: Array) -> Array:
        """x / scale, in the precision of X."""
        return X / X.dtype.type(self.scale)

    def lifted(self, A: Array) -> Array:
        """Columns A (q, d) of the channels as columns of the mixtures over the scale,
        (k, d).
        """
        return self.subspace @ A if self.projected else A


def find_channels(X: Array, d: int, noise: Any) -> Channels:
    """The channels for X (n_samples, k), finite.

    `noise` is "estimate", "poisson" or a standard deviation.
    """
    n, k = X.shape
    scale = float(2.0 ** np.clip(np.round(np.log2(largest(X))), -1000, 1000))
    rounding = 1e-13 if X.dtype == np.float64 else 1e-11
    estimate = noise == "estimate" and not (k == d and on_a_grid(X))
    counts = noise == "poisson"
    level = np.zeros(k)
    total = 1.0
    if not isinstance(noise, str):
        level[:] = noise / scale
    if counts:
        total = max(float(X.sum(axis=1, dtype=float).mean()) / scale, 1e-300)
        # Counts x have noise of variance x; x / scale has x / scale^2. Sampling can
        # make it zero in channels without counts.
        variance = (_poisson_weights(X / scale, total) ** 2) @ X / scale**2 / n
        least = LEAST_SHARE * max(float(variance.mean()), 1e-300)
        level = np.sqrt(np.maximum(variance, least))
    subspace = np.empty((k, 0))
    channels = Channels(
        scale, rounding, estimate, level, counts, total, False, subspace
    )
    if k <= WIDE:
        return channels
    Z = channels.rows(X)
    q = min(2 * d + 10, n, k)
    values, directions = randomized_svd(Z, q, n_iter=4, random_state=0)[1:]
    white = np.sqrt((level**2).mean())
    if estimate:  # the largest direction left out, over what is expected of white noise
        white = 0.0
        if q > d and values[d] ** 2 > rounding * values[0] ** 2:
            white = values[d] / (np.sqrt(n) + np.sqrt(k - d))
    return channels._replace(
        estimate=False,
        noise=np.full(q, white),
        projected=True,
        subspace=np.ascontiguousarray(directions.T),
    )


def on_a_grid(X: Array) -> bool:
    """Whether differences between neighbouring samples of X (n_samples, k) repeat
    although the mixtures are not digitised.

    If as many mixtures as sources are recorded, noise must be told from the tails of
    the outputs, and the darkest pixels of an image look like such tails (the paper's
    images: 35 dB with the noise that they seem to have, 44 dB without). But noise that
    has a density makes no two differences of samples equal. A difference must occur in
    both halves of the samples, because interpolation repeats differences too, between
    adjacent samples.
    """
    x = X[row_sample(*X.shape)].astype(float)
    x = x[np.sort(np.unique(x, axis=0, return_index=True)[1])]
    n = len(x)
    if n < 4 or min(len(np.unique(column)) for column in x.T) < 0.5 * n:
        return False
    x = x / np.exp2(np.frexp(largest(x))[1])  # exact, and squares do not overflow
    rounding = 16 * np.finfo(X.dtype).eps * largest(x)
    halves = []
    for half in np.array_split(x, 2):
        difference = half[KDTree(half).query(half, 2)[1][:, 1]] - half
        difference *= np.where(difference[:, :1] < 0, -1, 1)
        halves.append(np.unique(np.round(difference / rounding), axis=0))
    different = np.unique(np.concatenate(halves), axis=0)
    return sum(map(len, halves)) - len(different) >= 5


def _poisson_weights(X: Array, mean_total: float) -> Array:
    total = np.maximum(X.sum(axis=1), LEAST_SHARE * mean_total)
    return np.sqrt(mean_total / total)


# --- coordinates


class Coordinates(NamedTuple):
    """u = matrix z, z = inverse u + noise.

    `variance` is the variance of the noise in every coordinate if `known`, 0 if there
    is none. If it is not known, it must be found from the tails of the outputs.
    `channel_noise` (q,) is the standard deviation of the noise of each channel, or
    zeros.
    """

    matrix: Array
    inverse: Array
    known: bool
    variance: float
    channel_noise: Array

    @property
    def doubtful(self) -> bool:
        """Whether too few directions are left out to estimate the noise well."""
        q, d = self.inverse.shape
        return (q - d) ** 2 < q + d


def coordinates(
    second_moment: Array, d: int, n: float, channels: Channels, spectra: Array
) -> Coordinates:
    """Coordinates for d sources from <z z'> (q, q) of n samples. `spectra` (q, p) are
    known.

    If the noise is to be estimated, it is one for each channel if the data tell, one
    for all otherwise; if no direction is left out, it remains unknown.
    """
    q = len(second_moment)
    units = np.ones(q)
    # Few mixtures may have different units. Many channels have one, and small ones
    # would distract if they were scaled up.
    if (q - d) ** 2 < q + d:
        units = np.sqrt(np.diag(second_moment))
        units[units == 0] = 1.0
    second_moment = second_moment / units / units[:, None]
    variances = (channels.noise / units) ** 2
    known = q > d or not channels.estimate
    if channels.estimate and known:
        values, directions = eigh(second_moment)
        if values[: q - d].mean() > channels.rounding * values[-1]:
            variances = channel_noise(second_moment, d, n, values, directions)
    noisy = known and variances.any()
    scale = np.ones(q)
    if noisy:
        scale = np.sqrt(np.maximum(variances, LEAST_SHARE * variances.max()))
    moment = second_moment / scale / scale[:, None]
    scale = scale * units
    given = qr(spectra / scale[:, None])[0]
    if given.size:
        beside = np.eye(q) - given @ given.T
        moment = beside @ moment @ beside
    values, rest = eigh(moment)
    n_free = d - given.shape[1]
    variance = float(noisy)
    if noisy and q > d and (channels.estimate or channels.counts):
        white = (1 + np.sqrt((q - d) / n)) ** 2
        variance = max(1.0, values[-1 - n_free] / white)
    basis = np.hstack([given, rest[:, ::-1][:, :n_free]])
    noise = np.sqrt(variances) * units
    return Coordinates(basis.T / scale, scale[:, None] * basis, known, variance, noise)


def channel_noise(
    second_moment: Array, d: int, n: float, values: Array, directions: Array
) -> Array:
    """Noise variance of every channel from <z z'> (k, k) of n samples with d sources:
    (3) by Fisher scoring, if its model fits.

    `values` and `directions` are its eigenvalues, ascending, and eigenvectors.
    """
    k = len(second_moment)
    left_out = values[: k - d]
    rest = directions[:, : k - d]
    white = max(left_out.mean(), 1e-300)
    freedom = ((k - d) ** 2 - (k + d)) / 2
    if freedom < 0:
        return np.full(k, white)
    if n >= 3 * k:
        psi = np.full(k, np.log(white))
        for _ in range(50):
            half = np.exp(-psi / 2)
            theta, b = eigh(second_moment * half * half[:, None])
            theta = np.maximum(theta[: k - d], 1e-300)
            b = b[:, : k - d]
            gradient = 0.5 * n * (b**2 @ (1 - theta)) + psi - np.log(white)
            step = solve(0.5 * n * (b @ b.T) ** 2 + np.eye(k), gradient)
            psi = psi - 0.5 * np.clip(step, -1, 1)  # full steps may cycle
            if np.abs(step).max() < LEAST_SHARE:
                break
        misfit = n * np.sum(theta - np.log(theta) - 1)
        if misfit <= _MISFIT * (freedom + 2 * np.sqrt(2 * freedom + 1)):
            return np.exp(psi)
    residual = (rest**2 @ left_out) / np.maximum(np.sum(rest**2, axis=1), LEAST_SHARE)
    return np.maximum(residual, LEAST_SHARE * white)


# --- leakage

EDGES = np.array([2.0, 4.0, 6.0])  # of the windows of z
_SQRT_2PI = np.sqrt(2 * np.pi)
# Floor of what the windows show, over what is typical: an atom over p, p and the force
# over those of a flat density, the mean of the other outputs at an atom (wide cones
# around very sparse sources have 0.005 to 0.05 there). 1.0, which holds for independent
# sources, makes the angles of sparse ones smaller by a third and spoils sources that
# are zero together (genes: r .99 -> .78).
_LEAST_PART = 0.3
NO_NOISE = 1e-6  # of the mean of an output
# samples in the windows: with fewer nothing can be fitted; and below zero, which a
# prior of the noise counts for
_FEW = 30
FIRST_C = 3.0


def _window_shares() -> Array:
    """Share of an atom, a unit density and a unit slope, blurred by unit noise, in each
    window of z: (3, 3).
    """
    b = EDGES
    phi = np.exp(-(b**2) / 2) / _SQRT_2PI
    Phi = ndtr(b)
    below = np.stack([Phi, b * Phi + phi, 0.5 * ((b**2 + 1) * Phi + b * phi)], axis=1)
    return np.diff(np.vstack([np.zeros(3), below]), axis=0)


_FROM_WINDOWS = inv(_window_shares())
#: P(z < 0), <[-z]_+> and <[-z]_+^2> (rows) of an atom, a unit density and a unit slope:
#: eqs. (5) and (6).
_TAILS = np.array([[0.5, 1, 0.25], [1, 0.25, 1 / 3], [0.5, 2 / 3, 0.125]])
_TAILS[[0, 1, 1, 2], [1, 0, 2, 1]] /= _SQRT_2PI


class Leakage(NamedTuple):
    """What is seen near each facet, (d,).

    `force` is <[-z_i]_+ y_j>, averaged over j, that noise causes at the right facet;
    `discrepancy` is (6) over what is expected; `n_near` and `n_below` are the numbers
    of samples in the windows and below zero.
    """

    force: Array
    discrepancy: Array
    n_near: Array
    n_below: Array


def leakages(Y: Array, noise: Array, weights: Array) -> Leakage:
    """Fit atom, density and slope to the samples near each facet of the outputs Y (d,
    n_samples) with this noise (d,).

    `weights` (n_samples,) are those in an average over all samples.
    """
    facets = []
    total = Y.sum(axis=0)
    for i, s in enumerate(noise):
        near = np.flatnonzero(Y[i] < EDGES[-1] * s)
        z = Y[i, near] / s
        w = weights[near]
        others = (total[near] - s * z) / max(len(Y) - 1, 1)
        window = np.searchsorted(EDGES[:2], z, side="right")
        counts = np.bincount(window, w, minlength=3)
        sums = np.bincount(window, w * others, minlength=3)
        atom, density, _ = _FROM_WINDOWS @ counts
        # counts[1] / 2 is the density itself where it is flat
        density = max(density, _LEAST_PART * counts[1] / 2)
        share = max(0.0, 1 - _LEAST_PART * density / atom) if atom > 0 else 0.0
        parts = _FROM_WINDOWS @ sums * _TAILS[1]
        flat = sums[1] / 2 * _TAILS[1, 1]
        least = _LEAST_PART * max(flat, share * atom * _TAILS[1, 0])
        force = max(share * parts[0] + parts[1] + parts[2], least)
        below = z < 0
        p_below, _, second = _TAILS @ [share * atom, density, 0.0]
        rho = w[below] @ z[below] ** 2 / max(w[below].sum(), 1e-300)
        expected = second / max(p_below, 1e-300)
        discrepancy = max(rho, LEAST_SHARE) / max(expected, LEAST_SHARE)
        facets.append((force, discrepancy, len(z), below.sum()))
    return Leakage(*np.array(facets).T)


def next_wall(
    wall: Wall,
    leaks: Leakage,
    size: Array,
    hardness: float = 1.0,
    *,
    known: bool,
    prior: float | None = None,
    one: bool = False,
) -> tuple[Wall, float]:
    """The wall that the leakage asks for, eq. (4), times `hardness`, and the largest
    change of a logarithm.

    `size` is |V_i|; `known` says whether the noise variance is known. Otherwise an
    output with few samples below zero takes that of the prior, or that of all outputs
    without one. If no noise is seen, or if fewer than 30 samples lie near the facets,
    then the variances are zero. `one`: all facets have the geometric mean of their
    hardnesses. Beside a wall on the spectra, facets that noise hides would otherwise
    take turns in moving, because the leakage of each depends on where the others are.
    """
    v = wall.variance
    if not known:
        own = np.log(v * leaks.discrepancy)
        pooled = np.log(prior) if prior else np.median(own)
        own = (leaks.n_below * own + _FEW * pooled) / (leaks.n_below + _FEW)
        v = np.exp(own) * (np.median(leaks.n_near) >= _FEW)
        if np.median(np.sqrt(v) * size) < NO_NOISE:
            c = np.nan_to_num(wall.c, nan=FIRST_C)
            e = np.sqrt(wall.variance) * size
            return Wall(c, 0 * v, e, wall.m), 0.0
    s = np.sqrt(v) * size
    asked = s / np.maximum(leaks.force, LEAST_SHARE * s)
    c = hardness * np.where(leaks.n_near >= _FEW, asked, FIRST_C)
    if one:
        c[:] = np.exp(np.log(c).mean())
    change = np.abs(np.log([c / wall.c, v / wall.variance])).max()
    return Wall(c, v, 0 * v, wall.m), change
