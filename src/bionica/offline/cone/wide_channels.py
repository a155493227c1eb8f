"""Many channels: the leading directions of the mixtures without a k x k matrix.

The cone needs the d leading directions of D^{-1/2} <x x'> D^{-1/2}. For more than 1000 channels they come from the Gram matrix of
at most 500 samples (four for each direction), and are then refined on all samples by two steps of subspace iteration

    B <- orth(<x x'> B) = orth(X' (X B) / n).

D comes from the residuals of each channel outside the d leading directions. After two rounds, x is replaced by the 2 d + 10
leading coordinates in units of the noise, z = B' D^{-1/2} x. Everything else (`coordinates`, `fit`, `stream`) works with z.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .channel_noise import residual_variance

Array = npt.NDArray[Any]

WIDE = 1000  # channels; with more, <x x'> is not formed
_GRAM_SAMPLES = 500
_SPECTRUM_SAMPLES = 2000
_REFINEMENTS = 2
_TILE_BYTES = 1 << 25
_ROUNDING = 1e-13


class Subspace(NamedTuple):
    """z = matrix x (q, k), x = inverse z (k, q) + noise; the noise of z has standard deviation `noise`, 1 or 0."""

    matrix: Array
    inverse: Array
    noise: float


def leading_subspace(X: Array, d: int, noise: float | Array | None = None, *, unit: float = 1.0) -> Subspace:
    """The subspace for d sources in X / unit, (n, k). `noise` as in `coordinates`. X is read in blocks of rows."""
    n, k = X.shape
    q = min(2 * d + 10, n, k)
    level = np.ones(k) if noise is None or not np.any(noise) else np.broadcast_to(np.asarray(noise, float), (k,))
    scale = level * unit
    estimate = noise is None
    B = _leading(X, scale, q)
    if estimate:
        for _ in range(2):
            variance = _residual_noise(X, scale, B[:, :d])
            if variance is None:
                estimate = False
                break
            scale = scale * np.sqrt(variance)
            B = _leading(X, scale, q)
    noisy = estimate or (noise is not None and bool(np.any(noise)))
    scale = scale / unit
    return Subspace(np.ascontiguousarray((B / scale[:, None]).T), B * scale[:, None], float(noisy))


def gram_eigenvalues(X: Array) -> Array:
    """Eigenvalues of <x x'> that rounding cannot explain, largest first, from at most 2000 samples; n is their number at most."""
    some = X[:: -(-len(X) // _SPECTRUM_SAMPLES)]
    values = np.linalg.eigvalsh(_gram(some, np.ones(X.shape[1])))[::-1] / len(some)
    floor = len(some) * 4 * np.finfo(np.float64).eps + np.finfo(X.dtype).eps ** 2
    return np.asarray(values[values > floor * max(values[0], 1e-300)])


def blocks(X: Array) -> Iterator[slice]:
    """Slices that cut X into blocks of rows of 32 MB."""
    step = max(1, _TILE_BYTES // (8 * X.shape[1]))
    return (slice(start, min(start + step, len(X))) for start in range(0, len(X), step))


def _gram(X: Array, scale: Array) -> Array:
    """X D^{-1} X', summed over tiles of channels."""
    n, k = X.shape
    total = np.zeros((n, n))
    step = max(1, _TILE_BYTES // (8 * n))
    for start in range(0, k, step):
        x = X[:, start : start + step] / scale[start : start + step]
        total += x @ x.T
    return total


def _leading(X: Array, scale: Array, q: int) -> Array:
    """The q leading directions of D^{-1/2} <x x'> D^{-1/2}, as columns (k, q), the strongest first."""
    some = X[:: -(-len(X) // max(_GRAM_SAMPLES, 4 * q))]
    U = np.linalg.eigh(_gram(some, scale))[1][:, ::-1]
    B = np.linalg.qr((some.T @ U[:, :q]) / scale[:, None])[0]
    for _ in range(_REFINEMENTS):
        product = np.zeros(B.shape)
        for rows in blocks(X):
            x = X[rows] / scale
            product += x.T @ (x @ B)
        B, R = np.linalg.qr(product)
    return np.asarray(B @ np.linalg.eigh(R @ R.T)[1][:, ::-1])


def _residual_noise(X: Array, scale: Array, B: Array) -> Array | None:
    """Noise variance of every channel, relative to the one assumed; None if there is no noise."""
    n, d = len(X), B.shape[1]
    residual, energy = np.zeros(len(scale)), 0.0
    for rows in blocks(X):
        x = X[rows] / scale
        energy += float(np.vdot(x, x))
        x -= (x @ B) @ B.T
        residual += np.einsum("ij,ij->j", x, x)
    residual /= n
    rounding = _ROUNDING if X.dtype == np.float64 else 100 * _ROUNDING
    if residual.sum() <= rounding * energy / n:
        return None
    residual /= max(1 - d / n, 0.1)
    white = residual.mean()
    return np.asarray(white * residual_variance(residual / white, np.sum(B**2, axis=1)))
