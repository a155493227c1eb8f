"""Single samples: what `loop.run` makes for every call is made once, and the state learns in place.

The compiled loop takes about 1 us for a sample at d = 3. Copying the state, allocating scratch arrays and looking up the compiled
function take 50 us or more.
"""

from typing import Any

import numpy as np

from ..networks.guards import EVERY
from ..networks.rule import UNSETTLED, in_one_buffer, leaves, precision, rule_of
from .loop import Diverged, compiled_loop, largest_output, plain, scaled

__all__ = ["SingleSamples", "is_small"]

#: Bytes of a state. Larger ones are copied for every sample: beside the sample itself the copy then costs little.
_SMALL = 2**18
_NO_RATES = np.empty((0, 1))


def is_small(state: Any) -> bool:
    """Whether a state is small enough to keep a second copy of it between samples."""
    return sum(a.nbytes for a in leaves(state)) <= _SMALL


class SingleSamples:
    """Takes one sample after the other through a network, with the bits of `loop.run`. Not for several threads at once.

    Parameters
    ----------
    state : State of a rule
        Copied.
    params : Params of the same rule
    k : int
        Number of mixtures.

    Attributes
    ----------
    state : State of a rule
        Learns in place.
    sample : (k,) array
        The caller writes a finite sample here before each call.
    """

    def __init__(self, state: Any, params: Any, k: int) -> None:
        self.state, self._buffer, self._floats = in_one_buffer(state)
        self._backup = np.empty_like(self._buffer)
        self._params = plain(params)
        self._scaled = getattr(params, "scaled", False)
        self._work = rule_of(state).workspace(self.state)
        self._events = self._work.ws.events
        dtype = precision(state)
        self._X, self._Y = np.zeros((1, k), dtype), np.empty((1, state.fired.size), dtype)
        self._no_outputs = self._Y[:0]
        self._limit = largest_output(dtype)
        self._loop = compiled_loop(self.state, self._work, self._params, self._X, _NO_RATES, self._Y)
        self.sample = self._X[0]

    def learn(self, rates: np.ndarray) -> bool:
        """Learn from `sample` at these rates, of shape (1, r); returns whether the neurons settled.

        Raises
        ------
        Diverged
            If an output or the state overflowed: call `undo` then.
        """
        self._events.fill(0)
        X = scaled(self.state, self._params, self._X, learning=True) if self._scaled else self._X
        with np.errstate(all="ignore"):  # with the JIT off, as it is without
            done = self._loop(self.state, self._work, self._params, X, rates, self._no_outputs, self._limit, EVERY)
        if not done or not all(np.isfinite(numbers).all() for numbers in self._floats):
            raise Diverged(0)
        self.state.repairs[:] += self._events
        return not self._events[UNSETTLED]

    def back_up(self) -> None:
        """Keep the state for `undo`."""
        np.copyto(self._backup, self._buffer)

    def undo(self) -> None:
        """Restore the state of the last `back_up`."""
        np.copyto(self._buffer, self._backup)

    def settle(self, state: Any) -> np.ndarray:
        """Return the outputs for `sample`, of shape (d,), with the weights of `state`, which has the shapes of the own one.

        Raises
        ------
        Diverged
            If an output overflowed.
        """
        X = scaled(state, self._params, self._X, learning=False) if self._scaled else self._X
        with np.errstate(all="ignore"):
            if not self._loop(state, self._work, self._params, X, _NO_RATES, self._Y, self._limit, EVERY):
                raise Diverged(0)
        return np.array(self._Y[0])
