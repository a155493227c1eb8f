"""Mixtures in images: each file, or each page of a TIFF, is a mixture, and its pixels are the samples."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import InputError, check_chunk_size, check_dtype, explain_errors, import_optional
from .reader import MatrixReader, Reader, spool

Array = NDArray[Any]

TIFF = (".tif", ".tiff")
_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM")  # PNG, JPEG, BMP
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", *TIFF)


def open_images(paths: Sequence[Path]) -> MatrixReader:
    """Open several images of one shape, or a TIFF of several pages. The pixels are copied to disk."""
    one = len(paths) == 1
    if one and paths[0].suffix.lower() not in TIFF:
        raise InputError(f"{paths[0]} is one image, that is one mixture: give at least two, or a TIFF of several pages")
    shapes: list[tuple[int, ...]] = []
    images = _checked(_pages(paths[0]) if one else _files(paths), shapes)
    reader = spool(str(paths[0]) if one else f"{len(paths)} images", "images", images)
    if len(shapes) < 2:
        reader.close()
        raise InputError(f"{paths[0]} has one page, that is one mixture: give at least two")
    reader.image_shape = shapes[0]
    return reader


def _checked(images: Iterator[tuple[str, Array]], shapes: list[tuple[int, ...]]) -> Iterator[Array]:
    """Yield images of one shape as rows; append their shapes to `shapes`."""
    for name, image in images:
        check_dtype(image.dtype, name)
        shapes.append(image.shape)
        if image.shape != shapes[0]:
            raise InputError(f"{name} has shape {image.shape} where the first image has {shapes[0]}: all must be alike")
        yield image.ravel()


def _files(paths: Sequence[Path]) -> Iterator[tuple[str, Array]]:
    images = import_optional("imageio.v3", "reading images")
    for path in paths:
        if path.suffix.lower() in TIFF:
            yield _only_page(path)
            continue
        with explain_errors(str(path), "an image"), _raise_logged_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, about sizes: they are checked here
            with path.open("rb") as file:
                known = file.read(8).startswith(_SIGNATURES)
            if not known:  # Pillow would open other formats too, and run programs for some
                raise InputError(f"{path} is not a PNG, JPEG or BMP image")
            properties = images.improps(path, extension=path.suffix.lower())
            _check_image(str(path), properties.shape, properties.dtype)
            image = np.squeeze(np.asarray(images.imread(path, extension=path.suffix.lower())))
            if image.ndim == 3 and image.shape[2] in (2, 4):
                image = image[..., :-1]  # without transparency
            if image.ndim not in (2, 3):
                raise InputError(f"{path} has shape {image.shape}: each file must hold one image")
        yield str(path), np.squeeze(image)


def _only_page(path: Path) -> tuple[str, Array]:
    """Return the image in a TIFF, one of several files."""
    pages = [image for _, image in zip(range(2), _pages(path), strict=False)]
    image = np.squeeze(pages[0][1])
    if len(pages) > 1 or image.ndim not in (2, 3):
        raise InputError(f"{path} holds several images: each file must hold one")
    return str(path), image[..., :-1] if image.ndim == 3 and image.shape[2] in (2, 4) else image


def _pages(path: Path) -> Iterator[tuple[str, Array]]:
    tifffile = import_optional("tifffile", "reading TIFF")
    with explain_errors(str(path), "TIFF"), _raise_logged_errors(), tifffile.TiffFile(path) as file:
        pages: Iterator[Array] = (_page(f"{path}, page {i}", page, path) for i, page in enumerate(file.pages))
        if len(file.pages) == 1:
            stack = next(pages)
            pages = iter(stack if stack.ndim == 3 and stack.shape[2] not in (3, 4) else [stack])
        yield from ((f"{path}, page {i}", page) for i, page in enumerate(pages))


def _page(name: str, page: Any, path: Path) -> Array:
    """Decode a page of a TIFF. Its size is checked by the file's if it is not compressed."""
    size = page.nbytes
    if page.compression != 1:
        _check_image(name, page.shape, page.dtype)
    elif size > path.stat().st_size:
        raise InputError(f"{name} has {size:,} bytes and the file has {path.stat().st_size:,}: it is not complete")
    return page.asarray()  # type: ignore[no-any-return]


def _check_image(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    """Raise if an image is too large to decode."""
    check_chunk_size(
        name, math.prod(shape) * (np.dtype(dtype).itemsize + 1), "crop it, or save the mixtures as .npy or .h5"
    )


@contextmanager
def _raise_logged_errors() -> Iterator[None]:
    """Raise errors that tifffile only logs: it skips pages that it cannot read, and mixtures would be missing."""

    def emit(record: logging.LogRecord) -> None:
        raise ValueError(record.getMessage())

    logger, handler = logging.getLogger("tifffile"), logging.Handler(logging.ERROR)
    handler.emit = emit  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def thumbnails(reader: Reader, transform: Callable[[Array], Array], size: int = 240) -> tuple[Array, Array]:
    """Return mixtures and sources as images of at most about `size` pixels a side, by taking every n-th pixel."""
    assert isinstance(reader, MatrixReader)
    assert reader.image_shape is not None
    height, width, *colours = reader.image_shape
    step = max(1, -(-max(height, width) // size))
    rows, columns = np.arange(0, height, step), np.arange(0, width, step)
    index = rows[:, np.newaxis] * width + columns
    if colours:
        index = index[..., np.newaxis] * colours[0] + np.arange(colours[0])
    mixtures = reader.take(index.ravel())
    return mixtures.T.reshape(-1, *index.shape), transform(mixtures).T.reshape(-1, *index.shape)
