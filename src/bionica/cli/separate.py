"""`bionica separate`: the sources of the user's own mixtures.

A file is fitted by `bionica.separate`, if it is large on evenly spaced samples of 256 MB, and then transformed block by block.
A pipe, and a file with --horizon, is a stream: each sample is answered with what was learned before it.
"""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial
from inspect import signature
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

import bionica

from .console import Console, deferred_interrupts, ignore_broken_pipe, require

if TYPE_CHECKING:
    from ..io import Reader

AUTO = "auto"
IN_MEMORY = 2**28  # bytes of float64 that are fitted; of a larger file, evenly spaced samples
FIRST = 1000  # samples of a pipe in which the method is chosen and sources are counted, at least
SAVE_EVERY = 30.0  # seconds between saves of the network of a pipe
_JUDGED = 2**25  # bytes of float64 by which a stream is judged at its end

#: --method names that do not follow from the name of the class.
_SHORT_NAMES = {"NonnegativePCA": "npca", "TwoLayerNSM": "nsm", "MinimumVolumeCone": "cone"}
#: Suffixes of inputs whose sources are written in another format by default.
_WRITTEN_AS = {".jpg": ".png", ".jpeg": ".png", ".mat": ".csv", ".xlsx": ".csv"}


def _method_name(class_name: str) -> str:
    """Return the --method name of an estimator: two-compartment for TwoCompartmentNICA."""
    words = re.findall("[A-Z][a-z]*", class_name.removesuffix("NICA"))
    return _SHORT_NAMES.get(class_name) or "-".join(words).lower()


#: --method name -> class name, for every public estimator that separates. They are listed by name, because importing the
#: classes takes most of a second. OfflineNICA is left out: it holds the paper's objectives, for study.
METHODS = {
    _method_name(name): name
    for name in sorted(bionica.__all__)
    if name.endswith(("NICA", "NSM", "PCA", "Cone", "Network")) and name != "OfflineNICA"
}


def estimator_class(method: str) -> Any:
    """Return the class of a --method."""
    return getattr(bionica, METHODS[method])


def _known_method(method: str) -> str:
    if method not in (AUTO, *METHODS):
        raise typer.BadParameter(f"{method!r} is not one of {AUTO}, {', '.join(METHODS)}")
    return method


RawType = StrEnum("RawType", ["float64", "float32"])


class Decimal(StrEnum):
    """Decimal points of text."""

    point = "."
    comma = ","


_Read = partial(typer.Option, rich_help_panel="How the input is read")
_Model = partial(typer.Option, rich_help_panel="The model")
_Stream = partial(typer.Option, rich_help_panel="Pipes, and mixing that changes")
_Talk = partial(typer.Option, rich_help_panel="What is printed and replaced")
_INPUT_HELP = """Mixtures: .csv .tsv .xlsx .npy .npz .parquet .h5 .mat .zarr, a TIFF of several pages, images of one shape, one
colour image, or - for standard input."""
_METHOD_HELP = f"""auto: the better of batch (uncorrelated sources) and cone (sources may be correlated). Or one of
{", ".join(METHODS)}."""


def separate(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help=_INPUT_HELP, show_default=False)],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT", help="File for the sources; - is stdout.")
    ] = None,
    sources: Annotated[str, typer.Option(metavar="N|auto", help="Number of sources.")] = AUTO,
    mixing: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the spectra, a row for each source.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Page of numbers and pictures: page.html.")
    ] = None,
    axis: Annotated[
        int | None, _Read(min=0, max=1, metavar="0|1", help="Axis of the samples: 0 rows, 1 columns.")
    ] = None,
    use: Annotated[str | None, _Read(metavar="COLUMNS", help="Columns that are mixtures: red,blue or 2-4,7.")] = None,
    skip: Annotated[str | None, _Read(metavar="COLUMNS", help="Columns that are no mixtures.")] = None,
    header: Annotated[
        bool | None, _Read("--header/--no-header", help="Whether the first line holds names or wavelengths.")
    ] = None,
    decimal: Annotated[Decimal, _Read(help="Decimal point of text, read and written.")] = Decimal.point,
    dataset: Annotated[str | None, _Read(metavar="NAME", help="Array or sheet, if a file holds several.")] = None,
    columns: Annotated[
        int | None, _Read(min=1, metavar="N", help="Standard input is raw numbers, N to a sample.")
    ] = None,
    dtype: Annotated[RawType, _Read(help="Type of raw numbers.")] = RawType.float64,
    method: Annotated[
        str, _Model(callback=_known_method, autocompletion=lambda: [AUTO, *METHODS], metavar="NAME", help=_METHOD_HELP)
    ] = AUTO,
    seed: Annotated[int, _Model(min=0, max=2**32 - 1, metavar="N", help="Same seed, same bits.")] = 0,
    horizon: Annotated[int | None, _Stream(min=2, metavar="N", help="Remember about N samples; default: all.")] = None,
    model: Annotated[Path | None, _Stream(metavar="FILE", help="File for the fitted estimator (bionica.load).")] = None,
    resume: Annotated[bool, _Stream("--resume", help="Continue a pipe from --model, and append to -o.")] = False,
    force: Annotated[bool, _Talk("--force", help="Replace files that exist.")] = False,
    json: Annotated[bool, _Talk("--json", help="Print one line of JSON in place of everything else.")] = False,
    quiet: Annotated[bool, _Talk("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Find the nonnegative sources of mixtures, and how each of them enters the mixtures: its spectrum.

    bionica separate spectra.csv --sources 3 --mixing pure.csv --report page.html

    bionica separate red.png green.png blue.png -o recovered.png

    instrument | bionica separate - --sources 3 | logger

    Nothing needs to be tuned. Three lines say what was done, how sure each source is, and what to look at.
    """
    o = SimpleNamespace(**locals())  # the options, by their names above
    o.n_sources = None if sources == AUTO else int(sources) if sources.isdecimal() else 0
    o.from_pipe = inputs == ["-"]
    o.to_stdout = output == "-" or (o.from_pipe and output is None)
    _check_usage(o)
    console = Console(json=json, quiet=quiet, data_on_stdout=o.to_stdout)
    with console.session(
        interrupted="Interrupted: nothing was written",
        disk_full="free some space; no partial output was left",
        out_of_memory="has the input very many mixtures (--axis), or are there very many --sources?",
    ):
        _check_files(o)
        with _open_input(o) as reader:
            (_separate_stream if o.from_pipe or horizon else _separate_file)(o, console, reader)


def _check_usage(o: Any) -> None:
    """Refuse options that contradict each other."""
    cls = None
    if o.method != AUTO and (o.from_pipe or o.horizon):  # importing the classes takes a second
        cls = estimator_class(o.method)
    contradictions = {
        f"--sources {o.sources!r} is neither a number of sources (1 or more) nor auto": o.n_sources == 0,
        "- stands alone: give one standard input, or files": "-" in o.inputs and not o.from_pipe,
        "--columns is for raw numbers from standard input: give - as INPUT": bool(o.columns) and not o.from_pipe,
        "--header and --decimal are for text, not for raw numbers: omit --columns": (
            bool(o.columns) and (o.header is not None or o.decimal != ".")
        ),
        "--axis 1 needs a file: every line of a pipe is a sample": o.from_pipe and o.axis == 1,
        "--resume continues a pipe from a saved network: give - as INPUT, and --model": (
            o.resume and not (o.from_pipe and o.model)
        ),
        f"--method {o.method} does not learn sample by sample: choose another": (
            cls is not None and not hasattr(cls, "partial_fit")
        ),
        f"--method {o.method} has no horizon: omit --horizon, or choose another": (
            cls is not None and bool(o.horizon) and "horizon" not in signature(cls).parameters
        ),
    }
    for message, applies in contradictions.items():
        if applies:
            raise typer.BadParameter(message)


def _check_files(o: Any) -> None:
    """Raise if an output cannot be written, or is an input or another output, before anything is read."""
    from .. import io

    if not o.from_pipe:
        io.check_inputs(o.inputs)
    o.path = None if o.to_stdout else _output_path(o)
    targets = []
    if o.path is None and sys.stdout is None:
        raise io.OutputError("-o -: standard output is closed; give a file with -o")
    if o.path is not None:
        io.check_format(o.path, images=all(Path(name).suffix.lower() in io.IMAGES for name in o.inputs))
        targets += [io.Target("-o", file, o.force or o.resume) for file in io.output_files(o.path, o.n_sources)]
    if o.model is not None:
        targets.append(
            io.Target("--model", o.model, o.force or o.resume, "continue with --resume, or replace it with --force")
        )
    if o.report is not None:
        require("--report", "matplotlib")
        targets.append(io.Target("--report", o.report, o.force))
    if o.mixing is not None:
        io.check_format(o.mixing, "--mixing")
        targets.append(io.Target("--mixing", o.mixing, o.force))
    inputs: list[Path | int] = [0] if o.from_pipe else [Path(name) for name in o.inputs]
    io.check_targets(targets, [*inputs, 1] if o.to_stdout else inputs)
    if o.report is not None and o.report.suffix.lower() not in (".html", ".htm", ""):
        raise io.OutputError(f"--report {o.report}: the report is a page of HTML; give it the suffix .html")


def _output_path(o: Any) -> Path:
    if o.output is not None:
        return Path(o.output)
    first = Path(o.inputs[0])
    suffix = _WRITTEN_AS.get(first.suffix.lower(), first.suffix)
    return first.with_name(f"{'' if len(o.inputs) > 1 else f'{first.stem}-'}sources{suffix}")


def _open_input(o: Any) -> "Reader":
    from .. import io

    columns = io.Columns(o.use, o.skip)
    if not o.from_pipe:
        return io.open_reader(
            o.inputs, axis=o.axis, dataset=o.dataset, columns=columns, header=o.header, decimal=o.decimal
        )
    if sys.stdin is None:
        raise io.InputError("standard input is closed: pipe the mixtures into it, or give a file in place of -")
    raw = (o.columns, str(o.dtype)) if o.columns else None
    return io.open_pipe(typer.get_binary_stream("stdin"), columns=columns, header=o.header, decimal=o.decimal, raw=raw)


# ---------------------------------------------------------------------------------------------- files


def _separate_file(o: Any, console: Console, reader: "Reader") -> None:
    started = time.monotonic()
    X = _sample(o, console, reader)
    n = reader.n_samples or 0
    online = o.method != AUTO and hasattr(estimator_class(o.method), "partial_fit") and o.method != "cone"
    if online and len(X) < n:
        network = _new_network(o, estimator_class(o.method), o.n_sources or _n_outputs(_fit(o, console, X)))
        for block in console.track(reader.blocks(), "Learning", n):
            network.partial_fit(block)
        network.diagnosis_ = network.diagnose(X)
    else:
        network = _fit(o, console, X)
    if o.model is not None:
        network.save(o.model)
    answers = map(network.transform, reader.blocks())
    files = _write(o, console, reader, network, answers)
    _finish(o, console, reader, network, X, files, n, started)


def _sample(o: Any, console: Console, reader: "Reader") -> Any:
    """Return the samples of a file that are fitted: all, or evenly spaced ones of a large file."""
    from .. import io

    if reader.n_features is None:
        next(reader.blocks())
    X = reader.sample(max(1000, IN_MEMORY // (8 * (reader.n_features or 1)))).X
    for note in reader.notes:
        console.note(note)
    n, k = reader.n_samples or 0, X.shape[1]
    if n < k and o.axis is None and reader.image_shape is None and reader.wavelengths is None:
        raise io.InputError(
            f"{reader.name} has {n} samples of {k} mixtures: if it is the other way round, pass --axis 1; if not, --axis 0"
        )
    if (d := o.n_sources or 1) > min(n, k) or n < 2:
        raise io.InputError(f"{reader.name} has {n} samples of {k} mixtures, too few for {_counted(d, 'sources')}")
    if len(X) < n:
        console.note(
            f"{len(X):,} evenly spaced samples of {n:,} are fitted (256 MB); sources are written for all of them"
        )
    return X


def _fit(o: Any, console: Console, X: Any) -> Any:
    """Count the sources, choose the method, fit and judge."""
    from ..offline.source_count import count_sources

    if len(X) < 2:
        raise bionica.io.InputError("one sample is too few to choose a method by: give --sources and --method")
    if o.method == AUTO:
        return bionica.separate(X, o.n_sources or "auto", random_state=o.seed)
    network = estimator_class(o.method)(o.n_sources or count_sources(X).n_sources, random_state=o.seed).fit(X)
    network.choice_ = SimpleNamespace(why="")
    network.diagnosis_ = network.diagnose(X)
    return network


def _write(o: Any, console: Console, reader: "Reader", network: Any, answers: Iterator[Any]) -> list[Path]:
    """Write the sources of all samples."""
    from .. import io

    d = len(network.components_)
    first = next(answers)
    if o.path is not None:
        io.check_targets([io.Target("-o", file, o.force) for file in io.output_files(o.path, d)])
    with _open_output(o, reader, d, first.dtype) as writer, ignore_broken_pipe():
        for block in console.track(chain([first], answers), "Writing", reader.n_samples):
            writer.write(block)
    return [] if o.path is None else io.output_files(o.path, d)


@contextmanager
def _open_output(o: Any, reader: "Reader", d: int, dtype: Any) -> Iterator[Any]:
    """Open what the sources are written to; with --resume, after those that are there."""
    from .. import io

    if o.path is None:
        yield io.PipeWriter(typer.get_binary_stream("stdout"), header=bool(reader.header))
        return
    with io.open_writer(o.path, d, dtype, reader.image_shape, decimal=o.decimal) as writer:
        if o.resume and o.path.exists():
            with io.open_reader([str(o.path)], decimal=o.decimal) as before:
                for block in before.blocks():
                    if block.shape[1] != d:
                        raise io.OutputError(
                            f"{o.path} has {block.shape[1]} columns, not {d} sources: choose another name"
                        )
                    writer.write(block)
        yield writer


# ---------------------------------------------------------------------------------------------- streams


def _separate_stream(o: Any, console: Console, reader: "Reader") -> None:
    """Answer each sample with what was learned before it."""
    from .. import io

    started, stopped = time.monotonic(), False
    network = _saved_network(o, console)
    console.say(f"Reading {reader.name}")
    at_once = network is not None or (o.from_pipe and o.n_sources is not None and o.method != AUTO)
    first, blocks = _first_samples(o, console, reader, at_once)
    if network is None:
        new = _new_network(o, estimator_class(o.method), o.n_sources) if at_once else None
        network = new or _fitted_network(o, console, first)
    rows = max(FIRST, min(o.horizon or 2**62, _JUDGED // (8 * first.shape[1])))
    sample = io.LastSample(rows) if o.horizon else io.EvenSample(rows)
    saved = started
    with _open_output(o, reader, _n_outputs(network), first.dtype) as writer, ignore_broken_pipe():
        try:
            for i, block in enumerate(chain([first], blocks)):
                with deferred_interrupts():  # every sample that the network learns from is answered
                    learned = i == 0 and not at_once
                    writer.write((network.transform if learned else network.partial_fit_transform)(block))
                    sample.add(block)
                    if o.model is not None and time.monotonic() - saved > SAVE_EVERY:
                        network.save(o.model)
                        saved = time.monotonic()
        except KeyboardInterrupt:  # the samples of a pipe come once: keep what was made of them
            stopped = True
        finally:
            if o.model is not None and sample.seen:
                network.save(o.model)
        missing = getattr(network, "n_samples_until_start_", 0)
        if missing and o.model is None and not stopped:
            seen = network.n_samples_seen_
            raise io.InputError(
                f"{reader.name} ended after {seen} samples, and {type(network).__name__} starts with {seen + missing}: give "
                "more samples, continue later with --model FILE, or use --method streaming, which starts at once"
            )
    X = sample.rows()
    network.diagnosis_ = network.diagnose(X) if len(X) > 1 and not missing else None
    files = [] if o.path is None else [o.path]
    _finish(o, console, reader, network, X, files, sample.seen, started, interrupted=stopped)
    if stopped:
        remedy = f"the network is in {o.model}; the same command with --resume continues with the samples that follow"
        console.interrupted(
            f"Interrupted: {remedy if o.model else 'with --model FILE the network would have been saved'}"
        )


def _first_samples(o: Any, console: Console, reader: "Reader", at_once: bool) -> tuple[Any, Iterator[Any]]:
    """Return the first samples of a stream, enough to choose by unless it starts at once, and the blocks that follow."""
    import numpy as np

    from .. import io

    blocks = reader.blocks()
    first = list(islice(blocks, 1))
    if not first:
        raise io.InputError(f"{reader.name} holds no sample")
    for note in reader.notes:
        console.note(note)
    k = first[0].shape[1]
    if o.n_sources is not None and o.n_sources > k:
        raise io.InputError(f"--sources {o.n_sources} is more than the {k} mixtures: sources can be as many at most")
    if at_once:
        return first[0], blocks
    wanted = max(FIRST, 100 + 20 * k, o.horizon or 0)
    if o.from_pipe:
        console.say(
            f"Choosing by the first {wanted} samples before answering; --sources N --method streaming answers at once"
        )
    while sum(map(len, first)) < wanted and (block := next(blocks, None)) is not None:
        first.append(block)
    X = np.concatenate(first)
    return X[:wanted], chain([X[wanted:]] if len(X) > wanted else [], blocks)


def _new_network(o: Any, cls: Any, d: int) -> Any:
    horizon = {} if o.horizon is None else {"horizon": o.horizon}
    return cls(d, random_state=o.seed, **horizon)


def _fitted_network(o: Any, console: Console, X: Any) -> Any:
    """Return an estimator that has learned from these samples and can learn on, of the method that suits them."""
    if o.method == AUTO or o.n_sources is None:
        chosen = _fit(o, console, X)
        if o.horizon is None and hasattr(chosen, "partial_fit"):
            return chosen
        cls, d = type(chosen), len(chosen.components_)
    else:
        cls, d = estimator_class(o.method), o.n_sources
    return _new_network(o, cls if hasattr(cls, "partial_fit") else bionica.StreamingNICA, d).fit(X)


def _saved_network(o: Any, console: Console) -> Any:
    """Return the network of an earlier run, if --resume asks for it and it exists."""
    from .. import io

    if not o.resume:
        return None
    if not o.model.exists():
        console.say(f"There is no {o.model} yet: starting from the beginning")
        return None
    network = bionica.load(o.model)
    name, d, horizon = type(network).__name__, _n_outputs(network), getattr(network, "horizon", None)
    if not hasattr(network, "partial_fit_transform"):
        raise io.InputError(f"{o.model} holds a {name}, which cannot learn on: start from the beginning with --force")
    for option, now, before in (
        ("--method", METHODS.get(o.method, name), name), ("--sources", o.n_sources or d, d),
        ("--horizon", o.horizon or horizon, horizon),
    ):  # fmt: skip
        if now != before:
            raise io.InputError(f"{o.model} learned with {option} {before}: omit {option}")
    console.note(
        f"{o.model} has learned from {_counted(network.n_samples_seen_, 'samples')}: the input has to begin behind them"
    )
    return network


def _n_outputs(network: Any) -> int:
    """Return the number of sources, also of a network that still waits for its first samples."""
    given = network.n_components
    return given if isinstance(given, int) else int(network.n_components_)


# ---------------------------------------------------------------------------------------------- what was found


def _counted(n: int, noun: str) -> str:
    """Return a number and its noun, which is given in the plural."""
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def _finish(
    o: Any,
    console: Console,
    reader: "Reader",
    network: Any,
    X: Any,
    files: Sequence[Path],
    n: int,
    started: float,
    interrupted: bool = False,
) -> None:
    """Write the spectra and the report, and say in three lines what was done, how sure it is, and what to look at."""
    import numpy as np

    from .. import io

    diagnosis, has_started = network.diagnosis_, not getattr(network, "n_samples_until_start_", 0)
    names = reader.names
    written = [str(file) for file in files]
    if o.model is not None:
        written.append(f"{o.model} (model)")
    if o.mixing is not None and has_started:
        spectra = np.ascontiguousarray(np.asarray(network.mixing_).T)
        io.write_spectra(o.mixing, spectra, names, decimal=o.decimal)
        written.append(f"{o.mixing} (spectra)")
    d, method = _n_outputs(network), type(network).__name__
    why = getattr(getattr(network, "choice_", None), "why", "")
    sure, look = _judgement(diagnosis, d, has_started)
    summary = {
        "input": o.inputs, "sources": d, "mixtures": X.shape[1], "samples": n, "method": method, "choice": why,
        "seconds": round(time.monotonic() - started, 3), "ok": bool(diagnosis and diagnosis.ok), "diagnosis": look,
        "change_detected": bool(getattr(network, "change_detected_", False)), "notes": console.notes,
        "interrupted": interrupted, "output": [str(file) for file in files], "model": o.model and str(o.model),
        "mixing": str(o.mixing) if o.mixing and has_started else None, "report": o.report and str(o.report),
    }  # fmt: skip
    lines = [
        f"{_counted(d, 'sources')} in {_counted(n, 'samples')} of {_counted(X.shape[1], 'mixtures')} by {method}"
        + (f": {why}." if why else "."),
        *([f"How sure: {sure}"] if sure else []),
        f"Look at: {' '.join(look)}",
    ]
    if o.report is not None and has_started:
        _report(o, reader, network, X, n, lines, summary, names)
        written.append(f"{o.report} (report)")
    console.result([*lines, *([f"Wrote {', '.join(written)}"] if written else [])], summary)


def _judgement(diagnosis: Any, d: int, has_started: bool) -> tuple[str, list[str]]:
    """Return how sure each source is, and what speaks against the fit, in words."""
    if not has_started:
        return "", ["the network has not started, and every answer was zero; more samples with --resume continue."]
    if diagnosis is None:
        return "", ["one sample is too few to judge by."]
    return "", list(diagnosis.sentences)[:3]


def _report(
    o: Any,
    reader: "Reader",
    network: Any,
    X: Any,
    n: int,
    lines: Sequence[str],
    summary: dict[str, Any],
    names: list[str],
) -> None:
    import numpy as np

    from ..io.images import thumbnails
    from ..report import Separation, write_separation

    rows = X[:: max(1, len(X) // 500)]
    values = reader.wavelengths
    unit = f" ({reader.wavelength_unit})" if reader.wavelength_unit else ""
    facts = {"input": ", ".join(o.inputs)} | {key: summary[key] for key in ("samples", "mixtures", "method", "seconds")}
    page = Separation(
        lines=[*lines, *summary["notes"]],
        ok=summary["ok"],
        facts=[(name, f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts.items()],
        Y=network.transform(rows),
        U=rows @ np.asarray(network.components_).T,
        t=np.linspace(n - len(X) + 1 if o.horizon else 1, n, len(rows)),
        t_label="sample",
        mixing=np.asarray(network.mixing_),
        error=None,
        names=names,
        axis=values,
        axis_label="number of the mixture" if values is None else f"wavelength or channel{unit}",
        images=thumbnails(reader, network.transform) if reader.image_shape else None,
    )
    write_separation(o.report, page)
