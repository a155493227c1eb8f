"""`bionica separate` of files: they are loaded and fitted, or if large learned from block by block, and then read once more.

With a horizon the mixing may change, and each sample needs the weights of its time. The network then learns from the first samples
before it begins, so that the first answers are good too. To write the sources, the same network is made again from the input and
answers each sample as it learns from it: a run that was interrupted and resumed so writes the same bytes as one that was not.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import ignore_broken_pipe
from .separate_count import count_sources, with_sum
from .separate_options import AUTO, output_path
from .separate_run import Separation, blocks_from, sample_rows
from .separate_sentences import in_options, samples_until_start
from .separate_summary import note_input

if TYPE_CHECKING:
    from ..io import Reader

#: A file of at most so many bytes, as float64, is loaded.
IN_MEMORY = 2**26


class FileSeparation(Separation):
    """One run on files."""

    def _separate(self, reader: "Reader") -> None:
        import numpy as np

        from .. import io

        o = self.options
        if reader.n_features is None:
            next(reader.blocks())
        X = reader.sample(max(1000, IN_MEMORY // (8 * (reader.n_features or 1)))).X
        sample = X[:: max(1, -(-len(X) // sample_rows(reader.n_features)))]
        note_input(self.console, reader, sample)
        n, k = reader.n_samples or 0, sample.shape[1]
        if n < k and o.axis is None and reader.image_shape is None and reader.wavelengths is None:
            shape = f"{n} samples of {k} mixtures"
            raise io.InputError(
                f"{reader.name} has {shape}: if it is the other way round, pass --axis 1; if not, --axis 0"
            )
        if not self._resume(reader):
            self._begin(reader, X, sample)
        if self._horizon is None:
            sample = sample.copy()
        else:
            sample = np.concatenate(list(blocks_from(reader, max(0, n - sample_rows(k, self._horizon)))))
        del X
        if hasattr(self.network, "partial_fit") and self.choice is None:
            self._learn(reader, n)
            self._check_started(self.network, reader.name)
            self._save(reader)
        files = self._write_sources(reader, self.network.transform(sample[:1]))
        self._finish(reader, sample, files, n)

    @property
    def _horizon(self) -> int | None:
        """How many samples the network remembers, if not all."""
        return getattr(self.network, "horizon", None)

    def _begin(self, reader: "Reader", X: Any, sample: Any) -> None:
        """Count the sources and make the network. It is fitted if X is all of the input, or if it cannot learn on."""
        from .. import io

        o, n = self.options, reader.n_samples or 0
        d = count_sources(o, sample)
        if o.n_sources is None and o.fixed_method in (None, "cone"):
            d = with_sum(self.console, sample, d)
        if n < max(2, d):
            raise io.InputError(f"{reader.name} has {n} samples: {d} sources need {max(2, d)} at the least")
        # Pixels come row by row: evenly spaced ones are a better sample of an image than a stream of all of them.
        offline = len(X) == n or reader.image_shape is not None
        if o.fixed_method is None and offline:
            self._fit_better(X, d)
            return
        if o.method == AUTO and offline:
            self._note_streaming()
        network = o.new_network(d)
        if o.horizon is not None:
            self._learn_first(network, reader)
            self.zero = network.n_samples_seen_
        elif len(X) == n or not hasattr(network, "partial_fit"):
            network.fit(X)
            if self.saver is not None:
                self.digest.add(X)
        self.network = network

    def _note_streaming(self) -> None:
        """Say which option keeps the offline methods from an input that they could separate."""
        o = self.options
        given = {"--model": o.model is not None, "--epochs": o.epochs > 1, "--horizon": o.horizon is not None}
        options = " and ".join(option for option, is_given in given.items() if is_given)
        one = "" if " and " in options else "s"
        self.console.note(
            f"{options} need{one} a method that learns sample by sample: StreamingNICA is used. Without {options} the better of "
            "BatchNICA and MinimumVolumeCone is fitted to all samples at once; --method chooses another"
        )

    def _fit_better(self, X: Any, n_sources: int) -> None:
        """Fit both offline methods and keep the better one."""
        from ..estimators._choice import fit_better

        with self.console.progress("Fitting", 2) as advance:
            chosen = fit_better(X, n_sources, self.options.seed, advance)
        self.network, self.choice = chosen.kept, in_options(str(chosen))

    def _learn_first(self, network: Any, reader: "Reader") -> None:
        """Learn from as many samples as the horizon has, or as the network starts with if these are more."""
        wanted = network.horizon
        for block in reader.blocks():
            while wanted and len(block):
                first, block = block[:wanted], block[wanted:]
                network.partial_fit(first)
                wanted = max(wanted - len(first), samples_until_start(network))
            if not wanted:
                return

    def _learn(self, reader: "Reader", n: int) -> None:
        epochs = self.options.epochs
        while (done := getattr(self.network, "n_samples_seen_", 0) - self.zero) < epochs * n:
            title = "Learning" if epochs == 1 else f"Learning, pass {done // n + 1} of {epochs}"
            for block in self.console.track(blocks_from(reader, done % n), title, n, done % n):
                self.network.partial_fit(block)
                if self.saver is not None and done < n:
                    self.digest.add(block)
                self._save(reader, every=self.options.checkpoint)

    def _answers(self, reader: "Reader") -> Iterator[Any]:
        """Yield the sources of all samples: with a horizon, each as it is when the sample arrives."""
        if self._horizon is None:
            yield from map(self.network.transform, reader.blocks())
            return
        from sklearn.base import clone

        network = clone(self.network)
        self._learn_first(network, reader)
        for block in chain.from_iterable(reader.blocks() for _ in repeat(None, self.options.epochs - 1)):
            network.partial_fit(block)
        yield from map(network.partial_fit_transform, reader.blocks())
        self.network = network  # the one whose outputs were written

    def _write_sources(self, reader: "Reader", first: Any) -> list[Path]:
        """Write the sources of all samples; `first` shows their number and type."""
        from .. import io

        path, d = output_path(self.options), first.shape[1]
        if path is None:
            with self._open_output(reader, None, first.dtype) as pipe, ignore_broken_pipe():
                for block in self._answers(reader):
                    pipe.write(block)
            return []
        files = io.output_files(path, d)
        io.check_targets([io.Target("-o", file, self.options.force or self.complete) for file in files])
        with io.open_writer(
            path, d, first.dtype, reader.image_shape, decimal=self.options.decimal
        ) as writer:
            for block in self.console.track(self._answers(reader), "Writing", reader.n_samples):
                writer.write(block)
        return files
