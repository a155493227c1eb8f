"""Tables of numbers in every format. Each function writes one file and yields the function that appends a block of rows."""

import csv
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO, StringIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..readers import import_optional
from ..readers.images import TIFF

Array = NDArray[Any]
Append = Callable[[Array], object]

_CHUNK_ROWS = 16384
#: Attributes of every Zarr store that `zarr_file` writes.
STORE_MARK = {"written_by": "bionica"}


class Layout(NamedTuple):
    """What a table is called and how text is written.

    Names of the columns; what the array is called, where a file holds several; the names of the rows in text, if any; and the
    decimal point of text.
    """

    columns: Sequence[str]
    array: str = "sources"
    rows: Sequence[str] | None = None
    decimal: str = "."

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.columns)


def source_names(n_sources: int) -> list[str]:
    """Return the names of the sources in files, counted from 1 as columns are."""
    return [f"source_{i}" for i in range(1, n_sources + 1)]


def header_line(names: Sequence[str], separator: str = ",") -> bytes:
    """Return the first line of a text file."""
    line = StringIO()
    csv.writer(line, delimiter=separator, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def text_lines(block: Array, separator: str = ",", names: Iterator[str] | None = None, decimal: str = ".") -> bytes:
    """Return a block as lines of text, with as many digits as it takes to read the same numbers back.

    Each line begins with the next of `names`, if there are any.
    """
    digits: Callable[[float], str] = "{:.9g}".format if block.dtype == np.float32 else repr
    lines = (separator.join(map(digits, row)).replace(".", decimal) + "\n" for row in block.tolist())
    if names is not None:
        lines = (f"{name}{separator}{line}" for line, name in zip(lines, names, strict=False))
    return "".join(lines).encode()


@contextmanager
def csv_file(path: Path, layout: Layout, dtype: Any, separator: str = ",") -> Iterator[Append]:
    """Separated values with a header. The column of row names has none itself, as pandas and R write it.

    With decimal commas, semicolons take the place of commas between values, and a header of numbers has decimal commas too.
    """
    names = None if layout.rows is None else iter(layout.rows)
    decimal = layout.decimal
    separator = ";" if separator == decimal else separator
    columns = [name.replace(".", decimal) if _is_number(name) else name for name in layout.columns]
    with path.open("wb") as file:
        file.write(header_line([""] * (names is not None) + columns, separator))
        yield lambda block: file.write(text_lines(block, separator, names, decimal))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


@contextmanager
def npy_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """A .npy file, C-ordered."""
    with path.open("wb") as file, _npy(file, layout, dtype) as append:
        yield append


@contextmanager
def npz_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """An .npz file of one array, which is packed when the number of rows is known."""
    with TemporaryFile(dir=path.parent) as unpacked, zipfile.ZipFile(path, "w") as archive:
        with _npy(unpacked, layout, dtype) as append:
            yield append
        unpacked.seek(0)
        # Without the time, so that the same numbers give the same bytes.
        with archive.open(zipfile.ZipInfo(f"{layout.array}.npy"), "w", force_zip64=True) as member:
            shutil.copyfileobj(unpacked, member)


@contextmanager
def _npy(file: BinaryIO, layout: Layout, dtype: Any) -> Iterator[Append]:
    n_rows = 0

    def write_header() -> None:
        header = {"descr": dtype.str, "fortran_order": False, "shape": (n_rows, layout.width)}
        np.lib.format.write_array_header_1_0(file, header)

    def append(block: Array) -> None:
        nonlocal n_rows
        file.write(np.ascontiguousarray(block, dtype).data)
        n_rows += len(block)

    write_header()
    yield append
    file.seek(0)
    write_header()  # now with the number of rows, for which NumPy leaves room
    file.flush()


@contextmanager
def _whole_chunks(append: Append, rows: int) -> Iterator[Append]:
    """Buffer samples and append them in multiples of `rows`, so that no chunk is written twice."""
    buffer: list[Array] = []
    buffered = 0

    def add(block: Array) -> None:
        nonlocal buffered
        buffer.append(block)
        buffered += len(block)
        if buffered >= rows:
            samples = np.concatenate(buffer)
            buffered %= rows
            append(samples[: len(samples) - buffered])
            buffer[:] = [samples[len(samples) - buffered :]]

    yield add
    if buffered:
        append(np.concatenate(buffer))


def _chunk_rows(width: int) -> int:
    return max(1, min(_CHUNK_ROWS, 2**20 // width))


@contextmanager
def parquet_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """A Parquet file."""
    arrow, parquet = (import_optional(name, "writing Parquet") for name in ("pyarrow", "pyarrow.parquet"))
    schema = arrow.schema([(name, arrow.from_numpy_dtype(dtype)) for name in layout.columns])
    with parquet.ParquetWriter(path, schema) as file:

        def append(block: Array) -> None:
            columns = [np.ascontiguousarray(column, dtype) for column in block.T]
            file.write_table(arrow.table(columns, schema=schema))

        with _whole_chunks(append, _chunk_rows(layout.width)) as add:
            yield add


@contextmanager
def zarr_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """A Zarr store of one array, marked as ours: see `is_our_store`."""
    rows = _chunk_rows(layout.width)
    data = import_optional("zarr", "writing Zarr").create_array(
        str(path),
        shape=(0, layout.width),
        chunks=(rows, layout.width),
        dtype=dtype,
        attributes=STORE_MARK,
        zarr_format=3,
    )
    with _whole_chunks(data.append, rows) as add:
        yield add


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


@contextmanager
def hdf5_file(path: Path, layout: Layout, dtype: Any) -> Iterator[Append]:
    """An HDF5 file of one dataset."""
    h5py = import_optional("h5py", "writing HDF5")
    with _DeferredErrorFile(path, "w+b") as raw:
        with h5py.File(raw, "w") as file:
            chunks = (_chunk_rows(layout.width), layout.width)
            data = file.create_dataset(
                layout.array, (0, layout.width), dtype, maxshape=(None, layout.width), chunks=chunks
            )

            def append(block: Array) -> None:
                n_rows = len(data)
                data.resize(n_rows + len(block), axis=0)
                data[n_rows:] = block
                raw.check()

            yield append
        raw.check()


@contextmanager
def image_files(
    paths: Sequence[Path], suffix: str, n_sources: int, dtype: Any, shape: tuple[int, ...]
) -> Iterator[Append]:
    """Pages of a TIFF, or an image for each source. The pixels are collected in an unnamed file on disk."""
    with TemporaryFile(dir=paths[0].parent) as pixels:
        yield lambda block: pixels.write(np.ascontiguousarray(block, dtype).data)
        pixels.flush()
        sources = np.memmap(pixels, dtype, "r").reshape(-1, n_sources).T
        if suffix in TIFF:
            _write_pages(paths[0], sources, shape)
        else:
            for path, source in zip(paths, sources, strict=True):
                _write_image(path, suffix, source, shape)


def _write_pages(path: Path, sources: Array, shape: tuple[int, ...]) -> None:
    """Write the rows of `sources` as pages of a TIFF, in float32."""
    tifffile = import_optional("tifffile", "writing TIFF")
    with tifffile.TiffWriter(path, bigtiff=sources.size * 4 > 2**31) as file:
        pages = (np.ascontiguousarray(source, dtype=np.float32).reshape(shape) for source in sources)
        colour = "rgb" if len(shape) == 3 else "minisblack"
        file.write(pages, shape=(len(sources), *shape), dtype=np.float32, photometric=colour)


def _write_image(path: Path, suffix: str, source: Array, shape: tuple[int, ...]) -> None:
    """Write one source as an image, its largest value white."""
    largest = float(source.max()) or 1.0
    white, dtype = (65535, np.uint16) if suffix == ".png" and len(shape) == 2 else (255, np.uint8)
    image = np.rint(np.asarray(source, np.float64) * (white / largest)).astype(dtype).reshape(shape)
    import_optional("imageio.v3", "writing images").imwrite(path, image, extension=suffix)
