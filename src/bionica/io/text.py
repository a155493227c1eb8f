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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, dropwhile, product
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, Message, printable
from bionica.io.columns import (
    CHANNEL_NAMES,
    ROW_NAMES,
    SAMPLE_NAMES,
    Array,
    is_monotonic,
    label_columns,
    wavelengths_in,
)
from bionica.io.reader import Labels, Reader, ReadOptions, check_size

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
_COMMENT = re.compile(r'#|"?sep=', re.IGNORECASE)  # the latter is what Excel writes
#: A letter, a clock time or a date. The e of a number has digits before and behind it.
_WORD = re.compile(r"[^\W\deE]|:|\d[-/]\d|(?<![\d.])[eE]|[eE](?![-+\d])")
# the latter of 1,5 2,5 cut at its commas
_DECIMAL_COMMA = re.compile(r"[-+]?\d*,\d+([eE][-+]?\d+)?|\d+[\s|]+[-+]?\d+")


def cells_of(line: str, separator: str | None, most: int = -1) -> list[str]:
    """Return the values of a line, or at least the first `most`.

    None if the line has a stray quote.
    """
    cells = line.split(separator, most)
    if '"' in line:
        line = line if separator else " ".join(line.split())
        try:
            cells = next(csv.reader([line], delimiter=separator or " ", strict=True))
        except csv.Error:
            cells = []
    return [cell.strip() for cell in cells]


def tabbed(rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return cells as lines of text, separated by tabs.

    Tabs and line breaks in cells become spaces.
    """

    def text_of(cell: Any) -> str:
        if cell is None:
            return ""
        text = str(float(cell) if isinstance(cell, bool) else cell)
        words = " ".join(text.replace('"', "'").split())
        return f" {words}" if words.startswith("#") else words

    return ["\t".join(map(text_of, row)) for row in rows]


def _count(cells: Sequence[str]) -> str:
    return f"{len(cells)} values" if cells else "a stray quote"


def _equal_from(rows: Sequence[Sequence[str]]) -> int:
    """Return the index of the first of the last rows that have one width."""
    others = [i for i, row in enumerate(rows, 1) if len(row) != len(rows[-1])]
    return max(others, default=0)


def judge_first_line(lines: Sequence[Sequence[float]], decimals: Sequence[int]) -> str:
    """Return what the first of several lines of numbers is, by the rule of this module.

    That is "names", "asked" or "sample". `decimals` is the largest number of decimals
    that are written in each line.

    Examples
    --------
    >>> judge_first_line([[400, 402, 404], [0.2, 0.5, 0.3], [0.1, 0.4, 0.2]], [0, 1, 1])
    'asked'
    >>> judge_first_line([[0.3, 0.1], [0.2, 0.3], [0.4, 0.1], [0.1, 0.2]], [1, 1, 1, 1])
    'sample'
    """
    first, *below = np.array(lines, float)
    n, k = len(below), len(first)
    order, *orders = map(_order, (first, *below))
    integers = not decimals[0]
    numbered = integers and (first == np.arange(k)).all()
    axis = k >= _AXIS and order and not any(orders)
    if (numbered and k > 2) or (axis and (n > 2 or order == 2)):
        return "names"
    even = order == 2 > max(orders)
    size = np.abs(first)
    sizes = np.abs(below)
    apart = size.min() > _APART * sizes.max() or _APART * size.max() < sizes.min()
    n_distinct = len({*first})
    # replicates have equal names
    unlike = n > 1 and (even or (apart and n_distinct > 1))
    above_decimals = n_distinct == k and integers and all(decimals[1:])
    return "asked" if numbered or axis or unlike or above_decimals else "sample"


def _order(line: Array) -> int:
    """Return 2 for numbers that rise or fall in two or more equal steps.

    1 if they do in others, else 0.
    """
    if not is_monotonic(line):
        return 0
    steps = np.diff(line)
    even = len(steps) > 1 and np.ptp(steps) <= _EVEN * abs(steps.mean())
    return 2 if even else 1


def _decoder(encoding: str) -> io.IncrementalNewlineDecoder:
    decoder = codecs.getincrementaldecoder(encoding)()
    return io.IncrementalNewlineDecoder(decoder, translate=True)


def read_lines(
    name: str,
    open_stream: Callable[[], Any],
    encoding: str | None,
    note: Callable[[str], None],
) -> Iterator[list[str]]:
    r"""Yield lists of complete lines as soon as they arrive.

    \r\n and \r end a line as \n does. Text is in UTF-8, or, if that is not possible
    from the first byte on that is not ASCII, in cp1252, of which there is a `note`.
    """
    decoder = _decoder(encoding or "utf-8-sig")
    rest = ""
    data = b"more"
    is_ascii = not encoding  # until a byte is not: the encoding is open
    with open_stream() as stream:
        while data:
            data = getattr(stream, "read1", stream.read)(_CHUNK)
            if is_ascii and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                decoder = _decoder("utf-16")  # as Excel writes "Unicode text"
            text = "\0"
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                if is_ascii:
                    decoder = _decoder("cp1252")
                    note(
                        "its text is not UTF-8, and was read as Windows-1252 "
                        "({encoding:=} reads another)"
                    )
                    with suppress(UnicodeDecodeError):
                        text = decoder.decode(data)
            if "\0" in text:
                template = (
                    "{} is not text in {}: pass another {encoding:=}, or save it as "
                    "UTF-8 (in Excel as CSV UTF-8)"
                )
                raise InputError(Message(template, name, encoding or "UTF-8"))
            is_ascii = is_ascii and data.isascii()
            *lines, rest = (rest + text).split("\n")
            yield lines
            # cells take ten times its memory
            check_size(f"a line of {name}", 10 * len(rest), "save it as .npy")
    yield [rest] if rest else []


class TextReader(Reader):
    """Separated values, a line for each sample.

    `options.axis` and `header`, `decimal`, `separator` and lines before the table are
    shown by the first lines if they are not given, and notes say what was found.
    `open_lines` returns lists of lines, by default those of the file. `pipe` opens a
    stream that is read once, as it arrives.
    """

    _transposed = False  # the lines are columns of the file
    _labelled = False  # and begin with a label, because the file has a header
    _row_lines: Sequence[int] = ()  # the lines of the file that hold them
    _counted: Sequence[int] = ()  # labels that are numbers
    _first_line = 0  # of the samples
    _width = 0  # number of cells of a line; 0 until the layout is known
    _header_line = ""

    def __init__(
        self,
        path: Path,
        options: ReadOptions,
        open_lines: Callable[[], Iterable[list[str]]] | None = None,
        *,
        separator: str | None = None,
        pipe: Callable[[], Any] | None = None,
    ) -> None:
        super().__init__(str(path), options)
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
            read_lines, self.name, stream, encoding, self.note
        )
        self._pipe = pipe is not None
        self._n_head = _HEAD
        if pipe:
            self._n_head = 1 if options.header is False else _FIRST + 1
        self._given_header = options.header
        self._skip_lines = options.skip_lines
        self._decimals = options.decimal or ".,"
        self.decimal = self._decimals[0]
        # in sheets it is
        self._is_point_known = bool(options.decimal or separator)
        self._separators: Sequence[str | None] = _SEPARATORS
        if separator:
            self._separators = (separator,)
        self._separator = separator
        if not pipe:
            next(self._chunks(), None)
            if self.axis:
                self._transpose()
            next(self.labelled_blocks())  # an error in the first lines is raised now

    def _chunks(self) -> Iterator[list[tuple[int, str]]]:
        """Yield the lines of samples, with their numbers, as they arrive."""
        pending = []
        n_before = 0  # lines before those that wait
        last = 0  # number of the last sample's line
        for lines in chain(self._open_lines(), [None]):
            pending += lines or []
            if not self._width:
                self._find_layout(pending, last=lines is None)
            if not self._width:
                continue
            rows = [
                (i, line)
                for i, line in enumerate(pending, n_before + 1)
                if i >= self._first_line and line.strip()
            ]
            if rows:
                before = last or rows[0][0] - 1
                last = rows[-1][0]
                if last - before > len(rows):
                    self.note(
                        "it has empty lines between samples: its parts were read as one"
                        " table"
                    )
            yield rows
            n_before += len(pending)
            pending = []

    def parts(self) -> Iterator[tuple[Array, Labels]]:
        """Yield the samples as they arrive; a cell that is not a number is NaN."""
        for chunk in filter(None, self._chunks()):
            self._chunk = chunk
            rows = [line for _, line in chunk]
            if not self._is_point_known and any("." in row for row in rows):
                self._check_points(rows)
            block = self._mixtures(rows)
            if self.wavelengths is not None and self._header_line in rows:
                block[rows.index(self._header_line)] = nan
            yield block, self._labels(rows)

    def _mixtures(self, rows: list[str]) -> Array:
        """Return the numbers of lines; NaN where there is none."""
        separator = self._separator
        block = np.full((len(rows), self.n_features), nan)
        are_equal = {len(line.split(separator)) for line in rows} == {self._width}
        if are_equal and not any('"' in line for line in rows):
            points = rows
            if self.decimal == ",":
                # then a point is not part of a number
                points = [row.replace(".", "?").replace(",", ".") for row in rows]
            with suppress(ValueError):
                block = np.loadtxt(
                    points,
                    delimiter=separator,
                    comments=None,
                    usecols=self.columns,
                    ndmin=2,
                )
        # all of them if NumPy cannot read one
        for i in np.flatnonzero(~np.isfinite(block).all(axis=1)):
            cells = cells_of(rows[i], separator)
            if len(cells) == self._width:
                block[i] = self._floats(cells[j] for j in self.columns)
        return block

    def _labels(self, rows: list[str]) -> Labels:
        """Return what the label columns hold; note words among numbers once."""
        if not self.labels:
            return []
        most = max(self.labels) + 1
        table = [cells_of(line, self._separator, most) + [""] * most for line in rows]
        labels = [
            np.array([printable(self._point(cells[j])) for cells in table], str)
            for j in self.labels
        ]
        counted = [cell for i in self._counted for cell in labels[i]]
        words = [cell for cell in counted if self._kind(cell) == "text"]
        if words:
            self._counted = []  # one note
            self.note(
                "beside labels that are numbers there are words ({}): samples too",
                ", ".join(words[:3]),
            )
        return labels

    # --- the first lines

    def _find_layout(self, lines: list[str], *, last: bool) -> None:
        """Find separator, header and columns, if there are lines enough."""
        table = [
            (i, line)
            for i, line in enumerate(lines, 1)
            if i > self._skip_lines and line.strip()
        ]
        numbered = [*dropwhile(lambda pair: _COMMENT.match(pair[1]), table)]
        if not numbered or (len(numbered) < self._n_head and not last):
            return
        start, rows = self._split(numbered)
        header = self._given_header
        if header is None:
            header = self._is_header(rows)
        names = [*map(self._point, rows[0])] if header else []
        self.header = names or None
        self._width = len(rows[0])
        first_line, self._header_line = numbered[start]
        self._first_line = first_line + header
        self._note_left_out(table, numbered, first_line)
        self._decimals = self.decimal
        samples = rows[header:]
        below = numbered[start + 1 : self._n_head if self._pipe else None]
        reasons, doubtful = self._find_labels(names, below, samples)
        self.axis = 1 if self._transposed else self._find_axis(samples)
        if self.axis > self._transposed:
            # the columns are chosen after the table is transposed
            if 0 in reasons or (names and CHANNEL_NAMES.fullmatch(names[0].strip())):
                self._given_header = True
            return
        if self._width == 1 and reasons:
            raise InputError(
                f"{self.name} has no numbers between tabs, semicolons, commas, bars or"
                " spaces"
            )
        self.choose(self._width, reasons, doubtful)
        self._note_doubts(rows)
        self._counted = [
            i
            for i, j in enumerate(self.labels)
            if any(self._number(row[j]) is not None for row in samples)
        ]
        if self._labelled and self.labels[:1] == [0]:
            # the corner may name the rows of the file
            self.label_names = ["sample", *self.label_names[1:]]

    def _note_left_out(
        self,
        table: list[tuple[int, str]],
        numbered: list[tuple[int, str]],
        first_line: int,
    ) -> None:
        """Say which lines before the table were left out, and what the point is."""
        number, line = numbered[0]
        if table[0] != numbered[0]:
            self.note(
                "the first lines, which are comments ({}), were left out",
                table[0][1][:40],
            )
        if number != first_line:
            self.note(
                "lines {} to {} ({}, ...) are not lines of the table, and were left"
                " out",
                number,
                first_line - 1,
                line[:40],
            )
        if self.decimal not in (self._decimals, "."):
            self.note(
                "its numbers have decimal commas, and are written so ({decimal:=}"
                " decides)"
            )

    def _find_labels(
        self,
        names: list[str],
        numbered: Sequence[tuple[int, str]],
        samples: list[list[str]],
    ) -> tuple[dict[int, str], list[int]]:
        """Return which columns are labels, and why, and which only have such a name."""

        def values(j: int) -> list[float]:
            rows = [cells_of(line, self._separator, j + 1) for _, line in numbered]
            return self._floats(row[j] for row in rows if j < len(row))

        labels, doubtful = label_columns(names, values)
        reasons = {j: names[j] or "no name" for j in labels}
        for j in range(self._width):
            cells = [row[j] for row in samples if j < len(row)]
            if self._is_text(*cells):
                reasons.setdefault(j, f"text: {', '.join(cells[:2])[:40]}, ...")
            elif j < self._labelled:
                reasons.setdefault(j, "names")
            elif cells and not names and not any(cells):
                reasons[j] = "empty"
        return reasons, [j for j in doubtful if j not in reasons]

    def _check_points(self, rows: list[str]) -> None:
        """Raise if points may be those of thousands.

        That is if all stand before three digits, in a column with integers.
        """
        self._is_point_known = any(map(_FRACTION.search, rows))
        if self._is_point_known:
            return
        table = [cells_of(row, self._separator) for row in rows]
        for column in zip(*table, strict=False):
            has_integers = any(cell.isdecimal() and cell != "0" for cell in column)
            for cell in column if has_integers else ():
                if "." in cell and self._number(cell) is not None:
                    template = (
                        "{}: {} may be {}: pass {decimal:='.'}, or remove the points if"
                        " they are marks of thousands"
                    )
                    integer = cell.replace(".", "")
                    raise InputError(Message(template, self.name, cell, integer))

    def _note_doubts(self, rows: list[list[str]]) -> None:
        """Say which lines and columns were read, and may be something else."""
        samples = [row for row in rows[bool(self.header) :] if len(row) == self._width]
        shown = (*self.columns[: _HEAD - 1], self.columns[-1])
        columns = [[row[j] for row in samples] for j in shown]
        line, other = ("column", "line") if self._transposed else ("line", "column")
        if self.header and self._judge(np.transpose(columns)) != "sample":
            after = ", ".join([column[0] for column in columns][:4])
            template = "the {} after the names ({}, ...) was read as a sample"
            if not self._transposed:
                template += " ({skip_lines:={}}: as names)"
            self.note(template, line, after, self._first_line - 1)
        if self._given_header is None and not self.header:
            template = (
                "it has no names: the first {} ({}, ...) was read as a sample "
                "({header:=True}: as names)"
            )
            if not self._transposed and self.columns[0] == 0:
                template += (
                    ", the first {} ({}, ...) as a mixture ({skip:='1'} omits it, "
                    "{axis:=1}: a sample)"
                )
            row, column = (", ".join(cells[:4]) for cells in (rows[0], columns[0]))
            self.note(template, line, row, other, column)
        elif self.wavelengths is None and self.n_features > 2 and not self._transposed:
            edges = {0: columns, -1: columns[::-1]}
            self.note_unlike(
                [j for j, table in edges.items() if self._is_unlike(table)]
            )

    def _is_unlike(self, columns: list[list[str]]) -> bool:
        """Whether the first of these columns may not be a mixture.

        By `judge_first_line`, or because it has integers beside decimals.
        """
        decimals = [any(map(self._n_decimals, column)) for column in columns]
        has_integers = len({*columns[0]}) > 1 and not decimals[0]
        return (has_integers and all(decimals[1:])) or self._judge(columns) != "sample"

    def _split(
        self, numbered: Sequence[tuple[int, str]]
    ) -> tuple[int, list[list[str]]]:
        """Find decimal point, separator and the first line of the table.

        It is looked for in the first lines, and then, of a file, in 100. Return the
        index of this line, and the first rows of cells. If no reading is consistent,
        columns may hold words among numbers, which are errors that name the cell.
        """
        n = self._n_head
        heads = (numbered[:n], numbered[: n if self._pipe else _PREAMBLE])
        for words, lines, decimal, separator in product(
            (False, True), heads, self._decimals, self._separators
        ):
            self.decimal = decimal
            self._separator = separator
            rows = self._cells(lines)
            start = self._table_start(rows, words)
            if start is not None and decimal != separator:
                return start, rows[start : start + n]
        return 0, self._split_evenly(heads[0])

    def _split_evenly(self, numbered: Sequence[tuple[int, str]]) -> list[list[str]]:
        """Return the cells by the first separator that gives each line as many.

        Other errors are found later.
        """
        self.decimal = self._decimals[0]

        def regularity(separator: str | None) -> int:
            widths = [len(cells_of(line, separator)) for _, line in numbered]
            if widths[-1] < 2 or separator == self.decimal:
                return 0
            return 2 if len({*widths}) == 1 else 1

        # the first, if several: a tab in one column
        self._separator = max(self._separators, key=regularity)
        rows = self._cells(numbered)
        start = _equal_from(rows)
        is_uneven = len(rows[0]) != len(rows[-1]) > 1 and len(rows) - start > 1
        if not rows[0] or is_uneven:
            number, line = numbered[0]
            template = (
                "{}: line {} ({!r}) has {}, line {} {}: if the table begins there, pass"
                " {skip_lines:={}}"
            )
            begin = numbered[start][0]
            counts = (_count(rows[0]), begin, _count(rows[-1]), begin - 1)
            raise InputError(Message(template, self.name, number, line[:40], *counts))
        return rows

    def _cells(self, numbered: Sequence[tuple[int, str]]) -> list[list[str]]:
        return [
            [*map(printable, cells_of(line, self._separator))] for _, line in numbered
        ]

    def _table_start(self, rows: list[list[str]], words: bool) -> int | None:
        """Return the index of the first of the last rows that have one width.

        None if these are not a table. Below the first row, which may hold names, all
        cells of a column are numbers or all are words, but for missing ones; or more
        than half of them are numbers, if `words` may be among them. Rows before the
        table hold a word. Commas before three digits may be those of thousands.
        """
        start = _equal_from(rows)
        below = rows[start + 1 :]
        kinds = []
        for column in zip(*(below or rows[start:]), strict=True):
            cells = [*map(self._kind, column)]
            mostly_numbers = words and 2 * cells.count("number") > len(cells)
            kinds.append({"number"} if mostly_numbers else {*cells} - {"missing"})
        is_consistent = all(len(kind) < 2 and "" not in kind for kind in kinds)
        if len(kinds) < 2 or {"number"} not in kinds or not is_consistent:
            return None
        has_words = all("text" in map(self._kind, row) for row in rows[:start])
        if start and (len(below) < 2 or not has_words):
            return None
        commas = [cell for row in below for cell in row if "," in cell]
        if self.decimal != self._decimals[0] and all(map(_THOUSANDS.fullmatch, commas)):
            return None
        return start

    def _kind(self, cell: str) -> str:
        """Return whether a cell is a number, text or missing.

        "" if it is a damaged number.
        """
        if cell.lower() in _MISSING:
            return "missing"
        if self._number(cell) is not None:
            return "number"
        return "text" if _WORD.search(cell) else ""

    def _is_header(self, rows: list[list[str]]) -> bool:
        """Whether the first of these rows of cells holds names.

        InputError if it cannot be known.
        """
        table = [row[self._labelled :] for row in rows if len(row) == len(rows[0])]
        cells = table[0]
        columns = np.transpose(table)
        are_numbers = [self._number(cell) is not None for cell in cells]
        if not any(are_numbers):
            return True
        verdict = self._judge(columns[are_numbers].T)
        if verdict != "names":
            verdict = self._judge_captions(columns, verdict)
        line = "column" if self._transposed else "line"
        dots = ", ..." if len(cells) > 4 else ""
        shown = f"the first {line} ({', '.join(cells[:4])}{dots})"
        if verdict == "asked":
            template = (
                "{}: {} may hold names, or a sample: pass {header:=True} or "
                "{header:=False}"
            )
            raise InputError(Message(template, self.name, shown))
        if verdict == "names":
            self.note("{} was read as names ({header:=False}: a sample)", shown)
        return verdict == "names"

    def _judge_captions(self, columns: Array, verdict: str) -> str:
        """Return what the first line is by its words, or by a corner without a name.

        It also holds numbers, which are judged by `verdict`.
        """
        tops = columns[:, 0].tolist()
        first = [number for number in map(self._number, tops) if number is not None]
        captions = []
        for top, *below in columns.tolist():
            if self._is_text(*below):
                is_caption = bool(ROW_NAMES.fullmatch(top))
            else:
                is_caption = bool(below) and self._number(top) is None
            if is_caption:
                captions.append(top)
        rises = is_monotonic(np.array(first, float))
        # a word over numbers, or "name" over words
        if any(map(self._is_text, captions)):
            return "names" if rises else "asked"
        # a corner without a name, or a missing number
        if "" in tops and rises:
            is_named = "" not in captions or first == [*range(len(first))]
            return "names" if is_named else "asked"
        return verdict

    def _judge(self, rows: Array | list[list[str]]) -> str:
        """Return what the first of these rows of cells is: `judge_first_line`.

        A missing number is the median of its column.
        """
        if len(rows) < 2:
            return "sample"
        numbers = np.array([self._floats(row) for row in rows])
        finite = np.isfinite(numbers)
        lines = np.flatnonzero(finite.any(axis=1)).tolist()
        if len(lines) < 2 or not finite[0].all():
            return "sample"
        table = numbers[lines][:, finite[1:].any(axis=0)]
        table = np.where(np.isfinite(table), table, np.nanmedian(table[1:], axis=0))
        decimals = [max(map(self._n_decimals, rows[i])) for i in lines]
        return judge_first_line(table.tolist(), decimals)

    def _find_axis(self, samples: list[list[str]]) -> int:
        """Return the axis of the samples.

        1 if the first column holds the wavelengths of the rows.
        """
        given = self.options.axis
        if given is not None or self._pipe or self._width < 2:
            return given or 0
        name, *others = map(str.strip, self.header or [""] * self._width)
        if CHANNEL_NAMES.fullmatch(name):
            self.note(
                "its rows are mixtures: its first column is {!r} ({axis:=0}: its"
                " columns)",
                name,
            )
            return 1
        if len(others) > 1 and all(map(SAMPLE_NAMES.fullmatch, others)):
            template = (
                "{}: the columns are named as samples are ({}, ...): pass {axis:=1} if"
                " a column is a sample, {axis:=0} if a row is one"
            )
            raise InputError(Message(template, self.name, ", ".join(others[:3])))
        columns = [[*map(self._point, cells)] for cells in zip(*samples, strict=False)]
        axes = [wavelengths_in(column)[0] for column in columns]
        if self._may_be_axis(name, others, axes, len(samples)):
            template = (
                "{}: the first column ({}, ...) {}: pass {axis:=1} if it holds"
                " wavelengths, {axis:=0} if it holds times"
            )
            called = f"is called {name!r}" if name else "has no name"
            first = ", ".join(columns[0][:3])
            raise InputError(Message(template, self.name, first, called))
        return 0

    def _may_be_axis(
        self, name: str, others: list[str], axes: list[Array | None], n_samples: int
    ) -> bool:
        """Whether the first column may hold the wavelengths of the rows.

        `axes` are the columns as numbers that rise or fall, `others` their names but
        for the first.
        """
        if not axes or axes[0] is None:
            return False
        numbers, unit = wavelengths_in(others)
        if self.header and not name:
            # "nm" says that the columns are mixtures
            return not (unit and CHANNEL_NAMES.fullmatch(unit))
        # no names, or another word, over the only column of equal steps
        if numbers is not None or ROW_NAMES.fullmatch(name) or n_samples < _AXIS:
            return False
        even = [axis is not None and _order(axis) == 2 for axis in axes]
        return even[0] and not any(even[1:])

    def _transpose(self) -> None:
        """Read the columns of the file as lines.

        The first column may hold names, or the wavelengths of the mixtures.
        """
        first = self._first_line - bool(self.header)
        numbered = [*enumerate(chain.from_iterable(self._open_lines()), 1)][first - 1 :]
        n_bytes = sum(len(line) for _, line in numbered)
        check_size(self.name, n_bytes, "save it as .npy or .h5")
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
        self._separators = ("\t",)
        self._skip_lines = 0
        self._transposed = True
        self._labelled = bool(self.header)
        self._width = 0

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

    def _floats(self, cells: Iterable[str]) -> list[float]:
        """Return cells as numbers, or NaN."""
        numbers = map(self._number, cells)
        return [nan if number is None else number for number in numbers]

    def _n_decimals(self, cell: str) -> int:
        return len(cell.lower().partition("e")[0].partition(self.decimal)[2])

    def _is_text(self, *cells: str) -> bool:
        """Whether these cells are words, but for missing ones.

        <0.1, $10 and 1.234,5 are damaged numbers.
        """
        return {*map(self._kind, cells)} - {"missing"} == {"text"}

    def _point(self, cell: str) -> str:
        """Return a cell with a decimal point if it is a number."""
        return cell if self._number(cell) is None else cell.replace(self.decimal, ".")

    # --- what is wrong

    def is_missing(self, block: Array) -> Array:
        """Which cells are empty, or say that they hold no number."""
        missing = np.isnan(block)
        for i in np.flatnonzero(missing.any(axis=1)):
            cells = cells_of(self._chunk[i][1], self._separator)
            missing[i] &= [
                len(cells) == self._width and cells[j].lower() in _MISSING
                for j in self.columns
            ]
        return missing

    def explain(self, n_before: int, i: int, j: int, value: float) -> tuple[str, str]:
        """Return what is wrong with a cell of the last block, and a remedy."""
        number, line = self._chunk[i]
        column = self.columns[j]
        cells = cells_of(line, self._separator)
        where = f"{self.name}, line {number}"
        if len(cells) != self._width:
            where += f" has {_count(cells)} where {self._width} are expected"
            return where, "correct it, or remove the line"
        if line == self._header_line:
            kind = "column" if self._transposed else "line"
            return f"{self.name}, {kind} {number} repeats the names", "remove it"
        where += f", {self.column(j)}"
        if self._transposed:
            where = f"{self.name}, line {self._row_lines[column]}, column {number}"
            if self._labelled and self.header:
                where += f" ({cells[0]}, {self.names[j]})"
        _, remedy = super().explain(n_before, i, j, value)
        remedy = self._remedy(number, cells, cells[column]) or remedy
        return f"{where}: {cells[column][:40]!r} is not a finite number", remedy

    def _remedy(self, number: int, cells: list[str], cell: str) -> str:
        """Return what to do about a cell of a line; "" if nothing special is known."""
        is_first = number == self._first_line
        has_words = self._is_text(*(cells[j] for j in self.columns))
        if "." in cell and (self.decimal == "," or "," in cell):
            return Message(
                "remove the marks of thousands; {decimal:=} says which mark begins the "
                "decimals"
            )
        if is_first and self.header and has_words:
            return "if this line holds units, remove it"
        if _DECIMAL_COMMA.fullmatch(cell):
            return Message("if it has a decimal comma, pass {decimal:=','}")
        if is_first and not self.header and cell.lower() not in _MISSING:
            return Message(
                "if the first line holds names or wavelengths, pass {header:=True}"
            )
        return ""
