"""What the order of the samples shows, for `diagnose`: mixtures that are a clock or stand still, and a mixing that changes."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

Floats = NDArray[np.float64]

_LEAST_SAMPLES = 5  # fewer lie on a line by chance
_EVEN = 1e-6  # of the range
_LEAST_STEPS = 20  # fewer samples of a smooth curve may rise throughout
_ORDERED, _MANY = 0.9, 0.25  # rank correlation with the order of the samples, and share of the mixtures
_SORTED, _DIRECTIONS = 0.9, 20  # share of the variance of a mixture that as many directions of the others explain
_RUN, _ELSEWHERE = 0.2, 0.01  # shares of the samples
_LEAST_HALF = 100  # samples
_SIGMAS = 5.0


def rising_columns(x: Floats, rows: NDArray[np.intp]) -> tuple[int, ...]:
    """Columns of x that rise or fall evenly with the number of the row, or from each row to the next: a time, an index, a count.

    What is not even has to rise in 20 rows or more. It is not named if a quarter of the columns or more follow the order of the
    rows (the sources rise or decay), nor if the other columns explain it (the samples are sorted by a mixture).
    """
    if len(x) < _LEAST_SAMPLES:
        return ()
    share = (rows - rows[0]) / (rows[-1] - rows[0])
    span = x[-1] - x[0]
    away = np.abs(x - x[0] - share[:, np.newaxis] * span).max(axis=0)
    even = (span != 0) & (away <= _EVEN * np.abs(span))
    steps = np.diff(x, axis=0)
    throughout = np.asarray((steps > 0).all(axis=0) | (steps < 0).all(axis=0))
    if len(x) >= _LEAST_STEPS and _is_unordered(x, throughout):
        clocks = np.flatnonzero(throughout)
        even[clocks[_explained(x[:, clocks], x[:, ~throughout]) < _SORTED]] = True
    return tuple(map(int, np.flatnonzero(even)))


def _is_unordered(x: Floats, throughout: NDArray[np.bool_]) -> bool:
    """Whether few columns follow the order of the rows, among them those that rise or fall throughout."""
    if not throughout.any() or throughout.mean() >= _MANY:
        return False
    centred = rankdata(x, axis=0) - (len(x) + 1) / 2
    order = np.arange(len(x)) - (len(x) - 1) / 2
    size = np.sqrt(np.sum(centred**2, axis=0) * np.sum(order**2))
    return bool(np.mean(np.abs(order @ centred) > _ORDERED * size) < _MANY)


def _explained(columns: Floats, others: Floats) -> Floats:
    """Share of the variance of each column that the leading directions of the others explain."""
    std = others.std(axis=0)
    z = (others - others.mean(axis=0))[:, std > 0] / std[std > 0]
    most = min(_DIRECTIONS, len(z) // 10, z.shape[1])
    scores = np.linalg.eigh(z @ z.T)[1][:, ::-1][:, :most]
    centred = columns - columns.mean(axis=0)
    return np.asarray(np.sum((scores.T @ centred) ** 2, axis=0) / np.sum(centred**2, axis=0))


def frozen_columns(x: Floats) -> tuple[int, ...]:
    """Columns of x with one value in a fifth of the rows, one after another, which they hardly have elsewhere: a failed sensor.

    Counts of 0 in a dark channel are everywhere; and a column that is constant is named as such.
    """
    n = len(x)
    if n < 2 * _LEAST_HALF:
        return ()
    same = x[1:] == x[:-1]
    found = [int(j) for j in np.flatnonzero(same.mean(axis=0) > _RUN) if _stands_still(x[:, j], same[:, j])]
    return tuple(found) if len(found) < x.shape[1] else ()  # silent sources leave all mixtures at zero


def _stands_still(column: Floats, same: NDArray[np.bool_]) -> bool:
    ends = np.flatnonzero(np.concatenate([[True], ~same, [True]]))  # rows at which a run begins, and the number of rows
    lengths = np.diff(ends)
    longest = int(np.argmax(lengths))
    run = int(lengths[longest])
    elsewhere = int(np.sum(column == column[ends[longest]])) - run
    return bool(_RUN * len(column) < run < len(column) and elsewhere < _ELSEWHERE * len(column))


def change_between_halves(x: Floats, U: Floats) -> float:
    """How far the first half of the samples differs from the last; 0 to 1, beyond sampling error.

    The larger of two numbers. (1) The sine of the angle between the leading d directions of the mixtures x (n, k), d the number of
    outputs: the root of the share of the energy of one half that the directions of the other leave out, beyond what its own leave
    out. (2) The largest difference of the correlations of the outputs U (n_samples, d); x may be some of their samples. Both are
    near 0 if the mixing and the correlations of the sources stay. A source that changes its strength, or is silent, changes
    neither of them.
    """
    half, d = len(x) // 2, U.shape[1]
    if half < max(_LEAST_HALF, 2 * d):
        return 0.0
    angle = 0.0
    if x.shape[1] > d:
        parts = x[:half], x[-half:]
        spans = [_leading(part, d) for part in parts]
        for part, own, other in ((parts[0], *spans), (parts[1], *spans[::-1])):
            energy = float(np.sum(part**2))
            missed = (np.sum((part @ own) ** 2) - np.sum((part @ other) ** 2)) / max(energy, 1e-300)
            angle = max(angle, float(np.sqrt(max(missed, 0.0))))
    half = len(U) // 2
    with np.errstate(all="ignore"):
        first, last = (np.nan_to_num(np.corrcoef(part.T)).reshape(d, d) for part in (U[:half], U[-half:]))
    difference = float(np.abs(first - last).max()) - _SIGMAS * np.sqrt(2 / half)
    return float(min(max(angle, difference, 0.0), 1.0))


def _leading(x: Floats, d: int) -> Floats:
    """The d leading directions of x'x, as columns."""
    if len(x) >= x.shape[1]:
        return np.asarray(np.linalg.eigh(x.T @ x)[1][:, ::-1][:, :d])
    return np.asarray(np.linalg.qr(x.T @ np.linalg.eigh(x @ x.T)[1][:, ::-1][:, :d])[0])
