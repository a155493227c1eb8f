"""Mixtures as text, and from a pipe: CSV whose separator and header are found out, or raw numbers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import ALL, Columns
from .lines import BadLine, LineParser
from .source import InputError, MatrixReader, Reader, floats

__all__ = ["TEXT", "RawPipe", "TextReader", "open_text"]

Array = NDArray[Any]
Read = Callable[[int], bytes]

TEXT = (".csv", ".tsv", ".txt", ".dat")
_LONGEST = 2**26  # bytes of a line
_CHUNK = 2**20


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
    columns : Columns, optional
        Which columns are mixtures.

    Examples
    --------
    >>> import io, contextlib
    >>> reader = TextReader("pipe", lambda: contextlib.nullcontext(io.BytesIO(b"1,2\n3,4\n").read))
    >>> next(reader.blocks(start=1))
    array([[3., 4.]])
    """

    def __init__(
        self,
        name: str,
        opened: Callable[[], AbstractContextManager[Read]],
        *,
        repeatable: bool = True,
        columns: Columns = ALL,
    ) -> None:
        self.name, self._opened, self.repeatable, self._columns = name, opened, repeatable, columns
        self.header: list[str] | None = None

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from number `start` on, those that have come so far at a time."""
        parser, seen = LineParser(self.name, self._columns), 0
        with self._opened() as read:
            for lines in _lines(read, self.name):
                n, drop = len(parser.rows(lines)), max(0, start - seen)
                self.n_features, self.kept = len(parser.kept) or None, parser.kept
                self.header, self.notes = parser.header, parser.notes
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
    chosen : Columns, optional
        Which of them are mixtures.

    Examples
    --------
    >>> import io
    >>> pipe = RawPipe("pipe", io.BytesIO(np.arange(4.0).tobytes()).read, 2, "float64")
    >>> next(pipe.blocks())
    array([[0., 1.],
           [2., 3.]])
    """

    repeatable = False

    def __init__(self, name: str, read: Read, columns: int, dtype: str, chosen: Columns = ALL) -> None:
        self.name, self._read, self._width, self._dtype = name, read, columns, np.dtype(dtype)
        self.kept = chosen.kept(name, columns)
        self.n_features = len(self.kept)

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples that have come so far at a time."""
        size, rest, seen = self._width * self._dtype.itemsize, b"", 0
        while data := self._read(_CHUNK):
            rest += data
            whole = len(rest) // size * size
            if whole:
                block = np.frombuffer(rest[:whole], self._dtype).reshape(-1, self._width)[:, self.kept]
                rest = rest[whole:]
                block = floats(block, self.name, seen)
                drop = min(len(block), max(0, start - seen))
                seen += len(block)
                if drop < len(block):
                    yield block[drop:]
        if rest or not seen:
            raise InputError(
                f"{self.name} ended {'in the middle of' if rest else 'before'} "
                f"{'a' if rest else 'the first'} sample of {self._width} {self._dtype} numbers: "
                "check --columns and --dtype"
            )


def open_text(path: Path, axis: int, columns: Columns = ALL) -> Reader:
    """Open a text file; with axis=1 every line is a mixture, and the file is copied as numbers to disk first.

    Examples
    --------
    >>> open_text(Path("x.csv"), 0).name
    'x.csv'
    """
    if axis == 0:
        return TextReader(str(path), lambda: _reading(path), columns=columns)
    copy = TemporaryFile()  # noqa: SIM115 - the reader closes it
    try:
        parser, k = LineParser(str(path)), 0
        with _reading(path) as read:
            for line in (line for lines in _lines(read, str(path), longest=2**30) for line in lines):
                block = parser.parse([line])
                copy.write(block.tobytes())
                k += len(block)
        copy.flush()
        shape = (k, len(parser.kept))
        reader = MatrixReader(
            str(path), "text", shape, np.float64, 1,
            lambda index: np.array(np.memmap(copy, np.float64, "r", 0, shape)[index]), close=copy.close,
        )  # fmt: skip
        reader.notes = parser.notes
        return reader.choose(columns)
    except BaseException:
        copy.close()
        raise


@contextmanager
def _reading(path: Path) -> Iterator[Read]:
    with path.open("rb") as file:
        yield file.read
