"""X of the user as arrays, many samples or one: what is refused, what an error names, what overflow raises.

Dask arrays are read block by block, never gathered; Dask is imported only if the user has imported it. `DaskRows` reads the
blocks one after the other, for the networks, and sums over them, for the offline methods. `lazily` applies a function of rows to
every block and returns a Dask array.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from .._compat.dask import block_type
from ..offline.outliers import Limit, is_inlier
from ..offline.whitening import ChunkedRows, Moments, linear_map, moments

Array = NDArray[Any]
Sample = ArrayLike | Mapping[str, float]
T = TypeVar("T")

FLOATS = (np.float64, np.float32)
#: What a change of the mixtures means, in warnings and in `diagnose`.
CHANGED = (
    "outputs became far more correlated or negative, compared with the past, and past and present are averaged. If the "
    "mixing changes, set horizon= to the number of samples to remember (1,000 + 100 n_components or more). If sources are on and "
    "off for long, or neighbouring samples are alike, ignore this. If sensors failed for a while, fit without these samples"
)


class DivergenceError(ArithmeticError):
    """A network whose outputs or weights left the range of its numbers.

    Attributes
    ----------
    sample : int
        Index of the sample at which it happened, counted from the first that the network has seen.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import BatchNICA, DivergenceError
    >>> X = np.random.default_rng(0).exponential(size=(500, 2)) @ np.array([[1.0, 0.5], [0.2, 1.0]])
    >>> nica = BatchNICA(2, random_state=0).fit(X)
    >>> try:
    ...     nica.transform(np.full((3, 2), 1.7e308))
    ... except DivergenceError as error:
    ...     print(error.sample)
    0
    """

    def __init__(self, message: str, sample: int):
        super().__init__(message)
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.sample)


@contextmanager
def singular_as_divergence(name: str, sample: int | None = None) -> Iterator[None]:
    """Turn a LinAlgError into a DivergenceError, at this sample of a stream."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        where = "" if sample is None else f" up to sample {sample}"
        raise DivergenceError(
            f"{name}: the mixtures{where} lead to equations without a solution ({error}): they do not vary in "
            "n_components directions, or their range is too large. Lower n_components, drop constant or repeated mixtures, or "
            "rescale them. The model is as it was before this call.",
            sample or 0,
        ) from error


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an exception leaves the block; a network learns in place."""
    before = dict(vars(estimator))
    runner = before.get("_runner")
    backup = None if runner is None else runner.backup()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if runner is not None:
            runner.restore(backup)
        raise


def finite_map(function: Callable[[Array], Array], X: Array, name: str, first: int = 0) -> Array:
    """Return what a linear map makes of the rows of X if all of it is finite; otherwise DivergenceError names the first bad row.

    The first row of X is number `first`.
    """
    with np.errstate(all="ignore"):
        Y = function(X)
    finite = np.isfinite(Y).all(axis=1)
    if finite.all():
        return Y
    row = int(np.argmin(finite))
    raise DivergenceError(
        f"{name}: the output for sample {first + row} overflows {Y.dtype}: rescale the samples (largest absolute value in this "
        f"one: {np.abs(X[row]).max():.2g}){', or use float64' if Y.dtype == np.float32 else ''}.",
        first + row,
    )


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the user's line of code: the first outside of bionica, scikit-learn and joblib."""
    inside = (str(Path(__file__).parents[1]), str(Path(warnings.__file__).parent / "contextlib.py"))
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(inside) or {"sklearn", "joblib"} & set(Path(frame.f_code.co_filename).parts)
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def cell(owner: Any, row: int, column: int) -> str:
    """Return "X[3, 1]", or "X[3, 'name']" if the estimator `owner` knows the names of its features."""
    names = getattr(owner, "feature_names_in_", None)
    return f"X[{row}, {column if names is None else repr(str(names[column]))}]"


def check_finite(block: Array, first: int, owner: Any) -> None:
    """Raise ValueError for the first NaN or infinity of `block`, whose first row is number `first` of X.

    `owner` is the estimator, whose feature names the message uses, or what the message calls it.
    """
    finite = np.isfinite(block)
    if finite.all():
        return
    row, column = map(int, np.argwhere(~finite)[0])
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    raise ValueError(
        f"Input X contains {value if value == 'NaN' else 'infinity (inf)'}: {cell(owner, first + row, column)} is {value}. "
        f"{owner if isinstance(owner, str) else type(owner).__name__} needs finite numbers; drop such samples "
        "(X[np.isfinite(X).all(axis=1)]) or impute them (sklearn.impute) first. The model is unchanged."
    )


def in_own_precision(X: Any) -> Any:
    """Return X, as an array of its precision where scikit-learn would not keep that: a tensor, floats of the other byte order."""
    if hasattr(X, "requires_grad"):
        if X.requires_grad:
            raise TypeError(
                f"X is a {type(X).__module__}.{type(X).__name__} that requires gradients, and gradients do not pass through the "
                "estimators: pass X.detach() (and .cpu() if it is on a GPU)"
            )
        X = np.asarray(X)
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):  # NaN, which is refused with its row and feature
        X = np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not X.dtype.isnative:
        return X.astype(X.dtype.newbyteorder("="))
    return X


def validated_sample(estimator: Any, x: Sample) -> Array:
    """Return a single mixture, a vector or a dict of feature names to numbers, as an array of one row."""
    row = x if type(x) is np.ndarray else np.asarray(_in_order(estimator, in_own_precision(x)))
    if row.dtype not in FLOATS:
        try:
            row = in_own_precision(row)
            row = row.astype(np.float64, casting="unsafe" if row.dtype == object else "same_kind", copy=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
    width = getattr(estimator, "n_features_in_", row.size or "at least 1")
    if row.ndim != 1 or row.size != width:
        raise ValueError(
            f"x has shape {row.shape}; {type(estimator).__name__} needs one mixture of {width} numbers. For several use "
            "partial_fit or transform."
        )
    return row[np.newaxis]


def _in_order(estimator: Any, x: Any) -> Any:
    """Return the values of x in the order of the features, if x has names."""
    names, known = sample_names(x), getattr(estimator, "feature_names_in_", None)
    if isinstance(x, Mapping) and known is None and hasattr(estimator, "n_features_in_"):
        raise ValueError(
            f"x is a dict, but this {type(estimator).__name__} learned from arrays: pass an array of {estimator.n_features_in_} "
            "numbers, or learn from dicts or data frames from the first sample on"
        )
    if isinstance(x, Mapping) and not all(isinstance(name, str) for name in x):
        raise ValueError(f"x is a dict with the keys {list(x)}; feature names must be strings")
    order = sorted if isinstance(x, Mapping) else list  # those of a dict may come in any order
    if known is not None and names is not None and order(names) != order(known):
        raise ValueError(f"x has the features {names}; {type(estimator).__name__} learned from {list(known)}")
    if isinstance(x, Mapping):
        return [x[name] for name in (x if known is None else known)]
    return x


def sample_names(x: Any) -> list[Any] | None:
    """Return the keys of a mapping, the index of a pandas Series, or None."""
    if isinstance(x, Mapping):
        return list(x)
    index = getattr(x, "index", None)  # a method of a list
    return None if index is None or callable(index) else list(index)


# ---------------------------------------------------------------------------------------------- Dask arrays


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
