"""Mixtures in files of arrays: .npy and .npz of NumPy, .mat of MATLAB, HDF5, Zarr.

A function for each format opens a path with `ReadOptions`, and returns a
`MatrixReader`. `choose_array` chooses one of several arrays.
"""

import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message
from bionica.io import reader as base
from bionica.io.matrix import MatrixReader
from bionica.io.reader import ReadOptions, import_optional

#: Types of real numbers, as MATLAB and Arrow call them.
NUMBER_TYPES = re.compile(
    "double|single|logical|bool|float|halffloat|u?int(8|16|32|64)"
)


def open_npy(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a .npy file, which is mapped anew for each block.

    The pages of a long-lived mapping would count as memory in use.
    """
    # fails if the file is too short
    mapped = partial(np.load, path, mmap_mode="r", allow_pickle=False)
    return MatrixReader(str(path), mapped, options)


def open_npz(path: Path, options: ReadOptions) -> MatrixReader:
    """Open an array of an .npz file, by default the only one, unpacked to memory."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        base.check_archive(arrays.zip)
        # shapes are not known: if there are several arrays, `dataset` is asked for
        chosen, _ = choose_array(path, dict.fromkeys(arrays.files, ()), options)
        name = f"{path}[{chosen}]"
        member = arrays.zip.getinfo(f"{chosen}.npy")
        # a small file may unpack to gigabytes
        if member.compress_type != zipfile.ZIP_STORED:
            remedy = "save it as .npy, or with numpy.savez, which does not pack it"
            base.check_size(name, member.file_size, remedy)
        array = arrays[chosen]
    return MatrixReader(name, lambda: array, options)


def open_mat(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a matrix of a .mat file, by default the only one.

    If nRow and nCol say how large an image is, as in the files on which unmixing is
    compared (Y or V, bands x pixels, beside M and A), the largest matrix with as many
    pixels is that image.
    """
    from scipy.io import loadmat, whosmat

    try:
        stored = whosmat(path)
    except NotImplementedError:
        # MATLAB 7.3 writes HDF5, in which a matrix is known as its transpose
        return open_hdf5(path, replace(options, axis=1 - (options.axis or 0)))
    shapes = {
        key: shape if NUMBER_TYPES.fullmatch(kind) else None
        for key, shape, kind in stored
    }
    sizes = [key for key in ("nRow", "nCol") if shapes.get(key) == (1, 1)]
    image = [int(loadmat(path, variable_names=[key])[key].item()) for key in sizes]
    n_pixels = math.prod(image) if len(image) == 2 and options.axis is None else 0
    scenes = {
        key: math.prod(shape)
        for key, shape in shapes.items()
        if shape and n_pixels and n_pixels in shape[:2]
    }
    if scenes and not options.dataset:
        chosen = max(scenes, key=scenes.__getitem__)
        others = [key for key in shapes if key not in (chosen, "nRow", "nCol")]
        notes = base.describe_choice("array", chosen, others)
    else:
        chosen, notes = choose_array(path, shapes, options)
    if (chosen, "sparse") in [(key, kind) for key, _, kind in stored]:
        raise InputError(f"{path}: {chosen} is a sparse matrix: save it as a full one")
    matrix = loadmat(path, variable_names=[chosen])[chosen]
    if chosen in scenes:
        if len(matrix) != n_pixels:
            matrix = matrix.T
        # MATLAB counts pixels down the columns of the image
        matrix = matrix.reshape(*image, -1, order="F")
    return MatrixReader(str(path), lambda: matrix, options, notes=notes)


def open_hdf5(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one, or the only matrix."""
    h5py = import_optional("h5py", "reading HDF5 (a .mat file of MATLAB 7.3 is one)")
    file = h5py.File(path, "r")
    arrays: dict[str, Any] = {}

    def add(name: str, item: Any) -> None:
        # MATLAB's text and cells have their parts below #refs#
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            arrays[name] = item

    file.visititems(add)
    shapes = _shapes(arrays)
    for name, array in arrays.items():
        if array.attrs.get("MATLAB_class") in (b"char", b"cell"):
            shapes[name] = None
    chosen, notes = choose_array(path, shapes, options)
    array = arrays[chosen]
    if array.external or array.is_virtual:  # these can name any file of this machine
        raise InputError(
            f"{path}: {array.name} has its numbers in other files: copy it into a"
            " dataset of its own"
        )
    notes += base.describe_attributes(array.attrs)
    reader = MatrixReader(str(path), lambda: array, options, notes=notes)
    reader.callback(file.close)
    return reader


def open_zarr(path: Path, options: ReadOptions) -> MatrixReader:
    """Open an array of a Zarr store, by default the only one."""
    zarr = import_optional("zarr", "reading Zarr")
    root = zarr.open(str(path), mode="r")
    is_array = isinstance(root, zarr.Array)
    nodes = [("", root)] if is_array else root.members(max_depth=None)
    arrays = {name: node for name, node in nodes if isinstance(node, zarr.Array)}
    chosen, notes = choose_array(path, _shapes(arrays), options)
    array = arrays[chosen]
    notes += base.describe_attributes(array.attrs)
    return MatrixReader(str(path / chosen), lambda: array, options, notes=notes)


def _shapes(arrays: Mapping[str, Any]) -> dict[str, Sequence[int] | None]:
    """Return the shapes of arrays, or None for those that are not of real numbers."""
    return {
        name: array.shape if array.dtype.kind in "biuf" else None
        for name, array in arrays.items()
    }


def choose_array(
    path: Path, shapes: Mapping[str, Sequence[int] | None], options: ReadOptions
) -> tuple[str, list[str]]:
    """Return the name of the array to read, and a note that names those left out.

    It is that of `options.dataset`, the only one with two axes or more that are longer
    than 1 (to MATLAB vectors are matrices), or the only one of numbers. Otherwise
    InputError asks for `dataset`. The shape of what is not numbers is None.
    """
    numbers = [key for key, shape in shapes.items() if shape is not None]
    numbers = numbers or [*shapes]
    if options.dataset:
        what = f"no array of numbers {options.dataset!r}"
        choices = [key for key in numbers if key == options.dataset.strip("/")]
    else:
        what = f"{len(numbers)} arrays"
        tables = [
            key
            for key in numbers
            if sum(length > 1 for length in shapes[key] or ()) > 1
        ]
        choices = tables if len(tables) == 1 else numbers
    if len(choices) != 1:
        template = "{} has {}: choose one with {dataset:=}, of {}"
        raise InputError(
            Message(template, path, what, ", ".join(numbers[:20]) or "none")
        )
    (chosen,) = choices
    others = [] if options.dataset else [key for key in shapes if key != chosen]
    return chosen, base.describe_choice("array", chosen, others)
