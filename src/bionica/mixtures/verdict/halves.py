"""Agreement between halves of the samples: how far a fit moves if it learns from other
samples.

Half of the samples double the variance of what is fitted, and a bias that falls as 1/n.
So, with the fits h to halves,

    error^2 = <(h - full)^2>.                                                                                             (1)

Halves are random (chance), two pairs, or the first and the second half (change in
time). For outputs and angles, the median of all replaces the average, because a refit
may start where it does not settle. If the mixing changes in time, neither the first nor
the second half gives the fit to all; of a source that is absent from one half, the
other still does. Spectra a_i and b_i are matched by

    angle_i = arccos(|a_i' b_i| / (|a_i| |b_i|)),                                                                         (2)

and b_i is scaled to a_i by least squares.

Random halves of samples that follow a smooth curve (a reaction, a chromatogram) are the
same curve. They agree also on what is wrong. Roughness counts the independent samples
(`follows_curve`).

Nothing here knows an estimator: `fit` maps rows (n, k) to components (d, k) and a
mixing matrix (k, d).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from bionica.core.blocks import row_sample

Array = npt.NDArray[Any]

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

    def table(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        """A row of text for each output, with its name, and one of headings."""
        numbers = zip(names, self.correlation, self.angle, self.sources, strict=True)
        rows = [
            (name, f"{r:.3f}", f"{angle:.1f}", f"{error:.1%}")
            for name, r, angle, error in numbers
        ]
        return [
            ("output", "correlation of halves", "angle, degrees", "standard error"),
            *rows,
        ]

    def __repr__(self) -> str:
        return "\n".join(
            map("  ".join, self.table(list(map(str, range(len(self.share))))))
        )


def match(A: Array, B: Array) -> tuple[Array, Array]:
    """Match the columns of B to those of A by the sum of |cosine|: their order, and the
    angle of each pair in degrees, eq. (2).
    """
    with np.errstate(all="ignore"):
        unit = [np.nan_to_num(M / np.linalg.norm(M, axis=0)) for M in (A, B)]
    cosine = np.minimum(np.abs(unit[0].T @ unit[1]), 1.0)
    rows, order = linear_sum_assignment(-cosine)
    return order, np.degrees(np.arccos(cosine[rows, order]))


def roughness(X: Array) -> float:
    """Energy of the differences of neighbouring rows over that of independent rows: 1
    if their order means nothing.
    """
    # 0 if all rows are equal
    differences = 0.5 * float(np.sum(np.diff(X, axis=0) ** 2))
    return (
        differences / float(np.sum((X - X.mean(axis=0)) ** 2))
        if differences > 0 and len(X) > 2
        else 1.0
    )


def is_nonnegative(X: Array, noise: Array) -> bool:
    """Whether noise explains all that is negative in X (n, k): Gaussian noise around
    zero has half its variance below.

    `noise` (q,) is its standard deviation in each channel, which is the same for all
    mixtures if there are more of them.
    """
    return noise_explains(
        float(X.min()), float(X.max()), np.mean(np.minimum(X, 0) ** 2, axis=0), noise
    )


def noise_explains(least: float, most: float, negative: Array, noise: Array) -> bool:
    """`is_nonnegative` of X with this smallest and largest entry, and these averages of
    min(x, 0)^2 (k,).
    """
    rounding = least >= -1e-12 * most
    if rounding or not noise.any():
        return rounding
    noise = (
        noise if len(noise) == len(negative) else np.full(len(negative), noise.max())
    )
    return bool(np.mean(negative / np.maximum(noise, 1e-8 * noise.max()) ** 2) <= 0.5)


def follows_curve(X: Array, d: int, *, fills: int | None = None) -> bool:
    """Whether the rows follow a smooth curve: of a sample of rows that is large enough
    for halves, fewer than d are independent.

    The noise of the directions left out says nothing about the curve. With `fills`, it
    must also be shorter than so many lengths of correlation, one of which is
    roughness^(-1/2) rows: a longer one touches everything.
    """
    rows = X[row_sample(*X.shape, most=_ROWS_PER_SOURCE * d)]
    U, sigma, _ = np.linalg.svd(rows, full_matrices=False)
    rough = roughness(U[:, :d] * sigma[:d])
    return len(rows) * rough < d and (
        fills is None or len(rows) * np.sqrt(rough) < fills
    )


def uncertainty(
    X: Array,
    W: Array,
    A: Array,
    fit: Callable[[Array], tuple[Array, Array]],
    known: Array,
) -> Uncertainty:
    """How far components W (d, k) and mixing A (k, d), fitted to X, move.

    `known` (d,) is the variance of errors of the outputs that halves have in common,
    such as noise. `fit` returns the components and the mixing matrix of some rows of X.
    """
    Y = np.maximum(X @ W.T, 0)
    variance = np.maximum(Y.var(axis=0), 1e-300)
    size = np.linalg.norm(Y, axis=0)

    def moved(rows: Array) -> tuple[Array, Array, Array]:
        """Squared errors of outputs (on average, over their variance), of spectra, and
        of their angles, of a fit to some rows.
        """
        V, B = fit(X[np.sort(rows)])
        columns, angles = match(A, B)
        Z = np.maximum(X @ V[columns].T, 0)
        # that of the fit to all
        scale = size / np.maximum(np.linalg.norm(Z, axis=0), 1e-150)
        share = np.mean((Z * scale - Y) ** 2, axis=0) / variance
        B = B[:, columns]
        return (
            share,
            (B * np.nan_to_num(np.sum(A * B, axis=0) / np.sum(B**2, axis=0)) - A) ** 2,
            angles**2,
        )

    rng = np.random.RandomState(0)
    orders = (rng.permutation(len(X)), rng.permutation(len(X)), np.arange(len(X)))
    refits = [moved(rows) for order in orders for rows in np.array_split(order, 2)]
    shares, spectra, angles = (np.array(part) for part in zip(*refits, strict=True))
    share = np.fmin(np.median(shares, axis=0), 1.0)  # 1 if a refit overflows too
    return Uncertainty(
        correlation=1 - 2 * share,
        angle=np.sqrt(np.median(angles, axis=0)),
        sources=np.sqrt(np.fmin(share + known / variance, 1.0)),
        mixing=np.sqrt(np.mean(spectra[:-2], axis=0)),
        share=share,
        change=float(
            np.fmin(shares[-2:].max(axis=1), 1.0).min()
            - np.fmin(np.median(shares[:-2], axis=0), 1.0).max()
        ),
    )
