"""Fewer samples than features: coordinates in the space of the rows, and noncentered whitening from the (n, n) Gram matrix
instead of the (k, k) covariance.

With X_c = X - <x> (n x k) and X_c X_c' = U L U', the rows of U_d' X_c, made orthonormal, span the leading eigenvectors of the
covariance. The d x d covariance of X_c along them gives the eigenvectors and the variances again, with the digits that squaring
lost in L. X is read in tiles of columns; no copy of it is made.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from .whitening import Whitening, positive_signs

Array = npt.NDArray[Any]

_TILE_BYTES = 1 << 24


def wider_than_long(X: Array) -> bool:
    """Whether X is whitened here: 1000 features or more, and fewer samples than features."""
    return bool(X.shape[1] >= 1000 and X.shape[1] > X.shape[0])


def whiten_rows(X: Array, n_components: int | None = None) -> Whitening:
    """F = Lambda^{-1/2} U' on the leading eigenvectors of the covariance of X, as `whitening` computes it.

    X is finite, float32 or float64, of any strides. By default all directions that are not numerically empty are kept.
    """
    n, k = X.shape
    scale = largest(X)
    products, power = np.zeros((n, n)), 0.0
    for _, x, mean in _centred_tiles(X, scale):
        products += x @ x.T
        power += float(np.vdot(x, x)) + n * float(mean @ mean)
    lam, U = np.linalg.eigh(products)
    lam, U = lam[::-1], U[:, ::-1]
    # A direction below what rounding of the data and of the sums can produce is empty.
    floor = 4 * n * np.finfo(np.float64).eps * max(lam[0], 0.0) + np.finfo(X.dtype).eps ** 2 * power
    rank = int(np.sum(lam > floor))
    d = rank if n_components is None else min(n_components, rank)
    if not rank:
        return Whitening(np.empty((0, k)), np.empty((k, 0)), np.empty(0), 0, np.inf)

    basis = np.empty((k, d))
    for columns, x, _ in _centred_tiles(X, scale):
        basis[columns] = x.T @ U[:, :d]
    basis = np.linalg.qr(basis)[0]
    along = np.zeros((n, d))
    for columns, x, _ in _centred_tiles(X, scale):
        along += x @ basis[columns]
    variance, R = np.linalg.eigh(along.T @ along / n)
    variance, R = variance[::-1], R[:, ::-1]
    basis = basis @ R
    basis *= positive_signs(basis)
    deviation = np.sqrt(variance)
    F = np.ascontiguousarray(basis.T)
    F /= (deviation * scale)[:, np.newaxis]
    basis *= deviation * scale
    eigenvalues = lam[:rank] / n
    eigenvalues[:d] = variance
    eigenvalues *= scale * scale
    return Whitening(F, basis, eigenvalues, rank, float(lam[0] / lam[rank - 1]))


def row_space(X: Array) -> tuple[Array, Array]:
    """Return C (n, r) and an orthonormal basis Q (k, r) with X = C Q' and r = min(n, k), in float64.

    Inner products of rows, and so their covariance along any direction of the rows, are those of the rows of C.
    """
    Q, R = np.linalg.qr(X.T.astype(np.float64))
    return np.ascontiguousarray(R.T), Q


def largest(X: Array) -> float:
    """Largest absolute value, or 1 if all are 0. Divided by it, squares neither overflow nor underflow."""
    return max(float(X.max()), -float(X.min())) or 1.0


def _centred_tiles(X: Array, scale: float) -> Iterator[tuple[slice, Array, Array]]:
    """Yield tiles of columns: their slice, the centred tile over `scale` in float64, and its mean."""
    n, k = X.shape
    step = max(1, _TILE_BYTES // (8 * n))
    for start in range(0, k, step):
        columns = slice(start, min(start + step, k))
        x = X[:, columns].astype(np.float64)
        x /= scale
        mean = x.mean(axis=0)
        x -= mean
        yield columns, x, mean
