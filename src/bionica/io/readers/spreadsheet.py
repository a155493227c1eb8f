"""Mixtures in .xlsx workbooks.

A workbook is a ZIP archive of XML. Its sizes are checked before openpyxl parses it, and a sheet is then read row by row, as if
it were lines of text. No formula is evaluated: the values that the last program stored are read.
"""

import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from .checks import InputError, explain_errors, import_optional
from .columns import Columns
from .layout import TextFormat
from .reader import Reader
from .text import Read, open_lines

_SEPARATOR = "\t"
_LARGEST_SHEET = 2**28  # bytes of XML
_LARGEST_PART = 2**25  # bytes of the parts of a workbook that are parsed at once, its strings above all
_LONGEST_ROW = 2**22  # bytes; 16,384 columns take less
_PIECE = 2**20


def open_xlsx(path: Path, axis: int, sheet: str | None, columns: Columns, header: bool | None) -> Reader:
    """Open a sheet of a workbook, by default the first one."""
    openpyxl = import_optional("openpyxl", "reading .xlsx")
    _check_archive(path)

    @contextmanager
    def open_rows() -> Iterator[Read]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and extensions
            book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            yield partial(_read, _lines(str(path), _sheet(path, book, sheet)))
        finally:
            book.close()

    with open_rows():  # fails now if there is no such sheet
        pass
    return open_lines(str(path), open_rows, axis, columns, TextFormat(header, separator=_SEPARATOR))


def _sheet(path: Path, book: Any, name: str | None) -> Any:
    sheets = {" ".join(sheet.title.split()): sheet for sheet in book.worksheets}
    if name is not None and name not in sheets:
        raise InputError(f"{path} has no sheet {name!r}: there are {', '.join(sheets) or 'none'}")
    if not sheets:
        raise InputError(f"{path} holds no sheet of cells")
    return sheets[name] if name is not None else next(iter(sheets.values()))


def _read(lines: Iterator[bytes], size: int) -> bytes:
    """Return about `size` bytes of lines, nothing at the end."""
    pieces: list[bytes] = []
    while size > 0 and (line := next(lines, b"")):
        pieces.append(line)
        size -= len(line)
    return b"".join(pieces)


def _lines(name: str, sheet: Any) -> Iterator[bytes]:
    """Yield the rows of a sheet as lines of text, as wide as the first row that is not empty, or wider where there are values."""
    width = 0
    rows = iter(sheet.iter_rows(values_only=True))
    while True:
        with explain_errors(name, "xlsx data"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about dates that are none
            row = next(rows, None)
        if row is None:
            return
        filled = max((j + 1 for j, value in enumerate(row) if value is not None), default=0)
        width = width or filled
        cells = [_text(value) for value in row[: max(filled, width)]]
        cells += [""] * (width - len(cells)) if filled else []
        yield (_SEPARATOR.join(cells) + "\n").encode()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, int, float)):
        return repr(float(value)) if isinstance(value, (bool, float)) else str(value)
    # Words can hold what separates cells and lines, or begin as a comment.
    words = " ".join(str(value).replace('"', "'").replace("\0", " ").split())
    return f" {words}" if words.startswith("#") else words


def _check_archive(path: Path) -> None:
    """Raise if a part of a workbook would take much memory to parse, or is XML that can name other files."""
    with zipfile.ZipFile(path) as archive:
        xml = [part for part in archive.infolist() if _is_xml(part)]
        for part in archive.infolist():
            largest = _LARGEST_SHEET if _is_sheet(part) or not _is_xml(part) else _LARGEST_PART
            if part.file_size > largest:
                raise InputError(
                    f"{path}: {part.filename[:60]!r} is {part.file_size >> 20:,} MiB unpacked, and at most {largest >> 20} are "
                    "read: save the sheet as .csv"
                )
        for part in xml:
            with archive.open(part) as file:
                _check_xml(f"{path}: {part.filename[:60]!r}", file, _LONGEST_ROW if _is_sheet(part) else _LARGEST_PART)


def _is_xml(part: zipfile.ZipInfo) -> bool:
    return part.filename.endswith((".xml", ".rels"))


def _is_sheet(part: zipfile.ZipInfo) -> bool:
    return part.filename.startswith("xl/worksheets/")


def _check_xml(name: str, file: Any, longest: int) -> None:
    """Raise if XML has a document type, is not UTF-8, or has a row of more than `longest` bytes."""
    since, before = 0, b""
    while piece := file.read(_PIECE):
        text = before + piece
        if b"<!DOCTYPE" in text or b"<!ENTITY" in text or b"\0" in text:
            raise InputError(f"{name} is not what a workbook holds (a document type, or not UTF-8): save it again")
        first, last = piece.find(b"<row"), piece.rfind(b"<row")
        since += len(piece) if first < 0 else first
        if since > longest:
            raise InputError(f"{name} has a row of more than {longest >> 20} MiB: save the sheet as .csv")
        since = since if first < 0 else len(piece) - last
        before = piece[-16:]
