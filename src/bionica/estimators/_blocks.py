"""Estimators that learn from a stream in blocks of samples that are counted from the first sample, not from the calls.

Samples wait until their block is full (`_waiting`). So any chunking of the stream into calls gives the same bits.
"""

from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._compat.sklearn import parameter_ids, validate_params, wrap_output
from ._base import Estimator
from ._dask import DaskRows, blocks_of, checked, is_dask, refuse_dask
from ._exceptions import check_finite, finite_map, singular_as_divergence
from ._input import unchanged_on_error, validated
from ._one_sample import Array, OneSample, Sample


class InBlocks(OneSample, Estimator):
    """Base: a subclass has `_block_length`, `_take`, `_outputs` and `_outputs_now`."""

    @abstractmethod
    def _block_length(self, k: int) -> int:
        """Return the number of samples of the block that is being filled."""

    @abstractmethod
    def _take(self, block: Array) -> None:
        """Learn from a full block."""

    @abstractmethod
    def _warning_of_news(self) -> AbstractContextManager[None]:
        """Warn of what learning within this block finds to speak against the result."""

    @abstractmethod
    def _outputs(self, X: Array) -> Array:
        """Return the outputs for X with the last solution."""

    @abstractmethod
    def _outputs_now(self, X: Array) -> Array:
        """Return the outputs for X with what was learned from full blocks."""

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new model.

        However the data are cut into calls, the model ends with the same bits. It keeps the precision of the first X, float32 or
        float64. Do not call it from several threads on one estimator.

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
        with unchanged_on_error(self), self._warning_of_news():
            for block in blocks_of(self._next_rows(X)):
                self._learn(block, keep=False)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X, and return the outputs with what was learned before each of them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            Zero for the samples of the first block (see `n_samples_until_start_`).
        """
        refuse_dask(X)
        with unchanged_on_error(self), self._warning_of_news():
            Y = self._learn(self._next_rows(X), keep=True)
        return wrap_output(Y, X, self)

    def learn_one(self, x: Sample) -> Self:
        """Learn from a single mixture.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            The next mixture. The keys of the first dict become `feature_names_in_`; later dicts have the same keys, in any order.

        Returns
        -------
        self
        """
        row = self._row(x)
        with unchanged_on_error(self), self._warning_of_news():
            self._check_params()
            self._remember_features(x, row)
            check_finite(row, 0, self)
            self._learn(row, keep=False)
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
        row = self._row(x)
        check_finite(row, 0, self)
        return np.asarray(finite_map(self._outputs, row, type(self).__name__)[0])

    def _check_params(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now = parameter_ids(self)
        if now != vars(self).get("_checked"):
            validate_params(self)
            self._checked = now

    def _next_rows(self, X: ArrayLike) -> Any:
        """Return X as validated, finite; a Dask array as `DaskRows`, which checks each block when it is read."""
        self._check_params()
        first = not self.__sklearn_is_fitted__()
        if is_dask(X):
            return DaskRows(checked(X, self, reset=first), type(self).__name__)
        return validated(self, X, reset=first)

    def _learn(self, X: Array, keep: bool) -> Array:
        """Fill blocks with the rows of X, and learn from those that are full; return outputs if asked to `keep` them."""
        waiting: Array = vars(self).get("_waiting", np.empty((0, X.shape[1]), X.dtype))
        Y, start = [], 0
        while start < len(X):
            length = self._block_length(X.shape[1])
            part = X[start : start + length - len(waiting)]
            if keep:
                Y.append(finite_map(self._outputs_now, part, type(self).__name__, start))
            waiting = self._waiting = _appended(waiting, part, length)
            self.n_samples_seen_ = vars(self).get("n_samples_seen_", 0) + len(part)
            if len(waiting) == length:
                self._waiting = waiting[:0].copy()
                with singular_as_divergence(type(self).__name__, self.n_samples_seen_ - 1):
                    self._take(waiting)
                waiting = self._waiting
            start += len(part)
        return np.concatenate(Y) if keep else np.empty((0, 0))

    def __sklearn_is_fitted__(self) -> bool:
        return "_waiting" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {name: value for name, value in super().__getstate__().items() if name != "_checked"}
        # A copy waits in a place of its own.
        return state | {"_waiting": state["_waiting"].copy()} if "_waiting" in state else state


def _appended(waiting: Array, part: Array, length: int) -> Array:
    """Return the waiting samples with `part` behind them, in one array with room for the whole block."""
    n = len(waiting) + len(part)
    room = waiting.base
    if not isinstance(room, np.ndarray) or room.shape != (length, part.shape[1]):
        room = np.empty((length, part.shape[1]), waiting.dtype)
        room[: len(waiting)] = waiting
    room[len(waiting) : n] = part
    return room[:n]
