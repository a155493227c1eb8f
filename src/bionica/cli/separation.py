"""The work of `bionica separate`.

A file is learned from in passes and then read once more for its sources; a pipe is learned from and answered as it comes.
"""

import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .options import CLASSES, Method, Options
from .saying import Voice

if TYPE_CHECKING:
    from ..io import Reader

__all__ = ["Separation"]

#: Samples from which a network starts, and by which its fit is judged: so many, and no more than 32 MiB.
SAMPLE, SAMPLE_BYTES = 100_000, 2**25


@dataclass
class Separation:
    """One run of the command."""

    options: Options
    network: Any = None
    #: What `network` had seen when it began with the input: its place in the input is what it has seen since.
    zero: int = 0
    saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.voice = Voice(self.options)

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
        self.voice.tell(self.network, n, block, files)

    def _learn(self, reader: "Reader", n: int) -> None:
        epochs = self.options.epochs
        while (done := self.network.n_samples_seen_ - self.zero) < epochs * n:
            title = "Learning" if epochs == 1 else f"Learning, pass {done // n + 1} of {epochs}"
            for block in self.voice.track(reader.blocks(done % n), title, n, done % n):
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
            for block in self.voice.track(reader.blocks(), "Writing", reader.n_samples, 0):
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
        self.voice.note(f"Reading {reader.name}")
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
        self.voice.tell(self.network, spread.seen, spread.rows(), [] if path is None else [path])
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
                self.voice.note(
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
            self.voice.note(f"There is no {path} yet: starting from the beginning")
            return False
        network, progress = load(path), io.read_model(path)[0].get("progress", {})
        name, k = type(network).__name__, reader.n_features
        if name != CLASSES[o.method]:
            raise io.InputError(f"{path} holds a {name}, not the {CLASSES[o.method]} of --method {o.method}")
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

    return getattr(bionica, CLASSES[o.method])(d, random_state=o.seed)


def _warm_up(o: Options) -> None:
    """Load the compiled network before the first sample is there, so that none waits for it."""
    import numpy as np

    X = np.random.default_rng(0).exponential(size=(400, 3)).astype(o.dtype if o.columns else "float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = _network(o, 2).partial_fit(X)
        network.partial_fit_transform(X[:1])
