"""The public methods of estimators that learn from a stream of samples: in chunks of any length, and one by one."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._compat.sklearn import parameter_values, wrap_output
from ._base import Separator
from ._findings import warn_of_huge_outputs
from ._input import (
    Array,
    DaskRows,
    Sample,
    is_dask,
    sample_names,
    unchanged_on_error,
    validated_rows,
    validated_sample,
    warn,
)


def tracked(blocks: Iterable[Any], estimator: Any, total: int) -> Iterable[Any]:
    """Return the blocks, with a progress bar on standard error if the estimator is verbose."""
    if not estimator.verbose:
        return blocks
    from rich.console import Console
    from rich.progress import track

    return track(blocks, type(estimator).__name__, total=total, console=Console(stderr=True))


class Online(Separator):
    """Base of the networks and of MinimumVolumeCone; samples that wait for a first block or a full block are in `_waiting`."""

    @abstractmethod
    def _learn(self, X: Array, keep: bool) -> Array:
        """Learn from the rows of X, which may hold NaN; return the output for each row before it was learned if `keep`."""

    @abstractmethod
    def _outputs(self, X: Array) -> Array:
        """Return the outputs for the rows of X, which may hold NaN, with what was learned."""

    def _warning_of_news(self, tell: Callable[[str], None] = warn) -> AbstractContextManager[None]:
        """Tell what learning within this context finds to speak against the result."""
        return nullcontext()

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
        with unchanged_on_error(self), self._warning_of_news():
            data = self._validated(X, reset=not self.__sklearn_is_fitted__())
            for block in data if isinstance(data, DaskRows) else (data,):
                self._learn(block, keep=False)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the outputs as each sample arrived: the paper's y_t.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            Each row is computed with what was learned before it. Rows are zero until the model has started: estimators that
            start from a first block of samples have the attribute `n_samples_until_start_`.
        """
        if is_dask(X):
            raise TypeError(
                "X is a Dask array, and outputs made while learning cannot be computed later: call partial_fit_transform with one "
                "block after the other, (block.compute() for block in X.blocks), or partial_fit and then transform"
            )
        with unchanged_on_error(self), self._warning_of_news():
            Y = self._learn(self._validated(X, reset=not self.__sklearn_is_fitted__()), keep=True)
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
        row = validated_sample(self, x)
        self._check_params()
        with unchanged_on_error(self), self._warning_of_news():
            if "n_features_in_" not in vars(self):
                names = sample_names(x)
                if names is not None and all(isinstance(name, str) for name in names):
                    self.feature_names_in_ = np.array(names, dtype=object)
                self.n_features_in_ = row.shape[1]
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
        row = validated_sample(self, x)
        self._check_params()
        return np.asarray(self._outputs(row)[0])

    def _check_params(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now = tuple(map(id, parameter_values(type(self))(self)))
        if now != self.__dict__.get("_checked"):
            self._validate_params()
            self._checked = now
            self.__dict__.pop("_runner", None)  # of a network: it was made for other parameters

    def _validated(self, X: ArrayLike, reset: bool) -> Any:
        """Return X as an array that may hold NaN, or a Dask array as `DaskRows`, which checks each block when it is read."""
        self._check_params()
        return validated_rows(self, X, reset=reset, finite=False)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in super().__getstate__().items() if name != "_checked"}
        # The copy gets an array of its own: `appended` writes into it.
        return state | {"_waiting": state["_waiting"].copy()} if "_waiting" in state else state

    def _unknown_number(self, n: int) -> ValueError:
        """Return the error of `partial_fit_transform` for fewer than n samples, from which the sources are counted."""
        return ValueError(
            f"n_components={self.n_components!r} counts the sources in the first {n} samples, and until then the number of outputs "
            "is unknown: give these samples in one call, or give n_components a number"
        )

    def _new_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _waiting_rows(self, X: Array) -> Array:
        """Return the samples that wait, none before the first X."""
        waiting: Array = vars(self).get("_waiting", np.empty((0, X.shape[1]), X.dtype))
        return waiting


def appended(waiting: Array, part: Array, length: int) -> Array:
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
