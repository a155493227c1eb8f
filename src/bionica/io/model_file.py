"""Models on disk: a zip of one JSON header and plain .npy arrays, which `numpy.load` can read too.

The header holds the number of the format, the class, its parameters, the versions of the software that wrote it, and a
SHA-256 of the rest of the header and of every array. Nothing is pickled, so reading a file runs no code. A file appears under its
name only when it is complete.

A file may come from anybody. `read_model` reads the table of contents and the header first, both of bounded size, then the dtype
and the shape that each array declares. It allocates an array only if the file holds as many bytes as the array declares, and only
after `check` has accepted all declarations. Whatever is wrong is a `ModelFileError`.
"""

import hashlib
import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .files import atomic_file

#: 2: averaged weights, natural networks; 3: the inverse of the lateral weights; 4: that of the whitening layer's; 5: no product of
#: W_ny and W_yn where one is the other's transpose, x_power in double precision.
FORMAT = 5
_HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
#: Limits of a file, in bytes: the table of contents, the header (parsed JSON takes up to 25 times the memory of its text), and the
#: header of one array.
_CONTENTS, _HEADER_BYTES, _ARRAY_HEADER = 2**20, 2**22, 2**14
_DTYPES = {np.dtype(kind) for kind in (np.bool_, np.int64, np.float32, np.float64)}
_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_REMEDY = "use another copy of it, or fit the model again and save it"

Array = NDArray[Any]


class ModelFileError(ValueError):
    """A file that is not a complete, unaltered bionica model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import bionica
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "notes.bionica"
    ...     written = path.write_text("not a model")
    ...     try:
    ...         bionica.load(path)
    ...     except bionica.ModelFileError as error:
    ...         print("refused")
    refused
    """


class Declared(NamedTuple):
    """What the header of an array says: dtype and shape, the dtype with the byte order of the file, and where its bytes begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stored: np.dtype[Any]
    start: int


Check = Callable[[dict[str, Any], Mapping[str, Declared]], None]


def _digest(header: dict[str, Any]) -> Any:
    body = {key: value for key, value in header.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode())


def _identity(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    return f"{name}|{dtype.str}|{shape}|".encode()


def write_model(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Write a header, to which 'format' and 'checksum' are added, and arrays, completely or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder; make it first, or save somewhere else")
    header = {"format": FORMAT, **header}
    digest = _digest(header)
    for name in sorted(arrays):
        digest.update(_identity(name, arrays[name].dtype, arrays[name].shape) + arrays[name].tobytes())
    header["checksum"] = digest.hexdigest()
    text = json.dumps(header, indent=1, sort_keys=True)
    if len(text) > _HEADER_BYTES:
        raise ValueError(
            f"the header of {path} would have {len(text):,} bytes, and load reads {_HEADER_BYTES:,}: shorten the names of the "
            "features"
        )
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text)
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


def read_model(path: str | os.PathLike[str], check: Check | None = None) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_model` wrote.

    Parameters
    ----------
    path : path
        A regular file, or a link to one.
    check : callable, optional
        ``check(header, declared)`` sees the header and the dtype and shape of every array before any array is read, and raises
        ValueError if they are not what it expects.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered, of a newer format or no model at all, or if `check` refuses it.
    FileNotFoundError, PermissionError
    """
    try:
        with _open_file(path) as file:
            return _read(path, file, check)
    except (ModelFileError, FileNotFoundError, PermissionError, MemoryError):
        raise  # an array is allocated only if the file holds its bytes, so a MemoryError says nothing about the file
    except Exception as error:  # whatever zipfile, zlib, json and NumPy raise for bytes that are no model
        raise ModelFileError(f"{path} is not a complete bionica model ({_reason(error)}): {_REMEDY}") from error


def _reason(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:300]


def _open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file; anything else is refused before it is read: a pipe would wait for ever, a device may have no end."""
    # A pipe without a writer opens at once with O_NONBLOCK, which means nothing for files.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise ModelFileError(f"{path} is {_KINDS.get(stat.S_IFMT(mode), 'no regular file')}, not a bionica model")
    return os.fdopen(handle, "rb")


class _Limited:
    """A file of which no single read may exceed `limit` bytes: a table of contents declares its own size."""

    def __init__(self, file: BinaryIO, limit: int):
        self.file, self.limit = file, limit
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        content = self.file.read(self.limit + 1 if size < 0 or size > self.limit else size)
        if len(content) > self.limit:
            raise ValueError(f"its table of contents is larger than {self.limit:,} bytes")
        return content


def _read(path: Any, file: BinaryIO, check: Check | None) -> tuple[dict[str, Any], dict[str, Array]]:
    size = os.fstat(file.fileno()).st_size
    limited = _Limited(file, _CONTENTS)
    with zipfile.ZipFile(limited) as archive:
        limited.limit = max(size, _CONTENTS)
        members = _members(archive, size)
        header = json.loads(archive.read(members.pop(_HEADER)))
        if not isinstance(header, dict) or type(header.get("format")) is not int or header["format"] < 1:
            raise ModelFileError(f"{path} is not a bionica model: its header names no format")
        if header["format"] > FORMAT:
            versions = header.get("versions")
            newer = versions.get("bionica") if isinstance(versions, dict) else None
            raise ModelFileError(
                f"{path} has format {header['format']}, this bionica reads up to {FORMAT}: "
                f"install bionica {str(newer or 'of a newer version')[:40]} or newer"
            )
        declared = {}
        for name, member in members.items():
            with archive.open(member) as stream:
                declared[name] = _declared(name, stream, member.file_size)
        if check is not None:
            check(header, declared)
        digest, arrays = _digest(header), {}
        for name in sorted(declared):
            with archive.open(members[name]) as stream:
                arrays[name] = _array(stream, declared[name])
            digest.update(_identity(name, declared[name].stored, declared[name].shape))
            digest.update(arrays[name].reshape(-1).view(np.uint8))
    if header.get("checksum") != digest.hexdigest():
        raise ModelFileError(f"{path} was altered after it was saved (its checksum does not match): {_REMEDY}")
    # Machines of the other byte order write the other byte order.
    return header, {name: a.astype(a.dtype.newbyteorder("="), copy=False) for name, a in arrays.items()}


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The members of the archive by the name of their array; they are stored as they are and together no larger than the file."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename if member.filename == _HEADER else member.filename.removesuffix(".npy")
        if name in members or (name == member.filename and name != _HEADER):
            raise ValueError(f"{member.filename[:80]!r} is there twice, or is no .npy array")
        if (
            member.compress_type != zipfile.ZIP_STORED
            or member.flag_bits & 1
            or member.compress_size != member.file_size
        ):
            raise ValueError(f"{member.filename[:80]!r} is compressed or encrypted, which no model is")
        members[name] = member
    if _HEADER not in members:
        raise ValueError(f"it has no {_HEADER}")
    if members[_HEADER].file_size > _HEADER_BYTES:
        raise ValueError(f"its header has {members[_HEADER].file_size:,} bytes, the limit is {_HEADER_BYTES:,}")
    total = sum(member.file_size for member in members.values())
    if total > size:
        raise ValueError(f"its members declare {total:,} bytes, and the file has {size:,}")
    return members


def _declared(name: str, stream: Any, size: int) -> Declared:
    """The header of an .npy array, if its member holds exactly the bytes that it declares."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"array {name!r} has version {version} of the .npy format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream, max_header_size=_ARRAY_HEADER)
    native = dtype.newbyteorder("=")
    if native not in _DTYPES or (fortran_order and len(shape) > 1):
        objects = ": object arrays cannot be loaded, because they hold code" if dtype.hasobject else ""
        raise ValueError(f"array {name!r} is of {dtype} in {'Fortran' if fortran_order else 'C'} order{objects}")
    start = stream.tell()
    if any(type(n) is not int or n < 0 for n in shape) or len(shape) > 8:
        raise ValueError(f"array {name!r} has shape {str(shape)[:80]}")
    if start + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(
            f"array {name!r} declares {dtype} of shape {shape}, and its member holds {size - start:,} bytes"
        )
    return Declared(native, shape, dtype, start)


def _array(stream: Any, declared: Declared) -> Array:
    """The array whose declaration was checked; writable, and nobody else's memory."""
    stream.read(declared.start)
    array = np.empty(declared.shape, declared.stored)
    content = array.reshape(-1).view(np.uint8)
    done = 0
    while done < len(content):
        part = stream.read(min(2**20, len(content) - done))
        if not part:
            raise EOFError("a member ends early")
        content[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if declared.dtype == np.bool_ and content.max(initial=0) > 1:
        raise ValueError("a truth value is neither 0 nor 1")
    stream.read(1)  # the end, where zipfile compares the CRC
    return array
