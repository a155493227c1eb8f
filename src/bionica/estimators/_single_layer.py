"""What the two single-layer networks share beyond the paper: preconditioning, averaging, where they start, how they forget.

`docs/no-tuning.md` tells why and what was measured; `networks.natural_input` has the equations.
"""

from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from .._compat.sklearn import Interval, StrOptions
from ..engines import blocks
from ..engines.gain import gain
from ..networks import natural_input as natural
from ..networks.rule import rule_of
from ..networks.schedules import learning_rates
from ..offline.whitening import Spectrum
from ._exceptions import check_finite
from ._online import OnlineNICA
from ._start import Start, begin, spectrum

Array = NDArray[Any]

#: Rates of a natural network that starts from nothing: RISE / (RISE * max(20, 2 d) + t) of the weights is renewed at sample t.
RISE = 20.0
#: The longest memory of a natural network in single precision. A share of 1/n of a weight is lost to rounding when n is larger than
#: this, except for large samples, which biases what is learned: 0.02 of error after 10^8 samples.
SINGLE_PRECISION_HORIZON = 2**20
#: A wide network starts from so many bytes of samples at most (but 4 d + 20 samples).
START_BYTES = 2**28
#: How the average of the weights forgets (see `networks.natural_input`): from the offline solution, and from nothing.
SETTLED, SEARCHING = 1.0, 5.0


class LocalSetting(NamedTuple):
    """Rates and means of the paper's rule."""

    eta0: float
    decay: float
    tau: float = 0.8  # Algorithm 2 only
    mean_window: int = 0  # 0: the whole past


class SingleLayerNICA(OnlineNICA):
    """Base of InterneuronNICA and TwoCompartmentNICA."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnlineNICA._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "eta0": [Interval(Real, 0, None, closed="neither"), callable, None],
        "decay": [Interval(Real, 0, None, closed="left"), None],
        "precondition": [StrOptions({"natural", "scale"}), None],
        "average": ["boolean"],
        "init": [StrOptions({"batch", "random"}), dict],
        "init_samples": [Interval(Integral, 1, None, closed="left")],
        "horizon": [Interval(Integral, 2, None, closed="left"), None],
    }

    #: eta0 and decay of the paper's network where the user names only the other.
    _plain_rates: ClassVar[tuple[float, float]]
    #: eta as a share of the weights that is renewed with a sample.
    _share: ClassVar[float]

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

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before the network starts; until then its outputs are zero. 0 from then on."""
        if "_state" in vars(self) or "_waiting" not in vars(self):
            self._fitted_state()
            return 0
        return self._n_start(self.n_features_in_) - len(self._waiting)

    def _forget(self) -> None:
        for name in ("_state", "_waiting", "_preview", "_start_seed", "_offline_start", "spectrum_"):
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self) or "_waiting" in vars(self)

    def _fitted_state(self) -> Any:
        if "_waiting" not in vars(self) or "_state" in vars(self):
            return super()._fitted_state()
        if "_preview" not in vars(self):  # the network that it would be if the stream ended here
            self._preview = self._started(self._waiting)
        return self._preview

    def _count(self, block: Array) -> int:
        """Return the number of sources."""
        if self.n_components == "auto":
            self.spectrum_: Spectrum = spectrum(np.asarray(block, dtype=np.float64))
            return max(1, int(self.spectrum_.n_sources))
        return super()._count(block)

    def _begin(self, X: Array, rng: np.random.RandomState) -> None:
        if self.init != "batch":
            if self.precondition != "natural":
                super()._begin(X, rng)
            return  # else it starts as a stream does
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

    def _n_start(self, k: int) -> int:
        d = k if not isinstance(self.n_components, Integral) else int(self.n_components)
        return min(100 + 20 * d, max(4 * d + 20, START_BYTES // (8 * k)))

    def _started(self, rows: Array) -> Any:
        rng = np.random.RandomState(self._start_seed)
        return self._natural_at(begin(rows, self._count(rows), rng, offline=False), rows.dtype, rng)

    def _learn(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        """As the base class does; but a natural network that starts from nothing first collects `_n_start` samples.

        It is silent meanwhile (its outputs are zero), then learns from them too. That depends on the number of samples
        alone, not on how they are cut into calls.
        """
        if self.precondition != "natural" or "_state" in vars(self):
            return super()._learn(X, keep, order)
        if order is not None:
            X = X[order]
        known: Array = vars(self).get("_waiting", np.empty((0, X.shape[1]), X.dtype))
        if "_start_seed" not in vars(self):
            self._start_seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        missing = self._n_start(X.shape[1]) - len(known)
        if keep and self.n_components == "auto" and (len(known) or len(X) < missing):
            raise ValueError(
                f"n_components='auto' counts the sources in the first {missing + len(known)} samples, and until then the outputs "
                "have no number: give these samples in one call, or give n_components a number"
            )
        self.__dict__.pop("_preview", None)
        taken = np.asarray(X[:missing], dtype=known.dtype)
        check_finite(taken, 0, type(self).__name__)
        self._waiting = self._behind(known, taken)
        if not len(known):  # fail now rather than after buffering
            self._rates(self._started(self._waiting), 1)
        d = self._count(self._waiting)
        silent = np.zeros((len(taken) if keep else 0, d), known.dtype)
        self.n_samples_seen_ = len(self._waiting)
        if len(taken) < missing:
            return silent
        state = self._started(self._waiting)
        self._stream(state, self._waiting, learn=True, keep=False)
        del self._waiting
        self._adopt(state)
        if len(taken) == len(X):
            return silent
        return np.concatenate([silent, super()._learn(X[missing:], keep)])

    def _behind(self, known: Array, taken: Array) -> Array:
        """Return the waiting samples with these behind them, in the one place that has room for all: they may not fit twice."""
        n, k = len(known) + len(taken), known.shape[1]
        size = self._n_start(k), k
        room = known.base
        if not isinstance(room, np.ndarray) or room.shape != size:
            room = np.empty(size, known.dtype)
            room[: len(known)] = known
        room[len(known) : n] = taken
        return room[:n]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # A copy waits in a place of its own.
        return state | {"_waiting": state["_waiting"].copy()} if "_waiting" in state else state

    def _open(self, X: Array) -> tuple[Any, Array]:
        if self.precondition != "natural":
            return super()._open(X)
        Y = self._learn(X[: self._n_start(X.shape[1])], keep=True)
        return self._fitted_state(), Y

    def _rates(self, state: Any, n: int) -> Array:
        t, d = int(state.t[0]), state.fired.size
        is_natural = self.precondition == "natural"
        if self.eta0 is not None or self.decay is not None or not is_natural:
            eta0 = self._setting(d).eta0 if self.eta0 is None else self.eta0
            decay = self._setting(d).decay if self.decay is None else self.decay
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
