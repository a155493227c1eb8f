"""Readers of mixtures: `open_reader` chooses one by the suffix of the file."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from .arrays import open_hdf5, open_npy, open_npz, open_zarr
from .checks import InputError, explain_errors, import_optional
from .columns import ALL, Columns, are_wavelengths
from .images import IMAGES, open_images
from .layout import TextFormat
from .matlab import open_mat
from .parquet import open_parquet
from .raw_pipe import RawPipe
from .reader import Reader
from .samples import EvenSample, LastSample
from .spreadsheet import open_xlsx
from .text import TEXT, TextReader, open_text

__all__ = [
    "Columns", "EvenSample", "InputError", "LastSample", "RawPipe", "Reader", "TextFormat", "TextReader", "are_wavelengths",
    "check_inputs", "import_optional", "open_reader",
]  # fmt: skip

FORMATS = (".npy", ".npz", *TEXT, ".xlsx", ".parquet", ".h5", ".hdf5", ".mat", ".zarr", *IMAGES)
_SEVERAL = (".npz", ".xlsx", ".h5", ".hdf5", ".mat", ".zarr")  # files that can hold several arrays


def open_reader(
    inputs: Sequence[str],
    *,
    axis: int | None = None,
    dataset: str | None = None,
    columns: Columns = ALL,
    once: bool = False,
    header: bool | None = None,
    decimal: str = ".",
) -> Reader:
    r"""Open one file of any of `FORMATS`, or several images of one shape; InputError if they are no mixtures.

    `axis` is the axis of a matrix that holds the samples (0 by default), `dataset` the array of a file that holds several,
    and `columns` says which columns are mixtures: by default all but labels, an index and leading columns that are times or row
    numbers. With `once` the samples are read only once, so that text may also come from a named pipe. `header` says whether the
    first line of text or of a sheet holds names; by default its first two lines show it (see `layout`). `decimal` is the decimal
    point of text.

    `blocks()` of the reader yields the samples in blocks that fit in memory: `np.vstack(list(reader.blocks()))` is all of them.
    The attribute `axis_values` has names that are numbers, wavelengths for instance, and `notes` says how the file was read;
    both are known after the first block.

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
    paths = check_inputs(inputs)
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
    _check_kind(path, suffix, once=once, axis=axis or 0)
    if suffix not in FORMATS:
        raise InputError(f"{path} has the unknown suffix {suffix!r}: bionica reads {', '.join(FORMATS)} and - (a pipe)")
    if dataset is not None and suffix not in _SEVERAL:
        raise InputError(f"--dataset {dataset}: a {suffix} file holds one table; omit --dataset")
    if header is not None and suffix not in (*TEXT, ".xlsx"):
        raise InputError(f"--{'' if header else 'no-'}header: a {suffix} file has no lines of text; omit it")
    if decimal != "." and suffix not in TEXT:
        raise InputError(f"--decimal {decimal}: the numbers in a {suffix} file are not text; omit it")
    with explain_errors(str(path), f"{suffix[1:]} data"):
        if suffix in TEXT:
            return open_text(path, axis or 0, columns, TextFormat(header, decimal))
        if suffix == ".xlsx":
            return open_xlsx(path, axis or 0, dataset, columns, header)
        if suffix == ".parquet":
            return open_parquet(path, axis or 0, columns)
        if suffix == ".npy":
            return open_npy(path, axis or 0).choose(columns)
        open_array = {".npz": open_npz, ".zarr": open_zarr, ".mat": open_mat}.get(suffix, open_hdf5)
        return open_array(path, axis or 0, dataset).choose(columns)


def check_inputs(inputs: Sequence[str]) -> list[Path]:
    """Return the paths of inputs; raise if one does not exist, or is a folder that is no Zarr store."""
    paths = [Path(name) for name in inputs]
    for path in paths:
        suffix = path.suffix.lower()
        if not path.exists():
            raise InputError(f"{path} does not exist: check the name (the current folder is {Path.cwd()})")
        if path.is_dir() and suffix != ".zarr":
            what = f"a {suffix} file" if suffix in FORMATS else "a file"
            known = sorted({file.suffix.lower() for file in islice(path.iterdir(), 1000)} & set(FORMATS))
            hidden = path.name.startswith(".")  # what an interrupted run left, for instance
            remedy = f"give what is in it: {path}/*{known[0]}" if known and not hidden else "give a file"
            raise InputError(f"{path} is a folder, not {what}: {remedy}")
    return paths


def _check_kind(path: Path, suffix: str, *, once: bool, axis: int) -> None:
    """Raise if what has this name is not a file, or a folder for Zarr, or a pipe where one can be read."""
    if path.is_file() and suffix == ".zarr":
        raise InputError(f"{path} is a file; a Zarr store is a folder")
    if path.is_file() or path.is_dir() or (once and axis == 0 and suffix in TEXT):
        return
    remedy = "copy it to a file"
    if suffix in TEXT:
        remedy = f"use --follow, or cat {path} | bionica separate -, which answer each sample as it arrives; or copy it to a file"
    raise InputError(f"{path} is a pipe or a device, which can be read only once: {remedy}")
