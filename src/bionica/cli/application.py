"""`apply`: the sources of new files by a model that `separate --model` or `save` wrote.

It learns nothing. The mixtures of a file must be those of the model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli.console import FORCE, JSON, QUIET, Console, command, counted, one_line
from bionica.cli.mixtures import (
    LEVELS,
    ReadingOptions,
    default_output,
    differing_channel,
    energies,
    share_of,
)
from bionica.cli.separation import sample_size

#: How much more may be unexplained than where the model was fitted, as a share of the
#: energy and in each cell: noise may have one size, or grow with the light.
_MORE, _ROUNDING = 3.0, 1e-6


@dataclass
class Apply(ReadingOptions):
    """Find the sources of new files by a model that has been fitted. The
    sources of x.csv are written to x-sources.csv.

    \b
    bionica separate day1.csv --sources 3 --model model.npz
    bionica apply model.npz day2.csv day3.csv

    Mixtures must be those of the model: by their wavelengths, or by their names
    in any order.
    """  # noqa: D301

    model: Path = typer.Argument(
        metavar="MODEL", help="A model: bionica separate ... --model FILE."
    )
    inputs: list[Path] = typer.Argument(
        metavar="INPUT", help="Files of mixtures; each is read by itself."
    )
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="File for the sources."
    )
    interpolate: bool = typer.Option(
        False, "--interpolate", help="Interpolate to the model's wavelengths."
    )
    force: bool = FORCE
    json: bool = JSON
    quiet: bool = QUIET

    def run(self) -> None:
        """Write the sources of each file, and say how much they leave unexplained."""
        paths = [default_output(path) for path in self.inputs]
        if self.output is not None:
            if len(self.inputs) > 1:
                raise typer.BadParameter(
                    "-o names one file: omit it for several inputs, whose sources are "
                    "written beside them"
                )
            paths = [self.output]
        console = self.console = Console(json=self.json, quiet=self.quiet)
        with console.session(interrupted="Interrupted: files that are complete stay"):
            network = self.network = bionica.load(self.model)
            d = len(network.components_)
            outputs = [io.output_files(path, d) for path in paths]
            self.check_files(paths, outputs)
            self.of_fit = getattr(network, "origin_", {})
            # Blocks are arrays, which have no names.
            self.names = [*vars(network).pop("feature_names_in_", [])]
            reading = self.reading()
            name = type(network).__name__
            lines = [f"{counted(d, 'sources')} by {name} of {self.model}."]
            files = []
            for path, target, written in zip(self.inputs, paths, outputs, strict=True):
                with io.open_reader(path, reading) as reader:
                    file, where = self.transform(reader, target, written)
                lines.append(line_of(file, where))
                files.append(file)
            summary = {"model": str(self.model), "sources": d, "files": files}
            console.result(lines, {**summary, "notes": console.notes})

    def check_files(self, paths: list[Path], outputs: list[list[Path]]) -> None:
        """Raise if the sources of an input cannot be written, before anything is."""
        read = io.check_inputs(self.inputs)
        for path, target in zip(self.inputs, paths, strict=True):
            io.check_format(target, images=path.suffix.lower() in io.PIXELS)
        name = "-o" if self.output else "the output"
        targets = [io.Target(name, file, self.force) for file in chain(*outputs)]
        io.check_targets(targets, [self.model, *read])

    def reading(self) -> io.ReadOptions:
        """Return how files are read: as the model remembers, unless options say."""
        from sklearn.utils import get_tags

        given = self.origin()
        levels = {name: x for name, x in self.of_fit.items() if name in LEVELS}
        for name, level in sorted(levels.items()):
            how = "and so the inputs are read"
            if name in given:
                how = f"and the inputs are read with {given[name]:g}"
            if given.get(name) != level:
                option = name.replace("_", "-")
                self.console.note(
                    f"{self.model} was fitted with --{option} {level:g}, {how}"
                )
        missing = get_tags(self.network).input_tags.allow_nan and not self.interpolate
        return self.for_reader(levels | given, missing)

    def transform(
        self, reader: Any, target: Path, written: list[Path]
    ) -> tuple[dict[str, Any], str]:
        """Write the sources of a file; return what was found, and where it is worst."""
        from bionica.mixtures.verdict.findings import saturation

        network, n = self.network, 0
        choose = self.matching(reader)
        self.console.note_input(reader)
        X, _, blocks = reader.sample_and_blocks(sample_size(reader))
        columns = [reader.column(j) for j in range(X.shape[1])]
        problems = [one_line(one.text((), columns)) for one in saturation(X)]
        A = np.asarray(network.mixing_, float)
        names = [*network.get_feature_names_out()]
        energy = np.zeros(2)
        worst = (-1.0, 0)  # the largest residual, and its sample
        with io.open_writer(
            target, len(names), np.float64, names=names, **reader.layout
        ) as writer:
            for block, labels in blocks:
                X = choose(block)
                Y = network.transform(X)
                writer.write(Y, labels)
                left = energies(X, Y, A)
                energy += left.sum(axis=1)
                largest = int(left[0].argmax())
                worst = max(worst, (float(left[0, largest]), n + largest))
                n += len(X)
        where = f"sample {worst[1] + 1}"
        if reader.image_shape:
            y, x = divmod(worst[1], reader.image_shape[1])
            where = f"pixel y={y}, x={x}"
        share, before = share_of(energy), self.of_fit.get("unexplained", np.inf)
        is_more = energy[0] / (n * len(A)) > _MORE * self.of_fit.get("residual", np.inf)
        if is_more and share > _MORE * max(before, _ROUNDING):
            problems.append(
                "much more is unexplained than where the model was fitted: other "
                "sources, or other conditions."
            )
        file = {
            "input": reader.name,
            "samples": n,
            "output": [*map(str, written)],
            "unexplained": share,
            "unexplained_by_the_fit": before,
            "largest_residual": worst[1] + 1,
            "problems": problems,
        }
        return file, where

    # --- the mixtures of the model, of those of a file

    def matching(self, reader: Any) -> Callable[[Any], Any]:
        """Return what makes the mixtures of the model of those of a file.

        InputError if they are others.
        """
        k = self.network.n_features_in_
        there, unit = io.wavelengths_in(self.names, any_order=True)
        here, _ = io.wavelengths_in([*reader.names], any_order=True)
        if there is not None and here is not None:
            return self.by_wavelengths(reader, here, there, unit)
        if self.interpolate:
            raise io.InputError(
                f"--interpolate needs wavelengths in {reader.name} and in "
                f"{self.model}: omit it"
            )
        if self.names and reader.header:
            return self.by_names(reader)
        if reader.n_features != k:
            raise io.InputError(
                f"{reader.name} has {reader.n_features} mixtures, and {self.model} "
                f"learned from {k}: choose them with --use"
            )
        unnamed = reader.name if self.names else self.model
        self.console.note(
            f"{reader.name}: the names of its mixtures were not compared: {unnamed} "
            "has none"
        )
        return lambda block: block

    def by_wavelengths(
        self, reader: Any, here: Any, there: Any, unit: str | None
    ) -> Callable[[Any], Any]:
        """Compare wavelengths of a file with those of the model, or interpolate."""
        model = self.model
        differing = differing_channel(here, there, reader.unit, unit)
        if differing is None:
            return lambda block: block
        if unit and reader.unit and unit != reader.unit:
            raise io.InputError(
                f"{reader.name} has wavelengths in {reader.unit}, and {model} in "
                f"{unit}: convert them"
            )
        if not self.interpolate:
            what = f"differs: {differing}"
            if len(here) != len(there):
                what = f"has {len(here)} wavelengths, and {model} {len(there)}"
            raise io.InputError(
                f"{reader.name} {what}: pass --interpolate, or choose others with --use"
            )
        if there.min() < here.min() or there.max() > here.max():
            raise io.InputError(
                f"{reader.name} has wavelengths from {here.min():g} to "
                f"{here.max():g}, and {model} {there.min():g} to {there.max():g}: they "
                "cannot be extrapolated"
            )
        order = np.argsort(here)
        rows = np.eye(len(here))[:, order]
        weights = np.stack([np.interp(there, here[order], row) for row in rows])
        self.console.note(
            f"{reader.name}: its {len(here)} wavelengths were interpolated to the "
            f"{len(there)} of {model}"
        )
        return lambda block: block @ weights

    def by_names(self, reader: Any) -> Callable[[Any], Any]:
        """Find the mixtures of the model by name."""
        model, known, names = self.model, self.names, [*reader.names]
        if len({*names}) < len(names) and names != known:
            raise io.InputError(
                f"{reader.name} has names of mixtures that repeat, and are not those "
                f"of {model}: rename them"
            )
        missing = [name for name in known if name not in names]
        if missing:
            raise io.InputError(
                f"{reader.name} has no mixture {missing[0]!r}, from which {model} "
                f"learned: it has {', '.join(names[:20])}"
            )
        columns = [names.index(name) for name in known]
        others = [name for name in names if name not in known]
        if columns != [*range(len(names))]:
            left_out = f", and left out: {', '.join(others[:20])}" if others else ""
            self.console.note(
                f"{reader.name}: its mixtures were put in the order of "
                f"{model}{left_out}"
            )
        return lambda block: block[:, columns]


def line_of(file: dict[str, Any], where: str) -> str:
    """Return what was found in a file in words."""
    if np.isfinite(file["unexplained_by_the_fit"]):
        where += f"; {file['unexplained_by_the_fit']:.2%} where the model was fitted"
    size = counted(file["samples"], "samples")
    line = f"{file['input']}: {size}, {file['unexplained']:.2%} of their energy "
    line += f"unexplained (most in {where})."
    line += "".join(f" Problem: {problem}" for problem in file["problems"])
    return f"{line} Wrote {', '.join(file['output'])}"


apply = command(Apply)
