"""Mixtures in images, whose pixels are the samples.

Each file, each page of a TIFF, or each colour of one image is a mixture. `open_images`
opens them; `read_image` reads one image.
"""

import logging
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bionica.core.errors import InputError, printable
from bionica.io.columns import Array
from bionica.io.matrix import MatrixReader
from bionica.io.reader import (
    PixelSize,
    ReadOptions,
    check_size,
    describe_attributes,
    explain_errors,
    import_optional,
    log_records,
)

TIFF = (".tif", ".tiff")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", *TIFF)
_ALPHA = (1, 2)  # extra samples of a TIFF that are transparency
# how the pixels of a TIFF are meant
_INTENSITIES = ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE")
_JPEG = 7
_ORIENTATION = 274  # number of this tag, in EXIF and in TIFF
_NO_DATA = 42113  # of GDAL
_MICROMETRES = {"nm": 1e-3, "µm": 1.0, "mm": 1e3}
_DARKEST = 1e-6  # of the brightest pixel, in images of floats
_SMALLER = "crop it, or save the mixtures as .npy or .h5"


class Stack(NamedTuple):
    """What an image file holds."""

    pages: Array  # pages x height x width (x bands)
    notes: list[str]
    names: Sequence[str] = ()  # of the pages
    pixel_size: PixelSize = None


def open_images(paths: Sequence[Path], options: ReadOptions) -> MatrixReader:
    """Open several images of one shape, a TIFF of several pages, or one in colour."""
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} images"
    images, notes, names, pixel_size = _read_stack(paths)
    if len(paths) > 1 and images.ndim == 4:
        notes.append(
            "they are in colour: an image is a mixture, and each colour of a pixel a"
            " sample (channels: save them in grey)"
        )
    if len(images) == 1 and images.ndim == 4:
        images = np.moveaxis(images[0], 2, 0)
    if len(images) < 2:
        raise InputError(
            f"{name} is one image, that is one mixture: give at least two, or one in"
            " colour"
        )
    matrix = images.reshape(len(images), -1)
    if options.optical_density:
        matrix = _absorbance(matrix, name)
    if len(names) != len(images):
        names = [f"mixture_{i}" for i in range(1, len(images) + 1)]
    if len(images) > images.shape[2] and len(paths) == 1:
        size = f"{len(images)} pages of {images.shape[1]} x {images.shape[2]} pixels"
        notes.append(
            f"its {size} are read as mixtures: if a page is a line of an image, save"
            " each band as a page"
        )
    options = replace(options, axis=1)
    reader = MatrixReader(name, lambda: matrix, options, [*names], notes)
    reader.image_shape = images.shape[1:]
    reader.pixel_size = pixel_size
    return reader


def _read_stack(paths: Sequence[Path]) -> Stack:
    """Return the images and notes of all files, and what the last one states."""
    stacks = []
    notes = []
    for path in paths:
        file = _read(path)
        pages = file.pages
        notes += [note if len(paths) == 1 else f"{path}: {note}" for note in file.notes]
        stacks.append(pages[..., 0] if pages.shape[3:] == (1,) else pages)
        if len(paths) > 1 and len(pages) > 1:
            raise InputError(
                f"{path} has {len(pages)} images: separate one stack, and apply its"
                " model to the others"
            )
        first, shape = (images.shape[1:] for images in (stacks[0], stacks[-1]))
        if shape != first:
            raise InputError(
                f"{path} is {shape}, and {paths[0]} {first}: give images of one shape"
            )
    # one stack may be mapped from disk, and is not copied
    images = stacks[0] if len(paths) == 1 else np.concatenate(stacks)
    return file._replace(pages=images, notes=notes)


def _absorbance(matrix: Array, name: str) -> Array:
    """Return -log10(I / I_max) of transmitted light I, a row for each mixture.

    I_max is the brightest pixel of the mixture, and integers of 0 count as 1.
    """
    brightest = matrix.max(axis=1, keepdims=True).astype(float)
    if matrix.dtype.kind == "b" or matrix.min() < 0 or brightest.min() <= 0:
        raise InputError(
            f"{name} is not transmitted light: optical density needs values of 0"
            " and more, not all 0"
        )
    darkest = _DARKEST * brightest if matrix.dtype.kind == "f" else 1.0
    return np.log10(brightest / np.maximum(matrix, darkest))


def read_image(path: Path) -> Array:
    """Return the only image of a file, height x width (x colours)."""
    pages = _read(path).pages
    if len(pages) > 1:
        raise InputError(f"{path} has {len(pages)} images: save each of them as a file")
    return pages[0]


def _read(path: Path) -> Stack:
    with explain_errors(str(path)):
        return (_tiff if path.suffix.lower() in TIFF else _picture)(path)


# --- PNG, JPEG, BMP


def _picture(path: Path) -> Stack:
    """Read a PNG, JPEG or BMP."""
    pillow = import_optional("PIL.Image", "reading images")
    operations = import_optional("PIL.ImageOps", "reading images")
    with path.open("rb") as file:
        start = file.read(26)
    if re.match(rb"\x89PNG.{20}\x10[^\0]", start, re.DOTALL):
        raise InputError(
            f"{path} is a colour PNG of 16 bits, which is read as 8 bits: save it as"
            " TIFF"
        )
    notes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about sizes: they are checked here
        # for others Pillow may start programs
        with pillow.open(path, formats=("PNG", "JPEG", "BMP")) as image:
            n_bytes = math.prod(image.size) * len(image.getbands())
            check_size(str(path), n_bytes, _SMALLER)
            several = getattr(image, "n_frames", 1) > 1
            if several or image.mode in ("CMYK", "LAB", "HSV"):
                raise InputError(
                    f"{path} holds several images, or colours as {image.mode}: save it"
                    " as RGB or TIFF"
                )
            has_alpha = image.mode in ("LA", "RGBA")
            if has_alpha or "transparency" in image.info:
                notes.append("its transparency was left out")
            if image.getexif().get(_ORIENTATION, 1) != 1:
                notes.append("it was turned as its EXIF orientation says")
                image = operations.exif_transpose(image)
            if image.mode.startswith("P"):
                image = image.convert("RGB")
            array = np.asarray(image)
    return Stack((array[..., :-1] if has_alpha else array)[np.newaxis], notes)


# --- TIFF


def _tiff(path: Path) -> Stack:
    """Read the pages of a TIFF, which are copied to disk.

    Series are not asked for: those of OME may be in other files.
    """
    tifffile = import_optional("tifffile", "reading TIFF")
    # pages that tifffile cannot read: mixtures would be missing
    skipped: list[logging.LogRecord] = []
    with (
        log_records("tifffile", logging.ERROR, skipped.append),
        tifffile.TiffFile(path) as file,
    ):
        _check_pages(path, file)
        page = file.pages[0]
        images = file.asarray(slice(None), out="memmap")
        images = images.reshape(-1, *page.shape)
        notes, names, pixel_size = _describe(path, file)
        palette = page.colormap if _meaning(page) == "PALETTE" else None
        extra = page.extrasamples
    if skipped:
        raise InputError(f"{path} cannot be read: {skipped[0].getMessage()}")
    if palette is not None:
        check_size(str(path), 6 * images.size, _SMALLER)
        notes.append("the colours of its palette were read")
        return Stack(np.moveaxis(palette[:, images], 0, 3), notes)
    if "S" in page.axes:
        images = np.moveaxis(images, page.axes.index("S") + 1, 3)
        n_colours = images.shape[3] - len(extra)
        alpha = [j for j, kind in enumerate(extra, n_colours) if kind in _ALPHA]
        if alpha:
            images = np.delete(images, alpha, axis=3)
            notes.append("its transparency was left out")
    return Stack(images, notes, names, pixel_size)


def _meaning(page: Any) -> Any:
    """How the pixels of a page are meant: "RGB", ..., or a number nobody named."""
    return getattr(page.photometric, "name", page.photometric)


def _check_pages(path: Path, file: Any) -> None:
    """Raise unless a TIFF is complete, and its pages are images of one shape."""
    pages = [*file.pages]
    for i, page in enumerate(pages, 1):
        if page.compression != 1:
            check_size(f"{path}, page {i}", page.nbytes, _SMALLER)
        elif page.size * page.bitspersample > 8 * path.stat().st_size:
            raise InputError(
                f"{path}, page {i} has {page.size:,} values, more than the file: it"
                " is not complete"
            )
    first = pages[0]
    # ImageJ, tifffile and MetaMorph may store images behind the only page.
    is_cut = first.is_shaped and '"truncated": true' in first.description
    n_stated = (file.imagej_metadata or {}).get("images", 1)
    has_more = first.is_stk or is_cut or n_stated > len(pages)
    kinds = {(page.shape, page.dtype) for page in pages}
    if has_more or len(kinds) > 1 or {*first.axes} not in ({*"YX"}, {*"YXS"}):
        raise InputError(
            f"{path} does not hold pages of one shape, height x width: save it as such"
        )
    meaning = _meaning(first)
    is_jpeg = meaning == "YCBCR" and first.compression == _JPEG
    if meaning not in _INTENSITIES and not is_jpeg:
        raise InputError(f"{path} holds colours as {meaning}: save it as RGB")


def _describe(path: Path, file: Any) -> tuple[list[str], list[str], PixelSize]:
    """Return notes, and the names and the pixel size that a TIFF states."""
    page = file.pages[0]
    notes = ["in it 0 is white"] if _meaning(page) == "MINISWHITE" else []
    orientation = page.tags.valueof(_ORIENTATION, 1)
    if orientation != 1:
        notes.append(
            f"its orientation ({orientation}) is not applied: pixels are in the"
            " order of the file"
        )
    notes += describe_attributes({"missing_value": page.tags.valueof(_NO_DATA)})
    n_pages = len(file.pages)
    names: list[str] = []
    pixel_size = None
    if file.is_ome:
        names, pixel_size = _ome(path, file.ome_metadata, n_pages, notes)
    stated = file.imagej_metadata or {}
    sizes = [int(stated.get(name, 1)) for name in ("channels", "slices", "frames")]
    _check_planes(path, sizes, n_pages, notes)
    return notes, names, pixel_size


def _check_planes(
    path: Path, sizes: Sequence[int], n_pages: int, notes: list[str]
) -> None:
    """Raise if the pages are channels at several depths or times.

    If they are depths or times alone, add a note.
    """
    channels, depths, times = sizes
    if depths * times <= 1 or math.prod(sizes) != n_pages:
        return
    what = f"its {n_pages} pages are {depths} depths and {times} times"
    if channels > 1:
        raise InputError(
            f"{path}: {what} of {channels} channels: save one depth and time, or put"
            " them side by side: a page for each channel"
        )
    notes.append(f"{what}, and are read as mixtures")


def _ome(
    path: Path, description: Any, n_pages: int, notes: list[str]
) -> tuple[list[str], PixelSize]:
    """Return the names of the channels, if these are the pages, and the pixel size.

    Notes say what is not in the file.
    """
    parse = import_optional("defusedxml.ElementTree", "reading OME-TIFF").fromstring
    pixels = parse(description).find(".//{*}Pixels")
    if pixels is None:
        return [], None
    sizes = [int(pixels.get(f"Size{axis}", 1)) for axis in "CZT"]
    _check_planes(path, sizes, n_pages, notes)
    channels = pixels.findall("{*}Channel")
    n_planes = math.prod(sizes)
    samples = {int(channel.get("SamplesPerPixel", 1)) for channel in channels}
    if n_planes > n_pages and samples <= {1}:
        notes.append(
            f"it holds {n_pages} of {n_planes} images: other files, which its OME"
            " metadata name, are not opened"
        )
    names = [printable(channel.get("Name") or "") for channel in channels]
    if not len(names) == n_pages == len({*names} - {""}):
        names = []
    height, width = [
        float(pixels.get(f"PhysicalSize{axis}", 0))
        * _MICROMETRES.get(pixels.get(f"PhysicalSize{axis}Unit", "µm"), 0.0)
        for axis in "YX"
    ]
    return names, (height, width) if min(height, width) > 0 else None
