"""Both of the paper's rules with natural-gradient steps: see `running_whitening` for u, r, p, R and the size of a step."""

import math
from typing import Any, NamedTuple

import numpy as np

from .plasticity import apply, average, averaging_weight, dot, hebb_uncentred, multiply_transposed, project, subtract
from .rule import FROZEN, Rule, bookkeeping, hot, inverse, ordered, register, shapes, solve_lateral
from .running_whitening import (
    AVERAGING,
    SHAPES,
    Input,
    InputWork,
    copy_matrix,
    flip_negative,
    floor_covariance,
    has_changed,
    input_workspace,
    is_due,
    lift_spectrum,
    observe,
    quiet_scale,
    restart,
    scale_matrix,
    step_size,
    symmetric_function,
)
from .settling import REFRESH, follow_scaled, invert, refresh_inverse, scratch, settle_interneurons, settle_lateral

# ---------------------------------------------------------------------------------------------- frozen channels
#
# Frozen channels: a sensor that repeats exactly the same value carries no information.
#
# Channel j is stuck when it has repeated itself more than 20 + 4 longest_j times, longest_j being its longest run so far (a run
# counts as that limit at most): sparse data teach it how long their own zeros last. While any channel is stuck nothing is learned
# and nothing is forgotten. After 10 horizons (10,000 samples without one) a stuck channel
# is taken as it is, unless all are stuck. A channel that has never
# varied is not stuck.
#
# *Beyond the paper.* With horizon=10,000, 100,000 zeros and then 1e6 good samples ended at an error of 1.6: the inverse
# covariance had grown by 1/(1 - 1/horizon) a sample. With this guard the zeros change nothing.

SPARE_RUN, RUNS = 20, 4
#: A stuck channel is taken as it is after so many horizons, or samples without a horizon.
STUCK, LASTING = 10, 10_000
#: Inputs with so many channels are wide.
WIDE = 1000


@hot
def is_frozen(inp, u, X, t, horizon, events):
    """Whether the mixture X[t] comes from a frozen sensor; follows the runs of the channels.

    The channels of a wide input are those of u: blocks of wide inputs are projected before the loop (`engines.blocks`), and the
    mixtures are not at hand.
    """
    last, run, longest = inp.last, inp.run, inp.longest
    wide = last.shape[0] >= WIDE
    stuck = False
    every = True
    most = 0
    for j in range(u.shape[0] if wide else X.shape[1]):
        limit = SPARE_RUN + RUNS * longest[j]
        now = u[j] if wide else X[t, j]
        if now == last[j] and run[j] >= 0:
            run[j] += 1
            most = max(most, run[j])
            if longest[j] >= 0:
                over = run[j] > limit
                every &= over
                stuck |= over and run[j] <= (STUCK * horizon if horizon > 0 else LASTING)
        else:
            if run[j] >= 0:
                longest[j] = max(longest[j], min(run[j], limit))
                every = False
            run[j] = 0
            last[j] = now
    if not (stuck or (every and most > SPARE_RUN)):
        return False
    events[FROZEN] += 1
    return True


# ---------------------------------------------------------------------------------------------- the turn
#
# The turn of a natural network: a sample that violates nonnegativity turns V, in one plane, towards the orthant.
#
# v = V u is what the outputs would be without rectification, y the outputs; V = M^-1 W. If some v_i < 0, turn v towards y in the
# plane of the two:
#
#     a = y/|y|,  b = (v - (a'v) a)/|v - (a'v) a|,  theta the angle between v and y,  tan(phi/2) = f tan(theta/2)
#     V <- V + ((cos phi - 1)(a a' + b b') + sin phi (a b' - b a')) V,        that is W <- W + M (...) V
#     f = lambda |y|^2/(1 + |y|^2)/(1 + 10 t^2),   t = |v - (a'v) a|/|y|,   lambda = 1.8 (1 + m/(1000 d))^-1/2
#
# where m counts the samples that turned (never above the horizon). A rotation from the left keeps V'V: it does not disturb the
# step of `natural_input`, which keeps V'V = R and leaves rotations alone.
#
# *Beyond the paper.* Near the solution samples are inequality constraints, and a step past the face (lambda > 1, as in successive
# over-relaxation) helps sources with little density at zero: gamma sources, d = 20, worst of 3, lambda 1.0 / 1.5 / 1.8: 13.7 /
# 3.5 / 2.3 times the error of BatchNICA (Algorithm 2), 8.2 / 2.8 / 2.2 (Algorithm 1). 1/(1 + 10 t^2) makes the step smaller where
# angles are large; lambda falls where noise makes every sample violate, and stays where violations are rare. |y|^2/(1 + |y|^2):
# small samples carry noise, not direction.

LAMBDA, TURNS, LARGE_ANGLE = 1.8, 1000.0, 10.0


class TurnWork(NamedTuple):
    """Scratch arrays of a turn."""

    v: np.ndarray
    a: np.ndarray
    b: np.ndarray
    Ha: np.ndarray
    Hb: np.ndarray
    Va: np.ndarray  # V'a
    Vb: np.ndarray


def turn_workspace(d, dtype):
    """Allocate scratch arrays."""
    return TurnWork(*(np.zeros(d, dtype) for _ in TurnWork._fields))


@hot
def find_turn(inp, W, H, c, y, share, horizon, work):
    """The plane of the turn for outputs y of c = W u, in work.a, b, Va, Vb; returns cos phi - 1 and sin phi.

    Both are 0 for a sample that does not turn.
    """
    v, a, b, Va, Vb, turned = work.v, work.a, work.b, work.Va, work.Vb, inp.turned
    d = y.shape[0]
    zero, one = W.dtype.type(0), W.dtype.type(1)
    silent = False
    for i in range(d):
        silent |= not y[i] > 0
    if not silent:
        return zero, zero
    apply(H, c, v)
    violated = False
    yy = zero
    vy = zero
    for i in range(d):
        violated |= v[i] < 0
        yy += y[i] * y[i]
        vy += v[i] * y[i]
    if not violated:
        return zero, zero
    if horizon > 0:
        turned[0] -= turned[0] / horizon
    turned[0] += 1
    if not yy > 0:
        return zero, zero
    # Sums are apart from stores, and quotients outside of loops: else the bits would depend on where in memory the arrays are.
    scale = one / math.sqrt(yy)
    along = vy * scale
    for i in range(d):
        a[i] = y[i] * scale
        b[i] = v[i] - along * a[i]
    ee = zero
    for i in range(d):
        ee += b[i] * b[i]
    if not ee > 0:
        return zero, zero
    inp.negative[0] += share * ee
    e = math.sqrt(ee)
    scale = one / e
    for i in range(d):
        b[i] *= scale
    apply(H, a, work.Ha)
    apply(H, b, work.Hb)
    _apply_transposed(W, work.Ha, work.Hb, Va, Vb)
    f = W.dtype.type(LAMBDA / math.sqrt(1 + turned[0] / (TURNS * d)))
    f *= share * yy / (one + yy) / (one + W.dtype.type(LARGE_ANGLE) * ee / yy)
    f *= e / (math.sqrt(along * along + ee) + along)  # tan(theta/2)
    scale = W.dtype.type(2) / (one + f * f)
    return -f * f * scale, f * scale


@ordered
def _apply_transposed(W, f, g, a, b):
    """a <- W'f and b <- W'g."""
    for j in range(W.shape[1]):
        a[j] = 0
        b[j] = 0
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            a[j] += W[i, j] * f[i]
            b[j] += W[i, j] * g[i]


@ordered
def turn(W, M, less, sin, work):
    """W <- W + M (less (a a' + b b') + sin (a b' - b a')) V, where less = cos phi - 1."""
    if sin == 0:
        return
    for i in range(W.shape[0]):
        a = dot(M, i, work.a)
        b = dot(M, i, work.b)
        along = less * a - sin * b
        across = less * b + sin * a
        for j in range(W.shape[1]):
            W[i, j] = (W[i, j] + along * work.Va[j]) + across * work.Vb[j]


# ---------------------------------------------------------------------------------------------- Algorithm 1
#
# Algorithm 1 with natural-gradient steps: see `natural_input` for u, r, R and the size of a step, `turn` for the turn.
#
# For each mixture, with u = F x and the activity at the fixed point of y <- [y + gamma (W_xy u - W_ny n)]_+,
# n <- n + gamma (W_yn y - n), M = W_yn'W_yn and V = M^-1 W_xy,
#
#     W_xy <- W_xy + a (dy r' - W_xy)                 r = R (u - u_bar),  dy = y - V u_bar
#     W_yn <- sqrt(1 - a) (W_yn + b W_yn M^-1 dy dy') a = eta_t q/(1 + q)^2,  q = dy' M^-1 dy,  k = a/(1 - a)
#     W_ny  = W_yn'                                   b = (sqrt(1 + k q) - 1)/q
#     W_xy <- W_xy + M T V                            V of before, T the turn of a sample with some (V u)_i < 0
#
# *Beyond the paper.* The update of W_yn is a square root of M <- (1 - a) M + a dy dy': with G = I + b M^-1 dy dy', G'M G = M + (2
# b + b^2 q) dy dy' = M + k dy dy'. Hence V <- V + a M_new^-1 dy (r - V'dy)', which is zero for every sample and every a where y =
# V u and V'V = R. The paper's W_yn <- W_yn + (a/2)(dn dy' - W_yn) does this only to first order and only at M = I; and y - y_bar
# with a running mean of y is not V (u - u_bar) while V moves. Measured as a stream at eta = 0.1: exponential sources, d = 3,
# 1.5e-5 with both, 1e-3 to 3e-2 with the square root alone.
#
# The square root needs W_ny = W_yn'. Networks in which the two start apart (`decoupled`, appendix B) are those of `interneuron`.


class InterneuronState(NamedTuple):
    """What the network remembers."""

    inp: Input
    W_xy: np.ndarray  # from u
    W_yn: np.ndarray
    M: np.ndarray  # W_yn'W_yn
    H: np.ndarray  # the inverse of M
    W_xy_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    M_mean: np.ndarray
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
    average: bool = False


class InterneuronWork(NamedTuple):
    """Scratch arrays."""

    first: InputWork
    turn: TurnWork
    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    dy: np.ndarray
    m: np.ndarray  # V u_bar
    g: np.ndarray  # M^-1 dy
    dn: np.ndarray  # W_yn M^-1 dy
    V: np.ndarray  # a matrix
    ws: Any


def init_interneuron(inp: Input, W_xy: np.ndarray, W_yn: np.ndarray, rng: np.ndarray) -> InterneuronState:
    """Return a network with this input side and these initial weights (copied)."""
    M = W_yn.T @ W_yn
    return InterneuronState(
        inp=inp,
        W_xy=W_xy.copy(),
        W_yn=W_yn.copy(),
        M=M,
        H=inverse(M),
        W_xy_mean=W_xy.copy(),
        M_mean=M.copy(),
        **bookkeeping(len(W_xy), rng),
    )


def workspace_interneuron(state):
    """Allocate scratch arrays."""
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    c, y, dy, mean, g = np.zeros((5, d), dtype)
    n, dn = np.zeros((2, m), dtype)
    first, turn = input_workspace(d, dtype), turn_workspace(d, dtype)
    return InterneuronWork(first, turn, c, y, n, dy, mean, g, dn, np.zeros((d, d), dtype), scratch(d, dtype))


def settle_interneuron(state, work, params, X, t):
    """u = F x, and eq. 9 with W_xy u."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xy, work.first.u, work.c)
    W_yn = state.W_yn
    settle_interneurons(params.dynamics, W_yn, W_yn.T, state.M, state.H, work.c, work.y, work.n, work.ws)


def learn_interneuron(state, work, params, X, t, rates):
    """The input side, the synaptic updates and the turn."""
    inp, W_xy, M, H, dy, g = state.inp, state.W_xy, state.M, state.H, work.dy, work.g
    state.t[0] += 1
    if params.guards.frozen and is_frozen(inp, work.first.u, X, t, params.horizon, work.ws.events):
        return
    share = observe(inp, work.first, params, work.ws.events)
    less, sin = find_turn(inp, W_xy, H, work.c, work.y, share, params.horizon, work.turn)
    apply(W_xy, inp.u_bar, work.c)
    apply(H, work.c, work.m)
    subtract(work.y, work.m, dy)
    q, a = step_size(inp, H, dy, g, rates[t, 0], share)
    hebb_uncentred(W_xy, a, dy, work.first.r)
    hebb_root(state.W_yn, a, q, g, dy, work.dn)
    hebb_uncentred(M, a, dy, dy)
    follow_scaled(H, a, g, q)
    turn(W_xy, M, less, sin, work.turn)
    if params.average:
        weight = averaging_weight(inp.n[0], AVERAGING, params.horizon)
        average(state.W_xy_mean, W_xy, weight)
        average(state.M_mean, M, weight)


@hot
def hebb_root(W_yn, a, q, g, dy, dn):
    """W_yn <- sqrt(1 - a) (W_yn + b dn dy') with dn = W_yn g, so that W_yn'W_yn follows (1 - a) M + a dy dy'."""
    one = W_yn.dtype.type(1)
    k = a / (one - a)
    b = k / (one + math.sqrt(one + k * q))
    root = math.sqrt(one - a)
    apply(W_yn, g, dn)
    for i in range(W_yn.shape[0]):
        f = b * dn[i]
        for j in range(W_yn.shape[1]):
            W_yn[i, j] = root * (W_yn[i, j] + f * dy[j])


def inspect_interneuron(state, work, params):
    """The guards `spectrum`, `silent` and `restart`; M and H are recomputed from time to time."""
    inp, W_xy, W_yn, M, H, guards, ws = state.inp, state.W_xy, state.W_yn, state.M, state.H, params.guards, work.ws
    if not is_due(inp):
        return
    if state.t[0] % REFRESH == 0:
        multiply_transposed(W_yn, M)
        invert(M, H)
    scale = quiet_scale(inp, M.shape[0])
    if guards.spectrum:
        if scale < 1:
            scale_matrix(W_xy, scale)
            scale_matrix(W_yn, math.sqrt(scale))
            scale_matrix(M, scale)
            scale_matrix(H, 1 / scale)
        floor_covariance(inp, params.horizon, work.V)
        if lift_spectrum(W_xy, M, H, work.V, ws):
            symmetric_function(ws.u, ws.L, 0.5, W_yn)
    restarts_averages = False
    if guards.silent:
        restarts_averages = flip_negative(W_xy, M, H, inp.u_bar, work.c, work.m, ws.events)
        for i in range(M.shape[0]):
            if work.m[i] < 0:
                for j in range(W_yn.shape[0]):
                    W_yn[j, i] = -W_yn[j, i]
    if guards.restart and has_changed(inp, W_xy, H, work.V, work.c, work.m, params, ws):
        if params.horizon > 0:
            restart(inp, W_xy, M, H, work.V, work.c, work.m, False, ws)
            for i in range(W_yn.shape[0]):
                for j in range(W_yn.shape[1]):
                    W_yn[i, j] = 1 if i == j else 0
            restarts_averages = True
        else:
            inp.changed[0] = True
            inp.n_block[0] = 0
    if restarts_averages:
        copy_matrix(W_xy, state.W_xy_mean)
        copy_matrix(M, state.M_mean)


def unmixing_interneuron(state: InterneuronState) -> np.ndarray:
    """(W_yn'W_yn)^-1 W_xy F."""
    return np.asarray(solve_lateral(state.M, state.W_xy) @ state.inp.F)


INTERNEURON = register(
    Rule(
        "natural_interneuron", InterneuronState, Params,
        SHAPES | shapes(dd="W_xy W_xy_mean M M_mean H", md="W_yn"),
        workspace_interneuron, settle_interneuron, learn_interneuron, unmixing_interneuron, inspect=inspect_interneuron,
        parts={"inp": Input},
        averages={"W_xy": "W_xy_mean", "M": "M_mean"},
        roots={"W_yn": "M"},
        inverses={"H": "M"},
        learns_by_inverses=True,
        symmetric=("M",),
        projection="inp.F",
    )
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- Algorithm 2
#
# Algorithm 2 with natural-gradient steps: see `natural_input` for u, r, p, R and the size of a step, `turn` for the turn.
#
# For each mixture, with u = F x, c = W_xz u and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+,
#
#     W_xz <- W_xz + a (z p' - W_xz)                  p = R u
#     W_zz <- W_zz + a (z z' - W_zz)                  a = eta_t q/(1 + q)^2,  q = z' W_zz^-1 z
#     W_xz <- W_xz + W_zz T V                         V = W_zz^-1 W_xz of before, T the turn of a sample with some (V u)_i < 0
#
# *Beyond the paper.* Algorithm 2's z x' - (c - c_bar)(x - x_bar)', times R, is z p' - (c - c_bar) r', and the second term
# averages to
# W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. With M = W_zz the two updates give
#
#     V <- V + a M_new^-1 z (p - V'z)'
#
# because W_xz_new = M_new V + a z (p - V'z)'. At the solution z = V u and V'V = R, so that p = R u = V'z: the step is zero for
# every
# sample and every a. (tau = 1/2 of the paper: W_zz learns at 2 eta, as W_xz does.) Measured as a stream: exponential sources,
# d = 3,
# 1e-3 with rates of 1/t, 1e-5 with constant ones.


class TwoCompartmentState(NamedTuple):
    """What the network remembers."""

    inp: Input
    W_xz: np.ndarray  # from u
    W_zz: np.ndarray
    H: np.ndarray  # the inverse of W_zz
    W_xz_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_zz_mean: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class TwoCompartmentWork(NamedTuple):
    """Scratch arrays."""

    first: InputWork
    turn: TurnWork
    c: np.ndarray
    p: np.ndarray
    g: np.ndarray  # W_zz^-1 z
    y: np.ndarray
    V: np.ndarray  # a matrix
    ws: Any


def init_two_compartment(inp: Input, W_xz: np.ndarray, W_zz: np.ndarray, rng: np.ndarray) -> TwoCompartmentState:
    """Return a network with this input side and these initial weights (copied)."""
    return TwoCompartmentState(
        inp=inp,
        W_xz=W_xz.copy(),
        W_zz=W_zz.copy(),
        H=inverse(W_zz),
        W_xz_mean=W_xz.copy(),
        W_zz_mean=W_zz.copy(),
        **bookkeeping(len(W_zz), rng),
    )


def workspace_two_compartment(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_xz.dtype
    c, p, g, y = np.zeros((4, d), dtype)
    first, turn = input_workspace(d, dtype), turn_workspace(d, dtype)
    return TwoCompartmentWork(first, turn, c, p, g, y, np.zeros((d, d), dtype), scratch(d, dtype))


def settle_two_compartment(state, work, params, X, t):
    """u = F x, c = W_xz u, and eq. 15."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xz, work.first.u, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


def learn_two_compartment(state, work, params, X, t, rates):
    """The input side, the two synaptic updates and the turn."""
    inp, W_xz, W_zz, H, z = state.inp, state.W_xz, state.W_zz, state.H, work.y
    state.t[0] += 1
    if params.guards.frozen and is_frozen(inp, work.first.u, X, t, params.horizon, work.ws.events):
        return
    share = observe(inp, work.first, params, work.ws.events)
    less, sin = find_turn(inp, W_xz, H, work.c, z, share, params.horizon, work.turn)
    for j in range(work.p.shape[0]):
        work.p[j] = work.first.r[j] + inp.v[j]
    q, a = step_size(inp, H, z, work.g, rates[t, 0], share)
    hebb_uncentred(W_xz, a, z, work.p)
    hebb_uncentred(W_zz, a, z, z)
    follow_scaled(H, a, work.g, q)
    turn(W_xz, W_zz, less, sin, work.turn)
    if params.average:
        weight = averaging_weight(inp.n[0], AVERAGING, params.horizon)
        average(state.W_xz_mean, W_xz, weight)
        average(state.W_zz_mean, W_zz, weight)


def inspect_two_compartment(state, work, params):
    """The guards `spectrum`, `silent` and `restart`; H is recomputed from time to time."""
    inp, W_xz, W_zz, H, guards, ws = state.inp, state.W_xz, state.W_zz, state.H, params.guards, work.ws
    if not is_due(inp):
        return
    refresh_inverse(W_zz, H, state.t[0], False)
    scale = quiet_scale(inp, W_zz.shape[0])
    if guards.spectrum:
        if scale < 1:
            scale_matrix(W_xz, scale)
            scale_matrix(W_zz, scale)
            scale_matrix(H, 1 / scale)
        floor_covariance(inp, params.horizon, work.V)
        lift_spectrum(W_xz, W_zz, H, work.V, ws)
    restarts_averages = guards.silent and flip_negative(W_xz, W_zz, H, inp.u_bar, work.p, work.g, ws.events)
    if guards.restart and has_changed(inp, W_xz, H, work.V, work.p, work.g, params, ws):
        if params.horizon > 0:
            restart(inp, W_xz, W_zz, H, work.V, work.p, work.g, True, ws)
            restarts_averages = True
        else:
            inp.changed[0] = True
            inp.n_block[0] = 0
    if restarts_averages:
        copy_matrix(W_xz, state.W_xz_mean)
        copy_matrix(W_zz, state.W_zz_mean)


def unmixing_two_compartment(state: TwoCompartmentState) -> np.ndarray:
    """W_zz^-1 W_xz F."""
    return np.asarray(solve_lateral(state.W_zz, state.W_xz) @ state.inp.F)


TWO_COMPARTMENT = register(
    Rule(
        "natural_two_compartment", TwoCompartmentState, Params,
        SHAPES | shapes(dd="W_xz W_zz H W_xz_mean W_zz_mean"),
        workspace_two_compartment, settle_two_compartment, learn_two_compartment,
        unmixing_two_compartment, inspect=inspect_two_compartment,
        parts={"inp": Input},
        averages={"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"},
        inverses={"H": "W_zz"},
        learns_by_inverses=True,
        symmetric=("W_zz",),
        projection="inp.F",
    )
)  # fmt: skip
