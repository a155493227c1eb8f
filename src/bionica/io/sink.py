"""What every writer of sources is: blocks of samples into a file that appears under its name when complete."""

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["OutputError", "Writer", "names", "part_of", "remove", "rename"]

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


def names(n_sources: int) -> list[str]:
    """Return the names of the sources, counted from 0 as everywhere.

    Examples
    --------
    >>> names(2)
    ['source_0', 'source_1']
    """
    return [f"source_{i}" for i in range(n_sources)]
