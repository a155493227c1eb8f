"""Mixtures as text, and from a pipe: CSV whose separator and header are found out, or raw numbers."""

import csv
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .source import InputError, MatrixReader, Reader, floats

__all__ = ["TEXT", "LineParser", "RawPipe", "TextReader", "open_text"]

Array = NDArray[Any]
Read = Callable[[int], bytes]

TEXT = (".csv", ".tsv", ".txt", ".dat")
_SEPARATORS = ("\t", ";", ",", "|")
_LONGEST = 2**26  # bytes of a line
_CHUNK = 2**20


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
    bionica.io.text.BadLine: x.csv, line 5 has 3 values where 2 are expected: every line must hold one number ...
    """

    def __init__(self, name: str) -> None:
        self.name, self.line = name, 0
        self.separator: str | None = None
        self.width: int | None = None
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
        if all(_number(cell) is None for cell in cells):
            self.header, self._header_after = cells, self.line

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
            return np.empty((0, self.width or 0))
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
                block = np.loadtxt(text, delimiter=self.separator, ndmin=2, comments=None, quotechar='"')
        except (ValueError, Warning):
            return None
        return block if block.shape == (len(rows), self.width) and np.isfinite(block).all() else None

    def _fault(self, number: int, line: str) -> str | None:
        """Return what is wrong with a line, if anything is."""
        cells = self.cells(line)
        if len(cells) != self.width:
            return (
                f"{self.name}, line {number} has {len(cells)} values where {self.width} are expected: every line must "
                "hold one number for each mixture"
            )
        for column, cell in enumerate(cells, 1):
            value = _number(cell)
            where = f"{self.name}, line {number}, column {column}"
            if self.header:
                where += f" ({self.header[column - 1]})"
            if value is None:
                what = f"{cell[:40]!r} is not a number" if cell else "is empty"
                hint = "write decimal points, not commas" if _number(cell.replace(",", ".")) is not None else ""
                return f"{where}: {what}: {hint or 'correct it, or remove the line or the column'}"
            if not math.isfinite(value):
                return f"{where} is {value}: drop or fill such samples first"
        return None


def _lines(read: Read, name: str, longest: int = _LONGEST, chunk: int = _CHUNK) -> Iterator[list[str]]:
    """Yield the complete lines that have come, as soon as they come."""
    rest = b""
    first = True
    while True:
        data = read(chunk)
        if not data:
            break
        *whole, rest = (rest + data).split(b"\n")
        if len(rest) > longest:
            raise InputError(f"{name} has a line of more than {longest >> 20} MiB: is it text, with one sample a line?")
        if whole:
            yield _decoded(whole, name, first)
            first = False
    if rest:
        yield _decoded([rest], name, first)


def _decoded(lines: list[bytes], name: str, first: bool) -> list[str]:
    try:
        text = b"\n".join(lines).decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} is not text in UTF-8 ({error.reason}): save it as CSV in UTF-8") from error
    if "\0" in text:
        raise InputError(f"{name} is not text: it holds zero bytes")
    return [line.rstrip("\r") for line in text.split("\n")]


class TextReader(Reader):
    r"""CSV from a file or a pipe.

    Parameters
    ----------
    name : str
        For messages.
    opened : callable
        Returns a context whose value is a function `read(n)`: at most n bytes as soon as there are any, b"" at the end.
    repeatable : bool, default=True
        Whether `opened` may be called again.

    Examples
    --------
    >>> import io, contextlib
    >>> reader = TextReader("pipe", lambda: contextlib.nullcontext(io.BytesIO(b"1,2\n3,4\n").read))
    >>> next(reader.blocks(start=1))
    array([[3., 4.]])
    """

    def __init__(
        self, name: str, opened: Callable[[], AbstractContextManager[Read]], *, repeatable: bool = True
    ) -> None:
        self.name, self._opened, self.repeatable = name, opened, repeatable
        self.header: list[str] | None = None

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from number `start` on, those that have come so far at a time."""
        parser, seen = LineParser(self.name), 0
        with self._opened() as read:
            for lines in _lines(read, self.name):
                n, drop = len(parser.rows(lines)), max(0, start - seen)
                self.n_features, self.header = parser.width, parser.header
                seen += n
                if n <= drop:
                    parser.skip(lines)
                else:
                    yield from self._parsed(parser, lines, drop)
        if not seen:
            raise InputError(f"{self.name} holds no sample: give one line of numbers for each")

    def _parsed(self, parser: LineParser, lines: list[str], drop: int) -> Iterator[Array]:
        try:
            yield parser.parse(lines, drop)
        except BadLine as error:  # first what came before it, however the stream was cut
            if error.before is not None:
                yield error.before
            raise


class RawPipe(Reader):
    """Numbers as they lie in memory, `columns` to a sample.

    Parameters
    ----------
    name : str
        For messages.
    read : callable
        As `TextReader` takes, once.
    columns : int
        Numbers of a sample.
    dtype : {"float64", "float32"}
        Their type, in the byte order of this machine.

    Examples
    --------
    >>> import io
    >>> pipe = RawPipe("pipe", io.BytesIO(np.arange(4.0).tobytes()).read, 2, "float64")
    >>> next(pipe.blocks())
    array([[0., 1.],
           [2., 3.]])
    """

    repeatable = False

    def __init__(self, name: str, read: Read, columns: int, dtype: str) -> None:
        self.name, self._read, self.n_features, self._dtype = name, read, columns, np.dtype(dtype)

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples that have come so far at a time."""
        assert self.n_features is not None
        size, rest, seen = self.n_features * self._dtype.itemsize, b"", 0
        while data := self._read(_CHUNK):
            rest += data
            whole = len(rest) // size * size
            if whole:
                block = np.frombuffer(rest[:whole], self._dtype).reshape(-1, self.n_features)
                rest = rest[whole:]
                block = floats(block, self.name, seen)
                drop = min(len(block), max(0, start - seen))
                seen += len(block)
                if drop < len(block):
                    yield block[drop:]
        if rest or not seen:
            raise InputError(
                f"{self.name} ended {'in the middle of' if rest else 'before'} "
                f"{'a' if rest else 'the first'} sample of {self.n_features} {self._dtype} numbers: "
                "check --columns and --dtype"
            )


def open_text(path: Path, axis: int) -> Reader:
    """Open a text file; with axis=1 every line is a mixture, and the file is copied as numbers to disk first.

    Examples
    --------
    >>> open_text(Path("x.csv"), 0).name
    'x.csv'
    """
    if axis == 0:
        return TextReader(str(path), lambda: _reading(path))
    copy = TemporaryFile()  # noqa: SIM115 - the reader closes it
    try:
        parser, k = LineParser(str(path)), 0
        with _reading(path) as read:
            for line in (line for lines in _lines(read, str(path), longest=2**30) for line in lines):
                block = parser.parse([line])
                copy.write(block.tobytes())
                k += len(block)
        copy.flush()
        shape = (k, parser.width or 0)
        return MatrixReader(
            str(path), "text", shape, np.float64, 1,
            lambda index: np.array(np.memmap(copy, np.float64, "r", 0, shape)[index]), close=copy.close,
        )  # fmt: skip
    except BaseException:
        copy.close()
        raise


@contextmanager
def _reading(path: Path) -> Iterator[Read]:
    with path.open("rb") as file:
        yield file.read
