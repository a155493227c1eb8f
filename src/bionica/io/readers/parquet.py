"""Mixtures in Parquet files, each in a column."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import InputError, check_declared_size, close_on_error, explain_errors, finite_floats, import_optional
from .columns import INDEX_ROWS, Columns, index_note, leading_index
from .reader import Reader, block_rows

Array = NDArray[Any]


def open_parquet(path: Path, axis: int, columns: Columns) -> Reader:
    """Open a Parquet file."""
    if axis != 0:
        raise InputError(f"{path}: in a Parquet file every column is a mixture; omit --axis 1")
    with close_on_error(import_optional("pyarrow.parquet", "reading Parquet").ParquetFile(path)) as file:
        return ParquetReader(path, file, columns)


class ParquetReader(Reader):
    """A Parquet file; see `open_reader`."""

    def __init__(self, path: Path, file: Any, columns: Columns) -> None:
        self.name, self._file = str(path), file
        schema = file.schema_arrow
        self.header = list(schema.names)
        index = [self.header.index(name) for name in _pandas_index(schema) if name in self.header]
        self.kept = columns.kept(self.name, len(self.header), self.header, index) if self.header else []
        if left_out := [repr(self.header[j]) for j in index if j not in self.kept]:
            self.notes = [
                f"{path}: column {', '.join(left_out)} is the index of a pandas table and was left out (--use reads it)"
            ]
        for field in (schema.field(j) for j in self.kept):
            if _dtype_kind(field) not in "biuf":
                raise InputError(
                    f"{path}, column {field.name!r} holds {field.type}, not real numbers: leave it out with "
                    f"--skip {field.name}"
                )
        self.n_samples = int(file.metadata.num_rows)
        if not self.n_samples or not self.kept:
            raise InputError(f"{path} is empty: {self.n_samples} rows, {len(self.kept)} columns")
        check_declared_size(self.name, 8 * self.n_samples * len(self.kept), [path.stat().st_size])
        if columns.use is None:
            self._leave_out_index(self.header)
        self.n_features = len(self.kept)

    def _leave_out_index(self, header: list[str]) -> None:
        """Leave out leading columns that rise evenly."""
        names = [header[j] for j in self.kept or ()]
        batch = next(self._file.iter_batches(min(INDEX_ROWS, block_rows(len(names))), columns=names))
        rows = np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
        leading = leading_index(rows, names)
        if index := [j for i, j in enumerate(self.kept or ()) if i in leading]:
            self.kept = [j for j in self.kept or () if j not in index]
            self.notes = [*self.notes, index_note(self.name, rows[:, leading], index, len(header), header)]

    def _blocks(self) -> Iterator[Array]:
        names, seen = self._names, 0
        batches = self._file.iter_batches(block_rows(len(names)), columns=names)
        while True:
            with explain_errors(self.name, "Parquet"):
                batch = next(batches, None)
                if batch is None:
                    return
                for name, column in zip(names, batch.columns, strict=True):
                    if column.null_count:
                        row = seen + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
                        raise InputError(f"{self.name}, row {row}, column {name!r} is empty: fill or drop such rows")
                block = np.stack([column.to_numpy(zero_copy_only=False) for column in batch.columns], axis=1)
                block = finite_floats(block, self.name, seen)
            yield block
            seen += len(block)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _dtype_kind(field: Any) -> str:
    try:
        return str(np.dtype(field.type.to_pandas_dtype()).kind)
    except NotImplementedError:
        return "O"


def _pandas_index(schema: Any) -> list[str]:
    """Return the columns in which pandas stored its row labels."""
    try:
        names = (schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # the metadata is not JSON
        return []
    return [name for name in names if isinstance(name, str)]
