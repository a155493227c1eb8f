"""The files that a plan names: regular files and folders alone, and arrays of .npy files alone."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .plan_checks import PlanError, shown


def path_of(given: Mapping[str, Any], key: str, where: str, folder: Path) -> str:
    """Return the path that an entry names; "path" may be a folder."""
    start = f"{where}.{key} = {shown(given[key])}"
    if not isinstance(given[key], str):
        raise PlanError(f"{start}: give the path of a file as a word")
    path = folder / given[key]
    with suppress(RuntimeError):  # there is no user of that name
        path = folder / Path(given[key]).expanduser()
    there = False
    with suppress(OSError):  # a name that is too long
        there = path.exists()
    if not there:
        raise PlanError(f"{start}: there is no {shown(str(path))}; paths are relative to the plan")
    if not (path.is_file() or (path.is_dir() and key == "path")):
        raise PlanError(f"{start} is not a file: give the path of a file")
    return str(path.resolve())


def load_matrix(path: str | None) -> NDArray[Any]:
    """Map a .npy file into memory: neither pickles nor archives are opened."""
    assert path is not None
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, ArithmeticError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"{path} is no .npy file: {error}") from error
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "biuf":
        raise ValueError(f"{path} is no .npy file of a matrix of real numbers, a row for each sample")
    return array


def digest_of(path: str) -> str:
    """Digest of a file, or of every file of a folder."""
    total = hashlib.sha256()
    for file in sorted(f for f in Path(path).iterdir() if f.is_file()) if Path(path).is_dir() else [Path(path)]:
        with file.open("rb") as handle:
            total.update(hashlib.file_digest(handle, "sha256").digest())
    return total.hexdigest()[:16]
