"""The exact fixed point, with the inverse of the lateral weights at hand.

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

which for symmetric M is the optimum of min_{z >= 0} z'Mz/2 - c'z. With H = M^-1 and G the silent neurons

    z = H c + H_{:,G} w_G      H_GG w_G = -(H c)_G

and what has to be factorised is H_GG or, where that costs less, M over the firing neurons. The first G are the neurons with
(H c)_i < 0; those that violate their condition are exchanged. What was found in H is checked against M itself and, if H has lost
digits, refined; where that does not help, block principal pivoting on M takes over (see `pivoting`).
"""

import numpy as np

from ..generic import cold, fma, hot
from ..plasticity import dot, size
from .connections import fewer, largest, make_rows, make_whole, remain
from .pivoting import complementary, overflow, solve_firing

#: Exchanges of silent and firing neurons before pivoting on M takes over.
EXCHANGES = 12
#: Accepted residual of M z = c over the size of its terms, in rounding units: 1e-12 in double precision, 3e-5 in single.
ACCEPTED = 4096
ACCEPTED_SINGLE = 256


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
def forget(H):
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
                    H[i, j] = fma(-s, H[p, j], H[i, j])
    for i in range(d):
        for j in range(i):
            H[j, i] = H[i, j]


@hot
def _unrectified(H, c, ws):
    """ws.free <- H c; returns the sum of |c_i|, finite only if every c_i is."""
    c_sum = c.dtype.type(0)
    for i in range(c.shape[0]):
        ws.free[i] = dot(H, i, c)
        c_sum += abs(c[i])
    return c_sum


@hot
def _rectify(dynamics, lateral, H, c, c_sum, z, ws):
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
        few = fewer(lateral, f, d)
        a = 0
        for i in range(d):
            index[a] = i
            a += firing[i] == few
        for i in range(d):
            z[i] = z.dtype.type(0) if few else free[i]
            w[i] = c[i] if few else -free[i]
        A = lateral.M if few else H
        count = f if few else d - f
        if few:
            make_rows(lateral, index, f)
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
def accepted(eps, worst, c_sum, reach):
    """Whether a residual is small beside the terms of c - M z, whose sizes are c_sum and `reach`.

    A `reach` of more than c_sum / eps is nothing that an M with an inverse in this precision makes of c.
    """
    bound = eps * (ACCEPTED_SINGLE if eps > 1e-10 else ACCEPTED)
    return eps * reach <= c_sum and worst <= bound * (c_sum + reach)


@hot
def _settled(eps, lateral, c, c_sum, z, ws):
    """ws.w <- c - M z where neurons fire, or where it is positive and they should; whether that is small beside its terms."""
    w = ws.w
    zero = c.dtype.type(0)
    remain(lateral, z, c, w)
    worst = zero
    for i in range(c.shape[0]):
        if not z[i] > 0:
            w[i] = max(w[i], zero)
        worst = max(worst, abs(w[i]))
    eps = c.dtype.type(eps)
    return accepted(eps, worst, c_sum, zero) or accepted(eps, worst, c_sum, largest(lateral) * size(z))


@cold
def _refine(dynamics, lateral, H, c, c_sum, z, ws):
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
        if _settled(dynamics.eps, lateral, c, c_sum, z, ws):
            return True
    return False


@hot
def settle_exactly(dynamics, lateral, H, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary; returns whether z came through `connections.remain` last."""
    c_sum = _unrectified(H, c, ws)
    if not c_sum < np.inf:
        overflow(z)
        return False
    found = _rectify(dynamics, lateral, H, c, c_sum, z, ws)
    if found == 1:
        return False
    if found == 2:
        if _settled(dynamics.eps, lateral, c, c_sum, z, ws):
            return True
        if _refine(dynamics, lateral, H, c, c_sum, z, ws):
            return True
    make_whole(lateral)
    complementary(dynamics, lateral.M, c, z, ws)
    return False
