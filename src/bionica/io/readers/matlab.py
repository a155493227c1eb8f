"""Mixtures in MATLAB's .mat files: those of version 5 to 7 (`mat_file`), and of version 7.3, which are HDF5."""

from pathlib import Path

from .arrays import choose_array, open_hdf5
from .checks import InputError
from .mat_file import NUMERIC, list_variables, open_variable
from .reader import MatrixReader

_HDF5 = b"\x89HDF\r\n\x1a\n"


def open_mat(path: Path, axis: int, dataset: str | None) -> MatrixReader:
    """Open a matrix of a .mat file, by default the only one."""
    with path.open("rb") as file:
        start = file.read(520)
    if _HDF5 in (start[:8], start[512:]):
        # MATLAB stores columns one after the other: HDF5 knows the matrix as its transpose.
        return open_hdf5(path, 1 - axis, dataset, classes=NUMERIC)
    if 0 in start[:4]:
        raise InputError(f"{path} is not a .mat file, or one of MATLAB 4: save it with save(..., '-v7')")
    known = {variable.name: variable for variable in list_variables(path)}
    numeric = [name for name, variable in known.items() if variable.kind in NUMERIC]
    # To MATLAB scalars and vectors are matrices too.
    matrices = [name for name in numeric if len(known[name].shape) == 2 and min(known[name].shape) > 1]
    variable = known[choose_array(str(path), numeric if dataset is None else list(known), dataset, matrices)]
    if variable.kind not in NUMERIC:
        there = ", ".join(numeric[:20]) or "none"
        raise InputError(f"{path}: {variable.name} is of class {variable.kind}; matrices of numbers are: {there}")
    return open_variable(path, variable, axis)
