"""The base of the networks: where they start, how they take mixtures through their rule (`engines`), what they report.

Estimators are dataclasses: their parameters are fields, which subclasses inherit. A subclass says how its state starts
(`_initial_state`), which parameters its rule has (`_rule_params`) and which guards it has (`_own_guards`). CONTRIBUTING.md shows a
complete rule with its estimator.

Some networks start from a first block of samples (`_waits`): its scale, its leading directions, the number of sources. Such a
network collects `_n_start` samples in `_waiting`. It is silent meanwhile (its outputs are zero), then starts and learns from them
too. When it starts depends on the number of samples alone, not on how they are cut into calls. If `fit` has fewer samples than
that, it starts from all of them.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from .._compat.sklearn import AUTO, COUNT, NONNEGATIVE, POSITIVE, SHARE, WINDOW, Interval, Options, StrOptions
from ..engines import blocks
from ..engines.loop import Diverged, gain, run
from ..engines.runner import Runner
from ..networks import natural
from ..networks import rule as states
from ..networks.guards import Guards
from ..networks.rule import REPAIRS, UNSETTLED, finite, pseudoinverse, rule_of
from ..networks.schedules import Rate, learning_rates
from ..networks.settling import Exact, ProjectedGradient
from ..offline.source_count import Count, count_sources
from ..offline.whitening import largest, leading, linear_map, one_blas_thread, wider_than_long
from ._base import rank_of
from ._findings import RowCollector, conclude, finding
from ._input import CHANGED, Array, DaskRows, DivergenceError, check_finite, checked, is_dask, lazily, warn
from ._online import Online, appended, tracked

#: The number of sources of each of the paper's problems.
SOURCES = {"d3": 3, "d10": 10, "images": 3}
#: What all networks of the paper have in common.
_PUBLISHED: dict[str, Any] = {
    "power": 1.0,
    "dynamics": "exact",
    "mean_window": None,
    "precondition": None,
    "average": False,
    "init": "random",
}
#: Largest size of a first block in bytes, unless 4 d + 20 samples are larger.
START_BYTES = 2**28
#: Of the gradient dynamics for a sample: with a safe gamma, only a singular network needs more.
STEPS = Interval(Integral, 1, 10**6, closed="both")
#: Most bytes of samples in a compiled call, which Ctrl-C cannot interrupt, and most products, if no sample settles: about a second.
_BLOCK_BYTES, _BLOCK_PRODUCTS = 2**20, 10**9
#: Learning rates that are computed at once for single samples.
_RATES_AHEAD = 64
_NO_RATES = np.empty((0, 1))


def published(cls: Any, setting: str) -> dict[str, Any]:
    """Every parameter of the paper's network of this class in this setting: its row of table 1 (appendix C), to the digit.

    Where the authors' code differs from the table (Nonnegative PCA at d = 3 and on images, Algorithm 2 on images), the table is
    meant.
    """
    if setting not in SOURCES:
        raise ValueError(f"setting={setting!r} is not one of the paper's; choose from {sorted(SOURCES)}")
    if not cls._published:
        raise ValueError(f"{cls.__name__} is not in the paper: it has no published setting")
    return {"n_components": SOURCES[setting], **_PUBLISHED, **cls._published["always"], **cls._published[setting]}


# ---------------------------------------------------------------------------------------------- initial weights


def positive_definite(W: Array, name: str) -> Array:
    """Return W if it is symmetric positive definite, else say so."""
    if not np.allclose(W, W.T, rtol=1e-6, atol=0) or not np.linalg.eigvalsh(W)[0] > 0:
        raise ValueError(f"init[{name!r}] must be symmetric positive definite; W @ W.T of any full-rank W is")
    return W


def orthonormal_rows(rng: np.random.RandomState, d: int, k: int, dtype: Any) -> Array:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T.astype(dtype))


def guard_seed(rng: np.random.RandomState) -> Array:
    """Draw the seed of the random numbers that guards use."""
    return np.array([rng.randint(1, 2147483562), rng.randint(1, 2147483398)], dtype=np.int64)


# ---------------------------------------------------------------------------------------------- the first block


def typical_rows(block: Array) -> Array:
    """The rows whose norm is at most 30 times the median norm; in units of the median of each mixture, unless it is wide."""
    typical: Any = 1.0
    with np.errstate(all="ignore"):
        if not wider_than_long(block):  # medians of the nonzero absolute values
            size = np.sort(np.abs(block), axis=0)
            nonzero = np.count_nonzero(size, axis=0)
            typical = size[len(block) - np.maximum((nonzero + 1) // 2, 1), np.arange(block.shape[1])]
        norm = np.linalg.norm(block / np.where(typical, typical, 1.0), axis=1)
        kept = ~(norm > 30 * np.median(norm[norm > 0])) if norm.any() else np.ones(len(norm), bool)
    return block if kept.all() else block[kept]


def project(block: Array, d: int) -> tuple[Array, Array]:
    """F, the whitening of a block on its d leading directions, and its right inverse.

    Directions that the block does not show are scaled like the others.
    """
    scale = largest(block)
    with one_blas_thread():
        white = leading(block / scale, d)
        F, inverse, rank = white.matrix, white.inverse, len(white.matrix)
        if rank < d:
            typical = float(np.sqrt(white.eigenvalues.mean())) if rank else 1.0
            basis = np.linalg.qr(np.hstack([inverse, np.eye(block.shape[1], d)]))[0][:, rank:d]
            F = np.vstack([F, basis.T / typical])
            inverse = np.hstack([inverse, basis * typical])
    return F / scale, inverse * scale


class Start(NamedTuple):
    """F (d, k), its right inverse (k, d), a random rotation V (d, d), the mean of u = F x and the number of samples."""

    F: Array
    inverse: Array
    V: Array
    u_bar: Array
    n: int


# ---------------------------------------------------------------------------------------------- networks


def weights(name: str, doc: str) -> Any:
    """Return a property of a network: a copy of a weight matrix."""
    return property(lambda network: network._weight(name), doc=doc)


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineNICA(Online):
    """Base of StreamingNICA and of the networks."""

    n_components: Annotated[int | str | None, COUNT, AUTO, None] = field(default=None, kw_only=False)
    n_epochs: Annotated[int, COUNT] = 1
    shuffle: Annotated[bool, "boolean"] = False
    random_state: Annotated[Any, "random_state"] = None
    verbose: Annotated[int, "verbose"] = 0

    _own_guards: ClassVar[tuple[str, ...]] = ()
    #: The paper's parameters in each setting, and in "always" those that all settings share; empty if it is not in the paper.
    _published: ClassVar[dict[str, dict[str, Any]]] = {}

    @abstractmethod
    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        """Return the state before the first sample; X is all the data of `fit`, or None in a stream."""

    @abstractmethod
    def _rule_params(self, state: Any, dtype: Any) -> Any:
        """Return the rule's Params."""

    @abstractmethod
    def _rates(self, state: Any, n: int) -> Array:
        """Return the learning rates of the next n samples, a column for each kind of rate."""

    def _readout(self, state: Any) -> Any:
        """Return the state with whose weights `transform` reads out."""
        return state

    def _waits(self) -> bool:
        """Whether this network, with its parameters, starts from a first block of samples."""
        return bool(self.n_components == "auto")

    def _started(self, rows: Array) -> Any:
        """Return the state that starts from this first block and has not learned from it; random numbers from `_start_seed`."""
        rng = np.random.RandomState(self._start_seed)
        return self._initial_state(rows.shape[1], self._count(rows), rows.dtype, rng, None)

    def _offline_preprocessing(self) -> tuple[Any, Self]:
        """Return a transformer to fit to all mixtures first, or None, and the network to stream its output through."""
        return None, self

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

    # ------------------------------------------------------------------------------------------ learning

    def _fit(self, X: ArrayLike) -> None:
        data = self._validated(X, reset=True)
        if self.shuffle and isinstance(data, DaskRows):
            raise ValueError(
                "shuffle=True needs all rows of the Dask array X in memory: use shuffle=False, or X.compute()"
            )
        for name in ("_state", "_waiting", "_start_seed", "_rank", "count_"):
            self.__dict__.pop(name, None)
        rng = check_random_state(self.random_state)
        if self.n_components is None:
            self._rank = rank_of(data)
        if not self._waits():
            self._state = self._initial_state(data.shape[1], self._count(data), data.dtype, rng, data)
        elif len(data) < self._n_start(data.shape[1]):  # no more samples will come: start from these
            rows = data[:]
            check_finite(rows, 0, self)
            self._start_seed = int(check_random_state(self.random_state).randint(2**31 - 1))
            self._state = self._started(rows)
        collector = RowCollector(data.shape, getattr(self, "horizon", None))
        news: list[str] = []
        with self._warning_of_news(news.append):
            for _ in range(self.n_epochs):
                order = rng.permutation(len(data)) if self.shuffle else None
                for block in collector.passing(data):
                    self._learn(block, keep=False, order=order)
        conclude(self, collector.rows, collector.n, *(finding("converged", reason=text) for text in news))

    def _count(self, block: Any) -> int:
        """Return the number of outputs: given, counted in this block, the rank of the X of `fit`, or one a mixture in a stream."""
        if self.n_components == "auto":
            self.count_: Count = count_sources(np.asarray(block, dtype=np.float64))
            return self.count_.n_sources
        return self._given_number(block.shape[1]) or int(vars(self).get("_rank", block.shape[1]))

    def _n_start(self, k: int) -> int:
        """Return the length of the first block of k mixtures."""
        d = self._given_number() or k
        return min(100 + 20 * d, max(4 * d + 20, START_BYTES // (8 * k)))

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that a stream must still bring before the network starts; until then its outputs are zero. 0 from then on."""
        self._check_is_fitted()
        return 0 if "_state" in vars(self) else self._n_start(self.n_features_in_) - len(self._waiting)

    def _learn(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        if "_state" not in self.__dict__:
            if self._waits():
                return self._wait(X if order is None else X[order], keep)
            rng = check_random_state(self.random_state)
            self._state = self._initial_state(X.shape[1], self._count(X), X.dtype, rng, None)
        return self._run(X, keep, order)

    def _wait(self, X: Array, keep: bool) -> Array:
        """Collect the first block; once it is full, start, and learn from it and from the rest of X."""
        length = self._n_start(X.shape[1])
        known = self._waiting_rows(X)
        missing = length - len(known)
        if keep and self.n_components == "auto" and (len(known) or len(X) < missing):
            raise self._unknown_number(length)
        part = np.asarray(X[:missing], dtype=known.dtype)
        check_finite(part, 0, self)
        self._waiting = appended(known, part, length)
        if not len(known):
            self._start_seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if len(part) < missing:
            if not len(known):  # fail now rather than after buffering
                state = self._started(part)
                self._params_of(state)
                self._rates(state, 1)
            return np.zeros((len(part), self._count(part) if keep else 1), known.dtype)
        self._state = self._started(self._waiting)
        self._run(self._waiting, keep=False)
        del self._waiting
        rest = self._run(X[missing:], keep)
        return np.concatenate([np.zeros((missing, rest.shape[1]), rest.dtype), rest]) if keep else rest

    def _open(self, X: Array) -> tuple[Any, Array]:
        """Start on X for a sweep, which runs the loop itself; return the state, and the outputs of samples already learned."""
        if not self._waits():
            rng = check_random_state(self.random_state)
            state = self._initial_state(X.shape[1], self._count(X), X.dtype, rng, None)
            return state, np.empty((0, state.fired.size), X.dtype)
        Y = np.asarray(self.partial_fit_transform(X[: self._n_start(X.shape[1])]))
        return self._state if "_state" in vars(self) else self._started(self._waiting), Y

    def _running(self) -> Runner:
        """Return the runner of the present state and parameters. Its state is `_state`, and learns in place."""
        runner: Runner | None = self.__dict__.get("_runner")
        if runner is None or runner.state is not self._state:
            self._runner = runner = Runner(self._state, self._params_of(self._state), self.n_features_in_)
            self._state, self._ahead, self._readout_state = runner.state, (0, _NO_RATES), None
        return runner

    def _run(self, X: Array, keep: bool, order: Array | None = None) -> Array:
        """Learn from the rows of X, block by block."""
        runner = self._running()
        state, t = runner.state, int(runner.state.t[0])
        Y = np.empty((len(X) if keep else 0, state.fired.size), runner.sample.dtype)
        with runner.lock:
            self._readout_state = None
            for start, block in self._blocks(state, X, Y.dtype, order):
                try:
                    runner.learn(block, self._next_rates(state, len(block)), Y[start : start + len(block)])
                except Diverged as error:
                    raise self._divergence(t + start + error.sample, block, learning=True) from None
        return Y

    def _next_rates(self, state: Any, n: int) -> Array:
        """Return the rates of the next n samples; those of single samples come from rates that were computed ahead."""
        if n > 1 or callable(getattr(self, "eta0", None)):
            return np.require(self._rates(state, n), np.float64, ["C", "W", "A"])
        t = int(state.t[0])
        first, rates = self._ahead
        if not first <= t < first + len(rates):
            try:
                rates = self._rates(state, _RATES_AHEAD)
            except ValueError:  # some rate is too large, perhaps not the next one
                rates = self._rates(state, 1)
            first, rates = self._ahead = t, np.require(rates, np.float64, ["C", "W", "A"])
        return rates[t - first : t - first + 1]

    def _blocks(self, state: Any, X: Array, dtype: Any, order: Array | None = None) -> Iterator[tuple[int, Array]]:
        """Yield finite mixtures as the loop takes them, in calls that end soon even if no sample settles, with their first row."""
        if len(X) == 1:
            block = np.array(X, dtype, order="C")
            check_finite(block, 0, self)
            yield 0, block
            return
        (n, k), d, rule = X.shape, state.fired.size, rule_of(state)
        steps = self.settle_steps if getattr(self, "dynamics", "exact") == "gradient" else d
        rows = max(1, min(_BLOCK_BYTES // (8 * k), _BLOCK_PRODUCTS // (2 * d**2 * int(steps))))
        if blocks.suits(rule, state, n, k):
            rows = max(rows, blocks.rows(k, d, dtype.itemsize))
        starts: Iterable[int] = range(0, n, rows)
        for start in tracked(starts, self, -(-n // rows)) if n > rows else starts:
            part = X[start : start + rows] if order is None else X[order[start : start + rows]]
            # Arrays that are not writable or not aligned are copied: the loop is compiled for one type.
            block = np.require(part, dtype, ["C"] if blocks.suits(rule, state, *part.shape) else ["C", "W", "A"])
            check_finite(block, start, self)
            yield start, block

    def _params_of(self, state: Any) -> Any:
        """Return the Params for the rule of this state; ValueError if the user's parameters belong to another rule."""
        params, rule = self._rule_params(state, states.precision(state)), rule_of(state)
        if not isinstance(params, rule.Params):
            raise ValueError(
                f"the parameters of this {type(self).__name__} belong to another learning rule than its state ({rule.name}): call "
                "fit to start from scratch, or restore the parameters that were changed (precondition)"
            )
        return params

    # ------------------------------------------------------------------------------------------ reading out

    def _transform(self, X: ArrayLike) -> Any:
        if not is_dask(X):
            return self._outputs(self._validated(X, reset=False))
        self._check_params()
        dtype = states.precision(self._fitted_state())
        # A copy, so that samples learned before the blocks are computed have no effect.
        return lazily(
            copy(self)._outputs, checked(X, self, known=False), self._n_features_out, type(self).__name__, dtype
        )

    def _outputs(self, X: Array) -> Array:
        if "_state" not in self.__dict__:
            check_finite(X, 0, self)
            return np.zeros((len(X), self._n_features_out), self._waiting.dtype)
        if len(X) == 1:
            return self._output_of_one(X)
        state = states.writable(self._readout(self._state))
        params, unsettled = self._params_of(state), int(state.repairs[UNSETTLED])
        Y = np.empty((len(X), state.fired.size), states.precision(state))
        for start, block in self._blocks(state, X, Y.dtype):
            try:
                run(state, params, block, _NO_RATES, Y[start : start + len(block)])
            except Diverged as error:
                raise self._divergence(start + error.sample, block, learning=False) from None
        if state.repairs[UNSETTLED] > unsettled:
            warn(self._unsettled_message(int(state.repairs[UNSETTLED]) - unsettled, len(X)))
        return Y

    def _output_of_one(self, row: Array) -> Array:
        """As `_outputs` does, in a fifth of the time."""
        runner = self._running()
        Y = np.empty((1, runner.no_outputs.shape[1]), runner.sample.dtype)
        with runner.lock:
            runner.sample[:] = row
            check_finite(runner.sample, 0, self)
            if self._readout_state is None:
                self._readout_state = self._readout(runner.state)
            try:
                runner.settle(self._readout_state, runner.sample, Y)
            except Diverged:
                raise self._divergence(0, runner.sample, learning=False) from None
        return Y

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a mixture for which every output fires.

        If some outputs are silent the others settle without them, so `transform` equals `max(components_ @ x, 0)` only up to the
        residual negativity of the fit. Read from the averaged weights if `average` is set.
        """
        state = self._readout(self._fitted_state())
        with np.errstate(all="ignore"):  # a collapsed network may overflow
            W = finite(np.asarray(rule_of(state).unmixing(state)))
            if getattr(self, "precondition", None) == "scale":
                W = W * gain(state.x_power)
            return W.astype(states.precision(state))

    @property
    def mixing_(self) -> Array:
        """The mixing matrix, (n_features, n_components): pseudoinverse of `components_`."""
        return pseudoinverse(self.components_)

    @property
    def change_detected_(self) -> bool:
        """Whether the mixing changed while the network learned without a horizon. False for networks that do not detect changes."""
        state = self._fitted_state()
        return hasattr(state, "white") and self.horizon is None and bool(state.white.changed[0])

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted, and how many samples were regularised or did not settle."""
        return dict(zip(REPAIRS, map(int, self._fitted_state().repairs), strict=True))

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned from, or that wait for the start."""
        self._check_is_fitted()
        return int(self._state.t[0]) if "_state" in vars(self) else len(self._waiting)

    @property
    def _n_features_out(self) -> int:
        if "_waiting" in vars(self) and self.n_components != "auto":
            return self._count(self._waiting)
        return int(self._fitted_state().fired.size)

    def _weight(self, name: str) -> Array:
        """Return a copy of a weight matrix, so that the user cannot change the network through it."""
        return np.array(states.to_arrays(self._fitted_state())[name])

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__ or "_waiting" in self.__dict__

    def _fitted_state(self) -> Any:
        self._check_is_fitted()
        if "_state" not in vars(self):
            raise NotFittedError(
                f"This {type(self).__name__} starts after {self.n_samples_until_start_} more samples: bring them, or call fit"
            )
        return self._state

    def __getstate__(self) -> dict[str, Any]:
        own = super().__getstate__()
        for name in ("_runner", "_readout_state", "_ahead"):
            own.pop(name, None)
        return own | {"_state": states.copy_state(own["_state"])} if "_state" in own else own

    def _check_saved(self) -> None:
        if "_state" in vars(self):
            self._params_of(self._state)
            self._check_number_saved(self._state.fired.size)
            return
        k, n = self.n_features_in_, len(self._waiting)
        self._check_number_saved(self._given_number() or 1)
        if not self._waits() or not 0 < n < self._n_start(k):
            raise ValueError(f"{n} samples wait for the start of a network that begins with {self._n_start(k)} samples")

    # ------------------------------------------------------------------------------------------ what is reported

    @contextmanager
    def _warning_of_news(self, tell: Callable[[str], None] = warn) -> Iterator[None]:
        """Tell if samples do not settle within this context, or if the mixtures change."""
        state, unsettled, n, changed = self.__dict__.get("_state"), 0, 0, False
        if state is not None:
            unsettled, n = int(state.repairs[UNSETTLED]), int(state.t[0])
            changed = hasattr(state, "white") and bool(state.white.changed[0])
        yield
        state = self.__dict__.get("_state")
        if state is not None and state.repairs[UNSETTLED] > unsettled:
            tell(self._unsettled_message(int(state.repairs[UNSETTLED]) - unsettled, int(state.t[0]) - n))
        if state is not None and not changed and hasattr(state, "white") and state.white.changed[0]:
            tell(f"the mixtures changed before sample {int(state.t[0])}: {CHANGED}")

    def _unsettled_message(self, unsettled: int, n: int) -> str:
        return (
            f"{unsettled} of {n} samples did not settle in settle_steps={self.settle_steps} steps of the neural dynamics: "
            f"raise settle_steps, change gamma={self.gamma}, raise settle_tol={self.settle_tol} or use dynamics='exact'"
        )

    def _divergence(self, sample: int, block: Array, learning: bool) -> DivergenceError:
        remedies = []
        if getattr(self, "dynamics", "exact") == "gradient":
            remedies.append(f"lower gamma (now {self.gamma}) or use dynamics='exact'")
        if learning and hasattr(self, "eta0"):
            remedies.append("lower eta0" + (f" (now {self.eta0:g})" if isinstance(self.eta0, Real) else ""))
        remedies.append(f"rescale the mixtures (largest absolute value near it: {float(np.abs(block).max()):.2g})")
        off = [g for g in self._own_guards if not getattr(self._guard_flags(), g)]
        if learning and off:
            remedies.append(f"turn on guards={self._own_guards!r} ({', '.join(off)} now off)")
        return DivergenceError(
            f"{type(self).__name__} diverged at sample {sample}: an output or a weight overflowed. To change: "
            f"{'; '.join(remedies)}. The model is as it was before this call.",
            sample,
        )

    def _guard_flags(self) -> Guards:
        given = getattr(self, "guards", False)
        chosen = set(self._own_guards if given else ()) if isinstance(given, bool | np.bool_) else set(given)
        if unknown := chosen - set(self._own_guards):
            raise ValueError(
                f"guards={given!r} names {sorted(map(str, unknown))}; {type(self).__name__} has {self._own_guards}"
            )
        return Guards(*(name in chosen for name in Guards._fields))


class Setting(NamedTuple):
    """Rates and means of a network; every rate must be below tau."""

    eta0: Any
    decay: Any
    tau: float = 1.0
    mean_window: int = 0  # 0: the whole past


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralNICA(OnlineNICA):
    """Base of the networks of neurons: learning rates, neural dynamics, initial weights and guards."""

    eta0: Annotated[Rate | None, POSITIVE, callable] = 0.01
    decay: Annotated[float | None, NONNEGATIVE] = 0.001
    power: Annotated[float, NONNEGATIVE] = 1.0
    dynamics: Annotated[str, StrOptions({"exact", "gradient"})] = "exact"
    gamma: Annotated[float | None, POSITIVE, None] = None
    settle_tol: Annotated[float, SHARE] = 1e-10
    settle_steps: Annotated[int, STEPS] = 10_000
    mean_window: Annotated[int | None, WINDOW, None] = None
    precondition: Annotated[str | None, None] = None
    average: Annotated[bool, Options(bool, {False})] = False
    init: Annotated[str | dict[str, Any], StrOptions({"random"}), dict] = "random"
    guards: Annotated[bool | Iterable[str], "boolean", list, tuple, set, frozenset] = True

    def _setting(self, d: int) -> Setting:
        """Return the rates and means of a network of d outputs."""
        return Setting(self.eta0, self.decay)

    def _rates(self, state: Any, n: int) -> Array:
        setting, t = self._setting(state.fired.size), int(state.t[0])
        rates = learning_rates(setting.eta0, setting.decay, self.power, t, n, getattr(self, "horizon", None))
        if rates.size and rates.max() >= setting.tau:
            raise ValueError(
                f"the learning rate {rates.max():g} at sample {t + int(rates.argmax())} is not below {setting.tau:g}: lower eta0"
                f"{' or raise tau' if hasattr(self, 'tau') else ''}"
            )
        return rates[:, np.newaxis]

    def _common_params(self, dtype: Any) -> tuple[Any, Guards, int, float]:
        eps = float(np.finfo(dtype).eps)
        dynamics: Any = Exact(eps)
        if self.dynamics == "gradient":
            tol = max(float(self.settle_tol), 64 * eps)
            dynamics = ProjectedGradient(float(self.gamma or 0.0), tol, int(self.settle_steps))
        return dynamics, self._guard_flags(), int(self.mean_window or 0), eps

    def _given_weights(self, shapes: dict[str, tuple[int, int]], dtype: Any) -> dict[str, Array]:
        """Return copies of the arrays in `init`, checked against `shapes`."""
        given = {}
        for name, value in self.init.items() if isinstance(self.init, dict) else ():
            if name not in shapes:
                raise ValueError(f"init has no weights {name!r} to set; {type(self).__name__} has {sorted(shapes)}")
            try:
                W = np.array(value, dtype=dtype, order="C")
            except (TypeError, ValueError) as error:
                raise ValueError(f"init[{name!r}] must be an array of numbers: {error}") from error
            if W.shape != shapes[name]:
                raise ValueError(f"init[{name!r}] has shape {W.shape}; for these mixtures it must be {shapes[name]}")
            if not np.isfinite(W).all():
                raise ValueError(f"init[{name!r}] holds NaN or infinity; give finite weights")
            given[name] = W
        return given


@dataclass(eq=False, repr=False, kw_only=True)
class WhiteningLayerNICA(NeuralNICA):
    """Base of the networks with an online whitening layer, which learns at the rate zeta: NonnegativePCA and TwoLayerNSM."""

    n_components: Annotated[int | str | None, COUNT, None] = field(default=None, kw_only=False)
    whitening_eta0: Annotated[float, SHARE] = 0.01
    whitening_decay: Annotated[float, NONNEGATIVE] = 0.01
    whitening_power: Annotated[float, NONNEGATIVE] = 1.0

    def _rates(self, state: Any, n: int) -> Array:
        zeta = learning_rates(self.whitening_eta0, self.whitening_decay, self.whitening_power, int(state.t[0]), n)
        return np.column_stack([super()._rates(state, n), zeta])


@dataclass(eq=False, repr=False, kw_only=True)
class SingleLayerNICA(NeuralNICA):
    """Base of InterneuronNICA, TwoCompartmentNICA and ConeNetwork, which have natural steps and strictly local rules."""

    eta0: Annotated[Rate | None, POSITIVE, callable, None] = None
    decay: Annotated[float | None, NONNEGATIVE, None] = None
    precondition: Annotated[str | None, StrOptions({"natural", "scale"}), None] = "natural"
    average: Annotated[bool, "boolean"] = True
    horizon: Annotated[int | None, WINDOW, None] = None

    _fixed: ClassVar[tuple[str, ...]] = ("n_components", "precondition")
    #: The paper's network where the user names eta0 or decay.
    _plain: ClassVar[Setting]
    online_ = nonnegative_ = True

    def _natural_state(self, start: Start, dtype: Any, rng: np.random.RandomState) -> Any:
        """Return the natural network that begins at `start`."""
        raise NotImplementedError

    def _local_setting(self, d: int) -> Setting:
        """Return what a local network of d outputs uses where the user names neither eta0 nor decay."""
        raise NotImplementedError

    @staticmethod
    def _natural(Kind: Any, start: Start, W: Array, M: Array, dtype: Any, rng: np.random.RandomState) -> Any:
        F, W, M = (A.astype(dtype) for A in (start.F, W, M))
        return natural.init(Kind, F, start.u_bar, start.n, W, M, guard_seed(rng))

    def _weight(self, name: str) -> Array:
        natural_name = {"W_xy": "W", "W_xz": "W", "W_zz": "M"}.get(name, name)
        return super()._weight(name if hasattr(self._fitted_state(), name) else natural_name)

    def _setting(self, d: int) -> Setting:
        given = {name: getattr(self, name, None) for name in ("eta0", "decay", "tau", "mean_window")}
        if self.precondition == "natural":
            default = Setting(natural.ETA, 0.0)
            given["tau"] = None  # both kinds of weights learn at the rate eta
        else:
            default = self._local_setting(d) if self.eta0 is None and self.decay is None else self._plain
        return default._replace(**{name: value for name, value in given.items() if value is not None})

    @property
    def local_(self) -> bool:
        """Whether every synapse sees only its two neurons (the paper's second requirement); False with natural steps."""
        return bool(self.precondition != "natural")

    def _waits(self) -> bool:
        return bool(self.precondition == "natural" or super()._waits())

    def _started(self, rows: Array) -> Any:
        if self.precondition != "natural":
            return super()._started(rows)
        rng, d = np.random.RandomState(self._start_seed), self._count(rows)
        block = typical_rows(rows if wider_than_long(rows) else np.asarray(rows, dtype=np.float64))
        F, inverse = project(block, d)
        with one_blas_thread():
            U = linear_map(block, F).astype(np.float64)
        if not np.isfinite(U).all():
            raise self._divergence(0, block, learning=False)
        V = np.linalg.qr(rng.standard_normal((d, d)))[0]
        V[V @ U.mean(axis=0) < 0] *= -1  # towards the orthant
        return self._natural_state(Start(F, inverse, V, U.mean(axis=0), len(block)), rows.dtype, rng)

    def _readout(self, state: Any) -> Any:
        return rule_of(state).averaged(state) if self.average else state

    def _from_mixtures(self, name: str) -> Array:
        """Return weights from what the network sees as weights from the mixtures."""
        state, W = self._fitted_state(), self._weight(name)
        if hasattr(state, "white"):
            return np.asarray(W @ natural.whitening_matrix(state))
        return (W * gain(state.x_power)).astype(W.dtype) if self.precondition == "scale" else W
