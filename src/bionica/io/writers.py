"""Sources to files: written beside their name, and renamed when complete; or as lines to a pipe."""

import os
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from .container_writers import Hdf5Writer, ParquetWriter, ZarrWriter
from .images import IMAGES, ImageWriter, output_files
from .sink import OutputError, Writer, names, remove, remove_parts, rename
from .text import TEXT

__all__ = ["OutputError", "PipeWriter", "Writer", "check_output", "open_writer", "output_files", "text_lines"]

Array = NDArray[Any]


def check_file(path: Path, option: str, *, force: bool, remedy: str | None = None) -> None:
    """Say whether a file cannot be written: no folder, or there is one already. Parts left by a killed process go.

    Examples
    --------
    >>> check_file(Path("nowhere/x.npy"), "-o", force=False)
    Traceback (most recent call last):
    bionica.io.sink.OutputError: -o nowhere/x.npy: there is no folder nowhere; make it first
    """
    if not path.parent.is_dir():
        raise OutputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.exists() and not force:
        remedy = remedy or f"choose another name with {option}, or replace it with --force"
        raise OutputError(f"{path} exists already: {remedy}")
    remove_parts(path)


def check_output(
    path: Path, *, force: bool, n_sources: int = 1, image_shape: tuple[int, ...] | None = None, option: str = "-o"
) -> None:
    """Say what would go wrong at the end, before the work begins.

    Examples
    --------
    >>> check_output(Path("x.xyz"), force=False)
    Traceback (most recent call last):
    bionica.io.sink.OutputError: -o x.xyz has the unknown suffix '.xyz': bionica writes .npy, .npz, .csv, ...
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITERS and suffix not in IMAGES:
        known = ", ".join((*_WRITERS, *IMAGES))
        raise OutputError(f"{option} {path} has the unknown suffix {suffix!r}: bionica writes {known}")
    if suffix in IMAGES and image_shape is None:
        raise OutputError(f"{option} {path}: the mixtures are no images, so the sources are none; choose .npy or .csv")
    for file in output_files(path, n_sources, image_shape):
        check_file(file, option, force=force)


class _FileWriter(Writer):
    """Into a plain file."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self.file: BinaryIO = self.part.open("wb")

    def finish(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def release(self) -> None:
        try:
            self.file.close()
        except OSError:  # a full disk complains again about what was not flushed
            if self.file.closed is False:
                raise


class _Npy(_FileWriter):
    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._header()

    def _header(self) -> None:
        shape = (self.n_samples, self.n_sources)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, block: Array) -> None:
        self.file.write(np.ascontiguousarray(block, self.dtype).data)
        self.n_samples += len(block)

    def finish(self) -> None:
        begin = self.file.seek(0)
        self._header()  # NumPy leaves room in it for a longer number of samples
        assert begin == 0
        super().finish()


class _Npz(_Npy):
    """The .npy file beside it, packed at the end."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self.packed = self.part.with_name(f"{self.part.name}.zip")
        remove(self.packed)  # of a process that was killed

    def finish(self) -> None:
        super().finish()
        with zipfile.ZipFile(self.packed, "w", zipfile.ZIP_STORED) as archive:
            archive.write(self.part, "sources.npy")

    def commit(self) -> None:
        rename(self.packed, self.path)

    def abort(self) -> None:
        super().abort()
        remove(self.packed)


def text_lines(block: Array, separator: str = ",") -> bytes:
    r"""Return a block as lines of text with every digit that matters.

    Examples
    --------
    >>> text_lines(np.array([[0.1, 2.0], [0.0, 1e-9]]))
    b'0.1,2.0\n0.0,1e-09\n'
    """
    if block.dtype == np.float32:
        rows = (separator.join([f"{value:.9g}" for value in row]) for row in block.tolist())
    else:
        rows = (separator.join(map(repr, row)) for row in block.tolist())
    return "".join(f"{row}\n" for row in rows).encode()


def header_line(n_sources: int, separator: str = ",") -> bytes:
    r"""Return the names of the columns as a line.

    Examples
    --------
    >>> header_line(2)
    b'source_0,source_1\n'
    """
    return (separator.join(names(n_sources)) + "\n").encode()


class _Text(_FileWriter):
    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self.separator = "," if path.suffix.lower() == ".csv" else "\t"
        self.file.write(header_line(n_sources, self.separator))

    def write(self, block: Array) -> None:
        self.file.write(text_lines(block, self.separator))
        self.n_samples += len(block)


class PipeWriter:
    r"""Lines to a pipe, each flushed as it comes; the same use as a Writer.

    Examples
    --------
    >>> import io
    >>> out = io.BytesIO()
    >>> with PipeWriter(out) as pipe:
    ...     pipe.write(np.array([[0.5, 1.0]]))
    >>> out.getvalue()
    b'0.5,1.0\n'
    """

    def __init__(self, file: BinaryIO, header: bool = False) -> None:
        self.file, self.header, self.n_samples = file, header, 0

    def write(self, block: Array) -> None:
        """Write samples now."""
        if self.header and not self.n_samples:
            self.file.write(header_line(block.shape[1]))
        self.file.write(text_lines(block))
        self.file.flush()
        self.n_samples += len(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return


_WRITERS: dict[str, type[Writer]] = {
    ".npy": _Npy,
    ".npz": _Npz,
    **dict.fromkeys(TEXT, _Text),
    ".parquet": ParquetWriter,
    ".h5": Hdf5Writer,
    ".hdf5": Hdf5Writer,
    ".zarr": ZarrWriter,
}


def open_writer(path: Path, n_sources: int, dtype: Any, image_shape: tuple[int, ...] | None = None) -> Writer:
    """Open a file for sources, in the format of its suffix.

    Parameters
    ----------
    path : Path
        The file to be; nothing appears under this name before it is complete. `check_output` has looked at it.
    n_sources : int
        Columns.
    dtype : dtype
        Of the numbers.
    image_shape : tuple of int, optional
        Shape of the images whose pixels the samples are.

    Returns
    -------
    Writer

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "s.npy"), 2, "float64") as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(Path(folder, "s.npy")).shape
    (3, 2)
    """
    suffix = path.suffix.lower()
    if suffix in IMAGES:
        assert image_shape is not None
        return ImageWriter(path, n_sources, dtype, image_shape)
    return _WRITERS[suffix](path, n_sources, dtype)
