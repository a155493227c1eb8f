"""Models on disk: an .npz of plain arrays, which `numpy.load` reads too, with a JSON header.

A schema says what each array is: the letters of its shape, then its kind after a colon. "dk" is (d, k): a letter is one length
throughout the model, and k the number of mixtures. "2:int64" are two integers, ":bool" is one truth value. Kinds are those of
`_KINDS`; arrays without a kind all have the precision of the model. A "~" at the end allows NaN and infinity.

A file may come from anybody. Reading it runs no code, because nothing is pickled. Nothing in it is compressed, so that it takes
memory in proportion to its size, and its header has a bounded size. `check_arrays` then compares names, shapes, dtypes and values
with the schema. Whatever is wrong is a `ModelFileError`. Zip compares a checksum (CRC-32) of each array, which shows damage, not
forgery.
"""

import io
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .files import complete_files

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


@contextmanager
def refused(path: Any) -> Iterator[None]:
    """Turn whatever wrong content raises into a ModelFileError."""
    try:
        yield
    except (ModelFileError, FileNotFoundError, PermissionError, MemoryError):
        raise  # a file takes memory in proportion to its size, so a MemoryError says nothing about it
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
    with complete_files([path]) as (part,), zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), text)
        for name in sorted(arrays):
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(arrays[name], order="C"), allow_pickle=False)


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write_model` wrote: the header and the arrays, which are writable and share no memory.

    Raises
    ------
    ModelFileError
        If the file is truncated, damaged, of another format, or no model at all.
    FileNotFoundError, PermissionError
    """
    with refused(path):
        if not stat.S_ISREG(Path(path).stat().st_mode):  # a pipe would wait for ever, a device may have no end
            raise ModelFileError(f"{path} is a folder, a pipe or a device, not a bionica model")
        with zipfile.ZipFile(path) as archive:
            members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
            size = Path(path).stat().st_size
            if len(members) != len(archive.infolist()) or sum(m.file_size for m in members.values()) > size:
                raise ValueError("two arrays have one name, or they declare more bytes than the file has")
            if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members.values()):
                raise ValueError("it is compressed or encrypted, which no model is")
            if _HEADER not in members or members[_HEADER].file_size > _HEADER_BYTES:
                raise ValueError(f"it has no {_HEADER}, or one of more than {_HEADER_BYTES:,} bytes")
            header = dict(json.loads(archive.read(members.pop(_HEADER))))
            if header["format"] != FORMAT:
                raise ModelFileError(
                    f"{path} has format {str(header['format'])[:40]}, and this bionica reads {FORMAT}: load it with the version "
                    f"that wrote it ({str(header.get('versions'))[:80]}), or fit the model again"
                )
            return header, {name: _array(name, archive.read(member)) for name, member in members.items()}


def _array(name: str, content: bytes) -> Array:
    """Return the array of an .npy file, in the byte order of this machine."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream)
    if dtype.hasobject or (fortran_order and len(shape) > 1):
        raise ValueError(f"array {name!r} holds objects or has Fortran order")
    try:  # the bytes must be exactly those of the shape
        return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape).astype(dtype.newbyteorder("="))
    except (TypeError, ValueError) as error:
        raise ValueError(f"array {name!r} has other bytes than those of {dtype} of shape {str(shape)[:80]}") from error


def check_arrays(arrays: Mapping[str, Array], schema: Mapping[str, str], k: int) -> None:
    """Raise ValueError unless names, shapes, dtypes and values are those of the schema for k mixtures."""
    if different := sorted(set(schema) ^ set(arrays)):
        raise ValueError(f"array {different[0][:80]!r} is {'missing' if different[0] in schema else 'of no attribute'}")
    lengths, precision = {"k": k}, None
    for name, spec in schema.items():
        letters, _, kind = spec.rstrip("~").partition(":")
        a, (dtypes, low, high) = arrays[name], _KINDS[kind]
        if not kind and precision is not None:
            dtypes = (precision,)
        shape = [lengths.setdefault(letter, a.shape[i] if i < a.ndim else 0) for i, letter in enumerate(letters)]
        shape = [int(letters)] if letters.isdigit() else shape
        if a.dtype not in dtypes or list(a.shape) != shape:
            raise ValueError(f"array {name!r} is {a.dtype} of shape {a.shape}, not {spec or 'a number'} with {lengths}")
        values = a.view(np.uint8) if a.dtype == np.bool_ else a
        if a.dtype.kind == "f" and not spec.endswith("~") and not np.isfinite(a).all():
            raise ValueError(f"array {name!r} holds NaN or infinity")
        if a.dtype.kind != "f" and a.size and not low <= values.min() <= values.max() <= high:
            raise ValueError(f"array {name!r} holds {values.min()} to {values.max()}, not {low} to {high}")
        precision = precision if kind else a.dtype
    if min(lengths["k"], lengths.get("d", 1)) < 1:
        raise ValueError(f"there is at least one mixture and one source, not {lengths}")
