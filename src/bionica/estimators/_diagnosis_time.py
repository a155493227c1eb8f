"""What the order of the samples shows, for `diagnose`: mixtures that are a clock, and a mixing that changes."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_SAMPLES = 5  # fewer lie on a line by chance
_EVEN = 1e-6  # of the range
_LEAST_HALF = 100  # samples
_SIGMAS = 5.0


def rising_columns(x: Floats, rows: NDArray[np.intp]) -> tuple[int, ...]:
    """Columns of x that rise or fall evenly with the number of the row: a time, an index, a wavelength."""
    if len(x) < _LEAST_SAMPLES:
        return ()
    share = (rows - rows[0]) / (rows[-1] - rows[0])
    span = x[-1] - x[0]
    away = np.abs(x - x[0] - share[:, np.newaxis] * span).max(axis=0)
    return tuple(map(int, np.flatnonzero((span != 0) & (away <= _EVEN * np.abs(span)))))


def change_between_halves(x: Floats, W: Floats) -> float:
    """How far the first half of the samples x (n, k) differs from the last; 0 to 1, beyond sampling error.

    The larger of two numbers. (1) The sine of the angle between their leading len(W) directions: the root of the share of the
    energy of one half that the directions of the other leave out, beyond what its own leave out. (2) The largest difference of
    the correlations of the outputs W x. Both are near 0 if the mixing and the correlations of the sources stay. A source that
    changes its strength, or is silent, changes neither of them.
    """
    half, (d, k) = len(x) // 2, W.shape
    if half < max(_LEAST_HALF, 2 * d):
        return 0.0
    first, last = x[:half], x[-half:]
    angle = 0.0
    if k > d:
        spans = [np.linalg.svd(part, full_matrices=False)[2][:d].T for part in (first, last)]
        for part, own, other in ((first, *spans), (last, *spans[::-1])):
            energy = float(np.sum(part**2))
            missed = (np.sum((part @ own) ** 2) - np.sum((part @ other) ** 2)) / max(energy, 1e-300)
            angle = max(angle, float(np.sqrt(max(missed, 0.0))))
    with np.errstate(all="ignore"):
        correlations = [np.nan_to_num(np.corrcoef((part @ W.T).T)).reshape(d, d) for part in (first, last)]
    difference = float(np.abs(correlations[0] - correlations[1]).max()) - _SIGMAS * np.sqrt(2 / half)
    return min(max(angle, difference, 0.0), 1.0)
