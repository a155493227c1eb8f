"""The paper's experiments as plans of a sweep, and offline references for them."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bionica import datasets, metrics
from bionica.circuits.network import SOURCES
from bionica.circuits.sweep import Plan
from bionica.core.blocks import Array

#: The four networks of the paper's figures 4 and 5.
NETWORKS = ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM", "NonnegativePCA")
#: The experiments that `bionica reproduce` knows.
EXPERIMENTS = ("figure1", "figure2", "figure3", "figure4", "figure5", "table1")
#: The settings in words.
SETTINGS = {"d2": "d = 2", "d3": "d = 3", "d10": "d = 10", "images": "images"}
#: Most runs of a setting in the grid search, which ranks settings and does not measure
#: one.
GRID_RUNS = 5
#: Times of an error curve, and presentations of the images.
N_TIMES = 200
EPOCHS = 5
#: The mixing of figure 1, of which the paper prints none: a rotation and a shear that
#: take the sources out of the orthant.
FIGURE1_MIXING = ((1.0, 0.55), (-0.45, 0.8))


@dataclass(frozen=True)
class MapRow:
    """A row of a map of convergence: d sources, the size of A over the paper's, samples
    over those of the reproduction.
    """

    label: str
    d: int
    kind: str = "sparse_uniform"
    scale: float = 1.0
    conditions: tuple[int, ...] = (1, 3, 10, 30, 100)
    times_samples: int = 1


#: Networks without tuning, beside those with the settings of table 1.
UNTUNED = [
    {"name": "InterneuronNICA", "label": "InterneuronNICA untuned"},
    {"name": "TwoCompartmentNICA", "label": "TwoCompartmentNICA untuned"},
    {"name": "LocalNICA"},
    {"name": "StreamingNICA"},
]
#: Matrices of a cell of a map, and samples that its networks are scored on.
MATRICES = 30
HELD_OUT = 5000
#: Not in the paper: where the networks converge. The maps and their rows; those after
#: the second are run with --full.
MAPS: dict[str, dict[str, MapRow]] = {
    "convergence": {f"d{d}": MapRow(f"d = {d}", d) for d in (2, 3, 5, 10, 20)},
    "convergence-scale": {
        "d3-0": MapRow("d = 3, a third", 3, scale=1 / 3),
        "d3-1": MapRow("d = 3, three times", 3, scale=3.0),
        "d10-0": MapRow("d = 10, a third", 10, scale=1 / 3),
        "d10-1": MapRow("d = 10, three times", 10, scale=3.0),
    },
    "convergence-sources": {
        f"{kind}-d{d}": MapRow(f"{kind.replace('_', '-')}, d = {d}", d, kind)
        for kind in ("exponential", "half_normal")
        for d in (2, 3, 5, 10)
    },
    "convergence-samples": {
        "d3": MapRow("d = 3", 3, conditions=(30, 100), times_samples=10)
    },
}


@dataclass(frozen=True)
class Reproduction:
    """Which experiments to run, and at which size; the defaults are the paper's.

    Run i has the seed ``seed + i`` for its data and its initial weights. `with_ours`
    adds to figures 4 and 5 what is not in the paper: LocalNICA, StreamingNICA,
    Algorithms 1 and 2 with untuned settings, the offline method and the correlation
    floor. `images` is the path of the user's images; None takes those of scikit-image.
    """

    experiments: tuple[str, ...] = EXPERIMENTS
    runs: int = 10
    seed: int = 0
    n_samples: int = 100_000
    with_ours: bool = False
    images: str | None = None


def plans_of(config: Reproduction) -> dict[tuple[str, str], Plan]:
    """Return the plan of every experiment and setting, the long ones first."""
    settings = {
        "figure1": ["d2"],
        "figure4": ["d10", "d3"],
        "figure5": ["images"],
        **MAPS,
    }
    return {
        (name, setting): plan_of(config, name, setting)
        for name in config.experiments
        for setting in settings.get(name, ["d3"])
    }


def _map_plan(config: Reproduction, row: MapRow) -> Plan:
    """Every matrix has its own sources and initial weights; the settings of table 1 are
    those of the nearer of d = 3 and 10.
    """
    nearer: Any = "d3" if row.d < 6.5 else "d10"
    paper = np.linalg.norm(datasets.paper_mixing(nearer))
    rms = float(row.scale * paper / np.sqrt(SOURCES[nearer] * row.d))
    T = config.n_samples * row.times_samples
    data = {"kind": row.kind, "d": row.d, "T": T, "held_out": HELD_OUT}
    tuned = {"published": nearer, "params": {"n_components": row.d}}
    networks = [{"name": name, **tuned} for name in NETWORKS]
    entries = [
        {"name": f"{c:g}", "mixing": {"condition": c, "rms": rms}, **data}
        for c in row.conditions
    ]
    seeds = list(range(config.seed, config.seed + config.runs))
    return Plan.from_dict(
        {"seeds": seeds, "data": entries, "network": [*networks, *UNTUNED]}
    )


def plan_of(config: Reproduction, experiment: str, setting: str) -> Plan:
    """Return the plan of an experiment and setting."""
    if experiment in MAPS:
        return _map_plan(config, MAPS[experiment][setting])
    runs = config.runs
    if experiment == "table1":
        runs = min(runs, GRID_RUNS)
    elif experiment in ("figure1", "figure2", "figure3"):
        runs = 1
    data: dict[str, Any] = {"name": setting, "kind": "sparse_uniform"}
    if setting == "images":
        data |= {"kind": "images", "path": config.images, "epochs": EPOCHS}
    elif setting == "d2":
        data |= {"d": 2, "T": 20_000, "mixing": FIGURE1_MIXING}
    else:
        data |= {"d": SOURCES[setting], "T": config.n_samples, "mixing": setting}
    return Plan.from_dict(
        {
            "seeds": list(range(config.seed, config.seed + runs)),
            "times": 1 if experiment == "table1" else N_TIMES,
            "data": [data],
            "network": _networks(config, experiment, setting),
        }
    )


def _networks(
    config: Reproduction, experiment: str, setting: str
) -> list[dict[str, Any]]:
    if experiment == "figure1":
        return [{"name": "BatchNICA"}]
    if experiment == "table1":
        return tomllib.loads(paper_grid())["network"]
    networks = [{"name": name, "published": setting} for name in NETWORKS]
    if experiment == "figure2":
        return networks[:1]
    if experiment == "figure3":
        return networks[1:2]
    if config.with_ours:
        floor = f"{__name__}:CorrelationFloor"
        networks += [*UNTUNED, {"name": "BatchNICA"}]
        networks.append({"name": floor, "label": "correlation floor"})
    return networks


def paper_grid() -> str:
    """Return the plan of the paper's grid search at d = 3, with comments on what a plan
    can hold (`bionica sweep --example`).
    """
    return (files(__package__) / "grid.toml").read_text(encoding="utf-8")


class CorrelationFloor(BaseEstimator):  # type: ignore[misc]
    """The sources after their own correlations are whitened away; their error is
    `metrics.correlation_floor`.
    """

    def fit_transform(self, X: Array, S: Array) -> Array:
        """Return the whitened sources."""
        return metrics.whitened(S)
