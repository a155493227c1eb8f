"""Mixtures in files of arrays: NumPy's .npy and .npz, HDF5 and Zarr."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np

from .reader import InputError, MatrixReader, block_rows, import_optional

__all__ = ["open_hdf5", "open_npy", "open_npz", "open_zarr"]

_CHUNK_BYTES = 2**26


def open_npy(path: Path, axis: int) -> MatrixReader:
    """Open a .npy file."""
    return _read_npy(str(path), path.open("rb"), axis)


def _read_npy(name: str, file: BinaryIO, axis: int) -> MatrixReader:
    """Read the header of a .npy file and map its numbers. The reader closes the file."""
    try:
        version = np.lib.format.read_magic(file)
        read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in read_header:
            raise InputError(f"{name} has version {version} of the .npy format, for records: save a plain matrix")
        shape, fortran, dtype = read_header[version](file)
        if dtype.hasobject:
            raise InputError(f"{name} holds Python objects, not real numbers: convert it to float64 first")
        offset = file.tell()

        def fetch(index: Any) -> Any:
            # The file is mapped again for every block: the pages of a long-lived mapping would count as memory in use.
            return np.array(np.memmap(file, dtype, "r", offset, shape, "F" if fortran else "C")[index])

        gather = fortran == bool(axis)
        reader = MatrixReader(name, "npy data", shape, dtype, axis, fetch, gather=gather, close=file.close)
        fetch((slice(0, 1), slice(0, 1)))  # fails if the file is too short
        return reader
    except BaseException:
        file.close()
        raise


def open_npz(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of an .npz file, by default the only one. It is unpacked to disk, not to memory."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        name = _choose(str(path), names, dataset)
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
    return _read_npy(f"{path}[{name}]", unpacked, axis)


def open_hdf5(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one."""
    h5py = import_optional("h5py", "reading HDF5")
    file = h5py.File(path, "r")
    try:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        matrices = [name for name in names if _is_matrix(file[name])]
        return _read_chunks(str(path), "HDF5", file[_choose(str(path), names, dataset, matrices)], axis, file.close)
    except BaseException:
        file.close()
        raise


def open_zarr(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open an array of a Zarr store, by default the only one."""
    root = import_optional("zarr", "reading Zarr").open(str(path), mode="r")
    if hasattr(root, "shape"):
        if dataset is not None:
            raise InputError(f"{path} is one array: omit --dataset {dataset}")
        return _read_chunks(str(path), "Zarr", root, axis, None)
    names = _zarr_arrays(root)
    matrices = [name for name in names if _is_matrix(root[name])]
    return _read_chunks(str(path), "Zarr", root[_choose(str(path), names, dataset, matrices)], axis, None)


def _zarr_arrays(group: Any, prefix: str = "") -> list[str]:
    names = [f"{prefix}{name}" for name in sorted(group.array_keys())]
    for name, inner in sorted(group.groups(), key=lambda item: str(item[0])):
        names += _zarr_arrays(inner, f"{prefix}{name}/")
    return names


def _is_matrix(array: Any) -> bool:
    return len(array.shape or ()) == 2 and array.dtype.kind in "biuf"


def _read_chunks(name: str, kind: str, array: Any, axis: int, close: Any) -> MatrixReader:
    """Read blocks of whole chunks, if these are not too large."""
    shape = tuple(map(int, array.shape))
    rows = None
    if array.chunks and len(shape) == 2 and 0 not in shape:
        rows, chunk = block_rows(shape[1 - axis]), int(array.chunks[axis])
        if chunk * shape[1 - axis] * 8 <= _CHUNK_BYTES:
            rows = max(1, -(-rows // chunk)) * chunk
    return MatrixReader(name, kind, shape, array.dtype, axis, array.__getitem__, rows=rows, close=close)


def _choose(name: str, arrays: Sequence[str], dataset: str | None, matrices: Sequence[str] = ()) -> str:
    """Return the array to read: the one that the user names, the only matrix, or the only array.

    Examples
    --------
    >>> _choose("x.h5", ["a", "b"], None)
    Traceback (most recent call last):
    bionica.io.readers.reader.InputError: x.h5 holds several arrays: choose one with --dataset, of a, b
    """
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
