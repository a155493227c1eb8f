"""Models on disk: an .npz of plain arrays, which `numpy.load` reads too, with a JSON header.

A schema says what each array is: the letters of its shape, then its kind after a colon. "dk" is (d, k): a letter is one length
throughout the model, and k the number of mixtures. "2:int64" are two integers, ":bool" is one truth value. Kinds are those of
`_KINDS`; arrays without a kind all have the precision of the model. A "~" at the end allows NaN and infinity.

A file may come from anybody. Reading it runs no code, because nothing is pickled. The header has a bounded size; names, shapes and
dtypes are compared with the schema before an array is read, and an array is read only if the file holds as many bytes as it
declares; then its values are checked. Whatever is wrong is a `ModelFileError`. Zip compares a checksum (CRC-32) of each array,
which shows damage, not forgery. A file that is large itself takes memory in proportion.
"""

import io
import json
import math
import os
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .files import atomic_file

FORMAT = 6
_HEADER, _HEADER_BYTES = "header.json", 2**22  # parsed JSON takes up to 25 times the memory of its text
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_MOST = 2**52  # counts stay where float64 counts exactly and one more never overflows
#: Dtypes, and for integers the smallest and the largest. -1 means never; seeds are those of `networks.guards.uniform`.
_KINDS: dict[str, tuple[tuple[np.dtype[Any], ...], int, int]] = {
    "": (_FLOATS, 0, 0),
    "float": (_FLOATS, 0, 0),
    "float64": (_FLOATS[1:], 0, 0),
    "bool": ((np.dtype(np.bool_),), 0, 1),
    "int64": ((np.dtype(np.int64),), -1, _MOST),
    "count": ((np.dtype(np.int64),), 0, _MOST),
    "seed": ((np.dtype(np.int64),), 1, 2147483562),
}

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
    """What the header of an array says."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


#: Takes the header and the names of the arrays; returns the number of mixtures and the schema.
SchemaOf = Callable[[dict[str, Any], set[str]], tuple[int, Mapping[str, str]]]


@contextmanager
def refused(path: Any) -> Iterator[None]:
    """Turn whatever wrong content raises into a ModelFileError."""
    try:
        yield
    except (ModelFileError, FileNotFoundError, PermissionError, MemoryError):
        raise  # an array is allocated only if the file holds its bytes, so a MemoryError says nothing about the file
    except Exception as error:
        reason = (str(error) or type(error).__name__)[:500]
        raise ModelFileError(
            f"{path} is not a complete bionica model ({reason}): use another copy of it, or fit the model again and save it"
        ) from error


def write_model(path: str | os.PathLike[str], header: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a header, to which 'format' is added, and arrays, completely or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder; make it first, or save somewhere else")
    text = json.dumps({**header, "format": FORMAT}, indent=1, sort_keys=True)
    if len(text) > _HEADER_BYTES:
        raise ValueError(
            f"the parameters and feature names of {path} would take {len(text):,} bytes, and load reads {_HEADER_BYTES:,}: "
            "shorten the names, or replace a large init or known_mixing (set_params) before saving"
        )
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text)
        for name in sorted(arrays):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(arrays[name], order="C"), allow_pickle=False)


def read_model(
    path: str | os.PathLike[str], schema_of: SchemaOf | None = None
) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_model` wrote: the header, and the arrays, which are checked if `schema_of` is given.

    Raises
    ------
    ModelFileError
        If the file is truncated, damaged, of another format, no model at all, or not what its schema says.
    FileNotFoundError, PermissionError
    """
    with refused(path):
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would wait for ever, a device may have no end
            raise ModelFileError(f"{path} is a folder, a pipe or a device, not a bionica model")
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            header = _header(path, archive, members)
            declared = {name: _declared(name, archive, member) for name, member in members.items()}
            schema: Mapping[str, str] = {}
            if schema_of is not None:
                k, schema = schema_of(header, set(declared))
                _check_declared(schema, declared, k)
            return header, {name: _array(name, archive, members[name], schema.get(name)) for name in declared}


def _header(path: Any, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> dict[str, Any]:
    """The header, which is taken from the members; together these are stored as they are and no larger than the file."""
    size = Path(path).stat().st_size
    if len(members) != len(archive.infolist()) or sum(member.file_size for member in members.values()) > size:
        raise ValueError("two arrays have one name, or they declare more bytes than the file has")
    for name, member in members.items():
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise ValueError(f"{name[:80]!r} is compressed or encrypted, which no model is")
    if _HEADER not in members or members[_HEADER].file_size > _HEADER_BYTES:
        raise ValueError(f"it has no {_HEADER}, or one of more than {_HEADER_BYTES:,} bytes")
    header = json.loads(archive.read(members.pop(_HEADER)))
    if header["format"] != FORMAT:
        raise ModelFileError(
            f"{path} has format {str(header['format'])[:40]}, and this bionica reads {FORMAT}: load it with the version that wrote "
            f"it ({str(header.get('versions'))[:80]}), or fit the model again"
        )
    return dict(header)


def _declared(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Declared:
    """The header of an .npy array, if its member holds exactly the bytes that it declares."""
    with archive.open(member) as stream:
        content = io.BytesIO(stream.read(2**14))
    version = np.lib.format.read_magic(content)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(content)
    if dtype.hasobject or (fortran_order and len(shape) > 1) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"array {name!r} holds objects, or has Fortran order or shape {str(shape)[:80]}")
    if content.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
        raise ValueError(
            f"array {name!r} declares {dtype} of shape {str(shape)[:80]}, for which it has too few or many bytes"
        )
    return Declared(shape, dtype.newbyteorder("="))


def _check_declared(schema: Mapping[str, str], declared: Mapping[str, Declared], k: int) -> None:
    """Raise ValueError unless names, shapes and dtypes are those of the schema for k mixtures."""
    if different := sorted(set(schema) ^ set(declared)):
        raise ValueError(f"array {different[0][:80]!r} is {'missing' if different[0] in schema else 'of no attribute'}")
    lengths, precision = {"k": k}, None
    for name, spec in schema.items():
        letters, _, kind = spec.rstrip("~").partition(":")
        shape, dtype = declared[name]
        expected = [lengths.setdefault(letter, n) for letter, n in zip(letters, shape, strict=False)]
        expected = [int(letters)] if letters.isdigit() else expected
        dtypes = _KINDS[kind][0] if kind or precision is None else (precision,)
        if (
            dtype not in dtypes
            or list(shape) != expected
            or len(shape) != (len(letters) if not letters.isdigit() else 1)
        ):
            raise ValueError(f"array {name!r} is {dtype} of shape {shape}, not {spec or 'a number'} with {lengths}")
        precision = precision if kind else dtype
    if min(lengths["k"], lengths.get("d", 1)) < 1:
        raise ValueError(f"there is at least one mixture and one source, not {lengths}")


def _array(name: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo, spec: str | None) -> Array:
    """An array whose declaration was checked, with values as its schema says; writable, and nobody else's memory."""
    with archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        if stream.read(1):  # reads to the end, where zipfile compares the CRC
            raise ValueError(f"array {name!r} goes on behind its end")
    # Machines of the other byte order write the other byte order.
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if spec is None or not array.size:
        return array
    if array.dtype.kind == "f":
        if not spec.endswith("~") and not np.isfinite(array).all():
            raise ValueError(f"array {name!r} holds NaN or infinity")
        return array
    _, low, high = _KINDS[spec.partition(":")[2]]
    values = array.reshape(-1).view(np.uint8) if array.dtype == np.bool_ else array
    if values.min() < low or values.max() > high:
        raise ValueError(f"array {name!r} holds {values.min()} to {values.max()}, not {low} to {high}")
    return array
