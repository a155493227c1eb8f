"""The runs of a plan: an entry of `[[network]]` and the cases that it is cut into."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite, prod
from typing import Any

from .. import __version__
from .._compat.sklearn import validate_params
from ..estimators.network import SOURCES, OnlineNICA, published
from .data import Data, LoadedData
from .estimator_names import canonical_name, find_estimator, parameter_defaults
from .plan_checks import (
    MOST_CASES,
    PlanError,
    check_choice,
    check_integer,
    check_keys,
    check_mapping,
    check_name,
    shown,
)

Params = tuple[tuple[str, Any], ...]

#: Lists in lists in a value of a parameter.
DEEPEST = 10
#: Parameters that a plan sets by other keys.
_SET_ELSEWHERE = {
    "random_state": "seeds",
    "n_epochs": "epochs of data",
    "shuffle": "shuffle of [[data]]",
    "verbose": "--quiet",
}


@dataclass(frozen=True)
class Network:
    """One entry of `[[network]]`: an estimator, the paper's setting it starts from, fixed parameters and a grid of others.

    `name` is a class of bionica, or module:Class; `label` is its name in the table.

    Examples
    --------
    >>> from bionica.sweep import Network
    >>> network = Network.from_dict({"name": "StreamingNICA", "grid": {"horizon": [2000, 5000]}}, "network")
    >>> list(network.settings())
    [(('horizon', 2000),), (('horizon', 5000),)]
    """

    name: str
    label: str
    published: str | None = None
    params: Params = ()
    grid: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def n_settings(self) -> int:
        """Number of settings of the grid."""
        return prod(len(values) for _, values in self.grid)

    def settings(self) -> Iterator[Params]:
        """Yield the parameters of every setting: the product of the grid."""
        names = [name for name, _ in self.grid]
        for values in product(*(values for _, values in self.grid)):
            yield (*self.params, *zip(names, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `[[network]]`."""
        body: dict[str, Any] = {"name": self.name, "label": self.label}
        body |= {"params": _thawed(dict(self.params)), "grid": _thawed(dict(self.grid))}
        return body | ({"published": self.published} if self.published else {})

    @classmethod
    def from_dict(cls, given: Any, where: str) -> "Network":
        """Check an entry of `[[network]]`."""
        given = check_mapping(given, where)
        check_keys(given, ("name", "label", "published", "params", "grid"), where)
        estimator = find_estimator(given.get("name"), f"{where}.name")
        setting = given.get("published")
        if setting is not None:
            check_choice(setting, SOURCES, f"{where}.published")
            if not getattr(estimator, "_published", None):
                raise PlanError(f"{where}.published is for the paper's networks; omit it for {estimator.__name__!r}")
        label = check_name(given.get("label", estimator.__name__), f"{where}.label")
        base = published(estimator, setting) if setting else {}
        params = check_mapping(given.get("params", {}), f"{where}.params")
        fixed = tuple((key, _value(estimator, base, key, v, f"{where}.params")) for key, v in params.items())
        grid, n_settings = [], 1
        for key, values in check_mapping(given.get("grid", {}), f"{where}.grid").items():
            _check_key(estimator, key, values, f"{where}.grid")
            if not isinstance(values, list | tuple) or not values:
                raise PlanError(f"{where}.grid.{key} = {shown(values)}: give a list of the values to try")
            if key in params:
                raise PlanError(f"{where}.grid.{key} is in {where}.params too: leave one of them out")
            n_settings *= len(values)
            if n_settings > MOST_CASES:
                raise PlanError(
                    f"{where}.grid.{key} makes {n_settings:,} settings: {MOST_CASES:,} at most, make the grid coarser"
                )
            grid.append((key, tuple(_value(estimator, base, key, v, f"{where}.grid") for v in values)))
        return cls(canonical_name(estimator), label, setting, fixed, tuple(grid))


@dataclass(frozen=True)
class Case:
    """One run: an estimator with its parameters and seed on one set of data; `source` is the digest of a user's estimator.

    Examples
    --------
    >>> from bionica.sweep import Plan
    >>> data = {"kind": "sparse_uniform", "d": 3, "T": 1000, "mixing": "d3"}
    >>> plan = Plan.from_dict({"seeds": 2, "data": [data], "network": [{"name": "StreamingNICA"}]})
    >>> [case.parameters() for case in plan.cases()]
    [{'n_components': 3, 'random_state': 0}, {'n_components': 3, 'random_state': 1}]
    """

    network: str
    label: str
    published: str | None
    params: Params
    seed: int
    data: Data
    dtype: str
    times: tuple[int, ...]
    source: str = ""

    @cached_property
    def key(self) -> str:
        """Digest of everything that the result depends on, the version of bionica included."""
        body = [self.network, self.published, sorted(self.params, key=lambda item: item[0]), self.seed, self.dtype]
        text = json.dumps([*body, self.times, self.data.identity, __version__, self.source])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def data_key(self) -> tuple[str, int, str]:
        """What cases on the same arrays have in common."""
        return self.data.identity, self.data.seed_of(self.seed), self.dtype

    @property
    def cost(self) -> int:
        """About how long the run takes: updates of weights."""
        return self.data.n_samples * self.data.k * (self.data.d or self.data.k)

    @property
    def n_bytes(self) -> int:
        """About how many bytes of memory the run takes."""
        return self.data.n_bytes + 8 * len(self.times) * self.data.d**2

    def parameters(self) -> dict[str, Any]:
        """Every parameter that is not the default of the class."""
        estimator = find_estimator(self.network)
        names, base = parameter_defaults(estimator), published(estimator, self.published) if self.published else {}
        if not self.published and self.data.d and "n_components" in names:
            base["n_components"] = self.data.d
        seed = {"random_state": self.seed} if "random_state" in names else {}
        return {**base, **dict(self.params), **seed}

    def values(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of some parameters, None for a parameter that the estimator does not have."""
        known = {**parameter_defaults(find_estimator(self.network)), **self.parameters()}
        return {name: known.get(name) for name in names}

    def start(self, data: LoadedData) -> tuple[Any, Any]:
        """Return the estimator, and the mixtures that it sees: whitened offline first, if the estimator asks for that."""
        model = find_estimator(self.network)(**self.parameters())
        if not isinstance(model, OnlineNICA):
            return model, data.X
        transformer, model = model._offline_preprocessing()
        return model, data.preprocessed(transformer)


def _check_key(estimator: Any, key: str, value: Any, where: str) -> None:
    """Refuse a parameter that the estimator does not have, or that the plan sets elsewhere."""
    if key in _SET_ELSEWHERE:
        raise PlanError(f"{where}.{key} = {shown(value)}: the plan says this by {_SET_ELSEWHERE[key]}")
    names = [name for name in parameter_defaults(estimator) if name not in _SET_ELSEWHERE]
    check_keys({key: value}, names, f"{where} ({estimator.__name__})")


def _value(estimator: Any, base: dict[str, Any], key: str, value: Any, where: str) -> Any:
    """Check one value of one parameter, by the constraints of the estimator itself."""
    _check_key(estimator, key, value, where)
    where = f"{where}.{key}"
    frozen = _frozen(value, where)
    if key == "n_components":
        if isinstance(frozen, str) or frozen is None:
            raise PlanError(
                f"{where} = {shown(value)}: give a number, or leave it out for as many as there are sources"
            )
        frozen = check_integer(frozen, where, 1)
    try:
        model = estimator(**{**base, key: frozen})
        if hasattr(model, "_validate_params"):
            validate_params(model)
    except (ValueError, TypeError) as error:
        raise PlanError(f"{where} = {shown(value)}: {_shortened(error)}") from error
    return frozen


def _shortened(error: Exception) -> str:
    text = str(error)
    return text if len(text) <= 500 else f"{text[:500]} ..."


def _frozen(value: Any, where: str, depth: int = 0) -> Any:
    """Return a value that can be compared, hashed and written; "none" is None, which TOML cannot express."""
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return tuple(_frozen(entry, where, depth + 1) for entry in value)
    if value == "none" or value is None:
        return None
    small = isinstance(value, int) and -(2**63) <= value < 2**63
    if small or isinstance(value, str) or (isinstance(value, float) and isfinite(value)):
        return value
    raise PlanError(f"{where} = {shown(value)}: give a finite number, a word, true, false or a list of these")


def _thawed(value: Any) -> Any:
    """Return a frozen value as TOML expresses it."""
    if isinstance(value, dict):
        return {key: _thawed(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_thawed(entry) for entry in value]
    return "none" if value is None else value
