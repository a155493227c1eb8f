"""Save a network and its place in the input while it learns, and resume from there."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .separate_options import METHODS, Options

if TYPE_CHECKING:
    from ..io import Reader

__all__ = ["Saver", "input_digest", "resume"]


class Saver:
    """Saves a network with its progress to `path`, in one file that is always complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(1)
        self._saves: list[Future[None]] = []

    def save(self, network: Any, progress: dict[str, Any]) -> None:
        """Save now."""
        self.save_in_background(network, progress)
        while self._saves:
            self._saves.pop(0).result()

    def save_in_background(self, network: Any, progress: dict[str, Any]) -> None:
        """Save the network as it is now, while it goes on learning. A later save replaces one that has not begun."""
        from .. import io
        from ..estimators._persistence import contents

        for save in [save for save in self._saves if save.done()]:
            self._saves.remove(save)
            save.result()  # raises if it failed
        self._saves = [save for save in self._saves if not save.cancel()]
        header, arrays = contents(network)
        self._saves.append(self._pool.submit(io.write_model, self.path, header | {"progress": progress}, arrays))


def input_digest(reader: "Reader") -> str | None:
    """Return a digest of the first samples, to tell one input from another of the same length."""
    for block in reader.blocks():
        return hashlib.sha256(block[:100].tobytes()).hexdigest()
    return None


def resume(path: Path, o: Options, reader: "Reader") -> tuple[Any, int]:
    """Load the network of an earlier run, and the number of samples that it had seen before it began with the input.

    Raises InputError if the network does not belong to the input or to the options.
    """
    from .. import io, load

    network, progress = load(path), io.read_model(path)[0].get("progress", {})
    numbers = [progress.get(key) for key in ("zero", "n_samples")] if isinstance(progress, dict) else ["?"]
    if not all(number is None or isinstance(number, int) for number in numbers):
        raise io.InputError(f"{path} does not say how far its run came: start anew with --force instead of --resume")
    name, k = type(network).__name__, reader.n_features
    if name != METHODS[o.method]:
        raise io.InputError(f"{path} holds a {name}, not the {METHODS[o.method]} of --method {o.method}")
    if o.n_sources not in (None, network.n_components):
        raise io.InputError(f"{path} has {network.n_components} sources: omit --sources {o.n_sources}")
    if k is not None and k != network.n_features_in_:
        raise io.InputError(f"{reader.name} has {k} mixtures; {path} learned from {network.n_features_in_}")
    for option in ("use", "skip"):
        now, before = getattr(o, option), progress.get(option)
        if now != before and progress:
            raise io.InputError(
                f"{path} learned with {_in_words(option, before)}: give the same now, not {_in_words(option, now)}"
            )
    if reader.repeatable and not o.follow:
        n_samples = progress.get("n_samples")
        if n_samples not in (None, reader.n_samples):
            raise io.InputError(
                f"{reader.name} has {reader.n_samples} samples; {path} stopped in an input of {n_samples}: give that "
                "one, or start anew with --force instead of --resume"
            )
        if progress.get("begins") not in (None, input_digest(reader)):
            raise io.InputError(
                f"{reader.name} is not the input that {path} stopped in: give that one, or start anew with --force. "
                f"To continue with other data, pipe them: cat MORE.csv | bionica separate - --model {path} --resume"
            )
    return network, int(progress.get("zero", network.n_samples_seen_))


def _in_words(option: str, value: str | None) -> str:
    return f"--{option} {value}" if value else f"no --{option}"
