"""What to reproduce, and the runs it is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from .. import __version__
from .reference import AS_CODED, DECAY, ETA0, NETWORKS, OFFLINE, TAU, UNTUNED

#: What `bionica reproduce` knows.
EXPERIMENTS = ("figure1", "figure4", "figure5", "table1")

#: Most runs of a setting in the grid search, which is there to rank settings, not to measure one.
GRID_RUNS = 5


@dataclass(frozen=True)
class Reproduction:
    """What to reproduce, and at which size; the defaults are the paper's.

    Attributes
    ----------
    experiments : tuple of str
        Of `EXPERIMENTS`.
    runs : int
        Runs of every network; run i has the seed ``seed + i`` for its data and its initial weights.
    seed : int
        Of the first run.
    n_samples : int
        T, the samples of a run on synthetic sources.
    epochs : int
        Presentations of the images, each in a random order.
    with_defaults : bool
        Whether to add the untuned networks, the offline methods and the correlation floor, and on images the settings of
        the authors' code.
    full : bool
        Whether the grid search is for d = 10 and the images too.
    images : str or None
        Where the user's images are; None takes those of scikit-image.
    digest : str
        Of the images' pixels, so that other images are other runs.
    """

    experiments: tuple[str, ...] = EXPERIMENTS
    runs: int = 10
    seed: int = 0
    n_samples: int = 100_000
    epochs: int = 5
    with_defaults: bool = False
    full: bool = False
    images: str | None = None
    digest: str = ""

    @property
    def seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.seed, self.seed + self.runs)


@dataclass(frozen=True)
class Task:
    """One run of one network on one problem: what is stored, and what is not run twice."""

    experiment: str
    setting: str
    network: str
    seed: int
    n_samples: int
    params: tuple[tuple[str, float], ...] = ()
    epochs: int = 1
    images: str | None = None
    digest: str = ""
    keep_outputs: bool = False

    @property
    def key(self) -> str:
        """Digest of everything that the result depends on, the version of bionica included."""
        body = {**asdict(self), "version": __version__}
        body.pop("images")  # the digest says which pixels; where they lie is of no account
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def cost(self) -> int:
        """About how long the run takes, in runs at d = 3."""
        return 4 if self.setting in ("d10", "images") else 1

    @property
    def file(self) -> str:
        """Name of the result's file, relative to the store."""
        network = self.network.replace(" ", "-")
        return f"{self.experiment}/{self.setting}-{network}-{self.seed}-{self.key}.npz"


def tasks_of(config: Reproduction) -> list[Task]:
    """Every run that a configuration asks for.

    Examples
    --------
    >>> from bionica.paper import Reproduction, tasks_of
    >>> len(tasks_of(Reproduction(("figure4",), runs=10)))
    80
    >>> len(tasks_of(Reproduction(("table1",), runs=1)))  # 3 x 30 settings, and 300 of Algorithm 2
    390
    """
    makers = {"figure1": _scatter, "figure4": _curves, "figure5": _images, "table1": _grid}
    return [task for name in config.experiments for task in makers[name](config)]


def _scatter(config: Reproduction) -> Iterator[Task]:
    yield Task("figure1", "d2", "BatchNICA", config.seed, 20_000, keep_outputs=True)


def _curves(config: Reproduction) -> Iterator[Task]:
    networks = (*NETWORKS, *UNTUNED, *OFFLINE) if config.with_defaults else NETWORKS
    for setting, seed, network in product(("d10", "d3"), config.seeds, networks):  # the long ones first
        yield Task("figure4", setting, network, seed, config.n_samples)


def _images(config: Reproduction) -> Iterator[Task]:
    networks = (*NETWORKS, *AS_CODED, *UNTUNED, *OFFLINE) if config.with_defaults else NETWORKS
    for seed, network in product(config.seeds, networks):
        shown = seed == config.seed and network in NETWORKS[:2]
        params = tuple(AS_CODED.get(network, {}).items())
        yield _on_images(config, "figure5", network, seed, params=params, keep_outputs=shown)


def _grid(config: Reproduction) -> Iterator[Task]:
    settings = ("images", "d10", "d3") if config.full else ("d3",)
    for setting, seed, network in product(settings, config.seeds[:GRID_RUNS], NETWORKS):
        taus: tuple[float | None, ...] = TAU if network == "TwoCompartmentNICA" else (None,)
        for eta0, decay, tau in product(ETA0, DECAY, taus):
            params = (("eta0", eta0), ("decay", decay)) + ((("tau", tau),) if tau is not None else ())
            if setting == "images":
                yield _on_images(config, "table1", network, seed, params=params)
            else:
                yield Task("table1", setting, network, seed, config.n_samples, params)


def _on_images(config: Reproduction, experiment: str, network: str, seed: int, **rest: Any) -> Task:
    where: dict[str, Any] = {"epochs": config.epochs, "images": config.images, "digest": config.digest}
    return Task(experiment, "images", network, seed, 0, **where, **rest)
