"""The grid search of appendix C as maps of the error."""

from collections.abc import Sequence
from math import isfinite, log10
from typing import Any

from ..io.tables import Row
from .style import TITLES, look, new_figure


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
    best: dict[tuple[float, float], Row] = {}
    for row in rows:
        place = row["eta0"], row["decay"]
        if place not in best or row["error"] < best[place]["error"]:
            best[place] = row
    values = [[_log(best[eta, decay]["error"]) for decay in decays] for eta in etas]
    image = axis.imshow(values, origin="lower", cmap="viridis_r", aspect="auto", **limits)
    for (eta, decay), row in best.items():
        x, y = decays.index(decay), etas.index(eta)
        dark = bool(limits) and _log(row["error"]) > sum(limits.values()) / 2
        text = _short(row["error"])
        if row["tau"] is not None and isfinite(row["error"]):
            text += f"\nτ {row['tau']:g}"
        color = "white" if dark else "black"
        axis.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
    winner = min(rows, key=lambda row: float(row["error"]))
    axis.plot(*_place(winner, decays, etas), "s", markersize=38, fillstyle="none", color="#D62728", markeredgewidth=2)
    for row in rows:
        if row["paper"]:
            place = _place(row, decays, etas)
            axis.plot(*place, "o", markersize=43, fillstyle="none", color="#FF7F0E", markeredgewidth=2)
    axis.set_xticks(range(len(decays)), [_power(value) for value in decays])
    axis.set_yticks(range(len(etas)), [_power(value) for value in etas])
    axis.set_xlabel(r"$\gamma$")
    axis.set_ylabel(r"$\eta_0$")
    return image


def _place(row: Row, decays: list[float], etas: list[float]) -> tuple[int, int]:
    return decays.index(row["decay"]), etas.index(row["eta0"])


def _short(error: float) -> str:
    if not isfinite(error):
        return "×"
    return f"{error:.2g}" if error < 100 else "> 100"


def _log(error: float) -> float:
    return log10(error) if isfinite(error) else float("nan")


def _power(value: float) -> str:
    return f"$10^{{{round(log10(value))}}}$"
