"""Mixtures in MATLAB's .mat files.

Those of version 7.3 are HDF5 and are read in chunks. Older ones are read by SciPy, one array of numbers and nothing else: cells,
structures and objects of the same file are never decoded.
"""

import math
import warnings
from pathlib import Path

import numpy as np

from .arrays import choose_array, open_hdf5
from .checks import InputError
from .reader import MatrixReader

_NUMERIC = {"double", "single", "logical", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))}
_HDF5 = b"\x89HDF\r\n\x1a\n"
_MOST_DEFLATED = 1100  # bytes that one byte of a compressed variable can stand for


def open_mat(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open a matrix of a .mat file, by default the only one."""
    with path.open("rb") as file:
        start = file.read(520)
    if _HDF5 in (start[:8], start[512:]):
        # MATLAB stores columns one after the other: HDF5 knows the matrix as its transpose.
        return open_hdf5(path, 1 - axis, dataset, classes=_NUMERIC)
    from scipy.io import loadmat, whosmat

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about variables that are not read
        known = {name: (shape, kind) for name, shape, kind in whosmat(path)}
        numeric = [name for name, (_, kind) in known.items() if kind in _NUMERIC]
        matrices = [name for name in numeric if len(known[name][0]) == 2 and min(known[name][0]) > 1]
        name = choose_array(str(path), numeric if dataset is None else list(known), dataset, matrices)
        shape, kind = known[name]
        if kind not in _NUMERIC:
            raise InputError(
                f"{path}: {name} is of class {kind}, not a matrix of numbers: there are {', '.join(numeric)}"
            )
        if math.prod(shape) > _MOST_DEFLATED * path.stat().st_size:
            raise InputError(
                f"{path} says that {name} has shape {shape}, which is more than it can hold: is it complete?"
            )
        array = loadmat(path, variable_names=[name])[name]
    if not isinstance(array, np.ndarray) or array.shape != tuple(shape):
        raise InputError(f"{path}: {name} is not the matrix that the file declares: write it again")
    return MatrixReader(
        f"{path}[{name}]", "MATLAB data", array.shape, array.dtype, axis, array.__getitem__, gather=True
    )
