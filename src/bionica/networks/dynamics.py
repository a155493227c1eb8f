"""How neurons settle, given their weights and their feedforward input c.

Direct lateral connections (Algorithm 2, eq. 15 of the paper; the NSM layer):

    z <- [z + gamma (c - W_zz z)]_+      until convergence

Connections through interneurons (Algorithm 1, eq. 11; the whitening layer without the [.]_+):

    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)      until convergence

`ProjectedGradient` runs these as printed, from rest. `Exact` goes to where they end: with M = W_zz or W_ny W_yn,

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

which for symmetric M is the optimum of min_{z >= 0} z'Mz/2 - c'z. The set of firing neurons is found by block principal
pivoting (Judice and Pires 1994; Kim and Park 2011), warm-started from the last sample's set. It exchanges every neuron
that violates its condition; when that stops helping, one neuron at a time (Murty's rule), which is finite for every
positive definite M. `ExactAsymmetric` is the same with LU for Cholesky, while W_ny and W_yn' still differ (appendix B).

*Beyond the paper.* A nearly singular M (a pivot lost to rounding) gets a multiple of the identity added: first 1e3
eps, then 100 times more at each try, times the mean of M's diagonal. Each such sample is counted in
`repairs_["regularised"]`. A gamma of 0 stands for the largest step that is safe by the trace: 1/tr(W_zz), or 1/(2
|W_ny| |W_yn|) with Frobenius norms.
"""

import math
from typing import NamedTuple

import numpy as np

from .compiled import cold, generic, hot
from .guards import REGULARISED, UNSETTLED, n_repairs


class Exact(NamedTuple):
    """Settle exactly; `eps` is the rounding unit of the network's numbers."""

    eps: float


class ExactAsymmetric(NamedTuple):
    """As `Exact`, for lateral weights that are not symmetric."""

    eps: float


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative to the input."""

    gamma: float
    tol: float
    max_iter: int


class Scratch(NamedTuple):
    """Work space of one layer of d neurons."""

    firing: np.ndarray  # the neurons that fire: the warm start
    chosen: np.ndarray  # their numbers
    L: np.ndarray  # factor of M over them, reciprocal pivots on the diagonal
    u: np.ndarray  # their activity
    w: np.ndarray  # what must not be negative: M_ii z_i of the firing, (M z - c)_i of the silent; or the gradient
    M: np.ndarray  # W_ny W_yn
    events: np.ndarray  # how often each repair acted


def scratch(d, dtype, events=None):
    """Allocate the work space; layers of one network share `events`."""
    return Scratch(
        firing=np.zeros(d, np.bool_),
        chosen=np.zeros(d + 1, np.int64),
        L=np.zeros((d, d), dtype),
        u=np.zeros(d, dtype),
        w=np.zeros(d, dtype),
        M=np.zeros((d, d), dtype),
        events=np.zeros(n_repairs, np.int64) if events is None else events,
    )


# ---------------------------------------------------------------------------------------------- linear algebra


@generic
def solve_firing(dynamics, M, shift, c, index, f, L, u):
    """Solve (M + shift I) u = c over the f neurons in `index`; False when a pivot is lost to rounding."""


@solve_firing.register(Exact)
def _ldl(dynamics, M, shift, c, index, f, L, u):
    # L D L' without square roots; L[a, a] = 1/D_a. Row a is kept times D until it is complete.
    floor = 8 * dynamics.eps * f
    for a in range(f):
        i = index[a]
        v = c[i]
        pivot = M[i, i] + shift
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
        L[a, a] = 1 / pivot
        u[a] = v
    for a in range(f):
        u[a] *= L[a, a]
    for a in range(f - 1, 0, -1):
        for b in range(a):
            u[b] -= L[a, b] * u[a]
    return True


@solve_firing.register(ExactAsymmetric)
def _lu(dynamics, M, shift, c, index, f, L, u):
    # No pivoting: a matrix with positive definite symmetric part has an LU with positive pivots.
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


@hot
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
        if not solve_firing(dynamics, M, shift, c, index, f, ws.L, u):
            return False
        size = 0.0
        for a in range(f):
            size += abs(u[a])
            z[index[a]] = u[a]
        slack = tol * (c_max + largest * size)
        violated = 0
        last = 0
        for i in range(d):
            s = -c[i]
            for j in range(d):
                s += M[i, j] * z[j]
            w[i] = z[i] * M[i, i] if firing[i] else s
            bad = w[i] < -slack
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
                firing[i] ^= w[i] < -slack
        else:
            firing[last] = not firing[last]
    return False


@hot
def complementary(dynamics, M, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary, written to z; where there is none, z is infinite."""
    d = c.shape[0]
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
    for i in range(d):
        z[i] = np.inf


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


# ---------------------------------------------------------------------------------------------- direct connections


@generic
def settle_lateral(dynamics, W_zz, c, z, ws):
    """Settle z >= 0 under direct lateral connections W_zz."""


@settle_lateral.register(Exact)
def _lateral_exact(dynamics, W_zz, c, z, ws):
    complementary(dynamics, W_zz, c, z, ws)


@settle_lateral.register(ProjectedGradient)
def _lateral_gradient(dynamics, W_zz, c, z, ws):
    d = c.shape[0]
    gamma = dynamics.gamma
    c_max = 0.0
    trace = 0.0
    for i in range(d):
        c_max = max(c_max, abs(c[i]))
        trace += W_zz[i, i]
        z[i] = 0
    if gamma == 0:
        gamma = 1 / max(trace, 1e-30)
    for _ in range(dynamics.max_iter):
        for i in range(d):
            s = c[i]
            for j in range(d):
                s -= W_zz[i, j] * z[j]
            ws.w[i] = s
        change = 0.0
        for i in range(d):
            new = max(z[i] + gamma * ws.w[i], 0.0)
            change = max(change, abs(new - z[i]))
            z[i] = new
        if change <= dynamics.tol * gamma * c_max:
            return
    ws.events[UNSETTLED] += 1


# ---------------------------------------------------------------------------------------------- interneurons


@generic
def settle_interneurons(dynamics, W_yn, W_ny, c, y, n, ws, rectify):
    """Settle y (>= 0 if `rectify`) and n = W_yn y under connections through interneurons."""


@settle_interneurons.register(Exact)
@settle_interneurons.register(ExactAsymmetric)
def _interneurons_exact(dynamics, W_yn, W_ny, c, y, n, ws, rectify):
    d = c.shape[0]
    m = n.shape[0]
    M = ws.M
    for i in range(d):
        for j in range(d):
            M[i, j] = 0
        for p in range(m):
            w = W_ny[i, p]
            for j in range(d):
                M[i, j] += w * W_yn[p, j]
    if rectify:
        complementary(dynamics, M, c, y, ws)
    else:
        _linear(dynamics, M, c, y, ws)
    for p in range(m):
        s = 0.0
        for j in range(d):
            s += W_yn[p, j] * y[j]
        n[p] = s


@hot
def _linear(dynamics, M, c, y, ws):
    """Solve M y = c with the regularisation of `complementary`."""
    d = c.shape[0]
    for i in range(d):
        ws.chosen[i] = i
    shift = 0.0
    for _ in range(10):
        if solve_firing(dynamics, M, shift, c, ws.chosen, d, ws.L, y):
            return
        shift = _more(M, shift, dynamics.eps, ws)
    for i in range(d):
        y[i] = np.inf


@settle_interneurons.register(ProjectedGradient)
def _interneurons_gradient(dynamics, W_yn, W_ny, c, y, n, ws, rectify):
    d = c.shape[0]
    m = n.shape[0]
    gamma = dynamics.gamma
    c_max = 0.0
    for i in range(d):
        c_max = max(c_max, abs(c[i]))
        y[i] = 0
    for p in range(m):
        n[p] = 0
    if gamma == 0:
        yn = 0.0
        ny = 0.0
        for i in range(d):
            for p in range(m):
                yn += W_yn[p, i] * W_yn[p, i]
                ny += W_ny[i, p] * W_ny[i, p]
        gamma = 0.5 / max(math.sqrt(yn * ny), 1.0)
    for _ in range(dynamics.max_iter):
        change_y = 0.0
        for i in range(d):
            s = c[i]
            for p in range(m):
                s -= W_ny[i, p] * n[p]
            new = y[i] + gamma * s
            if rectify:
                new = max(new, 0.0)
            change_y = max(change_y, abs(new - y[i]))
            y[i] = new
        change_n = 0.0
        n_max = 0.0
        for p in range(m):
            s = -n[p]
            for i in range(d):
                s += W_yn[p, i] * y[i]
            n[p] += gamma * s
            change_n = max(change_n, abs(gamma * s))
            n_max = max(n_max, abs(n[p]))
        if change_y <= dynamics.tol * gamma * c_max and change_n <= dynamics.tol * gamma * n_max:
            return
    ws.events[UNSETTLED] += 1
