"""A plan: networks x settings x seeds x data, read from TOML, checked, and cut into cases.

A case is one run: an estimator with its parameters and its seed on one set of data. It is known by a digest of everything that its
result depends on, so a result is found again after the plan has changed.

A plan may name any class, module:Class, and importing a module runs its code: run only plans that you trust.
"""

import hashlib
import inspect
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib import import_module
from itertools import product
from math import prod
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from .. import __version__, datasets, estimators
from ..estimators._input import check_finite
from ..estimators.network import OnlineNICA, published

Array = NDArray[Any]
Params = tuple[tuple[str, Any], ...]

#: Cases of a plan: a case takes about 0.5 kB, and a row of the table 1 kB.
MOST_CASES = 1_000_000
#: Bytes of a plan's file, and dots in one of its keys: tomllib takes memory with the square of the dots.
LARGEST_FILE, MOST_DOTS = 2**20, 20


class PlanError(ValueError):
    """A plan that cannot be run as it stands; the message names the key, the value and the remedy.

    Examples
    --------
    >>> from bionica.sweep import Plan, PlanError
    >>> data = {"kind": "sparse_uniform", "d": 3, "T": 0, "mixing": "d3"}
    >>> try:
    ...     Plan.from_dict({"data": [data], "network": [{"name": "StreamingNICA"}]})
    ... except PlanError as error:
    ...     print(error)
    data[0].T = 0...
    """


def _check(holds: Any, where: str, value: Any, remedy: str) -> None:
    if not holds:
        raise PlanError(f"{where} = {value!r}: {remedy}")


def _table(given: Any, keys: Sequence[str], where: str) -> dict[str, Any]:
    """Return a table of the plan if it has no other keys than these."""
    _check(isinstance(given, Mapping), where, given, "give a table of keys and values")
    for key, value in given.items():
        _check(key in keys, f"{where}.{key}", value, f"there is no such key, but {', '.join(keys)}")
    return dict(given)


def _integer(value: Any, where: str, least: int = 1, most: int = 2**32 - 1) -> int:
    """Return `value` if it is an integer in this range; 1e5 is an integer."""
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    is_integer = isinstance(number, int) and not isinstance(number, bool)
    _check(is_integer and least <= number <= most, where, value, f"give a whole number from {least} to {most:,}")
    return int(number)


@contextmanager
def _errors_named(where: str) -> Iterator[None]:
    """Turn errors of what an entry describes into errors of the entry."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{where}: {error}") from error


# ------------------------------------------------------------------------------------------ estimators


def find_estimator(name: Any, where: str = "network") -> Any:
    """Return the class that a plan calls `name`: one of bionica's, or module:Class.

    Networks have `partial_fit_transform`: each output is compared as its sample arrives. Offline methods have
    `fit_transform(X, y)`: the outputs of the final solution are compared. `y` are the sources, for references that need them.
    """
    module, colon, path = str(name).partition(":")
    try:
        cls = attrgetter(path)(import_module(module)) if colon else getattr(estimators, module, None)
    except Exception as error:  # a module may raise anything while it is imported
        raise PlanError(f"{where} = {name!r}: {error}; install its module, or put it on PYTHONPATH") from error
    if not (hasattr(cls, "get_params") and (is_online(cls) or hasattr(cls, "fit_transform"))):
        ours = [each for each in estimators.__all__ if hasattr(getattr(estimators, each), "fit_transform")]
        needs = "module:Class with get_params, and partial_fit_transform or fit_transform"
        raise PlanError(f"{where} = {name!r} is not an estimator: choose from {', '.join(ours)}, or give {needs}")
    return cls


def is_online(cls: Any) -> bool:
    """Whether a class learns sample by sample."""
    return hasattr(cls, "partial_fit_transform")


def _defaults(cls: Any) -> dict[str, Any]:
    return {parameter.name: parameter.default for parameter in inspect.signature(cls).parameters.values()}


@cache
def source_digest(cls: Any) -> str:
    """Digest of the modules of a class from outside bionica: an edit makes new cases."""
    package = cls.__module__.partition(".")[0]
    if package == "bionica":
        return ""
    modules = {base.__module__ for base in cls.__mro__ if base.__module__.partition(".")[0] == package}
    try:
        text = "".join(inspect.getsource(sys.modules[module]) for module in sorted(modules))
    except (OSError, TypeError):  # a notebook: a result of another definition must not be taken for one of this
        text = uuid4().hex
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# ------------------------------------------------------------------------------------------ data

_MIXED = ("mixing", "n_mixtures", "snr_db")
_DRAWN = dict.fromkeys(
    ("sparse_uniform", "exponential", "half_normal", "gamma", "odor", "abundances"), ("d", "T", *_MIXED)
)
#: The keys of each kind of data beside the common ones.
_KEYS: dict[str, tuple[str, ...]] = {
    **_DRAWN,
    "copula_uniform": ("d", "T", "rho", "df", *_MIXED),
    "odors": ("d", "T", "rho", "n_mixtures", "snr_db"),
    "images": ("path", "names", *_MIXED),
    "file": ("mixtures", "sources"),
}


@dataclass(frozen=True)
class Data:
    """One entry of `[[data]]`; see docs/guides/sweep.md for the keys.

    d, k and T are the numbers of sources (0 if they are unknown), of mixtures, and of samples in one presentation. `digest` is that
    of the contents of its files: a case is known by them and not by where they are.
    """

    name: str
    kind: str
    d: int = 0
    k: int = 0
    T: int = 0
    mixing: str | tuple[tuple[float, ...], ...] = "random"
    snr_db: float | None = None
    rho: float = 0.0
    df: float = 4.0
    path: str | None = None
    names: tuple[str, ...] | None = None
    mixtures: str | None = None
    sources: str | None = None
    epochs: int = 1
    shuffle: bool = False
    seed: int | None = None
    digest: str = ""

    @classmethod
    def from_dict(cls, given: Any, where: str, folder: Path) -> "Data":
        """Check an entry of `[[data]]`, last by making two of its samples; paths are relative to `folder`."""
        kind: Any = given.get("kind") if isinstance(given, Mapping) else None
        _check(kind in [*_KEYS], f"{where}.kind", kind, f"choose from {', '.join(_KEYS)}")
        values = _table(given, ("name", "kind", "epochs", "shuffle", "seed", *_KEYS[kind]), where)
        values = {"shuffle": kind == "images", **{key: value for key, value in values.items() if value is not None}}
        for key in ("d", "T", "epochs", "n_mixtures", "seed"):
            if key in values:
                values[key] = _integer(values[key], f"{where}.{key}", 0 if key == "seed" else 1)
        needed = {"d", "T", "mixtures"} & {*_KEYS[kind]} | ({"rho"} if kind == "copula_uniform" else set())
        for key in needed:
            _check(key in values, f"{where}.{key}", None, f"{kind} needs it")
        _check(isinstance(values["shuffle"], bool), f"{where}.shuffle", values["shuffle"], "give true or false")
        _check(isinstance(values.get("name", ""), str), f"{where}.name", values.get("name"), "give a text")
        with _errors_named(where):
            if not isinstance(values.get("mixing", ""), str):
                values["mixing"] = tuple(tuple(map(float, row)) for row in values["mixing"])
            files: dict[str, Any] = {key: values[key] for key in ("path", "mixtures", "sources") if key in values}
            files = {key: str((folder / Path(file).expanduser()).resolve(strict=True)) for key, file in files.items()}
            values |= {**files, "digest": "".join(map(_digest, files.values()))}
            values["k"] = values.pop("n_mixtures", 0)
            if kind == "images":
                values["names"] = tuple(values["names"]) if "names" in values else None
                values["T"], values["d"] = datasets.natural_images(values.get("path"), names=values["names"]).shape
                values.setdefault("mixing", "images" if values["d"] == 3 else "random")
            name = f"{kind}-d{values['d']}" if "d" in _KEYS[kind] else Path(values.get("mixtures", "images")).stem
            data = cls(**{"name": name, **values})
            if kind == "file":
                S, X = data._arrays()
                return replace(data, d=S.shape[1], k=X.shape[1], T=len(X))
            return replace(data, k=replace(data, T=2, epochs=1, shuffle=False)._mixtures(0)[1].shape[1])

    @property
    def n_samples(self) -> int:
        """Number of samples of a run, in all presentations."""
        return self.T * self.epochs

    @cached_property
    def identity(self) -> str:
        """What results depend on, as text: neither the name nor where the files are."""
        left_out = ("name", "path", "mixtures", "sources")
        return json.dumps({key: value for key, value in vars(self).items() if key not in left_out})

    def seed_of(self, seed: int) -> int:
        """Return the seed of the data of a run: its own, if it has one."""
        return seed if self.seed is None else self.seed

    def load(self, seed: int, dtype: str) -> tuple[Array, Array]:
        """Return the sources (n, d) and mixtures (n, k) of a seed, in the order of presentation."""
        S, X = self._arrays() if self.kind == "file" else self._mixtures(self.seed_of(seed))
        if self.kind == "file" and (order := self.order(self.seed_of(seed))) is not None:
            S, X = S[order], X[order]
        X = np.asarray(X, dtype=dtype, order="C")
        check_finite(X, 0, f"the data {self.name!r}")
        return np.asarray(S, dtype=np.float64), X

    def order(self, seed: int) -> Array | None:
        """Return the order of presentation, or None for the order of the data."""
        if not self.shuffle:
            return None if self.epochs == 1 else np.tile(np.arange(self.T), self.epochs)
        # Drawn sources have used this seed already: the order gets random numbers of its own.
        rng = np.random.default_rng(seed if self.kind in ("images", "file") else [seed, 2])
        return np.concatenate([rng.permutation(self.T) for _ in range(self.epochs)])

    def _mixtures(self, seed: int) -> tuple[Array, Array]:
        """Draw the sources, or read the images, and mix them."""
        A: Array | None = None
        if self.kind == "odors":
            S, A = datasets.odors(self.T, self.d, self.k or max(21, self.d), rho=self.rho, rng=seed)
        elif self.kind == "images":
            S = datasets.natural_images(self.path, names=self.names)
        elif self.kind == "copula_uniform":
            S = datasets.copula_uniform(self.T, self.d, self.rho, df=self.df, rng=seed)
        else:
            S = datasets.random_sources(self.kind, self.T, self.d, rng=seed)  # type: ignore[arg-type]
        if isinstance(self.mixing, tuple):
            A = np.array(self.mixing)
        elif self.mixing != "random":
            A = datasets.paper_mixing(self.mixing)  # type: ignore[arg-type]
        if (order := self.order(seed)) is not None:
            S = S[order]
        # Random numbers of their own: the mixing does not depend on how many were drawn for the sources.
        rng = np.random.default_rng([seed, 1])
        return S, datasets.mix(S, A, n_mixtures=self.k or None, snr_db=self.snr_db, rng=rng)[0]

    def _arrays(self) -> tuple[Array, Array]:
        """Map the .npy files into memory; neither pickles nor archives are opened."""
        X, *known = (np.lib.format.open_memmap(path, mode="r") for path in (self.mixtures, self.sources) if path)
        S = known[0] if known else np.empty((len(X), 0))
        if X.ndim != 2 or S.ndim != 2 or X.size == 0 or len(S) != len(X) or S.shape[1] > X.shape[1]:
            rule = "both have a row for each sample, and there are at most as many sources as mixtures"
            raise ValueError(f"mixtures have shape {X.shape} and sources {S.shape}: {rule}")
        return S, X


def _digest(path: str) -> str:
    """Digest of a file, or of every file of a folder."""
    files = sorted(file for file in Path(path).iterdir() if file.is_file()) if Path(path).is_dir() else [Path(path)]
    total = hashlib.sha256()
    for file in files:
        with file.open("rb") as handle:
            total.update(hashlib.file_digest(handle, "sha256").digest())
    return total.hexdigest()[:16]


# ------------------------------------------------------------------------------------------ networks and cases

#: Parameters that a plan sets by keys of its own.
_SET_ELSEWHERE = ("random_state", "n_epochs", "shuffle")


@dataclass(frozen=True)
class Network:
    """One entry of `[[network]]`: an estimator, the paper's setting it starts from, fixed parameters and a grid of others.

    `name` is a class of bionica, or module:Class; `label` is its name in the table.
    """

    name: str
    label: str
    published: str | None = None
    params: Params = ()
    grid: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def cls(self) -> Any:
        """The estimator."""
        return find_estimator(self.name)

    @property
    def n_settings(self) -> int:
        """Number of settings of the grid."""
        return prod(len(values) for _, values in self.grid)

    def settings(self) -> Iterator[Params]:
        """Yield the parameters of every setting: the product of the grid."""
        names = [name for name, _ in self.grid]
        for values in product(*(values for _, values in self.grid)):
            yield tuple({**dict(self.params), **dict(zip(names, values, strict=True))}.items())

    @classmethod
    def from_dict(cls, given: Any, where: str) -> "Network":
        """Check an entry of `[[network]]`; each value by the constraints of the estimator."""
        given = _table(given, ("name", "label", "published", "params", "grid"), where)
        estimator = find_estimator(given.get("name"), f"{where}.name")
        setting, parts = given.get("published"), {"params": given.get("params", {}), "grid": given.get("grid", {})}
        if setting is not None:
            _check(hasattr(estimator, "_published"), f"{where}.published", setting, "it is for the paper's networks")
        with _errors_named(f"{where}.published"):
            base = {} if setting is None else published(estimator, setting)
        for part, table in parts.items():
            _check(isinstance(table, Mapping), f"{where}.{part}", table, "give a table of keys and values")
        for part, key, value in ((part, key, value) for part, values in parts.items() for key, value in values.items()):
            place, values = f"{where}.{part}.{key}", value if part == "grid" else [value]
            _check(key not in _SET_ELSEWHERE, place, value, "give seeds of the plan, epochs and shuffle of its data")
            _check(part == "params" or key not in parts["params"], place, value, "params has it too: give it once")
            _check(isinstance(values, list | tuple) and values, place, value, "give a list of the values to try")
            for each in map(_hashable, values):
                with _errors_named(f"{place} = {each!r}"):
                    model = estimator(**base).set_params(**{key: each})
                    if hasattr(model, "_validate_params"):
                        model._validate_params()
                    hash(each)
        params = tuple((key, _hashable(value)) for key, value in parts["params"].items())
        grid = tuple((key, tuple(map(_hashable, values))) for key, values in parts["grid"].items())
        return cls(given["name"], str(given.get("label", estimator.__name__)), setting, params, grid)


def _hashable(value: Any) -> Any:
    """Return lists as tuples, and "none" as None, which TOML cannot express."""
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return None if value == "none" else value


@dataclass(frozen=True)
class Case:
    """One run: a network with one of its settings and a seed on one set of data."""

    network: Network
    params: Params
    seed: int
    data: Data
    dtype: str
    times: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """Digest of everything that the result depends on, the version of bionica included, and not of its label."""
        network = [self.network.name, self.network.published, source_digest(self.network.cls), sorted(self.params)]
        text = json.dumps([*network, self.seed, self.dtype, self.times, self.data.identity, __version__])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def data_key(self) -> tuple[Data, int, str]:
        """What cases on the same arrays have in common."""
        return self.data, self.data.seed_of(self.seed), self.dtype

    @property
    def cost(self) -> int:
        """About how long the run takes: updates of weights."""
        return self.data.n_samples * self.data.k * (self.data.d or self.data.k)

    def parameters(self) -> dict[str, Any]:
        """Every parameter that is not the default of the class."""
        cls, setting = self.network.cls, self.network.published
        names, base = _defaults(cls), published(cls, setting) if setting else {}
        if not setting and self.data.d and "n_components" in names:
            base["n_components"] = self.data.d
        seed = {"random_state": self.seed} if "random_state" in names else {}
        return {**base, **dict(self.params), **seed}

    def values(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of parameters, None for one that the estimator does not have."""
        known = {**_defaults(self.network.cls), **self.parameters()}
        return {name: known.get(name) for name in names}

    def start(self) -> tuple[Any, Any]:
        """Return the estimator, and the transformer that all its mixtures go through first, or None."""
        model = self.network.cls(**self.parameters())
        if not isinstance(model, OnlineNICA):
            return model, None
        transformer, model = model._offline_preprocessing()
        return model, transformer


# ------------------------------------------------------------------------------------------ the plan


@dataclass(frozen=True)
class Plan:
    """Networks x settings x seeds x data.

    Attributes
    ----------
    data : tuple of Data
    networks : tuple of Network
    seeds : tuple of int
        Seeds of the initial weights, and of data without a seed of their own.
    times : int or tuple of int
        When the error is reported: at this many times, evenly spaced on a logarithmic axis, or after these numbers of samples.
        The last sample is always included. An offline method has one error, over all samples.
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
    seeds: tuple[int, ...]
    times: int | tuple[int, ...]
    dtype: str

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "Plan":
        """Read a plan from a TOML file; paths in it are relative to the file's folder."""
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise PlanError(f"{path} has more than {LARGEST_FILE:,} bytes: a plan is shorter, cut it")
        try:
            text = content.decode()
            if any(line.partition("=")[0].count(".") > MOST_DOTS for line in text.splitlines()):
                raise PlanError(f"{path} has a key with more than {MOST_DOTS} dots: a plan's keys have one or two")
            body = tomllib.loads(text)
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise PlanError(f"{path} is not TOML: {error}") from error
        return cls.from_dict(body, Path(path).parent)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any], folder: str | PathLike[str] = ".") -> "Plan":
        """Check what a TOML file would hold; paths in it are relative to `folder`."""
        body = _table(body, ("data", "network", "seeds", "times", "dtype"), "the plan")
        for key in ("data", "network"):
            entries = body.get(key)
            _check(isinstance(entries, list | tuple) and entries, key, entries, f"give at least one [[{key}]]")
        data = tuple(Data.from_dict(d, f"data[{i}]", Path(folder)) for i, d in enumerate(body["data"]))
        networks = tuple(Network.from_dict(n, f"network[{i}]") for i, n in enumerate(body["network"]))
        seeds = _integers(body.get("seeds", 1), "seeds", 0)
        seeds = tuple(range(seeds)) if isinstance(seeds, int) else seeds
        names: dict[str, list[Any]] = {
            "data.name": [d.name for d in data],
            "network.label": [n.label for n in networks],
            "seeds": [*seeds],
        }
        for key, values in names.items():  # the table could not distinguish them
            _check(len(set(values)) == len(values), key, values, "give values that differ")
        times, dtype = _integers(body.get("times", 1), "times", 1), body.get("dtype", "float64")
        _check(dtype in ("float64", "float32"), "dtype", dtype, "choose from float64, float32")
        plan = cls(data, networks, seeds, times, dtype)
        if plan.size > MOST_CASES:
            raise PlanError(f"the plan has {plan.size:,} cases, {MOST_CASES:,} at most: use fewer seeds or values")
        for case in {(c.network.label, c.data.name): c for c in plan.cases() if c.data.d}.values():
            count = case.parameters().get("n_components", case.data.d)
            remedy = f"data {case.data.name!r} has {case.data.d} sources, and each is compared with one output"
            _check(count == case.data.d, f"network {case.network.label!r}: n_components", count, remedy)
        return plan

    @property
    def size(self) -> int:
        """Number of cases, repeated ones included."""
        return len(self.data) * len(self.seeds) * sum(network.n_settings for network in self.networks)

    @property
    def swept(self) -> list[str]:
        """Parameters that the plan names: the columns of its table."""
        names = [name for n in self.networks for name in (*dict(n.params), *dict(n.grid))]
        return list(dict.fromkeys(names))

    def cases(self) -> list[Case]:
        """Return every run of every label once; runs on the same data are neighbours.

        Cases of two labels may have the same key: they are run once and have rows of their own in the table.
        """
        return list(self._cases)

    @cached_property
    def _cases(self) -> list[Case]:
        cases: dict[tuple[str, str, str], Case] = {}
        for data, seed, network in product(self.data, self.seeds, self.networks):
            times = error_times(self.times if is_online(network.cls) else 1, data.n_samples)
            for params in network.settings():
                case = Case(network, params, seed, data, self.dtype, times)
                cases.setdefault((network.label, data.name, case.key), case)
        return list(cases.values())


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those of the given ones that it reaches."""
    if isinstance(times, int):
        wanted = np.geomspace(1, n, times).round().astype(np.int64).tolist() if times > 1 else []
    else:
        wanted = [t for t in times if t <= n]
    return tuple(sorted({*wanted, n}))


def _integers(value: Any, where: str, least: int) -> int | tuple[int, ...]:
    """Check a number of seeds or times, or a list of them."""
    if not isinstance(value, list | tuple):
        return _integer(value, where, 1, MOST_CASES)
    _check(value, where, value, "give at least one number")
    return tuple(_integer(entry, f"{where}[{i}]", least) for i, entry in enumerate(value))
