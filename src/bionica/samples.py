"""X of the user as arrays, many samples or one: what is refused, what an error names, what overflow raises.

Dask arrays are read block by block, never gathered; Dask is imported only if the user has imported it. `DaskRows` reads the
blocks one after the other, for the networks, sums over them, for the offline methods, and maps them lazily, for `transform`.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from ._compat.sklearn import safe_indexing
from .offline.whitening import ChunkedRows, linear_map

Array = NDArray[Any]
Sample = ArrayLike | Mapping[str, float]
T = TypeVar("T")

FLOATS = [np.float64, np.float32]


def given_matrix(value: Any, name: str, shape: str) -> Array:
    """Return a float64 copy of an array that is a parameter; ValueError that names it unless its numbers are finite."""
    checks: dict[str, Any] = {"ensure_2d": False, "allow_nd": True, "ensure_min_samples": 0, "ensure_min_features": 0}
    try:
        return np.asarray(check_array(value, dtype=np.float64, order="C", copy=True, **checks))
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{name} is no array of finite numbers ({reason}): give one of shape {shape}") from error


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

    @classmethod
    def overflow(cls, name: str, sample: int, X: Array, *remedies: str) -> Self:
        """Return the error of the estimator `name` for an overflow at this sample of X, with what to do besides rescaling."""
        rescale = f"rescale the mixtures (largest absolute value {float(np.abs(X).max()):.2g})"
        return cls(
            f"{name} diverged at sample {sample}: an output or a weight overflowed. To change: {'; '.join([*remedies, rescale])}. "
            "The model is as it was before this call.",
            sample,
        )


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore an estimator, and the network that learns in place, after an exception; singular equations are a DivergenceError."""
    before = dict(vars(estimator))
    runner = before.get("_runner")
    backup = None if runner is None else runner.backup()
    try:
        yield
    except BaseException as error:
        vars(estimator).clear()
        vars(estimator).update(before)
        if runner is not None:
            runner.restore(backup)
        if not isinstance(error, np.linalg.LinAlgError):
            raise
        raise DivergenceError(
            f"{type(estimator).__name__}: the mixtures lead to equations without a solution ({error}): they do not vary in "
            "n_components directions, or their range is too large. Lower n_components, drop constant or repeated mixtures, or "
            "rescale them. The model is as it was before this call.",
            getattr(estimator, "n_samples_seen_", 0),
        ) from error


def finite_map(X: Array, matrix: Array, name: str, offset: Array | None = None) -> Array:
    """Return matrix x + offset for the rows x of X, in their precision; DivergenceError names the first row that overflows."""
    with np.errstate(all="ignore"):
        Y = linear_map(X, matrix)
        if offset is not None:
            Y += offset.astype(Y.dtype)
    finite = np.isfinite(Y).all(axis=1)
    if finite.all():
        return Y
    row = int(np.argmin(finite))
    raise DivergenceError.overflow(name, row, X[row], *(["use float64"] if Y.dtype == np.float32 else []))


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
    """Raise ValueError for the first NaN or infinity of the rows of X from `first` on; `owner` is the estimator, or its name."""
    finite = np.isfinite(block)
    if finite.all():
        return
    row, column = map(int, np.argwhere(~finite)[0])
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    raise ValueError(
        f"Input X contains {value}: {cell(owner, first + row, column)} is {value}. "
        f"{owner if isinstance(owner, str) else type(owner).__name__} needs finite numbers; drop such samples "
        "(X[np.isfinite(X).all(axis=1)]) or impute them (sklearn.impute) first. The model is unchanged."
    )


def validated_rows(estimator: Any, X: Any, *, reset: bool = True, min_samples: int = 1, dtype: Any = FLOATS) -> Any:
    """X as scikit-learn's `validate_data` returns it, a finite array of `dtype`; a Dask array as `DaskRows`."""
    if is_dask(X):
        rows = dask_rows(X, type(estimator).__name__, min_samples=min_samples)
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return rows
    if np.ma.is_masked(X):  # scikit-learn would drop the mask
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray):  # scikit-learn would make float64 of float32 in another byte order
        X = X.astype(X.dtype.newbyteorder("="), copy=False)
    options: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": False, "ensure_min_samples": min_samples}
    data = np.asarray(validate_data(estimator, X, reset=reset, **options))
    check_finite(data, 0, estimator)
    return data


def validated_outputs(Y: Any, name: str, d: int) -> Any:
    """Outputs of the estimator `name`, which has d of them, for `inverse_transform`: an array, or `DaskRows`."""
    data: Any = dask_rows(Y, name, "Y") if is_dask(Y) else check_array(Y, dtype=FLOATS, input_name="Y")
    if data.shape[1] != d:
        raise ValueError(
            f"Y has shape {data.shape}: inverse_transform of this {name} needs (n_samples, {d}), as transform returns it"
        )
    return data


def validated_sample(estimator: Any, x: Sample, *, reset: bool = False) -> Array:
    """Return a single mixture, a vector or a mapping of feature names to numbers, as a finite array of one row."""
    row = x if type(x) is np.ndarray else np.asarray(_in_order(estimator, x, reset))
    if row.dtype.char not in "fd":
        try:
            row = row.astype(np.float64, casting="unsafe" if row.dtype == object else "same_kind")
        except (TypeError, ValueError) as error:
            raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
    width = row.size or "at least 1" if reset else estimator.n_features_in_
    if row.ndim != 1 or row.size != width:
        raise ValueError(
            f"x has shape {row.shape}; {type(estimator).__name__} needs one mixture of {width} numbers. For several use "
            "partial_fit or transform."
        )
    row = row[np.newaxis]
    check_finite(row, 0, estimator)
    if reset:
        estimator.n_features_in_ = width
    return row


def _in_order(estimator: Any, x: Any, reset: bool) -> Any:
    """Return the values of a mapping, or of a pandas Series with names, in the order of the features."""
    names = list(x.keys()) if hasattr(x, "keys") else []
    if not names or not all(isinstance(name, str) for name in names):
        return x
    if reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    known = list(getattr(estimator, "feature_names_in_", ["arrays, which have no names"]))
    if sorted(names) != sorted(known):
        raise ValueError(f"x has the features {names}; {type(estimator).__name__} learned from {known}")
    return [x[name] for name in known]


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection, found without importing Dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def dask_rows(X: Any, name: str, argument: str = "X", min_samples: int = 1) -> "DaskRows":
    """X, which errors call `argument`, as float32 or float64 with every row in one block."""
    array = sys.modules.get("dask.array")
    if array is None or not isinstance(X, array.Array) or np.isnan(X.shape).any() or X.dtype.kind not in "fiub":
        raise TypeError(
            f"{argument} is a {type(X).__module__}.{type(X).__name__} of {getattr(X, 'dtype', 'columns')}: pass a Dask array of "
            "real numbers whose shape is known: X.to_dask_array(lengths=True) of a data frame, X.compute_chunk_sizes() of a "
            "selection, X.data of xarray"
        )
    if X.ndim != 2 or X.shape[0] < min_samples or not X.shape[1]:
        raise ValueError(
            f"{argument} has shape {X.shape}; Expected 2D array (n_samples, n_features) with a minimum of {min_samples} sample(s)"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({0: "auto", 1: -1}, method="tasks")
    return DaskRows(X if X.dtype in FLOATS else X.astype(np.float64), name)


def _finite(block: Array, name: str, block_info: Any = None) -> Array:
    block = np.asarray(block)
    check_finite(block, block_info[0]["array-location"][0][0], name)
    return block


class DaskRows(ChunkedRows):
    """The rows of a Dask array; `name` is the estimator that errors name.

    Iterating gives the blocks one after the other and holds one in memory; slices and index arrays give rows, all as NumPy
    arrays. `fold` sums over the blocks on the scheduler that the user has chosen. NaN and infinity in a block raise ValueError.
    """

    def __init__(self, array: Any, name: str) -> None:
        self.array, self.name = array, name
        self.shape, self.dtype = array.shape, array.dtype
        self._finite = array.map_blocks(_finite, name, dtype=self.dtype, meta=np.empty((0, 0), self.dtype))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        for i in range(self.array.numblocks[0]):
            if len(rows := np.asarray(self._finite.blocks[i].compute())):
                yield rows
            del rows  # before the next one is computed

    def __getitem__(self, rows: slice | Array) -> Array:
        return np.asarray(self.array[rows].compute())

    def mapped(self, function: Callable[[Array], Array], n_columns: int) -> "DaskRows":
        """`function` of the rows of every block, which is computed whenever a block is read."""
        dtype = function(np.zeros((1, self.shape[1]), self.dtype)).dtype
        chunks, meta = (self.array.chunks[0], (n_columns,)), np.empty((0, 0), dtype)
        return DaskRows(self._finite.map_blocks(function, dtype=dtype, chunks=chunks, meta=meta), self.name)

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            f"{self.name} would need all of the Dask array X in memory: pass X.compute(), or use BatchNICA or a network with "
            "n_components=a number, which read it block by block"
        )

    def fold(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Return ``of_block(block, *arguments)`` for every block, joined in order as the blocks are done."""
        from dask import delayed

        call = delayed(of_block, pure=False)
        given = [delayed(a, pure=False, traverse=False) for a in arguments]  # sent once to each worker
        parts = (call(block, *given) for block in self._finite.to_delayed().ravel())
        total: T = reduce(delayed(join, pure=False), parts).compute()
        return total


def blocks_of(X: Array | DaskRows) -> Iterator[Array]:
    """The blocks of a `DaskRows`; an array is one block."""
    return iter(X) if isinstance(X, DaskRows) else iter([X])


def collected(X: Array | DaskRows, rows: list[Array], last: int | None = None) -> Iterator[Array]:
    """Yield the blocks of X, and add about 4,000 evenly spaced rows, of the `last` ones, to `rows`: a Dask array is read once."""
    n = min(last or X.shape[0], X.shape[0])
    index, first = X.shape[0] - n + row_sample(n, X.shape[1]), 0
    for block in blocks_of(X):
        start, stop = np.searchsorted(index, [first, first + len(block)])
        rows.append(block[index[start:stop] - first].astype(np.float64))
        first += len(block)
        yield block
        del block  # before the next one is computed


def row_sample(n: int, k: int, most: int = 4000, numbers: int = 1 << 21) -> NDArray[np.intp]:
    """Which of n rows of k numbers to look at: evenly spaced, at most `most`, and about `numbers` numbers."""
    most = min(n, most, max(200, numbers // max(k, 1)))
    return np.arange(most) * n // max(most, 1)


def evenly_spaced(data: Any, most: int, numbers: int, horizon: int | None = None) -> Array:
    """At most so many samples, and about so many numbers, finite float64: evenly spaced, or the last with a horizon."""
    n, k = data.shape
    index = row_sample(n, k, most, numbers)
    if horizon is not None:
        index = np.arange(n - min(len(index), max(4 * horizon, 1000)), n)
    rows = data[index].compute() if is_dask(data) else safe_indexing(data, index)
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    bad = int(np.argmin(np.isfinite(rows).all(axis=1)))  # the first one, or a finite row
    check_finite(rows[bad : bad + 1], int(index[bad]), "bionica")
    return rows
