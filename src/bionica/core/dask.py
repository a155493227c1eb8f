"""Dask arrays, read block by block and never gathered, and faults of a cluster.

`dask_rows` checks an array, `DaskRows` reads it, `cluster_faults` translates
exceptions. Dask is imported only if the user has imported it.
"""

import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial, reduce
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np

from bionica.core.blocks import Array, ArrayRows, ChunkedRows, check_finite, rows_of
from bionica.core.errors import ClusterError

T = TypeVar("T")

# Of the sum of squares of X: rounding changes it less, other samples change it more.
_ENERGY_TOLERANCE = 1e-9
_SPLIT_EVERY = 8  # results that a task joins


def dask_rows(
    X: Any, name: str, argument: str = "X", *, min_samples: int = 1, dtype: Any
) -> "DaskRows | None":
    """A Dask array in a dtype, or one of several, with every row in one block.

    None if X is no Dask collection. Errors call X `argument` and the estimator `name`.
    """
    if "dask" not in sys.modules or not sys.modules["dask"].is_dask_collection(X):
        return None
    array = sys.modules.get("dask.array")
    if (
        array is None
        or not isinstance(X, array.Array)
        or np.isnan(X.shape).any()
        or X.dtype.kind not in "fiub"
    ):
        raise TypeError(
            f"{argument} is a {type(X).__module__}.{type(X).__name__} of "
            f"{getattr(X, 'dtype', 'columns')}: pass a Dask array of real numbers "
            "whose shape is known: X.to_dask_array(lengths=True) of a data frame, "
            "X.compute_chunk_sizes() of a selection, X.data of xarray"
        )
    if X.ndim != 2 or X.shape[0] < min_samples or not X.shape[1]:
        raise ValueError(
            f"{argument} has shape {X.shape}; Expected 2D array (n_samples, "
            f"n_features) with a minimum of {min_samples} sample(s)"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({0: "auto", 1: -1}, method="tasks")
    allowed = dtype if isinstance(dtype, list) else [dtype]
    return DaskRows(X if X.dtype in allowed else X.astype(allowed[0]), name)


class DaskRows(ChunkedRows):
    """The rows of a Dask array; `name` is the estimator that errors name.

    Iterating gives the blocks one after the other and holds one in memory; slices and
    index arrays give rows, all as NumPy arrays. `fold_numbered` sums over the blocks on
    the scheduler that the user has chosen, and raises ValueError if they are not those
    of an earlier pass. NaN and infinity in a block raise ValueError, faults of a
    cluster ClusterError. A cluster needs about a millisecond for each task, so that all
    work on a block is one task.
    """

    def __init__(
        self,
        array: Any,
        name: str,
        base: "DaskRows | None" = None,
        steps: tuple[Callable[[Array], Array], ...] = (),
    ) -> None:
        self.array = array
        self.name = name
        self.shape = array.shape
        self.dtype = array.dtype
        # `array` is the raw one after these steps
        self._raw: Any = array if base is None else base._raw
        self._steps = steps
        # The sum of squares of the raw array in the first pass
        self._energy: dict[str, float] = {} if base is None else base._energy
        self._first = np.cumsum([0, *array.chunks[0]])

    def __len__(self) -> int:
        return self.shape[0]

    @cached_property
    def _blocks(self) -> list[Any]:
        return list(self._raw.to_delayed().ravel())

    def _delayed(
        self, of_block: Callable[..., T], join: Any, blocks: Array, *arguments: Any
    ) -> Any:
        """``of_block(block, number of its first row, *arguments)`` for some blocks.

        Joined as a tree, with the sum of squares of the raw blocks.
        """
        from dask import delayed

        of_rows = partial(_of_block, self.name, self._steps, of_block, arguments)
        once = delayed(of_rows, pure=False)  # as an argument, sent once to each worker
        call = delayed(operator.call, pure=False)
        join_all = delayed(partial(_join, join), pure=False)
        parts = [call(once, self._blocks[i], int(self._first[i])) for i in blocks]
        while len(parts) > 1:
            groups = range(0, len(parts), _SPLIT_EVERY)
            parts = [join_all(parts[i : i + _SPLIT_EVERY]) for i in groups]
        return parts[0]

    def _joined(
        self, of_block: Callable[..., T], join: Any, blocks: Array, *arguments: Any
    ) -> tuple[T, float]:
        """Compute `_delayed`; of bad numbers in several blocks, name the first."""
        result: tuple[T, float]
        try:
            with cluster_faults():
                if not self._energy:  # the first pass
                    _check_workers()
                result = self._delayed(of_block, join, blocks, *arguments).compute()
        except ValueError:  # blocks are computed in any order
            for _ in self:
                pass
            raise
        return result

    def __iter__(self) -> Iterator[Array]:
        for i in np.flatnonzero(self.array.chunks[0]):
            block = self._delayed(rows_of, None, np.array([i]))
            with cluster_faults():
                rows = block.compute()[0]
            yield rows
            del rows  # before the next one is computed

    def __getitem__(self, rows: slice | Array) -> Array:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        order = np.argsort(rows, kind="stable")
        counts = np.diff(np.searchsorted(rows[order], self._first))
        blocks = np.flatnonzero(counts)  # those with such rows
        result = np.empty((len(rows), self.shape[1]), self.dtype)
        if len(blocks):
            result[order] = self._joined(rows_of, _stacked, blocks, rows[order])[0]
        return result

    def mapped(self, function: Callable[[Array], Array], n_columns: int) -> "DaskRows":
        """`function` of the rows, computed whenever a block is read."""
        dtype = function(np.zeros((1, self.shape[1]), self.dtype)).dtype
        array = self.array.map_blocks(
            _mapped,
            function,
            self.name,
            dtype=dtype,
            chunks=(self.array.chunks[0], (n_columns,)),
            meta=np.empty((0, 0), dtype),
        )
        return DaskRows(array, self.name, self, (*self._steps, function))

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise TypeError(
            f"{self.name} would need all of the Dask array X in memory: pass "
            "X.compute(), or use BatchNICA or a network with n_components=a number, "
            "which read it block by block"
        )

    def fold_numbered(
        self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any
    ) -> T:
        """Blocks are mapped and joined by the workers; the client gets the result."""
        blocks = np.flatnonzero(self.array.chunks[0])
        total: T
        total, energy = self._joined(
            _in_cache, join, blocks, of_block, join, *arguments
        )
        before = self._energy.setdefault("all", energy)
        if not np.isclose(energy, before, rtol=_ENERGY_TOLERANCE, atol=0):
            raise ValueError(
                "The blocks of the Dask array X have changed between two passes: the "
                f"sum of their squares was {before:.9g} and is {energy:.9g}. Call "
                "X = X.persist() first, or make them so that they are the same each "
                "time (seeds, files that nobody writes to)"
            )
        return total


def _of_block(
    name: str, steps: Any, of_block: Any, arguments: Any, block: Any, first: int
) -> tuple[Any, float]:
    """What a worker does with a block, and the sum of squares of the raw block."""
    rows = np.asarray(block)
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.einsum("ij,ij->", rows, rows, dtype=np.float64))
    if not np.isfinite(energy):  # otherwise all entries are
        check_finite(rows, first, name)
    for step in steps:
        rows = step(rows)
    return of_block(rows, first, *arguments), energy


def _in_cache(
    block: Array,
    first: int,
    of_block: Callable[..., T],
    join: Callable[[T, T], T],
    *arguments: Any,
) -> T:
    """In parts of a few megabytes: arrays as large as a block take twice the time."""
    return ArrayRows(block, first).fold_numbered(of_block, join, *arguments)


def _stacked(a: Array, b: Array) -> Array:
    return np.concatenate([a, b])


def _join(join: Callable[[T, T], T], parts: list[tuple[T, float]]) -> tuple[T, float]:
    return reduce(lambda a, b: (join(a[0], b[0]), a[1] + b[1]), parts)


def _mapped(
    block: Any, function: Callable[[Array], Array], name: str, block_info: Any = None
) -> Array:
    rows = np.asarray(block)
    check_finite(rows, block_info[0]["array-location"][0][0], name)
    return function(rows)


def _check_workers() -> None:
    """Raise ImportError if a worker that Dask would use has no bionica.

    Dask would wait for it for ever.
    """
    from dask.base import get_scheduler

    client: Any = getattr(get_scheduler(), "__self__", None)
    if hasattr(client, "run"):
        for worker, spec in client.run(find_spec, "bionica").items():
            if spec is None:
                raise ImportError(f"no module bionica on {worker}")


@contextmanager
def cluster_faults() -> Iterator[None]:
    """Raise ClusterError for an exception that a Dask cluster, not a sample, caused."""
    try:
        yield
    except Exception as error:
        kinds = {kind.__name__ for kind in type(error).__mro__}
        text = str(error).strip().replace("\n", " ")
        if "ImportError" in kinds:
            fault = (
                "a worker cannot import what it needs: install the same version of "
                "bionica on all workers"
            )
        elif "KilledWorker" in kinds:
            fault = (
                "several workers died at one block: give them more memory, or make "
                "blocks smaller (X.rechunk)"
            )
        elif kinds & {"CancelledError", "CommClosedError"}:
            fault = (
                "the scheduler of the cluster is gone, or what it held: start the "
                "cluster, load X and call again"
            )
        else:
            raise
        raise ClusterError(
            f"{fault}. The model is unchanged ({type(error).__name__}: {text})"
        ) from error
