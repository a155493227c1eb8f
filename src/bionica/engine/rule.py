"""What a learning rule is, the registry of all rules, and the states they learn.

*The contract.* A rule file defines `State`, a NamedTuple of arrays that ends with those
of BOOKKEEPING, `Params`, a NamedTuple of plain numbers with at least `average`, and

    workspace(state) -> work
        scratch arrays, at least `y` and `ws`; `working` makes such a function
    settle(state, work, params, X, row)
        work.y <- the output for the mixture X[row]; changes `work` only
    learn(state, work, params, X, row, eta)
        the equations of the synaptic updates for that mixture; changes `state`
    unmixing(state) -> matrix
        what the network does to a mixture while every output fires

and declares them, once, with ``RULE = register(Rule(...))``. Everything that runs,
saves, sweeps or draws networks reads that record: the loop, model files, the command
line and the tests. The loop (`loop.step`) counts samples (`state.t`) and calls what
else a rule has:

    rate(state, work, params, X, row, rates) -> eta
        before `learn`: the learning rate, rates[row, 0] unless a guard lowers it
    track(state, work, params, eta)
        after `learn`: what follows from the weights, such as an inverse; changes
        `state`
    average(state, weight)
        then, if `params.average` is not 0: moves every W_mean towards W
    flip(state, work, params)
        then, the guard `silent`; changes `state`
    inspect(state, work, params)
        every INSPECT_EVERY samples: other guards, inverses computed afresh; changes
        `state`
    is_due(state, params) -> bool
        asked before every sample that is learned from
    maintain(state, params)
        called in Python where it is True, and makes it False; changes `state`

*A rule in plain NumPy* has one function instead of all these, which is not compiled
(`bionica.circuits.plain` makes such rules):

    step(names, x, eta) -> y
        settles and learns from the mixture x; changes the arrays in the dict `names`

`workspace`, `unmixing` and `maintain` run in Python, the others are compiled: they have
no annotations, allocate nothing, and call functions that are `hot` or `cold` (see
below). Update last the matrices that `settle` reads first, so that they are still in
cache.

*In this file*: the record `Rule` and its registry; states (`first_state`, `variant`,
`to_arrays`, ...); how functions are compiled (`hot`, `cold`, `generic`); inverses for
states (`inverse`, `solve_lateral`).
"""

import functools
import inspect as introspection
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numba.extending import overload, register_jitable

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import finite, pseudoinverse
from bionica.core.blocks import shapes as shapes
from bionica.core.model_file import leaf_types

#: Samples between two calls of `inspect`.
INSPECT_EVERY = 100
#: How often each repair acted is counted in this order.
SILENT, ROW, SPECTRUM, RATE, REGULARISED, UNSETTLED, RESTART = range(7)
REPAIRS = ("silent", "row", "spectrum", "rate", "regularised", "unsettled", "restart")
#: Schemas (`model_file`) of the arrays that every State ends with.
BOOKKEEPING = {
    "t": "1:count",
    "fired": "d:bool",
    "rng": "1:seed",
    "repairs": f"{len(REPAIRS)}:count",
}
_DTYPES = {"count": "int64", "seed": "int64"}


class Scratch(NamedTuple):
    """Work space of one layer of d neurons."""

    firing: np.ndarray  # the neurons that fire
    chosen: np.ndarray  # indices of those that are solved for
    L: np.ndarray  # factor of M or H over them, reciprocal pivots on the diagonal
    u: np.ndarray  # the solution
    # right-hand side, then (M z - c)_i of the silent neurons; or the gradient
    w: np.ndarray
    free: np.ndarray  # the activity without rectification; in between, a vector
    v: np.ndarray  # a vector
    M: np.ndarray  # a matrix
    events: np.ndarray  # how often each repair acted


def scratch(d, dtype, events=None):
    """Return `ws` of every Work; layers of one network share `events`."""
    u, w, free, v = np.zeros((4, d), dtype)
    L, M = np.zeros((2, d, d), dtype)
    events = np.zeros(len(REPAIRS), np.int64) if events is None else events
    return Scratch(
        np.zeros(d, np.bool_), np.zeros(d, np.uint64), L, u, w, free, v, M, events
    )


# --- the record and its registry


def _nothing(*arguments):
    """A step that a rule does not have."""


def _given_rate(state, work, params, X, row, rates):
    return rates[row, 0]


def _never(state, params):
    return False


@dataclass(frozen=True, eq=False)
class Rule:
    """A learning rule: its functions (see the module), and what its State holds.

    `shapes` has the shape of every array of a State but those of BOOKKEEPING: "dk" is
    (d, k), "2:count" two counts. The letters k (mixtures), d (outputs) and any other
    stand for lengths; without a dtype the array has the precision of the network.
    """

    name: str  # in model files and in the names of cache files
    State: Any
    shapes: Mapping[str, str]
    workspace: Any
    settle: Any
    learn: Any
    unmixing: Callable[[Any], np.ndarray]
    inspect: Callable[..., None] = _nothing
    track: Callable[..., None] = _nothing
    average: Callable[..., None] = _nothing
    flip: Callable[..., None] = _nothing
    rate: Callable[..., float] = _given_rate
    is_due: Callable[..., bool] = _never
    maintain: Callable[..., Any] | None = None
    # fields that are the product of two others
    products: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # inverses of symmetric matrices, which the exact solver reads
    inverses: Mapping[str, str] = field(default_factory=dict)
    # the rule in plain NumPy; then workspace, settle and learn are None
    step: Any = None
    # of a variant: first values of what it adds
    first: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


#: The functions of a rule that are compiled into the loop.
COMPILED = ("settle", "rate", "learn", "track", "average", "flip", "inspect", "is_due")
#: Every rule by its name; a rule that is defined again replaces the first.
RULES: dict[str, Rule] = {}
_BY_STATE: dict[Any, Rule] = {}


def register(rule: Rule) -> Rule:
    """Make a rule known, and return it; ValueError if its record does not describe its
    State.
    """
    fields = {name for name, _ in leaf_types(rule.State)}
    missing = {*BOOKKEEPING} - fields
    fields -= {*BOOKKEEPING}
    different = fields ^ {*rule.shapes}
    unknown = {*rule.products, *rule.inverses} - fields
    owner = _BY_STATE.get(rule.State, rule)
    problem = None
    if different:
        problem = f"shapes and the fields of State differ in {sorted(different)}"
    elif not any("k" in spec.partition(":")[0] for spec in rule.shapes.values()):
        problem = (
            "no shape has the letter k, the number of mixtures, which model files check"
        )
    elif missing:
        problem = f"State lacks {sorted(missing)}, which every State has"
    elif unknown:
        problem = f"State has no field {sorted(unknown)}, which the record names"
    elif owner is not rule:
        problem = (
            f"{rule.State.__module__}.{rule.State.__qualname__} is the State of the"
            f" rule {owner.name!r}; give the new rule a State class of its own"
        )
    if problem:
        raise ValueError(f"rule {rule.name!r}: {problem}")
    RULES[rule.name] = _BY_STATE[rule.State] = rule
    return rule


def rule_of(state: Any) -> Rule:
    """Return the rule that a state belongs to."""
    try:
        return _BY_STATE[type(state)]
    except KeyError:
        raise TypeError(
            f"no rule is registered for {type(state)}: declare it with"
            " register(Rule(...))"
        ) from None


def variant(
    rule: Rule,
    name: str,
    arrays: Mapping[str, tuple[str, Any]] | None = None,
    **functions: Any,
) -> Rule:
    """Register a rule that differs from another one in some functions, with more
    arrays: a shape, and the first value from a state.

    ``NetworkLearner.varied`` takes a network to it.
    """
    new = arrays or {}
    types = [*get_type_hints(rule.State).items(), *((each, np.ndarray) for each in new)]
    return register(
        replace(
            rule,
            name=name,
            State=state_class(name, types),
            shapes={**rule.shapes, **{each: shape for each, (shape, _) in new.items()}},
            first={each: start for each, (_, start) in new.items()},
            **functions,
        )
    )


# --- states: named tuples of arrays

#: What `state_class` has made, where pickle and Numba's cache find it by name.
STATES = SimpleNamespace()


def state_class(
    rule: str, fields: Iterable[tuple[str, Any]], name: str = "State"
) -> Any:
    """Return the State class of a rule, or its class of another name, with these fields
    and types.
    """
    cls = NamedTuple(name, fields)  # type: ignore[misc]
    attribute = re.sub(r"\W", "_", f"{rule}_{name}")
    setattr(STATES, attribute, cls)
    cls.__module__ = __name__
    cls.__qualname__ = f"STATES.{attribute}"
    return cls


def to_arrays(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Name every array of a state, in order; those of a part as 'part.name'."""
    arrays = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            arrays |= to_arrays(value, f"{prefix}{name}.")
    return arrays


def lengths(state: Any) -> tuple[dict[str, int], np.dtype[Any]]:
    """Return what the letters of shapes stand for, k mixtures, d outputs and others,
    and the precision of the network.
    """
    arrays = to_arrays(state)
    specs = rule_of(state).shapes
    dtype = next(arrays[name].dtype for name in specs if ":" not in specs[name])
    return _lengths(specs, arrays), dtype


def _lengths(specs: Mapping[str, str], arrays: Mapping[str, Any]) -> dict[str, int]:
    """What the letters of shapes stand for in these arrays."""
    return {
        letter: n
        for name, spec in specs.items()
        if name in arrays
        for letter, n in zip(spec, np.shape(arrays[name]), strict=False)
        if letter.isalpha()
    }


def _zeros(spec: str, sizes: Mapping[str, int], dtype: Any) -> np.ndarray:
    """An array of zeros of this shape and kind."""
    letters, _, kind = spec.partition(":")
    parts = re.findall(r"\d+|\D", letters)
    shape = [int(part) if part.isdigit() else sizes[part] for part in parts]
    return np.zeros(shape, _DTYPES.get(kind, kind) or dtype)


def working(rule: str, **fields: str) -> Callable[[Any], Any]:
    """Return the `workspace` of a rule: names by shape, as in `shapes`, for zeros in
    the network's precision; then `ws`.
    """
    specs = shapes(**fields)
    types = [*((name, np.ndarray) for name in specs), ("ws", Scratch)]
    Work = state_class(rule, types, "Work")

    def workspace(state: Any) -> Any:
        sizes, dtype = lengths(state)
        arrays = [_zeros(spec, sizes, dtype) for spec in specs.values()]
        return Work(*arrays, scratch(sizes["d"], dtype))

    return workspace


def first_state(
    rule: Rule, dtype: Any, rng: np.random.RandomState, given: Mapping[str, Any]
) -> Any:
    """Return a network that has seen nothing, from its first weights and other arrays
    (copied), and from its parts.

    An average W_mean begins as W, products and inverses follow from the weights,
    everything else is zero.
    """
    given = {**given, "rng": rng.randint(1, 2147483562)}
    specs = {**rule.shapes, **BOOKKEEPING}
    sizes = _lengths(specs, given)
    fields = {}
    for name in rule.State._fields:
        if name not in specs:
            fields[name] = given[name]  # a part
            continue
        fields[name] = _zeros(specs[name], sizes, dtype)
        fields[name][...] = given.get(name, given.get(name.removesuffix("_mean"), 0))
    return _with_products(rule, rule.State(**fields))


def averaged(state: Any) -> Any:
    """Return the network that reads out with its averaged weights; shares memory with
    `state`.
    """
    arrays = state._asdict()
    means = {
        name: arrays[f"{name}_mean"].astype(arrays[name].dtype)
        for name in arrays
        if f"{name}_mean" in arrays
    }
    return _with_products(rule_of(state), state._replace(**means))


def _with_products(rule: Rule, state: Any) -> Any:
    """The state with the products and inverses of its weights."""
    for name, (first, second) in rule.products.items():
        product = getattr(state, first) @ getattr(state, second)
        state = state._replace(**{name: product})
    for name, M in rule.inverses.items():
        state = state._replace(**{name: inverse(getattr(state, M))})
    return state


def in_buffers(state: Any) -> tuple[Any, list[np.ndarray]]:
    """Return a copy of a state whose arrays of a dtype lie in one buffer, and the
    buffers.
    """
    arrays = list(to_arrays(state).values())
    buffers = []
    copies = {}
    for dtype in {a.dtype for a in arrays}:
        own = [a for a in arrays if a.dtype == dtype]
        # in float64 arrays begin with a cache line
        ends = np.cumsum([-(-a.size // 8) * 8 for a in own])
        buffers.append(np.zeros(ends[-1], dtype))
        for a, start in zip(own, [0, *ends], strict=False):
            copies[id(a)] = buffers[-1][start : start + a.size].reshape(a.shape)
            copies[id(a)][...] = a
    return deepcopy(state, copies), buffers  # the copies are made already


# --- compilation
#
# How the parts of the loop are compiled, with Numba's public interface only.
#
# `hot` functions are inlined into the loop: without inlining, the arrays of a state
# travel through every call, and a sample of Algorithm 2 at d = 3 takes twice as long.
# `cold` functions run rarely and stay out of line. `ordered` ones are hot, and their
# sums are stored as they grow: vectorised code and its remainder would round
# differently. With the JIT off all of them are plain Python.
#
# Arithmetic keeps the precision of the arrays (`W.dtype.type(eta)`): a single float64
# literal promotes the whole expression to float64. The compiler may reorder sums and
# fuse products; NaN and infinity keep their meaning.

_ORDERED = {"nsz", "arcp", "contract", "afn"}
_FASTMATH = {*_ORDERED, "reassoc"}

hot = functools.cache(register_jitable(forceinline=True, fastmath=_FASTMATH))
cold = register_jitable(forceinline=False, fastmath=_FASTMATH)
ordered = register_jitable(forceinline=True, fastmath=_ORDERED)


def generic(function):
    """Make a function that others replace for the types of its first argument that they
    `register`; it is hot.

    The type decides in Python (`functools.singledispatch`) and when Numba compiles.
    """
    call = functools.singledispatch(function)

    def resolve(*types):
        return call.dispatch(types[0].instance_class)

    # Numba compares the resolver's argument names with the implementation's
    resolve.__signature__ = introspection.signature(function)
    options = {"forceinline": True, "fastmath": _FASTMATH}
    overload(call, jit_options=options, strict=False)(resolve)
    return call


# --- inverses
#
# They also answer for a collapsed network: weights that are zero, singular or huge. For
# all others `solve_lateral` is `numpy.linalg.solve`, with the same bits.


def inverse(M: np.ndarray) -> np.ndarray:
    """M^-1 for a new state and symmetric M; zeros if M is singular: neurons then settle
    by pivoting.
    """
    with np.errstate(all="ignore"):
        try:
            H = np.linalg.inv(M.astype(np.float64))
        except np.linalg.LinAlgError:
            return np.zeros_like(M)
        H = (0.5 * (H + H.T)).astype(M.dtype)
    return H if np.isfinite(H).all() else np.zeros_like(M)


def solve_lateral(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """M^-1 W, what a network with lateral weights M does to its input while every
    neuron fires; if M is singular, the solution of smallest norm.
    """
    with np.errstate(all="ignore"):
        try:
            V = np.linalg.solve(M, W)
            if np.isfinite(V).all():
                return V
        except np.linalg.LinAlgError:
            pass
        return finite((pseudoinverse(M.astype(np.float64)) @ W).astype(W.dtype))


@one_blas_thread()
def orthonormal_rows(rng: np.random.RandomState, d: int, k: int) -> np.ndarray:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T)
