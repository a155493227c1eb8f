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
    """Draw the four point clouds in a row.

    Parameters
    ----------
    clouds : mapping
        "sources", "mixtures", "whitened", "recovered", each (n_points, 2), and "tracked", the indices of three points.

    Returns
    -------
    matplotlib.figure.Figure
    """
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
        _arrow(figure, left, right, step, 1.13, "arc3")
    _arrow(figure, axes[1], axes[3], "Algorithms 1 and 2: in one step", 1.2, "arc3,rad=-0.09")
    return figure


def _arrow(figure: Any, left: Any, right: Any, text: str, height: float, bend: str) -> None:
    """Draw an arrow above the axes, from the middle of one to the middle of another."""
    from matplotlib.patches import ConnectionPatch

    far = bend != "arc3"
    start, stop = (0.62, 0.38) if not far else (0.5, 0.5)
    figure.add_artist(
        ConnectionPatch(
            (start, height),
            (stop, height),
            "axes fraction",
            "axes fraction",
            axesA=left,
            axesB=right,
            arrowstyle="-|>",
            mutation_scale=12,
            connectionstyle=bend,
            color="#444444" if not far else "#0072B2",
        )
    )
    middle = right if not far else figure.axes[2]
    middle.text(
        -0.12 if not far else 0.5,
        height + (0.03 if not far else 0.15),
        text,
        transform=middle.transAxes,
        ha="center",
        va="bottom",
        fontsize=9,
        color="#444444" if not far else "#0072B2",
    )
