"""The two networks as circuit diagrams (the paper's figures 2 and 3)."""

from typing import Any, Literal

from .style import LOOKS, new_figure

Place = tuple[float, float]

_ROWS = (2.4, 1.2, 0.0)
_INPUT, _OUTPUT, _INTER = "#7F7F7F", "#0072B2", "#E69F00"


def network_diagram(network: Literal["InterneuronNICA", "TwoCompartmentNICA"]) -> Any:
    """Draw Algorithm 1 with its interneurons, or Algorithm 2 with its dendrites and somas.

    Examples
    --------
    >>> len(network_diagram("InterneuronNICA").axes)
    1
    """
    figure = new_figure(6.0, 4.2)
    axis = figure.subplots()
    axis.set_axis_off()
    axis.set_aspect("equal")
    axis.set_xlim(-0.8, 6.0 if network == "InterneuronNICA" else 6.8)
    axis.set_ylim(-0.9, 3.6)
    axis.set_title(LOOKS[network].label, fontsize=11)
    _neurons(axis, 0.0, "x", "inputs", "k", _INPUT)
    if network == "InterneuronNICA":
        _interneurons(axis)
    else:
        _compartments(axis)
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
    for upper, lower, width in ((0, 1, -0.6), (1, 2, -0.6), (0, 2, -0.75)):
        _arc(axis, (4.25, _ROWS[upper]), (4.25, _ROWS[lower]), width)
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
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = float((dx**2 + dy**2) ** 0.5)
    ux, uy = dx / length, dy / length
    ox, oy = -uy * shift, ux * shift
    head = "|-|, widthA=0, widthB=0.35" if inhibit else "-|>"
    axis.annotate(
        "",
        (end[0] - 0.36 * ux + ox, end[1] - 0.36 * uy + oy),
        (start[0] + 0.3 * ux + ox, start[1] + 0.3 * uy + oy),
        arrowprops={"arrowstyle": head, "color": color, "lw": 0.9, "alpha": 0.75, "mutation_scale": 9},
    )


def _arc(axis: Any, start: Place, end: Place, width: float) -> None:
    bars = {"arrowstyle": "|-|, widthA=0.2, widthB=0.2", "connectionstyle": f"arc3,rad={width}", "mutation_scale": 12}
    ends = (end[0] + 0.33, end[1] + 0.06), (start[0] + 0.33, start[1] - 0.06)
    axis.annotate("", *ends, arrowprops={**bars, "color": "#D55E00", "lw": 1.2})
