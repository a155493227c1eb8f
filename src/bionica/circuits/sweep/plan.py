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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
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


def _check(holds: Any, key: str, value: Any, remedy: str) -> None:
    if not holds:
        raise ValueError(f"{key} = {value!r}: {remedy}")


def _integer(value: Any, key: str, least: int = 1) -> int:
    """Return an integer of at least `least`; 1e5 is one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_integer = is_number and value % 1 == 0 and value >= least
    _check(is_integer, key, value, f"give a whole number from {least} on")
    return int(value)


def _integers(value: Any, key: str, least: int) -> int | tuple[int, ...]:
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
    except (
        AttributeError,
        ImportError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ValueError(f"{where}: {error}") from error


def _check_keys(
    table: Mapping[str, Any], needed: Sequence[str], optional: Sequence[str]
) -> None:
    keys = (*needed, *optional)
    remedy = f"unknown key: choose from {', '.join(keys)}"
    for key, value in table.items():
        _check(key in keys, key, value, remedy)
    for key in needed:
        _check(key in table, key, None, f"it is missing: give {', '.join(needed)}")


def _read(
    body: Mapping[str, Any], key: str, read: Callable[[Mapping[str, Any]], Any]
) -> list[Any]:
    """Read every table of [[key]]; an error names its number."""
    tables = body.get(key, ())
    entries = []
    are_tables = isinstance(tables, list | tuple) and all(
        isinstance(table, Mapping) for table in tables
    )
    _check(are_tables, key, tables, f"give tables, each under [[{key}]]")
    for i, table in enumerate(tables):
        with errors_named(f"{key}[{i}]"):
            for text in ("name", "label", "published"):
                value = table.get(text, "")
                _check(isinstance(value, str), text, value, "give a string")
            entries.append(read(table))
    return entries


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
        public = {each: getattr(bionica, each) for each in bionica.__all__}
        ours = [each for each in public if hasattr(public[each], "fit_transform")]
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
    files = set(Path(bionica.__file__).parent.rglob("*.py"))
    package = cls.__module__.partition(".")[0]
    if package != "bionica":
        bases = (b for b in cls.__mro__ if b.__module__.partition(".")[0] == package)
        try:
            files |= {Path(inspect.getfile(base)) for base in bases}
        except (OSError, TypeError):  # a notebook
            return uuid4().hex
    return _digest(sorted(files))


def _digest(files: Iterable[Path]) -> str:
    digests = [hashlib.sha256(file.read_bytes()).digest() for file in files]
    return hashlib.sha256(b"".join(digests)).hexdigest()[:16]


_RANDOM = "sparse_uniform", "exponential", "half_normal", "gamma", "odor", "abundances"
_MIXED = ("mixing", "n_mixtures", "snr_db")
_DRAWN = (*_MIXED, "held_out")
#: The keys that each kind needs, and those that it may have.
_KEYS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **dict.fromkeys(_RANDOM, (("d", "T"), _DRAWN)),
    "copula_uniform": (("d", "T", "rho"), ("df", *_DRAWN)),
    "odors": (("d", "T"), ("n_mixtures", "snr_db", "held_out")),
    "images": ((), ("path", "names", "size", *_MIXED)),
    "file": (("mixtures", "sources"), ()),
}
_PATHS = ("path", "mixtures", "sources")


class RandomMixing(NamedTuple):
    """`mixing = {condition = 30, rms = 1.0}`: the arguments of
    `datasets.random_mixing`.
    """

    condition: float
    rms: float = 1.0


class CaseData(NamedTuple):
    """Sources (n, d) and mixtures (n, k) in the order of presentation, those that are
    held out, and the mixing matrix if known.
    """

    S: np.ndarray
    X: np.ndarray
    held_out_S: np.ndarray
    held_out_X: np.ndarray
    A: np.ndarray | None

    @property
    def condition(self) -> float | None:
        """Condition number of the mixing matrix, None if that is not known."""
        return None if self.A is None else float(np.linalg.cond(self.A))


def _make(
    kind: Any, seed: int, **options: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return sources (n, d), mixtures (n, k) and the mixing matrix of one presentation;
    the last `held_out` are held out.
    """
    if kind == "file":
        S, X = (
            np.asarray(np.lib.format.open_memmap(options[name], mode="r"))
            for name in ("sources", "mixtures")
        )
        if X.ndim != 2 or S.ndim != 2 or X.size == 0 or len(S) != len(X):
            raise ValueError(
                f"mixtures have shape {X.shape} and sources {S.shape}: both have a row"
                " for each sample"
            )
        return S, X, None
    mixing, n_mixtures, snr_db = (options.pop(key, None) for key in _MIXED)
    T = options.pop("T", 0) + options.pop("held_out", 0)
    d = options.pop("d", 0)
    A = None
    if kind == "images":
        S = datasets.natural_images(**options)
        mixing = mixing or ("images" if S.shape[1] == 3 else None)
    elif kind == "odors":
        S, A = datasets.odors(T, d, n_mixtures or max(21, d), rng=seed, **options)
    elif kind == "copula_uniform":
        S = datasets.copula_uniform(T, d, rng=seed, **options)
    else:
        S = datasets.random_sources(kind, T, d, rng=seed, **options)
    # Random numbers of their own: the mixing does not depend on how many were drawn for
    # the sources.
    rng = np.random.default_rng([seed, 1])
    if isinstance(mixing, RandomMixing):
        shape = (n_mixtures or S.shape[1], S.shape[1])
        A = datasets.random_mixing(*shape, **mixing._asdict(), rng=rng)
    elif mixing not in (None, "random"):
        is_named = isinstance(mixing, str)
        A = datasets.paper_mixing(mixing) if is_named else np.asarray(mixing)
    return S, *datasets.mix(S, A, n_mixtures=n_mixtures, snr_db=snr_db, rng=rng)


@dataclass(frozen=True)
class DataEntry:
    """One entry of `[[data]]`; see docs/guides/sweep.md for the keys.

    d sources and k mixtures, `n_samples` in all presentations. `digest` is that of the
    contents of its files.
    """

    name: str
    kind: str
    options: Params
    d: int
    k: int
    n_samples: int
    digest: str
    epochs: int
    shuffle: bool
    seed: int | None

    @classmethod
    def read(cls, folder: Path, entry: Mapping[str, Any]) -> "DataEntry":
        """Check an entry by making its first two samples; paths are relative to
        `folder`.
        """
        keys = dict(entry)
        kind = keys.pop("kind", None)
        _check(kind in list(_KEYS), "kind", kind, f"choose from {', '.join(_KEYS)}")
        common = {"name": None, "epochs": 1, "shuffle": kind == "images", "seed": None}
        _check_keys(keys, _KEYS[kind][0], (*_KEYS[kind][1], *common))
        name, epochs, shuffle, seed = (
            keys.pop(key, default) for key, default in common.items()
        )
        _check(shuffle in (True, False), "shuffle", shuffle, "give true or false")
        epochs = _integer(epochs, "epochs")
        seed = seed if seed is None else _integer(seed, "seed", 0)
        options = {key: _hashable(value) for key, value in keys.items()}
        mixing = keys.get("mixing")
        if isinstance(mixing, Mapping):
            _check_keys(mixing, ("condition",), ("rms",))
            options["mixing"] = RandomMixing(**mixing)
        for key in {"d", "T", "n_mixtures", "held_out"} & options.keys():
            options[key] = _integer(options[key], key)
        files: list[Path] = []
        for key in _PATHS:
            if options.get(key):
                path = folder / Path(options[key]).expanduser()
                options[key] = str(path.resolve(strict=True))
                files += sorted(path.iterdir()) if path.is_dir() else [path]
        digest = _digest(filter(Path.is_file, files))
        if "T" in options:
            S, X, _ = _make(kind, 0, **options | {"T": 2, "held_out": 0})
            default = f"{kind}-d{S.shape[1]}"
        else:
            S, X, _ = _make(kind, 0, **options)
            default = Path(options.get("mixtures", kind)).stem
        return cls(
            name=name or default,
            kind=kind,
            options=tuple(options.items()),
            d=S.shape[1],
            k=X.shape[1],
            n_samples=epochs * options.get("T", len(X)),
            digest=digest,
            epochs=epochs,
            shuffle=shuffle,
            seed=seed,
        )

    @property
    def held_out(self) -> int:
        """The number of samples that are drawn in addition, and not learned from."""
        return int(dict(self.options).get("held_out", 0))

    def load(self, seed: int, dtype: str) -> CaseData:
        """Return the data of a seed."""
        S, X, A = _make(self.kind, seed, **dict(self.options))
        X = np.asarray(X, dtype=dtype, order="C")
        check_finite(X, 0, f"the data {self.name!r}")
        T = len(X) - self.held_out
        S, held_out_S = np.split(np.asarray(S, dtype=np.float64), [T])
        X, held_out_X = np.split(X, [T])
        order = self.order(seed)
        if order is not None:
            S, X = S[order], X[order]
        return CaseData(S, X, held_out_S, held_out_X, A)

    def order(self, seed: int) -> np.ndarray | None:
        """Return the order of presentation, or None for the order of the data."""
        T = self.n_samples // self.epochs
        if not self.shuffle:
            return None if self.epochs == 1 else np.tile(np.arange(T), self.epochs)
        # Sources that are drawn have used this seed already.
        own_seed = seed if self.kind in ("images", "file") else [seed, 2]
        rng = np.random.default_rng(own_seed)
        return np.concatenate([rng.permutation(T) for _ in range(self.epochs)])


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
    def read(cls, entry: Mapping[str, Any]) -> "Network":
        """Read an entry; fixed parameters are a grid of one value each.

        `Plan.from_dict` checks the values.
        """
        _check_keys(entry, ("name",), ("label", "published", "params", "grid"))
        params = entry.get("params", {})
        grid = entry.get("grid", {})
        for key, table in {"params": params, "grid": grid}.items():
            remedy = "give names of parameters and their values"
            _check(isinstance(table, Mapping), key, table, remedy)
        choices = {key: [value] for key, value in params.items()}
        for key, values in grid.items():
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
        name = entry["name"]
        label = entry.get("label") or find_estimator(name).__name__
        return cls(name, label, entry.get("published"), tuple(product(*axes)))


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
        data = self.data
        parts = [
            (network.name, network.published, source_digest(network.cls)),
            (sorted(self.params), self.seed, self.dtype, self.times),
            sorted(item for item in data.options if item[0] not in _PATHS),
            (data.kind, data.digest, data.epochs, data.shuffle, data.seed),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def data_key(self) -> tuple[DataEntry, int, str]:
        """What cases on the same arrays share: the data, their seed and precision."""
        seed = self.seed if self.data.seed is None else self.data.seed
        return self.data, seed, self.dtype

    @property
    def cost(self) -> int:
        """About how long the run takes: updates of weights."""
        return self.data.n_samples * self.data.k * self.data.d

    def estimator(self) -> Any:
        """Return the estimator; its outputs are as many as the sources, unless the plan
        says otherwise.
        """
        cls = self.network.cls
        setting = self.network.published
        names = inspect.signature(cls).parameters
        seed = {"random_state": self.seed} if "random_state" in names else {}
        if setting is not None:
            if not hasattr(cls, "as_published"):
                raise ValueError(
                    f"published = {setting!r}: {cls.__name__} is not in the paper, and"
                    " has no published setting"
                )
            model = cls.as_published(setting, **seed)
        elif "n_components" in names:
            model = cls(n_components=self.data.d, **seed)
        else:
            model = cls(**seed)
        return model.set_params(**dict(self.params))

    def start(self) -> tuple[Any, Any]:
        """Return the transformer that all mixtures go through first, or None, and the
        estimator.
        """
        model = self.estimator()
        if not getattr(model, "_takes_whitened", False):
            return None, model
        return bionica.NoncenteredWhitener(model.n_components), model


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
        plan = cls(tuple(data), tuple(networks), seeds, times, dtype)
        for case in replace(plan, seeds=seeds[:1]).cases():
            with errors_named(f"network {case.network.label!r}, {dict(case.params)}"):
                hash(case)
                model = case.estimator()
                if hasattr(model, "_freeze"):  # others check parameters when fitted
                    model._freeze()
                count = model.get_params(deep=False).get("n_components", case.data.d)
                remedy = (
                    f"data {case.data.name!r} has {case.data.d} sources, and each is"
                    " compared with one output"
                )
                _check(count == case.data.d, "n_components", count, remedy)
        return plan

    def cases(self) -> list[Case]:
        """Return every run of every label once, those on the same data in a row; runs
        of two labels may have the same key.
        """
        cases = []
        for data, seed, network in product(self.data, self.seeds, self.networks):
            times = self.times if is_online(network.cls) else 1
            times = error_times(times, data.n_samples)
            cases += [
                Case(network, params, seed, data, self.dtype, times)
                for params in network.settings
            ]
        keys = ((case.network.label, case.data.name, case.key) for case in cases)
        return list(dict(zip(keys, cases, strict=True)).values())


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those
    of the given ones that it reaches.
    """
    if isinstance(times, int):
        times = tuple(np.geomspace(n, 1, times).round().astype(int).tolist())
    return tuple(sorted({n, *(t for t in times if t <= n)}))
