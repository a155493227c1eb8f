"""Figures: point clouds (1), circuits (2, 3), error curves (4), images (5), the grid of
appendix C, maps of convergence.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from math import inf, isqrt, log10
from operator import itemgetter
from typing import Any

import numpy as np

from bionica import datasets, metrics
from bionica.circuits import plot
from bionica.circuits.paper.plans import MAPS, NETWORKS, SETTINGS, Reproduction, plan_of
from bionica.circuits.sweep.plan import Case
from bionica.circuits.sweep.run import learn
from bionica.circuits.sweep.table import Row
from bionica.core.blocks import Array
from bionica.core.errors import DivergenceError
from bionica.core.plot import new_figure
from bionica.core.whitening import leading

#: Value, text, and whether that is white, at each column and row of a table.
Cells = dict[tuple[int, int], tuple[float, str, bool]]

#: Points of a cloud of figure 1.
N_POINTS = 1000
_CLOUDS = {
    "Sources": "s",
    "Mixtures": "x",
    "Whitened mixtures": "h",
    "Recovered sources": "y",
}
# the sources that are followed: near these points; red, blue and orange, as the paper's
_CORNERS = ((0.45, 2.6), (2.5, 0.55), (1.9, 1.9))
_TRACKED = ("#D62728", "#1F77B4", "#FF7F0E")
#: Label, colour and line of each method; colours that the colour-blind can distinguish
#: (Okabe and Ito).
LOOKS = {
    "InterneuronNICA": ("Algorithm 1 (interneurons)", "#0072B2", "-"),
    "TwoCompartmentNICA": ("Algorithm 2 (2-compartmental)", "#D55E00", "-"),
    "TwoLayerNSM": ("2-layer NSM", "#009E73", "-"),
    "NonnegativePCA": ("Nonnegative PCA", "#CC79A7", "-"),
    "LocalNICA": ("LocalNICA (ours, local, no tuning)", "#56B4E9", "-"),
    "StreamingNICA": ("StreamingNICA (ours, no tuning)", "#000000", "-"),
    "InterneuronNICA untuned": ("Algorithm 1, untuned defaults", "#0072B2", "--"),
    "TwoCompartmentNICA untuned": ("Algorithm 2, untuned defaults", "#D55E00", "--"),
    "BatchNICA": ("BatchNICA (offline)", "#000000", "-."),
    "correlation floor": ("correlation floor", "#7F7F7F", ":"),
}


def label_of(network: str) -> str:
    """Return the name of a method in figures and tables."""
    return LOOKS[network][0]


def name_of(network: str) -> str:
    """Return the name of a network in a map, and which settings it has."""
    name = label_of(network).split(" (")[0]
    return f"{name}, table 1" if network in NETWORKS else name


def _legend(figure: Any, axis: Any, columns: int) -> None:
    style = {"loc": "outside lower center", "frameon": False, "fontsize": 9}
    figure.legend(*axis.get_legend_handles_labels(), ncols=columns, **style)


def error_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the error curves of several settings side by side (the paper's figure 4)."""
    settings = sorted({row["setting"] for row in rows}, key=list(SETTINGS).index)
    figure = new_figure(5.6 * len(settings), 4.8)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for axis, setting in zip(axes, settings, strict=True):
        _draw_errors(axis, [row for row in rows if row["setting"] == setting])
        axis.set_title(SETTINGS[setting])
    _legend(figure, axes[0], 3)
    return figure


def _draw_errors(axis: Any, rows: Sequence[Row]) -> None:
    """Draw means and their confidence intervals, as the paper says."""
    end = max([1, *(row["t"] for row in rows)])
    tops = []
    for network, group in groupby(rows, itemgetter("network")):
        mine = list(group)
        label, color, line = LOOKS[network]
        t, mean, low, high = (
            [row[name] for row in mine] for name in ("t", "mean", "low", "high")
        )
        if len(mine) == 1:  # an offline method: one error for all times
            axis.axhline(*mean, ls=line, lw=1.2, color=color, label=label)
        else:
            axis.fill_between(t, low, high, color=color, alpha=0.18, lw=0)
            axis.plot(t, mean, line, lw=1.7, color=color, label=label)
        if line == "-":
            tops += high
    axis.set(xscale="log", yscale="log", xlim=(1, end), xlabel="samples, t")
    axis.set_ylabel("error(t), mean and 90 % interval")
    axis.grid(alpha=0.25)
    if tops:  # solid lines fill the frame; curves far above them may leave it
        axis.set_ylim(top=min(axis.get_ylim()[1], 2 * max(tops)))


def check_images(images: str | None) -> Array:
    """Return the user's or scikit-image's images as sources, (n_pixels, 3): three, as
    the mixing matrix needs, and square.
    """
    try:
        S = datasets.natural_images(images)
    except (EOFError, ValueError) as error:
        raise ValueError(
            f"{images} cannot be read ({error}): pass a folder of images or an .npy"
            " file"
        ) from error
    if S.shape[1] != 3 or isqrt(len(S)) ** 2 != len(S):
        raise ValueError(
            f"{images} holds {S.shape[1]} images of {len(S)} pixels: the paper's are 3"
            " square ones"
        )
    return S


def _first_cases(config: Reproduction, experiment: str, setting: str) -> list[Case]:
    """The first run of each network of an experiment."""
    return plan_of(replace(config, runs=1), experiment, setting).cases()


def scatter_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw sources, mixtures, whitened mixtures and recovered sources, and follow three
    of the sources (figure 1).
    """
    *_, S, X, Y = learn(*_first_cases(config, "figure1", "d2"))
    whitened = X @ leading(X, 2).matrix.T
    clouds = (S, X, whitened, Y[:, metrics.match_sources(S, Y).permutation])
    corners = np.array(_CORNERS)[:, None]
    tracked = np.argmin(np.sum((S[:N_POINTS] - corners) ** 2, axis=2), axis=1)
    figure = new_figure(13.0, 3.6)
    axes = figure.subplots(1, 4)
    for axis, cloud, (name, symbol) in zip(axes, clouds, _CLOUDS.items(), strict=True):
        for draw_line in (axis.axhline, axis.axvline):
            draw_line(0, color="0.75", lw=0.8)
        axis.scatter(*cloud[:N_POINTS].T, s=5, color="0.45", alpha=0.5, lw=0)
        style = {"edgecolors": "white", "lw": 1.2, "zorder": 3}
        axis.scatter(*cloud[tracked].T, s=75, c=_TRACKED, **style)
        axis.set_title(name)
        axis.set(xlabel=f"${symbol}_1$", ylabel=f"${symbol}_2$")
        axis.set_aspect("equal", adjustable="datalim")
    return figure


def circuit_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the circuit of a network with the weights that it has learned (figures 2 and
    3).
    """
    cases = _first_cases(config, rows[0]["experiment"], "d3")
    figure = new_figure(5.6, 4.4)
    plot.circuit(learn(*cases)[1], ax=figure.subplots())
    return figure


def images_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw sources, mixtures and outputs of the two networks as images, and error
    curves beside them (figure 5).

    Outputs are those of the first run in the last presentation; a network that diverges
    is left out.
    """
    S = check_images(config.images)
    mixtures = datasets.mix(S, datasets.paper_mixing("images"))[0]
    pictures = {"Sources": S, "Mixtures": mixtures}
    cases = _first_cases(config, "figure5", "images")
    for i, case in enumerate(cases[:2], 1):
        with suppress(DivergenceError):
            *_, presented, _, Y = learn(case)
            outputs = metrics.match_sources(presented, Y).permutation
            last = case.data.order(case.seed)[-len(S) :]
            recovered = np.empty_like(S)
            recovered[last] = Y[-len(S) :, outputs]
            pictures[f"Recovered by\nAlgorithm {i}"] = recovered
    figure = new_figure(12.5, 6.6)
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    grid = left.subplots(len(pictures), 3)
    for axes, (title, images) in zip(grid, pictures.items(), strict=True):
        plot.images(images, (isqrt(len(S)), isqrt(len(S))), axes=axes)
        axes[0].set_ylabel(title)
    axis = right.subplots()
    _draw_errors(axis, rows)
    _legend(right, axis, 2)
    return figure


def _draw_cells(
    axis: Any, cells: Cells, columns: Sequence[float], rows: list[str], **options: Any
) -> Any:
    """Draw a table as an image: the value, the text, and whether that is white, of each
    (column, row).
    """
    values = np.full((len(rows), len(columns)), inf)
    for (x, y), (value, text, is_white) in cells.items():
        values[y, x] = value
        color = "white" if is_white else "black"
        axis.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
    axis.set_xticks(range(len(columns)), [f"{column:g}" for column in columns])
    axis.set_yticks(range(len(rows)), rows)
    return axis.imshow(np.ma.masked_invalid(values), aspect="auto", **options)


def grid_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the error at every learning rate and decay, of several tau the best; rows
    are `results.grid_means`.
    """
    low = min(0.0, *(log10(row["error"]) for row in rows))
    figure = new_figure(11.0, 8.9)
    axes = figure.subplots(2, 2)
    for axis, (network, group) in zip(
        axes.flat, groupby(rows, itemgetter("network")), strict=True
    ):
        image = _draw_grid(axis, [*group], low)
        axis.set_title(f"{label_of(network)}, d = 3")
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label(r"$\log_{10}$ of the final error; 1 and more are drawn alike")
    figure.supxlabel(
        "square: best here; circle: the paper's choice; ×: diverged or forbidden"
    )
    return figure


def _draw_grid(axis: Any, rows: Sequence[Row], low: float) -> Any:
    """Draw the errors of a network, the best of which is the first; of several tau, the
    best.
    """
    etas, decays = (sorted({row[name] for row in rows}) for name in ("eta0", "decay"))
    cells: Cells = {}
    ring = {"fillstyle": "none", "markeredgewidth": 2}
    for row in rows:
        place = decays.index(row["decay"]), etas.index(row["eta0"])
        if row is rows[0]:
            axis.plot(*place, "s", markersize=38, color="#D62728", **ring)
        if row["paper"]:
            axis.plot(*place, "o", markersize=43, color="#FF7F0E", **ring)
        value = log10(row["error"])
        text = f"{row['error']:.2g}" if value < 2 else "> 100"
        if row["tau"] is not None:
            text += f"\nτ {row['tau']:g}"
        if value == inf:
            text = "×"
        cells.setdefault(place, (value, text, low / 2 < value < inf))
    options = {"origin": "lower", "cmap": "viridis_r", "vmin": low, "vmax": 0}
    image = _draw_cells(axis, cells, decays, [f"{eta:g}" for eta in etas], **options)
    axis.set(xlabel=r"$\gamma$", ylabel=r"$\eta_0$")
    return image


def map_figure(experiment: str, cells: Sequence[Row]) -> Any:
    """Draw a map: a panel for each network, a column for each condition number, the
    percentage in each cell.
    """
    conditions = sorted({cell["condition"] for cell in cells})
    settings = list(MAPS[experiment])
    labels = [row.label for row in MAPS[experiment].values()]
    panels = [(name, [*own]) for name, own in groupby(cells, itemgetter("network"))]
    n_rows = -(-len(panels) // 4)
    figure = new_figure(12.5, n_rows * (0.5 + 0.36 * len(settings)) + 0.5)
    axes = figure.subplots(n_rows, 4, squeeze=False, sharex=True, sharey=True)
    for axis, (network, mine) in zip(axes.flat, panels, strict=False):
        shown = {}
        for cell in mine:
            percent = cell["percent"]
            place = (
                conditions.index(cell["condition"]),
                settings.index(cell["setting"]),
            )
            shown[place] = percent, f"{percent:.0f}", percent <= 50
        options = {"cmap": "cividis", "vmin": 0, "vmax": 100}
        image = _draw_cells(axis, shown, conditions, labels, **options)
        axis.set_title(name_of(network))
    bar = figure.colorbar(image, ax=axes, shrink=0.7, pad=0.01)
    bar.set_label("% of matrices separated")
    figure.supxlabel("condition number of the mixing matrix")
    return figure
