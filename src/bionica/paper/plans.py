"""The paper's experiments as plans of a sweep."""

from dataclasses import dataclass
from typing import Any

from ..estimators.network import SOURCES
from ..sweep import Plan
from .reference import AS_CODED, NETWORKS, OFFLINE, STREAM, UNTUNED, grid_of

#: The experiments that `bionica reproduce` knows.
EXPERIMENTS = ("figure1", "figure4", "figure5", "table1")
#: Most runs of a setting in the grid search, which ranks settings and does not measure one.
GRID_RUNS = 5
#: Times of an error curve.
N_TIMES = 200
#: The mixing of figure 1, of which the paper prints none: a rotation and a shear that take the sources out of the orthant.
FIGURE1_MIXING = ((1.0, 0.55), (-0.45, 0.8))


@dataclass(frozen=True)
class Reproduction:
    """Which experiments to run, and at which size; the defaults are the paper's.

    Run i has the seed ``seed + i`` for its data and its initial weights. Figures 4 and 5 have StreamingNICA beside the paper's
    networks. `with_defaults` adds the untuned networks, the offline methods and the correlation floor, and on images the settings
    of the authors' code. `full` adds d = 10 and the images to the grid search. `images` is the path of the user's images; None
    takes those of scikit-image.
    """

    experiments: tuple[str, ...] = EXPERIMENTS
    runs: int = 10
    seed: int = 0
    n_samples: int = 100_000
    epochs: int = 5
    with_defaults: bool = False
    full: bool = False
    images: str | None = None


def plans_of(config: Reproduction) -> dict[tuple[str, str], Plan]:
    """Return the plan of every experiment and setting, the long ones first.

    Examples
    --------
    >>> from bionica.paper import Reproduction, plans_of
    >>> sum(plan.size for plan in plans_of(Reproduction(("figure4",), runs=10)).values())
    100
    """
    grids = ("images", "d10", "d3") if config.full else ("d3",)
    settings = {"figure1": ("d2",), "figure4": ("d10", "d3"), "figure5": ("images",), "table1": grids}
    return {(name, setting): _plan(config, name, setting) for name in config.experiments for setting in settings[name]}


def _plan(config: Reproduction, experiment: str, setting: str) -> Plan:
    runs = {"figure1": 1, "table1": min(config.runs, GRID_RUNS)}.get(experiment, config.runs)
    body = {"seeds": list(range(config.seed, config.seed + runs)), "times": 1 if experiment == "table1" else N_TIMES}
    if setting == "images":
        data: dict[str, Any] = {"kind": "images", "epochs": config.epochs, "path": config.images}
    elif setting == "d2":
        data = {"kind": "sparse_uniform", "d": 2, "T": 20_000, "mixing": FIGURE1_MIXING}
    else:
        data = {"kind": "sparse_uniform", "d": SOURCES[setting], "T": config.n_samples, "mixing": setting}
    return Plan.from_dict(
        body | {"data": [{"name": setting, **data}], "network": _networks(config, experiment, setting)}
    )


def _networks(config: Reproduction, experiment: str, setting: str) -> list[dict[str, Any]]:
    if experiment == "figure1":
        return [{"name": "BatchNICA"}]
    networks: list[dict[str, Any]] = [{"name": name, "published": setting} for name in NETWORKS]
    if experiment == "table1":
        return [network | {"grid": grid_of(network["name"])} for network in networks]
    networks.append({"name": STREAM})
    if not config.with_defaults:
        return networks
    if setting == "images":
        for label, params in AS_CODED.items():
            networks.append({"name": label.split()[0], "label": label, "published": setting, "params": params})
    networks += [{"name": label.split()[0], "label": label} for label in UNTUNED]
    return networks + [{"name": name, "label": label} for label, name in OFFLINE.items()]
