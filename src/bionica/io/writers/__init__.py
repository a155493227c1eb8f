"""Writers of sources: `open_writer` chooses a format by the suffix of the file."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..atomic import partial_folder, real_path, rename_all, same_content
from ..readers.images import IMAGES, TIFF
from . import formats
from .targets import OutputError, Target, check_folder, check_targets

__all__ = [
    "OutputError", "PipeWriter", "Target", "Writer", "check_folder", "check_format", "check_targets", "open_writer", "output_files",
]  # fmt: skip

_FORMATS: dict[str, Callable[[Path, int, Any], AbstractContextManager[formats.Append]]] = {
    ".npy": formats.npy_file,
    ".npz": formats.npz_file,
    ".csv": formats.csv_file,
    **dict.fromkeys((".tsv", ".txt", ".dat"), partial(formats.csv_file, separator="\t")),
    ".parquet": formats.parquet_file,
    **dict.fromkeys((".h5", ".hdf5"), formats.hdf5_file),
    ".zarr": formats.zarr_file,
}


def check_format(path: Path, inputs: Sequence[str]) -> None:
    """Raise if the sources of these inputs cannot be written in the format of this name."""
    suffix = path.suffix.lower()
    if suffix not in _FORMATS and suffix not in IMAGES:
        known = ", ".join((*_FORMATS, *IMAGES))
        raise OutputError(f"-o {path} has the unknown suffix {suffix!r}: bionica writes {known}")
    if suffix in IMAGES and not all(Path(name).suffix.lower() in IMAGES for name in inputs):
        raise OutputError(f"-o {path}: the mixtures are no images, so the sources are none; choose .npy or .csv")


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source.

    If the number of sources is not known yet (None): the first of these images, and all that exist.
    """
    if not _is_numbered(path):
        return [path]
    if n_sources is not None:
        return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(n_sources)]
    numbered = re.compile(rf"{re.escape(path.stem)}-(0|[1-9]\d*){re.escape(path.suffix)}")
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted({path.with_name(f"{path.stem}-0{path.suffix}"), *(f for f in there if numbered.fullmatch(f.name))})


def _is_numbered(path: Path) -> bool:
    """Whether this name stands for an image of each source, not for one file."""
    suffix = path.suffix.lower()
    return suffix in IMAGES and suffix not in TIFF


@dataclass(frozen=True)
class Writer:
    """Takes sources: `write(block)` appends samples."""

    write: formats.Append


@contextmanager
def open_writer(
    path: Path, n_sources: int, dtype: Any, image_shape: tuple[int, ...] | None = None, *, only_same: bool = False
) -> Iterator[Writer]:
    """Open a file for sources in the format of its suffix. It appears under its name when it is complete.

    With `only_same`, a file that exists already must hold the same bytes: OutputError otherwise.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "s.npy"), 2, "float64") as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(Path(folder, "s.npy")).shape
    (3, 2)
    """
    suffix, files = path.suffix.lower(), [real_path(file) for file in output_files(path, n_sources)]
    with partial_folder(files[0]) as folder:
        parts = [folder / f"{i}{suffix}" for i in range(len(files))]
        if suffix in _FORMATS:
            opened = _FORMATS[suffix](parts[0], n_sources, np.dtype(dtype))
        else:
            assert image_shape is not None
            opened = formats.image_files(parts, suffix, n_sources, np.dtype(dtype), image_shape)
        with opened as append:
            yield Writer(append)
        for part, file in zip(parts, files, strict=True):
            if only_same and file.exists() and not same_content(part, file):
                raise OutputError(
                    f"{file} exists already and holds other sources: choose another name with -o, or replace it with --force"
                )
        rename_all(parts, files)


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
