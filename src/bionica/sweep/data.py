"""The data of a plan: the entries of `[[data]]`, and the sources and mixtures that they describe."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import datasets
from ..estimators._input import check_finite
from .data_files import digest_of, load_matrix, path_of
from .memory import MOST_BYTES, in_words
from .plan_checks import (
    PlanError,
    check_choice,
    check_integer,
    check_keys,
    check_mapping,
    check_name,
    check_number,
    shown,
)

Array = NDArray[Any]

_DRAWN = ("sparse_uniform", "exponential", "half_normal", "gamma", "odor")
_COMMON = ("name", "kind", "epochs", "shuffle", "seed")
_MIXED = ("mixing", "n_mixtures", "snr_db")
#: The keys of each kind of data beside the common ones.
KEYS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_DRAWN, ("d", "T", *_MIXED)),
    "copula_uniform": ("d", "T", "rho", "df", *_MIXED),
    "odors": ("d", "T", "n_mixtures", "snr_db"),
    "images": ("path", "names", *_MIXED),
    "file": ("mixtures", "sources"),
}
_PAPER = ("d3", "d10", "images")


class LoadedData:
    """Sources (n, d) and mixtures (n, k) in the order of presentation. Cases share them: they must not be written to."""

    def __init__(self, S: Array, X: Array, name: str):
        check_finite(X, 0, f"the data {name!r}")
        self.S = np.require(S, np.float64, ["C", "W"])  # writable, as compiled code expects: a mapped file is copied
        self.X = np.ascontiguousarray(X)
        self._preprocessed: dict[str, Array] = {}

    def preprocessed(self, transformer: Any) -> Array:
        """The mixtures after a transformer that is fitted to all of them, computed once for equal parameters."""
        if transformer is None:
            return self.X
        key = repr(transformer)
        if key not in self._preprocessed:
            self._preprocessed[key] = np.ascontiguousarray(transformer.fit_transform(self.X))
        return self._preprocessed[key]


@dataclass(frozen=True)
class Data:
    """One entry of `[[data]]`; see docs/guides/sweep.md for the keys.

    d, k and T are the numbers of sources (0 if they are unknown), of mixtures, and of samples in one presentation. `digest` is
    that of the contents of its files, so that a case is known by them and not by their place.
    """

    name: str
    kind: str
    d: int
    k: int
    T: int
    mixing: str | tuple[tuple[float, ...], ...] = "random"
    snr_db: float | None = None
    rho: float | None = None
    df: float = 4.0
    path: str | None = None
    names: tuple[str, ...] | None = None
    mixtures: str | None = None
    sources: str | None = None
    epochs: int = 1
    shuffle: bool = False
    seed: int | None = None
    digest: str = ""

    @property
    def n_samples(self) -> int:
        """Number of samples of a run, in all presentations."""
        return self.T * self.epochs

    @property
    def n_bytes(self) -> int:
        """About how many bytes of memory a run takes: sources, mixtures, outputs, and weights.

        Sources and mixtures are there twice while they are made. A file that is read in its order stays on disk.
        """
        on_disk = self.kind == "file" and self.epochs == 1 and not self.shuffle
        columns = max(1, self.d) if on_disk else 3 * self.d + 2 * self.k
        return 8 * (self.n_samples * columns + 2 * self.d * (self.d + self.k))

    @cached_property
    def identity(self) -> str:
        """What results depend on, as text. The name and the place of the files are left out."""
        irrelevant = ("name", "path", "mixtures", "sources")
        return json.dumps({key: value for key, value in asdict(self).items() if key not in irrelevant})

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of `[[data]]`."""
        values = {**asdict(self), "n_mixtures": self.k}
        return {key: values[key] for key in (*_COMMON, *KEYS[self.kind]) if values[key] is not None}

    @classmethod
    def from_dict(cls, given: Any, where: str, folder: Path) -> "Data":
        """Check an entry of `[[data]]`; paths are relative to `folder`."""
        given = check_mapping(given, where)
        kind = check_choice(given.get("kind"), KEYS, f"{where}.kind")
        check_keys(given, (*_COMMON, *KEYS[kind]), f"{where} (kind {kind})")
        make = {"file": _files, "images": _images}.get(kind, _drawn)
        made = make(given, where, folder)
        epochs = check_integer(given.get("epochs", 1), f"{where}.epochs", 1)
        shuffle = given.get("shuffle", kind == "images")
        if not isinstance(shuffle, bool):
            raise PlanError(f"{where}.shuffle = {shown(shuffle)}: give true or false")
        seed = None if given.get("seed") is None else check_integer(given["seed"], f"{where}.seed", 0, 2**32 - 1)
        name = check_name(given.get("name", made.name), f"{where}.name")
        return _of_possible_size(replace(made, name=name, epochs=epochs, shuffle=shuffle, seed=seed), where)

    def seed_of(self, seed: int) -> int:
        """Return the seed of the data of a run: its own, if it has one."""
        return seed if self.seed is None else self.seed

    def load(self, seed: int, dtype: str) -> LoadedData:
        """Make the sources and mixtures of a seed. A file of the right precision stays on disk, memory-mapped."""
        seed = self.seed_of(seed)
        order = self.order(seed)
        if self.kind == "file":
            X = load_matrix(self.mixtures)
            S = np.empty((len(X), 0)) if self.sources is None else load_matrix(self.sources)
            if order is not None:
                S, X = S[order], X[order]
        else:
            S, A = self._sources(seed)
            S = S if order is None else S[order]
            # Random numbers of their own: the mixing does not depend on how many were drawn for the sources.
            rng = np.random.default_rng([seed, 1])
            X = datasets.mix(S, A, n_mixtures=self.k, snr_db=self.snr_db, rng=rng)[0]
        return LoadedData(S, np.asarray(X, dtype=dtype, order="C"), self.name)

    def _sources(self, seed: int) -> tuple[Array, Array | None]:
        if self.kind == "odors":
            return datasets.odors(self.T, self.d, self.k, rng=seed)
        if self.kind == "images":
            S: Array = datasets.natural_images(self.path, names=self.names)
        elif self.kind == "copula_uniform":
            assert self.rho is not None
            S = datasets.copula_uniform(self.T, self.d, self.rho, df=self.df, rng=seed)
        else:
            S = datasets.random_sources(self.kind, self.T, self.d, rng=seed)  # type: ignore[arg-type]
        return S, _matrix(self.mixing)

    def order(self, seed: int) -> Array | None:
        """Return the order of presentation, or None for the order of the data."""
        if not self.shuffle:
            return None if self.epochs == 1 else np.tile(np.arange(self.T), self.epochs)
        # Drawn sources have used this seed already: the order gets random numbers of its own.
        rng = np.random.default_rng(seed if self.kind in ("images", "file") else [seed, 2])
        return np.concatenate([rng.permutation(self.T) for _ in range(self.epochs)])


def _matrix(mixing: str | tuple[tuple[float, ...], ...]) -> Array | None:
    if isinstance(mixing, tuple):
        return np.array(mixing)
    return None if mixing == "random" else datasets.paper_mixing(mixing)  # type: ignore[arg-type]


def _drawn(given: Mapping[str, Any], where: str, folder: Path) -> Data:
    kind = given["kind"]
    for key in ("d", "T", *(("rho",) if kind == "copula_uniform" else ())):
        if key not in given:
            raise PlanError(f"{where}.{key} is missing: {kind} needs the key {key}")
    d, T = check_integer(given["d"], f"{where}.d", 1), check_integer(given["T"], f"{where}.T", 1)
    made = _mixed(given, where, Data(f"{kind}-d{d}", kind, d, d, T), "random")
    if kind == "odors":
        made = replace(made, k=check_integer(given.get("n_mixtures", max(21, d)), f"{where}.n_mixtures", d))
    made = _of_possible_size(made, where)
    if kind == "copula_uniform":
        rho, df = check_number(given["rho"], f"{where}.rho"), check_number(given.get("df", 4.0), f"{where}.df")
        with _named(where):
            datasets.copula_uniform(1, d, rho, df=df, rng=0)
        made = replace(made, rho=rho, df=df)
    return made


def _of_possible_size(data: Data, where: str) -> Data:
    if data.n_bytes > MOST_BYTES:
        sizes = f"T = {shown(data.T)}, epochs = {shown(data.epochs)}, d = {shown(data.d)} and {shown(data.k)} mixtures"
        need = f"a run takes {in_words(data.n_bytes)} of memory, and {in_words(MOST_BYTES)} are the most"
        raise PlanError(f"{where} has {sizes}: {need}; use fewer samples, epochs, sources or mixtures")
    return data


def _images(given: Mapping[str, Any], where: str, folder: Path) -> Data:
    names = given.get("names")
    if names is not None and not (isinstance(names, list | tuple) and all(isinstance(n, str) for n in names)):
        raise PlanError(f"{where}.names = {shown(names)}: give a list of names")
    names = None if names is None else tuple(names)
    path = None if given.get("path") is None else path_of(given, "path", where, folder)
    with _named(where):
        T, d = datasets.natural_images(path, names=names).shape
    digest = "" if path is None else digest_of(path)
    made = Data("images", "images", d, d, T, path=path, names=names, digest=digest)
    return _mixed(given, where, made, "images" if d == 3 else "random")


def _mixed(given: Mapping[str, Any], where: str, made: Data, default: str) -> Data:
    """Add how the sources are mixed."""
    mixing = given.get("mixing", default)
    if isinstance(mixing, str):
        check_choice(mixing, (*_PAPER, "random"), f"{where}.mixing")
    else:
        try:
            rows = tuple(tuple(map(float, row)) for row in mixing)
            valid = bool(rows and rows[0]) and bool(np.isfinite(np.array(rows)).all())
        except (TypeError, ValueError, OverflowError):
            valid = False
        if not valid:
            choices = f"give a matrix of numbers, or one of {', '.join(_PAPER)}, random"
            raise PlanError(f"{where}.mixing = {shown(mixing)}: {choices}")
        mixing = rows
    A = _matrix(mixing)
    if A is not None and A.shape[1] != made.d:
        raise PlanError(f"{where}.mixing = {shown(mixing)} mixes {A.shape[1]} sources and there are d = {made.d}")
    k = made.d if A is None else len(A)
    if "n_mixtures" in given and A is None:
        k = check_integer(given["n_mixtures"], f"{where}.n_mixtures", made.d)
    elif given.get("n_mixtures", k) != k:
        raise PlanError(
            f"{where}.n_mixtures = {shown(given['n_mixtures'])} and mixing has {k} rows: leave n_mixtures out"
        )
    snr_db = None if given.get("snr_db") is None else check_number(given["snr_db"], f"{where}.snr_db", 1000)
    return replace(made, mixing=mixing, k=k, snr_db=snr_db)


def _files(given: Mapping[str, Any], where: str, folder: Path) -> Data:
    if "mixtures" not in given:
        raise PlanError(f"{where}.mixtures is missing: name the .npy file of the mixtures, (n_samples, n_mixtures)")
    paths: dict[str, Any] = {key: path_of(given, key, where, folder) for key in KEYS["file"] if key in given}
    with _named(where):
        X, *known = (load_matrix(path) for path in paths.values())
    d = known[0].shape[1] if known else 0
    if d > X.shape[1] or any(len(S) != len(X) for S in known):
        rule = "rows are samples and must be as many, and sources can be as many as mixtures at most"
        raise PlanError(f"{where}.sources has shape {known[0].shape} and mixtures {X.shape}: {rule}")
    digest = "".join(map(digest_of, paths.values()))
    return Data(Path(paths["mixtures"]).stem, "file", d, X.shape[1], len(X), digest=digest, **paths)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Turn errors of the data into errors of the entry of the plan."""
    try:
        yield
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{where}: {error}") from error
