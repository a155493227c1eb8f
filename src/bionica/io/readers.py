"""Mixtures from files: which reader for which name, and NumPy's own formats."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from .columns import ALL, Columns
from .containers import choose, open_hdf5, open_parquet, open_zarr
from .images import IMAGES, open_images
from .source import InputError, MatrixReader, Reader, reading
from .text import TEXT, open_text

__all__ = ["FORMATS", "open_reader"]

FORMATS = (".npy", ".npz", *TEXT, ".parquet", ".h5", ".hdf5", ".zarr", *IMAGES)


def open_reader(
    inputs: Sequence[str], *, axis: int | None = None, dataset: str | None = None, columns: Columns = ALL
) -> Reader:
    r"""Open mixtures for reading.

    Parameters
    ----------
    inputs : sequence of str
        One file of any of `FORMATS`, or several images of one shape.
    axis : {0, 1}, optional
        Which axis of a matrix holds the samples; 0 by default.
    dataset : str, optional
        Name of the array in an .npz, .h5 or .zarr that holds several.
    columns : Columns, optional
        Which mixtures to read, all by default; an index that pandas wrote is none.

    Returns
    -------
    Reader
        To be used in a `with` statement.

    Raises
    ------
    InputError
        If they cannot be read as mixtures.

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
        if axis is not None:
            raise InputError("--axis is for matrices: in images the pixels are the samples and each file is a mixture")
        return open_images(paths).choose(columns)
    if len(paths) > 1:
        raise InputError(
            f"{len(paths)} inputs that are not all images: give one file, or several images of the same shape"
        )
    (path,), (suffix,) = paths, suffixes
    if suffix not in FORMATS:
        raise InputError(f"{path} has the unknown suffix {suffix!r}: bionica reads {', '.join(FORMATS)} and - (a pipe)")
    if dataset is not None and suffix not in (".npz", ".h5", ".hdf5", ".zarr"):
        raise InputError(f"--dataset {dataset}: a {suffix} file holds one table; leave --dataset away")
    if path.is_dir() and suffix != ".zarr":
        raise InputError(f"{path} is a folder, not a {suffix} file")
    samples = axis or 0
    with reading(str(path), f"{suffix[1:]} data"):
        if suffix in TEXT:
            return open_text(path, samples, columns)
        if suffix == ".npy":
            return _npy(str(path), path.open("rb"), samples).choose(columns)
        if suffix == ".npz":
            return _npz(path, samples, dataset).choose(columns)
        if suffix == ".parquet":
            return open_parquet(path, samples, columns)
        if suffix == ".zarr":
            return open_zarr(path, samples, dataset).choose(columns)
        return open_hdf5(path, samples, dataset).choose(columns)


def _npy(name: str, file: BinaryIO, axis: int) -> MatrixReader:
    try:
        return _mapped(name, file, axis)
    except BaseException:
        file.close()
        raise


def _mapped(name: str, file: BinaryIO, axis: int) -> MatrixReader:
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise InputError(f"{name} has version {version} of the .npy format, for records: save a plain matrix")
    shape, fortran, dtype = read_header[version](file)
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, not real numbers: convert it to float64 first")
    offset = file.tell()

    def fetch(index: Any) -> Any:
        # Mapped anew for every block: pages of a mapping that lives on would count as memory in use.
        whole = np.memmap(file, dtype, "r", offset, shape, "F" if fortran else "C")
        return np.array(whole[index])

    reader = MatrixReader(
        name, "npy data", shape, dtype, axis, fetch, gather=fortran == bool(axis), close=file.close
    )  # fmt: skip
    fetch((slice(0, 1), slice(0, 1)))  # a file that is too short shows here
    return reader


def _npz(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    # Unpacked to a nameless file on disk, so that what fits no memory is read all the same.
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        name = choose(str(path), names, dataset)
        unpacked = TemporaryFile()  # noqa: SIM115 - the reader closes it
        try:
            with archive.open(f"{name}.npy") as member:
                while chunk := member.read(1 << 20):
                    unpacked.write(chunk)
            unpacked.flush()
            unpacked.seek(0)
        except BaseException:
            unpacked.close()
            raise
    return _npy(f"{path}[{name}]", unpacked, axis)
