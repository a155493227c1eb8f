"""The door through which X enters every public method, for many samples (`rows`) or one (`one`); and which rows are looked at.

It decides once what X may be: NumPy arrays of any byte order and layout, lists, data frames, tensors and whatever else NumPy can
convert, as float32 or float64 (float16, integers and booleans become float64); names and their order; masked values are NaN, which
pass only where a method estimates missing values (`missing`); infinity, dates, complex numbers, text and sparse matrices are
refused. An array of more axes, such as a cube (y, x, band), is a sample in each of its pixels: the last axis is that of the
mixtures, and outputs have the other axes of X (`like`). An error names the parameter, the value and the remedy.

Dask arrays are read block by block, never gathered; Dask is imported only if the user has imported it. `DaskRows` reads the
blocks one after the other, for the networks, sums over them, for the offline methods, and maps them lazily, for `transform`.
"""

import operator
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, timedelta
from functools import cached_property, partial, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, validate_data

from .errors import ClusterError
from .kernels.loop import Diverged
from .offline.missing import completed, has_missing, predicted_rank
from .offline.whitening import ArrayRows, ChunkedRows, linear_map, mixtures_come_first, row_sample

Array = NDArray[Any]
Sample = ArrayLike | Mapping[str, float]
T = TypeVar("T")

FLOATS = [np.float64, np.float32]
_ENERGY_TOLERANCE = 1e-9  # of the sum of squares of X: rounding changes it less, other samples change it more
_DATES = (np.datetime64, np.timedelta64, date, timedelta)


def given_matrix(value: Any, name: str, shape: str) -> Array:
    """Return a float64 copy of an array that is a parameter; ValueError that names it unless its numbers are finite."""
    checks: dict[str, Any] = {"ensure_2d": False, "allow_nd": True, "ensure_min_samples": 0, "ensure_min_features": 0}
    try:
        return np.asarray(check_array(value, dtype=np.float64, order="C", copy=True, **checks))
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise ValueError(f"{name} is no array of finite numbers ({reason}): give one of shape {shape}") from error


def given_weights(network: Any, default: dict[str, Array], positive_definite: str = "") -> dict[str, Array]:
    """The arrays in `init` of a network in float64, of the shapes of the default ones; one may have to be positive definite."""
    given, shapes = {}, {name: W.shape for name, W in default.items()}
    for name, value in network.init.items() if isinstance(network.init, dict) else ():
        if name not in shapes:
            raise ValueError(f"init has no weights {name!r} to set; {type(network).__name__} has {sorted(shapes)}")
        W = given_matrix(value, f"init[{name!r}]", str(shapes[name]))
        if W.shape != shapes[name]:
            raise ValueError(f"init[{name!r}] has shape {W.shape}; for these mixtures it must be {shapes[name]}")
        if name == positive_definite and not (np.allclose(W, W.T) and np.linalg.eigvalsh(W)[0] > 0):
            raise ValueError(f"init[{name!r}] must be symmetric positive definite; W @ W.T of any full-rank W is")
        given[name] = W
    return given


def finite_map(X: Array, matrix: Array, offset: Array | None = None) -> Array:
    """Return matrix x + offset for the rows x of X, in their precision; `Diverged` names the first row that overflows."""
    with np.errstate(all="ignore"):
        Y = linear_map(X, matrix)
        if offset is not None:
            Y += offset.astype(Y.dtype)
    return finite_rows(Y, X)


def finite_rows(Y: Array, X: Array) -> Array:
    """Return Y, which comes from X row by row; `Diverged` names its first row that is not finite."""
    finite = np.isfinite(Y).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise Diverged(row, X[row])
    return Y


def warn(text: str, category: type[Warning] = ConvergenceWarning) -> None:
    """Warn at the user's line of code: the first outside of bionica, scikit-learn and joblib."""
    inside = (str(Path(__file__).parent), str(Path(warnings.__file__).parent / "contextlib.py"))
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(inside) or {"sklearn", "joblib"} & set(Path(frame.f_code.co_filename).parts)
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def cell(owner: Any, row: int | str, column: int, argument: str = "X") -> str:
    """Return "X[3, 1]", or "X[3, 'name']" if the estimator `owner` knows the names of its features."""
    names = getattr(owner, "feature_names_in_", None)
    return f"{argument}[{row}, {column if names is None else repr(str(names[column]))}]"


def check_finite(block: Array, first: int, owner: Any, argument: str = "X", missing: bool = False) -> None:
    """Raise ValueError for the first infinity, or NaN unless these may be `missing`, of the rows of X from `first` on.

    `owner` is the estimator, or its name.
    """
    sound = np.isfinite(block)
    if missing and not sound.all():
        sound |= np.isnan(block)
    if sound.all():
        return
    row, column = map(int, np.argwhere(~sound)[0])
    value = "NaN" if np.isnan(block[row, column]) else "infinity"
    name, model = (owner, "") if isinstance(owner, str) else (type(owner).__name__, " The model is unchanged.")
    fits = (
        ", or use fit of MinimumVolumeCone or BatchNICA in memory, with n_components, which estimates NaN"
        if value == "NaN"
        else ""
    )
    raise ValueError(
        f"Input {argument} contains {value}: {cell(owner, first + row, column, argument)} is {value}. {name} needs finite numbers "
        f"here; drop such samples ({argument}[np.isfinite({argument}).all(axis=1)]){fits}.{model}"
    )


def rows(
    owner: Any, X: Any, *, reset: bool = False, min_samples: int = 1, dtype: Any = FLOATS, missing: bool = False
) -> Any:
    """X as a finite array of `dtype`, or with NaN if values may be `missing`, or a Dask array as `DaskRows`.

    `owner` is the estimator that errors name, whose names of features X must have, or gets if `reset`.
    """
    data: Any = None
    if "dask" in sys.modules:
        data = dask_rows(X, type(owner).__name__, min_samples=min_samples, dtype=dtype)
    if data is not None:
        validate_data(owner, X, reset=reset, skip_check_array=True)
        return data
    options: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": False, "ensure_min_samples": min_samples}
    with np.errstate(over="ignore"):  # beyond float32: infinite, and refused
        data = np.asarray(validate_data(owner, _plain(X, check_axes=reset), reset=reset, **options))
    check_finite(data, 0, owner, missing=missing)
    return data


def like(X: Any, Y: Array, axis: str, names: Callable[[], Array] | None = None) -> Any:
    """Y, with a row for each sample of X, as an array with the axes of X but the last; if X is of xarray, with its coordinates.

    `axis` is the name of the last axis of Y, and `names` returns its coordinates.
    """
    if getattr(X, "ndim", 2) > 2:
        Y = Y.reshape(*X.shape[:-1], Y.shape[-1])
    if not (hasattr(X, "dims") and hasattr(X, "coords")):
        return Y
    coords = {name: value for name, value in X.coords.items() if X.dims[-1] not in value.dims}
    return type(X)(Y, dims=(*X.dims[:-1], axis), coords=coords | ({axis: names()} if names else {}))


def completed_rows(owner: Any, X: Any, n_components: Any) -> Any:
    """X with its missing values estimated, by `n_components` directions; rows with fewer numbers are left out, with a warning."""
    if isinstance(X, DaskRows) or not has_missing(X):
        return X
    counts = np.count_nonzero(~np.isnan(X), axis=1)
    if (short := counts < (1 if n_components == "auto" else n_components)).any():
        fewer = "no number" if n_components == "auto" else f"fewer numbers than n_components={n_components}"
        warn(f"{type(owner).__name__}: left out of X, because they have {fewer}: {short.sum()} sample(s).", UserWarning)
        X = X[~short]
        if len(X) and not has_missing(X):
            return X
    if not len(X) or (empty := np.isnan(X).all(axis=0)).any():
        where = cell(owner, ":", int(np.argmax(empty))) if len(X) else "X"
        raise ValueError(f"{where} holds no number: leave this mixture out")
    return completed(X, predicted_rank(X) if n_components == "auto" else min(n_components, *X.shape))


def _plain(X: Any, argument: str = "X", check_axes: bool = False) -> Any:
    """X without what scikit-learn would drop, change or refuse in other words: axes, a mask, a byte order, dates, sparse matrices.

    An array of more than two axes has a row for each pixel; ValueError if its first axis may be that of the mixtures.
    """
    if issparse(X):
        raise TypeError(
            f"{argument} is a sparse matrix, and dense data is required: {argument}.toarray() makes a dense array of it"
        )
    if getattr(X, "ndim", 2) > 2:
        X = X if isinstance(X, np.ndarray) else np.asarray(X)
        if check_axes and X.size and X.dtype.kind in "biuf" and mixtures_come_first(X):
            raise ValueError(
                f"X has shape {X.shape}, and its last axis must be that of the mixtures, but the first one seems to be: pass "
                f"np.moveaxis(X, 0, -1). If it is not, pass X.reshape(-1, {X.shape[-1]})"
            )
        X = X.reshape(-1, X.shape[-1])
    if isinstance(X, list | tuple):
        X = np.asarray(X)
    if np.ma.isMaskedArray(X):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, np.ndarray):  # scikit-learn would make float64 of float32 in another byte order
        X = X.astype(X.dtype.newbyteorder("="), copy=False)
    kinds = {getattr(dtype, "kind", "") for dtype in (X.dtypes if hasattr(X, "columns") else [getattr(X, "dtype", "")])}
    if kinds & {"M", "m"} or ("O" in kinds and any(isinstance(value, _DATES) for value in np.ravel(X))):
        raise ValueError(
            f"{argument} holds dates or time differences, which are no mixtures: leave them out, or convert them to numbers"
        )
    return X


def matrix(value: Any, argument: str, name: str, dtype: Any = FLOATS, missing: bool = False) -> Array:
    """An argument other than X, of the function or estimator called `name`, as a matrix that is finite, or has `missing` values."""
    data = _plain(value, argument)
    if isinstance(data, np.ndarray) and data.dtype.kind in "US":
        raise ValueError(f"{argument} holds text: give numbers")
    data = check_array(data, dtype=dtype, input_name=argument, ensure_all_finite=False, estimator=name)
    check_finite(data, 0, name, argument, missing)
    return np.asarray(data)


def stand_in(name: str) -> Any:
    """An owner for a function that has no estimator: errors call it by this name, and it gets the names of the features."""
    return type(name, (BaseEstimator,), {})()


def outputs(owner: Any, Y: Any, d: int) -> Any:
    """Outputs of the estimator `owner`, which has d of them, for `inverse_transform`: a finite array, or `DaskRows`."""
    name, names = type(owner).__name__, [*map(str, getattr(Y, "columns", ()))]
    data: Any = dask_rows(Y, name, "Y")
    data = matrix(Y, "Y", name) if data is None else data
    if data.shape[1] != d:
        raise ValueError(
            f"Y has shape {data.shape}: inverse_transform of this {name} needs (n_samples, {d}), as transform returns it"
        )
    known = [*owner.get_feature_names_out()]
    if names != known and sorted(names) == sorted(known):
        raise ValueError(
            "The feature names should match those that were passed during fit.\nFeature names must be in the same order as they "
            "were in fit.\n"
        )
    return data


def one(owner: Any, x: Sample, *, reset: bool = False, dtype: Any = FLOATS) -> Array:
    """A single mixture, a vector or a mapping of feature names to numbers, as a finite array of one row."""
    known = None if reset else owner.n_features_in_  # a model that has seen no sample says so, whatever x is
    row = x if type(x) is np.ndarray else np.asarray(_in_order(owner, _plain(x), reset))
    if row.dtype.char not in "fd" or not row.dtype.isnative:
        _plain(row)
        try:
            row = row.astype(
                np.float32 if row.dtype.char == "f" else np.float64,
                casting="unsafe" if row.dtype == object else "same_kind",
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
    width = row.size or "at least 1" if known is None else known
    if row.ndim != 1 or row.size != width:
        raise ValueError(
            f"x has shape {row.shape}; {type(owner).__name__} needs one mixture of {width} numbers. For several use "
            "partial_fit or transform."
        )
    row = row[np.newaxis]
    if dtype is not FLOATS and row.dtype != dtype:
        with np.errstate(over="ignore"):
            row = row.astype(dtype)
    check_finite(row, 0, owner)
    if reset:
        owner.n_features_in_ = width
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


def dask_rows(X: Any, name: str, argument: str = "X", min_samples: int = 1, dtype: Any = FLOATS) -> "DaskRows | None":
    """A Dask array, which errors call `argument`, in a dtype, or one of several, with every row in one block; None if X is none."""
    if "dask" not in sys.modules or not sys.modules["dask"].is_dask_collection(X):
        return None
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
    allowed = dtype if isinstance(dtype, list) else [dtype]
    return DaskRows(X if X.dtype in allowed else X.astype(allowed[0]), name)


def _mapped(block: Any, function: Callable[[Array], Array], name: str, block_info: Any = None) -> Array:
    rows = np.asarray(block)
    check_finite(rows, block_info[0]["array-location"][0][0], name)
    return function(rows)


class DaskRows(ChunkedRows):
    """The rows of a Dask array; `name` is the estimator that errors name.

    Iterating gives the blocks one after the other and holds one in memory; slices and index arrays give rows, all as NumPy
    arrays. `fold` sums over the blocks on the scheduler that the user has chosen. NaN and infinity in a block raise ValueError.
    Whatever is done with a block is one task, because a cluster needs about a millisecond for each. `fold` raises ValueError if the
    blocks are not those of an earlier pass, and ClusterError names what happened to the cluster.
    """

    def __init__(
        self, array: Any, name: str, base: "DaskRows | None" = None, steps: tuple[Callable[[Array], Array], ...] = ()
    ) -> None:
        self.array, self.name = array, name
        self.shape, self.dtype = array.shape, array.dtype
        self._raw: Any = array if base is None else base._raw  # `array` is the raw one after these steps
        self._steps = steps
        self._energy: dict[str, float] = {} if base is None else base._energy  # that of the first pass
        self._first = np.cumsum([0, *array.chunks[0]])

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def _blocks(self) -> tuple[Any, list[Any]]:
        """A collection with the graph of all blocks, and references to them."""
        from dask.delayed import unpack_collections

        blocks = list(self._raw.to_delayed().ravel())
        return blocks[0], [unpack_collections(block)[0] for block in blocks]

    def _joined(self, of_block: Callable[..., T], join: Any, blocks: Array, *arguments: Any) -> tuple[T, float]:
        """``of_block(block, number of its first row, *arguments)`` for some blocks, joined by the workers; their sum of squares.

        Blocks are read in any order: if one has a bad number, the first of all is named.
        """
        collection = self._collection(of_block, join, blocks, *arguments)
        try:
            with cluster_faults():
                if not self._energy:  # the first pass
                    _check_workers()
                result: tuple[T, float] = collection.compute()
                return result
        except ValueError:
            for _ in self:
                pass
            raise

    def _collection(self, of_block: Callable[..., Any], join: Any, blocks: Array, *arguments: Any) -> Any:
        """What `_joined` computes; plain tasks, because `dask.delayed` takes a millisecond for each."""
        from dask.delayed import Delayed
        from dask.highlevelgraph import HighLevelGraph

        name, depth, (base, references) = f"bionica-{uuid4().hex}", 0, self._blocks
        # One argument, which is sent once to each worker.
        tasks: dict[Any, Any] = {name: partial(_of_block, self.name, self._steps, of_block, arguments)}
        keys = [(name, depth, int(i)) for i in blocks]
        for key in keys:
            tasks[key] = operator.call, name, references[key[2]], int(self._first[key[2]])
        while len(keys) > 1:
            depth += 1
            groups = {(name, depth, i): keys[i : i + 8] for i in range(0, len(keys), 8)}
            tasks |= {key: (_join, join, group) for key, group in groups.items()}
            keys = list(groups)
        return Delayed(keys[0], HighLevelGraph.from_collections(name, tasks, dependencies=[base]), layer=name)

    def __iter__(self) -> Iterator[Array]:
        for i in np.flatnonzero(self.array.chunks[0]):
            block = self._collection(_rows_of, None, np.array([i]))
            with cluster_faults():
                rows = block.compute()[0]
            yield rows
            del rows  # before the next one is computed

    def __getitem__(self, rows: slice | Array) -> Array:
        index = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        order = np.argsort(index, kind="stable")
        blocks = np.flatnonzero(np.diff(np.searchsorted(index[order], self._first)))  # those with such rows
        result = np.empty((len(index), self.shape[1]), self.dtype)
        if len(blocks):
            result[order] = self._joined(_rows_of, _stacked, blocks, index[order])[0]
        return result

    def mapped(self, function: Callable[[Array], Array], n_columns: int) -> "DaskRows":
        """`function` of the rows of every block, which is computed whenever a block is read."""
        dtype = function(np.zeros((1, self.shape[1]), self.dtype)).dtype
        chunks, meta = (self.array.chunks[0], (n_columns,)), np.empty((0, 0), dtype)
        array = self.array.map_blocks(_mapped, function, self.name, dtype=dtype, chunks=chunks, meta=meta)
        return DaskRows(array, self.name, self, (*self._steps, function))

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            f"{self.name} would need all of the Dask array X in memory: pass X.compute(), or use BatchNICA or a network with "
            "n_components=a number, which read it block by block"
        )

    def fold_numbered(self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
        """Blocks are mapped and joined by the workers; the client gets the result."""
        total: T
        total, energy = self._joined(_in_cache, join, np.flatnonzero(self.array.chunks[0]), of_block, join, *arguments)
        before = self._energy.setdefault("all", energy)
        if not np.isclose(energy, before, rtol=_ENERGY_TOLERANCE, atol=0):
            raise ValueError(
                f"The blocks of the Dask array X have changed between two passes: the sum of their squares was {before:.9g} and is "
                f"{energy:.9g}. Call X = X.persist() first, or make them so that they are the same each time (seeds, files that "
                "nobody writes to)"
            )
        return total


def _of_block(name: str, steps: Any, of_block: Any, arguments: Any, block: Any, first: int) -> tuple[Any, float]:
    """What a worker does with a block (see `DaskRows._joined`), and the sum of its squares."""
    rows = np.asarray(block)
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
    if not np.isfinite(energy):  # otherwise all entries are
        check_finite(rows, first, name)
    for step in steps:
        rows = step(rows)
    return of_block(rows, first, *arguments), energy


def _check_workers() -> None:
    """Raise ImportError if a worker of the cluster that Dask would use has no bionica: Dask would wait for it for ever."""
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)
    if hasattr(client, "run"):
        for worker, spec in client.run(find_spec, "bionica").items():
            if spec is None:
                raise ImportError(f"no module bionica on {worker}")


@contextmanager
def cluster_faults() -> Iterator[None]:
    """Raise ClusterError for an exception that says what happened to a Dask cluster, and not to the samples."""
    try:
        yield
    except Exception as error:
        kinds, text = {kind.__name__ for kind in type(error).__mro__}, str(error).strip().replace("\n", " ")
        if "ImportError" in kinds:
            fault = "a worker cannot import what it needs: install the same version of bionica on all workers"
        elif "KilledWorker" in kinds:
            fault = "several workers died at one block: give them more memory, or make blocks smaller (X.rechunk)"
        elif kinds & {"CancelledError", "CommClosedError"}:
            fault = "the scheduler of the cluster is gone, or what it held: start the cluster, load X and call again"
        else:
            raise
        raise ClusterError(f"{fault}. The model is unchanged ({type(error).__name__}: {text})") from error


def _in_cache(block: Array, first: int, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any) -> T:
    """A block in parts of a few megabytes: temporary arrays of a whole one take twice the time."""
    return ArrayRows(block, first).fold_numbered(of_block, join, *arguments)


def _rows_of(block: Array, first: int, index: Array | None = None) -> Array:
    """The rows of a block whose numbers are in `index`, which is sorted; all by default."""
    if index is None:
        return block
    start, stop = np.searchsorted(index, [first, first + len(block)])
    return np.asarray(block[index[start:stop] - first])


def _stacked(a: Array, b: Array) -> Array:
    return np.concatenate([a, b])


def _join(join: Callable[[T, T], T], parts: list[tuple[T, float]]) -> tuple[T, float]:
    return reduce(lambda a, b: (join(a[0], b[0]), a[1] + b[1]), parts)


def collected(X: Array | DaskRows, rows: list[Array], last: int | None = None) -> Iterator[Array]:
    """Yield the blocks of X, and add a sample of about 4,000 rows, of the `last` ones, to `rows`: a Dask array is read once."""
    n = min(last or X.shape[0], X.shape[0])
    index, first = X.shape[0] - n + row_sample(n, X.shape[1]), 0
    for block in X if isinstance(X, DaskRows) else [X]:
        rows.append(_rows_of(block, first, index).astype(np.float64))
        first += len(block)
        yield block
        del block  # before the next one is computed


def some_rows(X: Any, most: int = 4000, numbers: int = 1 << 21, last: int | None = None, finite: bool = False) -> Array:
    """At most `most` rows of X (an array or `DaskRows`), and about `numbers` numbers: one row of each stratum, or the `last` ones.

    `finite`: those with NaN are left out, because learning reports them later.
    """
    n, k = X.shape
    index = row_sample(n, k, most=most, numbers=numbers)
    if last is not None:
        index = np.arange(n - min(len(index), max(4 * last, 1000), n), n)
    rows = np.ascontiguousarray(X[index], dtype=np.float64)
    return rows[np.isfinite(rows).all(axis=1)] if finite else rows
