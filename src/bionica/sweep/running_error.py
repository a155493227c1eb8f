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

__all__ = ["ErrorSums", "add_outputs", "error_times", "errors_of", "new_sums"]

Array = NDArray[Any]


class ErrorSums(NamedTuple):
    """Squared differences of every source and output, summed over the samples.

    Attributes
    ----------
    times : int64 array of shape (m,)
        Numbers of samples at which the sums are recorded, ascending; the last is the number of all samples.
    total : array of shape (d, d)
        Sums so far; a row for each source.
    recorded : array of shape (m, d, d)
        Sums as they were at the times.
    """

    times: Array
    total: Array
    recorded: Array


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: this many on a logarithmic axis, or those of the given ones that it reaches.

    Examples
    --------
    >>> error_times(4, 1000), error_times((10, 5000), 1000)
    ((1, 10, 100, 1000), (10, 1000))
    """
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
def _add_rows(S, Y, first, start, stop, total):
    """Add the rows start, ..., stop - 1 of Y, four pairs (source, output) at a time so that the sums stay in registers."""
    d = total.shape[0]
    last = d * d - 1
    for pair in range(0, d * d, 4):
        # Beyond the last pair: the last pair again. The same sum is computed twice and stored twice.
        b, c, e = min(pair + 1, last), min(pair + 2, last), min(pair + 3, last)
        i0, j0, i1, j1, i2, j2, i3, j3 = pair // d, pair % d, b // d, b % d, c // d, c % d, e // d, e % d
        sum0, sum1, sum2, sum3 = total[i0, j0], total[i1, j1], total[i2, j2], total[i3, j3]
        for row in range(start, stop):
            t = first + row
            difference = S[t, i0] - Y[row, j0]
            sum0 += difference * difference
            difference = S[t, i1] - Y[row, j1]
            sum1 += difference * difference
            difference = S[t, i2] - Y[row, j2]
            sum2 += difference * difference
            difference = S[t, i3] - Y[row, j3]
            sum3 += difference * difference
        total[i0, j0], total[i1, j1], total[i2, j2], total[i3, j3] = sum0, sum1, sum2, sum3


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_outputs(S, Y, first, times, total, recorded):
    """Add the outputs Y for the sources S[first:first + len(Y)], and record the sums at the times among them."""
    row = 0
    for place in range(times.shape[0]):
        stop = times[place] - first
        if stop <= 0:
            continue
        if stop > Y.shape[0]:
            break
        _add_rows(S, Y, first, row, stop, total)
        row = stop
        recorded[place] = total
    _add_rows(S, Y, first, row, Y.shape[0], total)


def errors_of(sums: ErrorSums, times: tuple[int, ...]) -> tuple[list[float], float]:
    """Return the error at each of the times, and the error over the last tenth of the samples."""
    n, d = times[-1], len(sums.total)
    sources, outputs = linear_sum_assignment(sums.recorded[-1])
    matched = sums.recorded[:, sources, outputs].sum(axis=1).tolist()
    by_time = dict(zip(sums.times.tolist(), matched, strict=True))
    start = last_tenth_start(n)
    last_tenth = (by_time[n] - by_time.get(start, 0.0)) / ((n - start) * d)
    return [by_time[t] / (t * d) for t in times], last_tenth
