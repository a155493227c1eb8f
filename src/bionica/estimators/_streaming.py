"""How a network takes mixtures through its rule (`engines.loop.run`): parameters, rates, blocks of samples, divergence.

A subclass says how its state starts (`_initial_state`), which parameters its rule has (`_rule_params`), at which rates it learns
(`_rates`) and which guards it has (`_own_guards`).
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._compat.sklearn import Interval, Options, StrOptions
from ..engines import blocks
from ..engines.loop import Diverged, run
from ..networks import rule as states
from ..networks.guards import Guards
from ..networks.rule import UNSETTLED, rule_of
from ..networks.schedules import learning_rates
from ..networks.settling import Exact, ProjectedGradient
from ._exceptions import CHANGED, DivergenceError, check_finite
from ._initial_weights import given_weights
from ._online_methods import OnlineMethods
from ._progress import tracked
from ._warn import warn

Array = NDArray[Any]

_BLOCK_BYTES = 2**22
_BLOCK_ROWS = 2**15
#: Most products in a compiled call, which Ctrl-C cannot interrupt: about a second, if no sample settles.
_CALL_PRODUCTS = 10**9
#: Largest `settle_steps`: with a safe gamma, only a singular network needs more steps.
MOST_STEPS = 10**6
#: Upper estimate of the steps in which a sample settles exactly.
_MOST_PIVOTS = 20
_NO_RATES = np.empty((0, 1))


class Streaming(OnlineMethods):
    """Base of `OnlineNICA`."""

    _own_guards: ClassVar[tuple[str, ...]] = ()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eta0": [Interval(Real, 0, None, closed="neither"), callable],
        "decay": [Interval(Real, 0, None, closed="left")],
        "power": [Interval(Real, 0, None, closed="left")],
        "dynamics": [StrOptions({"exact", "gradient"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "settle_tol": [Interval(Real, 0, 1, closed="neither")],
        "settle_steps": [Interval(Integral, 1, MOST_STEPS, closed="both")],
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

    @abstractmethod
    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        """Return the state before the first sample; X is all the data of `fit`, or None in a stream."""

    @abstractmethod
    def _rule_params(self, state: Any, dtype: Any) -> Any:
        """Return the rule's Params."""

    def _rates(self, state: Any, n: int) -> Array:
        """Return the learning rates of the next n samples, a column for each kind of rate."""
        rates = learning_rates(self.eta0, self.decay, self.power, int(state.t[0]), n)
        return self._below(rates, state, 1.0, "1", "lower eta0")[:, np.newaxis]

    def _validate_params(self) -> None:
        super()._validate_params()
        self._guard_flags()

    def _stream(self, state: Any, X: Array, *, learn: bool, keep: bool, order: Array | None = None) -> Array:
        """Take X through the network block by block; `state` learns in place."""
        dtype = states.precision(state)
        n, k = X.shape
        Y = np.empty((n if keep else 0, state.fired.size), dtype)
        params = self._params_of(state, dtype)
        rule = rule_of(state)
        least = blocks.rows(k, state.fired.size, dtype.itemsize) if blocks.suits(rule, state, n, k) else 1
        for start, stop in self._blocks(n, k, least, self._most_rows(state)):
            in_blocks = blocks.suits(rule, state, stop - start, k)
            block = X[start:stop] if order is None else X[order[start:stop]]
            # Arrays that are not writable or not aligned are copied: the loop is compiled for one type.
            block = np.require(block, dtype, ["C"] if in_blocks else ["C", "W", "A"])
            check_finite(block, start, self)
            self._advance(state, params, block, Y[start:stop] if keep else Y, start, learn)
        return Y

    def _params_of(self, state: Any, dtype: Any) -> Any:
        """Return the Params for the rule of this state; ValueError if the user's parameters belong to another rule."""
        params, rule = self._rule_params(state, dtype), rule_of(state)
        if not isinstance(params, rule.Params):
            raise ValueError(
                f"the parameters of this {type(self).__name__} belong to another learning rule than its state ({rule.name}): call "
                "fit to start from scratch, or restore the parameters that were changed (precondition)"
            )
        return params

    @contextmanager
    def _warning_of_news(self) -> Iterator[None]:
        """Warn if samples do not settle within this context, or if the mixtures change. `fit` reports this at its end."""
        unsettled, n, changed = self._news()
        yield
        unsettled_now, n_now, changed_now = self._news()
        if unsettled_now > unsettled:
            warn(self._unsettled_message(unsettled_now - unsettled, n_now - n))
        if changed_now and not changed:
            warn(self._change_message(self._state))

    def _news(self) -> tuple[int, int, bool]:
        """How many samples did not settle, of how many, and whether the mixtures changed."""
        state = vars(self).get("_state")
        return (
            (0, 0, False) if state is None else (int(state.repairs[UNSETTLED]), int(state.t[0]), self._changed(state))
        )

    def _unsettled_message(self, unsettled: int, n: int) -> str:
        return (
            f"{unsettled} of {n} samples did not settle in settle_steps={self.settle_steps} steps of the neural dynamics: "
            f"raise settle_steps, change gamma={self.gamma}, raise settle_tol={self.settle_tol} or use dynamics='exact'"
        )

    def _change_message(self, state: Any) -> str:
        return f"the mixtures changed before sample {int(state.t[0])}: {CHANGED}"

    def _changed(self, state: Any) -> bool:
        """Whether the network found that its mixtures changed, and could not follow."""
        return False

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

    def _most_rows(self, state: Any) -> int:
        """Return how many samples a call of the loop may take, so that it ends soon even if none of them settles."""
        steps = self.settle_steps if getattr(self, "dynamics", "exact") == "gradient" else _MOST_PIVOTS
        return max(1, int(_CALL_PRODUCTS // (int(steps) * 2 * state.fired.size**2)))

    def _blocks(self, n: int, k: int, least: int, most: int) -> Iterable[tuple[int, int]]:
        rows = max(least, min(_BLOCK_ROWS, most, _BLOCK_BYTES // (8 * k)))
        blocks = [(start, min(start + rows, n)) for start in range(0, n, rows)]
        return tracked(blocks, self, len(blocks)) if len(blocks) > 1 else blocks

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
        eps = float(np.finfo(dtype).eps)
        dynamics: Any = Exact(eps)
        if self.dynamics == "gradient":
            tol = max(float(self.settle_tol), 64 * eps)
            dynamics = ProjectedGradient(float(self.gamma or 0.0), tol, int(self.settle_steps))
        return dynamics, self._guard_flags(), int(self.mean_window or 0), eps

    def _given_weights(self, shapes: dict[str, tuple[int, int]], dtype: Any) -> dict[str, Array]:
        """Return copies of the arrays in `init`, checked against `shapes`."""
        return given_weights(self.init, shapes, dtype, type(self).__name__)
