"""The paper's figure 1: two sources through mixing, whitening and rotation, three of them followed."""

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from .style import new_figure, plain

_PANELS = (
    ("sources", "Sources", ("$s_1$", "$s_2$")),
    ("mixtures", "Mixtures", ("$x_1$", "$x_2$")),
    ("whitened", "Whitened mixtures", ("$h_1$", "$h_2$")),
    ("recovered", "Recovered sources", ("$y_1$", "$y_2$")),
)
_STEPS = ("mix", "whiten", "rotate")
_TRACKED = ("#D62728", "#1F77B4", "#FF7F0E")  # red, blue and orange, as the paper's


def scatter_figure(clouds: Mapping[str, NDArray[Any]]) -> Any:
    """Draw the clouds "sources", "mixtures", "whitened" and "recovered", (n_points, 2) each, and the three points "tracked"."""
    figure = new_figure(13.0, 4.1)
    figure.get_layout_engine().set(w_pad=0.12, rect=(0, 0, 1, 0.95))
    axes = figure.subplots(1, 4)
    for axis, (name, title, labels) in zip(axes, _PANELS, strict=True):
        points = clouds[name]
        axis.axhline(0, color="0.75", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.75", linewidth=0.8, zorder=0)
        axis.scatter(*points.T, s=5, color="0.45", alpha=0.5, linewidths=0)
        for index, color in zip(clouds["tracked"], _TRACKED, strict=True):
            axis.scatter(*points[index], s=75, color=color, edgecolors="white", linewidths=1.2, zorder=3)
        axis.set_title(title, fontsize=11)
        axis.set_xlabel(labels[0])
        axis.set_ylabel(labels[1], rotation=0)
        axis.set_aspect("equal", adjustable="datalim")
        axis.locator_params(nbins=5)
        plain(axis)
    for left, right, step in zip(axes, axes[1:], _STEPS, strict=False):
        _arrow(figure, (left, 0.62), (right, 0.38), 1.13, "arc3", "#444444")
        _label(right, -0.12, 1.16, step, "#444444")
    _arrow(figure, (axes[1], 0.5), (axes[3], 0.5), 1.2, "arc3,rad=-0.09", "#0072B2")
    _label(axes[2], 0.5, 1.35, "Algorithms 1 and 2: in one step", "#0072B2")
    return figure


def _arrow(
    figure: Any, start: tuple[Any, float], stop: tuple[Any, float], height: float, bend: str, color: str
) -> None:
    """Draw an arrow above the axes, between places in two of them."""
    from matplotlib.patches import ConnectionPatch

    places: dict[str, Any] = {"xyA": (start[1], height), "xyB": (stop[1], height), "axesA": start[0], "axesB": stop[0]}
    style: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 12, "connectionstyle": bend, "color": color}
    figure.add_artist(ConnectionPatch(coordsA="axes fraction", coordsB="axes fraction", **places, **style))


def _label(axis: Any, x: float, y: float, text: str, color: str) -> None:
    axis.text(x, y, text, transform=axis.transAxes, ha="center", va="bottom", fontsize=9, color=color)
