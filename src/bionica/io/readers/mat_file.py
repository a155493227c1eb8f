"""The .mat files of MATLAB 5 to 7: a list of variables, each an element of bytes, compressed or not.

Only matrices of real numbers are read. They are mapped from the file, or unpacked to disk; cells, structures and objects are
listed and never decoded. SciPy's reader is not used: a wrong type of data in the file makes it read memory that is not its own
(1.17, with a segmentation fault in 2 of 800 damaged files).
"""

import math
import re
import shutil
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import Any, BinaryIO, Protocol

import numpy as np

from .checks import InputError, check_declared_size, close_on_error
from .reader import MatrixReader, map_matrix

_HEADER = 128  # bytes before the first variable
_MATRIX, _COMPRESSED = 14, 15
_DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_INT32, _UINT32, _INT8 = 5, 6, 1
#: Names of the classes of MATLAB, from 1 on.
_CLASSES = (
    "cell", "struct", "object", "char", "sparse", "double", "single", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "int64", "uint64", "function", "opaque",
)  # fmt: skip
NUMERIC = set(_CLASSES[5:15])
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_MOST_VARIABLES, _LONGEST_PART = 10_000, 4096
_PIECE = 2**16


class Stream(Protocol):
    """Bytes that come one after the other."""

    def read(self, n: int, /) -> bytes:
        """Return n bytes, fewer at the end."""
        ...


class Inflated:
    """The bytes of a compressed element of `length` bytes, unpacked no further than they are asked for."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._left, self._zlib = file, length, zlib.decompressobj()

    def read(self, n: int) -> bytes:
        """Return n bytes, fewer at the end."""
        found = b""
        while len(found) < n and not self._zlib.eof:
            packed = self._zlib.unconsumed_tail or self._file.read(min(_PIECE, self._left))
            self._left -= 0 if self._zlib.unconsumed_tail else len(packed)
            if not packed:
                break
            found += self._zlib.decompress(packed, n - len(found))
        return found


@dataclass(frozen=True)
class Variable:
    """A variable of a file, and where its element begins."""

    name: str
    kind: str  # what MATLAB calls its class
    shape: tuple[int, ...]
    at: int


def list_variables(path: Path) -> list[Variable]:
    """Return the variables of a file."""
    with path.open("rb") as file:
        order, end = _byte_order(file), path.stat().st_size
        found: list[Variable] = []
        for count, (at, stream) in enumerate(_elements(str(path), file, order, end)):
            if count > _MOST_VARIABLES:
                raise InputError(
                    f"{path} has more than {_MOST_VARIABLES:,} variables: save the mixtures in a file of their own"
                )
            kind, _, shape, name = _read_head(stream, order)
            if _NAME.fullmatch(name):
                found.append(Variable(name, kind, shape, at))
    return found


def open_variable(path: Path, variable: Variable, axis: int) -> MatrixReader:
    """Open a matrix of numbers."""
    name = f"{path}[{variable.name}]"
    with close_on_error(path.open("rb")) as file:
        order, end = _byte_order(file), path.stat().st_size
        at, stream = next(_elements(str(path), file, order, end, variable.at))
        _, has_imaginary_part, shape, _ = _read_head(stream, order)
        if has_imaginary_part:
            raise InputError(f"{name} holds complex numbers, not real numbers: save their real part or absolute value")
        kind, length, inline = _read_tag(stream, order)
        if kind not in _DTYPES:
            raise ValueError(f"the numbers of {variable.name} are of the unknown type {kind}")
        dtype = np.dtype(order + _DTYPES[kind])
        if math.prod(shape) * dtype.itemsize != length:
            raise InputError(f"{name} has {length:,} bytes of numbers; its shape is {shape}: is the file complete?")
        if not isinstance(stream, Inflated):
            offset = file.tell() - (0 if inline is None else 4)
            return map_matrix(name, "MATLAB data", file, shape, dtype, axis, offset=offset, order="F")
        with close_on_error(_unpack(name, stream, length, inline, end - at)) as unpacked:
            reader = map_matrix(name, "MATLAB data", unpacked, shape, dtype, axis, order="F")
        file.close()
        return reader


def _byte_order(file: BinaryIO) -> str:
    header = file.read(_HEADER)
    orders = {b"IM": "<", b"MI": ">"}
    if header[126:] not in orders:
        raise ValueError("it does not begin as a .mat file of MATLAB 5 or later does")
    return orders[header[126:]]


def _elements(name: str, file: BinaryIO, order: str, end: int, at: int = _HEADER) -> Iterator[tuple[int, Stream]]:
    """Yield where each variable begins and a stream of its bytes, from `at` on."""
    while at + 8 <= end:
        file.seek(at)
        kind, length = struct.unpack(f"{order}II", _exactly(file, 8))
        if at + 8 + length > end:
            raise InputError(f"{name} ends in the middle of a variable: is it complete?")
        if kind == _MATRIX:
            yield at, file
        elif kind == _COMPRESSED:
            inflated = Inflated(file, length)
            if struct.unpack(f"{order}II", _exactly(inflated, 8))[0] == _MATRIX:
                yield at, inflated
        at += 8 + length


def _read_head(stream: Stream, order: str) -> tuple[str, bool, tuple[int, ...], str]:
    """Return class, whether there is an imaginary part, shape and name of a variable."""
    flags = struct.unpack(f"{order}II", _read_part(stream, order, _UINT32))[0]
    index, has_imaginary_part = flags & 0xFF, bool(flags & 0x800)
    kind = _CLASSES[index - 1] if 1 <= index <= len(_CLASSES) else "unknown"
    if kind == "opaque":  # has no shape
        return kind, False, (), _read_part(stream, order, _INT8).decode("ascii", "replace")
    shape = np.frombuffer(_read_part(stream, order, _INT32), f"{order}i4")
    if (shape < 0).any():
        raise ValueError(f"a variable has the shape {tuple(shape.tolist())}")
    return kind, has_imaginary_part, tuple(shape.tolist()), _read_part(stream, order, _INT8).decode("ascii", "replace")


def _read_part(stream: Stream, order: str, expected: int) -> bytes:
    """Return a short part of a variable, without the bytes that fill it up."""
    kind, length, inline = _read_tag(stream, order)
    if kind != expected or length > _LONGEST_PART:
        raise ValueError(f"a variable begins with a part of type {kind} and {length} bytes")
    return inline if inline is not None else _exactly(stream, length + -length % 8)[:length]


def _read_tag(stream: Stream, order: str) -> tuple[int, int, bytes | None]:
    """Return type and length of a part, and its bytes if they are so few that they are in the tag."""
    tag = _exactly(stream, 8)
    kind, length = struct.unpack(f"{order}II", tag)
    if kind >> 16:
        kind, length = kind & 0xFFFF, kind >> 16
        if length > 4:
            raise ValueError(f"a short part has {length} bytes")
        return kind, length, tag[4 : 4 + length]
    return kind, length, None


def _exactly(stream: Stream, n: int) -> bytes:
    data = stream.read(n)
    if len(data) != n:
        raise ValueError("it ends in the middle of a variable")
    return data


def _unpack(name: str, stream: Stream, length: int, inline: bytes | None, packed: int) -> Any:
    """Copy numbers to an unnamed file on disk."""
    check_declared_size(name, length, [packed])
    if length > shutil.disk_usage(gettempdir()).free:
        raise InputError(
            f"{name} is {length >> 20:,} MiB unpacked, and the folder of temporary files has less space: set TMPDIR"
        )
    with close_on_error(TemporaryFile()) as unpacked:
        unpacked.write(inline or b"")
        for start in range(0, length if inline is None else 0, _PIECE):
            unpacked.write(_exactly(stream, min(_PIECE, length - start)))
        unpacked.flush()
        return unpacked
