"""What the four networks share: the scikit-learn face of `networks.stream.run`.

A subclass says how its state starts (`_initial_state`), which parameters its rule has (`_rule_params`), at which rates it learns
(`_rates`), which guards it has (`_own_guards`) and the paper's settings (`_published`).
"""

import os
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from .._compat.sklearn import Interval, Options, StrOptions, validate_params, wrap_output
from ..engines import blocks
from ..engines.loop import Diverged, run
from ..networks import state as states
from ..networks.guards import REPAIRS, Guards
from ..networks.rule import rule_of
from ..networks.schedules import Rate, learning_rates
from ..networks.settling.gradient import ProjectedGradient
from ..networks.settling.pivoting import Exact
from ..offline.chunked import linear_map
from ._dask import BlockReader, blocks_of, checked, is_dask, lazily
from ._diagnosis import Diagnosable
from ._exceptions import DivergenceError, check_finite
from ._initial_weights import given_weights
from ._published import published

Array = NDArray[Any]

_BLOCK_BYTES = 2**22
_BLOCK_ROWS = 2**15
_NO_RATES = np.empty((0, 1))


class OnlineNICA(Diagnosable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """Base of the online networks; see the subclasses."""

    _own_guards: ClassVar[tuple[str, ...]] = ()
    #: The paper's parameters in each of its settings, and those that are the same in "always"; empty if it is not in the paper.
    _published: ClassVar[dict[str, dict[str, Any]]] = {}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eta0": [Interval(Real, 0, None, closed="neither"), callable],
        "decay": [Interval(Real, 0, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="left")],
        "dynamics": [StrOptions({"exact", "gradient"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "settle_tol": [Interval(Real, 0, 1, closed="neither")],
        "settle_steps": [Interval(Integral, 1, None, closed="left")],
        "mean_window": [Interval(Integral, 2, None, closed="left"), None],
        "precondition": [None],
        "average": [Options(bool, {False})],
        "init": [StrOptions({"random"}), dict],
        "guards": ["boolean", list, tuple, set, frozenset],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    n_components: int | str | None
    eta0: Rate | None
    decay: float | None
    power: float
    dynamics: str
    gamma: float | None
    settle_tol: float
    settle_steps: int
    mean_window: int | None
    precondition: str | None
    average: bool
    init: str | dict[str, ArrayLike]
    guards: bool | Iterable[str]
    n_epochs: int
    shuffle: bool
    random_state: Any
    verbose: int
    n_features_in_: int
    n_samples_seen_: int

    # ------------------------------------------------------------------------------------------ what a subclass says

    @abstractmethod
    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        """Return the state before the first sample; X is what `_begin` hands on: all the data of `fit`, or None."""

    @abstractmethod
    def _rule_params(self, state: Any, dtype: Any) -> Any:
        """Return the rule's Params."""

    def _rates(self, state: Any, n: int) -> Array:
        """Return the learning rates of the next n samples, a column for each kind of rate."""
        assert self.eta0 is not None
        assert self.decay is not None
        rates = learning_rates(self.eta0, self.decay, self.power, int(state.t[0]), n)
        return self._below(rates, state, 1.0, "1", "lower eta0")[:, np.newaxis]

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

    # ------------------------------------------------------------------------------------------ scikit-learn's methods

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Start from scratch and learn from every row of X in order, `n_epochs` times.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, in the order in which the network sees them. A Dask array is read block by block.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        with self._unchanged_on_error():
            data = self._validated(X, reset=True)
            if self.shuffle and isinstance(data, BlockReader):
                raise ValueError(
                    "shuffle=True needs all rows of the Dask array X at hand: use shuffle=False, or X.compute()"
                )
            self._forget()
            rng = check_random_state(self.random_state)
            self._begin(data, rng)
            for _ in range(self.n_epochs):
                order = rng.permutation(len(data)) if self.shuffle else None
                for block in blocks_of(data):
                    self._learn(block, keep=False, order=order)
        return self

    def partial_fit(self, X: ArrayLike, y: None = None) -> Self:
        """Continue learning from the rows of X; the first call starts a new network.

        However the data are cut into calls, the network ends with the same bits. (With at least 1000 mixtures and 2^18 weights
        from them it processes samples in blocks, and results agree to rounding.) It keeps the precision of the first X, float32
        or float64. Do not call it from several threads on one network.

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
        self._learn_rows(X, keep=False)
        return self

    def partial_fit_transform(self, X: ArrayLike, y: None = None) -> Any:
        """Learn from the rows of X and return the output of the network as each arrived: the paper's y_t.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The next mixtures.
        y : None
            Ignored.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            Each row computed with the weights before they learned from it.
        """
        if is_dask(X):
            raise TypeError(
                "X is a Dask array, and outputs made while learning cannot be computed later: call partial_fit_transform with one "
                "block after the other, (block.compute() for block in X.blocks), or partial_fit and then transform"
            )
        return wrap_output(self._learn_rows(X, keep=True), X, self)

    def transform(self, X: ArrayLike) -> Any:
        """Return the sources of the mixtures X, with the weights as they are.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components), or Dask array where X is one
            Nonnegative.
        """
        state = self._readout(self._fitted_state())
        if is_dask(X):
            self._check_params()
            data = checked(X, self, known=False)
            # A copy, so that learning on before the blocks are computed changes nothing.
            return lazily(copy(self)._settled, data, self._n_features_out, type(self).__name__, states.precision(state))
        return self._stream(states.writable(state), self._validated(X, reset=False), learn=False, keep=True)

    def _settled(self, block: Array) -> Array:
        return self._stream(states.writable(self._readout(self._fitted_state())), block, learn=False, keep=True)

    def inverse_transform(self, Y: ArrayLike) -> Any:
        """Return the mixtures that the sources Y make: Y times the transpose of `mixing_`.

        Parameters
        ----------
        Y : array-like or Dask array of shape (n_samples, n_components)
            Sources.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features), or Dask array where Y is one
        """
        mixing = self.mixing_
        sources = checked(Y, known=False) if is_dask(Y) else check_array(Y, dtype=mixing.dtype, input_name="Y")
        if sources.shape[1] != mixing.shape[1]:
            raise ValueError(
                f"Y has shape {sources.shape}; inverse_transform needs (n_samples, {mixing.shape[1]}), a column per source"
            )
        if is_dask(sources):
            mix = partial(linear_map, matrix=mixing)
            return lazily(mix, sources.astype(mixing.dtype), len(mixing), type(self).__name__)
        return np.asarray(sources @ mixing.T)

    # ------------------------------------------------------------------------------------------ one sample at a time

    def learn_one(self, x: ArrayLike) -> Self:
        """Learn from a single mixture.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            The next mixture.

        Returns
        -------
        self
        """
        row = self._row(x)
        with self._unchanged_on_error():
            self._check_params()
            self.n_features_in_ = row.shape[1]
            self._learn(row, keep=False)
        return self

    def transform_one(self, x: ArrayLike) -> Array:
        """Return the sources of a single mixture.

        Parameters
        ----------
        x : array-like of shape (n_features,)
            A mixture.

        Returns
        -------
        y : ndarray of shape (n_components,)
            Nonnegative.
        """
        state = states.writable(self._readout(self._fitted_state()))
        return np.asarray(self._stream(state, self._row(x), learn=False, keep=True)[0])

    # ------------------------------------------------------------------------------------------ on disk

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted network to `path`; `bionica.load` reads it and continues as if never interrupted.

        Parameters
        ----------
        path : path
            The file. It is replaced only when the new one is complete.
        """
        from ._persistence import save

        save(self, path)

    # ------------------------------------------------------------------------------------------ what was learned

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a mixture for which every output fires.

        If some outputs are silent the others settle without them, so `transform` equals max(components_ @ x, 0) only up to the
        residual negativity of the fit.
        """
        state = self._readout(self._fitted_state())
        return np.asarray(rule_of(state).unmixing(state))

    @property
    def mixing_(self) -> Array:
        """The mixing matrix, (n_features, n_components): pseudoinverse of `components_`."""
        return np.linalg.pinv(self.components_)

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted, and how many samples were regularised or did not settle."""
        return dict(zip(REPAIRS, map(int, self._fitted_state().repairs), strict=True))

    @property
    def _n_features_out(self) -> int:
        return int(self._fitted_state().fired.size)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in vars(self)

    def _fitted_state(self) -> Any:
        if not self.__sklearn_is_fitted__():
            # An AttributeError, so that hasattr(est, "components_") answers False before fit.
            raise NotFittedError(
                f"This {type(self).__name__} has seen no sample: call fit, partial_fit or learn_one first"
            )
        return self._state

    def _weight(self, name: str) -> Array:
        """Return a copy of a weight matrix: what the user gets is never the network's own memory."""
        return np.array(states.to_arrays(self._fitted_state())[name])

    # ------------------------------------------------------------------------------------------ inside

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _validated(self, X: ArrayLike, reset: bool) -> Any:
        self._check_params()
        if is_dask(X):
            return BlockReader(checked(X, self, reset=reset), type(self).__name__)
        # Finiteness is checked block by block, where the message can name the sample.
        return np.asarray(validate_data(self, X, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False))

    def _row(self, x: ArrayLike) -> Array:
        names, known = getattr(x, "index", None), getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and not callable(names) and list(names) != list(known):
            raise ValueError(
                f"x has the feature names {list(names)}; the network learned from {list(known)}, in this order"
            )
        row = np.asarray(x)
        if row.dtype != np.float32:
            try:
                row = row.astype(np.float64, casting="same_kind") if row.dtype != object else row.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
        width = getattr(self, "n_features_in_", row.size)
        if row.ndim != 1 or row.size == 0 or row.size != width:
            raise ValueError(
                f"x has shape {row.shape}; {type(self).__name__} needs one mixture of "
                f"{width if row.size else 'at least 1'} numbers. For several use partial_fit or transform."
            )
        return row[np.newaxis]

    def _check_params(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now = tuple(map(id, self.get_params(deep=False).values()))
        if now != self.__dict__.get("_checked"):
            validate_params(self)
            self._guard_flags()
            self._checked = now

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_checked"}

    def _forget(self) -> None:
        self.__dict__.pop("_state", None)

    def _begin(self, X: Array, rng: np.random.RandomState) -> None:
        """Start from all the data that `fit` has."""
        self._adopt(self._fresh_state(X, rng, whole=True))

    def _learn_rows(self, X: ArrayLike, keep: bool) -> Array:
        with self._unchanged_on_error():
            data = self._validated(X, reset=not self.__sklearn_is_fitted__())
            return [self._learn(block, keep) for block in blocks_of(data)][-1]

    def _learn(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        if "_state" in self.__dict__:
            state = states.copy(self._state)
        else:
            state = self._fresh_state(X, check_random_state(self.random_state), whole=False)
        Y = self._stream(state, X, learn=True, keep=keep, order=order)
        self._adopt(state)
        return Y

    def _count(self, block: Array) -> int:
        """Return the number of sources to look for in these mixtures."""
        k = block.shape[1]
        d = k if self.n_components is None else int(self.n_components)
        if d > k:
            raise ValueError(
                f"n_components={d} sources cannot be found in n_features={k} mixtures; use n_components <= {k}"
            )
        return d

    def _fresh_state(self, X: Array, rng: np.random.RandomState, whole: bool) -> Any:
        return self._initial_state(X.shape[1], self._count(X), X.dtype, rng, X if whole else None)

    def _adopt(self, state: Any) -> None:
        self._state = state
        self.n_samples_seen_ = int(state.t[0])

    def _stream(self, state: Any, X: Array, *, learn: bool, keep: bool, order: Array | None = None) -> Array:
        """Take X through the network block by block; `state` learns in place."""
        name = type(self).__name__
        dtype = states.precision(state)
        n, k = X.shape
        Y = np.empty((n if keep else 0, state.fired.size), dtype)
        params = self._rule_params(state, dtype)
        unsettled = int(state.repairs[REPAIRS.index("unsettled")])
        rule = rule_of(state)
        if not isinstance(params, rule.Params):
            raise ValueError(
                f"the parameters of this {name} belong to another learning rule than its state ({rule.name}): call fit to start "
                "from scratch, or restore the parameters that were changed (precondition)"
            )
        least = blocks.rows(k, state.fired.size, dtype.itemsize) if blocks.suits(rule, state, n, k) else 1
        for start, stop in self._blocks(n, k, least):
            in_blocks = blocks.suits(rule, state, stop - start, k)
            block = X[start:stop] if order is None else X[order[start:stop]]
            # Arrays that are not writable or not aligned are copied: the loop is compiled for one type.
            block = np.require(block, dtype, ["C"] if in_blocks else ["C", "W", "A"])
            check_finite(block, start, name)
            self._advance(state, params, block, Y[start:stop] if keep else Y, start, learn)
        unsettled = int(state.repairs[REPAIRS.index("unsettled")]) - unsettled
        if unsettled:
            warnings.warn(
                f"{unsettled} of {n} samples did not settle in settle_steps={self.settle_steps} steps of the neural dynamics: "
                f"raise settle_steps, change gamma={self.gamma}, raise settle_tol={self.settle_tol} or use dynamics='exact'",
                ConvergenceWarning,
                stacklevel=4,
            )
        return Y

    def _open(self, X: Array) -> tuple[Any, Array]:
        """Start on the mixtures X for a sweep, which drives the loop: the state, and outputs of samples already learned from."""
        state = self._fresh_state(X, check_random_state(self.random_state), whole=False)
        return state, np.empty((0, state.fired.size), X.dtype)

    def _advance(self, state: Any, params: Any, block: Array, Y: Array, first: int, learn: bool = True) -> None:
        """Take a block of finite mixtures, C-ordered and of the state's dtype, through the network; `first` is its place in X."""
        t = int(state.t[0])
        rates = self._rates(state, len(block)) if learn else _NO_RATES
        try:
            run(state, params, block, rates, Y)
            if learn and not all(np.isfinite(a).all() for a in states.leaves(state) if a.dtype.kind == "f"):
                raise Diverged(len(block) - 1)
        except Diverged as error:
            sample = error.sample + (t if learn else first)
            raise self._divergence(sample, float(np.abs(block).max()), learn) from None

    def _blocks(self, n: int, k: int, least: int = 1) -> Iterable[tuple[int, int]]:
        rows = max(least, min(_BLOCK_ROWS, _BLOCK_BYTES // (8 * k)))
        blocks = [(start, min(start + rows, n)) for start in range(0, n, rows)]
        if not self.verbose or len(blocks) == 1:
            return blocks
        from rich.console import Console
        from rich.progress import track

        return track(blocks, description=type(self).__name__, console=Console(stderr=True))

    def _divergence(self, sample: int, largest: float, learning: bool) -> DivergenceError:
        name = type(self).__name__
        remedies = []
        if self.dynamics == "gradient":
            remedies.append(f"lower gamma (now {self.gamma}) or use dynamics='exact'")
        if learning:
            remedies.append("lower eta0" + (f" (now {self.eta0:g})" if isinstance(self.eta0, Real) else ""))
        remedies.append(f"rescale the mixtures (largest absolute value near it: {largest:.2g})")
        off = [g for g in self._own_guards if not getattr(self._guard_flags(), g)]
        if learning and off:
            remedies.append(f"turn on guards={self._own_guards!r} ({', '.join(off)} now off)")
        return DivergenceError(
            f"{name} diverged at sample {sample}: an output or a weight overflowed. To change: {'; '.join(remedies)}. The model is "
            "as it was before this call.",
            sample,
        )

    def _below(self, rates: Array, state: Any, below: float, bound: str, remedy: str) -> Array:
        """Return the rates if all are below a bound."""
        if rates.size and rates.max() >= below:
            at = int(state.t[0]) + int(rates.argmax())
            raise ValueError(f"the learning rate {rates.max():g} at sample {at} is not below {bound}: {remedy}")
        return rates

    def _dynamics(self, dtype: Any) -> Any:
        eps = float(np.finfo(dtype).eps)
        if self.dynamics == "exact":
            return Exact(eps)
        return ProjectedGradient(
            float(self.gamma or 0.0), max(float(self.settle_tol), 64 * eps), int(self.settle_steps)
        )

    def _guard_flags(self) -> Guards:
        if isinstance(self.guards, bool | np.bool_):
            chosen = set(self._own_guards) if self.guards else set()
        else:
            chosen = set(self.guards)
            unknown = chosen - set(self._own_guards)
            if unknown:
                raise ValueError(
                    f"guards={self.guards!r} names {sorted(map(str, unknown))}; {type(self).__name__} has {self._own_guards}"
                )
        return Guards(*(name in chosen for name in Guards._fields))

    def _common_params(self, dtype: Any) -> tuple[Any, Guards, int, float]:
        return (
            self._dynamics(dtype),
            self._guard_flags(),
            int(self.mean_window or 0),
            float(np.finfo(dtype).eps),
        )

    def _given_weights(self, shapes: dict[str, tuple[int, int]], dtype: Any) -> dict[str, Array]:
        """Return copies of the arrays in `init`, checked against `shapes`."""
        return given_weights(self.init, shapes, dtype, type(self).__name__)
