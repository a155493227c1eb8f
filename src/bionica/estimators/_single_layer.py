"""What the two single-layer networks share beyond the paper: preconditioning, averaging, where they start, how they forget.

`docs/guides/no-tuning.md` tells why and what was measured; `networks.running_whitening` has the equations.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compat.sklearn import Interval, StrOptions
from ..engines.loop import gain
from ..networks import running_whitening
from ..networks.rule import rule_of
from ..networks.schedules import learning_rates
from ._first_block import FirstBlock
from ._start import Start, begin

Array = NDArray[Any]

#: The longest memory of a natural network in single precision. A share of 1/n of a weight is lost to rounding when n is larger than
#: this, except for large samples, which biases what is learned: 0.02 of error after 10^8 samples.
SINGLE_PRECISION_HORIZON = 2**20
#: gamma of the averaged weights of the paper's rules (see `networks.plasticity`).
AVERAGING = 5.0


class LocalSetting(NamedTuple):
    """Rates and means of the paper's rule."""

    eta0: float
    decay: float
    tau: float = 0.8  # Algorithm 2 only
    mean_window: int = 0  # 0: the whole past


class SingleLayerNICA(FirstBlock):
    """Base of InterneuronNICA and TwoCompartmentNICA."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FirstBlock._parameter_constraints,
        "eta0": [Interval(Real, 0, None, closed="neither"), callable, None],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "precondition": [StrOptions({"natural", "scale"}), None],
        "average": ["boolean"],
        "horizon": [Interval(Integral, 2, None, closed="left"), None],
    }

    _fixed: ClassVar[tuple[str, ...]] = ("n_components", "precondition")
    #: eta0 and decay of the paper's network where the user names only the other.
    _plain_rates: ClassVar[tuple[float, float]]

    @abstractmethod
    def _natural_state(self, start: Start, dtype: Any, rng: np.random.RandomState) -> Any:
        """Return the natural network that begins at `start`."""

    @abstractmethod
    def _local_setting(self, d: int) -> LocalSetting:
        """Return what a local network of d outputs uses where the user names neither eta0 nor decay."""

    def _setting(self, d: int) -> LocalSetting:
        """Return what a local network of d outputs uses for parameters that are None."""
        if self.eta0 is None and self.decay is None:
            return self._local_setting(d)
        return LocalSetting(*self._plain_rates)

    def _window(self, d: int) -> int:
        return int(self.mean_window or self._setting(d).mean_window)

    @property
    def local_(self) -> bool:
        """Whether every synapse sees only its two neurons (the paper's second requirement); False with natural steps."""
        return bool(self.precondition != "natural")

    online_ = nonnegative_ = True

    def _waits(self) -> bool:
        return bool(self.precondition == "natural")

    def _changed(self, state: Any) -> bool:
        is_natural = isinstance(getattr(state, "inp", None), running_whitening.Input)
        return self.horizon is None and is_natural and bool(state.inp.changed[0])

    def _started(self, rows: Array) -> Any:
        rng = np.random.RandomState(self._start_seed)
        return self._natural_state(begin(rows, self._count(rows), rng), rows.dtype, rng)

    def _rates(self, state: Any, n: int) -> Array:
        if self.precondition == "natural":
            default = running_whitening.ETA, 0.0
        else:
            default = self._setting(state.fired.size)[:2]
        eta0 = default[0] if self.eta0 is None else self.eta0
        decay = default[1] if self.decay is None else self.decay
        return self._bounded(learning_rates(eta0, decay, self.power, int(state.t[0]), n, self.horizon), state)

    def _memory(self, dtype: Any) -> int:
        """Return the horizon of a natural network of this precision; 0 for none."""
        if dtype == np.float32:
            return min(int(self.horizon or SINGLE_PRECISION_HORIZON), SINGLE_PRECISION_HORIZON)
        return int(self.horizon or 0)

    def _bounded(self, rates: Array, state: Any) -> Array:
        return self._below(rates, state, 1.0, "1", "lower eta0")[:, np.newaxis]

    def _readout(self, state: Any) -> Any:
        return rule_of(state).averaged(state) if self.average else state

    def _from_mixtures(self, state: Any, W: Array) -> Array:
        """Return weights from what the network sees as weights from the mixtures."""
        if isinstance(getattr(state, "inp", None), running_whitening.Input):
            return np.asarray(W @ state.inp.F)
        return (W * gain(state.x_power)).astype(W.dtype) if self.precondition == "scale" else np.array(W)

    def _unmixing(self, state: Any) -> Array:
        V = super()._unmixing(state)
        return (V * gain(state.x_power)).astype(V.dtype) if self.precondition == "scale" else V
