"""Networks that start from a first block of samples: its scale, its leading directions, the number of sources.

Such a network collects `_n_start` samples. It is silent meanwhile (its outputs are zero), then starts and learns from them too.
When it starts depends on the number of samples alone, not on how they are cut into calls. If `fit` has fewer samples than that, it
starts from all of them.
"""

from abc import abstractmethod
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._compat.sklearn import Interval, StrOptions
from ..offline.source_count import Spectrum
from ._exceptions import check_finite
from ._online import OnlineNICA
from ._online_methods import appended
from ._source_count import warn_of_count
from ._start import spectrum, warn_of_many_outputs

Array = NDArray[Any]

#: Largest size of a first block in bytes, unless 4 d + 20 samples are larger.
START_BYTES = 2**28


class FirstBlock(OnlineNICA):
    """Base of networks that may need a first block of samples."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnlineNICA._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
    }

    @abstractmethod
    def _waits(self) -> bool:
        """Whether this network, with its parameters, needs a first block."""

    @abstractmethod
    def _started(self, rows: Array) -> Any:
        """Return the state that starts from this first block and has not learned from it; random numbers from `_start_seed`."""

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before the network starts; until then its outputs are zero. 0 from then on."""
        if "_state" in vars(self) or "_waiting" not in vars(self):
            self._fitted_state()
            return 0
        return self._n_start(self.n_features_in_) - len(self._waiting)

    def _check_saved(self) -> None:
        if "_state" in vars(self):
            super()._check_saved()
            return
        k, n = self.n_features_in_, len(self._waiting)
        self._check_number_saved(self._given_number() or 1)
        if not self._waits() or not 0 < n < self._n_start(k):
            raise ValueError(f"{n} samples wait for the start of a network that begins with {self._n_start(k)} samples")
        if "_start_seed" not in vars(self):
            raise ValueError("samples wait for the start, but its seed is missing")

    def _forget(self) -> None:
        for name in ("_state", "_waiting", "_preview", "_start_seed", "spectrum_"):
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
            self.spectrum_: Spectrum = spectrum(np.asarray(block, dtype=np.float64), screened=False)
            return max(1, int(self.spectrum_.n_sources))
        return super()._count(block)

    def _warn_of_count(self, block: Array) -> None:
        """Warn of a doubtful number of outputs, before the network learns."""
        warn_of_many_outputs(self, block)
        if "spectrum_" in vars(self):
            warn_of_count(type(self).__name__, self.n_components, self.spectrum_, min(block.shape))

    def _begin(self, X: Array, rng: np.random.RandomState) -> None:
        if not self._waits():
            super()._begin(X, rng)
        elif len(X) < self._n_start(X.shape[1]):  # no more samples will come: start from these
            rows = X[:]
            check_finite(rows, 0, self)
            self._start_seed = self._new_seed()
            state = self._started(rows)
            self._warn_of_count(rows)
            self._adopt(state)

    def _n_start(self, k: int) -> int:
        """Return the length of the first block of k mixtures."""
        d = self._given_number() or k
        return min(100 + 20 * d, max(4 * d + 20, START_BYTES // (8 * k)))

    def _learn(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        """As the base class does, after the first block."""
        if not self._waits() or "_state" in vars(self):
            return super()._learn(X, keep, order)
        if order is not None:
            X = X[order]
        known = self._waiting_rows(X)
        if "_start_seed" not in vars(self):
            self._start_seed = self._new_seed()
        missing = self._n_start(X.shape[1]) - len(known)
        if keep and self.n_components == "auto" and (len(known) or len(X) < missing):
            raise self._unknown_number(missing + len(known))
        self.__dict__.pop("_preview", None)
        taken = np.asarray(X[:missing], dtype=known.dtype)
        check_finite(taken, 0, self)
        self._waiting = appended(known, taken, self._n_start(X.shape[1]))
        if not len(known):  # fail now rather than after buffering
            self._rates(self._started(self._waiting), 1)
        self.n_samples_seen_ = len(self._waiting)
        if len(taken) < missing and not keep:
            return known[:0]
        silent = np.zeros((len(taken) if keep else 0, self._count(self._waiting)), known.dtype)
        if len(taken) < missing:
            return silent
        state = self._started(self._waiting)
        self._warn_of_count(self._waiting)
        self._stream(state, self._waiting, learn=True, keep=False)
        del self._waiting
        self._adopt(state)
        if len(taken) == len(X):
            return silent
        rest = super()._learn(X[missing:], keep)
        return np.concatenate([silent, rest]) if keep else rest

    def _open(self, X: Array) -> tuple[Any, Array]:
        if not self._waits():
            return super()._open(X)
        Y = self._learn(X[: self._n_start(X.shape[1])], keep=True)
        return self._fitted_state(), Y
