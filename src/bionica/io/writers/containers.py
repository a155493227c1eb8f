"""Sources in Parquet, HDF5 and Zarr."""

from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..readers import import_optional
from .writer import Writer, source_names

__all__ = ["Hdf5Writer", "ParquetWriter", "ZarrWriter"]

Array = NDArray[Any]

_CHUNK_ROWS = 16384


def _chunk_rows(n_sources: int) -> int:
    return max(1, min(_CHUNK_ROWS, 2**20 // n_sources))


class ParquetWriter(Writer):
    """A column for each source."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._arrow = import_optional("pyarrow", "writing Parquet")
        number = self._arrow.from_numpy_dtype(self.dtype)
        self._schema = self._arrow.schema([(name, number) for name in source_names(n_sources)])
        self._file = import_optional("pyarrow.parquet", "writing Parquet").ParquetWriter(self.partial, self._schema)

    def write(self, block: Array) -> None:
        """Append samples."""
        columns = [np.ascontiguousarray(column, self.dtype) for column in block.T]
        self._file.write_table(self._arrow.table(columns, schema=self._schema))
        self.n_samples += len(block)

    def finish(self) -> None:
        """Complete the partial file."""
        self._file.close()

    def close(self) -> None:
        """Close what is open."""
        if self._file.is_open:
            self._file.close()


class _DeferredErrorFile(FileIO):
    """A file that keeps its error until `check`: HDF5 cannot close after a failed write, and crashes the process."""

    error: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write all of `data`, unless there was an error."""
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
        h5py = import_optional("h5py", "writing HDF5")
        self._raw = _DeferredErrorFile(self.partial, "w+b")
        self._file = h5py.File(self._raw, "w")
        chunks = (_chunk_rows(n_sources), n_sources)
        self._data = self._file.create_dataset(
            "sources", (0, n_sources), self.dtype, maxshape=(None, n_sources), chunks=chunks
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

    def close(self) -> None:
        """Close what is open."""
        self._file.close()
        self._raw.close()


class ZarrWriter(Writer):
    """One array."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._rows = _chunk_rows(n_sources)
        self._data = import_optional("zarr", "writing Zarr").open_array(
            str(self.partial), mode="w", shape=(0, n_sources), chunks=(self._rows, n_sources), dtype=self.dtype
        )
        self._buffer: list[Array] = []
        self._buffered = 0

    def write(self, block: Array) -> None:
        """Append samples, in whole chunks so that none is written twice."""
        self._buffer.append(block)
        self._buffered += len(block)
        if self._buffered >= self._rows:
            self._flush(self._buffered // self._rows * self._rows)

    def _flush(self, n: int) -> None:
        """Write the first n rows of the buffer."""
        rows = np.concatenate(self._buffer)
        self._data.resize((self.n_samples + n, self.n_sources))
        self._data[self.n_samples :] = rows[:n]
        self.n_samples += n
        self._buffer, self._buffered = [rows[n:]], len(rows) - n

    def finish(self) -> None:
        """Write the last chunk."""
        if self._buffered:
            self._flush(self._buffered)
