"""Numbers with equal steps: the time of each sample, a row number, the wavelength of each channel. These are no mixtures."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

_FEWEST_ROWS = 8  # of fewer, counts rise evenly by chance
_MOST_DECIMALS = 6
_TOLERANCE = 1e-3  # of the step
_COARSEST = 1 / 3  # the largest rounding, as a part of the step


def is_evenly_spaced(values: ArrayLike) -> bool:
    """Whether three numbers or more rise or fall in equal steps, to their rounding.

    Examples
    --------
    >>> is_evenly_spaced([0.0, 0.033, 0.067, 0.1])
    True
    >>> is_evenly_spaced([1, 2, 4, 8])
    False
    """
    column = np.asarray(values)[:, np.newaxis]
    return len(column) > 2 and bool(_evenly_spaced(column)[0])


def evenly_rising(X: ArrayLike) -> list[int]:
    """Return the columns of X that rise or fall in equal steps from row to row, to their rounding, in 8 rows or more.

    Such a column is a time, a row number or a wavelength, not a mixture. A deviation of a thousandth of the step is allowed, or
    of the rounding (one unit in the last decimal, or of the floats) if that is at most a third of the step.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> evenly_rising(np.column_stack([0.1 * np.arange(20), rng.random(20), np.arange(20) ** 2]))
    [0]
    """
    array = np.asarray(X)
    return np.flatnonzero(_evenly_spaced(array)).tolist() if len(array) >= _FEWEST_ROWS else []


def strictly_monotonic(X: ArrayLike) -> list[int]:
    """Return the columns of X that rise from every row to the next, or fall.

    Examples
    --------
    >>> strictly_monotonic([[0, 9, 1], [1, 7, 1], [5, 2, 3]])
    [0, 1]
    """
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        array = np.asarray(X).astype(np.float64)
    before, after = array[:-1], array[1:]
    return np.flatnonzero((after > before).all(axis=0) | (after < before).all(axis=0)).tolist()


def _evenly_spaced(array: Array) -> Array:
    """Return for each column whether its steps are equal."""
    eps = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        X = array.astype(np.float64)
    found = np.asarray(np.isfinite(X).all(axis=0))
    X = np.where(found, X, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        step = (X[-1] - X[0]) / (len(X) - 1)
        found &= np.isfinite(step) & (step != 0)
        # Two steps tell most columns, before all rows are compared.
        found[found] = np.abs(X[1, found] - X[0, found] - step[found]) <= np.abs(step[found])
        some, step = X[:, found], step[found]
        line = some[0] + np.outer(np.arange(len(X)), step)
        step = np.abs(step)
        tolerance = _TOLERANCE * step
        for rounding in (1.000001 * _last_decimal(some, eps), eps * np.abs(some).max(axis=0, initial=0.0)):
            tolerance = np.where(rounding <= _COARSEST * step, np.maximum(rounding, tolerance), tolerance)
        found[found] = (np.abs(some - line) <= tolerance).all(axis=0)
    return found


def _last_decimal(X: Array, eps: float) -> Array:
    """Return for each column the unit of its last decimal, 0 if it has more than six."""
    unit = np.zeros(X.shape[1])
    for decimals in range(_MOST_DECIMALS, -1, -1):
        scaled = X * 10.0**decimals
        exact = np.abs(scaled - np.rint(scaled)) <= max(1e-9, eps) * np.maximum(1.0, np.abs(scaled))
        unit[exact.all(axis=0)] = 10.0**-decimals
    return unit
