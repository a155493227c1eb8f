"""A trained network to its file (at once, or beside the work where nobody may wait for the disk) and back."""

import hashlib
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

from .separate_options import CLASSES, Options

if TYPE_CHECKING:
    from ..io import Reader

__all__ = ["Saver", "beginning", "resumed"]

Contents = tuple[dict[str, Any], dict[str, Any]]


class Saver:
    """Saves a network and its place in the input, in one file that is always complete.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = Lock()
        self._thread: Thread | None = None
        self._next: Contents | None = None
        self._error: BaseException | None = None

    def save(self, network: Any, progress: dict[str, Any]) -> None:
        """Save now, after what is on its way."""
        contents = self._contents(network, progress)
        with self._lock:
            self._next = None  # older than this
            thread = self._thread
        if thread is not None:
            thread.join()
        self._raise()
        self._write(*contents)

    def save_beside(self, network: Any, progress: dict[str, Any]) -> None:
        """Save the network as it is now while it goes on learning; while one save is under way, the latest waits for it."""
        self._raise()
        contents = self._contents(network, progress)
        with self._lock:
            self._next = contents
            if self._thread is None:
                self._thread = Thread(target=self._work)
                self._thread.start()

    def _work(self) -> None:
        while True:
            with self._lock:
                contents, self._next = self._next, None
                if contents is None or self._error is not None:
                    self._thread = None
                    return
            try:
                self._write(*contents)
            except OSError as error:  # a full disk, a folder that is gone: told at the next save
                self._error = error

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    @staticmethod
    def _contents(network: Any, progress: dict[str, Any]) -> Contents:
        from ..estimators._persistence import contents

        header, arrays = contents(network)
        return header | {"progress": progress}, arrays

    def _write(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        from .. import io

        io.write_model(self.path, header, arrays)


def beginning(reader: "Reader") -> str | None:
    """Return a digest of the first samples of an input that can be read again: what tells it from another as long."""
    for block in reader.blocks():
        return hashlib.sha256(block[:100].tobytes()).hexdigest()
    return None


def resumed(path: Path, o: Options, reader: "Reader") -> tuple[Any, int]:
    """Load the network of an earlier run and what it had seen before the input; refuse one that does not belong here."""
    from .. import io, load

    network, progress = load(path), io.read_model(path)[0].get("progress", {})
    numbers = [progress.get(key) for key in ("zero", "n_samples")] if isinstance(progress, dict) else ["?"]
    if not all(number is None or isinstance(number, int) for number in numbers):
        raise io.InputError(f"{path} does not say how far its run came: start anew with --force instead of --resume")
    name, k = type(network).__name__, reader.n_features
    if name != CLASSES[o.method]:
        raise io.InputError(f"{path} holds a {name}, not the {CLASSES[o.method]} of --method {o.method}")
    if o.n_sources not in (None, network.n_components):
        raise io.InputError(f"{path} has {network.n_components} sources: leave --sources {o.n_sources} away")
    if k is not None and k != network.n_features_in_:
        raise io.InputError(f"{reader.name} has {k} mixtures; {path} learned from {network.n_features_in_}")
    for option in ("use", "skip"):
        asked, was = getattr(o, option), progress.get(option)
        if asked != was and progress:
            raise io.InputError(
                f"{path} learned with {_said(option, was)}: give the same now, not {_said(option, asked)}"
            )
    before = progress.get("n_samples")
    if reader.repeatable and not o.follow and before not in (None, reader.n_samples):
        raise io.InputError(
            f"{reader.name} has {reader.n_samples} samples; {path} stopped in an input of {before}: give that one, or start "
            "anew with --force instead of --resume"
        )
    if reader.repeatable and not o.follow and progress.get("begins") not in (None, beginning(reader)):
        raise io.InputError(
            f"{reader.name} is not the input that {path} stopped in: give that one, or start anew with --force. "
            f"To learn on from other data, pipe them: cat MORE.csv | bionica separate - --model {path} --resume"
        )
    return network, int(progress.get("zero", network.n_samples_seen_))


def _said(option: str, value: str | None) -> str:
    return f"--{option} {value}" if value else f"no --{option}"
