"""Block principal pivoting: z >= 0 with M z - c >= 0 and complementary, whatever the start.

The set of firing neurons is found by exchanging every neuron that violates its condition (Judice and Pires 1994; Kim and
Park 2011); when that stops helping, one neuron at a time (Murty's rule), which is finite for every positive definite M. Each
set costs a fresh factorisation of M over it: LDL' for symmetric M, LU while W_ny and W_yn' still differ (appendix B).

*Beyond the paper.* A nearly singular M (a pivot lost to rounding) gets a multiple of the identity added: first 1e3
eps, then 100 times more at each try, times the mean of M's diagonal. Each such sample is counted in
`repairs_["regularised"]`.
"""

from typing import NamedTuple

import numpy as np

from ..generic import cold, generic, hot
from ..guards import REGULARISED, n_repairs
from ..plasticity import dot

#: From so many firing neurons on, the elimination goes by whole rows, which the compiler vectorises.
LARGE = 12


class Exact(NamedTuple):
    """Settle exactly; `eps` is the rounding unit of the network's numbers."""

    eps: float


class ExactAsymmetric(NamedTuple):
    """As `Exact`, for lateral weights that are not symmetric."""

    eps: float


class Scratch(NamedTuple):
    """Work space of one layer of d neurons."""

    firing: np.ndarray  # the neurons that fire: the warm start
    chosen: np.ndarray  # their numbers
    L: np.ndarray  # factor of M over them, reciprocal pivots on the diagonal
    U: np.ndarray  # the same by rows of D L', for many neurons
    u: np.ndarray  # their activity
    w: np.ndarray  # what must not be negative: M_ii z_i of the firing, (M z - c)_i of the silent; or the gradient
    free: np.ndarray  # the activity without rectification; in between, a vector
    v: np.ndarray  # a vector
    M: np.ndarray  # a matrix
    events: np.ndarray  # how often each repair acted


def scratch(d, dtype, events=None):
    """Allocate the work space; layers of one network share `events`."""
    return Scratch(
        firing=np.zeros(d, np.bool_),
        chosen=np.zeros(d, np.uint64),
        L=np.zeros((d, d), dtype),
        U=np.zeros((d + 1, d + 1), dtype),
        u=np.zeros(d, dtype),
        w=np.zeros(d, dtype),
        free=np.zeros(d, dtype),
        v=np.zeros(d, dtype),
        M=np.zeros((d, d), dtype),
        events=np.zeros(n_repairs, np.int64) if events is None else events,
    )


# ---------------------------------------------------------------------------------------------- linear algebra


@generic
def solve_firing(dynamics, M, shift, c, index, f, ws):
    """Solve (M + shift I) u = c over the f neurons in `index`, u in ws.u; False when a pivot is lost to rounding."""


@solve_firing.register(Exact)
def _solve_symmetric(dynamics, M, shift, c, index, f, ws):
    floor = 8 * dynamics.eps * f
    if f < LARGE:
        return _ldl_small(floor, M, shift, c, index, f, ws.L, ws.u)
    return _ldl_large(floor, M, shift, c, index, f, ws.U, ws.u)


@hot
def _ldl_small(floor, M, shift, c, index, f, L, u):
    # L D L' without square roots; L[a, a] = 1/D_a. Row a is kept times D until it is complete.
    for a in range(f):
        i = index[a]
        v = c[i]
        pivot = M[i, i] + M.dtype.type(shift)
        least = floor * pivot
        for b in range(a):
            s = M[i, index[b]]
            for e in range(b):
                s -= L[a, e] * L[b, e]
            L[a, b] = s
            s *= L[b, b]
            pivot -= s * L[a, b]
            v -= s * u[b]
        for b in range(a):
            L[a, b] *= L[b, b]
        if not pivot > least:
            return False
        L[a, a] = M.dtype.type(1) / pivot
        u[a] = v
    for a in range(f):
        u[a] *= L[a, a]
    for a in range(f - 1, 0, -1):
        for b in range(a):
            u[b] -= L[a, b] * u[a]
    return True


@cold
def _ldl_large(floor, M, shift, c, index, f, U, u):
    # Rows of U = D L' with c as column f, and reciprocal pivots in the last row; four rows above are eliminated at once.
    last = U.shape[0] - 1
    for b in range(f):
        i = index[b]
        for j in range(b, f):
            U[b, j] = M[i, index[j]]
        U[b, b] += M.dtype.type(shift)
        U[b, f] = c[i]
        least = floor * U[b, b]
        for q in range(b // 4):
            e = 4 * q
            v0, v1 = U[e, b] * U[last, e], U[e + 1, b] * U[last, e + 1]
            v2, v3 = U[e + 2, b] * U[last, e + 2], U[e + 3, b] * U[last, e + 3]
            for j in range(b, f + 1):
                U[b, j] -= v0 * U[e, j] + v1 * U[e + 1, j] + v2 * U[e + 2, j] + v3 * U[e + 3, j]
        for e in range(b - b % 4, b):
            v = U[e, b] * U[last, e]
            for j in range(b, f + 1):
                U[b, j] -= v * U[e, j]
        if not U[b, b] > least:
            return False
        U[last, b] = M.dtype.type(1) / U[b, b]
    for q in range(f):
        a = f - 1 - q
        s = U[a, f]
        for j in range(a + 1, f):
            s -= U[a, j] * u[j]
        u[a] = s * U[last, a]
    return True


@solve_firing.register(ExactAsymmetric)
def _lu(dynamics, M, shift, c, index, f, ws):
    # No pivoting: a matrix with positive definite symmetric part has an LU with positive pivots.
    L, u = ws.L, ws.u
    floor = 8 * dynamics.eps * f
    for a in range(f):
        i = index[a]
        v = c[i]
        for b in range(a):
            s = M[i, index[b]]
            for e in range(b):
                s -= L[a, e] * L[e, b]
            L[a, b] = s * L[b, b]
            v -= L[a, b] * u[b]
        for b in range(a, f):
            s = M[i, index[b]]
            for e in range(a):
                s -= L[a, e] * L[e, b]
            L[a, b] = s
        pivot = L[a, a] + shift
        if not pivot > floor * (abs(M[i, i]) + shift):
            return False
        L[a, a] = 1 / pivot
        u[a] = v
    for a in range(f - 1, -1, -1):
        v = u[a]
        for b in range(a + 1, f):
            v -= L[a, b] * u[b]
        u[a] = v * L[a, a]
    return True


@cold
def _pivot(dynamics, M, shift, c, z, ws, tol):
    """Block principal pivoting; True when z is complementary to within `tol`.

    Written without branches on who fires: that is a coin toss, and a branch mispredicted costs more than a product.
    """
    d = c.shape[0]
    firing, index, u, w = ws.firing, ws.chosen, ws.u, ws.w
    c_max = 0.0
    largest = 0.0
    for i in range(d):
        c_max = max(c_max, abs(c[i]))
        largest = max(largest, M[i, i])
    fewest = d + 1
    patience = 3
    for _ in range(60 + 10 * d):
        f = 0
        for i in range(d):
            z[i] = 0
            index[f] = i
            f += firing[i]
        if not solve_firing(dynamics, M, shift, c, index, f, ws):
            return False
        size = 0.0
        for a in range(f):
            size += abs(u[a])
            z[index[a]] = u[a]
        slack = tol * (c_max + largest * size)
        violated = 0
        last = 0
        for i in range(d):
            s = dot(M, i, z) - c[i]
            w[i] = z[i] * M[i, i] if firing[i] else s
            bad = not w[i] >= -slack  # also true for NaN
            violated += bad
            last = i if bad else last
        if violated == 0:
            for i in range(d):
                z[i] = max(z[i], 0.0)
            return True
        patience = 3 if violated < fewest else patience - 1
        fewest = min(fewest, violated)
        if patience >= 0:
            for i in range(d):
                firing[i] ^= not w[i] >= -slack
        else:
            firing[last] = not firing[last]
    return False


@cold
def overflow(z):
    """z <- infinity, which the loop reports."""
    for i in range(z.shape[0]):
        z[i] = np.inf


@cold
def complementary(dynamics, M, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary, written to z; where there is none, z is infinite."""
    d = c.shape[0]
    size = 0.0
    for i in range(d):
        size += abs(c[i])
    if not size < np.inf:
        overflow(z)
        return
    tol = 32 * dynamics.eps
    shift = 0.0
    for attempt in range(10):
        if _pivot(dynamics, M, shift, c, z, ws, tol):
            return
        if attempt == 0:
            # Rounding can make the exchange cycle on an ill-conditioned M: ask for less before changing M.
            tol *= 64
        else:
            shift = _more(M, shift, dynamics.eps, ws)
            for i in range(d):
                ws.firing[i] = False
    overflow(z)


@cold
def _more(M, shift, eps, ws):
    """The next regularisation to try."""
    d = M.shape[0]
    if shift > 0:
        return shift * 100
    ws.events[REGULARISED] += 1
    mean = 0.0
    for i in range(d):
        mean += abs(M[i, i]) / d
    return 1e3 * eps * mean


@cold
def linear(dynamics, M, c, y, ws):
    """Solve M y = c with the regularisation of `complementary`."""
    d = c.shape[0]
    for i in range(d):
        ws.chosen[i] = i
    shift = 0.0
    for _ in range(10):
        if solve_firing(dynamics, M, shift, c, ws.chosen, d, ws):
            for i in range(d):
                y[i] = ws.u[i]
            return
        shift = _more(M, shift, dynamics.eps, ws)
    overflow(y)
