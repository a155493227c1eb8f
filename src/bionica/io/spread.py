"""Some rows of a stream, spread evenly over all of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Spread"]

Array = NDArray[Any]


class Spread:
    """At most `limit` rows of a stream of unknown length, evenly spread over what has come so far.

    Examples
    --------
    >>> spread = Spread(4)
    >>> for start in range(0, 10, 5):
    ...     spread.add(np.arange(start, start + 5.0)[:, np.newaxis])
    >>> spread.rows().ravel()
    array([0., 4., 8.])
    >>> spread.seen
    10
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.step, self.seen = limit, 1, 0
        self._kept: Array = np.empty((0, 0))
        self._n = 0

    def add(self, block: Array) -> None:
        """Look at the next rows; a row at a time costs next to nothing."""
        if not self.seen:
            self._kept = np.empty((self.limit + 1, block.shape[1]), block.dtype)
        while len(block):
            first, room = -self.seen % self.step, len(self._kept) - self._n
            rows = block[first :: self.step][:room]
            self._kept[self._n : self._n + len(rows)] = rows
            self._n += len(rows)
            taken = len(block) if len(rows) < room else first + (room - 1) * self.step + 1
            self.seen += taken
            block = block[taken:]
            if self._n > self.limit:
                half = self._kept[: self._n : 2]
                self._n, self.step = len(half), 2 * self.step
                self._kept[: self._n] = half.copy()

    def rows(self) -> Array:
        """Return the rows kept."""
        return self._kept[: self._n].copy()
