"""What `learn_one` and `transform_one` of a network keep between calls, so that a sample costs microseconds."""

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engines.loop import Diverged
from ..engines.single import SingleSamples, is_small
from ..networks import rule as states
from ._exceptions import check_finite
from ._warn import warn

Array = NDArray[Any]

#: Learning rates that are computed at once. A schedule that is a function is called for one sample at a time.
_RATES_AHEAD = 64


class OneByOne:
    """A network for single samples.

    `network._state` becomes the state of `samples`, which learns in place. Code that keeps a reference to the state gets it from
    `network._kept_state`, so that the next `learn_one` learns in a copy.
    """

    def __init__(self, network: Any) -> None:
        state = network._state
        params = network._params_of(state, states.precision(state))
        self.samples = SingleSamples(state, params, network.n_features_in_)
        self.checked = network._checked
        self.changed = network._changed(state)
        self.lock = threading.Lock()
        self._rates, self._next = np.empty((0, 1)), 0
        self._readout: Any = None

    def learn(self, network: Any, x: Array) -> None:
        """Learn from one sample; if that fails, the network is as before."""
        self._put(network, x)
        if self._next == len(self._rates):
            self._rates, self._next = self._rates_ahead(network), 0
        samples = self.samples
        samples.back_up()
        try:
            settled = samples.learn(self._rates[self._next : self._next + 1])
            if not settled:
                warn(network._unsettled_message(1, 1))
            changed = network._changed(samples.state)
            if changed and not self.changed:
                warn(network._change_message(samples.state))
        except BaseException as error:
            samples.undo()
            if not isinstance(error, Diverged):
                raise
            raise network._divergence(int(samples.state.t[0]), float(np.abs(x).max()), True) from None
        self.changed, self._readout = changed, None
        self._next += 1
        network.n_samples_seen_ += 1

    def outputs(self, network: Any, x: Array) -> Array:
        """Return the outputs for one sample."""
        self._put(network, x)
        if self._readout is None:
            self._readout = network._readout(self.samples.state)
        try:
            return self.samples.settle(self._readout)
        except Diverged:
            raise network._divergence(0, float(np.abs(x).max()), False) from None

    def _put(self, network: Any, x: Array) -> None:
        sample = self.samples.sample
        sample[:] = x
        if not np.isfinite(sample).all():
            check_finite(sample[np.newaxis], 0, network)

    def _rates_ahead(self, network: Any) -> Array:
        state = self.samples.state
        if not callable(getattr(network, "eta0", None)):
            try:
                return np.require(network._rates(state, _RATES_AHEAD), np.float64, ["C", "W", "A"])
            except ValueError:  # some rate is too large, perhaps not the next one
                pass
        return np.require(network._rates(state, 1), np.float64, ["C", "W", "A"])


def one_by_one(network: Any) -> OneByOne | None:
    """Return the OneByOne of a network, with its lock acquired.

    None if the estimator has no `_state` (a network that has not started, or MinimumVolumeCone), if the state is large, or if
    another thread is in a call of the same network: the caller then takes the sample as an X of one row.
    """
    state = vars(network).get("_state")
    if state is None:
        return None
    one: OneByOne | None = vars(network).get("_one")
    if one is None or one.samples.state is not state or one.checked is not network._checked:
        if not is_small(state):
            return None
        one = network._one = OneByOne(network)
        network._state = one.samples.state
    return one if one.lock.acquire(blocking=False) else None
