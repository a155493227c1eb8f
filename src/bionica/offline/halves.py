"""Agreement between halves of the samples: how far a fit moves if it learns from other samples.

The rows of X are split into two halves, at random (chance) or into the first and the second half (change in time), and each half is
fitted by itself. Their spectra a_i and b_i (columns of the mixing matrices) are matched, and

    angle_i = arccos(|a_i' b_i| / (|a_i| |b_i|))                                                                          (1)

is small for sources that the data determine. Half of the samples double the variance. So the difference of two halves has four
times the variance of the fit to all samples; a bias that falls as 1/n is what the mean of the halves differs from that fit:

    error^2 = <(h1 - h2)^2> / 4 + <((h1 + h2)/2 - full)^2>                                                                (2)

With few samples, halves are too small to fit. Then one group of samples of `_GROUPS` is left out at a time (jackknife):

    error^2 = (g - 1)/g sum_j (h_j - full)^2                                                                              (3)

Nothing here knows an estimator: `fit` maps rows (n, k) to a mixing matrix (k, d), or to a pair of components (d, k) and mixing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Array = npt.NDArray[Any]

_GROUPS = 6
_SAMPLES_PER_SOURCE = (
    10  # in each half; with fewer, halves are fitted far worse than all samples, and the jackknife is used
)


class Uncertainty(NamedTuple):
    """How far sources and spectra move if they are learned from other samples.

    Attributes
    ----------
    correlation : ndarray of shape (n_components,)
        Of each output between two halves, on all samples.
    angle : ndarray of shape (n_components,)
        Between the spectra of two halves, in degrees.
    sources : ndarray of shape (n_components,)
        Standard error of each output, in its unit: of the fit, and of the noise that passes it.
    mixing : ndarray of shape (n_features, n_components)
        Standard error of each channel of the spectra.
    split : str
        "random" halves, or "jackknife" for few samples.
    contiguous : ndarray of shape (n_components,)
        `correlation` between the first and the second half of the samples; that of random halves with the jackknife.
    """

    correlation: Array
    angle: Array
    sources: Array
    mixing: Array
    split: str
    contiguous: Array


def match(A: Array, B: Array) -> tuple[Array, Array]:
    """Match the columns of B to those of A by the sum of |cosine|: their order, and the angle of each pair in degrees."""
    cosine = _cosines(A, B)
    rows, order = linear_sum_assignment(-cosine)
    return order, np.degrees(np.arccos(cosine[rows, order]))


def _cosines(A: Array, B: Array) -> Array:
    """|cosine| of each column of A with each of B."""
    with np.errstate(all="ignore"):
        unit = [np.nan_to_num(M / np.linalg.norm(M, axis=0)) for M in (A, B)]
    return np.asarray(np.minimum(np.abs(unit[0].T @ unit[1]), 1.0))


def splits(n: int, n_splits: int, rng: np.random.RandomState) -> list[tuple[Array, Array]]:
    """Random halves of n rows, each in the order of the rows."""
    found = []
    for _ in range(n_splits):
        order = rng.permutation(n)
        found.append((np.sort(order[: n // 2]), np.sort(order[n // 2 :])))
    return found


def agreement(X: Array, fit: Callable[[Array], Array], *, n_splits: int = 2, seed: int = 0) -> float:
    """The worst angle (1) between the spectra of two random halves, the median over the splits; 90 where a fit fails."""
    angles = []
    for halves in splits(len(X), n_splits, np.random.RandomState(seed)):
        try:
            angles.append(float(match(*(fit(X[rows]) for rows in halves))[1].max()))
        except (ValueError, ArithmeticError, np.linalg.LinAlgError):
            angles.append(90.0)
    return float(np.median(angles))


def uncertainty(
    X: Array,
    W: Array,
    A: Array,
    fit: Callable[[Array], tuple[Array, Array]],
    noise: Array,
    *,
    n_splits: int = 2,
    seed: int = 0,
) -> Uncertainty:
    """How far components W (d, k) and mixing A (k, d), fitted to X, move. `noise` (d,) is the variance of that of the outputs.

    `fit` returns the components and the mixing matrix of some rows of X.
    """
    n, d = len(X), len(W)
    rng = np.random.RandomState(seed)
    full = _Outputs(X, W, A)
    if n < 2 * _SAMPLES_PER_SOURCE * d:
        groups = np.array_split(rng.permutation(n), _GROUPS)
        refits = [full.matched(*fit(X[np.sort(np.concatenate(groups[:j] + groups[j + 1 :]))])) for j in range(_GROUPS)]
        spread = [
            (_GROUPS - 1) / _GROUPS * np.sum([(one[part] - whole) ** 2 for one in refits], axis=0)
            for part, whole in enumerate((full.Y, full.A))
        ]
        energy = np.mean(spread[0], axis=0)
        correlation = np.maximum(1 - 2 * energy / np.maximum(full.Y.var(axis=0), 1e-300), -1.0)
        angle = np.degrees(np.arctan(2 * np.sqrt(spread[1].sum(axis=0)) / np.linalg.norm(full.A, axis=0)))
        return Uncertainty(correlation, angle, np.sqrt(energy + noise), np.sqrt(spread[1]), "jackknife", correlation)
    pairs = [[full.matched(*fit(X[rows])) for rows in halves] for halves in splits(n, n_splits, rng)]
    first = [full.matched(*fit(X[rows])) for rows in (slice(0, n // 2), slice(n // 2, n))]
    spread = []
    for part, whole in enumerate((full.Y, full.A)):
        spread.append(
            np.mean([(h[part] - g[part]) ** 2 / 4 + ((h[part] + g[part]) / 2 - whole) ** 2 for h, g in pairs], axis=0)
        )
    return Uncertainty(
        correlation=np.mean([_correlations(h[0], g[0]) for h, g in pairs], axis=0),
        angle=np.mean([np.degrees(np.arccos(np.diag(_cosines(h[1], g[1])))) for h, g in pairs], axis=0),
        sources=np.sqrt(spread[0].mean(axis=0) + noise),
        mixing=np.sqrt(spread[1]),
        split="random",
        contiguous=_correlations(first[0][0], first[1][0]),
    )


class _Outputs:
    """Outputs and spectra of the fit to all samples, and those of another fit in the same order and scale."""

    def __init__(self, X: Array, W: Array, A: Array) -> None:
        self.X, self.Y, self.A = X, np.maximum(X @ W.T, 0), A

    def matched(self, W: Array, A: Array) -> tuple[Array, Array]:
        order = match(self.A, A)[0]
        Y = np.maximum(self.X @ W[order].T, 0)
        energy = np.maximum(np.sum(Y**2, axis=0), 1e-300)
        scale = np.sqrt(np.sum(self.Y**2, axis=0) / energy)
        return Y * scale, A[:, order] / np.maximum(scale, 1e-300)


def _correlations(Y: Array, Z: Array) -> Array:
    Y, Z = Y - Y.mean(axis=0), Z - Z.mean(axis=0)
    return np.asarray(np.sum(Y * Z, axis=0) / np.maximum(np.sqrt(np.sum(Y**2, axis=0) * np.sum(Z**2, axis=0)), 1e-300))
