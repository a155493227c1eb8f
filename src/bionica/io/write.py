"""Sources and spectra as files, in the format of the suffix.

- `open_writer`: blocks of samples into a file that appears when it is complete.
- `TextWriter`, `SheetWriter`, `ParquetWriter`: formats that are written block by block,
  with labels.
- `SAVERS`: formats that are written at once, each by one function.
- `check_format`, `output_files`: what a name of a file stands for.
"""

import csv
import errno
import io
import math
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np

from bionica.core.errors import OutputError
from bionica.core.files import complete_files
from bionica.io.columns import Array, wavelengths_in
from bionica.io.images import IMAGES, TIFF
from bionica.io.reader import import_optional
from bionica.io.text import TEXT

_SHEET = (1_048_576, 16_384)  # rows and columns that Excel opens
_NUMBER = re.compile(r"[-+]?(\d+|\d*\.\d+)([eE][-+]?\d+)?")
Labels = Sequence[Iterable[Any]]


# --- block by block


class TextWriter:
    """Separated values, flushed after each block.

    Numbers have as many digits as it takes to read the same numbers back.
    """

    def __init__(
        self,
        file: IO[bytes],
        names: Sequence[str] | None,
        decimal: str,
        separator: str = "",
    ) -> None:
        self._file = file
        self._decimal = decimal
        self._separator = separator or (";" if decimal == "," else ",")
        if names is not None:  # a line of labels
            self.write(np.empty((1, 0)), [[name] for name in names])

    def write(self, block: Array, labels: Labels = ()) -> None:
        """Append samples, and before each what the label columns hold beside it."""
        numbers = block.astype(str)
        if self._decimal != "." and numbers.size:
            numbers = np.char.replace(numbers, ".", self._decimal)
        cells = [map(self._cell, column) for column in labels]
        rows = zip(*cells, *numbers.T.tolist(), strict=True)
        text = io.StringIO()
        csv.writer(text, delimiter=self._separator, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())
        self._file.flush()

    def _cell(self, label: Any) -> str:
        """Return a label as text.

        A number has the decimal point of the others; a ' is before what may be a
        formula.
        """
        text = "" if label is None else str(label)
        if _NUMBER.fullmatch(text):
            return text.replace(".", self._decimal)
        return f"'{text}" if text.startswith(("=", "@", "+", "-")) else text


class SheetWriter:
    """A workbook of one sheet, which `save` writes."""

    def __init__(self, path: Path, title: str) -> None:
        self._openpyxl = import_optional("openpyxl", "writing .xlsx")
        self._path = path
        self._book = self._openpyxl.Workbook(write_only=True)
        self._sheet = self._book.create_sheet(title)
        self._n_rows = 0

    def write_names(self, label_names: Sequence[str], names: Sequence[str]) -> None:
        """Write the first row; wavelengths as numbers, for the axis of charts."""
        axis, unit = wavelengths_in(names)
        if axis is None or unit:
            self.write(np.empty((1, 0)), [[name] for name in (*label_names, *names)])
        else:
            self.write(axis[np.newaxis], [[name] for name in label_names])

    def write(self, block: Array, labels: Labels = ()) -> None:
        """Append samples, and before each what the label columns hold beside it."""
        for *words, numbers in zip(*labels, block.tolist(), strict=True):
            self._n_rows += 1
            n_columns = len(words) + len(numbers)
            if self._n_rows > _SHEET[0] or n_columns > _SHEET[1]:
                raise OutputError(
                    f"{self._path}: a sheet has at most {_SHEET[0]:,} rows and"
                    f" {_SHEET[1]:,} columns: write a .csv"
                )
            cells = [None if math.isnan(number) else number for number in numbers]
            self._sheet.append([*map(self._text, words), *cells])

    def _text(self, value: Any) -> Any:
        """A cell of text: a label that begins with = is no formula."""
        text = None if value is None else str(value)
        cell = self._openpyxl.cell.WriteOnlyCell(self._sheet, text)
        cell.data_type = "s"
        return cell

    def save(self, path: Path) -> None:
        """Write the workbook."""
        self._book.save(path)

    def close(self) -> None:
        """Remove the temporary file of the sheet."""
        self._sheet.close()


class ParquetWriter:
    """A Parquet file, a row group for each block."""

    def __init__(
        self,
        path: Path,
        label_names: Sequence[str],
        label_types: Sequence[Any],
        names: Sequence[str],
        dtype: Any,
    ) -> None:
        self._arrow = import_optional("pyarrow", "writing Parquet")
        parquet = import_optional("pyarrow.parquet", "writing Parquet")
        self._dtype = np.dtype(dtype)
        self._types = [*label_types] or [self._arrow.string()] * len(label_names)
        self._types += [self._arrow.from_numpy_dtype(self._dtype)] * len(names)
        columns = zip([*label_names, *names], self._types, strict=True)
        self._schema = self._arrow.schema(columns)
        self._table = parquet.ParquetWriter(path, self._schema)
        self.close = self._table.close

    def write(self, block: Array, labels: Labels = ()) -> None:
        """Append samples, and before each what the label columns hold beside it."""
        columns = [*labels, *np.ascontiguousarray(block.T, self._dtype)]
        arrays = [
            self._arrow.array(column, kind, from_pandas=True)
            for column, kind in zip(columns, self._types, strict=True)
        ]
        self._table.write_table(
            self._arrow.Table.from_arrays(arrays, schema=self._schema)
        )


class ArrayWriter:
    """Samples in a temporary file, for formats that are written at once.

    These have no place for labels.
    """

    def __init__(self, file: IO[bytes], n_sources: int, dtype: Any) -> None:
        self._file = file
        self._n_sources = n_sources
        self._dtype = np.dtype(dtype)

    def write(self, block: Array, labels: Labels = ()) -> None:
        """Append samples."""
        self._file.write(np.ascontiguousarray(block, self._dtype).data)

    def rows(self) -> Array:
        """Return all samples, mapped from disk."""
        self._file.flush()
        if not self._file.tell():
            return np.empty((0, self._n_sources), self._dtype)
        rows = np.memmap(self._file, self._dtype, "r")
        return rows.reshape(-1, self._n_sources)


# --- at once


def _save_npy(path: Path, rows: Array, name: str) -> None:
    # a path in capitals would get another suffix of NumPy
    with path.open("wb") as file:
        np.save(file, rows)


def _save_npz(path: Path, rows: Array, name: str) -> None:
    with path.open("wb") as file:
        np.savez(file, **{name: rows})  # type: ignore[arg-type]


def _save_hdf5(path: Path, rows: Array, name: str) -> None:
    # HDF5 crashes the process if the disk is full while it writes.
    if rows.nbytes > shutil.disk_usage(path.parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    with import_optional("h5py", "writing HDF5").File(path, "w") as file:
        file[name] = rows


def _save_zarr(path: Path, rows: Array, name: str) -> None:
    zarr = import_optional("zarr", "writing Zarr")
    zarr.create_array(str(path), data=rows, zarr_format=3)


#: What writes an array, and the name of it, to a file of each suffix.
SAVERS: dict[str, Callable[[Path, Array, str], None]] = {
    ".npy": _save_npy,
    ".npz": _save_npz,
    ".h5": _save_hdf5,
    ".hdf5": _save_hdf5,
    ".zarr": _save_zarr,
}

#: Suffixes of the files that can be written for any mixtures; images for images too.
WRITTEN = (*TEXT, ".xlsx", ".parquet", *SAVERS)


def _save_tiff(
    path: Path,
    rows: Array,
    shape: tuple[int, ...],
    pixel_size: tuple[float, float] | None,
    channels: Sequence[str],
) -> None:
    """Write a page for each source in float32, as OME if it has channels."""
    tifffile = import_optional("tifffile", "writing TIFF")
    pages = (
        np.ascontiguousarray(source, np.float32).reshape(shape) for source in rows.T
    )
    form: dict[str, Any] = {
        "shape": (rows.shape[1], *shape),
        "dtype": np.float32,
        "photometric": "rgb" if len(shape) == 3 else "minisblack",
    }
    if pixel_size:
        form["resolution"] = (1e4 / pixel_size[1], 1e4 / pixel_size[0])
        form["resolutionunit"] = "CENTIMETER"
    if channels:
        metadata = form["metadata"] = {
            "axes": "CYXS"[: 1 + len(shape)],
            "Channel": {"Name": [*channels]},
        }
        for axis, size in zip("YX", pixel_size or (), strict=False):
            metadata[f"PhysicalSize{axis}"] = size
            metadata[f"PhysicalSize{axis}Unit"] = "µm"
    is_big = rows.size * 4 > 2**31
    with tifffile.TiffWriter(path, bigtiff=is_big, ome=bool(channels)) as file:
        file.write(pages, **form)


def _save_pictures(paths: Sequence[Path], rows: Array, shape: tuple[int, ...]) -> None:
    """Write an image for each source: its largest value white, NaN black."""
    pillow = import_optional("PIL.Image", "writing images")
    for path, source in zip(paths, rows.T, strict=True):
        has_16_bits = path.suffix.lower() == ".png" and len(shape) == 2
        dtype = np.uint16 if has_16_bits else np.uint8
        largest = float(np.nanmax(source, initial=0.0)) or 1.0
        white = np.iinfo(dtype).max
        image = np.rint(np.asarray(source, np.float64) * (white / largest))
        pillow.fromarray(np.nan_to_num(image).astype(dtype).reshape(shape)).save(path)


# --- names of files


def check_format(path: Path, option: str = "-o", *, images: bool = False) -> None:
    """Raise if the suffix of this name is not a format that can be written.

    `images` says that the mixtures are images.
    """
    suffix = path.suffix.lower()
    known = (*WRITTEN, *IMAGES) if images else WRITTEN
    if suffix in known:
        return
    what = ", but the input is not an image" if suffix in IMAGES else ""
    if path.is_dir():
        what = " is a folder"
    raise OutputError(
        f"{option} {path}{what}: give a file with one of the suffixes"
        f" {', '.join(known)}"
    )


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for.

    For images it is one for each source, or if their number is not known the first, and
    all that exist.
    """
    if path.suffix.lower() not in IMAGES or path.suffix.lower() in TIFF:
        return [path]
    stem, suffix = path.stem, path.suffix
    files = [path.with_name(f"{stem}-{i + 1}{suffix}") for i in range(n_sources or 1)]
    if n_sources is not None:
        return files
    numbered = re.compile(rf"{re.escape(stem)}-[1-9]\d*{re.escape(suffix)}")
    there = [file for file in path.parent.glob("*") if numbered.fullmatch(file.name)]
    return sorted({*files, *there})


@contextmanager
def open_writer(
    path: Path,
    n_sources: int,
    dtype: Any,
    image_shape: tuple[int, ...] | None = None,
    *,
    label_names: Sequence[str] = (),
    label_types: Sequence[Any] = (),
    names: Sequence[str] | None = None,
    array: str = "sources",
    decimal: str = ".",
    pixel_size: tuple[float, float] | None = None,
) -> Iterator[Any]:
    """Open a file for sources in the format of its suffix.

    `write(block, labels)` appends samples. The file appears under its name when it is
    complete. Text, sheets and Parquet hold the labels of the samples too; `label_types`
    are their types in Arrow, text by default. `names` are those of the sources, `array`
    that of an array in an .npz or HDF5, and `decimal` is the decimal point of text:
    with a comma, a .csv has ; between numbers. `pixel_size` is that of `Reader`.
    """
    suffix = path.suffix.lower()
    names = names or [f"source_{i + 1}" for i in range(n_sources)]
    with complete_files(output_files(path, n_sources)) as parts:
        part = parts[0]
        if suffix in TEXT:
            separator = "" if suffix == ".csv" else "\t"
            with part.open("wb") as file:
                yield TextWriter(file, [*label_names, *names], decimal, separator)
        elif suffix == ".xlsx":
            with closing(SheetWriter(path, array)) as sheet:
                sheet.write_names(label_names, names)
                yield sheet
            sheet.save(part)
        elif suffix == ".parquet":
            table = ParquetWriter(part, label_names, label_types, names, dtype)
            with closing(table):
                yield table
        else:
            with TemporaryFile(dir=part.parent) as file:
                writer = ArrayWriter(file, n_sources, dtype)
                yield writer
                rows = writer.rows()
                if image_shape is None or suffix in SAVERS:
                    shape = image_shape or (len(rows),)
                    save = SAVERS.get(suffix, _save_hdf5)
                    save(part, rows.reshape(*shape, n_sources), array)
                elif suffix in TIFF:
                    channels = names if path.stem.lower().endswith(".ome") else ()
                    _save_tiff(part, rows, image_shape, pixel_size, channels)
                else:
                    _save_pictures(parts, rows, image_shape)
