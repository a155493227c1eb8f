"""Where the networks converge, which the paper leaves open: how many random mixing matrices each of them separates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import binomtest

from ..sweep.table import Row
from .figures import label_of, new_figure
from .plans import MAPS, TUNED

#: A run has separated its matrix if the held-out SINR of the final network is above this, in dB.
SEPARATED = 15.0
#: Heading and caption of each map.
SECTIONS = {
    "convergence": (
        "Where the networks converge",
        "Percent of random mixing matrices that are separated: the final network has a SINR above 15 dB on 5,000 samples that it "
        "has not learned from. Sparse uniform sources, as many mixtures as sources, log-spaced singular values. Every matrix has "
        "its own sources and initial weights. Mixtures have the mean variance of the paper's at d = 3 or d = 10, the nearer; so "
        "have the settings of table 1. Nonnegative PCA gets mixtures that were whitened beforehand. StreamingNICA is not local. "
        "In the table: 95 % intervals (Wilson).",
    ),
    "convergence-scale": ("Smaller and larger mixtures", "As above; entries of A a third, or three times, as large."),
    "convergence-sources": ("Other sources", "As the first map, for exponential and half-normal sources."),
    "convergence-samples": (
        "Ten times the samples",
        "As the first map. What was slow is separated now, what is stuck is not.",
    ),
}


def cells_of(rows: Sequence[Row]) -> list[Row]:
    """The cells of a map from its runs: how many matrices were separated, in percent with the 95 % interval, and the median SINR.

    A run that diverged has not separated its matrix, and is in the median with 0 dB.
    """
    groups: dict[tuple[str, str, float], list[float]] = {}
    for row in rows:
        sinr = row["sinr"] if row["status"] == "ok" else 0.0
        groups.setdefault((row["network"], row["setting"], float(row["data"])), []).append(sinr)
    cells = []
    for (network, setting, condition), scores in groups.items():
        separated, runs = sum(score > SEPARATED for score in scores), len(scores)
        low, high = (100 * share for share in binomtest(separated, runs).proportion_ci(method="wilson"))
        cell: Row = {
            "network": network,
            "setting": setting,
            "condition": condition,
            "runs": runs,
            "separated": separated,
        }
        percent, median = 100 * separated / runs, float(np.median(scores))
        cells.append({**cell, "percent": percent, "low": low, "high": high, "median_sinr": median})
    order = list(dict.fromkeys(row["network"] for row in rows))
    return sorted(cells, key=lambda cell: order.index(cell["network"]))


def name_of(network: str) -> str:
    """Return the name of a network in a map, and which settings it has."""
    return label_of(network).split(" (")[0] + (", table 1" if network in TUNED else "")


def text_of(experiment: str, cells: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the rows of a table of all cells: percent, and its interval in brackets."""
    conditions = list(dict.fromkeys(cell["condition"] for cell in cells))
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        key = name_of(cell["network"]), MAPS[experiment][cell["setting"]].label
        rows.setdefault(key, []).append(f"{cell['percent']:.0f} ({cell['low']:.0f}-{cell['high']:.0f})")
    heading = ["network", "", *(f"condition {condition:g}" for condition in conditions)]
    return heading, [[*key, *row] for key, row in rows.items()]


def markdown(experiment: str, cells: Sequence[Row]) -> str:
    """Return the table of all cells in Markdown."""
    heading, rows = text_of(experiment, cells)
    return "".join(f"| {' | '.join(row)} |\n" for row in (heading, ["---"] * len(heading), *rows))


def map_figure(experiment: str, cells: Sequence[Row]) -> Any:
    """Draw a map: a panel for each network, a column for each condition number, the percentage in each cell."""
    networks = list(dict.fromkeys(cell["network"] for cell in cells))
    conditions = list(dict.fromkeys(cell["condition"] for cell in cells))
    settings = list(MAPS[experiment])
    n_rows = -(-len(networks) // 4)
    figure = new_figure(12.5, n_rows * (0.5 + 0.36 * len(settings)) + 0.5)
    axes = figure.subplots(n_rows, 4, squeeze=False, sharex=True, sharey=True)
    for axis, network in zip(axes.flat, networks, strict=False):
        share = np.full((len(settings), len(conditions)), np.nan)
        for cell in (cell for cell in cells if cell["network"] == network):
            place = settings.index(cell["setting"]), conditions.index(cell["condition"])
            share[place] = cell["percent"]
            color = "black" if cell["percent"] > 50 else "white"
            axis.text(*place[::-1], f"{cell['percent']:.0f}", ha="center", va="center", fontsize=9, color=color)
        image = axis.imshow(share, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        axis.set_title(name_of(network), fontsize=10)
        axis.set_xticks(range(len(conditions)), [f"{condition:g}" for condition in conditions])
        axis.set_yticks(range(len(settings)), [MAPS[experiment][setting].label for setting in settings], fontsize=9)
        axis.tick_params(length=0)
    figure.colorbar(image, ax=axes, shrink=0.7, pad=0.01, label="% of matrices separated")
    figure.supxlabel("condition number of the mixing matrix", fontsize=10)
    return figure
