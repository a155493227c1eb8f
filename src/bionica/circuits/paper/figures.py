"""Figures: point clouds (1), circuits (2, 3), error curves (4), images (5), the grid of
appendix C, maps of convergence.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from math import isfinite, isqrt, log10, nan
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bionica import datasets, metrics
from bionica.circuits import plot
from bionica.circuits.paper.plans import MAPS, SETTINGS, TUNED, Reproduction, plans_of
from bionica.circuits.sweep.run import learn
from bionica.circuits.sweep.table import Row
from bionica.core.errors import DivergenceError
from bionica.core.plot import new_figure
from bionica.core.whitening import leading

Array = NDArray[Any]

#: Points of a cloud of figure 1.
N_POINTS = 1000
_CLOUDS = {
    "sources": "s",
    "mixtures": "x",
    "whitened mixtures": "h",
    "recovered sources": "y",
}
_TRACKED = ("#D62728", "#1F77B4", "#FF7F0E")  # red, blue and orange, as the paper's


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
    return label_of(network).split(" (")[0] + (", table 1" if network in TUNED else "")


def _legend(figure: Any, axis: Any, columns: int) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )


def error_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the error curves of several settings side by side (the paper's figure 4)."""
    settings = [
        setting for setting in SETTINGS if setting in {row["setting"] for row in rows}
    ]
    figure = new_figure(5.6 * len(settings), 4.8)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for axis, setting in zip(axes, settings, strict=True):
        _draw_errors(axis, [row for row in rows if row["setting"] == setting])
        axis.set_title(SETTINGS[setting], fontsize=11)
    _legend(figure, axes[0], 3)
    return figure


def _draw_errors(axis: Any, rows: Sequence[Row]) -> None:
    """Draw means and their confidence intervals, as the paper says."""
    end = max((row["t"] for row in rows), default=1)
    for network in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == network]
        label, color, line = LOOKS[network]
        t, middle, lower, upper = (
            [row[name] for row in mine] for name in ("t", "mean", "low", "high")
        )
        if len(mine) == 1:  # an offline method: one error for all times
            axis.plot(
                [1, end],
                2 * middle,
                line,
                color=color,
                label=label,
                linewidth=1.2,
                zorder=1,
            )
        else:
            axis.fill_between(t, lower, upper, color=color, alpha=0.18, linewidth=0)
            axis.plot(
                t, middle, line, color=color, label=label, linewidth=1.7, zorder=2
            )
    axis.set(
        xscale="log",
        yscale="log",
        xlim=(1, end),
        xlabel="samples, t",
        ylabel="error(t), mean and 90 % interval",
    )
    axis.grid(alpha=0.25, which="major", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    tops = [row["high"] for row in rows if LOOKS[row["network"]][2] == "-"]
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
    side = isqrt(len(S))
    if (
        S.shape[1] != 3
        or side**2 != len(S)
        or len(datasets.natural_images(images, size=side)) != len(S)
    ):
        raise ValueError(
            f"{images} holds {S.shape[1]} images of {len(S)} pixels: the paper's are 3"
            " square ones"
        )
    return S


def scatter_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw sources, mixtures, whitened mixtures and recovered sources, and follow three
    of the sources (figure 1).
    """
    (case,) = plans_of(replace(config, experiments=("figure1",)))[
        "figure1", "d2"
    ].cases()
    *_, S, X, Y = learn(case)
    whitened = X @ leading(X, 2).matrix.T
    clouds = (S, X, whitened, Y[:, metrics.match_sources(S, Y).permutation])
    corners = np.array([[0.45, 2.6], [2.5, 0.55], [1.9, 1.9]])
    tracked = [
        np.argmin(((S[:N_POINTS] - corner) ** 2).sum(axis=1)) for corner in corners
    ]
    figure = new_figure(13.0, 3.6)
    for axis, cloud, (name, symbol) in zip(
        figure.subplots(1, 4), clouds, _CLOUDS.items(), strict=True
    ):
        axis.axhline(0, color="0.75", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.75", linewidth=0.8, zorder=0)
        axis.scatter(*cloud[:N_POINTS].T, s=5, color="0.45", alpha=0.5, linewidths=0)
        axis.scatter(
            *cloud[tracked].T,
            s=75,
            c=_TRACKED,
            edgecolors="white",
            linewidths=1.2,
            zorder=3,
        )
        axis.set_title(name.capitalize(), fontsize=11)
        axis.set_xlabel(f"${symbol}_1$")
        axis.set_ylabel(f"${symbol}_2$", rotation=0)
        axis.set_aspect("equal", adjustable="datalim")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def circuit_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the circuit of a network with the weights that it has learned (figures 2 and
    3).
    """
    experiment = rows[0]["experiment"]
    (case,) = plans_of(replace(config, experiments=(experiment,)))[
        experiment, "d3"
    ].cases()
    figure = new_figure(5.6, 4.4)
    plot.circuit(learn(case)[1], ax=figure.subplots())
    return figure


def images_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw sources, mixtures and outputs of the two networks as images, and error
    curves beside them (figure 5).

    Outputs are those of the first run in the last presentation; a network that diverges
    is left out.
    """
    S = check_images(config.images)
    pictures = [
        ("Sources", S),
        ("Mixtures", datasets.mix(S, datasets.paper_mixing("images"))[0]),
    ]
    plan = plans_of(replace(config, experiments=("figure5",), runs=1))[
        "figure5", "images"
    ]
    for case, title in zip(plan.cases(), ("Algorithm 1", "Algorithm 2"), strict=False):
        with suppress(DivergenceError):
            *_, presented, _, Y = learn(case)
            order = case.data.order(case.seed)
            assert order is not None
            recovered = np.empty_like(S)
            recovered[order[-len(S) :]] = Y[
                -len(S) :, metrics.match_sources(presented, Y).permutation
            ]
            pictures.append((f"Recovered by\n{title}", recovered))
    figure = new_figure(12.5, 6.6)
    side = isqrt(len(S))
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    for axes, (title, images) in zip(
        left.subplots(len(pictures), 3), pictures, strict=True
    ):
        plot.images(images, (side, side), axes=axes)
        axes[0].set_ylabel(title, fontsize=10)
    axis = right.subplots()
    _draw_errors(axis, rows)
    _legend(right, axis, 2)
    return figure


def grid_figure(config: Reproduction, rows: Sequence[Row]) -> Any:
    """Draw the error at every learning rate and decay, of several tau the best; rows
    are `results.grid_means`.
    """
    panels = [
        (network, list(mine)) for network, mine in groupby(rows, itemgetter("network"))
    ]
    finite = [row["error"] for row in rows if isfinite(row["error"])] or [1.0]
    limits = {"vmin": log10(min(finite)), "vmax": min(0.0, log10(max(finite)))}
    figure = new_figure(11.0, 8.9)
    axes = figure.subplots(2, 2)
    for axis, (network, mine) in zip(axes.flat, panels, strict=True):
        image = _draw_grid(axis, mine, limits)
        axis.set_title(f"{label_of(network)}, d = 3", fontsize=10)
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label(r"$\log_{10}$ of the final error; 1 and more are drawn alike")
    figure.supxlabel(
        "square: best here; circle: the paper's choice; ×: diverged or forbidden",
        fontsize=10,
    )
    return figure


def _draw_grid(axis: Any, rows: Sequence[Row], limits: dict[str, float]) -> Any:
    etas, decays = (sorted({row[name] for row in rows}) for name in ("eta0", "decay"))

    def position(row: Row) -> tuple[int, int]:
        return decays.index(row["decay"]), etas.index(row["eta0"])

    values = np.full((len(etas), len(decays)), nan)
    best: dict[tuple[int, int], Row] = {}
    for row in sorted(rows, key=lambda row: float(row["error"])):
        best.setdefault(position(row), row)
    for (x, y), row in best.items():
        error = row["error"]
        text = "×"
        color = "black"
        if isfinite(error):
            values[y, x] = log10(error)
            text = f"{error:.2g}" if error < 100 else "> 100"
            text += "" if row["tau"] is None else f"\nτ {row['tau']:g}"
            color = "white" if values[y, x] > sum(limits.values()) / 2 else "black"
        axis.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
    image = axis.imshow(
        values, origin="lower", cmap="viridis_r", aspect="auto", **limits
    )
    ring = {"fillstyle": "none", "markeredgewidth": 2}
    axis.plot(*next(iter(best)), "s", markersize=38, color="#D62728", **ring)
    for row in (row for row in rows if row["paper"]):
        axis.plot(*position(row), "o", markersize=43, color="#FF7F0E", **ring)
    axis.set_xticks(range(len(decays)), [f"{value:g}" for value in decays])
    axis.set_yticks(range(len(etas)), [f"{value:g}" for value in etas])
    axis.set(xlabel=r"$\gamma$", ylabel=r"$\eta_0$")
    return image


def map_figure(experiment: str, cells: Sequence[Row]) -> Any:
    """Draw a map: a panel for each network, a column for each condition number, the
    percentage in each cell.
    """
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
            axis.text(
                *place[::-1],
                f"{cell['percent']:.0f}",
                ha="center",
                va="center",
                fontsize=9,
                color=color,
            )
        image = axis.imshow(share, cmap="cividis", vmin=0, vmax=100, aspect="auto")
        axis.set_title(name_of(network), fontsize=10)
        axis.set_xticks(
            range(len(conditions)), [f"{condition:g}" for condition in conditions]
        )
        axis.set_yticks(
            range(len(settings)),
            [MAPS[experiment][setting].label for setting in settings],
            fontsize=9,
        )
        axis.tick_params(length=0)
    figure.colorbar(
        image, ax=axes, shrink=0.7, pad=0.01, label="% of matrices separated"
    )
    figure.supxlabel("condition number of the mixing matrix", fontsize=10)
    return figure
