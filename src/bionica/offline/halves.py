"""Agreement between halves of the samples: how far a fit moves if it learns from other samples.

The rows of X are split into two halves, at random (chance) or into the first and the second half (change in time), and each half is
fitted by itself. Their spectra a_i and b_i (columns of the mixing matrices) are matched, and

    angle_i = arccos(|a_i' b_i| / (|a_i| |b_i|))                                                                          (1)

is small for sources that the data determine. Half of the samples double the variance. So the difference of two halves has four
times the variance of the fit to all samples; a bias that falls as 1/n is what the mean of the halves differs from that fit:

    error^2 = <(h1 - h2)^2> / 4 + <((h1 + h2)/2 - full)^2>                                                                (2)

With few samples, halves are too small to fit. Then one group of samples of `_GROUPS` is left out at a time (jackknife):

    error^2 = (g - 1)/g sum_j (h_j - full)^2                                                                              (3)

Nothing here knows an estimator: `fit` maps rows (n, k) to components (d, k) and a mixing matrix (k, d).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Array = npt.NDArray[Any]

_GROUPS = 6
_SAMPLES_PER_SOURCE = 50  # in each half; with fewer, halves are fitted far worse than all samples


class Uncertainty(NamedTuple):
    """How far sources and spectra move if they are learned from other samples.

    Attributes
    ----------
    correlation : ndarray of shape (n_components,)
        Of each output between two halves, on all samples.
    angle : ndarray of shape (n_components,)
        Between the spectra of two halves, in degrees.
    sources : ndarray of shape (n_components,)
        Standard error of each output, in its unit: of the fit, and of the noise or model error that passes it; where X is
        nonnegative and no sample decides, also of what nonnegativity leaves open.
    mixing : ndarray of shape (n_features, n_components)
        Standard error of each channel of the spectra.
    share : ndarray of shape (n_components,)
        Of the variance of each output, that the error of the fit has.
    split : str
        "random" halves, or "jackknife" for few samples.
    contiguous : ndarray of shape (n_components,)
        `correlation` between the first and the second half of the samples; that of random halves with the jackknife.
    """

    correlation: Array
    angle: Array
    sources: Array
    mixing: Array
    share: Array
    split: str
    contiguous: Array


def match(A: Array, B: Array) -> tuple[Array, Array]:
    """Match the columns of B to those of A by the sum of |cosine|: their order, and the angle of each pair in degrees."""
    with np.errstate(all="ignore"):
        unit = [np.nan_to_num(M / np.linalg.norm(M, axis=0)) for M in (A, B)]
    cosine = np.minimum(np.abs(unit[0].T @ unit[1]), 1.0)
    rows, order = linear_sum_assignment(-cosine)
    return order, np.degrees(np.arccos(cosine[rows, order]))


def splits(n: int, n_splits: int, rng: np.random.RandomState) -> list[tuple[Array, Array]]:
    """Random halves of n rows, each in the order of the rows."""
    orders = [rng.permutation(n) for _ in range(n_splits)]
    return [(np.sort(order[: n // 2]), np.sort(order[n // 2 :])) for order in orders]


def uncertainty(
    X: Array, W: Array, A: Array, fit: Callable[[Array], tuple[Array, Array]], noise: Array, *, n_splits: int = 2
) -> Uncertainty:
    """How far components W (d, k) and mixing A (k, d), fitted to X, move. `noise` (d,) is the variance of that of the outputs.

    `fit` returns the components and the mixing matrix of some rows of X.
    """
    n, d = len(X), len(W)
    rng = np.random.RandomState(0)
    Y = np.maximum(X @ W.T, 0)
    variance, size = np.maximum(Y.var(axis=0), 1e-300), np.sqrt(np.sum(Y**2, axis=0))

    def refit(rows: Any) -> tuple[Array, Array]:
        """Outputs and spectra of a fit to some rows, in the order and the scale of the fit to all."""
        V, B = fit(X[rows])
        order = match(A, B)[0]
        Z = np.maximum(X @ V[order].T, 0)
        scale = size / np.maximum(np.linalg.norm(Z, axis=0), 1e-150)
        return Z * scale, B[:, order] / np.maximum(scale, 1e-300)

    if n < 2 * _SAMPLES_PER_SOURCE * d:
        groups = np.array_split(rng.permutation(n), _GROUPS)
        refits = [refit(np.sort(np.concatenate(groups[:j] + groups[j + 1 :]))) for j in range(_GROUPS)]
        spread = [
            (_GROUPS - 1) / _GROUPS * np.sum([(one[part] - whole) ** 2 for one in refits], axis=0)
            for part, whole in enumerate((Y, A))
        ]
        share = spread[0].mean(axis=0) / variance
        correlation = contiguous = np.maximum(1 - 2 * share, -1.0)
        angle = np.degrees(np.arctan(2 * np.sqrt(spread[1].sum(axis=0)) / np.linalg.norm(A, axis=0)))
    else:
        pairs = [(refit(first), refit(second)) for first, second in splits(n, n_splits, rng)]
        spread = [
            np.mean([(h[part] - g[part]) ** 2 / 4 + ((h[part] + g[part]) / 2 - whole) ** 2 for h, g in pairs], axis=0)
            for part, whole in enumerate((Y, A))
        ]
        share = spread[0].mean(axis=0) / variance
        correlation = np.mean([_correlations(h[0], g[0]) for h, g in pairs], axis=0)
        angle = np.mean([match(h[1], g[1])[1] for h, g in pairs], axis=0)
        contiguous = _correlations(refit(slice(0, n // 2))[0], refit(slice(n // 2, n))[0])
    split = "jackknife" if n < 2 * _SAMPLES_PER_SOURCE * d else "random"
    error = np.sqrt(share * variance + noise)
    return Uncertainty(correlation, angle, error, np.sqrt(spread[1]), share, split, contiguous)


def _correlations(Y: Array, Z: Array) -> Array:
    Y, Z = Y - Y.mean(axis=0), Z - Z.mean(axis=0)
    return np.asarray(np.sum(Y * Z, axis=0) / np.maximum(np.sqrt(np.sum(Y**2, axis=0) * np.sum(Z**2, axis=0)), 1e-300))
