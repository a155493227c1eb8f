"""The paper's own figures: point clouds (1), circuit diagrams (2 and 3) and the grid search of appendix C."""

from collections.abc import Mapping, Sequence
from math import isfinite, log10, nan
from typing import Any

from numpy.typing import NDArray

from ..io.write import Row
from .figures import TITLES, look, new_figure, plain

Place = tuple[float, float]

_PANELS = (
    ("sources", "Sources", ("$s_1$", "$s_2$")),
    ("mixtures", "Mixtures", ("$x_1$", "$x_2$")),
    ("whitened", "Whitened mixtures", ("$h_1$", "$h_2$")),
    ("recovered", "Recovered sources", ("$y_1$", "$y_2$")),
)
_STEPS = ("mix", "whiten", "rotate")
_TRACKED = ("#D62728", "#1F77B4", "#FF7F0E")  # red, blue and orange, as the paper's
_ROWS = (2.4, 1.2, 0.0)
_INPUT, _OUTPUT, _INTER = "#7F7F7F", "#0072B2", "#E69F00"


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
        _arrow(figure, (left, 0.62), (right, 0.38), 1.13, color="#444444")
        _label(right, -0.12, 1.16, step, "#444444")
    _arrow(figure, (axes[1], 0.5), (axes[3], 0.5), 1.2, connectionstyle="arc3,rad=-0.09", color="#0072B2")
    _label(axes[2], 0.5, 1.35, "Algorithms 1 and 2: in one step", "#0072B2")
    return figure


def _arrow(figure: Any, start: tuple[Any, float], stop: tuple[Any, float], height: float, **style: Any) -> None:
    """Draw an arrow above the axes, between places in two of them."""
    from matplotlib.patches import ConnectionPatch

    places = {"xyA": (start[1], height), "xyB": (stop[1], height), "axesA": start[0], "axesB": stop[0]}
    style |= places | {
        "coordsA": "axes fraction",
        "coordsB": "axes fraction",
        "arrowstyle": "-|>",
        "mutation_scale": 12,
    }
    figure.add_artist(ConnectionPatch(**style))


def _label(axis: Any, x: float, y: float, text: str, color: str) -> None:
    axis.text(x, y, text, transform=axis.transAxes, ha="center", va="bottom", fontsize=9, color=color)


def network_diagram(network: str) -> Any:
    """Draw Algorithm 1 with its interneurons, or Algorithm 2 with its dendrites and somas."""
    figure = new_figure(6.0, 4.2)
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set(aspect="equal", xlim=(-0.8, 6.0 if network == "InterneuronNICA" else 6.8), ylim=(-0.9, 3.6))
    axis.set_title(look(network).label, fontsize=11)
    _neurons(axis, 0.0, "x", "inputs", "k", _INPUT)
    (_interneurons if network == "InterneuronNICA" else _compartments)(axis)
    return figure


def _interneurons(axis: Any) -> None:
    for y in _ROWS:
        for target in _ROWS:
            _synapse(axis, (0.0, y), (2.6, target), _INPUT)
            _synapse(axis, (2.6, y), (5.2, target), _OUTPUT, shift=0.07)
            _synapse(axis, (5.2, target), (2.6, y), _INTER, shift=0.07, inhibit=True)
    _neurons(axis, 2.6, "y", "principal neurons", "d", _OUTPUT)
    _neurons(axis, 5.2, "n", "interneurons", "m", _INTER)
    axis.text(1.3, 2.92, r"$W_{xy}$", ha="center", color="#333333", fontsize=12)
    axis.text(3.9, 2.95, r"$W_{yn}$ (out),  $-W_{ny}$ (back)", ha="center", color="#333333", fontsize=11)
    note = "arrows excite, bars inhibit; every synapse learns from its two neurons"
    axis.text(2.6, -0.85, note, ha="center", fontsize=8)


def _compartments(axis: Any) -> None:
    for y in _ROWS:
        for target in _ROWS:
            _synapse(axis, (0.0, y), (2.6, target), _INPUT)
        axis.annotate("", (3.95, y), (2.85, y), arrowprops={"arrowstyle": "-|>", "color": _OUTPUT, "lw": 1.6})
    # W_zz is symmetric: each pair of somas once, as arcs of growing width with a bar at both ends.
    bars = {"arrowstyle": "|-|, widthA=0.2, widthB=0.2", "mutation_scale": 12, "color": "#D55E00", "lw": 1.2}
    for upper, lower, width in ((0, 1, -0.6), (1, 2, -0.6), (0, 2, -0.75)):
        ends = (4.58, _ROWS[lower] + 0.06), (4.58, _ROWS[upper] - 0.06)
        axis.annotate("", *ends, arrowprops={**bars, "connectionstyle": f"arc3,rad={width}"})
    _neurons(axis, 2.6, "c", "dendrites", "d", "#56B4E9")
    _neurons(axis, 4.25, "z", "somas", "d", _OUTPUT)
    axis.text(1.3, 2.92, r"$W_{xz}$", ha="center", color="#333333", fontsize=12)
    axis.text(6.15, 1.2, r"$-W_{zz}$", ha="center", va="center", color="#333333", fontsize=12)
    axis.text(3.0, -0.85, "a dendrite and its soma are one neuron; bars inhibit", ha="center", fontsize=8)


def _neurons(axis: Any, x: float, symbol: str, title: str, count: str, color: str) -> None:
    from matplotlib.patches import Circle

    for y, index in zip(_ROWS, ("1", "2", count), strict=True):
        axis.add_patch(Circle((x, y), 0.3, facecolor=color, edgecolor="white", linewidth=1.5, zorder=3))
        axis.text(x, y, f"${symbol}_{index}$", ha="center", va="center", color="white", fontsize=11, zorder=4)
    axis.text(x, 0.62, "⋮", ha="center", va="center", fontsize=14, zorder=4, color="#333333")
    axis.text(x, 3.3, title, ha="center", fontsize=9, color=color)


def _synapse(axis: Any, start: Place, end: Place, color: str, shift: float = 0.0, inhibit: bool = False) -> None:
    """Draw a connection between the rims of two neurons, moved sideways by `shift`."""
    a, b = complex(*start), complex(*end)
    u = (b - a) / abs(b - a)
    a, b = a + (0.3 + shift * 1j) * u, b + (-0.36 + shift * 1j) * u
    style: dict[str, Any] = {"arrowstyle": "|-|, widthA=0, widthB=0.35" if inhibit else "-|>", "color": color}
    style |= {"lw": 0.9, "alpha": 0.75, "mutation_scale": 9}
    axis.annotate("", (b.real, b.imag), (a.real, a.imag), arrowprops=style)


def grid_figure(rows: Sequence[Row]) -> Any:
    """Draw the error at every learning rate and decay; of several tau, the best.

    Rows have `setting`, `network`, `eta0`, `decay`, `tau`, `error` (infinite if a run failed) and `paper`, whether it is the
    paper's choice.
    """
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    networks = list(dict.fromkeys(row["network"] for row in rows))
    finite = [row["error"] for row in rows if isfinite(row["error"])]
    limits = {"vmin": log10(min(finite)), "vmax": min(0.0, log10(max(finite)))} if finite else {}
    panels = [(setting, network) for setting in settings for network in networks]
    figure = new_figure(11.0, 4.2 * ((len(panels) + 1) // 2) + 0.5)
    axes = figure.subplots((len(panels) + 1) // 2, 2, squeeze=False)
    for axis, (setting, network) in zip(axes.flat, panels, strict=False):
        mine = [row for row in rows if (row["setting"], row["network"]) == (setting, network)]
        image = _map(axis, mine, limits)
        axis.set_title(f"{look(network).label}, {TITLES.get(setting, setting)}", fontsize=10)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label(r"$\log_{10}$ of the final error; 1 and more are drawn alike")
    figure.supxlabel("square: best here; circle: the paper's choice; ×: diverged or forbidden", fontsize=10)
    return figure


def _map(axis: Any, rows: Sequence[Row], limits: dict[str, float]) -> Any:
    etas = sorted({row["eta0"] for row in rows})
    decays = sorted({row["decay"] for row in rows})
    best: dict[tuple[int, int], Row] = {}  # by column and row of the map
    for row in sorted(rows, key=lambda row: float(row["error"])):
        best.setdefault((decays.index(row["decay"]), etas.index(row["eta0"])), row)
    values = [[_log(best[x, y]["error"]) for x in range(len(decays))] for y in range(len(etas))]
    image = axis.imshow(values, origin="lower", cmap="viridis_r", aspect="auto", **limits)
    for (x, y), row in best.items():
        text = "×" if not isfinite(row["error"]) else f"{row['error']:.2g}" if row["error"] < 100 else "> 100"
        if row["tau"] is not None and isfinite(row["error"]):
            text += f"\nτ {row['tau']:g}"
        color = "white" if limits and _log(row["error"]) > sum(limits.values()) / 2 else "black"
        axis.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
    ring = {"fillstyle": "none", "markeredgewidth": 2}
    axis.plot(*next(iter(best)), "s", markersize=38, color="#D62728", **ring)
    for row in (row for row in rows if row["paper"]):
        axis.plot(decays.index(row["decay"]), etas.index(row["eta0"]), "o", markersize=43, color="#FF7F0E", **ring)
    axis.set_xticks(range(len(decays)), [_power(value) for value in decays])
    axis.set_yticks(range(len(etas)), [_power(value) for value in etas])
    axis.set(xlabel=r"$\gamma$", ylabel=r"$\eta_0$")
    return image


def _log(error: float) -> float:
    return log10(error) if isfinite(error) else nan


def _power(value: float) -> str:
    return f"$10^{{{round(log10(value))}}}$"
