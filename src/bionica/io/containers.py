"""Mixtures in Parquet, HDF5 and Zarr."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import Columns
from .source import InputError, MatrixReader, Reader, block_rows, floats, optional, reading

__all__ = ["choose", "open_hdf5", "open_parquet", "open_zarr"]

Array = NDArray[Any]

_CHUNK_BYTES = 2**26


def choose(name: str, arrays: Sequence[str], dataset: str | None, matrices: Sequence[str] = ()) -> str:
    """Return the array to read of those that a file holds: the only one, or the only matrix.

    Examples
    --------
    >>> choose("x.h5", ["a", "b"], None)
    Traceback (most recent call last):
    bionica.io.source.InputError: x.h5 holds several arrays: choose one with --dataset, of a, b
    """
    there = ", ".join(arrays[:20]) + (" ..." if len(arrays) > 20 else "")
    if dataset is not None:
        if dataset.strip("/") not in arrays:
            raise InputError(f"{name} has no array {dataset!r}: there are {there or 'none'}")
        return dataset.strip("/")
    if not arrays:
        raise InputError(f"{name} holds no array")
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) > 1:
        raise InputError(f"{name} holds several arrays: choose one with --dataset, of {there}")
    return arrays[0]


def _chunked(name: str, kind: str, array: Any, axis: int, close: Any) -> MatrixReader:
    """Read whole chunks at a time where they are not too large."""
    shape = tuple(map(int, array.shape))
    rows = None
    if array.chunks and len(shape) == 2 and 0 not in shape:
        rows, chunk = block_rows(shape[1 - axis]), int(array.chunks[axis])
        if chunk * shape[1 - axis] * 8 <= _CHUNK_BYTES:
            rows = -(-rows // chunk) * chunk if rows > chunk else chunk
    return MatrixReader(name, kind, shape, array.dtype, axis, array.__getitem__, rows=rows, close=close)


def open_hdf5(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open a dataset of an HDF5 file, the only one by default."""
    h5py = optional("h5py", "reading HDF5")
    file = h5py.File(path, "r")
    try:
        found: list[str] = []
        file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
        matrices = [name for name in found if _is_matrix(file[name])]
        return _chunked(str(path), "HDF5", file[choose(str(path), found, dataset, matrices)], axis, file.close)
    except BaseException:
        file.close()
        raise


def open_zarr(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of a Zarr store, the only one by default."""
    zarr = optional("zarr", "reading Zarr")
    root = zarr.open(str(path), mode="r")
    if hasattr(root, "shape"):
        if dataset is not None:
            raise InputError(f"{path} is one array: leave --dataset {dataset} away")
        return _chunked(str(path), "Zarr", root, axis, None)
    found = _zarr_arrays(root)
    matrices = [name for name in found if _is_matrix(root[name])]
    return _chunked(str(path), "Zarr", root[choose(str(path), found, dataset, matrices)], axis, None)


def _is_matrix(array: Any) -> bool:
    return len(array.shape or ()) == 2 and array.dtype.kind in "biuf"


def _zarr_arrays(group: Any, prefix: str = "") -> list[str]:
    found = [f"{prefix}{name}" for name in sorted(group.array_keys())]
    for name, inner in sorted(group.groups(), key=lambda item: str(item[0])):
        found += _zarr_arrays(inner, f"{prefix}{name}/")
    return found


class ParquetReader(Reader):
    """A Parquet file, a mixture in each column; see `open_reader`."""

    def __init__(self, path: Path, file: Any, columns: Columns) -> None:
        self.name, self._path, self._file = str(path), path, file
        schema = file.schema_arrow
        self.header = list(schema.names)
        index = [self.header.index(name) for name in _pandas_index(schema) if name in self.header]
        kept = columns.kept(self.name, len(self.header), self.header, index) if self.header else []
        if left := [self.header[j] for j in index if j not in kept]:
            names = ", ".join(map(repr, left))
            self.notes = [f"{path}: column {names} is the index of a pandas table and was left out (--use reads it)"]
        self.kept, self._names = kept, [self.header[j] for j in kept]
        for field in (schema.field(j) for j in kept):
            if np.dtype(_numpy_type(field)).kind not in "biuf":
                raise InputError(
                    f"{path}, column {field.name!r} holds {field.type}, not real numbers: leave it out with --skip {field.name}"
                )
        self.n_samples, self.n_features = int(file.metadata.num_rows), len(self._names)
        if not self.n_samples or not self.n_features:
            raise InputError(f"{path} is empty: {self.n_samples} rows, {self.n_features} columns")

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from number `start` on."""
        metadata, group, seen = self._file.metadata, 0, 0
        while group < metadata.num_row_groups and seen + metadata.row_group(group).num_rows <= start:
            seen += metadata.row_group(group).num_rows
            group += 1
        groups = list(range(group, metadata.num_row_groups))
        rows = block_rows(self.n_features or 1)
        batches = self._file.iter_batches(rows, row_groups=groups, columns=self._names) if groups else iter(())
        while True:
            with reading(self.name, "Parquet"):
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [self._column(batch.column(j), j, seen) for j in range(batch.num_columns)]
                block = floats(np.stack(columns, axis=1), self.name, seen)
            drop = min(len(block), max(0, start - seen))
            seen += len(block)
            if drop < len(block):
                yield np.ascontiguousarray(block[drop:])

    def _column(self, column: Any, j: int, first: int) -> Array:
        if column.null_count:
            row = first + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            raise InputError(
                f"{self.name}, row {row}, column {self._names[j]!r} is empty: drop or fill such rows first"
            )
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _numpy_type(field: Any) -> Any:
    try:
        return field.type.to_pandas_dtype()
    except NotImplementedError:
        return object


def _pandas_index(schema: Any) -> list[str]:
    """Return the columns that pandas stored its row labels in."""
    try:
        named = (schema.pandas_metadata or {}).get("index_columns", [])
    except ValueError:  # metadata that is not JSON
        return []
    return [name for name in named if isinstance(name, str)]


def open_parquet(path: Path, axis: int, columns: Columns) -> Reader:
    """Open a Parquet file."""
    if axis != 0:
        raise InputError(f"{path}: in a Parquet file every column is a mixture; leave --axis 1 away")
    parquet = optional("pyarrow.parquet", "reading Parquet")
    file = parquet.ParquetFile(path)
    try:
        return ParquetReader(path, file, columns)
    except BaseException:
        file.close()
        raise
