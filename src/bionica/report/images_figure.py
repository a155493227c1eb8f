"""The paper's figure 5: images, their mixtures and what the networks make of them, beside the error curves."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from .curves import Row, draw_errors
from .style import new_figure

Array = NDArray[Any]


def images_figure(pictures: Sequence[tuple[str, Array]], shape: tuple[int, int], rows: Sequence[Row]) -> Any:
    """Draw rows of images on the left and error curves on the right.

    Parameters
    ----------
    pictures : sequence of (str, ndarray of shape (n_pixels, n_images))
        The rows of the grid and what to call them.
    shape : (int, int)
        Height and width of an image.
    rows : sequence of dict
        As for `error_figure`.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = new_figure(12.5, 6.6)
    left, right = figure.subfigures(1, 2, width_ratios=(0.43, 0.57))
    axes = left.subplots(len(pictures), max(images.shape[1] for _, images in pictures), squeeze=False)
    for line, (title, images) in zip(axes, pictures, strict=True):
        for axis, image in zip(line, images.T, strict=False):
            axis.imshow(image.reshape(shape), cmap="gray", interpolation="nearest")
        for axis in line:
            axis.set_xticks([])
            axis.set_yticks([])
            axis.spines[:].set_visible(False)
        line[0].set_ylabel(title, fontsize=10)
    axis = right.subplots()
    draw_errors(axis, rows)
    handles, labels = axis.get_legend_handles_labels()
    right.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure
