"""The base of what learns from a stream: `partial_fit` and its relatives.

A subclass says how it begins (`_begin`), how it learns from rows (`_learn`), and what
it does when no more will come (`_flush`). However a stream is cut into calls, the model
ends with the same bits.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from bionica.core import samples
from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, collected
from bionica.core.dask import DaskRows
from bionica.core.estimator import Estimator, unchanged_on_error
from bionica.core.parameters import wrap_output
from bionica.core.samples import Sample


class OnlineEstimator(Estimator):
    """Base of the networks, StreamingNICA and MinimumVolumeCone."""

    #: `_waiting` holds the samples that wait until a block is full.
    _saved: ClassVar = {"_waiting": "wk"}
    _private: ClassVar[tuple[str, ...]] = ("_waiting",)
    _waiting: Array
    n_samples_seen_: Any

    # --- what a subclass has

    @abstractmethod
    def _begin(self, k: int, dtype: Any, X: Any = None) -> None:
        """Start from nothing with k mixtures: with all data X of `fit`, or without (a
        stream).
        """

    @abstractmethod
    def _learn(self, X: Array, keep: bool = False) -> Any:
        """Learn from finite rows; if `keep`, return the outputs as they arrived."""

    def _flush(self) -> None:
        """Learn from the samples that wait, because no more will come."""

    def _after_fit(self, rows: Array, n: int) -> None:
        """Look at the result of `fit` to n samples, of which `rows` are some."""

    def _after_block(self, rows: Any, n_before: int) -> None:
        """Look at the result of `partial_fit`; n_before samples were learned before."""

    def _after_outputs(self, Y: Array) -> None:
        """Look at the outputs of `partial_fit_transform`."""

    def _problems(self) -> Sequence[Any]:
        """What went wrong while it learned, as `_warn` takes it."""
        return ()

    def _warn(self, problems: Sequence[Any]) -> None:
        """Warn of problems."""

    # --- what it does with a stream

    def _fit(self, X: ArrayLike) -> None:
        data = samples.rows(self, X, reset=True)
        with one_blas_thread():
            self._begin(data.shape[1], data.dtype, data)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_epochs):
            some: list[Array] = []
            for block in collected(data, some, getattr(self, "horizon", None)):
                shuffled = block[rng.permutation(len(block))] if self.shuffle else block
                self._learn(shuffled)
            self._flush()
        self._after_fit(np.concatenate(some), len(data))

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new model, and
        decides its precision, float32 or float64.

        The model ends with the same bits however the data are cut into calls. Threads
        may not call it on one estimator.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.
        """
        with unchanged_on_error(self):
            self._advance(X)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the outputs as each sample arrived: the
        paper's y_t.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Each row is computed with what was learned before it. Rows are zero until
            the model has started (`n_samples_until_start_`).
        """
        with unchanged_on_error(self):
            blocks = self._advance(X, keep=True)
            # a copy would cost 3 ns a sample at d = 3
            Y = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            self._after_outputs(Y)
        named = samples.like(X, Y, "source", self.get_feature_names_out)
        return wrap_output(named, X, self)

    def learn_one(self, x: Sample) -> Array:
        """Learn from a single mixture, and return its output as it arrived, with the
        bits of `partial_fit_transform`.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            The next mixture. The keys of the first dict become `feature_names_in_`;
            later dicts have the same keys, in any order.

        Returns
        -------
        ndarray of shape (n_components,)
            The paper's y_t, computed with what was learned before; zero until the model
            has started (`n_samples_until_start_`).
        """
        with unchanged_on_error(self):
            return self._advance(x, keep=True, enter=samples.one)[0][0]

    def transform_one(self, x: Sample) -> Array:
        """Return the outputs for a single mixture, with the bits of `transform`.

        Parameters
        ----------
        x : array-like of shape (n_features,), or dict of feature names to numbers
            A mixture.

        Returns
        -------
        ndarray of shape (n_components,)
        """
        self._check_fitted()
        return self._transformed(samples.one(self, x))[0]

    def _advance(
        self, X: Any, keep: bool = False, enter: Callable[..., Any] = samples.rows
    ) -> list[Any]:
        """Learn from X, and warn of new problems; return the outputs of each block if
        `keep`.
        """
        first = "_waiting" not in vars(self)
        if first:
            self._freeze()
            data = enter(self, X, reset=True, dtype=samples.FLOATS)
            self._begin(data.shape[1], data.dtype)
        else:
            self._check_config()
            data = enter(self, X, dtype=self._waiting.dtype)
        problems = self._problems()
        n_before = self.n_samples_seen_
        blocks = data if isinstance(data, DaskRows) else [data]
        Y = [self._learn(block, keep) for block in blocks]
        if not keep:
            self._after_block(data, n_before)
        new = [problem for problem in self._problems() if problem not in problems]
        if new:
            self._warn(new)
        return Y

    def __getstate__(self) -> dict[str, Any]:
        own = dict(super().__getstate__())
        if "_waiting" in own:
            # A copy must not share the array to which samples are appended.
            own["_waiting"] = own["_waiting"].copy()
        return own


def not_started(n: int) -> NotFittedError:
    """The error of a model that has no weights before n more samples."""
    return NotFittedError(
        f"The model starts after {n} more samples: until then it has no weights, and"
        " its number of outputs is unknown unless n_components is a number. Bring them"
        " in one call of partial_fit_transform, or call fit"
    )


def appended(waiting: Array, part: Array, length: int) -> Array:
    """Return the waiting samples and `part`.

    They are a view of one array for `length` samples, which may not fit in memory
    twice.
    """
    n = len(waiting) + len(part)
    shape = (length, part.shape[1])
    buffer = waiting.base
    if not isinstance(buffer, np.ndarray) or buffer.shape != shape:
        buffer = np.empty(shape, waiting.dtype)
        buffer[: len(waiting)] = waiting
    buffer[len(waiting) : n] = part
    return buffer[:n]
