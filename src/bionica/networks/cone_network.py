"""ConeNetwork: a single layer of 2-compartmental neurons with local rules that separates correlated sources.

*Beyond the paper.* Algorithms 1 and 2 assume uncorrelated sources. Here only nonnegativity is used: the network learns the cone of
smallest volume that holds the mixtures (the objective of `cone`). For each mixture x: dendrites c = W_xz x, membranes and
rates at the fixed point of

    v_i = c_i - sum_{j != i} W_ij z_j       z_i = [v_i]_+       n_i = [-v_i]_+                             W = W_zz, W_ii = 1    (1)

and with w = 1/max(1, mean |v|), the divisive normalisation of the layer, for i != j

    W_ij   <- W_ij + a_i (w z_j (1 - kappa_i w n_i) - W_ij)         inhibition grows with the presynaptic rate until it pushes
                                                                    neuron i below zero                                          (2)
    W_xz,i <- W_xz,i + b_i (v_i - c_i) x'P / (1 + b_i x'P x)        the dendrite learns to predict the membrane                  (3)
    W_xz,i <- W_xz,i (1 + h), or W_xz,i / (1 - h) if h < 0          homeostasis: |v_i| has mean 1; h = b_i w mean|v| (1 - |v_i|) (4)
    a_i = eta / (kappa_i d)           b_i = eta / (kappa_i^3/4 d)                                                                (5)

Each synapse uses what its two neurons have; w and z_bar (below) are sums over the layer. P = I/<x'x/d> is the strictly local rule
(`LocalState`, three times b_i). Natural steps (`State`, the default) take v = K F x (`running_whitening`) for x and
P = <v v'>^-1 = I - v_bar v_bar'/(1 + |v_bar|^2): they work whatever the mixing matrix (not local). Cones are not tied to
the whitening, so that W_xz K stays as it is when K moves, but in the first samples after a restart.

**Why.** For outputs y = V x of mean 1 the objective log|det V| - sum_i log<y_i> - sum_i kappa_i <[-y_i]_+^2>/2 has the relative
gradient G_ij = kappa_i <n_i y_j> - <y_j>, i != j (V <- (I + e G) V ascends). W - I is a leaky average of -G by (2), and (3) moves
W_xz by b <(v - c) x'> P = -b (W - I) <z x'> P, about b G W_xz: a feedforward rule could follow G only with weight transport.
Where learning ends the inhibition has moved into the dendrites, W = I and <n_i z_j> = <z_j>/kappa_i.

**How hard the wall is.** kappa_i = 1/n^2 for a wall of width n. Each neuron finds kappa_i from the samples that push it below zero.
With s = kappa_i^1/2 w n_i > 0 and z_bar the mean of w z_j over j != i, each of them moves

    p_i <- p_i + .04 (z_bar - p_i)     m_i <- m_i + .04 z_bar (s - m_i)     q_i <- q_i + .04 p_i (s^2 - q_i)                     (6)
    log kappa_i <- log kappa_i + 1.25 eta/d z_bar (r_i - .6), from 0, never below;     r_i = min(1, m_i^2/q_i)                   (7)

m is the mean of s weighted by activity, q the plain mean of s^2, over the same time. r_i says two things. Does n_i grow with the
activity of the others? If the facet cuts into the data it does, because a cone has no scale, and r_i is about 1; if the facet is
right, n_i is noise, which knows nothing of the sources. And how is n_i distributed? If it is independent of z_bar,
r_i = <n>^2/<n^2>: .75 if the facet cuts into the data, .64 for noise around an atom at zero, .59 for noise around a density, .5 if
the facet follows the tails of the noise. Where sources are correlated the first decides, where their sum is constant the second.
Samples count by z_bar: with a memory in plain samples kappa diverges where sources are silent for 90 % of the time. Rates (5) fall
as the wall hardens: a sample below zero then moves its facet by at most eta z'z/d times its distance, whatever kappa. s and |v_i|
count as 5 times their usual size at most, so that one outlier does no harm. A given kappa is reached from 1 by r_i = 1 in (7): a
network that starts with a hard wall does not move. With a horizon kappa_i is at most (eta horizon/d)^2, the wall that (2) can still
move by its own width in that time.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..kernels.orthant_rotation import white_input
from ..kernels.plasticity import apply, average, averaging_weight, dot, dot_rows, dot_vectors, project
from ..kernels.rule import RATE, SILENT, UNSETTLED, Rule, bookkeeping, hot, register, shapes, solve_lateral
from ..kernels.running_whitening import SHAPES, Whitening, is_due, is_in_block, is_usable, start, tend, weigh, whiten
from ..kernels.settling import scratch, settle_lateral
from .natural import AVERAGING, whitening_matrix

#: Eqs. 6 and 7: how fast kappa moves, the memory in samples below zero, the r_i at which it stops.
HARDENING, MEMORY, SHAPE = 1.25, 0.04, 0.6
#: Largest s and |v_i| in units of their usual size.
BOUND = 5.0
#: b_i of the local rule over that of natural steps.
LOCAL = 3.0


class Sweeps(NamedTuple):
    """Settle neuron after neuron until no rate changes by more than `tol` of the largest, `n` times at most."""

    tol: float
    n: int


@settle_lateral.register(Sweeps)
def _settle_by_sweeps(dynamics, M, H, c, z, ws, rectified):
    for i in range(c.shape[0]):
        z[i] = max(c[i], c.dtype.type(0))
    for _ in range(dynamics.n):
        change = c.dtype.type(0)
        largest = c.dtype.type(0)
        for i in range(c.shape[0]):
            new = max(c[i] - (dot(M, i, z) - z[i]), c.dtype.type(0))
            change = max(change, abs(new - z[i]))
            largest = max(largest, new)
            z[i] = new
        if change <= dynamics.tol * largest:
            return
    ws.events[UNSETTLED] += 1


class Wall(NamedTuple):
    """What each neuron knows of its facet."""

    log_kappa: np.ndarray
    p: np.ndarray  # eq. 6
    m: np.ndarray
    q: np.ndarray


class State(NamedTuple):
    """What a network with natural steps remembers."""

    white: Whitening
    F: np.ndarray
    wall: Wall
    W_xz: np.ndarray  # from K F x
    W_zz: np.ndarray
    W_xz_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_zz_mean: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class LocalState(NamedTuple):
    """What a strictly local network remembers."""

    wall: Wall
    W_xz: np.ndarray
    W_zz: np.ndarray
    W_xz_mean: np.ndarray
    W_zz_mean: np.ndarray
    size: np.ndarray  # (1,) running mean of x'x/d
    x_power: np.ndarray  # running mean of x^2, kept where `Params.scaled` is set
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Any
    horizon: int  # 0: none
    eps: float
    average: bool
    adapts: bool  # whether each neuron finds its kappa; otherwise it grows to the largest
    kappa: float  # the largest
    scaled: bool  # whether mixtures are divided by their running root mean square; local networks only


class Work(NamedTuple):
    """Scratch arrays."""

    v: np.ndarray  # K F x, in float64 like `dv` and `w`
    dv: np.ndarray
    w: np.ndarray
    u: np.ndarray  # F x
    c: np.ndarray
    membrane: np.ndarray
    y: np.ndarray  # z; the loop knows every rule's output by this name
    b: np.ndarray
    p: np.ndarray  # P v
    ws: Any


def init(F: np.ndarray, u_bar: np.ndarray, n: int, W_xz: Any, W_zz: Any, rng: Any) -> State:
    """Return a network that starts from n samples, which F whitens and whose mean is then u_bar, with these weights (copied)."""
    return State(white=start(len(F), F.dtype, u_bar, n), F=F.copy(), **_common(W_xz, W_zz, rng))


def init_local(W_xz: np.ndarray, W_zz: np.ndarray, size: float, rng: np.random.RandomState) -> LocalState:
    """Return a local network with these initial weights (copied); `size` is the mean of x'x/d."""
    return LocalState(size=np.array([size]), x_power=np.zeros(W_xz.shape[1]), **_common(W_xz, W_zz, rng))


def _common(W_xz: np.ndarray, W_zz: np.ndarray, rng: np.random.RandomState) -> dict[str, Any]:
    d, dtype = len(W_zz), W_zz.dtype
    weights = {"W_xz": W_xz.copy(), "W_zz": W_zz.copy(), "W_xz_mean": W_xz.copy(), "W_zz_mean": W_zz.copy()}
    return weights | {"wall": Wall(np.zeros(d, dtype), *np.ones((3, d), dtype))} | bookkeeping(d, rng)


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_zz.dtype
    return Work(*np.zeros((3, d)), *np.zeros((6, d), dtype), scratch(d, dtype))


def settle(state, work, params, X, t):
    """Eq. 1 for v = K F x."""
    white_input(state, work, X, t)
    apply(state.W_xz, work.v, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.W_zz, work.c, work.y, work.ws, True)


def settle_local(state, work, params, X, t):
    """Eq. 1."""
    project(state.W_xz, X, t, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.W_zz, work.c, work.y, work.ws, True)


@hot
def inhibit(state, work, params, eta):
    """Eqs. 2, 5, 6 and 7; work.membrane and work.b become v and b. Returns w mean |v| and the sum of n^2."""
    W_zz, wall, c, z, v = state.W_zz, state.wall, work.c, work.y, work.membrane
    d = z.shape[0]
    real = W_zz.dtype.type
    one, zero = real(1), real(0)
    total = active = negative = zero
    for i in range(d):
        v[i] = c[i] - (dot(W_zz, i, z) - z[i])
        total += abs(v[i])
        active += z[i]
        negative += min(v[i], zero) * min(v[i], zero)
    w = one / max(one, total / d)
    step = real(eta / d)
    top = math.log(params.kappa)
    bottom = min(top, 0.0)
    if params.horizon > 0:
        top = max(bottom, min(top, 2 * math.log(max(eta * params.horizon / d, 1.0))))
    for i in range(d):
        kappa = math.exp(wall.log_kappa[i])
        root = math.sqrt(kappa)
        push = one
        others = active - z[i]
        if v[i] < 0:
            s = min(-w * root * v[i], real(BOUND) * math.sqrt(wall.q[i]))
            push = one - root * s
            if others > 0:
                z_bar = w * others / (d - 1)
                wall.p[i] += real(MEMORY) * (z_bar - wall.p[i])
                wall.m[i] += real(MEMORY) * z_bar * (s - wall.m[i])
                wall.q[i] += real(MEMORY) * wall.p[i] * (s * s - wall.q[i])
                r = one
                if params.adapts and wall.m[i] * wall.m[i] < wall.q[i]:
                    r = wall.m[i] * wall.m[i] / wall.q[i]
                new = wall.log_kappa[i] + real(HARDENING) * step * z_bar * (r - real(SHAPE))
                wall.log_kappa[i] = min(max(new, real(bottom)), real(top))
        a = step / kappa
        for j in range(d):
            if j != i:
                W_zz[i, j] += a * (w * z[j] * push - W_zz[i, j])
        work.b[i] = step / (root * math.sqrt(root))
    return w * total / d, negative


@hot
def learn_averages(state, weight):
    """The averaged weights."""
    average(state.W_xz_mean, state.W_xz, weight)
    average(state.W_zz_mean, state.W_zz, weight)


@hot
def gains(work, i, b, size, activity):
    """What row i of W_xz is multiplied with (eq. 4), and what P x is added with (eq. 3); size = x'P x."""
    one = b.dtype.type(1)
    h = b[i] * activity * (one - min(abs(work.membrane[i]), b.dtype.type(BOUND)))
    # 1 + h could turn the weights around: for few neurons or the local rule, where a sample is large.
    return one + h if h > 0 else one / (one - h), b[i] / (one + b[i] * size) * (work.membrane[i] - work.c[i])


def learn(state, work, params, X, t, rates):
    """Eqs. 2 to 7, then the whitening."""
    white, W_xz, v, p = state.white, state.W_xz, work.v, work.p
    d = v.shape[0]
    state.t[0] += 1
    if not is_usable(white, work.u, v):
        return
    distance_2, weight = weigh(white, v, work.dv, params.guards.rate, params.horizon)
    work.ws.events[RATE] += weight < 1
    activity, negative = inhibit(state, work, params, weight * rates[t, 0])
    if is_in_block(white, params.horizon):
        white.negative[0] += min(weight * negative / d, 1.0)
    along = dot_vectors(white.v_bar, v) / (1 + dot_vectors(white.v_bar, white.v_bar))
    for j in range(d):
        p[j] = v[j] - along * white.v_bar[j]
    size = dot_vectors(p, v)
    for i in range(d):
        homeostasis, f = gains(work, i, work.b, size, activity)
        for j in range(d):
            W_xz[i, j] = homeostasis * W_xz[i, j] + f * p[j]
    f, beta, _ = whiten(white, work.dv, distance_2, weight, params.horizon, work.w)
    if white.prior[0] == 0:
        keep_product(W_xz, work.dv, f, beta, distance_2)
        if params.average:
            keep_product(state.W_xz_mean, work.dv, f, beta, distance_2)
    if params.average:
        learn_averages(state, averaging_weight(white.n[0], AVERAGING, params.horizon))


@hot
def keep_product(W, dv, f, beta, q):
    """W <- W (I + beta dv dv')^-1 / f, so that W K stays as it is when K <- f (I + beta dv dv') K."""
    shrink = beta / (1 + beta * q)
    over_f = 1 / f
    for i in range(W.shape[0]):
        s = 0.0
        for j in range(dv.shape[0]):
            s += W[i, j] * dv[j]
        s *= shrink
        for j in range(dv.shape[0]):
            W[i, j] = over_f * (W[i, j] - s * dv[j])


def learn_local(state, work, params, X, t, rates):
    """Eqs. 2 to 7 with P = I/<x'x/d>."""
    W_xz = state.W_xz
    d, k = W_xz.shape
    state.t[0] += 1
    activity, _ = inhibit(state, work, params, rates[t, 0])
    xx = dot_rows(X, t, X, t, k)
    limit = BOUND * BOUND * state.size[0]  # of an outlier
    state.size[0] += (min(xx / d, limit) - state.size[0]) / (
        min(state.t[0] + k, params.horizon) if params.horizon > 0 else state.t[0] + k
    )
    scale = W_xz.dtype.type(1 / state.size[0])
    size = W_xz.dtype.type(xx) * scale
    for i in range(d):
        work.b[i] *= W_xz.dtype.type(LOCAL)
        homeostasis, f = gains(work, i, work.b, size, activity)
        f *= scale
        for j in range(k):
            W_xz[i, j] = homeostasis * W_xz[i, j] + f * X[t, j]
    if params.average:
        learn_averages(state, averaging_weight(state.t[0], AVERAGING, params.horizon))


def attend(state: State, params: Params) -> None:
    """What the whitening asks for (`tend`); after an abrupt change the network starts again, with outputs of positive mean."""
    white, W_xz, W_zz = state.white, state.W_xz, state.W_zz
    if tend(state, W_xz, params):
        W_xz[:] = W_zz[:] = np.eye(len(W_zz))
        for a, first in zip(state.wall, (0, 1, 1, 1), strict=True):
            a[:] = first
    else:
        negative = W_xz @ white.v_bar < 0
        if white.prior[0] == 0 or not negative.any():
            return
        W_xz[negative] *= -1
        state.repairs[SILENT] += np.count_nonzero(negative)
    state.W_xz_mean[:], state.W_zz_mean[:] = W_xz, W_zz


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz K F."""
    return np.asarray(solve_lateral(state.W_zz, state.W_xz) @ whitening_matrix(state))


def unmixing_local(state: LocalState) -> np.ndarray:
    """W_zz^-1 W_xz."""
    return solve_lateral(state.W_zz, state.W_xz)


_WALL = shapes(d="wall.log_kappa wall.p wall.m wall.q")
_AVERAGES = {"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"}

RULE = register(
    Rule(
        "cone_network", State, Params,
        SHAPES | _WALL | shapes(dk="F", dd="W_xz W_zz W_xz_mean W_zz_mean"),
        workspace, settle, learn, unmixing, is_due=is_due, attend=attend,
        parts={"white": Whitening, "wall": Wall}, averages=_AVERAGES, projection="F",
    )
)  # fmt: skip

LOCAL_RULE = register(
    Rule(
        "local_cone_network", LocalState, Params,
        _WALL | shapes(dk="W_xz W_xz_mean", dd="W_zz W_zz_mean") | {"size": "1:float64", "x_power": "k:float64"},
        workspace, settle_local, learn_local, unmixing_local,
        parts={"wall": Wall}, averages=_AVERAGES,
    )
)  # fmt: skip
