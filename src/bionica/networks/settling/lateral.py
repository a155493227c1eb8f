"""How neurons settle, given their weights and their feedforward input c; and how the inverse follows as the weights learn.

The first argument says how: `Exact` solves for the fixed point (see `exact`), `ProjectedGradient` runs the paper's iteration (see
`gradient`). `ExactAsymmetric` is for networks that started with W_ny != W_yn' (appendix B): their M = W_ny W_yn is not symmetric,
and the solver pivots on M.
"""

from ..generic import generic, hot
from ..plasticity import apply
from .exact import follow_outer, follow_symmetric, settle_exactly
from .gradient import ProjectedGradient, iterate_interneurons, iterate_lateral
from .pivoting import Exact, ExactAsymmetric, complementary

# ---------------------------------------------------------------------------------------------- direct connections


@generic
def settle_lateral(dynamics, W_zz, H, c, z, ws):
    """Settle z >= 0 under direct lateral connections W_zz, whose inverse is H."""


@generic
def follow_lateral(dynamics, H, rate, z, ws):
    """H after W_zz <- W_zz + rate (z z' - W_zz)."""


@settle_lateral.register(Exact)
def _settle_lateral_exact(dynamics, W_zz, H, c, z, ws):
    settle_exactly(dynamics, W_zz, H, c, z, ws)


@settle_lateral.register(ProjectedGradient)
def _settle_lateral_gradient(dynamics, W_zz, H, c, z, ws):
    iterate_lateral(dynamics, W_zz, c, z, ws)


@follow_lateral.register(Exact)
def _follow_lateral_exact(dynamics, H, rate, z, ws):
    follow_outer(H, rate, z, ws)


@follow_lateral.register(ProjectedGradient)
def _follow_lateral_gradient(dynamics, H, rate, z, ws):
    pass  # nobody reads H


# ---------------------------------------------------------------------------------------------- interneurons


@generic
def settle_interneurons(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    """Settle y >= 0 and n = W_yn y under connections through interneurons; M = W_ny W_yn, H its inverse."""


@generic
def follow_interneurons(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    """M and H after W_yn <- W_yn + eta (dn dy' - W_yn) and W_ny <- W_ny + eta (dy dn' - W_ny).

    With s = (1 - eta)^2, p = W_ny dn and q = W_yn' dn of the weights before, of which p and W_yn are given,

        M <- s M + eta (1 - eta) (p dy' + dy q') + eta^2 |dn|^2 dy dy'
    """


@settle_interneurons.register(Exact)
def _settle_interneurons_exact(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    settle_exactly(dynamics, M, H, c, y, ws)
    apply(W_yn, y, n)


@settle_interneurons.register(ExactAsymmetric)
def _settle_interneurons_asymmetric(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    complementary(dynamics, M, c, y, ws)
    apply(W_yn, y, n)


@settle_interneurons.register(ProjectedGradient)
def _settle_interneurons_gradient(dynamics, W_yn, W_ny, M, H, c, y, n, ws):
    iterate_interneurons(dynamics, W_yn, W_ny, c, y, n, ws, True)


@follow_interneurons.register(Exact)
def _follow_interneurons_exact(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    s = follow_product(M, eta, p, p, dy, dn)  # q is p
    follow_symmetric(H, s, p, dy, ws)


@follow_interneurons.register(ExactAsymmetric)
@follow_interneurons.register(ProjectedGradient)
def _follow_interneurons_asymmetric(dynamics, W_yn, M, H, eta, p, dy, dn, ws):
    q = ws.free
    for i in range(q.shape[0]):
        q[i] = 0
    for a in range(dn.shape[0]):
        for i in range(q.shape[0]):
            q[i] += W_yn[a, i] * dn[a]
    follow_product(M, eta, p, q, dy, dn)


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
