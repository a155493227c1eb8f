"""The paper's error at given times, from running sums over the samples.

For every source i and output j, (s_i - y_j)^2 is summed over the samples, and the sums are recorded at the given times. At the end
one permutation P is chosen, the one with the smallest error over all samples. Then

    error(t) = 1/(t d) sum_i [sum over samples up to t of (s_i - y_P(i))^2]

for each of these times. This equals `metrics.error_curve` to rounding. There is no cancellation, as there would be with sums of
s_i y_j.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Array = NDArray[Any]


class ErrorSums(NamedTuple):
    """Squared differences of every source and output, summed over the samples."""

    times: Array  # (m,) numbers of samples at which the sums are recorded, ascending; the last is that of all samples
    total: Array  # (d, d) sums so far; a row for each source
    recorded: Array  # (m, d, d) sums as they were at the times


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those of the given ones that it reaches."""
    if isinstance(times, int):
        wanted = np.geomspace(1, n, times).round().astype(np.int64).tolist() if times > 1 else []
    else:
        wanted = [t for t in times if t <= n]
    return tuple(sorted({*wanted, n}))


def last_tenth_start(n: int) -> int:
    """Return the number of samples before the last tenth."""
    return n - max(1, n // 10)


def new_sums(times: tuple[int, ...], d: int) -> ErrorSums:
    """Return sums over no samples, to be recorded at the times and where the last tenth begins."""
    recorded_at = np.array(sorted({*times, last_tenth_start(times[-1])} - {0}), dtype=np.int64)
    return ErrorSums(recorded_at, np.zeros((d, d)), np.zeros((len(recorded_at), d, d)))


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_outputs(S, Y, first, times, total, recorded):
    """Add the outputs Y for the sources S[first:first + len(Y)], and record the sums at the times among them."""
    d = total.shape[0]
    place = np.searchsorted(times, first, side="right")
    for row in range(Y.shape[0]):
        for i in range(d):
            for j in range(d):
                difference = S[first + row, i] - Y[row, j]
                total[i, j] += difference * difference
        if place < times.shape[0] and times[place] == first + row + 1:
            recorded[place] = total
            place += 1


def errors_of(sums: ErrorSums, times: tuple[int, ...]) -> tuple[list[float], float]:
    """Return the error at each of the times, and the error over the last tenth of the samples."""
    n, d = times[-1], len(sums.total)
    sources, outputs = linear_sum_assignment(sums.recorded[-1])
    matched = sums.recorded[:, sources, outputs].sum(axis=1).tolist()
    by_time = dict(zip(sums.times.tolist(), matched, strict=True))
    start = last_tenth_start(n)
    last_tenth = (by_time[n] - by_time.get(start, 0.0)) / ((n - start) * d)
    return [by_time[t] / (t * d) for t in times], last_tenth
