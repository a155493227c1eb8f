"""`bionica separate`: the sources of the user's own mixtures."""

from pathlib import Path
from typing import Annotated

import typer

from .console import Console
from .separate_file import FileSeparation
from .separate_options import AUTO, METHODS, Decimal, Options, RawType, has_horizon, is_online
from .separate_sentences import rephrase
from .separate_stream import StreamSeparation

_INPUT_HELP = """Mixtures: .npy .npz .csv .tsv .xlsx .parquet .h5 .mat .zarr, a TIFF of several pages, several images of one shape,
or - for standard input (CSV, or raw numbers with --columns)."""
_USE_HELP = """Columns that are mixtures, by name or number from 1: red,blue or 2-4,7. By default all but an index
and first columns that rise evenly."""
_HEADER_HELP = """Whether the first line of text or of a sheet holds names or wavelengths. By default a line of words does, and a
line of numbers that rises or falls as no sample does."""
_DECIMAL_HELP = """Decimal point of text. With a comma the .csv files for sources and spectra have decimal commas too, and ; between
numbers."""
_METHOD_HELP = """auto: for images and for a file of at most 64 MiB as float64 the better of batch (uncorrelated sources) and cone
(sources may be correlated), both fitted offline; streaming for all else. batch takes 64 MiB of evenly spaced samples of a
larger file."""
_HORIZON_HELP = "For mixtures that change: remember about N samples. By default all weigh the same."
_MIXING_HELP = """File for the spectra: how each source enters the mixtures, a row for each source and a column for each
mixture; its suffix is the format."""
_JSON_HELP = """Print the findings as one line of JSON and nothing else: to standard output, or to standard error if the
sources go to standard output."""


def _known_method(method: str) -> str:
    if method not in (AUTO, *METHODS):
        raise typer.BadParameter(f"{method!r} is not one of {AUTO}, {', '.join(METHODS)}")
    return method


def separate(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help=_INPUT_HELP)],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="File for the sources; its suffix is the format. - is stdout."
        ),
    ] = None,
    sources: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of sources; auto counts those above the noise.")
    ] = "auto",
    method: Annotated[
        str,
        typer.Option(
            metavar="|".join([AUTO, *METHODS]),
            callback=_known_method,
            autocompletion=lambda: [AUTO, *METHODS],
            help=_METHOD_HELP,
        ),
    ] = AUTO,
    axis: Annotated[
        int | None, typer.Option(min=0, max=1, help="Axis that holds the samples: 0 (rows) or 1 (columns).")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Array to read in an .npz, .h5, .mat or .zarr of several; sheet of an .xlsx.")
    ] = None,
    header: Annotated[bool | None, typer.Option("--header/--no-header", help=_HEADER_HELP)] = None,
    decimal: Annotated[Decimal, typer.Option(help=_DECIMAL_HELP)] = Decimal.point,
    use: Annotated[str | None, typer.Option(metavar="COLUMNS", help=_USE_HELP)] = None,
    skip: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns that are no mixtures, a time for instance.")
    ] = None,
    columns: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Standard input is raw numbers, not text: N to a sample.")
    ] = None,
    dtype: Annotated[RawType, typer.Option(help="Type of the raw numbers.")] = RawType.float64,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the input.")] = 1,
    horizon: Annotated[int | None, typer.Option(min=2, metavar="N", help=_HORIZON_HELP)] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="One pass; a line to standard output for each sample as it arrives.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="File for the trained network, saved now and then and at the end.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from --model where an earlier run stopped.")] = False,
    checkpoint: Annotated[float, typer.Option(min=0, help="Seconds between saves of --model.")] = 30.0,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Same seed, same bits.")] = 0,
    report: Annotated[Path | None, typer.Option(help="File for a page of numbers and pictures, page.html.")] = None,
    mixing: Annotated[Path | None, typer.Option(help=_MIXING_HELP)] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files, and Zarr stores of ours, that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help=_JSON_HELP)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors and what --json asks for only.")] = False,
) -> None:
    """Find the nonnegative sources of mixtures in files or from a pipe, in bounded memory.

    Images and a file that fits in memory are separated offline, by BatchNICA or MinimumVolumeCone: both are fitted, and the one
    that explains the data better is kept. A larger file, and one with --model, --epochs or
    --horizon, is learned from by StreamingNICA, one sample after the other, and then read once more for its sources.
    A pipe is learned from by StreamingNICA too and answered as it comes: each sample with what was learned before it.
    Nothing needs to be tuned. Sources, mixtures and columns are counted from 1.

    For example:

    bionica separate mixtures.npy --sources 3

    bionica separate spectra.csv -o sources.parquet --epochs 2 --report page.html

    bionica separate spectra.csv --mixing pure-spectra.csv

    bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png

    bionica separate recording.csv --skip temperature

    bionica separate excel.csv --decimal ,

    bionica separate huge.npy --model huge.bionica      (after an interruption: the same with --resume)

    instrument | bionica separate - --sources 3 | logger

    instrument | bionica separate - --sources 3 --horizon 10000      (if the mixing changes)

    Exit status: 0 done; 1 bad data, parameters or files, or too few samples to separate anything; 2 wrong usage;
    70 a fault of bionica itself; 130 interrupted (--model is saved then). An error is one line on standard error, with --json too.
    """
    options = Options(**locals())
    _check_usage(options)
    console = Console(json=json, quiet=quiet, data_on_stdout=options.to_pipe, rephrase=rephrase)
    with console.session(
        interrupted="Interrupted: nothing was written",
        disk_full="free some space; no partial output was left",
        out_of_memory="has the input very many mixtures (--axis), or are there very many --sources?",
    ):
        (StreamSeparation if options.streaming else FileSeparation)(options, console).run()


def _check_usage(o: Options) -> None:
    """Refuse options that contradict each other."""
    if o.sources != "auto" and not (o.sources.isdecimal() and int(o.sources)):
        raise typer.BadParameter(f"--sources {o.sources!r} is neither a number of sources (1 or more) nor auto")
    method, given = o.method, o.method != AUTO
    # Importing the classes of the methods takes a second: a method is looked at only if it may contradict another option.
    offline = given and (o.streaming or o.model is not None) and not is_online(method)
    no_horizon = given and o.horizon is not None and not has_horizon(method)
    forgetful = ", ".join(name for name in METHODS if has_horizon(name)) if no_horizon else ""
    contradictions = {
        "- stands alone: give one standard input, or files": "-" in o.inputs and not o.from_pipe,
        "--columns is for raw numbers from standard input: give - as INPUT": bool(o.columns) and not o.from_pipe,
        "--header and --decimal are for text, not for raw numbers: omit --columns": (
            bool(o.columns) and (o.header is not None or o.decimal != ".")
        ),
        "--axis 1 needs a file: every line of a pipe is a sample": o.from_pipe and o.axis == 1,
        "--epochs needs a file: a pipe is read once": o.streaming and o.epochs > 1,
        "--follow writes lines to standard output: omit -o": o.follow and o.output not in (None, "-"),
        "--resume goes on from a saved network: say which with --model": o.resume and o.model is None,
        f"--method {method} does not learn online: choose another for a pipe or --follow": o.streaming and offline,
        f"--method {method} has no network to save: omit --model": o.model is not None and offline,
        f"--method {method} has no horizon: omit --horizon, or choose from {forgetful}": no_horizon,
    }
    for message, applies in contradictions.items():
        if applies:
            raise typer.BadParameter(message)
