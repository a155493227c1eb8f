"""A plan: networks x settings x seeds x data, read from TOML, checked, and expanded into cases.

A case is one run: an estimator with its parameters and its seed on one set of data. It is known by a digest of everything that its
result depends on, so a result is found again after the plan has changed.

A plan may name any class, module:Class, and importing a module runs its code: run only plans that you trust.
"""

import hashlib
import inspect
import json
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import import_module
from itertools import product
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
Pair = tuple[Array, Array]
Params = tuple[tuple[str, Any], ...]


def _check(holds: Any, where: str, value: Any, remedy: str) -> None:
    if not holds:
        raise ValueError(f"{where} = {value!r}: {remedy}")


def _check_keys(entry: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in entry:
        _check(key in keys, f"{where}.{key}", entry[key], f"unknown key: choose from {', '.join(keys)}")


def _integer(value: Any, where: str, least: int = 1) -> int:
    """Return an integer of at least `least`; 1e5 is one."""
    is_integer = isinstance(value, int | float) and not isinstance(value, bool) and value % 1 == 0
    _check(is_integer and value >= least, where, value, f"give a whole number from {least} on")
    return int(value)


def _integers(value: Any, where: str, least: int) -> int | tuple[int, ...]:
    if isinstance(value, list | tuple):
        return tuple(_integer(number, where, least) for number in value)
    return _integer(value, where)


def _hashable(value: Any) -> Any:
    """Return lists and arrays as tuples, and "none" as None, which TOML cannot express."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return None if value == "none" else value


@contextmanager
def _errors_named(where: str) -> Iterator[None]:
    """Turn errors of what an entry describes into errors of the entry."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from error


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
        raise ValueError(f"{where} = {name!r}: {error}; install its module, or put it on PYTHONPATH") from error
    if not (hasattr(cls, "get_params") and (is_online(cls) or hasattr(cls, "fit_transform"))):
        ours = [each for each in estimators.__all__ if hasattr(getattr(estimators, each), "fit_transform")]
        needs = "module:Class with get_params, and partial_fit_transform or fit_transform"
        raise ValueError(f"{where} = {name!r} is not an estimator: choose from {', '.join(ours)}, or give {needs}")
    return cls


def is_online(cls: Any) -> bool:
    """Whether a class learns sample by sample."""
    return hasattr(cls, "partial_fit_transform")


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

# A function for each kind. Its keyword arguments are the keys of the kind; it returns the sources (T, d) and the mixtures (T, k).


def _mix(
    S: Array, seed: int, A: Any = None, *, mixing: Any = "random", n_mixtures: Any = None, snr_db: Any = None
) -> Pair:
    if mixing != "random":
        A = datasets.paper_mixing(mixing) if isinstance(mixing, str) else mixing  # type: ignore[arg-type]
    # Random numbers of their own: the mixing does not depend on how many were drawn for the sources.
    return S, datasets.mix(S, A, n_mixtures=n_mixtures, snr_db=snr_db, rng=np.random.default_rng([seed, 1]))[0]


def _drawn(kind: Any, seed: int, *, d: int, T: int, **mixing: Any) -> Pair:
    return _mix(datasets.random_sources(kind, T, d, rng=seed), seed, **mixing)


def _copula_uniform(seed: int, *, d: int, T: int, rho: float, df: float = 4, **mixing: Any) -> Pair:
    return _mix(datasets.copula_uniform(T, d, rho, df=df, rng=seed), seed, **mixing)


def _odors(seed: int, *, d: int, T: int, rho: float = 0, n_mixtures: Any = None, snr_db: Any = None) -> Pair:
    S, A = datasets.odors(T, d, n_mixtures or max(21, d), rho=rho, rng=seed)
    return _mix(S, seed, A, snr_db=snr_db)


def _images(seed: int, *, path: Any = None, names: Any = None, mixing: Any = None, **noise: Any) -> Pair:
    S = datasets.natural_images(path, names=names)
    return _mix(S, seed, mixing=mixing or ("images" if S.shape[1] == 3 else "random"), **noise)


def _file(seed: int, *, mixtures: str, sources: str | None = None) -> Pair:
    """Map .npy files into memory; neither pickles nor archives are opened."""
    X = np.lib.format.open_memmap(mixtures, mode="r")
    S = np.lib.format.open_memmap(sources, mode="r") if sources else np.empty((len(X), 0))
    if X.ndim != 2 or S.ndim != 2 or X.size == 0 or len(S) != len(X) or S.shape[1] > X.shape[1]:
        rule = "both have a row for each sample, and there are at most as many sources as mixtures"
        raise ValueError(f"mixtures have shape {X.shape} and sources {S.shape}: {rule}")
    return S, X


_RANDOM = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor", "abundances")
_KINDS: dict[str, Callable[..., Pair]] = {
    **{kind: partial(_drawn, kind) for kind in _RANDOM},
    "copula_uniform": _copula_uniform, "odors": _odors, "images": _images, "file": _file,
}  # fmt: skip
_PATHS = ("path", "mixtures", "sources")
_COMMON = ("name", "epochs", "shuffle", "seed")


def _keys(kind: str) -> dict[str, bool]:
    """Return the keys of a kind, and whether it needs each."""
    own = inspect.signature(_KINDS[kind]).parameters.values()
    shared = inspect.signature(_mix).parameters.values() if any(key.kind is key.VAR_KEYWORD for key in own) else ()
    return {key.name: key.default is key.empty for key in (*own, *shared) if key.kind is key.KEYWORD_ONLY}


@dataclass(frozen=True)
class Data:
    """One entry of `[[data]]`; see docs/guides/sweep.md for the keys.

    `options` are the keys of its kind. d, k and T are the numbers of sources (0 if they are unknown), of mixtures, and of
    samples in one presentation. `digest` is that of the contents of its files.
    """

    name: str
    kind: str
    options: Params
    d: int
    k: int
    T: int
    digest: str
    epochs: int = 1
    shuffle: bool = False
    seed: int | None = None

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], where: str, folder: Path) -> "Data":
        """Check an entry of `[[data]]` by making its first two samples; paths are relative to `folder`."""
        options = {key: _hashable(value) for key, value in entry.items()}
        kind = options.pop("kind", None)
        _check(kind in list(_KINDS), f"{where}.kind", kind, f"choose from {', '.join(_KINDS)}")
        keys = _keys(kind)
        _check_keys(options, [*keys, *_COMMON], where)
        for key in (key for key, needed in keys.items() if needed):
            _check(key in options, f"{where}.{key}", None, f"data of kind {kind!r} need it")
        for key, type_ in {"name": str, "shuffle": bool}.items():
            _check(isinstance(options.get(key, type_()), type_), f"{where}.{key}", options.get(key), type_.__name__)
        for key, least in {"d": 1, "T": 1, "n_mixtures": 1, "epochs": 1, "seed": 0}.items():
            if key in options:
                options[key] = _integer(options[key], f"{where}.{key}", least)
        common = {key: options.pop(key) for key in _COMMON if key in options}
        with _errors_named(f"{where} = {dict(entry)}"):
            files = {key: folder / Path(options[key]).expanduser() for key in _PATHS if options.get(key)}
            options |= {key: str(file.resolve(strict=True)) for key, file in files.items()}
            digest = "".join(map(_digest, files.values()))
            S, X = _KINDS[kind](0, **options | ({"T": 2} if "T" in options else {}))
        d, k, T = S.shape[1], X.shape[1], options.get("T", len(X))
        name = f"{kind}-d{d}" if "T" in options else Path(options.get("mixtures", kind)).stem
        common = {"name": name, "shuffle": kind == "images", **common}
        return cls(kind=kind, options=tuple(options.items()), d=d, k=k, T=T, digest=digest, **common)

    @property
    def n_samples(self) -> int:
        """Number of samples of a run, in all presentations."""
        return self.T * self.epochs

    @cached_property
    def identity(self) -> str:
        """What results depend on, as text: neither the name nor where the files are."""
        options = sorted(item for item in self.options if item[0] not in _PATHS)
        return json.dumps([self.kind, options, self.digest, self.epochs, self.shuffle, self.seed])

    def seed_of(self, seed: int) -> int:
        """Return the seed of the data of a run: its own, if it has one."""
        return seed if self.seed is None else self.seed

    def load(self, seed: int, dtype: str) -> Pair:
        """Return the sources (n, d) and mixtures (n, k) of a seed, in the order of presentation."""
        S, X = _KINDS[self.kind](self.seed_of(seed), **dict(self.options))
        if (order := self.order(self.seed_of(seed))) is not None:
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


def _digest(path: Path) -> str:
    """Digest of a file, or of every file of a folder."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()[:16]


# ------------------------------------------------------------------------------------------ networks and cases


#: Parameters that a plan sets by keys of its own.
_SET_ELSEWHERE = ("random_state", "n_epochs", "shuffle")


@dataclass(frozen=True)
class Network:
    """One entry of `[[network]]`: an estimator, the paper's setting it starts from, and the values of its parameters.

    `name` is a class of bionica, or module:Class; `label` is its name in the table. A fixed parameter is a grid of one value.
    """

    name: str
    label: str
    published: str | None = None
    grid: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def cls(self) -> Any:
        """The estimator."""
        return find_estimator(self.name)

    def settings(self) -> list[Params]:
        """Return the parameters of every setting: the product of the grid."""
        return list(product(*([(name, value) for value in values] for name, values in self.grid)))

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], where: str) -> "Network":
        """Check an entry of `[[network]]`; each value by the constraints of the estimator."""
        _check_keys(entry, ("name", "label", "published", "params", "grid"), where)
        estimator, setting = find_estimator(entry.get("name"), f"{where}.name"), entry.get("published")
        fixed, grid = entry.get("params", {}), entry.get("grid", {})
        for key, table in {"params": fixed, "grid": grid}.items():
            _check(isinstance(table, Mapping), f"{where}.{key}", table, "give names of parameters and their values")
        if setting is not None:
            _check(hasattr(estimator, "_published"), f"{where}.published", setting, "it is for the paper's networks")
        with _errors_named(f"{where}.published"):
            base = {} if setting is None else published(estimator, setting)
        tried: dict[str, tuple[Any, ...]] = {}
        for key, values in [*((key, [value]) for key, value in fixed.items()), *grid.items()]:
            _check(key not in _SET_ELSEWHERE, f"{where}.{key}", values, "give seeds, or epochs and shuffle of the data")
            _check(key not in tried, f"{where}.grid.{key}", values, "params has it too: give it once")
            _check(isinstance(values, list | tuple) and values, f"{where}.grid.{key}", values, "give a list of values")
            tried[key] = tuple(map(_hashable, values))
            for value in tried[key]:
                with _errors_named(f"{where}.{key} = {value!r}"):
                    hash(value)  # workers and tables tell cases apart by their parameters
                    model = estimator(**base).set_params(**{key: value})
                    if hasattr(model, "_validate_params"):
                        model._validate_params()
        return cls(entry["name"], entry.get("label", estimator.__name__), setting, tuple(tried.items()))


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
        """Every parameter of the estimator that has a value."""
        cls, setting = self.network.cls, self.network.published
        names = inspect.signature(cls).parameters
        values = {
            name: parameter.default for name, parameter in names.items() if parameter.default is not parameter.empty
        }
        drawn = {"random_state": self.seed} | ({"n_components": self.data.d} if self.data.d else {})
        values |= {name: value for name, value in drawn.items() if name in names}
        return {**values, **(published(cls, setting) if setting else {}), **dict(self.params)}

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
        try:
            body = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"{path} is not TOML: {error}") from error
        return cls.from_dict(body, Path(path).parent)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any], folder: str | PathLike[str] = ".") -> "Plan":
        """Check what a TOML file would hold; paths in it are relative to `folder`."""
        _check_keys(body, ("data", "network", "seeds", "times", "dtype"), "the plan")
        seeds, times = _integers(body.get("seeds", 1), "seeds", 0), _integers(body.get("times", 1), "times", 1)
        seeds, dtype = tuple(range(seeds)) if isinstance(seeds, int) else seeds, body.get("dtype", "float64")
        _check(dtype in ("float64", "float32"), "dtype", dtype, "choose from float64, float32")
        for key in ("data", "network"):
            tables = body.get(key, ())
            _check(isinstance(tables, list | tuple) and all(isinstance(table, Mapping) for table in tables), key, tables,
                   f"give tables, each under [[{key}]]")  # fmt: skip
        data = tuple(Data.from_dict(d, f"data[{i}]", Path(folder)) for i, d in enumerate(body.get("data", ())))
        networks = tuple(Network.from_dict(n, f"network[{i}]") for i, n in enumerate(body.get("network", ())))
        names: dict[str, list[Any]] = {
            "data.name": [d.name for d in data],
            "network.label": [n.label for n in networks],
            "seeds": [*seeds],
        }
        for key, values in names.items():  # the table could not distinguish equal ones
            _check(values and len({*values}) == len(values), key, values, "give at least one, and values that differ")
        plan = cls(data, networks, seeds, times, dtype)
        for case in (case for case in plan.cases() if case.data.d):
            count = case.parameters().get("n_components", case.data.d)
            remedy = f"data {case.data.name!r} has {case.data.d} sources, and each is compared with one output"
            _check(count == case.data.d, f"network {case.network.label!r}: n_components", count, remedy)
        return plan

    @property
    def swept(self) -> list[str]:
        """Parameters that the plan names: the columns of its table."""
        return list(dict.fromkeys(name for network in self.networks for name, _ in network.grid))

    def cases(self) -> list[Case]:
        """Return every run of every label once; runs on the same data are neighbours.

        Cases of two labels may have the same key: they are run once and have rows of their own in the table.
        """
        cases = []
        for data, seed, network in product(self.data, self.seeds, self.networks):
            times = error_times(self.times if is_online(network.cls) else 1, data.n_samples)
            cases += [Case(network, params, seed, data, self.dtype, times) for params in network.settings()]
        return list({(case.network.label, case.data.name, case.key): case for case in cases}.values())


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those of the given ones that it reaches."""
    if isinstance(times, int):
        times = tuple(np.geomspace(n, 1, times).round().astype(int).tolist())
    return tuple(sorted({n, *(t for t in times if t <= n)}))
