"""The paper's iterations, from rest until convergence.

Direct lateral connections (Algorithm 2, eq. 15; the NSM layer):

    z <- [z + gamma (c - W_zz z)]_+

Connections through interneurons (Algorithm 1, eq. 9; without the [.]_+ the whitening layer):

    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)

A gamma of 0 stands for the largest step that is safe by the trace: 1/tr(W_zz), or 1/(2 |W_ny| |W_yn|) with Frobenius norms.
"""

import math
from typing import NamedTuple

from ..generic import hot
from ..guards import UNSETTLED
from ..plasticity import dot


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative to the input."""

    gamma: float
    tol: float
    max_iter: int


@hot
def iterate_lateral(dynamics, W_zz, c, z, ws):
    """Settle z >= 0 under direct lateral connections."""
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
            ws.w[i] = c[i] - dot(W_zz, i, z)
        change = 0.0
        for i in range(d):
            new = max(z[i] + gamma * ws.w[i], 0.0)
            change = max(change, abs(new - z[i]))
            z[i] = new
        if change <= dynamics.tol * gamma * c_max:
            return
    ws.events[UNSETTLED] += 1


@hot
def iterate_interneurons(dynamics, W_yn, W_ny, c, y, n, ws, rectify):
    """Settle y (>= 0 if `rectify`) and the interneurons n."""
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
            new = y[i] + gamma * (c[i] - dot(W_ny, i, n))
            if rectify:
                new = max(new, 0.0)
            change_y = max(change_y, abs(new - y[i]))
            y[i] = new
        change_n = 0.0
        n_max = 0.0
        for p in range(m):
            s = dot(W_yn, p, y) - n[p]
            n[p] += gamma * s
            change_n = max(change_n, abs(gamma * s))
            n_max = max(n_max, abs(n[p]))
        if change_y <= dynamics.tol * gamma * c_max and change_n <= dynamics.tol * gamma * n_max:
            return
    ws.events[UNSETTLED] += 1
