"""What the two single-layer networks share beyond the paper: preconditioning, averaging, where they start, how they forget.

`docs/no-tuning.md` tells why and what was measured; `networks.natural_input` has the equations.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._compat.sklearn import Interval, StrOptions
from ..engines import blocks
from ..engines.gain import gain
from ..networks import natural_input as natural
from ..networks.rule import rule_of
from ..networks.schedules import learning_rates
from ._exceptions import check_finite
from ._first_block import START_BYTES, FirstBlock
from ._start import Start, begin

Array = NDArray[Any]

#: Rates of a natural network that starts from nothing: RISE / (RISE * max(20, 2 d) + t) of the weights is renewed at sample t.
RISE = 20.0
#: The longest memory of a natural network in single precision. A share of 1/n of a weight is lost to rounding when n is larger than
#: this, except for large samples, which biases what is learned: 0.02 of error after 10^8 samples.
SINGLE_PRECISION_HORIZON = 2**20
#: How the average of the weights forgets (see `networks.natural_input`): from the offline solution, and from nothing.
SETTLED, SEARCHING = 1.0, 5.0


class SingleLayerNICA(FirstBlock):
    """Base of InterneuronNICA and TwoCompartmentNICA."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FirstBlock._parameter_constraints,
        "eta0": [Interval(Real, 0, None, closed="neither"), callable, None],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "precondition": [StrOptions({"natural", "scale"}), None],
        "average": ["boolean"],
        "init": [StrOptions({"batch", "random"}), dict],
        "init_samples": [Interval(Integral, 1, None, closed="left")],
        "horizon": [Interval(Integral, 2, None, closed="left"), None],
    }

    #: eta0 and decay of the paper's network where the user names neither.
    _plain_rates: ClassVar[tuple[float, float]]
    #: eta as a share of the weights that is renewed with a sample.
    _share: ClassVar[float]

    @abstractmethod
    def _natural_state(self, start: Start, dtype: Any, rng: np.random.RandomState) -> Any:
        """Return the natural network that begins at `start`."""

    @abstractmethod
    def _plain_start(self, start: Start) -> dict[str, Array]:
        """Return the paper's weights at the solution `start`."""

    @property
    def online_(self) -> bool:
        """Whether it learned sample by sample from the first one (the paper's first requirement); False after a batch start."""
        self._fitted_state()
        return not self.__dict__.get("_offline_start", False)

    @property
    def local_(self) -> bool:
        """Whether every synapse sees only its two neurons (the paper's second requirement); False with natural steps."""
        return bool(self.precondition != "natural")

    nonnegative_ = True

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_offline_start", None)

    def _begin(self, X: Array, rng: np.random.RandomState) -> None:
        if self.init != "batch":
            super()._begin(X, rng)
            return
        most = self.init_samples
        if X.shape[1] >= blocks.INPUTS:
            most = min(most, max(self._n_start(X.shape[1]), START_BYTES // (8 * X.shape[1])))
        if self.horizon is not None:
            block = X[: min(most, self.horizon)]
        elif len(X) <= most:
            block = X[:]
        else:  # spread evenly: neighbouring samples may be alike, as pixels are
            block = X[np.arange(most) * len(X) // most]
        check_finite(block, 0, type(self).__name__)
        start = begin(block, self._count(block), rng, offline=True)
        self._offline_start = True
        if self.precondition == "natural":
            self._adopt(self._natural_at(start, X.dtype, rng))
            return
        k, d = start.inverse.shape
        if self.precondition == "scale":
            start = start._replace(inverse=start.inverse / rms(block)[:, np.newaxis], F=start.F * rms(block))
        weights = {name: W.astype(X.dtype) for name, W in self._plain_start(start).items()}
        state = self._initial_state(k, d, X.dtype, rng, weights)
        state.fired[:] = start.y_bar > 0
        if self.precondition == "scale":
            state.x_power[:] = rms(block) ** 2
        self._adopt(state)

    def _natural_at(self, start: Start, dtype: Any, rng: np.random.RandomState) -> Any:
        state = self._natural_state(start, dtype, rng)
        state.fired[:] = start.y_bar > 0  # else the guard would flip an output that is silent in the next sample only
        return state

    def _waits(self) -> bool:
        return bool(self.precondition == "natural")

    def _started(self, rows: Array) -> Any:
        rng = np.random.RandomState(self._start_seed)
        return self._natural_at(begin(rows, self._count(rows), rng, offline=False), rows.dtype, rng)

    def _rates(self, state: Any, n: int) -> Array:
        t, d = int(state.t[0]), state.fired.size
        is_natural = self.precondition == "natural"
        if self.eta0 is not None or self.decay is not None or not is_natural:
            eta0 = self._plain_rates[0] if self.eta0 is None else self.eta0
            decay = self._plain_rates[1] if self.decay is None else self.decay
            return self._bounded(learning_rates(eta0, decay, self.power, t, n, self.horizon), state)
        horizon = self._memory(state.W_yn.dtype if hasattr(state, "W_yn") else state.W_zz.dtype)
        if self.horizon is None and vars(self).get("_offline_start", False):
            count = float(state.inp.n[0]) - t  # of the block: from there on, every sample weighs the same
            rates = learning_rates(self._share / count, 1 / count, self.power, t + 1, n, horizon)
        else:
            first = RISE * max(20, 2 * d)
            rates = learning_rates(self._share * RISE / first, 1 / first, self.power, t, n, horizon)
        return self._bounded(rates, state)

    def _memory(self, dtype: Any) -> int | None:
        """Return the horizon of a natural network of this precision."""
        if dtype == np.float32:
            return min(int(self.horizon or SINGLE_PRECISION_HORIZON), SINGLE_PRECISION_HORIZON)
        return None if self.horizon is None else int(self.horizon)

    def _bounded(self, rates: Array, state: Any) -> Array:
        return self._below(rates, state, 1.0, "1", "lower eta0")[:, np.newaxis]

    def _averaging(self) -> float:
        return SETTLED if vars(self).get("_offline_start", False) else SEARCHING

    def _readout(self, state: Any) -> Any:
        return rule_of(state).averaged(state) if self.average else state

    def _from_mixtures(self, state: Any, W: Array) -> Array:
        """Return weights from what the network sees as weights from the mixtures."""
        if isinstance(getattr(state, "inp", None), natural.Input):
            return np.asarray(W @ state.inp.F)
        return (W * gain(state.x_power)).astype(W.dtype) if self.precondition == "scale" else np.array(W)

    def _unmixing(self, state: Any) -> Array:
        V = super()._unmixing(state)
        return (V * gain(state.x_power)).astype(V.dtype) if self.precondition == "scale" else V


def rms(block: Array) -> Array:
    """Root mean square of every mixture."""
    return np.asarray(np.sqrt(np.mean(np.asarray(block, dtype=np.float64) ** 2, axis=0)))
