"""The number of sources: how many directions of the mixtures noise cannot explain.

Noise that is independent between channels adds a diagonal D to the second moment of the mixtures (or to their covariance),

    M = A <s s'> A' + D,

also if it differs between channels (unequal sensors) and between samples (counts, shot noise), for D is a mean over samples. For
q sources, D is estimated by factor analysis (`cone.channel_noise`). Of the eigenvalues theta of D^{-1/2} M D^{-1/2}, the k - q
smallest are then those of noise of unit variance. If the noise of sample i is v_i times the mean, n of them have none above

    edge = min_t  1/t + <v / (1 - g v t)>,     g = (k - q) / n,   0 < t < 1 / (g max v)                                   (1)

for large n and k (Marchenko and Pastur 1967; Silverstein and Choi 1995). It is (1 + sqrt(g))^2 if all v are equal. Three standard
deviations of the largest eigenvalue (Johnstone 2001) are added. q rises from 0 until theta_{q+1} is below the edge. As long as q is
too small, the sources left out make D too large, so that q rises too little rather than too much.

With more than 300 channels, or fewer than three samples for each, D comes from the residuals of at most 600 samples instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from ._channel_noise import channel_noise, misfit, residual_variance
from .whitening import ChunkedRows, Moments, moments

Array = npt.NDArray[Any]

_CONSTANT = 1e-7  # standard deviation over mean: less is rounding
_MOST_CHANNELS = 300  # of factor analysis
_LEAST_CHANNELS = 4  # one factor and noise fit any three channels: all of them count as sources
_ROWS = 600  # samples, if D comes from residuals
_WEIGHT_ROWS = 4000  # samples from which v comes
_FLUCTUATION = 3.0  # standard deviations of the largest eigenvalue of noise
_LEAP = 1.3  # directions so far above the edge are counted at once, others one by one
_STEPS = 8  # one by one; after more, there is no edge between sources and noise
_MARGINAL = 1.5  # a last source closer to the edge is in doubt
_WEAK = 10.0  # a source closer to the edge may be an error of the model
_ELBOW = 5.0  # ratio of two eigenvalues
_FLAT = 2.0  # ratio of eigenvalues of noise that differs a little between channels
_MEAN, _LEAST_MEAN = 0.25, 0.02  # of directions of sources and of interference, in standard deviations
_STRETCHES, _STRETCH_CHANNELS = 6, 100
_TURNED = 3.0  # variance of a direction in all stretches together, over that in each of them
_UNEQUAL = 10.0  # <v^2>: a tenth of the samples decide about the edge


class Spectrum(NamedTuple):
    """The evidence for a number of sources.

    `eigenvalues` of the covariance (of the second moment, for the cone) that rounding cannot explain, largest first. `excess[j]` is
    the variance of direction j, with the noise of all channels scaled to one, over the largest that noise alone would have: above
    1 it is a source. `n_sources` is the decision. `alternative` is the second-best number; it equals `n_sources` if there is no
    doubt. `noise_floor` is the mean of the eigenvalues counted as noise, or 0.0 if no floor is visible.
    """

    eigenvalues: Array
    excess: Array
    n_sources: int
    alternative: int
    noise_floor: float

    @property
    def changes(self) -> bool:
        """Whether stretches of the samples show fewer directions than all samples do: the mixing probably changes."""
        return self.n_sources < self.alternative and not self.noise_floor


def count_sources(
    rows: Array, eigenvalues: Array, seen: Moments | None = None, *, centred: bool = True, given: int | None = None
) -> Spectrum:
    """How many sources the mixtures have, and the evidence.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, k)
        The samples, or many that are representative of them. Finite.
    eigenvalues : ndarray
        Those of the covariance or of the second moment that rounding cannot explain, largest first.
    seen : Moments, optional
        Moments of all samples; by default those of `rows`. Not used for more than 300 channels.
    centred : bool, default=True
        Whether directions of the covariance are counted, or of the second moment. Sources that sum to a constant have one
        direction fewer in the covariance.
    given : int, optional
        The number, if it is known: then only the evidence is computed, with the noise that is left if there are so many sources.
    """
    rank = len(eigenvalues)
    excess, q, spread = np.full(rank, np.inf), rank, 1.0
    if given is not None:
        if given < min(rank, *rows.shape) - 1:
            excess = _excess(rows, seen, rank, centred, given)[0]
        return Spectrum(eigenvalues, excess, given, given, float(eigenvalues[given:].mean()) if given < rank else 0.0)
    if rank >= _LEAST_CHANNELS and not _is_noiseless(rows, rank, centred):
        excess, q, spread = _excess(rows, seen, rank, centred)
        if q == 1 and not centred and not _excess(rows, seen, rank, True)[1]:
            q = 0  # the mean is no source
    if q and np.isfinite(excess).all() and (rank - q) ** 2 < rank + q:  # the noise of channels was not found
        above = _above_floor(rows, eigenvalues, centred)
        q, alternative = (above, rank) if above < rank else (q, q)
    else:
        alternative = q - 1 if 1 < q < rank and excess[q - 1] < _MARGINAL else q
    if q == 0 or q > rank - 2:  # a single direction always looks like a floor of noise
        q = alternative = rank
    if spread > _UNEQUAL or (q < rank and np.sum(excess[:q] < _WEAK) >= 3):
        elbow, drop = _elbow(eigenvalues)
        if drop > _ELBOW and (spread > _UNEQUAL or elbow < q - 2):
            by_mean = _elbow_and_mean(rows, elbow)
            q, alternative = (by_mean, elbow) if by_mean not in (elbow, q) else (elbow, q)
        elif elbow < q - 2 and drop > 2 * eigenvalues[q - 1] / eigenvalues[min(q, rank - 1)]:
            alternative = elbow
    if q == rank:
        return Spectrum(eigenvalues, excess, rank, alternative, 0.0)
    return Spectrum(eigenvalues, excess, q, alternative, float(eigenvalues[q:].mean()))


def with_stretches(found: Spectrum, X: Array, count: Callable[[Array], Spectrum]) -> Spectrum:
    """`found`, the spectrum of all samples X; the number of sources is that of short stretches of X if the mixing changes.

    The directions of a mixing that changes turn, so that all samples together show more of them than there are sources. This is
    looked for where `found` takes more than half of all directions. The stretches must agree on fewer, and their directions must
    differ. Of sources that are active one after another, stretches show fewer, too.
    """
    n, k = X.shape
    length = 100 + 20 * k
    if found.n_sources <= k / 2 or k > _STRETCH_CHANNELS or n < _STRETCHES * length:
        return found
    stretches = [X[start : start + length] for start in np.linspace(0, n - length, _STRETCHES).astype(int)]
    parts = [count(stretch) for stretch in stretches]
    counts = [part.n_sources for part in parts]
    q = max(set(counts), key=counts.count)
    if not 2 <= q < found.n_sources or counts.count(q) < _STRETCHES - 1:
        return found
    alike = [i for i in range(_STRETCHES) if counts[i] == q]
    left = max(float(parts[i].eigenvalues[q]) if len(parts[i].eigenvalues) > q else 0.0 for i in alike)
    together = moments(np.concatenate([stretches[i] for i in alike])).covariance
    if np.linalg.eigvalsh(together)[::-1][q] < _TURNED * left:
        return found
    return found._replace(n_sources=q, alternative=found.n_sources, noise_floor=0.0)


def representative(X: Array | ChunkedRows) -> Array:
    """As many rows of X, evenly spaced, as `count_sources` looks at one by one."""
    wanted = _WEIGHT_ROWS if X.shape[1] <= _MOST_CHANNELS else _ROWS
    return X[:: max(1, -(-X.shape[0] // wanted))]


def _elbow(eigenvalues: Array) -> tuple[int, float]:
    """The number of directions, two or more, before the largest drop of the eigenvalues, and its factor.

    Sources that do not add up exactly (power spectrograms, saturated detectors) leave many directions just above the noise.
    """
    drop = (
        eigenvalues[1 : len(eigenvalues) // 2] / eigenvalues[2 : len(eigenvalues) // 2 + 1]
    )  # the first may be the mean
    return (int(np.argmax(drop)) + 2, float(drop.max())) if drop.size else (len(eigenvalues), 0.0)


def _above_floor(rows: Array, eigenvalues: Array, centred: bool) -> int:
    """The number of directions above a floor of two or more that are alike, with a clear drop before it; all if there is none.

    For few mixtures more than sources: the noise of each channel cannot be found, and a test for equal noise is too strict. The
    noise may be the same in all channels, or the same share of each.
    """
    x = _unit_channels(rows - rows.mean(axis=0) if centred else rows)[0]
    rank = len(eigenvalues)
    for theta in (eigenvalues, _leading(np.asarray(x, np.float64), 0)[0][:rank]):
        q = int(np.argmax(theta < _FLAT * theta[-1]))
        if 1 <= q <= rank - 2 and theta[q - 1] > _ELBOW * theta[q]:
            return q
    return rank


def _elbow_and_mean(rows: Array, elbow: int) -> int:
    """The number of leading directions of the covariance that sources explain, where many weak ones follow; or `elbow`.

    Nonnegative sources have a mean. What waves that interfere add to their powers has none, because its sign is random. With m the
    mean of a direction over its standard deviation, and p the density of m for sources and for interference (half-Cauchy), q
    maximises sum_{j <= q} log(p_source(m_j) / p_interference(m_j)) + log(theta_q / theta_{q+1}) / 2. Terms of the sum are clipped
    at +-1.5. The means say nothing if some of the weak directions have one, too. Of 40 power spectrograms (T = 3,000, 25 dB), 37
    are counted right, and 27 by the largest drop.
    """
    x = np.asarray(rows[:: -(-len(rows) // (_WEIGHT_ROWS if rows.shape[1] <= _MOST_CHANNELS else _ROWS))], np.float64)
    mean = x.mean(axis=0)
    theta, B = _leading(x - mean, min(*x.shape, 4 * elbow + 10))
    theta = np.maximum(theta[: B.shape[1]], 1e-300)
    m = np.abs(mean @ B) / np.sqrt(theta)
    least = max(_LEAST_MEAN, 1 / np.sqrt(len(x)))
    if np.quantile(m[elbow + 2 : elbow + 9], 0.75) > 5 * least:
        return elbow
    evidence = np.log(_MEAN / least * (m**2 + least**2) / (m**2 + _MEAN**2))
    score = np.cumsum(np.clip(evidence, -1.5, 1.5))[:-1] + np.log(theta[:-1] / theta[1:]) / 2
    return int(np.argmax(score[1 : 2 * elbow + 4])) + 2


def _is_noiseless(rows: Array, rank: int, centred: bool) -> bool:
    """Whether half of the samples have the same rank, and it is at most half of the channels. The rank of sparse counts grows."""
    n, k = rows.shape
    if rank > min(k / 2, n / 2 - 1, _ROWS / 2):
        return False
    some = rows[:: max(2, n // (4 * rank + 40))]
    x = _unit_channels(some - some.mean(axis=0) if centred else some)[0]
    rounding = 4 * np.finfo(np.float64).eps + np.finfo(rows.dtype).eps ** 2
    singular = np.linalg.svd(x, compute_uv=False)
    return rank == int(np.sum(singular > np.sqrt(k * rounding) * singular[0]))


def _excess(
    rows: Array, seen: Moments | None, rank: int, centred: bool, given: int | None = None
) -> tuple[Array, int, float]:
    """theta over the edge (rank,), the number of sources q, and <v^2>."""
    n, k = rows.shape if seen is None else (seen.n, rows.shape[1])
    factors = k <= _MOST_CHANNELS and n >= 3 * k
    some = np.asarray(rows[:: -(-len(rows) // (_WEIGHT_ROWS if factors else _ROWS))], np.float64)
    if factors:
        seen = moments(rows) if seen is None else seen
        M = seen.covariance if centred else seen.covariance + np.outer(seen.mean, seen.mean)
        size = np.sqrt(np.maximum(np.diag(M), 0))
        if centred:
            size[size <= _CONSTANT * np.abs(seen.mean)] = 0.0
        x, alive, size = _unit_channels(some - seen.mean if centred else some, size)
        M = M[np.ix_(alive, alive)] / size / size[:, None]
    else:
        x, M, n = _unit_channels(some - some.mean(axis=0) if centred else some)[0], None, len(some)
    q, least, by_one, D = 0, min(x.shape), 0, np.ones(x.shape[1])
    while True:
        D = _channel_noise(x, q, M, n, D)
        y = x / np.sqrt(D)
        theta, B = _leading(y, q) if M is None else _eigen(M / np.sqrt(D) / np.sqrt(D)[:, None], q)
        v = _noise_of_samples(y - (y @ B) @ B.T, x.shape[1] - q)
        edge = _edge(v, x.shape[1] - q, n)
        if q == given or (given is None and (q >= min(least, rank) - 1 or theta[q] <= edge)):
            break
        leap = min(int(np.sum(theta > _LEAP * edge)), least - 1)
        if given is not None:
            q = min(leap, given) if leap > q else given
            continue
        by_one += leap <= q + 1
        if by_one > _STEPS:
            q = int(np.sum(theta > edge))
            break
        q = max(q + 1, leap)
    excess = np.zeros(rank)
    excess[: min(rank, len(theta))] = theta[:rank] / edge
    return excess, q, float(np.mean(v**2))


def _unit_channels(x: Array, size: Array | None = None) -> tuple[Array, Array, Array]:
    """x with channels of unit size, those that are not zero; which these are, and their size."""
    size = np.sqrt(np.einsum("ij,ij->j", x, x) / len(x)) if size is None else size
    alive = size > 1e-14 * size.max()
    return x[:, alive] / size[alive], alive, size[alive]


def _channel_noise(x: Array, q: int, M: Array | None, n: int, before: Array) -> Array:
    """Noise variance of channels of unit size, for q sources; `before` is that for fewer.

    Factor analysis has local optima. From white noise it may end with a channel of noise alone (a dark one) as a source of its
    own, so it begins at the noise for fewer sources, too.
    """
    D = np.ones(x.shape[1])
    if M is not None:
        if not q:
            return D
        root = np.sqrt(before)
        found = [channel_noise(M, q, n), before * channel_noise(M / root / root[:, None], q, n)]
        return min(found, key=lambda D: misfit(M, q, n, D)) if (len(D) - q) ** 2 >= len(D) + q else found[0]
    for _ in range(3 if q else 0):
        y = x / np.sqrt(D)
        B = _leading(y, q)[1]
        y -= (y @ B) @ B.T
        residual = np.einsum("ij,ij->j", y, y) / max(len(x) - q, 0.1 * len(x))
        white = max(float(residual.mean()), 1e-300)
        D = D * white * residual_variance(residual / white, np.einsum("ij,ij->i", B, B))
    return D


def _eigen(M: Array, q: int) -> tuple[Array, Array]:
    """Eigenvalues, largest first, and the q leading eigenvectors as columns."""
    theta, B = np.linalg.eigh(M)
    return theta[::-1], B[:, ::-1][:, :q]


def _leading(x: Array, q: int) -> tuple[Array, Array]:
    """The same for x'x / n, from the smaller of x'x and xx'."""
    if x.shape[0] >= x.shape[1]:
        return _eigen(x.T @ x / len(x), q)
    theta, U = _eigen(x @ x.T / len(x), q)
    return theta, np.linalg.qr(x.T @ U)[0]


def _noise_of_samples(residual: Array, freedom: int) -> Array:
    """v of (1): the energy of the residual of each sample, less the spread that white noise would have too."""
    v = np.einsum("ij,ij->i", residual, residual)
    if not v.any():
        return np.ones(len(v))
    v /= v.mean()
    spread = float(np.mean((v - 1) ** 2))
    own = 1 - (1 + spread) / (1 + freedom / 2) / spread if spread > 0 else 0.0
    return np.asarray(1 + (v - 1) * np.sqrt(max(own, 0.0)))


def _edge(v: Array, k: int, n: int) -> float:
    """(1) plus the fluctuation of the largest eigenvalue."""
    g, most = k / n, float(v.max())
    reach = 1 / (g * most)
    lowest = minimize_scalar(
        lambda t: 1 / t + float(np.mean(v / (1 - g * v * t))),
        bounds=(1e-6 * reach, (1 - 1e-9) * reach),
        method="bounded",
    ).fun
    effective = max(n / float(np.mean(v**2)), 2.0)
    a, b = np.sqrt(effective), np.sqrt(k)
    return float(lowest + _FLUCTUATION * (a + b) * (1 / a + 1 / b) ** (1 / 3) / effective)
