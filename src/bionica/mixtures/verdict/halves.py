"""Agreement between halves of the samples: how far a fit moves if it learns from other
samples.

Half of the samples double the variance of what is fitted, and a bias that falls as 1/n.
So, with the fits h to halves,

    error^2 = <(h - full)^2>.                                                    (1)

Halves are random (chance), two pairs, or the first and the second half (change in
time). For outputs and angles, the median of all replaces the average, because a refit
may start where it does not settle. If the mixing changes in time, neither the first nor
the second half gives the fit to all; of a source that is absent from one half, the
other still does. Spectra a_i and b_i are matched by

    angle_i = arccos(|a_i' b_i| / (|a_i| |b_i|)),                                (2)

and b_i is scaled to a_i by least squares.

Random halves of samples that follow a smooth curve (a reaction, a chromatogram) are the
same curve. They agree also on what is wrong. Roughness counts the independent samples
(`follows_curve`).

Nothing here knows an estimator: `fit` maps rows (n, k) to components (d, k) and a
mixing matrix (k, d).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.linalg import norm, svd
from scipy.optimize import linear_sum_assignment

from bionica.core.blocks import Array, row_sample

#: Components (d, k) and mixing matrix (k, d) that are learned from rows (n, k).
Refit = Callable[[Array], tuple[Array, Array]]

_ROWS_PER_SOURCE = 100  # of a curve


class Uncertainty(NamedTuple):
    """How far sources and spectra move if they are learned from other samples.

    Attributes
    ----------
    correlation : ndarray of shape (n_components,)
        Of each output between two halves of the samples, on all samples.
    angle : ndarray of shape (n_components,)
        Between the spectra of the fit and of fits to halves, in degrees.
    sources : ndarray of shape (n_components,)
        Standard error of each output, in its standard deviations, 1 at most: of the
        fit, of the noise or model error that passes it, of other outputs that are
        subtracted from it, and, if the samples follow a curve, of what nonnegativity
        leaves open.
    mixing : ndarray of shape (n_features, n_components)
        Standard error of each channel of the spectra, by chance alone:
        `Diagnosis.band_` has what nonnegativity leaves open.
    share : ndarray of shape (n_components,)
        Of the variance of each output, that the error of the fit has.
    change : float
        The same for the worst output, of a fit to the first or second half of the
        samples, the nearer one, beyond random halves.
    """

    correlation: Array
    angle: Array
    sources: Array
    mixing: Array
    share: Array
    change: float

    def table(self, names: Sequence[str]) -> list[tuple[str, str, str, str]]:
        """A row of headings, and one of text for each output, with its name."""
        headings = (
            "output",
            "correlation of halves",
            "angle, degrees",
            "standard error",
        )
        numbers = zip(names, self.correlation, self.angle, self.sources, strict=True)
        return [headings] + [
            (name, f"{r:.3f}", f"{angle:.1f}", f"{error:.1%}")
            for name, r, angle, error in numbers
        ]

    def __repr__(self) -> str:
        names = [str(i) for i in range(len(self.share))]
        return "\n".join(map("  ".join, self.table(names)))


def match(A: Array, B: Array) -> tuple[Array, Array]:
    """Match the columns of B to those of A by the sum of |cosine|: their order, and the
    angle of each pair in degrees, eq. (2).
    """
    with np.errstate(all="ignore"):
        unit = [np.nan_to_num(M / norm(M, axis=0)) for M in (A, B)]
    cosine = np.minimum(np.abs(unit[0].T @ unit[1]), 1.0)
    rows, order = linear_sum_assignment(-cosine)
    return order, np.degrees(np.arccos(cosine[rows, order]))


def roughness(X: Array) -> float:
    """Energy of the differences of neighbouring rows over that of independent rows: 1
    if their order means nothing.
    """
    differences = 0.5 * np.sum(np.diff(X, axis=0) ** 2)
    if len(X) < 3 or differences <= 0:  # all rows are equal
        return 1.0
    return differences / np.sum((X - X.mean(axis=0)) ** 2)


def is_nonnegative(X: Array, noise: Array) -> bool:
    """Whether noise explains all that is negative in X (n, k): Gaussian noise around
    zero has half its variance below.

    `noise` (q,) is its standard deviation in each channel, which is the same for all
    mixtures if there are more of them.
    """
    return noise_explains(
        X.min(), X.max(), np.mean(np.minimum(X, 0) ** 2, axis=0), noise
    )


def noise_explains(least: float, most: float, negative: Array, noise: Array) -> bool:
    """`is_nonnegative` of X with this smallest and largest entry, and these averages of
    min(x, 0)^2 (k,).
    """
    rounding = least >= -1e-12 * most
    if rounding or not noise.any():
        return rounding
    largest = noise.max()
    if len(noise) != len(negative):
        noise = largest
    return bool(np.mean(negative / np.maximum(noise, 1e-8 * largest) ** 2) <= 0.5)


def follows_curve(X: Array, d: int, *, most: float = np.inf) -> bool:
    """Whether the rows follow a smooth curve: of a sample of rows that is large enough
    for halves, fewer than d are independent.

    The noise of the directions left out says nothing about the curve. It must also be
    shorter than `most` lengths of correlation, one of which is roughness^(-1/2) rows: a
    longer one touches everything.
    """
    rows = X[row_sample(*X.shape, most=_ROWS_PER_SOURCE * d)]
    U, sigma, _ = svd(rows, full_matrices=False)
    rough = roughness(U[:, :d] * sigma[:d])
    return len(rows) * rough < d and len(rows) * np.sqrt(rough) < most


def uncertainty(X: Array, W: Array, A: Array, fit: Refit, known: Array) -> Uncertainty:
    """How far components W (d, k) and mixing A (k, d), fitted to X, move.

    `known` (d,) is the variance of errors of the outputs that halves have in common,
    such as noise.
    """
    Y = np.maximum(X @ W.T, 0)
    variance = np.maximum(Y.var(axis=0), 1e-300)
    size = norm(Y, axis=0)
    shares = []
    spectra = []
    angles = []
    rng = np.random.RandomState(0)
    for order in (rng.permutation(len(X)), rng.permutation(len(X)), np.arange(len(X))):
        for half in np.array_split(order, 2):
            V, B = fit(X[np.sort(half)])
            columns, angle = match(A, B)
            B = B[:, columns]
            B = B * np.nan_to_num(np.sum(A * B, axis=0) / np.sum(B**2, axis=0))
            Z = np.maximum(X @ V[columns].T, 0)
            Z = Z * (size / np.maximum(norm(Z, axis=0), 1e-150))
            shares.append(np.mean((Z - Y) ** 2, axis=0) / variance)
            spectra.append((B - A) ** 2)
            angles.append(angle**2)
    share = np.fmin(np.median(shares, axis=0), 1.0)  # 1 if a refit overflows too
    by_chance = np.fmin(np.median(shares[:-2], axis=0), 1.0).max()
    in_time = np.fmin(np.max(shares[-2:], axis=1), 1.0).min()
    return Uncertainty(
        correlation=1 - 2 * share,
        angle=np.sqrt(np.median(angles, axis=0)),
        sources=np.sqrt(np.fmin(share + known / variance, 1.0)),
        mixing=np.sqrt(np.mean(spectra[:-2], axis=0)),
        share=share,
        change=float(in_time - by_chance),
    )
