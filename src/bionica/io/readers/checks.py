"""What is refused and why: missing packages, broken files, sizes that a file only declares, values that are no real numbers."""

import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import is_disk_full

Array = NDArray[Any]

_LARGEST_CHUNK = 2**28  # bytes that are decoded at once
_SMALL_ARRAY = 2**30  # bytes that any file may say it holds
_MOST_EXPANSION = 2**14  # bytes of a larger array for each byte on disk


class InputError(ValueError):
    """Data that cannot be read as mixtures. The message names the file, the place and the remedy."""


def import_optional(module: str, purpose: str) -> Any:
    """Import a package that only some formats need; InputError says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"{purpose} needs the package {package}: pip install 'bionica[io]' ({error})") from error


@contextmanager
def explain_errors(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a library raises about a broken file into one sentence."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # each library has exceptions of its own, and broken bytes lead to all of them
        if isinstance(error, OSError) and is_disk_full(error):
            raise
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{name} cannot be read as {kind} ({cause}): is it complete, and of this format?") from error


def check_chunk_size(name: str, n_bytes: int, remedy: str = "write it again in smaller chunks") -> None:
    """Raise if what a file says must be decoded at once takes too much memory."""
    if n_bytes > _LARGEST_CHUNK:
        raise InputError(
            f"{name} has chunks of {n_bytes >> 20:,} MiB; at most {_LARGEST_CHUNK >> 20} are read: {remedy}"
        )


def check_declared_size(name: str, n_bytes: int, stored: Iterable[int]) -> None:
    """Raise if a file says that it holds far more numbers than it can; `stored` are bytes on disk, added up as needed.

    Most formats leave out chunks that were never written: a few bytes can stand for any number of zeros.
    """
    needed, there = n_bytes // _MOST_EXPANSION if n_bytes > _SMALL_ARRAY else 0, 0
    for size in stored if needed else ():
        there += size
        if there >= needed:
            return
    if there < needed:
        raise InputError(
            f"{name} says that it holds {n_bytes >> 20:,} MiB of numbers and has {there:,} bytes: is it complete? Write it again"
        )


def check_dtype(dtype: Any, name: str) -> None:
    """Raise if these are not real numbers."""
    if dtype.kind not in "biuf":
        raise InputError(f"{name} holds {dtype}, not real numbers: convert it to float64 first")


def finite_floats(values: Any, name: str, first: int = 0) -> Array:
    """Return a block C-ordered, float32 and float16 as float32, the rest as float64; raise if it holds NaN or infinity."""
    block: Array = np.asarray(values)
    check_dtype(block.dtype, name)
    dtype = np.float32 if block.dtype.newbyteorder("=") in (np.float32, np.float16) else np.float64
    block = np.asarray(block, dtype=dtype, order="C")
    finite = np.isfinite(block)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise InputError(
            f"{name}, sample {first + i + 1}, mixture {j + 1} is {block[i, j]}: drop or fill such samples first "
            "(both counted from 1)"
        )
    return block


@contextmanager
def close_on_error(file: Any) -> Iterator[Any]:
    """Close a file if there is an error, and otherwise leave it open for a reader."""
    try:
        yield file
    except BaseException:
        file.close()
        raise
