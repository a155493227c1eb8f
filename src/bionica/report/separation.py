"""Sources, mixtures and recovered sources, side by side."""

from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]


def separation_figure(
    sources: Array,
    mixtures: Array,
    recovered: Array,
    shape: tuple[int, int],
    titles: tuple[str, str, str] | None = None,
) -> Any:
    """Draw images as three rows: what was mixed, the mixtures, what came out.

    Parameters
    ----------
    sources, mixtures, recovered : ndarray of shape (n_pixels, n_images)
        A column for each image; `recovered` in the order of `sources`.
    shape : (int, int)
        Rows and columns of an image.
    titles : tuple of three str, optional
        What to write at the rows.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> S = np.random.default_rng(0).random((12, 2))
    >>> figure = separation_figure(S, S @ [[1, 1], [1, -1]], S, (3, 4))
    >>> len(figure.axes)
    6
    """
    from matplotlib.figure import Figure

    rows = (sources, mixtures, recovered)
    n = max(images.shape[1] for images in rows)
    figure = Figure(figsize=(2.2 * n + 0.4, 6.9), layout="constrained")
    axes = figure.subplots(3, n, squeeze=False)
    for row, images, title in zip(axes, rows, titles or ("Sources", "Mixtures", "Recovered"), strict=True):
        for axis in row:
            axis.set_axis_off()
        for axis, image in zip(row, images.T, strict=False):
            axis.imshow(image.reshape(shape), cmap="gray", interpolation="nearest")
        row[0].set_title(title, loc="left", fontsize=10)
    return figure
