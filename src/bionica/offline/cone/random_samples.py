"""Random samples of a stream, from which the cone can be solved afresh at any time (see `stream`).

A sample is kept if its mark, a hash of its number that is uniform on (0, 1), is below a rate. If there are too many, the rate is
lowered. So all samples of the stream have the same chance, however early they came.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_PER_SOURCE, _LEAST = 3000, 20_000
_THINNED = 0.9  # share of the samples that remains if there are too many
_MOST_BYTES, _FEWEST = 2**26, 2000  # of many channels


class RandomSamples(NamedTuple):
    """Samples x (r, q), their numbers (r,), and the rate with which they were kept."""

    x: Array
    number: Array
    rate: float


def no_samples(q: int) -> RandomSamples:
    """No samples yet."""
    return RandomSamples(np.empty((0, q)), np.empty(0), 1.0)


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.asarray((h >> np.uint64(11)) * 2.0**-53)


def add_random(samples: RandomSamples, X: Array, number: Array, d: int, oldest: float) -> RandomSamples:
    """Add samples X (n, q) at random; if there are too many for d sources, first forget those before number `oldest`."""
    index = np.flatnonzero(marks(number) < samples.rate)
    if not len(index):
        return samples
    x, numbers, rate = (
        np.concatenate([samples.x, X[index]]),
        np.concatenate([samples.number, number[index]]),
        samples.rate,
    )
    most = max(_PER_SOURCE * d, _LEAST)
    most = min(most, max(_FEWEST, _MOST_BYTES // (8 * X.shape[1])))
    if len(x) <= most:
        return RandomSamples(x, numbers, rate)
    mark, young = marks(numbers), numbers >= oldest
    while np.count_nonzero(young & (mark < rate)) > most:
        rate *= _THINNED
    keep = young & (mark < rate)
    return RandomSamples(x[keep], numbers[keep], rate)


def random_since(samples: RandomSamples, oldest: float) -> RandomSamples:
    """The samples from number `oldest` on."""
    young = samples.number >= oldest
    return samples._replace(x=samples.x[young], number=samples.number[young])
