"""The minimum-volume cone without noise, exactly (Chan et al. 2009).

det V is linear in each row. With the other rows fixed, the best row V_i solves the linear program

    maximise det V    subject to    V_i u >= 0 for all samples u,   V_i u_bar = 1.                                        (7)

Rows are updated one after the other until none changes. Only the samples nearest to the facet, in angle, are given to the linear
program; a sweep over all samples adds those that it missed. If many samples lie on the facet (an atom at zero), the row is the one
that vanishes on them, which a singular value decomposition finds to rounding.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

Array = npt.NDArray[Any]

_AT_ZERO = 1e-5  # share of an output in the sum of all: such samples lie on the facet
_AT_ZERO_USED = 2000  # of these samples
_NEAREST = 200  # samples per facet, and 20 for each source
_MOST_CHANGE = (
    0.5,
    5.0,
    50.0,
)  # of a coefficient of a row in one sweep: the first with which the row can hold all samples
_LEAST_SHARE = 1e-3  # of det P, below which it is nearly singular
_MAX_SWEEPS = 30


def tighten(U: Array, V: Array, u_bar: Array) -> tuple[Array, int, bool]:
    """The smallest cone around U (n_samples, d), from V near it: V with V u_bar = 1, the sweeps, and whether rows have settled."""
    d = len(V)
    kept: list[Array] = [np.empty(0, dtype=np.intp)] * d
    for sweep in range(_MAX_SWEEPS):
        V = V / (V @ u_bar)[:, None]
        P = _sweep(V @ U.T, kept)
        V = P @ V
        if np.abs(P - np.eye(d)).max() < 1e-9:
            return V / (V @ u_bar)[:, None], sweep + 1, True
    return V / (V @ u_bar)[:, None], _MAX_SWEEPS, False


def _sweep(Y: Array, kept: list[Array]) -> Array:
    """The change P of all rows, one after the other; `kept` gains the samples of each linear program."""
    d, n = Y.shape
    size = np.abs(Y).sum(axis=0)
    angle = np.where(size > _AT_ZERO, Y / np.maximum(size, _AT_ZERO), 1.0)  # the apex has no angle
    P = np.eye(d)
    for i, row in enumerate(angle):
        at_zero = np.flatnonzero(np.abs(row) < _AT_ZERO)
        if len(at_zero) > max(3 * d, 0.5 * np.count_nonzero(row < 100 * _AT_ZERO)):
            through = _row_through(Y[:, at_zero])
            if np.min(through @ Y / np.maximum(size, _AT_ZERO)) > -_AT_ZERO:
                P[i] = through
                continue
        nearest = min(_NEAREST + 20 * d, n - 1)
        kept[i] = np.union1d(kept[i], np.argpartition(row, nearest)[: nearest + 1])
        P[i] = _best_row(P, i, Y[:, kept[i]])
    return P


def _row_through(Y: Array) -> Array:
    """The row that vanishes on these samples, with sum 1; NaN if they do not determine it."""
    Y = Y[:, :: -(-Y.shape[1] // _AT_ZERO_USED)]
    scaled = Y / np.linalg.norm(Y, axis=0)
    _, values, rows = np.linalg.svd(np.linalg.qr(scaled.T, mode="r"))
    if len(values) > 1 and values[-2] < 1e-2 * values[0]:
        return np.full(len(Y), np.nan)
    return np.asarray(rows[-1] / rows[-1].sum())


def _best_row(P: Array, i: int, near: Array) -> Array:
    """Row i that maximises det P with near' p >= 0 and sum(p) = 1; as it was if no such row is found."""
    size = np.maximum(np.linalg.norm(near, axis=0), 1e-300)
    for change in _MOST_CHANGE:
        found = linprog(
            -np.linalg.inv(P)[:, i],
            A_ub=-(near / size).T,
            b_ub=np.zeros(near.shape[1]),
            A_eq=np.ones((1, len(P))),
            b_eq=[1.0],
            bounds=np.stack([P[i] - change, P[i] + change], axis=1),
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if found.x is not None and -found.fun > _LEAST_SHARE:
            return np.asarray(found.x)
    return np.asarray(P[i])
