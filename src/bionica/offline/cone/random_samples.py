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
_LATEST = 1000
_MOST_BYTES, _FEWEST = 2**26, 2000  # of many channels


class RandomSamples(NamedTuple):
    """Samples x (r, q) and their numbers (r,), the latest of them apart (p, q) and (p,), and the rate with which they were kept.

    The latest samples are joined to the others if there are 1000 of them: to copy all samples with every block is slow.
    """

    x: Array
    number: Array
    latest_x: Array
    latest_number: Array
    rate: float

    def since(self, oldest: float) -> tuple[Array, Array, float]:
        """The samples from number `oldest` on, their numbers, and the rate."""
        number = np.concatenate([self.number, self.latest_number])
        x = np.concatenate([self.x, self.latest_x])
        young = slice(int(np.searchsorted(number, oldest)), None)
        return x[young], number[young], self.rate


def no_samples(q: int) -> RandomSamples:
    """No samples yet."""
    return RandomSamples(np.empty((0, q)), np.empty(0), np.empty((0, q)), np.empty(0), 1.0)


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per sample number (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return np.asarray((h >> np.uint64(11)) * 2.0**-53)


def add_random(samples: RandomSamples, X: Array, number: Array, mark: Array, d: int, oldest: float) -> RandomSamples:
    """Add samples X (n, q) with these marks (n,); if there are too many for d sources, forget those before `oldest`, then others.

    Numbers grow from sample to sample.
    """
    index = np.flatnonzero(mark < samples.rate)
    latest_x = np.concatenate([samples.latest_x, X[index]])
    latest_number = np.concatenate([samples.latest_number, number[index]])
    samples = samples._replace(latest_x=latest_x, latest_number=latest_number)
    if len(latest_number) < _LATEST:
        return samples
    x, numbers, rate = samples.since(-np.inf)
    most = min(max(_PER_SOURCE * d, _LEAST), max(_FEWEST, _MOST_BYTES // (8 * X.shape[1])))
    if len(x) > most:
        x, numbers, rate = samples.since(oldest)
        all_marks = marks(numbers)
        while np.count_nonzero(all_marks < rate) > most:
            rate *= _THINNED
        index = np.flatnonzero(all_marks < rate)
        x, numbers = x[index], numbers[index]
    return RandomSamples(x, numbers, latest_x[:0].copy(), latest_number[:0].copy(), rate)
