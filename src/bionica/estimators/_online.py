"""The scikit-learn face of the online networks: batches, single samples, and what was learned."""

from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..networks import rule as states
from ..networks.rule import REPAIRS, UNSETTLED, finite, pseudoinverse, rule_of
from ._base import number_of_sources
from ._dask import DaskRows, checked, is_dask, lazily
from ._diagnosis import Diagnosable
from ._fit_doubts import RowCollector, Rows, fit_doubts
from ._published import published
from ._score import Scored
from ._start import warn_of_many_outputs
from ._streaming import Array, Streaming
from ._warn import warn

__all__ = ["Array", "OnlineNICA", "weights"]


def weights(name: str, doc: str) -> Any:
    """Return a property of a network: a copy of a weight matrix."""
    return property(lambda network: network._weight(name), doc=doc)


class OnlineNICA(Scored, Diagnosable, Streaming):
    """Base of the online networks; see the subclasses."""

    #: The paper's parameters in each setting, and in "always" those that all settings share; empty if it is not in the paper.
    _published: ClassVar[dict[str, dict[str, Any]]] = {}

    def _offline_preprocessing(self) -> tuple[Any, Self]:
        """Return a transformer to fit to all mixtures first, or None, and the network to stream its output through."""
        return None, self

    def _readout(self, state: Any) -> Any:
        """Return the state with whose weights `transform` reads out."""
        return state

    @classmethod
    def as_published(cls, setting: str, **overrides: Any) -> Self:
        """Return the paper's network with its hyperparameters for this setting.

        Parameters
        ----------
        setting : {"d3", "d10", "images"}
            The three or ten sparse uniform sources, or the three natural images.
        **overrides
            Parameters that differ from the paper's, for example `random_state`.

        Returns
        -------
        estimator
        """
        return cls(**{**published(cls, setting), **overrides})

    def _fit(self, X: ArrayLike) -> None:
        data = self._validated(X, reset=True)
        if self.shuffle and isinstance(data, DaskRows):
            raise ValueError(
                "shuffle=True needs all rows of the Dask array X in memory: use shuffle=False, or X.compute()"
            )
        self._forget()
        rng = check_random_state(self.random_state)
        self._begin(data, rng)
        collector = RowCollector(data.shape, getattr(self, "horizon", None))
        for _ in range(self.n_epochs):
            order = rng.permutation(len(data)) if self.shuffle else None
            for block in collector.passing(data):
                self._learn(block, keep=False, order=order)
        self._conclude(self._doubts(collector.rows))

    def _doubts(self, rows: Rows) -> Iterator[str]:
        """What speaks against the fit, the gravest first."""
        tracking = getattr(self, "horizon", None) is not None
        settling = f"bring more samples, raise n_epochs (now {self.n_epochs}), or compare BatchNICA"
        yield from fit_doubts(rows, self.components_, settling="" if tracking else settling, tracking=tracking)
        unsettled, n, changed = self._news()
        if changed:
            yield f"found that {self._change_message(self._state)}"
        if unsettled:
            yield f"found that {self._unsettled_message(unsettled, n)}"

    def _transform(self, X: ArrayLike) -> Any:
        if not is_dask(X):
            return self._outputs(self._validated(X, reset=False))
        self._check_params()
        dtype = states.precision(self._fitted_state())
        # A copy, so that samples learned before the blocks are computed have no effect.
        return lazily(
            copy(self)._outputs, checked(X, self, known=False), self._n_features_out, type(self).__name__, dtype
        )

    def _outputs(self, block: Array) -> Array:
        state = states.writable(self._readout(self._fitted_state()))
        before = int(state.repairs[UNSETTLED])
        Y = self._stream(state, block, learn=False, keep=True)
        if state.repairs[UNSETTLED] > before:
            warn(self._unsettled_message(int(state.repairs[UNSETTLED]) - before, len(block)))
        return Y

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a mixture for which every output fires.

        If some outputs are silent the others settle without them, so `transform` equals `max(components_ @ x, 0)` only up to the
        residual negativity of the fit. Read from the averaged weights if `average` is set.
        """
        with np.errstate(all="ignore"):
            return self._unmixing(self._readout(self._fitted_state()))

    @property
    def mixing_(self) -> Array:
        """The mixing matrix, (n_features, n_components): pseudoinverse of `components_`."""
        return pseudoinverse(self.components_)

    @property
    def change_detected_(self) -> bool:
        """Whether the mixing changed while the network learned without a horizon. False for networks that do not detect changes."""
        return self._changed(self._fitted_state())

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted, and how many samples were regularised or did not settle."""
        return dict(zip(REPAIRS, map(int, self._fitted_state().repairs), strict=True))

    def _check_saved(self) -> None:
        state = self._state
        rule, d = rule_of(state), state.fired.size
        if not isinstance(self._rule_params(state, states.precision(state)), rule.Params):
            raise ValueError(f"the parameters do not belong to the rule {rule.name!r} of the weights")
        self._check_number_saved(d)
        if self.n_components is None and d != self.n_features_in_:
            raise ValueError(f"n_components=None, but the weights have {d} outputs for {self.n_features_in_} mixtures")

    @property
    def _n_features_out(self) -> int:
        return int(self._fitted_state().fired.size)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self)

    def _fitted_state(self) -> Any:
        self._check_is_fitted()
        return self._state

    def _unmixing(self, state: Any) -> Array:
        with np.errstate(all="ignore"):  # a collapsed network may overflow
            return finite(np.asarray(rule_of(state).unmixing(state)))

    def _weight(self, name: str) -> Array:
        """Return a copy of a weight matrix, so that the user cannot change the network through it."""
        return np.array(states.to_arrays(self._fitted_state())[name])

    def __getstate__(self) -> dict[str, Any]:
        self._kept_state()
        return super().__getstate__()

    def _kept_state(self) -> Any:
        """Return the state, and make sure that it stays as it is: the next `learn_one` learns in a copy."""
        self.__dict__.pop("_one", None)
        return self.__dict__.get("_state")

    def _forget(self) -> None:
        self.__dict__.pop("_state", None)

    def _begin(self, X: Array, rng: np.random.RandomState) -> None:
        """Start from all the data that `fit` has."""
        warn_of_many_outputs(self, X)
        self._adopt(self._fresh_state(X, rng, whole=True))

    def _learn(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        if "_state" in self.__dict__:
            state = states.copy_state(self._state)
        else:
            state = self._fresh_state(X, check_random_state(self.random_state), whole=False)
        Y = self._stream(state, X, learn=True, keep=keep, order=order)
        self._adopt(state)
        return Y

    def _count(self, block: Array) -> int:
        """Return the number of sources to look for in these mixtures."""
        return number_of_sources(self.n_components, block.shape[1])

    def _fresh_state(self, X: Array, rng: np.random.RandomState, whole: bool) -> Any:
        return self._initial_state(X.shape[1], self._count(X), X.dtype, rng, X if whole else None)

    def _adopt(self, state: Any) -> None:
        self.__dict__.pop("_one", None)
        self._state = state
        self.n_samples_seen_ = int(state.t[0])

    def _open(self, X: Array) -> tuple[Any, Array]:
        """Start on X for a sweep, which runs the loop itself; return the state, and the outputs of samples already learned."""
        state = self._fresh_state(X, check_random_state(self.random_state), whole=False)
        return state, np.empty((0, state.fired.size), X.dtype)
