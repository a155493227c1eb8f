"""Arrays that are read in blocks of rows: NumPy arrays in blocks that fit in cache, Dask arrays block by block.

What is computed from all rows is a sum over blocks of them: the moments of the whitening (`bionica.offline.whitening`), the
d x d products of the rotation (`bionica.offline.rotation`). `fold` is that sum.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

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
