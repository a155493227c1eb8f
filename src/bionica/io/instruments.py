"""Files of instruments, each read by a package of its own (``pip install 'bionica[instruments]'``) through one function.

| suffix         | what                    | package     |
|----------------|-------------------------|-------------|
| .jdx .dx .jcm  | JCAMP-DX spectra        | jcamp       |
| .spc           | Galactic SPC spectra    | spc-io      |
| .fcs           | flow cytometry          | flowio      |
| .hdr           | ENVI images, two files  | spectral    |

A function of the registry takes a path and returns a `Measurement`; `bionica.io.register` adds one for another suffix. Several
files of one suffix are read as one table, if they have the same axis.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, printable
from .reader import Columns, MatrixReader, describe_attributes, explain_errors, import_optional

_SPC_UNITS = {"XWAVEN": "cm-1", "XRAMANS": "cm-1", "XNMETR": "nm", "XUMETR": "µm", "XEV": "eV"}


class Measurement(NamedTuple):
    """What a file holds.

    Attributes
    ----------
    matrix : array of shape (n_samples, n_channels), or (y, x, n_channels) for images
        The numbers.
    axis : sequence of float or str
        The position of each channel (wavelength, wavenumber), or its name.
    labels : sequence of str
        A name for each sample; may be empty.
    unit : str or None
        Of the axis.
    reasons : dict of int to str
        Channels that are not mixtures, and why: they are written beside the sources.
    notes : sequence of str
        What the user should know.
    """

    matrix: Any
    axis: Sequence[float | str]
    labels: Sequence[str] = ()
    unit: str | None = None
    reasons: Mapping[int, str] = {}
    notes: Sequence[str] = ()


def _package(module: str, purpose: str) -> Any:
    return import_optional(module, f"reading {purpose}", "instruments")


def read_jcamp(path: Path) -> Measurement:
    """Spectra of a JCAMP-DX file: one, or the blocks of a compound file with the same axis."""
    said = io.StringIO()  # jcamp prints failed checks, and goes on
    with path.open("rb") as file, redirect_stdout(said):
        content = _package("jcamp", "JCAMP-DX").read(file)
    spectra = [block for block in content.get("children", [content]) if len(block["y"])]
    if said.getvalue():
        raise InputError(f"{path} contradicts itself: {printable(said.getvalue().splitlines()[0][:100])}")
    if not spectra or any(not np.array_equal(block["x"], spectra[0]["x"]) for block in spectra):
        raise InputError(f"{path} holds no spectrum of pairs, or spectra with different axes: save them one by one")
    titles = [str(block.get("title", f"spectrum {i}")) for i, block in enumerate(spectra, 1)]
    return Measurement(np.stack([block["y"] for block in spectra]), spectra[0]["x"], titles, spectra[0].get("xunits"))


def read_spc(path: Path) -> Measurement:
    """The spectra of an SPC file, which have one axis."""
    with path.open("rb") as file:
        content = _package("spc_io", "SPC").SPC.from_bytes_io(file)
    if content.xarray is None and any(not np.array_equal(sub.xarray, content[0].xarray) for sub in content):
        raise InputError(f"{path} holds spectra with different axes: save them one by one, or interpolate them")
    labels = [f"z {sub.z:g}" for sub in content] if len(content) > 1 else [path.stem]
    unit = _SPC_UNITS.get(content.xtype)
    return Measurement(np.stack([sub.yarray for sub in content]), content[0].xarray, labels, unit)


def read_fcs(path: Path) -> Measurement:
    """The events of an FCS file, as the instrument scaled them. Time and scatter are not mixtures of dyes."""
    with path.open("rb") as file:
        content = _package("flowio", "FCS").FlowData(file)
        X = content.as_array()
    reasons = dict.fromkeys(content.scatter_indices, "scatter")
    reasons |= {} if content.time_index is None else {content.time_index: "time"}
    return Measurement(X, content.pnn_labels, reasons=reasons)


def read_envi(path: Path) -> Measurement:
    """The image of an ENVI header; its numbers are in the file of the same name with another suffix, in the same folder."""
    envi = _package("spectral.io.envi", "ENVI")
    suffixes = ("", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")
    files = [file for suffix in suffixes if (file := path.with_suffix(suffix)).is_file()]
    if len(files) != 1:
        there, known = ", ".join(file.name for file in files) or "none", ", ".join(suffixes[1:])
        raise InputError(f"{path} needs one file of its name beside it, with the suffix {known}: {there}")
    image = envi.open(str(path.absolute()), str(files[0].absolute()))
    size = int(np.prod(image.shape)) * np.dtype(image.dtype).itemsize + image.offset
    if size > files[0].stat().st_size:
        raise InputError(f"{path} declares {size:,} bytes, and {files[0].name} has fewer: it is not complete")
    ignored = image.metadata.get("data ignore value")
    notes = describe_attributes({} if ignored is None else {"missing_value": ignored})
    axis = image.bands.centers or [f"band_{j + 1}" for j in range(image.shape[2])]
    return Measurement(image.open_memmap(interleave="bip"), axis, unit=image.bands.band_unit, notes=notes)


#: The function for each suffix: path -> Measurement.
INSTRUMENTS: dict[str, Callable[[Path], Measurement]] = {
    **dict.fromkeys((".jdx", ".dx", ".jcm"), read_jcamp),
    ".spc": read_spc,
    ".fcs": read_fcs,
    ".hdr": read_envi,
}


def open_instrument(paths: Sequence[Path], columns: Columns) -> MatrixReader:
    """Open files of one suffix, which have the same axis."""
    found, labels, axes, notes = [], [], [], list[str]()
    for path in paths:
        with explain_errors(str(path)):
            one = INSTRUMENTS[path.suffix.lower()](path)
            found.append(one.matrix if hasattr(one.matrix, "dtype") else np.asarray(one.matrix))
        names = [printable(name) for name in one.labels]
        if len(paths) > 1:  # the name of the file, and that of the sample if the file has several
            names = names if len(names) == len(one.matrix) > 1 else [""] * len(one.matrix)
            names = [f"{path.name} {name}".strip() for name in names]
        labels += names
        notes += [note for note in one.notes if note not in notes]
        axes.append([f"{value:.12g}" if isinstance(value, float) else printable(str(value)) for value in one.axis])
        if axes[-1] != axes[0]:
            remedy = "interpolate one of them, or give them one by one"
            raise InputError(f"{path} has another axis than {paths[0]}: {remedy}")
    if len(paths) > 1 and any(np.ndim(matrix) != 2 for matrix in found):
        raise InputError(f"{len(paths)} images: give one at a time")
    name, matrix = (f"{len(paths)} files", np.concatenate(found)) if len(paths) > 1 else (str(paths[0]), found[0])
    reader = MatrixReader(name, lambda: matrix, 0, columns, axes[0], notes, one.reasons, labels)
    reader.unit = one.unit and printable(one.unit)
    return reader
