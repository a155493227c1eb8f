"""Sources and spectra as files, in the format of the suffix: `open_writer`."""

import csv
import errno
import io
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from bionica.core.errors import OutputError
from bionica.core.files import complete_files
from bionica.io.images import IMAGES, TIFF
from bionica.io.reader import Array, import_optional, wavelengths_in
from bionica.io.text import TEXT

_ARRAYS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
#: Suffixes of the files that can be written for any mixtures; images for images too.
WRITTEN = (*TEXT, ".xlsx", ".parquet", *_ARRAYS)
_SHEET = (1_048_576, 16_384)  # rows and columns that Excel opens
_NUMBER = re.compile(r"[-+]?(\d+|\d*\.\d+)([eE][-+]?\d+)?")


class TextWriter:
    """Separated values, flushed after each block, with as many digits as it takes to
    read the same numbers back.
    """

    def __init__(
        self,
        file: BinaryIO,
        names: Sequence[str] | None,
        decimal: str,
        separator: str = "",
    ) -> None:
        self._file = file
        self._decimal = decimal
        self._separator = separator or (";" if decimal == "," else ",")
        if names is not None:  # a line of labels
            self.write(np.empty((1, 0)), [[name] for name in names])

    def write(self, block: Array, labels: Sequence[Iterable[Any]] = ()) -> None:
        """Append samples, and before each what the label columns hold beside it."""
        numbers = block.astype(str)
        if self._decimal != "." and numbers.size:
            numbers = np.char.replace(numbers, ".", self._decimal)
        rows = zip(
            *(map(self._cell, column) for column in labels),
            *numbers.T.tolist(),
            strict=True,
        )
        text = io.StringIO()
        csv.writer(text, delimiter=self._separator, lineterminator="\n").writerows(rows)
        self._file.write(text.getvalue().encode())
        self._file.flush()

    def _cell(self, label: Any) -> str:
        """Return a label as text, with the decimal point of the numbers if it is one,
        and with a ' before what may be a formula.
        """
        text = "" if label is None else str(label)
        if _NUMBER.fullmatch(text):
            return text.replace(".", self._decimal)
        return f"'{text}" if text.startswith(("=", "@", "+", "-")) else text


def _save_array(path: Path, rows: Array, name: str) -> None:
    suffix = path.suffix.lower()
    if suffix in (".npy", ".npz"):
        # to a name in capitals NumPy would append another suffix
        with path.open("wb") as file:
            np.save(file, rows) if suffix == ".npy" else np.savez(file, **{name: rows})  # type: ignore[arg-type]
    elif suffix == ".zarr":
        import_optional("zarr", "writing Zarr").create_array(
            str(path), data=rows, zarr_format=3
        )
    else:
        # HDF5 crashes the process if the disk is full while it writes.
        if rows.nbytes > shutil.disk_usage(path.parent).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        with import_optional("h5py", "writing HDF5").File(path, "w") as file:
            file[name] = rows


def _save_images(
    paths: Sequence[Path],
    rows: Array,
    shape: tuple[int, ...],
    pixel_size: tuple[float, float] | None,
    channels: Sequence[str] | None,
) -> None:
    """Write pages of a TIFF in float32 (OME with these channels), or an image a source:
    its largest value white, NaN black.
    """
    if paths[0].suffix.lower() in TIFF:
        tifffile = import_optional("tifffile", "writing TIFF")
        pages = (
            np.ascontiguousarray(source, np.float32).reshape(shape) for source in rows.T
        )
        colour = "rgb" if len(shape) == 3 else "minisblack"
        form: dict[str, Any] = {
            "shape": (rows.shape[1], *shape),
            "dtype": np.float32,
            "photometric": colour,
        }
        if pixel_size:
            form |= {
                "resolution": (1e4 / pixel_size[1], 1e4 / pixel_size[0]),
                "resolutionunit": "CENTIMETER",
            }
        if channels:
            form["metadata"] = {
                "axes": "CYXS"[: 1 + len(shape)],
                "Channel": {"Name": [*channels]},
            }
            for axis, size in zip("YX", pixel_size or (), strict=False):
                form["metadata"] |= {
                    f"PhysicalSize{axis}": size,
                    f"PhysicalSize{axis}Unit": "µm",
                }
        with tifffile.TiffWriter(
            paths[0], bigtiff=rows.size * 4 > 2**31, ome=bool(channels)
        ) as file:
            file.write(pages, **form)
        return
    pillow = import_optional("PIL.Image", "writing images")
    for path, source in zip(paths, rows.T, strict=True):
        white, kind = (
            (65535, np.uint16)
            if path.suffix.lower() == ".png" and len(shape) == 2
            else (255, np.uint8)
        )
        image = np.rint(
            np.asarray(source, np.float64)
            * (white / (float(np.nanmax(source, initial=0.0)) or 1.0))
        )
        pillow.fromarray(np.nan_to_num(image).astype(kind).reshape(shape)).save(path)


def check_format(path: Path, option: str = "-o", *, images: bool = False) -> None:
    """Raise if the suffix of this name is not a format that can be written; `images`
    says that the mixtures are images.
    """
    known = (*WRITTEN, *(IMAGES if images else ()))
    if path.suffix.lower() not in known:
        what = (
            ", but the input is not an image" if path.suffix.lower() in IMAGES else ""
        )
        what = " is a folder" if path.is_dir() else what
        raise OutputError(
            f"{option} {path}{what}: give a file with one of the suffixes"
            f" {', '.join(known)}"
        )


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for: for images one for each source
    (or the first, and all that exist).
    """
    if path.suffix.lower() not in IMAGES or path.suffix.lower() in TIFF:
        return [path]
    files = [
        path.with_name(f"{path.stem}-{i}{path.suffix}")
        for i in range(1, (n_sources or 1) + 1)
    ]
    if n_sources is None:
        numbered = re.compile(
            rf"{re.escape(path.stem)}-[1-9]\d*{re.escape(path.suffix)}"
        )
        files = sorted(
            {
                *files,
                *(
                    file
                    for file in path.parent.glob("*")
                    if numbered.fullmatch(file.name)
                ),
            }
        )
    return files


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
    """Open a file for sources in the format of its suffix: `write(block, labels)`
    appends samples.

    The file appears under its name when it is complete. Text and Parquet hold the
    labels of the samples too; `label_types` are their types in Arrow, text by default.
    `names` are those of the sources, `array` that of an array in an .npz or HDF5, and
    `decimal` is the decimal point of text: with a comma, a .csv has ; between numbers.
    `pixel_size` is that of `Reader`.
    """
    suffix = path.suffix.lower()
    columns = names or [f"source_{i + 1}" for i in range(n_sources)]
    with complete_files(output_files(path, n_sources)) as parts:
        if suffix in TEXT:
            with parts[0].open("wb") as file:
                yield TextWriter(
                    file,
                    [*label_names, *columns],
                    decimal,
                    "" if suffix == ".csv" else "\t",
                )
        elif suffix == ".xlsx":
            openpyxl = import_optional("openpyxl", "writing .xlsx")
            book = openpyxl.Workbook(write_only=True)
            sheet = book.create_sheet(array)
            n_rows = itertools.count(1)

            def text(value: Any) -> Any:
                """A cell of text: a label that begins with = is no formula."""
                cell = openpyxl.cell.WriteOnlyCell(
                    sheet, None if value is None else str(value)
                )
                cell.data_type = "s"
                return cell

            def write_rows(block: Array, labels: Sequence[Iterable[Any]] = ()) -> None:
                for *names, numbers in zip(*labels, block.tolist(), strict=True):
                    if (
                        next(n_rows) > _SHEET[0]
                        or len(names) + len(numbers) > _SHEET[1]
                    ):
                        raise OutputError(
                            f"{path}: a sheet has at most {_SHEET[0]:,} rows and"
                            f" {_SHEET[1]:,} columns: write a .csv"
                        )
                    sheet.append(
                        [*map(text, names), *(None if x != x else x for x in numbers)]
                    )

            axis, unit = wavelengths_in(columns)
            if axis is None or unit:
                write_rows(
                    np.empty((1, 0)), [[name] for name in (*label_names, *columns)]
                )
            else:  # numbers, from which charts take their axis
                write_rows(axis[np.newaxis], [[name] for name in label_names])
            try:
                yield SimpleNamespace(write=write_rows)
            finally:
                sheet.close()
            book.save(parts[0])
        elif suffix == ".parquet":
            arrow, parquet = (
                import_optional(name, "writing Parquet")
                for name in ("pyarrow", "pyarrow.parquet")
            )
            types = [*(label_types or [arrow.string()] * len(label_names))]
            types += [arrow.from_numpy_dtype(np.dtype(dtype))] * len(columns)
            schema = arrow.schema(zip([*label_names, *columns], types, strict=True))

            def write(block: Array, labels: Sequence[Array] = ()) -> None:
                values = zip(
                    [*labels, *np.ascontiguousarray(block.T, dtype)], types, strict=True
                )
                arrays = [
                    arrow.array(column, kind, from_pandas=True)
                    for column, kind in values
                ]
                table.write_table(arrow.Table.from_arrays(arrays, schema=schema))

            with parquet.ParquetWriter(parts[0], schema) as table:
                yield SimpleNamespace(write=write)
        else:  # these are written at once, and have no place for labels
            with TemporaryFile(dir=parts[0].parent) as kept:
                yield SimpleNamespace(
                    write=lambda block, _=(): kept.write(
                        np.ascontiguousarray(block, dtype).data
                    )
                )
                kept.flush()
                rows = (
                    np.memmap(kept, dtype, "r") if kept.tell() else np.empty(0, dtype)
                )
                if image_shape is None or suffix in _ARRAYS:
                    shape = (-1,) if image_shape is None else image_shape
                    _save_array(parts[0], rows.reshape(*shape, n_sources), array)
                else:
                    channels = columns if path.stem.lower().endswith(".ome") else None
                    _save_images(
                        parts,
                        rows.reshape(-1, n_sources),
                        image_shape,
                        pixel_size,
                        channels,
                    )
