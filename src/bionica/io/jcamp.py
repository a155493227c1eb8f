"""JCAMP-DX files: spectra as text, in all packed forms.

`read_jcamp` returns the spectra of a file, by JCAMP-DX 4.24.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bionica.core.errors import InputError
from bionica.io.columns import Array
from bionica.io.matrix import Measurement
from bionica.io.reader import check_size

_TABLES = ("XYDATA", "XYPOINTS", "PEAKTABLE")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
#: First digits of ordinates: -9 to 9 of the number, -9 to 9 of a difference from the
#: last, counts of repeats.
_SQUEEZED = "ihgfedcba@ABCDEFGHI"
_DIFFERENCE = "rqponmlkj%JKLMNOPQR"
_REPEAT = "?STUVWXYZs"
_PACKED = re.compile(r"[@%A-Za-s]\d*\.?\d*|[-+]?(?:\d+\.?\d*|\.\d+)")
_PACKED_DIGIT = re.compile(r"[@%A-DF-Za-df-s]")  # without E and e, of exponents


def read_jcamp(path: Path) -> Measurement:
    """The spectra of a JCAMP-DX file, which have one axis."""
    tables = [*_tables(path)]
    if not tables:
        raise InputError(
            f"{path} holds no XYDATA, XYPOINTS or PEAK TABLE: export one of them"
            " (NTUPLES are not read)"
        )
    spectra = [_spectrum(path, *table) for table in tables]
    axis = spectra[0][0]
    if any(not np.array_equal(x, axis) for x, _ in spectra):
        raise InputError(
            f"{path} holds {len(spectra)} spectra with different axes: save them one"
            " by one"
        )
    titles = [
        records.get("TITLE") or f"spectrum {i}"
        for i, (records, *_) in enumerate(tables, 1)
    ]
    units = sorted({records["YUNITS"] for records, *_ in tables if "YUNITS" in records})
    return Measurement(
        np.stack([y for _, y in spectra]),
        axis,
        titles,
        tables[0][0].get("XUNITS"),
        notes=[f"the numbers are {' and '.join(units)}"] if units else [],
    )


def _tables(path: Path) -> Iterator[tuple[dict[str, str], str, list[str]]]:
    """Yield of each table the labelled records before it, its form, and its lines."""
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
            if label == "TITLE":
                records = {}
            records[label] = value.strip()
            form = "".join(value.split()) if label in _TABLES else ""
            lines = []
        elif _NUMBER.search(line):
            lines.append(line)


def _spectrum(
    path: Path, records: Mapping[str, str], form: str, lines: Sequence[str]
) -> tuple[Array, Array]:
    """The abscissas and the ordinates of a table: section 5.8."""
    number = {
        key: float(match[0])
        for key, text in records.items()
        if (match := _NUMBER.match(text.replace(",", ".")))
    }
    factor = number.get("XFACTOR", 1.0)
    scale = number.get("YFACTOR", 1.0)
    if form.startswith("(XY..XY"):
        numbers = [float(text) for line in lines for text in _NUMBER.findall(line)]
        pairs = np.reshape(numbers, (-1, 2))  # fails if a pair is damaged
        return pairs[:, 0] * factor, pairs[:, 1] * scale
    if not form.startswith("(X++(Y..Y)") or not number.keys() >= {
        "FIRSTX",
        "LASTX",
        "NPOINTS",
    }:
        raise InputError(
            f"{path} holds {form}, or no FIRSTX, LASTX and NPOINTS: export XYDATA of"
            " the form (X++(Y..Y))"
        )
    n = int(number["NPOINTS"])
    check_size(str(path), 8 * n, "export fewer points")
    axis = np.linspace(number["FIRSTX"], number["LASTX"], n)
    y, is_damaged = _ordinates(lines, axis, factor)
    if is_damaged or len(y) != n:
        raise InputError(
            f"{path} contradicts itself: NPOINTS={n}, {len(y)} numbers, checks"
            f" {'do not ' if is_damaged else ''}hold"
        )
    return axis, np.array(y) * scale


def _ordinates(
    lines: Sequence[str], axis: Array, factor: float
) -> tuple[list[float], bool]:
    """Unpack the lines (X++(Y..Y)); whether a check of a line fails.

    A line begins with its abscissa over `factor`. A line after one that ends in a
    difference begins with the last ordinate once more.
    """
    n = len(axis)
    tolerance = abs(factor) + abs(axis[-1] - axis[0]) / max(n - 1, 1)
    pattern = _PACKED if _PACKED_DIGIT.search("".join(lines)) else _NUMBER
    y = list[float]()
    step = 0.0
    is_difference = False
    is_damaged = False
    for line in lines:
        x, *tokens = pattern.findall(line)
        is_repeated = is_difference
        i = len(y) - is_repeated
        if i < n and abs(float(x) * factor - axis[i]) > tolerance:
            is_damaged = True
        for j, token in enumerate(tokens):
            first, rest = token[0], token[1:]
            if first in _REPEAT:
                times = min(int(f"{_REPEAT.index(first)}{rest}"), n + 2 - len(y))
                y += [y[-1] + step * k for k in range(1, times)]
            elif first in _DIFFERENCE:
                step = float(f"{_DIFFERENCE.index(first) - 9}{rest}")
                is_difference = True
                y.append(y[-1] + step)
            else:
                if first in _SQUEEZED:
                    token = f"{_SQUEEZED.index(first) - 9}{rest}"
                value = float(token)
                step = 0.0
                is_difference = False
                if j > 0 or not is_repeated:
                    y.append(value)
                elif not math.isclose(value, y[-1], rel_tol=1e-9, abs_tol=1e-9):
                    is_damaged = True
    return y, is_damaged
