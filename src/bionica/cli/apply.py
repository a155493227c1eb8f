"""`bionica apply`: the sources of new files, by a model that `bionica separate --model` or `save` wrote. Nothing is learned."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import bionica

from .. import io
from .console import Console, counted
from .separate import Decimal, OfJson, OfQuiet, _Read, _Talk, default_output, differing_channel

_MISSING = ("BatchNICA", "MinimumVolumeCone")  # estimators whose `transform` takes missing values


def apply(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model: bionica separate ... --model FILE.")],
    inputs: Annotated[list[Path], typer.Argument(metavar="INPUT", help="Files of mixtures; each is read by itself.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="File for the sources.")] = None,
    interpolate: Annotated[bool, typer.Option("--interpolate", help="Interpolate to the model's wavelengths.")] = False,
    axis: Annotated[int | None, _Read(min=0, max=1, metavar="0|1", help="Axis of the samples: 0 is rows.")] = None,
    use: Annotated[str | None, _Read(metavar="COLUMNS", help="The mixtures: red,blue or 2-4,7, from 1 on.")] = None,
    skip: Annotated[str | None, _Read(metavar="COLUMNS", help="Columns that are not mixtures.")] = None,
    skip_lines: Annotated[int, _Read(min=0, metavar="N", help="Lines of text before the table.")] = 0,
    header: Annotated[bool | None, _Read("--header/--no-header", help="Whether the first line holds names.")] = None,
    decimal: Annotated[Decimal | None, _Read(help="Decimal point of text, read and written.")] = None,
    encoding: Annotated[str | None, _Read(metavar="NAME", help="Encoding of text: utf-8, cp1252, ...")] = None,
    dataset: Annotated[str | None, _Read(metavar="NAME", help="Array or sheet, if a file holds several.")] = None,
    optical_density: Annotated[bool, _Read("--optical-density", help="Images of light to absorbance.")] = False,
    force: Annotated[bool, _Talk("--force", help="Replace files that exist.")] = False,
    json: OfJson = False,
    quiet: OfQuiet = False,
) -> None:
    """Find the sources of new files by a model that has been fitted. The sources of x.csv are written to x-sources.csv.

    \b
    bionica separate day1.csv --sources 3 --model model.npz
    bionica apply model.npz day2.csv day3.csv

    Mixtures must be those of the model: by their wavelengths, or by their names in any order.
    """  # noqa: D301
    if output is not None and len(inputs) > 1:
        raise typer.BadParameter("-o names one file: omit it for several inputs, whose sources are written beside them")
    console = Console(json=json, quiet=quiet)
    with console.session(interrupted="Interrupted: files that are complete stay"):
        paths = [default_output(path, f"{path.stem}-sources") for path in inputs] if output is None else [output]
        network, files = bionica.load(model), io.check_inputs(inputs)
        known = [*vars(network).pop("feature_names_in_", [])]  # blocks are arrays, which have no names
        d, written = len(network.components_), list[dict[str, Any]]()
        for path, target in zip(inputs, paths, strict=True):
            io.check_format(target, images=path.suffix.lower() in io.PIXELS)
        targets = [io.Target("-o", file, force) for target in paths for file in io.output_files(target, d)]
        io.check_targets(targets, [model, *files])
        form: dict[str, Any] = {"axis": axis, "columns": io.Columns(use, skip), "header": header, "decimal": decimal}
        form |= {"skip_lines": skip_lines, "encoding": encoding, "dataset": dataset, "optical_density": optical_density}
        form["missing"] = type(network).__name__ in _MISSING and not interpolate
        for path, target in zip(inputs, paths, strict=True):
            with io.open_reader(path, **form) as reader:
                choose = matching(known, network.n_features_in_, model, reader, interpolate, console.note)
                console.note(*(f"{reader.name}: {note}" for note in reader.notes))
                labels: dict[str, Any] = {"label_names": reader.label_names, "label_types": reader.label_types}
                labels |= {"names": [*network.get_feature_names_out()], "decimal": decimal or reader.decimal}
                shape, size, n = reader.image_shape, reader.pixel_size, 0
                dtype = network.transform(np.ones((1, network.n_features_in_))).dtype
                with io.open_writer(target, d, dtype, shape, pixel_size=size, **labels) as writer:
                    for block, beside in reader.labelled_blocks():
                        writer.write(network.transform(choose(block)), beside)
                        n += len(block)
            names = [str(file) for file in io.output_files(target, d)]
            written.append({"input": str(path), "samples": n, "output": names})
        lines = [
            f"{each['input']}: {counted(each['samples'], 'samples')}. Wrote {', '.join(each['output'])}"
            for each in written
        ]
        first = f"{counted(d, 'sources')} by {type(network).__name__} of {model}."
        console.result([first, *lines], {"model": str(model), "sources": d, "files": written, "notes": console.notes})


def matching(
    known: list[str], k: int, model: Path, reader: Any, interpolate: bool, note: Callable[[str], None]
) -> Callable[[Any], Any]:
    """Return what makes the k mixtures of a model, of names `known`, of those of a file; InputError if they are others."""
    names = [*reader.names]
    there, here = io.wavelengths_in(known)[0], reader.wavelengths
    if there is not None and here is not None:
        if (differing := differing_channel(here, there)) is None:
            return lambda block: block
        if not interpolate:
            what = f"has {len(here)} wavelengths, and {model} {k}" if len(here) != k else f"differs: {differing}"
            raise io.InputError(f"{reader.name} {what}: pass --interpolate, or choose others with --use")
        if there.min() < here.min() or there.max() > here.max():
            ends = f"{here.min():g} to {here.max():g}, and {model} {there.min():g} to {there.max():g}"
            raise io.InputError(f"{reader.name} has wavelengths from {ends}: they cannot be extrapolated")
        order = np.argsort(here)
        weights = np.stack([np.interp(there, here[order], row) for row in np.eye(len(here))[:, order]])
        note(f"{reader.name}: its {len(here)} wavelengths were interpolated to the {k} of {model}")
        return lambda block: block @ weights
    if interpolate:
        raise io.InputError(f"--interpolate needs wavelengths in {reader.name} and in {model}: omit it")
    if known and reader.header:
        if missing := [name for name in known if name not in names]:
            raise io.InputError(
                f"{reader.name} has no mixture {missing[0]!r}, from which {model} learned: it has {', '.join(names[:20])}"
            )
        if names == known:
            return lambda block: block
        others = [name for name in names if name not in known]
        left_out = f", and left out: {', '.join(others[:20])}" if others else ""
        note(f"{reader.name}: its mixtures were put in the order of {model}{left_out}")
        columns = [names.index(name) for name in known]
        return lambda block: block[:, columns]
    if reader.n_features != k:
        raise io.InputError(
            f"{reader.name} has {reader.n_features} mixtures, and {model} learned from {k}: choose them with --use"
        )
    note(f"{reader.name}: the names of its mixtures were not compared: {reader.name if known else model} has none")
    return lambda block: block
