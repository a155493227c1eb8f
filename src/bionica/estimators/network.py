"""The base of the networks: where they start, how they take mixtures through their rule (`engines`), what they report.

A subclass says how its state starts (`_initial_state`), which parameters its rule has (`_rule_params`) and which guards it has
(`_own_guards`). CONTRIBUTING.md shows a complete rule with its estimator.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import field
from numbers import Integral, Real
from operator import attrgetter
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .._compat.sklearn import AUTO, COUNT, NONNEGATIVE, POSITIVE, SHARE, WINDOW, Interval, Options, StrOptions
from ..estimator import Online, rank_of
from ..kernels import blocks, whitening_layer
from ..kernels.guards import Guards
from ..kernels.loop import Diverged, Runner, gain
from ..kernels.rule import REPAIRS, UNSETTLED, finite, pseudoinverse, rule_of
from ..kernels.schedules import Rate, learning_rates
from ..kernels.settling import Exact, ProjectedGradient
from ..networks import natural
from ..offline.whitening import largest, leading, linear_map, one_blas_thread
from ..samples import Array, DivergenceError, collected, given_matrix, validated_rows
from ..trust.count import Count, count_sources
from ..trust.findings import conclude, finding

#: The number of sources of each of the paper's problems.
SOURCES = {"d3": 3, "d10": 10, "images": 3}
#: Of the gradient dynamics for a sample: with a safe gamma, only a singular network needs more.
STEPS = Interval(Integral, 1, 10**6, closed="both")
#: Most bytes of samples in a compiled call, which Ctrl-C cannot interrupt.
_BLOCK_BYTES = 2**20
_RATES_AHEAD = 64  # learning rates that are computed at once for samples that come one by one


def published(cls: Any, setting: str) -> dict[str, Any]:
    """The parameters of the paper's network in this setting that differ from the defaults: table 1 (appendix C), to the digit.

    Where the authors' code differs from it (Nonnegative PCA at d = 3 and on images, Algorithm 2 on images), the table is meant.
    """
    if setting not in SOURCES:
        raise ValueError(f"setting={setting!r} is not one of the paper's; choose from {sorted(SOURCES)}")
    if not getattr(cls, "_published", None):
        raise ValueError(f"{cls.__name__} is not in the paper: it has no published setting")
    common = {"n_components": SOURCES[setting], "precondition": None, "average": False}
    return {**common, **cls._published["always"], **cls._published[setting]}


def orthonormal_rows(rng: np.random.RandomState, d: int, k: int, dtype: Any) -> Array:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T.astype(dtype))


def typical_rows(block: Array) -> Array:
    """The rows whose norm, in units of the median of each mixture, is at most 30 times the median norm."""
    block = np.ascontiguousarray(block, dtype=np.float64)  # one layout: the same bits
    with np.errstate(all="ignore"):
        typical = np.median(np.abs(block), axis=0)
        norm = np.linalg.norm(block / np.where(typical > 0, typical, 1.0), axis=1)
        limit = 30 * np.median(norm[norm > 0]) if norm.any() else 0.0
    return np.asarray(block[norm <= limit])


def project(block: Array, d: int) -> tuple[Array, Array]:
    """F, the whitening of a block on d directions, and its right inverse; directions that it does not show are scaled alike."""
    scale = largest(block)
    white = leading(block / scale, d)
    F, inverse, rank = white.matrix, white.inverse, len(white.matrix)
    if rank < d:
        typical = float(np.sqrt(white.eigenvalues.mean())) if rank else 1.0
        basis = np.linalg.qr(np.hstack([inverse, np.eye(block.shape[1], d)]))[0][:, rank:d]
        F = np.vstack([F, basis.T / typical])
        inverse = np.hstack([inverse, basis * typical])
    return F / scale, inverse * scale


def weights(name: str, doc: str) -> Any:
    """Return a property of a network: a copy of a weight matrix."""
    return property(lambda network: network._weight(name), doc=doc)


class OnlineNICA(Online):
    """Base of StreamingNICA and of the networks."""

    n_components: Annotated[int | str | None, COUNT, AUTO, None] = field(default=None, kw_only=False)
    n_epochs: Annotated[int, COUNT] = 1
    shuffle: Annotated[bool, "boolean"] = False

    _saved: ClassVar[dict[str, Any]] = {"_waiting": "wk"}  # and `_state`, which the rule describes
    _own_guards: ClassVar[tuple[str, ...]] = ()
    _waits: ClassVar[bool] = False  # whether it always starts from a first block of samples
    #: The paper's parameters in each setting, and in "always" those that all settings share; empty if it is not in the paper.
    _published: ClassVar[dict[str, dict[str, Any]]] = {}

    @abstractmethod
    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        """Return the state before the first sample; X is the first block, if it waits for one, or that of `fit`, else None."""

    @abstractmethod
    def _rule_params(self, state: Any, dtype: Any) -> Any:
        """Return the rule's Params."""

    def _rates(self, state: Any, n: int) -> Array:
        """Return the learning rates of the next n samples, a column for each kind of rate; zeros, if the rule has none."""
        return np.zeros((n, 1))

    def _readout(self, state: Any) -> Any:
        """Return the state with whose weights `transform` reads out."""
        return rule_of(state).averaged(state) if getattr(self, "average", False) else state

    @classmethod
    def as_published(cls, setting: str, **overrides: Any) -> Self:
        """Return the paper's network with its hyperparameters for this setting.

        Parameters
        ----------
        setting : {"d3", "d10", "images"}
            The three or ten sparse uniform sources, or the three natural images.
        **overrides
            Parameters that differ from the paper's, for example `random_state`.
        """
        return cls(**{**published(cls, setting), **overrides})

    def _fit(self, X: ArrayLike) -> None:
        data = validated_rows(self, X)
        self._reset(data)
        self._rank = rank_of(data) if self.n_components is None else None
        length = self._block_length(data.shape[1])
        if not length or len(data) < length:  # no more samples will come: start from these
            self._start(data[:] if length else data)
        rng = check_random_state(self.random_state)
        for _ in range(self.n_epochs):
            sample: list[Array] = []
            for block in collected(data, sample, getattr(self, "horizon", None)):
                self._learn(block[rng.permutation(len(block))] if self.shuffle else block, quiet=True)
        problems = (finding("converged", reason=text) for text in sorted(self._problems()))
        conclude(self, np.concatenate(sample), len(data), *problems)

    def _check_start(self, X: Array) -> None:
        k = X.shape[1]
        if self.n_components != "auto":
            state = self._initial_state(k, self._given_number(k) or k, X.dtype, np.random.RandomState(0), X)
            self._params_of(state)
            self._rates(state, 1)

    def _full_block(self, d: int) -> int:
        waits = self._waits or self.n_components == "auto" or getattr(self, "precondition", None) == "natural"
        return 100 + 20 * d if self._state is None and waits else 0

    def _start(self, X: Any) -> None:
        """Make the state: from the first block or all data, or from nothing if X is None."""
        k, dtype = self._waiting.shape[1], self._waiting.dtype
        if self.n_components == "auto":
            self.count_: Count = count_sources(np.asarray(X, dtype=np.float64))
            d = self.count_.n_sources
        else:  # the rank of the X of `fit`, or one a mixture in a stream
            d = self._given_number(k) or self._rank or k
        rng = check_random_state(self.random_state)
        if self._block_length(k):  # the permutations of `fit` begin with the same seed
            rng = np.random.RandomState(rng.randint(np.iinfo(np.int32).max))
        with one_blas_thread():
            self._state = self._initial_state(k, d, dtype, rng, X)

    def _take(self, X: Array, keep: bool = False, learning: bool = True) -> Array:
        if self._state is None:
            self._start(X if self._block_length(X.shape[1]) else None)
        runner: Runner | None = self.__dict__.get("_runner")
        if runner is None or runner.state is not self._state:  # its state learns in place
            empty = np.empty((0, X.shape[1]), self._waiting.dtype)
            runner = self._runner = Runner(self._state, self._params_of(self._state), empty)
            self._state = runner.state
        if runner.readout is None and not learning:
            runner.readout = self._readout(self._state)
        k, d, dtype, t = X.shape[1], self._state.fired.size, self._waiting.dtype, int(self._state.t[0])
        Y = np.empty((len(X) if keep else 0, d), dtype)
        rows = max(1, _BLOCK_BYTES // (dtype.itemsize * k), blocks.rows(k, d, dtype.itemsize) if runner.wide else 0)
        for start in range(0, len(X), rows):
            block, out = X[start : start + rows], Y[start : start + rows]
            if not block.flags.carray or block.dtype != dtype:  # the loop is compiled for one type
                block = np.require(block, dtype, ["C", "W", "A"])
            try:
                if learning:
                    runner.learn(block, self._next_rates(runner, len(block)), out)
                else:
                    runner.settle(block, out)
            except Diverged as error:
                raise self._divergence(start + error.sample + (t if learning else 0), block, learning) from None
        return Y

    def _open(self, X: Array) -> tuple[Any, int]:
        """Return how the network would start on X, for a sweep that runs the loop itself: the state, and from how many samples."""
        self._reset(X)
        n = self._block_length(X.shape[1])
        self._start(X[:n] if n else None)
        return self._state, n

    def _next_rates(self, runner: Runner, n: int) -> Array:
        """Return the rates of the next n samples; those of single samples come from rates that were computed ahead."""
        t, (first, rates) = int(runner.state.t[0]), runner.rates
        if not first <= t <= t + n <= first + len(rates):
            ahead = n if n > 1 or callable(getattr(self, "eta0", None)) else _RATES_AHEAD
            first, rates = runner.rates = t, np.ascontiguousarray(self._rates(runner.state, ahead), dtype=np.float64)
        return rates[t - first : t - first + n]

    def _params_of(self, state: Any) -> Any:
        """Return the Params for the rule of this state; ValueError if the user's parameters belong to another rule."""
        params, rule = self._rule_params(state, self._waiting.dtype), rule_of(state)
        if not isinstance(params, rule.Params) or (getattr(params, "scaled", False) and not hasattr(state, "x_power")):
            raise ValueError(
                f"the parameters of this {type(self).__name__} belong to another learning rule than its state ({rule.name}): call "
                "fit to start from scratch, or restore the parameters that were changed (precondition)"
            )
        return params

    def _outputs(self, X: Array) -> Array:
        if self._state is None:
            return super()._outputs(X)
        self._validate_params()
        return self._take(X, keep=True, learning=False)

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a mixture for which every output fires.

        If some outputs are silent the others settle without them, so `transform` equals `max(components_ @ x, 0)` only up to the
        residual negativity of the fit. Read from the averaged weights if `average` is set.
        """
        state = self._readout(self._started())
        with np.errstate(all="ignore"):  # a collapsed network may overflow
            W = finite(np.asarray(rule_of(state).unmixing(state)))
            if getattr(self, "precondition", None) == "scale":
                W = W * gain(state.x_power)
            return W.astype(self._waiting.dtype)

    @property
    def mixing_(self) -> Array:
        """The mixing matrix, (n_features, n_components): pseudoinverse of `components_`."""
        return pseudoinverse(self.components_)

    @property
    def change_detected_(self) -> bool:
        """Whether the mixing changed while the network learned without a horizon. False for networks that do not detect changes."""
        state = self._started()
        return hasattr(state, "white") and self.horizon is None and bool(state.white.changed[0])

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted; samples that were regularised (nearly singular lateral weights) or did not settle."""
        return dict(zip(REPAIRS, map(int, self._started().repairs), strict=True))

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned from, or that wait for the start."""
        self._check_is_fitted()
        return len(self._waiting) if self._state is None else int(self._state.t[0])

    @property
    def _n_features_out(self) -> int:
        if self._state is None and self.n_components != "auto":
            return self._given_number() or self._rank or self.n_features_in_
        return int(self._started().fired.size)

    def _weight(self, name: str) -> Array:
        """Return a copy of a weight matrix, so that the user cannot change the network through it."""
        return np.array(attrgetter(name)(self._started()))

    def _check_saved(self) -> None:
        super()._check_saved()
        if self._state is not None:
            self._params_of(self._state)

    def _problems(self) -> set[str]:
        problems: set[str] = set()
        if (state := self._state) is None:
            return problems
        if state.repairs[UNSETTLED]:
            change_gamma = f"change gamma={self.gamma}, " if self.dynamics == "gradient" else ""
            solver = "dynamics='exact'" if getattr(state, "coupled", (True,))[0] else "decoupled=False"
            problems.add(
                f"samples did not settle in settle_steps={self.settle_steps} steps of the neural dynamics (repairs_ counts them): "
                f"raise settle_steps, {change_gamma}raise settle_tol={self.settle_tol} or use {solver}"
            )
        if hasattr(state, "white") and state.white.changed[0]:
            problems.add(
                "the mixtures changed: outputs became far more correlated or negative, and past and present are averaged. If the "
                "mixing changes, set horizon= to the number of samples to remember (1,000 + 100 n_components or more). If sources "
                "are on and off for long, or neighbouring samples are alike, ignore this. If sensors failed, omit these samples"
            )
        return problems

    def _divergence(self, sample: int, block: Array, learning: bool) -> DivergenceError:
        remedies = []
        values = {name: getattr(self, name, None) for name in ("gamma", "eta0")}
        lower = {name: f"lower {name}" + (f" (now {x})" if isinstance(x, Real) else "") for name, x in values.items()}
        if getattr(self, "dynamics", "exact") == "gradient":
            remedies.append(lower["gamma"] + " or use dynamics='exact'")
        if learning and hasattr(self, "eta0"):
            remedies.append(lower["eta0"])
        if learning and self._own_guards and self.guards is not True:
            remedies.append(f"turn on guards={self._own_guards!r} (now {self.guards!r})")
        return DivergenceError.overflow(type(self).__name__, sample, block, *remedies)


class Setting(NamedTuple):
    """Rates and means of a network; every rate must be below tau."""

    eta0: Any = None
    decay: Any = None
    tau: float = 1.0
    mean_window: int = 0  # 0: the whole past


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
        chosen = set(self.guards if isinstance(self.guards, Iterable) else self._own_guards if self.guards else ())
        if unknown := chosen - set(self._own_guards):
            raise ValueError(
                f"guards={self.guards!r} names {sorted(map(str, unknown))}; {type(self).__name__} has {self._own_guards}"
            )
        guards = Guards(*(name in chosen for name in Guards._fields))
        return dynamics, guards, int(self.mean_window or 0), eps

    def _given_weights(self, shapes: dict[str, tuple[int, int]], positive_definite: str = "") -> dict[str, Array]:
        """Return the arrays in `init` in float64, checked against `shapes`; the one of that name is positive definite."""
        given = {}
        for name, value in self.init.items() if isinstance(self.init, dict) else ():
            if name not in shapes:
                raise ValueError(f"init has no weights {name!r} to set; {type(self).__name__} has {sorted(shapes)}")
            W = given_matrix(value, f"init[{name!r}]", str(shapes[name]))
            if W.shape != shapes[name]:
                raise ValueError(f"init[{name!r}] has shape {W.shape}; for these mixtures it must be {shapes[name]}")
            if name == positive_definite and not (np.allclose(W, W.T) and np.linalg.eigvalsh(W)[0] > 0):
                raise ValueError(f"init[{name!r}] must be symmetric positive definite; W @ W.T of any full-rank W is")
            given[name] = W
        return given


class WhiteningLayerNICA(NeuralNICA):
    """Base of the networks with an online whitening layer, which learns at the rate zeta: NonnegativePCA and TwoLayerNSM."""

    n_components: Annotated[int | str | None, COUNT, None] = field(default=None, kw_only=False)
    whitening_eta0: Annotated[float, SHARE] = 0.01
    whitening_decay: Annotated[float, NONNEGATIVE] = 0.01
    whitening_power: Annotated[float, NONNEGATIVE] = 1.0

    def _rates(self, state: Any, n: int) -> Array:
        rates = np.repeat(super()._rates(state, n), 2, axis=1)
        rates[:, 1] = learning_rates(
            self.whitening_eta0, self.whitening_decay, self.whitening_power, int(state.t[0]), n
        )
        return rates

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        return whitening_layer.Params(*self._common_params(dtype))


class SingleLayerNICA(NeuralNICA):
    """Base of InterneuronNICA, TwoCompartmentNICA and ConeNetwork, which have natural steps and strictly local rules."""

    eta0: Annotated[Rate | None, POSITIVE, callable, None] = None
    decay: Annotated[float | None, NONNEGATIVE, None] = None
    precondition: Annotated[str | None, StrOptions({"natural", "scale"}), None] = "natural"
    average: Annotated[bool, "boolean"] = True
    horizon: Annotated[int | None, WINDOW, None] = None

    def _local_setting(self, d: int) -> Setting:
        """Return what a local network of d outputs uses where the user names neither eta0 nor decay."""
        raise NotImplementedError

    def _weight(self, name: str) -> Array:
        state = self._started()
        natural_names = {"W_xy": "W", "W_xz": "W", "W_zz": "M"}
        W = super()._weight(name if hasattr(state, name) else natural_names.get(name, name))
        if not name.startswith("W_x"):
            return W
        if hasattr(state, "white"):  # from the mixtures, not from what the network sees
            return np.asarray(W @ natural.whitening_matrix(state))
        return (W * gain(state.x_power)).astype(W.dtype) if self.precondition == "scale" else W

    def _setting(self, d: int) -> Setting:
        given = {name: getattr(self, name, None) for name in Setting._fields}
        if self.precondition == "natural":
            default = Setting(natural.ETA, 0.0)
            given["tau"] = None  # both kinds of weights learn at the rate eta
        else:
            unnamed = self.eta0 is None and self.decay is None
            default = self._local_setting(d) if unnamed else Setting(**self._published.get("d3", {}))
        return default._replace(**{name: value for name, value in given.items() if value is not None})

    def _natural_start(self, X: Array, d: int, rng: np.random.RandomState) -> tuple[Array, Array, Array, Array]:
        """Return F (d, k), its right inverse, a random rotation, and the mean of u = F x over a block."""
        block = typical_rows(X)
        F, inverse = project(block, d)
        U = linear_map(block, F)
        if not np.isfinite(U).all():
            raise self._divergence(0, block, learning=False)
        V, u_bar = np.linalg.qr(rng.standard_normal((d, d)))[0], U.mean(axis=0)
        V[V @ u_bar < 0] *= -1  # towards the orthant
        return F, inverse, V, u_bar
