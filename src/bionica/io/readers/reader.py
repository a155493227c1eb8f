"""The base of all readers: blocks of samples, one after the other, in bounded memory."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .checks import InputError, check_dtype, close_on_error, explain_errors, finite_floats
from .columns import INDEX_ROWS, Columns, index_note, leading_index, numbers_and_unit
from .samples import EvenSample

Array = NDArray[Any]

_BLOCK_BYTES = 2**22


def block_rows(n_features: int) -> int:
    """Return the number of samples of a block: 4 MiB of float64, at most 65,536."""
    return max(1, min(65536, _BLOCK_BYTES // (8 * max(1, n_features))))


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

    @property
    def axis_values(self) -> Array | None:
        """The names of the mixtures as numbers, wavelengths for instance; all may end in the same unit ("400 nm").

        None if there are no names or one is no finite number.
        """
        return numbers_and_unit(self._names)[0]

    @property
    def axis_unit(self) -> str | None:
        """The unit in which the names of all mixtures end ("nm"), None if they have none or are no numbers."""
        return numbers_and_unit(self._names)[1]

    @property
    def _names(self) -> list[str]:
        """The names of the mixtures, none if there is no header."""
        header = self.header or []
        return header if self.kept is None else [header[j] for j in self.kept if header]

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
        self._axis, self._gather, self._first = axis, gather, 0
        self.n_samples, self.n_features = int(shape[axis]), int(shape[1 - axis])
        self._rows = rows or block_rows(self.n_features)

    def choose(self, columns: Columns) -> Self:
        """Read only some of the mixtures. Unless the user says which, leading ones that rise evenly are left out."""
        with close_on_error(self):
            rows = min(INDEX_ROWS, self.n_samples, block_rows(self.n_features))
            seek = columns.use is None and self.image_shape is None
            first = self._rows_as_stored(slice(0, rows)) if seek else np.empty((0, self.n_features))
            index = leading_index(first, self.header)
            kept = columns.kept(self.name, self.n_features, self.header, index)
        if left_out := [j for j in index if j not in kept]:
            self.notes = [
                *self.notes,
                index_note(self.name, first[:, left_out], left_out, self.n_features, self.header),
            ]
        if len(kept) < self.n_features:
            self.kept, self.n_features = kept, len(kept)
        return self

    def without_first_sample(self) -> Self:
        """Leave out the first sample, which holds the axis of the mixtures."""
        self._first, self.n_samples = 1, self.n_samples - 1
        return self

    def _rows_as_stored(self, index: Any) -> Array:
        """Return samples with all their mixtures, unchecked."""
        if self._first:
            shifted = isinstance(index, slice)
            index = slice(index.start + self._first, index.stop + self._first) if shifted else index + self._first
        with explain_errors(self.name, self._kind):
            return np.asarray(
                self._fetch(index) if self._axis == 0 else np.asarray(self._fetch((slice(None), index))).T
            )

    def take(self, index: Any, first: int = 0) -> Array:
        """Return the samples of an index or a slice; errors count from sample `first`."""
        part = self._rows_as_stored(index)
        return finite_floats(part if self.kept is None else part[:, self.kept], self.name, first)

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
