"""Sources in Parquet, HDF5 and Zarr."""

from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sink import Writer, names
from .source import optional

__all__ = ["Hdf5Writer", "ParquetWriter", "ZarrWriter"]

Array = NDArray[Any]

_CHUNK_ROWS = 16384


class ParquetWriter(Writer):
    """A column for each source."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._arrow = optional("pyarrow", "writing Parquet")
        self._schema = self._arrow.schema(
            [(name, self._arrow.from_numpy_dtype(self.dtype)) for name in names(n_sources)]
        )
        self._file = optional("pyarrow.parquet", "writing Parquet").ParquetWriter(self.part, self._schema)

    def write(self, block: Array) -> None:
        """Append samples."""
        columns = [np.ascontiguousarray(column, self.dtype) for column in block.T]
        self._file.write_table(self._arrow.table(columns, schema=self._schema))
        self.n_samples += len(block)

    def finish(self) -> None:
        """Complete the partial file."""
        self._file.close()

    def release(self) -> None:
        """Close what is open."""
        if self._file.is_open:
            self._file.close()


class _Patient(FileIO):
    """A file that keeps its error for later: HDF5 cannot close after a write that failed, and crashes the process."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Append samples."""
        view = memoryview(data).cast("B")
        done = 0
        try:
            while self.error is None and done < len(view):
                done += super().write(view[done:])
        except OSError as error:
            self.error = error
        return len(view)

    def truncate(self, size: int | None = None, /) -> int:
        """Change the size."""
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = error
            return size or 0

    def check(self) -> None:
        """Raise the error, if there was one."""
        if self.error is not None:
            raise self.error


class Hdf5Writer(Writer):
    """The dataset "sources"."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        h5py = optional("h5py", "writing HDF5")
        self._raw = _Patient(self.part, "w+b")
        self._file = h5py.File(self._raw, "w")
        self._data = self._file.create_dataset(
            "sources", (0, n_sources), self.dtype, maxshape=(None, n_sources), chunks=(_chunk(n_sources), n_sources)
        )

    def write(self, block: Array) -> None:
        """Append samples."""
        self._data.resize(self.n_samples + len(block), axis=0)
        self._data[self.n_samples :] = block
        self.n_samples += len(block)
        self._raw.check()

    def finish(self) -> None:
        """Complete the partial file."""
        self._file.close()
        self._raw.check()

    def release(self) -> None:
        """Close what is open."""
        self._file.close()
        self._raw.close()


class ZarrWriter(Writer):
    """One array."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._rows = _chunk(n_sources)
        self._data = optional("zarr", "writing Zarr").open_array(
            str(self.part), mode="w", shape=(0, n_sources), chunks=(self._rows, n_sources), dtype=self.dtype
        )
        self._waiting: list[Array] = []

    def write(self, block: Array) -> None:
        """Append samples."""
        self._waiting.append(block)
        if sum(map(len, self._waiting)) >= self._rows:  # whole chunks: none is written twice
            rows = np.concatenate(self._waiting)
            whole = len(rows) // self._rows * self._rows
            self._append(rows[:whole])
            self._waiting = [rows[whole:]]

    def _append(self, rows: Array) -> None:
        self._data.resize((self.n_samples + len(rows), self.n_sources))
        self._data[self.n_samples :] = rows
        self.n_samples += len(rows)

    def finish(self) -> None:
        """Complete the partial file."""
        rows = np.concatenate([np.empty((0, self.n_sources), self.dtype), *self._waiting])
        if len(rows):
            self._append(rows)


def _chunk(n_sources: int) -> int:
    return max(1, min(_CHUNK_ROWS, 2**20 // n_sources))
