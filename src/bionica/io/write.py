"""Sources and spectra as files, in the format of the suffix.

- `open_writer`: blocks of samples into a file that appears when it is complete.
- `TextWriter`, `_open_sheet`, `_open_parquet`: formats that are written block by block,
  with labels.
- `ARRAYS` and images are written at once, out of a temporary file.
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
from typing import IO, Any, NamedTuple

import numpy as np

from bionica.core.errors import OutputError
from bionica.core.files import complete_files
from bionica.io.columns import Array, wavelengths_in
from bionica.io.images import IMAGES, TIFF
from bionica.io.reader import PixelSize, import_optional
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


class Writer(NamedTuple):
    """Appends samples, and before each what the label columns hold beside it."""

    write: Callable[..., Any]


@contextmanager
def _open_sheet(
    path: Path, part: Path, title: str, label_names: Sequence[str], names: Sequence[str]
) -> Iterator[Writer]:
    """A workbook of one sheet; wavelengths are numbers, for the axis of charts."""
    openpyxl = import_optional("openpyxl", "writing .xlsx")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet(title)
    n_rows = 0

    def text(value: Any) -> Any:
        # a label that begins with = is no formula
        cell = openpyxl.cell.WriteOnlyCell(sheet, None if value is None else str(value))
        cell.data_type = "s"
        return cell

    def write(block: Array, labels: Labels = ()) -> None:
        nonlocal n_rows
        n_rows += len(block)
        if n_rows > _SHEET[0] or len(labels) + block.shape[1] > _SHEET[1]:
            raise OutputError(
                f"{path}: a sheet has at most {_SHEET[0]:,} rows and {_SHEET[1]:,}"
                " columns: write a .csv"
            )
        for *words, numbers in zip(*labels, block.tolist(), strict=True):
            cells = [None if math.isnan(number) else number for number in numbers]
            sheet.append([*map(text, words), *cells])

    with closing(sheet):
        axis, unit = wavelengths_in(names)
        if axis is None or unit:
            label_names = (*label_names, *names)
            axis = np.empty(0)
        write(axis[np.newaxis], [[name] for name in label_names])
        yield Writer(write)
    book.save(part)


@contextmanager
def _open_parquet(
    path: Path,
    label_names: Sequence[str],
    label_types: Sequence[Any],
    names: Sequence[str],
    dtype: Any,
) -> Iterator[Writer]:
    """A Parquet file, a row group for each block."""
    arrow = import_optional("pyarrow", "writing Parquet")
    parquet = import_optional("pyarrow.parquet", "writing Parquet")
    types = [*label_types] or [arrow.string()] * len(label_names)
    types += [arrow.from_numpy_dtype(dtype)] * len(names)
    schema = arrow.schema(zip([*label_names, *names], types, strict=True))

    def write(block: Array, labels: Labels = ()) -> None:
        columns = [*labels, *np.ascontiguousarray(block.T, dtype)]
        arrays = [
            arrow.array(column, kind, from_pandas=True)
            for column, kind in zip(columns, types, strict=True)
        ]
        table.write_table(arrow.Table.from_arrays(arrays, schema=schema))

    with parquet.ParquetWriter(path, schema) as table:
        yield Writer(write)


# --- at once


#: Suffixes of arrays, which have no place for labels.
ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")

#: Suffixes of the files that can be written for any mixtures; images for images too.
WRITTEN = (*TEXT, ".xlsx", ".parquet", *ARRAYS)


def _save_array(path: Path, suffix: str, rows: Array, name: str) -> None:
    if suffix == ".zarr":
        zarr = import_optional("zarr", "writing Zarr")
        zarr.create_array(str(path), data=rows, zarr_format=3)
    elif suffix in (".h5", ".hdf5"):
        # HDF5 crashes the process if the disk is full while it writes.
        if rows.nbytes > shutil.disk_usage(path.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        with import_optional("h5py", "writing HDF5").File(path, "w") as file:
            file[name] = rows
    else:
        # NumPy would add a suffix to the name of a file
        with path.open("wb") as file:
            if suffix == ".npy":
                np.save(file, rows)
            else:
                np.savez(file, **{name: rows})  # type: ignore[arg-type]


def _save_tiff(
    path: Path,
    rows: Array,
    shape: tuple[int, ...],
    pixel_size: PixelSize,
    channels: Sequence[str],
) -> None:
    """Write a page for each source in float32, as OME if it has channels."""
    tifffile = import_optional("tifffile", "writing TIFF")
    form: dict[str, Any] = {}
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
    tifffile.imwrite(
        path,
        (np.ascontiguousarray(source, np.float32).reshape(shape) for source in rows.T),
        shape=(rows.shape[1], *shape),
        dtype=np.float32,
        photometric="rgb" if len(shape) == 3 else "minisblack",
        bigtiff=rows.size * 4 > 2**31,
        ome=bool(channels),
        **form,
    )


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
    what = ", but the input is not an image" if suffix in IMAGES else ""
    if path.is_dir():
        what = " is a folder"
    if suffix not in known:
        raise OutputError(
            f"{option} {path}{what}: give a file with one of the suffixes"
            f" {', '.join(known)}"
        )


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for.

    For images it is one for each source, or if their number is not known the first, and
    all that exist.
    """
    stem, suffix = path.stem, path.suffix
    if suffix.lower() not in IMAGES or suffix.lower() in TIFF:
        return [path]
    files = [path.with_name(f"{stem}-{i + 1}{suffix}") for i in range(n_sources or 1)]
    if n_sources is not None:
        return files
    numbered = re.compile(rf"{re.escape(stem)}-[1-9]\d*{re.escape(suffix)}")
    there = filter(lambda file: numbered.fullmatch(file.name), path.parent.iterdir())
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
    pixel_size: PixelSize = None,
) -> Iterator[Any]:
    """Open a file for sources in the format of its suffix.

    `write(block, labels)` appends samples. The file appears under its name when it is
    complete. Text, sheets and Parquet hold the labels of the samples too; `label_types`
    are their types in Arrow, text by default. `names` are those of the sources, `array`
    that of an array in an .npz or HDF5, and `decimal` is the decimal point of text:
    with a comma, a .csv has ; between numbers. `pixel_size` is that of `Reader`.
    """
    suffix = path.suffix.lower()
    check_format(path, "the output", images=image_shape is not None)
    names = names or [f"source_{i + 1}" for i in range(n_sources)]
    with complete_files(output_files(path, n_sources)) as parts:
        part = parts[0]
        if suffix in TEXT:
            separator = "" if suffix == ".csv" else "\t"
            with part.open("wb") as file:
                yield TextWriter(file, [*label_names, *names], decimal, separator)
        elif suffix == ".xlsx":
            with _open_sheet(path, part, array, label_names, names) as writer:
                yield writer
        elif suffix == ".parquet":
            form = (label_names, label_types, names, np.dtype(dtype))
            with _open_parquet(part, *form) as writer:
                yield writer
        else:
            with TemporaryFile(dir=part.parent) as file:
                yield Writer(
                    lambda block, labels=(): file.write(
                        np.ascontiguousarray(block, dtype).data
                    )
                )
                file.flush()
                rows = np.empty((0, n_sources), dtype)
                if file.tell():
                    rows = np.memmap(file, dtype, "r").reshape(-1, n_sources)
                shape = image_shape or (len(rows),)
                if suffix in ARRAYS:
                    stack = rows.reshape(*shape, n_sources)
                    _save_array(part, suffix, stack, array)
                elif suffix in TIFF:
                    channels = names if path.stem.lower().endswith(".ome") else ()
                    _save_tiff(part, rows, shape, pixel_size, channels)
                else:
                    _save_pictures(parts, rows, shape)
