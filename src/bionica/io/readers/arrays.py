"""Mixtures in files of arrays: NumPy's .npy and .npz, HDF5 and Zarr."""

import math
import shutil
import zipfile
from collections.abc import Collection, Sequence
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO

import numpy as np

from .checks import InputError, check_chunk_size, check_declared_size, close_on_error, import_optional
from .reader import MatrixReader, block_rows, map_matrix
from .zarr_store import open_checked, read_metadata

_CHUNK_BYTES = 2**26


def open_npy(path: Path, axis: int) -> MatrixReader:
    """Open a .npy file."""
    with close_on_error(path.open("rb")) as file:
        return _read_npy(str(path), file, axis)


def _read_npy(name: str, file: BinaryIO, axis: int) -> MatrixReader:
    """Read the header of a .npy file and map its numbers. The reader closes the file."""
    shape, fortran, dtype = _read_header(name, file)
    order = "F" if fortran else "C"
    return map_matrix(name, "npy data", file, shape, dtype, axis, offset=file.tell(), order=order)


def _read_header(name: str, file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether the order is Fortran's, and type."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise InputError(f"{name} has version {version} of the .npy format, for records: save a plain matrix")
    shape, fortran, dtype = read_header[version](file)
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, not real numbers: convert it to float64 first")
    return shape, fortran, dtype


def open_npz(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of an .npz file, by default the only one. It is unpacked to disk, not to memory."""
    with zipfile.ZipFile(path) as archive, close_on_error(TemporaryFile()) as unpacked:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        name = choose_array(str(path), names, dataset)
        member = archive.getinfo(f"{name}.npy")
        _check_member(f"{path}[{name}]", archive, member)
        with archive.open(member) as packed:
            shutil.copyfileobj(packed, unpacked)
        unpacked.flush()
        unpacked.seek(0)
        return _read_npy(f"{path}[{name}]", unpacked, axis)


def _check_member(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Raise before an array is unpacked if its header, its size and the space on disk do not agree."""
    check_declared_size(name, member.file_size, [member.compress_size])
    with archive.open(member) as packed:
        shape, _, dtype = _read_header(name, packed)
        declared = math.prod(shape) * dtype.itemsize
        if declared + packed.tell() != member.file_size:
            raise InputError(
                f"{name} has {member.file_size:,} bytes; its header says {declared:,}: is the file complete?"
            )
    if member.file_size > shutil.disk_usage(gettempdir()).free:
        raise InputError(
            f"{name} is {member.file_size >> 20:,} MiB unpacked, and the folder of temporary files has less space: set TMPDIR "
            "to another one, or save it as .npy"
        )


def open_hdf5(path: Path, axis: int, dataset: str | None, classes: Collection[str] = ()) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one; of a MATLAB file, only one of these classes."""
    h5py = import_optional("h5py", "reading MATLAB 7.3 files, which are HDF5," if classes else "reading HDF5")
    with close_on_error(h5py.File(path, "r")) as file:
        names: list[str] = []

        def add(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and (not classes or _matlab_class(item) in classes):
                names.append(name)

        file.visititems(add)
        # To MATLAB scalars and vectors are matrices too.
        matrices = [name for name in names if _is_matrix(file[name]) and (not classes or min(file[name].shape) > 1)]
        array = file[choose_array(str(path), names, dataset, matrices)]
        if array.external or array.is_virtual:  # these can name any file of this machine
            raise InputError(f"{path}: {array.name} has its numbers in other files: copy it into a dataset of its own")
        size = array.dtype.itemsize
        check_chunk_size(str(path), math.prod(array.chunks or ()) * size)
        check_declared_size(str(path), math.prod(array.shape or ()) * size, [path.stat().st_size])
        return _read_chunks(str(path), "HDF5", array, axis, file.close)


def _is_matrix(dataset: Any) -> bool:
    return len(dataset.shape or ()) == 2 and dataset.dtype.kind in "biuf"


def _matlab_class(dataset: Any) -> str:
    """Return what MATLAB calls the type of an array; characters are stored as numbers."""
    if dataset.name.startswith(("/#refs#", "/#subsystem#")):  # parts of cells and objects
        return ""
    name = dataset.attrs.get("MATLAB_class", b"double")
    return name.decode("ascii", "replace") if isinstance(name, bytes) else ""


def open_zarr(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of a Zarr store, by default the only one."""
    arrays = read_metadata(path)
    if "" in arrays and dataset is not None:
        raise InputError(f"{path} is one array: omit --dataset {dataset}")
    matrices = [name for name, metadata in arrays.items() if metadata.is_matrix]
    name = choose_array(str(path), list(arrays), dataset, matrices)
    return _read_chunks(str(path), "Zarr", open_checked(path, name, arrays[name]), axis)


def _read_chunks(name: str, kind: str, array: Any, axis: int, close: Any = None) -> MatrixReader:
    """Read an array in blocks of whole chunks, if these are not too large."""
    shape = tuple(map(int, array.shape or ()))
    rows = None
    if array.chunks and len(shape) == 2 and 0 not in shape:
        rows, chunk = block_rows(shape[1 - axis]), int(array.chunks[axis])
        if chunk * shape[1 - axis] * 8 <= _CHUNK_BYTES:
            rows = max(1, -(-rows // chunk)) * chunk
    return MatrixReader(name, kind, shape, array.dtype, axis, array.__getitem__, rows=rows, close=close)


def choose_array(name: str, arrays: Sequence[str], dataset: str | None, matrices: Sequence[str] = ()) -> str:
    """Return the array to read: the one that the user names, the only matrix, or the only array."""
    known = ", ".join(arrays[:20]) + (" ..." if len(arrays) > 20 else "")
    if dataset is not None:
        if dataset.strip("/") not in arrays:
            raise InputError(f"{name} has no array {dataset!r}: there are {known or 'none'}")
        return dataset.strip("/")
    if not arrays:
        raise InputError(f"{name} holds no array")
    if len(matrices) == 1:
        return matrices[0]
    if len(arrays) > 1:
        raise InputError(f"{name} holds several arrays: choose one with --dataset, of {known}")
    return arrays[0]
