"""Noncentered whitening (unit covariance, mean left in), leading directions, numerical
rank.

Nonnegative ICA needs outputs z = F x whose covariance is the identity and whose mean is
not removed (section 2.1 of the paper, after Plumbley 2003). Without the mean,
"nonnegative" has no meaning.

    C_xx = <(x - <x>)(x - <x>)'> = U Lambda U',   F = Lambda_d^{-1/2} U_d',   z = F x

Averages divide by the number of samples T, as in the paper, not by T - 1.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg

from bionica.core.blocks import (
    WIDE,
    Array,
    ChunkedRows,
    Moments,
    largest,
    moments,
    row_sample,
)


class Whitening(NamedTuple):
    """F, its right inverse, and the spectrum that they come from.

    `matrix` is F (d, k), and `inverse` is U_d Lambda_d^{1/2} (k, d). `eigenvalues` are
    those of C_xx that count as nonzero, largest first, and `rank` is their number.
    `condition` is that of the correlation matrix without its empty directions: F is
    accurate to about `condition` times 2e-16.
    """

    matrix: Array
    inverse: Array
    eigenvalues: Array
    rank: int
    condition: float


def whitening(
    m: Moments,
    n_components: int | None = None,
    *,
    precision: npt.DTypeLike = np.float64,
    one_unit: bool = False,
) -> Whitening:
    """F = Lambda^{-1/2} U' on the `n_components` leading eigenvectors of the
    covariance, by default all that are not empty.

    If `n_components` exceeds the rank, the result has `rank` rows, which the caller has
    to report. A direction is empty if rounding of the data (of the dtype `precision`)
    and of the sums can produce its variance, with every feature scaled to unit
    variance.

    The rank is that of the correlation matrix K (C_xx = D K D, D the standard
    deviations), so that it does not depend on the units of the features. With K = V M
    V', the matrix L = D V M^{1/2} = U Lambda^{1/2} W' has C_xx = L L', so that both
    Lambda^{-1/2} U' and W' M^{-1/2} V' D^{-1} whiten. The second has the same rows if
    the rank is full. It stays accurate if the scales of the features differ by many
    orders of magnitude, and is used if the first is off by more than 1e-12. `one_unit`:
    the features are coordinates in another basis, which share one unit and one rounding
    error.
    """
    k = len(m.mean)
    covariance = m.covariance
    variance = np.diag(covariance)
    power = variance + m.mean**2
    if one_unit:
        variance = np.full(k, variance.sum())
        power = np.full(k, k * power.sum())
    rounding = np.finfo(precision).eps ** 2 * power
    alive = variance > 16 * rounding  # otherwise the feature is constant up to rounding
    scale = np.sqrt(variance[alive])
    M, V = np.linalg.eigh(covariance[np.ix_(alive, alive)] / scale / scale[:, None])
    share = (rounding[alive] / variance[alive]).max(initial=0)
    keep = M > k * (4 * np.finfo(np.float64).eps + share) * M.max(initial=0)
    M = M[keep]
    V = V[:, keep]
    rank = len(M)
    L = np.zeros((k, rank))
    L[alive] = scale[:, None] * V * np.sqrt(M)
    U, sigma, Wt = np.linalg.svd(L, full_matrices=False)
    signs = positive_signs(U)
    U = U * signs
    Wt = Wt * signs[:, None]
    d = rank if n_components is None else min(n_components, rank)
    inverse = L @ Wt[:d].T
    F = U[:, :d].T / sigma[:d, None]
    if np.abs(F @ inverse - np.eye(d)).max(initial=0) > 1e-12:
        F = np.zeros((d, k))
        F[:, alive] = (Wt[:d] / np.sqrt(M)) @ V.T / scale
    condition = float(M[-1] / M[0]) if rank else np.inf
    # C order, which a loaded model has: products have the same bits.
    return Whitening(
        np.ascontiguousarray(F),
        np.ascontiguousarray(inverse),
        sigma**2,
        rank,
        condition,
    )


def positive_signs(U: Array) -> Array:
    """Signs that make the largest entry of each column positive: the first within 1e-6,
    so that rounding does not choose.
    """
    size = np.abs(U)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0)


def refine(X: Array | ChunkedRows, white: Whitening) -> Whitening:
    """Whiten F x once more, if the conditioning of X has cost more than four digits.

    A covariance squares the condition number of the data. The second whitening is of
    nearly white data; together the two are as accurate as a QR decomposition of X (the
    idea of Cholesky-QR2).
    """
    if white.condition < 1e4 or not white.rank:
        return white
    d = len(white.matrix)
    w, U = np.linalg.eigh(moments(X, white.matrix).covariance)
    half = np.sqrt(w)
    eigenvalues = white.eigenvalues.copy()
    inverse = white.inverse @ (U * half) @ U.T
    eigenvalues[:d] = np.sum(inverse**2, axis=0)
    return white._replace(
        matrix=(U / half) @ U.T @ white.matrix, inverse=inverse, eigenvalues=eigenvalues
    )


def wider_than_long(X: Array) -> bool:
    """Whether the covariance of X is best computed in the space of its rows: many
    features, and fewer samples.
    """
    return X.shape[1] >= WIDE and X.shape[1] > X.shape[0]


def row_space(X: Array) -> tuple[Array, Array]:
    """Return C (n, r) and an orthonormal basis Q (k, r) with X = C Q' and r = min(n,
    k), in float64.

    Inner products of rows, and so their covariance along any direction of the rows, are
    those of the rows of C.
    """
    Q, R = linalg.qr(X.T.astype(np.float64), mode="economic", overwrite_a=True)
    return np.ascontiguousarray(R.T), Q


def leading(
    X: Array, n_components: int | None = None, *, centred: bool = True
) -> Whitening:
    """The whitening of an array of any shape on its leading directions; no covariance
    of the features if it is wide.

    If not `centred`, it is that of the second moment <x x'>, in which the mean is a
    direction like others.
    """
    C, Q = row_space(X) if wider_than_long(X) else (X, None)
    m = moments(C)
    if not centred:
        m = Moments(m.n, np.zeros_like(m.mean), m.n * m.second)
    white = whitening(m, n_components, precision=X.dtype, one_unit=Q is not None)
    if Q is None:
        return white
    inverse = Q @ white.inverse
    signs = positive_signs(inverse)
    return white._replace(
        matrix=signs[:, None] * (white.matrix @ Q.T), inverse=inverse * signs
    )


def rank_of(X: Array, *, centred: bool = True) -> int:
    """Number of directions of the rows of X that rounding of its dtype cannot explain;
    of some rows if X is wide.

    Cones are not centred: sources that sum to one have a singular covariance, but not a
    singular second moment.
    """
    rows = (
        X
        if X.shape[1] <= WIDE
        else X[row_sample(*X.shape, most=2 * WIDE, numbers=1 << 24)]
    )
    return leading(rows / rows.dtype.type(largest(rows)), centred=centred).rank
