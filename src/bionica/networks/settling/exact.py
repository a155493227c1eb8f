"""The exact fixed point of the neural dynamics, with the inverse of the lateral weights at hand.

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

which for symmetric M is the optimum of min_{z >= 0} z'Mz/2 - c'z. With H = M^-1 and G the silent neurons

    z = H c + H_{:,G} w_G      H_GG w_G = -(H c)_G

What has to be factorised is H_GG or, if fewer neurons fire than are silent, M over the firing neurons. The first guess of G are the
neurons with (H c)_i < 0; neurons that violate their condition are exchanged. A solution found with H is checked against M and, if H
has lost digits, refined; if that does not help, block principal pivoting on M takes over (see `pivoting`).

A network keeps H from sample to sample by rank-one and rank-two updates (Sherman, Morrison and Woodbury), and recomputes it every
1000 samples. The updates are symmetric in i and j: an antisymmetric part would grow with every sample.
"""

import math

import numpy as np

from ..generic import cold, hot
from ..plasticity import absolute_sum, dot
from .pivoting import complementary, overflow, solve_firing

#: H is recomputed every so many samples.
REFRESH = 1000
#: Exchanges of silent and firing neurons before pivoting on M takes over.
EXCHANGES = 12
#: Accepted residual of M z = c over the size of its terms, in rounding units: 1e-12 in float64, 3e-5 in float32.
ACCEPTED = 4096
ACCEPTED_SINGLE = 256


# ---------------------------------------------------------------------------------------------- the inverse


def inverse(M: np.ndarray) -> np.ndarray:
    """M^-1 for a new state and symmetric M; zeros if M is singular, and then pivoting does the work."""
    with np.errstate(all="ignore"):
        try:
            H = np.linalg.inv(M.astype(np.float64))
        except np.linalg.LinAlgError:
            H = np.full(M.shape, np.nan)
        H = (0.5 * (H + H.T)).astype(M.dtype)
    return H if np.isfinite(H).all() else np.zeros_like(M)


@cold
def forget(H):
    """H <- 0: pivoting does the work until H is recomputed."""
    for i in range(H.shape[0]):
        for j in range(H.shape[1]):
            H[i, j] = 0


@cold
def invert(M, H):
    """H <- M^-1 for symmetric M, by Gauss-Jordan elimination; zeros if a pivot is lost."""
    d = M.shape[0]
    for i in range(d):
        for j in range(d):
            H[i, j] = M[i, j]
    for p in range(d):
        pivot = H[p, p]
        if not abs(pivot) > 1e-14 * abs(M[p, p]):
            forget(H)
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
                    H[i, j] -= s * H[p, j]
    for i in range(d):
        for j in range(i):
            H[j, i] = H[i, j]


@hot
def refresh_inverse(M, H, t, changed):
    """Recompute H if a guard changed M, and every 1000 samples."""
    if changed or t % REFRESH == 0:
        invert(M, H)


@hot
def follow_outer(H, rate, z, ws):
    """H after M <- M + rate (z z' - M)."""
    d = z.shape[0]
    g = ws.free
    rate = H.dtype.type(rate)
    q = H.dtype.type(0)
    for i in range(d):
        g[i] = dot(H, i, z)
        q += g[i] * z[i]
    follow_scaled(H, rate, g, q)


@hot
def follow_scaled(H, rate, g, q):
    """H after M <- M + rate (z z' - M), given g = H z, which is overwritten, and q = z'H z."""
    d = g.shape[0]
    if not (rate < 1 and q >= 0):
        forget(H)
        return
    one = H.dtype.type(1)
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
    """H after M <- s M + b a' + a b', by Woodbury's formula for the two vectors; overwrites ws.u and ws.v."""
    d = a.shape[0]
    Hb, Ha = ws.u, ws.v
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
        forget(H)
        return
    grow = one / s
    if aa > 1e-12:
        f = math.sqrt(aa * grow / (ba * ba - bb * aa))
        e = one / math.sqrt(s * aa)
        for i in range(d):
            Hb[i] = f * (Hb[i] - ba / aa * Ha[i])
            Ha[i] *= e
    else:  # a is zero to rounding
        for i in range(d):
            Hb[i] = 0
            Ha[i] = 0
    for i in range(d):
        f = Hb[i]
        e = Ha[i]
        for j in range(d):
            H[i, j] = grow * H[i, j] + (f * Hb[j] - e * Ha[j])


# ---------------------------------------------------------------------------------------------- the fixed point


@hot
def _rectify(dynamics, M, H, c, c_sum, z, ws):
    """z >= 0 by exchanges from ws.free = H c. Returns 1 if z was found with M, 2 if with H, 0 if exchanges do not end soon."""
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
                out[j] += u[a] * A[i, j]
        into = z if few else w
        for a in range(count):
            into[index[a]] = u[a]
        violated = 0
        f = 0
        for i in range(d):
            bad = not (z[i] >= -tol * z_max if firing[i] else w[i] >= -tol * c_sum)  # also true for NaN
            z[i] = max(z[i], z.dtype.type(0)) if firing[i] else z.dtype.type(0)
            violated += bad
            firing[i] ^= bad
            f += firing[i]
        if violated == 0:
            return 1 if few else 2
    return 0


@hot
def accepted(eps, worst, c_sum, reach):
    """Whether a residual is small beside the terms of c - M z, whose sizes are c_sum and `reach`.

    An M that is invertible in this precision never makes a `reach` of more than c_sum / eps out of c.
    """
    bound = eps * (ACCEPTED_SINGLE if eps > 1e-10 else ACCEPTED)
    return eps * reach <= c_sum and worst <= bound * (c_sum + reach)


@hot
def _settled(eps, M, c, c_sum, z, ws):
    """ws.w <- c - M z for firing neurons, and for silent ones that should fire; whether it is small beside its terms."""
    w = ws.w
    zero = c.dtype.type(0)
    worst = zero
    for i in range(c.shape[0]):
        w[i] = c[i] - dot(M, i, z)
        if not z[i] > 0:
            w[i] = max(w[i], zero)
        worst = max(worst, abs(w[i]))
    eps = c.dtype.type(eps)
    if accepted(eps, worst, c_sum, zero):
        return True
    largest = zero
    for i in range(c.shape[0]):
        largest = max(largest, M[i, i])
    return accepted(eps, worst, c_sum, largest * absolute_sum(z))


@cold
def _refine(dynamics, M, H, c, c_sum, z, ws):
    """Two corrections of z with the residual in ws.w and the firing neurons as they are; False if that is not enough."""
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
                free[j] += u[a] * H[i, j]
        for a in range(g):
            free[index[a]] = 0
        for i in range(d):
            z[i] = max(z[i] + free[i], 0.0)
        if _settled(dynamics.eps, M, c, c_sum, z, ws):
            return True
    return False


@hot
def settle_exactly(dynamics, M, H, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary; infinite if c is not finite."""
    c_sum = c.dtype.type(0)
    for i in range(c.shape[0]):
        ws.free[i] = dot(H, i, c)
        c_sum += abs(c[i])
    if not c_sum < np.inf:
        overflow(z)
        return
    found = _rectify(dynamics, M, H, c, c_sum, z, ws)
    if found == 1:
        return
    if found == 2 and (_settled(dynamics.eps, M, c, c_sum, z, ws) or _refine(dynamics, M, H, c, c_sum, z, ws)):
        return
    complementary(dynamics, M, c, z, ws)
