"""Sources and spectra as files, in the format of the suffix: `open_writer`, `write_spectra`."""

import csv
import errno
import io
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .files import OutputError, complete_files
from .images import IMAGES, TIFF
from .reader import Array, import_optional

Append = Callable[[Array, Sequence[Array]], object]  # of a block, and of the labels beside it

_CHUNK_ROWS = 16384


class Layout(NamedTuple):
    """Names of the columns; names of the label columns before them; what the array is called; the decimal point of text."""

    columns: Sequence[str]
    labels: Sequence[str] = ()
    array: str = "sources"
    decimal: str = "."


def source_names(n_sources: int) -> list[str]:
    """Return the names of the sources in files, counted from 1 as columns are."""
    return [f"source_{i}" for i in range(1, n_sources + 1)]


def _lines(rows: Iterator[Sequence[str]], separator: str) -> bytes:
    """Return rows of cells as lines of text, quoted where it is needed."""
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _text_lines(block: Array, labels: Sequence[Array], separator: str = ",", decimal: str = ".") -> bytes:
    """Return a block as lines of text, with as many digits as it takes to read the same numbers back."""
    digits: Callable[[float], str] = "{:.9g}".format if block.dtype == np.float32 else repr
    rows = [[digits(value).replace(".", decimal) for value in row] for row in block.tolist()]
    if not labels:
        return "".join(separator.join(row) + "\n" for row in rows).encode()
    names = zip(*([_decimal(str(value), decimal) for value in column] for column in labels), strict=True)
    return _lines(([*before, *row] for before, row in zip(names, rows, strict=True)), separator)


def _decimal(name: str, decimal: str) -> str:
    """Return a name with another decimal point if it is a number."""
    return name.replace(".", decimal) if re.fullmatch(r"[-+]?\d*\.\d+([eE][-+]?\d+)?", name) else name


@contextmanager
def _csv_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """Separated values with a header. With decimal commas, semicolons take the place of commas between values."""
    decimal = layout.decimal
    separator = (";" if decimal == "," else ",") if path.suffix.lower() == ".csv" else "\t"
    with path.open("wb") as file:
        names = [*layout.labels, *layout.columns]
        file.write(_lines(iter([[_decimal(name, decimal) for name in names]]), separator))
        yield lambda block, labels: file.write(_text_lines(block, labels, separator, decimal))


@contextmanager
def _parquet_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """A Parquet file, whose row groups are the blocks."""
    arrow, parquet = (import_optional(name, "writing Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    numbers = [(name, arrow.from_numpy_dtype(dtype)) for name in layout.columns]
    writer: Any = None
    try:

        def append(block: Array, labels: Sequence[Array]) -> None:
            nonlocal writer
            arrays = [arrow.array(column) for column in labels]
            names = zip(layout.labels, (array.type for array in arrays), strict=True)
            writer = writer or parquet.ParquetWriter(path, arrow.schema([*names, *numbers]))
            arrays += [arrow.array(np.ascontiguousarray(column, dtype)) for column in block.T]
            writer.write_table(arrow.table(arrays, schema=writer.schema))

        yield append
        writer = writer or parquet.ParquetWriter(path, arrow.schema(numbers))
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _array_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """A file of one array, which is written when the number of rows is known."""
    with _collected(path, len(layout.columns), dtype) as (append, rows):
        yield append
        _SAVE[path.suffix.lower()](path, rows(), layout.array)


@contextmanager
def _collected(path: Path, width: int, dtype: Any) -> Iterator[tuple[Append, Callable[[], Array]]]:
    """Collect rows in an unnamed file beside `path`: yield what appends a block, and what returns all of them."""
    with TemporaryFile(dir=path.parent) as file:

        def rows() -> Array:
            file.flush()
            return np.memmap(file, dtype, "r").reshape(-1, width) if file.tell() else np.empty((0, width), dtype)

        yield lambda block, labels: file.write(np.ascontiguousarray(block, dtype).data), rows


def _save_npy(path: Path, rows: Array, name: str) -> None:
    with path.open("wb") as file:
        np.lib.format.write_array(file, rows, allow_pickle=False)


def _save_npz(path: Path, rows: Array, name: str) -> None:
    member = zipfile.ZipInfo(f"{name}.npy")  # without the time: the same numbers give the same bytes
    with zipfile.ZipFile(path, "w") as archive, archive.open(member, "w", force_zip64=True) as file:
        np.lib.format.write_array(file, rows, allow_pickle=False)


def _save_hdf5(path: Path, rows: Array, name: str) -> None:
    # HDF5 crashes the process if the disk is full while it writes.
    if rows.nbytes > shutil.disk_usage(path.parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    with import_optional("h5py", "writing HDF5").File(path, "w") as file:
        file[name] = rows


def _save_zarr(path: Path, rows: Array, name: str) -> None:
    chunks = max(1, min(_CHUNK_ROWS, 2**20 // rows.shape[1])), rows.shape[1]
    import_optional("zarr", "writing Zarr").create_array(str(path), data=rows, chunks=chunks, zarr_format=3)


_SAVE = {".npy": _save_npy, ".npz": _save_npz, ".h5": _save_hdf5, ".hdf5": _save_hdf5, ".zarr": _save_zarr}
_FORMATS: dict[str, Callable[[Path, Layout, Any], AbstractContextManager[Append]]] = {
    **dict.fromkeys(_SAVE, _array_file),
    **dict.fromkeys((".csv", ".tsv", ".txt", ".dat"), _csv_file),
    ".parquet": _parquet_file,
}


@contextmanager
def _image_files(paths: Sequence[Path], n_sources: int, dtype: Any, shape: tuple[int, ...]) -> Iterator[Append]:
    """Pages of a TIFF in float32, or an image for each source, its largest value white. The pixels are collected on disk."""
    with _collected(paths[0], n_sources, dtype) as (append, rows):
        yield append
        sources = rows().T
        if paths[0].suffix.lower() in TIFF:
            with import_optional("tifffile", "writing TIFF").TiffWriter(
                paths[0], bigtiff=sources.size * 4 > 2**31
            ) as file:
                pages = (np.ascontiguousarray(source, np.float32).reshape(shape) for source in sources)
                colour = "rgb" if len(shape) == 3 else "minisblack"
                file.write(pages, shape=(n_sources, *shape), dtype=np.float32, photometric=colour)
            return
        pillow = import_optional("PIL.Image", "writing images")
        for path, source in zip(paths, sources, strict=True):
            white, kind = (65535, np.uint16) if path.suffix.lower() == ".png" and len(shape) == 2 else (255, np.uint8)
            image = np.rint(np.asarray(source, np.float64) * (white / (float(source.max()) or 1.0)))
            pillow.fromarray(image.astype(kind).reshape(shape)).save(path)


def check_format(path: Path, option: str = "-o", *, images: bool = False) -> None:
    """Raise if the suffix of this name is no format to write; `images` says that the mixtures are images."""
    suffix = path.suffix.lower()
    if suffix in _FORMATS or (images and suffix in IMAGES):
        return
    if path.is_dir():
        raise OutputError(f"{option} {path} is a folder: give a file in it, {path / 'sources.csv'} for instance")
    known = ", ".join((*_FORMATS, *(IMAGES if images else ())))
    what = "is an image, and the numbers are none" if suffix in IMAGES else f"has the unknown suffix {suffix!r}"
    raise OutputError(f"{option} {path} {what}: choose from {known}")


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source, counted from 1.

    If the number of sources is not known yet (None): the first of these images, and all that exist.
    """
    suffix = path.suffix
    if suffix.lower() not in IMAGES or suffix.lower() in TIFF:
        return [path]
    if n_sources is not None:
        return [path.with_name(f"{path.stem}-{i}{suffix}") for i in range(1, n_sources + 1)]
    numbered = re.compile(rf"{re.escape(path.stem)}-[1-9]\d*{re.escape(suffix)}")
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted({path.with_name(f"{path.stem}-1{suffix}"), *(f for f in there if numbered.fullmatch(f.name))})


class Writer(NamedTuple):
    """Takes sources: `write(block, labels)` appends samples, and what the label columns hold beside them."""

    append: Append

    def write(self, block: Array, labels: Sequence[Array] = ()) -> None:
        """Append samples."""
        self.append(block, labels)


@contextmanager
def open_writer(
    path: Path, n_sources: int, dtype: Any, image_shape: tuple[int, ...] | None = None, *,
    label_names: Sequence[str] = (), names: Sequence[str] | None = None, decimal: str = ".",
) -> Iterator[Writer]:  # fmt: skip
    """Open a file for sources in the format of its suffix. It appears under its name when it is complete.

    Text and Parquet hold the labels of the samples too. `decimal` is the decimal point of text: with a comma, a .csv has ;
    between numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "s.npy"), 2, "float64") as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(Path(folder, "s.npy")).shape
    (3, 2)
    """
    with complete_files(output_files(path, n_sources)) as parts:
        if path.suffix.lower() in _FORMATS:
            layout = Layout(names or source_names(n_sources), label_names, decimal=decimal)
            opened = _FORMATS[path.suffix.lower()](parts[0], layout, np.dtype(dtype))
        else:
            assert image_shape is not None
            opened = _image_files(parts, n_sources, np.dtype(dtype), image_shape)
        with opened as append:
            yield Writer(append)


def write_spectra(
    path: Path, spectra: Array, columns: Sequence[str], *, names: Sequence[str] | None = None, decimal: str = "."
) -> None:
    """Write spectra, one row for each source and one column for each mixture, in the format of the suffix.

    In text the rows have `names`, those of the sources. In an .npz or HDF5 the array is called "spectra".

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_spectra(Path(folder, "a.csv"), np.array([[1.0, 2.0]]), ["400", "401"])
    ...     print(Path(folder, "a.csv").read_text())
    ,400,401
    source_1,1.0,2.0
    <BLANKLINE>
    """
    is_text = _FORMATS[path.suffix.lower()] is _csv_file
    layout = Layout(columns, [""] if is_text else [], "spectra", decimal)
    labels = [np.array(names or source_names(len(spectra)))] if is_text else []
    with complete_files([path]) as (part,), _FORMATS[path.suffix.lower()](part, layout, spectra.dtype) as append:
        append(spectra, labels)


class PipeWriter:
    """Lines to a pipe, flushed after each block."""

    def __init__(self, file: BinaryIO, header: bool = False, label_names: Sequence[str] = ()) -> None:
        self._file, self._header, self._label_names = file, header, label_names

    def write(self, block: Array, labels: Sequence[Array] = ()) -> None:
        """Write samples now."""
        if self._header:
            self._file.write(_lines(iter([[*self._label_names, *source_names(block.shape[1])]]), ","))
            self._header = False
        self._file.write(_text_lines(block, labels))
        self._file.flush()
