"""How one network learned: its error against the samples seen, and its final weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .style import new_figure, plain

Array = NDArray[Any]

#: Colour and line of each curve, in the order in which they are given.
_LINES = (("#D55E00", "-"), ("#0072B2", "--"), ("#009E73", "-."))


def learning_figure(curves: Sequence[tuple[str, Sequence[tuple[int, float]]]], floor: float | None = None) -> Any:
    """Draw curves of error against samples seen, log-log, each with its label, and the correlation floor of the sources.

    Examples
    --------
    >>> len(learning_figure([("stream", [(10, 0.5), (100, 0.1)])], floor=0.01).axes)
    1
    """
    figure = new_figure(8.0, 4.2)
    axis = figure.subplots()
    for (label, points), (color, line) in zip(curves, _LINES, strict=False):
        samples, errors = zip(*points, strict=True)
        axis.plot(samples, errors, line, color=color, label=label, linewidth=1.8)
    if floor is not None:
        axis.axhline(floor, color="#7F7F7F", linestyle=":", linewidth=1.2, label="correlation of the sources alone")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("pixels seen")
    axis.set_ylabel("mean squared error")
    axis.grid(alpha=0.25, which="major", linewidth=0.6)
    plain(axis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def weights_figure(matrices: Sequence[tuple[str, Array, Sequence[str], Sequence[str]]]) -> Any:
    """Draw matrices side by side as coloured numbers, zero white, each on its own scale.

    A matrix comes with its title before it, and the names of its rows and columns after it.

    Examples
    --------
    >>> import numpy as np
    >>> len(weights_figure([("W", np.eye(2), "ab", "cd")]).axes)
    1
    """
    figure = new_figure(3.6 * len(matrices), 3.7)
    axes = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axis, (title, W, rows, columns) in zip(axes, matrices, strict=True):
        largest = float(abs(W).max()) or 1.0
        axis.imshow(W, cmap="PuOr", vmin=-largest, vmax=largest)
        for (i, j), value in np.ndenumerate(W):
            color = "white" if abs(value) > 0.6 * largest else "black"
            axis.text(j, i, f"{value:.3f}", ha="center", va="center", fontsize=10, color=color)
        axis.set_xticks(range(len(columns)), columns, fontsize=9)
        axis.set_yticks(range(len(rows)), rows, fontsize=9)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        axis.set_title(title, fontsize=11)
    return figure
