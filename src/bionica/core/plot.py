"""What the plots of circuits and of mixtures share: axes, checks, images and matrices.

`images` and `weights` are public in `bionica.circuits.plot` and
`bionica.mixtures.plot`.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Names = Sequence[str] | None

# rows and columns whose numbers are written, and that have labels of their own
_NUMBERS = 12
_LABELS = 30


def axes_or_new(ax: Any, width: float = 6.4, height: float = 3.6) -> Any:
    """Return `ax`, or axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size in inches, outside pyplot."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def checked_matrix(values: ArrayLike, name: str) -> np.ndarray:
    """Return a matrix in float64, or say what to pass."""
    if hasattr(values, "get_params"):
        raise TypeError(
            f"{name} is a {type(values).__name__}: pass a matrix, such as what its"
            " transform(X) returns"
        )
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has shape {matrix.shape}: pass a matrix, (n_samples, n_sources) or"
            " weights"
        )
    return matrix


def largest(values: np.ndarray) -> np.ndarray:
    """Return the largest absolute value of each column, or a tiny number: a divisor."""
    return np.maximum(
        np.nanmax(np.abs(values), axis=0, initial=0.0), np.finfo(float).tiny
    )


def images(
    Y: ArrayLike, shape: tuple[int, ...], *, names: Names = None, axes: Any = None
) -> Any:
    """Draw sources as images side by side, from 0 (black) to their 99.9 % quantile.

    Parameters
    ----------
    Y : array-like of shape (n_pixels, n_sources)
        Sources, one row per pixel, or per colour of a pixel.
    shape : (int, int) or (int, int, 3)
        Height and width, and 3 for colours.
    names : sequence of str, optional
        Titles.
    axes : sequence of matplotlib Axes, optional
        One for each source; a new figure by default. Returned, as an array.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures import plot
    >>> plot.images(np.random.default_rng(0).random((100, 3)), (10, 10)).shape
    (3,)
    """
    Y = checked_matrix(Y, "Y")
    if prod(shape) != len(Y):
        raise ValueError(
            f"shape={shape} has {prod(shape)} pixels, but Y has {len(Y)} rows: pass"
            " height and width"
        )
    if axes is None:
        import matplotlib.pyplot as plt

        size = (2.4 * Y.shape[1], 2.4 * shape[0] / shape[1] + 0.4)
        figure = plt.figure(figsize=size, layout="constrained")
        axes = figure.subplots(1, Y.shape[1], squeeze=False)[0]
    axes = np.ravel(axes)
    columns = (Y / largest(Y)).T  # in the range of float32
    for ax, y, title in zip(axes, columns, names or [""] * len(axes), strict=True):
        picture = np.clip(y, 0, 1) if len(shape) == 3 else y
        ax.imshow(
            picture.reshape(shape),
            cmap="gray",
            vmin=min(0.0, np.nanmin(y)),  # masked pixels are NaN
            vmax=np.nanquantile(y, 0.999) or None,
        )
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=10)
    return axes


def weights(
    W: ArrayLike, *, rows: Names = None, columns: Names = None, ax: Any = None
) -> Any:
    """Draw a matrix as an image, with zero white and the numbers of a small matrix.

    Parameters
    ----------
    W : array-like of shape (n_outputs, n_inputs)
        Weights, for example `mixing_`.
    rows, columns : sequence of str, optional
        Names of the rows and columns; their numbers by default.
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures import plot
    >>> ax = plot.weights(np.eye(3), columns=["red", "green", "blue"])
    >>> len(ax.images), ax.texts[1].get_text()
    (1, '0')
    """
    W = checked_matrix(W, "W")
    ax = axes_or_new(
        ax, *np.clip([1.2 + 0.6 * W.shape[1], 1.2 + 0.4 * W.shape[0]], 3.0, 9.0)
    )
    extreme = float(np.abs(W).max(initial=0.0)) or 1.0
    image = ax.imshow(
        W / extreme,
        cmap="PuOr",
        vmin=-1,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    if max(W.shape) <= _NUMBERS:
        for (i, j), value in np.ndenumerate(W):
            color = "white" if abs(value) > 0.6 * extreme else "black"
            ax.text(j, i, f"{value:.2g}", ha="center", va="center", color=color)
    else:
        ax.figure.colorbar(image, ax=ax, label=f"in units of {extreme:.3g}")
    width, height = ax.get_window_extent().size / ax.figure.dpi
    _label(ax.xaxis, columns, "input", width)
    _label(ax.yaxis, rows, "output", height)
    ax.tick_params(length=0)
    return ax


def _label(axis: Any, names: Names, title: str, inches: float) -> None:
    """Name the columns (on the x axis) or the rows of a matrix, as far as there is
    room: 5 lines of text or 10 letters for an inch.
    """
    if names is None:
        axis.get_major_locator().set_params(integer=True)
        axis.set_label_text(title)
        return
    most = min(_LABELS, int(5 * inches) or 1)
    step = max(1, -(-len(names) // most))
    labels = names[::step]
    letters = sum(len(label) + 1 for label in labels)
    rotation = 90 if axis.axis_name == "x" and letters > 10 * inches else 0
    axis.set_ticks(range(0, len(names), step), labels, rotation=rotation)
