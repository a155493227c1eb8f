"""How many sources `bionica separate` looks for."""

from typing import Any

from .console import Console
from .separate_options import Options


def count_sources(o: Options, block: Any) -> int:
    """Return the number of sources to look for in mixtures of which `block` is a sample.

    If they are to be counted and the number is in doubt, a warning says so: the fit that follows may take long.
    """
    from .. import io
    from ..estimators._source_count import warn_of_count
    from ..estimators.network import spectrum

    d, k = o.n_sources, block.shape[1]
    if d is None:
        found = spectrum(block.astype(float))
        warn_of_count("", "auto", found, min(block.shape))
        return max(1, int(found.n_sources))
    if d > k:
        raise io.InputError(f"--sources {d} is more than the {k} mixtures: sources can be as many at most")
    return d


def with_sum(console: Console, sample: Any, d: int) -> int:
    """Return d + 1 if that many sources sum to a constant: they vary in d directions, which is what was counted."""
    from ..estimators._diagnosis_closure import closed_sources

    closed = closed_sources(sample[:: max(1, -(-len(sample) // 1000))].astype(float), d)
    if closed > d:
        console.note(
            f"{closed} sources were counted: they sum to a constant, or there is a constant background, which counts as one"
        )
    return max(d, closed)
