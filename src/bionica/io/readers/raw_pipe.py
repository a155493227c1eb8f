"""Raw numbers from a pipe."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import InputError, finite_floats
from .columns import ALL, Columns
from .reader import Reader

Array = NDArray[Any]

_CHUNK = 2**20


class RawPipe(Reader):
    """Raw numbers in the byte order of this machine, `columns` to a sample; `read` is as in `TextReader`."""

    repeatable = False

    def __init__(
        self, name: str, read: Callable[[int], bytes], columns: int, dtype: str, chosen: Columns = ALL
    ) -> None:
        self.name, self._read, self._width, self._dtype = name, read, columns, np.dtype(dtype)
        self.kept = chosen.kept(name, columns)
        self.n_features = len(self.kept)

    def _blocks(self) -> Iterator[Array]:
        size, rest, seen = self._width * self._dtype.itemsize, b"", 0
        while data := self._read(_CHUNK):
            rest += data
            complete = len(rest) // size * size
            if complete:
                block = np.frombuffer(rest[:complete], self._dtype).reshape(-1, self._width)[:, self.kept]
                rest = rest[complete:]
                yield finite_floats(block, self.name, seen)
                seen += len(block)
        if rest or not seen:
            where = "in the middle of a" if rest else "before the first"
            raise InputError(
                f"{self.name} ended {where} sample of {self._width} {self._dtype} numbers: check --columns and --dtype"
            )
