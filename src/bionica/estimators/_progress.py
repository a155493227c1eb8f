"""The progress bar of `fit` and `partial_fit`."""

from collections.abc import Iterable
from typing import Any


def tracked(blocks: Iterable[Any], estimator: Any, total: int) -> Iterable[Any]:
    """Return the blocks, with a progress bar on standard error if the estimator is verbose."""
    if not estimator.verbose:
        return blocks
    from rich.console import Console
    from rich.progress import track

    return track(blocks, type(estimator).__name__, total=total, console=Console(stderr=True))
