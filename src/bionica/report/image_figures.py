"""Images as rows: sources, mixtures and recovered sources."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from ..io.tables import Row
from .error_curves import draw_errors
from .style import new_figure

__all__ = ["images_figure", "separation_figure"]

Array = NDArray[Any]


def separation_figure(sources: Array, mixtures: Array, recovered: Array, shape: tuple[int, int]) -> Any:
    """Draw three rows of images of a shape: the sources, the mixtures, and the recovered sources, in columns of the arrays.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.random.default_rng(0).random((12, 2))
    >>> figure = separation_figure(S, S @ [[1, 1], [1, -1]], S, (3, 4))
    >>> len(figure.axes)
    6
    """
    rows = (("Sources", sources), ("Mixtures", mixtures), ("Recovered", recovered))
    figure = new_figure(2.2 * max(images.shape[1] for _, images in rows) + 0.4, 6.9)
    for axis, title in _draw_images(figure, rows, shape):
        axis.set_title(title, loc="left", fontsize=10)
    return figure


def images_figure(pictures: Sequence[tuple[str, Array]], shape: tuple[int, int], rows: Sequence[Row]) -> Any:
    """Draw rows of images with their titles on the left and error curves on the right (the paper's figure 5).

    `pictures` are arrays of shape (n_pixels, n_images); `rows` are as for `error_figure`.
    """
    figure = new_figure(12.5, 6.6)
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    for axis, title in _draw_images(left, pictures, shape):
        axis.set_ylabel(title, fontsize=10)
    axis = right.subplots()
    draw_errors(axis, rows)
    handles, labels = axis.get_legend_handles_labels()
    right.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw_images(figure: Any, rows: Sequence[tuple[str, Array]], shape: tuple[int, int]) -> Sequence[tuple[Any, str]]:
    """Draw the rows; return the first axes and the title of each."""
    axes = figure.subplots(len(rows), max(images.shape[1] for _, images in rows), squeeze=False)
    for line, (_, images) in zip(axes, rows, strict=True):
        for axis, image in zip(line, images.T, strict=False):
            axis.imshow(image.reshape(shape), cmap="gray", interpolation="nearest")
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
    return [(line[0], title) for line, (title, _) in zip(axes, rows, strict=True)]
