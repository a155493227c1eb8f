"""Mixtures in images: each file, each page of a TIFF, or each colour of one image is a
mixture, and its pixels are the samples.
"""

import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bionica.core.errors import InputError, printable
from bionica.io import reader as base
from bionica.io.reader import (
    Array,
    MatrixReader,
    ReadOptions,
    explain_errors,
    import_optional,
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
    notes: Sequence[str]
    names: Sequence[str] = ()  # of the pages
    # height and width of a pixel in micrometres
    pixel_size: tuple[float, float] | None = None


def open_images(paths: Sequence[Path], options: ReadOptions) -> MatrixReader:
    """Open several images of one shape, a TIFF of several pages, or the bands of one
    image.

    `options.optical_density` turns transmitted light I into absorbance,
    -log10(I / I_max), where I_max is the brightest pixel of the mixture and integers of
    0 count as 1.
    """
    name = str(paths[0]) if len(paths) == 1 else f"{len(paths)} images"
    stacks: list[Array] = []
    notes = []
    for path in paths:
        file = _read(path)
        notes += [f"{path}: " * (len(paths) > 1) + note for note in file.notes]
        stack = file.pages
        stacks.append(stack[..., 0] if stack.shape[3:] == (1,) else stack)
        if len(paths) > 1 and len(stack) > 1:
            raise InputError(
                f"{path} has {len(stack)} images: separate one stack, and apply its"
                " model to the others"
            )
        shape = stacks[-1].shape[1:]
        first = stacks[0].shape[1:]
        if shape != first:
            raise InputError(
                f"{path} is {shape}, and {paths[0]} {first}: give images of one shape"
            )
    images = stacks[0] if len(paths) == 1 else np.concatenate(stacks)
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
        brightest = matrix.max(axis=1, keepdims=True).astype(float)
        if matrix.dtype.kind == "b" or matrix.min() < 0 or brightest.min() <= 0:
            raise InputError(
                f"{name} is not transmitted light: optical density needs values of 0"
                " and more, not all 0"
            )
        darkest = _DARKEST * brightest if matrix.dtype.kind == "f" else 1.0
        matrix = np.log10(brightest / np.maximum(matrix, darkest))
    numbered = [f"mixture_{i}" for i in range(1, len(images) + 1)]
    header = [*file.names] if len(images) == len(file.names) else numbered
    if len(images) > images.shape[2] and len(paths) == 1:
        size = f"{len(images)} pages of {images.shape[1]} x {images.shape[2]} pixels"
        notes.append(
            f"its {size} are read as mixtures: if a page is a line of an image, save"
            " each band as a page"
        )
    reader = MatrixReader(name, lambda: matrix, 1, options, header, notes)
    reader.image_shape = images.shape[1:]
    reader.pixel_size = file.pixel_size
    return reader


def read_image(path: Path) -> Array:
    """Return the only image of a file, height x width (x colours)."""
    pages = _read(path).pages
    if len(pages) > 1:
        raise InputError(f"{path} has {len(pages)} images: save each of them as a file")
    image: Array = pages[0]
    return image


def _read(path: Path) -> Stack:
    with explain_errors(str(path)):
        return (_tiff if path.suffix.lower() in TIFF else _picture)(path)


def _picture(path: Path) -> Stack:
    """Read a PNG, JPEG or BMP."""
    pillow, operations = (
        import_optional(f"PIL.{name}", "reading images")
        for name in ("Image", "ImageOps")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pillow, about sizes: they are checked here
        with path.open("rb") as file:
            start = file.read(26)
        if (
            start.startswith(b"\x89PNG")
            and start[24:25] == b"\x10"
            and start[25:26] != b"\0"
        ):
            raise InputError(
                f"{path} is a colour PNG of 16 bits, which is read as 8 bits: save it"
                " as TIFF"
            )
        # for others Pillow may start programs
        with pillow.open(path, formats=("PNG", "JPEG", "BMP")) as image:
            base.check_size(
                str(path), math.prod(image.size) * len(image.getbands()), _SMALLER
            )
            if getattr(image, "n_frames", 1) > 1 or image.mode in (
                "CMYK",
                "LAB",
                "HSV",
            ):
                raise InputError(
                    f"{path} holds several images, or colours as {image.mode}: save it"
                    " as RGB or TIFF"
                )
            turned = image.getexif().get(_ORIENTATION, 1) != 1
            alpha = image.mode in ("LA", "RGBA")
            notes = ["its transparency was left out"] * (
                alpha or "transparency" in image.info
            )
            notes += ["it was turned as its EXIF orientation says"] * turned
            shown = operations.exif_transpose(image) if turned else image
            array = np.asarray(
                shown.convert("RGB") if image.mode.startswith("P") else shown
            )
            return Stack((array[..., :-1] if alpha else array)[np.newaxis], notes)


def _tiff(path: Path) -> Stack:
    """Read the pages of a TIFF, which are copied to disk. Series are not asked for:
    those of OME may be in other files.
    """
    tifffile = import_optional("tifffile", "reading TIFF")
    # pages that tifffile cannot read: mixtures would be missing
    skipped: list[logging.LogRecord] = []
    with (
        base.log_records("tifffile", logging.ERROR, skipped.append),
        tifffile.TiffFile(path) as file,
    ):
        pages = [*file.pages]
        for i, page in enumerate(pages, 1):
            if page.compression != 1:
                base.check_size(f"{path}, page {i}", page.nbytes, _SMALLER)
            elif page.size * page.bitspersample > 8 * path.stat().st_size:
                raise InputError(
                    f"{path}, page {i} has {page.size:,} values, more than the file: it"
                    " is not complete"
                )
        first = pages[0]
        axes = first.axes
        extra = first.extrasamples
        meaning = getattr(first.photometric, "name", first.photometric)
        # ImageJ, tifffile and MetaMorph may store images behind the only page.
        more = first.is_stk or (
            first.is_shaped and '"truncated": true' in first.description
        )
        more = more or (file.imagej_metadata or {}).get("images", 1) > len(pages)
        if (
            more
            or len({(page.shape, page.dtype) for page in pages}) > 1
            or {*axes} not in ({*"YX"}, {*"YXS"})
        ):
            raise InputError(
                f"{path} does not hold pages of one shape, height x width: save it as"
                " such"
            )
        if meaning not in _INTENSITIES and not (
            meaning == "YCBCR" and first.compression == _JPEG
        ):
            raise InputError(f"{path} holds colours as {meaning}: save it as RGB")
        images: Array = file.asarray(slice(None), out="memmap").reshape(
            -1, *first.shape
        )
        notes = ["in it 0 is white"] * (meaning == "MINISWHITE")
        orientation = first.tags.valueof(_ORIENTATION, 1)
        if orientation != 1:
            notes.append(
                f"its orientation ({orientation}) is not applied: pixels are in the"
                " order of the file"
            )
        no_data = first.tags.valueof(_NO_DATA)
        if no_data is not None:
            notes += base.describe_attributes({"missing_value": no_data})
        names, pixel_size = (
            _ome(path, file.ome_metadata, len(pages), notes)
            if file.is_ome
            else ([], None)
        )
        stated = file.imagej_metadata or {}
        sizes = [int(stated.get(name, 1)) for name in ("channels", "slices", "frames")]
        _check_planes(path, sizes, len(pages), notes)
        palette = first.colormap if meaning == "PALETTE" else None
    if skipped:
        raise InputError(f"{path} cannot be read: {skipped[0].getMessage()}")
    if palette is not None:
        base.check_size(str(path), 6 * images.size, _SMALLER)
        return Stack(
            np.moveaxis(palette[:, images], 0, 3),
            [*notes, "the colours of its palette were read"],
        )
    if "S" in axes:
        images = np.moveaxis(images, axes.index("S") + 1, 3)
        alpha = [
            j
            for j, kind in enumerate(extra, images.shape[3] - len(extra))
            if kind in _ALPHA
        ]
        if alpha:
            images = np.delete(images, alpha, axis=3)
            notes.append("its transparency was left out")
    return Stack(images, notes, names, pixel_size)


def _check_planes(
    path: Path, sizes: Sequence[int], n_pages: int, notes: list[str]
) -> None:
    """Raise if the pages are channels at several depths or times; a note if they are
    depths or times alone.
    """
    channels, depths, times = sizes
    if depths * times > 1 and math.prod(sizes) == n_pages:
        what = f"its {n_pages} pages are {depths} depths and {times} times"
        if channels > 1:
            remedy = (
                "save one depth and time, or put them side by side: a page for each"
                " channel"
            )
            raise InputError(f"{path}: {what} of {channels} channels: {remedy}")
        notes.append(f"{what}, and are read as mixtures")


def _ome(
    path: Path, description: Any, n_pages: int, notes: list[str]
) -> tuple[list[str], tuple[float, float] | None]:
    """Return the names of the channels, if these are the pages, and the size of a
    pixel. A note says what is not in the file.
    """
    parse = import_optional("defusedxml.ElementTree", "reading OME-TIFF").fromstring
    pixels = parse(description).find(".//{*}Pixels")
    if pixels is None:
        return [], None
    along = [int(pixels.get(f"Size{axis}", 1)) for axis in "CZT"]
    n_planes = math.prod(along)
    _check_planes(path, along, n_pages, notes)
    channels = pixels.findall("{*}Channel")
    names = [printable(channel.get("Name") or "") for channel in channels]
    if n_planes > n_pages and all(
        int(channel.get("SamplesPerPixel", 1)) == 1 for channel in channels
    ):
        elsewhere = "other files, which its OME metadata name, are not opened"
        notes.append(f"it holds {n_pages} of {n_planes} images: {elsewhere}")
    units = [
        _MICROMETRES.get(pixels.get(f"PhysicalSize{axis}Unit", "µm"), 0.0)
        for axis in "YX"
    ]
    sizes = [
        float(pixels.get(f"PhysicalSize{axis}", 0)) * unit
        for axis, unit in zip("YX", units, strict=True)
    ]
    named = len(names) == n_pages and all(names) and len({*names}) == n_pages
    return names if named else [], (sizes[0], sizes[1]) if min(sizes) > 0 else None
