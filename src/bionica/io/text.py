"""Mixtures in text: separated values in files, from pipes, and in sheets of a workbook.

The first lines (20 of a file, 2 of a pipe) show separator, header and columns:

- The separator is the first of tab ; , | and spaces by which all of them have the same number of cells.
- A first line of words is a header. A first line of numbers is one if they rise or fall strictly and are an axis of the columns
  (wavelengths, masses): 5 or more in equal steps, where no other line has equal steps; or 6 or more, all at least 10 times as
  large as those of the other lines or at most a tenth of them; or 0, 1, 2, ... as pandas writes it. If such a line may be an axis
  or a sample, the reader does not guess: InputError names --header and --no-header.
- A column is no mixture if it has no name, holds text, or is named as a time, an index or a wavelength (`reader.is_label_name`).
  A column of `<0.1` or `$10` is no text but an error, which names line and column.

All other lines must have a finite number in each mixture. NumPy parses them; if it cannot, they are parsed one by one, so that an
error names line and column, after the samples before it have been handed out.
"""

import codecs
import csv
import io
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from . import reader as base
from .reader import Array, Columns, InputError, Labels, MatrixReader, Reader, is_monotonic, printable, wavelengths_in

OpenInput = Callable[[], AbstractContextManager[Any]]  # of an object whose read(n) returns b"" at the end

TEXT = (".csv", ".tsv", ".txt", ".dat")
_CHUNK = 2**20
_LONGEST_LINE = 2**26  # characters
_MOST_COLUMNS = 2**21  # a line of more takes gigabytes of memory to parse
_LARGEST_TABLE = 2**30  # bytes of a table that is transposed in memory
_HEAD = 20  # lines of a file that show its layout
_SEPARATORS = ("\t", ";", ",", "|", None)  # None: spaces
_EVEN, _UNEVEN, _COUNTED = 5, 6, 3  # numbers at least of an axis in equal steps, in others, and of 0, 1, 2, ...
_APART = 10.0
_MISSING = ("", "na", "n/a", "#n/a", "nan", "null", "none", "-", "?")
_SEPARATOR_LINE = re.compile(r'"?sep=([\t;,|])"?\s*', re.IGNORECASE)  # a first line that Excel obeys
_INTEGER = re.compile(r"[-+]?\d+")
_MARKS = re.compile(r"^[^\w.+-]+|[^\w.]+$")
_DAMAGED_NUMBER = re.compile(r"[-+−]?[\d.,'\s]*\d[\d.,'\s]*([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?|\d+[\s|]+[-+]?\d+")  # the latter of 1,5 2,5 cut at its commas


def cells_of(line: str, separator: str | None) -> list[str]:
    """Return the values of a line, none if it has a stray quote."""
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator, _MOST_COLUMNS)]
    try:
        line = line if separator else " ".join(line.split())
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator or " ", strict=True))]
    except csv.Error:
        return []


def is_axis(
    first: Sequence[float | None], others: Sequence[Sequence[float | None]], *,
    integers: bool = False, alone: bool = False, streamed: bool = False,
) -> bool | None:  # fmt: skip
    """Whether the numbers of a first line (or column) are the axis of the columns, by the rule of this module.

    None if they may be an axis or a sample. `integers` says that the numbers of the first line are written without a point,
    `alone` that others are written with one, and `streamed` that more lines will follow: that two samples of a stream differ in
    scale is no reason to ask.

    Examples
    --------
    >>> is_axis([400.0, 401.0, 402.0, 403.0, 404.0], [[0.2, 0.3, 0.5, 0.3, 0.1]])
    True
    >>> is_axis([400.0, 500.0], [[0.2, 0.3], [0.4, 0.4]], integers=True, alone=True) is None
    True
    >>> is_axis([0.1, 0.5], [[0.2, 0.3], [0.4, 0.4]])
    False
    """
    lines = [row for row in others if len(row) == len(first) and None not in row]
    if None in first or not lines:
        return False
    a, rest, k = np.array(first, float), np.array(lines, float), len(first)
    if not np.isfinite(a).all() or not is_monotonic(a):
        return False
    smallest, largest = np.abs(rest).min(axis=1), np.abs(rest).max(axis=1)
    apart = bool(((np.abs(a).min() > _APART * largest) | (_APART * np.abs(a).max() < smallest)).all())
    counts, monotonic = integers and bool((a == np.arange(k)).all()), any(map(is_monotonic, rest))
    even = k >= _EVEN and _is_even(a) and not any(map(_is_even, rest))
    if even or (k >= _UNEVEN and apart and not monotonic) or (k >= _COUNTED and counts):
        return True
    steps = np.diff(a)
    even = k >= _COUNTED and bool(np.allclose(steps, steps[0], rtol=1e-3, atol=0)) and not any(map(_is_even, rest))
    unlike = (apart or even) and (len(rest) > 1 or not streamed)
    return None if counts or (integers and alone) or unlike or (k >= _UNEVEN and not monotonic) else False


def _is_even(values: Array) -> bool:
    """Whether numbers rise or fall in equal steps, to a thousandth of the step or to their last decimal."""
    step = (values[-1] - values[0]) / (len(values) - 1)
    decimals = max(len(repr(float(value)).partition(".")[2]) for value in values)
    tolerance = max(1e-3 * abs(step), min(1.001 * 10.0**-decimals, abs(step) / 3))
    return bool(step and (np.abs(values - values[0] - step * np.arange(len(values))) <= tolerance).all())


class TextReader(Reader):
    """Separated values, a line for each sample. `header`, `axis` and `separator` are shown by the first lines if they are None."""

    def __init__(
        self, name: str, open_input: OpenInput, columns: Columns, *, axis: int | None = None, header: bool | None = None,
        decimal: str = ".", skip_lines: int = 0, separator: str | None = None, repeatable: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(name)
        self._open_input, self._columns, self.repeatable = open_input, columns, repeatable
        self._given_axis, self._given_header, self._decimal = axis, header, decimal
        self._skip_lines, self._separator = skip_lines, separator
        self._first_line = self._width = 0  # of the samples; 0 until they are known
        self._labels: list[int] = []
        if repeatable:
            next(self.labelled_blocks())  # an error in the first lines is raised now

    def labelled_blocks(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples as they arrive."""
        pending: list[str] = []
        n_before, empty = 0, True  # lines before those that wait
        with self._open_input() as file:
            for lines in chain(self._complete_lines(getattr(file, "read1", file.read)), [None]):
                pending += lines or []
                if not self._width and not self._find_layout(pending, last=lines is None):
                    continue
                skip = max(0, self._first_line - 1 - n_before)
                block, labels, fault = self._parse(pending[skip:], n_before + skip + 1)
                n_before, pending = n_before + len(pending), []
                if len(block):
                    empty = False
                    yield block, labels
                if fault:
                    raise fault
        if empty:
            raise InputError(f"{self.name} holds no sample: give one line of numbers for each")

    def _complete_lines(self, read: Callable[[int], bytes]) -> Iterator[list[str]]:
        r"""Yield lists of complete lines as soon as they arrive; \r\n and \r end a line as \n does."""
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
        rest, data = "", b"more"
        while data:
            data = read(_CHUNK)
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise InputError(f"{self.name} is not text in UTF-8 ({error.reason}): save it so") from error
            if "\0" in text:
                raise InputError(f"{self.name} is not text: it contains NUL bytes")
            lines, newline, end = text.rpartition("\n")
            if newline:
                yield (rest + lines).split("\n")
                rest = ""
            rest += end
            if len(rest) > _LONGEST_LINE:
                raise InputError(f"{self.name} has a line of more than {_LONGEST_LINE >> 20} MiB: is it text?")
        if rest:
            yield [rest]

    # ------------------------------------------------------------------------------------------ the first lines

    def _find_layout(self, lines: list[str], *, last: bool) -> bool:
        """Find separator, header and columns, if there are lines enough; return whether they are known."""
        numbered = [(i, line) for i, line in enumerate(lines, 1) if i > self._skip_lines and line.strip()]
        n = next((i for i, (_, line) in enumerate(numbered) if not line.startswith("#")), len(numbered))
        comments, numbered = numbered[:n], numbered[n : n + (_HEAD if self.repeatable else 2)]
        needed = 3 if self.repeatable else 1 if self._given_header is False else 2
        match = _SEPARATOR_LINE.fullmatch(numbered[0][1]) if numbered and not self._separator else None
        if match:
            numbered, needed = numbered[1:], max(1, needed - 1)
        if len(numbered) < needed and not last:
            return False
        if not numbered:
            raise InputError(f"{self.name} holds no sample: give one line of numbers for each")
        rows = self._split(numbered, self._separator or (match and match[1]))
        header = self._given_header if self._given_header is not None else self._is_header(rows)
        if comments:
            self.note(f"the first lines, which begin with # ({comments[0][1][:40]}), were left out")
        self.header = [printable(self._point(cell)) for cell in rows[0]] if header else None
        self._first_line, samples = numbered[0][0] + bool(header), rows[bool(header) :]
        self.axis = self._find_axis(samples)
        self._choose_columns(len(rows[0]), samples)
        return True

    def _split(self, numbered: Sequence[tuple[int, str]], given: str | None) -> list[list[str]]:
        """Find the separator; return the cells of the lines."""
        if given == self._decimal:
            raise InputError(f"{self.name}: {given} separates values: omit --decimal {given}")
        lines = [line for _, line in numbered]
        choices = [given] if given else [separator for separator in _SEPARATORS if separator != self._decimal]
        tables = {separator: [cells_of(line, separator) for line in lines] for separator in choices}
        same = [s for s, table in tables.items() if len({len(row) for row in table}) == 1 and len(table[0]) > 1]
        several = [s for s, table in tables.items() if len(table[-1]) > 1]
        self._separator = (same or several or choices[-1:])[0]
        rows = tables[self._separator]
        if len(rows[0]) > 1 and len(rows) > 1 and all(len(row) == 1 for row in rows[1:]):
            rows[0] = [lines[0].strip().strip('"')]  # one column whose name has spaces
        if not rows[0]:
            raise InputError(f"{self.name} has a stray quote in its first line: correct it")
        if len(rows[0]) > _MOST_COLUMNS:
            raise InputError(f"{self.name} has more than {_MOST_COLUMNS:,} columns: save it as .npy")
        n = next((i for i in range(len(rows), 0, -1) if len(rows[i - 1]) != len(rows[-1])), 0)
        if len(rows[0]) != len(rows[-1]) > 1 and len(rows) - n > 1:
            (i, line), start = numbered[0], numbered[n][0]
            raise InputError(
                f"{self.name}, line {i} ({line[:40]!r}) has {len(rows[0])} values and line {start} has {len(rows[-1])}: if the "
                f"table begins there, pass --skip-lines {start - 1}"
            )
        return rows

    def _is_header(self, rows: list[list[str]]) -> bool:
        """Whether the first of these rows of cells holds names; InputError if it cannot be known."""
        values, *below = [[self._number(cell) for cell in row] for row in rows if len(row) == len(rows[0])]
        cells = rows[0]
        numbers = [j for j, value in enumerate(values) if value is not None]
        if not numbers:
            return True
        first = [values[j] for j in numbers]
        others = [[row[j] for j in numbers] for row in below]
        integers = all(_INTEGER.fullmatch(cells[j]) for j in numbers)
        alone = any(self._decimal in row[j] for row in rows[1:] for j in numbers if j < len(row))
        verdict = is_axis(first, others, integers=integers, alone=alone, streamed=not self.repeatable)
        rises = len(first) > 1 and is_monotonic(np.array(first, float))
        above = [cell for j, cell in enumerate(cells) if values[j] is None and any(row[j] is not None for row in below)]
        if verdict is not True and any(map(self._is_word, above)):  # a word above numbers
            verdict = True if rises or len(first) == 1 else None
        elif verdict is not True and "" in cells and rises:  # a corner without a name, or a missing number
            verdict = True if "" not in above or first == [*range(len(first))] else None
        shown = ", ".join(cells[:4]) + (", ..." if len(cells) > 4 else "")
        if verdict is None:
            raise InputError(
                f"{self.name}: the first line ({shown}) may hold names or wavelengths of the columns, or a sample: pass --header "
                "or --no-header"
            )
        if verdict:
            self.note(f"the first line ({shown}) was read as names of the columns (--no-header: a sample)")
        return verdict

    def _find_axis(self, samples: list[list[str]]) -> int:
        """Return the axis of the samples: 1 if the first column holds the wavelengths of the rows."""
        if self._given_axis is not None or not self.repeatable or not self.header or len(self.header) < 2:
            return self._given_axis or 0
        if base.CHANNEL_NAMES.fullmatch(self.header[0].strip()):
            self.note(
                f"the first column is named {self.header[0]!r}, so its rows were read as mixtures and the other "
                "columns as samples (--axis 0 reads each column as a mixture)"
            )
            return 1
        column = [self._point(row[0]) for row in samples if row]
        may_be_channels = wavelengths_in(column)[0] is not None and wavelengths_in(self.header[1:])[0] is None
        if not self.header[0] and may_be_channels:
            raise InputError(
                f"{self.name}: the first column ({', '.join(column[:3])}, ...) has no name: pass --axis 1 if it holds the "
                "wavelengths of the rows, --axis 0 if it holds the times of the samples"
            )
        return 0

    def _choose_columns(self, width: int, samples: list[list[str]]) -> None:
        """Find the columns that are mixtures; with axis 1 the user chooses rows, not columns."""
        header, reasons = self.header or [""] * width, {}
        for j in range(width):
            cells = [row[j] for row in samples if j < len(row)]
            words = [cell for cell in cells if cell.lower() not in _MISSING]
            if self.header and width > 1 and base.is_label_name(header[j]):
                reasons[j] = header[j] or "no name"
            elif words and all(map(self._is_word, words)):
                reasons[j] = f"text: {', '.join(words[:2])[:40]}, ..."
            elif cells and not self.header and not any(cells):
                reasons[j] = "empty"
        columns = Columns() if self.axis else self._columns
        self.columns, self._labels = columns.select(self.name, width, self.header, [*reasons])
        self._width, self.n_features = width, len(self.columns)
        self.label_names = [header[j] or f"label_{j + 1}" for j in self._labels]
        if self._labels and not self.axis:
            named = ", ".join(f"column {j + 1} ({reasons[j]})" for j in self._labels)
            self.note(f"not read as mixtures: {named} (--use reads them)")

    # ------------------------------------------------------------------------------------------ all other lines

    def _number(self, cell: str) -> float | None:
        """Return a cell as a number, or None."""
        if not cell.isascii() or "_" in cell or (self._decimal != "." and "." in cell):  # Python reads 2_1 as 21
            return None
        try:
            return float(cell.replace(self._decimal, "."))
        except ValueError:
            return None

    def _is_word(self, cell: str) -> bool:
        """Whether a cell is neither a number, nor would be one without the marks around it and in it: <0.1, $10, 1.234,5."""
        if cell.lower() in _MISSING or self._number(cell) is not None:
            return False
        return not _DAMAGED_NUMBER.fullmatch(_MARKS.sub("", cell))

    def _point(self, cell: str) -> str:
        """Return a cell with a decimal point if it is a number."""
        return cell if self._number(cell) is None else cell.replace(self._decimal, ".")

    def _parse(self, lines: list[str], first: int) -> tuple[Array, Labels, InputError | None]:
        """Return lines as samples and labels, and what is wrong with the first line that is no sample."""
        rows, separator, fault = [line for line in lines if line and not line.isspace()], self._separator, None
        block: Array | None = None
        widths = {line.count(separator) + 1 if separator else len(line.split()) for line in rows}
        if widths == {self._width} and not any('"' in line for line in rows):
            # With a decimal comma a point is no part of a number.
            points = [line.replace(".", "?").replace(",", ".") for line in rows] if self._decimal == "," else rows
            with suppress(ValueError):
                block = np.loadtxt(points, delimiter=separator, comments=None, usecols=self.columns, ndmin=2)
        if block is None or not np.isfinite(block).all():  # line by line: an error names its place
            values: list[list[float]] = []
            try:
                for i, line in enumerate(lines, first):
                    if line and not line.isspace():
                        values.append(self._parse_line(line, i))
            except InputError as error:
                fault = error
            block, rows = np.array(values, float).reshape(-1, len(self.columns)), rows[: len(values)]
        cells = [cells_of(line, separator) for line in rows] if self._labels else []
        return block, [np.array([printable(self._point(row[j])) for row in cells], str) for j in self._labels], fault

    def _parse_line(self, line: str, i: int) -> list[float]:
        """Return the mixtures of line number i; InputError says what is wrong with it."""
        cells, where = cells_of(line, self._separator), f"{self.name}, line {i}"
        if len(cells) != self._width:
            what = f"{len(cells)} values where {self._width} are expected" if cells else "a stray quote"
            raise InputError(f"{where} has {what}: correct it, or remove the line")
        values = {j: self._number(cells[j]) for j in self.columns}
        row = [value for value in values.values() if value is not None and math.isfinite(value)]
        if len(row) == len(self.columns):
            return row
        j = next(j for j, value in values.items() if value is None or not math.isfinite(value))
        cell, remedy = cells[j], f"correct it, remove the line, or leave the column out with --skip {j + 1}"
        where += f", column {j + 1}" + (f" ({self.header[j]})" if self.header else "")
        if cell.lower() in _MISSING or values[j] is not None:
            what = repr(cell[:40]) if cell else "empty"
            raise InputError(f"{where} is {what}: drop or fill such samples, or pass --skip {j + 1}")
        if self._decimal == "," and "." in cell:
            remedy = "with --decimal , a point is no part of a number: remove thousands points, or omit --decimal"
        elif _DECIMAL_COMMA.fullmatch(cell):
            remedy = "if it has a decimal comma, pass --decimal ,"
        elif i == self._first_line and not self.header:
            how = "omit --no-header" if self._given_header is False else "pass --header"
            remedy = f"if the first line holds names or wavelengths, {how}"
        raise InputError(f"{where}: {cell[:40]!r} is not a number: {remedy}")


def open_lines(name: str, open_input: OpenInput, columns: Columns, **form: Any) -> Reader:
    """Open lines of text that can be read again. `form` is what the user says about them."""
    reader = TextReader(name, open_input, columns, **form)
    return _transposed(reader, columns, form.get("header")) if reader.axis else reader


def _transposed(reader: TextReader, columns: Columns, header: bool | None) -> MatrixReader:
    """Read a table whose lines are mixtures. The first column may hold their names, or their wavelengths."""
    tables: list[Array] = []
    names: list[str] = []
    for block, labels in reader.labelled_blocks():
        tables.append(block)
        names += labels[0].tolist() if labels else []
        if sum(table.nbytes for table in tables) > _LARGEST_TABLE:
            raise InputError(f"{reader.name} is too large to transpose: save it as .npy or .h5")
    table, samples = np.concatenate(tables), reader.names
    column = ", ".join(names[:3] or map(str, table[:3, 0]))
    if not names and header is not False and table.shape[1] > 1:
        integers, *others_are = (table[:, : _HEAD + 1] == np.rint(table[:, : _HEAD + 1])).all(axis=0)
        others = table[:, 1 : _HEAD + 1].T.tolist()
        verdict = is_axis(table[:, 0].tolist(), others, integers=bool(integers), alone=not all(others_are))
        if verdict is None:
            raise InputError(
                f"{reader.name}: the first column ({column}, ...) may hold the wavelengths of the rows, or a sample: pass --header "
                "or --no-header"
            )
        if verdict:
            names = [np.format_float_positional(value, trim="-") for value in table[:, 0]]
            table, samples = table[:, 1:], samples[1:]
    matrix = MatrixReader(
        reader.name, "text", table.shape, table.dtype, 1, table.__getitem__, columns=columns, header=names or None
    )
    matrix.notes = reader.notes
    if names and not (reader.header and base.CHANNEL_NAMES.fullmatch(reader.header[0].strip())):
        matrix.note(f"the first column ({column}, ...) was read as names of the mixtures (--no-header: a sample)")
    if reader.header:
        matrix.label_names, matrix.labels = ["sample"], [np.array(samples, str)]
    return matrix


def check_archive(path: Path) -> zipfile.ZipFile:
    """Open a ZIP archive; raise if a member may take more memory than it declares."""
    archive = zipfile.ZipFile(path)
    with base.close_on_error(archive):
        for part in archive.infolist():
            if part.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(
                    f"{path}: {part.filename[:60]!r} is packed by another method than deflate: save it again"
                )
    return archive


def open_xlsx(path: Path, sheet: str | None, columns: Columns, **form: Any) -> Reader:
    """Open a sheet of a workbook, by default the first one, row by row as if it were text. No formula is evaluated."""
    openpyxl = base.import_optional("openpyxl", "reading .xlsx")
    base.import_optional("defusedxml", "reading .xlsx")  # openpyxl then refuses XML that names entities
    with check_archive(path) as archive:
        base.check_size(str(path), sum(part.file_size for part in archive.infolist()), "save the sheet as .csv")
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles, extensions and invalid dates
        book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        sheets = {" ".join(each.title.split()): each for each in book.worksheets}
        if not sheets or (sheet is not None and sheet not in sheets):
            raise InputError(f"{path} has no sheet {sheet or 'of cells'!r}: there are {', '.join(sheets) or 'none'}")
        lines = "\n".join(_rows(sheets[sheet or next(iter(sheets))])).encode()
    reader = open_lines(str(path), lambda: nullcontext(io.BytesIO(lines)), columns, separator="\t", **form)
    if len(sheets) > 1 and sheet is None:
        reader.note(f"of its {len(sheets)} sheets the first was read (--dataset reads another)")
    return reader


def _rows(sheet: Any) -> Iterator[str]:
    """Yield the rows of a sheet as lines of text, as wide as the first row that is not empty, or wider where there are values."""
    sheet.reset_dimensions()  # a stale <dimension> would cut rows and columns
    width = 0
    for row in sheet.iter_rows(values_only=True):
        filled = max((j + 1 for j, value in enumerate(row) if value is not None), default=0)
        width = width or filled
        cells = [_cell(value) for value in row[: max(filled, width)]]
        yield "\t".join(cells + [""] * (width - len(cells)) * bool(filled))


def _cell(value: Any) -> str:
    """Return the value of a cell as text, without what separates cells and lines."""
    if isinstance(value, (bool, int, float)):
        return repr(float(value)) if isinstance(value, (bool, float)) else str(value)
    words = " ".join(str("" if value is None else value).replace('"', "'").replace("\0", " ").split())
    return f" {words}" if words.startswith("#") else words
