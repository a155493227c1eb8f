"""Readers of mixtures: `open_reader` chooses one by the suffix of the file."""

from collections.abc import Sequence
from pathlib import Path

from .arrays import open_hdf5, open_npy, open_npz, open_zarr
from .columns import ALL, Columns
from .images import IMAGES, open_images
from .parquet import open_parquet
from .reader import EvenSample, InputError, LastSample, Reader, explain_errors, import_optional
from .text import TEXT, RawPipe, TextReader, open_text

__all__ = [
    "Columns", "EvenSample", "InputError", "LastSample", "RawPipe", "Reader", "TextReader", "import_optional", "open_reader",
]  # fmt: skip

FORMATS = (".npy", ".npz", *TEXT, ".parquet", ".h5", ".hdf5", ".zarr", *IMAGES)


def open_reader(
    inputs: Sequence[str],
    *,
    axis: int | None = None,
    dataset: str | None = None,
    columns: Columns = ALL,
    once: bool = False,
) -> Reader:
    r"""Open one file of any of `FORMATS`, or several images of one shape; InputError if they are no mixtures.

    `axis` is the axis of a matrix that holds the samples (0 by default), `dataset` the array of a file that holds several,
    and `columns` says which columns are mixtures (by default all but an index). With `once` the samples are read only once, so
    that text may also come from a named pipe.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "x.csv").write_text("a;b\n1;2\n3;4\n")
    ...     with open_reader([f"{folder}/x.csv"]) as reader:
    ...         list(reader.blocks())
    [array([[1., 2.],
           [3., 4.]])]
    """
    paths = [Path(name) for name in inputs]
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist: check the name (the current folder is {Path.cwd()})")
    suffixes = {path.suffix.lower() for path in paths}
    if suffixes <= set(IMAGES):
        for path in paths:
            _check_kind(path, path.suffix, once=False, axis=0)
        if axis is not None:
            raise InputError("--axis is for matrices: in images the pixels are the samples and each file is a mixture")
        return open_images(paths).choose(columns)
    if len(paths) > 1:
        raise InputError(f"{len(paths)} inputs that are not all images: give one file, or several images of one shape")
    (path,), (suffix,) = paths, suffixes
    if suffix not in FORMATS:
        raise InputError(f"{path} has the unknown suffix {suffix!r}: bionica reads {', '.join(FORMATS)} and - (a pipe)")
    if dataset is not None and suffix not in (".npz", ".h5", ".hdf5", ".zarr"):
        raise InputError(f"--dataset {dataset}: a {suffix} file holds one table; omit --dataset")
    _check_kind(path, suffix, once=once, axis=axis or 0)
    with explain_errors(str(path), f"{suffix[1:]} data"):
        if suffix in TEXT:
            return open_text(path, axis or 0, columns)
        if suffix == ".parquet":
            return open_parquet(path, axis or 0, columns)
        if suffix == ".npy":
            return open_npy(path, axis or 0).choose(columns)
        open_array = {".npz": open_npz, ".zarr": open_zarr}.get(suffix, open_hdf5)
        return open_array(path, axis or 0, dataset).choose(columns)


def _check_kind(path: Path, suffix: str, *, once: bool, axis: int) -> None:
    """Raise if what has this name is not a file, or a folder for Zarr, or a pipe where one can be read."""
    if path.is_dir() and suffix != ".zarr":
        raise InputError(f"{path} is a folder, not a {suffix} file")
    if path.is_file() and suffix == ".zarr":
        raise InputError(f"{path} is a file; a Zarr store is a folder")
    if path.is_file() or path.is_dir() or (once and axis == 0 and suffix in TEXT):
        return
    remedy = "copy it to a file"
    if suffix in TEXT:
        remedy = f"use --follow, or cat {path} | bionica separate -, which answer each sample as it arrives; or copy it to a file"
    raise InputError(f"{path} is a pipe or a device, which can be read only once: {remedy}")
