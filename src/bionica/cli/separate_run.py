"""What the two ways of `bionica separate` share: the network, how it is saved and resumed, and how a run ends.

`FileSeparation` reads its input as often as it needs, `StreamSeparation` answers each sample as it arrives.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .checkpoint import InputDigest, Saver, is_complete, n_sources, resume
from .console import Console
from .errors import fail
from .separate_mixing import write_mixing
from .separate_options import AUTO, Options, check_files, open_input
from .separate_sentences import counted, rephrase, samples_until_start
from .separate_summary import summarize

if TYPE_CHECKING:
    from ..io import Reader

#: Samples by which a fit is judged: so many, and no more than 32 MiB.
SAMPLE, SAMPLE_BYTES = 100_000, 2**25


class Separation(ABC):
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
            from ..estimators import DivergenceError  # slow to import: not before the input is known to exist

            try:
                self._separate(reader)
            except KeyboardInterrupt:
                self._interrupted(reader)
            except DivergenceError as error:
                fail(rephrase(str(error)))

    @abstractmethod
    def _separate(self, reader: "Reader") -> None:
        """Do all of it with an open input."""

    def _open_output(self, reader: "Reader", path: Path | None, dtype: Any) -> Any:
        from .. import io

        if path is None:
            return nullcontext(io.PipeWriter(typer.get_binary_stream("stdout"), header=bool(reader.header)))
        return io.open_writer(path, n_sources(self.network), dtype, decimal=self.options.decimal)

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

    def _finish(self, reader: "Reader", sample: Any, files: list[Path], n: int, interrupted: bool = False) -> None:
        """Write the spectra, judge the fit by some samples, and say what was found."""
        if self.options.mixing is not None:
            write_mixing(self.options, self.console, self.network, reader)
        summarize(
            self.options, self.console, self.network, reader, sample, files,
            n=n, started=self.started, interrupted=interrupted, choice=self.choice,
        )  # fmt: skip

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

    def _seen(self) -> str:
        """How many samples the network has seen."""
        return counted(int(self.network.n_samples_seen_), "samples")

    def _interrupted(self, reader: "Reader") -> None:
        o = self.options
        if self.network is None or not hasattr(self.network, "n_samples_seen_"):
            message = "Interrupted before there was a network: nothing was written"
        elif o.model is None:
            message = "Interrupted: with --model FILE the network would have been saved, to go on with --resume"
        else:
            self._save(reader)
            more = "the same command with --resume goes on from here"
            if not reader.repeatable:
                more += f", with an input that begins behind the {self._seen()} that it has seen"
            message = f"Interrupted: the network is in {o.model}; {more}"
        self.console.interrupted(message)


def blocks_from(reader: "Reader", start: int) -> Iterator[Any]:
    """Yield the samples from index `start` on."""
    for block in reader.blocks():
        if start < len(block):
            yield block[start:]
        start = max(0, start - len(block))


def sample_rows(k: int | None, horizon: int | None = None) -> int:
    """Return how many samples of k mixtures the fit is judged by; with a horizon, the number of last ones, which it remembers."""
    most = max(1000, min(SAMPLE, SAMPLE_BYTES // (8 * (k or 1))))
    return most if horizon is None else min(most, max(1000, horizon))
