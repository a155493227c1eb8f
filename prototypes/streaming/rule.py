"""StreamingNICA, the orthant rotation: k mixtures x, d outputs y = max(V x, 0). See naive.py for the same in NumPy, line by line.

V whitens by itself: V C V' = I for the running covariance C of x, at every sample and to rounding, and C is not stored. With
w = 1/n the weight of this sample, v = V x, v_bar = V x_bar, dv = v - v_bar, q = dv'dv 

    C     <- (1-w) (C + w dx dx')
    V     <- f (I + beta dv dv') V      f = (1-w)^-1/2,  beta = ((1 + w q)^-1/2 - 1)/q       so that V C V' = I again
    v_bar <- f (I + beta dv dv') (v_bar + w dv)

and then, for v = p + e (positive and negative part, orthogonal) with e != 0, the rotation in the plane of a = p/|p|, b = e/|e|:

    tan(phi/2) = lambda tan(theta/2),   tan(theta/2) = |e|/(|v| + |p|)        lambda = 1 puts this very sample into the orthant
    V     <- V + a ((cos phi - 1) a'V + sin phi b'V) + b ((cos phi - 1) b'V - sin phi a'V)          v_bar likewise

    lambda = (1 + EXTRA age/(age + RAMP)/(1 + (2 tan(theta/2)/ANGLE)^2)) (1 + KAPPA) |v|^2/(|v|^2 + KAPPA E) g (1 + m/TURNS)^-1/2
    E = d + |v_bar|^2, the mean of |v|^2; m counts the turns (never above the horizon)

Average, in the frame of the present V: D <- D R' at a turn R, D <- (1-c) D + c I at every sample, c = 6/(age + 5) (lazily: D is kept as
alpha D + beta I). `transform` reads out with polar(D) V.

Start: V = random orthonormal rows over the RMS of the first nonzero sample, counted as d + N0 samples; for the first START d samples
n = max(d + N0, age/FORGET), so that this prior is gone for every condition number; n <- n + 1 afterwards, never above the horizon.

Robust: two quantiles of q (98 %, 99.5 %) are followed, r <- r (1 + STEP) above and r (1 - STEP p) below; the weight of a sample is g = min(1, tau/q)^2
(w = g/n), tau = SPARE r2 min(r2/r1, 4)^2, the tail extrapolated. A sample that repeats the last one is left out once the run is longer than
30/(1 - f), f the share of such repetitions: frozen sensors change nothing. Every n/4 samples each coordinate gets a pseudo-sample of
FLOOR times the power of the first sample: V stays finite when a channel freezes. With a horizon, a running negativity far above its past restarts
age, n and m, and the forgetting of the start: an abrupt change.

k > d: u = F x with F (d x k) orthonormal, and V acts on u. F starts at random and turns towards the d leading directions of C, which is
kept as (k, k) for k <= FULL and else as P = C F' (k, d): at the refreshs, U <- orth(C F'V') (a power step), V <- G^-1/2 V F U with
G = V F U U'C U U'F'V', F <- U', P <- P F U.
"""
import math
from typing import NamedTuple
import numpy as np
import numba

hot = numba.njit(inline="always", error_model="numpy")  # in the package: compiled.hot
#: Cold functions are called from outside of the loop, which pauses for them: inside they would be optimised anew with it.
cold = numba.njit(nogil=True, error_model="numpy", _nrt=False, cache=True)

GAMMA = 5.0  # of the averaging
EXTRA, RAMP, ANGLE, KAPPA, TURNS = 2.0, 1000.0, 0.1, 0.3, 1e4
START, FORGET, N0, TINY = 100.0, 4.0, 6.0, 1e-3
STEP, P1, P2, SPARE = 0.05, 0.02, 0.005, 1.5
FLOOR = 1e-16
FULL = 64
GROWTH = 16.0  # F is computed anew after n/16 more samples, and never sooner than after k

# the clock: what the state counts, all float64
N, AGE, TURNED, ALPHA, BETA, POWER, SAME, RUN, FAST, SLOW, DUE, LOW, HIGH, REST, SCALED, RESTARTS, LEVEL, ABOVE, CALL = range(19)

# what the loop pauses for
FLIP, RESCALE, RESTART, TEND = 1.0, 2.0, 3.0, 4.0


class State(NamedTuple):
    V: np.ndarray  # (d, k), or (d, d) where k > d
    F: np.ndarray  # (d, k), or (0, k) where k = d
    C: np.ndarray  # (k, k) or (k, d) where k > d; else (0, 0)
    D: np.ndarray  # (d, d)
    v_bar: np.ndarray
    u_bar: np.ndarray  # F x_bar
    x_bar: np.ndarray  # (k,), or (0,)
    x_last: np.ndarray  # (k,)
    clock: np.ndarray
    t: np.ndarray


class Params(NamedTuple):
    horizon: int


class Work(NamedTuple):
    y: np.ndarray
    u: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    a: np.ndarray
    b: np.ndarray
    g: np.ndarray  # (3, m)
    dx: np.ndarray  # (k,)
    A: np.ndarray  # (k, d)
    M: np.ndarray  # (5, d, d)


def init(d, k, rng, full=FULL):
    Q = np.linalg.qr(rng.standard_normal((k, d)))[0].T.copy()
    wide = k > d
    clock = np.zeros(19)
    clock[LEVEL] = 1.0
    clock[ALPHA] = 1.0
    clock[LOW] = clock[HIGH] = 10.0 * d
    return State(
        V=np.linalg.qr(rng.standard_normal((d, d)))[0].copy() if wide else Q,
        F=Q if wide else np.zeros((0, k)),
        C=np.zeros((k, k if k <= full else d)) if wide else np.zeros((0, 0)),
        D=np.eye(d), v_bar=np.zeros(d), u_bar=np.zeros(d), x_bar=np.zeros(k if wide else 0),
        x_last=np.full(k, np.nan), clock=clock, t=np.zeros(1, np.int64),
    )


def workspace(state):
    d, m = state.V.shape
    k = state.F.shape[1]
    wide = state.F.shape[0] > 0
    return Work(*(np.zeros(d) for _ in range(1)), np.zeros(d), *(np.zeros(d) for _ in range(4)), np.zeros((3, m)), np.zeros(k),
                np.zeros((k, d) if wide else (0, 0)), np.zeros((5, d, d) if wide else (0, 0, 0)))


@hot
def settle(state, work, params, X, t):
    V, F, v = state.V, state.F, work.v
    d = v.shape[0]
    if F.shape[0] > 0:
        for i in range(d):
            work.u[i] = _dot_row(F, i, X, t)
        for i in range(d):
            s = 0.0
            for j in range(d):
                s += V[i, j] * work.u[j]
            v[i] = s
    else:
        for i in range(d):
            v[i] = _dot_row(V, i, X, t)
    al = state.clock[ALPHA]
    be = state.clock[BETA]
    for i in range(d):  # the average, without its polar projection: that is of second order
        s = 0.0
        for j in range(d):
            s += state.D[i, j] * v[j]
        work.y[i] = max(al * s + be * v[i], 0.0)


@hot
def _dot_row(A, i, X, t):
    s = 0.0
    for j in range(A.shape[1]):
        s += A[i, j] * X[t, j]
    return s


@hot
def learn(state, work, params, X, t):
    V, F, D, v_bar, cl = state.V, state.F, state.D, state.v_bar, state.clock
    v, dv, a, b, u = work.v, work.dv, work.a, work.b, work.u
    d, m = V.shape
    k = X.shape[1]
    state.t[0] += 1
    if _frozen(state, X, t):
        return
    if cl[SCALED] == 0 and not _scale(state, work):
        return

    # how far out the sample is, and its weight g
    q = 0.0
    vv = 0.0
    energy = float(d)
    for i in range(d):
        dv[i] = v[i] - v_bar[i]
        q += dv[i] * dv[i]
        vv += v[i] * v[i]
        energy += v_bar[i] * v_bar[i]
    fast = 1 / (100.0 + 10 * d)
    if cl[RUN] == 0 and vv > 0:
        cl[LEVEL] += max(fast, 3 / (cl[AGE] + 9)) * (min(vv / energy, 1.0) - cl[LEVEL])
    if vv <= TINY * energy and 0 < cl[AGE] <= START * d:  # sparse sources, all silent: nothing to start from
        if cl[LEVEL] < 1e-4:
            cl[CALL] = RESCALE
        return
    ratio = min(max(cl[HIGH] / cl[LOW], 1.0), 4.0)
    tau = SPARE * cl[HIGH] * ratio * ratio
    g = 1.0
    if q > tau:
        g = tau / q
        g *= g
    above = 1.0 if q > cl[LOW] else 0.0
    cl[ABOVE] += fast * (above - cl[ABOVE])
    step = max(STEP, 1 / (1 + cl[AGE] / (30.0 * d)))
    cl[LOW] *= 1 + step if q > cl[LOW] else 1 - step * P1
    cl[HIGH] *= 1 + step if q > cl[HIGH] else 1 - step * P2
    if F.shape[0] > 0:
        g = _outside(state, work, X, t, g)

    cl[AGE] += g
    if cl[AGE] <= START * d:
        cl[N] = max(d + N0, cl[AGE] / FORGET)
    else:
        cl[N] += g
    if params.horizon > 0:
        cl[N] = min(cl[N], params.horizon)
    w = g / cl[N]
    cl[SAME] += w * ((cl[RUN] > 0) - cl[SAME])
    if F.shape[0] > 0:
        _covariance(state, work, w)

    negative = _move(V, state.D, work.g, v_bar, v, dv, a, b, cl, w, q, g, params.horizon)
    if negative < 0:
        negative = 1.0
        cl[CALL] = FLIP

    # watch
    cl[FAST] += fast * (negative - cl[FAST])
    cl[SLOW] += w * (min(negative, 2 * cl[SLOW] + 0.001) - cl[SLOW])
    if cl[LEVEL] < 1e-4 and (params.horizon > 0 or cl[AGE] < 2 * START * d):
        cl[CALL] = RESCALE
    elif params.horizon > 0 and cl[AGE] > START * d + 200 and (cl[ABOVE] > 0.09 or cl[FAST] > 0.03 + 4 * cl[SLOW]):
        cl[CALL] = RESTART
    elif cl[AGE] >= cl[DUE]:
        cl[CALL] = TEND


@cold
def _rescale(state, work):
    """All outputs have become small: the scale of before (an outlier first of all, a gain) is given up, and the mean."""
    V, v_bar, v, cl = state.V, state.v_bar, work.v, state.clock
    d = V.shape[0]
    energy = float(d)
    for i in range(d):
        energy += v_bar[i] * v_bar[i]
    if not cl[LEVEL] > 0:
        cl[LEVEL] = 1e-30
    f = 1 / math.sqrt(cl[LEVEL] * energy / d)
    f = min(f, 1e15)
    for i in range(d):
        v_bar[i] = f * v[i]
        for j in range(V.shape[1]):
            V[i, j] *= f
    cl[POWER] /= f * f
    cl[LEVEL] = 1.0
    if state.F.shape[0] > 0:
        for i in range(state.C.shape[0]):
            state.x_bar[i] = state.x_last[i]
            for j in range(state.C.shape[1]):
                state.C[i, j] = 0.0
        for i in range(d):
            s = 0.0
            for j in range(state.F.shape[1]):
                s += state.F[i, j] * state.x_bar[j]
            state.u_bar[i] = s
        cl[REST] = 0
    _restart(state)


@hot
def _move(V, D, G, v_bar, v, dv, a, b, cl, w, q, g, horizon):
    """Whiten and rotate: V, v_bar and the average move. Returns the share of energy that is negative; -1 where all of it is."""
    d, m = V.shape
    # whitening
    f = 1 / math.sqrt(1 - w)
    beta = (1 / math.sqrt(1 + w * q) - 1) / q if q > 0 else 0.0
    along = 0.0
    mean = 0.0
    for i in range(d):
        along += dv[i] * v[i]
        mean += dv[i] * (v_bar[i] + w * dv[i])
    pp = 0.0
    ee = 0.0
    energy = float(d)
    for i in range(d):
        v[i] = f * (v[i] + beta * along * dv[i])
        v_bar[i] = f * (v_bar[i] + (w + beta * mean) * dv[i])
        energy += v_bar[i] * v_bar[i]
        if v[i] > 0:
            pp += v[i] * v[i]
        else:
            ee += v[i] * v[i]
    vv = pp + ee
    negative = min(g * ee / energy, 1.0)

    # the average forgets
    c = (GAMMA + 1) / (cl[AGE] + GAMMA)
    if horizon > 0:
        c = max(c, min(1.0, (GAMMA + 1) / horizon))
    cl[ALPHA] *= 1 - c
    cl[BETA] += c * (1 - cl[BETA])

    if ee > 1e-28 * vv and pp > 0:
        # rotation
        cl[TURNED] += 1
        if horizon > 0:
            cl[TURNED] = min(cl[TURNED], horizon)
        p = math.sqrt(pp)
        e = math.sqrt(ee)
        tan = e / (math.sqrt(vv) + p)
        far = 2 * tan / ANGLE
        tan *= (1 + EXTRA * cl[AGE] / (cl[AGE] + RAMP) / (1 + far * far)) * (1 + KAPPA) * vv / (vv + KAPPA * energy) * g / math.sqrt(1 + cl[TURNED] / TURNS)
        co = 2 / (1 + tan * tan)
        si = tan * co
        co -= 2
        ma = 0.0
        mb = 0.0
        ad = 0.0
        bd = 0.0
        for i in range(d):
            if v[i] > 0:
                a[i] = v[i] / p
                b[i] = 0.0
                ma += a[i] * v_bar[i]
                ad += a[i] * dv[i]
            else:
                a[i] = 0.0
                b[i] = v[i] / e
                mb += b[i] * v_bar[i]
                bd += b[i] * dv[i]
        for j in range(m):
            G[0, j] = 0.0
            G[1, j] = 0.0
            G[2, j] = 0.0
        for i in range(d):
            if v[i] > 0:
                for j in range(m):
                    G[0, j] += dv[i] * V[i, j]
                    G[1, j] += a[i] * V[i, j]
            else:
                for j in range(m):
                    G[0, j] += dv[i] * V[i, j]
                    G[2, j] += b[i] * V[i, j]
        for j in range(m):
            G[1, j] = f * (G[1, j] + beta * ad * G[0, j])
            G[2, j] = f * (G[2, j] + beta * bd * G[0, j])
        for i in range(d):
            x = a[i] * co - b[i] * si
            y = a[i] * si + b[i] * co
            z = f * beta * dv[i]
            for j in range(m):
                V[i, j] = f * V[i, j] + z * G[0, j] + x * G[1, j] + y * G[2, j]
            v_bar[i] += x * ma + y * mb
        # D <- (alpha D + beta I) R'
        al = cl[ALPHA]
        be = cl[BETA]
        for l in range(d):
            x = be * a[l]
            y = be * b[l]
            for i in range(d):
                x += al * D[l, i] * a[i]
                y += al * D[l, i] * b[i]
            xa = co * x + si * y
            yb = co * y - si * x
            for i in range(d):
                D[l, i] = al * D[l, i] + xa * a[i] + yb * b[i]
            D[l, l] += be
        cl[ALPHA] = 1.0
        cl[BETA] = 0.0
    else:
        for j in range(m):
            G[0, j] = 0.0
        for i in range(d):
            for j in range(m):
                G[0, j] += dv[i] * V[i, j]
        for i in range(d):
            z = f * beta * dv[i]
            for j in range(m):
                V[i, j] = f * V[i, j] + z * G[0, j]
        if pp == 0 and vv > 0:
            negative = -1.0
    return negative


@hot
def _frozen(state, X, t):
    """Whether this sample repeats the last, as it and too many before did."""
    x, cl = state.x_last, state.clock
    k = x.shape[0]
    j = 0
    while j < k and X[t, j] == x[j]:
        j += 1
    if j == k:
        cl[RUN] += 1
        return cl[RUN] * (1 - cl[SAME]) > 30
    while j < k:
        x[j] = X[t, j]
        j += 1
    cl[RUN] = 0
    return False


@hot
def _scale(state, work):
    """The first sample that is not zero sets the scale."""
    V, v = state.V, work.v
    s = 0.0
    for i in range(v.shape[0]):
        s += v[i] * v[i]
    if not s > 0:
        return False
    f = math.sqrt(v.shape[0] / s)
    for i in range(V.shape[0]):
        v[i] *= f
        for j in range(V.shape[1]):
            V[i, j] *= f
    state.clock[POWER] = 1 / (f * f)
    state.clock[SCALED] = 1
    state.clock[DUE] = 3.0 * V.shape[0]
    return True


@cold
def _flip(state):
    """A sample with no positive output, while the mean is negative: the sources are the other way round."""
    V, v_bar, D = state.V, state.v_bar, state.D
    s = 0.0
    for i in range(v_bar.shape[0]):
        s += v_bar[i]
    if s < 0:
        for i in range(V.shape[0]):
            v_bar[i] = -v_bar[i]
            for j in range(V.shape[1]):
                V[i, j] = -V[i, j]
            for j in range(D.shape[0]):
                D[i, j] = (1.0 if i == j else 0.0)
        state.clock[ALPHA] = 1.0
        state.clock[BETA] = 0.0


@cold
def _restart(state):
    """An abrupt change: everything is learned anew, from the V there is."""
    cl = state.clock
    d = state.V.shape[0]
    cl[AGE] = 0
    cl[TURNED] = 0
    cl[SLOW] = 0
    cl[FAST] = 0
    cl[ABOVE] = 0
    cl[RESTARTS] += 1
    cl[DUE] = 3.0 * d
    cl[ALPHA] = 1.0
    cl[BETA] = 0.0
    for i in range(d):
        for j in range(d):
            state.D[i, j] = (1.0 if i == j else 0.0)


@hot
def _outside(state, work, X, t, g):
    """Where k > d the energy outside of F bounds the weight too; work.dx and work.u become deviations."""
    F, x_bar, u_bar, cl, dx, u = state.F, state.x_bar, state.u_bar, state.clock, work.dx, work.u
    d, k = F.shape
    s = 0.0
    for j in range(k):
        dx[j] = X[t, j] - x_bar[j]
        s += dx[j] * dx[j]
    r = 0.0
    for i in range(d):
        u[i] -= u_bar[i]
        r += u[i] * u[i]
    r = max(s - r, 1e-13 * s)
    if cl[REST] == 0:
        cl[REST] = r
    tau = 8 * SPARE * cl[REST]
    if r > tau:
        g = min(g, (tau / r) * (tau / r))
    step = max(STEP, 1 / (1 + cl[AGE] / (30.0 * d)))
    cl[REST] *= 1 + step if r > cl[REST] else 1 - step * P2
    return g


@hot
def _covariance(state, work, w):
    """The covariance of x, where k > d."""
    F, C, x_bar, u_bar, dx, u = state.F, state.C, state.x_bar, state.u_bar, work.dx, work.u
    d, k = F.shape
    for i in range(d):
        u_bar[i] += w * u[i]
    f = 1 - w
    for i in range(k):
        x_bar[i] += w * dx[i]
        x = f * w * dx[i]
        if C.shape[1] == k:
            for j in range(i + 1):
                C[i, j] = f * C[i, j] + x * dx[j]
        else:
            for j in range(d):
                C[i, j] = f * C[i, j] + x * u[j]


@cold
def _refresh(state, work):
    """F and V anew from the covariance."""
    V, F, C, A, M, cl = state.V, state.F, state.C, work.A, work.M, state.clock
    d, k = F.shape
    full = C.shape[1] == k
    # A <- C F'V'
    W = A  # (k, d): first F'V', then C times it
    if full:
        for i in range(k):
            for j in range(i):
                C[j, i] = C[i, j]
        for i in range(k):
            for l in range(d):
                s = 0.0
                for j in range(d):
                    s += F[j, i] * V[l, j]
                W[i, l] = s
        for l in range(d):
            for i in range(k):
                work.dx[i] = W[i, l]
            for i in range(k):
                s = 0.0
                for j in range(k):
                    s += C[i, j] * work.dx[j]
                W[i, l] = s
    else:
        for i in range(k):
            for l in range(d):
                s = 0.0
                for j in range(d):
                    s += C[i, j] * V[l, j]
                W[i, l] = s
    # columns of A <- orthonormal (Gram and Schmidt, twice)
    for l in range(d):
        before = 0.0
        for i in range(k):
            before += A[i, l] * A[i, l]
        after = 0.0
        for twice in range(2):
            for j in range(l):
                s = 0.0
                for i in range(k):
                    s += A[i, j] * A[i, l]
                for i in range(k):
                    A[i, l] -= s * A[i, j]
            after = 0.0
            for i in range(k):
                after += A[i, l] * A[i, l]
            s = 1 / math.sqrt(after) if after > 0 else 0.0
            if twice == 0 and not after > 1e-26 * before:
                return  # fewer than d directions so far
            for i in range(k):
                A[i, l] *= s
    # M0 <- F U, M1 <- V F U
    for i in range(d):
        for l in range(d):
            s = 0.0
            for j in range(k):
                s += F[i, j] * A[j, l]
            M[0, i, l] = s
    _product(V, M[0], M[1])
    # M2 <- U'C U
    if full:
        for l in range(d):
            for i in range(k):
                s = 0.0
                for j in range(k):
                    s += C[i, j] * A[j, l]
                work.dx[i] = s
            for i in range(d):
                s = 0.0
                for j in range(k):
                    s += A[j, i] * work.dx[j]
                M[2, i, l] = s
    else:
        for i in range(k):  # P <- P F U
            for l in range(d):
                work.u[l] = 0.0
            for j in range(d):
                for l in range(d):
                    work.u[l] += C[i, j] * M[0, j, l]
            for l in range(d):
                C[i, l] = work.u[l]
        for i in range(d):
            for l in range(d):
                s = 0.0
                for j in range(k):
                    s += A[j, i] * C[j, l]
                M[2, i, l] = s
        for i in range(d):
            for l in range(i):
                s = 0.5 * (M[2, i, l] + M[2, l, i])
                M[2, i, l] = s
                M[2, l, i] = s
    # M0 <- G = M1 M2 M1'
    _product(M[1], M[2], M[3])
    for i in range(d):
        for l in range(d):
            s = 0.0
            for j in range(d):
                s += M[3, i, j] * M[1, l, j]
            M[0, i, l] = s
    if not _inverse_root(M):
        return
    _product(M[0], M[1], M[2])
    for i in range(d):
        for j in range(d):
            V[i, j] = M[2, i, j]
        for j in range(k):
            F[i, j] = A[j, i]
        s = 0.0
        for j in range(k):
            s += F[i, j] * state.x_bar[j]
        state.u_bar[i] = s
    for i in range(d):
        s = 0.0
        for j in range(d):
            s += V[i, j] * state.u_bar[j]
        state.v_bar[i] = s


@cold
def _product(A, B, out):
    d = A.shape[0]
    for i in range(d):
        for l in range(d):
            out[i, l] = 0.0
        for j in range(d):
            for l in range(d):
                out[i, l] += A[i, j] * B[j, l]


@cold
def _inverse_root(M):
    """M[0] <- M[0]^-1/2 by Newton and Schulz; False where that fails. Leaves M[1] alone."""
    Y, Z, T, S = M[0], M[2], M[3], M[4]
    d = Y.shape[0]
    size = 0.0
    for i in range(d):
        for j in range(d):
            size += Y[i, j] * Y[i, j]
            Z[i, j] = (1.0 if i == j else 0.0)
    size = math.sqrt(size)
    near = 0.0
    for i in range(d):
        for j in range(d):
            x = abs(Y[i, j] - (1.0 if i == j else 0.0))
            near += x * x
    if near < 0.25:
        size = 1.0
    if not size > 0 or not size < 1e300:
        return False
    for i in range(d):
        for j in range(d):
            Y[i, j] /= size
    last = np.inf
    for step in range(100):
        _product(Z, Y, T)
        off = 0.0
        for i in range(d):
            for j in range(d):
                off = max(off, abs(T[i, j] - (1.0 if i == j else 0.0)))
                T[i, j] = -0.5 * T[i, j]
            T[i, i] += 1.5
        if not off < 1e3:
            return False
        _product(Y, T, S)
        for i in range(d):
            for j in range(d):
                Y[i, j] = S[i, j]
        _product(T, Z, S)
        for i in range(d):
            for j in range(d):
                Z[i, j] = S[i, j]
        if off < 1e-7 or (off < 1e-3 and off >= last):
            break
        last = off
    root = 1 / math.sqrt(size)
    for i in range(d):
        for j in range(d):
            Y[i, j] = root * Z[i, j]
    return True


@cold
def tend(state, work, params):
    """What the loop paused for; rarely called."""
    cl = state.clock
    call = cl[CALL]
    cl[CALL] = 0
    d, m = state.V.shape
    if call == FLIP:
        _flip(state)
    elif call == RESCALE:
        _rescale(state, work)
    elif call == RESTART:
        _restart(state)
    elif call == TEND:
        k = state.F.shape[1]
        cl[DUE] = cl[AGE] + max(float(k), math.floor(cl[N] / (GROWTH if state.F.shape[0] > 0 else 4.0)))
        _floor(state, work)
        if state.F.shape[0] > 0:
            _refresh(state, work)


@cold
def _floor(state, work):
    """A pseudo-sample of FLOOR times the power of the first sample along each coordinate."""
    V, v_bar, cl, dv, G = state.V, state.v_bar, state.clock, work.dv, work.g
    d, m = V.shape
    w = 0.25 * FLOOR * cl[POWER]
    for j in range(m):
        q = 0.0
        mean = 0.0
        for i in range(d):
            dv[i] = V[i, j]
            q += dv[i] * dv[i]
            mean += dv[i] * v_bar[i]
        if w * q < 1e-12:
            continue
        beta = (1 / math.sqrt(1 + w * q) - 1) / q
        for l in range(m):
            G[0, l] = 0.0
        for i in range(d):
            for l in range(m):
                G[0, l] += dv[i] * V[i, l]
        for i in range(d):
            v_bar[i] += beta * mean * dv[i]
            for l in range(m):
                V[i, l] += beta * dv[i] * G[0, l]


def averaged(state):
    """polar(D) V F, the matrix that `transform` reads out with."""
    cl = state.clock
    D = cl[ALPHA] * state.D + cl[BETA] * np.eye(len(state.D))
    U, _, W = np.linalg.svd(D)
    return (U @ W) @ unmixing(state)


def unmixing(state):
    return state.V @ state.F if len(state.F) else state.V.copy()
