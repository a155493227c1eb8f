"""The orthant rotation: nonnegative ICA of a stream without a learning rate. *Beyond the paper.*

K whitens the mixtures (see `running_whitening`) and is turned until v = K x >= 0. Let v = p + e, its positive and negative parts,
which are orthogonal. The rotation of the plane of a = p/|p| and b = e/|e| that takes v to p puts this sample into the orthant. If
|e| is more than rounding (64 eps |v|) K is turned in that plane by phi:

    tan(phi/2) = lambda tan(theta/2),   tan(theta/2) = |e|/(|v| + |p|)
    K <- T K,  v_bar <- T v_bar,   T = I + (cos phi - 1)(a a' + b b') + sin phi (a b' - b a')
    lambda = g (1 + t/(500 max(d, 20)))^-1/2 1.3 |v|^2/(|v|^2 + 0.3 E) (1 + 0.8/(1 + 10 |e|^2/|p|^2))

where g is the weight of the sample, t counts the turns (never above the horizon) and E = d + |v_bar|^2 is the mean of |v|^2. lambda
falls where noise makes every sample violate, and stays where violations are rare. Small samples carry noise, not direction. Near
the solution samples are inequality constraints, and a step past the face (as in successive over-relaxation) helps sources with few
samples near zero: gamma sources, d = 20, worst of 3, without / with: 13.7 / 2.3 times the error of BatchNICA (Algorithm 2).

Outputs are y = max(D v, 0), D the average of past rotations as seen from the present K:

    D <- (1-c) D + c I,   c = 6/(age + 5), never below 6/horizon;      D <- D T' at a turn

kept as alpha D + delta I, so that D changes at turns only. `transform` reads out with polar(D) K. Outputs exist from the second
sample on.

*More mixtures than sources*, k > d: K acts on u = F x. F (d x k) has orthonormal rows, random at first, and turns towards the d
leading directions of the mixtures:

    P <- P + g dx du'                                  the covariance of x and u since F last changed
    after n/4 more samples:  A = P K' = U'R',          U with orthonormal rows, R lower triangular (Gram-Schmidt)
                             K <- K F A R'^-1,  F <- U,  P <- 0

This is a power step: the columns of C F' lie closer to the leading directions than those of F'. The columns of A resemble those of
the mixing matrix, so that A has its condition number and not the square of it. K F A R'^-1 U x = K F x for every x in the span
of A: without noise the outputs do not change, and K stays white. Memory is k x d. With a horizon, a drift that leaves the first
directions is followed. The first step comes after 20 d samples, when the covariance of the start is removed (it is a multiple of
I only until then). A power step with the covariances of all the past (for F that was another) ended at 3 to 70 times the error of
BatchNICA with 20 or 30 dB of noise. The weight of a sample is bounded by the energy outside of F as well:
g <= min(1, 12 r/|(I - F'F) dx|^2)^2, r its running 99.5 % quantile.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from . import running_whitening
from .plasticity import apply, dot_vectors, project
from .rule import Rule, bookkeeping, finite, hot, n_repairs, register, shapes
from .running_whitening import (
    P_2,
    SPARE,
    START,
    Whitening,
    is_due,
    is_in_block,
    is_usable,
    mean_energy,
    move_mean,
    must_restart,
    quantile_step,
    restart,
    tend,
    weigh,
    whiten,
)

#: Of lambda and of the averaging: see above.
BEYOND, LARGE_ANGLE, SMALL, TURNS, GAMMA = 0.8, 10.0, 0.3, 500.0, 5.0


class Average(NamedTuple):
    """D is alpha D + delta I."""

    D: np.ndarray
    alpha: np.ndarray
    delta: np.ndarray
    turned: np.ndarray  # samples that turned K


class State(NamedTuple):
    """What the rule remembers."""

    white: Whitening
    average: Average
    F: (
        np.ndarray
    )  # the identity where there are as many mixtures as sources; then P, x_bar, u_bar and outside stay zero
    P: np.ndarray
    x_bar: np.ndarray
    u_bar: np.ndarray  # F x_bar
    outside: np.ndarray  # 99.5 % quantile of the energy outside of F
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any  # there are none
    guards: Any
    horizon: int  # 0: none
    eps: float  # rounding of the mixtures' dtype
    projects: bool  # whether there are more mixtures than sources


class Events(NamedTuple):
    """Counters of the engine."""

    events: np.ndarray


class Work(NamedTuple):
    """Scratch arrays."""

    y: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    a: np.ndarray
    b: np.ndarray
    G: np.ndarray  # dv'K, a'K and b'K
    u: np.ndarray
    dx: np.ndarray
    ws: Any


def init(F: np.ndarray, Q: np.ndarray, rng: np.random.RandomState) -> State:
    """Return the rule before its first sample, with this projection (d x k) and rotation (d x d); both are copied."""
    d, k = F.shape
    return State(
        running_whitening.start(Q, np.zeros(k, F.dtype)), Average(np.eye(d), np.ones(1), np.zeros(1), np.zeros(1)),
        F.copy(), np.zeros((k, d), F.dtype), np.zeros(k), np.zeros(d), np.zeros(1), **bookkeeping(d, rng),
    )  # fmt: skip


def workspace(state):
    """Allocate scratch arrays."""
    d, k = state.F.shape
    y, dx = np.zeros(d, state.F.dtype), np.zeros(k, state.F.dtype)
    v, dv, a, b, u = np.zeros((5, d))
    return Work(y, v, dv, a, b, np.zeros((3, d)), u, dx, Events(np.zeros(n_repairs, np.int64)))


def settle(state, work, params, X, t):
    """u = F x, v = K u and y = max(D v, 0)."""
    if params.projects:
        project(state.F, X, t, work.u)
        apply(state.white.K, work.u, work.v)
    else:
        project(state.white.K, X, t, work.v)
    read_out(state.white, state.average, work.v, work.y)


def learn(state, work, params, X, t, rates):
    """The sample's weight, the whitening, the turn; the covariance of x and u."""
    state.t[0] += 1
    if is_usable(state.white, work.v, X, t):
        q, g = weigh(state.white, work.v, work.dv, True, params.horizon)
        if params.projects:
            g = min(g, weigh_outside(state, work, X, t))
        m = move(state.white, state.average, work, q, g, params)
        if params.projects:
            gather(state, work, g, m)


# ---------------------------------------------------------------------------------------------- one sample


@hot
def read_out(white, average, v, y):
    """y = max(D v, 0), without the polar projection of D, which is of second order; 0 before the first sample.

    In the first 20 d samples outputs with more than 2 + age/d times the mean energy are scaled down to that: K is hardly known.
    """
    D, alpha, delta, age = average.D, average.alpha, average.delta, white.age
    d, shrink, energy = v.shape[0], 1.0, dot_vectors(v, v)
    if age[0] < START * d and energy < math.inf:  # otherwise the output overflows, and ends the loop
        shrink = math.sqrt(min(1.0, (2 + age[0] / d) * mean_energy(white.v_bar) / max(energy, 1e-300)))
        shrink = shrink if white.power[0] > 0 else 0.0
    for i in range(d):
        s = 0.0
        for j in range(d):
            s += D[i, j] * v[j]
        x = shrink * (alpha[0] * s + delta[0] * v[i])
        y[i] = 0.0 if x <= 0 else x


@hot
def move(white, average, work, q, g, params):
    """Whiten and turn K, v_bar and the average; returns m."""
    v, dv, a, b, alpha, delta = work.v, work.dv, work.a, work.b, average.alpha, average.delta
    d = v.shape[0]
    f, beta, m = move_mean(white, dv, q, g, params.horizon)
    along = dot_vectors(dv, v)
    for i in range(d):
        v[i] = f * (v[i] + beta * along * dv[i])
    c = (GAMMA + 1) / (white.age[0] + GAMMA)
    if params.horizon > 0:
        c = max(c, min(1.0, (GAMMA + 1) / params.horizon))
    alpha[0] *= 1 - c
    delta[0] += c * (1 - delta[0])
    mean = mean_energy(white.v_bar)
    cos_1, sin, energy = find_turn(v, mean, a, b, average.turned, g, params.horizon, params.eps)
    if is_in_block(white, params.horizon):
        white.negative[0] += min(energy / mean, 1.0)
    if sin == 0:
        whiten(white.K, work.G, dv, f, beta)
        return m
    whiten_and_turn(white.K, white.v_bar, work.G, dv, a, b, f, beta, cos_1, sin)
    turn_average(average.D, a, b, cos_1, sin, alpha[0], delta[0])
    alpha[0] = 1
    delta[0] = 0
    return m


@hot
def find_turn(v, mean, a, b, turned, g, horizon, eps):
    """The plane of the turn for outputs v of this mean energy, in a and b; returns cos phi - 1, sin phi and the negative energy.

    No turn, sin phi = 0, if no output is negative or all are.
    """
    d = v.shape[0]
    pp = 0.0
    ee = 0.0
    for i in range(d):
        positive = max(v[i], 0.0)
        pp += positive * positive
        ee += min(v[i], 0.0) * min(v[i], 0.0)
    if ee <= 64 * eps * (64 * eps) * (pp + ee):
        return 0.0, 0.0, 0.0
    turned[0] += 1
    if horizon > 0:
        turned[0] = min(turned[0], float(horizon))
    if pp == 0:
        return 0.0, 0.0, g * ee
    p, e = math.sqrt(pp), math.sqrt(ee)
    vv = pp + ee
    tan = e / (math.sqrt(vv) + p) * g / math.sqrt(1 + turned[0] / (TURNS * max(d, 20)))
    tan *= (1 + SMALL) * vv / (vv + SMALL * mean) * (1 + BEYOND / (1 + LARGE_ANGLE * ee / pp))
    half = 2 / (1 + tan * tan)
    over_p, over_e = 1 / p, 1 / e
    for i in range(d):
        positive = v[i] > 0
        a[i] = v[i] * over_p if positive else 0.0
        b[i] = 0.0 if positive else v[i] * over_e
    return half - 2, tan * half, g * ee


@hot
def whiten_and_turn(K, v_bar, G, dv, a, b, f, beta, cos_1, sin):
    """K <- T f (I + beta dv dv') K and v_bar <- T v_bar, in two passes over K."""
    d = K.shape[0]
    ad, bd, am, bm = dot_vectors(a, dv), dot_vectors(b, dv), dot_vectors(a, v_bar), dot_vectors(b, v_bar)
    for j in range(d):
        G[0, j] = 0
        G[1, j] = 0
        G[2, j] = 0
    for i in range(d):
        for j in range(d):
            G[0, j] += dv[i] * K[i, j]
            G[1, j] += a[i] * K[i, j]
            G[2, j] += b[i] * K[i, j]
    for j in range(d):
        G[1, j] = f * (G[1, j] + beta * ad * G[0, j])
        G[2, j] = f * (G[2, j] + beta * bd * G[0, j])
    for i in range(d):
        x = a[i] * cos_1 - b[i] * sin
        y = a[i] * sin + b[i] * cos_1
        z = f * beta * dv[i]
        for j in range(d):
            K[i, j] = f * K[i, j] + z * G[0, j] + x * G[1, j] + y * G[2, j]
        v_bar[i] += x * am + y * bm


@hot
def turn_average(D, a, b, cos_1, sin, alpha, delta):
    """D <- (alpha D + delta I) T'."""
    d = D.shape[0]
    for i in range(d):
        x = delta * a[i]
        y = delta * b[i]
        for j in range(d):
            x += alpha * D[i, j] * a[j]
            y += alpha * D[i, j] * b[j]
        xa = cos_1 * x + sin * y
        yb = cos_1 * y - sin * x
        for j in range(d):
            D[i, j] = alpha * D[i, j] + xa * a[j] + yb * b[j]
        D[i, i] += delta


@hot
def weigh_outside(state, work, X, t):
    """work.dx <- x - x_bar, work.u <- u - u_bar; returns the bound of g from the energy outside of F."""
    dx, u, outside, d = work.dx, work.u, state.outside, state.F.shape[0]
    for j in range(dx.shape[0]):
        dx[j] = X[t, j] - state.x_bar[j]
    for i in range(d):
        u[i] -= state.u_bar[i]
    total = dot_vectors(dx, dx)
    r = max(total - dot_vectors(u, u), 1e-13 * total)
    if outside[0] == 0:
        outside[0] = r
    largest = 8 * SPARE * outside[0]
    s = quantile_step(state.white.age, d)
    outside[0] *= 1 + s if r > outside[0] else 1 - s * P_2
    return largest / r * (largest / r) if r > largest else 1.0


@hot
def gather(state, work, g, m):
    """P, x_bar and u_bar."""
    P, dx, u = state.P, work.dx, work.u
    for i in range(u.shape[0]):
        state.u_bar[i] += m * u[i]
    for j in range(dx.shape[0]):
        state.x_bar[j] += m * dx[j]
        x = g * dx[j]
        for i in range(u.shape[0]):
            P[j, i] += x * u[i]


# ---------------------------------------------------------------------------------------------- rarely, in NumPy


def attend(state: State, params: Params) -> None:
    """The test of a block, a restart; a flip, removal of the start's covariance, the floor, the power step of F."""
    white, average = state.white, state.average
    if must_restart(white, None, params.horizon):
        restart(state)
        for a in (average.turned, state.outside, state.u_bar, state.x_bar, state.P):
            a[:] = 0
        _forget_average(average)
    elif white.age[0] >= white.due[0]:
        if white.v_bar.sum() < 0:  # no turn leads out of the negative orthant
            white.K[:] *= -1
            white.v_bar[:] *= -1
            _forget_average(average)
        tend(white, params.horizon)
        if params.projects and white.prior[0] == 0:
            turn_projection(state)


def _forget_average(average: Average) -> None:
    average.D[:] = np.eye(len(average.D))
    average.alpha[0], average.delta[0] = 1, 0


def turn_projection(state: State) -> None:
    """A = P K' = U'R', K <- K F A R'^-1, F <- U; nothing if A has fewer than d directions."""
    K, F = state.white.K, state.F
    A = state.P @ K.T
    Q, R = np.linalg.qr(A)
    if (np.abs(np.diag(R)) > 1e-13 * np.linalg.norm(A, axis=0)).all():
        K[:] = np.linalg.solve(R.T, (K @ (F @ A)).T).T
        F[:] = Q.T
        state.u_bar[:] = F @ state.x_bar
        state.white.v_bar[:] = K @ state.u_bar
    state.P[:] = 0


def averaged(state: Any) -> Any:
    """Return the network that reads out with polar(D) K; shares memory with `state`."""
    white, average = state.white, state.average
    U, _, W = np.linalg.svd(average_of(average))
    age = np.full(1, np.inf) if white.power[0] > 0 else white.age  # no longer the first samples
    return state._replace(
        white=white._replace(K=U @ W @ white.K, age=age),
        average=average._replace(D=np.eye(len(U)), alpha=np.ones(1), delta=np.zeros(1)),
    )


def average_of(average: Average) -> np.ndarray:
    """D."""
    with np.errstate(all="ignore"):
        return finite(average.alpha[0] * average.D + average.delta[0] * np.eye(len(average.D)))


def unmixing(state: State) -> np.ndarray:
    """D K F."""
    return np.asarray(average_of(state.average) @ state.white.K @ state.F)


RULE = register(
    Rule(
        "orthant_rotation", State, Params,
        running_whitening.SHAPES | shapes(dk="F", kd="P", k="white.last") | {
            "average.D": "dd:float64", "x_bar": "k:float64", "u_bar": "d:float64",
            **dict.fromkeys(("average.alpha", "average.delta", "average.turned", "outside"), "1:float64"),
        },
        workspace, settle, learn, unmixing, is_due=is_due, attend=attend,
        parts={"white": Whitening, "average": Average},
    )
)  # fmt: skip
