"""Noncentered whitening: unit covariance with the mean left in, from an array or from a stream.

Nonnegative ICA needs outputs z = F x whose covariance is the identity and whose mean is not removed (section 2.1 of the paper,
after Plumbley 2003). Without the mean, "nonnegative" has no meaning.

    C_xx = <(x - <x>)(x - <x>)'> = U Lambda U',      F = Lambda_d^{-1/2} U_d',      z = F x

Averages divide by the number of samples T, as in the paper, not by T - 1.

Moments are (n, mean, scatter), joined by the pairwise update of Chan, Golub and LeVeque (1983), which stays accurate when the
mean is large compared with the spread. They are float64 for any data, and are computed from blocks of rows without a centred
copy of X.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import linalg

Array = npt.NDArray[Any]
T = TypeVar("T")

_BLOCK_BYTES = 1 << 17  # blocks stay in cache, and BLAS multiplies narrow ones in a single thread


class ChunkedRows(ABC):
    """A matrix whose rows are somewhere else, in blocks; `X[rows]` returns some of them as a NumPy array."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def fold(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Return ``of_block(block, *arguments)`` for every block, joined two by two."""

    @abstractmethod
    def __getitem__(self, rows: slice | Array) -> Array: ...


def fold(X: Array | ChunkedRows, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
    """``of_block(block, *arguments)`` for every block of X, joined two by two; an array is one block."""
    return X.fold(of_block, join, *arguments) if isinstance(X, ChunkedRows) else of_block(X, *arguments)


def row_blocks(n_rows: int, n_columns: int, itemsize: int = 8) -> Iterator[slice]:
    """Slices that cut an array into blocks of rows which fit in cache; square blocks for a very wide array."""
    step = max(64, n_columns, _BLOCK_BYTES // (n_columns * itemsize))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def linear_map(X: Array, matrix: Array, out: Array | None = None) -> Array:
    """X @ matrix.T in the precision of X. Whatever the strides of X, at most one block of rows is copied."""
    right = np.ascontiguousarray(matrix.T, dtype=X.dtype)
    if out is None:
        out = np.empty((X.shape[0], right.shape[1]), dtype=X.dtype)
    for rows in row_blocks(X.shape[0], X.shape[1], X.itemsize):
        np.matmul(X[rows], right, out=out[rows])
    return out


class Moments(NamedTuple):
    """Count, mean and scatter (the sum of centred outer products) of the rows seen so far."""

    n: int
    mean: Array
    scatter: Array

    @property
    def covariance(self) -> Array:
        """C_xx, the scatter over the number of samples."""
        return self.scatter / max(self.n, 1)


class Whitening(NamedTuple):
    """F, its right inverse, and the spectrum that they come from.

    `matrix` is F (d, k). `inverse` is U_d Lambda_d^{1/2} (k, d), so that `matrix @ inverse` is the identity. `eigenvalues` are
    those of C_xx that count as nonzero, largest first, and `rank` is their number. `condition` is the condition number of the
    correlation matrix without its empty directions: F is accurate to about `condition` times 2e-16.
    """

    matrix: Array
    inverse: Array
    eigenvalues: Array
    rank: int
    condition: float


def merge_moments(a: Moments, b: Moments) -> Moments:
    """The moments of two disjoint sets of rows together (Chan, Golub and LeVeque 1983, eq. 2.1)."""
    if not a.n or not b.n:
        return a if a.n else b
    n = a.n + b.n
    delta = b.mean - a.mean
    scatter = a.scatter + b.scatter
    scatter += np.outer(delta, delta * (a.n * (b.n / n)))
    return Moments(n, a.mean + delta * (b.n / n), scatter)


def moments(X: Array | ChunkedRows) -> Moments:
    """Count, mean and scatter of the rows of X, summed in float64; the same to rounding for any chunking of the rows."""
    return fold(X, _moments_of_block, merge_moments)


def _moments_of_block(X: Array, F: Array | None = None) -> Moments:
    """The moments of the rows of X, or of F x."""
    k = X.shape[1] if F is None else len(F)
    total = Moments(0, np.zeros(k), np.zeros((k, k)))
    for rows in row_blocks(*X.shape):
        block = X[rows].astype(np.float64)  # a copy, which is centred in place
        if F is not None:
            block = block @ F.T
        weights = np.full(len(block), 1.0 / len(block))
        mean = weights @ block
        block -= mean
        residual = weights @ block  # the rounding error of the mean, corrected in both moments
        scatter = block.T @ block
        scatter -= np.outer(residual, residual * len(block))
        np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))  # rounding, of a constant column
        total = merge_moments(total, Moments(len(block), mean + residual, scatter))
    return total


def whitening(
    seen: Moments,
    n_components: int | None = None,
    *,
    tol: float | None = None,
    precision: npt.DTypeLike = np.float64,
    R: Array | None = None,
) -> Whitening:
    """F = Lambda^{-1/2} U' on the `n_components` leading eigenvectors of the covariance, by default all that are not empty.

    If `n_components` exceeds the rank, the result has `rank` rows, which the caller has to report. A direction counts as empty
    if its variance is at most `tol` times the largest, with every feature scaled to unit variance; the default is what rounding
    of the data (of the dtype `precision`) and of the sums can produce.

    The rank is that of the correlation matrix K (C_xx = D K D, D the standard deviations), so that it does not depend on the
    units of the features. With K = V M V', the matrix L = D V M^{1/2} = U Lambda^{1/2} W' has C_xx = L L', so that both
    Lambda^{-1/2} U' and W' M^{-1/2} V' D^{-1} whiten. The second has the same rows if the rank is full. It stays accurate if
    the scales of the features differ by many orders of magnitude (12 decades: identity to 1e-13, where an eigendecomposition
    of C_xx is off by 1), and is used if the first is off by more than 1e-12.

    With a factor R of the same data, R'R = seen.scatter (see `factor`), M and V are taken from it: the square of the condition
    number is then not involved.
    """
    covariance = seen.covariance
    variance = np.diag(covariance)
    eps = np.finfo(np.float64).eps
    power = variance + seen.mean**2
    rounding = np.finfo(precision).eps ** 2 * power
    alive = variance > 16 * rounding  # otherwise the feature is constant up to rounding
    scale = np.sqrt(variance[alive])
    if not alive.any():
        M, V = np.empty(0), np.empty((0, 0))
    elif R is None:
        M, V = linalg.eigh(covariance[np.ix_(alive, alive)] / scale / scale[:, None])
    else:
        _, roots, Vt = linalg.svd(R[:, alive] / (scale * np.sqrt(seen.n)))
        M, V = roots**2, Vt.T
    if tol is None:
        noise = rounding[alive] / variance[alive]
        tol = len(seen.mean) * (4 * eps + float(noise.max(initial=0.0)))
    keep = M > tol * M.max(initial=0.0)
    M, V = M[keep], V[:, keep]
    rank = len(M)
    if not rank:
        empty = np.empty((0, len(seen.mean)))
        return Whitening(empty, empty.T.copy(), np.empty(0), 0, np.inf)

    L = np.zeros((len(seen.mean), rank))
    L[alive] = scale[:, None] * V * np.sqrt(M)
    U, sigma, Wt = linalg.svd(L, full_matrices=False)
    signs = positive_signs(U)
    U, Wt = U * signs, Wt * signs[:, None]
    d = rank if n_components is None else min(n_components, rank)
    inverse = L @ Wt[:d].T
    F = U[:, :d].T / sigma[:d, None]
    if np.abs(F @ inverse - np.eye(d)).max() > 1e-12:
        F = np.zeros((d, len(seen.mean)))
        F[:, alive] = (Wt[:d] / np.sqrt(M)) @ V.T / scale
    return Whitening(F, inverse, sigma**2, rank, float(M.max() / M.min()))


def refine(X: Array | ChunkedRows, found: Whitening) -> Whitening:
    """Whiten F x once more, if the conditioning of X has cost more than four digits.

    A covariance squares the condition number of the data. The second whitening is of nearly white data; together the two are
    as accurate as a QR decomposition of X (the idea of Cholesky-QR2).
    """
    if found.condition < 1e4 or not found.rank:
        return found
    F, d = found.matrix, len(found.matrix)
    w, U = linalg.eigh(fold(X, _moments_of_block, merge_moments, F).covariance)
    if not 0.5 < w[0] <= w[-1] < 2.0:  # not rounding: `found` does not belong to X
        raise ValueError(
            f"found does not whiten X: its covariance has eigenvalues from {w[0]:.3g} to {w[-1]:.3g}, not 1"
        )
    half = np.sqrt(w)
    eigenvalues = found.eigenvalues.copy()
    inverse = found.inverse @ (U * half) @ U.T
    eigenvalues[:d] = np.sum(inverse**2, axis=0)
    return found._replace(matrix=(U / half) @ U.T @ F, inverse=inverse, eigenvalues=eigenvalues)


def positive_signs(U: Array) -> Array:
    """Signs that make the largest entry of each column positive: the first within 1e-6, so that rounding does not choose."""
    size = np.abs(U)
    first = np.argmax(size >= (1 - 1e-6) * size.max(axis=0), axis=0)
    return np.where(U[first, np.arange(U.shape[1])] < 0, -1.0, 1.0)


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


class Factor(NamedTuple):
    """Count, mean and factor R (k, k) of the rows seen so far."""

    n: int
    mean: Array
    R: Array

    @property
    def moments(self) -> Moments:
        """Count, mean and scatter."""
        return Moments(self.n, self.mean, self.R.T @ self.R)


class FactorStream(NamedTuple):
    """A factor of all rows but the last few, and these: a decomposition for every row would take k^3 operations each."""

    done: Factor
    rows: Array


def factor(X: Array | ChunkedRows) -> Factor:
    """Count, mean and factor of the rows of X, in float64."""
    return fold(X, _factor_of_block, merge_factors)


def is_short(X: Array) -> bool:
    """Whether rows are kept until there are more of them."""
    return bool(len(X) < 2 * X.shape[1])


def new_stream(k: int) -> FactorStream:
    """A stream of rows of length k that has not begun."""
    return FactorStream(Factor(0, np.zeros(k), np.zeros((k, k))), np.empty((0, k)))


def add_rows(stream: FactorStream, X: Array) -> FactorStream:
    """Add a short chunk."""
    rows = np.vstack([stream.rows, X.astype(np.float64)])
    return FactorStream(stream.done, rows) if is_short(rows) else add_factor(stream, factor(rows), rows[:0])


def add_factor(stream: FactorStream, f: Factor, rows: Array | None = None) -> FactorStream:
    """Add the factor of a long chunk; `rows` are those that are still waiting, by default all that were."""
    return FactorStream(merge_factors(stream.done, f), stream.rows if rows is None else rows.copy())


def complete(stream: FactorStream) -> Factor:
    """The factor of all rows."""
    return merge_factors(stream.done, factor(stream.rows))


def merge_factors(a: Factor, b: Factor) -> Factor:
    """The factor of two disjoint sets of rows together."""
    return _join(a, b.n, b.mean, b.R)


def _factor_of_block(X: Array) -> Factor:
    k = X.shape[1]
    total = Factor(0, np.zeros(k), np.zeros((k, k)))
    for rows in row_blocks(*X.shape):
        block = X[rows].astype(np.float64)  # a copy, which is centred in place
        mean = block.mean(axis=0)
        block -= mean
        residual = block.mean(axis=0)  # the rounding error of the mean
        block -= residual
        total = _join(total, len(block), mean + residual, block)
    return total


def _join(a: Factor, n: int, mean: Array, centred: Array) -> Factor:
    """Add n rows with this mean; `centred` are the rows without it, or their factor."""
    if not n:
        return a
    k, delta = len(mean), mean - a.mean
    both = a.n + n
    stack = np.vstack([a.R, centred, delta * np.sqrt(a.n * (n / both))]) if a.n else centred
    R = np.zeros((k, k))
    found = linalg.qr(stack, mode="r", overwrite_a=a.n > 0, check_finite=False)[0][:k]
    R[: len(found)] = found
    return Factor(both, a.mean + delta * (n / both), R)
