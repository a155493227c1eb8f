"""Save a network and its place in the input while it learns, and resume from there."""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .separate_options import AUTO, METHODS, Options

if TYPE_CHECKING:
    from ..io import Reader


class Saver:
    """Saves a network with its progress to `path`, in one file that is always complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pool = ThreadPoolExecutor(1)
        self._saves: list[Future[None]] = []

    def save(self, network: Any, progress: dict[str, Any], *, in_background: bool = False) -> None:
        """Save the network as it is now. In the background, a later save replaces one that has not begun."""
        from .. import io
        from ..estimators._persistence import contents

        self._saves = [save for save in self._saves if not save.cancel()]
        header, arrays = contents(network)
        self._saves.append(self._pool.submit(io.write_model, self.path, header | {"progress": progress}, arrays))
        while self._saves and (self._saves[0].done() or not in_background):
            self._saves.pop(0).result()  # raises if it failed


def input_digest(reader: "Reader") -> str | None:
    """Return a digest of the first samples, to tell one input from another of the same length."""
    for block in reader.blocks():
        return hashlib.sha256(block[:100].tobytes()).hexdigest()
    return None


def resume(path: Path, o: Options, reader: "Reader") -> tuple[Any, int]:
    """Load the network of an earlier run, and the number of samples that it had seen before it began with the input."""
    from .. import io, load

    network, progress = load(path), io.read_model(path)[0].get("progress", {})
    numbers = [progress.get(key) for key in ("zero", "n_samples")] if isinstance(progress, dict) else ["?"]
    if not all(number is None or isinstance(number, int) for number in numbers):
        raise io.InputError(
            f"{path} does not say how far its run came: start from the beginning with --force instead of --resume"
        )
    name, k = type(network).__name__, reader.n_features
    if o.method != AUTO and name != METHODS[o.method]:
        raise io.InputError(f"{path} holds a {name}, not the {METHODS[o.method]} of --method {o.method}")
    if o.n_sources not in (None, network.n_components):
        raise io.InputError(f"{path} has {network.n_components} sources: omit --sources {o.n_sources}")
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
    if reader.repeatable and not o.follow:
        n_samples = progress.get("n_samples")
        if n_samples not in (None, reader.n_samples):
            raise io.InputError(
                f"{reader.name} has {reader.n_samples} samples; {path} stopped in an input of {n_samples}: give that "
                "one, or start from the beginning with --force instead of --resume"
            )
        if progress.get("begins") not in (None, input_digest(reader)):
            raise io.InputError(
                f"{reader.name} is not the input that {path} stopped in: give that one, or start from the beginning with --force. "
                f"To continue with other data, pipe them: cat MORE.csv | bionica separate - --model {path} --resume"
            )
    return network, int(progress.get("zero", network.n_samples_seen_))
