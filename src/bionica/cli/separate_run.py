"""The work of `bionica separate`.

A file is learned from in passes and then read once more for its sources; a pipe is learned from and answered as it comes.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .checkpoint import Saver, beginning, resumed
from .separate_messages import Voice, n_missing
from .separate_options import Method, Options
from .separate_runtime import heard, new_network, undisturbed, warm_up

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
    #: Digest of the first samples of an input that can be read again.
    begins: str | None = None
    saved: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.voice = Voice(self.options)
        self.saver = Saver(self.options.model) if self.options.model else None

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
        self.voice.notes(reader, block)
        n, k = reader.n_samples or 0, block.shape[1]
        if n < k and o.axis is None and reader.image_shape is None:
            raise io.InputError(
                f"{reader.name} has {n} samples of {k} mixtures: if it is the other way round, pass --axis 1; if not, --axis 0"
            )
        if not self._resumed(reader):
            d = self._count(block)
            if n < max(2, d):
                raise io.InputError(f"{reader.name} has {n} samples: {d} sources need {max(2, d)} at the least")
            network = new_network(o, d).fit(block)
            whole = len(block) == n  # then that was the first pass
            self.zero = network.n_samples_seen_ - (n if whole else 0)
            self.network = network
            self._save(reader)
        if o.method is not Method.batch:
            self._learn(reader, n)
            self._save(reader)
        first = self.network.transform(block[:1])
        files = self._write(reader, path, first.shape[1], first.dtype)
        self.voice.tell(self.network, reader, n, block, files)

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
            with self._sink(reader, None, dtype) as pipe, heard():
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
        start = 0
        if self._resumed(reader) and reader.repeatable:
            start = self.network.n_samples_seen_ - self.zero
        warm_up(o)
        with undisturbed():
            self._answer(reader, start, path)

    def _answer(self, reader: "Reader", start: int, path: Path | None) -> None:
        """Learn from each sample and answer it."""
        from .. import io

        self.voice.progress(f"Reading {reader.name}")
        blocks = self._begun(reader.blocks(start), reader.name)
        first = next(blocks)
        self.voice.notes(reader)
        spread, stopped = io.Spread(_sample_rows(first.shape[1])), False
        try:
            with self._sink(reader, path, first.dtype) as out, heard():
                try:
                    for block in chain([first], blocks):
                        out.write(self.network.partial_fit_transform(block))
                        spread.add(block)
                        self._save(reader, every=self.options.checkpoint)
                except KeyboardInterrupt:  # samples of a pipe come once: what was made of them is kept
                    stopped = True
                self._check_started(self.network, reader.name, stopped)
        finally:
            if spread.seen:
                self._save(reader)
        files = [] if path is None else [path]
        self.voice.notes(reader, spread.rows())
        self.voice.tell(self.network, reader, spread.seen, spread.rows(), files, interrupted=stopped)
        if stopped:
            self._interrupted(reader)

    def _check_started(self, network: Any, name: str, stopped: bool = False) -> None:
        """Refuse an input too short to start the network, unless a saved network can go on with the next one."""
        from .. import io

        missing = n_missing(network)
        if not missing or self.options.model is not None:
            return
        if stopped:
            raise KeyboardInterrupt
        seen = network.n_samples_seen_
        remedy = "leave --follow away" if self.options.follow else "save them in a file and separate that"
        raise io.InputError(
            f"{name} ended after {seen} samples, and the network starts with {seen + missing}: nothing was separated (until then "
            f"it answers zeros). Give more samples, go on later with --model FILE, or {remedy}: a file starts with fewer"
        )

    def _sink(self, reader: "Reader", path: Path | None, dtype: Any) -> Any:
        from .. import io

        if path is None:
            return io.PipeWriter(typer.get_binary_stream("stdout"), header=bool(reader.header))
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
                self.voice.progress(
                    f"Counting sources: {wanted} samples are waited for and answered together; --sources N need not wait"
                )
                while sum(map(len, held)) < wanted and (block := next(blocks, None)) is not None:
                    held.append(block)
                first = np.concatenate(held)
            self.network = new_network(self.options, self._count(first))
            if self.options.n_sources is None and len(first) < wanted:  # the end: refused before anything is answered
                self._check_started(new_network(self.options, self.network.n_components).partial_fit(first), name)
        yield first
        yield from blocks

    # ------------------------------------------------------------------------------------------ the network

    def _count(self, block: Any) -> int:
        """Return the number of sources to look for."""
        from .. import io
        from ..estimators._start import spectrum

        d, k = self.options.n_sources, block.shape[1]
        if d is None:
            return max(1, int(spectrum(block.astype(float)).n_sources))
        if d > k:
            raise io.InputError(f"--sources {d} is more than the {k} mixtures: sources can be as many at most")
        return d

    def _resumed(self, reader: "Reader") -> bool:
        """Load the network of an earlier run, if one is asked for and there is one."""
        o = self.options
        if not o.resume or o.model is None:
            return False
        if not o.model.exists():
            self.voice.progress(f"There is no {o.model} yet: starting from the beginning")
            return False
        self.network, self.zero = resumed(o.model, o, reader)
        return True

    def _save(self, reader: "Reader", every: float | None = None) -> None:
        """Save network and place in the input; with `every`, if the last time is so long ago, and a pipe does not wait for it."""
        if self.saver is None:
            return
        again = reader.repeatable and not self.options.follow
        if again and self.begins is None:
            self.begins = beginning(reader)
        progress = {
            "zero": self.zero,
            "n_samples": reader.n_samples if again else None,
            "begins": self.begins,
            "use": self.options.use,
            "skip": self.options.skip,
        }
        if every is None:
            self.saver.save(self.network, progress)
        elif time.monotonic() - self.saved < every:
            return
        elif self.options.streaming:
            self.saver.save_beside(self.network, progress)
        else:
            self.saver.save(self.network, progress)
        self.saved = time.monotonic()

    # ------------------------------------------------------------------------------------------ files

    def _open(self) -> "Reader":
        from .. import io

        o = self.options
        columns = io.Columns(o.use, o.skip)
        if not o.piped:
            return io.open_reader(o.inputs, axis=o.axis, dataset=o.dataset, columns=columns)
        stdin = typer.get_binary_stream("stdin")
        read = getattr(stdin, "read1", stdin.read)
        if o.columns:
            return io.RawPipe("standard input", read, o.columns, o.dtype, columns)
        return io.TextReader("standard input", lambda: nullcontext(read), repeatable=False, columns=columns)

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
        self.voice.last_words(message)
        raise typer.Exit(130)


def _sample_rows(k: int | None) -> int:
    return max(1000, min(SAMPLE, SAMPLE_BYTES // (8 * (k or 1))))
