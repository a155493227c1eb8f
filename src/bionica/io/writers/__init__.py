"""Writers of sources: `open_writer` chooses a format by the suffix of the file."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..atomic import partial_path, remove, remove_partials, rename
from ..readers.images import IMAGES, TIFF
from . import formats

__all__ = ["OutputError", "PipeWriter", "Writer", "check_file", "check_output", "open_writer", "output_files"]

_FORMATS: dict[str, Callable[[Path, int, Any], AbstractContextManager[formats.Append]]] = {
    ".npy": formats.npy_file,
    ".npz": formats.npz_file,
    ".csv": formats.csv_file,
    **dict.fromkeys((".tsv", ".txt", ".dat"), partial(formats.csv_file, separator="\t")),
    ".parquet": formats.parquet_file,
    **dict.fromkeys((".h5", ".hdf5"), formats.hdf5_file),
    ".zarr": formats.zarr_file,
}


class OutputError(ValueError):
    """Sources that cannot be written as asked. The message names the file and the remedy."""


def check_file(path: Path, option: str, *, force: bool, remedy: str | None = None) -> None:
    """Raise if the folder of a file does not exist, or if the file does. Removes what a killed process left of it."""
    if not path.parent.is_dir():
        raise OutputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.exists() and not force:
        remedy = remedy or f"choose another name with {option}, or replace it with --force"
        raise OutputError(f"{path} exists already: {remedy}")
    remove_partials(path)


def check_output(path: Path, *, force: bool, n_sources: int = 1, image_shape: tuple[int, ...] | None = None) -> None:
    """Raise if the sources cannot be written to `path`, before the work begins."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS and suffix not in IMAGES:
        known = ", ".join((*_FORMATS, *IMAGES))
        raise OutputError(f"-o {path} has the unknown suffix {suffix!r}: bionica writes {known}")
    if suffix in IMAGES and image_shape is None:
        raise OutputError(f"-o {path}: the mixtures are no images, so the sources are none; choose .npy or .csv")
    for file in output_files(path, n_sources):
        check_file(file, "-o", force=force)


def output_files(path: Path, n_sources: int) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source."""
    suffix = path.suffix.lower()
    if suffix in IMAGES and suffix not in TIFF:
        return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(n_sources)]
    return [path]


@dataclass(frozen=True)
class Writer:
    """Takes sources: `write(block)` appends samples."""

    write: formats.Append


@contextmanager
def open_writer(path: Path, n_sources: int, dtype: Any, image_shape: tuple[int, ...] | None = None) -> Iterator[Writer]:
    """Open a file for sources in the format of its suffix. It appears under its name when it is complete.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "s.npy"), 2, "float64") as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(Path(folder, "s.npy")).shape
    (3, 2)
    """
    suffix, files = path.suffix.lower(), output_files(path, n_sources)
    parts = [partial_path(file) for file in files]
    try:
        for part in parts:
            remove(part)  # left by a killed process
        if suffix in _FORMATS:
            opened = _FORMATS[suffix](parts[0], n_sources, np.dtype(dtype))
        else:
            assert image_shape is not None
            opened = formats.image_files(parts, suffix, n_sources, np.dtype(dtype), image_shape)
        with opened as append:
            yield Writer(append)
        for part, file in zip(parts, files, strict=True):
            rename(part, file)
    finally:
        for part in parts:
            remove(part)


class PipeWriter:
    """Lines to a pipe, flushed after each block."""

    def __init__(self, file: BinaryIO, header: bool = False) -> None:
        self._file, self._header = file, header

    def write(self, block: formats.Array) -> None:
        """Write samples now."""
        if self._header:
            self._file.write(formats.header_line(block.shape[1]))
            self._header = False
        self._file.write(formats.text_lines(block))
        self._file.flush()
