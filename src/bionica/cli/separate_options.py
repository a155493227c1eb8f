"""The options of `bionica separate`, the files that they name, and the methods that it offers."""

import re
import sys
from dataclasses import dataclass
from enum import StrEnum
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import bionica

if TYPE_CHECKING:
    from ..io import Reader

#: Suffixes of inputs whose sources are written in another format by default.
_WRITTEN_AS = {".jpg": ".png", ".jpeg": ".png", ".mat": ".csv", ".xlsx": ".csv"}
#: --method names that do not follow from the name of the class.
_SHORT_NAMES = {"NonnegativePCA": "npca", "TwoLayerNSM": "nsm", "MinimumVolumeCone": "cone"}


def _method_name(class_name: str) -> str:
    """Return the --method name of an estimator: two-compartment for TwoCompartmentNICA."""
    words = re.findall("[A-Z][a-z]*", class_name.removesuffix("NICA"))
    return _SHORT_NAMES.get(class_name) or "-".join(words).lower()


#: --method name -> class name, for every public estimator that separates, except OfflineNICA, which needs all samples in
#: memory. They are found by name, because importing the classes takes most of a second.
_CLASSES = [name for name in bionica.__all__ if name in _SHORT_NAMES or name.endswith("NICA")]
METHODS = dict(sorted((_method_name(name), name) for name in _CLASSES if name != "OfflineNICA"))


#: The --method that chooses for itself: see `Options.fixed_method`.
AUTO = "auto"


def estimator_class(method: str) -> Any:
    """Return the class of a --method."""
    return getattr(bionica, METHODS[method])


def is_online(method: str) -> bool:
    """Whether a --method learns sample by sample."""
    return hasattr(estimator_class(method), "partial_fit")


def has_horizon(method: str) -> bool:
    """Whether a --method can forget old samples."""
    return "horizon" in signature(estimator_class(method)).parameters


class RawType(StrEnum):
    """Types of raw numbers in a pipe."""

    float64 = "float64"
    float32 = "float32"


class Decimal(StrEnum):
    """Decimal points of text."""

    point = "."
    comma = ","


@dataclass(frozen=True)
class Options:
    """What the user asked for; see the options of `bionica separate`."""

    inputs: list[str]
    output: str | None
    sources: str
    method: str
    axis: int | None
    dataset: str | None
    header: bool | None
    decimal: Decimal
    use: str | None
    skip: str | None
    columns: int | None
    dtype: RawType
    epochs: int
    horizon: int | None
    follow: bool
    model: Path | None
    resume: bool
    checkpoint: float
    seed: int
    report: Path | None
    mixing: Path | None
    force: bool
    json: bool
    quiet: bool

    @property
    def n_sources(self) -> int | None:
        """The number of sources, or None if they are to be counted."""
        return None if self.sources == "auto" else int(self.sources)

    @property
    def from_pipe(self) -> bool:
        """Whether the mixtures come from standard input."""
        return self.inputs == ["-"]

    @property
    def streaming(self) -> bool:
        """Whether each sample is answered as it arrives."""
        return self.from_pipe or self.follow

    @property
    def to_pipe(self) -> bool:
        """Whether the sources go to standard output."""
        return self.output == "-" or (self.streaming and self.output is None)

    @property
    def fixed_method(self) -> str | None:
        """The method, unless it depends on the size of the input: "streaming" where only an online method can do what is asked."""
        if self.method != AUTO:
            return self.method
        online = self.streaming or self.model is not None or self.epochs > 1 or self.horizon is not None
        return "streaming" if online else None

    def new_network(self, n_sources: int) -> Any:
        """Return an unfitted estimator of the chosen method: an online one, if --method does not say which."""
        horizon = {} if self.horizon is None else {"horizon": self.horizon}
        return estimator_class(self.fixed_method or "streaming")(n_sources, random_state=self.seed, **horizon)


def open_input(o: Options) -> "Reader":
    """Open the files or standard input."""
    from .. import io

    columns = io.Columns(o.use, o.skip)
    if not o.from_pipe:
        return io.open_reader(
            o.inputs, axis=o.axis, dataset=o.dataset, columns=columns, header=o.header, decimal=o.decimal
        )
    if sys.stdin is None:
        raise io.InputError("standard input is closed: pipe the mixtures into it, or give a file in place of -")
    raw = (o.columns, str(o.dtype)) if o.columns else None
    stdin = typer.get_binary_stream("stdin")
    return io.open_pipe(stdin, columns=columns, header=o.header, decimal=o.decimal, raw=raw)


def output_path(o: Options) -> Path | None:
    """Return the file for the sources, None for standard output."""
    if o.to_pipe:
        return None
    if o.output is not None:
        return Path(o.output)
    first = Path(o.inputs[0])
    suffix = _WRITTEN_AS.get(first.suffix.lower(), first.suffix)
    return first.with_name(f"{'' if len(o.inputs) > 1 else f'{first.stem}-'}sources{suffix}")


def check_files(o: Options, *, complete: bool = False) -> None:
    """Raise if an output cannot be written, or is an input or another output, before anything is read.

    `complete` says that an earlier run with this --model has learned all there is: it may have written its sources already,
    which `open_writer` compares, and its report.
    """
    from .. import io
    from ..report.separation_page import is_report_of

    if not o.from_pipe:
        io.check_inputs(o.inputs)
    targets, path = [], output_path(o)
    if path is None and sys.stdout is None:
        raise io.OutputError("-o -: standard output is closed; give a file with -o")
    if path is not None:
        images = all(Path(name).suffix.lower() in io.IMAGES for name in o.inputs)
        io.check_format(path, images=images)
        targets += [io.Target("-o", file, o.force or complete) for file in io.output_files(path, o.n_sources)]
    if o.model is not None:
        remedy = "go on with --resume, or replace it with --force"
        targets.append(io.Target("--model", o.model, o.force or o.resume, remedy))
    if o.report is not None:
        targets.append(io.Target("--report", o.report, o.force or (complete and is_report_of(o.report, o.model))))
    if o.mixing is not None:
        io.check_format(o.mixing, "--mixing")
        targets.append(io.Target("--mixing", o.mixing, o.force or complete))
    inputs: list[Path | int] = [0] if o.from_pipe else [Path(name) for name in o.inputs]
    io.check_targets(targets, [*inputs, 1] if o.to_pipe else inputs)
    if o.report is not None and o.report.suffix.lower() not in (".html", ".htm", ""):
        raise io.OutputError(f"--report {o.report}: the report is a page of HTML; give it the suffix .html")
