"""Save a network and its place in the input while it learns, and resume from there."""

import hashlib
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from .separate_options import AUTO, METHODS, Options

if TYPE_CHECKING:
    from ..io import Reader


class Saver:
    """Saves a network with its progress to `path`, in one file that is always complete.

    A thread writes, so that Ctrl-C does not come in the middle of it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._changed = Condition()
        self._next: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._writing = False
        self._error: BaseException | None = None
        Thread(target=self._write, daemon=True).start()

    def save(self, network: Any, progress: dict[str, Any], *, in_background: bool = False) -> None:
        """Save the network as it is now. In the background, a later save replaces one that has not begun."""
        from ..estimators._model_file import contents

        header, arrays = contents(network)
        with self._changed:
            self._next = header | {"progress": progress}, arrays
            self._changed.notify_all()
            if not in_background:
                self._changed.wait_for(self._is_idle)
            error, self._error = self._error, None
        if error is not None:  # of this save, or of one before it
            raise error

    def _is_idle(self) -> bool:
        return self._next is None and not self._writing

    def _write(self) -> None:
        """Write what comes, for ever."""
        from .. import io

        while True:
            with self._changed:
                while self._next is None:
                    self._changed.wait()
                (header, arrays), self._next, self._writing = self._next, None, True
            try:
                io.write_model(self.path, header, arrays)
            except BaseException as error:
                self._error = error
            with self._changed:
                self._writing = False
                self._changed.notify_all()


class InputDigest:
    """A digest of the samples that a network has learned from, in their order, to know the same input again."""

    def __init__(self) -> None:
        self._state = (hashlib.sha256(), 0)

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return self._state[1]

    def add(self, block: Any) -> None:
        """Add the next samples."""
        digest, n = self._state
        digest = digest.copy()
        digest.update(block.data)
        self._state = digest, n + len(block)  # at once: Ctrl-C may come between any two statements

    def progress(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it."""
        digest, n = self._state
        return {"digest": digest.hexdigest(), "digested": n}

    def read(self, reader: "Reader", n_samples: int, progress: dict[str, Any]) -> bool:
        """Add the first samples of an input; return whether those that a checkpoint knows are the same."""
        known = progress.get("digested") or 0
        for stop in (known, n_samples):
            for block in reader.blocks(self.n_samples) if stop > self.n_samples else ():
                self.add(block[: stop - self.n_samples])
                if self.n_samples == stop:
                    break
            if stop == known > 0 and self.progress() != {key: progress.get(key) for key in ("digest", "digested")}:
                return False
        return True


def is_complete(o: Options) -> bool:
    """Whether --resume goes on from a network that has learned all there is, so that only its files may be missing."""
    if not o.resume or o.model is None or not o.model.is_file():
        return False
    from .. import io, load

    try:
        network, progress = load(o.model), io.read_model(o.model)[0]["progress"]
        return bool(network.n_samples_seen_ - progress["zero"] >= o.epochs * progress["n_samples"])
    except (ValueError, KeyError, TypeError, AttributeError):  # `resume` says what is wrong with it
        return False


def n_sources(network: Any) -> int:
    """Return the number of outputs, also of a network that still waits for its first samples."""
    given = network.n_components
    return given if isinstance(given, int) else int(network.n_components_)


def resume(path: Path, o: Options, reader: "Reader") -> tuple[Any, int, InputDigest]:
    """Load the network of an earlier run.

    Also returned are the number of samples that it had seen before it began with the input, and the digest of those it has seen
    of it.
    """
    from .. import io, load

    network, progress = load(path), io.read_model(path)[0].get("progress", {})
    numbers = [progress.get(key) for key in ("zero", "n_samples", "digested")] if isinstance(progress, dict) else ["?"]
    if not all(number is None or isinstance(number, int) for number in numbers):
        raise io.InputError(
            f"{path} does not say how far its run came: start from the beginning with --force instead of --resume"
        )
    name, k = type(network).__name__, reader.n_features
    if o.method != AUTO and name != METHODS[o.method]:
        raise io.InputError(f"{path} holds a {name}, not the {METHODS[o.method]} of --method {o.method}")
    if name not in METHODS.values() or not hasattr(network, "partial_fit_transform"):
        raise io.InputError(
            f"{path} holds a {name}, which cannot go on learning: start from the beginning with --force"
        )
    if o.n_sources not in (None, n_sources(network)):
        raise io.InputError(f"{path} has {n_sources(network)} sources: omit --sources {o.n_sources}")
    if o.horizon not in (None, getattr(network, "horizon", None)):
        before = getattr(network, "horizon", None)
        learned = f"--horizon {before}" if before else "no --horizon"
        raise io.InputError(f"{path} learned with {learned}: omit --horizon {o.horizon}")
    if k is not None and k != network.n_features_in_:
        raise io.InputError(f"{reader.name} has {k} mixtures; {path} learned from {network.n_features_in_}")
    for option in ("use", "skip"):
        now, before = getattr(o, option), progress.get(option)
        if now != before and progress:
            words = [f"--{option} {value}" if value else f"no --{option}" for value in (before, now)]
            raise io.InputError(f"{path} learned with {words[0]}: give the same now, not {words[1]}")
    zero, digest = progress.get("zero"), InputDigest()
    zero = network.n_samples_seen_ if zero is None else zero
    n_samples = progress.get("n_samples")
    if n_samples is None and not progress.get("digested"):
        zero = network.n_samples_seen_  # it has learned from a pipe: this input is another one
    if reader.repeatable:
        if not o.follow and n_samples not in (None, reader.n_samples):
            raise io.InputError(
                f"{reader.name} has {reader.n_samples} samples; {path} stopped in an input of {n_samples}: give that "
                "one, or start from the beginning with --force instead of --resume"
            )
        seen = network.n_samples_seen_ - zero
        if not digest.read(reader, seen if o.follow else min(seen, reader.n_samples or 0), progress):
            raise io.InputError(
                f"{reader.name} is not the input that {path} stopped in, or it was changed: give that one, or start from the "
                "beginning with --force instead of --resume. "
                f"To continue with other data, pipe them: cat MORE.csv | bionica separate - --model {path} --resume"
            )
    return network, zero, digest
