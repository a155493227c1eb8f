"""The base of all readers: blocks of samples, one after the other, in bounded memory."""

import importlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from ..atomic import is_disk_full

if TYPE_CHECKING:
    from .columns import Columns

Array = NDArray[Any]

_BLOCK_BYTES = 2**22
_LARGEST_CHUNK = 2**28  # bytes that are decoded at once
_SMALL_ARRAY = 2**30  # bytes that any file may say it holds
_MOST_EXPANSION = 2**14  # bytes of a larger array for each byte on disk


class InputError(ValueError):
    """Data that cannot be read as mixtures. The message names the file, the place and the remedy."""


def import_optional(module: str, purpose: str) -> Any:
    """Import a package that only some formats need; InputError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"{purpose} needs the package {package}: pip install 'bionica[io]' ({error})") from error


@contextmanager
def explain_errors(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a library raises about a broken file into one sentence."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # each library has exceptions of its own, and broken bytes lead to all of them
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{name} cannot be read as {kind} ({cause}): is it complete, and of this format?") from error


def block_rows(n_features: int) -> int:
    """Return the number of samples of a block: 4 MiB of float64, at most 65,536."""
    return max(1, min(65536, _BLOCK_BYTES // (8 * max(1, n_features))))


def check_chunk_size(name: str, n_bytes: int, remedy: str = "write it again in smaller chunks") -> None:
    """Raise if what a file says must be decoded at once takes too much memory."""
    if n_bytes > _LARGEST_CHUNK:
        raise InputError(
            f"{name} has chunks of {n_bytes >> 20:,} MiB; at most {_LARGEST_CHUNK >> 20} are read: {remedy}"
        )


def check_declared_size(name: str, n_bytes: int, stored: Iterable[int]) -> None:
    """Raise if a file says that it holds far more numbers than it can; `stored` are bytes on disk, added up as needed.

    Most formats leave out chunks that were never written: a few bytes can stand for any number of zeros.
    """
    needed, there = n_bytes // _MOST_EXPANSION if n_bytes > _SMALL_ARRAY else 0, 0
    for size in stored if needed else ():
        there += size
        if there >= needed:
            return
    if there < needed:
        raise InputError(
            f"{name} says that it holds {n_bytes >> 20:,} MiB of numbers and has {there:,} bytes: is it complete? Write it again"
        )


def check_dtype(dtype: Any, name: str) -> None:
    """Raise if these are not real numbers."""
    if dtype.kind not in "biuf":
        raise InputError(f"{name} holds {dtype}, not real numbers: convert it to float64 first")


def finite_floats(values: Any, name: str, first: int = 0) -> Array:
    """Return a block C-ordered, float32 and float16 as float32, the rest as float64; raise if it holds NaN or infinity."""
    block: Array = np.asarray(values)
    check_dtype(block.dtype, name)
    dtype = np.float32 if block.dtype.newbyteorder("=") in (np.float32, np.float16) else np.float64
    block = np.asarray(block, dtype=dtype, order="C")
    finite = np.isfinite(block)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise InputError(
            f"{name}, sample {first + i}, mixture {j} is {block[i, j]}: drop or fill such samples first "
            "(both counted from 0)"
        )
    return block


@contextmanager
def close_on_error(file: Any) -> Iterator[Any]:
    """Close a file if there is an error, and otherwise leave it open for a reader."""
    try:
        yield file
    except BaseException:
        file.close()
        raise


class EvenSample:
    """At most `limit` rows of a stream of unknown length, evenly spread over the rows seen so far.

    Every `step`-th row is kept. When more than `limit` rows are kept, every second one is dropped and `step` doubles.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.step, self.seen = limit, 1, 0
        self._kept: list[Array] = []
        self._n_kept = 0

    def add(self, block: Array) -> None:
        """Add the next rows of the stream."""
        self._kept.append(block[-self.seen % self.step :: self.step].copy())
        self._n_kept += len(self._kept[-1])
        self.seen += len(block)
        while self._n_kept > self.limit:
            half = self.rows()[::2].copy()
            self._kept, self._n_kept, self.step = [half], len(half), 2 * self.step

    def rows(self) -> Array:
        """Return the rows kept."""
        return np.concatenate(self._kept) if self._kept else np.empty((0, 0))


class LastSample:
    """The last `limit` rows of a stream."""

    def __init__(self, limit: int) -> None:
        self.limit, self.seen = limit, 0
        self._kept: deque[Array] = deque()
        self._n_kept = 0

    def add(self, block: Array) -> None:
        """Add the next rows of the stream."""
        self._kept.append(block[-self.limit :].copy())
        self._n_kept += len(self._kept[-1])
        self.seen += len(block)
        while self._n_kept - len(self._kept[0]) >= self.limit:
            self._n_kept -= len(self._kept.popleft())

    def rows(self) -> Array:
        """Return the rows kept."""
        return np.concatenate(self._kept)[-self.limit :] if self._kept else np.empty((0, 0))


class Reader(ABC):
    """A stream of mixtures."""

    name: str  # for messages
    n_samples: int | None = None  # known after `sample` at the latest
    n_features: int | None = None  # known after the first block at the latest
    repeatable: bool = True  # whether `blocks` can be called again
    image_shape: tuple[int, ...] | None = None  # if the samples are pixels
    header: list[str] | None = None  # names of all columns of the file
    kept: list[int] | None = None  # indices of the columns that are read, if some are not
    notes: Sequence[str] = ()  # what the user should know about how the file was read

    def column(self, j: int) -> str:
        """Return how the user knows mixture j: the number of its column, counted from 1, and its name."""
        index = self.kept[j] if self.kept else j
        return f"column {index + 1} ({self.header[index]})" if self.header else f"column {index + 1}"

    @abstractmethod
    def _blocks(self) -> Iterator[Array]:
        """Yield all samples."""

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from index `start` on: finite floats of shape (n, n_features), C-ordered."""
        for block in self._blocks():
            if start < len(block):
                yield block[start:]
            start = max(0, start - len(block))

    def sample(self, limit: int) -> Array:
        """Return at most `limit` samples, evenly spread over the input, and count all samples."""
        chosen = EvenSample(limit)
        for block in self.blocks():
            chosen.add(block)
        self.n_samples = chosen.seen
        return chosen.rows()

    def close(self) -> None:
        """Close files."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class MatrixReader(Reader):
    """A matrix of which any range of samples can be fetched.

    `shape` and `dtype` are those of the matrix in the file, `axis` is the axis that holds the samples, `fetch(index)`
    returns matrix[index] and `kind` says what the file should be. `rows` is the number of samples of a block, and
    `gather` says that single samples are cheap to fetch.
    """

    n_samples: int
    n_features: int

    def __init__(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        dtype: Any,
        axis: int,
        fetch: Callable[[Any], Any],
        *,
        rows: int | None = None,
        gather: bool = False,
        close: Callable[[], None] | None = None,
    ) -> None:
        if len(shape) != 2:
            raise InputError(
                f"{name} has shape {shape}: mixtures are a matrix, samples x mixtures (or mixtures x samples with "
                "--axis 1)"
            )
        check_dtype(np.dtype(dtype), name)
        if 0 in shape:
            raise InputError(f"{name} is empty: its shape is {shape}")
        self.name, self._kind, self._fetch, self._close = name, kind, fetch, close
        self._axis, self._gather = axis, gather
        self.n_samples, self.n_features = int(shape[axis]), int(shape[1 - axis])
        self._rows = rows or block_rows(self.n_features)

    def choose(self, columns: "Columns") -> Self:
        """Read only some of the mixtures."""
        with close_on_error(self):
            kept = columns.kept(self.name, self.n_features)
        if len(kept) < self.n_features:
            self.kept, self.n_features = kept, len(kept)
        return self

    def take(self, index: Any, first: int = 0) -> Array:
        """Return the samples of an index or a slice; errors count from sample `first`."""
        with explain_errors(self.name, self._kind):
            part = self._fetch(index) if self._axis == 0 else np.asarray(self._fetch((slice(None), index))).T
        return finite_floats(part if self.kept is None else np.asarray(part)[:, self.kept], self.name, first)

    def _blocks(self) -> Iterator[Array]:
        return self.blocks()

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from index `start` on."""
        for begin in range(start, self.n_samples, self._rows):
            yield self.take(slice(begin, min(begin + self._rows, self.n_samples)), begin)

    def sample(self, limit: int) -> Array:
        """Return at most `limit` samples, evenly spread."""
        if not self._gather or self.n_samples <= limit:
            return super().sample(limit)
        index = np.arange(limit) * self.n_samples // limit
        return np.concatenate([self.take(index[i : i + 256], int(index[i])) for i in range(0, limit, 256)])

    def close(self) -> None:
        """Close files."""
        if self._close is not None:
            self._close()


def map_matrix(
    name: str, kind: str, file: Any, shape: tuple[int, ...], dtype: Any, axis: int, *, offset: int = 0, order: str = "C"
) -> MatrixReader:
    """Read a matrix in a plain file. The reader closes the file."""

    def fetch(index: Any) -> Array:
        # The file is mapped again for every block: the pages of a long-lived mapping would count as memory in use.
        return np.array(np.memmap(file, dtype, "r", offset, shape, order)[index])  # type: ignore[call-overload]

    gather = order == "CF"[axis]
    reader = MatrixReader(name, kind, shape, dtype, axis, fetch, gather=gather, close=file.close)
    fetch((slice(0, 1), slice(0, 1)))  # fails if the file is too short
    return reader


def spool(name: str, kind: str, mixtures: Iterable[Array]) -> MatrixReader:
    """Copy mixtures, each a row of all its samples, to an unnamed file on disk, and read the samples from there.

    They are stored as float32 if the first ones have at most two bytes, else as float64.
    """
    with close_on_error(TemporaryFile()) as copy:
        shape: tuple[int, int] = (0, 0)
        dtype: np.dtype[Any] = np.dtype(np.float64)
        for row in mixtures:
            if not shape[0]:
                dtype = np.dtype("float32" if row.dtype.itemsize < 3 else "float64")
            shape = (shape[0] + 1, row.size)
            for start in range(0, row.size, _BLOCK_BYTES // 8):
                copy.write(np.ascontiguousarray(row[start : start + _BLOCK_BYTES // 8], dtype).data)
        copy.flush()
        return map_matrix(name, kind, copy, shape, dtype, 1)
