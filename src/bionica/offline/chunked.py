"""The rows of X wherever they lie: in memory, or in the blocks of a Dask array.

What is computed from all rows is a sum over parts of them: moments (`bionica.offline.whitening`), the d x d products of the
rotation (`bionica.offline.rotation`). `Rows.fold` is that sum. Parts are cut by the number of rows and columns alone and joined
in their order, so that the result is the same to the last bit wherever the rows lie and however a Dask array is chunked (on one
machine, with one BLAS).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")

_BLOCK_BYTES = 1 << 17  # blocks stay in cache; at small widths BLAS also takes them in one thread, without a handshake
_PART_BYTES = 1 << 20  # a part is what the blocks of a Dask array are a multiple of


def row_blocks(n_rows: int, n_columns: int, itemsize: int = 8) -> Iterator[slice]:
    """Slices that cut an array into blocks of rows which fit in cache (of a very wide array: into square blocks).

    Examples
    --------
    >>> from bionica.offline.chunked import row_blocks
    >>> list(row_blocks(40_000, 1))
    [slice(0, 16384, None), slice(16384, 32768, None), slice(32768, 40000, None)]
    """
    step = max(64, n_columns, _BLOCK_BYTES // (n_columns * itemsize))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def part_rows(n_columns: int) -> int:
    """How many rows a part has: a megabyte of float64, and at least four times as many as the k x k sums over it."""
    return max(_PART_BYTES // (8 * n_columns), 4 * n_columns)


def parts(n_rows: int, step: int) -> Iterator[slice]:
    """Slices of `step` rows; an empty one where there are no rows."""
    for start in range(0, max(n_rows, 1), step):
        yield slice(start, min(start + step, n_rows))


def linear_map(X: Array, matrix: Array, out: Array | None = None) -> Array:
    """X @ matrix.T, row block by row block, in the precision of X.

    Whatever the strides of X, never more than a block of it is copied. A row's image does not depend on `out`.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.offline.chunked import linear_map
    >>> linear_map(np.eye(2), np.array([[1.0, 2.0]]))
    array([[1.],
           [2.]])
    """
    right = np.ascontiguousarray(matrix.T, dtype=X.dtype)
    if out is None:
        out = np.empty((X.shape[0], right.shape[1]), dtype=X.dtype)
    for rows in row_blocks(X.shape[0], X.shape[1], X.itemsize):
        np.matmul(X[rows], right, out=out[rows])
    return out


class Rows(ABC):
    """A matrix of which the algorithms see parts of rows, one after the other, never all at once."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def fold(self, of_part: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """``of_part(part, *arguments)`` for every part, joined two by two in their order."""

    @abstractmethod
    def image(self, matrix: Array) -> "Rows":
        """Every row x replaced by matrix @ x, with the same parts."""

    @abstractmethod
    def take(self, indices: Array | None = None) -> "InMemory":
        """The rows with these indices, in increasing order, brought into memory; all rows by default."""


class InMemory(Rows):
    """The rows of an array.

    Parameters
    ----------
    array : array of shape (n_samples, n_features)
        Or anything whose slices are such arrays.
    step : int, optional
        Rows of a part; `part_rows` by default.

    Examples
    --------
    >>> import operator
    >>> import numpy as np
    >>> from bionica.offline.chunked import InMemory
    >>> InMemory(np.arange(6.0).reshape(3, 2), step=2).fold(np.sum, operator.add)
    np.float64(15.0)
    """

    def __init__(self, array: Array, step: int | None = None) -> None:
        self.array = array
        self.shape = (int(array.shape[0]), int(array.shape[1]))
        self.dtype = array.dtype
        self.step = part_rows(self.shape[1]) if step is None else step

    def fold(self, of_part: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """``of_part(part, *arguments)`` for every part, joined two by two in their order."""
        return reduce(join, (of_part(self.array[rows], *arguments) for rows in parts(self.shape[0], self.step)))

    def image(self, matrix: Array) -> "InMemory":
        """Every row x replaced by matrix @ x, with the same parts."""
        out = np.empty((self.shape[0], len(matrix)), dtype=self.dtype)
        for rows in parts(self.shape[0], self.step):
            linear_map(self.array[rows], matrix, out=out[rows])
        return InMemory(out, self.step)

    def take(self, indices: Array | None = None) -> "InMemory":
        """The rows with these indices, in increasing order; all rows (not copied) by default."""
        return self if indices is None else InMemory(self.array[indices], self.step)


def as_rows(X: Array | Rows) -> Rows:
    """X itself where it is `Rows`, else the rows of the array X."""
    return X if isinstance(X, Rows) else InMemory(X)
