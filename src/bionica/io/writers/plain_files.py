"""Sources as .npy, .npz and text files, and as lines to a pipe."""

import os
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from ..atomic import remove, rename
from .writer import Writer, source_names

__all__ = ["NpyWriter", "NpzWriter", "PipeWriter", "TextWriter"]

Array = NDArray[Any]


class _FileWriter(Writer):
    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self.file: BinaryIO = self.partial.open("wb")

    def finish(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        try:
            self.file.close()
        except OSError:  # if the disk is full, closing fails again on what was not flushed
            if self.file.closed is False:
                raise


class NpyWriter(_FileWriter):
    """A .npy file, C-ordered."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._write_header()

    def _write_header(self) -> None:
        shape = (self.n_samples, self.n_sources)
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, header)

    def write(self, block: Array) -> None:
        """Append samples."""
        self.file.write(np.ascontiguousarray(block, self.dtype).data)
        self.n_samples += len(block)

    def finish(self) -> None:
        """Write the number of samples into the header, in which NumPy leaves room for it."""
        self.file.seek(0)
        self._write_header()
        super().finish()


class NpzWriter(NpyWriter):
    """A .npy file that is packed at the end."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._packed = self.partial.with_name(f"{self.partial.name}.zip")
        remove(self._packed)  # left by a killed process

    def finish(self) -> None:
        """Pack the complete .npy file."""
        super().finish()
        with zipfile.ZipFile(self._packed, "w", zipfile.ZIP_STORED) as archive:
            archive.write(self.partial, "sources.npy")

    def commit(self) -> None:
        """Give the complete file its name."""
        rename(self._packed, self.path)

    def discard(self) -> None:
        """Remove what was written."""
        super().discard()
        remove(self._packed)


def _text_lines(block: Array, separator: str = ",") -> bytes:
    r"""Return a block as lines of text, with as many digits as it takes to read the same numbers back.

    Examples
    --------
    >>> _text_lines(np.array([[0.1, 2.0], [0.0, 1e-9]]))
    b'0.1,2.0\n0.0,1e-09\n'
    """
    if block.dtype == np.float32:
        rows = (separator.join([f"{value:.9g}" for value in row]) for row in block.tolist())
    else:
        rows = (separator.join(map(repr, row)) for row in block.tolist())
    return "".join(f"{row}\n" for row in rows).encode()


def _header_line(n_sources: int, separator: str = ",") -> bytes:
    return (separator.join(source_names(n_sources)) + "\n").encode()


class TextWriter(_FileWriter):
    """Separated values with a header: commas in a .csv, tabs in other text files."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        super().__init__(path, n_sources, dtype)
        self._separator = "," if path.suffix.lower() == ".csv" else "\t"
        self.file.write(_header_line(n_sources, self._separator))

    def write(self, block: Array) -> None:
        """Append samples."""
        self.file.write(_text_lines(block, self._separator))
        self.n_samples += len(block)


class PipeWriter:
    r"""Lines to a pipe, flushed after each block; used like a `Writer`.

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
            self.file.write(_header_line(block.shape[1]))
        self.file.write(_text_lines(block))
        self.file.flush()
        self.n_samples += len(block)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return
