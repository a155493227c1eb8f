"""Guards of the natural networks, every 100 samples that were learned from; W, M, H = M^-1 and V = H W as in `natural_input`.

    silent     an output with a negative mean, V_i u_bar < 0, has its sign flipped: row i of W, row and column i of M and H
               (and column i of W_yn). V'V and the dynamics of the others stay. The averages restart
    spectrum   if the mean of q_s over the samples is below d/20, M and W are scaled down together; if an eigenvalue of M is
               about 1000 times smaller than their mean, eigenvalues below 1 % of the largest are lifted, and W <- M V: V stays.
               The covariance of u gets a floor: R <- R - f R R is (R^-1 + f I)^-1 to first order, f is 1e-6 of the weight that
               the samples had
    restart    with a horizon: the mixing has changed abruptly if the outputs of the last max(100 + 20 d, horizon/5) samples are
               unusually correlated or negative (see `changes`), or if their covariance C_s has tr(R C_s) above 10 d or below
               3e-4 d, or full rank for the first time. At the end of the next block, C_s and u_s being those of that block, the
               network keeps its rotation, and nothing else:
               R <- C_s^-1, u_bar <- u_s, V <- (V C_s V')^-1/2 V, M <- I (+ m m', m = V u_bar: Algorithm 2), n <- the length of
               the block. Blocks that do not have full rank are left out. Without a horizon the change is only reported

*Beyond the paper.* An exponential memory alone cannot follow an abrupt change: after 5 horizons 0.7 % of the old covariance is
left, and a new mixing matrix is thin by 1e3 where the old one was not (without `restart` 12 of 16 problems ended at 57 to 9270
times the clean error, with it at 0.6 to 1.1 times).
"""

import math

from .changes import correlation, is_unusual, n_past
from .generic import cold
from .guards import EVERY, RESTART, SILENT, SPECTRUM, orthogonalise_rows
from .natural_input import forgetting
from .plasticity import apply, dot, dot_rows, multiply
from .settling.exact import invert

#: tr(R C_s)/d of a change, above or below.
FAR_LARGER, LOST = 10.0, 3e-4
#: Floor of the covariance of u, which was white in the first block.
FLOOR = 1e-6
#: Largest tr(M)/d times the largest diagonal element of M^-1, and what smaller eigenvalues are lifted to as a share of the largest.
SPREAD, LIFTED = 1e3, 1e-2
#: Range of tr(M)/d.
SMALLEST, LARGEST = 1e-6, 1e6
#: The least mean of q_s/d.
QUIET = 0.05


@cold
def is_due(inp):
    """Whether 100 samples were learned from since the guards last looked."""
    return inp.recent[1] >= EVERY


@cold
def quiet_scale(inp, d):
    """What M is to be multiplied with; 1 if it is not too large for the outputs. The count of samples restarts."""
    size = inp.recent[0] / (inp.recent[1] * d)
    inp.recent[0] = 0
    inp.recent[1] = 0
    return max(size, 0.01) if 0 < size < QUIET else 1.0


@cold
def scale_matrix(W, factor):
    """W <- factor W."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[i, j] *= factor


@cold
def copy_matrix(W, mean):
    """mean <- W."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            mean[i, j] = W[i, j]


@cold
def floor_covariance(inp, horizon, A):
    """R <- R - f R R; A is a scratch matrix."""
    R = inp.R
    trace = 0.0
    for i in range(R.shape[0]):
        trace += R[i, i]
    f = FLOOR * EVERY * forgetting(inp.n[0], horizon)
    f = min(f, 0.5 / trace) if trace > 0 else 0.0
    for i in range(R.shape[0]):
        for j in range(i + 1):
            A[i, j] = dot_rows(R, i, R, j, R.shape[0])
    for i in range(R.shape[0]):
        for j in range(i + 1):
            R[i, j] -= f * A[i, j]
            R[j, i] = R[i, j]
    apply(R, inp.u_bar, inp.v)


@cold
def lift_spectrum(W, M, H, V, ws):
    """Lift small eigenvalues of M and keep V = H W; True if there were any; ws.u then has the eigenvalues, ws.L the vectors."""
    d = M.shape[0]
    top = 0.0
    mean = 0.0
    for i in range(d):
        top = max(top, H[i, i])
        mean += M[i, i] / d
    if 0 < top and top * mean < SPREAD and SMALLEST < mean < LARGEST:
        return False
    multiply(H, W, V)
    for i in range(d):
        for j in range(d):
            if not math.isfinite(V[i, j]) or not math.isfinite(M[i, j]):
                return False
    values, U = ws.u, ws.L
    copy_matrix(M, ws.M)
    orthogonalise_rows(ws.M, U)
    largest = 0.0
    for i in range(d):
        values[i] = dot_rows(ws.M, i, U, i, d)
        largest = max(largest, values[i])
    unit = largest if largest > 0 and not SMALLEST < largest < LARGEST else 1.0
    for i in range(d):
        values[i] = max(values[i], LIFTED * largest) / unit if largest > 0 else 1.0
    symmetric_function(values, U, 1.0, M)
    symmetric_function(values, U, -1.0, H)
    if top > 0:
        multiply(M, V, W)
    ws.events[SPECTRUM] += 1
    return True


@cold
def symmetric_function(values, U, power, A):
    """A <- sum_p values_p^power U_p U_p', in the first rows of A; others become 0."""
    d = U.shape[0]
    for i in range(A.shape[0]):
        for j in range(d):
            A[i, j] = 0
    for p in range(d):
        f = values[p] ** power
        for i in range(d):
            for j in range(i + 1):
                A[i, j] += f * (U[p, i] * U[p, j])
    for i in range(d):
        for j in range(i):
            A[j, i] = A[i, j]


@cold
def flip_negative(W, M, H, u_bar, c, m, events):
    """Flip the sign of every output with a negative mean m_i; True if there were any."""
    d = M.shape[0]
    apply(W, u_bar, c)
    apply(H, c, m)
    flipped = False
    for i in range(d):
        if m[i] < 0:
            flipped = True
            events[SILENT] += 1
            for j in range(d):
                W[i, j] = -W[i, j]
            for j in range(d):
                if j != i:
                    M[i, j] = -M[i, j]
                    M[j, i] = -M[j, i]
                    H[i, j] = -H[i, j]
                    H[j, i] = -H[j, i]
    return flipped


@cold
def has_changed(inp, W, H, V, c, m, params, ws):
    """Whether the mixing has changed: without a horizon in the block that ends here, with one in the block before it.

    So that the block that the network restarts from has no samples of before the change. Otherwise the next block begins.
    """
    d, horizon = inp.R.shape[0], params.horizon
    if not inp.n_block[0] >= (max(100 + 20 * d, horizon // 5) if horizon > 0 else 300 + 30 * d):
        return False
    changed = False
    if 2 * inp.n[0] > horizon and (horizon > 0 or inp.n[0] > 200 + 100 * d):
        if horizon == 0:
            changed = outputs_changed(inp, W, H, V, c, m, horizon, ws)
        elif has_full_rank(inp.C_block, params.eps, ws):
            changed = inp.changed[0]
            inp.changed[0] |= inp.past[0] == 0 and inp.n[0] > horizon  # no block had full rank until now
            inp.changed[0] |= outputs_changed(inp, W, H, V, c, m, horizon, ws)
            size = 0.0
            for i in range(d):
                for j in range(d):
                    size += inp.R[i, j] * inp.C_block[i, j]
            inp.changed[0] |= size > FAR_LARGER * d or size < LOST * d
    if not changed:
        inp.n_block[0] = 0
    return changed


@cold
def outputs_changed(inp, W, H, V, c, m, horizon, ws):
    """Whether the outputs of the block are unusual; V, c and m are scratch arrays."""
    d = inp.R.shape[0]
    multiply(H, W, V)
    output_covariance(inp.C_block, V, c, ws.M)
    apply(V, inp.u_bar, m)
    energy = float(d)
    for i in range(d):
        energy += m[i] * m[i]
    return is_unusual(inp.past, 0, correlation(ws.M, c), inp.negative[0] / (inp.n_block[0] * energy), horizon)


@cold
def output_covariance(C, V, c, A):
    """A <- V C V'; c is a scratch vector."""
    d = C.shape[0]
    for i in range(d):
        for j in range(d):
            c[j] = dot_rows(C, j, V, i, d)
        for j in range(d):
            A[i, j] = dot(V, j, c)


@cold
def has_full_rank(C, eps, ws):
    """Whether a block with the covariance C can be started from."""
    invert(C, ws.M)
    size = 0.0
    inverse = 0.0
    for i in range(C.shape[0]):
        size += C[i, i]
        inverse += ws.M[i, i]
    return inverse > 0 and size * inverse < C.shape[0] * min(1e10, 0.1 / eps)


@cold
def restart(inp, W, M, H, V, c, m, uncentred, ws):
    """Start from the moments of the block: V keeps its rotation; M <- I, or I + m m' if `uncentred`."""
    d = M.shape[0]
    C, U, values = inp.C_block, ws.L, ws.u
    multiply(H, W, V)
    output_covariance(C, V, c, ws.M)
    orthogonalise_rows(ws.M, U)
    largest = 0.0
    for i in range(d):
        values[i] = dot_rows(ws.M, i, U, i, d)
        largest = max(largest, values[i])
    if not largest > 0:
        return
    for i in range(d):
        values[i] = max(values[i], 1e-14 * largest)
    symmetric_function(values, U, -0.5, ws.M)
    multiply(ws.M, V, W)
    invert(C, inp.R)
    for i in range(d):
        inp.u_bar[i] = inp.u_block[i]
    apply(inp.R, inp.u_bar, inp.v)
    apply(W, inp.u_bar, m)
    mm = 0.0
    for i in range(d):
        if m[i] < 0:
            m[i] = -m[i]
            for j in range(d):
                W[i, j] = -W[i, j]
        mm += m[i] * m[i]
    if not uncentred:
        mm = 0.0
    for i in range(d):
        for j in range(d):
            V[i, j] = W[i, j]
            M[i, j] = m[i] * m[j] if uncentred else 0.0
            H[i, j] = -M[i, j] / (1 + mm)
        M[i, i] += 1
        H[i, i] += 1
    multiply(M, V, W)
    inp.n[0] = inp.n_block[0]
    inp.n_block[0] = 0
    inp.turned[0] = 0
    inp.changed[0] = False
    for i in range(n_past):
        inp.past[i] = 0
    ws.events[RESTART] += 1
