"""Mixtures in images: each file, each page of a TIFF, or each colour of one image is a mixture, and its pixels are the samples."""

import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from . import reader as base
from .reader import Array, Columns, MatrixReader, explain_errors, import_optional

TIFF = (".tif", ".tiff")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", *TIFF)
_ALPHA = (1, 2)  # extra samples of a TIFF that are transparency
_DARKEST = 1e-6  # of the brightest pixel, in images of floats
_SMALLER = "crop it, or save the mixtures as .npy or .h5"


def open_images(paths: Sequence[Path], columns: Columns, *, optical_density: bool = False) -> MatrixReader:
    """Open several images of one shape, a TIFF of several pages, or the bands of one image.

    `optical_density` turns transmitted light I into absorbance, -log10(I / I_max), where I_max is the brightest pixel of the
    mixture and integers of 0 count as 1.
    """
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} images"
    stacks: list[Array] = []
    notes = []
    for path in paths:
        with explain_errors(str(path)):
            stack, alpha = (_tiff if path.suffix.lower() in TIFF else _picture)(path)
        if alpha:
            notes.append(f"{path}: " * (len(paths) > 1) + "its transparency was left out")
            stack = np.delete(stack, alpha, axis=3)
        stacks.append(stack[..., 0] if stack.shape[3:] == (1,) else stack)
        if len(paths) > 1 and (len(stack) > 1 or stacks[-1].shape != stacks[0].shape):
            shapes = f"{len(stack)} x {stacks[-1].shape[1:]}, and the first 1 x {stacks[0].shape[1:]}"
            raise InputError(f"{path} is {shapes}: give images of one shape, one in each file")
    images = stacks[0] if len(paths) == 1 else np.concatenate(stacks)
    if len(images) == 1 and images.ndim == 4:
        images = np.moveaxis(images[0], 2, 0)
    if len(images) < 2:
        raise InputError(f"{name} is one image, that is one mixture: give at least two, or one in colour")
    matrix = images.reshape(len(images), -1)
    if optical_density:
        brightest = matrix.max(axis=1, keepdims=True).astype(float)
        if matrix.dtype.kind == "b" or matrix.min() < 0 or brightest.min() <= 0:
            raise InputError(f"{name} is not transmitted light: optical density needs values of 0 and more, not all 0")
        darkest = _DARKEST * brightest if matrix.dtype.kind == "f" else 1.0
        matrix = np.log10(brightest / np.maximum(matrix, darkest))
    header = [f"mixture_{i}" for i in range(1, len(images) + 1)]
    reader = MatrixReader(name, lambda: matrix, 1, columns, header)
    reader.image_shape, reader.notes = images.shape[1:], notes
    return reader


def _picture(path: Path) -> tuple[Array, list[int]]:
    """Return the image of a PNG, JPEG or BMP, 1 x height x width (x bands), and the bands that are transparency."""
    pillow = import_optional("PIL.Image", "reading images")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about sizes: they are checked here
        with path.open("rb") as file:
            start = file.read(26)
        if start.startswith(b"\x89PNG") and start[24:25] == b"\x10" and start[25:26] != b"\0":
            raise InputError(f"{path} is a colour PNG of 16 bits, which is read as 8 bits: save it as TIFF")
        with pillow.open(path, formats=("PNG", "JPEG", "BMP")) as image:  # for others Pillow may start programs
            base.check_size(str(path), math.prod(image.size) * len(image.getbands()), _SMALLER)
            if getattr(image, "n_frames", 1) > 1 or image.mode in ("CMYK", "LAB", "HSV"):
                raise InputError(f"{path} holds several images, or colours as {image.mode}: save it as RGB or TIFF")
            array = np.asarray(image.convert("RGB") if image.mode.startswith("P") else image)
            return array[np.newaxis], [-1] if image.mode in ("LA", "RGBA") else []


def _tiff(path: Path) -> tuple[Array, list[int]]:
    """Return the pages of a TIFF, pages x height x width (x bands), copied to disk, and the bands that are transparency."""
    tifffile = import_optional("tifffile", "reading TIFF")
    skipped: list[logging.LogRecord] = []  # pages that tifffile cannot read: mixtures would be missing
    with base.log_records("tifffile", logging.ERROR, skipped.append), tifffile.TiffFile(path) as file:
        pages = [*file.pages]
        for i, page in enumerate(pages, 1):
            if page.compression != 1:
                base.check_size(f"{path}, page {i}", page.nbytes, _SMALLER)
            elif page.size * page.bitspersample > 8 * path.stat().st_size:
                raise InputError(f"{path}, page {i} has {page.size:,} values, more than the file: it is not complete")
        axes, extra = pages[0].axes, pages[0].extrasamples
        stored = sum(page.size for page in pages) == sum(series.size for series in file.series)
        if not stored or len({(page.shape, page.dtype) for page in pages}) > 1 or {*axes} not in ({*"YX"}, {*"YXS"}):
            raise InputError(f"{path} does not hold pages of one shape, height x width: save it as such")
        images: Array = file.asarray(slice(None), out="memmap").reshape(-1, *pages[0].shape)
    if skipped:
        raise InputError(f"{path} cannot be read: {skipped[0].getMessage()}")
    if "S" not in axes:
        return images, []
    images = np.moveaxis(images, axes.index("S") + 1, 3)
    return images, [j for j, kind in enumerate(extra, images.shape[3] - len(extra)) if kind in _ALPHA]
