"""Mixtures in images: each file, each page of a TIFF, or each colour of one image is a mixture, and its pixels are the samples."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from . import reader as base
from .reader import Array, Columns, InputError, MatrixReader, Reader, explain_errors, import_optional

TIFF = (".tif", ".tiff")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", *TIFF)
_ALPHA = (1, 2)  # extra samples of a TIFF that are transparency
_DARKEST = 1e-6  # of the brightest pixel, in images of floats

Named = tuple[str, Array]  # an image, and what it is called in messages


def open_images(paths: Sequence[Path], columns: Columns, *, optical_density: bool = False) -> MatrixReader:
    """Open several images of one shape, a TIFF of several pages, or the bands of one image. The pixels are copied to disk.

    `optical_density` turns transmitted light I into absorbance, -log10(I / I_max), where I_max is the brightest pixel of the
    mixture and integers of 0 count as 1.
    """
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} images"
    notes: list[str] = []
    shapes: list[tuple[int, ...]] = []
    with base.close_on_error(TemporaryFile()) as pixels:
        for label, image in _mixtures(paths, notes):
            base.check_dtype(image.dtype, label)
            shapes.append(image.shape)
            if image.shape != shapes[0]:
                raise InputError(
                    f"{label} has shape {image.shape} where the first image has {shapes[0]}: all must have one shape"
                )
            row = _optical_density(label, image) if optical_density else image
            pixels.write(np.ascontiguousarray(row, np.float64).data)
        pixels.flush()
        if len(shapes) < 2:
            raise InputError(f"{name} is one image, that is one mixture: give at least two, or one in colour")
        matrix = len(shapes), math.prod(shapes[0])
        mapped = partial(np.memmap, pixels, np.float64, "r", 0, matrix)
        reader = MatrixReader(name, "images", mapped, 1, columns, pixels.close)
    reader.image_shape, reader.notes = shapes[0], notes
    return reader


def _optical_density(name: str, light: Array) -> Array:
    brightest = float(light.max(initial=0))
    if light.dtype.kind == "b" or light.min(initial=0) < 0 or brightest <= 0:
        raise InputError(f"{name} is not transmitted light: optical density needs values of 0 and more, not all 0")
    darkest = _DARKEST * brightest if light.dtype.kind == "f" else 1.0
    return np.log10(brightest / np.maximum(light, darkest))


def _mixtures(paths: Sequence[Path], notes: list[str]) -> Iterator[Named]:
    """Yield the images of several files, the pages of one file, or if it has one page its bands."""
    for path in paths:
        images = (_pages if path.suffix.lower() in TIFF else _picture)(path, notes)
        first, second = next(images, None), next(images, None)
        if first is None:
            raise InputError(f"{path} holds no image")
        if len(paths) > 1 and second is not None:
            raise InputError(f"{path} holds several images: each file must hold one")
        if len(paths) == 1 and second is None and first[1].ndim == 3:
            yield from ((f"{path}, band {i}", band) for i, band in enumerate(np.moveaxis(first[1], 2, 0), 1))
            continue
        yield first
        if second is not None:
            yield second
            yield from images


def _picture(path: Path, notes: list[str]) -> Iterator[Named]:
    """Yield the image of a PNG, JPEG or BMP, without transparency; for other formats Pillow may start programs."""
    pillow = import_optional("PIL.Image", "reading images")
    with explain_errors(str(path), "an image"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about sizes: they are checked here
        with path.open("rb") as file:
            start = file.read(26)
        if start.startswith(b"\x89PNG") and start[24:25] == b"\x10" and start[25:26] != b"\0":
            raise InputError(f"{path} is a colour PNG of 16 bits, which is read as 8 bits: save it as TIFF")
        with pillow.open(path, formats=("PNG", "JPEG", "BMP")) as image:
            base.check_size(
                str(path), math.prod(image.size) * len(image.getbands()), "crop it, or save the mixtures as .npy or .h5"
            )
            if getattr(image, "n_frames", 1) > 1 or image.mode in ("CMYK", "LAB", "HSV"):
                raise InputError(f"{path} holds several images, or colours as {image.mode}: save it as RGB or TIFF")
            array = np.asarray(image.convert("RGB") if image.mode.startswith("P") else image)
            if image.mode in ("LA", "RGBA"):
                notes.append(f"{path}: its transparency was left out")
                array = array[..., :-1]
    yield str(path), array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array


def _pages(path: Path, notes: list[str]) -> Iterator[Named]:
    """Yield the pages of a TIFF: height x width, or height x width x bands."""
    tifffile = import_optional("tifffile", "reading TIFF")
    logged = base.log_records("tifffile", logging.ERROR, _raise_logged)
    with explain_errors(str(path), "TIFF"), logged, tifffile.TiffFile(path) as file:
        if sum(series.size for series in file.series) != sum(page.size for page in file.pages):
            raise InputError(
                f"{path} does not store its mixtures as pages (ImageJ hyperstacks do not): save it as plain TIFF"
            )
        for i, page in enumerate(file.pages, 1):
            name = f"{path}, page {i}"
            if page.compression != 1:
                base.check_size(name, page.nbytes, "crop it, or save the mixtures as .npy or .h5")
            elif page.nbytes > path.stat().st_size:
                raise InputError(f"{name} has {page.nbytes:,} bytes, more than the file: it is not complete")
            image, axes = page.asarray(), page.axes
            if sorted(axes) not in (["X", "Y"], ["S", "X", "Y"]):
                raise InputError(f"{name} has the axes {axes}: save each mixture as a page of height x width")
            if "S" in axes:
                image = np.moveaxis(image, axes.index("S"), 2)
                first = image.shape[2] - len(page.extrasamples)
                alpha = [j for j, kind in enumerate(page.extrasamples, first) if kind in _ALPHA]
                if alpha:
                    notes.append(f"{name}: its transparency was left out")
                image = np.delete(image, alpha, axis=2)
            yield name, image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image


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
