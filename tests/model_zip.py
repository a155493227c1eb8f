"""Model files as somebody writes them who knows the format: any header, any arrays."""

import io
import json
import zipfile
from typing import Any

import numpy as np


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the header and the arrays of a model."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        header = json.loads(archive.read("header.json"))
        names = [name for name in archive.namelist() if name != "header.json"]
        return header, {
            name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)))
            for name in names
        }


def npy(array: np.ndarray) -> bytes:
    """Return an array as an .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def pack(
    header: dict[str, Any],
    arrays: dict[str, Any],
    *,
    members: dict[str, bytes] | None = None,
    compression: int = zipfile.ZIP_STORED,
    text: bytes | None = None,
) -> bytes:
    """Return a model with this header, these arrays, and members that are bytes
    already.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("header.json", text or json.dumps(header))
        for name, a in arrays.items():
            archive.writestr(f"{name}.npy", npy(a))
        for name, content in (members or {}).items():
            archive.writestr(name, content)
    return buffer.getvalue()
