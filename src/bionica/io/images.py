"""Mixtures in images: each file, each page of a TIFF, or each colour of one image is a mixture, and its pixels are the samples."""

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from . import reader as base
from .reader import Array, Columns, InputError, MatrixReader, Reader, explain_errors, import_optional

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
    notes: list[str] = []
    stacks = [(_tiff if path.suffix.lower() in TIFF else _picture)(path, notes) for path in paths]
    for path, stack in zip(paths, stacks, strict=True):
        base.check_dtype(stack.dtype, str(path))
        if len(paths) > 1 and len(stack) > 1:
            raise InputError(f"{path} holds several images: each file must hold one")
        if stack.shape != stacks[0].shape:
            raise InputError(
                f"{path} has shape {stack.shape[1:]} where the first image has {stacks[0].shape[1:]}: all must have one shape"
            )
    images = stacks[0] if len(paths) == 1 else np.concatenate(stacks)
    if len(images) == 1 and images.ndim == 4:
        images = np.moveaxis(images[0], 2, 0)
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} images"
    if len(images) < 2:
        raise InputError(f"{name} is one image, that is one mixture: give at least two, or one in colour")
    matrix = images.reshape(len(images), -1)
    matrix = _optical_density(name, matrix) if optical_density else matrix
    header = [f"mixture_{i}" for i in range(1, len(images) + 1)]
    reader = MatrixReader(name, "images", lambda: matrix, 1, columns, header=header)
    reader.image_shape, reader.notes = images.shape[1:], notes
    return reader


def _optical_density(name: str, light: Array) -> Array:
    brightest = light.max(axis=1, keepdims=True).astype(float)
    if light.dtype.kind == "b" or light.min() < 0 or brightest.min() <= 0:
        raise InputError(f"{name} is not transmitted light: optical density needs values of 0 and more, not all 0")
    absorbance: Array = np.log10(
        brightest / np.maximum(light, _DARKEST * brightest if light.dtype.kind == "f" else 1.0)
    )
    return absorbance


def _picture(path: Path, notes: list[str]) -> Array:
    """Return the image of a PNG, JPEG or BMP, 1 x height x width (x bands), without transparency."""
    pillow = import_optional("PIL.Image", "reading images")
    with explain_errors(str(path), "an image"), warnings.catch_warnings():
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
            if image.mode in ("LA", "RGBA"):
                notes.append(f"{path}: its transparency was left out")
                array = array[..., :-1] if image.mode == "RGBA" else array[..., 0]
    return array[np.newaxis]


def _tiff(path: Path, notes: list[str]) -> Array:
    """Return the pages of a TIFF, pages x height x width (x bands), without transparency; they are copied to disk."""
    tifffile = import_optional("tifffile", "reading TIFF")
    logged = base.log_records("tifffile", logging.ERROR, _raise_logged)
    with explain_errors(str(path), "TIFF"), logged, tifffile.TiffFile(path) as file:
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
    if "S" not in axes:
        return images
    images = np.moveaxis(images, axes.index("S") + 1, 3)
    alpha = [j for j, kind in enumerate(extra, images.shape[3] - len(extra)) if kind in _ALPHA]
    if alpha:
        notes.append(f"{path}: its transparency was left out")
        images = np.delete(images, alpha, axis=3)
    return images[..., 0] if images.shape[3] == 1 else images


def _raise_logged(record: logging.LogRecord) -> None:
    """Raise errors that tifffile only logs: it skips pages that it cannot read, and mixtures would be missing."""
    raise ValueError(record.getMessage())


def thumbnails(reader: Reader, transform: Callable[[Array], Array], size: int = 240) -> tuple[Array, Array]:
    """Return mixtures and sources as images of at most about `size` pixels a side, by taking every n-th pixel."""
    assert reader.image_shape is not None
    step = max(1, -(-max(reader.image_shape[:2]) // size))
    shown = np.zeros(reader.image_shape, bool)
    shown[::step, ::step] = True
    shape, end, parts = shown[::step, ::step].shape, 0, []
    for block in reader.blocks():
        parts.append(block[shown.ravel()[end : end + len(block)]])
        end += len(block)
    mixtures = np.concatenate(parts)
    return mixtures.T.reshape(-1, *shape), transform(mixtures).T.reshape(-1, *shape)
