"""What every writer of sources is: blocks of samples into a file that appears under its name when complete."""

import glob
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["OutputError", "Writer", "names", "part_of", "remove", "remove_parts", "rename", "whole"]

Array = NDArray[Any]


class OutputError(ValueError):
    """Sources that cannot be written as asked; the message names the file and the remedy."""


class Writer(ABC):
    """Takes sources block by block; as a context it completes the file, or leaves nothing where an error ended it.

    Parameters
    ----------
    path : Path
        The file to be.
    n_sources : int
        Columns.
    dtype : dtype
        Of the numbers.
    """

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        self.path, self.n_sources, self.dtype = path, n_sources, np.dtype(dtype)
        self.part = part_of(path)
        self.n_samples = 0
        remove(self.part)  # of a process that was killed

    @abstractmethod
    def write(self, block: Array) -> None:
        """Append samples."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the partial file."""

    def release(self) -> None:
        """Close what is open."""
        return

    def commit(self) -> None:
        """Give the complete file its name."""
        rename(self.part, self.path)

    def abort(self) -> None:
        """Leave nothing."""
        remove(self.part)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            try:
                if kind is None:
                    self.finish()
            finally:
                self.release()
            if kind is None:
                self.commit()
        finally:
            self.abort()  # what commit has renamed is no longer there


def part_of(path: Path) -> Path:
    """Return the name under which a file is written until it is complete."""
    return path.with_name(f".{path.name}.part")


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def rename(part: Path, path: Path) -> None:
    """Give a complete file its name; what had it before is gone."""
    if path.is_dir():
        remove(path)
    part.replace(path)


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when it is complete, on disk; several may write it at once.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole(Path(folder, "x")) as file:
    ...         _ = file.write(b"all of it")
    ...         there = Path(folder, "x").exists()
    ...     there, Path(folder, "x").read_bytes()
    (False, b'all of it')
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    part = Path(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def remove_parts(path: Path) -> None:
    """Remove what processes that were killed while they wrote `path` have left."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*part"):
        if re.fullmatch(rf"\.{re.escape(path.name)}\.([a-z0-9_]{{8}}\.)?part", part.name):
            remove(part)


def names(n_sources: int) -> list[str]:
    """Return the names of the sources, counted from 0 as everywhere.

    Examples
    --------
    >>> names(2)
    ['source_0', 'source_1']
    """
    return [f"source_{i}" for i in range(n_sources)]
