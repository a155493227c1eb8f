"""Options that several commands take."""

from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

_Read = partial(typer.Option, rich_help_panel="How the input is read")
_Talk = partial(typer.Option, rich_help_panel="What is printed and replaced")

DecimalPoint = StrEnum("DecimalPoint", {"point": ".", "comma": ","})

# Those of `io.open_reader`.
Axis = Annotated[
    int | None,
    _Read(min=0, max=1, metavar="0|1", help="Axis of the samples: 0 is rows."),
]
Use = Annotated[
    str | None,
    _Read(metavar="COLUMNS", help="The mixtures: red,blue or 2-4,7, from 1 on."),
]
Skip = Annotated[
    str | None, _Read(metavar="COLUMNS", help="Columns that are not mixtures.")
]
SkipLines = Annotated[
    int, _Read(min=0, metavar="N", help="Lines of text before the table.")
]
Header = Annotated[
    bool | None,
    _Read("--header/--no-header", help="Whether the first line holds names."),
]
Decimal = Annotated[
    DecimalPoint | None, _Read(help="Decimal point of text, read and written.")
]
Encoding = Annotated[
    str | None, _Read(metavar="NAME", help="Encoding of text: utf-8, cp1252, ...")
]
Dataset = Annotated[
    str | None, _Read(metavar="NAME", help="Array or sheet, if a file holds several.")
]
OpticalDensity = Annotated[
    bool, _Read("--optical-density", help="Images of light to absorbance.")
]
Offset = Annotated[
    float | None,
    _Read(metavar="LEVEL", help="Dark level of the detector: it is subtracted."),
]
Saturated = Annotated[
    float | None,
    _Read(
        metavar="LEVEL",
        help="From this value on the detector is saturated: cells are missing.",
    ),
]
Force = Annotated[bool, _Talk("--force", help="Replace files that exist.")]
Json = Annotated[
    bool, _Talk("--json", help="Print one line of JSON in place of everything else.")
]
Quiet = Annotated[bool, _Talk("--quiet", "-q", help="Print nothing but errors.")]


def origin(
    offset: float | None, saturated: float | None, optical_density: bool
) -> dict[str, float]:
    """How an input is read, as a model remembers it: what is given."""
    given = {
        "offset": offset,
        "saturated": saturated,
        "optical_density": float(optical_density) or None,
    }
    return {name: value for name, value in given.items() if value is not None}


def levels(origin: dict[str, float]) -> dict[str, Any]:
    """The dark level and the saturation of `io.ReadOptions`."""
    return {name: origin[name] for name in ("offset", "saturated") if name in origin}
