"""Dask arrays as input: read block by block, never gathered. Dask is imported only if the user has imported it.

`DaskRows` reads the blocks one after the other, for the networks, and sums over them, for the offline methods. `lazily` applies a
function of rows to every block and returns a Dask array.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from .._compat.dask import block_type
from ..offline.outliers import Limit, is_inlier
from ..offline.whitening import ChunkedRows, Moments, linear_map, moments
from ._input import FLOATS, Array, check_finite, finite_map, in_own_precision

T = TypeVar("T")


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, found without importing Dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def checked(X: Any, estimator: Any = None, *, reset: bool = False, min_samples: int = 1, known: bool = True) -> Any:
    """Validate a Dask array: two-dimensional, float32 or float64, every row in one block.

    `estimator`, `reset` and `min_samples` are as in scikit-learn's `validate_data`. If columns are split between blocks, they
    are joined and the rows are cut to Dask's setting `array.chunk-size`. If the lengths of the blocks are unknown and `known`
    asks for them, they are counted, which costs a pass over X. Of an xarray.DataArray the Dask array in it is taken.
    """
    if type(X).__module__.partition(".")[0] == "xarray":
        X = X.data
    if "dask.array" not in sys.modules or not isinstance(X, sys.modules["dask.array"].Array):
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}, and dask.array is the only supported Dask collection: pass "
            "X.to_dask_array(lengths=True) of a dataframe"
        )
    if X.ndim != 2 or np.isnan(X.shape[1]):
        raise ValueError(
            f"Expected 2D array with a known number of columns, got shape {X.shape}: pass (n_samples, n_features)"
        )
    if X.dtype.kind not in "fiub" or not issubclass(block_type(X), np.ndarray):
        raise TypeError(
            f"X has blocks of {block_type(X).__name__} with dtype {X.dtype}: pass NumPy blocks of real numbers, "
            "X.map_blocks(np.asarray).astype(float) for instance"
        )
    native = X.dtype.newbyteorder("=")
    if X.dtype not in FLOATS:
        X = X.astype(native if native in FLOATS else np.float64)
    columns_split = X.numblocks[1] > 1
    if np.isnan(X.shape[0]) and (known or columns_split):
        X = X.copy()
        X.compute_chunk_sizes()
    for axis, (name, least) in enumerate((("sample(s)", min_samples), ("feature(s)", 1))):
        if X.shape[axis] < least:
            raise ValueError(
                f"Found array with {X.shape[axis]} {name} (shape={X.shape}) while a minimum of {least} is required."
            )
    if estimator is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
    return X.rechunk({0: "auto", 1: -1}, method="tasks") if columns_split else X


def validated_rows(
    estimator: Any, X: Any, *, reset: bool = True, min_samples: int = 1, finite: bool = True, dtype: Any = FLOATS
) -> Any:
    """X as scikit-learn's `validate_data` returns it, an array of `dtype`; a Dask array as `DaskRows`.

    An error about a NaN names its row and feature. With `finite=False` the caller checks that, block by block.
    """
    if is_dask(X):
        return DaskRows(checked(X, estimator, reset=reset, min_samples=min_samples), type(estimator).__name__)
    options: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": False, "ensure_min_samples": min_samples}
    data = np.asarray(validate_data(estimator, in_own_precision(X), reset=reset, **options))
    if finite:
        check_finite(data, 0, estimator)
    return data


def map_rows(function: Callable[[Array], Array], X: Any, n_columns: int, estimator: Any) -> Any:
    """`function` of the rows of X, validated as input of a fitted estimator; lazily for a Dask array."""
    if is_dask(X):
        return lazily(function, checked(X, estimator, known=False), n_columns, type(estimator).__name__)
    return finite_map(function, validated_rows(estimator, X, reset=False), type(estimator).__name__)


def map_back(Y: Any, matrix: Array, offset: Array | None, name: str) -> Any:
    """matrix @ y + offset for the rows y of Y, which `transform` of the estimator `name` returned; lazily for a Dask array."""
    k, d = matrix.shape
    function = partial(_affine, matrix=matrix, offset=offset)
    data: Any = checked(Y, known=False) if is_dask(Y) else in_own_precision(Y)
    data = data if is_dask(data) else check_array(data, dtype=list(FLOATS), input_name="Y")
    if data.shape[1] != d:
        raise ValueError(
            f"Y has {data.shape[1]} columns, but this {name} has {d} components: inverse_transform needs (n_samples, {d}), as "
            "transform returns it"
        )
    return lazily(function, data, k, name) if is_dask(data) else finite_map(function, data, name)


def _affine(Y: Array, matrix: Array, offset: Array | None) -> Array:
    X = linear_map(Y, matrix)
    if offset is not None:
        X += offset.astype(X.dtype)
    return X


def lazily(function: Callable[[Array], Array], X: Any, n_columns: int, name: str, dtype: Any = None) -> Any:
    """`function` of every block of the Dask array X, as a Dask array; a NaN is reported when its block is computed."""
    dtype = X.dtype if dtype is None else dtype
    return X.map_blocks(
        _of_finite, function, name, dtype=dtype, chunks=(X.chunks[0], (n_columns,)), meta=np.empty((0, 0), dtype)
    )


def _of_finite(block: Array, function: Callable[[Array], Array], name: str, block_info: Any = None) -> Array:
    first = block_info[0]["array-location"][0][0]
    if np.isnan(first):  # the lengths of the blocks are unknown
        number = block_info[0]["chunk-location"][0]
        first, name = 0, f"{name}, which counts from the first row of block {number},"
    check_finite(block, int(first), name)
    return finite_map(function, block, name, int(first))


class DaskRows(ChunkedRows):
    """The rows of a Dask array; `name` is the estimator that errors name.

    Iterating gives the blocks one after the other and holds one in memory; slices and index arrays give rows, all as NumPy
    arrays. NaN and infinity raise ValueError. `fold` sums over the blocks on the scheduler that the user has chosen.
    """

    def __init__(self, array: Any, name: str) -> None:
        self.array, self.name = array, name
        self.shape, self.dtype = (int(array.shape[0]), int(array.shape[1])), array.dtype
        self._blocks = list(array.to_delayed().ravel())

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        first, block = 0, np.empty((0, 0))
        for delayed_block in self._blocks:
            del block  # before the next one is computed
            block = np.asarray(delayed_block.compute())
            check_finite(block, first, self.name)
            first += len(block)
            if len(block):
                yield block

    def __getitem__(self, rows: slice | Array) -> Array:
        return np.asarray(self.array[rows].compute())

    def image(self, matrix: Array, limit: Limit | None) -> "DaskRows":
        """Return the rows matrix @ x, or 0 if x is an outlier; they are computed whenever a block is read."""
        chunks, meta = (self.array.chunks[0], (len(matrix),)), np.empty((0, 0), self.dtype)
        function = partial(mapped_inliers, matrix=matrix, limit=limit)
        return DaskRows(self.array.map_blocks(function, dtype=self.dtype, chunks=chunks, meta=meta), self.name)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            f"{self.name} would need all of the Dask array X in memory: pass X.compute(), or use BatchNICA or a network with "
            "n_components=a number, which read it block by block"
        )

    def fold(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Return ``of_block(block, *arguments)`` for every block, joined in order as the blocks are done."""
        from dask import delayed

        call = delayed(_quietly, pure=False)
        given = [delayed(a, pure=False, traverse=False) for a in arguments]  # sent once to each worker
        total: T = reduce(partial(call, join), (call(of_block, block, *given) for block in self._blocks)).compute()
        return total


def _quietly(function: Callable[..., T], *arguments: Any) -> T:
    with np.errstate(invalid="ignore", over="ignore"):  # NaN and infinity are reported after all blocks are summed
        return function(*arguments)


def mapped_inliers(X: Array, matrix: Array, limit: Limit | None) -> Array:
    """matrix @ x for the rows x of X, and 0 for outliers."""
    Z = linear_map(X, matrix)
    if limit is not None:
        Z[~is_inlier(X, limit)] = 0
    return Z


def moments_of(X: Array | DaskRows) -> Moments:
    """The moments of X. The first NaN or infinity of a Dask array raises ValueError that names its row."""
    with np.errstate(invalid="ignore", over="ignore"):
        m = moments(X)
    if isinstance(X, DaskRows) and not np.isfinite(m.scatter).all():
        for _ in X:  # reading checks the blocks
            pass
    return m


def blocks_of(X: Array | DaskRows) -> Iterator[Array]:
    """The blocks of a `DaskRows`; an array is one block."""
    return iter(X) if isinstance(X, DaskRows) else iter([X])
