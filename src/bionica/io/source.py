"""What every reader of mixtures is: blocks of samples, one after the other, in bounded memory."""

import errno
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from .spread import Spread

if TYPE_CHECKING:
    from .columns import Columns

__all__ = ["InputError", "MatrixReader", "Reader", "block_rows", "floats", "optional", "reading"]

Array = NDArray[Any]

_BLOCK_BYTES = 2**22
#: What a full disk says, where a file is unpacked to disk.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class InputError(ValueError):
    """Data that cannot be read as mixtures; the message names the file, the place and the remedy."""


def optional(module: str, why: str) -> Any:
    """Import a package that only some formats need.

    Examples
    --------
    >>> optional("json", "to read JSON").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{why} needs the package {module.partition('.')[0]}: pip install 'bionica[io]' ({error})"
        ) from error


@contextmanager
def reading(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a library says about a broken file into one sentence."""
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:  # every library has its own, and broken bytes find all of them
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        cause = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{name} cannot be read as {kind} ({cause}): is it complete, and of this format?") from error


def block_rows(n_features: int) -> int:
    """Rows of a block: 4 MiB of float64, at most 65,536.

    Examples
    --------
    >>> block_rows(3), block_rows(1000)
    (65536, 524)
    """
    return max(1, min(65536, _BLOCK_BYTES // (8 * max(1, n_features))))


def floats(values: Any, name: str, first: int = 0) -> Array:
    """Return the block C-ordered in float32 or float64, every number finite, or say which is not.

    Parameters
    ----------
    values : array-like of shape (n, k)
        Numbers. float32 stays, float16 becomes float32, all others float64.
    name : str
        The file, for the message.
    first : int, default=0
        Number of the block's first sample.

    Returns
    -------
    ndarray of shape (n, k)

    Examples
    --------
    >>> floats([[1, 2]], "a.npy")
    array([[1., 2.]])
    >>> floats([[1.0, float("nan")]], "a.npy", first=6)
    Traceback (most recent call last):
    bionica.io.source.InputError: a.npy, sample 6, mixture 1 is nan: drop or fill such samples first (both counted from 0)
    """
    block: Array = np.asarray(values)
    _check_dtype(block.dtype, name)
    dtype = np.float32 if block.dtype.newbyteorder("=") in (np.float32, np.float16) else np.float64
    block = np.asarray(block, dtype=dtype, order="C")
    finite = np.isfinite(block)
    if not finite.all():
        i, j = np.argwhere(~finite)[0]
        raise InputError(
            f"{name}, sample {first + i}, mixture {j} is {block[i, j]}: drop or fill such samples first "
            "(both counted from 0)"
        )
    return block


def _check_dtype(dtype: Any, name: str) -> None:
    if dtype.kind not in "biuf":
        raise InputError(f"{name} holds {dtype}, not real numbers: convert it to float64 first")


class Reader(ABC):
    """Mixtures from somewhere.

    Attributes
    ----------
    name : str
        For messages.
    n_samples : int or None
        None where nobody has counted yet; known after `sample`.
    n_features : int or None
        None before the first block of a pipe.
    repeatable : bool
        Whether `blocks` can be called again.
    image_shape : tuple of int or None
        Where the samples are the pixels of an image, its shape.
    header : list of str or None
        Names of all columns of the file, where they have any.
    kept : list of int or None
        Where some columns are left out, the numbers of the others, from 0.
    notes : list of str
        What the user should know about how the file was read, for one that leaves out an index.
    """

    name: str
    n_samples: int | None = None
    n_features: int | None = None
    repeatable: bool = True
    image_shape: tuple[int, ...] | None = None
    header: list[str] | None = None
    kept: list[int] | None = None
    notes: Sequence[str] = ()

    def column(self, j: int) -> str:
        """Return how a user knows mixture j: by the number of its column from 1, and by its name."""
        number = self.kept[j] if self.kept else j
        return f"column {number + 1} ({self.header[number]})" if self.header else f"column {number + 1}"

    @abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from number `start` on: finite floats, (n, n_features), C-ordered."""

    def sample(self, limit: int) -> Array:
        """Return at most `limit` samples, evenly spread; all of them where there are no more. Counts the samples too."""
        spread = Spread(limit)
        for block in self.blocks():
            spread.add(block)
        self.n_samples = spread.seen
        return spread.rows()

    def close(self) -> None:
        """Let go of files."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class MatrixReader(Reader):
    """A matrix of which any range of samples can be had.

    Parameters
    ----------
    name, kind : str
        The file and what it should be, for messages.
    shape : tuple of int
        Of the matrix as it lies there.
    dtype : dtype
        Of its numbers.
    axis : {0, 1}
        Which of the axes holds the samples.
    fetch : callable
        `fetch(index)` returns matrix[index].
    rows : int, optional
        Samples of a block.
    gather : bool, default=False
        Whether single samples are cheap to fetch.
    close : callable, optional
        Called by `close`.

    Examples
    --------
    >>> X = np.arange(12).reshape(2, 6)
    >>> reader = MatrixReader("X", "a matrix", X.shape, X.dtype, 1, X.__getitem__)
    >>> [block.shape for block in reader.blocks(start=2)]
    [(4, 2)]
    """

    def __init__(
        self,
        name: str,
        kind: str,
        shape: tuple[int, ...],
        dtype: Any,
        axis: int,
        fetch: Callable[[Any], Any],
        *,
        rows: int | None = None,
        gather: bool = False,
        close: Callable[[], None] | None = None,
    ) -> None:
        if len(shape) != 2:
            raise InputError(
                f"{name} has shape {shape}: mixtures are a matrix, samples x mixtures (or the other way round with --axis 1)"
            )
        _check_dtype(np.dtype(dtype), name)
        if 0 in shape:
            raise InputError(f"{name} is empty: its shape is {shape}")
        self.name, self._kind, self._fetch, self._close = name, kind, fetch, close
        self._axis, self._gather = axis, gather
        self.n_samples, self.n_features = int(shape[axis]), int(shape[1 - axis])
        self._rows = rows or block_rows(self.n_features)

    def choose(self, columns: "Columns") -> Self:
        """Read some of the mixtures only."""
        assert self.n_features is not None
        try:
            kept = columns.kept(self.name, self.n_features)
        except InputError:
            self.close()
            raise
        if len(kept) < self.n_features:
            self.kept, self.n_features = kept, len(kept)
        return self

    def _part(self, index: Any, first: int) -> Array:
        with reading(self.name, self._kind):
            part = self._fetch(index) if self._axis == 0 else np.asarray(self._fetch((slice(None), index))).T
        return floats(part if self.kept is None else np.asarray(part)[:, self.kept], self.name, first)

    def blocks(self, start: int = 0) -> Iterator[Array]:
        """Yield the samples from number `start` on."""
        assert self.n_samples is not None
        for begin in range(start, self.n_samples, self._rows):
            yield self._part(slice(begin, min(begin + self._rows, self.n_samples)), begin)

    def sample(self, limit: int) -> Array:
        """Return at most `limit` samples, evenly spread."""
        n = self.n_samples
        assert n is not None
        if not self._gather or n <= limit:
            return super().sample(limit)
        index = np.arange(limit) * n // limit
        return np.concatenate([self._part(index[i : i + 256], int(index[i])) for i in range(0, limit, 256)])

    def close(self) -> None:
        """Let go of files."""
        if self._close is not None:
            self._close()
