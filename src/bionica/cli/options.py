"""The options of `separate` and `apply`, and the methods that --method names."""

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bionica import io
from bionica.mixtures.methods import METHODS

AUTO = "auto"
_LEVEL = re.compile(r"\d*\.?\d+([eE][-+]?\d+)?")
#: Models of neural circuits, as in `METHODS`.
NETWORKS = {
    "interneuron": "InterneuronNICA",
    "local": "LocalNICA",
    "npca": "NonnegativePCA",
    "two-compartment": "TwoCompartmentNICA",
    "nsm": "TwoLayerNSM",
}
CLASSES = METHODS | NETWORKS
#: Methods that need samples to fit before they answer. The others learn from the first
#: sample on, if --sources is given.
OFFLINE = (AUTO, "batch", "cone")

DecimalPoint = StrEnum("DecimalPoint", {"point": ".", "comma": ","})
Scale = StrEnum("Scale", ["variance", "mean", "sum"])

_Read = partial(typer.Option, rich_help_panel="How the input is read")
_Model = partial(typer.Option, rich_help_panel="The model")
_Stream = partial(typer.Option, rich_help_panel="Pipes, and mixing that changes")
_Talk = partial(typer.Option, rich_help_panel="What is printed and replaced")

Force = Annotated[bool, _Talk("--force", help="Replace files that exist.")]
Json = Annotated[
    bool, _Talk("--json", help="Print one line of JSON in place of everything else.")
]
Quiet = Annotated[bool, _Talk("--quiet", "-q", help="Print nothing but errors.")]

_INPUT_HELP = (
    "Mixtures: .csv .tsv .xlsx .npy .npz .parquet .h5 .mat .zarr, images, instruments, "
    "or - (a pipe)."
)
_METHOD_HELP = (
    "auto: cone (sources may be correlated), or batch (uncorrelated) if X has both "
    "signs and it is better.\nstreaming: one pass,\nfor uncorrelated sources. Models "
    f"of neural circuits, which separate less reliably: {', '.join(NETWORKS)}."
)


@dataclass(kw_only=True)
class ReadingOptions:
    """How the inputs of `separate` and `apply` are read."""

    axis: Annotated[
        int | None,
        _Read(min=0, max=1, metavar="0|1", help="Axis of the samples: 0 is rows."),
    ] = None
    use: Annotated[
        str | None,
        _Read(metavar="COLUMNS", help="The mixtures: red,blue or 2-4,7, from 1 on."),
    ] = None
    skip: Annotated[
        str | None, _Read(metavar="COLUMNS", help="Columns that are not mixtures.")
    ] = None
    skip_lines: Annotated[
        int, _Read(min=0, metavar="N", help="Lines of text before the table.")
    ] = 0
    header: Annotated[
        bool | None,
        _Read("--header/--no-header", help="Whether the first line holds names."),
    ] = None
    decimal: Annotated[
        DecimalPoint | None, _Read(help="Decimal point of text, read and written.")
    ] = None
    encoding: Annotated[
        str | None, _Read(metavar="NAME", help="Encoding of text: utf-8, cp1252, ...")
    ] = None
    dataset: Annotated[
        str | None,
        _Read(metavar="NAME", help="Array or sheet, if a file holds several."),
    ] = None
    optical_density: Annotated[
        bool, _Read("--optical-density", help="Images of light to absorbance.")
    ] = False
    offset: Annotated[
        float | None,
        _Read(metavar="LEVEL", help="Dark level of the detector: it is subtracted."),
    ] = None
    saturated: Annotated[
        float | None,
        _Read(
            metavar="LEVEL",
            help="From this value on the detector is saturated: cells are missing.",
        ),
    ] = None

    def origin(self) -> dict[str, float]:
        """Return what a model remembers of how its input was read: what is given."""
        origin = {}
        if self.offset is not None:
            origin["offset"] = self.offset
        if self.saturated is not None:
            origin["saturated"] = self.saturated
        if self.optical_density:
            origin["optical_density"] = 1.0
        return origin

    @property
    def decimal_mark(self) -> str | None:
        """--decimal."""
        return None if self.decimal is None else self.decimal.value

    def for_reader(self, origin: dict[str, float], missing: bool) -> io.ReadOptions:
        """Return the options of `io.open_reader`, with these levels of a detector."""
        return io.ReadOptions(
            axis=self.axis,
            dataset=self.dataset,
            header=self.header,
            skip_lines=self.skip_lines,
            decimal=self.decimal_mark,
            encoding=self.encoding,
            optical_density=bool(origin.get("optical_density")),
            use=self.use,
            skip=self.skip,
            offset=origin.get("offset", 0.0),
            saturated=origin.get("saturated", math.inf),
            missing=missing,
        )


@dataclass(kw_only=True)
class SeparateOptions(ReadingOptions):
    """Options of `bionica separate`."""

    inputs: Annotated[list[str], typer.Argument(metavar="INPUT", help=_INPUT_HELP)]
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File for the sources [INPUT-sources.csv].",
        ),
    ] = None
    sources: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of sources.")
    ] = AUTO
    mixing: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the spectra, a row each."),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Page of pictures: page.html."),
    ] = None
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Its figures as .pdf and .svg."),
    ] = None
    method: Annotated[str, _Model(metavar="NAME", help=_METHOD_HELP)] = AUTO
    known: Annotated[
        Path | None,
        _Model(metavar="FILE", help="Known spectra, in the form of --mixing."),
    ] = None
    signed_mixing: Annotated[
        bool, _Model("--signed-mixing", help="Spectra may be negative.")
    ] = False
    noise: Annotated[
        str,
        _Model(metavar="LEVEL|poisson", help="Noise: poisson for counts [estimated]."),
    ] = "estimate"
    normalize: Annotated[
        Scale | None,
        _Model(help="Scale; sum: their sum is near one (least squares)."),
    ] = None
    seed: Annotated[
        int, _Model(min=0, max=2**32 - 1, metavar="N", help="Same seed, same bits.")
    ] = 0
    horizon: Annotated[
        int | None,
        _Stream(min=2, metavar="N", help="Remember about N samples; default: all."),
    ] = None
    model: Annotated[
        Path | None,
        _Stream(metavar="FILE", help="File for the fitted estimator (bionica.load)."),
    ] = None
    resume: Annotated[
        bool, _Stream("--resume", help="Continue a pipe from --model.")
    ] = False
    force: Force = False
    json: Json = False
    quiet: Quiet = False

    @property
    def from_pipe(self) -> bool:
        """Whether the input is standard input."""
        return self.inputs == ["-"]

    @property
    def n_sources(self) -> int | None:
        """--sources; None if they are counted, 0 if it is no number of sources."""
        if self.sources == AUTO:
            return None
        is_number = self.sources.isdecimal() and len(self.sources) < 10
        return int(self.sources) if is_number else 0

    @property
    def noise_level(self) -> str | float | None:
        """--noise as a parameter of the cone; None if it is none."""
        if self.noise in ("estimate", "poisson"):
            return self.noise
        return float(self.noise) if _LEVEL.fullmatch(self.noise) else None

    @property
    def asks_for_cone(self) -> bool:
        """Whether there are options that only the cone has."""
        return (
            self.known is not None
            or self.signed_mixing
            or self.normalize not in (None, Scale.variance)
            or self.noise_level != "estimate"
        )

    @property
    def chosen_method(self) -> str:
        """The method by these options."""
        return "cone" if self.asks_for_cone else self.method

    @property
    def targets(self) -> dict[str, Path]:
        """The files beside the sources that are written, by the names of options."""
        names = ("model", "mixing", "report", "figures")
        given = {name: getattr(self, name) for name in names}
        return {name: path for name, path in given.items() if path is not None}


@dataclass(kw_only=True)
class ApplyOptions(ReadingOptions):
    """Options of `bionica apply`."""

    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A model: bionica separate ... --model FILE."
        ),
    ]
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT", help="Files of mixtures; each is read by itself."
        ),
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File for the sources."),
    ] = None
    interpolate: Annotated[
        bool,
        typer.Option("--interpolate", help="Interpolate to the model's wavelengths."),
    ] = False
    force: Force = False
    json: Json = False
    quiet: Quiet = False
