"""Mixtures from text files and from pipes: CSV with any separator and header, or raw numbers.

Large chunks of separated values are parsed by pyarrow, if it is installed. Everything else (lines from a pipe, columns
separated by spaces, comments, and any chunk in which pyarrow finds a fault) is parsed line by line, so that an error
names its line and column.
"""

import csv
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import ALL, Columns
from .reader import InputError, Reader, finite_floats, spool

Array = NDArray[Any]
Read = Callable[[int], bytes]

TEXT = (".csv", ".tsv", ".txt", ".dat")
_LONGEST_LINE = 2**26  # bytes
_LONGEST_MIXTURE = 2**30  # bytes of a line that is a mixture (axis=1)
_MOST_COLUMNS = 2**21  # a line of more takes gigabytes of memory to parse
_CHUNK = 2**20
_SEPARATORS = ("\t", ";", ",", "|")
_INDEX_NAMES = ("", "Unnamed: 0", "__index_level_0__")  # what pandas and R call the column of row numbers
_ARROW_BYTES = 2**16  # a smaller chunk is parsed sooner line by line


class BadLine(InputError):
    """A line that is not a sample. `before` holds the rows of the same chunk that precede it."""

    def __init__(self, message: str, before: Array) -> None:
        super().__init__(message)
        self.before = before


class LineParser:
    """Parse chunks of complete lines. The first line determines separator, header and width."""

    def __init__(self, name: str, columns: Columns = ALL) -> None:
        self.name, self.columns = name, columns
        self.line = 0  # lines parsed so far
        self.separator: str | None = None  # None: spaces
        self.width: int | None = None
        self.kept: list[int] = []  # indices of the columns that are mixtures
        self.notes: list[str] = []
        self.header: list[str] | None = None

    def parse(self, chunk: bytes) -> Array:
        """Return the next lines as rows of numbers."""
        block = self._parse_with_arrow(chunk) if len(chunk) >= _ARROW_BYTES else None
        if block is None:
            block = self._parse_lines(self._decode(chunk))
        self.line += chunk.count(b"\n")
        return block

    def _decode(self, chunk: bytes) -> list[str]:
        try:
            text = chunk.decode("utf-8-sig" if self.line == 0 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} is not text in UTF-8 ({error.reason}): save it as CSV in UTF-8") from error
        if "\0" in text:
            raise InputError(f"{self.name} is not text: it contains NUL bytes")
        return text.split("\n")

    def _parse_with_arrow(self, chunk: bytes) -> Array | None:
        """Parse with pyarrow; None if it is not installed or cannot parse every value as a finite number."""
        arrow = _arrow()
        if arrow is None or self.separator is None or self.width is None or b"\n#" in chunk or chunk.startswith(b"#"):
            return None
        names = [str(j) for j in range(self.width)]
        kept = [names[j] for j in self.kept]
        try:
            table = arrow.csv.read_csv(
                arrow.BufferReader(chunk),
                arrow.csv.ReadOptions(use_threads=False, block_size=len(chunk) + 1, column_names=names),
                arrow.csv.ParseOptions(delimiter=self.separator),
                arrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(kept, arrow.float64()), include_columns=kept, null_values=[]
                ),
            )
        except arrow.ArrowInvalid:
            return None
        block = np.stack([column.to_numpy() for column in table.columns], axis=1)
        return block if np.isfinite(block).all() else None

    def _parse_lines(self, lines: list[str]) -> Array:
        rows: list[list[float]] = []
        for number, line in enumerate(lines, self.line + 1):
            if not line or line.isspace() or line.startswith("#"):
                continue
            try:
                if self.width is None and self._start(line):
                    continue
                cells = self._cells(line, self.width or 0)
            except csv.Error as error:
                raise BadLine(
                    f"{self.name}, line {number} is not separated values ({error})", self._block(rows)
                ) from None
            try:
                row = [float(cells[j]) for j in self.kept]
            except (ValueError, IndexError):
                row = [math.nan]
            if len(cells) != self.width or not all(map(math.isfinite, row)):
                raise BadLine(self._fault(number, cells), self._block(rows))
            rows.append(row)
        return self._block(rows)

    def _block(self, rows: list[list[float]]) -> Array:
        return np.array(rows, np.float64).reshape(len(rows), len(self.kept))

    def _fault(self, number: int, cells: list[str]) -> str:
        """Return what is wrong with a line."""
        place = f"{self.name}, line {number}"
        if len(cells) != self.width:
            more = len(self._cells(cells[-1], _MOST_COLUMNS)) - 1 if len(cells) > (self.width or 0) else 0
            count = len(cells) + more if more < _MOST_COLUMNS else f"more than {_MOST_COLUMNS:,}"
            return f"{place} has {count} values where {self.width} are expected: one for each mixture"
        values = [_number(cell) for cell in cells]
        j = next(j for j in self.kept if (value := values[j]) is None or not math.isfinite(value))
        where = f"{place}, column {j + 1}" + (f" ({self.header[j]})" if self.header else "")
        if values[j] is not None:
            return f"{where} is {values[j]}: drop or fill such samples first"
        what = f"{cells[j].strip()[:40]!r} is not a number" if cells[j].strip() else "is empty"
        remedy = f"correct it, remove the line, or leave the column out with --skip {j + 1}"
        if _number(cells[j].replace(",", ".")) is not None:
            remedy = "write decimal points, not commas"
        return f"{where}: {what}: {remedy}"

    def _cells(self, line: str, most: int) -> list[str]:
        """Return the values of a line: all of them, or `most` and one more with the rest of the line."""
        if self.separator is None:
            return line.replace('"', "").split(None, most)
        if '"' in line:
            return next(csv.reader([line], delimiter=self.separator))
        return line.split(self.separator, most)

    def _start(self, line: str) -> bool:
        """Find separator, width and columns in the first line; return whether it is a header."""
        for separator in (*_SEPARATORS, None):
            self.separator = separator
            cells = [cell.strip() for cell in self._cells(line, _MOST_COLUMNS)]
            if len(cells) > 1:
                break
        if len(cells) > _MOST_COLUMNS:
            raise InputError(f"{self.name} has more than {_MOST_COLUMNS:,} columns: save so many as .npy or .h5")
        self.width = len(cells)
        if _are_names(cells):
            self.header = cells
            if all(_number(cell) is not None for cell in cells[1:]) and self.width > 1:
                first = ", ".join(cells[:4])
                self.notes.append(f"{self.name}: the first line ({first}, ...) was taken for names of columns")
        index = [0] if self.header and self.width > 1 and self.header[0] in _INDEX_NAMES else []
        self.kept = self.columns.kept(self.name, self.width, self.header, index)
        if index and 0 not in self.kept:
            self.notes.append(
                f"{self.name}: the first column has no name; it was taken for row numbers and left out (--use reads it)"
            )
        return self.header is not None


@cache
def _arrow() -> Any:
    """Return pyarrow with its CSV module, or None."""
    try:
        import_module("pyarrow.csv")
    except ImportError:
        return None
    return import_module("pyarrow")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _are_names(cells: list[str]) -> bool:
    """Whether the cells of a first line are names of columns: words, or the numbers that pandas writes."""
    values = [_number(cell) for cell in cells]
    if all(value is None for value in values):
        return True
    if len(cells) < 3:
        return False
    if cells[0]:
        return cells == [str(j) for j in range(len(cells))]
    # The first cell is empty: either a sample lacks a number, or the names are numbers (0 1 2, wavelengths) that rise.
    rest = [value for value in values[1:] if value is not None]
    return len(rest) == len(cells) - 1 and all(a < b for a, b in pairwise(rest))


class TextReader(Reader):
    """CSV from a file or a pipe.

    `open_input` returns a context manager whose value is a function `read(n)`. That returns at most n bytes as soon as
    there are any, and b"" at the end.
    """

    def __init__(
        self,
        name: str,
        open_input: Callable[[], AbstractContextManager[Read]],
        *,
        repeatable: bool = True,
        columns: Columns = ALL,
    ) -> None:
        self.name, self._open_input, self.repeatable, self._columns = name, open_input, repeatable, columns

    def _blocks(self) -> Iterator[Array]:
        parser, empty = LineParser(self.name, self._columns), True
        with self._open_input() as read:
            for chunk in _complete_lines(read, self.name):
                fault = None
                try:
                    block = parser.parse(chunk)
                except BadLine as error:  # first hand out the samples before it, however the stream was cut
                    block, fault = error.before, error
                self.n_features, self.kept = len(parser.kept) or None, parser.kept
                self.header, self.notes = parser.header, parser.notes
                if len(block):
                    empty = False
                    yield block
                if fault is not None:
                    raise fault
        if empty:
            raise InputError(f"{self.name} holds no sample: give one line of numbers for each")


def _complete_lines(read: Read, name: str, longest: int = _LONGEST_LINE) -> Iterator[bytes]:
    r"""Yield chunks of complete lines as soon as they arrive; \r\n and \r end a line as \n does."""
    pieces: list[bytes] = []
    waiting, after_return = 0, False
    while data := read(_CHUNK):
        if after_return:
            data = data.removeprefix(b"\n")
        after_return = data.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines, newline, rest = data.rpartition(b"\n")
        if newline:
            yield b"".join([*pieces, lines, newline])
            pieces, waiting = [], 0
        pieces.append(rest)
        waiting += len(rest)
        if waiting > longest:
            raise InputError(
                f"{name} has a line of more than {longest >> 20} MiB: is it text, and are its lines complete?"
            )
    if waiting:
        yield b"".join(pieces)


class RawPipe(Reader):
    """Raw numbers in the byte order of this machine, `columns` to a sample; `read` is as in `TextReader`."""

    repeatable = False

    def __init__(self, name: str, read: Read, columns: int, dtype: str, chosen: Columns = ALL) -> None:
        self.name, self._read, self._width, self._dtype = name, read, columns, np.dtype(dtype)
        self.kept = chosen.kept(name, columns)
        self.n_features = len(self.kept)

    def _blocks(self) -> Iterator[Array]:
        size, rest, seen = self._width * self._dtype.itemsize, b"", 0
        while data := self._read(_CHUNK):
            rest += data
            complete = len(rest) // size * size
            if complete:
                block = np.frombuffer(rest[:complete], self._dtype).reshape(-1, self._width)[:, self.kept]
                rest = rest[complete:]
                yield finite_floats(block, self.name, seen)
                seen += len(block)
        if rest or not seen:
            where = "in the middle of a" if rest else "before the first"
            raise InputError(
                f"{self.name} ended {where} sample of {self._width} {self._dtype} numbers: check --columns and --dtype"
            )


def open_text(path: Path, axis: int, columns: Columns = ALL) -> Reader:
    """Open a text file. With axis=1 every line is a mixture, and the numbers are copied to disk first.

    A named pipe can be read once, with axis=0.
    """
    if axis == 0:
        return TextReader(str(path), lambda: _open_file(path), repeatable=path.is_file(), columns=columns)
    parser = LineParser(str(path))
    reader = spool(str(path), "text", _mixtures(path, parser))
    reader.notes = parser.notes
    return reader.choose(columns)


@contextmanager
def _open_file(path: Path) -> Iterator[Read]:
    with path.open("rb") as file:
        yield file.read


def _mixtures(path: Path, parser: LineParser) -> Iterator[Array]:
    with path.open("rb") as file:
        for lines in _complete_lines(file.read, str(path), _LONGEST_MIXTURE):
            for line in lines.splitlines(keepends=True):
                yield from parser.parse(line)
