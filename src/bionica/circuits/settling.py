"""How neurons settle, given their weights and their feedforward input c; and how the
inverse follows as the weights learn.

The first argument of `settle_lateral` and `settle_interneurons` says how.

*`ProjectedGradient`*, the paper's iterations, from rest until convergence: direct
lateral connections (Algorithm 2, eq. 15), and connections through interneurons
(Algorithm 1, eq. 9).

    z <- [z + gamma (c - W_zz z)]_+
    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)

A gamma of 0 stands for a safe step: 1/tr(W_zz), or min(1, (|W_ny| |W_yn|)^-1/2) with
Frobenius norms. In a direction where M = W_ny W_yn has the eigenvalue lambda, (9) is
stable if gamma^2 lambda < 4 - 2 gamma, and the error shrinks by about 1 - gamma lambda
where that is small: a nearly singular M needs many steps.

*`Exact`*, the fixed point itself for symmetric M = W_zz or W_ny W_yn: the minimum of
z'Mz/2 - c'z over z >= 0, where

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

The firing neurons are found by exchanging every neuron that violates its condition
(block principal pivoting, Judice and Pires 1994; Kim and Park 2011); when that stops
helping, one neuron at a time (Murty's rule), which is finite for every positive
definite M. With H = M^-1 and G the silent neurons

    M_ff z_f = c_f      or      z = H c + H_{:,G} w_G,  H_GG w_G = -(H c)_G

What is factorised (LDL') is the smaller of the two matrices. The first guess is that
neurons with (H c)_i >= 0 fire. A solution with H is checked against M; if H has lost
digits, M alone serves. Networks that started with W_ny != W_yn' (appendix B) iterate.

A network keeps H by rank-one and rank-two updates (Sherman, Morrison and Woodbury),
symmetric in i and j: an antisymmetric part would grow with every sample. It is
recomputed every 1000 samples.

*Beyond the paper.* A nearly singular M (a pivot lost to rounding) gets a multiple of
the identity added: 1e3 eps times the mean of its diagonal, then 100 times more at each
try. Each such sample is counted in `repairs_["regularised"]`.
"""

import math
from typing import NamedTuple

import numpy as np

from bionica.engine.algebra import absolute_sum, apply, dot, dot_vectors
from bionica.engine.rule import REGULARISED, UNSETTLED, cold, generic, hot

#: H is recomputed every so many samples.
REFRESH = 1000
#: Exchanges before an H that lost digits is given up.
EXCHANGES = 12
#: Accepted violation of a condition over the size of its terms, in rounding units:
#: 6e-14 in float64, 3e-5 in float32.
ACCEPTED = 256


# --- gradient


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative
    to the input.
    """

    gamma: float
    tol: float
    max_iter: int


@hot
def iterate(dynamics, gamma, W_ny, W_yn, c, y, n, ws):
    """Settle y >= 0 and the interneurons n; without interneurons n is y, and W_yn has
    no rows.
    """
    c_max = 0.0
    for i in range(y.shape[0]):
        c_max = max(c_max, abs(c[i]))
    y[:] = 0
    n[:] = 0
    for _ in range(dynamics.max_iter):
        for i in range(y.shape[0]):
            ws.w[i] = c[i] - dot(W_ny, i, n)
        change_y = 0.0
        for i in range(y.shape[0]):
            new = max(y[i] + gamma * ws.w[i], 0.0)
            change_y = max(change_y, abs(new - y[i]))
            y[i] = new
        change_n = 0.0
        n_max = 0.0
        for p in range(W_yn.shape[0]):
            step = gamma * (dot(W_yn, p, y) - n[p])
            n[p] += step
            change_n = max(change_n, abs(step))
            n_max = max(n_max, abs(n[p]))
        if (
            change_y <= dynamics.tol * gamma * c_max
            and change_n <= dynamics.tol * gamma * n_max
        ):
            return
    ws.events[UNSETTLED] += 1


@generic
def settle_lateral(dynamics, M, H, c, z, ws, rectified):
    """Settle z (>= 0 if `rectified`; otherwise only exactly) under direct lateral
    connections M, whose inverse is H: eq. 15, or exactly.
    """
    gamma = dynamics.gamma
    if gamma == 0:
        trace = 0.0
        for i in range(c.shape[0]):
            trace += M[i, i]
        gamma = 1 / max(trace, 1e-30)
    iterate(dynamics, gamma, M, M[:0], c, z, z, ws)


@generic
def settle_interneurons(dynamics, W_yn, W_ny, M, H, c, y, n, ws, rectified):
    """Settle y (>= 0 if `rectified`) and n = W_yn y under connections through
    interneurons; M = W_ny W_yn, H its inverse: eq. 9, or exactly.
    """
    gamma = dynamics.gamma
    if gamma == 0:
        yn = 0.0
        ny = 0.0
        for i in range(W_ny.shape[0]):
            for p in range(W_ny.shape[1]):
                yn += W_yn[p, i] * W_yn[p, i]
                ny += W_ny[i, p] * W_ny[i, p]
        gamma = 1 / max(math.sqrt(math.sqrt(yn * ny)), 1.0)
    iterate(dynamics, gamma, W_ny, W_yn, c, y, n, ws)


# --- exact


class Exact(NamedTuple):
    """Settle exactly; `eps` is the rounding unit of the network's numbers."""

    eps: float


@hot
def solve_firing(eps, M, shift, c, index, f, ws):
    """Solve (M + shift I) u = c over the f neurons in `index`, u in ws.u; False if a
    pivot is lost to rounding.
    """
    L = ws.L
    u = ws.u
    floor = 8 * eps * f
    # L D L' without square roots; L[a, a] = 1/D_a. Row a is kept times D until it is
    # complete.
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


@hot
def _exchange(dynamics, M, H, shift, c, z, ws, rounds, inverse, rectified):
    """Solve for z by exchanges from ws.firing; with H, and ws.free = H c, only if
    `inverse`. False if they do not end soon.

    Written without branches on who fires: that is a coin toss, and a branch
    mispredicted costs more than a product.
    """
    d = c.shape[0]
    firing = ws.firing
    w = ws.w
    tol = c.dtype.type(-ACCEPTED * dynamics.eps)
    c_sum = absolute_sum(c)
    if not c_sum < np.inf:
        return False
    largest = c.dtype.type(0)
    f = 0
    for i in range(d):
        largest = max(largest, M[i, i])
        f += firing[i]
    fewest = d + 1
    patience = 3
    for _ in range(rounds):
        with_M = not inverse or 2 * f < d
        if not _solve_chosen(dynamics.eps, M, H, shift, c, z, ws, with_M):
            return False
        slack = tol * (c_sum + largest * absolute_sum(z))
        violated, last = _rectify(M, z, ws, slack, rectified)
        if violated == 0:
            return with_M or _settled(dynamics.eps, M, c, c_sum, z, rectified)
        patience = 3 if violated < fewest else patience - 1
        fewest = min(fewest, violated)
        f = 0
        for i in range(d):  # all that are violated, or the last one only
            firing[i] ^= not w[i] >= slack and (patience >= 0 or i == last)
            f += firing[i]
    return False


@hot
def _solve_chosen(eps, M, H, shift, c, z, ws, with_M):
    """Solve for z of the firing neurons with M, or for w of the silent ones with H; z
    and ws.w of all follow. False if a pivot is lost to rounding.
    """
    d = c.shape[0]
    firing = ws.firing
    index = ws.chosen
    free = ws.free
    u = ws.u
    w = ws.w
    zero = c.dtype.type(0)
    n = 0
    for i in range(d):
        index[n] = i
        n += firing[i] == with_M
    for i in range(d):
        z[i] = zero if with_M else free[i]
        w[i] = c[i] if with_M else -free[i]
    A = M if with_M else H
    if not solve_firing(eps, A, shift, w, index, n, ws):
        return False
    for i in range(d):
        w[i] = -c[i] if with_M else w[i]
    out = w if with_M else z
    for a in range(n):
        i = index[a]
        for j in range(d):
            out[j] += u[a] * A[i, j]
    into = z if with_M else w
    for a in range(n):
        into[index[a]] = u[a]
    return True


@hot
def _rectify(M, z, ws, slack, rectified):
    """Set z to 0 for silent neurons, and ws.w to z_i M_ii for firing ones; returns how
    many neurons violate their condition, and the last of them.
    """
    firing = ws.firing
    w = ws.w
    zero = z.dtype.type(0)
    violated = 0
    last = 0
    for i in range(z.shape[0]):
        w[i] = z[i] * M[i, i] if firing[i] else w[i]
        bad = rectified and not w[i] >= slack  # also true for NaN
        activity = max(z[i], zero) if rectified else z[i]
        z[i] = activity if firing[i] else zero
        violated += bad
        last = i if bad else last
    return violated, last


@hot
def _settled(eps, M, c, c_sum, z, rectified):
    """Whether c - M z is small beside its terms; if `rectified`, for firing neurons,
    and for silent ones that should fire.

    The terms have the sizes c_sum and `reach`. An M that is invertible in this
    precision never makes a `reach` of more than c_sum / eps out of c.
    """
    worst = c.dtype.type(0)
    largest = c.dtype.type(0)
    for i in range(c.shape[0]):
        w = c[i] - dot(M, i, z)
        if rectified and not z[i] > 0:
            w = max(w, c.dtype.type(0))
        worst = max(worst, abs(w))
        largest = max(largest, M[i, i])
    eps = c.dtype.type(eps)
    if worst <= ACCEPTED * eps * c_sum:
        return True
    reach = largest * absolute_sum(z)
    return eps * reach <= c_sum and worst <= ACCEPTED * eps * (c_sum + reach)


@cold
def pivot(dynamics, M, c, z, ws, rectified):
    """Solve for z by M alone; infinite if c is, or if M is too near to singular."""
    d = c.shape[0]
    shift = 0.0
    for _ in range(9 if absolute_sum(c) < np.inf else 0):
        if not rectified:
            ws.firing[:] = True
        if _exchange(dynamics, M, M, shift, c, z, ws, 60 + 10 * d, False, rectified):
            return
        ws.events[REGULARISED] += shift == 0
        mean = 0.0
        for i in range(d):
            mean += abs(M[i, i]) / d
        ws.firing[:] = False
        shift = 100 * shift if shift > 0 else 1e3 * dynamics.eps * mean
    z[:] = np.inf


@settle_lateral.register(Exact)
def settle_exactly(dynamics, M, H, c, z, ws, rectified):
    """M z = c; if `rectified`, z >= 0 with M z - c >= 0 and complementary.

    Infinite if c is not finite.
    """
    apply(H, c, ws.free)
    for i in range(c.shape[0]):
        ws.firing[i] = ws.free[i] >= 0
        z[i] = ws.free[i]
    if rectified:
        settled = _exchange(dynamics, M, H, 0.0, c, z, ws, EXCHANGES, True, True)
    else:
        c_sum = absolute_sum(c)
        settled = c_sum < np.inf and _settled(dynamics.eps, M, c, c_sum, z, False)
    if not settled:
        pivot(dynamics, M, c, z, ws, rectified)


@settle_interneurons.register(Exact)
def _settle_interneurons_exact(dynamics, W_yn, W_ny, M, H, c, y, n, ws, rectified):
    settle_lateral(dynamics, M, H, c, y, ws, rectified)
    apply(W_yn, y, n)


# --- the inverse follows


@cold
def invalidate(H):
    """Mark the inverse as stale, H <- 0: neurons settle by pivoting until it is
    recomputed.
    """
    H[:] = 0


@cold
def invert(M, H):
    """H <- M^-1 for symmetric M, by Gauss-Jordan elimination; 0 if a pivot is lost."""
    d = M.shape[0]
    for i in range(d):
        for j in range(d):
            H[i, j] = M[i, j]
    for p in range(d):
        if not abs(H[p, p]) > 1e-14 * abs(M[p, p]):
            invalidate(H)
            return
        _eliminate(H, p)
    for i in range(d):
        for j in range(i):
            H[j, i] = H[i, j]


@cold
def _eliminate(H, p):
    """One step of Gauss-Jordan elimination."""
    d = H.shape[0]
    pivot = 1 / H[p, p]
    H[p, p] = 1
    for j in range(d):
        H[p, j] *= pivot
    for i in range(d):
        if i != p:
            s = H[i, p]
            H[i, p] = 0
            for j in range(d):
                H[i, j] -= s * H[p, j]


@generic
def follow_lateral(dynamics, H, rate, z, ws):
    """H after M <- M + rate (z z' - M), if `dynamics` reads H."""


@follow_lateral.register(Exact)
def _follow_outer(dynamics, H, rate, z, ws):
    d = z.shape[0]
    g = ws.free
    rate = H.dtype.type(rate)
    one = H.dtype.type(1)
    q = H.dtype.type(0)
    for i in range(d):
        g[i] = dot(H, i, z)
        q += g[i] * z[i]
    if not (rate < 1 and q >= 0):
        invalidate(H)
        return
    grow = one / (one - rate)
    f = math.sqrt(rate * grow / (one - rate + rate * q))
    for i in range(d):
        g[i] *= f
    for i in range(d):
        f = g[i]
        for j in range(d):
            H[i, j] = grow * H[i, j] - f * g[j]


@hot
def follow_symmetric(H, s, b, a, ws):
    """H after M <- s M + b a' + a b', by Woodbury's formula for the two vectors;
    overwrites ws.u and ws.v.
    """
    d = a.shape[0]
    Hb = ws.u
    Ha = ws.v
    one = H.dtype.type(1)
    bb = H.dtype.type(0)
    ba = s
    aa = H.dtype.type(0)
    for i in range(d):
        Hb[i] = dot(H, i, b)
        Ha[i] = dot(H, i, a)
        bb += Hb[i] * b[i]
        ba += Ha[i] * b[i]
        aa += Ha[i] * a[i]
    if not (s > 0 and ba * ba > bb * aa):
        invalidate(H)
        return
    grow = one / s
    if aa > 1e-12:
        f = math.sqrt(aa * grow / (ba * ba - bb * aa))
        e = one / math.sqrt(s * aa)
        for i in range(d):
            Hb[i] = f * (Hb[i] - ba / aa * Ha[i])
            Ha[i] *= e
    else:  # a is zero to rounding
        Hb[:] = 0
        Ha[:] = 0
    for i in range(d):
        f = Hb[i]
        e = Ha[i]
        for j in range(d):
            H[i, j] = grow * H[i, j] + (f * Hb[j] - e * Ha[j])


@generic
def follow_interneurons(dynamics, M, H, eta, p, dy, dn, ws):
    """M after W_yn <- W_yn + eta (dn dy' - W_yn) and W_ny = W_yn', where p = W_ny dn of
    the new weights; p changes. H follows if `dynamics` reads it.
    """
    follow_product(M, eta, p, dy, dn)


@follow_interneurons.register(Exact)
def _follow_interneurons_exact(dynamics, M, H, eta, p, dy, dn, ws):
    s = follow_product(M, eta, p, dy, dn)
    follow_symmetric(H, s, p, dy, ws)


@hot
def follow_product(M, eta, p, dy, dn):
    """M <- s M + eta (p dy' + dy p') - eta^2 |dn|^2 dy dy', as s M + p dy' + dy p' with
    p after the call; returns s.
    """
    d = dy.shape[0]
    eta = M.dtype.type(eta)
    rest = M.dtype.type(1) - eta
    half = eta * eta * dot_vectors(dn, dn) * M.dtype.type(0.5)
    for i in range(d):
        p[i] = eta * p[i] - half * dy[i]
    s = rest * rest
    for i in range(d):
        a = p[i]
        b = dy[i]
        for j in range(d):
            M[i, j] = s * M[i, j] + (a * dy[j] + b * p[j])
    return s
