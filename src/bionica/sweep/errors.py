"""The paper's error at given times, from sums that grow with the samples: no output is kept.

For every source i and output j, the sum of (s_i - y_j)^2 over the samples so far is kept, and noted at the given times. At the end
one permutation P is chosen, that with the least error then, and

    error(t) = 1/(t d) sum_i [sum over samples to t of (s_i - y_P(i))^2]

is read off for each of these times: `metrics.error_curve` to rounding. Nothing cancels, as it would with sums of s_i y_j.

`add_errors` is what engines call. It is plain loops over arrays, so that a GPU's kernel can call `add_error` for each sample.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..networks.generic import hot

__all__ = ["Score", "add_error", "add_errors", "error_times", "errors_of", "new_score"]

Array = NDArray[Any]


class Score(NamedTuple):
    """Squared differences of every source and output, summed.

    Attributes
    ----------
    times : int64 array of shape (m,)
        Numbers of samples at which they are noted, in order; the last is all of them.
    total : array of shape (d, d)
        Sums so far; a row for each source.
    noted : array of shape (m, d, d)
        Sums as they were at the times.
    """

    times: Array
    total: Array
    noted: Array


def error_times(times: int | tuple[int, ...], n: int) -> tuple[int, ...]:
    """Return the times of a run of n samples: so many, evenly spaced on a logarithmic axis, or those given that it reaches.

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


def tail_start(n: int) -> int:
    """Return the number of samples before the last tenth."""
    return n - max(1, n // 10)


def new_score(times: tuple[int, ...], d: int) -> Score:
    """Return sums of nothing; they are noted at the times and where the last tenth begins."""
    noted_at = np.array(sorted({*times, tail_start(times[-1])} - {0}), dtype=np.int64)
    return Score(noted_at, np.zeros((d, d)), np.zeros((len(noted_at), d, d)))


@hot
def add_error(S, t, Y, row, total):
    """total[i, j] += (S[t, i] - Y[row, j])^2."""
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            difference = S[t, i] - Y[row, j]
            total[i, j] += difference * difference


@hot
def add_stretch(S, first, Y, start, stop, total):
    """Do what `add_error` does for the rows start, ..., stop - 1 of Y: the same sums to the bit, four at a time in registers."""
    d = total.shape[0]
    last = d * d - 1
    for pair in range(0, d * d, 4):
        # Beyond the last pair, the last one again: it is summed twice and stored twice, the same.
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
def add_errors(S, Y, first, n, times, total, noted):
    """Add the outputs Y[:n] for the sources S[first:first + n], and note the sums at the times among them."""
    row = 0
    for note in range(times.shape[0]):
        stop = times[note] - first
        if stop <= 0:
            continue
        if stop > n:
            break
        add_stretch(S, first, Y, row, stop, total)
        row = stop
        for i in range(total.shape[0]):
            for j in range(total.shape[1]):
                noted[note, i, j] = total[i, j]
    add_stretch(S, first, Y, row, n, total)


def errors_of(score: Score, times: tuple[int, ...]) -> tuple[list[float], float]:
    """Return the error at each of the times, and that of the last tenth of the samples."""
    n, d = times[-1], len(score.total)
    sources, outputs = linear_sum_assignment(score.noted[-1])
    sums = dict(zip(score.times.tolist(), score.noted[:, sources, outputs].sum(axis=1).tolist(), strict=True))
    start = tail_start(n)
    last = (sums[n] - sums.get(start, 0.0)) / ((n - start) * d)
    return [sums[t] / (t * d) for t in times], last
