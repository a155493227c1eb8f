"""Where the networks converge, which the paper leaves open: how many random mixing
matrices each of them separates.
"""

from collections.abc import Sequence

import numpy as np
from scipy.stats import binomtest

from bionica.circuits.paper.figures import name_of
from bionica.circuits.paper.plans import MAPS
from bionica.circuits.sweep.table import Row

#: A run has separated its matrix if the held-out SINR of the final network is above
#: this, in dB.
SEPARATED = 15.0
#: Heading and caption of each map.
SECTIONS = {
    "convergence": (
        "Where the networks converge",
        (
            "Percent of random mixing matrices that are separated: the final network"
            " has a SINR above 15 dB on 5,000 samples that it has not learned from."
            " Sparse uniform sources, as many mixtures as sources, log-spaced singular"
            " values. Every matrix has its own sources and initial weights. Mixtures"
            " have the mean variance of the paper's at d = 3 or d = 10, the nearer; so"
            " have the settings of table 1. Nonnegative PCA gets mixtures that were"
            " whitened beforehand. StreamingNICA is not local. In the table: 95 %"
            " intervals (Wilson)."
        ),
    ),
    "convergence-scale": (
        "Smaller and larger mixtures",
        "As above; entries of A a third, or three times, as large.",
    ),
    "convergence-sources": (
        "Other sources",
        "As the first map, for exponential and half-normal sources.",
    ),
    "convergence-samples": (
        "Ten times the samples",
        "As the first map. Networks that are slow gain by it.",
    ),
}


def cells_of(rows: Sequence[Row]) -> list[Row]:
    """The cells of a map from its runs: how many matrices were separated, in percent
    with the 95 % interval, and the median SINR.

    A run that diverged has not separated its matrix, and is in the median with 0 dB.
    """
    groups: dict[tuple[str, str, float], list[float]] = {}
    for row in rows:
        sinr = row["sinr"] if row["status"] == "ok" else 0.0
        key = row["network"], row["setting"], float(row["data"])
        groups.setdefault(key, []).append(sinr)
    cells = []
    for (network, setting, condition), scores in groups.items():
        separated = sum(score > SEPARATED for score in scores)
        interval = binomtest(separated, len(scores)).proportion_ci(method="wilson")
        cells.append(
            {
                "network": network,
                "setting": setting,
                "condition": condition,
                "runs": len(scores),
                "separated": separated,
                "percent": 100 * separated / len(scores),
                "low": 100 * interval.low,
                "high": 100 * interval.high,
                "median_sinr": float(np.median(scores)),
            }
        )
    order = [row["network"] for row in rows]
    return sorted(cells, key=lambda cell: order.index(cell["network"]))


def text_of(experiment: str, cells: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the heading and the rows of a table of all cells: percent, and its
    interval in brackets.
    """
    heading = ["network", ""]
    heading += dict.fromkeys(f"condition {cell['condition']:g}" for cell in cells)
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        key = name_of(cell["network"]), MAPS[experiment][cell["setting"]].label
        percents = f"{cell['percent']:.0f} ({cell['low']:.0f}-{cell['high']:.0f})"
        rows.setdefault(key, [*key]).append(percents)
    return heading, list(rows.values())


def markdown(experiment: str, cells: Sequence[Row]) -> str:
    """Return the table of all cells in Markdown."""
    heading, rows = text_of(experiment, cells)
    lines = (heading, ["---"] * len(heading), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
