"""`bionica apply`: the sources of new files, by a model that `bionica separate --model`
or `save` wrote. Nothing is learned.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli import options
from bionica.cli.console import Console, counted, one_line
from bionica.cli.separate import (
    FIRST,
    IN_MEMORY,
    default_output,
    differing_channel,
    energies,
    share_of,
)

# Of what is unexplained, as a share of the energy and in each cell: noise may have one
# size, or grow with the light.
_MORE = 3.0
_ROUNDING = 1e-6


def apply(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A model: bionica separate ... --model FILE."
        ),
    ],
    inputs: Annotated[
        list[Path],
        typer.Argument(
            metavar="INPUT", help="Files of mixtures; each is read by itself."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File for the sources."),
    ] = None,
    interpolate: Annotated[
        bool,
        typer.Option("--interpolate", help="Interpolate to the model's wavelengths."),
    ] = False,
    axis: options.Axis = None,
    use: options.Use = None,
    skip: options.Skip = None,
    skip_lines: options.SkipLines = 0,
    header: options.Header = None,
    decimal: options.Decimal = None,
    encoding: options.Encoding = None,
    dataset: options.Dataset = None,
    optical_density: options.OpticalDensity = False,
    offset: options.Offset = None,
    saturated: options.Saturated = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the sources of new files by a model that has been fitted. The sources of
    x.csv are written to x-sources.csv.

    \b
    bionica separate day1.csv --sources 3 --model model.npz
    bionica apply model.npz day2.csv day3.csv

    Mixtures must be those of the model: by their wavelengths, or by their names in any
    order.
    """  # noqa: D301
    if output is not None and len(inputs) > 1:
        raise typer.BadParameter(
            "-o names one file: omit it for several inputs, whose sources are written"
            " beside them"
        )
    console = Console(json=json, quiet=quiet)
    with console.session(interrupted="Interrupted: files that are complete stay"):
        from sklearn.utils import get_tags

        from bionica.mixtures.verdict.findings import saturation

        paths = (
            [default_output(path) for path in inputs] if output is None else [output]
        )
        network = bionica.load(model)
        read = io.check_inputs(inputs)
        # blocks are arrays, which have no names
        known = [*vars(network).pop("feature_names_in_", [])]
        d = len(network.components_)
        A = np.asarray(network.mixing_, float)
        written = list[dict[str, Any]]()
        lines = [f"{counted(d, 'sources')} by {type(network).__name__} of {model}."]
        for path, target in zip(inputs, paths, strict=True):
            io.check_format(target, images=path.suffix.lower() in io.PIXELS)
        targets = [
            io.Target("-o" if output else "the output", file, force)
            for target in paths
            for file in io.output_files(target, d)
        ]
        io.check_targets(targets, [model, *read])
        form: dict[str, Any] = {"axis": axis, "header": header, "decimal": decimal}
        of_fit = getattr(network, "origin_", {})
        given = options.origin(offset, saturated, optical_density)
        origin = of_fit | given
        for name in sorted(of_fit.keys() - {"unexplained", "residual"}):
            how = (
                "and so the inputs are read"
                if name not in given
                else f"and the inputs are read with {given[name]:g}"
            )
            if given.get(name) != of_fit[name]:
                console.note(
                    f"{model} was fitted with --{name.replace('_', '-')}"
                    f" {of_fit[name]:g}, {how}"
                )
        form |= {"use": use, "skip": skip, **options.levels(origin)}
        form |= {"skip_lines": skip_lines, "encoding": encoding, "dataset": dataset}
        form["optical_density"] = bool(origin.get("optical_density"))
        form["missing"] = get_tags(network).input_tags.allow_nan and not interpolate
        for path, target in zip(inputs, paths, strict=True):
            with io.open_reader(path, **form) as reader:
                choose = matching(
                    known,
                    network.n_features_in_,
                    model,
                    reader,
                    interpolate,
                    console.note,
                )
                console.note(*(f"{reader.name}: {note}" for note in reader.notes))
                names = [*network.get_feature_names_out()]
                n = 0
                energy = np.zeros(2)
                worst = (0.0, 0)
                X, _ = reader.sample(max(FIRST, IN_MEMORY // (8 * reader.n_features)))
                problems = [
                    one.text((), [*map(reader.column, range(X.shape[1]))])
                    for one in saturation(X)
                ]
                dtype = network.transform(np.ones((1, network.n_features_in_))).dtype
                with io.open_writer(
                    target, d, dtype, names=names, **reader.layout
                ) as writer:
                    for block, beside in reader.labelled_blocks():
                        X = choose(block)
                        Y = network.transform(X)
                        writer.write(Y, beside)
                        left = energies(X, Y, A)
                        worst = max(
                            worst, (float(left[0].max()), n + int(left[0].argmax()) + 1)
                        )
                        n = n + len(block)
                        energy = energy + left.sum(axis=1)
            files = [str(file) for file in io.output_files(target, d)]
            share = share_of(energy)
            at_the_fit = of_fit.get("unexplained")
            unexplained = {
                "unexplained": share,
                "unexplained_by_the_fit": at_the_fit,
                "largest_residual": worst[1],
            }
            written.append(
                {"input": str(path), "samples": n, "output": files, **unexplained}
            )
            fit = (
                ""
                if at_the_fit is None
                else f"; {at_the_fit:.2%} where the model was fitted"
            )
            where = f"sample {worst[1]}"
            shape = reader.image_shape
            if shape:
                where = (
                    f"pixel y={(worst[1] - 1) // shape[1]},"
                    f" x={(worst[1] - 1) % shape[1]}"
                )
            says = f"{share:.2%} of their energy unexplained (most in {where}{fit})"
            residual = energy[0] / (n * network.n_features_in_)
            more = residual > _MORE * of_fit.get("residual", np.inf)
            if (
                more
                and at_the_fit is not None
                and share > _MORE * max(at_the_fit, _ROUNDING)
            ):
                problems.append(
                    "much more is unexplained than where the model was fitted: other"
                    " sources, or other conditions."
                )
            written[-1]["problems"] = problems
            found = "".join(
                f" Problem: {problem}" for problem in map(one_line, problems)
            )
            lines.append(
                f"{path}: {counted(n, 'samples')}, {says}.{found} Wrote"
                f" {', '.join(files)}"
            )
        console.result(
            lines,
            {
                "model": str(model),
                "sources": d,
                "files": written,
                "notes": console.notes,
            },
        )


def matching(
    known: list[str],
    k: int,
    model: Path,
    reader: Any,
    interpolate: bool,
    note: Callable[[str], None],
) -> Callable[[Any], Any]:
    """Return what makes the k mixtures of a model, of names `known`, of those of a
    file; InputError if they are others.
    """
    names = [*reader.names]
    (there, unit), (here, _) = (
        io.wavelengths_in(each, any_order=True) for each in (known, names)
    )
    if there is not None and here is not None:
        differing = differing_channel(here, there, reader.unit, unit)
        if differing is None:
            return lambda block: block
        if unit and reader.unit and unit != reader.unit:
            raise io.InputError(
                f"{reader.name} has wavelengths in {reader.unit}, and {model} in"
                f" {unit}: convert them"
            )
        if not interpolate:
            what = (
                f"has {len(here)} wavelengths, and {model} {k}"
                if len(here) != k
                else f"differs: {differing}"
            )
            raise io.InputError(
                f"{reader.name} {what}: pass --interpolate, or choose others with --use"
            )
        if there.min() < here.min() or there.max() > here.max():
            ends = (
                f"{here.min():g} to {here.max():g}, and {model} {there.min():g} to"
                f" {there.max():g}"
            )
            raise io.InputError(
                f"{reader.name} has wavelengths from {ends}: they cannot be"
                " extrapolated"
            )
        order = np.argsort(here)
        weights = np.stack(
            [np.interp(there, here[order], row) for row in np.eye(len(here))[:, order]]
        )
        note(
            f"{reader.name}: its {len(here)} wavelengths were interpolated to the {k}"
            f" of {model}"
        )
        return lambda block: block @ weights
    if interpolate:
        raise io.InputError(
            f"--interpolate needs wavelengths in {reader.name} and in {model}: omit it"
        )
    if known and reader.header:
        if len({*names}) < len(names) and names != known:
            raise io.InputError(
                f"{reader.name} has names of mixtures that repeat, and are not those of"
                f" {model}: rename them"
            )
        missing = [name for name in known if name not in names]
        if missing:
            raise io.InputError(
                f"{reader.name} has no mixture {missing[0]!r}, from which {model}"
                f" learned: it has {', '.join(names[:20])}"
            )
        columns = [names.index(name) for name in known]
        others = [name for name in names if name not in known]
        if columns != [*range(len(names))]:
            left_out = f", and left out: {', '.join(others[:20])}" if others else ""
            note(
                f"{reader.name}: its mixtures were put in the order of"
                f" {model}{left_out}"
            )
        return lambda block: block[:, columns]
    if reader.n_features != k:
        raise io.InputError(
            f"{reader.name} has {reader.n_features} mixtures, and {model} learned from"
            f" {k}: choose them with --use"
        )
    note(
        f"{reader.name}: the names of its mixtures were not compared:"
        f" {reader.name if known else model} has none"
    )
    return lambda block: block
