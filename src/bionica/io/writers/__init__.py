"""Writers of sources: `open_writer` chooses one by the suffix of the file."""

from pathlib import Path
from typing import Any

from ..atomic import remove_partials
from ..readers.images import IMAGES
from ..readers.text import TEXT
from .containers import Hdf5Writer, ParquetWriter, ZarrWriter
from .image_files import ImageWriter, output_files
from .plain_files import NpyWriter, NpzWriter, PipeWriter, TextWriter
from .writer import OutputError, Writer

__all__ = ["OutputError", "PipeWriter", "Writer", "check_file", "check_output", "open_writer", "output_files"]

_WRITERS: dict[str, type[Writer]] = {
    ".npy": NpyWriter,
    ".npz": NpzWriter,
    **dict.fromkeys(TEXT, TextWriter),
    ".parquet": ParquetWriter,
    ".h5": Hdf5Writer,
    ".hdf5": Hdf5Writer,
    ".zarr": ZarrWriter,
}


def check_file(path: Path, option: str, *, force: bool, remedy: str | None = None) -> None:
    """Raise if the folder of a file does not exist, or if the file does. Removes what a killed process left of it.

    Examples
    --------
    >>> check_file(Path("nowhere/x.npy"), "-o", force=False)
    Traceback (most recent call last):
    bionica.io.writers.writer.OutputError: -o nowhere/x.npy: there is no folder nowhere; make it first
    """
    if not path.parent.is_dir():
        raise OutputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if path.exists() and not force:
        remedy = remedy or f"choose another name with {option}, or replace it with --force"
        raise OutputError(f"{path} exists already: {remedy}")
    remove_partials(path)


def check_output(path: Path, *, force: bool, n_sources: int = 1, image_shape: tuple[int, ...] | None = None) -> None:
    """Raise if the sources cannot be written to `path`, before the work begins.

    Examples
    --------
    >>> check_output(Path("x.xyz"), force=False)
    Traceback (most recent call last):
    bionica.io.writers.writer.OutputError: -o x.xyz has the unknown suffix '.xyz': bionica writes .npy, .npz, .csv, ...
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITERS and suffix not in IMAGES:
        known = ", ".join((*_WRITERS, *IMAGES))
        raise OutputError(f"-o {path} has the unknown suffix {suffix!r}: bionica writes {known}")
    if suffix in IMAGES and image_shape is None:
        raise OutputError(f"-o {path}: the mixtures are no images, so the sources are none; choose .npy or .csv")
    for file in output_files(path, n_sources):
        check_file(file, "-o", force=force)


def open_writer(path: Path, n_sources: int, dtype: Any, image_shape: tuple[int, ...] | None = None) -> Writer:
    """Open a file for sources in the format of its suffix. It appears under its name when it is complete.

    Examples
    --------
    >>> import tempfile, numpy as np
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
