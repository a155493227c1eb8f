"""Lines of text as rows of numbers."""

import csv
import math
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import ALL, Columns, is_index
from .source import InputError

__all__ = ["BadLine", "LineParser"]

Array = NDArray[Any]

_SEPARATORS = ("\t", ";", ",", "|")


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


class BadLine(InputError):
    """A line that is no sample; `before` holds the rows that came with it, up to it."""

    def __init__(self, message: str, before: Array | None) -> None:
        super().__init__(message)
        self.before = before


class LineParser:
    """Lines of text to rows of numbers; the first line decides separator, header and width.

    Examples
    --------
    >>> parser = LineParser("x.csv")
    >>> parser.parse(["a b", "1 2", "", "3 4"])
    array([[1., 2.],
           [3., 4.]])
    >>> parser.header
    ['a', 'b']
    >>> parser.parse(["5 6 7"])
    Traceback (most recent call last):
    bionica.io.lines.BadLine: x.csv, line 5 has 3 values where 2 are expected: every line must hold one number ...
    """

    def __init__(self, name: str, columns: Columns = ALL) -> None:
        self.name, self.line, self.columns = name, 0, columns
        self.separator: str | None = None
        self.width: int | None = None
        self.kept: list[int] = []  # columns that are mixtures
        self.notes: list[str] = []
        self.header: list[str] | None = None
        self._header_after: int | None = None  # lines before the block that has the header

    def cells(self, line: str) -> list[str]:
        """Split a line."""
        if self.separator is None:
            return line.split()
        return [cell.strip() for cell in next(csv.reader([line], delimiter=self.separator))]

    def _start(self, line: str) -> None:
        """Learn from the first line."""
        for separator in (*_SEPARATORS, None):
            self.separator = separator
            if len(self.cells(line)) > 1:
                break
        cells = self.cells(line)
        self.width = len(cells)
        if _are_names(cells):
            self.header, self._header_after = cells, self.line
            if all(_number(cell) is not None for cell in cells[1:]) and self.width > 1:
                self.notes.append(
                    f"{self.name}: the first line ({', '.join(cells[:4])}, ...) was taken for names of columns"
                )
        index = [0] if self.header and self.width > 1 and is_index(self.header[0]) else []
        self.kept = self.columns.kept(self.name, self.width, self.header, index)
        if index and 0 not in self.kept:
            self.notes.append(
                f"{self.name}: the first column has no name; it was taken for row numbers and left out (--use reads it)"
            )

    def rows(self, lines: list[str]) -> list[tuple[int, str]]:
        """Return the next lines that hold data, with their numbers."""
        kept = [
            (number, line)
            for number, line in enumerate(lines, self.line + 1)
            if line and not line.isspace() and not line.startswith("#")
        ]
        if kept and self.width is None:
            self._start(kept[0][1])
        return kept[1:] if self._header_after == self.line else kept

    def skip(self, lines: list[str]) -> None:
        """Count the next lines without reading them."""
        self.line += len(lines)

    def parse(self, lines: list[str], drop: int = 0) -> Array:
        """Return the next lines as rows of numbers, less the first `drop` of them."""
        rows = self.rows(lines)[drop:]
        self.skip(lines)
        if not rows:
            return np.empty((0, len(self.kept)))
        block = self._numbers(rows)
        if block is not None:
            return block
        good = 0
        while good < len(rows) and self._fault(*rows[good]) is None:
            good += 1
        if good == len(rows):
            raise InputError(f"{self.name}, lines {rows[0][0]} to {rows[-1][0]} are not {self.width} numbers a line")
        message = self._fault(*rows[good])
        assert message is not None
        raise BadLine(message, self._numbers(rows[:good]) if good else None)

    def _numbers(self, rows: list[tuple[int, str]]) -> Array | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                text = [line for _, line in rows]
                block = np.loadtxt(
                    text, delimiter=self.separator, ndmin=2, comments=None, quotechar='"', converters=self._converters()
                )
        except (ValueError, Warning):
            return None
        if block.shape != (len(rows), self.width):
            return None
        if len(self.kept) != self.width:
            block = np.ascontiguousarray(block[:, self.kept])
        return block if np.isfinite(block).all() else None

    def _converters(self) -> dict[int | str, Callable[[str], float]] | None:
        """Columns that are left out may hold anything; that they are there is checked all the same."""
        assert self.width is not None
        return {j: lambda _: 0.0 for j in set(range(self.width)) - set(self.kept)} or None

    def _fault(self, number: int, line: str) -> str | None:
        """Return what is wrong with a line, if anything is."""
        cells = self.cells(line)
        if len(cells) != self.width:
            return (
                f"{self.name}, line {number} has {len(cells)} values where {self.width} are expected: every line must "
                "hold one number for each mixture"
            )
        for column, cell in ((j + 1, cells[j]) for j in self.kept):
            value = _number(cell)
            where = f"{self.name}, line {number}, column {column}"
            if self.header:
                where += f" ({self.header[column - 1]})"
            if value is None:
                what = f"{cell[:40]!r} is not a number" if cell else "is empty"
                hint = "write decimal points, not commas" if _number(cell.replace(",", ".")) is not None else ""
                other = f"correct it, remove the line, or leave the column out with --skip {column}"
                return f"{where}: {what}: {hint or other}"
            if not math.isfinite(value):
                return f"{where} is {value}: drop or fill such samples first"
        return None


def _are_names(cells: list[str]) -> bool:
    """Whether the cells of a first line name columns: words, or pandas's numbers.

    Examples
    --------
    >>> _are_names(["red", "blue"]), _are_names(["", "0", "1"]), _are_names(["0", "1", "2"]), _are_names(["", "400", "410"])
    (True, True, True, True)
    >>> _are_names(["1", "2", "3"]), _are_names(["", "7", "2"]), _are_names(["time", "1"])
    (False, False, False)
    """
    values = [_number(cell) for cell in cells]
    if all(value is None for value in values):
        return True
    if len(cells) < 3:
        return False
    if cells[0]:
        return cells == [str(j) for j in range(len(cells))]
    # A number is missing in a sample, or names are numbers (0 1 2, wavelengths): then they rise.
    rest = [value for value in values[1:] if value is not None]
    return len(rest) == len(cells) - 1 and all(a < b for a, b in pairwise(rest))
