"""What a function that opens a format returns.

- `Measurement`: numbers and names, of an instrument's file that is read at once.
- `MatrixReader`: a reader of any matrix or cube, in memory or in a file.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bionica.core.errors import InputError
from bionica.io import reader as base
from bionica.io.columns import Array
from bionica.io.reader import Labels, Reader, ReadOptions


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
        pixels = np.arange(self.shape[0])[index] if isinstance(index, slice) else index
        y, x = np.divmod(pixels, self._width)
        lines = np.unique(y)
        first, last = int(lines[0]), int(lines[-1])
        if len(lines) == last - first + 1:
            part: Array = np.asarray(self._array[first : last + 1])[y - first, x]
            return part
        return np.concatenate([self._array[int(line)][x[y == line]] for line in lines])


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
        base.check_size(self.name, n_bytes, "write it again in smaller chunks")

    def fetch(self, index: Any) -> Array:
        """Return the mixtures of a slice of samples, or of these numbers."""
        return self._mixtures(self._all_columns(index))

    def _all_columns(self, index: Any) -> Array:
        array = self._open()
        rows = np.asarray(array[:, index]).T if self.axis else array[index]
        return np.array(rows)

    def _mixtures(self, part: Array) -> Array:
        # a copy takes long
        return part if part.shape[1] == self.n_features else part[:, self.columns]

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
                yield self._mixtures(part), labels
