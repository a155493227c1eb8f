"""Parse lines of text into rows of numbers.

Large chunks of separated values are parsed by pyarrow, if it is installed. Everything else (lines from a pipe, columns
separated by spaces, comments, and any chunk in which pyarrow finds a fault) is parsed line by line, so that an error
names its line and column.
"""

import csv
import math
import re
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import InputError
from .columns import ALL, INDEX_ROWS, TIMED_ROWS, Columns, index_note, leading_index
from .layout import (
    MOST_COLUMNS,
    Layout,
    TextFormat,
    cells_of,
    find_layout,
    is_surely_sample,
    looks_like_decimal_comma,
    number,
    separator_line,
)

Array = NDArray[Any]
Numbered = tuple[int, str]  # a line and its number

_INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # what pandas and R call the column of row numbers
#: Names of a first column that says when or where a row was measured.
_AXIS_NAMES = re.compile(
    r"(time|timestamp|datetime|date|zeit|datum|index|row|retention[ _]time|wavelength|wavenumber|raman[ _]shift|m/z)\s*([\[(/,].*)?"
    r"|sample|probe|id|nr\.?",
    re.IGNORECASE,
)
_MISSING = ("", "na", "n/a", "#n/a", "null", "none", "-", "?")  # what stands for a missing number
_LABELLED = 3  # columns of a table whose first one may hold words
_ARROW_BYTES = 2**16  # a smaller chunk is parsed sooner line by line


class BadLine(InputError):
    """A line that is not a sample. `before` holds the rows of the same chunk that precede it."""

    def __init__(self, message: str, before: Array) -> None:
        super().__init__(message)
        self.before = before


class LineParser:
    """Parse chunks of complete lines. The first two lines determine separator, header and width.

    First columns of words are left out. With `seek_index`, leading columns that are times or row numbers are left out too: the
    first samples are then returned when there are enough to know, or at the end. With `names` the first column of words holds
    the names of mixtures, of which the caller speaks.
    """

    def __init__(
        self,
        name: str,
        columns: Columns = ALL,
        form: TextFormat | None = None,
        *,
        seek_index: bool = False,
        names: bool = False,
    ) -> None:
        self.name, self.columns, self.form = name, columns, form or TextFormat()
        self.line = 0  # lines parsed so far
        self.layout: Layout | None = None  # None until it is known
        self.kept: list[int] = []  # indices of the columns that are mixtures
        self.notes: list[str] = []
        self._first: list[Numbered] = []  # the first lines while they wait for the next
        self._odd_line = 0  # number of a first line that has words where the second has none
        self._held: list[Array] = []  # the first samples while they wait for more
        self._seek_index, self._names = seek_index and columns.use is None, names
        # Lines that determine the layout: those of a pipe cannot wait for more.
        self._n_first = 3 if seek_index else 2

    @property
    def header(self) -> list[str] | None:
        """The names of all columns."""
        return self.layout.header if self.layout else None

    def parse(self, chunk: bytes) -> Array:
        """Return the next lines as rows of numbers. A first line that may be a header is returned with the second one."""
        block = self._parse_with_arrow(chunk) if len(chunk) >= _ARROW_BYTES else None
        if block is None:
            block = self._parse_lines(self._numbered(chunk))
        self.line += chunk.count(b"\n")
        return self._without_index(block)

    def finish(self) -> Array:
        """Return the samples that waited for more lines."""
        block = self._parse_lines([], last=True) if self.layout is None else self._block([])
        return self._without_index(block, last=True)

    def _numbered(self, chunk: bytes) -> list[Numbered]:
        try:
            text = chunk.decode("utf-8-sig" if self.line == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} is not text in UTF-8 ({error.reason}): save it as CSV in UTF-8") from error
        if "\0" in text:
            raise InputError(f"{self.name} is not text: it contains NUL bytes")
        return [(i, line) for i, line in enumerate(text.split("\n"), self.line + 1) if not is_ignored(line)]

    def _parse_with_arrow(self, chunk: bytes) -> Array | None:
        """Parse with pyarrow; None if it is not installed or cannot parse every value as a finite number."""
        arrow = _arrow()
        if arrow is None or self.layout is None or self.layout.separator is None:
            return None
        if b"\n#" in chunk or chunk.startswith(b"#"):
            return None
        names = [str(j) for j in range(self.layout.width)]
        kept = [names[j] for j in self.kept]
        try:
            table = arrow.csv.read_csv(
                arrow.BufferReader(chunk),
                arrow.csv.ReadOptions(use_threads=False, block_size=len(chunk) + 1, column_names=names),
                arrow.csv.ParseOptions(delimiter=self.layout.separator),
                arrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(kept, arrow.float64()),
                    include_columns=kept,
                    null_values=[],
                    decimal_point=self.form.decimal,
                ),
            )
        except arrow.ArrowInvalid:
            return None
        block = np.stack([column.to_numpy() for column in table.columns], axis=1)
        return block if np.isfinite(block).all() else None

    def _parse_lines(self, lines: list[Numbered], *, last: bool = False) -> Array:
        rows: list[list[float]] = []
        if self.layout is None:
            lines = self._start(lines, last)
        for place, line in lines:
            assert self.layout is not None
            try:
                cells = cells_of(line, self.layout.separator, self.layout.width)
            except csv.Error as error:
                raise self._bad(f"{self.name}, line {place} is not separated values ({error})", rows) from None
            decimal, numbers = self.form.decimal, cells
            if decimal != "." or "_" in line:  # Python reads 2_1 as 21
                numbers = [cell.replace(decimal, ".").replace("_", "?") for cell in cells]
            try:
                row = [float(numbers[j]) for j in self.kept]
            except (ValueError, IndexError):
                row = [math.nan]
            if len(cells) != self.layout.width or not all(map(math.isfinite, row)):
                raise self._bad(self._fault(self.layout, place, cells), rows)
            rows.append(row)
        return self._block(rows)

    def _block(self, rows: list[list[float]]) -> Array:
        return np.array(rows, np.float64).reshape(len(rows), len(self.kept))

    def _bad(self, message: str, rows: list[list[float]]) -> BadLine:
        return BadLine(message, self._without_index(self._block(rows), last=True))

    def _start(self, lines: list[Numbered], last: bool) -> list[Numbered]:
        """Find the layout, as soon as there are lines enough; return the lines to parse."""
        if not self._first and lines and self.form.separator is None and (separator := separator_line(lines[0][1])):
            if separator == self.form.decimal:
                raise InputError(
                    f"{self.name}, line {lines[0][0]}: {separator} separates values: omit --decimal {separator}"
                )
            self.form, lines = replace(self.form, separator=separator), lines[1:]
        lines, self._first = [*self._first, *lines], []
        if not lines:
            return []
        place, first = lines[0]
        try:
            surely = not self._seek_index and is_surely_sample(first, self.form)
            if len(lines) < self._n_first and not last and not surely:
                self._first = lines
                return []
            self.layout = find_layout(self.name, first, lines[1][1] if len(lines) > 1 else None, self.form)
        except csv.Error as error:
            raise self._bad(f"{self.name}, line {place} is not separated values ({error})", []) from None
        lines = lines[1:] if self.header else lines
        self.notes += self.layout.notes
        looked_at = 1 if surely else self._n_first - bool(self.header)
        samples = [self._cells(self.layout, line) for _, line in lines[:looked_at]]
        self._choose_columns(self.layout, samples)
        words = [sum(number(row[j]) is None for j in self.kept if j < len(row)) for row in samples[:2]]
        if len(words) == 2 and words[0] > words[1] == 0 and not self.header:
            self._odd_line = place
        return lines

    def _cells(self, layout: Layout, line: str) -> list[str]:
        """Return the cells of a line with decimal points; nothing if it is wrong, which its own parsing will say."""
        try:
            cells = cells_of(line, layout.separator, layout.width)
        except csv.Error:
            return []
        return [cell.strip().replace(self.form.decimal, ".") for cell in cells]

    def _choose_columns(self, layout: Layout, samples: list[list[str]]) -> None:
        """Leave out first columns that number or name the lines, as their names and the first samples show."""
        name = layout.header[0] if layout.header and layout.width > 1 else None
        why = []
        if name in _INDEX_NAMES:
            why.append("the first column has no name; it was taken for row numbers and left out (--use reads it)")
        elif name is not None and _AXIS_NAMES.fullmatch(name):
            why.append(f"the first column is named {name!r}, which is not a mixture: left out (--use reads it)")
        n = len(why)
        labels = 0 if n and self._names else self._n_labels(layout, [row[n:] for row in samples])
        if labels:
            shown = ", ".join(row[n][:20] for row in samples)
            what = f"column {n + 1} holds" if labels == 1 else f"columns {n + 1} to {n + labels} hold"
            why.append(f"{what} text ({shown}, ...), names or times of the samples: left out as labels")
        asked = self.columns.kept(self.name, layout.width, layout.header)
        self.kept = self.columns.kept(self.name, layout.width, layout.header, range(n + labels))
        if self.kept != asked and not self._names:
            self.notes += [f"{self.name}: {reason}" for reason in why]

    def _n_labels(self, layout: Layout, samples: list[list[str]]) -> int:
        """Return how many columns hold words in all samples before the first that does not; 0 if no number follows."""
        if layout.width < _LABELLED or not samples:
            return 0
        if self._names:
            first, second = (number(cell) for cell in (*samples[0], "", "")[:2])
            return int(first is None and second is not None)
        n = min(sum(1 for _ in takewhile(partial(_is_label, layout.separator), row)) for row in samples)
        return n if n < min(map(len, samples)) else 0

    def _without_index(self, block: Array, *, last: bool = False) -> Array:
        """Leave out leading columns that are times or row numbers: the first rows of a file show it."""
        if not self._seek_index or self.layout is None:
            return block
        self._held.append(block)
        if sum(map(len, self._held)) < TIMED_ROWS and not last:
            return self._block([])
        block, self._held, self._seek_index = np.concatenate(self._held), [], False
        names = [self.header[j] for j in self.kept] if self.header else None
        leading = leading_index(block[:INDEX_ROWS], names) if len(block) else []
        if not leading:
            return block
        index = [self.kept[j] for j in leading]
        self.notes.append(index_note(self.name, block[:INDEX_ROWS, leading], index, self.layout.width, self.header))
        self.kept = [j for j in self.kept if j not in index]
        return np.ascontiguousarray(np.delete(block, leading, axis=1))

    def _fault(self, layout: Layout, place: int, cells: list[str]) -> str:
        """Return what is wrong with a line."""
        where, width = f"{self.name}, line {place}", layout.width
        if len(cells) != width:
            more = len(cells_of(cells[-1], layout.separator)) - 1 if len(cells) > width else 0
            count = len(cells) + more if more < MOST_COLUMNS else f"more than {MOST_COLUMNS:,}"
            return f"{where} has {count} values where {width} are expected: one for each mixture"
        values = [number(cell) for cell in cells]
        j = next(j for j in self.kept if (value := values[j]) is None or not math.isfinite(value))
        where += f", column {j + 1}" + (f" ({layout.header[j]})" if layout.header else "")
        if values[j] is not None:
            return f"{where} is {values[j]}: drop or fill such samples first"
        what = f"{cells[j].strip()[:40]!r} is not a number" if cells[j].strip() else "is empty"
        remedy = f"correct it, remove the line, or leave the column out with --skip {j + 1}"
        if place == self._odd_line:
            how = "omit --no-header" if self.form.header is False else "pass --header"
            remedy = f"if the first line holds names or wavelengths, {how}"
        elif looks_like_decimal_comma(cells[j], layout.separator):
            remedy = "if it has a decimal comma, pass --decimal ,"
        return f"{where}: {what}: {remedy}"


def _is_label(separator: str | None, cell: str) -> bool:
    """Whether a cell is a word, and not a number that is missing or has a decimal comma."""
    return number(cell) is None and cell.lower() not in _MISSING and not looks_like_decimal_comma(cell, separator)


def is_ignored(line: str) -> bool:
    """Whether a line is blank or a comment."""
    return not line or line.isspace() or line.startswith("#")


@cache
def _arrow() -> Any:
    """Return pyarrow with its CSV module, or None."""
    try:
        import_module("pyarrow.csv")
    except ImportError:
        return None
    return import_module("pyarrow")
