"""`bionica separate`: the sources of the user's own mixtures.

A file is fitted by `bionica.separate`, if it is large on evenly spread samples of 32
MiB, and then transformed block by block. A pipe, and a file with --horizon, is a
stream: each sample is answered with what was learned before it.

Model and sources of a stream agree after a kill: a file of sources and the model appear
together, when the input ends. If sources go to standard output, the model is saved
every 30 seconds, each time after the samples that it has learned from were answered.
"""

import re
import shlex
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import partial
from inspect import signature
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli import options
from bionica.cli.console import (
    Console,
    StandardInput,
    counted,
    ignore_broken_pipe,
    one_line,
)
from bionica.io.files import complete_files

AUTO = "auto"
#: Bytes of float64 that are fitted, in about 8 times the memory, and by which a stream
#: is judged at its end.
IN_MEMORY = 2**25
# samples of a pipe in which the method is chosen and sources are counted, at least
FIRST = 1000
# seconds between saves of the model while sources go to standard output
SAVE_EVERY = 30.0
_LEVEL = re.compile(r"\d*\.?\d+([eE][-+]?\d+)?")
_NUMBERED = re.compile(r"source_(\d{1,9})")
_NAMED = 8  # sources whose uncertainty is printed: the least sure ones

#: --method name -> class name: what `bionica.separate` fits. Classes are known by name,
#: because importing them takes a second.
METHODS = {
    "batch": "BatchNICA",
    "cone": "MinimumVolumeCone",
    "streaming": "StreamingNICA",
}
#: The same for models of neural circuits: the classes of `bionica.circuits`.
NETWORKS = {
    "interneuron": "InterneuronNICA",
    "local": "LocalNICA",
    "npca": "NonnegativePCA",
    "two-compartment": "TwoCompartmentNICA",
    "nsm": "TwoLayerNSM",
}
_CLASSES = METHODS | NETWORKS
#: Methods that need samples to fit before they answer. The others learn from the first
#: sample on, if --sources is given.
_OFFLINE = (AUTO, "batch", "cone")

Scale = StrEnum("Scale", ["variance", "mean", "sum"])

_Model = partial(typer.Option, rich_help_panel="The model")
_Stream = partial(typer.Option, rich_help_panel="Pipes, and mixing that changes")
_INPUT_HELP = (
    "Mixtures: .csv .tsv .xlsx .npy .npz .parquet .h5 .mat .zarr, images, instruments,"
    " or - (a pipe)."
)
_OUTPUT_HELP = "File for the sources [INPUT-sources.csv]."
_METHOD_HELP = f"""auto: cone (sources may be correlated), or batch (uncorrelated) if X has both signs and it is better.
streaming: one pass,
for uncorrelated sources. Models of neural circuits, which separate less reliably: {", ".join(NETWORKS)}."""


def separate(
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT", help=_INPUT_HELP)],
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help=_OUTPUT_HELP)
    ] = None,
    sources: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of sources.")
    ] = AUTO,
    mixing: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for the spectra, a row each."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Page of pictures: page.html.")
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Its figures as .pdf and .svg."),
    ] = None,
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
    method: Annotated[str, _Model(metavar="NAME", help=_METHOD_HELP)] = AUTO,
    known: Annotated[
        Path | None,
        _Model(metavar="FILE", help="Known spectra, in the form of --mixing."),
    ] = None,
    signed_mixing: Annotated[
        bool, _Model("--signed-mixing", help="Spectra may be negative.")
    ] = False,
    noise: Annotated[
        str,
        _Model(metavar="LEVEL|poisson", help="Noise: poisson for counts [estimated]."),
    ] = "estimate",
    normalize: Annotated[
        Scale | None, _Model(help="Scale; sum: their sum is near one (least squares).")
    ] = None,
    seed: Annotated[
        int, _Model(min=0, max=2**32 - 1, metavar="N", help="Same seed, same bits.")
    ] = 0,
    horizon: Annotated[
        int | None,
        _Stream(min=2, metavar="N", help="Remember about N samples; default: all."),
    ] = None,
    model: Annotated[
        Path | None,
        _Stream(metavar="FILE", help="File for the fitted estimator (bionica.load)."),
    ] = None,
    resume: Annotated[
        bool, _Stream("--resume", help="Continue a pipe from --model.")
    ] = False,
    scheduler: Annotated[
        str | None,
        _Model(
            metavar="ADDRESS",
            help="Dask cluster that fits .zarr and writes .zarr: tcp://host:8786.",
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find the nonnegative sources of mixtures, and how each of them enters the
    mixtures: its spectrum.

    \b
    bionica separate spectra.csv --sources 3 --mixing pure.csv --report page.html
    bionica separate red.png green.png blue.png -o recovered.png
    instrument | bionica separate - --sources 3 | logger

    Three lines say what was done, how large the error of each source is, and which
    problems were found.
    """  # noqa: D301
    n_sources = (
        None
        if sources == AUTO
        else int(sources)
        if sources.isdecimal() and len(sources) < 10
        else 0
    )
    level = (
        noise
        if noise in ("estimate", "poisson")
        else float(noise)
        if _LEVEL.fullmatch(noise)
        else None
    )
    cone = {
        "nonnegative_mixing": not signed_mixing and AUTO,
        "normalize": normalize or "variance",
        "noise": level,
    }
    of_cone = (
        known is not None
        or signed_mixing
        or cone["normalize"] != "variance"
        or level != "estimate"
    )
    from_pipe = inputs == ["-"]
    cls = (
        getattr(bionica, _CLASSES[method])
        if method in _CLASSES and (from_pipe or horizon)
        else None
    )
    contradictions = {
        f"--sources {sources[:40]!r} is neither a number of sources (1 or more) nor auto": (
            n_sources == 0
        ),
        f"--method {method} is unknown: choose from {AUTO}, {', '.join(_CLASSES)}": (
            method not in (AUTO, *_CLASSES)
        ),
        "give either - (standard input) or files": "-" in inputs and not from_pipe,
        "--axis 1 needs a file: every line of a pipe is a sample": (
            from_pipe and axis == 1
        ),
        "--resume continues a pipe: give - as INPUT, and --model": (
            resume and not (from_pipe and model)
        ),
        f"--method {method} does not learn sample by sample: choose another": (
            cls and not hasattr(cls, "partial_fit")
        ),
        f"--method {method} has no --horizon": (
            cls and horizon and "horizon" not in signature(cls).parameters
        ),
        "--scheduler reads one .zarr, and --horizon, --report and --method of a network are not for it": (
            scheduler
            and (
                not inputs[0].endswith(".zarr")
                or len(inputs) > 1
                or horizon
                or report
                or method not in _OFFLINE
            )
        ),
        "--scheduler writes .zarr: give -o FILE.zarr": (
            scheduler and output and not output.endswith(".zarr")
        ),
        f"--noise {noise[:40]!r} is neither poisson nor a standard deviation": (
            level is None
        ),
        "--known, --signed-mixing, --noise and --normalize need --method cone": (
            of_cone and method not in (AUTO, "cone")
        ),
    }
    for message, applies in contradictions.items():
        if applies:
            raise typer.BadParameter(message)
    first = Path(inputs[0])
    default = default_output(first, "sources" if len(inputs) > 1 else None)
    path = (
        None
        if output == "-" or (from_pipe and output is None)
        else Path(default if output is None else output)
    )
    console = Console(json=json, quiet=quiet, data_on_stdout=path is None)
    with console.session(interrupted="Interrupted: nothing was written"):
        run = Separation(
            console=console,
            inputs=inputs,
            path=path,
            known=known,
            n_sources=n_sources,
            horizon=horizon,
            decimal=decimal,
            outputs={
                "model": model,
                "mixing": mixing,
                "report": report,
                "figures": figures,
            },
            method="cone" if of_cone else method,
            cone=cone,
            seed=seed,
        )
        run.check_files(force, resume)
        form: dict[str, Any] = {
            "header": header,
            "decimal": decimal,
            "skip_lines": skip_lines,
            "encoding": encoding,
        }
        run.origin = options.origin(offset, saturated, optical_density)
        form["columns"] = io.Columns(use, skip, **options.levels(run.origin))
        if from_pipe:
            stdin = StandardInput(typer.get_binary_stream("stdin"))
            run.reader = io.open_pipe(stdin, **form)
        else:
            form |= {
                "axis": axis,
                "dataset": dataset,
                "optical_density": optical_density,
            }
            run.reader = io.open_reader(
                inputs, **form, missing=horizon is None and method in _OFFLINE
            )
        if method in NETWORKS:
            better = "streaming, batch and cone separate more reliably"
            console.note(
                f"--method {method} is {NETWORKS[method]}, a model of a neural circuit:"
                f" {better}"
            )
        with run.reader:
            if from_pipe or horizon:
                run.stream(stdin if from_pipe else None, resume)
            else:
                run.file(axis, scheduler)


def default_output(path: Path, stem: str | None = None) -> Path:
    """Return the file for the sources of an input, beside it and in its format, or in
    one that can be written.
    """
    # no loss
    suffix = ".png" if path.suffix.lower() in (".jpg", ".jpeg") else path.suffix
    suffix = suffix if suffix.lower() in (*io.WRITTEN, *io.IMAGES) else ".csv"
    name, ome = (
        (path.stem[:-4], path.stem[-4:])
        if path.stem.lower().endswith(".ome")
        else (path.stem, "")
    )
    return path.parent / f"{stem or f'{name}-sources'}{ome}{suffix}"


def differing_channel(here: Any, there: Any, *units: str | None) -> str | None:
    """Return where two axes of wavelengths differ by more than rounding, in words, or
    None; a unit that is None is not known.
    """
    if all(units) and len({*units}) > 1:
        return f"{units[0]} is not {units[1]}"
    if len(here) != len(there):
        return f"{len(here)} wavelengths are not {len(there)}"
    digits = (
        max(-int(Decimal(f"{value:.12g}").as_tuple().exponent) for value in axis)
        for axis in (here, there)
    )
    differ = ~np.isclose(here, there, atol=0.51 * 10.0 ** -min(digits))
    return f"{here[differ][0]:g} is not {there[differ][0]:g}" if differ.any() else None


def energies(X: Any, Y: Any, A: Any) -> Any:
    """Return the energy of each sample of X that outputs Y and mixing A leave
    unexplained, and all of it, (2, n).
    """
    with np.errstate(all="ignore"):
        return np.nansum(
            [(X - Y @ np.asarray(A, float).T) ** 2, np.square(X, dtype=float)], axis=2
        )


def share_of(energy: Any) -> float:
    """Return the first of two energies over the second."""
    return float(energy[0] / max(energy[1], 1e-300))


@dataclass
class Separation:
    """One run of the command. `path` is the file for the sources; None is standard
    output.
    """

    console: Console
    inputs: list[str]
    path: Path | None
    outputs: dict[str, Path | None]  # the other files, by the name of their option
    known: Path | None
    n_sources: int | None
    method: str
    cone: dict[str, Any]  # options of the cone
    seed: int
    horizon: int | None
    decimal: str | None
    reader: Any = None
    network: Any = None
    # what `bionica apply` must know of the fit
    origin: dict[str, float] = field(default_factory=dict)
    known_names: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def check_files(self, force: bool, resume: bool) -> None:
        """Raise if an output cannot be written, or is an input or another output,
        before anything is read.
        """
        from_pipe = self.inputs == ["-"]
        report = self.outputs["report"]
        mixing = self.outputs["mixing"]
        inputs = [Path("/dev/stdin")] if from_pipe else io.check_inputs(self.inputs)
        inputs += io.check_inputs([self.known]) if self.known is not None else []
        if (from_pipe and sys.stdin is None) or (
            self.path is None and sys.stdout is None
        ):
            raise io.InputError(
                "standard input or output is closed: give files, the INPUT and -o"
            )
        if report is not None and report.suffix.lower() not in (".html", ".htm"):
            raise io.OutputError(
                f"--report {report}: the report is a page of HTML; give it the suffix"
                " .html"
            )
        if report is not None or self.outputs["figures"] is not None:
            io.import_optional("matplotlib", "--report", "plot")
        if mixing is not None:
            io.check_format(mixing, "--mixing")
        given = {name: path for name, path in self.outputs.items() if path is not None}
        replaced = {
            "model": force or resume,
            "mixing": force,
            "report": force,
            "figures": False,
        }
        targets = [
            io.Target(f"--{name}", path, replaced[name]) for name, path in given.items()
        ]
        if self.path is None:
            inputs.append(Path("/dev/stdout"))
        else:
            io.check_format(
                self.path,
                images=all(
                    Path(name).suffix.lower() in io.PIXELS for name in self.inputs
                ),
            )
            targets += [
                io.Target("-o", file, force)
                for file in io.output_files(self.path, self.n_sources)
            ]
        io.check_targets(targets, inputs)

    # --- files

    def file(self, axis: int | None, scheduler: str | None) -> None:
        """Fit the input, or evenly spread samples of a large one, and transform it
        block by block.
        """
        reader = self.reader
        X, sample_labels = reader.sample(
            max(FIRST, IN_MEMORY // (8 * reader.n_features))
        )
        n = reader.n_samples
        k = X.shape[1]
        self.console.note(*(f"{reader.name}: {note}" for note in reader.notes))
        size = f"{reader.name} has {counted(n, 'samples')} of {self._mixtures(k)}"
        known_axis = (
            axis is not None
            or reader.image_shape is not None
            or reader.wavelengths is not None
        )
        # the file says that rows are samples
        known_axis |= any(map(io.ROW_NAMES.fullmatch, reader.label_names))
        if n < k and not known_axis:
            raise io.InputError(
                f"{size}: if its columns are the samples, pass --axis 1; if not,"
                " --axis 0"
            )
        if min(n, k) < 2:
            raise io.InputError(
                f"{size}: sources are found by comparing several samples and mixtures"
            )
        if scheduler is not None:
            self._on_cluster(scheduler)
            self._finish(X, sample_labels, n)
            return
        if len(X) < n:
            self.console.note(
                f"{len(X):,} evenly spread samples of {n:,} are fitted (32 MiB)"
            )
        if not reader.n_missing and "saturated" in self.origin:
            self.console.note(
                f"--saturated {self.origin['saturated']:g}: no cell reaches it"
            )
        m = reader.n_missing
        if m:
            self.console.note(
                f"{m:,} cells ({m / (n * k):.2g} of all) are missing: they are"
                " estimated by the fit"
            )
        self.network = self._fit(X, large=len(X) < n)
        Y = self.network.transform(X)
        energy = energies(X, Y, self.network.mixing_).sum(axis=1)
        self.origin |= {
            "unexplained": share_of(energy),
            "residual": float(energy[0]) / X.size,
        }
        self._save()
        dtype = Y.dtype
        with (
            ignore_broken_pipe(),
            self._open_output(dtype) as writer,
            self.console.progress("Writing", n) as advance,
        ):
            for block, labels in reader.labelled_blocks():
                writer.write(self.network.transform(block), labels)
                advance(len(block))
        self._finish(X, sample_labels, n)

    def _on_cluster(self, scheduler: str) -> None:
        """Fit all of a Zarr store by the workers of a cluster, which see it under the
        same name, and write the sources there.
        """
        from bionica.core.dask import cluster_faults

        distributed = io.import_optional("distributed", "--scheduler", "dask")
        da = io.import_optional("dask.array", "--scheduler", "dask")
        assert self.path is not None  # a .zarr is never standard output
        try:
            client = distributed.Client(scheduler, timeout=10)
        except (OSError, ValueError) as error:
            remedy = "start one with `dask scheduler`"
            raise io.InputError(
                f"--scheduler {scheduler} does not answer, {remedy}: {error}"
            ) from error
        with client, complete_files([self.path]) as (part,):
            X = da.from_zarr(str(Path(self.reader.name).resolve()))
            X = (X.T if self.reader.axis else X.reshape(-1, X.shape[-1]))[
                :, self.reader.columns
            ]
            X = self.reader.corrected(X)
            self.network = self._fit(X)
            try:
                with cluster_faults():
                    Y = self.network.transform(X)
                    Y.reshape(*(self.reader.image_shape or (-1,)), Y.shape[1]).to_zarr(
                        str(part)
                    )
            except Exception:
                # a worker that still writes its block makes the folder again
                for _ in range(20):
                    time.sleep(0.1)
                    shutil.rmtree(part.parent, ignore_errors=True)
                raise
            self._save()

    def _fit(self, X: Any, large: bool = False) -> Any:
        """Count the sources, choose the method, fit and judge; if X are samples of a
        large file, networks learn from all of it.
        """
        if self.method not in _OFFLINE and (large or self.method != "streaming"):
            network = self._new(X) if large else self._new(X).fit(X)
            with self.console.progress("Learning", self.reader.n_samples) as advance:
                for block in self.reader.blocks() if large else ():
                    network.partial_fit(block)
                    advance(len(block))
            from bionica.mixtures.separator import judge

            network.diagnosis_ = judge(network, X)
            return network
        known = None if self.known is None else self._known_spectra(self.known)
        parameters = {
            "method": self.method,
            "random_state": self.seed,
            "horizon": self.horizon,
            **self.cone,
        }
        return bionica.separate(
            X, self.n_sources or AUTO, known_mixing=known, **parameters
        )

    def _save(self) -> None:
        """Write --model, with the names of mixtures and sources, by which `bionica
        apply` compares and writes files.
        """
        if self.outputs["model"] is not None:
            names = self.reader.names
            self.network.source_names_ = self.names
            self.network.origin_ = self.origin
            if self.reader.header:
                self.network.feature_names_in_ = np.array(names, dtype=object)
            self.network.save(self.outputs["model"])
            # blocks are arrays, which have no names
            vars(self.network).pop("feature_names_in_", None)

    def _known_spectra(self, path: Path) -> Any:
        """Return the spectra of --known, a column each; their names are those of the
        first sources.

        A row for each spectrum, or a column. If the input has wavelengths, so must a
        table of spectra.
        """
        (here, _), k = (
            io.wavelengths_in(self.reader.names, any_order=True),
            self.reader.n_features,
        )
        is_text = path.suffix.lower() in (*io.TEXT, ".xlsx")
        header = True if is_text and here is not None else None
        for axis in (0, 1):
            with io.open_reader(
                path, axis=axis, header=header, decimal=self.decimal
            ) as reader:
                spectra, labels = reader.sample(2**20)
            if spectra.shape[1] == k:
                break
        else:
            size = (
                f"{spectra.shape[1]} x {len(spectra)} values, the input has {k}"
                " mixtures"
            )
            raise io.InputError(
                f"--known {path} holds {size}: interpolate its spectra, or --skip"
                " mixtures"
            )
        there, _ = io.wavelengths_in(reader.names, any_order=True)
        if header and there is None:
            raise io.InputError(
                f"--known {path} has no line of wavelengths, as the input has: add it"
            )
        if here is not None and there is not None:
            if len(here) == len(there):  # in the order of the input
                order = np.argsort(there)[np.argsort(np.argsort(here))]
                spectra = spectra[:, order]
                there = there[order]
            wrong = differing_channel(there, here, reader.unit, self.reader.unit)
            if wrong:
                raise io.InputError(
                    f"--known {path}: {wrong}: interpolate its spectra to the"
                    " wavelengths of the input"
                )
        self.known_names = [str(name) for name in labels[0]] if labels else []
        return spectra.T

    def _new(self, X: Any) -> Any:
        """Return an unfitted estimator of --method, with as many sources as --sources
        says or X shows.
        """
        from bionica.mixtures.cone.count import count_sources

        horizon = {"horizon": self.horizon} if self.horizon else {}
        d = self.n_sources or int(count_sources(X)[0])
        return getattr(bionica, _CLASSES[self.method])(
            d, random_state=self.seed, **horizon
        )

    def _mixtures(self, k: int) -> str:
        return counted(
            k, "mixtures" if self.reader.wavelengths is None else "wavelengths"
        )

    @property
    def names(self) -> list[str]:
        """The names of the sources, known ones first."""
        # a network that waits for its first samples has no n_components_ yet
        given = self.network.n_components
        d = given if isinstance(given, int) else self.network.n_components_
        known = self.known_names
        numbers = [int(match[1]) for match in map(_NUMBERED.fullmatch, known) if match]
        last = (
            max(d, *numbers) if numbers else len(known)
        )  # of another fit, whose source_1 may be another one than ours
        return [*known, *(f"source_{last + i}" for i in range(1, d - len(known) + 1))][
            :d
        ]

    def _open_output(self, dtype: Any) -> Any:
        """Open the output of the sources."""
        reader = self.reader
        path = self.path
        names = self.names
        if path is None:
            header = [*reader.label_names, *names] if reader.header else None
            return nullcontext(
                io.TextWriter(typer.get_binary_stream("stdout"), header, reader.decimal)
            )
        if path.suffix.lower() in io.IMAGES and reader.image_shape is None:
            io.check_format(path)
        return io.open_writer(path, len(names), dtype, names=names, **reader.layout)

    # --- streams

    def stream(self, stdin: StandardInput | None, resume: bool) -> None:
        """Answer each sample, of a pipe or of a file, with what was learned before it."""
        reader = self.reader
        model = self.outputs["model"]
        self.network = self._saved(model) if resume and model is not None else None
        self.console.say(f"Reading {reader.name}")
        blocks = reader.labelled_blocks()
        first = [next(blocks)]
        self.console.note(*(f"{reader.name}: {note}" for note in reader.notes))
        k = first[0][0].shape[1]
        dtype = first[0][0].dtype
        if self.network is None:
            at_once = (
                stdin is not None
                and self.n_sources is not None
                and self.method not in _OFFLINE
            )
            self.network = self._new(None) if at_once else self._choose(first, blocks)
        elif k != self.network.n_features_in_:
            learned = (
                f"{model} learned from {self.network.n_features_in_} mixtures, and"
                f" {reader.name} has {k}"
            )
            raise io.InputError(
                f"{learned}: choose the same ones with --use, or start again without"
                " --resume"
            )
        network = self.network
        rows = max(FIRST, min(self.horizon or 2**62, IN_MEMORY // (8 * k)))
        sample = io.RowSample(rows)
        recent = deque[Any](maxlen=rows if self.horizon else 0)
        stop: BaseException | None = None
        if stdin is not None:
            stdin.defer_interrupts()
        saved = self.started
        complete = False
        silent = True
        with ignore_broken_pipe(), self._open_output(dtype) as writer:
            try:
                for block, labels in chain(first, blocks):
                    Y = network.partial_fit_transform(block)
                    writer.write(Y, labels)
                    silent &= not Y.any()
                    sample.add(block)
                    recent.extend(block)
                    if self.path is None and time.monotonic() - saved > SAVE_EVERY:
                        self._save()
                        saved = time.monotonic()
            except (KeyboardInterrupt, io.InputError) as error:
                if stdin is None:
                    raise
                # the samples of a pipe come once: keep what was made of them
                stop = error
            missing = getattr(network, "n_samples_until_start_", 0)
            n = network.n_samples_seen_
            if silent and model is None and stop is None:
                starts = (
                    f"{type(network).__name__} starts with {n + missing}"
                    if missing
                    else "every output was zero"
                )
                other = ", or use --method streaming" if missing else ""
                ended = (
                    f"{reader.name} ended after {counted(n, 'samples')}, and {starts}"
                )
                raise io.InputError(
                    f"{ended}: give more, or continue later with --model FILE" + other
                )
            complete = True
        # after the output: no sample that it has learned from is lost
        if sample.n_seen:
            self._save()
        if not complete:  # the reader of standard output has left
            return
        X = np.array(recent) if self.horizon else sample.sample()[0]
        from bionica.mixtures.separator import judge

        network.diagnosis_ = judge(network, X) if len(X) > 1 and not missing else None
        self._finish(X, (), sample.n_seen, interrupted=stop is not None)
        if isinstance(stop, io.InputError):
            raise stop
        if stop is not None and self.console.json:  # the object says so
            raise typer.Exit(130)
        if stop is not None:
            remedy = (
                f"continue from {model} with --resume"
                if model
                else "--model FILE would save what was learned"
            )
            raise KeyboardInterrupt(f"Interrupted: {remedy}")

    def _choose(self, first: list[Any], blocks: Iterator[Any]) -> Any:
        """Return an estimator that can learn on, of the method that suits the first
        samples, and has learned from them.

        Blocks that this takes are added to `first`. The estimator learns from them once
        more, so that its first answers are good.
        """
        n = max(FIRST, 100 + 20 * first[0][0].shape[1])
        if self.inputs == ["-"]:
            self.console.say(
                f"Choosing by the first {n} samples; --sources N --method streaming"
                " answers at once"
            )
        while sum(len(block) for block, _ in first) < n and (
            block := next(blocks, None)
        ):
            first.append(block)
        X = np.concatenate([block for block, _ in first])[:n]
        # halves of them, with more samples than mixtures, are compared
        if len(X) < (least := 2 * (X.shape[1] + 1)):
            few = (
                f"{counted(len(X), 'samples')} of {counted(X.shape[1], 'mixtures')} are"
                " too few to choose a method by"
            )
            raise io.InputError(
                f"{few} ({least} at least): give more, or --sources and --method"
                " streaming"
            )
        network = self._fit(X)
        if hasattr(network, "partial_fit"):
            return network
        stream = bionica.StreamingNICA(
            len(network.components_), random_state=self.seed
        ).fit(X)
        stream.choice_ = network.choice_
        return stream

    def _saved(self, model: Path) -> Any:
        """Return the network of an earlier run, if it exists."""
        if not model.exists():
            self.console.say(f"There is no {model} yet: starting from the beginning")
            return None
        self.network = network = bionica.load(model)
        # blocks are arrays, which have no names
        vars(network).pop("feature_names_in_", None)
        name = type(network).__name__
        d = len(self.names)
        horizon = getattr(network, "horizon", None)
        method = {cls: method for method, cls in _CLASSES.items()}.get(name, name)
        if not hasattr(network, "partial_fit_transform"):
            raise io.InputError(
                f"{model} holds a {name}, which cannot learn from a stream: start again"
                " with --force"
            )
        learned = {
            "method": (self.method, method),
            "sources": (self.n_sources, d),
            "horizon": (self.horizon, horizon),
        }
        for option, (now, before) in learned.items():
            if now not in (None, AUTO, before):
                raise io.InputError(
                    f"{model} learned with --{option} {before}: omit --{option}"
                )
        self.console.note(
            f"{model} is continued: the input must begin after the last sample that was"
            " answered"
        )
        return network

    # --- results

    def _finish(self, X: Any, labels: Any, n: int, interrupted: bool = False) -> None:
        """Write the spectra and the report, and print three lines: what was done, the
        estimated errors, and problems.
        """
        network = self.network
        diagnosis = self.network.diagnosis_
        d = len(self.names)
        k = X.shape[1]
        method = type(network).__name__
        choice = getattr(network, "choice_", None)
        files = (
            []
            if self.path is None
            else [str(file) for file in io.output_files(self.path, d)]
        )
        has_started = not getattr(network, "n_samples_until_start_", 0)
        outputs = {
            name: path if has_started or name == "model" else None
            for name, path in self.outputs.items()
        }
        mixing = outputs["mixing"]
        if mixing is not None:
            spectra = np.ascontiguousarray(network.spectra_)
            form: dict[str, Any] = {
                "names": self.reader.names,
                "label_names": [""],
                "array": "spectra",
            }
            with io.open_writer(
                mixing, k, spectra.dtype, decimal=self.reader.decimal, **form
            ) as writer:
                writer.write(spectra, [np.array(self.names)])
        names = [name.replace("_", " ") for name in self.names]
        candidates = list(choice.candidates) if choice else []
        others = f" (or {', '.join(map(str, candidates))})" if candidates else ""
        done = (
            f"{counted(d, 'sources')}{others} in {counted(n, 'samples')} of"
            f" {self._mixtures(k)} by {method}"
        )
        lines = [done + (f": {choice.why}." if choice else ".")]
        halves = diagnosis and diagnosis.uncertainty_
        seconds = round(time.monotonic() - self.started, 3)
        if halves:
            least_sure = sorted(np.argsort(-halves.sources)[:_NAMED].tolist())
            errors = ", ".join(
                f"{names[i]} {halves.sources[i]:.1%}" for i in least_sure
            )
            errors += "; the others are smaller" * (d > _NAMED)
            lines.append(
                f"Estimated errors: {errors} (standard error, in percent of the"
                " standard deviation)."
            )
        findings = self._findings(names)
        unchecked = diagnosis.unchecked if diagnosis else ""
        lines.append(f"Problems: {' '.join(findings) or f'none found{unchecked}.'}")
        if outputs["report"] or outputs["figures"]:
            from bionica.mixtures.report import figure_bytes, write_separation

            numbers = np.linspace(n - len(X) + 1 if self.horizon else 1, n, len(X))
            texts: dict[str, Any] = {
                "names": names,
                "lines": [*lines, *self.console.notes],
            }
            texts |= {
                "facts": [("command", shlex.join(["bionica", *sys.argv[1:]]))],
                "numbers": numbers,
                "labels": labels,
            }
            figures = write_separation(
                outputs["report"], network, self.reader, X, **texts
            )
            folder = outputs["figures"]
            if folder:
                with complete_files([folder]) as (part,):
                    part.mkdir()
                    for (i, (name, figure)), kind in product(
                        enumerate(figures, 1), ("pdf", "svg")
                    ):
                        (part / f"{i:02}-{name}.{kind}").write_bytes(
                            figure_bytes(figure, kind)
                        )
        paths = {name: path and str(path) for name, path in outputs.items()}
        written = [
            *files,
            *(
                f"{path} ({name.replace('mixing', 'spectra')})"
                for name, path in paths.items()
                if path
            ),
        ]
        summary = {
            "input": self.inputs,
            "sources": d,
            "mixtures": k,
            "samples": n,
            "method": method,
            "choice": choice and choice.why,
            "candidates": candidates,
            "seconds": seconds,
            "tried": (
                {
                    name: [one.name for one in verdict.findings]
                    for name, verdict in choice.tried.items()
                }
                if choice
                else {}
            ),
            "ok": bool(diagnosis and diagnosis.ok),
            "uncertainty": (
                halves
                and {
                    name: getattr(halves, name).tolist()
                    for name in ("correlation", "angle", "sources")
                }
            ),
            "band": diagnosis and diagnosis.band_ and diagnosis.band_.width.tolist(),
            "diagnosis": findings,
            "notes": self.console.notes,
            "change_detected": bool(getattr(network, "change_detected_", False)),
            "interrupted": interrupted,
            "output": files,
            **paths,
        }
        self.console.result(
            [*lines, *([f"Wrote {', '.join(written)}"] if written else [])], summary
        )

    def _findings(self, names: list[str]) -> list[str]:
        """Return the gravest findings against the fit, in words."""
        if getattr(self.network, "n_samples_until_start_", 0):
            return [
                "The network has not started, and every answer was zero. More samples"
                " with --resume continue."
            ]
        if self.network.diagnosis_ is None:
            return ["One sample is too few to judge by."]
        mixtures = [self.reader.column(j) for j in range(self.network.n_features_in_)]
        # levels are named as they stand in the file
        dark = self.origin.get("offset", 0.0)
        found = [
            one._replace(
                values={**one.values, "level": one.values.get("level", 0.0) + dark}
            )
            for one in self.network.diagnosis_.findings[:3]
        ]
        sentences = [one_line(one.text(names, mixtures)) for one in found]
        return [text[:1].upper() + text[1:] for text in sentences]
