"""Mixtures in files of arrays: NumPy's .npy and .npz, HDF5, MATLAB's .mat, Zarr and
Parquet.
"""

import math
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message, printable
from bionica.io import reader as base
from bionica.io.reader import (
    Array,
    Labels,
    MatrixReader,
    Reader,
    ReadOptions,
    import_optional,
)
from bionica.io.text import check_archive, describe_choice

#: Types of real numbers, as MATLAB and Arrow call them.
_NUMBER = re.compile("double|single|logical|bool|float|halffloat|u?int(8|16|32|64)")


def open_npy(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a .npy file. The pages of a long-lived mapping would count as memory in use."""
    # fails if the file is too short
    mapped = partial(np.load, path, mmap_mode="r", allow_pickle=False)
    return MatrixReader(str(path), mapped, options.axis or 0, options)


def open_npz(path: Path, options: ReadOptions) -> MatrixReader:
    """Open an array of an .npz file, by default the only one. It is unpacked to memory."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        check_archive(arrays.zip)
        # several are asked about
        chosen, _ = choose_array(
            str(path), dict.fromkeys(arrays.files, ()), options.dataset
        )
        name = f"{path}[{chosen}]"
        member = arrays.zip.getinfo(f"{chosen}.npy")
        # a small file may unpack to gigabytes
        if member.compress_type != zipfile.ZIP_STORED:
            base.check_size(
                name,
                member.file_size,
                "save it as .npy, or with numpy.savez, which does not pack it",
            )
        array = arrays[chosen]
    return MatrixReader(name, lambda: array, options.axis or 0, options)


def open_mat(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a matrix of a .mat file, by default the only one.

    If nRow and nCol say how large an image is, as in the files on which unmixing is
    compared (Y or V, bands x pixels, beside M and A), the largest matrix with as many
    pixels is that image.
    """
    from scipy.io import loadmat, whosmat

    try:
        stored = whosmat(path)
    except (
        NotImplementedError
    ):  # MATLAB 7.3: HDF5, in which a matrix is known as its transpose
        return open_hdf5(path, replace(options, axis=1 - (options.axis or 0)))
    shapes = {
        key: shape if _NUMBER.fullmatch(kind) else None for key, shape, kind in stored
    }
    said = [key for key in ("nRow", "nCol") if shapes.get(key) == (1, 1)]
    image = [int(loadmat(path, variable_names=[key])[key].item()) for key in said]
    pixels = math.prod(image) if len(image) == 2 and options.axis is None else 0
    scenes = {
        key: math.prod(shape)
        for key, shape in shapes.items()
        if shape and pixels and pixels in shape[:2]
    }
    if scenes and not options.dataset:
        chosen = max(scenes, key=scenes.__getitem__)
        notes = describe_choice(
            "array",
            chosen,
            [key for key in shapes if key not in (chosen, "nRow", "nCol")],
        )
    else:
        chosen, notes = choose_array(str(path), shapes, options.dataset)
    if any((key, kind) == (chosen, "sparse") for key, _, kind in stored):
        raise InputError(f"{path}: {chosen} is a sparse matrix: save it as a full one")
    matrix = loadmat(path, variable_names=[chosen])[chosen]
    if chosen in scenes:  # MATLAB counts pixels down the columns of the image
        matrix = (matrix if len(matrix) == pixels else matrix.T).reshape(
            *image, -1, order="F"
        )
    return MatrixReader(
        str(path), lambda: matrix, options.axis or 0, options, notes=notes
    )


def open_hdf5(path: Path, options: ReadOptions) -> MatrixReader:
    """Open a dataset of an HDF5 file, by default the only one, or the only matrix."""
    h5py = import_optional("h5py", "reading HDF5 (a .mat file of MATLAB 7.3 is one)")
    file = h5py.File(path, "r")
    arrays: dict[str, Any] = {}
    file.visititems(
        lambda name, item: arrays.update(
            {name: item} if isinstance(item, h5py.Dataset) else {}
        )
    )
    shapes = _shapes(
        {name: array for name, array in arrays.items() if not name.startswith("#")}
    )
    for name in shapes:  # MATLAB's text and cells, whose parts are below #refs#
        if arrays[name].attrs.get("MATLAB_class") in (b"char", b"cell"):
            shapes[name] = None
    chosen, notes = choose_array(str(path), shapes, options.dataset)
    array = arrays[chosen]
    if array.external or array.is_virtual:  # these can name any file of this machine
        raise InputError(
            f"{path}: {array.name} has its numbers in other files: copy it into a"
            " dataset of its own"
        )
    notes += base.describe_attributes(array.attrs)
    reader = MatrixReader(
        str(path), lambda: array, options.axis or 0, options, notes=notes
    )
    reader.callback(file.close)
    return reader


def open_zarr(path: Path, options: ReadOptions) -> MatrixReader:
    """Open an array of a Zarr store, by default the only one."""
    zarr = import_optional("zarr", "reading Zarr")
    root = zarr.open(str(path), mode="r")
    nodes = (
        [("", root)] if isinstance(root, zarr.Array) else root.members(max_depth=None)
    )
    arrays = {name: node for name, node in nodes if isinstance(node, zarr.Array)}
    chosen, notes = choose_array(str(path), _shapes(arrays), options.dataset)
    notes += base.describe_attributes(arrays[chosen].attrs)
    name = str(path / chosen)
    axis = options.axis or 0
    return MatrixReader(name, lambda: arrays[chosen], axis, options, notes=notes)


def _shapes(arrays: Mapping[str, Any]) -> dict[str, Sequence[int] | None]:
    return {
        name: array.shape if array.dtype.kind in "biuf" else None
        for name, array in arrays.items()
    }


def choose_array(
    name: str, shapes: Mapping[str, Sequence[int] | None], dataset: str | None
) -> tuple[str, list[str]]:
    """Return the array to read, by the shapes (None: not of numbers), and a note that
    names those left out.

    It is that of `dataset`, the only one with two axes or more that are longer than 1
    (to MATLAB vectors are matrices), or the only one of numbers. Otherwise InputError
    asks for `dataset`.
    """
    numbers = {
        key: shape for key, shape in shapes.items() if shape is not None
    } or shapes
    tables = [
        key
        for key, shape in numbers.items()
        if sum(length > 1 for length in shape or ()) > 1
    ]
    choices = (
        [key for key in numbers if key == dataset.strip("/")] if dataset else tables
    )
    if len(choices) != 1 and (dataset or len(numbers) != 1):
        what = (
            f"no array of numbers {dataset!r}" if dataset else f"{len(numbers)} arrays"
        )
        known = [*numbers][:20]
        template = "{} has {}: choose one with {dataset:=}, of {}"
        raise InputError(Message(template, name, what, ", ".join(known) or "none"))
    chosen = (choices or [*numbers])[0]
    return chosen, (
        []
        if dataset
        else describe_choice("array", chosen, [key for key in shapes if key != chosen])
    )


class ParquetReader(Reader):
    """A Parquet file, each column a mixture."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        file = import_optional("pyarrow.parquet", "reading Parquet").ParquetFile(path)
        super().__init__(str(path))
        self.callback(file.close)
        if options.axis:
            template = "{axis:=1}: every column of {} is a mixture"
            raise InputError(Message(template, path))
        self._file, self.n_samples, schema = (
            file,
            int(file.metadata.num_rows),
            file.schema_arrow,
        )
        self.header = [printable(name) for name in schema.names]
        # where pandas stored its row labels
        index = (schema.pandas_metadata or {}).get("index_columns", [])
        reasons = {
            j: str(field.type)
            for j, field in enumerate(schema)
            if not _NUMBER.fullmatch(str(field.type))
        }
        indices = [
            j
            for j, name in enumerate(schema.names)
            if name in index and len(schema) > 1
        ]

        def values(j: int) -> Array:
            first = (
                None
                if j in reasons
                else next(file.iter_batches(columns=[schema.names[j]]), None)
            )
            return (
                np.empty(0)
                if first is None
                else first.column(0).to_numpy(zero_copy_only=False).astype(float)
            )

        labels, doubtful = base.label_columns(schema.names, values)
        for j in (*indices, *labels):
            reasons.setdefault(j, self.header[j] or "no name")
        self.choose(
            options, len(schema), reasons, [j for j in doubtful if j not in reasons]
        )
        self.label_types = [schema.field(j).type for j in self.labels]
        for field in map(schema.field, self.columns):
            if not _NUMBER.fullmatch(str(field.type)):
                template = "{}, column {!r} holds {}, not numbers: omit it from {use:=}"
                raise InputError(Message(template, path, field.name, field.type))
        first, _ = next(self.parts(), (np.empty((0, 2)), []))
        if len(first) and (
            integers := [self.column(j) for j in base.integer_columns(first)]
        ):
            self.notes.append(Message(base.UNLIKE, ", ".join(integers)))

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples."""
        for batch in self._file.iter_batches(base.block_rows(self.n_features)):
            block = np.stack(
                [batch.column(j).to_numpy(zero_copy_only=False) for j in self.columns],
                axis=1,
            )
            yield block, [_label(batch.column(j)) for j in self.labels]


def _label(column: Any) -> Array:
    """Return labels, of which some may be missing; times as NumPy's, because Python's
    have no nanoseconds.
    """
    if str(column.type).startswith(("timestamp", "duration")):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    return np.fromiter(column.to_pylist(), object)
