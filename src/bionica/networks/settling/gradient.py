"""How neurons settle, given their weights and their feedforward input c.

Direct lateral connections (Algorithm 2, eq. 15 of the paper; the NSM layer):

    z <- [z + gamma (c - W_zz z)]_+      until convergence

Connections through interneurons (Algorithm 1, eq. 11; for the whitening layer, without the [.]_+, see there):

    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)      until convergence

`ProjectedGradient` runs these as printed, from rest. `Exact` goes to where they end (see `inverse`): with M = W_zz or W_ny W_yn,

    z >= 0,  M z - c >= 0,  z_i (M z - c)_i = 0

A network keeps H = M^-1 from sample to sample, by rank-one and rank-two updates (Sherman, Morrison and Woodbury) as the weights
learn, and anew every 1000 samples. (The updates are sums of a_i a_j, the same for i, j and j, i to the last bit: an antisymmetric
part would grow with every sample.) While W_ny and W_yn' differ (appendix B) M is not symmetric, and `ExactAsymmetric` pivots on
M, which it keeps in place of H.

A gamma of 0 stands for the largest step that is safe by the trace: 1/tr(W_zz), or 1/(2 |W_ny| |W_yn|) with Frobenius norms.
"""

import math
from typing import NamedTuple

from ..generic import fma, generic, hot
from ..guards import SPECTRUM, UNSETTLED, lift_singular_values
from ..plasticity import apply, dot, hebb
from .connections import Direct, Through, multiply
from .exact import forget, invert, settle_exactly
from .pivoting import Exact, ExactAsymmetric, complementary

#: H, and M where it is kept as a product, are computed anew every so many samples.
REFRESH = 1000


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative to the input."""

    gamma: float
    tol: float
    max_iter: int


# ---------------------------------------------------------------------------------------------- direct connections


@generic
def settle_lateral(dynamics, W_zz, H, c, z, ws):
    """Settle z >= 0 under direct lateral connections W_zz, whose inverse is H."""


@generic
def follow_lateral(dynamics, H, rate, z, ws):
    """H after W_zz <- W_zz + rate (z z' - W_zz)."""


@generic
def refresh_lateral(dynamics, W_zz, H, t, changed):
    """H anew where a guard changed the weights, and every 1000 samples."""


@refresh_lateral.register(Exact)
@refresh_lateral.register(ProjectedGradient)
def _refresh_lateral(dynamics, W_zz, H, t, changed):
    if changed or t % REFRESH == 0:
        invert(W_zz, H)


@settle_lateral.register(Exact)
def _lateral_exact(dynamics, W_zz, H, c, z, ws):
    settle_exactly(dynamics, Direct(W_zz), H, c, z, ws)


@follow_lateral.register(Exact)
def _follow_exact(dynamics, H, rate, z, ws):
    d = z.shape[0]
    g = ws.free
    rate = H.dtype.type(rate)
    q = H.dtype.type(0)
    for i in range(d):
        g[i] = dot(H, i, z)
        q = fma(g[i], z[i], q)
    if not (rate < 1 and q >= 0):
        forget(H)
        return
    one = H.dtype.type(1)
    grow = one / (one - rate)
    f = math.sqrt(rate * grow / fma(rate, q, one - rate))
    for i in range(d):
        g[i] *= f
    for i in range(d):
        for j in range(d):
            H[i, j] = fma(grow, H[i, j], -(g[i] * g[j]))


@follow_lateral.register(ProjectedGradient)
def _follow_nothing(dynamics, H, rate, z, ws):
    pass


@settle_lateral.register(ProjectedGradient)
def _lateral_gradient(dynamics, W_zz, H, c, z, ws):
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
            new = max(fma(gamma, ws.w[i], z[i]), 0.0)
            change = max(change, abs(new - z[i]))
            z[i] = new
        if change <= dynamics.tol * gamma * c_max:
            return
    ws.events[UNSETTLED] += 1


# ---------------------------------------------------------------------------------------------- interneurons


@generic
def settle_interneurons(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    """Settle y >= 0 and n = W_yn y under connections through interneurons; M = W_ny W_yn, if it has rows, H its inverse."""


@generic
def separate(dynamics):
    """Whether W_ny is learned beside W_yn.

    Else it is W_yn' to the last bit: nobody reads it in the loop, and `rule.finish` writes it.
    """


@separate.register(Exact)
def _coupled(dynamics):
    return False


@separate.register(ExactAsymmetric)
@separate.register(ProjectedGradient)
def _separate(dynamics):
    return True


@hot
def lift_interneurons(dynamics, W_yn, W_ny, eps, ws):
    """The guard `spectrum` of W_yn and W_ny; True if it acted."""
    before = ws.events[SPECTRUM]
    lifted = lift_singular_values(W_yn.T, eps, ws)
    if separate(dynamics):
        return lift_singular_values(W_ny, eps, ws) or lifted
    ws.events[SPECTRUM] += ws.events[SPECTRUM] - before  # W_ny is lifted with it
    return lifted


@generic
def learn_interneurons(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    """W_ny <- W_ny + eta (dy dn' - W_ny) and W_yn <- W_yn + eta (dn dy' - W_yn); M and H follow.

    With s = (1 - eta)^2, p = W_ny dn and q = W_yn' dn of the weights before,

        M <- s M + eta (1 - eta) (p dy' + dy q') + eta^2 |dn|^2 dy dy'
    """


@generic
def refresh_interneurons(dynamics, W_yn, W_ny, M, H, ws, t, changed):
    """M and H anew where a guard changed the weights, and every 1000 samples."""


@refresh_interneurons.register(Exact)
def _refresh_coupled(dynamics, W_yn, W_ny, M, H, ws, t, changed):
    if changed or t % REFRESH == 0:
        multiply(W_yn.T, W_yn, ws.M)
        invert(ws.M, H)


@refresh_interneurons.register(ExactAsymmetric)
@refresh_interneurons.register(ProjectedGradient)
def _refresh_separate(dynamics, W_yn, W_ny, M, H, ws, t, changed):
    if changed or t % REFRESH == 0:
        multiply(W_ny, W_yn, M)
        multiply(W_ny, W_yn, ws.M)
        invert(ws.M, H)


@settle_interneurons.register(Exact)
def _interneurons_exact(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    if not settle_exactly(dynamics, Through(W_yn, n, ws.M), H, c, y, ws):
        apply(W_yn, y, n)


@settle_interneurons.register(ExactAsymmetric)
def _interneurons_asymmetric(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    complementary(dynamics, M, c, y, ws)
    apply(W_yn, y, n)


@learn_interneurons.register(Exact)
def _learn_coupled(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    # M <- s M + b dy' + dy b'; in H by Woodbury's formula for the two vectors.
    d = y.shape[0]
    b, dy, Hb, Hdy = ws.free, ws.w, ws.u, ws.v
    eta = M.dtype.type(eta)
    one = M.dtype.type(1)
    s = (one - eta) * (one - eta)
    energy = M.dtype.type(0)
    for i in range(d):
        b[i] = 0
        dy[i] = y[i] - y_bar[i]
    for p in range(n.shape[0]):
        dn = n[p] - n_bar[p]
        energy = fma(dn, dn, energy)
        for i in range(d):
            b[i] = fma(dn, W_yn[p, i], b[i])
            W_yn[p, i] = fma(eta, fma(dn, dy[i], -W_yn[p, i]), W_yn[p, i])
    mixed = eta * (one - eta)
    square = eta * eta * energy * M.dtype.type(0.5)
    for i in range(d):
        b[i] = fma(mixed, b[i], square * dy[i])
    bb = M.dtype.type(0)
    bd = s
    dd = M.dtype.type(0)
    for i in range(d):
        Hb[i] = dot(H, i, b)
        Hdy[i] = dot(H, i, dy)
        bb = fma(Hb[i], b[i], bb)
        bd = fma(Hdy[i], b[i], bd)
        dd = fma(Hdy[i], dy[i], dd)
    if s > 0 and bd * bd > bb * dd:
        grow = one / s
        if dd > 1e-12:
            f = math.sqrt(dd * grow / fma(bd, bd, -(bb * dd)))
            e = one / math.sqrt(s * dd)
            for i in range(d):
                Hb[i] = f * fma(-bd / dd, Hdy[i], Hb[i])
                Hdy[i] *= e
        else:  # y is its mean
            for i in range(d):
                Hb[i] = 0
                Hdy[i] = 0
        for i in range(d):
            for j in range(d):
                H[i, j] = fma(grow, H[i, j], fma(Hb[i], Hb[j], -(Hdy[i] * Hdy[j])))
    else:
        forget(H)


@learn_interneurons.register(ExactAsymmetric)
@learn_interneurons.register(ProjectedGradient)
def _learn_separate(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    d = y.shape[0]
    a, b, dy = ws.u, ws.free, ws.w
    eta = M.dtype.type(eta)
    one = M.dtype.type(1)
    s = (one - eta) * (one - eta)
    energy = M.dtype.type(0)
    for p in range(n.shape[0]):
        energy += (n[p] - n_bar[p]) * (n[p] - n_bar[p])
    mixed = eta * (one - eta)
    square = eta * eta * energy
    for i in range(d):
        dy[i] = y[i] - y_bar[i]
        v = W_ny[i, 0] * (n[0] - n_bar[0])
        w = W_yn[0, i] * (n[0] - n_bar[0])
        for p in range(1, n.shape[0]):
            v += W_ny[i, p] * (n[p] - n_bar[p])
            w += W_yn[p, i] * (n[p] - n_bar[p])
        b[i] = mixed * v + square * dy[i]
        a[i] = mixed * w
    for i in range(M.shape[0]):
        for j in range(d):
            M[i, j] = fma(s, M[i, j], fma(b[i], dy[j], dy[i] * a[j]))
    hebb(W_yn, eta, n, n_bar, y, y_bar)
    hebb(W_ny, eta, y, y_bar, n, n_bar)


@settle_interneurons.register(ProjectedGradient)
def _interneurons_gradient(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    iterate(dynamics, W_yn, W_ny, c, y, n, ws, True)


@hot
def iterate(dynamics, W_yn, W_ny, c, y, n, ws, rectify):
    """The iteration for y (>= 0 if `rectify`) and n."""
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
            new = fma(gamma, c[i] - dot(W_ny, i, n), y[i])
            if rectify:
                new = max(new, 0.0)
            change_y = max(change_y, abs(new - y[i]))
            y[i] = new
        change_n = 0.0
        n_max = 0.0
        for p in range(m):
            s = dot(W_yn, p, y) - n[p]
            n[p] = fma(gamma, s, n[p])
            change_n = max(change_n, abs(gamma * s))
            n_max = max(n_max, abs(n[p]))
        if change_y <= dynamics.tol * gamma * c_max and change_n <= dynamics.tol * gamma * n_max:
            return
    ws.events[UNSETTLED] += 1
