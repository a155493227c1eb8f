"""Images as sources: those of scikit-image, image files, or arrays on disk."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .synthetic import Sources, positive_int

_SHIPPED = ("camera", "brick", "gravel", "grass", "moon")  # inside scikit-image's wheel: no download
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".pgm")
_LUMINANCE = (0.2125, 0.7154, 0.0721)  # of linear RGB, ITU-R BT.709


def natural_images(
    path: str | Path | None = None,
    *,
    names: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = 252,
) -> Sources:
    """Images as sources: one column per image, one row per pixel.

    Parameters
    ----------
    path : str, Path or None, default=None
        Where the images are:

        - None: images that ship with scikit-image (``pip install 'bionica[plot]'``);
        - a folder: its ``sources.npy`` if there is one, otherwise every image file in it, ordered by name;
        - an image file, of any format that scikit-image reads;
        - ``.npy``: an array of shape (n_images, n_pixels), or (n_images, height, width).
    names : sequence of str or None, default=None
        Which images, and in what order: file names without suffix, numbers ("0", "1", ...) of the images of an ``.npy``, or,
        without `path`, some of scikit-image's "camera", "brick", "gravel", "grass" (CC0) and "moon". None means all that
        `path` holds, or ("camera", "brick", "gravel").
    size : int, (int, int) or None, default=252
        Images are cropped about their centres to the largest height and width that all of them have, at most `size`. The
        paper's are 252 by 252. Rows of an (n_images, n_pixels) array are not cropped.

    Returns
    -------
    ndarray of shape (n_pixels, n_images)
        Pixels in reading order, each image shifted to minimum 0 and scaled to variance 1. Colours become luminance,
        transparency is ignored.

    Notes
    -----
    Images are never exactly uncorrelated. The largest correlation and the `bionica.metrics.correlation_floor` are 0.040 and
    2.2e-3 for the default, 0.021 and 4e-4 for the whole 512 by 512 images (``size=None``), 0.21 and 0.0326 for the three
    patches of the paper.

    Examples
    --------
    >>> from bionica.datasets import natural_images
    >>> S = natural_images()
    >>> S.shape
    (63504, 3)
    >>> S.min(axis=0), S.var(axis=0).round(12)
    (array([0., 0., 0.]), array([1., 1., 1.]))
    """
    if isinstance(names, str):
        raise TypeError(f"names={names!r} is one string: pass a sequence, names=({names!r},)")
    labelled = _read_images(None if path is None else Path(path).expanduser(), names)
    images = _crop([_gray(label, image) for label, image in labelled], size)
    S = np.stack([image.ravel() for image in images], axis=1)
    S -= S.min(axis=0)
    deviation = S.std(axis=0)
    for (label, _), spread in zip(labelled, deviation, strict=True):
        if not spread > 0:
            raise ValueError(f"image {label!r} is constant after cropping: omit it from `names`")
    return np.asarray(S / deviation)


def _read_images(path: Path | None, names: Sequence[str] | None) -> list[tuple[str, NDArray[Any]]]:
    """Return the images of these names, by default all of them, with their names."""
    if path is not None and (path / "sources.npy").is_file():
        path = path / "sources.npy"
    readers: list[tuple[str, Callable[[], Any]]]
    if path is None:
        names = ("camera", "brick", "gravel") if names is None else names
        data = _skimage("the sample images").data
        readers = [(name, getattr(data, name)) for name in _SHIPPED]
    elif not path.exists():
        raise FileNotFoundError(f"path={str(path)!r} does not exist: pass a folder, an image or .npy")
    elif path.suffix.lower() == ".npy":
        stack = np.load(path)
        if stack.ndim not in (2, 3) or (stack.ndim == 2 and stack.shape[0] > stack.shape[1]):
            raise ValueError(f"{path} has shape {stack.shape}: save (n_images, n_pixels) or (n_images, height, width)")
        images = stack if stack.ndim == 3 else stack[:, None, :]  # a flat image is one row high
        readers = [(str(i), partial(np.asarray, image)) for i, image in enumerate(images)]
    else:
        files = sorted(f for f in path.iterdir() if f.suffix.lower() in _IMAGE_SUFFIXES) if path.is_dir() else [path]
        readers = [(file.stem, partial(_skimage(file.name).io.imread, file)) for file in files]
    if not readers:
        raise ValueError(f"path={str(path)!r} holds no image: files end in {', '.join(_IMAGE_SUFFIXES)}")
    known = [name for name, _ in readers]
    for name in names or ():
        if (n := known.count(name)) != 1:
            raise ValueError(f"names holds {name!r}, of which there are {n}: choose from {', '.join(map(repr, known))}")
    return [(known[i], readers[i][1]()) for i in (range(len(known)) if names is None else map(known.index, names))]


def _skimage(wanted: str) -> Any:
    try:
        import skimage
    except ImportError as error:
        raise ImportError(f"{wanted} needs scikit-image: pip install 'bionica[plot]', or pass .npy files") from error
    return skimage


def _gray(label: str, image: NDArray[Any]) -> NDArray[np.float64]:
    image = np.asarray(image, dtype=np.float64)
    if image.ndim == 3 and image.shape[2] in (3, 4):
        image = image[..., :3] @ np.array(_LUMINANCE)
    elif image.ndim == 3 and image.shape[2] in (1, 2):
        image = image[..., 0]
    if image.ndim != 2 or image.size == 0:
        raise ValueError(f"image {label!r} has shape {image.shape}: pass (height, width) or (height, width, 3)")
    if not np.isfinite(image).all():
        raise ValueError(f"image {label!r} holds NaN or infinity: fill those pixels, or omit the image")
    return image


def _crop(images: list[NDArray[np.float64]], size: int | tuple[int, int] | None) -> list[NDArray[np.float64]]:
    height, width = min(i.shape[0] for i in images), min(i.shape[1] for i in images)
    if size is not None and height > 1:
        limits = size if isinstance(size, tuple) else (size, size)
        height, width = min(height, positive_int("size", limits[0])), min(width, positive_int("size", limits[1]))
    corners = [((i.shape[0] - height) // 2, (i.shape[1] - width) // 2) for i in images]
    return [i[top : top + height, left : left + width] for i, (top, left) in zip(images, corners, strict=True)]
