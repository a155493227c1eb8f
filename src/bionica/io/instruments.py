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

A function of the registry takes a path and returns a `Measurement`;
`bionica.io.register` adds one for another suffix. Several files of one suffix are read
as one table, if they have the same axis.
"""

import logging
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bionica.core.errors import InputError, printable
from bionica.io.reader import (
    MatrixReader,
    ReadOptions,
    check_size,
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
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
#: First digits of the ordinates of JCAMP-DX: -9 to 9 of the number, -9 to 9 of a
#: difference from the last, counts of repeats.
_SQUEEZED = "ihgfedcba@ABCDEFGHI"
_DIFFERENCE = "rqponmlkj%JKLMNOPQR"
_REPEAT = "?STUVWXYZs"
_PACKED = re.compile(r"[@%A-Za-s]\d*\.?\d*|[-+]?(?:\d+\.?\d*|\.\d+)")


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


def _check_start(path: Path, start: bytes, what: str) -> None:
    with path.open("rb") as file:
        if file.read(len(start)) != start:
            raise InputError(
                f"{path} is no {what} file: what its suffix says is not what it holds"
            )


def _jcamp_tables(path: Path) -> Iterator[tuple[dict[str, str], str, list[str]]]:
    """Yield each table of a JCAMP-DX file: the labelled records before it, its form,
    and its lines.
    """
    records = dict[str, str]()
    form = ""
    lines = list[str]()
    for line in [*path.read_bytes().decode("utf-8", "replace").splitlines(), "##END="]:
        line = line.partition("$$")[0]
        if line.startswith("##"):
            if form:
                yield dict(records), form, lines
            label, _, value = line[2:].partition("=")
            label = re.sub(r"[\s/_-]", "", label).upper()
            records = {} if label == "TITLE" else records
            records[label] = value.strip()
            form = (
                "".join(value.split())
                if label in ("XYDATA", "XYPOINTS", "PEAKTABLE")
                else ""
            )
            lines = []
        elif _NUMBER.search(line):
            lines.append(line)


def _jcamp_spectrum(
    path: Path, records: Mapping[str, str], form: str, lines: Sequence[str]
) -> tuple[Any, Any]:
    """The abscissas and the ordinates of a table: JCAMP-DX 4.24, section 5.8."""
    number = {
        key: float(m[0])
        for key, text in records.items()
        if (m := _NUMBER.match(text.replace(",", ".")))
    }
    factor = number.get("XFACTOR", 1.0)
    scale = number.get("YFACTOR", 1.0)
    if form.startswith("(XY..XY"):  # a damaged pair cannot be reshaped
        pairs = np.array(
            [float(text) for line in lines for text in _NUMBER.findall(line)]
        ).reshape(-1, 2)
        return pairs[:, 0] * factor, pairs[:, 1] * scale
    if not form.startswith("(X++(Y..Y)") or not {"FIRSTX", "LASTX", "NPOINTS"} <= set(
        number
    ):
        raise InputError(
            f"{path} holds {form}, or no FIRSTX, LASTX and NPOINTS: export XYDATA of"
            " the form (X++(Y..Y))"
        )
    n = int(number["NPOINTS"])
    check_size(str(path), 8 * n, "export fewer points")
    axis = np.linspace(number["FIRSTX"], number["LASTX"], n)
    tolerance = abs(factor) + abs(axis[-1] - axis[0]) / max(n - 1, 1)
    # without E and e, of exponents
    packed = re.search(r"[@%A-DF-Za-df-s]", "".join(lines))
    y = list[float]()
    step = 0.0
    is_difference = False
    damaged = False
    for line in lines:
        x, *tokens = (_PACKED if packed else _NUMBER).findall(line)
        # a line that ends in a difference is checked: the next begins with the same
        # ordinate
        repeated = is_difference
        at = len(y) - repeated
        damaged |= at < n and bool(abs(float(x) * factor - axis[at]) > tolerance)
        for i, token in enumerate(tokens):
            first = token[0]
            rest = token[1:]
            if first in _REPEAT:
                times = min(int(f"{_REPEAT.index(first)}{rest}"), n + 2 - len(y))
                y += [y[-1] + step * k for k in range(1, times)]
            elif first in _DIFFERENCE:
                step = float(f"{_DIFFERENCE.index(first) - 9}{rest}")
                is_difference = True
                y.append(y[-1] + step)
            else:
                value = float(
                    f"{_SQUEEZED.index(first) - 9}{rest}"
                    if first in _SQUEEZED
                    else token
                )
                step = 0.0
                is_difference = False
                if i == 0 and repeated:
                    damaged |= not math.isclose(
                        value, y[-1], rel_tol=1e-9, abs_tol=1e-9
                    )
                else:
                    y.append(value)
    if damaged or len(y) != n:
        raise InputError(
            f"{path} contradicts itself: NPOINTS={n}, {len(y)} numbers, checks"
            f" {'do not ' * damaged}hold"
        )
    return axis, np.array(y) * scale


def read_jcamp(path: Path) -> Measurement:
    """The spectra of a JCAMP-DX file, which have one axis."""
    tables = list(_jcamp_tables(path))
    if not tables:
        raise InputError(
            f"{path} holds no XYDATA, XYPOINTS or PEAK TABLE: export one of them"
            " (NTUPLES are not read)"
        )
    spectra = [_jcamp_spectrum(path, *table) for table in tables]
    if any(not np.array_equal(x, spectra[0][0]) for x, _ in spectra):
        raise InputError(
            f"{path} holds {len(spectra)} spectra with different axes: save them one"
            " by one"
        )
    titles = [
        records.get("TITLE") or f"spectrum {i}"
        for i, (records, *_) in enumerate(tables, 1)
    ]
    units = sorted({records["YUNITS"] for records, *_ in tables if "YUNITS" in records})
    notes = [f"the numbers are {' and '.join(units)}"] if units else []
    return Measurement(
        np.stack([y for _, y in spectra]),
        spectra[0][0],
        titles,
        tables[0][0].get("XUNITS"),
        notes=notes,
    )


def read_spc(path: Path) -> Measurement:
    """The spectra of an SPC file, which have one axis."""
    with path.open("rb") as file:
        content = _package("spc_io", "SPC").SPC.from_bytes_io(file)
    if content.xarray is None and any(
        not np.array_equal(sub.xarray, content[0].xarray) for sub in content
    ):
        raise InputError(
            f"{path} holds {len(content)} spectra with different axes: save them one by"
            " one, or interpolate them"
        )
    labels = [f"z {sub.z:g}" for sub in content] if len(content) > 1 else [path.stem]
    unit = _SPC_UNITS.get(content.xtype)
    notes = [f"the numbers are {content.ytype}"]
    return Measurement(
        np.stack([sub.yarray for sub in content]),
        content[0].xarray,
        labels,
        unit,
        notes=notes,
    )


def read_opus(path: Path) -> Measurement:
    """A spectrum or series of an OPUS file: the first result (absorbance, ...), or else
    sample or reference.
    """
    package = _package("brukeropus", "OPUS")
    _check_start(path, b"\n\n\xfe\xfe", "OPUS")
    content = package.read_opus(str(path))
    data = [getattr(content, key) for key in content.all_data_keys]
    one = min(
        data,
        key=lambda each: (
            2 if each.key[:2] in ("ig", "ph") else each.key[:2] in ("sm", "rf")
        ),
    )
    others = ", ".join(each.label for each in data if each is not one)
    labels = [path.stem] if np.ndim(one.y) == 1 else []
    notes = [f"the numbers are {one.label}" + f"; left out: {others}" * bool(others)]
    return Measurement(
        np.atleast_2d(one.y),
        one.x,
        labels,
        _OPUS_UNITS.get(one.params.dxu),
        notes=notes,
    )


def read_omnic(path: Path) -> Measurement:
    """The spectra of an OMNIC file."""
    package = _package("spectrochempy_omnic", "OMNIC")
    _check_start(path, b"Spectral ", "OMNIC")
    content = package.OMNICReader(path)
    notes = [f"the numbers are {content.title}"]
    return Measurement(
        content.data,
        content.x,
        [str(label) for label in content.y_labels[1]],
        content.x_units,
        notes=notes,
    )


def read_wdf(path: Path) -> Measurement:
    """The spectra of a WiRE file, in the order of the measurement; those of a map are
    not an image.
    """
    package = _package("renishawWiRE", "WiRE")
    _check_start(path, b"WDF1", "WiRE")
    content = package.WDFReader(path)
    content.close()
    X = np.reshape(content.spectra, (-1, content.point_per_spectrum))
    stopped = (
        f"; the measurement was stopped after {content.count} of {content.capacity}"
        " spectra"
    )
    notes = [
        f"the numbers are {content.spectral_unit}"
        + stopped * (not content.is_completed)
    ]
    labels = (
        [f"x {x:g} y {y:g}" for x, y in zip(content.xpos, content.ypos, strict=True)]
        if len(X) > 1
        else [path.stem]
    )
    return Measurement(X, content.xdata, labels, str(content.xlist_unit), notes=notes)


def read_fcs(path: Path) -> Measurement:
    """The events of an FCS file, as the instrument scaled them.

    Time and scatter are not mixtures of dyes.
    """
    # the end of the data is often off by one; that all events are there is checked
    # below
    with path.open("rb") as file:
        content = _package("flowio", "FCS").FlowData(
            file, ignore_offset_error=True, nextdata_offset=0
        )
    if (
        content.events is None
        or len(content.events) != content.event_count * content.channel_count
    ):
        raise InputError(
            f"{path} is not complete, or has integers of a size that flowio does not"
            " read: export FCS 3.1"
        )
    kinds = [
        (re.compile(r"(fs|ss)c?\b", re.I), "scatter"),
        (re.compile(r"(time|hdr)\b", re.I), "time or count"),
    ]
    names = content.pnn_labels
    X = content.as_array()
    reasons = {
        j: kind
        for j, name in enumerate(names)
        for pattern, kind in kinds
        if pattern.match(name)
    }
    # only integers can be on a scale of decades; flowio changes these numbers
    if content.data_type != "I":
        logs = [j for j in range(len(names)) if content.channels[j + 1]["pne"][0] > 0]
        if logs:
            X[:, logs] = content.as_array(preprocess=False)[:, logs]
        reasons |= {j: "said to be a logarithm" for j in logs if j not in reasons}
    notes = [
        "the file holds several data sets, and this is the first: export the others to"
        " files of their own"
    ]
    return Measurement(
        X,
        names,
        reasons=reasons,
        notes=notes * (int(content.text.get("nextdata", 0)) > 0),
    )


def read_envi(path: Path) -> Measurement:
    """The image of an ENVI header; its numbers are in the file of the same name with
    another suffix, in the same folder.
    """
    envi = _package("spectral.io.envi", "ENVI")
    _check_start(path, b"ENVI", "ENVI")
    suffixes = ("", ".img", ".dat", ".raw", ".bin", ".bsq", ".bil", ".bip")
    files = [
        file for suffix in suffixes if (file := path.with_suffix(suffix)).is_file()
    ]
    if len(files) != 1:
        there = ", ".join(file.name for file in files) or "none"
        known = ", ".join(suffixes[1:])
        raise InputError(
            f"{path} needs one file of its name beside it, with the suffix {known}:"
            f" {there}"
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
    notes = describe_attributes({} if ignored is None else {"missing_value": ignored})
    axis = image.bands.centers or [f"band_{j + 1}" for j in range(image.shape[2])]
    return Measurement(
        image.open_memmap(interleave="bip"),
        axis,
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
    found = []
    labels = []
    axes = []
    notes = list[str]()
    for path in paths:
        logged: list[logging.LogRecord] = []  # what packages warn of becomes notes
        with (
            explain_errors(str(path)),
            log_records("spc_io", logging.WARNING, logged.append),
            warnings.catch_warnings(record=True) as warned,
        ):
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            one = INSTRUMENTS[suffix_of(path)](path)
            found.append(
                one.matrix if hasattr(one.matrix, "dtype") else np.asarray(one.matrix)
            )
        names = [printable(name) for name in one.labels]
        # the name of the file, and that of the sample if the file has several
        if len(paths) > 1:
            names = (
                names if len(names) == len(one.matrix) > 1 else [""] * len(one.matrix)
            )
            names = [f"{path.name} {name}".strip() for name in names]
        labels += names
        said = [each.getMessage() for each in logged] + [
            str(each.message) for each in warned
        ]
        said = [printable(text.replace(str(path), path.name)) for text in said]
        notes += [
            note for note in dict.fromkeys((*one.notes, *said)) if note not in notes
        ]
        axes.append(
            [
                f"{value:.12g}" if isinstance(value, float) else printable(str(value))
                for value in one.axis
            ]
        )
        if axes[-1] != axes[0]:
            remedy = "interpolate one of them, or give them one by one"
            raise InputError(f"{path} has another axis than {paths[0]}: {remedy}")
    if len(paths) > 1 and any(np.ndim(matrix) != 2 for matrix in found):
        raise InputError(f"{len(paths)} images: give one at a time")
    name, matrix = (
        (f"{len(paths)} files", np.concatenate(found))
        if len(paths) > 1
        else (str(paths[0]), found[0])
    )
    reader = MatrixReader(
        name, lambda: matrix, 0, options, axes[0], notes, one.reasons, labels
    )
    reader.unit = one.unit and printable(one.unit)
    return reader
