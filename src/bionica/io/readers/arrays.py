"""Mixtures in files of arrays: NumPy's .npy and .npz, HDF5 and Zarr."""

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from .reader import InputError, MatrixReader, block_rows, close_on_error, import_optional, map_matrix

_CHUNK_BYTES = 2**26


def open_npy(path: Path, axis: int) -> MatrixReader:
    """Open a .npy file."""
    with close_on_error(path.open("rb")) as file:
        return _read_npy(str(path), file, axis)


def _read_npy(name: str, file: BinaryIO, axis: int) -> MatrixReader:
    """Read the header of a .npy file and map its numbers. The reader closes the file."""
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in read_header:
        raise InputError(f"{name} has version {version} of the .npy format, for records: save a plain matrix")
    shape, fortran, dtype = read_header[version](file)
    if dtype.hasobject:
        raise InputError(f"{name} holds Python objects, not real numbers: convert it to float64 first")
    order = "F" if fortran else "C"
    return map_matrix(name, "npy data", file, shape, dtype, axis, offset=file.tell(), order=order)


def open_npz(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of an .npz file, by default the only one. It is unpacked to disk, not to memory."""
    with zipfile.ZipFile(path) as archive, close_on_error(TemporaryFile()) as unpacked:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        name = _choose(str(path), names, dataset)
        with archive.open(f"{name}.npy") as member:
            shutil.copyfileobj(member, unpacked)
        unpacked.flush()
        unpacked.seek(0)
        return _read_npy(f"{path}[{name}]", unpacked, axis)


def open_hdf5(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one."""
    h5py = import_optional("h5py", "reading HDF5")
    with close_on_error(h5py.File(path, "r")) as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        return _read_chunks(str(path), "HDF5", file, names, dataset, axis, file.close)


def open_zarr(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of a Zarr store, by default the only one."""
    root = import_optional("zarr", "reading Zarr").open(str(path), mode="r")
    if hasattr(root, "shape"):
        if dataset is not None:
            raise InputError(f"{path} is one array: omit --dataset {dataset}")
        return _read_chunks(str(path), "Zarr", {"": root}, [""], None, axis)
    return _read_chunks(str(path), "Zarr", root, _zarr_arrays(root), dataset, axis)


def _zarr_arrays(group: Any, prefix: str = "") -> list[str]:
    names = [f"{prefix}{name}" for name in sorted(group.array_keys())]
    for name, inner in sorted(group.groups(), key=lambda item: str(item[0])):
        names += _zarr_arrays(inner, f"{prefix}{name}/")
    return names


def _read_chunks(
    name: str, kind: str, arrays: Any, names: list[str], dataset: str | None, axis: int, close: Any = None
) -> MatrixReader:
    """Choose an array and read it in blocks of whole chunks, if these are not too large."""
    matrices = [key for key in names if len(arrays[key].shape or ()) == 2 and arrays[key].dtype.kind in "biuf"]
    array = arrays[_choose(name, names, dataset, matrices)]
    shape = tuple(map(int, array.shape))
    rows = None
    if array.chunks and len(shape) == 2 and 0 not in shape:
        rows, chunk = block_rows(shape[1 - axis]), int(array.chunks[axis])
        if chunk * shape[1 - axis] * 8 <= _CHUNK_BYTES:
            rows = max(1, -(-rows // chunk)) * chunk
    return MatrixReader(name, kind, shape, array.dtype, axis, array.__getitem__, rows=rows, close=close)


def _choose(name: str, arrays: Sequence[str], dataset: str | None, matrices: Sequence[str] = ()) -> str:
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
