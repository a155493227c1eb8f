"""Mixtures in images: each file, or each page of a TIFF, is a mixture, and its pixels are the samples."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sink import Writer, part_of, remove, rename
from .source import InputError, MatrixReader, Reader, optional, reading

__all__ = ["IMAGES", "TIFF", "ImageWriter", "open_images", "output_files", "thumbnails"]

Array = NDArray[Any]

TIFF = (".tif", ".tiff")
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", *TIFF)


def open_images(paths: Sequence[Path]) -> MatrixReader:
    """Open several images of one shape, or a TIFF of several pages; they are unpacked to a nameless file on disk."""
    if len(paths) == 1 and paths[0].suffix.lower() not in TIFF:
        raise InputError(f"{paths[0]} is one image, that is one mixture: give at least two, or a TIFF of several pages")
    copy = TemporaryFile()  # noqa: SIM115 - the reader closes it
    shape: tuple[int, ...] | None = None
    dtype: Any = None
    k = 0
    try:
        for name, image in _pages(paths[0]) if len(paths) == 1 else _files(paths):
            if image.dtype.kind not in "biuf":
                raise InputError(f"{name} holds {image.dtype}, not real numbers")
            if shape is None:
                shape, dtype = image.shape, np.float32 if image.dtype.itemsize < 3 else np.float64
            if image.shape != shape:
                raise InputError(
                    f"{name} has shape {image.shape} where the first image has {shape}: all must be of one shape"
                )
            copy.write(image.astype(dtype).tobytes())
            k += 1
        if shape is None or k < 2:
            raise InputError(f"{paths[0]} has {k} page, that is one mixture: give at least two")
        copy.flush()
        matrix = (k, int(np.prod(shape)))
        name = str(paths[0]) if len(paths) == 1 else f"{k} images"
        reader = MatrixReader(
            name, "images", matrix, dtype, 1,
            lambda index: np.array(np.memmap(copy, dtype, "r", 0, matrix)[index]), close=copy.close,
        )  # fmt: skip
    except BaseException:
        copy.close()
        raise
    reader.image_shape = shape
    return reader


def _files(paths: Sequence[Path]) -> Iterator[tuple[str, Array]]:
    imread = optional("imageio.v3", "reading images").imread
    for path in paths:
        with reading(str(path), "an image"), _damage():
            image = np.squeeze(np.asarray(imread(path.read_bytes(), extension=path.suffix.lower())))
            if image.ndim == 3 and image.shape[2] in (2, 4):
                image = image[..., :-1]  # without transparency
            if image.ndim not in (2, 3):
                raise InputError(f"{path} has shape {image.shape}: one picture in each file, please")
        yield str(path), np.squeeze(image)


@contextmanager
def _damage() -> Iterator[None]:
    """Raise what tifffile only logs: it passes over pages that it cannot read, and mixtures would be missing."""
    said: list[str] = []
    logger = logging.getLogger("tifffile")
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
    if said:
        raise ValueError(said[0])


def _pages(path: Path) -> Iterator[tuple[str, Array]]:
    tifffile = optional("tifffile", "reading TIFF")
    with reading(str(path), "TIFF"), _damage(), tifffile.TiffFile(path) as file:
        if len(file.pages) == 1:
            stack = file.pages[0].asarray()
            if stack.ndim != 3 or stack.shape[2] in (3, 4):
                raise InputError(f"{path} has 1 page, that is one mixture: give at least two")
            yield from ((f"{path}, page {i}", page) for i, page in enumerate(stack))
            return
        for i, page in enumerate(file.pages):
            yield f"{path}, page {i}", page.asarray()


def _write_pages(path: Path, sources: Array, shape: tuple[int, ...]) -> None:
    """Write the columns of `sources` as pages of a TIFF, in float32."""
    tifffile = optional("tifffile", "writing TIFF")
    with tifffile.TiffWriter(path, bigtiff=sources.size * 4 > 2**31) as file:
        pages = (np.ascontiguousarray(column, dtype=np.float32).reshape(shape) for column in sources.T)
        colour = "rgb" if len(shape) == 3 else "minisblack"
        file.write(pages, shape=(sources.shape[1], *shape), dtype=np.float32, photometric=colour)


def _write_image(path: Path, suffix: str, source: Array, shape: tuple[int, ...]) -> None:
    """Write one source as an image, its largest value white."""
    largest = float(source.max()) or 1.0
    deep = suffix == ".png" and len(shape) == 2
    white, dtype = (65535, np.uint16) if deep else (255, np.uint8)
    image = np.rint(np.asarray(source, np.float64) * (white / largest)).astype(dtype).reshape(shape)
    optional("imageio.v3", "writing images").imwrite(path, image, extension=suffix)


def output_files(path: Path, n_sources: int, image_shape: tuple[int, ...] | None) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source.

    Examples
    --------
    >>> [str(p) for p in output_files(Path("s.png"), 2, (8, 8))]
    ['s-0.png', 's-1.png']
    """
    suffix = path.suffix.lower()
    if suffix in IMAGES and suffix not in TIFF:
        return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(n_sources)]
    return [path]


def thumbnails(reader: Reader, transform: Callable[[Array], Array], size: int = 240) -> tuple[Array, Array]:
    """Return mixtures and sources as pictures of at most about `size` pixels a side, every so many pixels one."""
    assert reader.image_shape is not None
    height, width, *colours = reader.image_shape
    step = max(1, -(-max(height, width) // size))
    rows, columns = np.arange(0, height, step), np.arange(0, width, step)
    index = rows[:, np.newaxis] * width + columns
    if colours:
        index = index[..., np.newaxis] * colours[0] + np.arange(colours[0])
    wanted, seen, X = index.ravel(), 0, []
    for block in reader.blocks():
        inside = wanted[np.searchsorted(wanted, seen) : np.searchsorted(wanted, seen + len(block))]
        X.append(block[inside - seen])
        seen += len(block)
    mixtures = np.concatenate(X)
    sources = transform(mixtures)
    return mixtures.T.reshape(-1, *index.shape), sources.T.reshape(-1, *index.shape)


class ImageWriter(Writer):
    """Pages of a TIFF, or a file for each source; the pixels wait in a nameless file on disk."""

    def __init__(self, path: Path, n_sources: int, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(path, n_sources, dtype)
        self._shape, self._pixels = shape, TemporaryFile()  # noqa: SIM115 - release closes it
        self._files = output_files(path, n_sources, shape)
        for file in self._files:
            remove(part_of(file))  # of a process that was killed

    def write(self, block: Array) -> None:
        """Append samples."""
        self._pixels.write(np.ascontiguousarray(block, self.dtype).data)
        self.n_samples += len(block)

    def finish(self) -> None:
        """Complete the partial file."""
        self._pixels.flush()
        sources = np.memmap(self._pixels, self.dtype, "r", 0, (self.n_samples, self.n_sources))
        suffix = self.path.suffix.lower()
        if suffix in TIFF:
            _write_pages(self.part, sources, self._shape)
            return
        for file, source in zip(self._files, sources.T, strict=True):
            _write_image(part_of(file), suffix, source, self._shape)

    def release(self) -> None:
        """Close what is open."""
        self._pixels.close()

    def commit(self) -> None:
        """Give the complete files their names."""
        for file in self._files:
            rename(part_of(file), file)

    def abort(self) -> None:
        """Leave nothing."""
        for file in self._files:
            remove(part_of(file))
