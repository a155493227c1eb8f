"""Mixtures in text: separated values in files, from pipes, and in sheets of a workbook.

The first lines (20 of a file; 7 of a pipe, or 1 with header=False) show separator,
header and columns:

- Decimal point, separator (tab ; , | or spaces) and the first line of the table are
  those by which each column holds numbers or words, but for missing cells and for the
  names; a point is tried before a comma. Notes name a decimal comma and lines before
  the table. If there is no such reading, the number of cells decides, and an error
  names what is wrong.
- A first line of words is a header. A first line of numbers is one if there are 6 or
  more, which rise or fall strictly where no other line does (wavelengths, masses), or
  if they are 0, 1, 2, ... as pandas writes it. InputError asks for `header` if such a
  line has unequal steps and only one or two lines below it, if 3 or more numbers have
  equal steps where no other line has, if numbers that are not all equal are 10 times
  larger or smaller than those below, and if different integers are above decimals.
  Otherwise it is a sample: a note says so of a table without names, and shows its first
  line and column.
- The line below the names, and the first and the last column, are compared with the
  others in the same way, and get a note.
- The first column may hold the wavelengths of the rows: if its name says so they do,
  and InputError asks for `axis` if it has none beside other names, or is the only
  column of equal steps (6 at least), or if the other columns are named as samples are.
- A column is not a mixture if it holds text (`<0.1` and `$10` are damaged numbers, and
  an error), or by `label_columns`, which also looks at the values: those of the first
  MiB of a file, and of the first 6 samples of a pipe.

All other lines must have a finite number in each mixture. NumPy parses them; if it
cannot, they are parsed one by one. A table whose lines are mixtures is transposed, and
then read by the same rules.
"""

import codecs
import csv
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, dropwhile, product
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message, message_of, printable
from bionica.io import reader as base
from bionica.io.reader import (
    Array,
    Labels,
    Reader,
    ReadOptions,
    is_monotonic,
    wavelengths_in,
)

TEXT = (".csv", ".tsv", ".txt", ".dat")
_CHUNK = 2**20
_HEAD = 20  # lines of a file that show its layout
# samples of a pipe that show whether a column turns back: six random numbers do not
# with probability 1/360
_FIRST = 6
_SEPARATORS = ("\t", ";", ",", "|", None)  # None: spaces
_PREAMBLE = 100  # lines of a file in which a table begins
_AXIS = 6  # numbers at least of an axis that is not asked for
# of `judge_first_line`
_APART = 10.0
_EVEN = 0.01
_MISSING = ("", "na", "n/a", "#n/a", "n.a.", "#nv", "nan", "null", "none", "-", "?")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
# in a number: its point marks no thousands
_FRACTION = re.compile(r"(?<!\d)0*\.|\.(?!\d{3})|\.\d{3}\d|[eE]")
_GAP = "it has empty lines between samples: its parts were read as one table"
_COMMENT = re.compile(r'#|"?sep=', re.IGNORECASE)  # the latter is what Excel writes
#: A letter, a clock time or a date. The e of a number has digits before and behind it.
_WORD = re.compile(r"[^\W\deE]|:|\d[-/]\d|(?<![\d.])[eE]|[eE](?![-+\d])")
# the latter of 1,5 2,5 cut at its commas
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?|\d+[\s|]+[-+]?\d+")


def cells_of(line: str, separator: str | None, most: int = -1) -> list[str]:
    """Return the values of a line, or at least the first `most`; none if it has a stray
    quote.
    """
    if '"' not in line:
        return [cell.strip() for cell in line.split(separator, most)]
    try:
        line = line if separator else " ".join(line.split())
        return [
            cell.strip()
            for cell in next(
                csv.reader([line], delimiter=separator or " ", strict=True)
            )
        ]
    except csv.Error:
        return []


def _count(cells: Sequence[str]) -> str:
    return f"{len(cells)} values" if cells else "a stray quote"


def judge_first_line(lines: Sequence[Sequence[float]], decimals: Sequence[int]) -> str:
    """Return what the first of several lines of numbers is, by the rule of this module:
    "names", "asked" or "sample".

    `decimals` is the largest number of decimals that are written in each line.

    Examples
    --------
    >>> judge_first_line([[400, 402, 404], [0.2, 0.5, 0.3], [0.1, 0.4, 0.2]], [0, 1, 1])
    'asked'
    >>> judge_first_line([[0.3, 0.1], [0.2, 0.3], [0.4, 0.1], [0.1, 0.2]], [1, 1, 1, 1])
    'sample'
    """
    table = np.array(lines, float)
    first = table[0]
    k = table.shape[1]
    n = len(table) - 1
    order = [_order(row) for row in table]
    size = np.abs(table)
    distinct = len({*first}) == k
    integers = not decimals[0]
    numbered = integers and (first == np.arange(k)).all()
    axis = k >= _AXIS and order[0] and not any(order[1:])
    even = n > 1 and order[0] == 2 > max(order[1:])
    if (numbered and k > 2) or (axis and (n > 2 or order[0] == 2)):
        return "names"
    apart = n > 1 and (
        size[0].min() > _APART * size[1:].max()
        or _APART * size[0].max() < size[1:].min()
    )
    apart &= len({*first}) > 1  # replicates have equal names
    doubtful = (
        numbered
        or axis
        or even
        or apart
        or (distinct and integers and all(decimals[1:]))
    )
    return "asked" if doubtful else "sample"


def _order(line: Array) -> int:
    """Return 2 for numbers that rise or fall in two or more equal steps, 1 if they do
    in others, else 0.
    """
    steps = np.diff(line)
    even = len(steps) > 1 and np.ptp(steps) <= _EVEN * abs(steps.mean())
    return int(is_monotonic(line) * (1 + even))


def read_lines(
    name: str,
    open_stream: Callable[[], Any],
    encoding: str | None = None,
    notes: list[str] | None = None,
) -> Iterator[list[str]]:
    r"""Yield lists of complete lines as soon as they arrive; \r\n and \r end a line as
    \n does.

    Text is in UTF-8, or, if that is not possible from the first byte on that is not
    ASCII, in cp1252, which `notes` get to know.
    """

    def decoder_of(encoding: str) -> io.IncrementalNewlineDecoder:
        return io.IncrementalNewlineDecoder(
            codecs.getincrementaldecoder(encoding)(), translate=True
        )

    decoder = decoder_of(encoding or "utf-8-sig")
    rest = ""
    data = b"more"
    ascii_only = True
    with open_stream() as stream:
        while data:
            data = getattr(stream, "read1", stream.read)(_CHUNK)
            if (
                ascii_only
                and not encoding
                and data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            ):
                decoder = decoder_of("utf-16")  # as Excel writes "Unicode text"
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                decoder = decoder_of("cp1252")
                text = "\0"
                if ascii_only and not encoding:
                    with suppress(UnicodeDecodeError):
                        text = decoder.decode(data)
                    note = Message(
                        "its text is not UTF-8, and was read as Windows-1252 "
                        "({encoding:=} reads another)"
                    )
                    if notes is not None and note not in notes:
                        notes.append(note)
            if "\0" in text:
                template = (
                    "{} is not text in {}: pass another {encoding:=}, or save it as "
                    "UTF-8 (in Excel as CSV UTF-8)"
                )
                raise InputError(Message(template, name, encoding or "UTF-8"))
            ascii_only = ascii_only and data.isascii()
            *lines, end = (rest + text).split("\n") if "\n" in text else (rest + text,)
            yield lines
            rest = end
            # cells take ten times its memory
            base.check_size(f"a line of {name}", 10 * len(rest), "save it as .npy")
    yield [rest] if rest else []


class TextReader(Reader):
    """Separated values, a line for each sample. `axis`, `header` and `separator` are
    shown by the first lines if they are None.

    So are `decimal` and lines before the table, and notes say what was found.
    `open_lines` returns lists of lines, by default those of the file. `pipe` opens a
    stream that is read once, as it arrives.
    """

    _transposed = False  # the lines are columns of the file
    _labelled = False  # and begin with a label, because the file has a header
    _row_lines: Sequence[int] = ()  # the lines of the file that hold them
    _counted: Sequence[int] = ()  # labels that are numbers

    def __init__(
        self,
        path: Path,
        options: ReadOptions,
        open_lines: Callable[[], Iterable[list[str]]] | None = None,
        *,
        separator: str | None = None,
        pipe: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(str(path))
        decimal = options.decimal
        encoding = options.encoding
        try:
            "".encode(encoding or "utf-8")
        except LookupError:
            template = (
                "{encoding:={!r}} is unknown: give utf-8, cp1252, latin-1, utf-16, ..."
            )
            raise InputError(Message(template, encoding)) from None
        stream = pipe or partial(path.open, "rb")
        self._open_lines = open_lines or partial(
            read_lines, str(path), stream, encoding, self.notes
        )
        self._options = options
        self._pipe = pipe is not None
        self._given_axis = options.axis
        self._given_header = options.header
        self._skip_lines = options.skip_lines
        self._decimals = decimal or ".,"
        self.decimal = decimal or "."
        self._is_point_known = bool(decimal or separator)  # in sheets it is
        self._separators = [separator] if separator else _SEPARATORS
        self._separator = separator
        self._first_line = self._width = 0  # of the samples; 0 until they are known
        if not pipe:
            next(self._chunks(), None)
            if self.axis:
                self._transpose()
            next(self.labelled_blocks())  # an error in the first lines is raised now

    def _chunks(self) -> Iterator[list[tuple[int, str]]]:
        """Yield the lines of samples, with their numbers, as they arrive."""
        pending: list[str] = []
        n = last = 0  # lines before those that wait, and the number of the last sample
        for lines in chain(self._open_lines(), [None]):
            pending += lines or []
            if not self._width:
                self._find_layout(pending, last=lines is None)
            if self._width:
                numbered = enumerate(pending, n + 1)
                rows = [
                    (i, line)
                    for i, line in numbered
                    if i >= self._first_line and line and not line.isspace()
                ]
                if (
                    rows
                    and rows[-1][0] - (last or rows[0][0] - 1) > len(rows)
                    and _GAP not in self.notes
                ):
                    self.notes.append(_GAP)
                yield rows
                n = n + len(pending)
                pending = []
                last = rows[-1][0] if rows else last

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples as they arrive; a cell that is not a number is NaN."""
        for chunk in filter(None, self._chunks()):
            self._chunk, rows, separator = (
                chunk,
                [line for _, line in chunk],
                self._separator,
            )
            if not self._is_point_known and any("." in row for row in rows):
                self._check_points(rows)
            block = np.full((len(rows), self.n_features), np.nan)
            widths = {
                line.count(separator) + 1 if separator else len(line.split())
                for line in rows
            }
            if widths == {self._width} and not any('"' in line for line in rows):
                # With a decimal comma, a point is not part of a number.
                points = (
                    [row.replace(".", "?").replace(",", ".") for row in rows]
                    if self.decimal == ","
                    else rows
                )
                with suppress(ValueError):
                    block = np.loadtxt(
                        points,
                        delimiter=separator,
                        comments=None,
                        usecols=self.columns,
                        ndmin=2,
                    )
            # all of them if NumPy cannot read one
            for n in np.flatnonzero(~np.isfinite(block).all(axis=1)).tolist():
                cells = cells_of(rows[n], separator)
                if len(cells) == self._width:
                    block[n] = np.array(
                        [self._number(cells[j]) for j in self.columns], float
                    )
            most = max(self.labels, default=-1) + 1
            table = (
                [cells_of(line, separator, most) + [""] * most for line in rows]
                if self.labels
                else []
            )
            if self.wavelengths is not None and self._header_line in rows:
                block[rows.index(self._header_line)] = np.nan
            labels = [
                np.array([printable(self._point(cells[j])) for cells in table], str)
                for j in self.labels
            ]
            words = [
                cell
                for j in self._counted
                for cell in labels[j].tolist()
                if self._is_text(cell)
            ]
            if words:
                self._counted = []  # one note
                self.notes.append(
                    "beside labels that are numbers there are words"
                    f" ({', '.join(words[:3])}): samples too"
                )
            yield block, labels

    # --- the first lines

    def _find_layout(self, lines: list[str], *, last: bool) -> None:
        """Find separator, header and columns, if there are lines enough."""
        n = (
            _HEAD
            if not self._pipe
            else 1
            if self._given_header is False
            else _FIRST + 1
        )
        table = [
            (i, line)
            for i, line in enumerate(lines, 1)
            if i > self._skip_lines and line.strip()
        ]
        numbered = [*dropwhile(lambda pair: _COMMENT.match(pair[1]), table)]
        if not numbered or (len(numbered) < n and not last):
            return
        start, rows = self._split(numbered, n)
        first = numbered[0]
        numbered = numbered[start : n if self._pipe else None]
        header = (
            self._is_header(rows) if self._given_header is None else self._given_header
        )
        names = [*map(self._point, rows[0])] if header else []

        def values(j: int) -> list[float]:
            cells = [cells_of(line, self._separator, j + 1) for _, line in numbered[1:]]
            numbers = [self._number(row[j]) for row in cells if j < len(row)]
            return [nan if number is None else number for number in numbers]

        labels, doubtful = base.label_columns(names, values)
        self.header = names or None
        self._first_line, self._width, samples = (
            numbered[0][0] + header,
            len(rows[0]),
            rows[header:],
        )
        self._header_line = numbered[0][1]
        if table[0] != first:
            self.notes.append(
                f"the first lines, which are comments ({printable(table[0][1][:40])}),"
                " were left out"
            )
        if first != numbered[0]:
            where = (
                f"lines {first[0]} to {numbered[0][0] - 1} ({printable(first[1][:40])},"
                " ...)"
            )
            self.notes.append(f"{where} are not lines of the table, and were left out")
        if self.decimal not in (self._decimals, "."):
            self.notes.append(
                Message(
                    "its numbers have decimal commas, and are written so "
                    "({decimal:=} decides)"
                )
            )
        self._decimals = self.decimal
        reasons = {j: names[j] or "no name" for j in labels}
        for j in range(self._width):  # columns that are not mixtures, and why
            cells = [row[j] for row in samples if j < len(row)]
            if j < self._labelled or self._is_text(*cells):
                text = f"text: {', '.join(cells[:2])[:40]}, ..."
                reasons.setdefault(j, text if self._is_text(*cells) else "names")
            elif cells and not self.header and not any(cells):
                reasons[j] = "empty"
        self.axis = 1 if self._transposed else self._find_axis(samples)
        # the columns are chosen after the table is transposed
        if self.axis > self._transposed:
            is_named = self.header and base.CHANNEL_NAMES.fullmatch(
                self.header[0].strip()
            )
            self._given_header = (
                True if is_named or 0 in reasons else self._given_header
            )
            return
        if self._width == 1 and reasons:
            raise InputError(
                f"{self.name} has no numbers between tabs, semicolons, commas, bars or"
                " spaces"
            )
        self.choose(
            self._options,
            self._width,
            reasons,
            [j for j in doubtful if j not in reasons],
        )
        self._note_doubts(rows)
        self._counted = [
            i
            for i, j in enumerate(self.labels)
            if any(self._number(row[j]) is not None for row in samples)
        ]
        if self._labelled and self.labels[:1] == [0]:
            # the corner may name the rows of the file
            self.label_names = ["sample", *self.label_names[1:]]

    def _check_points(self, rows: list[str]) -> None:
        """Raise if points may be those of thousands: all stand before three digits, and
        in a column with integers.
        """
        self._is_point_known = any(map(_FRACTION.search, rows))
        for column in (
            ()
            if self._is_point_known
            else zip(*(cells_of(row, self._separator) for row in rows), strict=False)
        ):
            thousands = next(
                (
                    cell
                    for cell in column
                    if "." in cell and self._number(cell) is not None
                ),
                "",
            )
            if thousands and any(cell.isdecimal() and cell != "0" for cell in column):
                template = (
                    "{}: {} may be {}: pass {decimal:='.'}, or remove the points if"
                    " they are marks of thousands"
                )
                integer = thousands.replace(".", "")
                raise InputError(Message(template, self.name, thousands, integer))

    def _note_doubts(self, rows: list[list[str]]) -> None:
        """Say which lines and columns were read as samples and mixtures, and may be
        something else.
        """
        samples = [row for row in rows[bool(self.header) :] if len(row) == self._width]
        columns = [
            [row[j] for row in samples]
            for j in (*self.columns[: _HEAD - 1], self.columns[-1])
        ]
        line, other = ("column", "line") if self._transposed else ("line", "column")
        if self.header and self._judge([*zip(*columns, strict=True)]) != "sample":
            after = ", ".join([column[0] for column in columns][:4])
            template = "the {} after the names ({}, ...) was read as a sample"
            if not self._transposed:
                template += " ({skip_lines:={}}: as names)"
            self.notes.append(Message(template, line, after, self._first_line - 1))
        if self._given_header is None and not self.header:
            shown = [", ".join(cells[:4]) for cells in (rows[0], columns[0])]
            template = (
                "it has no names: the first {} ({}, ...) was read as a sample "
                "({header:=True}: as names)"
            )
            if not self._transposed and self.columns[0] == 0:
                template += (
                    ", the first {} ({}, ...) as a mixture ({skip:='1'} omits it, "
                    "{axis:=1}: a sample)"
                )
            self.notes.append(Message(template, line, shown[0], other, shown[1]))
        elif self.wavelengths is None and self.n_features > 2 and not self._transposed:
            edges = {0: columns, -1: columns[::-1]}
            unlike = [
                self.column(j) for j, table in edges.items() if self._is_unlike(table)
            ]
            if unlike:
                self.notes.append(Message(base.UNLIKE, ", ".join(unlike)))

    def _is_unlike(self, columns: list[list[str]]) -> bool:
        """Whether the first of these columns may not be a mixture: `judge_first_line`,
        or integers beside decimals.
        """
        decimals = [any(map(self._n_decimals, column)) for column in columns]
        return self._judge(columns) != "sample" or (
            len({*columns[0]}) > 1 and not decimals[0] and all(decimals[1:])
        )

    def _split(
        self, numbered: Sequence[tuple[int, str]], n: int
    ) -> tuple[int, list[list[str]]]:
        """Find decimal point, separator and the first line of the table, in the first n
        lines or, of a file, in 100.

        Return the index of this line, and at most n rows of cells. If no reading is
        consistent, columns may hold words among numbers, which are errors that name the
        cell; otherwise the separator is the first by which the lines have the same
        number of cells, and errors are found later.
        """
        heads = (numbered[:n], numbered[: n if self._pipe else _PREAMBLE])
        for words, lines, decimal, separator in product(
            (False, True), heads, self._decimals, self._separators
        ):
            self.decimal = decimal
            self._separator = separator
            rows = [] if decimal == separator else self._cells(lines)
            start = self._table_start(rows, words)
            if start is not None:
                return start, rows[start : start + n]
        self.decimal = self._decimals[0]

        def regularity(separator: str | None) -> int:
            widths = [len(cells_of(line, separator)) for _, line in numbered[:n]]
            return (
                0
                if widths[-1] < 2 or separator == self.decimal
                else 2
                if {*widths} == {widths[-1]}
                else 1
            )

        # the first, if several: a tab in one column
        self._separator = max(self._separators, key=regularity)
        rows = self._cells(numbered[:n])
        n = next(
            (i for i in range(len(rows), 0, -1) if len(rows[i - 1]) != len(rows[-1])), 0
        )
        if not rows[0] or (len(rows[0]) != len(rows[-1]) > 1 and len(rows) - n > 1):
            (i, line), start = numbered[0], numbered[n][0]
            where = (
                f"{self.name}: line {i} ({line[:40]!r}) has {_count(rows[0])}, line"
                f" {start} {_count(rows[-1])}"
            )
            template = "{}: if the table begins there, pass {skip_lines:={}}"
            raise InputError(Message(template, where, start - 1))
        return 0, rows

    def _cells(self, numbered: Sequence[tuple[int, str]]) -> list[list[str]]:
        return [
            [*map(printable, cells_of(line, self._separator))] for _, line in numbered
        ]

    def _table_start(self, rows: list[list[str]], words: bool) -> int | None:
        """Return the index of the first of the last rows that have one width, or None
        if these are not a table.

        Below the first row, which may hold names, all cells of a column are numbers or
        all are words, but for missing ones; or more than half of them are numbers, if
        `words` may be among them. Rows before the table hold a word. Commas before
        three digits may be those of thousands.
        """
        width = len(rows[-1]) if rows else 0
        start = next(
            (i for i in range(len(rows), 0, -1) if len(rows[i - 1]) != width), 0
        )
        samples = rows[start + (len(rows) > start + 1) :]
        columns = [[*map(self._kind, column)] for column in zip(*samples, strict=True)]
        mostly = [
            words and 2 * column.count("number") > len(column) for column in columns
        ]
        kinds = [
            {"number"} if m else {*column} - {"missing"}
            for m, column in zip(mostly, columns, strict=True)
        ]
        if (
            width < 2
            or {"number"} not in kinds
            or any(len(kind) > 1 or "" in kind for kind in kinds)
        ):
            return None
        if start and (
            len(rows) - start < 3
            or not all("text" in map(self._kind, row) for row in rows[:start])
        ):
            return None
        commas = [cell for row in rows[start + 1 :] for cell in row if "," in cell]
        return (
            None
            if self.decimal != self._decimals[0]
            and all(map(_THOUSANDS.fullmatch, commas))
            else start
        )

    def _kind(self, cell: str) -> str:
        """Return whether a cell is a number, text or missing; "" if it is a damaged
        number.
        """
        if cell.lower() in _MISSING:
            return "missing"
        return (
            "number"
            if self._number(cell) is not None
            else "text"
            if _WORD.search(cell)
            else ""
        )

    def _is_header(self, rows: list[list[str]]) -> bool:
        """Whether the first of these rows of cells holds names; InputError if it cannot
        be known.
        """
        table = [row[self._labelled :] for row in rows if len(row) == len(rows[0])]
        cells = table[0]
        columns = [*zip(*table, strict=True)]
        numbers = [column for column in columns if self._number(column[0]) is not None]
        if not numbers:
            return True
        first = [self._number(column[0]) for column in numbers]
        verdict = self._judge([*zip(*numbers, strict=True)])
        rises = is_monotonic(np.array(first, float))
        captions = [
            top
            for top, *below in columns
            if self._number(top) is None and below and not self._is_text(*below)
        ]
        captions += [
            top
            for top, *below in columns
            if base.ROW_NAMES.fullmatch(top) and self._is_text(*below)
        ]
        # a word over numbers, or "name" over words
        if verdict != "names" and any(map(self._is_text, captions)):
            verdict = "names" if rises else "asked"
        elif (
            verdict != "names" and "" in cells and rises
        ):  # a corner without a name, or a missing number
            verdict = (
                "names"
                if "" not in captions or first == [*range(len(first))]
                else "asked"
            )
        line = "column" if self._transposed else "line"
        shown = f"the first {line} ({', '.join(cells[:4])}{', ...' * (len(cells) > 4)})"
        if verdict == "asked":
            template = (
                "{}: {} may hold names, or a sample: pass {header:=True} or "
                "{header:=False}"
            )
            raise InputError(Message(template, self.name, shown))
        if verdict == "names":
            template = "{} was read as names ({header:=False}: a sample)"
            self.notes.append(Message(template, shown))
        return verdict == "names"

    def _judge(self, rows: Sequence[Sequence[str]]) -> str:
        """Return what the first of these rows of cells is: `judge_first_line`; a
        missing number is the median of its column.
        """
        numbers = [
            [nan if number is None else number for number in map(self._number, row)]
            for row in rows
        ]
        lines = [i for i, row in enumerate(numbers) if np.isfinite(row).any()]
        if len(lines) < 2 or lines[0] != 0 or not np.isfinite(numbers[0]).all():
            return "sample"
        table = np.array([numbers[i] for i in lines])
        table = table[:, np.isfinite(table[1:]).any(axis=0)]
        table = np.where(np.isfinite(table), table, np.nanmedian(table[1:], axis=0))
        cells = [
            [
                cell
                for cell, number in zip(rows[i], numbers[i], strict=True)
                if np.isfinite(number)
            ]
            for i in lines
        ]
        return judge_first_line(
            table.tolist(), [max(map(self._n_decimals, row)) for row in cells]
        )

    def _find_axis(self, samples: list[list[str]]) -> int:
        """Return the axis of the samples: 1 if the first column holds the wavelengths
        of the rows.
        """
        if self._given_axis is not None or self._pipe or self._width < 2:
            return self._given_axis or 0
        name, *others = map(str.strip, self.header or [""] * self._width)
        if base.CHANNEL_NAMES.fullmatch(name):
            template = (
                "its rows are mixtures: its first column is {!r} ({axis:=0}: its"
                " columns)"
            )
            self.notes.append(Message(template, name))
            return 1
        if len(others) > 1 and all(map(base.SAMPLE_NAMES.fullmatch, others)):
            template = (
                "{}: the columns are named as samples are ({}, ...): pass {axis:=1} if"
                " a column is a sample, {axis:=0} if a row is one"
            )
            raise InputError(Message(template, self.name, ", ".join(others[:3])))
        columns = [
            [*map(self._point, column)] for column in zip(*samples, strict=False)
        ] or [[""]]
        # "nm" says that the columns are mixtures
        numbers, unit = wavelengths_in(others)
        axes = [wavelengths_in(column)[0] for column in columns]
        if self.header and not name:
            is_open = not (unit and base.CHANNEL_NAMES.fullmatch(unit))
        else:  # no names, or another word, over the only column of equal steps
            even = [axis is not None and _order(axis) == 2 for axis in axes]
            is_open = (
                numbers is None
                and not base.ROW_NAMES.fullmatch(name)
                and len(samples) >= _AXIS
            )
            is_open &= even[0] and not any(even[1:])
        if is_open and axes[0] is not None:
            called = f"is called {name!r}" if name else "has no name"
            where = (
                f"{self.name}: the first column ({', '.join(columns[0][:3])}, ...)"
                f" {called}"
            )
            template = (
                "{}: pass {axis:=1} if it holds wavelengths, {axis:=0} if it holds"
                " times"
            )
            raise InputError(Message(template, where))
        return 0

    def _transpose(self) -> None:
        """Read the columns of the file as lines; the first column may hold names, or
        the wavelengths of the mixtures.
        """
        numbered = [*enumerate(chain.from_iterable(self._open_lines()), 1)][
            self._first_line - bool(self.header) - 1 :
        ]
        base.check_size(
            self.name, sum(len(line) for _, line in numbered), "save it as .npy or .h5"
        )
        rows = {
            i: cells_of(line, self._separator) for i, line in numbered if line.strip()
        }
        for i, row in rows.items():
            if len(row) != self._width:
                raise InputError(
                    f"{self.name}, line {i} has {_count(row)}, not {self._width}:"
                    " correct or remove it"
                )
        lines = tabbed(zip(*rows.values(), strict=True))
        self._row_lines = [*rows]
        self._open_lines = lambda: [lines]
        self._separator = "\t"
        self._skip_lines = 0
        self._transposed, self._labelled, self._width = True, bool(self.header), 0

    # --- cells

    def _number(self, cell: str) -> float | None:
        """Return a cell as a number, or None."""
        # Python reads 2_1 as 21
        if not cell.isascii() or "_" in cell or (self.decimal != "." and "." in cell):
            return None
        try:
            return float(cell.replace(self.decimal, "."))
        except ValueError:
            return None

    def _n_decimals(self, cell: str) -> int:
        return len(cell.lower().partition("e")[0].partition(self.decimal)[2])

    def _is_text(self, *cells: str) -> bool:
        """Whether these cells are words, but for missing ones; <0.1, $10 and 1.234,5
        are damaged numbers.
        """
        words = [cell for cell in cells if cell.lower() not in _MISSING]
        return bool(words) and all(
            self._number(word) is None and _WORD.search(word) for word in words
        )

    def _point(self, cell: str) -> str:
        """Return a cell with a decimal point if it is a number."""
        return cell if self._number(cell) is None else cell.replace(self.decimal, ".")

    def is_missing(self, block: Array) -> Array:
        """Which cells are empty, or say that they hold no number."""
        missing = np.isnan(block)
        for i in np.flatnonzero(missing.any(axis=1)).tolist():
            cells = cells_of(self._chunk[i][1], self._separator)
            said = [
                len(cells) == self._width and cells[j].strip().lower() in _MISSING
                for j in self.columns
            ]
            missing[i] &= np.array(said)
        return missing

    def explain(self, n_before: int, i: int, j: int, value: float) -> tuple[str, str]:
        """Return what is wrong with mixture j in line i of the last block, and what to
        do about it.
        """
        _, remedy = super().explain(n_before, i, j, value)
        (number, line), column = self._chunk[i], self.columns[j]
        cells = cells_of(line, self._separator)
        where = f"{self.name}, line {number}"
        if len(cells) != self._width:
            return (
                f"{where} has {_count(cells)} where {self._width} are expected",
                "correct it, or remove the line",
            )
        if line == self._header_line:
            return (
                (
                    f"{self.name}, {'column' if self._transposed else 'line'} {number}"
                    " repeats the names"
                ),
                "remove it",
            )
        where = f"{where}, {self.column(j)}"
        cell = cells[column]
        if self._transposed:
            named = (
                f" ({cells[0]}, {self.names[j]})"
                if self._labelled and self.header
                else ""
            )
            where = (
                f"{self.name}, line {self._row_lines[column]}, column {number}{named}"
            )
        if "." in cell and (self.decimal == "," or "," in cell):
            remedy = Message(
                "remove the marks of thousands; {decimal:=} says which mark begins the "
                "decimals"
            )
        elif (
            number == self._first_line
            and self.header
            and self._is_text(*(cells[j] for j in self.columns))
        ):
            remedy = "if this line holds units, remove it"
        elif _DECIMAL_COMMA.fullmatch(cell):
            remedy = Message("if it has a decimal comma, pass {decimal:=','}")
        elif (
            number == self._first_line
            and not self.header
            and cell.lower() not in _MISSING
        ):
            remedy = Message(
                "if the first line holds names or wavelengths, pass {header:=True}"
            )
        return f"{where}: {cell[:40]!r} is not a finite number", remedy


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
    if not others:
        return []
    more = f" and {len(others) - 20} more" if len(others) > 20 else ""
    names = ", ".join(map(printable, others[:20]))
    template = "the {} {} was read, and left out: {}{} ({dataset:=} reads another)"
    return [Message(template, kind, chosen, names, more)]


def open_xlsx(path: Path, options: ReadOptions) -> Reader:
    """Open a sheet of a workbook, by default the first that is not hidden, as if it
    were text. No formula is evaluated.
    """
    openpyxl = base.import_optional("openpyxl", "reading .xlsx")
    # openpyxl then refuses XML that names entities
    base.import_optional("defusedxml", "reading .xlsx")
    dataset = options.dataset
    with zipfile.ZipFile(path) as archive:
        check_archive(archive)
        base.check_size(
            str(path),
            sum(part.file_size for part in archive.infolist()),
            "save the sheet as .csv",
        )
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles, extensions and invalid dates
        book = openpyxl.load_workbook(
            file, read_only=True, data_only=True, keep_links=False
        )
        sheets = {" ".join(each.title.split()): each for each in book.worksheets}
        if not sheets or dataset not in (None, *sheets):
            raise InputError(
                f"{path} has no sheet {dataset or 'of cells'!r}: there are"
                f" {', '.join(sheets) or 'none'}"
            )
        shown = [
            title for title, each in sheets.items() if each.sheet_state == "visible"
        ]
        title = dataset or (shown or [*sheets])[0]
        chosen = sheets[title]
        chosen.reset_dimensions()  # a stale <dimension> would cut rows and columns
        lines = [
            line.rstrip("\t") for line in tabbed(chosen.iter_rows(values_only=True))
        ]
    # missing cells at the end of a row are empty
    tabs = next((line.count("\t") for line in lines if line), 0)
    lines = [
        line + "\t" * (tabs - line.count("\t")) if line else line for line in lines
    ]
    others = [
        each + " (hidden)" * (each not in shown) for each in sheets if each != title
    ]
    choice = [] if dataset else describe_choice("sheet", title, others)
    try:
        reader = TextReader(path, options, lambda: [lines], separator="\t")
    except InputError as error:
        parts = [message_of(error), *choice]
        raise InputError(Message("; ".join(["{}"] * len(parts)), *parts)) from None
    reader.notes += choice
    return reader


def tabbed(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return cells as lines of text, separated by tabs; tabs and line breaks in cells
    become spaces.
    """

    def cell(value: Any) -> str:
        text = (
            ""
            if value is None
            else str(float(value))
            if isinstance(value, bool)
            else str(value)
        )
        words = " ".join(text.replace('"', "'").split())
        return f" {words}" if words.startswith("#") else words

    return ["\t".join(map(cell, row)) for row in rows]
