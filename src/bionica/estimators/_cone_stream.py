"""How a `MinimumVolumeCone` learns: in blocks of samples that are counted from the first sample, not from the calls.

Samples wait in `_waiting` until their block is full. Therefore the model has the same bits however the stream is cut into calls.
`_stream` is the state after the last block (`bionica.offline.cone.stream`), and None before the first.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
from sklearn.exceptions import NotFittedError

from ..offline.cone.channels import eigenvalues
from ..offline.cone.readout import Readout, readout
from ..offline.cone.stream import BLOCK, Settings, State, begin, first_block, learn, solve
from ..offline.cone.wide_channels import WIDE
from ..offline.source_count import Count, count_sources
from ._base import check_number, rectified
from ._input import Array, DivergenceError, cell, check_finite, finite_map, singular_as_divergence
from ._online import Online, appended
from .network import START_BYTES

_BLOCK_BYTES = 2**25
_RANK_ROWS = 20_000  # the rank is first determined from this number of rows


class ConeStream(Online):
    """Base of `MinimumVolumeCone`."""

    def _prepare(self, X: Array) -> None:
        """Before the first sample: the precision, and the seed of the start."""
        self._dtype = X.dtype
        self._start_seed = self._new_seed()
        self._stream: State | None = None

    def _learn(self, X: Array, keep: bool) -> Array:
        if "_stream" not in vars(self):
            self._prepare(X)
        self.__dict__.pop("_preview", None)
        with np.errstate(over="ignore"):
            X = X.astype(self._dtype, copy=False)
        check_finite(X, 0, self)
        waiting = self._waiting_rows(X)
        Y, start = [], 0
        while start < len(X):
            length = self._block_length(X.shape[1])
            part = X[start : start + length - len(waiting)]
            if keep:
                Y.append(finite_map(self._outputs_before, part, type(self).__name__, start))
            waiting = self._waiting = appended(waiting, part, length)
            self.n_samples_seen_ = vars(self).get("n_samples_seen_", 0) + len(part)
            if len(waiting) == length:
                self._waiting = waiting[:0].copy()
                with singular_as_divergence(type(self).__name__, self.n_samples_seen_ - 1):
                    self._take(waiting)
                waiting = self._waiting
            start += len(part)
        return np.concatenate(Y) if keep else np.empty((0, 0))

    def _block_length(self, k: int) -> int:
        """Return the number of samples of the block that is being filled."""
        if self._stream is not None:
            return min(BLOCK, max(50, _BLOCK_BYTES // (8 * k)))
        d = self._given_number() or k
        return min(first_block(d), max(4 * d + 20, START_BYTES // (8 * k)))

    def _take(self, block: Array) -> None:
        """Learn from a full block."""
        if self._stream is None:
            self._adopt(self._begun(block))
            return
        with np.errstate(over="ignore", invalid="ignore"):
            state = learn(self._stream, block, self._settings())
        if not np.isfinite(state.weighted.second).all():
            at = self._stream.n + int(np.argmax(np.abs(block).max(axis=1)))
            raise DivergenceError(
                f"MinimumVolumeCone: the second moment of the mixtures overflowed at sample {at}: rescale the mixtures (largest "
                f"absolute value {np.abs(block).max():.2g}). The model is as it was before this call.",
                at,
            )
        self._adopt(state)

    def _end(self) -> None:
        """Solve the cone with the samples that still wait for their block."""
        waiting, self._waiting = self._waiting, self._waiting[:0].copy()
        if self._stream is None:
            self._adopt(self._begun(waiting))
            return
        state = learn(self._stream, waiting, self._settings()) if len(waiting) else self._stream
        self._adopt(solve(state, self._settings()))

    def _adopt(self, state: State) -> None:
        self._stream = state
        self._read = self.normalize, readout(state, self.normalize)  # the scale of the outputs follows the moments

    @contextmanager
    def _warning_of_news(self) -> Iterator[None]:
        yield

    def _settings(self) -> Settings:
        return Settings(float(self.outliers), float(self.horizon or np.inf))

    def _begun(self, X: Array) -> State:
        """Return the state after a first block."""
        if self.noise == "poisson" and X.min() < 0:
            i, j = np.argwhere(X < 0)[0]
            raise ValueError(
                f"noise='poisson' takes X for counts, but {cell(self, i, j)} is {X[i, j]:.3g}: pass counts without subtracting a "
                "background, or use noise='estimate'"
            )
        d = self._count(X)
        return begin(X, d, self.noise, self._settings(), np.random.RandomState(self._start_seed))

    def _count(self, X: Array) -> int:
        """Return the number of sources in X."""
        given, k = self._given_number(), X.shape[1]
        check_number(given, k)
        rows = X if given is None else X[:: -(-len(X) // (_RANK_ROWS if k <= WIDE else max(500, 2 * given)))]
        values = eigenvalues(rows)
        if given is not None and len(values) < given:
            values = eigenvalues(X)
        rank = len(values)
        if not rank:
            raise ValueError(f"All {len(X)} sample(s) of X are zero (rank 0): pass mixtures that are not zero.")
        if given is not None:
            if given > rank:
                raise ValueError(
                    f"n_components={given} exceeds the rank of the data: {len(X)} samples of {k} features span {rank} "
                    f"direction(s) only. Use n_components=None (keeps {rank}), a number up to {rank}, or more samples."
                )
            return given
        if self.n_components is None:
            return rank
        self.count_: Count = count_sources(X)
        return self.count_.n_sources

    def _solved(self) -> State:
        """Return the last solution, or the one that would be found if the stream ended before its first."""
        self._check_is_fitted()
        if self._stream is not None:
            return self._stream
        if "_preview" not in vars(self):
            try:
                self._preview = self._begun(self._waiting)
            except ValueError as error:
                raise NotFittedError(str(error)) from error
            self.__dict__.pop("_read", None)
        return self._preview

    def _readout(self) -> Readout:
        state = self._solved()
        if vars(self).get("_read", (None,))[0] != self.normalize:
            self._read = self.normalize, readout(state, self.normalize)
        found: Readout = self._read[1]
        return found

    def _outputs(self, X: Array) -> Array:
        check_finite(X, 0, self)
        return finite_map(partial(rectified, W=self._readout().components), X, type(self).__name__)

    def _outputs_before(self, X: Array) -> Array:
        """Return the outputs for X with what was learned from full blocks: zero before the first."""
        if self._stream is not None:
            return rectified(X, self._readout().components)
        d = self._given_number()
        if d is None and len(X) < self._block_length(X.shape[1]):
            raise self._unknown_number(self._block_length(X.shape[1]))
        return np.zeros((len(X), self._count(X) if d is None else d), self._dtype)

    def __sklearn_is_fitted__(self) -> bool:
        return "_waiting" in vars(self)
