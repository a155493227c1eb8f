"""Agreement between halves of the samples: how far a fit moves if it learns from other samples.

The rows of X are split into g groups, and what is left without one of them is fitted by itself (jackknife):

    error^2 = (g - 1)/g sum_j (h_j - full)^2                                                                              (1)

With two groups these are halves, h and h', and (1) is (h - h')^2 / 4, because half of the samples double the variance, and the
square of (h + h')/2 - full, a bias that falls as 1/n. With few samples, halves are too small to fit, and more groups are taken.
Groups are random (chance), or the first and the second half (change in time). Spectra a_i and b_i of two fits are matched by

    angle_i = arccos(|a_i' b_i| / (|a_i| |b_i|)).                                                                         (2)

Random halves of samples that follow a smooth curve (a reaction, a chromatogram) are the same curve. They agree also on what is
wrong. Roughness counts the independent samples (`follows_curve`).

Nothing here knows an estimator: `fit` maps rows (n, k) to components (d, k) and a mixing matrix (k, d).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

Array = npt.NDArray[Any]

_GROUPS = 6  # of few samples
_SAMPLES_PER_SOURCE = 50  # in each half; with fewer, halves are fitted far worse than all samples


class Uncertainty(NamedTuple):
    """How far sources and spectra move if they are learned from other samples.

    Attributes
    ----------
    correlation : ndarray of shape (n_components,)
        Of each output between two halves of the samples, on all samples: 1 - 2 `share`.
    angle : ndarray of shape (n_components,)
        Between the spectra of two halves, in degrees.
    sources : ndarray of shape (n_components,)
        Standard error of each output, in its standard deviations: of the fit, of the noise or model error that passes it, and, if
        the samples follow a curve, of what nonnegativity leaves open.
    mixing : ndarray of shape (n_features, n_components)
        Standard error of each channel of the spectra.
    share : ndarray of shape (n_components,)
        Of the variance of each output, that the error of the fit has.
    split : str
        "random" halves, or "jackknife" for few samples.
    contiguous : ndarray of shape (n_components,)
        `correlation` between the first and the second half of the samples; that of random groups with the jackknife.
    """

    correlation: Array
    angle: Array
    sources: Array
    mixing: Array
    share: Array
    split: str
    contiguous: Array


def match(A: Array, B: Array) -> tuple[Array, Array]:
    """Match the columns of B to those of A by the sum of |cosine|: their order, and the angle of each pair in degrees, eq. (2)."""
    with np.errstate(all="ignore"):
        unit = [np.nan_to_num(M / np.linalg.norm(M, axis=0)) for M in (A, B)]
    cosine = np.minimum(np.abs(unit[0].T @ unit[1]), 1.0)
    rows, order = linear_sum_assignment(-cosine)
    return order, np.degrees(np.arccos(cosine[rows, order]))


def roughness(X: Array) -> float:
    """Energy of the differences of neighbouring rows over that of independent rows: 1 if their order means nothing."""
    differences = 0.5 * float(np.sum(np.diff(X, axis=0) ** 2))  # 0 if all rows are equal
    return differences / float(np.sum((X - X.mean(axis=0)) ** 2)) if differences > 0 and len(X) > 2 else 1.0


def follows_curve(X: Array, d: int) -> bool:
    """Whether the rows follow a smooth curve: of enough evenly spaced rows for halves, fewer than d are independent."""
    rows = X[:: max(1, len(X) // (2 * _SAMPLES_PER_SOURCE * d))]
    return len(rows) * roughness(rows) < d


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

    def moved(order: Array, n_groups: int) -> tuple[Array, Array]:
        """Squared errors (1) of outputs, on average and over their variance, and of spectra, with groups of rows in this order."""
        groups, shares, spectra = np.array_split(order, n_groups), [], []
        for j in range(n_groups):
            V, B = fit(X[np.sort(np.concatenate(groups[:j] + groups[j + 1 :]))])
            columns = match(A, B)[0]
            Z = np.maximum(X @ V[columns].T, 0)
            scale = size / np.maximum(np.linalg.norm(Z, axis=0), 1e-150)  # that of the fit to all
            shares.append(np.mean((Z * scale - Y) ** 2, axis=0) / variance)
            spectra.append((B[:, columns] / np.maximum(scale, 1e-300) - A) ** 2)
        factor = (n_groups - 1) / n_groups
        return factor * np.sum(shares, axis=0), factor * np.sum(spectra, axis=0)

    few = n < 2 * _SAMPLES_PER_SOURCE * d
    chance = [moved(rng.permutation(n), _GROUPS if few else 2) for _ in range(1 if few else n_splits)]
    share, mixing = (np.mean([one[part] for one in chance], axis=0) for part in (0, 1))
    in_time = share if few else moved(np.arange(n), 2)[0]
    return Uncertainty(
        correlation=np.maximum(1 - 2 * share, -1.0),
        angle=np.degrees(np.arctan(2 * np.sqrt(mixing.sum(axis=0)) / np.maximum(np.linalg.norm(A, axis=0), 1e-300))),
        sources=np.sqrt(share + noise / variance),
        mixing=np.sqrt(mixing),
        share=share,
        split="jackknife" if few else "random",
        contiguous=np.maximum(1 - 2 * in_time, -1.0),
    )
