"""The work of `bionica separate`.

A file is loaded and fitted, or if it is large learned from block by block, and then read once more for its sources. A pipe is
learned from and answered as it arrives.
"""

import gc
import time
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .checkpoint import InputDigest, Saver, is_complete, n_sources, resume
from .console import Console, ignore_broken_pipe
from .separate_options import AUTO, Options, check_files, open_input, output_path
from .separate_summary import in_options, note_input, samples_until_start, summarize

if TYPE_CHECKING:
    from ..io import Reader

#: A file of at most so many bytes, as float64, is loaded.
IN_MEMORY = 2**26
#: Samples by which a fit is judged: so many, and no more than 32 MiB.
SAMPLE, SAMPLE_BYTES = 100_000, 2**25


class Separation:
    """One run of the command."""

    def __init__(self, options: Options, console: Console) -> None:
        self.options, self.console = options, console
        self.started = self.saved = time.monotonic()
        self.saver = Saver(options.model) if options.model else None
        self.network: Any = None
        self.choice: str | None = None  # which of two offline methods was kept, and why
        self.zero = 0  # samples that the network had seen when it began with the input
        self.digest = InputDigest()  # of the samples learned from, where they can be read again
        self.complete = is_complete(options)

    def run(self) -> None:
        """Read, learn, write, and say what was found."""
        check_files(self.options, complete=self.complete)
        with open_input(self.options) as reader:
            try:
                if self.options.streaming:
                    self._separate_stream(reader)
                else:
                    self._separate_file(reader)
            except KeyboardInterrupt:
                self._interrupted(reader)

    def _separate_file(self, reader: "Reader") -> None:
        import numpy as np

        from .. import io

        o = self.options
        if reader.n_features is None:
            next(reader.blocks())
        X = reader.sample(max(1000, IN_MEMORY // (8 * (reader.n_features or 1))))
        sample = X[:: max(1, -(-len(X) // _sample_rows(reader.n_features)))]
        note_input(self.console, reader, sample)
        n, k = reader.n_samples or 0, sample.shape[1]
        if n < k and o.axis is None and reader.image_shape is None:
            shape = f"{n} samples of {k} mixtures"
            raise io.InputError(
                f"{reader.name} has {shape}: if it is the other way round, pass --axis 1; if not, --axis 0"
            )
        if not self._resume(reader):
            d = self._count_sources(sample)
            if o.n_sources is None and o.fixed_method in (None, "cone"):
                d = self._with_sum(sample, d)
            if n < max(2, d):
                raise io.InputError(f"{reader.name} has {n} samples: {d} sources need {max(2, d)} at the least")
            # Pixels come row by row: evenly spaced ones are a better sample of an image than a stream of all of them.
            if o.fixed_method is None and (len(X) == n or reader.image_shape is not None):
                self._fit_better(X, d)
            else:
                network = o.new_network(d)
                if len(X) == n or not hasattr(network, "partial_fit"):
                    network.fit(X)
                    if self.saver is not None:
                        self.digest.add(X)
                self.network = network
        if o.horizon is None:
            sample = sample.copy()
        else:
            sample = np.concatenate(list(reader.blocks(max(0, n - self._judged(k)))))
        del X
        if hasattr(self.network, "partial_fit") and self.choice is None:
            self._learn(reader, n)
            self._check_started(self.network, reader.name)
            self._save(reader)
        files = self._write_sources(reader, self.network.transform(sample[:1]))
        summarize(
            self.options, self.console, self.network, reader, sample, files,
            n=n, started=self.started, choice=self.choice,
        )  # fmt: skip

    def _fit_better(self, X: Any, n_sources: int) -> None:
        """Fit both offline methods and keep the better one."""
        from ..estimators._choice import fit_better

        with self.console.progress("Fitting", 2) as advance:
            chosen = fit_better(X, n_sources, self.options.seed, advance)
        self.network, self.choice = chosen.kept, in_options(str(chosen))

    def _learn(self, reader: "Reader", n: int) -> None:
        epochs = self.options.epochs
        while (done := getattr(self.network, "n_samples_seen_", 0) - self.zero) < epochs * n:
            title = "Learning" if epochs == 1 else f"Learning, pass {done // n + 1} of {epochs}"
            for block in self.console.track(reader.blocks(done % n), title, n, done % n):
                self.network.partial_fit(block)
                if self.saver is not None and done < n:
                    self.digest.add(block)
                self._save(reader, every=self.options.checkpoint)

    def _write_sources(self, reader: "Reader", first: Any) -> list[Path]:
        """Write the sources of all samples; `first` shows their number and type."""
        from .. import io

        path, d = output_path(self.options), first.shape[1]
        if path is None:
            with self._open_output(reader, None, first.dtype) as pipe, ignore_broken_pipe():
                for block in reader.blocks():
                    pipe.write(self.network.transform(block))
            return []
        files, only_same = io.output_files(path, d), self.complete and not self.options.force
        io.check_targets([io.Target("-o", file, self.options.force or self.complete) for file in files])
        with io.open_writer(path, d, first.dtype, reader.image_shape, only_same=only_same) as writer:
            for block in self.console.track(reader.blocks(), "Writing", reader.n_samples):
                writer.write(self.network.transform(block))
        return files

    def _separate_stream(self, reader: "Reader") -> None:
        """Answer each sample as it arrives, with what was learned before it."""
        from .. import io

        o, path = self.options, output_path(self.options)
        start = 0
        if self._resume(reader) and reader.repeatable:
            start = self.network.n_samples_seen_ - self.zero
        _load_compiled_loop(o)
        gc.collect()
        gc.freeze()  # scanning the loaded modules for garbage takes longer than a sample may wait
        self.console.say(f"Reading {reader.name}")
        blocks = reader.blocks(start)
        first = self._first_block(blocks, reader.name)
        note_input(self.console, reader)
        judged, stopped = self._judged(first.shape[1]), False
        sample = io.EvenSample(judged) if o.horizon is None else io.LastSample(judged)
        try:
            with self._open_output(reader, path, first.dtype) as out, ignore_broken_pipe():
                stopped = self._answer(chain([first], blocks), reader, out, sample)
                self._check_started(self.network, reader.name, stopped)
        finally:
            if sample.seen:
                self._save(reader)
        rows, files = sample.rows(), [path] if path else []
        note_input(self.console, reader, rows)
        summarize(
            o, self.console, self.network, reader, rows, files,
            n=sample.seen, started=self.started, interrupted=stopped,
        )  # fmt: skip
        if stopped:
            self._interrupted(reader)

    def _answer(self, blocks: Iterator[Any], reader: "Reader", out: Any, sample: Any) -> bool:
        """Learn from each sample and write its sources; return whether the user interrupted."""
        try:
            for block in blocks:
                out.write(self.network.partial_fit_transform(block))
                if self.saver is not None and reader.repeatable:
                    self.digest.add(block)
                sample.add(block)
                self._save(reader, every=self.options.checkpoint)
        except KeyboardInterrupt:  # the samples of a pipe come once: keep what was made of them
            return True
        return False

    def _open_output(self, reader: "Reader", path: Path | None, dtype: Any) -> Any:
        from .. import io

        if path is None:
            return nullcontext(io.PipeWriter(typer.get_binary_stream("stdout"), header=bool(reader.header)))
        return io.open_writer(path, n_sources(self.network), dtype)

    def _first_block(self, blocks: Iterator[Any], name: str) -> Any:
        """Return the first block, and make the network. Samples are buffered until the sources are counted."""
        import numpy as np

        from .. import io

        first = next(blocks, None)
        if first is None:
            raise io.InputError(f"{name} has no sample beyond those that the network has seen: it is complete")
        if self.network is not None:
            return first
        if self.options.n_sources is not None:
            self.network = self.options.new_network(self._count_sources(first))
            return first
        buffer, wanted = [first], 100 + 20 * first.shape[1]
        self.console.say(f"Counting sources in the first {wanted} samples before answering; --sources N need not wait")
        while sum(map(len, buffer)) < wanted and (block := next(blocks, None)) is not None:
            buffer.append(block)
        first = np.concatenate(buffer)
        d = self._count_sources(first)
        self.network = self.options.new_network(d)
        if len(first) < wanted:  # the end: fail now rather than after answering zeros
            self._check_started(self.options.new_network(d).partial_fit(first), name)
        return first

    def _check_started(self, network: Any, name: str, stopped: bool = False) -> None:
        """Refuse an input too short to start the network, unless a saved network can continue with the next one."""
        from .. import io

        missing = samples_until_start(network)
        if not missing or self.options.model is not None:
            return
        if stopped:
            raise KeyboardInterrupt
        seen = network.n_samples_seen_
        kind = type(network).__name__
        raise io.InputError(
            f"{name} ended after {seen} samples, and {kind} starts with {seen + missing}: nothing was separated (until then it "
            f"answers zeros). Give more samples, go on later with --model FILE, or use --method {AUTO}, which starts with fewer"
        )

    def _judged(self, k: int) -> int:
        """Return how many samples of k mixtures the fit is judged by: with --horizon the last ones, which it remembers."""
        most = _sample_rows(k)
        return most if self.options.horizon is None else min(most, max(1000, self.options.horizon))

    def _count_sources(self, block: Any) -> int:
        """Return the number of sources to look for."""
        from .. import io
        from ..estimators._start import spectrum

        d, k = self.options.n_sources, block.shape[1]
        if d is None:
            return max(1, int(spectrum(block.astype(float)).n_sources))
        if d > k:
            raise io.InputError(f"--sources {d} is more than the {k} mixtures: sources can be as many at most")
        return d

    def _with_sum(self, sample: Any, d: int) -> int:
        """Return d + 1 if that many sources sum to a constant: they vary in d directions, which is what was counted."""
        from ..estimators._diagnosis_closure import closed_sources

        closed = closed_sources(sample[:: max(1, -(-len(sample) // 1000))].astype(float), d)
        if closed > d:
            self.console.note(
                f"{closed} sources were counted: they sum to a constant, or there is a constant background, which counts as one"
            )
        return max(d, closed)

    def _resume(self, reader: "Reader") -> bool:
        """Load the network of an earlier run, if --resume asks for it and it exists."""
        o = self.options
        if not o.resume or o.model is None:
            return False
        if not o.model.exists():
            self.console.say(f"There is no {o.model} yet: starting from the beginning")
            return False
        self.network, self.zero, self.digest = resume(o.model, o, reader)
        return True

    def _save(self, reader: "Reader", every: float | None = None) -> None:
        """Save the network and its place in the input; with `every`, only if the last save is so many seconds ago."""
        if self.saver is None or (every is not None and time.monotonic() - self.saved < every):
            return
        again = reader.repeatable and not self.options.follow
        progress = {"zero": self.zero, "n_samples": reader.n_samples if again else None, **self.digest.progress()}
        progress |= {"use": self.options.use, "skip": self.options.skip}
        # The samples of a stream must not wait for the disk.
        self.saver.save(self.network, progress, in_background=every is not None and self.options.streaming)
        self.saved = time.monotonic()

    def _interrupted(self, reader: "Reader") -> None:
        o = self.options
        if self.network is None or not hasattr(self.network, "n_samples_seen_"):
            message = "Interrupted before there was a network: nothing was written"
        elif o.model is None:
            message = "Interrupted: with --model FILE the network would have been saved, to go on with --resume"
        else:
            self._save(reader)
            message = f"Interrupted: the network is in {o.model}; the same command with --resume goes on from here"
        self.console.interrupted(message)


def _sample_rows(k: int | None) -> int:
    return max(1000, min(SAMPLE, SAMPLE_BYTES // (8 * (k or 1))))


def _load_compiled_loop(o: Options) -> None:
    """Compile or load the loop of the network, so that the first sample need not wait for it.

    It may be another loop if there are more mixtures than sources; before the first sample the number of mixtures is known
    only with --columns.
    """
    import numpy as np

    X = np.random.default_rng(0).exponential(size=(400, 3)).astype(o.dtype if o.columns else "float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for d in (2, 3):
            if None in (o.columns, o.n_sources) or (o.columns == o.n_sources) == (d == X.shape[1]):
                o.new_network(d).partial_fit(X).partial_fit_transform(X[:1])
