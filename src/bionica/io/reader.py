"""The base of all readers: blocks of samples, one after the other, in bounded memory;
and which columns are mixtures.
"""

import importlib
import logging
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bionica.core.errors import InputError, printable
from bionica.io.files import is_disk_full

Array = NDArray[Any]
# one array for each label column, each as long as the block beside it
Labels = list[Array]

LARGEST = 2**28  # bytes that are decoded at once
_NUMBER_AND_UNIT = re.compile(
    r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d.,+-].*)?"
)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_UNIT = r"\s*([\[(/,].*|[ _]([^\W\d_]{1,4}|cm\^?-1))?"  # "time (s)", "time_min"
#: Names that programs write for the index of the rows.
_INDEX_NAMES = re.compile(r"|unnamed: \d+|__index_level_\d+__", re.IGNORECASE)
#: Names of a column that numbers the rows or says when they were measured.
ROW_NAMES = re.compile(
    r"((\w+\.?["
    rf" _]|r\.)?time|timestamp|datetime|date|elapsed|rt|zeit|uhrzeit|datum|index|row){_UNIT}|t\s*[\[(/].*"
    r"|sample|sample[ _](id|no\.?|number|name)|name|label|probe|id|nr\.?|no\.?",
    re.IGNORECASE,
)
#: Names of columns, if these are the samples.
SAMPLE_NAMES = re.compile(
    r"(sample|probe|specimen|spectrum|spektrum|messung)[ _.-]?\d+", re.IGNORECASE
)
#: Names of a column that holds the wavelength, or another channel of a spectrometer, of
#: each row.
CHANNEL_NAMES = re.compile(
    r"(wave[ _]?(length|number)s?|wellenl(ä|ae)nge|wellenzahl|raman["
    rf" _]shift|m/?z|lambda|λ|nm){_UNIT}"
    r"|cm(\^?-1|⁻¹)|1/cm|channel|kanal",
    re.IGNORECASE,
)


def import_optional(module: str, purpose: str, extra: str = "io") -> Any:
    """Import a package that only some features need; InputError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(
            f"{purpose} needs the package {package}: pip install 'bionica[{extra}]'"
            f" ({error})"
        ) from error


@contextmanager
def explain_errors(name: str) -> Iterator[None]:
    """Turn any exception of a library about a broken file into an InputError of one
    sentence.
    """
    try:
        yield
    except Exception as error:  # libraries raise any exception on broken bytes
        named = isinstance(
            error, InputError | FileNotFoundError | PermissionError | IsADirectoryError
        )
        if named or (isinstance(error, OSError) and is_disk_full(error)):
            raise
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(
            f"{name} cannot be read ({cause}): is it complete, and what its suffix"
            " says?"
        ) from error


@contextmanager
def log_records(
    name: str, level: int, emit: Callable[[logging.LogRecord], None]
) -> Iterator[None]:
    """Hand the records of a logger, from a level on, to a function and to no other
    handler.
    """
    logger = logging.getLogger(name)
    handler = logging.Handler(level)
    handler.emit = emit  # type: ignore[method-assign, assignment]
    before = logger.level, logger.propagate, logger.handlers
    logger.propagate = False
    logger.handlers = [handler]
    logger.setLevel(level)  # and forget which levels were enabled
    try:
        yield
    finally:
        logger.level, logger.propagate, logger.handlers = before
        logger.setLevel(logger.level)


def check_size(name: str, n_bytes: int, remedy: str) -> None:
    """Raise if what a file says must be decoded at once takes too much memory."""
    if n_bytes > LARGEST:
        raise InputError(
            f"{name} takes {n_bytes >> 20:,} MiB at once; at most {LARGEST >> 20} are"
            f" read: {remedy}"
        )


class Columns(NamedTuple):
    """The columns to read and those to leave out, by name or by number from 1:
    "red,blue" or "2-4,7". By default all but labels.

    `missing` says that empty cells and NaN are read as NaN, and not refused. `offset`,
    the dark level of a detector, is subtracted, and values from `saturated` on, as they
    stand in the file, are missing.
    """

    use: str | None = None
    skip: str | None = None
    missing: bool = False
    offset: float = 0.0
    saturated: float = np.inf


def label_columns(
    names: Sequence[str], values: Callable[[int], ArrayLike]
) -> tuple[list[int], list[int]]:
    """Return the columns that are labels of the rows, and those that are named so but
    vary as mixtures do.

    A label has no name, or is a word where the names of most columns are wavelengths,
    or is named as a time, an index or a wavelength (or is a word where the other names
    are numbers) and never turns back: its values only rise, only fall, or are not
    numbers. `values` returns numbers of a column, in their order; NaN where there is
    none.
    """
    if len(names) < 2:
        return [], []
    names = [name.strip() for name in names]
    words = [j for j, name in enumerate(names) if not _NUMBER_AND_UNIT.fullmatch(name)]
    numbers = [name for name in names if _NUMBER_AND_UNIT.fullmatch(name)]
    few = 2 * len(words) < len(names)
    if few and wavelengths_in(numbers)[0] is not None:
        return words, []
    if not few or wavelengths_in(numbers, counts=True)[0] is None:
        patterns = (_INDEX_NAMES, ROW_NAMES, CHANNEL_NAMES)
        words = [
            j for j in words if any(pattern.fullmatch(names[j]) for pattern in patterns)
        ]
    labels = [
        j
        for j in words
        if _INDEX_NAMES.fullmatch(names[j]) or not turns_back(values(j))
    ]
    return labels, [j for j in words if j not in labels]


def integer_columns(X: Array) -> list[int]:
    """Return the columns that hold different integers, as labels do, if most others do
    not.
    """
    integers = (X == np.rint(X)).all(axis=0)
    varying = integers & (np.ptp(X, axis=0) > 0)
    return np.flatnonzero(varying).tolist() if 2 * integers.sum() < X.shape[1] else []


def describe_attributes(attributes: Mapping[str, Any]) -> list[str]:
    """Return a note that names what a file says of its numbers, which are read as they
    are stored.
    """
    names = ("_FillValue", "missing_value", "scale_factor", "add_offset")
    said = ", ".join(
        f"{name} = {printable(str(attributes[name]))}"
        for name in names
        if name in attributes
    )
    return [f"its numbers are read as stored, and it says {said}"] if said else []


def wavelengths_in(
    names: Sequence[str], *, counts: bool = False, any_order: bool = False
) -> tuple[Array | None, str | None]:
    """Return the names of columns as numbers, and the unit in which all end; None if
    they do not rise or fall strictly.

    Those of detectors that overlap do not, and are returned with `any_order`.

    Whole numbers from 0 or 1 on, with gaps or without, are numbers of columns: None,
    unless `counts` allows those without a unit.
    """
    matches = [
        match for name in names if (match := _NUMBER_AND_UNIT.fullmatch(name.strip()))
    ]
    if len(matches) >= max(2, len(names)) and len({match[2] for match in matches}) == 1:
        values = np.array([float(match[1]) for match in matches])
        unit = matches[0][2]
        are_counts = values.min() in (0, 1) and bool((values == np.rint(values)).all())
        if (
            np.isfinite(values).all()
            and (any_order or is_monotonic(values))
            and not (are_counts and (unit or not counts))
        ):
            return values, unit
    return None, None


def turns_back(values: ArrayLike) -> bool:
    """Whether numbers both rise and fall. NaN is ignored."""
    numbers = np.asarray(values, np.float64)
    steps = np.diff(numbers[~np.isnan(numbers)])
    return bool((steps > 0).any() and (steps < 0).any())


def is_monotonic(values: Array) -> bool:
    """Whether numbers rise strictly, or fall strictly."""
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())


class RowSample:
    """At most `limit` rows of a stream of unknown length: one random row of each
    stratum, in their order.

    Strata are as long as the least power of 2 allows. The row with the smallest of the
    `marks` of a stratum is kept, so that how the stream is cut into blocks has no
    effect. At most `2 * limit` rows and a block are in memory.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.n_seen = 0
        self._parts: list[list[Array]] = []  # row numbers, rows, label columns

    def add(self, block: Array, labels: Sequence[Array] = ()) -> None:
        """Add the next rows of the stream."""
        numbers = np.arange(self.n_seen, self.n_seen + len(block))
        self._parts.append([numbers, block, *labels])
        self.n_seen += len(block)
        if sum(len(part[0]) for part in self._parts) > 2 * self.limit:
            self._parts = [self._thinned()]

    def _thinned(self) -> list[Array]:
        """Return the rows with the smallest marks of their strata."""
        from bionica.core.blocks import marks  # which imports SciPy

        columns = [*map(np.concatenate, zip(*self._parts, strict=True))]
        if self.n_seen <= self.limit:
            return columns
        strata = columns[0] >> (-(-self.n_seen // self.limit) - 1).bit_length()
        order = np.lexsort((marks(columns[0]), strata))
        rows = order[np.flatnonzero(np.diff(strata[order], prepend=-1))]
        return [column[rows] for column in columns]

    def sample(self) -> tuple[Array, Labels]:
        """Return the rows kept, and what the label columns hold beside them."""
        columns = self._thinned() if self._parts else [np.empty((0, 0))] * 2
        return columns[1], columns[2:]


def block_rows(n_features: int) -> int:
    """Return the number of samples of a block: 4 MiB of float64, at most 65,536."""
    return max(1, min(2**16, 2**22 // (8 * max(1, n_features))))


class Reader(ExitStack):
    """A stream of mixtures.

    A format has `parts`, which yields them as the file stores them.
    """

    axis: int = 0  # the axis of the file that holds the samples
    n_samples: int | None = None  # known after `sample` and `read` at the latest
    image_shape: tuple[int, ...] | None = None  # if the samples are pixels
    decimal: str = "."  # the decimal point of text
    # height and width of a pixel in micrometres
    pixel_size: tuple[float, float] | None = None
    header: list[str] | None = None  # names of all columns of the file
    # For pipes, these are set after the first block.
    columns: Sequence[int] = ()  # indices of the columns that are mixtures
    # of the mixtures: those of the header, or else the numbers of their columns
    names: Sequence[str] = ()
    # these names as numbers, and the unit in which all end: `wavelengths_in`
    wavelengths: Array | None = None
    unit: str | None = None
    n_features: int = 0
    # indices of the columns that are not mixtures, and are written beside the sources
    labels: Sequence[int] = ()
    label_names: Sequence[str] = ()
    label_types: Sequence[Any] = ()  # in Arrow, if the file says them
    missing: bool = False  # `Columns.missing`
    n_missing: int = 0  # in the blocks that were read

    def __init__(self, name: str) -> None:
        super().__init__()
        # what was left out, and what was taken for a header
        self.name, self.notes = name, list[str]()

    def choose(
        self,
        columns: Columns,
        width: int,
        reasons: Mapping[int, str],
        doubtful: Sequence[int] = (),
    ) -> None:
        """Find the columns that are mixtures.

        `reasons` say why a column is a label unless the user names it, and `doubtful`
        are mixtures by `label_columns`.
        """
        self.missing = columns.missing
        self._offset = columns.offset
        self._saturated = columns.saturated
        if self._saturated < np.inf and not self.missing:
            why = (
                "BatchNICA and MinimumVolumeCone alone estimate them, and only from all"
                " samples at once"
            )
            raise InputError(
                f"saturated={self._saturated:g} makes cells missing: {why}"
            )
        skip = self._numbers("skip=", columns.skip, width) if columns.skip else set()
        use = (
            self._numbers("use=", columns.use, width)
            if columns.use
            else set(range(width)) - set(reasons)
        )
        self.columns, self.labels = sorted(use - skip), sorted(set(reasons) - use)
        if not self.columns:
            raise InputError(
                f"{self.name}: no column is left of {width}: name more with use=, or"
                " fewer with skip="
            )
        header = self.header or [""] * width
        self.n_features = len(self.columns)
        self.names = [header[j] or f"column_{j + 1}" for j in self.columns]
        self.wavelengths, self.unit = wavelengths_in(self.names)
        self.label_names = [header[j] for j in self.labels]
        line = "row" if self.axis else "column"
        named = ", ".join(f"{line} {j + 1} ({reasons[j]})" for j in self.labels)
        if named:
            self.notes.append(
                f"left out, and written beside the sources: {named} (use= reads them as"
                " mixtures)"
            )
        if not columns.use and (
            kept := ", ".join(
                f"{line} {j + 1} ({header[j]})" for j in doubtful if j not in skip
            )
        ):
            why = "named as a label, and read as a mixture because it varies as one"
            self.notes.append(f"{why}: {kept} (skip= omits it)")

    def _numbers(self, option: str, text: str, width: int) -> set[int]:
        """Return the indices of the columns that an option names, of `width` columns."""
        numbers: set[int] = set()
        for item in map(str.strip, text.split(",")):
            match = _RANGE.fullmatch(item)
            first, last = (
                (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            )
            if item and self.header and item in self.header:
                numbers |= {j for j, known in enumerate(self.header) if known == item}
            elif 1 <= first <= last <= width:
                numbers |= set(range(first - 1, last))
            else:
                known = ", ".join([f"1 to {width}", *(self.header or ())[:20]])
                raise InputError(
                    f"{option}{text[:40]!r}: {self.name} has no column {item[:40]!r};"
                    f" it has {known}"
                )
        return numbers

    @property
    def layout(self) -> dict[str, Any]:
        """What `open_writer` takes to write sources as this input is laid out."""
        names = ("image_shape", "pixel_size", "label_names", "label_types", "decimal")
        return {name: getattr(self, name) for name in names}

    def column(self, j: int) -> str:
        """Return how the user knows mixture j: the number of its column, counted from
        1, and its name.
        """
        number = f"column {self.columns[j] + 1}"
        return f"{number} ({self.header[self.columns[j]]})" if self.header else number

    @abstractmethod
    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield mixtures as the file stores them, and what the label columns hold
        beside them.
        """

    def explain(self, n_before: int, i: int, j: int, value: float) -> tuple[str, str]:
        """Return where mixture j of row i of the last part is not finite, after
        `n_before` samples, and what to do about it.
        """
        remedy = (
            "drop such samples first, or leave this mixture out with"
            f" skip='{self.columns[j] + 1}'"
        )
        remedy += "; with missing=True it is estimated" * bool(np.isnan(value))
        return (
            f"{self.name}, sample {n_before + 1}, {self.column(j)} is {value}",
            remedy,
        )

    def is_missing(self, block: Array) -> Array:
        """Which cells of the last part are missing; a format in which NaN may be
        unreadable text says which are not.
        """
        return np.isnan(block)

    def labelled_blocks(self) -> Iterator[tuple[Array, Labels]]:
        """Yield samples, and what the label columns hold beside them: all before the
        first that is not finite, or `missing`.

        Samples are C-ordered, of shape (n, n_features); float32 and float16 are
        float32, the rest is float64.
        """
        parts = self.parts()
        n = 0
        self.n_missing = 0
        while True:
            with explain_errors(self.name):
                block, labels = next(parts, (None, []))
            if block is None:
                break
            dtype = (
                np.float32
                if block.dtype.newbyteorder("=") in (np.float32, np.float16)
                else np.float64
            )
            block = np.asarray(block, dtype=dtype, order="C")
            wrong = ~np.isfinite(block)
            if self.missing and wrong.any():
                missing = self.is_missing(block)
                self.n_missing += int(np.count_nonzero(missing))
                wrong &= ~missing
            i, j = np.argwhere(wrong)[0].tolist() if wrong.any() else (len(block), 0)
            if i:
                self.n_missing += int(np.count_nonzero(block[:i] >= self._saturated))
                yield self.corrected(block[:i]), [label[:i] for label in labels]
            n += i
            if i < len(block):
                where, remedy = self.explain(n, i, j, block[i, j])
                how_many = (
                    f"{wrong.sum()} in {wrong.any(axis=1).sum()} of these {len(block)}"
                    " samples"
                )
                raise InputError(
                    f"{where} (values like it: {how_many}; all are counted from 1):"
                    f" {remedy}"
                )
        if not n:
            raise InputError(
                f"{self.name} holds no sample: give at least one row of numbers"
            )

    def corrected(self, X: Any) -> Any:
        """Samples as they stand in the file, less the dark level, and NaN where the
        detector is saturated.
        """
        X = (
            X
            if self._saturated == np.inf
            else np.where(X >= self._saturated, np.nan, X)
        )
        return X - self._offset if self._offset else X

    def blocks(self) -> Iterator[Array]:
        """Yield the samples of `labelled_blocks`."""
        return (block for block, _ in self.labelled_blocks())

    def sample(self, limit: int) -> tuple[Array, Labels]:
        """Return at most `limit` samples, one of each stratum of the input, and their
        labels, and count all samples.
        """
        chosen = RowSample(limit)
        for block, labels in self.labelled_blocks():
            chosen.add(block, labels)
        self.n_samples = chosen.n_seen
        return chosen.sample()

    def read(self) -> Array:
        """Return all samples."""
        return self.sample(2**62)[0]


class Cube:
    """An array (y, x, band) as a matrix, a row for each pixel; lines of the image are
    read when they are needed.
    """

    def __init__(self, array: Any) -> None:
        self._array, (height, self._width, bands) = array, map(int, array.shape)
        self.shape = (height * self._width, bands)
        self.dtype = array.dtype

    def __getitem__(self, index: Any) -> Array:
        """The pixels of a slice, or of these numbers, which rise."""
        at = (
            np.arange(self.shape[0])[index]
            if isinstance(index, slice)
            else np.asarray(index)
        )
        lines = np.unique(at // self._width)
        if len(lines) == lines[-1] - lines[0] + 1:
            part = np.asarray(self._array[int(lines[0]) : int(lines[-1]) + 1]).reshape(
                -1, self.shape[1]
            )
            return np.asarray(part[at - lines[0] * self._width])
        return np.concatenate(
            [
                self._array[int(y)][at[at // self._width == y] % self._width]
                for y in lines
            ]
        )


class MatrixReader(Reader):
    """A matrix, anything with `shape`, `dtype` and slices. What the file stores
    together, in `chunks`, is fetched together.

    `open_array` is called for every block, so that a file can be mapped for that long.
    `axis` is that of the samples. A cube (y, x, mixtures) is a matrix with a row for
    each pixel. `reasons` are those of `choose`, and `samples` the names of the samples.
    """

    n_samples: int

    def __init__(
        self,
        name: str,
        open_array: Callable[[], Any],
        axis: int,
        columns: Columns,
        header: list[str] | None = None,
        notes: Sequence[str] = (),
        reasons: Mapping[int, str] = {},
        samples: Sequence[str] = (),
    ) -> None:
        super().__init__(name)
        array = open_array()
        if len(array.shape or ()) == 3 and 0 not in array.shape:
            from bionica.core.samples import mixtures_come_first

            if axis or (header is None and mixtures_come_first(array)):
                raise InputError(
                    f"{name} is {array.shape}, and the mixtures of a cube are its last"
                    " axis: save it so"
                )
            (height, width), cube = map(int, array.shape[:2]), open_array
            open_array = lambda: Cube(cube())  # noqa: E731
            self.image_shape, array = (height, width), open_array()
            self.notes.append(
                f"a cube of {height} x {width} pixels; its last axis is that of the"
                " mixtures"
            )
        shape = tuple(map(int, array.shape or ()))
        dtype = np.dtype(array.dtype)
        chunks = getattr(array, "chunks", None)
        if len(shape) != 2 or 0 in shape:
            raise InputError(
                f"{name} has shape {shape}: mixtures are a matrix, samples x mixtures,"
                " and not empty"
            )
        if dtype.kind not in "biuf":
            raise InputError(
                f"{name} holds {dtype}, not real numbers: convert it to float64 first"
            )
        check_size(
            name,
            math.prod(chunks or ()) * dtype.itemsize,
            "write it again in smaller chunks",
        )
        self._open = open_array
        self.axis = axis
        self.header = header
        self.n_samples = shape[axis]
        width = shape[1 - axis]
        self.notes += notes
        self.choose(columns, width, reasons)
        self._samples = np.array(samples, str)
        self.label_names = [*["sample"] * bool(samples), *self.label_names]
        rows = block_rows(width)
        chunk = int(chunks[axis]) if chunks else 1
        self._rows = (
            -(-rows // chunk) * chunk
            if chunk <= max(1, LARGEST // (8 * width))
            else rows
        )

    def fetch(self, index: Any) -> Array:
        """Return the mixtures of a slice of samples, or of these numbers."""
        return self._mixtures(self._all_columns(index))

    def _all_columns(self, index: Any) -> Array:
        return np.array(
            self._open()[index]
            if self.axis == 0
            else np.asarray(self._open()[:, index]).T
        )

    def _mixtures(self, part: Array) -> Array:
        # a copy takes long
        return part if part.shape[1] == self.n_features else part[:, self.columns]

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples in blocks of about 4 MiB, cut from what the file stores
        together.
        """
        rows = block_rows(self.n_features)
        for start in range(0, self.n_samples, self._rows):
            stored = self._all_columns(slice(start, start + self._rows))
            for i in range(0, len(stored), rows):
                part = stored[i : i + rows]
                names = self._samples[start + i : start + i + rows]
                labels = [part[:, j].astype(str) for j in self.labels]
                yield self._mixtures(part), [names, *labels] if len(names) else labels
