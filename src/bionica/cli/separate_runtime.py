"""What a run of `bionica separate` needs around the work: a network that is warm, a pipe that may close, no pauses."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .separate_options import CLASSES, Options

__all__ = ["heard", "new_network", "undisturbed", "warm_up"]


@contextmanager
def heard() -> Iterator[None]:
    """End quietly where nobody listens any more, as in `| head`."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep what is loaded out of the garbage collector's sight: looking through it all takes longer than a line may wait."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def new_network(o: Options, d: int) -> Any:
    """Return the network that the user asked for, with d sources."""
    import bionica

    return getattr(bionica, CLASSES[o.method])(d, random_state=o.seed)


def warm_up(o: Options) -> None:
    """Load the compiled network before the first sample is there, so that none waits for it."""
    import numpy as np

    X = np.random.default_rng(0).exponential(size=(400, 3)).astype(o.dtype if o.columns else "float64")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = new_network(o, 2).partial_fit(X)
        network.partial_fit_transform(X[:1])
