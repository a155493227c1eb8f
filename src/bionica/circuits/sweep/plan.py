"""A plan: networks x settings x seeds x data, read from TOML, checked and expanded.

A case is one run: an estimator with its parameters and its seed on one set of data. It
is known by a digest of everything that its result depends on, so a result is found
again after the plan has changed.

A plan may name any class, module:Class, and importing a module runs its code: run only
plans that you trust.
"""

import hashlib
import inspect
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache, partial
from importlib import import_module
from itertools import product
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

import bionica
from bionica import datasets
from bionica.core.blocks import check_finite

Params = tuple[tuple[str, Any], ...]

_RANDOM = (
    "sparse_uniform",
    "exponential",
    "half_normal",
    "gamma",
    "odor",
    "abundances",
)
_MIXED = ("mixing", "n_mixtures", "snr_db")
_DRAWN = (*_MIXED, "held_out")
#: The keys that each kind of data needs, and those that it may have.
_KEYS: dict[str, Any] = {
    **dict.fromkeys(_RANDOM, (("d", "T"), _DRAWN)),
    "copula_uniform": (("d", "T", "rho"), ("df", *_DRAWN)),
    "odors": (("d", "T"), ("n_mixtures", "snr_db", "held_out")),
    "images": ((), ("path", "names", "size", *_MIXED)),
    "file": (("mixtures", "sources"), ()),
}


def _check(holds: Any, key: str, value: Any, remedy: str) -> None:
    if not holds:
        raise ValueError(f"{key} = {value!r}: {remedy}")


def _check_keys(table: Mapping[str, Any], needed: Any, optional: Any) -> None:
    remedy = f"unknown key: choose from {', '.join((*needed, *optional))}"
    for key, value in table.items():
        _check(key in needed or key in optional, key, value, remedy)
    for key in needed:
        _check(key in table, key, None, f"it is missing: give {', '.join(needed)}")


def _integer(value: Any, key: str, least: int = 1) -> int:
    """Return an integer of at least `least`; 1e5 is one."""
    is_integer = type(value) in (int, float) and value % 1 == 0 and value >= least
    _check(is_integer, key, value, f"give a whole number from {least} on")
    return int(value)


def _integers(value: Any, key: str, least: int) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_integer(number, key, least) for number in value)
    return _integer(value, key)


def _hashable(value: Any) -> Any:
    """Return lists and arrays as tuples, and "none", which TOML needs, as None."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return None if value == "none" else value


@contextmanager
def errors_named(where: str) -> Iterator[None]:
    """Say in an error which part of the plan is wrong."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{where}: {error}") from error


def _read(body: Mapping[str, Any], key: str, read: Callable[..., Any]) -> Any:
    """Read every table of [[key]]; an error names its number."""
    tables = body.get(key, ())
    are_tables = isinstance(tables, list | tuple)
    _check(are_tables, key, tables, f"give tables, each under [[{key}]]")
    entries = []
    for i, table in enumerate(tables):
        with errors_named(f"{key}[{i}]"):
            entries.append(read(**table))
    return tuple(entries)


def find_estimator(name: Any) -> Any:
    """Return the class that a plan calls `name`: one of bionica's, or module:Class."""
    module, colon, path = str(name).partition(":")
    try:
        if colon:
            cls = attrgetter(path)(import_module(module))
        else:
            cls = getattr(bionica, module, None)
    except Exception as error:  # a module may raise anything while it is imported
        raise ImportError(
            f"name = {name!r}: {error}; install its module, or put it on PYTHONPATH;"
            " workers cannot import from a notebook"
        ) from error
    learns = is_online(cls) or hasattr(cls, "fit_transform")
    if not (learns and hasattr(cls, "get_params")):
        public = bionica.__all__
        ours = [p for p in public if hasattr(getattr(bionica, p), "fit_transform")]
        raise ValueError(
            f"name = {name!r} is not an estimator: choose from {', '.join(ours)}, or"
            " give module:Class with get_params, and partial_fit_transform or"
            " fit_transform"
        )
    return cls


def is_online(cls: Any) -> bool:
    """Whether outputs are compared as each sample arrives; those of `fit_transform(X,
    sources)` are of the final solution.
    """
    return hasattr(cls, "partial_fit_transform")


@cache
def source_digest(cls: Any) -> str:
    """Digest of bionica's source, and of the files of a class from elsewhere and of its
    bases in the same package.

    An edit makes new cases: a result of other code is not taken for one of this.
    """
    package = cls.__module__.partition(".")[0]
    bases = (b for b in cls.__mro__ if b.__module__.partition(".")[0] == package)
    try:
        files = {Path(inspect.getfile(base)) for base in bases}
    except (OSError, TypeError):  # a notebook
        return uuid4().hex
    files.update(Path(bionica.__file__).parent.rglob("*.py"))
    return _digest((), *(file.read_bytes() for file in sorted(files)))


def _digest(described: Any, *contents: bytes) -> str:
    """Digest of what JSON describes, and of the contents of files."""
    digest = hashlib.sha256(json.dumps(described).encode())
    for content in contents:
        digest.update(content)
    return digest.hexdigest()[:16]


class CaseData(NamedTuple):
    """Sources (n, d) and mixtures (n, k) in the order of presentation, those that are
    held out, and the mixing matrix if known.
    """

    S: np.ndarray
    X: np.ndarray
    held_out_S: np.ndarray
    held_out_X: np.ndarray
    A: np.ndarray | None


def _make(
    kind: str,
    seed: int,
    *,
    T: int = 0,
    held_out: int = 0,
    d: int = 0,
    mixing: Any = None,
    n_mixtures: Any = None,
    snr_db: Any = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """Return sources (n, d), mixtures (n, k) and the mixing matrix, if known, of one
    presentation; the last `held_out` are held out.
    """
    if kind == "file":
        X, S = (np.load(options[key], mmap_mode="r") for key in ("mixtures", "sources"))
        if X.ndim != 2 or S.ndim != 2 or X.size == 0 or len(S) != len(X):
            raise ValueError(
                f"mixtures have shape {X.shape} and sources {S.shape}: both have a row"
                " for each sample"
            )
        return S, X, None
    A = None
    if kind == "images":
        S = datasets.natural_images(**options)
        mixing = mixing or ("images" if S.shape[1] == 3 else None)
    elif kind == "odors":
        S, A = datasets.odors(T + held_out, d, n_mixtures or max(21, d), rng=seed)
    elif kind == "copula_uniform":
        S = datasets.copula_uniform(T + held_out, d, rng=seed, **options)
    else:
        S = datasets.random_sources(kind, T + held_out, d, rng=seed)
    d = S.shape[1]
    # Random numbers of their own: the mixing does not depend on how many were drawn for
    # the sources.
    rng = np.random.default_rng([seed, 1])
    if isinstance(mixing, Mapping):
        A = datasets.random_mixing(n_mixtures or d, d, **mixing, rng=rng)
    elif mixing not in (None, "random"):
        is_named = isinstance(mixing, str)
        A = datasets.paper_mixing(mixing) if is_named else np.asarray(mixing)
    return S, *datasets.mix(S, A, n_mixtures=n_mixtures, snr_db=snr_db, rng=rng)


@dataclass(frozen=True)
class DataEntry:
    """One entry of `[[data]]`; see docs/guides/sweep.md for the keys.

    d sources and k mixtures, `n_samples` in all presentations; `held_out` samples are
    drawn in addition, and not learned from. `digest` is that of all that the data
    depend on, and `options` are the arguments of `_make`.
    """

    name: str
    kind: str
    options: dict[str, Any] = field(compare=False)
    epochs: int
    shuffle: bool
    seed: int | None
    digest: str
    d: int
    k: int
    n_samples: int

    @classmethod
    def read(
        cls,
        folder: Path,
        kind: Any = None,
        name: str = "",
        epochs: Any = 1,
        shuffle: Any = None,
        seed: Any = None,
        **options: Any,
    ) -> "DataEntry":
        """Check an entry by making its first two samples; paths are relative to
        `folder`.
        """
        _check(kind in list(_KEYS), "kind", kind, f"choose from {', '.join(_KEYS)}")
        _check_keys(options, *_KEYS[kind])
        shuffle = kind == "images" if shuffle is None else shuffle
        _check(shuffle in (True, False), "shuffle", shuffle, "give true or false")
        epochs = _integer(epochs, "epochs")
        seed = None if seed is None else _integer(seed, "seed", 0)
        options = {key: _hashable(value) for key, value in options.items()}
        for key in {"d", "T", "n_mixtures", "held_out"} & options.keys():
            options[key] = _integer(options[key], key)
        described = (kind, sorted(options.items()), epochs, shuffle, seed)
        for key in ("path", "mixtures", "sources"):
            if options.get(key):
                options[key] = folder.resolve() / Path(options[key]).expanduser()
        few = {"T": 2, "held_out": 0} if "T" in options else {}
        S, X, _ = _make(kind, 0, **options | few)
        digest = _digest(described, S.tobytes(), X.tobytes())
        d = S.shape[1]
        if not name:
            name = f"{kind}-d{d}" if few else Path(options.get("mixtures", kind)).stem
        sizes = (d, X.shape[1], epochs * options.get("T", len(X)))
        return cls(name, kind, options, epochs, shuffle, seed, digest, *sizes)

    @property
    def held_out(self) -> Any:
        """The number of samples that are drawn in addition, and not learned from."""
        return self.options.get("held_out", 0)

    def load(self, seed: int, dtype: str) -> CaseData:
        """Return the data of a seed."""
        S, X, A = _make(self.kind, seed, **self.options)
        X = np.asarray(X, dtype=dtype, order="C")
        check_finite(X, 0, f"the data {self.name!r}")
        T = len(X) - self.held_out
        S, held_out_S = np.split(np.asarray(S, dtype=np.float64), [T])
        X, held_out_X = np.split(X, [T])
        order = self.order(seed)
        return CaseData(S[order], X[order], held_out_S, held_out_X, A)

    def order(self, seed: int) -> np.ndarray:
        """Return the order of presentation."""
        T = self.n_samples // self.epochs
        if not self.shuffle:
            return np.tile(np.arange(T), self.epochs)
        # Sources that are drawn have used this seed already.
        own_seed = seed if self.kind in ("images", "file") else [seed, 2]
        rng = np.random.default_rng(own_seed)
        return np.concatenate([rng.permutation(T) for _ in range(self.epochs)])


#: Neighbouring cases share their data.
_load = lru_cache(maxsize=1)(DataEntry.load)


@dataclass(frozen=True)
class Network:
    """One entry of `[[network]]`: an estimator, the paper's setting it starts from, and
    the values of its parameters.

    `label` is its name in the table. A setting is the values of all parameters that the
    entry names.
    """

    name: str
    label: str
    published: str | None
    settings: tuple[Params, ...]

    @property
    def cls(self) -> Any:
        """The estimator."""
        return find_estimator(self.name)

    @classmethod
    def read(
        cls,
        name: Any = None,
        label: str = "",
        published: str | None = None,
        params: Any = (),
        grid: Any = (),
    ) -> "Network":
        """Read an entry; fixed parameters are a grid of one value each.

        `Plan.from_dict` checks the values.
        """
        choices = {key: [value] for key, value in dict(params).items()}
        for key, values in dict(grid).items():
            remedy = "it is in params and in grid: give it once"
            _check(key not in params, key, values, remedy)
            is_list = isinstance(values, list | tuple)
            _check(is_list and values, f"grid.{key}", values, "give a list of values")
            choices[key] = values
        for key, values in choices.items():
            settable = key not in ("random_state", "n_epochs", "shuffle")
            remedy = "give seeds, or epochs and shuffle of the data"
            _check(settable, key, values, remedy)
        axes = ([(key, _hashable(v)) for v in choices[key]] for key in choices)
        label = label or find_estimator(name).__name__
        return cls(name, label, published, tuple(product(*axes)))


@dataclass(frozen=True)
class Case:
    """One run: a network with one of its settings and a seed on one set of data."""

    network: Network
    params: Params
    seed: int
    data: DataEntry
    dtype: str
    times: tuple[int, ...]

    @cached_property
    def key(self) -> str:
        """Digest of everything that the result depends on, the source of bionica
        included, and not of its label.
        """
        network = self.network
        parts = (
            network.name,
            network.published,
            source_digest(network.cls),
            sorted(self.params),
            self.seed,
            self.dtype,
            self.times,
            self.data.digest,
        )
        return _digest(parts)

    def load(self) -> CaseData:
        """Return its data."""
        seed = self.seed if self.data.seed is None else self.data.seed
        return _load(self.data, seed, self.dtype)

    @property
    def cost(self) -> int:
        """About how long the run takes: updates of weights."""
        return self.data.n_samples * self.data.k * self.data.d

    def estimator(self) -> Any:
        """Return the estimator; its outputs are as many as the sources, unless the plan
        says otherwise.
        """
        make = cls = self.network.cls
        setting = self.network.published
        options = {"random_state": self.seed, "n_components": self.data.d}
        if setting is not None:
            remedy = f"{cls.__name__} is not in the paper, and has no published setting"
            _check(hasattr(cls, "as_published"), "published", setting, remedy)
            make = partial(cls.as_published, setting)
            del options["n_components"]
        names = options.keys() & inspect.signature(cls).parameters
        model = make(**{name: options[name] for name in names})
        return model.set_params(**dict(self.params))


@dataclass(frozen=True)
class Plan:
    """Networks x settings x seeds x data.

    Attributes
    ----------
    data : tuple of DataEntry
    networks : tuple of Network
    seeds : tuple of int
        Seeds of the initial weights, and of data without a seed of their own.
    times : int or tuple of int
        When the error is reported: at this many times, evenly spaced on a logarithmic
        axis, or after these numbers of samples. The last sample is always included. An
        offline method has one error, over all samples.
    dtype : {"float64", "float32"}
        Precision of mixtures and networks.

    Examples
    --------
    >>> from bionica.circuits.sweep import Plan
    >>> data = {"kind": "sparse_uniform", "d": 3, "T": 1000, "mixing": "d3"}
    >>> network = {"name": "TwoCompartmentNICA", "published": "d3"}
    >>> grid = {"eta0": [0.1, 0.01], "tau": [0.5, 0.8]}
    >>> body = {"seeds": 10, "data": [data], "network": [network | {"grid": grid}]}
    >>> len(Plan.from_dict(body).cases())
    40
    """

    data: tuple[DataEntry, ...]
    networks: tuple[Network, ...]
    seeds: tuple[int, ...]
    times: int | tuple[int, ...]
    dtype: str

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "Plan":
        """Read a plan from a TOML file; its paths are relative to the file's folder."""
        with errors_named(str(path)):
            body = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        return cls.from_dict(body, Path(path).parent)

    @classmethod
    def from_dict(
        cls, body: Mapping[str, Any], folder: str | PathLike[str] = "."
    ) -> "Plan":
        """Check what a TOML file would hold; paths in it are relative to `folder`."""
        _check_keys(body, (), ("data", "network", "seeds", "times", "dtype"))
        seeds = _integers(body.get("seeds", 1), "seeds", 0)
        times = _integers(body.get("times", 1), "times", 1)
        if isinstance(seeds, int):
            seeds = tuple(range(seeds))
        dtype = body.get("dtype", "float64")
        is_known = dtype in ("float64", "float32")
        _check(is_known, "dtype", dtype, "choose from float64, float32")
        data = _read(body, "data", partial(DataEntry.read, Path(folder)))
        networks = _read(body, "network", Network.read)
        names = {
            "data.name": [d.name for d in data],
            "network.label": [n.label for n in networks],
            "seeds": [*seeds],
        }
        for key, values in names.items():  # the table could not distinguish equal ones
            differ = values and len({*values}) == len(values)
            _check(differ, key, values, "give at least one, and values that differ")
        plan = cls(data, networks, seeds, times, dtype)
        for case in replace(plan, seeds=seeds[:1]).cases():
            with errors_named(f"network {case.network.label!r}, {dict(case.params)}"):
                hash(case)
                model = case.estimator()
                if hasattr(model, "_freeze"):  # others check parameters when fitted
                    model._freeze()
                d = case.data.d
                count = model.get_params(deep=False).get("n_components", d)
                sources = f"data {case.data.name!r} has {d} sources"
                remedy = f"{sources}, and each is compared with one output"
                _check(count == d, "n_components", count, remedy)
        return plan

    def cases(self) -> list[Case]:
        """Return every run of every label once, those on the same data in a row; runs
        of two labels may have the same key.
        """
        cases = {}
        for data, seed, network in product(self.data, self.seeds, self.networks):
            times = self.times if is_online(network.cls) else 1
            times = error_times(times, data.n_samples)
            for params in network.settings:
                case = Case(network, params, seed, data, self.dtype, times)
                cases[network.label, data.name, case.key] = case
        return list(cases.values())


def error_times(times: Any, n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those
    of the given ones that it reaches.
    """
    if isinstance(times, int):
        times = np.geomspace(n, 1, times).round().astype(int).tolist()
    return tuple(sorted({n, *(t for t in times if t <= n)}))
