"""Mixtures in text files and from pipes: separated values, a line for each sample or, with axis=1, for each mixture."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from .checks import InputError
from .columns import ALL, Columns
from .layout import TextFormat, cells_of, is_axis, number, separator_line
from .lines import BadLine, LineParser, is_ignored
from .reader import MatrixReader, Reader, spool

Array = NDArray[Any]
Read = Callable[[int], bytes]
OpenInput = Callable[[], AbstractContextManager[Read]]

TEXT = (".csv", ".tsv", ".txt", ".dat")
_LONGEST_LINE = 2**26  # bytes
_LONGEST_MIXTURE = 2**30  # bytes of a line that is a mixture (axis=1)
_LONGEST_NAME = 100  # bytes of its name that are read
_CHUNK = 2**20


class TextReader(Reader):
    """CSV from a file or a pipe.

    `open_input` returns a context manager whose value is a function `read(n)`. That returns at most n bytes as soon as
    there are any, and b"" at the end. If the text can be read again (`repeatable`), first columns that are times or row
    numbers are left out; the first line of a pipe is answered before the second one is known.
    """

    def __init__(
        self,
        name: str,
        open_input: OpenInput,
        *,
        repeatable: bool = True,
        columns: Columns = ALL,
        form: TextFormat | None = None,
    ) -> None:
        self.name, self._open_input, self.repeatable = name, open_input, repeatable
        self._columns, self._form = columns, form

    def _blocks(self) -> Iterator[Array]:
        parser, empty = LineParser(self.name, self._columns, self._form, seek_index=self.repeatable), True
        with self._open_input() as read:
            for chunk in chain(_complete_lines(read, self.name), [b""]):
                fault = None
                try:
                    block = parser.parse(chunk) if chunk else parser.finish()
                except BadLine as error:  # first hand out the samples before it, however the stream was cut
                    block, fault = error.before, error
                if chunk and self.repeatable and not chunk.endswith(b"\n"):
                    parser.notes.append(
                        f"{self.name}: the last line does not end: if the file was cut there, its last value is wrong"
                    )
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


def open_text(path: Path, axis: int, columns: Columns = ALL, form: TextFormat | None = None) -> Reader:
    """Open a text file. A named pipe can be read once, with axis=0."""
    return open_lines(str(path), lambda: _open_file(path), axis, columns, form, repeatable=path.is_file())


def open_lines(
    name: str,
    open_input: OpenInput,
    axis: int,
    columns: Columns,
    form: TextFormat | None,
    *,
    repeatable: bool = True,
) -> Reader:
    """Read lines of text. With axis=1 every line is a mixture, and the numbers are copied to disk first."""
    if axis == 0:
        return TextReader(name, open_input, repeatable=repeatable, columns=columns, form=form)
    return _transposed(name, open_input, form or TextFormat()).choose(columns)


@contextmanager
def _open_file(path: Path) -> Iterator[Read]:
    with path.open("rb") as file:
        yield file.read


def _transposed(name: str, open_input: OpenInput, form: TextFormat) -> MatrixReader:
    """Read text in which every line is a mixture. The first column may hold their names, or their wavelengths."""
    parser, starts = LineParser(name, form=form, names=True), []

    def mixtures() -> Iterator[Array]:
        with open_input() as read:
            for lines in _complete_lines(read, name, _LONGEST_MIXTURE):
                for line in lines.splitlines(keepends=True):
                    starts.append(line[:_LONGEST_NAME])
                    yield from parser.parse(line)
            yield from parser.finish()

    reader = spool(name, "text", mixtures())
    reader.notes, layout = parser.notes, parser.layout
    assert layout is not None  # there is a mixture
    lines = [line for start in starts if not is_ignored(line := start.decode("utf-8-sig", "ignore"))]
    lines = lines[1:] if form.separator is None and separator_line(lines[0]) else lines
    names = [cells_of(line, layout.separator)[0].strip() for line in (lines[1:] if layout.header else lines)]
    if form.header is not False and 0 in parser.kept and reader.n_samples > 1:
        values = [number(cell, form.decimal) for cell in names]
        if is_axis(values, reader.take(slice(1, 2))[0].tolist()):
            reader.without_first_sample()
            parser.kept.remove(0)
    if 0 not in parser.kept:
        reader.header = [cell.replace(form.decimal, ".") for cell in names]
        reader.notes = [
            *reader.notes,
            f"{name}: the first column ({', '.join(names[:3])}, ...) was read as the names of the mixtures, their wavelengths for "
            "instance: --no-header to read it as a sample",
        ]
    return reader
