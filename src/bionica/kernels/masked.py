"""How neurons settle on a GPU: as `Exact` does, without an index or a loop that depends on who fires.

Threads of a GPU go together and keep in registers only what has a constant index. So every neuron takes part in every step, and
a silent one is left out of M z = c by a factor of zero in place of its reciprocal pivot:

    L D L' = M      z_a = 0 and column a of L = 0 for silent a, without any product more

The first guess of who fires are a few sweeps of z_i <- [z_i + (c - M z)_i / M_ii]_+ from rest; those that violate their condition
are then exchanged (block principal pivoting, see `settling`). At d = 10, on the paper's problem after 4000 samples, 1.9 solutions
are needed by the slowest of 32 threads after 3 sweeps, 1.2 after 5, and 3.0 from the signs of M^-1 c.

A sample that has not settled after `exchanges` solutions gets NaN outputs: the thread then takes it through the network again with
`Pivoted`, which pivots on M from the beginning and is slow (`Exact` would take as long, and twice as long to compile).

Only the lower triangle of the symmetric M is read, and no inverse is kept: the compiler omits what is not used.
Every loop goes over all d neurons, with a condition where it needs fewer: loops whose ends depend on other loops are not unrolled.
"""

from typing import NamedTuple

import numpy as np

from .plasticity import absolute_sum
from .rule import hot
from .settling import ACCEPTED, EXCHANGES, Exact, pivot, settle_lateral

#: Sweeps behind the first guess.
SWEEPS = 5


class Masked(NamedTuple):
    """Settle by masks; `eps` is the rounding unit. The others are no constants, so that their loops are not unrolled."""

    eps: float
    sweeps: int = SWEEPS
    exchanges: int = EXCHANGES


class Pivoted(Masked):
    """For the samples that masks do not settle."""


@hot
def _guess(sweeps, M, c, z, ws):
    """z >= 0 near the solution, by Gauss-Seidel sweeps from rest.

    r_j = c_j - sum_{i != j} M_ji z_i is kept, and follows each z: products that do not wait for each other.
    """
    d = c.shape[0]
    r, inverse = ws.u, ws.w
    zero, one = M.dtype.type(0), M.dtype.type(1)
    for i in range(d):
        inverse[i] = one / M[i, i]
        r[i] = c[i]
        z[i] = zero
    for _ in range(np.int32(sweeps)):
        for j in range(d):
            s = r[j] * inverse[j]
            s = s if s > zero else zero
            change = s - z[j]
            z[j] = s
            for i in range(d):
                r[i] -= (M[j, i] if i < j else M[i, j]) * change if i != j else zero


@hot
def _solve(floor, M, m, c, L, u):
    """Solve M u = c over the neurons with m_i = 1, u = 0 for those with 0; returns whether a pivot was lost to rounding."""
    d = c.shape[0]
    one, zero = M.dtype.type(1), M.dtype.type(0)
    lost = False
    for a in range(d):
        u[a] = c[a]
        for b in range(d):
            if b <= a:
                L[a, b] = M[a, b]
    for b in range(d):  # column by column, so that products do not wait for each other
        lost |= not L[b, b] > floor * M[b, b]
        L[b, b] = m[b] * (one / L[b, b])
        for q in range(d):
            a = d - 1 - q
            if a > b:
                s = L[a, b] * L[b, b]
                u[a] -= s * u[b]
                for e in range(d):
                    L[a, e] -= s * L[e, b] if b < e and e <= a else zero
                L[a, b] = s
    for a in range(d):
        u[a] *= L[a, a]
    for p in range(d):
        a = d - 1 - p
        for b in range(d):
            u[b] -= L[a, b] * u[a] if b < a else zero
    return lost


@settle_lateral.register(Masked)
def settle_masked(dynamics, M, H, c, z, ws, rectified):
    """M z = c; if `rectified`, z >= 0 with M z - c >= 0 and complementary. Or NaN."""
    d = c.shape[0]
    m = ws.v
    zero, one = M.dtype.type(0), M.dtype.type(1)
    floor = M.dtype.type(8 * d) * M.dtype.type(dynamics.eps)
    tol = M.dtype.type(ACCEPTED) * M.dtype.type(dynamics.eps)
    if rectified:
        _guess(dynamics.sweeps, M, c, z, ws)
    c_sum = absolute_sum(c)
    largest = zero
    for i in range(d):
        m[i] = one if z[i] > zero or not rectified else zero
        largest = M[i, i] if M[i, i] > largest else largest
    for _ in range(np.int32(dynamics.exchanges)):
        violated = _solve(floor, M, m, c, ws.L, z)
        slack = -tol * (c_sum + largest * absolute_sum(z))
        for i in range(d):
            s = -c[i]
            for j in range(d):
                s += (M[i, j] if j < i else M[j, i]) * z[j]
            v = M[i, i] * z[i]
            v = v if v < s else s  # of a firing neuron (M z - c)_i is 0, of a silent one z_i
            bad = rectified and not v >= slack  # also true for NaN
            violated |= bad
            m[i] = one - m[i] if bad else m[i]
        if not violated:
            for i in range(d):
                z[i] = z[i] if z[i] > zero or not rectified else zero
            return
    for i in range(d):
        z[i] = np.nan


@settle_lateral.register(Pivoted)
def _lateral_pivoted(dynamics, M, H, c, z, ws, rectified):
    pivot(Exact(dynamics.eps), M, c, z, ws, rectified)
