"""Dask arrays as input: read block by block, never gathered; Dask itself is imported only where the user has done so.

`DaskRows` reduces sums over the blocks on whatever scheduler the user has. `BlockReader` hands the blocks to a network, one
after the other. `lazily` applies a function of rows to every block and returns a Dask array.
"""

import sys
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import validate_data

from ..offline.chunked import InMemory, Rows, linear_map, part_rows, parts
from ..offline.whitening import Moments, moments
from ._exceptions import check_finite

Array = npt.NDArray[Any]
T = TypeVar("T")
_Bad = tuple[int, tuple[int, Array] | None]  # length of a part, first row that is not finite


def is_dask(X: Any) -> bool:
    """Whether X is a collection of Dask, found without importing Dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def checked(X: Any, estimator: Any = None, *, reset: bool = False, min_samples: int = 1, known: bool = True) -> Any:
    """The Dask array X as an estimator takes it: two-dimensional, float32 or float64, every row whole in one block.

    Blocks that hold part of the columns are joined, and rows are cut so that blocks have the size of Dask's own setting
    `array.chunk-size`. Where the lengths of the blocks are not known and `known` asks for them, they are counted, which
    costs a pass over X.

    Parameters
    ----------
    X : Dask collection
        Not changed.
    estimator : estimator, optional
        Whose number of features is set (`reset`) or compared.
    reset, min_samples
        As in scikit-learn's `validate_data` (its `ensure_min_samples`).
    known : bool, default=True
        Whether the lengths of the blocks are needed.
    """
    if "dask.array" not in sys.modules or not isinstance(X, sys.modules["dask.array"].Array):
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}; of Dask's collections a dask.array is understood: pass "
            "X.to_dask_array(lengths=True) of a dataframe"
        )
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(
            f"Expected 2D array with a known number of columns, got shape {X.shape}: pass (n_samples, n_features)"
        )
    if X.dtype.kind not in "fiub" or not isinstance(X._meta, np.ndarray):
        raise TypeError(
            f"X has blocks of {type(X._meta).__name__} with dtype {X.dtype}: pass NumPy blocks of real numbers, "
            "X.map_blocks(np.asarray).astype(float) for instance"
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    split = X.numblocks[1] > 1
    if np.isnan(X.shape[0]) and (known or split):
        X = X.copy()
        X.compute_chunk_sizes()
    for axis, (name, least) in enumerate((("sample(s)", min_samples), ("feature(s)", 1))):
        if X.shape[axis] < least:
            raise ValueError(
                f"Found array with {X.shape[axis]} {name} (shape={X.shape}) while a minimum of {least} is required."
            )
    if estimator is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X.rechunk({0: "auto", 1: -1}, method="tasks") if split else X


def lazily(function: Callable[[Array], Array], X: Any, n_columns: int, name: str, dtype: Any = None) -> Any:
    """`function` of the rows of every block of X, a Dask array; a NaN is reported when its block is computed."""
    dtype = X.dtype if dtype is None else dtype
    return X.map_blocks(
        _of_block, function, name, dtype=dtype, chunks=(X.chunks[0], (n_columns,)), meta=np.empty((0, 0), dtype)
    )


def _of_block(block: Array, function: Callable[[Array], Array], name: str, block_info: Any = None) -> Array:
    place = block_info[0]
    first = place["array-location"][0][0]
    if np.isnan(first):  # the lengths of the blocks are not known
        first, name = 0, f"{name}, which counts from the first row of block {place['chunk-location'][0]},"
    check_finite(block, int(first), name)
    return function(block)


class DaskRows(Rows):
    """The rows of a Dask array, as `checked` returns it.

    The bounds of its blocks are moved to the nearest whole part (`part_rows`, a megabyte), so that the sums are those of
    the same rows in memory, to the last bit. At any time a worker holds the block it works on and the one it comes from.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        n, k = array.shape
        self.shape, self.dtype, self.step = (int(n), int(k)), array.dtype, part_rows(k)
        bounds = np.rint(np.cumsum(array.chunks[0]) / self.step).astype(np.int64) * self.step
        bounds[-1] = n
        self.bounds = np.unique(np.clip(np.append(0, bounds), 0, n))
        lengths = tuple(map(int, np.diff(self.bounds)))
        self._blocks = list(array.rechunk({0: lengths}, method="tasks").to_delayed().ravel())
        self._matrix: Array | None = None

    def image(self, matrix: Array) -> "DaskRows":
        """Every row x replaced by matrix @ x, whenever a block is read."""
        assert self._matrix is None
        other = object.__new__(DaskRows)
        vars(other).update(vars(self))
        other.shape, other._matrix = (self.shape[0], len(matrix)), matrix
        return other

    def fold(self, of_part: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """``of_part(part, *arguments)`` for every part, joined two by two in their order; one pass over the blocks."""
        from dask import delayed

        on_block, on_results = delayed(_each_part, pure=False), delayed(_join, pure=False)
        given = delayed(_Given(of_part, self.step, self._matrix, arguments), pure=False, traverse=False)
        total = None
        for block in self._blocks:
            total = on_results(join, total, on_block(block, given))
        assert total is not None
        found: T = total.compute()
        return found

    def take(self, indices: Array | None = None) -> InMemory:
        """The rows with these indices, in increasing order, brought into memory; all rows by default."""
        from dask import compute, delayed

        rows = np.arange(self.shape[0]) if indices is None else indices
        cuts = np.searchsorted(rows, self.bounds)
        on_block = delayed(_some_of_block, pure=False, traverse=False)
        matrix = delayed(self._matrix, pure=False, traverse=False)
        found = [
            on_block(block, rows[a:b] - start, self.step, matrix)
            for block, start, a, b in zip(self._blocks, self.bounds[:-1], cuts[:-1], cuts[1:], strict=True)
            if a < b
        ]
        return InMemory(np.concatenate(compute(*found)), self.step)


class _Given:
    """What is the same for every block of a pass: sent once to a worker."""

    def __init__(
        self, of_part: Callable[..., Any], step: int, matrix: Array | None, arguments: tuple[Any, ...]
    ) -> None:
        self.of_part, self.step, self.matrix, self.arguments = of_part, step, matrix, arguments


def _each_part(block: Array, given: _Given) -> list[Any]:
    """The results of the parts of a block. NaN and infinity shall come through without a warning: they are looked for later."""
    with np.errstate(invalid="ignore", over="ignore"):
        return [
            given.of_part(_mapped(block[rows], given.matrix), *given.arguments)
            for rows in parts(len(block), given.step)
        ]


def _join(join: Callable[[Any, Any], Any], total: Any, found: list[Any]) -> Any:
    with np.errstate(invalid="ignore", over="ignore"):
        return reduce(join, found if total is None else [total, *found])


def _some_of_block(block: Array, indices: Array, step: int, matrix: Array | None) -> Array:
    """Some rows of a block: their parts are mapped whole, as they are in memory, for the same bits."""
    found = []
    for rows in parts(len(block), step):
        a, b = np.searchsorted(indices, (rows.start, rows.stop))
        if a < b:
            found.append(_mapped(block[rows], matrix)[indices[a:b] - rows.start])
    return np.concatenate(found)


def _mapped(part: Array, matrix: Array | None) -> Array:
    return part if matrix is None else linear_map(part, matrix)


def validated_rows(estimator: Any, X: Any, *, reset: bool = True, min_samples: int = 1) -> InMemory | DaskRows:
    """X validated for an estimator, as scikit-learn's `validate_data` does, as rows in memory or in Dask's blocks."""
    if is_dask(X):
        return DaskRows(checked(X, estimator, reset=reset, min_samples=min_samples))
    return InMemory(
        validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32], ensure_min_samples=min_samples)
    )


def moments_of(X: Rows, name: str) -> Moments:
    """The moments of X; of a Dask array, the first NaN or infinity raises ValueError that names its row."""
    seen = moments(X)
    if isinstance(X, DaskRows) and not np.isfinite(seen.scatter).all():
        _, bad = X.fold(_bad_row, _first_bad)
        if bad is not None:
            check_finite(bad[1], bad[0], name)
    return seen


def _bad_row(part: Array) -> _Bad:
    bad = np.flatnonzero(~np.isfinite(part).all(axis=1))[:1]
    return len(part), (int(bad[0]), part[bad]) if len(bad) else None


def _first_bad(a: _Bad, b: _Bad) -> _Bad:
    found = a[1] or (b[1] and (a[0] + b[1][0], b[1][1]))
    return a[0] + b[0], found


class BlockReader:
    """The rows of a Dask array for who reads them in their order: a block at a time is in memory.

    Iterating gives the blocks; slices and arrays of indices give those rows, all as NumPy arrays.
    """

    def __init__(self, array: Any, name: str) -> None:
        self._array, self._name = array, name
        self._blocks, self.bounds = list(array.to_delayed().ravel()), np.append(0, np.cumsum(array.chunks[0]))
        self.shape, self.dtype = array.shape, array.dtype
        self._at, self._block = -1, np.empty((0, 0))

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Array]:
        for i in range(len(self._blocks)):
            if len(block := self._read(i)):
                yield block

    def __getitem__(self, rows: slice | Array) -> Array:
        if not isinstance(rows, slice):
            return np.asarray(self._array[rows].compute())
        start, stop, _ = rows.indices(len(self))
        first, last = np.searchsorted(self.bounds, (start, stop), side="right") - 1
        found = [
            self._read(i)[max(0, start - self.bounds[i]) : stop - self.bounds[i]]
            for i in range(first, min(last + 1, len(self._blocks)))
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            f"{self._name} would need all of the Dask array X in memory for this: give n_components a number, or pass X.compute()"
        )

    def _read(self, i: int) -> Array:
        if i != self._at:
            self._block = np.empty((0, 0))  # let go of the old one before the new one comes
            self._block, self._at = np.asarray(self._blocks[i].compute()), i
            check_finite(self._block, int(self.bounds[i]), self._name)
        return self._block


def blocks_of(X: Array | BlockReader) -> Iterator[Array]:
    """The blocks of a `BlockReader`; an array is one block."""
    return iter(X) if isinstance(X, BlockReader) else iter([X])
