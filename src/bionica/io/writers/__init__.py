"""Writers of sources and spectra, in the format of the suffix of the file: `open_writer`, `write_spectra`."""

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
    "OutputError", "PipeWriter", "Target", "Writer", "check_folder", "check_format", "check_spectra_format", "check_targets",
    "open_writer", "output_files", "write_spectra",
]  # fmt: skip

_FORMATS: dict[str, Callable[[Path, formats.Layout, Any], AbstractContextManager[formats.Append]]] = {
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
        if path.is_dir():
            raise OutputError(f"-o {path} is a folder: give a file in it, {path / 'sources.csv'} for instance")
        known = ", ".join((*_FORMATS, *IMAGES))
        raise OutputError(f"-o {path} has the unknown suffix {suffix!r}: bionica writes {known}")
    if suffix in IMAGES and not all(Path(name).suffix.lower() in IMAGES for name in inputs):
        raise OutputError(f"-o {path}: the mixtures are no images, so the sources are none; choose .npy or .csv")


def check_spectra_format(path: Path) -> None:
    """Raise if `write_spectra` has no format for this name."""
    suffix = path.suffix.lower()
    if suffix in _FORMATS:
        return
    known = ", ".join(_FORMATS)
    what = "is an image, and spectra are none" if suffix in IMAGES else f"has the unknown suffix {suffix!r}"
    raise OutputError(f"--mixing {path} {what}: choose from {known}")


def output_files(path: Path, n_sources: int | None) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source, counted from 1.

    If the number of sources is not known yet (None): the first of these images, and all that exist.
    """
    if not _is_numbered(path):
        return [path]
    if n_sources is not None:
        return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(1, n_sources + 1)]
    numbered = re.compile(rf"{re.escape(path.stem)}-[1-9]\d*{re.escape(path.suffix)}")
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    return sorted({path.with_name(f"{path.stem}-1{path.suffix}"), *(f for f in there if numbered.fullmatch(f.name))})


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
    path: Path,
    n_sources: int,
    dtype: Any,
    image_shape: tuple[int, ...] | None = None,
    *,
    only_same: bool = False,
    decimal: str = ".",
) -> Iterator[Writer]:
    """Open a file for sources in the format of its suffix. It appears under its name when it is complete.

    With `only_same`, a file that exists already must hold the same bytes: OutputError otherwise. `decimal` is the decimal point
    of text: with a comma, a .csv has ; between numbers.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open_writer(Path(folder, "s.npy"), 2, "float64") as writer:
    ...         writer.write(np.ones((3, 2)))
    ...     np.load(Path(folder, "s.npy")).shape
    (3, 2)
    """
    files = [real_path(file) for file in output_files(path, n_sources)]
    with _complete_files(files, only_same, "-o", "sources") as parts:
        if path.suffix.lower() in _FORMATS:
            layout = formats.Layout(formats.source_names(n_sources), decimal=decimal)
            opened = _FORMATS[path.suffix.lower()](parts[0], layout, np.dtype(dtype))
        else:
            assert image_shape is not None
            opened = formats.image_files(parts, path.suffix.lower(), n_sources, np.dtype(dtype), image_shape)
        with opened as append:
            yield Writer(append)


def write_spectra(
    path: Path, spectra: formats.Array, columns: Sequence[str], *, only_same: bool = False, decimal: str = "."
) -> None:
    """Write spectra, one row for each source and one column for each mixture, in the format of the suffix.

    In text the rows have names, as in the header of the sources. In an .npz or HDF5 the array is called "spectra".
    With `only_same`, a file that exists already must hold the same bytes: OutputError otherwise. `decimal` is the decimal point
    of text: with a comma, a .csv has ; between numbers.

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
    layout = formats.Layout(columns, "spectra", formats.source_names(len(spectra)), decimal)
    write_file = _FORMATS[path.suffix.lower()]
    with (
        _complete_files([real_path(path)], only_same, "--mixing", layout.array) as (part,),
        write_file(part, layout, spectra.dtype) as append,
    ):
        append(spectra)


@contextmanager
def _complete_files(files: Sequence[Path], only_same: bool, option: str, content: str) -> Iterator[list[Path]]:
    """Yield names to write to, in a hidden folder; what is written there gets the names of `files` when it is complete.

    `option` names the files, and `content` is what they hold.
    """
    with partial_folder(files[0]) as folder:
        parts = [folder / f"{i}{file.suffix}" for i, file in enumerate(files)]
        yield parts
        for part, file in zip(parts, files, strict=True):
            if only_same and file.exists() and not same_content(part, file):
                raise OutputError(
                    f"{file} exists already and holds other {content}: choose another name with {option}, or replace it with "
                    "--force"
                )
        rename_all(parts, files)


class PipeWriter:
    """Lines to a pipe, flushed after each block."""

    def __init__(self, file: BinaryIO, header: bool = False) -> None:
        self._file, self._header = file, header

    def write(self, block: formats.Array) -> None:
        """Write samples now."""
        if self._header:
            self._file.write(formats.header_line(formats.source_names(block.shape[1])))
            self._header = False
        self._file.write(formats.text_lines(block))
        self._file.flush()
