"""Where a natural network starts: the projection of its input, and weights that are a rotation of it.

From a first block of mixtures come F, the noncentered whitening onto the d leading directions, and a random d x d rotation V.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..offline.chunked import linear_map
from ..offline.gram_whitening import largest, whiten_rows, wider_than_long
from ..offline.outliers import inliers_of
from ..offline.source_count import Spectrum, count_sources, representative, with_stretches
from ..offline.whitening import Whitening, moments, whitening
from ._exceptions import DivergenceError, check_finite
from ._source_count import MANY_OUTPUTS, warn_of_count

Array = NDArray[Any]

_COUNTED_ROWS = 4000


class Start(NamedTuple):
    """F (d, k), its right inverse (k, d), the rotation V (d, d), the mean of u = F x and the number of samples."""

    F: Array
    inverse: Array
    V: Array
    u_bar: Array
    n: int


def spectrum(block: Array, *, screened: bool = True) -> Spectrum:
    """The evidence for the number of sources in a block of mixtures.

    `screened`: without outliers, each of which may look like a source. Streams count in their first block as it comes.
    """
    if block.shape[1] >= 1000:  # the covariance of so many mixtures takes minutes
        block = representative(block)
    block = inliers_of(block) if screened else block
    scale = largest(block)
    if block.shape[1] >= 1000:
        some = block / scale
        return count_sources(some, whiten_rows(some).eigenvalues)
    x = block / scale
    return with_stretches(_spectrum(x), x, _spectrum)


def _spectrum(x: Array) -> Spectrum:
    seen = moments(x)
    return count_sources(representative(x), whitening(seen, precision=x.dtype).eigenvalues, seen)


def warn_of_many_outputs(estimator: Any, X: Any) -> None:
    """Warn before the fit if n_components=None takes many directions of X that look like noise."""
    if estimator.n_components is None and X.shape[1] >= MANY_OUTPUTS:
        # Of a Dask array the first rows, which one block or a few hold.
        rows = X[:: -(-len(X) // _COUNTED_ROWS)] if isinstance(X, np.ndarray) else X[:_COUNTED_ROWS]
        check_finite(rows, 0, estimator)
        warn_of_count(type(estimator).__name__, None, spectrum(rows.astype(np.float64)), min(rows.shape))


def without_outliers(block: Array) -> Array:
    """The rows whose norm is at most 30 times the median norm; in units of the median of each mixture, unless it is wide."""
    with np.errstate(all="ignore"):
        if wider_than_long(block):
            norm = np.sqrt(np.einsum("ij,ij->i", block, block))
        else:
            norm = np.linalg.norm(block / _typical(block), axis=1)
        kept = ~(norm > 30 * np.median(norm[norm > 0])) if norm.any() else np.ones(len(norm), bool)
    return block if kept.all() else block[kept]


def _typical(block: Array) -> Array:
    """The median of the nonzero absolute values of every mixture; 1 if there are none."""
    ordered = np.sort(np.abs(block), axis=0)
    nonzero = np.count_nonzero(ordered, axis=0)
    middle = len(block) - np.maximum((nonzero + 1) // 2, 1)
    return np.where(nonzero > 0, ordered[middle, np.arange(block.shape[1])], 1.0)


def project(block: Array, d: int) -> tuple[Array, Array]:
    """F and its right inverse; directions that the block does not show are scaled like the others."""
    found, scale = _whiten(block, d)
    F, inverse = found.matrix, found.inverse
    rank = min(found.rank, d)
    if rank < d:
        typical = float(np.sqrt(found.eigenvalues.mean())) if found.rank else 1.0
        basis = np.linalg.qr(np.hstack([inverse, np.eye(block.shape[1], d)]))[0][:, rank:d]
        F = np.vstack([F, basis.T / typical])
        inverse = np.hstack([inverse, basis * typical])
    return (F, inverse) if scale == 1 else (F / scale, inverse * scale)


def begin(block: Array, d: int, rng: np.random.RandomState) -> Start:
    """Start from a block of mixtures, at a random rotation."""
    if not wider_than_long(block):
        block = np.asarray(block, dtype=np.float64)
    block = without_outliers(block)
    F, inverse = project(block, d)
    U = linear_map(block, F).astype(np.float64)
    if not np.isfinite(U).all():
        raise DivergenceError(
            f"the mixtures overflow: rescale them (largest absolute value {np.abs(block).max():.2g})", 0
        )
    V = np.linalg.qr(rng.standard_normal((d, d)))[0]
    V[V @ U.mean(axis=0) < 0] *= -1  # towards the orthant
    return Start(F, inverse, V, U.mean(axis=0), len(block))


def _whiten(block: Array, d: int | None) -> tuple[Whitening, float]:
    """The whitening of block / scale, and scale."""
    if wider_than_long(block):
        return whiten_rows(block, d), 1.0
    scale = largest(block)
    return whitening(moments(block / scale), d, precision=block.dtype), scale
