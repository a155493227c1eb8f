"""Mixtures in Parquet files, each column a mixture."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message, printable
from bionica.io import reader as base
from bionica.io.columns import Array, integer_columns, label_columns
from bionica.io.matrix import NUMBER_TYPES
from bionica.io.reader import Labels, Reader, ReadOptions, import_optional


class ParquetReader(Reader):
    """A Parquet file. Labels are columns that are not numbers, or named as labels."""

    n_samples: int

    def __init__(self, path: Path, options: ReadOptions) -> None:
        file = import_optional("pyarrow.parquet", "reading Parquet").ParquetFile(path)
        super().__init__(str(path), options)
        self.callback(file.close)
        self._file = file
        self.n_samples = int(file.metadata.num_rows)
        schema = file.schema_arrow
        self.header = [printable(name) for name in schema.names]
        reasons, doubtful = self._labels(schema)
        self.choose(len(schema), reasons, doubtful)
        self.label_types = [schema.field(j).type for j in self.labels]
        for field in map(schema.field, self.columns):
            if not _is_numeric(field):
                template = "{}, column {!r} holds {}, not numbers: omit it from {use:=}"
                raise InputError(Message(template, path, field.name, field.type))
        first, _ = next(self.parts(), (np.empty((0, 2)), []))
        self.note_unlike(integer_columns(first))

    def _labels(self, schema: Any) -> tuple[dict[int, str], list[int]]:
        """Return which columns are labels, and why, and which only have such a name."""
        names = schema.names
        reasons = {
            j: str(field.type)
            for j, field in enumerate(schema)
            if not _is_numeric(field)
        }

        def values(j: int) -> Array:
            """The first numbers of a column."""
            if j not in reasons:
                for batch in self._file.iter_batches(columns=[names[j]]):
                    return _numpy(batch.column(0)).astype(float)
            return np.empty(0)

        labels, doubtful = label_columns(names, values)
        # where pandas stored its row labels
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        if len(names) > 1:
            labels += [j for j, name in enumerate(names) if name in index]
        reasons = {j: printable(names[j]) or "no name" for j in labels} | reasons
        return reasons, [j for j in doubtful if j not in reasons]

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples."""
        for batch in self._file.iter_batches(base.block_rows(self.n_features)):
            block = np.stack([_numpy(batch.column(j)) for j in self.columns], axis=1)
            yield block, [_label(batch.column(j)) for j in self.labels]


def _is_numeric(field: Any) -> bool:
    return bool(NUMBER_TYPES.fullmatch(str(field.type)))


def _numpy(column: Any) -> Array:
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _label(column: Any) -> Array:
    """Return labels, of which some may be missing.

    Times are those of NumPy, because Python's have no nanoseconds.
    """
    if str(column.type).startswith(("timestamp", "duration")):
        return _numpy(column)
    return np.fromiter(column.to_pylist(), object)
