"""How neurons settle, given their weights and their feedforward input c.

Direct lateral connections (Algorithm 2, eq. 15 of the paper; the NSM layer):

    z <- [z + gamma (c - W_zz z)]_+      until convergence

Connections through interneurons (Algorithm 1, eq. 11; for the whitening layer, without the [.]_+, see there):

    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)      until convergence

`ProjectedGradient` runs these as printed, from rest. `Exact` goes to where they end: with M = W_zz or W_ny W_yn,

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

which for symmetric M is the optimum of min_{z >= 0} z'Mz/2 - c'z. A network keeps H = M^-1 from sample to sample, by rank-one
and rank-two updates (Sherman, Morrison and Woodbury) as the weights learn, and anew every 1000 samples. (The updates are sums of
a_i a_j, the same for i, j and j, i to the last bit: an antisymmetric part would grow with every sample.) Then with G the silent
neurons

    z = H c + H_{:,G} w_G      H_GG w_G = -(H c)_G

and what has to be factorised is H_GG or, where fewer neurons fire than are silent, M over those: the smaller. The first G are
the neurons with (H c)_i < 0; those that violate their condition are exchanged. What was found in H is checked against M itself
and, if H has lost digits, refined; where that does not help, block principal pivoting on M takes over (see `pivoting`), as it
does for `ExactAsymmetric`, while W_ny and W_yn' differ (appendix B).

A gamma of 0 stands for the largest step that is safe by the trace: 1/tr(W_zz), or 1/(2 |W_ny| |W_yn|) with Frobenius norms.
"""

import math
from typing import NamedTuple

import numpy as np

from .compiled import cold, fma, generic, hot
from .guards import UNSETTLED
from .pivoting import Exact, ExactAsymmetric, complementary, overflow, solve_firing
from .plasticity import apply, dot

#: H, and M where it is a product, are computed anew every so many samples.
REFRESH = 1000
#: Exchanges of silent and firing neurons before pivoting on M takes over.
EXCHANGES = 12
#: Accepted residual of M z = c over the size of its terms, in rounding units: 1e-12 in double precision, 3e-5 in single.
ACCEPTED = 4096
ACCEPTED_SINGLE = 256


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative to the input."""

    gamma: float
    tol: float
    max_iter: int


# ---------------------------------------------------------------------------------------------- with the inverse at hand


def inverse(M: np.ndarray) -> np.ndarray:
    """M^-1 for a state that begins and symmetric M; zeros where there is none, and then pivoting does the work."""
    with np.errstate(all="ignore"):
        try:
            H = np.linalg.inv(M.astype(np.float64))
        except np.linalg.LinAlgError:
            H = np.full(M.shape, np.nan)
        H = (0.5 * (H + H.T)).astype(M.dtype)
    return H if np.isfinite(H).all() else np.zeros_like(M)


@cold
def _forget(H):
    """H <- 0: pivoting does the work until H is computed anew."""
    for i in range(H.shape[0]):
        for j in range(H.shape[1]):
            H[i, j] = 0


@cold
def invert(M, H):
    """H <- M^-1 for symmetric M, by Gauss and Jordan; zeros where a pivot is lost."""
    d = M.shape[0]
    for i in range(d):
        for j in range(d):
            H[i, j] = M[i, j]
    for p in range(d):
        pivot = H[p, p]
        if not abs(pivot) > 1e-14 * abs(M[p, p]):
            _forget(H)
            return
        pivot = 1 / pivot
        H[p, p] = 1
        for j in range(d):
            H[p, j] *= pivot
        for i in range(d):
            if i != p:
                s = H[i, p]
                H[i, p] = 0
                for j in range(d):
                    H[i, j] = fma(-s, H[p, j], H[i, j])
    for i in range(d):
        for j in range(i):
            H[j, i] = H[i, j]


@hot
def _unrectified(H, c, ws):
    """ws.free <- H c; returns the sum of |c_i|, finite only if every c_i is."""
    d = c.shape[0]
    c_sum = c.dtype.type(0)
    for i in range(d):
        ws.free[i] = dot(H, i, c)
        c_sum += abs(c[i])
    return c_sum


@hot
def _rectify(dynamics, M, H, c, c_sum, z, ws):
    """z >= 0 by exchanges from ws.free = H c. Returns 1 if z was found in M, 2 if in H, 0 if exchanges do not end soon."""
    d = z.shape[0]
    firing, index, free, u, w = ws.firing, ws.chosen, ws.free, ws.u, ws.w
    tol = c.dtype.type(32 * dynamics.eps)
    f = 0
    z_max = c.dtype.type(0)
    for i in range(d):
        firing[i] = free[i] >= 0
        f += firing[i]
        z_max = max(z_max, abs(free[i]))
    for _ in range(EXCHANGES):
        few = 2 * f < d
        a = 0
        for i in range(d):
            index[a] = i
            a += firing[i] == few
        for i in range(d):
            z[i] = z.dtype.type(0) if few else free[i]
            w[i] = c[i] if few else -free[i]
        A = M if few else H
        count = f if few else d - f
        if not solve_firing(dynamics, A, 0.0, w, index, count, ws):
            return 0
        out = w if few else z
        for i in range(d):
            w[i] = -c[i] if few else w[i]
        for a in range(count):
            i = index[a]
            for j in range(d):
                out[j] = fma(u[a], A[i, j], out[j])
        into = z if few else w
        for a in range(count):
            into[index[a]] = u[a]
        violated = 0
        f = 0
        for i in range(d):
            bad = not (z[i] >= -tol * z_max if firing[i] else w[i] >= -tol * c_sum)  # so is what is no number
            z[i] = max(z[i], z.dtype.type(0)) if firing[i] else z.dtype.type(0)
            violated += bad
            firing[i] ^= bad
            f += firing[i]
        if violated == 0:
            return 1 if few else 2
    return 0


@hot
def accepted(eps):
    """The residual that is accepted."""
    return eps * (ACCEPTED_SINGLE if eps > 1e-10 else ACCEPTED)


@hot
def _residual(M, c, c_sum, z, ws):
    """ws.w <- c - M z where neurons fire, or where it is positive and they should; returns its size over that of its terms."""
    d = c.shape[0]
    w = ws.w
    zero = c.dtype.type(0)
    size = zero
    largest = zero
    worst = zero
    for i in range(d):
        s = c[i] - dot(M, i, z)
        if not z[i] > 0:
            s = max(s, zero)
        w[i] = s
        worst = max(worst, abs(s))
        size += abs(z[i])
        largest = max(largest, M[i, i])
    total = c_sum + largest * size
    return worst / total if total > 0 else worst


@cold
def _refine(dynamics, M, H, c, c_sum, z, ws):
    """Two corrections of z with the residual in ws.w, the firing neurons given; False if that is not enough."""
    d = c.shape[0]
    index, free, u, w = ws.chosen, ws.free, ws.u, ws.w
    for _ in range(2):
        g = 0
        for i in range(d):
            if not z[i] > 0:
                index[g] = i
                g += 1
                w[i] = 0
        for i in range(d):
            free[i] = dot(H, i, w)
        for i in range(d):
            w[i] = -free[i]
        if not solve_firing(dynamics, H, 0.0, w, index, g, ws):
            return False
        for a in range(g):
            i = index[a]
            for j in range(d):
                free[j] = fma(u[a], H[i, j], free[j])
        for a in range(g):
            free[index[a]] = 0
        for i in range(d):
            z[i] = max(z[i] + free[i], 0.0)
        if _residual(M, c, c_sum, z, ws) <= accepted(dynamics.eps):
            return True
    return False


@hot
def settle_exactly(dynamics, M, H, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary."""
    c_sum = _unrectified(H, c, ws)
    if not c_sum < np.inf:
        overflow(z)
        return
    found = _rectify(dynamics, M, H, c, c_sum, z, ws)
    if found == 1:
        return
    if found == 2:
        if _residual(M, c, c_sum, z, ws) <= accepted(dynamics.eps):
            return
        if _refine(dynamics, M, H, c, c_sum, z, ws):
            return
    complementary(dynamics, M, c, z, ws)


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
    settle_exactly(dynamics, W_zz, H, c, z, ws)


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
        _forget(H)
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
    """Settle y >= 0 and n = W_yn y under connections through interneurons; M = W_ny W_yn, H its inverse."""


@generic
def follow_interneurons(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    """M and H after W_ny <- W_ny + eta (dy dn' - W_ny) and W_yn <- W_yn + eta (dn dy' - W_yn); W are those before it.

    With s = (1 - eta)^2, p = W_ny dn and q = W_yn' dn,

        M <- s M + eta (1 - eta) (p dy' + dy q') + eta^2 |dn|^2 dy dy'
    """


@generic
def refresh_interneurons(dynamics, W_yn, W_ny, M, H, t, changed):
    """M and H anew where a guard changed the weights, and every 1000 samples."""


@refresh_interneurons.register(Exact)
@refresh_interneurons.register(ExactAsymmetric)
@refresh_interneurons.register(ProjectedGradient)
def _refresh_interneurons(dynamics, W_yn, W_ny, M, H, t, changed):
    if changed or t % REFRESH == 0:
        multiply(W_ny, W_yn, M)
        invert(M, H)


@cold
def multiply(W_ny, W_yn, M):
    """M <- W_ny W_yn."""
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0
        for p in range(W_yn.shape[0]):
            w = W_ny[i, p]
            for j in range(M.shape[1]):
                M[i, j] = fma(w, W_yn[p, j], M[i, j])


@settle_interneurons.register(Exact)
def _interneurons_exact(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    settle_exactly(dynamics, M, H, c, y, ws)
    apply(W_yn, y, n)


@settle_interneurons.register(ExactAsymmetric)
def _interneurons_asymmetric(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    complementary(dynamics, M, c, y, ws)
    apply(W_yn, y, n)


@follow_interneurons.register(Exact)
def _follow_symmetric(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    # M <- s M + b dy' + dy b'; in H by Woodbury's formula for the two vectors.
    d = y.shape[0]
    b, dy, Hb, Hdy = ws.free, ws.w, ws.u, ws.v
    eta = M.dtype.type(eta)
    one = M.dtype.type(1)
    s = (one - eta) * (one - eta)
    size = M.dtype.type(0)
    for i in range(d):
        b[i] = 0
    for p in range(n.shape[0]):
        dn = n[p] - n_bar[p]
        size = fma(dn, dn, size)
        for i in range(d):
            b[i] = fma(dn, W_yn[p, i], b[i])
    mixed = eta * (one - eta)
    square = eta * eta * size * M.dtype.type(0.5)
    for i in range(d):
        dy[i] = y[i] - y_bar[i]
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
        _forget(H)
    for i in range(d):
        for j in range(d):
            M[i, j] = fma(s, M[i, j], b[i] * dy[j] + dy[i] * b[j])


@follow_interneurons.register(ExactAsymmetric)
@follow_interneurons.register(ProjectedGradient)
def _follow_asymmetric(dynamics, W_yn, W_ny, M, H, eta, y, y_bar, n, n_bar, ws):
    d = y.shape[0]
    a, b, dy = ws.u, ws.free, ws.w
    eta = M.dtype.type(eta)
    one = M.dtype.type(1)
    s = (one - eta) * (one - eta)
    size = M.dtype.type(0)
    for p in range(n.shape[0]):
        size += (n[p] - n_bar[p]) * (n[p] - n_bar[p])
    mixed = eta * (one - eta)
    square = eta * eta * size
    for i in range(d):
        dy[i] = y[i] - y_bar[i]
        v = W_ny[i, 0] * (n[0] - n_bar[0])
        w = W_yn[0, i] * (n[0] - n_bar[0])
        for p in range(1, n.shape[0]):
            v += W_ny[i, p] * (n[p] - n_bar[p])
            w += W_yn[p, i] * (n[p] - n_bar[p])
        b[i] = mixed * v + square * dy[i]
        a[i] = mixed * w
    for i in range(d):
        for j in range(d):
            M[i, j] = fma(s, M[i, j], fma(b[i], dy[j], dy[i] * a[j]))


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
