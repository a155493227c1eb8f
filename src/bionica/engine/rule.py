"""What a learning rule is, and the registry of all rules.

A rule file defines `State` (a NamedTuple of arrays that ends with those of
BOOKKEEPING), `Params` (a NamedTuple of plain numbers with at least `dynamics`, `guards`
and `average`) and the functions

    workspace(state) -> work                 scratch arrays, at least `y` and `ws`, made for each call by what `working` returns
    settle(state, work, params, X, row)      work.y <- the output for the mixture X[row]; changes `work` only
    learn(state, work, params, X, row, eta)  the equations of the synaptic updates for
    that mixture; changes `state`
    unmixing(state) -> matrix                what the network does to a mixture while every output fires

and declares them, once, with ``RULE = register(Rule(...))``. Everything that runs,
saves, sweeps or draws networks reads that record: the loop, model files, the command
line and the tests. The loop (`loop.step`) does around `learn` what is not an equation:
it counts samples (`state.t`), and calls what else a rule has,

    rate(state, work, params, X, row, rates) -> eta      before `learn`: the learning rate, rates[row, 0] unless a guard lowers it
    track(state, work, params, eta)          after `learn`: what follows from the weights, such as an inverse; changes `state`
    average(state, weight)                   then, where `params.average` asks for it: moves every W_mean towards W
    flip(state, work)                        then, the guard `silent`
    inspect(state, work, params)             every 100 samples: guards, and inverses computed afresh; changes `state`
    is_due(state, params) -> bool            asked before every sample that is learned from
    maintain(state, params)                  called in Python where it is True, and makes it False; changes `state`

*A rule in plain NumPy* has one function instead of all these, which is not compiled
(`bionica.circuits.plain` makes such rules):

    step(names, x, eta) -> y                 settles and learns from the mixture x; changes the arrays in the dict `names`

`workspace`, `unmixing` and `maintain` run in Python, the others are compiled: they have
no annotations, allocate nothing, and call functions that are `hot` or `cold` (see
below).

Update last the matrices that `settle` reads first, so that they are still in cache.
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
from bionica.core.model_file import leaf_types

#: How often each repair acted is counted in this order; see `guards`.
SILENT, ROW, SPECTRUM, RATE, REGULARISED, UNSETTLED, RESTART = range(7)
REPAIRS = ("silent", "row", "spectrum", "rate", "regularised", "unsettled", "restart")
n_repairs = len(REPAIRS)

#: Schemas (`model_file`) of the arrays that every State ends with.
BOOKKEEPING = {
    "t": "1:count",
    "fired": "d:bool",
    "rng": "1:seed",
    "repairs": f"{n_repairs}:count",
}
_DTYPES = {"count": "int64", "seed": "int64"}


def shapes(**fields: str) -> dict[str, str]:
    """Shapes of fields by name, from names by shape: ``shapes(dk="W_xz W_xz_mean",
    d="c_bar")``.
    """
    return {name: dims for dims, names in fields.items() for name in names.split()}


#: The functions of a rule that are compiled into the loop.
COMPILED = ("settle", "rate", "learn", "track", "average", "flip", "inspect", "is_due")


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
    events = np.zeros(n_repairs, np.int64) if events is None else events
    return Scratch(
        np.zeros(d, np.bool_), np.zeros(d, np.uint64), L, u, w, free, v, M, events
    )


@dataclass(frozen=True, eq=False)
class Rule:
    """A learning rule: its functions (see the module), and what its State holds.

    `shapes` has the shape of every array of a State but those of BOOKKEEPING: "dk" is
    (d, k), "2:count" two counts. The letters k (mixtures), d (outputs) and any other
    stand for lengths; without a dtype the array has the precision of the network.
    """

    name: str  # in model files and in the names of cache files
    State: Any
    Params: Any
    shapes: Mapping[str, str]
    workspace: Any
    settle: Any
    learn: Any
    unmixing: Callable[[Any], np.ndarray]
    inspect: Callable[..., None] = lambda state, work, params: None
    track: Callable[..., None] = lambda state, work, params, eta: None
    average: Callable[..., None] = lambda state, weight: None
    flip: Callable[..., None] = lambda state, work: None
    rate: Callable[..., float] = lambda state, work, params, X, row, rates: rates[
        row, 0
    ]
    is_due: Callable[..., bool] = lambda state, params: False
    maintain: Callable[..., Any] | None = None
    # fields that are the product of two others
    products: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # Inverses of symmetric matrices, which the exact solver reads.
    inverses: Mapping[str, str] = field(default_factory=dict)
    # the rule in plain NumPy; then workspace, settle and learn are None
    step: Any = None
    # Of a variant: first values of what it adds.
    first: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


#: Every rule by its State.
_BY_STATE: dict[Any, Rule] = {}
#: Every rule by its name; a rule that is defined again replaces the first.
RULES: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Make a rule known, and return it; ValueError if its record does not describe its
    State.
    """
    fields = {name for name, _ in leaf_types(rule.State)} - {*BOOKKEEPING}
    if fields != {*rule.shapes} - {*BOOKKEEPING}:
        different = sorted(fields ^ ({*rule.shapes} - {*BOOKKEEPING}))
        raise ValueError(
            f"rule {rule.name!r}: shapes and the fields of State differ in {different}"
        )
    if not any("k" in spec.partition(":")[0] for spec in rule.shapes.values()):
        raise ValueError(
            f"rule {rule.name!r}: no shape has the letter k, the number of mixtures,"
            " which model files check"
        )
    missing = {*BOOKKEEPING} - {*rule.State._fields}
    if missing:
        raise ValueError(
            f"rule {rule.name!r}: State lacks {sorted(missing)}, which every State has"
        )
    named = [*rule.products, *rule.inverses]
    unknown = {*named} - fields
    if unknown:
        raise ValueError(
            f"rule {rule.name!r}: State has no field {sorted(unknown)}, which the"
            " record names"
        )
    if _BY_STATE.setdefault(rule.State, rule) is not rule:
        raise ValueError(
            f"rule {rule.name!r}: {rule.State.__module__}.{rule.State.__qualname__} is"
            f" the State of the rule {_BY_STATE[rule.State].name!r}; give the new rule"
            " a State class of its own"
        )
    RULES[rule.name] = rule
    return rule


#: What `state_class` has made, where pickle and Numba's cache find it by name.
STATES = SimpleNamespace()


def state_class(
    rule: str, fields: Iterable[tuple[str, Any]], kind: str = "State"
) -> Any:
    """Return a State class, or one of another `kind`, with these fields and types, for
    the rule of this name.
    """
    made: Any = NamedTuple(kind, fields)  # type: ignore[misc]
    name = re.sub(r"\W", "_", f"{rule}_{kind}")
    setattr(STATES, name, made)
    made.__module__ = __name__
    made.__qualname__ = f"STATES.{name}"
    return made


def working(rule: str, **fields: str) -> Callable[[Any], Any]:
    """Return the `workspace` of a rule: names by shape, as in `shapes`, for zeros in
    the network's precision; then `ws`.
    """
    Work = state_class(
        rule,
        [*((name, np.ndarray) for name in shapes(**fields)), ("ws", Scratch)],
        "Work",
    )

    def workspace(state: Any) -> Any:
        n, dtype = lengths(state)
        work = {"ws": scratch(n["d"], dtype)}
        for spec, names in fields.items():
            letters, _, kind = spec.partition(":")
            shape = [
                int(letter) if letter.isdigit() else n[letter] for letter in letters
            ]
            rows = np.zeros((len(names.split()), *shape), kind or dtype)
            work |= zip(names.split(), rows, strict=True)
        return Work(**work)

    return workspace


def lengths(state: Any) -> tuple[dict[str, int], np.dtype[Any]]:
    """Return what the letters of shapes stand for, k mixtures, d outputs and others,
    and the precision of the network.
    """
    arrays = to_arrays(state)
    specs = rule_of(state).shapes
    pairs = [
        pair
        for name in specs
        for pair in zip(specs[name], arrays[name].shape, strict=False)
    ]
    dtype = next(arrays[name].dtype for name in specs if ":" not in specs[name])
    return {letter: n for letter, n in pairs if letter.isalpha()}, dtype


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
    State = state_class(name, types)
    shapes = {**rule.shapes, **{each: shape for each, (shape, _) in new.items()}}
    first = {each: start for each, (_, start) in new.items()}
    return register(
        replace(rule, name=name, State=State, shapes=shapes, first=first, **functions)
    )


def rule_of(state: Any) -> Rule:
    """Return the rule that a state belongs to."""
    try:
        return _BY_STATE[type(state)]
    except KeyError:
        raise TypeError(
            f"no rule is registered for {type(state)}: declare it with"
            " register(Rule(...))"
        ) from None


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
    sizes = {
        n: m
        for name in specs.keys() & given
        for n, m in zip(specs[name], np.shape(given[name]), strict=False)
    }
    fields = {
        name: given[name]
        for name, hint in get_type_hints(rule.State).items()
        if hasattr(hint, "_fields")
    }
    for name in [name for name in rule.State._fields if name not in fields]:
        letters, _, kind = specs[name].partition(":")
        shape = (
            [sizes[letter] for letter in letters] if letters.isalpha() else int(letters)
        )
        fields[name] = np.zeros(shape, _DTYPES.get(kind, kind) or dtype)
        fields[name][...] = given.get(name, given.get(name.removesuffix("_mean"), 0))
    return _with_products(rule, rule.State(**fields))


def averaged(state: Any) -> Any:
    """Return the network that reads out with its averaged weights; shares memory with
    `state`.
    """
    names = [name for name in state._fields if f"{name}_mean" in state._fields]
    state = state._replace(
        **{
            W: getattr(state, f"{W}_mean").astype(getattr(state, W).dtype)
            for W in names
        }
    )
    return _with_products(rule_of(state), state)


def _with_products(rule: Rule, state: Any) -> Any:
    """The state with the products and inverses of its weights."""
    state = state._replace(
        **{
            name: getattr(state, a) @ getattr(state, b)
            for name, (a, b) in rule.products.items()
        }
    )
    return state._replace(
        **{name: inverse(getattr(state, M)) for name, M in rule.inverses.items()}
    )


# --- compilation
#
# How the parts of the loop are compiled, with Numba's public interface only.
#
# `hot` functions are inlined into the loop: without inlining, the arrays of a state
# travel through every call, and a sample of Algorithm 2 at d = 3 takes twice as long.
# `cold` functions run rarely and stay out of line. `generic` makes a function that
# finds its implementation by the type of its first argument: with
# `functools.singledispatch` in Python, at compile time in Numba. With the JIT off all
# of them are plain Python.
#
# Arithmetic keeps the precision of the arrays (`W.dtype.type(eta)`): a single float64
# literal promotes the whole expression to float64. The compiler may reorder sums and
# fuse products; NaN and infinity keep their meaning.

_ORDERED = {"nsz", "arcp", "contract", "afn"}
FASTMATH = {*_ORDERED, "reassoc"}

hot = functools.cache(register_jitable(forceinline=True, fastmath=FASTMATH))
cold = register_jitable(forceinline=False, fastmath=FASTMATH)
# For sums that are stored as they grow: vectorised code and its remainder would round
# differently.
ordered = register_jitable(forceinline=True, fastmath=_ORDERED)


def generic(stub):
    """Turn `stub`, an empty function with a docstring, into a generic function;
    implementations `register` a type (tuple: any).
    """

    @functools.singledispatch
    @functools.wraps(stub)
    def call(*args):
        raise TypeError(
            f"no {stub.__name__}() is registered for {type(args[0]).__name__}"
        )

    def resolve(*types):
        return call.dispatch(types[0].instance_class)

    # Numba compares the resolver's argument names with the implementation's.
    resolve.__signature__ = introspection.signature(stub)
    overload(
        call, jit_options={"forceinline": True, "fastmath": FASTMATH}, strict=False
    )(resolve)
    return call


# --- states as named arrays


def to_arrays(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Name every array of a state, in order; those of a part as 'part.name'."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            arrays.update(to_arrays(value, f"{prefix}{name}."))
    return arrays


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


# --- linear algebra
#
# Linear algebra that also answers for a collapsed network: weights that are zero,
# singular or huge.
#
# For all others these are `numpy.linalg.solve` and `numpy.linalg.pinv`, with the same
# bits. A singular system gets the solution of smallest norm: outputs that nothing
# determines are zero. A number beyond the range of the dtype becomes the largest.


def inverse(M: np.ndarray) -> np.ndarray:
    """M^-1 for a new state and symmetric M; zeros if M is singular, and then pivoting
    does the work.
    """
    with np.errstate(all="ignore"):
        try:
            H = np.linalg.inv(M.astype(np.float64))
        except np.linalg.LinAlgError:
            H = np.full(M.shape, np.nan)
        H = (0.5 * (H + H.T)).astype(M.dtype)
    return H if np.isfinite(H).all() else np.zeros_like(M)


def solve_lateral(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """M^-1 W, what a network with lateral weights M does to its input while every
    neuron fires.
    """
    with np.errstate(all="ignore"):
        try:
            V = np.linalg.solve(M, W)
        except np.linalg.LinAlgError:
            V = np.full(W.shape, np.nan)
        if np.isfinite(V).all():
            return np.asarray(V)
        return finite((pseudoinverse(M.astype(np.float64)) @ W).astype(W.dtype))


def pseudoinverse(A: np.ndarray) -> np.ndarray:
    """The pseudoinverse of A, scaled by a power of two so that no product overflows."""
    with np.errstate(all="ignore"):
        A = finite(A)
        size = 2.0 ** np.round(
            np.log2(max(float(np.abs(A).max()), np.finfo(A.dtype).tiny))
        )
        return finite((np.linalg.pinv(A / A.dtype.type(size)) / size).astype(A.dtype))


@one_blas_thread()
def orthonormal_rows(rng: np.random.RandomState, d: int, k: int) -> np.ndarray:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T)


def finite(A: np.ndarray) -> np.ndarray:
    """A with 0 for NaN, and the largest numbers of its dtype for what is infinite."""
    return A if np.isfinite(A).all() else np.nan_to_num(A)
