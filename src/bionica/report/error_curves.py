"""Error against time, log-log: means and intervals over runs."""

from collections.abc import Sequence
from typing import Any

from ..io.tables import Row
from .style import TITLES, legend_columns, look, new_figure, plain

__all__ = ["draw_errors", "error_figure"]


def error_figure(rows: Sequence[Row], settings: Sequence[str]) -> Any:
    """Draw the error curves of several settings side by side (the paper's figure 4).

    Rows have `setting`, `network`, `t`, `mean`, `low` and `high`; a network with a single time is a horizontal line.

    Examples
    --------
    >>> rows = [dict(setting="d3", network="TwoLayerNSM", t=t, mean=1 / t, low=0.5 / t, high=2 / t) for t in (1, 10)]
    >>> len(error_figure(rows, ["d3"]).axes)
    1
    """
    figure = new_figure(5.6 * len(settings), 4.8)
    axes = figure.subplots(1, len(settings), squeeze=False)[0]
    for axis, setting in zip(axes, settings, strict=True):
        draw_errors(axis, [row for row in rows if row["setting"] == setting])
        axis.set_title(TITLES.get(setting, setting), fontsize=11)
    handles, labels = axes[0].get_legend_handles_labels()
    columns = legend_columns(len(labels), 2 * len(settings))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure


def draw_errors(axis: Any, rows: Sequence[Row]) -> None:
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
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(1, end)
    tops = [row["high"] for row in rows if look(row["network"]).line == "-"]
    if tops:  # the paper's four networks fill the frame; curves far above them may leave it
        axis.set_ylim(top=min(axis.get_ylim()[1], 2 * max(tops)))
    axis.set_xlabel("samples, t")
    axis.set_ylabel("error(t), mean over runs and 90 % interval")
    axis.grid(alpha=0.25, which="major", linewidth=0.6)
    plain(axis)
