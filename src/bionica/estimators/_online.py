"""Estimators that learn from a stream of samples: in chunks of any length, and one by one.

Some learn from blocks of samples: a network from a first block, which shows its scale, its leading directions or the number of
sources, and MinimumVolumeCone from one block after the other. Samples wait in `_waiting` until their block is full. Blocks are
counted from the first sample, not from the calls, so that the model has the same bits however a stream is cut. `_state` is what
was learned, and None before the start: until then outputs are zero.
"""

from abc import abstractmethod
from operator import is_
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from .._compat.sklearn import parameter_values, wrap_output
from ._base import Separator
from ._findings import warn_of_huge_outputs
from ._input import Array, Sample, blocks_of, check_finite, unchanged_on_error, validated_rows, validated_sample, warn

#: Largest size of a block in bytes, unless 4 d + 20 samples are larger.
_BLOCK_BYTES = 2**28


class Online(Separator):
    """Base of the networks and of MinimumVolumeCone."""

    _state: Any = None
    _waiting: Array
    _rank: int | None = None  # of the X of `fit`, if it is the number of sources

    @abstractmethod
    def _block_length(self, k: int) -> int:
        """Return the number of samples of the block that is being filled; 0 if samples need not wait."""

    @abstractmethod
    def _check_start(self, X: Array) -> None:
        """Raise ValueError if the parameters do not fit the first samples X: now rather than after buffering."""

    @abstractmethod
    def _take(self, X: Array, keep: bool = False) -> Any:
        """Learn from a full block, or from any samples; return the output for each row before it was learned if `keep`."""

    def _problems(self) -> set[str]:
        """Return what speaks against the result, as far as learning itself shows it."""
        return set()

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new model.

        The model ends with the same bits however the data are cut into calls. (A network with at least 1000 mixtures and 2^18
        weights from them processes samples in blocks: its results agree to rounding.) The model keeps the precision of the first
        X, float32 or float64. Do not call this method from several threads on one estimator.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._check_params()
        with unchanged_on_error(self):
            for block in blocks_of(validated_rows(self, X, reset="_waiting" not in vars(self))):
                self._learn(block)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the outputs as each sample arrived: the paper's y_t.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            Each row is computed with what was learned before it. Rows are zero until the model has started
            (`n_samples_until_start_`).
        """
        self._check_params()
        with unchanged_on_error(self):
            blocks = blocks_of(validated_rows(self, X, reset="_waiting" not in vars(self)))
            Y = np.concatenate([self._learn(block, keep=True) for block in blocks])
            warn_of_huge_outputs(self, Y)
        return wrap_output(Y, X, self)

    def learn_one(self, x: Sample) -> Self:
        """Learn from a single mixture, with the bits of `partial_fit`. No other thread may use the estimator meanwhile.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            The next mixture. The keys of the first dict become `feature_names_in_`; later dicts have the same keys, in any order.

        Returns
        -------
        self
        """
        self._check_params()
        with unchanged_on_error(self):
            self._learn(validated_sample(self, x, reset="_waiting" not in vars(self)))
        return self

    def transform_one(self, x: Sample) -> Array:
        """Return the sources of a single mixture.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            A mixture.

        Returns
        -------
        y : ndarray of shape (n_components,)
            Nonnegative.
        """
        self._check_is_fitted()
        return np.asarray(self._outputs(validated_sample(self, x))[0])

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before the model starts; until then its outputs are zero. 0 from then on."""
        self._check_is_fitted()
        return 0 if self._state is not None else self._block_length(self.n_features_in_) - len(self._waiting)

    def _check_params(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now, before = parameter_values(type(self))(self), self.__dict__.get("_checked")
        if before is None or not all(map(is_, now, before)):
            self._validate_params()
            self._checked = now
            self.__dict__.pop("_runner", None)  # of a network: it was made for other parameters

    def _reset(self, X: Any) -> None:
        """Forget what was learned, before the first rows X."""
        self._waiting, self._state = np.empty((0, X.shape[1]), X.dtype), None

    def _learn(self, X: Array, keep: bool = False, quiet: bool = False) -> Any:
        """Learn from the rows of X, which are finite, and warn of what speaks against the result since then.

        Return the outputs before each row was learned if `keep`.
        """
        if "_waiting" not in vars(self):
            self._reset(X)
        known, dtype = self._problems(), self._waiting.dtype
        if X.dtype != dtype:
            with np.errstate(over="ignore"):
                X = X.astype(dtype)
            check_finite(X, 0, self)
        silent, Y = 0, []
        while len(X):
            length = self._block_length(X.shape[1])
            if not length:
                Y.append(self._take(X, keep))
                break
            n = length - len(self._waiting)
            part, X = X[:n], X[n:]
            if self._state is None:
                silent += len(part)
            elif keep:
                Y.append(self._outputs(part))
            self._waiting = _appended(self._waiting, part, length)
            if len(self._waiting) == length:
                block, self._waiting = self._waiting, self._waiting[:0].copy()
                self._take(block)
            elif self._state is None and len(self._waiting) == len(part):
                self._check_start(part)
        for text in () if quiet else sorted(self._problems() - known):
            warn(f"{type(self).__name__}: {text}")
        return np.concatenate([np.zeros((silent, self._n_features_out), dtype), *Y]) if keep else None

    def _started(self) -> Any:
        """Return the state; NotFittedError if the model has not started."""
        self._check_is_fitted()
        if self._state is None:
            raise NotFittedError(
                f"This {type(self).__name__} starts after {self.n_samples_until_start_} more samples: until then it has no "
                "weights, and its number of outputs is unknown unless n_components is a number. Bring the samples, in one call of "
                "partial_fit_transform, or call fit"
            )
        return self._state

    def _outputs(self, X: Array) -> Array:
        if self._state is None:
            return np.zeros((len(X), self._n_features_out), self._waiting.dtype)
        return super()._outputs(X)

    def _check_saved(self) -> None:
        length = self._block_length(self.n_features_in_)
        if not (self._state is None) <= len(self._waiting) < max(1, length):
            raise ValueError(f"{len(self._waiting)} samples wait for a block of {length}")
        if self._state is not None:
            super()._check_saved()
        else:
            self._given_number(self.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return "_waiting" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        state.pop("_checked", None)
        if "_waiting" in state:  # `_appended` writes into it
            state["_waiting"] = state["_waiting"].copy()
        return state


def bounded(n: int, d: int, k: int) -> int:
    """Return n samples, or as many as the largest size of a block allows."""
    return min(n, max(4 * d + 20, _BLOCK_BYTES // (8 * k)))


def _appended(waiting: Array, part: Array, length: int) -> Array:
    """Return the waiting samples with `part` behind them, as a view of one array with room for `length` samples.

    The array is written in place, because the samples may not fit in memory twice.
    """
    n, shape = len(waiting) + len(part), (length, part.shape[1])
    room = waiting.base
    if not isinstance(room, np.ndarray) or room.shape != shape:
        room = np.empty(shape, waiting.dtype)
        room[: len(waiting)] = waiting
    room[len(waiting) : n] = part
    return room[:n]
