"""Some rows of a stream of unknown length."""

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class EvenSample:
    """At most `limit` rows of a stream of unknown length, evenly spread over the rows seen so far.

    Every `step`-th row is kept. When more than `limit` rows are kept, every second one is dropped and `step` doubles.
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.step, self.seen = limit, 1, 0
        self._kept: list[Array] = []
        self._n_kept = 0

    def add(self, block: Array) -> None:
        """Add the next rows of the stream."""
        self._kept.append(block[-self.seen % self.step :: self.step].copy())
        self._n_kept += len(self._kept[-1])
        self.seen += len(block)
        while self._n_kept > self.limit:
            half = self.rows()[::2].copy()
            self._kept, self._n_kept, self.step = [half], len(half), 2 * self.step

    def rows(self) -> Array:
        """Return the rows kept."""
        return np.concatenate(self._kept) if self._kept else np.empty((0, 0))


class LastSample:
    """The last `limit` rows of a stream."""

    def __init__(self, limit: int) -> None:
        self.limit, self.seen = limit, 0
        self._kept: deque[Array] = deque()
        self._n_kept = 0

    def add(self, block: Array) -> None:
        """Add the next rows of the stream."""
        self._kept.append(block[-self.limit :].copy())
        self._n_kept += len(self._kept[-1])
        self.seen += len(block)
        while self._n_kept - len(self._kept[0]) >= self.limit:
            self._n_kept -= len(self._kept.popleft())

    def rows(self) -> Array:
        """Return the rows kept."""
        return np.concatenate(self._kept)[-self.limit :] if self._kept else np.empty((0, 0))
