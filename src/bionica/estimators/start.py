"""Where a natural network starts: the projection of its input, and weights that are a rotation of it.

From a block of mixtures come F, the noncentered whitening onto the d leading directions, and V, the d x d rotation that makes the
outputs V F x nonnegative: the offline solution (`batch.rotation`) or a random one.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batch.rotation import rotate
from ..rows import linear_map
from ..whitening import Spectrum, count_sources, moments, whitening
from .errors import DivergenceError

Array = NDArray[Any]


class Start(NamedTuple):
    """F (d, k), its right inverse (k, d), the rotation V (d, d), and the first and second moments of u and of [V u]_+."""

    F: Array
    inverse: Array
    V: Array
    u_bar: Array
    y_bar: Array
    yy: Array
    n: int


def spectrum(block: Array) -> Spectrum:
    """The evidence for the number of sources in a block of mixtures."""
    scale = _scale(block)
    found = whitening(moments(block / scale), precision=block.dtype)
    return count_sources(found.eigenvalues, len(block))


def project(block: Array, d: int) -> tuple[Array, Array, int]:
    """F, its right inverse and the rank; directions that the block does not show are scaled like the others."""
    scale = _scale(block)
    found = whitening(moments(block / scale), d, precision=block.dtype)
    F, inverse = found.matrix, found.inverse
    rank = min(found.rank, d)
    if rank < d:
        typical = float(np.sqrt(found.eigenvalues.mean())) if found.rank else 1.0
        basis = np.linalg.qr(np.hstack([inverse, np.eye(block.shape[1])]))[0][:, rank:d]
        F = np.vstack([F, basis.T / typical])
        inverse = np.hstack([inverse, basis * typical])
    return F / scale, inverse * scale, rank


def begin(block: Array, d: int, rng: np.random.RandomState, *, offline: bool) -> Start:
    """Start from a block of mixtures: at its offline solution, or at a random rotation."""
    block = np.asarray(block, dtype=np.float64)
    F, inverse, rank = project(block, d)
    U = linear_map(block, F)
    if not np.isfinite(U).all():
        raise DivergenceError(
            f"the mixtures overflow: rescale them (largest absolute value {np.abs(block).max():.2g})", 0
        )
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    if offline and rank:
        V = np.eye(d)
        V[:rank, :rank] = rotate(U[:, :rank], rng=rng).R
    V[V @ U.mean(axis=0) < 0] *= -1  # towards the orthant
    Y = np.maximum(U @ V.T, 0)
    return Start(F, inverse, V, U.mean(axis=0), Y.mean(axis=0), Y.T @ Y / len(Y), len(block))


def _scale(block: Array) -> float:
    """Largest absolute value, or 1: squares of what is divided by it neither overflow nor vanish."""
    largest = float(np.abs(block).max())
    return largest if largest > 0 else 1.0
