"""Matrices and cubes, in memory and in files of arrays.

- `Measurement`: numbers and names, of an instrument's file that is read at once.
- `MatrixReader`: a reader of any matrix or cube, in memory or in a file.
- `open_npy`, `open_npz`, `open_mat`, `open_hdf5`, `open_zarr`: arrays of NumPy, MATLAB,
  HDF5 and Zarr; `choose_array` chooses one of several.
"""

import math
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bionica.core.errors import InputError, Message
from bionica.io import reader as base
from bionica.io.columns import Array
from bionica.io.reader import (
    Labels,
    Reader,
    ReadOptions,
    check_archive,
    check_size,
    describe_attributes,
    describe_choice,
    import_optional,
)

#: Types of real numbers, as MATLAB and Arrow call them.
NUMBER_TYPES = re.compile(
    "double|single|logical|bool|float|halffloat|u?int(8|16|32|64)"
)


class Measurement(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    matrix : array of shape (n_samples, n_channels), or (y, x, n_channels) for images
        The numbers.
    axis : sequence of float or str
        The position of each channel (wavelength, wavenumber), or its name.
    labels : sequence of str
        A name for each sample; may be empty.
    unit : str or None
        Of the axis.
    reasons : dict of int to str
        Channels that are not mixtures, and why: they are written beside the sources.
    notes : sequence of str
        What the user should know.
    """

    matrix: Any
    axis: Sequence[float | str] | Array
    labels: Sequence[str] = ()
    unit: str | None = None
    reasons: Mapping[int, str] = {}
    notes: Sequence[str] = ()


class Cube:
    """An array (y, x, band) as a matrix, a row for each pixel.

    Lines of the image are read when they are needed.
    """

    def __init__(self, array: Any) -> None:
        height, width, bands = map(int, array.shape)
        self._array = array
        self._width = width
        self.shape = (height * width, bands)
        self.dtype = array.dtype

    def __getitem__(self, index: Any) -> Array:
        """The pixels of a slice, or of these numbers, which rise."""
        pixels = np.arange(self.shape[0])[index]
        y, x = np.divmod(pixels, self._width)
        if isinstance(index, slice):
            return np.asarray(self._array[y[0] : y[-1] + 1])[y - y[0], x]
        return np.concatenate([self._array[i][x[y == i]] for i in np.unique(y)])


class MatrixReader(Reader):
    """A matrix, anything with `shape`, `dtype` and slices.

    What the file stores together, in `chunks`, is fetched together. A cube (y, x,
    mixtures) is a matrix with a row for each pixel.

    Parameters
    ----------
    name : str
        What errors call it.
    open_array : callable
        Returns the array. It is called for every block, so that a file can be mapped
        for that long.
    options : ReadOptions
        `axis` is that of the samples, by default 0.
    header : list of str, optional
        The names of the columns.
    notes, reasons, samples
        What the user should know; which columns are not mixtures, and why
        (`Reader.choose`); and the names of the samples.
    """

    n_samples: int

    def __init__(
        self,
        name: str,
        open_array: Callable[[], Any],
        options: ReadOptions,
        header: list[str] | None = None,
        notes: Sequence[str] = (),
        reasons: Mapping[int, str] = {},
        samples: Sequence[str] = (),
    ) -> None:
        super().__init__(name, options)
        self.axis = options.axis or 0
        self.header = header
        self._open = open_array
        array = open_array()
        if len(array.shape or ()) == 3 and 0 not in array.shape:
            array = self._flatten(array)
        self._check(array)
        width = int(array.shape[1 - self.axis])
        self.n_samples = int(array.shape[self.axis])
        self.notes += notes
        self.choose(width, reasons)
        # a copy takes long
        self._mixtures = slice(None) if self.n_features == width else self.columns
        self._samples = np.array(samples, str)
        if len(samples):
            self.label_names = ["sample", *self.label_names]
        self._rows = base.block_rows(width)
        chunks = getattr(array, "chunks", None)
        if chunks and chunks[self.axis] <= max(1, base.LARGEST // (8 * width)):
            chunk = int(chunks[self.axis])
            self._rows = -(-self._rows // chunk) * chunk

    def _flatten(self, array: Any) -> Cube:
        """Read a cube as a matrix of its pixels."""
        from bionica.core.samples import mixtures_come_first  # which imports SciPy

        if self.axis or (self.header is None and mixtures_come_first(array)):
            raise InputError(
                f"{self.name} is {array.shape}, and the mixtures of a cube are its last"
                " axis: save it so"
            )
        height, width = map(int, array.shape[:2])
        self.image_shape = (height, width)
        self.notes.append(
            f"a cube of {height} x {width} pixels; its last axis is that of the"
            " mixtures"
        )
        open_cube = self._open
        self._open = lambda: Cube(open_cube())
        return self._open()

    def _check(self, array: Any) -> None:
        """Raise unless an array is a matrix of real numbers, in chunks that fit."""
        shape = tuple(map(int, array.shape or ()))
        if len(shape) != 2 or 0 in shape:
            raise InputError(
                f"{self.name} has shape {shape}: mixtures are a matrix, samples x"
                " mixtures, and not empty"
            )
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "biuf":
            raise InputError(
                f"{self.name} holds {dtype}, not real numbers: convert it to float64"
                " first"
            )
        n_bytes = math.prod(getattr(array, "chunks", None) or ()) * dtype.itemsize
        check_size(self.name, n_bytes, "write it again in smaller chunks")

    def fetch(self, index: Any) -> Array:
        """Return the mixtures of a slice of samples, or of these numbers."""
        return self._all_columns(index)[:, self._mixtures]

    def _all_columns(self, index: Any) -> Array:
        array = self._open()
        rows = np.asarray(array[:, index]).T if self.axis else array[index]
        return np.array(rows)

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield samples in blocks of about 4 MiB, cut from what is stored together."""
        rows = base.block_rows(self.n_features)
        for start in range(0, self.n_samples, self._rows):
            stored = self._all_columns(slice(start, start + self._rows))
            for i in range(0, len(stored), rows):
                part = stored[i : i + rows]
                labels = [part[:, j].astype(str) for j in self.labels]
                if len(self._samples):
                    first = start + i
                    labels.insert(0, self._samples[first : first + rows])
                yield part[:, self._mixtures], labels


# --- files of arrays


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
        check_archive(arrays.zip)
        # shapes are not known: if there are several arrays, `dataset` is asked for
        chosen, _ = choose_array(path, dict.fromkeys(arrays.files, ()), options)
        name = f"{path}[{chosen}]"
        member = arrays.zip.getinfo(f"{chosen}.npy")
        # a small file may unpack to gigabytes
        if member.compress_type != zipfile.ZIP_STORED:
            remedy = "save it as .npy, or with numpy.savez, which does not pack it"
            check_size(name, member.file_size, remedy)
        array = arrays[chosen]
    return MatrixReader(name, lambda: array, options)


def open_mat(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a matrix of a .mat file, by default the only one."""
    from scipy.io import loadmat, whosmat

    try:
        kinds = {key: (shape, kind) for key, shape, kind in whosmat(path)}
    except NotImplementedError:
        # MATLAB 7.3 writes HDF5, in which a matrix is known as its transpose
        return open_hdf5(path, replace(options, axis=1 - (options.axis or 0)))
    shapes = {
        key: shape if NUMBER_TYPES.fullmatch(kind) else None
        for key, (shape, kind) in kinds.items()
    }
    chosen, notes = choose_array(path, shapes, options)
    if kinds[chosen][1] == "sparse":
        raise InputError(f"{path}: {chosen} is a sparse matrix: save it as a full one")
    matrix = loadmat(path, variable_names=[chosen])[chosen]
    return MatrixReader(str(path), lambda: matrix, options, notes=notes)


def open_hdf5(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one, or the only matrix."""
    h5py = import_optional("h5py", "reading HDF5 (a .mat file of MATLAB 7.3 is one)")
    file = h5py.File(path, "r")
    items = []
    file.visititems(lambda *item: items.append(item))
    # MATLAB's text and cells have their parts below #refs#
    arrays = {
        name: item
        for name, item in items
        if isinstance(item, h5py.Dataset) and not name.startswith("#")
    }
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
    notes += describe_attributes(array.attrs)
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
    notes += describe_attributes(array.attrs)
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
    return chosen, describe_choice("array", chosen, others)
