"""The number of sources: the largest on which two halves of the samples agree.

For q = 2, 3, ... a minimum-volume cone is fitted to two random halves of the samples,
in the q leading directions of all of them. If V and V' are the cones, with outputs of
unit energy, the rows of P = V V'^{-1} say what the sources of one half are in those of
the other, whatever the mixing matrix. P is a permutation if both agree. If one more
source is asked for than there are, it is noise, or a source is cut in two at random: a
row of P has no entry that is much larger than the others. With angle_q the angle
between a row of P and its largest entry, of the worst row, median over splits, and t_q
= tan(angle_q) in [0.01, 4], the number with the largest

    jump_q = sqrt(q) min_p log(t_p / t_q),     p the three numbers after q       (1)

is taken (few sources agree easily), of those with angle_q below 15 degrees, and of the
one that white noise leaves, eq. (2). Numbers whose jump is at least a third of the
largest, with t_q in [0.003, 4], are named as candidates. If halves agree on no number,
the one with the largest jump is taken, and `Count.agreed` is False.

Directions that white noise explains are not tried: of n samples of k mixtures, without
the first q directions, noise of variance v has no direction whose energy exceeds
(Johnstone 2001), with a = sqrt(n - q) and b = sqrt(k - q),

    v [(a + b)^2 + 3 (a + b) (1/a + 1/b)^{1/3}],                                 (2)

and none whose energy is below (2) with -b for b. Beyond these directions, and beyond
the rank of X, the angle is 90 degrees. Real instruments leave more than noise: if there
are more such directions than `most`, their number is tried only if white noise explains
all others; else counting ends after three numbers that do not agree. k sources are
tried too if k is at most `most`, because then no direction is left that could show
noise.

Nothing here knows how a cone is fitted: `cones` maps samples Z (m, q) with noise of a
variance to one or more cones V (q, q), and the ones that agree best count
(`mixtures.cone.count.rough_cones`). If X is nonnegative, spectra B are given too, and
must not be negative.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.linalg import eigh, norm, qr, solve

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, row_sample
from bionica.core.errors import Message
from bionica.mixtures.verdict.findings import CHECKS, Finding, finding
from bionica.mixtures.verdict.halves import is_nonnegative, match
from bionica.mixtures.verdict.measures import ceilings
from bionica.mixtures.verdict.outliers import inliers_of

#: Cones of samples Z and spectra B with noise of this variance.
Cones = Callable[[Array, Array, float], list[Array]]

_MOST = 12  # sources that are tried, if real instruments leave more than noise
_UNSATURATED = 20  # samples without a saturated cell
_SPLITS = 5
# samples: of fewer, two subsets of 65 % that overlap replace halves; also channels of
# spectra
_FEW = 200
_BEYOND = 3  # numbers after q, eq. (1)
_RANGE = 0.01, 4.0  # of tan(angle), eq. (1): beyond it, angles are equally good or bad
# the same for candidates: otherwise two RNA sources whose halves differ by .08 degrees,
# three by 1, are not named
_NAMED = 0.003
_AGREE = 15.0  # degrees: halves agree on a number if the angle is below
_FLUCTUATION = 3.0  # of the largest energy of noise, eq. (2)
_HIDDEN = 3e-3  # of the energy of the last direction: noise if no direction is left out


class Count(NamedTuple):
    """How many sources there are: `n_sources`, other `candidates`, and the angle in
    degrees for each number that was tried.

    `agreed` says whether halves of the samples agree on `n_sources`. Baselines, batches
    and autofluorescence count as sources.
    """

    n_sources: int
    candidates: tuple[int, ...]
    angles: dict[int, float]
    agreed: bool = True


def count_sources(X: Array, cones: Cones) -> Count:
    """Count the sources of the samples X (n, k), finite; a few thousand are enough. In
    white noise, more than 12 are counted.

    Samples with saturated cells are left out: a ceiling bends the mixtures, and would
    be counted as sources.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures.cone.count import rough_cones
    >>> rng = np.random.default_rng(0)
    >>> S, A = rng.exponential(size=(2000, 3)), rng.random((3, 8))
    >>> X = S @ A + 0.01 * rng.standard_normal((2000, 8))
    >>> count_sources(X, rough_cones).n_sources
    3
    """
    with one_blas_thread():
        X = np.asarray(unsaturated(X), float)
        X = inliers_of(X[row_sample(*X.shape)])
        X = X / (np.abs(X).max(initial=0.0) or 1.0)
        n, k = X.shape
        energy, B = _leading_directions(X, 4 * _MOST)
        # The limit of `whitening.rank_of`, for energies that are known: X may have been
        # rounded to float32.
        rounding = k * np.finfo(np.float32).eps ** 2
        rank = int(np.sum(energy > rounding * energy[0]))
        bound, white = _bound(energy, rank, n, k)
        numbers = set(range(2, min(bound, _MOST + 1, n // 4 + 1) + 1))
        others = [bound] if white else []
        if k == rank <= _MOST:
            others.append(k)
        numbers |= {q for q in others if 1 < q <= min(B.shape[1], n // 4)}
        angles = _angles(X, energy, B, sorted(numbers), bound, cones)
    jumps = _jumps(angles, _RANGE[0])
    named = _jumps(angles, _NAMED)
    agreed = [q for q in jumps if angles[q] < _AGREE or (white and q == bound)]
    # white noise explains all but one direction
    if not jumps or (white and bound < 2 and not agreed):
        return Count(1, (), angles)
    best = max(agreed or jumps, key=lambda q: jumps[q])
    least = max(named.values()) / 3
    candidates = tuple(q for q in named if q != best and named[q] > least)
    return Count(best, candidates, angles, bool(agreed))


def unsaturated(X: Array) -> Array:
    """The samples without a saturated cell, which are mixtures as all others would be.

    ValueError if hardly any are.
    """
    saturated = (X == X.max(axis=0)) & (ceilings(X) > CHECKS["ceiling"].limit)
    sound = X[~saturated.any(axis=1)]
    if len(sound) < min(_UNSATURATED, len(X) / 2):
        template = (
            "{} of {} samples have saturated cells, and the others are too few to count"
            " sources: give {n_components}, or {omit:leave these mixtures out}"
        )
        raise ValueError(Message(template, len(X) - len(sound), len(X)))
    return sound


def undecided(count: Count) -> list[Finding]:
    """A number of sources that the data do not decide.

    Baselines, batches and autofluorescence are sources too: only who knows the samples
    can choose.
    """
    if not count.agreed:
        guess = f"halves of the samples agree on none, and {count.n_sources} is a guess"
        return [finding("number", reason=guess)]
    if not count.candidates:
        return []
    others = ", ".join(map(str, count.candidates))
    return [finding("number", reason=f"{count.n_sources}, or {others}")]


def _angles(
    X: Array, energy: Array, B: Array, numbers: list[int], bound: int, cones: Cones
) -> dict[int, float]:
    """The angle between halves for each of the numbers, until too many do not agree; 90
    degrees beyond `bound`.
    """
    n, k = X.shape
    noise = np.sqrt(energy[max(2, min(bound, _MOST)) :].sum() / (n * k))
    walled = is_nonnegative(X, np.full(k, noise))
    rng = np.random.RandomState(0)
    size = n // 2 if n >= _FEW else 13 * n // 20
    orders = [rng.permutation(n) for _ in range(_SPLITS)]
    angles = {}
    for q in numbers:
        variance = _HIDDEN * energy[q - 1] / n
        if q < k:
            variance = energy[q:].sum() / ((n - q) * (k - q))
        spectra = np.empty((0, q))
        if walled and q < min(k, _MOST + 2):
            spectra = B[row_sample(k, q, most=_FEW), :q]
        Z = X @ B[:, :q]
        apart = []
        for order in orders:
            halves = (order[:size], order[-size:])
            first, second = (cones(Z[half], spectra, variance) for half in halves)
            apart.append(_angle(first, second, np.sqrt(energy[:q])))
        angles[q] = float(np.median(apart))
        last = list(angles.values())[-_BEYOND:]
        if bound not in numbers and q > _BEYOND and min(last) > _AGREE:
            break
    for q in [q for q in (bound, k) if q in angles]:
        angles.setdefault(q + 1, 90.0)
    return angles


def _jumps(angles: dict[int, float], least: float) -> dict[int, float]:
    """Eq. (1) for each number but the last, where no tangent is below `least`."""
    tried = sorted(angles)
    t = np.clip(np.tan(np.radians([angles[q] for q in tried])), least, _RANGE[1])
    return {
        q: float(np.sqrt(q) * np.log(t[i : i + _BEYOND].min() / t[i - 1]))
        for i, q in enumerate(tried[:-1], 1)
    }


def _angle(first: list[Array], second: list[Array], scale: Array) -> float:
    """The angle between a row of P and its largest entry, of the worst row and of the
    best pair of cones; `scale` is that of Z.
    """
    angles = [90.0]
    for pair in zip(first, second, strict=False):
        V, W = (M / norm(M * scale, axis=1, keepdims=True) for M in pair)
        angle = match(solve(W.T, V.T), np.eye(len(V)))[1]
        angles.append(angle.max())
    return min(angles)


def _leading_directions(X: Array, most: int) -> tuple[Array, Array]:
    """The energy of all directions of X (n, k), mean included, and the leading ones (k,
    `most`).
    """
    n, k = X.shape
    values, vectors = eigh(X @ X.T if k > n else X.T @ X)
    vectors = vectors[:, : -most - 1 : -1]
    if k > n:
        vectors = qr(X.T @ vectors)[0]
    return np.maximum(values[::-1], 0), vectors


def _bound(energy: Array, rank: int, n: int, k: int) -> tuple[int, bool]:
    """How many directions exceed white noise, eq. (2); if it explains all others."""

    def edge(q: int, sign: int) -> float:
        a = np.sqrt(n - q)
        b = sign * np.sqrt(k - q)
        spread = (a + b) ** 2 + _FLUCTUATION * (a + b) * np.cbrt(1 / a + 1 / b)
        return energy[q:].sum() / ((n - q) * (k - q)) * spread

    bound = max((q + 1 for q in range(rank - 1) if energy[q] > edge(q, 1)), default=0)
    if bound > rank - 2:  # a single direction always looks like noise
        return rank, rank < k
    return bound, bool(energy[-1] >= edge(bound, -1))
