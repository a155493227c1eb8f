"""Figures from tables and arrays: error curves, images, learning and weights. The style of every figure is here too."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..io.write import Row

Array = NDArray[Any]


class Look(NamedTuple):
    """The label, colour and line of a method."""

    label: str
    color: str
    line: str


#: Colours that the colour-blind can distinguish (Okabe and Ito).
LOOKS = {
    "InterneuronNICA": Look("Algorithm 1 (interneurons)", "#0072B2", "-"),
    "TwoCompartmentNICA": Look("Algorithm 2 (2-compartmental)", "#D55E00", "-"),
    "TwoLayerNSM": Look("2-layer NSM", "#009E73", "-"),
    "NonnegativePCA": Look("Nonnegative PCA", "#CC79A7", "-"),
    "StreamingNICA": Look("StreamingNICA (ours, no tuning)", "#000000", "-"),
    "InterneuronNICA untuned": Look("Algorithm 1, ours untuned", "#0072B2", "--"),
    "TwoCompartmentNICA untuned": Look("Algorithm 2, ours untuned", "#D55E00", "--"),
    "InterneuronNICA as coded": Look("Algorithm 1, settings of the authors' code", "#0072B2", ":"),
    "TwoCompartmentNICA as coded": Look("Algorithm 2, settings of the authors' code", "#D55E00", ":"),
    "BatchNICA": Look("BatchNICA (offline)", "#000000", "-."),
    "FastICA": Look("FastICA (offline, best sign and scale)", "#7F7F7F", "-."),
    "correlation floor": Look("correlation floor", "#7F7F7F", ":"),
}

TITLES = {"d3": "3 sparse uniform sources", "d10": "10 sparse uniform sources", "images": "3 images"}


def look(network: str) -> Look:
    """Return how a method is drawn: an unknown one in black, under its own name."""
    return LOOKS.get(network, Look(network, "#000000", "-"))


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def plain(axis: Any) -> None:
    """Remove the upper and the right side of the frame."""
    axis.spines[["top", "right"]].set_visible(False)


def _log_log(axis: Any, xlabel: str, ylabel: str) -> None:
    axis.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axis.grid(alpha=0.25, which="major", linewidth=0.6)
    plain(axis)


def _legend(figure: Any, axis: Any, columns: int) -> None:
    """Put the legend of an axis below a figure, in at most this many columns, filled evenly."""
    handles, labels = axis.get_legend_handles_labels()
    rows = -(-len(labels) // columns)
    columns = -(-len(labels) // rows)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)


def error_figure(rows: Sequence[Row], settings: Sequence[str]) -> Any:
    """Draw the error curves of several settings side by side (the paper's figure 4).

    Rows have `setting`, `network`, `t`, `mean`, `low` and `high`; a network with a single time is a horizontal line.
    """
    figure = new_figure(5.6 * len(settings), 4.8)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for axis, setting in zip(axes, settings, strict=True):
        _draw_errors(axis, [row for row in rows if row["setting"] == setting])
        axis.set_title(TITLES.get(setting, setting), fontsize=11)
    _legend(figure, axes[0], 2 * len(settings))
    return figure


def _draw_errors(axis: Any, rows: Sequence[Row]) -> None:
    """Draw the curves of one setting."""
    end = max((row["t"] for row in rows), default=1)
    for network in dict.fromkeys(row["network"] for row in rows):
        mine = [row for row in rows if row["network"] == network]
        style = look(network)
        t, mean, low, high = ([row[name] for row in mine] for name in ("t", "mean", "low", "high"))
        if len(mine) == 1:  # an offline method: one error for all times
            axis.plot([1, end], 2 * mean, style.line, color=style.color, label=style.label, linewidth=1.2, zorder=1)
            continue
        axis.fill_between(t, low, high, color=style.color, alpha=0.18, linewidth=0)
        axis.plot(t, mean, style.line, color=style.color, label=style.label, linewidth=1.7, zorder=2)
    _log_log(axis, "samples, t", "error(t), mean over runs and 90 % interval")
    axis.set_xlim(1, end)
    tops = [row["high"] for row in rows if look(row["network"]).line == "-"]
    if tops:  # the paper's four networks fill the frame; curves far above them may leave it
        axis.set_ylim(top=min(axis.get_ylim()[1], 2 * max(tops)))


def separation_figure(sources: Array, mixtures: Array, recovered: Array, shape: tuple[int, int]) -> Any:
    """Draw three rows of images of a shape: the sources, the mixtures, and the recovered sources, in columns of the arrays."""
    rows = (("Sources", sources), ("Mixtures", mixtures), ("Recovered", recovered))
    figure = new_figure(2.2 * max(images.shape[1] for _, images in rows) + 0.4, 6.9)
    for axis, title in _draw_images(figure, rows, shape):
        axis.set_title(title, loc="left", fontsize=10)
    return figure


def images_figure(pictures: Sequence[tuple[str, Array]], shape: tuple[int, int], rows: Sequence[Row]) -> Any:
    """Draw rows of images with their titles on the left and error curves on the right (the paper's figure 5).

    `pictures` are arrays of shape (n_pixels, n_images); `rows` are as for `error_figure`.
    """
    figure = new_figure(12.5, 6.6)
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    for axis, title in _draw_images(left, pictures, shape):
        axis.set_ylabel(title, fontsize=10)
    axis = right.subplots()
    _draw_errors(axis, rows)
    _legend(right, axis, 2)
    return figure


def _draw_images(figure: Any, rows: Sequence[tuple[str, Array]], shape: tuple[int, int]) -> Sequence[tuple[Any, str]]:
    """Draw the rows; return the first axes and the title of each."""
    axes = figure.subplots(len(rows), max(images.shape[1] for _, images in rows), squeeze=False)
    for line, (_, images) in zip(axes, rows, strict=True):
        for axis, image in zip(line, images.T, strict=False):
            axis.imshow(image.reshape(shape), cmap="gray", interpolation="nearest")
        for axis in line:
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_visible(False)
    return [(line[0], title) for line, (title, _) in zip(axes, rows, strict=True)]


def learning_figure(curves: Mapping[str, Sequence[tuple[int, float]]], offline: Mapping[str, float]) -> Any:
    """Draw the errors of online methods against samples seen, log-log, and those of offline methods as horizontal lines."""
    figure = new_figure(6.6, 4.4)
    axis = figure.subplots()
    for name, points in curves.items():
        samples, errors = zip(*points, strict=True)
        axis.plot(samples, errors, look(name).line, color=look(name).color, label=look(name).label, linewidth=1.8)
    for name, error in offline.items():
        axis.axhline(error, color=look(name).color, linestyle=look(name).line, linewidth=1.2, label=look(name).label)
    _log_log(axis, "pixels seen", "mean squared error")
    axis.set_xlim(left=1)
    _legend(figure, axis, 2)
    return figure


def weights_figure(matrices: Sequence[tuple[str, Array, Sequence[str], Sequence[str]]]) -> Any:
    """Draw matrices side by side as coloured numbers, zero white, each on its own scale.

    A matrix comes with its title before it, and the names of its rows and columns after it.
    """
    figure = new_figure(3.0 * len(matrices), 3.1)
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axis, (title, W, rows, columns) in zip(axes, matrices, strict=True):
        largest = float(abs(W).max()) or 1.0
        axis.imshow(W, cmap="PuOr", vmin=-largest, vmax=largest)
        for (i, j), value in np.ndenumerate(W):
            color = "white" if abs(value) > 0.6 * largest else "black"
            axis.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=11, color=color)
        axis.set_xticks(range(len(columns)), columns, fontsize=9)
        axis.set_yticks(range(len(rows)), rows, fontsize=9)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(title, fontsize=11)
    return figure
