"""What a learning rule is, and the registry of all rules.

A rule file defines `State` (a NamedTuple of arrays that ends with those of `bookkeeping`), `Params` (a NamedTuple of plain numbers
with at least `dynamics` and `guards`) and the functions

    workspace(state) -> work                 scratch arrays, a NamedTuple with at least `y` and `ws`, made for each call
    settle(state, work, params, X, t)        work.y <- the output for the mixture X[t]; changes `work` only
    learn(state, work, params, X, t, rates)  the synaptic updates for that mixture, and state.t[0] += 1; changes `state`
    repair(state, work, params)              the guards of every sample, after the updates; changes `state`
    inspect(state, work, params)             the guards of every 100 samples, after those; changes `state`
    unmixing(state) -> matrix                what the network does to a mixture while every output fires

and declares them, once, with ``RULE = register(Rule(...))``. Everything that runs, saves, sweeps or draws networks reads that
record: the loop, blocks of wide inputs, CUDA, model files, the command line and the tests. `workspace` and `unmixing` run in
Python, the others are compiled: they have no annotations, allocate nothing, and call functions that are `hot` or `cold` (see
`generic`).

Update last the matrices that `settle` reads first, so that they are still in cache.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .guards import n_repairs
from .settling.exact import inverse

#: Shapes of the arrays that every State ends with.
BOOKKEEPING = {"t": "1:int64", "fired": "d:bool", "rng": "2:int64", "repairs": f"{n_repairs}:int64"}


def shapes(**fields: str) -> dict[str, str]:
    """Shapes of fields by name, from names by shape: ``shapes(dk="W_xz W_xz_mean", d="c_bar")``."""
    return {name: dims for dims, names in fields.items() for name in names.split()}


def nothing(state, work, params):
    """A rule without guards."""


@dataclass(frozen=True, eq=False)
class Rule:
    """A learning rule.

    Attributes
    ----------
    name : str
        Its name in model files and in the names of cache files.
    State, Params : NamedTuple classes
    shapes : mapping of str to str
        The shape of every array of a State: "dk" is (d, k), "2:int64" two integers. The letters k (mixtures), d (outputs) and any
        other stand for lengths; without a dtype the array has the precision of the network. Arrays of a part are 'part.name'.
        Those of `bookkeeping` need not be listed.
    workspace, settle, learn, unmixing, repair, inspect : callables
        See the module.
    parts : mapping of str to NamedTuple class, optional
        The fields of State that are NamedTuples themselves.
    averages : mapping of str to str, optional
        Weights, and the fields that hold their averages.
    products : mapping of str to (str, str), optional
        Fields that are the product of two others.
    roots : mapping of str to str, optional
        Fields W with W'W equal to a symmetric matrix. Read from the average of that matrix.
    inverses : mapping of str to str, optional
        Fields that are the inverse of a symmetric matrix.
    learns_by_inverses : bool, optional
        Whether `learn` or `inspect` reads the inverses too. Otherwise only the exact solver does.
    symmetric : tuple of str, optional
        Other matrices that are symmetric.
    input_weights : str, optional
        The field of weights that learn from the mixtures themselves, for blocks of wide inputs. Only for rules that see the
        mixtures through inner products with these weights and with `input_mean` alone, and that change each row of the weights
        by a multiple of itself and multiples of x and x_bar. A rule whose update mixes rows (W'y in Oja's rule) must omit it:
        blocks would be wrong without a warning.
    input_mean : str, optional
        The field with the running mean of the mixtures.
    projection : str, optional
        The field of a matrix that does not learn and is all that the rule applies to the mixtures.
    inspects_input : bool, optional
        Whether `inspect` reads the weights from the mixtures.
    """

    name: str
    State: Any
    Params: Any
    shapes: Mapping[str, str]
    workspace: Callable[..., Any]
    settle: Callable[..., None]
    learn: Callable[..., None]
    unmixing: Callable[[Any], np.ndarray]
    repair: Callable[..., None] = nothing
    inspect: Callable[..., None] = nothing
    parts: Mapping[str, Any] = field(default_factory=dict)
    averages: Mapping[str, str] = field(default_factory=dict)
    products: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    inverses: Mapping[str, str] = field(default_factory=dict)
    learns_by_inverses: bool = False
    symmetric: tuple[str, ...] = ()
    input_weights: str = ""
    input_mean: str = "x_bar"
    projection: str = ""
    inspects_input: bool = False

    def averaged(self, state: Any) -> Any:
        """Return the network that reads out with its averaged weights; shares memory with `state`."""
        state = state._replace(**{name: getattr(state, mean) for name, mean in self.averages.items()})
        state = state._replace(
            **{name: getattr(state, a) @ getattr(state, b) for name, (a, b) in self.products.items()}
        )
        state = state._replace(**{W: root(getattr(state, M), getattr(state, W)) for W, M in self.roots.items()})
        return state._replace(**{name: inverse(getattr(state, M)) for name, M in self.inverses.items()})


def root(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """A matrix of the shape and dtype of W with W'W = M."""
    found = np.zeros_like(W)
    values, Q = np.linalg.eigh(M.astype(np.float64))
    found[: len(M)] = (Q * np.sqrt(np.maximum(values, 0))) @ Q.T
    return found


#: Every rule by its State.
_BY_STATE: dict[Any, Rule] = {}
#: Every rule by its name; a rule that is defined again replaces the first.
RULES: dict[str, Rule] = {}


def register(rule: Rule) -> Rule:
    """Make a rule known, and return it; ValueError if its record does not describe its State."""
    part_fields = {f"{part}.{name}" for part, cls in rule.parts.items() for name in cls._fields}
    fields = {*rule.State._fields, *part_fields} - {*rule.parts, *BOOKKEEPING}
    if fields != {*rule.shapes} - {*BOOKKEEPING}:
        different = sorted(fields ^ ({*rule.shapes} - {*BOOKKEEPING}))
        raise ValueError(f"rule {rule.name!r}: shapes and the fields of State differ in {different}")
    if not any("k" in spec.partition(":")[0] for spec in rule.shapes.values()):
        raise ValueError(
            f"rule {rule.name!r}: no shape has the letter k, the number of mixtures, which model files check"
        )
    if missing := {*BOOKKEEPING} - {*rule.State._fields}:
        raise ValueError(f"rule {rule.name!r}: State lacks {sorted(missing)}, which `bookkeeping` returns")
    named = [rule.input_weights, rule.input_mean] if rule.input_weights else []
    named += [rule.projection] if rule.projection else []
    named += [*rule.averages, *rule.averages.values(), *rule.products, *rule.roots, *rule.inverses, *rule.symmetric]
    if unknown := {*named} - fields:
        raise ValueError(f"rule {rule.name!r}: State has no field {sorted(unknown)}, which the record names")
    _BY_STATE[rule.State] = rule
    RULES[rule.name] = rule
    return rule


def rule_of(state: Any) -> Rule:
    """Return the rule that a state belongs to."""
    try:
        return _BY_STATE[type(state)]
    except KeyError:
        raise TypeError(f"no rule is registered for {type(state)}: declare it with register(Rule(...))") from None


def bookkeeping(d: int, rng: np.ndarray) -> dict[str, np.ndarray]:
    """Return what every State ends with: samples seen, which outputs have ever fired, random numbers, repairs."""
    return {
        "t": np.zeros(1, np.int64),
        "fired": np.zeros(d, np.bool_),
        "rng": rng.copy(),
        "repairs": np.zeros(n_repairs, np.int64),
    }
