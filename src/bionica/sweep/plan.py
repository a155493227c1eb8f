"""What to sweep over: networks x settings x seeds x data, said in a file, checked, and cut into cases."""

import hashlib
import inspect
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import isfinite, prod
from os import PathLike
from pathlib import Path
from typing import Any

from .. import __version__, estimators
from ..estimators._online import OnlineNICA
from ..estimators._published import SOURCES, published
from .checks import PlanError, known, one_of, table, whole
from .data import Data, Problem
from .errors import error_times

__all__ = ["NETWORKS", "Case", "Network", "Plan"]

Params = tuple[tuple[str, Any], ...]

#: The networks that a plan can name.
NETWORKS: dict[str, type[OnlineNICA]] = {
    cls.__name__: cls
    for cls in (
        estimators.InterneuronNICA,
        estimators.TwoCompartmentNICA,
        estimators.TwoLayerNSM,
        estimators.NonnegativePCA,
    )
}
#: Parameters that a plan says elsewhere.
_ELSEWHERE = {
    "random_state": "seeds",
    "n_epochs": "epochs of [[data]]",
    "shuffle": "shuffle of [[data]]",
    "verbose": "--quiet",
}
#: More cases than this are a mistake.
MOST = 10_000_000


@dataclass(frozen=True)
class Network:
    """One entry of `[[network]]`: a class, the paper's setting it starts from, fixed parameters and a grid of others."""

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
        """The parameters of every setting: the product of the grid."""
        names = [name for name, _ in self.grid]
        for values in product(*(values for _, values in self.grid)):
            yield (*self.params, *zip(names, values, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The entry of `[[network]]` that makes this."""
        body: dict[str, Any] = {"name": self.name, "label": self.label}
        if self.published:
            body["published"] = self.published
        body["params"] = {name: _thawed(value) for name, value in self.params}
        body["grid"] = {name: [_thawed(value) for value in values] for name, values in self.grid}
        return body

    @classmethod
    def from_dict(cls, given: Any, where: str) -> "Network":
        """Check an entry of `[[network]]`."""
        given = table(given, where)
        known(given, ("name", "label", "published", "params", "grid"), where)
        name = one_of(given.get("name"), NETWORKS, f"{where}.name")
        setting = given.get("published")
        if setting is not None:
            one_of(setting, SOURCES, f"{where}.published")
        label = given.get("label", name)
        if not isinstance(label, str) or not label:
            raise PlanError(f"{where}.label = {label!r}: give a word by which the table shall know it")
        base = published(NETWORKS[name], setting) if setting else {}
        params = table(given.get("params", {}), f"{where}.params")
        fixed = tuple((key, _value(name, base, key, v, f"{where}.params")) for key, v in params.items())
        grid = []
        for key, values in table(given.get("grid", {}), f"{where}.grid").items():
            if not isinstance(values, list | tuple) or not values:
                raise PlanError(f"{where}.grid.{key} = {values!r}: give a list of the values to try")
            if key in params:
                raise PlanError(f"{where}.grid.{key} is in {where}.params too: leave one of them out")
            grid.append((key, tuple(_value(name, base, key, v, f"{where}.grid") for v in values)))
        return cls(name, label, setting, fixed, tuple(grid))


@dataclass(frozen=True)
class Case:
    """One run: a network with its parameters and seed on one set of data."""

    network: str
    label: str
    published: str | None
    params: Params
    seed: int
    data: Data
    dtype: str
    times: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """Digest of everything that the result depends on, the version of bionica included."""
        body = [self.network, self.published, sorted(self.params, key=lambda item: item[0]), self.seed, self.dtype]
        text = json.dumps([*body, self.times, self.data.identity, __version__])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def parameters(self) -> dict[str, Any]:
        """Every parameter that is not the class's default."""
        base = published(NETWORKS[self.network], self.published) if self.published else {}
        if not self.published and self.data.d:
            base["n_components"] = self.data.d
        return {**base, **dict(self.params), "random_state": self.seed}

    def value(self, name: str) -> Any:
        """The value that a parameter has, None where the network knows no such parameter."""
        return self.parameters().get(name, _defaults(self.network).get(name))

    def start(self, problem: Problem) -> tuple[OnlineNICA, Any]:
        """Return the network, and the mixtures as it shall see them.

        Nonnegative PCA that whitens offline gets whitened mixtures, as in the paper: `partial_fit` alone could not do it.
        """
        cls, parameters = NETWORKS[self.network], self.parameters()
        if self.network == "NonnegativePCA" and self.value("whiten") == "offline":
            d = int(parameters.get("n_components") or self.data.k)
            return cls(**{**parameters, "whiten": False}), problem.whitened(d)
        return cls(**parameters), problem.X


@dataclass(frozen=True)
class Plan:
    """Networks x settings x seeds x data.

    Attributes
    ----------
    data : tuple of Data
    networks : tuple of Network
    seeds : tuple of int
        Of the initial weights, and of data that have no seed of their own.
    times : int or tuple of int
        At which numbers of samples the error is reported: so many, evenly spaced on a logarithmic axis, or these; the last
        always is.
    dtype : {"float64", "float32"}
        Precision of mixtures and networks.

    Examples
    --------
    >>> from bionica.sweep import Plan
    >>> plan = Plan.from_dict({
    ...     "seeds": 10,
    ...     "data": [{"kind": "sparse_uniform", "d": 3, "T": 1000, "mixing": "d3"}],
    ...     "network": [{"name": "TwoCompartmentNICA", "published": "d3", "grid": {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]}}],
    ... })
    >>> len(plan.cases())
    40
    """

    data: tuple[Data, ...]
    networks: tuple[Network, ...]
    seeds: tuple[int, ...] = (0,)
    times: int | tuple[int, ...] = 1
    dtype: str = "float64"

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "Plan":
        """Read a plan from a TOML file; paths in it are relative to the file's folder."""
        try:
            body = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise PlanError(f"{path} is not TOML: {error}") from error
        return cls.from_dict(body, Path(path).parent)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any], folder: str | PathLike[str] = ".") -> "Plan":
        """Check what a TOML file would hold; paths in it are relative to `folder`."""
        body = table(body, "the plan")
        known(body, ("data", "network", "seeds", "times", "dtype"), "the plan")
        data = tuple(Data.from_dict(d, f"data[{i}]", Path(folder)) for i, d in enumerate(_entries(body, "data")))
        networks = tuple(Network.from_dict(n, f"network[{i}]") for i, n in enumerate(_entries(body, "network")))
        _differ([d.name for d in data], "data", "name")
        _differ([n.label for n in networks], "network", "label")
        dtype = one_of(body.get("dtype", "float64"), ("float64", "float32"), "dtype")
        plan = cls(data, networks, _seeds(body.get("seeds", 1)), _times(body.get("times", 1)), dtype)
        plan._check()
        return plan

    def to_dict(self) -> dict[str, Any]:
        """Return what `from_dict` takes."""
        return {
            "seeds": list(self.seeds),
            "times": self.times if isinstance(self.times, int) else list(self.times),
            "dtype": self.dtype,
            "data": [d.to_dict() for d in self.data],
            "network": [n.to_dict() for n in self.networks],
        }

    @property
    def digest(self) -> str:
        """What tells this plan from another: a digest of its cases, wherever its files are."""
        return hashlib.sha256(" ".join(case.key for case in self.cases()).encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """Number of cases, those that come twice counted twice."""
        return len(self.data) * len(self.seeds) * sum(network.n_settings for network in self.networks)

    def cases(self) -> list[Case]:
        """Every run, those on the same data one after the other; what comes twice is there once."""
        return list(self._cases)

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        found: dict[str, Case] = {}
        for data in self.data:
            times = error_times(self.times, data.n_samples)
            for seed in self.seeds:
                for network in self.networks:
                    for params in network.settings():
                        case = Case(
                            network.name, network.label, network.published, params, seed, data, self.dtype, times
                        )
                        found.setdefault(case.key, case)
        return tuple(found.values())

    @property
    def swept(self) -> list[str]:
        """Parameters that the plan names: the columns of its table."""
        names = [name for n in self.networks for name in (*dict(n.params), *dict(n.grid))]
        return list(dict.fromkeys(names))

    def _check(self) -> None:
        """Refuse what no case could run."""
        if self.size > MOST:
            raise PlanError(
                f"the plan has {self.size:,} cases: {MOST:,} at most; make a grid coarser, or cut the plan in parts"
            )
        for i, network in enumerate(self.networks):
            fixed = dict(network.params).get("n_components", SOURCES.get(network.published or ""))
            counts = dict(network.grid).get("n_components", () if fixed is None else (fixed,))
            for j, data in enumerate(self.data):
                for count in counts:
                    if data.d and count != data.d:
                        raise PlanError(
                            f"network[{i}] ({network.label}) has n_components = {count!r} and data[{j}] ({data.name}) {data.d} "
                            f"sources: the error compares one output with each source, so use n_components = {data.d}"
                        )
                    if count > data.k:
                        raise PlanError(
                            f"network[{i}] ({network.label}) has n_components = {count} and data[{j}] ({data.name}) {data.k} "
                            f"mixtures: use n_components <= {data.k}"
                        )


def _entries(body: Mapping[str, Any], key: str) -> list[Any]:
    entries = body.get(key)
    if not isinstance(entries, list | tuple) or not entries:
        raise PlanError(f"{key} = {entries!r}: the plan needs at least one [[{key}]]")
    return list(entries)


def _differ(names: Sequence[str], entries: str, key: str) -> None:
    """Refuse two entries of one name: the table could not tell them apart."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise PlanError(
                f"{entries}[{i}].{key} = {name!r} is {entries}[{names.index(name)}]'s too: give them {key}s that differ"
            )


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return tuple(range(whole(value, "seeds", 1)))
    seeds = tuple(whole(seed, f"seeds[{i}]", 0) for i, seed in enumerate(value))
    if not seeds or len(set(seeds)) < len(seeds) or max(seeds) >= 2**32:
        raise PlanError(f"seeds = {list(value)!r}: give a number of seeds, or a list of seeds below 2^32 that differ")
    return seeds


def _times(value: Any) -> int | tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return whole(value, "times", 1)
    return tuple(whole(time, f"times[{i}]", 1) for i, time in enumerate(value))


def _value(network: str, base: dict[str, Any], key: str, value: Any, where: str) -> Any:
    """Check one value of one parameter, by the rules that the network itself has."""
    cls, where = NETWORKS[network], f"{where}.{key}"
    if key in _ELSEWHERE:
        raise PlanError(f"{where} = {value!r}: the plan says this by {_ELSEWHERE[key]}")
    names = [name for name in cls._get_param_names() if name not in _ELSEWHERE]
    known({key: value}, names, where.rpartition(".")[0] + f" ({network})")
    frozen = _frozen(value, where)
    if key == "n_components" and (isinstance(frozen, str) or frozen is None):
        raise PlanError(f"{where} = {value!r}: give a number, or leave it out for as many as there are sources")
    try:
        cls(**{**base, key: frozen})._check_params()
    except ValueError as error:
        raise PlanError(f"{where} = {value!r}: {error}") from error
    return frozen


def _frozen(value: Any, where: str) -> Any:
    """Return a value that can be compared, hashed and written; "none" is None, which TOML cannot say."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(entry, where) for entry in value)
    if value == "none" or value is None:
        return None
    if isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return value
    raise PlanError(f"{where} = {value!r}: give a finite number, a word, true, false or a list of these")


def _thawed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_thawed(entry) for entry in value]
    return "none" if value is None else value


@cache
def _defaults(network: str) -> dict[str, Any]:
    parameters = inspect.signature(NETWORKS[network]).parameters.values()
    return {p.name: p.default for p in parameters}
