"""What learns: a state, the parameters and the rates with which it goes on.

learn(X, keep=False)   learn from finite rows of its dtype; return the outputs as each
                       sample arrived if `keep`
outputs(X)             the outputs for rows of its dtype, with what was learned so far
backup(), restore(b)   before and after a call that fails: the state is as it was
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bionica.core.errors import Diverged
from bionica.engine.loop import NO_RATES, prepare
from bionica.engine.rule import Rule, in_buffers, lengths

#: Most bytes of samples in a compiled call, which Ctrl-C cannot interrupt.
_BLOCK_BYTES = 2**20
# learning rates that are computed at once for samples that come one by one
_RATES_AHEAD = 64


#: A number (the rate at sample 0) or a function of the sample index.
Rate = float | Callable[[int], float]


class Schedule(NamedTuple):
    """Learning rates, eq. 22 of the paper with power 1: ``eta0 / (1 + decay * t) **
    power``; or `eta0` as a function of t.
    """

    eta0: Any
    decay: float = 0.0
    power: float = 1.0
    below: float = np.inf  # every rate must be
    advice: str = "lower eta0"  # if one is not

    def __call__(self, t0: int, n: int) -> NDArray[np.float64]:
        """The learning rates of samples t0, ..., t0 + n - 1; ValueError if one is not a
        number from 0 to `below`.
        """
        index = np.arange(t0, t0 + n, dtype=np.float64)
        if not callable(self.eta0):
            divisor = 1 + self.decay * index
            rates = self.eta0 / (divisor if self.power == 1 else divisor**self.power)
        else:
            try:
                rates = np.array(
                    [self.eta0(int(t)) for t in index], dtype=np.float64
                ).reshape(n)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"eta0 must return a number for every sample index: {error}"
                ) from error
            bad = np.flatnonzero(~(np.isfinite(rates) & (rates >= 0)))
            if bad.size:
                raise ValueError(
                    f"eta0 returned {rates[bad[0]]} for sample {t0 + bad[0]}; return a"
                    " finite learning rate >= 0 for every index"
                )
        if n and rates.max() >= self.below:
            raise ValueError(
                f"the learning rate {rates.max():g} at sample"
                f" {t0 + int(rates.argmax())} is not below {self.below:g}:"
                f" {self.advice}"
            )
        return rates


class NetworkLearner:
    """A copy of a network that learns in place, in blocks of samples or one by one,
    with the same bits.

    Copying the state, allocating scratch arrays and looking up the compiled function
    take far longer than a sample in the compiled loop: that is done once. The state
    lies in few buffers, whose copies undo a call that fails.

    `rates` are the columns of learning rates. `readout` returns the state with whose
    weights `outputs` settles, from the state; by default the state itself.
    """

    def __init__(
        self, state: Any, params: Any, rates: Sequence[Schedule], readout: Any = None
    ) -> None:
        self.state, self._buffers = in_buffers(state)
        self._floats = [buffer for buffer in self._buffers if buffer.dtype.kind == "f"]
        self.params = params
        self.rates = tuple(rates)
        self.read = readout
        n, self.dtype = lengths(state)
        self.n_features = n["k"]
        self.n_outputs = state.fired.size
        self._lock = threading.Lock()
        self._rows: Any = None  # the loop, compiled when the first sample comes
        self._ahead: tuple[int, np.ndarray] = (0, NO_RATES)
        self._read: Any = None

    def __getstate__(self) -> tuple[Any, ...]:
        return self.state, self.params, self.rates, self.read

    def __setstate__(self, saved: tuple[Any, ...]) -> None:
        self.__init__(*saved)  # type: ignore[misc]

    def varied(self, rule: Rule) -> "NetworkLearner":
        """The same network with a variant of its rule (see `rule.variant`)."""
        if type(self.state) is rule.State:
            return self
        more = {
            name: np.array(first(self.state), self.dtype)
            for name, first in rule.first.items()
        }
        return NetworkLearner(
            rule.State(*self.state, **more), self.params, self.rates, self.read
        )

    @property
    def n_samples_seen(self) -> int:
        """Samples learned from."""
        return int(self.state.t[0])

    def backup(self) -> list[np.ndarray]:
        """A copy of the state, for `restore`."""
        return [buffer.copy() for buffer in self._buffers]

    def restore(self, backup: list[np.ndarray]) -> None:
        """Return to the state of a backup."""
        self._read = None
        for buffer, saved in zip(self._buffers, backup, strict=True):
            buffer[:] = saved

    def learn(self, X: np.ndarray, keep: bool = False) -> np.ndarray:
        """Learn from the rows of X; `Diverged` names the sample, counted from the
        first, at which something overflowed.
        """
        Y = np.empty((len(X) if keep else 0, self.n_outputs), self.dtype)
        self._read = None
        for rows in self._blocks(X):
            block = np.require(X[rows], self.dtype, ["C", "W", "A"])
            t = int(self.state.t[0])
            before = self.backup() if len(block) > 1 else []
            done = self._rows(
                self.state, self.params, block, self.rates_at(t, len(block)), Y[rows]
            )
            # and perhaps a later output
            if not all(np.isfinite(buffer).all() for buffer in self._floats):
                done = self._first_overflow(t, block[:done], before)
            if done < len(block):
                raise Diverged(t + done, block[done])
        return Y

    def _blocks(self, X: np.ndarray) -> list[slice]:
        if self._rows is None:
            no_rows = np.empty((0, self.n_features), self.dtype)
            self._rows = prepare(self.state, self.params, no_rows)
        if X.shape[1] != self.n_features:  # compiled code checks no bounds
            raise ValueError(
                f"the state is one of {self.n_features} mixtures, and X has"
                f" {X.shape[1]}"
            )
        rows = max(32, _BLOCK_BYTES // (self.dtype.itemsize * X.shape[1]))
        return [slice(start, start + rows) for start in range(0, len(X), rows)]

    def _first_overflow(self, t: int, X: np.ndarray, before: list[np.ndarray]) -> int:
        """The row after which the state is no longer finite, by bisection: the same for
        any chunking.
        """
        finite = 0
        overflown = len(X)
        while overflown - finite > 1:
            middle = (finite + overflown) // 2
            self.restore(before)
            self._rows(
                self.state,
                self.params,
                X[:middle],
                self.rates_at(t, middle),
                X[:0, : self.n_outputs],
            )
            is_finite = all(np.isfinite(buffer).all() for buffer in self._floats)
            finite, overflown = (middle, overflown) if is_finite else (finite, middle)
        return finite

    def rates_at(self, t: int, n: int) -> np.ndarray:
        """The rates of samples t, ..., t + n - 1, a column for each kind; zeros, if the
        rule has none.

        Those of single samples come from rates that were computed ahead.
        """
        first, rates = self._ahead
        if not first <= t <= t + n <= first + len(rates):
            ahead = (
                n
                if n > 1 or any(callable(schedule.eta0) for schedule in self.rates)
                else _RATES_AHEAD
            )
            rates = np.stack(
                [schedule(t, ahead) for schedule in self.rates] or [np.zeros(ahead)],
                axis=1,
            )
            first, rates = self._ahead = t, rates
        return rates[t - first : t - first + n]

    def readout(self) -> Any:
        """The state with whose weights `outputs` settles."""
        if self._read is None:
            self._read = self.state if self.read is None else self.read(self.state)
        return self._read

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """Settle for the rows of X. Threads may call it side by side."""
        Y = np.empty((len(X), self.n_outputs), self.dtype)
        state = self.readout()
        state = state._replace(rng=state.rng.copy())  # a variant may draw from it
        for rows in self._blocks(X):
            block = np.require(X[rows], self.dtype, ["C", "W", "A"])
            # several samples have scratch arrays of their own
            with self._lock if len(block) == 1 else nullcontext():
                take = (
                    self._rows
                    if len(block) == 1
                    else prepare(state, self.params, block)
                )
                done = take(state, self.params, block, NO_RATES, Y[rows])
            if done < len(block):
                raise Diverged(rows.start + done, block[done])
        return Y
