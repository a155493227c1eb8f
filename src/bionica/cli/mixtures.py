"""What `separate` and `apply` share: the options of reading, and how files are named.

ReadingOptions      how the inputs are read
default_output      the file for the sources of an input
differing_channel   where two axes of wavelengths differ
energies, share_of  how much the sources leave unexplained
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import typer

from bionica import io

_Read = partial(typer.Option, rich_help_panel="How the input is read")
DecimalPoint = StrEnum("DecimalPoint", {"point": ".", "comma": ","})
#: Options that a model remembers, and those that `io.ReadOptions` takes as they are.
LEVELS = ("offset", "saturated", "optical_density")
_AS_GIVEN = ("axis", "use", "skip", "skip_lines", "header", "encoding", "dataset")


@dataclass
class ReadingOptions:
    """How the inputs of `separate` and `apply` are read: `io.ReadOptions`."""

    axis: int | None = _Read(
        None, min=0, max=1, metavar="0|1", help="Axis of the samples: 0 is rows."
    )
    use: str | None = _Read(
        None, metavar="COLUMNS", help="The mixtures: red,blue or 2-4,7, from 1 on."
    )
    skip: str | None = _Read(
        None, metavar="COLUMNS", help="Columns that are not mixtures."
    )
    skip_lines: int = _Read(
        0, min=0, metavar="N", help="Lines of text before the table."
    )
    header: bool | None = _Read(
        None, "--header/--no-header", help="Whether the first line holds names."
    )
    decimal: DecimalPoint | None = _Read(
        None, help="Decimal point of text, read and written."
    )
    encoding: str | None = _Read(
        None, metavar="NAME", help="Encoding of text: utf-8, cp1252, ..."
    )
    dataset: str | None = _Read(
        None, metavar="NAME", help="Array or sheet, if a file holds several."
    )
    optical_density: bool | None = _Read(
        None, "--optical-density", help="Images of light to absorbance."
    )
    offset: float | None = _Read(
        None, metavar="LEVEL", help="Dark level of the detector: it is subtracted."
    )
    saturated: float | None = _Read(
        None,
        metavar="LEVEL",
        help="From this value on the detector is saturated: cells are missing.",
    )

    def origin(self) -> dict[str, float]:
        """Return what a model remembers of how its input was read: what is given."""
        given = {name: getattr(self, name) for name in LEVELS}
        return {name: float(x) for name, x in given.items() if x is not None}

    def for_reader(self, origin: dict[str, float], missing: bool) -> io.ReadOptions:
        """Return the options of `io.open_reader`, with these levels of a detector."""
        given = {name: getattr(self, name) for name in _AS_GIVEN} | origin
        given["optical_density"] = "optical_density" in origin
        given["decimal"] = self.decimal and self.decimal.value
        return io.ReadOptions(missing=missing, **given)


def default_output(path: Path, stem: str | None = None) -> Path:
    """Return the file for the sources of an input: beside it and in its format.

    In another format if this one cannot be written.
    """
    suffix = path.suffix
    if suffix.lower() in (".jpg", ".jpeg"):
        suffix = ".png"  # no loss
    if suffix.lower() not in (*io.WRITTEN, *io.IMAGES):
        suffix = ".csv"
    name, ome = path.stem, ""
    if name.lower().endswith(".ome"):
        name, ome = name[:-4], name[-4:]
    return path.parent / f"{stem or f'{name}-sources'}{ome}{suffix}"


def differing_channel(here: Any, there: Any, *units: str | None) -> str | None:
    """Return where two axes of wavelengths differ by more than rounding, in words.

    None if they do not. A unit that is None is not known.
    """
    if all(units) and len({*units}) > 1:
        return f"{units[0]} is not {units[1]}"
    if len(here) != len(there):
        return f"{len(here)} wavelengths are not {len(there)}"
    digits = min(max(map(_n_decimals, axis)) for axis in (here, there))
    differ = ~np.isclose(here, there, atol=0.51 * 10.0**-digits)
    if not differ.any():
        return None
    return f"{here[differ][0]:g} is not {there[differ][0]:g}"


def _n_decimals(value: float) -> int:
    return -int(Decimal(f"{value:.12g}").as_tuple().exponent)


def energies(X: Any, Y: Any, A: Any) -> Any:
    """Return the unexplained energy of each sample of X, and all of it, (2, n).

    Outputs Y and mixing A explain Y A'.
    """
    with np.errstate(all="ignore"):
        residual = X - Y @ np.asarray(A, float).T
        return np.nansum([residual**2, np.square(X, dtype=float)], axis=2)


def share_of(energy: Any) -> float:
    """Return the first of two energies over the second."""
    return float(energy[0] / max(energy[1], 1e-300))
