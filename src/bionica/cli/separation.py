"""`separate`: a file or a stream is fitted, transformed and judged.

A file is fitted by `bionica.separate`, if it is large on evenly spread samples of
32 MiB (--method streaming learns from all of it), and then transformed block by block.
A pipe, and a file with --horizon, is a stream: each sample is answered with what was
learned before it.

Model and sources of a stream agree after a kill: a file of sources and the model appear
together, when the input ends. If sources go to standard output, the model is saved
every 30 seconds, each time after the samples that it has learned from were answered.
"""

import re
import shlex
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import typer

import bionica
from bionica import io
from bionica.cli.console import (
    FORCE,
    JSON,
    QUIET,
    Console,
    StandardInput,
    command,
    counted,
    ignore_broken_pipe,
    one_line,
)
from bionica.cli.mixtures import (
    ReadingOptions,
    default_output,
    differing_channel,
    energies,
    share_of,
)
from bionica.core.files import complete_files
from bionica.mixtures.methods import METHODS

#: Bytes of float64 that are fitted, in about 8 times the memory, and by which a stream
#: is judged at its end.
IN_MEMORY = 2**25
#: Samples of a pipe in which the method is chosen and sources are counted, at least.
FIRST = 1000
#: Seconds between saves of the model while sources go to standard output.
SAVE_EVERY = 30.0
#: Sources whose uncertainty is printed: the least sure ones.
_NAMED = 8
_NUMBERED = re.compile(r"source_(\d{1,9})")
_NOISE = re.compile(r"estimate|poisson|\d*\.?\d+([eE][-+]?\d+)?")
_COUNT = re.compile(r"auto|0*[1-9]\d{0,8}", re.ASCII)

Method = StrEnum("Method", ["auto", *METHODS])  # type: ignore[misc]
Scale = StrEnum("Scale", ["variance", "mean", "sum"])
_AUTO = Method("auto")

_Model = partial(typer.Option, rich_help_panel="The model")
_Stream = partial(typer.Option, rich_help_panel="Pipes, and mixing that changes")

_INPUT_HELP = (
    "Mixtures: .csv .tsv .xlsx .npy .npz .parquet .h5 .mat .zarr, images, instruments, "
    "or - (a pipe)."
)
_METHOD_HELP = (
    "auto: cone (sources may be correlated), or batch (uncorrelated) if X has both "
    "signs and it is better.\nstreaming: one pass,\nfor uncorrelated sources."
)


@dataclass
class Separate(ReadingOptions):
    """Find the nonnegative sources of mixtures, and how each of them enters the
    mixtures: its spectrum.

    \b
    bionica separate spectra.csv --sources 3 --mixing pure.csv --report page.html
    bionica separate red.png green.png blue.png -o recovered.png
    instrument | bionica separate - --sources 3 | logger

    Three lines say what was done, how large the error of each source is, and
    which problems were found.
    """  # noqa: D301

    inputs: list[str] = typer.Argument(metavar="INPUT", help=_INPUT_HELP)
    output: str | None = typer.Option(
        None,
        "--output",
        "-o",
        metavar="FILE",
        help="File for the sources [INPUT-sources.csv].",
    )
    sources: str = typer.Option("auto", metavar="N|auto", help="Number of sources.")
    mixing: Path | None = typer.Option(
        None, metavar="FILE", help="File for the spectra, a row each."
    )
    report: Path | None = typer.Option(
        None, metavar="FILE", help="Page of pictures: page.html."
    )
    figures: Path | None = typer.Option(
        None, metavar="FOLDER", help="Its figures as .pdf and .svg."
    )
    method: Method = _Model(_AUTO, metavar="NAME", help=_METHOD_HELP)
    known: Path | None = _Model(
        None, metavar="FILE", help="Known spectra, in the form of --mixing."
    )
    signed_mixing: bool = _Model(
        False, "--signed-mixing", help="Spectra may be negative."
    )
    noise: str = _Model(
        "estimate",
        metavar="LEVEL|poisson",
        help="Noise: poisson for counts [estimated].",
    )
    normalize: Scale = _Model(
        Scale.variance, help="Scale; sum: their sum is near one (least squares)."
    )
    seed: int = _Model(
        0, min=0, max=2**32 - 1, metavar="N", help="Same seed, same bits."
    )
    horizon: int | None = _Stream(
        None, min=2, metavar="N", help="Remember about N samples; default: all."
    )
    model: Path | None = _Stream(
        None, metavar="FILE", help="File for the fitted estimator (bionica.load)."
    )
    resume: bool = _Stream(False, "--resume", help="Continue a pipe from --model.")
    force: bool = FORCE
    json: bool = JSON
    quiet: bool = QUIET

    def run(self) -> None:
        """Open the input, fit it, answer it and say what was found."""
        self.started = time.monotonic()
        self.from_pipe = self.inputs == ["-"]
        self.check_options()
        self.n_sources = None if self.sources == "auto" else int(self.sources)
        self.path = self.sources_path()
        self.targets = {
            "model": self.model,
            "mixing": self.mixing,
            "report": self.report,
            "figures": self.figures,
        }
        self.known_names: list[str] = []  # of the first sources
        self.stop: BaseException | None = None  # what ended a pipe
        self.is_complete = False  # unless the reader of standard output leaves
        self.console = Console(
            json=self.json, quiet=self.quiet, data_on_stdout=self.path is None
        )
        with self.console.session(interrupted="Interrupted: nothing was written"):
            self.check_files()
            self.fitted_with = self.origin()  # what `apply` must know
            with self.open_input() as self.reader:
                if self.from_pipe or self.horizon:
                    self.separate_stream()
                else:
                    self.separate_file()

    # --- before anything is read

    def check_options(self) -> None:
        """Raise if options are wrong, or contradict each other."""
        asks_for_cone = (
            self.known is not None
            or self.signed_mixing
            or self.normalize != "variance"
            or self.noise != "estimate"
        )
        wrong = ""
        if not _COUNT.fullmatch(self.sources):
            wrong = (
                f"--sources {self.sources[:40]!r} is neither a number of sources (1 or "
                "more) nor auto"
            )
        elif "-" in self.inputs and not self.from_pipe:
            wrong = "give either - (standard input) or files"
        elif self.from_pipe and self.axis == 1:
            wrong = "--axis 1 needs a file: every line of a pipe is a sample"
        elif self.resume and not (self.from_pipe and self.model):
            wrong = "--resume continues a pipe: give - as INPUT, and --model"
        elif self.method == "batch" and (self.from_pipe or self.horizon):
            wrong = "--method batch does not learn sample by sample: choose another"
        elif not _NOISE.fullmatch(self.noise):
            wrong = (
                f"--noise {self.noise[:40]!r} is neither poisson nor a standard "
                "deviation"
            )
        elif asks_for_cone and self.method not in ("auto", "cone"):
            wrong = (
                "--known, --signed-mixing, --noise and --normalize need --method cone"
            )
        if wrong:
            raise typer.BadParameter(wrong)
        if asks_for_cone:
            self.method = Method("cone")

    def sources_path(self) -> Path | None:
        """Return the file for the sources, or None for standard output."""
        if self.output == "-" or (self.from_pipe and self.output is None):
            return None
        if self.output is not None:
            return Path(self.output)
        stem = "sources" if len(self.inputs) > 1 else None
        return default_output(Path(self.inputs[0]), stem)

    def check_files(self) -> None:
        """Raise if an output cannot be written, or is an input or another output."""
        inputs = [Path("/dev/stdin")]
        if not self.from_pipe:
            inputs = io.check_inputs(self.inputs)
        if self.known is not None:
            inputs += io.check_inputs([self.known])
        is_closed = self.from_pipe and sys.stdin is None
        if is_closed or (self.path is None and sys.stdout is None):
            raise io.InputError(
                "standard input or output is closed: give files, the INPUT and -o"
            )
        report = self.report
        if report is not None and report.suffix.lower() not in (".html", ".htm"):
            raise io.OutputError(
                f"--report {report}: the report is a page of HTML; give it the suffix "
                ".html"
            )
        if report is not None or self.figures is not None:
            io.import_optional("matplotlib", "--report", "plot")
        if self.mixing is not None:
            io.check_format(self.mixing, "--mixing")
        replaced = {"model": self.force or self.resume, "figures": False}
        targets = [
            io.Target(f"--{name}", target, replaced.get(name, self.force))
            for name, target in self.targets.items()
            if target is not None
        ]
        if self.path is None:
            inputs.append(Path("/dev/stdout"))
        else:
            suffixes = {Path(name).suffix.lower() for name in self.inputs}
            io.check_format(self.path, images=suffixes <= set(io.PIXELS))
            files = io.output_files(self.path, self.n_sources)
            targets += [io.Target("-o", file, self.force) for file in files]
        io.check_targets(targets, inputs)

    def open_input(self) -> Any:
        """Return the reader of the input."""
        if self.from_pipe:
            self.stdin = StandardInput(typer.get_binary_stream("stdin"))
            return io.open_pipe(self.stdin, self.for_reader(self.fitted_with, False))
        missing = not self.horizon and self.method != "streaming"
        return io.open_reader(self.inputs, self.for_reader(self.fitted_with, missing))

    # --- a file

    def separate_file(self) -> None:
        """Fit the input, or evenly spread samples of a large one, and transform it."""
        reader, console = self.reader, self.console
        X, labels, blocks = reader.sample_and_blocks(sample_size(reader))
        n = self.n = reader.n_samples
        self.dtype = X.dtype
        console.note_input(reader)
        self.check_size()
        is_streamed = len(X) < n and self.method == "streaming"
        if len(X) < n and not is_streamed:
            console.note(
                f"{len(X):,} evenly spread samples of {n:,} are fitted (32 MiB)"
            )
        if reader.n_missing:
            share = reader.n_missing / (n * reader.n_features)
            console.note(
                f"{reader.n_missing:,} cells ({share:.2g} of all) are missing: they "
                "are estimated by the fit"
            )
        network = self.network = self.stream(X) if is_streamed else self.fit(X)
        energy = energies(X, network.transform(X), network.mixing_).sum(axis=1)
        self.fitted_with["unexplained"] = share_of(energy)
        self.fitted_with["residual"] = float(energy[0]) / X.size
        self.save_model()
        with console.progress("Writing", n) as advance:
            self.answer(network.transform, blocks, lambda block: advance(len(block)))
        if self.is_complete:
            self.finish(X, labels)

    def check_size(self) -> None:
        """Raise if a file may be transposed, or is too small."""
        reader, n = self.reader, self.n
        k = reader.n_features
        size = f"{reader.name} has {counted(n, 'samples')} of {self.mixtures()}"
        is_known = (  # the file says that rows are samples
            self.axis is not None
            or reader.image_shape is not None
            or reader.wavelengths is not None
            or any(map(io.ROW_NAMES.fullmatch, reader.label_names))
        )
        if n < k and not is_known:
            raise io.InputError(
                f"{size}: if its columns are the samples, pass --axis 1; if not, "
                "--axis 0"
            )
        if min(n, k) < 2:
            raise io.InputError(
                f"{size}: sources are found by comparing several samples and mixtures"
            )

    def mixtures(self) -> str:
        """Return the number of mixtures and what they are, in words."""
        noun = "mixtures" if self.reader.wavelengths is None else "wavelengths"
        return counted(self.reader.n_features, noun)

    def fit(self, X: Any) -> Any:
        """Count the sources, choose the method, fit and judge."""
        known = None if self.known is None else self.known_spectra(self.known)
        is_level = self.noise not in ("estimate", "poisson")
        return bionica.separate(
            X,
            self.n_sources or "auto",
            method=self.method,
            random_state=self.seed,
            horizon=self.horizon,
            known_mixing=known,
            nonnegative_mixing=False if self.signed_mixing else "auto",
            normalize=self.normalize,
            noise=float(self.noise) if is_level else self.noise,
        )

    def stream(self, X: Any) -> Any:
        """Learn from a large file block by block; X is a sample of it."""
        from bionica.mixtures.cone.count import rough_cones
        from bionica.mixtures.verdict.count import count_sources

        d = self.n_sources or count_sources(X, rough_cones).n_sources
        network = bionica.StreamingNICA(d, random_state=self.seed)
        with self.console.progress("Learning", self.n) as advance:
            for block in self.reader.blocks():
                network.partial_fit(block)
                advance(len(block))
        network.diagnosis_ = network.diagnose(X)
        return network

    def known_spectra(self, path: Path) -> Any:
        """Return the spectra of --known, a column each, and keep their names.

        A row for each spectrum, or a column. If the input has wavelengths, so must a
        table of spectra.
        """
        here, _ = io.wavelengths_in(self.reader.names, any_order=True)
        k = self.reader.n_features
        header = None
        if here is not None and path.suffix.lower() in (*io.TEXT, ".xlsx"):
            header = True
        decimal = self.decimal and self.decimal.value
        for axis in (0, 1):
            form = io.ReadOptions(axis=axis, header=header, decimal=decimal)
            with io.open_reader(path, form) as reader:
                spectra, labels = reader.sample(2**20)
            if reader.n_features == k:
                break
        else:
            raise io.InputError(
                f"--known {path} holds {spectra.shape[1]} x {len(spectra)} values, the "
                f"input has {k} mixtures: interpolate its spectra, or --skip mixtures"
            )
        there, _ = io.wavelengths_in(reader.names, any_order=True)
        if header and there is None:
            raise io.InputError(
                f"--known {path} has no line of wavelengths, as the input has: add it"
            )
        if here is not None and there is not None:
            # in the order of the input
            order = np.argsort(there)[np.argsort(np.argsort(here))]
            spectra = spectra[:, order]
            wrong = differing_channel(there[order], here, reader.unit, self.reader.unit)
            if wrong:
                raise io.InputError(
                    f"--known {path}: {wrong}: interpolate its spectra to the "
                    "wavelengths of the input"
                )
        self.known_names = [str(name) for name in labels[0]] if labels else []
        return spectra.T

    # --- a stream

    def separate_stream(self) -> None:
        """Answer each sample with what was learned before it: of a pipe, or a file."""
        blocks = self.start_stream()
        rows = IN_MEMORY // (8 * self.reader.n_features)
        most = max(FIRST, min(self.horizon or rows, rows))
        sample = io.RowSample(most)
        recent = deque[Any](maxlen=most if self.horizon else 0)
        if self.from_pipe:
            self.stdin.defer_interrupts()

        def remember(block: Any) -> None:
            sample.add(block)
            recent.extend(block)

        self.answer(self.network.partial_fit_transform, blocks, remember)
        if self.n:  # no sample that the model has learned from is lost
            self.save_model()
        if not self.is_complete:
            return
        if self.n == 1:
            self.console.note("one sample is too few to judge by")
        else:
            X = np.array(recent) if self.horizon else sample.sample()[0]
            self.network.diagnosis_ = self.network.diagnose(X)
            self.finish(X, ())
        if isinstance(self.stop, io.InputError):
            raise self.stop
        if self.stop and self.json:  # the object says so
            raise typer.Exit(130)
        if self.stop:
            remedy = "--model FILE would save what was learned"
            if self.model:
                remedy = f"continue from {self.model} with --resume"
            raise KeyboardInterrupt(f"Interrupted: {remedy}")

    def start_stream(self) -> Iterator[Any]:
        """Start the network, and return the blocks that it answers."""
        reader = self.reader
        resumed = None
        if self.resume and self.model:
            resumed = self.saved_network(self.model)
        self.console.say(f"Reading {reader.name}")
        blocks = reader.labelled_blocks()
        first = [next(blocks)]
        self.dtype = first[0][0].dtype
        self.console.note_input(reader)
        if resumed is None:
            self.network = self.new_network(first, blocks)
            return chain(first, blocks)
        self.network = resumed
        if reader.n_features != resumed.n_features_in_:
            raise io.InputError(
                f"{self.model} learned from {resumed.n_features_in_} mixtures, "
                f"and {reader.name} has {reader.n_features}: choose the same ones with "
                "--use, or start again without --resume"
            )
        return chain(first, blocks)

    def saved_network(self, model: Path) -> Any:
        """Return the network of an earlier run, if it exists."""
        if not model.exists():
            self.console.say(f"There is no {model} yet: starting from the beginning")
            return None
        network = bionica.load(model)
        vars(network).pop("feature_names_in_", None)  # blocks are arrays without names
        name = type(network).__name__
        methods = {"StreamingNICA": "streaming", "MinimumVolumeCone": "cone"}
        if name not in methods:
            raise io.InputError(
                f"{model} holds a {name}, which cannot learn from a stream: start "
                "again with --force"
            )
        for option, now, before in (
            ("method", self.method, methods[name]),
            ("sources", self.n_sources, number_of_sources(network)),
            ("horizon", self.horizon, network.horizon),
        ):
            if now not in (None, "auto", before):
                raise io.InputError(
                    f"{model} learned with --{option} {before}: omit --{option}"
                )
        self.console.note(
            f"{model} is continued: the input must begin after the last sample that "
            "was answered"
        )
        return network

    def new_network(self, first: list[Any], blocks: Iterator[Any]) -> Any:
        """Return an estimator that can learn on, of the method that suits the first
        samples.

        Blocks that this takes are added to `first`. The estimator has learned from
        them, and learns from them once more, so that its first answers are good.
        """
        d, k = self.n_sources, self.reader.n_features
        form: dict[str, Any] = {"random_state": self.seed, "horizon": self.horizon}
        if self.from_pipe and d and self.method == "streaming":
            return bionica.StreamingNICA(d, **form)
        n = max(FIRST, 100 + 20 * k)
        if self.from_pipe:
            self.console.say(
                f"Choosing by the first {n} samples; --sources N --method streaming "
                "answers at once"
            )
        n_read = len(first[0][0])
        while n_read < n and (block := next(blocks, None)):
            first.append(block)
            n_read += len(block[0])
        X = np.concatenate([block for block, _ in first])[:n]
        least = 2 * (k + 1)  # halves, with more samples than mixtures, are compared
        if len(X) < least:
            raise io.InputError(
                f"{counted(len(X), 'samples')} of {counted(k, 'mixtures')} are too few "
                f"to choose a method by ({least} at least): give more, or --sources "
                "and --method streaming"
            )
        network = self.fit(X)
        if hasattr(network, "partial_fit"):
            return network
        d = len(network.components_)
        stream = bionica.StreamingNICA(d, **form).fit(X)
        stream.choice_ = network.choice_
        return stream

    # --- the results

    def answer(
        self, transform: Any, blocks: Iterable[Any], answered: Callable[[Any], Any]
    ) -> None:
        """Write the sources of each block as it arrives, and the labels beside it.

        Calls `answered` with each block after it was written.
        """
        saved = self.started
        self.n = 0
        with ignore_broken_pipe(), self.open_output() as writer:
            try:
                for block, labels in blocks:
                    writer.write(transform(block), labels)
                    answered(block)
                    self.n += len(block)
                    if self.path is None and time.monotonic() - saved > SAVE_EVERY:
                        self.save_model()
                        saved = time.monotonic()
            except (KeyboardInterrupt, io.InputError) as error:
                if not self.from_pipe:
                    raise
                self.stop = error  # samples come once: keep what was made of them
            self.is_complete = True

    def names(self) -> list[str]:
        """Return the names of the sources, known ones first."""
        d, known = number_of_sources(self.network), self.known_names
        # A known source_1 is of another fit, and may be another one than ours.
        numbers = [int(match[1]) for match in map(_NUMBERED.fullmatch, known) if match]
        last = max(d, *numbers) if numbers else len(known)
        new = [f"source_{last + i}" for i in range(1, d - len(known) + 1)]
        return [*known, *new][:d]

    def save_model(self) -> None:
        """Write --model, with names, by which `apply` compares and writes files."""
        if self.model is None:
            return
        network = self.network
        network.source_names_ = self.names()
        network.origin_ = self.fitted_with
        if self.reader.header:
            network.feature_names_in_ = np.array(self.reader.names, dtype=object)
        network.save(self.model)
        vars(network).pop("feature_names_in_", None)  # blocks are arrays without names

    def open_output(self) -> Any:
        """Open the output of the sources."""
        reader, path, names = self.reader, self.path, self.names()
        if path is None:
            header = [*reader.label_names, *names] if reader.header else None
            stream = typer.get_binary_stream("stdout")
            return nullcontext(io.TextWriter(stream, header, reader.decimal))
        if path.suffix.lower() in io.IMAGES and reader.image_shape is None:
            io.check_format(path)
        return io.open_writer(
            path, len(names), self.dtype, names=names, **reader.layout
        )

    def finish(self, X: Any, labels: Any) -> None:
        """Write the spectra and the report of samples, and print the result.

        Three lines: what was done, the estimated errors, and problems.
        """
        names = self.names()
        files = []
        if self.path is not None:
            files = [str(file) for file in io.output_files(self.path, len(names))]
        if self.mixing is not None:
            self.write_spectra(self.mixing, names)
        spoken = [name.replace("_", " ") for name in names]
        found = self.problems(spoken)
        lines = self.lines(spoken, found)
        if self.report is not None or self.figures is not None:
            self.write_pages(X, labels, spoken, lines)
        written = {
            name: None if path is None else str(path)
            for name, path in self.targets.items()
        }
        listed = [*files]
        for name, path in written.items():
            if path:
                listed.append(f"{path} ({'spectra' if name == 'mixing' else name})")
        if listed:
            lines.append(f"Wrote {', '.join(listed)}")
        data = self.summary(found) | {"interrupted": self.stop is not None}
        self.console.result(lines, {**data, "output": files, **written})

    def write_spectra(self, path: Path, names: list[str]) -> None:
        """Write --mixing."""
        spectra = np.ascontiguousarray(self.network.spectra_)
        form = {"label_names": [""], "array": "spectra", "decimal": self.reader.decimal}
        with io.open_writer(
            path, spectra.shape[1], spectra.dtype, names=self.reader.names, **form
        ) as writer:
            writer.write(spectra, [np.array(names)])

    def write_pages(
        self, X: Any, labels: Any, names: list[str], lines: list[str]
    ) -> None:
        """Write --report and --figures."""
        from bionica.core.page import figure_bytes
        from bionica.mixtures.report import write_separation

        first = self.n - len(X) + 1 if self.horizon else 1
        figures = write_separation(
            self.report,
            self.network,
            self.reader,
            X,
            numbers=np.linspace(first, self.n, len(X)),
            labels=labels,
            names=names,
            lines=[*lines, *self.console.notes],
            facts=[("command", shlex.join(["bionica", *sys.argv[1:]]))],
        )
        if self.figures is None:
            return
        with complete_files([self.figures]) as (part,):
            part.mkdir()
            for i, (name, figure) in enumerate(figures, 1):
                for kind in ("pdf", "svg"):
                    file = part / f"{i:02}-{name}.{kind}"
                    file.write_bytes(figure_bytes(figure, kind))

    def problems(self, names: list[str]) -> list[str]:
        """Return the gravest findings against the fit, in words."""
        mixtures = [self.reader.column(j) for j in range(self.reader.n_features)]
        dark = self.offset or 0.0  # levels are named as they stand in the file
        sentences = []
        for finding in self.network.diagnosis_.findings[:3]:
            level = finding.values.get("level", 0.0) + dark
            finding = finding._replace(values={**finding.values, "level": level})
            sentence = one_line(finding.text(names, mixtures))
            sentences.append(sentence[:1].upper() + sentence[1:])
        return sentences

    def lines(self, names: list[str], found: list[str]) -> list[str]:
        """Return what was done, the errors of the sources, and problems, in words."""
        network, diagnosis = self.network, self.network.diagnosis_
        done = counted(len(names), "sources")
        choice = getattr(network, "choice_", None)
        if choice and choice.candidates:
            done += f" (or {', '.join(map(str, choice.candidates))})"
        done += f" in {counted(self.n, 'samples')} of {self.mixtures()}"
        done += f" by {type(network).__name__}"
        lines = [f"{done}: {choice.why}." if choice else f"{done}."]
        if diagnosis.uncertainty_:
            error = diagnosis.uncertainty_.sources
            least_sure = sorted(np.argsort(-error)[:_NAMED].tolist())
            errors = ", ".join(f"{names[i]} {error[i]:.1%}" for i in least_sure)
            if len(names) > _NAMED:
                errors += "; the others are smaller"
            lines.append(
                f"Estimated errors: {errors} (standard error, in percent of the "
                "standard deviation)."
            )
        none = f"none found{diagnosis.unchecked}."
        return [*lines, f"Problems: {' '.join(found) or none}"]

    def summary(self, found: list[str]) -> dict[str, Any]:
        """Return the result as data, but for what was written."""
        network, diagnosis = self.network, self.network.diagnosis_
        choice = getattr(network, "choice_", None)
        tried = choice.tried if choice else {}
        halves, band = diagnosis.uncertainty_, diagnosis.band_
        names = ("correlation", "angle", "sources")
        return {
            "input": self.inputs,
            "sources": len(network.components_),
            "mixtures": self.reader.n_features,
            "samples": self.n,
            "method": type(network).__name__,
            "choice": choice.why if choice else None,
            "candidates": choice.candidates if choice else [],
            "seconds": round(time.monotonic() - self.started, 3),
            "tried": {
                name: [finding.name for finding in verdict.findings]
                for name, verdict in tried.items()
            },
            "ok": diagnosis.ok,
            "uncertainty": halves and {name: getattr(halves, name) for name in names},
            "band": band and band.width,
            "diagnosis": found,
            "notes": self.console.notes,
            "change_detected": getattr(network, "change_detected_", False),
        }


def number_of_sources(network: Any) -> int:
    """Return it also of a network that has not learned yet."""
    return getattr(network, "n_components_", network.n_components)


def sample_size(reader: Any) -> int:
    """Return how many samples of a file are fitted, or looked at."""
    return max(FIRST, IN_MEMORY // (8 * int(reader.n_features)))


separate = command(Separate)
