"""Mixtures and sources in files and pipes.

`open_reader` chooses a reader by the suffix of the file.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from bionica.core.errors import InputError, Message, OutputError
from bionica.io.columns import ROW_NAMES, wavelengths_in
from bionica.io.files import Target, check_folder, check_targets, write_own
from bionica.io.images import IMAGES, open_images
from bionica.io.instruments import INSTRUMENTS, open_instrument, suffix_of
from bionica.io.matrix import (
    Measurement,
    open_hdf5,
    open_mat,
    open_npy,
    open_npz,
    open_zarr,
)
from bionica.io.parquet import ParquetReader
from bionica.io.reader import (
    Reader,
    ReadOptions,
    RowSample,
    explain_errors,
    import_optional,
)
from bionica.io.text import TEXT, TextReader
from bionica.io.workbook import open_xlsx
from bionica.io.write import (
    WRITTEN,
    TextWriter,
    check_format,
    open_writer,
    output_files,
)

__all__ = [
    "IMAGES",
    "PIXELS",
    "ROW_NAMES",
    "TEXT",
    "WRITTEN",
    "InputError",
    "Measurement",
    "OutputError",
    "ReadOptions",
    "Reader",
    "RowSample",
    "Target",
    "TextWriter",
    "check_folder",
    "check_format",
    "check_inputs",
    "check_targets",
    "import_optional",
    "open_pipe",
    "open_reader",
    "open_writer",
    "output_files",
    "register",
    "wavelengths_in",
    "write_own",
]

#: What opens the files of a suffix, and the fields of `ReadOptions` that not all take.
_OPENERS: dict[str, tuple[Callable[..., Reader], tuple[str, ...]]] = {
    ".npy": (open_npy, ("axis",)),
    **dict.fromkeys(
        TEXT, (TextReader, ("axis", "header", "decimal", "skip_lines", "encoding"))
    ),
    ".xlsx": (open_xlsx, ("axis", "header", "skip_lines", "dataset")),
    ".parquet": (ParquetReader, ()),
    ".npz": (open_npz, ("axis", "dataset")),
    **dict.fromkeys((".h5", ".hdf5"), (open_hdf5, ("axis", "dataset"))),
    ".mat": (open_mat, ("axis", "dataset")),
    ".zarr": (open_zarr, ("axis", "dataset")),
    **dict.fromkeys(IMAGES, (open_images, ("optical_density",))),
    **dict.fromkeys(INSTRUMENTS, (open_instrument, ())),
}

_OF_FORMATS = {*chain.from_iterable(takes for _, takes in _OPENERS.values())}

#: Suffixes of files that may hold images or cubes, so that their sources may be images.
PIXELS = tuple(
    suffix for suffix in _OPENERS if suffix not in (*TEXT, ".xlsx", ".parquet")
)


def open_reader(
    inputs: str | Path | Sequence[str | Path],
    options: ReadOptions = ReadOptions(),  # noqa: B008
    **given: Any,
) -> Reader:
    r"""Open a file by its suffix, several images of one shape, or files of one
    instrument.

    InputError if they are no mixtures.

    Parameters
    ----------
    inputs
        A file, several images, or several files of an instrument
        (`bionica.io.instruments`).
    options, **given
        How they are read: `ReadOptions`, and its fields by name.

    Returns
    -------
    Reader
        `read()` returns all samples, `blocks()` yields them in blocks that fit in
        memory, `names` has the names of the mixtures, `wavelengths` these names as
        numbers, and `notes` says what was left out or taken for a header.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "x.csv").write_text("time;a;b\n0;1;2\n1;3;4\n")
    ...     with open_reader(f"{folder}/x.csv") as reader:
    ...         reader.read(), reader.names, reader.label_names
    (array([[1., 2.],
           [3., 4.]]), ['a', 'b'], ['time'])
    """
    options = replace(options, **given)
    paths = check_inputs([inputs] if isinstance(inputs, (str, Path)) else inputs)
    _check_together(paths)
    path = paths[0]
    suffix = suffix_of(path)
    opener, takes = _OPENERS[suffix]
    _check_options(options, suffix, takes)
    source = paths if suffix in (*IMAGES, *INSTRUMENTS) else path
    with explain_errors(str(path)):
        reader = opener(source, options)
    if suffix not in INSTRUMENTS:
        _check_declared(reader, paths)
    return reader


def _check_together(paths: Sequence[Path]) -> None:
    """Raise unless several inputs can be read as one, each once."""
    suffixes = {*map(suffix_of, paths)}
    are_of_one_instrument = len(suffixes) == 1 and suffixes <= {*INSTRUMENTS}
    if len(paths) > 1 and not (suffixes <= {*IMAGES} or are_of_one_instrument):
        raise InputError(
            f"{len(paths)} inputs that are not all images: join tables to one file, or "
            "give images of one shape or files of one instrument"
        )
    for path, n in Counter(map(Path.resolve, paths)).items():
        if n > 1:
            raise InputError(f"{path} is given twice")


def _check_options(options: ReadOptions, suffix: str, takes: Sequence[str]) -> None:
    """Raise if an option has no meaning for a format, or contradicts another."""
    for name in sorted(_OF_FORMATS.difference(takes)):
        value = getattr(options, name)
        if value != getattr(ReadOptions, name):
            template = f"{{{name}:={{!r}}}} has no meaning for a {{}} file: omit it"
            raise InputError(Message(template, value, suffix))
    if options.optical_density and (options.offset or options.saturated < math.inf):
        raise InputError(
            Message(
                "{optical_density:=True} finds the light level itself: omit {offset:=} "
                "and {saturated:=}"
            )
        )


def _check_declared(reader: Reader, paths: Sequence[Path]) -> None:
    """Raise if a file says that it holds far more numbers than its bytes can."""
    declared = 8 * (reader.n_samples or 0) * reader.n_features
    files = (file for path in paths for file in (path, *path.rglob("*")))
    if declared > max(2**30, 2**14 * sum(file.stat().st_size for file in files)):
        raise InputError(
            f"{paths[0]} declares {declared >> 20:,} MiB of numbers, more than 16,384 "
            "times its bytes on disk"
        )


def register(suffix: str, read: Callable[[Path], Measurement]) -> None:
    """Let `open_reader`, and with it `bionica.separate` of files, read another suffix
    with a function of a path.

    Examples
    --------
    >>> from bionica.io import Measurement, open_reader, register
    >>> def read_counts(path):
    ...     X = [[1.0, 2.0], [3.0, 4.0]]
    ...     return Measurement(X, axis=[400.0, 410.0], labels=["a", "b"], unit="nm")
    >>> register(".counts", read_counts)
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".counts") as file:
    ...     with open_reader(file.name) as reader:
    ...         reader.wavelengths, reader.unit
    (array([400., 410.]), 'nm')
    """
    INSTRUMENTS[suffix.lower()] = read
    _OPENERS[suffix.lower()] = (open_instrument, ())


def open_pipe(
    stream: Any,
    options: ReadOptions = ReadOptions(),  # noqa: B008
    **given: Any,
) -> Reader:
    """Read mixtures once from a binary stream of text, as `open_reader` reads files."""
    options = replace(options, **given)
    pipe = partial(nullcontext, stream)
    return TextReader(Path("standard input"), options, pipe=pipe)


def check_inputs(inputs: Sequence[str | Path]) -> list[Path]:
    """Return the paths of inputs; raise unless each is a file of a format that is read,
    or a Zarr store.
    """
    paths = [Path(name) for name in inputs]
    for path in paths:
        suffix = suffix_of(path)
        if not path.exists():
            raise InputError(
                f"{path} does not exist: check the name (the current folder is"
                f" {Path.cwd()})"
            )
        if path.is_dir() and suffix != ".zarr":
            raise InputError(f"{path} is a folder: give files")
        if suffix == ".zarr" and not path.is_dir():
            raise InputError(f"{path} is a file, and Zarr is a folder: give the folder")
        if not path.is_file() and not path.is_dir():
            raise InputError(
                f"{path} is a pipe or a device, which is read only once: cat {path} |"
                " bionica separate -"
            )
        if suffix not in _OPENERS:
            is_packed = suffix in (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z")
            raise InputError(
                f"{path} has the unknown suffix {suffix!r}:"
                f" {'unpack it; ' if is_packed else ''}bionica reads"
                f" {', '.join(_OPENERS)} and pipes"
            )
    return paths
