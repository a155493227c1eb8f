"""`bionica separate` of a pipe, or of a file with --follow: each sample is answered with what was learned before it."""

import gc
import warnings
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from .console import deferred_interrupts, ignore_broken_pipe
from .separate_count import count_sources
from .separate_options import Options, output_path
from .separate_run import Separation, blocks_from, sample_rows
from .separate_summary import note_input

if TYPE_CHECKING:
    from ..io import Reader

_COUNTED = 1000  # samples of a pipe in which sources are counted, at least


class StreamSeparation(Separation):
    """One run on a stream."""

    def _separate(self, reader: "Reader") -> None:
        from .. import io

        o, path = self.options, output_path(self.options)
        start = 0
        if self._resume(reader):
            if reader.repeatable:
                start = self.network.n_samples_seen_ - self.zero
            else:
                self.console.note(f"{o.model} has seen {self._seen()}: {reader.name} has to begin with the next one")
        _load_compiled_loop(o)
        gc.collect()
        gc.freeze()  # scanning the loaded modules for garbage takes longer than a sample may wait
        self.console.say(f"Reading {reader.name}")
        blocks = blocks_from(reader, start)
        first = self._first_block(blocks, reader.name)
        note_input(self.console, reader)
        horizon, stopped = getattr(self.network, "horizon", None), False
        judged = sample_rows(first.shape[1], horizon)
        sample = io.EvenSample(judged) if horizon is None else io.LastSample(judged)
        try:
            with self._open_output(reader, path, first.dtype) as out, ignore_broken_pipe():
                stopped = self._answer(chain([first], blocks), reader, out, sample)
                self._check_started(self.network, reader.name, stopped)
        finally:
            if sample.seen:
                self._save(reader)
        rows, files = sample.rows(), [path] if path else []
        note_input(self.console, reader, rows)
        self._finish(reader, rows, files, sample.seen, interrupted=stopped)
        if stopped:
            self._interrupted(reader)

    def _answer(self, blocks: Iterator[Any], reader: "Reader", out: Any, sample: Any) -> bool:
        """Learn from each sample and write its sources; return whether the user interrupted."""
        try:
            for block in blocks:
                with deferred_interrupts():  # every sample that the network learns from is answered
                    out.write(self.network.partial_fit_transform(block))
                    if self.saver is not None and reader.repeatable:
                        self.digest.add(block)
                    sample.add(block)
                self._save(reader, every=self.options.checkpoint)
        except KeyboardInterrupt:  # the samples of a pipe come once: keep what was made of them
            return True
        return False

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
            self.network = self.options.new_network(count_sources(self.options, first))
            return first
        buffer, wanted = [first], max(_COUNTED, 100 + 20 * first.shape[1])
        self.console.say(f"Counting sources in the first {wanted} samples before answering; --sources N need not wait")
        while sum(map(len, buffer)) < wanted and (block := next(blocks, None)) is not None:
            buffer.append(block)
        first = np.concatenate(buffer)
        d = count_sources(self.options, first[:wanted])  # however much the pipe has delivered
        self.network = self.options.new_network(d)
        if len(first) < wanted:  # the end: fail now rather than after answering zeros
            self._check_started(self.options.new_network(d).partial_fit(first), name)
        return first


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
