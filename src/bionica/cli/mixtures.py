"""Commands that find sources in the user's own mixtures: `separate` and `apply`.

`apply` reads a model that `separate --model` or `save` wrote. It learns nothing.
"""

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli.console import Console, StandardInput, counted, one_line, with_options
from bionica.cli.options import (
    AUTO,
    CLASSES,
    NETWORKS,
    OFFLINE,
    ApplyOptions,
    SeparateOptions,
)
from bionica.cli.separation import (
    Separation,
    differing_channel,
    energies,
    output_names,
    sample_size,
    separate_file,
    separate_stream,
    share_of,
)
from bionica.core.errors import Message

#: How much more may be unexplained than where the model was fitted, as a share of the
#: energy and in each cell: noise may have one size, or grow with the light.
_MORE, _ROUNDING = 3.0, 1e-6


@with_options(SeparateOptions)
def separate(options: SeparateOptions) -> None:
    """Find the nonnegative sources of mixtures, and how each of them enters the
    mixtures: its spectrum.

    \b
    bionica separate spectra.csv --sources 3 --mixing pure.csv --report page.html
    bionica separate red.png green.png blue.png -o recovered.png
    instrument | bionica separate - --sources 3 | logger

    Three lines say what was done, how large the error of each source is, and
    which problems were found.
    """  # noqa: D301
    started = time.monotonic()
    check_usage(options)
    path, method = sources_path(options), options.chosen_method
    console = Console(
        json=options.json, quiet=options.quiet, data_on_stdout=path is None
    )
    with console.session(interrupted="Interrupted: nothing was written"):
        check_files(options, path)
        stdin, origin = None, options.origin()
        if options.from_pipe:
            stdin = StandardInput(typer.get_binary_stream("stdin"))
            reader = io.open_pipe(stdin, options.for_reader(origin, missing=False))
        else:
            missing = options.horizon is None and options.method in OFFLINE
            reader = io.open_reader(options.inputs, options.for_reader(origin, missing))
        if method in NETWORKS:
            console.note(
                f"--method {method} is {NETWORKS[method]}, a model of a neural "
                "circuit: streaming, batch and cone separate more reliably"
            )
        run = Separation(options, console, path, reader, origin, started)
        with reader:
            if stdin is not None or options.horizon:
                separate_stream(run, stdin)
            else:
                separate_file(run)


def check_usage(options: SeparateOptions) -> None:
    """Raise if options are wrong, or contradict each other."""
    method = options.method
    if options.n_sources == 0:
        raise typer.BadParameter(
            f"--sources {options.sources[:40]!r} is neither a number of sources (1 or "
            "more) nor auto"
        )
    if method not in (AUTO, *CLASSES):
        known = ", ".join(CLASSES)
        raise typer.BadParameter(
            f"--method {method} is unknown: choose from {AUTO}, {known}"
        )
    if "-" in options.inputs and not options.from_pipe:
        raise typer.BadParameter("give either - (standard input) or files")
    if options.from_pipe and options.axis == 1:
        raise typer.BadParameter(
            "--axis 1 needs a file: every line of a pipe is a sample"
        )
    if options.resume and not (options.from_pipe and options.model):
        raise typer.BadParameter(
            "--resume continues a pipe: give - as INPUT, and --model"
        )
    if method in CLASSES and (options.from_pipe or options.horizon):
        _check_stream_method(options)
    if options.noise_level is None:
        raise typer.BadParameter(
            f"--noise {options.noise[:40]!r} is neither poisson nor a standard "
            "deviation"
        )
    if options.asks_for_cone and method not in (AUTO, "cone"):
        raise typer.BadParameter(
            "--known, --signed-mixing, --noise and --normalize need --method cone"
        )


def _check_stream_method(options: SeparateOptions) -> None:
    """Raise unless --method learns sample by sample, and forgets if it is asked to."""
    cls = getattr(bionica, CLASSES[options.method])
    if not hasattr(cls, "partial_fit"):
        raise typer.BadParameter(
            f"--method {options.method} does not learn sample by sample: choose another"
        )
    if options.horizon and "horizon" not in signature(cls).parameters:
        raise typer.BadParameter(f"--method {options.method} has no --horizon")


def sources_path(options: SeparateOptions) -> Path | None:
    """Return the file for the sources, or None for standard output."""
    output = options.output
    if output == "-" or (options.from_pipe and output is None):
        return None
    if output is not None:
        return Path(output)
    stem = "sources" if len(options.inputs) > 1 else None
    return default_output(Path(options.inputs[0]), stem)


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


def check_files(options: SeparateOptions, path: Path | None) -> None:
    """Raise if an output cannot be written, or is an input or another output.

    Nothing has been read before.
    """
    inputs = [Path("/dev/stdin")]
    if not options.from_pipe:
        inputs = io.check_inputs(options.inputs)
    if options.known is not None:
        inputs += io.check_inputs([options.known])
    is_closed = options.from_pipe and sys.stdin is None
    if is_closed or (path is None and sys.stdout is None):
        raise io.InputError(
            "standard input or output is closed: give files, the INPUT and -o"
        )
    _check_pages(options)
    replaced = {"model": options.force or options.resume, "figures": False}
    targets = [
        io.Target(f"--{name}", target, replaced.get(name, options.force))
        for name, target in options.targets.items()
    ]
    if path is None:
        inputs.append(Path("/dev/stdout"))
    else:
        suffixes = {Path(name).suffix.lower() for name in options.inputs}
        io.check_format(path, images=suffixes <= set(io.PIXELS))
        files = io.output_files(path, options.n_sources)
        targets += [io.Target("-o", file, options.force) for file in files]
    io.check_targets(targets, inputs)


def _check_pages(options: SeparateOptions) -> None:
    """Raise if --report, --figures or --mixing cannot be written as they are named."""
    report = options.report
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise io.OutputError(
            f"--report {report}: the report is a page of HTML; give it the suffix .html"
        )
    if report is not None or options.figures is not None:
        io.import_optional("matplotlib", "--report", "plot")
    if options.mixing is not None:
        io.check_format(options.mixing, "--mixing")


# ------------------------------------------------------------------------------- apply


@with_options(ApplyOptions)
def apply(options: ApplyOptions) -> None:
    """Find the sources of new files by a model that has been fitted. The
    sources of x.csv are written to x-sources.csv.

    \b
    bionica separate day1.csv --sources 3 --model model.npz
    bionica apply model.npz day2.csv day3.csv

    Mixtures must be those of the model: by their wavelengths, or by their names
    in any order.
    """  # noqa: D301
    paths = [default_output(path) for path in options.inputs]
    if options.output is not None:
        if len(options.inputs) > 1:
            raise typer.BadParameter(
                "-o names one file: omit it for several inputs, whose sources are "
                "written beside them"
            )
        paths = [options.output]
    console = Console(json=options.json, quiet=options.quiet)
    with console.session(interrupted="Interrupted: files that are complete stay"):
        network, read = bionica.load(options.model), io.check_inputs(options.inputs)
        d = len(network.components_)
        check_apply_files(options, paths, d, read)
        run = _application(options, console, network)
        lines = [
            f"{counted(d, 'sources')} by {type(network).__name__} of {options.model}."
        ]
        written = []
        for path, target in zip(options.inputs, paths, strict=True):
            line, result = apply_to(run, path, target)
            lines.append(line)
            written.append(result)
        summary: dict[str, Any] = {"model": str(options.model), "sources": d}
        summary |= {"files": written, "notes": console.notes}
        console.result(lines, summary)


@dataclass
class Application:
    """What `apply` does to each file."""

    options: ApplyOptions
    console: Console
    network: Any
    names: list[str]  # of the mixtures of the model
    of_fit: dict[str, float]  # what the model remembers of its own input
    reading: io.ReadOptions


def check_apply_files(
    options: ApplyOptions, paths: Sequence[Path], d: int, read: Sequence[Path]
) -> None:
    """Raise if the d sources of an input cannot be written, before anything is."""
    for path, target in zip(options.inputs, paths, strict=True):
        io.check_format(target, images=path.suffix.lower() in io.PIXELS)
    name = "-o" if options.output else "the output"
    targets = [
        io.Target(name, file, options.force)
        for target in paths
        for file in io.output_files(target, d)
    ]
    io.check_targets(targets, [options.model, *read])


def _application(options: ApplyOptions, console: Console, network: Any) -> Application:
    """Return how files are read and transformed; note what the model remembers."""
    from sklearn.utils import get_tags

    # Blocks are arrays, which have no names.
    names = [*vars(network).pop("feature_names_in_", [])]
    of_fit, given = getattr(network, "origin_", {}), options.origin()
    for name in sorted(of_fit.keys() - {"unexplained", "residual"}):
        how = "and so the inputs are read"
        if name in given:
            how = f"and the inputs are read with {given[name]:g}"
        if given.get(name) != of_fit[name]:
            option = name.replace("_", "-")
            console.note(
                f"{options.model} was fitted with --{option} {of_fit[name]:g}, {how}"
            )
    missing = get_tags(network).input_tags.allow_nan and not options.interpolate
    reading = options.for_reader(of_fit | given, missing)
    return Application(options, console, network, names, of_fit, reading)


class Explained(NamedTuple):
    """How much of the samples of a file its sources leave unexplained."""

    n: int = 0
    energy: Any = (0.0, 0.0)  # unexplained, and all
    largest: float = 0.0
    sample: int = 0  # that of the largest residual, counted from 1

    def add(self, left: Any) -> "Explained":
        """Add the `energies` of a block."""
        n = self.n + left.shape[1]
        energy = self.energy + left.sum(axis=1)
        worst = int(left[0].argmax())
        if left[0, worst] >= self.largest:
            return Explained(n, energy, float(left[0, worst]), self.n + worst + 1)
        return Explained(n, energy, self.largest, self.sample)


def apply_to(run: Application, path: Path, target: Path) -> tuple[str, dict[str, Any]]:
    """Write the sources of a file; return what was done in words and as data."""
    from bionica.mixtures.verdict.findings import saturation

    with io.open_reader(path, run.reading) as reader:
        choose = matching(run, reader)
        notes = (Message("{}: {}", reader.name, note) for note in reader.notes)
        run.console.note(*notes)
        X, _, blocks = reader.sample_and_blocks(sample_size(reader))
        columns = [reader.column(j) for j in range(X.shape[1])]
        found = [one_line(one.text((), columns)) for one in saturation(X)]
        explained = transform_blocks(run, reader, choose, blocks, target)
        where = f"sample {explained.sample}"
        if reader.image_shape:
            y, x = divmod(explained.sample - 1, reader.image_shape[1])
            where = f"pixel y={y}, x={x}"
    if much_more_unexplained(run, explained):
        found.append(
            "much more is unexplained than where the model was fitted: other sources, "
            "or other conditions."
        )
    files = output_names(target, len(run.network.components_))
    share, of_fit = share_of(explained.energy), run.of_fit.get("unexplained")
    line = f"{path}: {counted(explained.n, 'samples')}, "
    line += f"{share:.2%} of their energy unexplained (most in {where}"
    if of_fit is not None:
        line += f"; {of_fit:.2%} where the model was fitted"
    line += ")." + "".join(f" Problem: {problem}" for problem in found)
    result = {
        "input": str(path),
        "samples": explained.n,
        "output": files,
        "unexplained": share,
        "unexplained_by_the_fit": of_fit,
        "largest_residual": explained.sample,
        "problems": found,
    }
    return f"{line} Wrote {', '.join(files)}", result


def transform_blocks(
    run: Application,
    reader: Any,
    choose: Callable[[Any], Any],
    blocks: Iterable[Any],
    target: Path,
) -> Explained:
    """Write the sources of blocks, and return what they leave unexplained."""
    network, explained = run.network, Explained()
    A = np.asarray(network.mixing_, float)
    names = [*network.get_feature_names_out()]
    dtype = network.transform(np.ones((1, len(A)))).dtype
    form = {"names": names, **reader.layout}
    with io.open_writer(target, len(names), dtype, **form) as writer:
        for block, beside in blocks:
            X = choose(block)
            Y = network.transform(X)
            writer.write(Y, beside)
            explained = explained.add(energies(X, Y, A))
    return explained


def much_more_unexplained(run: Application, explained: Explained) -> bool:
    """Whether far more is unexplained than where the model was fitted.

    Both as a share of the energy and in each cell.
    """
    share = run.of_fit.get("unexplained")
    if share is None:
        return False
    residual = explained.energy[0] / (explained.n * run.network.n_features_in_)
    more = residual > _MORE * run.of_fit.get("residual", np.inf)
    return bool(more and share_of(explained.energy) > _MORE * max(share, _ROUNDING))


def matching(run: Application, reader: Any) -> Callable[[Any], Any]:
    """Return what makes the mixtures of a model of those of a file.

    InputError if they are others.
    """
    model, known, k = run.options.model, run.names, run.network.n_features_in_
    there, unit = io.wavelengths_in(known, any_order=True)
    here, _ = io.wavelengths_in([*reader.names], any_order=True)
    if there is not None and here is not None:
        return _by_wavelengths(run, reader, here, there, unit)
    if run.options.interpolate:
        raise io.InputError(
            f"--interpolate needs wavelengths in {reader.name} and in {model}: omit it"
        )
    if known and reader.header:
        return _by_names(run, reader)
    if reader.n_features != k:
        raise io.InputError(
            f"{reader.name} has {reader.n_features} mixtures, and {model} learned from "
            f"{k}: choose them with --use"
        )
    unnamed = reader.name if known else model
    run.console.note(
        f"{reader.name}: the names of its mixtures were not compared: {unnamed} has "
        "none"
    )
    return lambda block: block


def _by_wavelengths(
    run: Application, reader: Any, here: Any, there: Any, unit: str | None
) -> Callable[[Any], Any]:
    """Compare wavelengths of a file with those of a model, or interpolate to them."""
    model, k = run.options.model, run.network.n_features_in_
    differing = differing_channel(here, there, reader.unit, unit)
    if differing is None:
        return lambda block: block
    if unit and reader.unit and unit != reader.unit:
        raise io.InputError(
            f"{reader.name} has wavelengths in {reader.unit}, and {model} in {unit}: "
            "convert them"
        )
    if not run.options.interpolate:
        what = f"differs: {differing}"
        if len(here) != k:
            what = f"has {len(here)} wavelengths, and {model} {k}"
        raise io.InputError(
            f"{reader.name} {what}: pass --interpolate, or choose others with --use"
        )
    if there.min() < here.min() or there.max() > here.max():
        raise io.InputError(
            f"{reader.name} has wavelengths from {here.min():g} to {here.max():g}, and "
            f"{model} {there.min():g} to {there.max():g}: they cannot be extrapolated"
        )
    order = np.argsort(here)
    rows = np.eye(len(here))[:, order]
    weights = np.stack([np.interp(there, here[order], row) for row in rows])
    run.console.note(
        f"{reader.name}: its {len(here)} wavelengths were interpolated to the {k} of "
        f"{model}"
    )
    return lambda block: block @ weights


def _by_names(run: Application, reader: Any) -> Callable[[Any], Any]:
    """Find the mixtures of a model by name."""
    model, known, names = run.options.model, run.names, [*reader.names]
    if len({*names}) < len(names) and names != known:
        raise io.InputError(
            f"{reader.name} has names of mixtures that repeat, and are not those of "
            f"{model}: rename them"
        )
    missing = [name for name in known if name not in names]
    if missing:
        raise io.InputError(
            f"{reader.name} has no mixture {missing[0]!r}, from which {model} learned: "
            f"it has {', '.join(names[:20])}"
        )
    columns = [names.index(name) for name in known]
    others = [name for name in names if name not in known]
    if columns != [*range(len(names))]:
        left_out = f", and left out: {', '.join(others[:20])}" if others else ""
        run.console.note(
            f"{reader.name}: its mixtures were put in the order of {model}{left_out}"
        )
    return lambda block: block[:, columns]
