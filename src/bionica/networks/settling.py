"""How neurons settle, given their weights and their feedforward input c; and how the inverse follows as the weights learn.

The first argument of `settle_lateral` and `settle_interneurons` says how.

*`ProjectedGradient`*, the paper's iterations, from rest until convergence. Direct lateral connections (Algorithm 2, eq. 15; the NSM
layer), and connections through interneurons (Algorithm 1, eq. 9; without the [.]_+ the whitening layer):

    z <- [z + gamma (c - W_zz z)]_+
    y <- [y + gamma (c - W_ny n)]_+,  n <- n + gamma (W_yn y - n)

A gamma of 0 stands for the largest step that is safe by the trace: 1/tr(W_zz), or 1/(2 |W_ny| |W_yn|) with Frobenius norms.

*`Exact`*, the fixed point itself, M = W_zz or W_ny W_yn:

    z >= 0,  w = M z - c >= 0,  z_i w_i = 0

which for symmetric M is the optimum of min_{z >= 0} z'Mz/2 - c'z. With H = M^-1 and G the silent neurons

    z = H c + H_{:,G} w_G      H_GG w_G = -(H c)_G

What has to be factorised is H_GG or, if fewer neurons fire than are silent, M over the firing neurons. The first guess of G are
the neurons with (H c)_i < 0; neurons that violate their condition are exchanged. A solution with H is checked against M.

A network keeps H from sample to sample by rank-one and rank-two updates (Sherman, Morrison and Woodbury), and recomputes it every
1000 samples. The updates are symmetric in i and j: an antisymmetric part would grow with every sample.

*Block principal pivoting* on M takes over if H has lost digits. The set of firing neurons is found by exchanging every neuron that
violates its condition (Judice and Pires 1994; Kim and Park 2011); when that stops helping, one neuron at a time (Murty's rule),
which is finite for every positive definite M. Each set costs a fresh factorisation of M over it: LDL' for symmetric M, LU for
`ExactAsymmetric`, networks that started with W_ny != W_yn' (appendix B).

*Beyond the paper.* A nearly singular M (a pivot lost to rounding) gets a multiple of the identity added: first 1e3 eps, then 100
times more at each try, times the mean of M's diagonal. Each such sample is counted in `repairs_["regularised"]`.
"""

import math
from typing import NamedTuple

import numpy as np

from .plasticity import absolute_sum, apply, apply_transposed, dot
from .rule import REGULARISED, UNSETTLED, cold, generic, hot, n_repairs


@generic
def settle_lateral(dynamics, M, H, c, z, ws):
    """Settle z >= 0 under direct lateral connections M, whose inverse is H."""


@generic
def follow_lateral(dynamics, H, rate, z, ws):
    """H after M <- M + rate (z z' - M)."""


# ---------------------------------------------------------------------------------------------- gradient


class ProjectedGradient(NamedTuple):
    """Settle by the paper's iteration; gamma = 0 takes the safe step, `tol` is relative to the input."""

    gamma: float
    tol: float
    max_iter: int


@follow_lateral.register(tuple)
def _follow_nothing(dynamics, H, rate, z, ws):
    pass  # only `Exact` reads H


@settle_lateral.register(ProjectedGradient)
def iterate_lateral(dynamics, M, H, c, z, ws):
    """Eq. 15."""
    d = c.shape[0]
    gamma = dynamics.gamma
    c_max = 0.0
    trace = 0.0
    for i in range(d):
        c_max = max(c_max, abs(c[i]))
        trace += M[i, i]
        z[i] = 0
    if gamma == 0:
        gamma = 1 / max(trace, 1e-30)
    for _ in range(dynamics.max_iter):
        for i in range(d):
            ws.w[i] = c[i] - dot(M, i, z)
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


# ---------------------------------------------------------------------------------------------- pivoting


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
        u=np.zeros(d, dtype),
        w=np.zeros(d, dtype),
        free=np.zeros(d, dtype),
        v=np.zeros(d, dtype),
        M=np.zeros((d, d), dtype),
        events=np.zeros(n_repairs, np.int64) if events is None else events,
    )


# ---------------------------------------------------------------------------------------------- factorisations


@generic
def solve_firing(dynamics, M, shift, c, index, f, ws):
    """Solve (M + shift I) u = c over the f neurons in `index`, u in ws.u; False when a pivot is lost to rounding."""


@solve_firing.register(Exact)
def _ldl(dynamics, M, shift, c, index, f, ws):
    L, u = ws.L, ws.u
    floor = 8 * dynamics.eps * f
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
            shift = next_regularisation(M, shift, dynamics.eps, ws)
            for i in range(d):
                ws.firing[i] = False
    overflow(z)


@cold
def next_regularisation(M, shift, eps, ws):
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
        shift = next_regularisation(M, shift, dynamics.eps, ws)
    overflow(y)


# ---------------------------------------------------------------------------------------------- with the inverse

#: H is recomputed every so many samples.
REFRESH = 1000
#: Exchanges of silent and firing neurons before pivoting on M takes over.
EXCHANGES = 12
#: Accepted residual of M z = c over the size of its terms, in rounding units: 1e-12 in float64, 3e-5 in float32.
ACCEPTED = 4096
ACCEPTED_SINGLE = 256


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


@follow_lateral.register(Exact)
def follow_outer(dynamics, H, rate, z, ws):
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
def _settled(eps, M, c, c_sum, z, rectified):
    """Whether c - M z is small beside its terms; if `rectified`, for firing neurons, and for silent ones that should fire.

    The terms have the sizes c_sum and `reach`. An M that is invertible in this precision never makes a `reach` of more than
    c_sum / eps out of c.
    """
    zero = c.dtype.type(0)
    worst = zero
    largest = zero
    for i in range(c.shape[0]):
        w = c[i] - dot(M, i, z)
        if rectified and not z[i] > 0:
            w = max(w, zero)
        worst = max(worst, abs(w))
        largest = max(largest, M[i, i])
    eps = c.dtype.type(eps)
    bound = eps * (ACCEPTED_SINGLE if eps > 1e-10 else ACCEPTED)
    if worst <= bound * c_sum:
        return True
    reach = largest * absolute_sum(z)
    return eps * reach <= c_sum and worst <= bound * (c_sum + reach)


@settle_lateral.register(Exact)
def settle_exactly(dynamics, M, H, c, z, ws):
    """z >= 0 with M z - c >= 0 and complementary; infinite if c is not finite."""
    c_sum = c.dtype.type(0)
    for i in range(c.shape[0]):
        ws.free[i] = dot(H, i, c)
        c_sum += abs(c[i])
    if not c_sum < np.inf:
        overflow(z)
        return
    with_inverse = _rectify(dynamics, M, H, c, c_sum, z, ws)
    if with_inverse == 1:
        return
    if with_inverse == 2 and _settled(dynamics.eps, M, c, c_sum, z, True):
        return
    complementary(dynamics, M, c, z, ws)


# ---------------------------------------------------------------------------------------------- interneurons


@generic
def settle_interneurons(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    """Settle y >= 0 and n = W_yn y under connections through interneurons; M = W_ny W_yn, H its inverse."""


@generic
def settle_linear(dynamics, W_hg, M, H, c, h, g, ws):
    """Settle h = M^-1 c and g = W_hg h, without rectification; M = W_hg' W_hg, H its inverse."""


@generic
def follow_interneurons(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    """M and H after W_yn <- W_yn + eta (dn dy' - W_yn) and W_ny <- W_ny + eta (dy dn' - W_ny).

    With s = (1 - eta)^2, p = W_ny dn and q = W_yn' dn of the weights before, of which p and W_yn are given,

        M <- s M + eta (1 - eta) (p dy' + dy q') + eta^2 |dn|^2 dy dy'
    """


@settle_lateral.register(ExactAsymmetric)
def _settle_asymmetric(dynamics, M, H, c, z, ws):
    complementary(dynamics, M, c, z, ws)


@settle_interneurons.register(tuple)
def _settle_interneurons_exact(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    settle_lateral(dynamics, M, H, c, y, ws)
    apply(W_yn, y, n)


@settle_interneurons.register(ProjectedGradient)
def _settle_interneurons_gradient(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    iterate_interneurons(dynamics, W_yn, W_ny, c, y, n, ws, True)


@settle_linear.register(Exact)
def _settle_linear_exact(dynamics, W_hg, M, H, c, h, g, ws):
    c_sum = absolute_sum(c)
    apply(H, c, h)
    if not c_sum < np.inf:
        overflow(h)
    elif not _settled(dynamics.eps, M, c, c_sum, h, False):
        linear(dynamics, M, c, h, ws)
    apply(W_hg, h, g)


@settle_linear.register(ProjectedGradient)
def _settle_linear_gradient(dynamics, W_hg, M, H, c, h, g, ws):
    iterate_interneurons(dynamics, W_hg, W_hg.T, c, h, g, ws, False)


@follow_interneurons.register(Exact)
def _follow_interneurons_exact(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    s = follow_product(M, eta, p, p, dy, dn)  # q is p
    follow_symmetric(H, s, p, dy, ws)


@follow_interneurons.register(tuple)
def _follow_interneurons_asymmetric(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    apply_transposed(W_yn, dn, ws.free)
    follow_product(M, eta, p, ws.free, dy, dn)


@hot
def follow_product(M, eta, p, q, dy, dn):
    """M as above, as s M + p dy' + dy q' with what p and q are after the call; returns s."""
    d = dy.shape[0]
    eta = M.dtype.type(eta)
    rest = M.dtype.type(1) - eta
    energy = M.dtype.type(0)
    for a in range(dn.shape[0]):
        energy += dn[a] * dn[a]
    half = eta * eta * energy * M.dtype.type(0.5)
    for i in range(d):
        a = eta * rest * p[i] + half * dy[i]
        b = eta * rest * q[i] + half * dy[i]
        p[i] = a
        q[i] = b
    s = rest * rest
    for i in range(d):
        a = p[i]
        b = dy[i]
        for j in range(d):
            M[i, j] = s * M[i, j] + (a * dy[j] + b * q[j])
    return s
