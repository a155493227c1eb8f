"""How long commands behave: SIGTERM ends them as Ctrl-C does, and warnings are told in their own words."""

import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def polite(tell: Callable[[str], object]) -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM, and hand the text of warnings to `tell`."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        tell(str(message))

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread
        before = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = note
            yield
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)
