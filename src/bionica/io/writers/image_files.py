"""Sources as images: pages of a TIFF, or a file for each source."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..atomic import partial_path, remove, rename
from ..readers import import_optional
from ..readers.images import IMAGES, TIFF
from .writer import Writer

__all__ = ["ImageWriter", "output_files"]

Array = NDArray[Any]


def output_files(path: Path, n_sources: int) -> list[Path]:
    """Return the files that an output name stands for: itself, or for images one for each source.

    Examples
    --------
    >>> [str(p) for p in output_files(Path("s.png"), 2)]
    ['s-0.png', 's-1.png']
    """
    suffix = path.suffix.lower()
    if suffix in IMAGES and suffix not in TIFF:
        return [path.with_name(f"{path.stem}-{i}{path.suffix}") for i in range(n_sources)]
    return [path]


class ImageWriter(Writer):
    """Collects the pixels in an unnamed file on disk, and writes the images at the end."""

    def __init__(self, path: Path, n_sources: int, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(path, n_sources, dtype)
        self._shape, self._pixels = shape, TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._files = output_files(path, n_sources)
        self.discard()  # left by a killed process

    def write(self, block: Array) -> None:
        """Append samples."""
        self._pixels.write(np.ascontiguousarray(block, self.dtype).data)
        self.n_samples += len(block)

    def finish(self) -> None:
        """Write the partial files."""
        self._pixels.flush()
        sources = np.memmap(self._pixels, self.dtype, "r", 0, (self.n_samples, self.n_sources))
        suffix = self.path.suffix.lower()
        if suffix in TIFF:
            _write_pages(self.partial, sources, self._shape)
            return
        for file, source in zip(self._files, sources.T, strict=True):
            _write_image(partial_path(file), suffix, source, self._shape)

    def close(self) -> None:
        """Close what is open."""
        self._pixels.close()

    def commit(self) -> None:
        """Give the complete files their names."""
        for file in self._files:
            rename(partial_path(file), file)

    def discard(self) -> None:
        """Remove what was written."""
        for file in self._files:
            remove(partial_path(file))


def _write_pages(path: Path, sources: Array, shape: tuple[int, ...]) -> None:
    """Write the columns of `sources` as pages of a TIFF, in float32."""
    tifffile = import_optional("tifffile", "writing TIFF")
    with tifffile.TiffWriter(path, bigtiff=sources.size * 4 > 2**31) as file:
        pages = (np.ascontiguousarray(column, dtype=np.float32).reshape(shape) for column in sources.T)
        colour = "rgb" if len(shape) == 3 else "minisblack"
        file.write(pages, shape=(sources.shape[1], *shape), dtype=np.float32, photometric=colour)


def _write_image(path: Path, suffix: str, source: Array, shape: tuple[int, ...]) -> None:
    """Write one source as an image, its largest value white."""
    largest = float(source.max()) or 1.0
    white, dtype = (65535, np.uint16) if suffix == ".png" and len(shape) == 2 else (255, np.uint8)
    image = np.rint(np.asarray(source, np.float64) * (white / largest)).astype(dtype).reshape(shape)
    import_optional("imageio.v3", "writing images").imwrite(path, image, extension=suffix)
