"""Networks x settings x seeds x data: a plan, read from a file, checked, and cut into cases."""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from os import PathLike
from pathlib import Path
from typing import Any

from ..estimators.network import SOURCES
from .cases import Case, Network
from .data import Data
from .estimator_names import find_estimator, is_online, source_digest
from .plan_checks import MOST_CASES, PlanError, check_choice, check_integer, check_keys, check_mapping, shown
from .running_error import error_times

#: Times of a case, and rows of the table.
MOST_TIMES, MOST_ROWS = 100_000, 5_000_000
#: Bytes of a plan.
LARGEST_FILE = 2**23


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
    seeds: tuple[int, ...] = (0,)
    times: int | tuple[int, ...] = 1
    dtype: str = "float64"

    @classmethod
    def from_toml(cls, path: str | PathLike[str]) -> "Plan":
        """Read a plan from a TOML file; paths in it are relative to the file's folder."""
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise PlanError(f"{path} has more than {LARGEST_FILE:,} bytes, so it is not a plan: give a TOML file")
        try:
            body = tomllib.loads(content.decode())
        except RecursionError as error:
            raise PlanError(f"{path} is not a plan: its tables or lists are nested too deeply") from error
        except ValueError as error:
            raise PlanError(f"{path} is not TOML: {error}") from error
        return cls.from_dict(body, Path(path).parent)

    @classmethod
    def from_dict(cls, body: Mapping[str, Any], folder: str | PathLike[str] = ".") -> "Plan":
        """Check what a TOML file would hold; paths in it are relative to `folder`."""
        body = check_mapping(body, "the plan")
        check_keys(body, ("data", "network", "seeds", "times", "dtype"), "the plan")
        data = tuple(Data.from_dict(d, f"data[{i}]", Path(folder)) for i, d in enumerate(_entries(body, "data")))
        networks = tuple(Network.from_dict(n, f"network[{i}]") for i, n in enumerate(_entries(body, "network")))
        _differ([d.name for d in data], "data", "name")
        _differ([n.label for n in networks], "network", "label")
        dtype = check_choice(body.get("dtype", "float64"), ("float64", "float32"), "dtype")
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
        """Digest of the cases: it does not depend on where files are."""
        return hashlib.sha256(" ".join(case.key for case in self.cases()).encode()).hexdigest()[:16]

    @property
    def size(self) -> int:
        """Number of cases, repeated ones included."""
        return len(self.data) * len(self.seeds) * sum(network.n_settings for network in self.networks)

    def cases(self) -> list[Case]:
        """Return every run once; runs on the same data are neighbours."""
        return list(self._cases)

    @cached_property
    def _cases(self) -> list[Case]:
        found: dict[str, Case] = {}
        online = {network.name: is_online(find_estimator(network.name)) for network in self.networks}
        source = {network.name: source_digest(network.name) for network in self.networks}
        for data, seed, network in product(self.data, self.seeds, self.networks):
            times = error_times(self.times if online[network.name] else 1, data.n_samples)
            head = (network.name, network.label, network.published)
            for params in network.settings():
                case = Case(*head, params, seed, data, self.dtype, times, source[network.name])
                found.setdefault(case.key, case)
        return list(found.values())

    @property
    def swept(self) -> list[str]:
        """Parameters that the plan names: the columns of its table."""
        names = [name for n in self.networks for name in (*dict(n.params), *dict(n.grid))]
        return list(dict.fromkeys(names))

    def _check(self) -> None:
        """Refuse a plan of too many cases, and numbers of components that do not fit the data."""
        n_times = self.times if isinstance(self.times, int) else len(self.times)
        remedy = "use fewer seeds or times, make a grid coarser, or cut the plan"
        if self.size > MOST_CASES:
            raise PlanError(f"the plan has {self.size:,} cases: {MOST_CASES:,} at most; {remedy}")
        if self.size * n_times > MOST_ROWS:
            many = f"{self.size:,} cases with {n_times:,} times each"
            raise PlanError(f"the plan has {many}: {MOST_ROWS:,} rows of the table at most; {remedy}")
        for (i, network), (j, data) in product(enumerate(self.networks), enumerate(self.data)):
            fixed = dict(network.params).get("n_components", SOURCES.get(network.published or ""))
            for count in dict(network.grid).get("n_components", () if fixed is None else (fixed,)):
                start = f"network[{i}] ({network.label}) has n_components = {count!r} and data[{j}] ({data.name})"
                if data.d and count != data.d:
                    remedy = f"the error compares one output with each source, so use n_components = {data.d}"
                    raise PlanError(f"{start} {data.d} sources: {remedy}")
                if count > data.k:
                    raise PlanError(f"{start} {data.k} mixtures: use n_components <= {data.k}")


def _entries(body: Mapping[str, Any], key: str) -> list[Any]:
    entries = body.get(key)
    if not isinstance(entries, list | tuple) or not entries:
        raise PlanError(f"{key} = {shown(entries)}: the plan needs at least one [[{key}]]")
    return list(entries)


def _differ(names: Sequence[str], entries: str, key: str) -> None:
    """Refuse two entries of one name: the table could not distinguish them."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if seen.setdefault(name, i) < i:
            first = f"{entries}[{seen[name]}]"
            raise PlanError(f"{entries}[{i}].{key} = {shown(name)} is {first}'s too: give them {key}s that differ")


def _seeds(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return tuple(range(check_integer(value, "seeds", 1, MOST_CASES)))
    seeds = tuple(check_integer(seed, f"seeds[{i}]", 0) for i, seed in enumerate(value))
    if not seeds or len(set(seeds)) < len(seeds) or max(seeds) >= 2**32:
        raise PlanError(
            f"seeds = {shown(list(value))}: give a number of seeds, or a list of seeds below 2^32 that differ"
        )
    return seeds


def _times(value: Any) -> int | tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return check_integer(value, "times", 1, MOST_TIMES)
    if len(value) > MOST_TIMES:
        raise PlanError(f"times = {shown(value)}: give {MOST_TIMES:,} times at most")
    return tuple(check_integer(time, f"times[{i}]", 1) for i, time in enumerate(value))
