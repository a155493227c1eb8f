"""The paper's figures: point clouds (1), circuit diagrams (2 and 3), error curves and images (4 and 5), the grid of appendix C."""

from collections.abc import Mapping, Sequence
from math import isfinite, isqrt, log10, nan
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from .. import datasets, estimators, metrics, plot
from ..sweep.run import outputs
from ..sweep.table import Row
from .plans import SETTINGS, Reproduction, plans_of

Array = NDArray[Any]
Point = tuple[float, float]

#: Points of a cloud of figure 1.
N_POINTS = 1000


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
    "ConeNetwork": Look("ConeNetwork", "#009E73", "-"),
    "MinimumVolumeCone": Look("MinimumVolumeCone (stream)", "#CC79A7", "-"),
    "BatchNICA": Look("BatchNICA (offline)", "#000000", "-."),
    "correlation floor": Look("correlation floor", "#7F7F7F", ":"),
}


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
    n_rows = -(-len(settings) // 3)
    n_columns = -(-len(settings) // n_rows)
    figure = new_figure(5.6 * n_columns, 4.8 * n_rows)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).flat
    for axis, setting in zip(axes, settings, strict=True):
        _draw_errors(axis, [row for row in rows if row["setting"] == setting])
        axis.set_title(SETTINGS.get(setting, setting), fontsize=11)
    _legend(figure, axes[0], 2 * n_columns)
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
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="samples, t",
        ylabel="error(t), mean over runs and 90 % interval",
        xlim=(1, end),
    )
    axis.grid(alpha=0.25, which="major", linewidth=0.6)
    plain(axis)
    tops = [row["high"] for row in rows if look(row["network"]).line == "-"]
    if tops:  # the paper's four networks fill the frame; curves far above them may leave it
        axis.set_ylim(top=min(axis.get_ylim()[1], 2 * max(tops)))


def images_figure(pictures: Sequence[tuple[str, Array]], shape: tuple[int, int], rows: Sequence[Row]) -> Any:
    """Draw rows of images with their titles on the left and error curves on the right (the paper's figure 5).

    `pictures` are arrays of shape (n_pixels, 3); `rows` are as for `error_figure`.
    """
    figure = new_figure(12.5, 6.6)
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    for axes, (title, images) in zip(left.subplots(len(pictures), 3), pictures, strict=True):
        plot.images(images, shape, axes=axes)
        axes[0].set_ylabel(title, fontsize=10)
    axis = right.subplots()
    _draw_errors(axis, rows)
    _legend(right, axis, 2)
    return figure


def check_images(images: str | None) -> Array:
    """Return the user's or scikit-image's images as sources, (n_pixels, 3): three, as the mixing matrix needs, and square."""
    try:
        S = datasets.natural_images(images)
    except (EOFError, BadZipFile, ValueError) as error:
        if type(error) is ValueError and "pickle" not in str(error):  # NumPy's message for bytes that are no array
            raise
        raise ValueError(f"{images} cannot be read: pass a folder of images, .npy or .npz") from error
    if S.shape[1] != 3:
        raise ValueError(f"{images} holds {S.shape[1]} images; the paper's mixing matrix is for 3")
    side = isqrt(len(S))
    if side**2 != len(S) or len(datasets.natural_images(images, size=side)) != len(S):
        raise ValueError(f"the images of {images} are not square: crop them, the paper's are 252 x 252")
    return S


def figure1_points(config: Reproduction) -> dict[str, Array]:
    """Return the point clouds of figure 1, and the indices of three sources to follow."""
    (case,) = plans_of(Reproduction(("figure1",), seed=config.seed))["figure1", "d2"].cases()
    _, S, X, Y = outputs(case)
    clouds: dict[str, Array] = {
        "sources": S,
        "mixtures": X,
        "whitened": np.asarray(estimators.NoncenteredWhitener(2).fit_transform(X)),
        "recovered": Y[:, metrics.match_sources(S, Y).permutation],
    }
    wanted = np.array([[0.45, 2.6], [2.5, 0.55], [1.9, 1.9]])
    tracked = np.array([np.argmin(((S[:N_POINTS] - point) ** 2).sum(axis=1)) for point in wanted])
    return {**{name: cloud[:N_POINTS] for name, cloud in clouds.items()}, "tracked": tracked}


def figure5_images(config: Reproduction) -> list[tuple[str, Array]]:
    """Return the rows of images of figure 5, (n_pixels, 3) each: sources, mixtures, outputs of the two networks.

    Outputs are those of the first run in the last presentation. A network that diverges is left out.
    """
    S = check_images(config.images)
    rows = [("Sources", S), ("Mixtures", datasets.mix(S, datasets.paper_mixing("images"))[0])]
    plan = plans_of(Reproduction(("figure5",), runs=1, seed=config.seed, epochs=config.epochs, images=config.images))
    for case, title in zip(plan["figure5", "images"].cases(), ("Algorithm 1", "Algorithm 2"), strict=False):
        try:
            _, presented, _, Y = outputs(case)
        except estimators.DivergenceError:
            continue
        order = case.data.order(case.seed)
        assert order is not None
        recovered = np.empty_like(S)
        recovered[order[-len(S) :]] = Y[-len(S) :, metrics.match_sources(presented, Y).permutation]
        rows.append((f"Recovered by\n{title}", recovered))
    return rows


_PANELS = (
    ("sources", "Sources", ("$s_1$", "$s_2$")),
    ("mixtures", "Mixtures", ("$x_1$", "$x_2$")),
    ("whitened", "Whitened mixtures", ("$h_1$", "$h_2$")),
    ("recovered", "Recovered sources", ("$y_1$", "$y_2$")),
)
_TRACKED = ("#D62728", "#1F77B4", "#FF7F0E")  # red, blue and orange, as the paper's
_ROWS = (2.4, 1.2, 0.0)
_INPUT, _OUTPUT, _INTER = "#7F7F7F", "#0072B2", "#E69F00"


def scatter_figure(clouds: Mapping[str, NDArray[Any]]) -> Any:
    """Draw the clouds "sources", "mixtures", "whitened" and "recovered", (n_points, 2) each, and the three points "tracked"."""
    figure = new_figure(13.0, 3.6)
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
    return figure


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


def _synapse(axis: Any, start: Point, end: Point, color: str, shift: float = 0.0, inhibit: bool = False) -> None:
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
        axis.set_title(f"{look(network).label}, {SETTINGS.get(setting, setting)}", fontsize=10)
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
