"""A network that learns in place, in blocks of samples or one by one.

The compiled loop takes about 1 us for a sample at d = 3. Copying the state, allocating scratch arrays and looking up the compiled
function take 50 us or more. A runner does that once; its state lies in few buffers, whose copies undo a call that fails.
"""

import functools
import threading
from typing import Any

import numpy as np

from ..networks.rule import in_buffers, rule_of
from . import blocks
from .loop import Diverged, compiled_loop, run, take_rows

__all__ = ["Runner"]

_NO_RATES = np.empty((0, 1))


class Runner:
    """Takes samples through a copy of a network, with the bits of `loop.run`; X is an empty array of its dtype and width.

    Attributes
    ----------
    state : State of a rule
        Learns in place.
    wide : bool
        Whether many samples are taken through it in blocks.
    rates : (int, ndarray of shape (n, r))
        Room for learning rates, from this sample on.
    readout : State of a rule or None
        Room for the state whose weights `settle` uses. `learn` forgets it.
    """

    def __init__(self, state: Any, params: Any, X: np.ndarray) -> None:
        self.state, self._buffers = in_buffers(state)
        self._floats = [buffer for buffer in self._buffers if buffer.dtype.kind == "f"]
        self._lock = threading.Lock()
        rule, self._params = rule_of(state), params
        self.wide = blocks.suits(rule, state, blocks.SAMPLES, X.shape[1])
        self.rates: tuple[int, np.ndarray] = (0, _NO_RATES)
        self.readout: Any = None
        Y, work = np.empty((0, state.fired.size), X.dtype), rule.workspace(self.state)
        loop = compiled_loop(self.state, work, params, X, _NO_RATES, Y)
        self._rows = functools.partial(take_rows, loop, work)

    def backup(self) -> list[np.ndarray]:
        """A copy of the state, for `restore`."""
        return [buffer.copy() for buffer in self._buffers]

    def restore(self, backup: list[np.ndarray]) -> None:
        """Return to the state of a backup."""
        for buffer, saved in zip(self._buffers, backup, strict=True):
            buffer[:] = saved

    def learn(self, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> None:
        """Learn from the rows of X, finite, C-ordered and of the state's dtype; outputs go to Y, if it has rows.

        Raises
        ------
        Diverged
            If an output or the state overflowed: call `restore` then.
        """
        self.readout = None
        run(self.state, self._params, X, rates, Y, self._rows)
        if not all(np.isfinite(numbers).all() for numbers in self._floats):
            raise Diverged(len(X) - 1)

    def settle(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Write the outputs for the rows of X to Y, with the weights of `readout`. Threads may call it side by side."""
        if len(X) > 1:
            run(self.readout, self._params, X, _NO_RATES, Y)
        else:
            with self._lock:  # of the scratch arrays
                run(self.readout, self._params, X, _NO_RATES, Y, self._rows)
