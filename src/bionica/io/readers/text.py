"""Mixtures from text files and from pipes: CSV with any separator and header, or raw numbers."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .columns import ALL, Columns
from .line_parser import BadLine, LineParser
from .reader import InputError, Reader, finite_floats, spool

Array = NDArray[Any]
Read = Callable[[int], bytes]

TEXT = (".csv", ".tsv", ".txt", ".dat")
_LONGEST_LINE = 2**26  # bytes
_LONGEST_MIXTURE = 2**30  # bytes of a line that is a mixture (axis=1)
_CHUNK = 2**20


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


def _complete_lines(read: Read, name: str) -> Iterator[bytes]:
    """Yield chunks of complete lines as soon as they arrive."""
    rest = b""
    while data := read(_CHUNK):
        lines, newline, rest = (rest + data).rpartition(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise InputError(f"{name} has a line of more than {_LONGEST_LINE >> 20} MiB: is it text, a sample a line?")
        if newline:
            yield lines + newline
    if rest:
        yield rest


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
    """Open a text file. With axis=1 every line is a mixture, and the numbers are copied to disk first."""
    if axis == 0:
        return TextReader(str(path), lambda: _open_file(path), columns=columns)
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
        while line := file.readline(_LONGEST_MIXTURE):
            if len(line) == _LONGEST_MIXTURE:
                raise InputError(f"{path} has a line of more than {_LONGEST_MIXTURE >> 20} MiB: is it text?")
            yield from parser.parse(line)
