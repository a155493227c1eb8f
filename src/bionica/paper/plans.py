"""The paper's experiments as plans of a sweep, and offline references for them."""

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from .. import ConeNetwork, MinimumVolumeCone, metrics
from ..sweep import Plan

Array = NDArray[Any]

#: The four networks of the paper's figures 4 and 5.
NETWORKS = ("InterneuronNICA", "TwoCompartmentNICA", "TwoLayerNSM", "NonnegativePCA")
#: The experiments that `bionica reproduce` knows.
EXPERIMENTS = ("figure1", "figure4", "figure5", "table1")
#: Not in the paper: correlated sources.
CONE_NETWORK = "cone-network"
_COPULAS = {f"d{d}-rho{rho:g}": (d, rho) for d, rho in ((3, 0.0), (3, 0.3), (3, 0.5), (3, 0.7), (5, 0.5), (10, 0.5))}
_COPULA = {"kind": "copula_uniform", "df": np.inf}
#: Its settings and their data; "images" is one presentation of them.
CORRELATED: dict[str, dict[str, Any]] = {
    **{setting: {**_COPULA, "d": d, "rho": rho, "n_mixtures": 2 * d} for setting, (d, rho) in _COPULAS.items()},
    "odors": {"kind": "odors", "d": 5, "rho": 0.5},
    "abundances": {"kind": "abundances", "d": 5, "n_mixtures": 10},
    "images": {},
}
#: The settings in words.
SETTINGS = {"d2": "d = 2", "d3": "d = 3", "d10": "d = 10"} | {
    s: f"d = {d}, correlation {r:g}" for s, (d, r) in _COPULAS.items()
}
SETTINGS |= {"odors": "odors, d = 5, correlation 0.5", "abundances": "abundances, d = 5", "images": "images"}
#: Most runs of a setting in the grid search, which ranks settings and does not measure one.
GRID_RUNS = 5
#: Times of an error curve, and presentations of the images.
N_TIMES, EPOCHS = 200, 5
#: The mixing of figure 1, of which the paper prints none: a rotation and a shear that take the sources out of the orthant.
FIGURE1_MIXING = ((1.0, 0.55), (-0.45, 0.8))


@dataclass(frozen=True)
class Reproduction:
    """Which experiments to run, and at which size; the defaults are the paper's.

    Run i has the seed ``seed + i`` for its data and its initial weights. Figures 4 and 5 have StreamingNICA beside the paper's
    networks. `with_defaults` adds the untuned networks, the offline methods and the correlation floor. `full` adds d = 10 and the
    images to the grid search. `images` is the path of the user's images; None takes those of scikit-image.
    """

    experiments: tuple[str, ...] = EXPERIMENTS
    runs: int = 10
    seed: int = 0
    n_samples: int = 100_000
    with_defaults: bool = False
    full: bool = False
    images: str | None = None


def plans_of(config: Reproduction) -> dict[tuple[str, str], Plan]:
    """Return the plan of every experiment and setting, the long ones first."""
    grids = ("images", "d10", "d3") if config.full else ("d3",)
    settings = {"figure1": ("d2",), "figure4": ("d10", "d3"), "figure5": ("images",), "table1": grids}
    settings[CONE_NETWORK] = tuple(CORRELATED)
    return {(name, setting): _plan(config, name, setting) for name in config.experiments for setting in settings[name]}


def _plan(config: Reproduction, experiment: str, setting: str) -> Plan:
    runs = {"figure1": 1, "table1": min(config.runs, GRID_RUNS)}.get(experiment, config.runs)
    body: dict[str, Any] = {
        "seeds": list(range(config.seed, config.seed + runs)),
        "times": 1 if experiment == "table1" else N_TIMES,
    }
    if setting == "images":
        data: dict[str, Any] = {"kind": "images", "path": config.images}
        data["epochs"] = 1 if experiment == CONE_NETWORK else EPOCHS
    elif experiment == CONE_NETWORK:
        data = CORRELATED[setting] | {"snr_db": 36, "T": config.n_samples}
    elif setting == "d2":
        data = {"kind": "sparse_uniform", "d": 2, "T": 20_000, "mixing": FIGURE1_MIXING}
    else:
        data = {"kind": "sparse_uniform", "d": int(setting[1:]), "T": config.n_samples, "mixing": setting}
    body |= {"data": [{"name": setting, **data}], "network": _networks(config, experiment, setting)}
    return Plan.from_dict(body)


def _networks(config: Reproduction, experiment: str, setting: str) -> list[dict[str, Any]]:
    if experiment == "figure1":
        return [{"name": "BatchNICA"}]
    if experiment == CONE_NETWORK:
        scaled = ("ConeNetwork", "MinimumVolumeCone")
        ours = [{"name": f"{__name__}:Scaled{name}", "label": name} for name in scaled]
        return [*ours, {"name": "StreamingNICA"}]
    if experiment == "table1":
        return [network | {"published": setting} for network in tomllib.loads(paper_grid())["network"]]
    networks: list[dict[str, Any]] = [{"name": name, "published": setting} for name in NETWORKS]
    networks.append({"name": "StreamingNICA"})
    if config.with_defaults:
        networks += [{"name": name, "label": f"{name} untuned"} for name in NETWORKS[:2]]
        networks += [{"name": "BatchNICA"}, {"name": f"{__name__}:CorrelationFloor", "label": "correlation floor"}]
    return networks


def paper_grid() -> str:
    """Return the plan of the paper's grid search at d = 3, with comments on what a plan can hold (`bionica sweep --example`)."""
    return (files(__package__) / "grid.toml").read_text(encoding="utf-8")


class UnitVariance:
    """Outputs of variance 1 over the second half of the samples, as those of nonnegative ICA."""

    def partial_fit_transform(self, X: Array, y: None = None) -> Array:
        """Learn, and return the outputs as each sample arrived, scaled."""
        Y: Array = super().partial_fit_transform(X)  # type: ignore[misc]
        return np.asarray(Y / np.maximum(Y[len(Y) // 2 :].std(axis=0), 1e-12))


class ScaledConeNetwork(UnitVariance, ConeNetwork):  # type: ignore[misc]
    """ConeNetwork with outputs of variance 1."""


class ScaledMinimumVolumeCone(UnitVariance, MinimumVolumeCone):  # type: ignore[misc]
    """MinimumVolumeCone with outputs of variance 1."""


class CorrelationFloor(BaseEstimator):  # type: ignore[misc]
    """The sources after their own correlations are whitened away; their error is `metrics.correlation_floor`."""

    def fit_transform(self, X: Array, S: Array) -> Array:
        """Return the whitened sources."""
        return metrics.whitened(S)
