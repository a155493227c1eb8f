"""Cost of a sample against the sizes of a problem."""

from collections.abc import Sequence
from typing import Any

from ..io.tables import Row
from .style import legend_columns, look, new_figure, plain

AXES = {"d": "sources and mixtures, d", "k": "mixtures k of 10 sources", "T": "samples of a stream, T"}


def growth_figure(rows: Sequence[Row]) -> Any:
    """Draw ns a sample along d, k and T, log-log.

    Parameters
    ----------
    rows : sequence of dict
        With `along` ("d", "k" or "T"), `value`, `network` and `ns`.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> rows = [dict(along=along, value=v, network="TwoLayerNSM", ns=100 * v) for along in "dkT" for v in (3, 10)]
    >>> len(growth_figure(rows).axes)
    3
    """
    figure = new_figure(13.0, 4.6)
    axes = figure.subplots(1, len(AXES), sharey=True)
    for axis, (along, label) in zip(axes, AXES.items(), strict=True):
        mine = [row for row in rows if row["along"] == along]
        for network in dict.fromkeys(row["network"] for row in mine):
            curve = [(row["value"], row["ns"]) for row in mine if row["network"] == network]
            style = look(network)
            axis.plot(
                *zip(*curve, strict=True), style.line, color=style.color, label=style.label, marker="o", markersize=4
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(label)
        axis.grid(alpha=0.25, which="major", linewidth=0.6)
        plain(axis)
    sizes = sorted({row["value"] for row in rows if row["along"] == "d"})
    axes[0].set_xticks(sizes, [str(d) for d in sizes])
    axes[0].minorticks_off()
    axes[0].set_ylabel("ns a sample, learning")
    handles, labels = axes[0].get_legend_handles_labels()
    columns = legend_columns(len(labels), 3)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, fontsize=9)
    return figure
