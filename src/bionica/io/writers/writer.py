"""The base of all writers: blocks of sources into a file that appears under its name when it is complete."""

from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..atomic import partial_path, remove, rename

__all__ = ["OutputError", "Writer", "source_names"]

Array = NDArray[Any]


class OutputError(ValueError):
    """Sources that cannot be written as asked. The message names the file and the remedy."""


class Writer(ABC):
    """Takes sources block by block. On exit it completes the file, or removes what it wrote if there was an error."""

    def __init__(self, path: Path, n_sources: int, dtype: Any) -> None:
        self.path, self.n_sources, self.dtype = path, n_sources, np.dtype(dtype)
        self.partial = partial_path(path)
        self.n_samples = 0
        remove(self.partial)  # left by a killed process

    @abstractmethod
    def write(self, block: Array) -> None:
        """Append samples."""

    @abstractmethod
    def finish(self) -> None:
        """Complete the partial file."""

    def close(self) -> None:
        """Close what is open."""
        return

    def commit(self) -> None:
        """Give the complete file its name."""
        rename(self.partial, self.path)

    def discard(self) -> None:
        """Remove what was written."""
        remove(self.partial)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            try:
                if kind is None:
                    self.finish()
            finally:
                self.close()
            if kind is None:
                self.commit()
        finally:
            self.discard()  # after `commit` there is nothing left to remove


def source_names(n_sources: int) -> list[str]:
    """Return the names of the sources: source_0, source_1, ..."""
    return [f"source_{i}" for i in range(n_sources)]
