"""Models on disk: a zip of one JSON header and plain .npy arrays, which `numpy.load` can read too.

The header holds the number of the format, the class, its parameters, the versions of the software that wrote it, and a
SHA-256 of the rest of the header and of every array. Nothing is pickled, so reading a file runs no code. A file that was
truncated, edited or made by something else is refused. A file appears under its name only when it is complete.
"""

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .atomic import atomic_file

#: 2: averaged weights, natural networks; 3: the inverse of the lateral weights; 4: that of the whitening layer's; 5: no product of
#: W_ny and W_yn where one is the other's transpose, x_power in double precision.
FORMAT = 5
_HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same bytes


class ModelFileError(ValueError):
    """A file that is not a complete, unaltered bionica model."""


def _checksum(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> str:
    body = {key: value for key, value in header.items() if key != "checksum"}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    for name in sorted(arrays):
        a = arrays[name]
        digest.update(f"{name}|{a.dtype.str}|{a.shape}|".encode() + a.tobytes())
    return digest.hexdigest()


def write_model(path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a header, to which 'format' and 'checksum' are added, and arrays, completely or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder; make it first, or save somewhere else")
    header = {"format": FORMAT, **header}
    header["checksum"] = _checksum(header, arrays)
    with atomic_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER, _EPOCH), json.dumps(header, indent=1, sort_keys=True))
        for name in sorted(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", _EPOCH), buffer.getvalue())


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write_model` wrote; ModelFileError if it is truncated, altered, of a newer format or no model at all."""
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(_HEADER))
            if not isinstance(header, dict) or not isinstance(header.get("format"), int):
                raise ModelFileError(f"{path} is not a bionica model: its header names no format")
            if header["format"] > FORMAT:
                raise ModelFileError(
                    f"{path} has format {header['format']}, this bionica reads up to {FORMAT}: "
                    f"install bionica {header.get('versions', {}).get('bionica', 'of a newer version')} or newer"
                )
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name != _HEADER
            }
    except (FileNotFoundError, IsADirectoryError, ModelFileError):
        raise
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise ModelFileError(f"{path} is not a complete bionica model ({error}): save it again") from error
    if header.get("checksum") != _checksum(header, arrays):
        raise ModelFileError(f"{path} was altered after it was saved (its checksum does not match): save it again")
    return header, arrays
