"""The base of all readers: samples in blocks, one after the other, in bounded memory.

- `ReadOptions`: how a file is read.
- `Reader`: a stream of samples. A format has `parts`.
- `RowSample`: rows of a stream of unknown length.
- What formats share: `import_optional`, `explain_errors`, `log_records`, the limits of
  `check_size` and `check_archive`, and notes of what was chosen and what files say.
"""

import importlib
import logging
import re
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message, printable
from bionica.core.files import is_disk_full
from bionica.io.columns import Array, wavelengths_in

# one array for each label column, each as long as the block beside it
Labels = list[Array]
PixelSize = tuple[float, float] | None  # height and width in micrometres

LARGEST = 2**28  # bytes that are decoded at once
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def import_optional(module: str, purpose: str, extra: str = "io") -> Any:
    """Import a package of an extra; InputError says how to install it."""
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
    """Turn any exception of a library about a broken file into an InputError."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # libraries raise any exception on broken bytes
        if is_disk_full(error):
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
    """Hand the records of a logger, from a level on, to a function alone."""
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


def check_archive(archive: zipfile.ZipFile) -> None:
    """Raise if a member of an archive may take more memory than it declares."""
    for part in archive.infolist():
        if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(
                f"{archive.filename}: {part.filename[:60]!r} is not packed by deflate:"
                " save it again"
            )


def describe_choice(kind: str, chosen: str, others: Sequence[str]) -> list[str]:
    """Return a note that names what was read of several, and what was not."""
    more = [f"and {len(others) - 20} more"] if len(others) > 20 else []
    names = ", ".join([*others[:20], *more])
    template = "the {} {} was read, and left out: {} ({dataset:=} reads another)"
    return [Message(template, kind, chosen, names)] if others else []


def describe_attributes(attributes: Mapping[str, Any]) -> list[str]:
    """Return a note of what a file says of its numbers, which are read as stored."""
    names = ("_FillValue", "missing_value", "scale_factor", "add_offset")
    stated = [
        f"{name} = {printable(str(attributes[name]))}"
        for name in names
        if attributes.get(name) is not None
    ]
    note = f"its numbers are read as stored, and it says {', '.join(stated)}"
    return [note] if stated else []


def block_rows(n_features: int) -> int:
    """Return the number of samples of a block: 4 MiB of float64, at most 65,536."""
    return max(1, min(2**16, 2**22 // (8 * max(1, n_features))))


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How `open_reader` reads its inputs.

    Parameters
    ----------
    axis : {0, 1}, optional
        The axis of a matrix or table that holds the samples. By default 0, or 1 if the
        first column of text is named as wavelengths. If this column has no name and may
        hold wavelengths, InputError asks for the axis.
    dataset : str, optional
        The array to read of a file that holds several, or the sheet of a workbook.
    header, decimal, skip_lines, encoding
        Of text and sheets: whether the first line holds names, the decimal point, and
        the number of lines before the table (by default the first lines show them, and
        notes name a comma and lines that were left out); of text its encoding, by
        default UTF-8 or cp1252.
    optical_density : bool
        Turn transmitted light in images into absorbance.
    use, skip : str, optional
        Which columns are mixtures, and which are not, by name or by number from 1:
        "red,blue" or "2-4,7". By default all are but those of `label_columns` and those
        that hold text, which are the `label_names` of the reader.
    offset : float
        The dark level of a detector, which is subtracted.
    saturated : float
        Cells with this value or a larger one, as they stand in the file, are missing.
    missing : bool
        Read empty cells and NaN as NaN, for `BatchNICA` and `MinimumVolumeCone`, which
        estimate them. By default InputError names the first one.

    Examples
    --------
    >>> from bionica.io import ReadOptions
    >>> ReadOptions(axis=1, use="red,blue").skip_lines
    0
    """

    axis: int | None = None
    dataset: str | None = None
    header: bool | None = None
    skip_lines: int = 0
    decimal: str | None = None
    encoding: str | None = None
    optical_density: bool = False
    use: str | None = None
    skip: str | None = None
    offset: float = 0.0
    saturated: float = np.inf
    missing: bool = False


class RowSample:
    """At most `limit` rows of a stream: a random one of each stratum, in their order.

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
            self.sample()

    def sample(self) -> tuple[Array, Labels]:
        """Return the rows kept, and what the label columns hold beside them."""
        from bionica.core.blocks import marks  # which imports SciPy

        if not self._parts:
            return np.empty((0, 0)), []
        columns = [*map(np.concatenate, zip(*self._parts, strict=True))]
        if self.n_seen > self.limit:
            strata = columns[0] >> (-(-self.n_seen // self.limit) - 1).bit_length()
            order = np.lexsort((marks(columns[0]), strata))
            rows = order[np.flatnonzero(np.diff(strata[order], prepend=-1))]
            columns = [column[rows] for column in columns]
        self._parts = [columns]
        return columns[1], columns[2:]


class Reader(ExitStack):
    """A stream of mixtures.

    A format has `parts`, which yields them as the file stores them, and calls `choose`
    when it knows the columns.
    """

    axis: int = 0  # the axis of the file that holds the samples
    n_samples: int | None = None  # known after `sample` and `read` at the latest
    image_shape: tuple[int, ...] | None = None  # if the samples are pixels
    pixel_size: PixelSize = None
    decimal: str = "."  # the decimal point of text
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
    n_missing: int = 0  # in the blocks that were read

    def __init__(self, name: str, options: ReadOptions) -> None:
        super().__init__()
        self.name = name
        self.options = options
        # what was left out, and what was taken for a header
        self.notes: list[str] = []

    def note(self, template: str, *values: object) -> None:
        """Add what the user should know, once."""
        note = Message(template, *values)
        if note not in self.notes:
            self.notes.append(note)

    # --- columns

    def choose(
        self, width: int, reasons: Mapping[int, str], doubtful: Sequence[int] = ()
    ) -> None:
        """Find the columns that are mixtures, of `width` columns.

        `reasons` say why a column is a label unless the user names it, and `doubtful`
        are mixtures by `label_columns`.
        """
        options = self.options
        if options.saturated < np.inf and not options.missing:
            template = (
                "{saturated:={:g}} makes cells missing: BatchNICA and "
                "MinimumVolumeCone alone estimate them, and only from all samples at "
                "once"
            )
            raise InputError(Message(template, options.saturated))
        skip = self._numbers("skip", options.skip, width)
        if options.use:
            use = self._numbers("use", options.use, width)
        else:
            use = {*range(width)} - {*reasons}
        self.columns = sorted(use - skip)
        self.labels = sorted({*reasons} - use)
        if not self.columns:
            template = (
                "{}: no column is left of {}: name more with {use:=}, or fewer with "
                "{skip:=}"
            )
            raise InputError(Message(template, self.name, width))
        header = self.header or [""] * width
        self.n_features = len(self.columns)
        self.names = [header[j] or f"column_{j + 1}" for j in self.columns]
        self.wavelengths, self.unit = wavelengths_in(self.names)
        self.label_names = [header[j] for j in self.labels]
        self._note_columns(
            "left out, and written beside the sources: {} ({use:=} reads them as"
            " mixtures)",
            {j: reasons[j] for j in self.labels},
        )
        if not options.use:
            self._note_columns(
                "named as a label, and read as a mixture because it varies as one: {}"
                " ({skip:=} omits it)",
                {j: header[j] for j in doubtful if j not in skip},
            )

    def _note_columns(self, template: str, columns: Mapping[int, str]) -> None:
        """Add a note that lists columns, if there are any, and a word about each."""
        line = "row" if self.axis else "column"
        listed = [f"{line} {j + 1} ({word})" for j, word in columns.items()]
        if listed:
            self.note(template, ", ".join(listed))

    def note_unlike(self, mixtures: Sequence[int]) -> None:
        """Add a note that names mixtures which may be labels, if there are any."""
        if mixtures:
            self.note(
                "unlike the others, and read as a mixture: {} ({skip:=} omits it)",
                ", ".join(map(self.column, mixtures)),
            )

    def _numbers(self, option: str, text: str | None, width: int) -> set[int]:
        """Return the indices of the columns that an option names."""
        numbers = set[int]()
        header = self.header or []
        for item in map(str.strip, text.split(",")) if text else ():
            named = {j for j, name in enumerate(header) if name == item != ""}
            match = _RANGE.fullmatch(item)
            if match and not named:
                named = {*range(int(match[1]) - 1, int(match[2] or match[1]))}
            numbers |= named
            if not named or max(named) >= width or min(named) < 0:
                known = ", ".join([f"1 to {width}", *header[:20]])
                template = (
                    f"{{{option}:={{!r}}}}: {{}} has no column {{!r}}; it has {{}}"
                )
                values = (str(text)[:40], self.name, item[:40], known)
                raise InputError(Message(template, *values))
        return numbers

    def column(self, j: int) -> str:
        """Return how the user knows mixture j: its column, counted from 1, and name."""
        column = self.columns[j]
        number = f"column {column + 1}"
        return f"{number} ({self.header[column]})" if self.header else number

    @property
    def layout(self) -> dict[str, Any]:
        """What `open_writer` takes to write sources as this input is laid out."""
        names = ("image_shape", "pixel_size", "label_names", "label_types", "decimal")
        return {name: getattr(self, name) for name in names}

    # --- samples

    @abstractmethod
    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield mixtures as the file stores them, and the labels beside them."""

    def explain(self, n_before: int, i: int, j: int, value: float) -> tuple[str, str]:
        """Return where mixture j of row i of the last part is, and what to do about it.

        It is not finite. `n_before` samples came before this part.
        """
        template = (
            "drop such samples first, or leave this mixture out with {skip:='{}'}"
        )
        if np.isnan(value):
            template += "; {estimate:with missing=True it is estimated}"
        remedy = Message(template, self.columns[j] + 1)
        where = f"{self.name}, sample {n_before + 1}, {self.column(j)} is {value}"
        return where, remedy

    def is_missing(self, block: Array) -> Array:
        """Which cells of the last part are missing.

        A format in which NaN may be unreadable text says which are not.
        """
        return np.isnan(block)

    def labelled_blocks(self) -> Iterator[tuple[Array, Labels]]:
        """Yield samples, and what the label columns hold beside them.

        InputError after the samples before the first that is not finite, or missing.
        Samples are C-ordered, of shape (n, n_features); float32 and float16 are
        float32, the rest is float64.
        """
        n = 0
        self.n_missing = 0
        with explain_errors(self.name):
            for part, labels in self.parts():
                is_single = part.dtype.kind == "f" and part.itemsize <= 4
                dtype = np.float32 if is_single else np.float64
                block: Array = np.asarray(part, dtype=dtype, order="C")
                wrong = ~np.isfinite(block)
                if self.options.missing and wrong.any():
                    missing = self.is_missing(block)
                    self.n_missing += int(missing.sum())
                    wrong &= ~missing
                rows = wrong.any(axis=1)
                end = int(rows.argmax()) if rows.any() else len(block)
                if end:
                    good = block[:end]
                    self.n_missing += int((good >= self.options.saturated).sum())
                    yield self.corrected(good), [label[:end] for label in labels]
                n += end
                if end < len(block):
                    j = int(wrong[end].argmax())
                    where, remedy = self.explain(n, end, j, block[end, j])
                    raise InputError(
                        Message(
                            "{} (values like it: {} in {} of these {} samples; all are"
                            " counted from 1): {}",
                            where,
                            wrong.sum(),
                            rows.sum(),
                            len(block),
                            remedy,
                        )
                    )
        if not n:
            raise InputError(
                f"{self.name} holds no sample: give at least one row of numbers"
            )

    def corrected(self, X: Any) -> Any:
        """Samples of the file, less the dark level, and NaN where saturated."""
        if self.options.saturated < np.inf:
            X = np.where(X >= self.options.saturated, np.nan, X)
        return X - self.options.offset if self.options.offset else X

    def blocks(self) -> Iterator[Array]:
        """Yield the samples of `labelled_blocks`."""
        return (block for block, _ in self.labelled_blocks())

    def sample_and_blocks(
        self, limit: int
    ) -> tuple[Array, Labels, Iterable[tuple[Array, Labels]]]:
        """Return what `sample` does, and the `labelled_blocks`.

        The file is read again for the blocks if it has more than `limit` samples.
        """
        chosen = RowSample(limit)
        for block, labels in self.labelled_blocks():
            chosen.add(block, labels)
        self.n_samples = chosen.n_seen
        X, labels = chosen.sample()
        if len(X) < self.n_samples:
            return X, labels, self.labelled_blocks()
        n = block_rows(self.n_features)
        cuts = [slice(i, i + n) for i in range(0, len(X), n)]
        return X, labels, [(X[i], [column[i] for column in labels]) for i in cuts]

    def sample(self, limit: int) -> tuple[Array, Labels]:
        """Return at most `limit` samples and their labels, and count all samples.

        They are one of each stratum of the input.
        """
        return self.sample_and_blocks(limit)[:2]

    def read(self) -> Array:
        """Return all samples."""
        return self.sample(2**62)[0]
