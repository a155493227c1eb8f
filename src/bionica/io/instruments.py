"""Files of instruments, each read through one function, most by a package of its own
(``pip install 'bionica[instruments]'``).

| suffix         | what                    | package             |
|----------------|-------------------------|---------------------|
| .jdx .dx .jcm  | JCAMP-DX spectra        | none                |
| .spc           | Galactic SPC spectra    | spc-io              |
| .0 .1 ...      | Bruker OPUS spectra     | brukeropus          |
| .spa .spg      | Thermo OMNIC spectra    | spectrochempy-omnic |
| .wdf           | Renishaw WiRE spectra   | renishawWiRE        |
| .fcs           | flow cytometry          | flowio              |
| .hdr           | ENVI images, two files  | spectral            |

A function of `INSTRUMENTS` takes a path and returns a `Measurement`;
`bionica.io.register` adds one for another suffix. Several files of one suffix are read
as one table, if they have the same axis.
"""

import logging
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.errors import InputError, printable
from bionica.io.jcamp import read_jcamp
from bionica.io.matrix import MatrixReader, Measurement
from bionica.io.reader import (
    ReadOptions,
    describe_attributes,
    explain_errors,
    import_optional,
    log_records,
)

_SPC_UNITS = {
    "XWAVEN": "cm-1",
    "XRAMANS": "cm-1",
    "XNMETR": "nm",
    "XUMETR": "µm",
    "XEV": "eV",
}
_OPUS_UNITS = {
    "WN": "cm-1",
    "MI": "µm",
    "LGW": "log(cm-1)",
    "MIN": "min",
    "PNT": "point",
}
#: Channels of a flow cytometer that are not dyes.
_NO_DYES = {
    re.compile(r"(fs|ss)c?\b", re.IGNORECASE): "scatter",
    re.compile(r"(time|hdr)\b", re.IGNORECASE): "time or count",
}
#: Suffixes of the numbers of an ENVI header.
_ENVI_DATA = ("", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")


def _package(path: Path, module: str, what: str, start: bytes = b"") -> Any:
    """Import the package that reads a file, which must begin with `start`."""
    package = import_optional(module, f"reading {what}", "instruments")
    with path.open("rb") as file:
        if file.read(len(start)) != start:
            raise InputError(
                f"{path} is no {what} file: what its suffix says is not what it holds"
            )
    return package


def read_spc(path: Path) -> Measurement:
    """The spectra of an SPC file, which have one axis."""
    with path.open("rb") as file:
        content = _package(path, "spc_io", "SPC").SPC.from_bytes_io(file)
    axis = content[0].xarray
    if content.xarray is None and any(
        not np.array_equal(sub.xarray, axis) for sub in content
    ):
        raise InputError(
            f"{path} holds {len(content)} spectra with different axes: save them one by"
            " one, or interpolate them"
        )
    return Measurement(
        np.stack([sub.yarray for sub in content]),
        axis,
        [f"z {sub.z:g}" for sub in content] if len(content) > 1 else [path.stem],
        _SPC_UNITS.get(content.xtype),
        notes=[f"the numbers are {content.ytype}"],
    )


def read_opus(path: Path) -> Measurement:
    """A spectrum or series of an OPUS file: the first result (absorbance, ...).

    If there is none, the sample or the reference.
    """
    package = _package(path, "brukeropus", "OPUS", b"\n\n\xfe\xfe")
    content = package.read_opus(str(path))
    data = [getattr(content, key) for key in content.all_data_keys]
    order = {"sm": 1, "rf": 1, "ig": 2, "ph": 2}
    chosen = min(data, key=lambda each: order.get(each.key[:2], 0))
    note = f"the numbers are {chosen.label}"
    others = [each.label for each in data if each is not chosen]
    if others:
        note += f"; left out: {', '.join(others)}"
    return Measurement(
        np.atleast_2d(chosen.y),
        chosen.x,
        [path.stem] if np.ndim(chosen.y) == 1 else [],
        _OPUS_UNITS.get(chosen.params.dxu),
        notes=[note],
    )


def read_omnic(path: Path) -> Measurement:
    """The spectra of an OMNIC file."""
    package = _package(path, "spectrochempy_omnic", "OMNIC", b"Spectral ")
    content = package.OMNICReader(path)
    return Measurement(
        content.data,
        content.x,
        [str(label) for label in content.y_labels[1]],
        content.x_units,
        notes=[f"the numbers are {content.title}"],
    )


def read_wdf(path: Path) -> Measurement:
    """The spectra of a WiRE file, in the order of the measurement.

    Those of a map are not an image.
    """
    package = _package(path, "renishawWiRE", "WiRE", b"WDF1")
    content = package.WDFReader(path)
    content.close()
    X = np.reshape(content.spectra, (-1, content.point_per_spectrum))
    note = f"the numbers are {content.spectral_unit}"
    if not content.is_completed:
        note += (
            f"; the measurement was stopped after {content.count} of"
            f" {content.capacity} spectra"
        )
    labels = [path.stem]
    if len(X) > 1:
        places = zip(content.xpos, content.ypos, strict=True)
        labels = [f"x {x:g} y {y:g}" for x, y in places]
    return Measurement(X, content.xdata, labels, str(content.xlist_unit), notes=[note])


def read_fcs(path: Path) -> Measurement:
    """The events of an FCS file, as the instrument scaled them.

    Time and scatter are not mixtures of dyes.
    """
    package = _package(path, "flowio", "FCS")
    # the end of the data is often off by one; whether all events are there is checked
    with path.open("rb") as file:
        content = package.FlowData(file, ignore_offset_error=True, nextdata_offset=0)
    n_values = content.event_count * content.channel_count
    if content.events is None or len(content.events) != n_values:
        raise InputError(
            f"{path} is not complete, or has integers of a size that flowio does not"
            " read: export FCS 3.1"
        )
    names = content.pnn_labels
    X = content.as_array()
    logs = [j for j in range(len(names)) if content.channels[j + 1]["pne"][0] > 0]
    # only integers can be on a scale of decades; flowio changes these numbers
    if content.data_type == "I":
        logs = []
    if logs:
        X[:, logs] = content.as_array(preprocess=False)[:, logs]
    reasons = dict.fromkeys(logs, "said to be a logarithm")
    for pattern, reason in _NO_DYES.items():
        reasons |= {j: reason for j in range(len(names)) if pattern.match(names[j])}
    notes = []
    if int(content.text.get("nextdata", 0)) > 0:
        notes.append(
            "the file holds several data sets, and this is the first: export the others"
            " to files of their own"
        )
    return Measurement(X, names, reasons=reasons, notes=notes)


def read_envi(path: Path) -> Measurement:
    """The image of an ENVI header.

    Its numbers are in the file of the same name with another suffix, in the same
    folder.
    """
    envi = _package(path, "spectral.io.envi", "ENVI", b"ENVI")
    candidates = [path.with_suffix(suffix) for suffix in _ENVI_DATA]
    files = [file for file in candidates if file.is_file()]
    if len(files) != 1:
        there = ", ".join(file.name for file in files) or "none"
        raise InputError(
            f"{path} needs one file of its name beside it, with the suffix"
            f" {', '.join(_ENVI_DATA[1:])}: {there}"
        )
    # of Specim; nothing is lost
    warnings.filterwarnings("ignore", "Parameters with non-lowercase names")
    image = envi.open(str(path.absolute()), str(files[0].absolute()))
    size = int(np.prod(image.shape)) * np.dtype(image.dtype).itemsize + image.offset
    if size > files[0].stat().st_size:
        raise InputError(
            f"{path} declares {size:,} bytes, and {files[0].name} has fewer: it is not"
            " complete"
        )
    ignored = image.metadata.get("data ignore value")
    notes = describe_attributes({"missing_value": ignored})
    return Measurement(
        image.open_memmap(interleave="bip"),
        image.bands.centers or [f"band_{j + 1}" for j in range(image.shape[2])],
        unit=image.bands.band_unit,
        notes=notes,
    )


#: The function for each suffix: path -> Measurement.
INSTRUMENTS: dict[str, Callable[[Path], Measurement]] = {
    **dict.fromkeys((".jdx", ".dx", ".jcm"), read_jcamp),
    ".spc": read_spc,
    ".0": read_opus,
    **dict.fromkeys((".spa", ".spg"), read_omnic),
    ".wdf": read_wdf,
    ".fcs": read_fcs,
    ".hdr": read_envi,
}


def suffix_of(path: Path) -> str:
    """The suffix in lower case; ".0" for any number, which counts the files of OPUS."""
    suffix = path.suffix.lower()
    return ".0" if suffix[1:].isdecimal() and suffix not in INSTRUMENTS else suffix


def open_instrument(paths: Sequence[Path], options: ReadOptions) -> MatrixReader:
    """Open files of one suffix, which have the same axis."""
    first, *others = files = [*map(_measurement, paths)]
    for path, file in zip(paths, files, strict=True):
        if file.axis != first.axis:
            raise InputError(
                f"{path} has another axis than {paths[0]}: interpolate one of them, or"
                " give them one by one"
            )
    name = str(paths[0])
    matrix = first.matrix
    labels = first.labels
    if others:
        name = f"{len(paths)} files"
        if any(np.ndim(file.matrix) != 2 for file in files):
            raise InputError(f"{len(paths)} images: give one at a time")
        matrix = np.concatenate([file.matrix for file in files])
        # the name of the file, and that of the sample if the file has several
        labels = [
            f"{path.name} {label if len(file.labels) > 1 else ''}".strip()
            for path, file in zip(paths, files, strict=True)
            for label in file.labels or [""] * len(file.matrix)
        ]
    notes = dict.fromkeys(note for file in files for note in file.notes)
    header = [*map(str, first.axis)]
    reasons = files[-1].reasons
    reader = MatrixReader(
        name, lambda: matrix, options, header, [*notes], reasons, labels
    )
    reader.unit = files[-1].unit and printable(files[-1].unit)
    return reader


def _measurement(path: Path) -> Measurement:
    """Read a file: names as printable text, and what packages warn of as notes."""
    logged: list[logging.LogRecord] = []
    with (
        explain_errors(str(path)),
        log_records("spc_io", logging.WARNING, logged.append),
        warnings.catch_warnings(record=True) as warned,
    ):
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        file = INSTRUMENTS[suffix_of(path)](path)
        matrix = file.matrix
        if not hasattr(matrix, "dtype"):
            matrix = np.asarray(matrix)
    said = [record.getMessage() for record in logged]
    said += [str(warning.message) for warning in warned]
    names = [f"{x:.12g}" if isinstance(x, float) else str(x) for x in file.axis]
    notes = [*file.notes, *(text.replace(str(path), path.name) for text in said)]
    return file._replace(
        matrix=matrix,
        axis=[*map(printable, names)],
        labels=[*map(printable, file.labels)],
        notes=[*map(printable, notes)],
    )
