"""`bionica separate`: the sources of a user's own mixtures.

A file is learned from in passes and then read once more for its sources; a pipe is learned from and answered as it comes.
Longer than other files because the options, which Typer reads from the signature, take a third of it.
"""

import json as jsons
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..io import Reader

#: Samples from which a network starts, and by which its fit is judged: so many, and no more than 32 MiB.
SAMPLE, SAMPLE_BYTES = 100_000, 2**25


class Method(StrEnum):
    """The networks by the names that the command line has for them."""

    two_compartment = "two-compartment"
    interneuron = "interneuron"
    nsm = "nsm"
    npca = "npca"
    batch = "batch"


class Raw(StrEnum):
    """Types of raw numbers in a pipe."""

    float64 = "float64"
    float32 = "float32"


_CLASSES = {
    Method.two_compartment: "TwoCompartmentNICA",
    Method.interneuron: "InterneuronNICA",
    Method.nsm: "TwoLayerNSM",
    Method.npca: "NonnegativePCA",
    Method.batch: "BatchNICA",
}


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    inputs: list[str]
    output: str | None
    n_sources: int | None
    method: Method
    axis: int | None
    dataset: str | None
    columns: int | None
    dtype: Raw
    epochs: int
    follow: bool
    model: Path | None
    resume: bool
    checkpoint: float
    seed: int
    report: Path | None
    force: bool
    json: bool
    quiet: bool

    @property
    def piped(self) -> bool:
        """Whether the mixtures come from standard input."""
        return self.inputs == ["-"]

    @property
    def streaming(self) -> bool:
        """Whether sources leave as mixtures come."""
        return self.piped or self.follow

    @property
    def to_pipe(self) -> bool:
        """Whether the sources go to standard output."""
        return self.output == "-" or (self.streaming and self.output is None)


def _sources(value: str) -> int | None:
    """Return the number of sources, None for "auto"."""
    if value == "auto":
        return None
    if not value.isdecimal() or int(value) < 1:
        raise typer.BadParameter(f"{value!r} is neither a number of sources (1 or more) nor auto")
    return int(value)


def separate(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...",
            help="Mixtures: .npy .npz .csv .tsv .parquet .h5 .zarr, a TIFF of several pages, several images of one shape, "
            "or - for standard input (CSV, or raw numbers with --columns).",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="File for the sources; its suffix says the format. - is standard output.",
        ),
    ] = None,
    sources: Annotated[
        str, typer.Option(metavar="N|auto", help="Number of sources; auto counts those above the noise.")
    ] = "auto",
    method: Annotated[
        Method, typer.Option(help="The network; batch is the offline method, on 100,000 samples at most.")
    ] = Method.two_compartment,
    axis: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="Axis of the matrix that holds the samples: 0 (rows) or 1 (columns)."),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="Array to read in an .npz, .h5 or .zarr of several.")] = None,
    columns: Annotated[
        int | None, typer.Option(min=1, help="Standard input is raw numbers, so many to a sample.")
    ] = None,
    dtype: Annotated[Raw, typer.Option(help="Type of the raw numbers.")] = Raw.float64,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the input.")] = 1,
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
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Find the nonnegative sources of mixtures in files or from a pipe, in bounded memory.

    A file is learned from in one pass or more, starting from the offline solution on at most 100,000 of its samples.
    A pipe is answered as it comes: each sample with what was learned before it.
    The network starts with the first 100 + 20 N samples of a pipe; for these it answers zeros.

    For example:

    bionica separate mixtures.npy --sources 3

    bionica separate spectra.csv -o sources.parquet --epochs 2 --report page.html

    bionica separate mixed-1.png mixed-2.png mixed-3.png -o recovered.png

    bionica separate huge.npy --model huge.bionica      (after an interruption: the same with --resume)

    instrument | bionica separate - --sources 3 | logger

    Exit status: 0 done, 1 bad data, parameters or files, 2 wrong usage, 130 interrupted (--model is saved then).
    """
    options = Options(
        inputs=inputs, output=output, n_sources=_sources(sources), method=method, axis=axis, dataset=dataset,
        columns=columns, dtype=dtype, epochs=epochs, follow=follow, model=model, resume=resume, checkpoint=checkpoint,
        seed=seed, report=report, force=force, json=json, quiet=quiet,
    )  # fmt: skip
    _check_usage(options)
    with _one_line_errors(options):
        Separation(options).run()


def _check_usage(o: Options) -> None:
    """Refuse options that contradict each other."""
    wrong = {
        "- stands alone: give one standard input, or files": "-" in o.inputs and not o.piped,
        "--columns is for raw numbers from standard input: give - as INPUT": bool(o.columns) and not o.piped,
        "--axis 1 needs a file: every line of a pipe is a sample": o.piped and o.axis == 1,
        "--epochs needs a file: a pipe passes once": o.streaming and o.epochs > 1,
        "--follow writes lines to standard output: leave -o away": o.follow and o.output not in (None, "-"),
        "--resume goes on from a saved network: say which with --model": o.resume and o.model is None,
        "--method batch does not learn online: choose another for a pipe or --follow": o.streaming
        and o.method == "batch",
        "--method batch has no network to save: leave --model away": o.model is not None and o.method == "batch",
    }
    for message, applies in wrong.items():
        if applies:
            raise typer.BadParameter(message)


@dataclass
class Separation:
    """One run of the command."""

    options: Options
    network: Any = None
    #: What `network` had seen when it began with the input: its place in the input is what it has seen since.
    zero: int = 0
    started: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Read, learn, write, and say what was found."""
        with self._open() as reader:
            try:
                if self.options.streaming:
                    self._stream(reader)
                else:
                    self._file(reader)
            except KeyboardInterrupt:
                self._interrupted(reader)

    # ------------------------------------------------------------------------------------------ a file

    def _file(self, reader: "Reader") -> None:
        from .. import io

        o, path = self.options, self._output()
        self._check_files()
        if path is not None:
            if any(Path(name).resolve() == path.resolve() for name in o.inputs):
                raise io.OutputError(f"--output {path} is also the input, which would be lost: give another file")
            io.check_output(path, force=o.force, n_sources=o.n_sources or 1, image_shape=reader.image_shape)
        if reader.n_features is None:
            next(reader.blocks())
        block = reader.sample(_sample_rows(reader.n_features))
        n, k = reader.n_samples or 0, block.shape[1]
        if n < k and o.axis is None and reader.image_shape is None:
            raise io.InputError(
                f"{reader.name} has {n} samples of {k} mixtures: if it is the other way round, pass --axis 1; if not, --axis 0"
            )
        if not self._resumed(reader):
            d = self._count(block)
            if n < max(2, d):
                raise io.InputError(f"{reader.name} has {n} samples: {d} sources need {max(2, d)} at the least")
            network = _network(o, d).fit(block)
            whole = len(block) == n  # then that was the first pass
            self.zero = network.n_samples_seen_ - (n if whole else 0)
            self.network = network
            self._save(reader)
        if o.method is not Method.batch:
            self._learn(reader, n)
            self._save(reader)
        first = self.network.transform(block[:1])
        files = self._write(reader, path, first.shape[1], first.dtype)
        self._tell(reader, block, files)

    def _learn(self, reader: "Reader", n: int) -> None:
        epochs = self.options.epochs
        while (done := self.network.n_samples_seen_ - self.zero) < epochs * n:
            title = "Learning" if epochs == 1 else f"Learning, pass {done // n + 1} of {epochs}"
            for block in self._track(reader.blocks(done % n), title, n, done % n):
                self.network.partial_fit(block)
                self._save(reader, every=self.options.checkpoint)

    def _write(self, reader: "Reader", path: Path | None, d: int, dtype: Any) -> list[Path]:
        from .. import io

        if path is None:
            with self._sink(reader, None, dtype) as pipe, _heard():
                for block in reader.blocks():
                    pipe.write(self.network.transform(block))
            return []
        io.check_output(path, force=self.options.force, n_sources=d, image_shape=reader.image_shape)
        with io.open_writer(path, d, dtype, reader.image_shape) as writer:
            for block in self._track(reader.blocks(), "Writing", reader.n_samples, 0):
                writer.write(self.network.transform(block))
        return io.output_files(path, d, reader.image_shape)

    # ------------------------------------------------------------------------------------------ a pipe

    def _stream(self, reader: "Reader") -> None:
        from .. import io

        o, path = self.options, self._output()
        self._check_files()
        if path is not None:
            io.check_output(path, force=o.force, n_sources=o.n_sources or 1)
        _warm_up(o)
        start = 0
        if self._resumed(reader) and reader.repeatable:
            start = self.network.n_samples_seen_ - self.zero
        self._note(f"Reading {reader.name}")
        blocks = self._begun(reader.blocks(start), reader.name)
        first = next(blocks)
        spread, stopped = io.Spread(_sample_rows(first.shape[1])), False
        try:
            with self._sink(reader, path, first.dtype) as out, _heard():
                try:
                    for block in chain([first], blocks):
                        out.write(self.network.partial_fit_transform(block))
                        spread.add(block)
                        self._save(reader, every=o.checkpoint)
                except KeyboardInterrupt:  # samples of a pipe come once: what was made of them is kept
                    stopped = True
        finally:
            if spread.seen:
                self._save(reader)
        reader.n_samples = spread.seen
        self._tell(reader, spread.rows(), [] if path is None else [path])
        if stopped:
            self._interrupted(reader)

    def _sink(self, reader: "Reader", path: Path | None, dtype: Any) -> Any:
        from .. import io

        if path is None:
            return io.PipeWriter(typer.get_binary_stream("stdout"), header=bool(getattr(reader, "header", None)))
        return io.open_writer(path, self.network.n_components, dtype)

    def _begun(self, blocks: Iterator[Any], name: str) -> Iterator[Any]:
        """Yield the blocks; when the first comes there is a network. While sources are counted, samples are held back."""
        import numpy as np

        from .. import io

        first = next(blocks, None)
        if first is None:
            raise io.InputError(f"{name} has no sample beyond those that the network has seen: it is complete")
        k = first.shape[1]
        if self.network is None:
            if self.options.n_sources is None:
                held, wanted = [first], 100 + 20 * k
                self._note(
                    f"Counting sources: {wanted} samples are waited for and answered together; --sources N need not wait"
                )
                while sum(map(len, held)) < wanted and (block := next(blocks, None)) is not None:
                    held.append(block)
                first = np.concatenate(held)
            self.network = _network(self.options, self._count(first))
        yield first
        yield from blocks

    # ------------------------------------------------------------------------------------------ the network

    def _count(self, block: Any) -> int:
        """Return the number of sources to look for."""
        from .. import io
        from ..estimators.start import spectrum

        d, k = self.options.n_sources, block.shape[1]
        if d is None:
            return max(1, int(spectrum(block.astype(float)).n_sources))
        if d > k:
            raise io.InputError(f"--sources {d} is more than the {k} mixtures: sources can be as many at most")
        return d

    def _resumed(self, reader: "Reader") -> bool:
        """Load the network of an earlier run, if one is asked for and there is one."""
        from .. import io, load

        o, path = self.options, self.options.model
        if not o.resume or path is None:
            return False
        if not path.exists():
            self._note(f"There is no {path} yet: starting from the beginning")
            return False
        network, progress = load(path), io.read_model(path)[0].get("progress", {})
        name, k = type(network).__name__, reader.n_features
        if name != _CLASSES[o.method]:
            raise io.InputError(f"{path} holds a {name}, not the {_CLASSES[o.method]} of --method {o.method}")
        if o.n_sources not in (None, network.n_components):
            raise io.InputError(f"{path} has {network.n_components} sources: leave --sources {o.n_sources} away")
        if k is not None and k != network.n_features_in_:
            raise io.InputError(f"{reader.name} has {k} mixtures; {path} learned from {network.n_features_in_}")
        before = progress.get("n_samples")
        if reader.repeatable and not o.follow and before not in (None, reader.n_samples):
            raise io.InputError(
                f"{reader.name} has {reader.n_samples} samples; {path} stopped in an input of {before}: give that one, or start "
                "anew with --force instead of --resume"
            )
        self.network, self.zero = network, int(progress.get("zero", network.n_samples_seen_))
        return True

    def _save(self, reader: "Reader", every: float = 0.0) -> None:
        """Save network and place in the input, in one file and at once, if the last time is long enough ago."""
        from .. import io

        path = self.options.model
        if path is None or (every and time.monotonic() - self.saved < every):
            return
        n_samples = reader.n_samples if reader.repeatable and not self.options.follow else None
        with tempfile.TemporaryDirectory() as folder:
            self.network.save(Path(folder, "model"))
            header, arrays = io.read_model(Path(folder, "model"))
        io.write_model(path, header | {"progress": {"zero": self.zero, "n_samples": n_samples}}, arrays)
        self.saved = time.monotonic()

    # ------------------------------------------------------------------------------------------ files

    def _open(self) -> "Reader":
        from .. import io

        o = self.options
        if not o.piped:
            return io.open_reader(o.inputs, axis=o.axis, dataset=o.dataset)
        stdin = typer.get_binary_stream("stdin")
        read = getattr(stdin, "read1", stdin.read)
        if o.columns:
            return io.RawPipe("standard input", read, o.columns, o.dtype)
        return io.TextReader("standard input", lambda: nullcontext(read), repeatable=False)

    def _output(self) -> Path | None:
        """Return the file for the sources, None for standard output."""
        o = self.options
        if o.to_pipe:
            return None
        if o.output is not None:
            return Path(o.output)
        first = Path(o.inputs[0])
        suffix = ".png" if first.suffix.lower() in (".jpg", ".jpeg") else first.suffix
        return first.with_name(f"{'' if len(o.inputs) > 1 else f'{first.stem}-'}sources{suffix}")

    def _check_files(self) -> None:
        from ..io.writers import check_file

        o = self.options
        if o.report is not None:
            check_file(o.report, "--report", force=o.force)
        if o.model is not None:
            remedy = "go on with --resume, or replace it with --force"
            check_file(o.model, "--model", force=o.force or o.resume, remedy=remedy)

    # ------------------------------------------------------------------------------------------ what it says

    def _note(self, message: str) -> None:
        if not self.options.quiet:
            typer.echo(message, err=True)

    def _track(self, blocks: Iterator[Any], title: str, total: int | None, done: int) -> Iterator[Any]:
        """Yield the blocks; on a terminal, show how far they are and when they end."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn(),
        )  # fmt: skip
        off = self.options.quiet or not console.is_terminal
        with Progress(*columns, console=console, transient=True, disable=off) as progress:
            task = progress.add_task(title, total=total, completed=done)
            for block in blocks:
                yield block
                progress.advance(task, len(block))

    def _tell(self, reader: "Reader", block: Any, files: list[Path]) -> None:
        o = self.options
        found = self.network.diagnose(block) if len(block) > 1 else None
        k, d = block.shape[1], len(self.network.components_)
        n, seconds = reader.n_samples or 0, time.monotonic() - self.started
        sentences = found.sentences if found else ["one sample is too few to judge by."]
        summary = {
            "sources": d,
            "mixtures": k,
            "samples": n,
            "method": type(self.network).__name__,
            "seconds": round(seconds, 3),
            "ok": bool(found and found.ok),
            "diagnosis": sentences,
            "negativity": found and found.negativity,
            "output": [str(file) for file in files],
            "model": o.model and str(o.model),
            "report": o.report and str(o.report),
        }
        if o.report is not None:
            from ..io.page import write_page

            write_page(o.report, summary, found, self.network.transform(block[:: max(1, len(block) // 500)]))
        if o.json:
            typer.echo(jsons.dumps(summary), err=o.to_pipe)
        elif not o.quiet:
            written = [f"{o.model} (network)"] * bool(o.model) + [f"{o.report} (report)"] * bool(o.report)
            lines = [
                f"{d} {'source' if d == 1 else 'sources'} in {n:,} samples of {k} mixtures ({summary['method']}, {seconds:.1f} s).",
                *(sentence[0].upper() + sentence[1:] for sentence in sentences),
                *([f"Wrote {', '.join([*map(str, files), *written])}"] if files or written else []),
            ]
            typer.echo("\n".join(lines), err=o.to_pipe)

    def _interrupted(self, reader: "Reader") -> None:
        o = self.options
        if self.network is None or not hasattr(self.network, "n_samples_seen_"):
            message = "Interrupted before there was a network: nothing was written"
        elif o.model is None:
            message = "Interrupted: with --model FILE the network would have been saved, to go on with --resume"
        else:
            self._save(reader)
            message = f"Interrupted: the network is in {o.model}; the same command with --resume goes on from here"
        typer.echo(message, err=True)
        raise typer.Exit(130)


def _sample_rows(k: int | None) -> int:
    return max(1000, min(SAMPLE, SAMPLE_BYTES // (8 * (k or 1))))


@contextmanager
def _heard() -> Iterator[None]:
    """End quietly where nobody listens any more, as in `| head`."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _network(o: Options, d: int) -> Any:
    import bionica

    return getattr(bionica, _CLASSES[o.method])(d, random_state=o.seed)


def _warm_up(o: Options) -> None:
    """Load the compiled network before the first sample is there, so that none waits for it."""
    import numpy as np

    X = np.random.default_rng(0).exponential(size=(400, 3)).astype(o.dtype if o.columns else "float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = _network(o, 2).partial_fit(X)
        network.partial_fit_transform(X[:1])


@contextmanager
def _one_line_errors(o: Options) -> Iterator[None]:
    """End with a sentence, not with a traceback; a request to terminate is an interruption."""
    from ..estimators.errors import DivergenceError
    from ..io.source import FULL

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        if not o.quiet:
            typer.echo(f"Note: {' '.join(str(message).split())}", err=True)

    def terminate(message: str) -> typer.Exit:
        typer.echo(f"Error: {' '.join(message.split())}", err=True)
        return typer.Exit(1)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread
        before = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = note
            yield
    except KeyboardInterrupt:
        typer.echo("Interrupted: nothing was written", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        if error.errno in FULL:
            raise terminate(
                f"the disk is full ({error.strerror}): free some space; no partial output was left"
            ) from None
        raise terminate(f"{error.filename or 'a file'}: {error.strerror or error}") from None
    except MemoryError:
        raise terminate("out of memory: has the input very many mixtures (--axis), or very many --sources?") from None
    except (ValueError, DivergenceError) as error:
        raise terminate(str(error)) from None
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
