"""Both of the paper's rules with natural-gradient steps: the same networks, learning in white coordinates.

*Beyond the paper.* With the paper's settings on a random mixing matrix most runs fail (Algorithm 2 at d = 3 in 17 of 20): the
covariance of the mixtures sets the step that each direction can bear. A natural-gradient step takes the covariance out. It is
not a local rule; the strictly local networks are beside it (`interneuron`, `two_compartment`).

    u = F x                        F (d x k): noncentered whitening of a first block of mixtures, onto the d leading directions;
                                   fixed. It takes care of k > d, scale and condition
    v = K u                        the running whitening of u (see `running_whitening`), with the mean v_bar
    W, M                           weights from v, and lateral weights (W_zz, or W_yn'W_yn); V = M^-1 W is what the network does
                                   while every neuron fires

With a postsynaptic vector s and a presynaptic vector p both networks take the step

    W <- (1 - a) W + a s p'        M <- (1 - a) M + a s s'        a = g eta r/(1 + r)^2,  r = |s|^2,  eta = 0.05
    hence V <- V + a M_new^-1 s (p - V's)'

where g is the weight of the sample. The step is zero, whatever a, where s = V p and V'V = I: at the solution the noise of the two
updates cancels exactly, not only to first order. So eta need not fall. The factor r/(1 + r) keeps samples of silent sources
from making M vanish. With s' M^-1 s in place of r, M of Algorithm 1 collapses where sources are mostly silent. A sample with a
negative (V v)_i turns V as in `orthant_rotation`: W <- W + M T V, T the rotation less the identity, and V of before the step.

Algorithm 1, with the activity at the fixed point of y <- [y + gamma (W_xy v - W_ny n)]_+, n <- n + gamma (W_yn y - n):

    s = y - V v_bar,  p = v - v_bar
    W_yn <- sqrt(1 - a) (W_yn + b W_yn M^-1 s s')   b = (sqrt(1 + k q) - 1)/q,  k = a/(1 - a)
    W_ny  = W_yn'

The update of W_yn is a square root of that of M: with G = I + b M^-1 s s', G'M G = M + (2 b + b^2 q) s s' = M + k s s'. The paper's
W_yn <- W_yn + (a/2)(dn dy' - W_yn) does this only to first order and only at M = I; and y - y_bar with a running mean of y is not
V (v - v_bar) while V moves. Measured as a stream at eta = 0.1: exponential sources, d = 3, 1.5e-5 with both, 1e-3 to 3e-2 with the
square root alone. The square root needs W_ny = W_yn'. Networks in which the two start apart (`decoupled`, appendix B) are those of
`interneuron`.

Algorithm 2, with c = W_xz v and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+:

    s = z,  p = v

Its z x' - (c - c_bar)(x - x_bar)' becomes, in white coordinates, z v' - (c - c_bar)(v - v_bar)', and the second term averages to
W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. (tau = 1/2 of the paper: W_zz learns at 2 eta, as
W_xz does.) Measured as a stream: exponential sources, d = 3, 1e-3 with rates of 1/t, 1e-5 with constant ones.

Averaged weights: mean <- mean + c (W - mean) with c = (gamma + 1)/(n + gamma), gamma = 10, never below (gamma + 1)/horizon.
`transform` reads out with the means.

Guards. `silent`: every 100 samples an output with a negative mean, (V v_bar)_i < 0, has its sign flipped. `rate`: the weight of a
sample is below 1 for outliers. `restart`: with a horizon the network starts again where the mixing has changed: K <- the rows of
V K made orthonormal, W and M <- I. Without a horizon the change is only reported.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from . import running_whitening
from .orthant_rotation import find_turn
from .plasticity import (
    apply,
    average,
    averaging_weight,
    dot,
    dot_rows,
    hebb_uncentred,
    multiply,
    multiply_transposed,
    project,
    subtract,
)
from .rule import (
    RATE,
    RESTART,
    SILENT,
    Rule,
    bookkeeping,
    cold,
    hot,
    inverse,
    ordered,
    register,
    shapes,
    solve_lateral,
)
from .running_whitening import (
    Whitening,
    add_to_block,
    count,
    distance,
    factors,
    has_lost_size,
    is_block_full,
    is_block_unusual,
    is_called_for,
    is_scaled,
    is_stuck,
    mean_energy,
    move_mean,
    quantile_step,
    sample_weight,
    tend,
    whiten,
)
from .running_whitening import restart as restart_whitening
from .settling import REFRESH, follow_scaled, invert, refresh_inverse, scratch, settle_interneurons, settle_lateral

#: eta of the natural steps, and gamma of the averaged weights.
ETA, AVERAGING = 0.05, 10.0


class InterneuronState(NamedTuple):
    """What the network of Algorithm 1 remembers."""

    white: Whitening
    F: np.ndarray
    turned: np.ndarray  # samples that turned V
    W_xy: np.ndarray  # from v
    W_yn: np.ndarray
    M: np.ndarray  # W_yn'W_yn
    H: np.ndarray  # the inverse of M
    W_xy_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    M_mean: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class TwoCompartmentState(NamedTuple):
    """What the network of Algorithm 2 remembers."""

    white: Whitening
    F: np.ndarray
    turned: np.ndarray
    W_xz: np.ndarray  # from v
    W_zz: np.ndarray
    H: np.ndarray  # the inverse of W_zz
    W_xz_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_zz_mean: np.ndarray
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


class InputWork(NamedTuple):
    """Scratch arrays of the input side and of the turn."""

    u: np.ndarray  # (1, d)
    v: np.ndarray  # K u in float64
    dv: np.ndarray
    G: np.ndarray
    a: np.ndarray
    b: np.ndarray
    Va: np.ndarray  # V'a
    Vb: np.ndarray


class InterneuronWork(NamedTuple):
    """Scratch arrays."""

    first: InputWork
    v: np.ndarray
    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    dv: np.ndarray
    dy: np.ndarray
    m: np.ndarray  # V v_bar
    g: np.ndarray  # M^-1 dy
    dn: np.ndarray  # W_yn M^-1 dy
    ws: Any


class TwoCompartmentWork(NamedTuple):
    """Scratch arrays."""

    first: InputWork
    v: np.ndarray
    c: np.ndarray
    g: np.ndarray  # W_zz^-1 z
    m: np.ndarray  # V v_bar
    y: np.ndarray
    ws: Any


def _start(F: np.ndarray, u_bar: np.ndarray, n: int, rng: np.ndarray) -> dict[str, Any]:
    d = len(F)
    white = running_whitening.start(np.eye(d), np.zeros(d, F.dtype), u_bar, n)
    return {"white": white, "F": F.copy(), "turned": np.zeros(1), **bookkeeping(d, rng)}


def init_interneuron(F: np.ndarray, u_bar: np.ndarray, n: int, W_xy: Any, W_yn: Any, rng: Any) -> InterneuronState:
    """Return a network that starts from n samples, which F whitens and whose mean is then u_bar, with these weights (copied)."""
    M = W_yn.T @ W_yn
    return InterneuronState(
        W_xy=W_xy.copy(), W_yn=W_yn.copy(), M=M, H=inverse(M), W_xy_mean=W_xy.astype(float), M_mean=M.astype(float),
        **_start(F, u_bar, n, rng),
    )  # fmt: skip


def init_two_compartment(
    F: np.ndarray, u_bar: np.ndarray, n: int, W_xz: Any, W_zz: Any, rng: Any
) -> TwoCompartmentState:
    """Return a network that starts from n samples, which F whitens and whose mean is then u_bar, with these weights (copied)."""
    return TwoCompartmentState(
        W_xz=W_xz.copy(), W_zz=W_zz.copy(), H=inverse(W_zz), W_xz_mean=W_xz.astype(float), W_zz_mean=W_zz.astype(float),
        **_start(F, u_bar, n, rng),
    )  # fmt: skip


def input_workspace(d, dtype):
    """Allocate scratch arrays of the input side."""
    return InputWork(np.zeros((1, d), dtype), *np.zeros((2, d)), np.zeros((1, d)), *np.zeros((4, d), dtype))


def workspace_interneuron(state):
    """Allocate scratch arrays."""
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    v, c, y, dv, dy, mean, g = np.zeros((7, d), dtype)
    n, dn = np.zeros((2, m), dtype)
    return InterneuronWork(input_workspace(d, dtype), v, c, y, n, dv, dy, mean, g, dn, scratch(d, dtype))


def workspace_two_compartment(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_xz.dtype
    v, c, g, m, y = np.zeros((5, d), dtype)
    return TwoCompartmentWork(input_workspace(d, dtype), v, c, g, m, y, scratch(d, dtype))


# ---------------------------------------------------------------------------------------------- what both share


@hot
def white_input(state, work, X, t):
    """u = F x and v = K u."""
    u, v = work.first.u, work.first.v
    for i in range(v.shape[0]):
        u[0, i] = dot_rows(state.F, i, X, t, X.shape[1])
    project(state.white.K, u, 0, v)
    for i in range(v.shape[0]):
        work.v[i] = v[i]


@hot
def weigh(white, work, params, events):
    """The squared distance of the sample, and its weight g."""
    q = distance(white.v_bar, white.run, white.age, white.level, work.v, work.dv)
    g = 1.0
    if params.guards.rate:
        g = sample_weight(white.tails, q, quantile_step(white.age, work.v.shape[0]))
        events[RATE] += g < 1
    if params.guards.restart:
        add_to_block(white.products, white.sums, white.length, work.v, g)
    return q, g


@hot
def move_whitening(white, work, q, g, horizon):
    """K and v_bar after the sample; returns f and beta."""
    w, m = count(white.n, white.age, white.prior, white.run, white.repeated, g, horizon)
    f, beta = factors(w, m, q)
    move_mean(white.v_bar, work.dv, f, beta, m)
    whiten(white.K, work.G, work.dv, f, beta)
    return f, beta


@hot
def plane_of_turn(turned, v_bar, negative, W, H, c, y, g, params, work, ws):
    """The plane of the turn for outputs y of c = W v, in work.a, b, Va and Vb; returns cos phi - 1 and sin phi."""
    out, Ha, Hb = ws.free, ws.u, ws.v
    zero = W.dtype.type(0)
    silent = False
    for i in range(y.shape[0]):
        silent |= not y[i] > 0
    if not silent:
        return zero, zero
    apply(H, c, out)
    mean = mean_energy(v_bar)
    cos_1, sin, energy = find_turn(out, mean, work.a, work.b, turned, g, params.horizon, params.eps)
    if sin != 0:
        apply(H, work.a, Ha)
        apply(H, work.b, Hb)
        _apply_transposed(W, Ha, Hb, work.Va, work.Vb)
    negative[0] += min(energy / mean, 1.0)
    return W.dtype.type(cos_1), W.dtype.type(sin)


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
def turn(W, M, cos_1, sin, work):
    """W <- W + M (cos_1 (a a' + b b') + sin (a b' - b a')) V."""
    if sin == 0:
        return
    for i in range(W.shape[0]):
        a = dot(M, i, work.a)
        b = dot(M, i, work.b)
        along = cos_1 * a - sin * b
        across = cos_1 * b + sin * a
        for j in range(W.shape[1]):
            W[i, j] = (W[i, j] + along * work.Va[j]) + across * work.Vb[j]


@hot
def step_size(H, s, g, eta, weight):
    """g <- H s; returns q = s'g and a = weight eta r/(1 + r)^2 with r = |s|^2."""
    q = H.dtype.type(0)
    r = H.dtype.type(0)
    one = H.dtype.type(1)
    for i in range(s.shape[0]):
        g[i] = dot(H, i, s)
        q += g[i] * s[i]
        r += s[i] * s[i]
    return q, H.dtype.type(eta) * H.dtype.type(weight) * (r / (one + r)) / (one + r)


@cold
def flip_negative(W, M, H, v_bar, c, m, events):
    """Flip the sign of every output with a negative mean m_i = (V v_bar)_i; True if there were any."""
    d = M.shape[0]
    apply(W, v_bar, c)
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
def look_after(white, W, M, H, work, ws, params):
    """The floor of the covariance, the test of a block; returns whether the network restarts: K <- V K, W, M and H <- I."""
    restarts = params.guards.restart and has_lost_size(white.level, white.age)
    if not restarts and params.guards.restart and is_block_full(white.length, M.shape[0], params.horizon):
        multiply(H, W, ws.M)
        rotate_block(white.products, white.sums, ws.M, work.v, work.dv)
        if is_block_unusual(white, work.dv, params.horizon):
            restarts = params.horizon > 0
            white.changed[0] = params.horizon == 0
    if restarts:
        multiply(H, W, ws.M)
        for j in range(M.shape[0]):
            for i in range(M.shape[0]):
                work.dv[i] = white.K[i, j]
            for i in range(M.shape[0]):
                white.K[i, j] = dot(ws.M, i, work.dv)
        restart_whitening(white)
        set_identity(W)
        set_identity(M)
        set_identity(H)
        ws.events[RESTART] += 1
    elif white.age[0] >= white.due[0]:
        tend(white, params.horizon, work.dv, work.G)
    return restarts


@cold
def rotate_block(C, mean, V, c, z):
    """C <- V C V' (the lower triangle) and mean <- V mean; c and z are scratch vectors."""
    d = C.shape[0]
    for i in range(d):
        for j in range(i):
            C[j, i] = C[i, j]
    for j in range(d):  # columns: C <- V C
        for i in range(d):
            c[i] = C[i, j]
        for i in range(d):
            C[i, j] = dot(V, i, c)
    for i in range(d):  # rows: C <- C V'
        for j in range(d):
            c[j] = C[i, j]
        for j in range(d):
            C[i, j] = dot(V, j, c)
    apply(V, mean, z)
    for i in range(d):
        mean[i] = z[i]


@cold
def set_identity(A):
    """A <- I."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            A[i, j] = 1 if i == j else 0


@cold
def copy_matrix(W, mean):
    """mean <- W."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            mean[i, j] = W[i, j]


# ---------------------------------------------------------------------------------------------- Algorithm 1


def settle_interneuron(state, work, params, X, t):
    """v = K F x, and eq. 9 with W_xy v."""
    white_input(state, work, X, t)
    apply(state.W_xy, work.v, work.c)
    W_yn = state.W_yn
    settle_interneurons(params.dynamics, W_yn, W_yn.T, state.M, state.H, work.c, work.y, work.n, work.ws)


def learn_interneuron(state, work, params, X, t, rates):
    """The synaptic updates, the turn, the whitening."""
    white, first, W_xy, M, H, dv, dy, g = (
        state.white, work.first, state.W_xy, state.M, state.H, work.dv, work.dy, work.g,
    )  # fmt: skip
    state.t[0] += 1
    if is_stuck(white.last, white.run, white.repeated, first.u, 0) or not is_scaled(white, first.v):
        return
    distance_2, weight = weigh(white, first, params, work.ws.events)
    cos_1, sin = plane_of_turn(
        state.turned, white.v_bar, white.negative, W_xy, H, work.c, work.y, weight, params, first, work.ws
    )
    apply(W_xy, white.v_bar, work.c)
    apply(H, work.c, work.m)
    subtract(work.y, work.m, dy)
    for i in range(dv.shape[0]):
        dv[i] = first.dv[i]
    q, a = step_size(H, dy, g, rates[t, 0], weight)
    hebb_uncentred(W_xy, a, dy, dv)
    hebb_root(state.W_yn, a, q, g, dy, work.dn)
    hebb_uncentred(M, a, dy, dy)
    follow_scaled(H, a, g, q)
    turn(W_xy, M, cos_1, sin, first)
    move_whitening(white, first, distance_2, weight, params.horizon)
    if params.average:
        share = averaging_weight(white.n[0], AVERAGING, params.horizon)
        average(state.W_xy_mean, W_xy, share)
        average(state.M_mean, M, share)


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


def repair_interneuron(state, work, params):
    """What is rarely needed: see `look_after`."""
    white = state.white
    if is_called_for(white.age, white.due, white.power, white.length, white.level, work.v.shape[0], params.horizon):
        if look_after(white, state.W_xy, state.M, state.H, work.first, work.ws, params):
            state.turned[0] = 0
            set_identity(state.W_yn)
            copy_matrix(state.W_xy, state.W_xy_mean)
            copy_matrix(state.M, state.M_mean)


def inspect_interneuron(state, work, params):
    """The guard `silent`; M and H are recomputed from time to time."""
    W_xy, W_yn, M, H = state.W_xy, state.W_yn, state.M, state.H
    if state.t[0] % REFRESH == 0:
        multiply_transposed(W_yn, M)
        invert(M, H)
    if params.guards.silent and flip_negative(W_xy, M, H, state.white.v_bar, work.c, work.m, work.ws.events):
        for i in range(M.shape[0]):
            if work.m[i] < 0:
                for j in range(W_yn.shape[0]):
                    W_yn[j, i] = -W_yn[j, i]
        copy_matrix(W_xy, state.W_xy_mean)
        copy_matrix(M, state.M_mean)


def unmixing_interneuron(state: InterneuronState) -> np.ndarray:
    """(W_yn'W_yn)^-1 W_xy K F."""
    return np.asarray(solve_lateral(state.M, state.W_xy) @ whitening_matrix(state))


# ---------------------------------------------------------------------------------------------- Algorithm 2


def settle_two_compartment(state, work, params, X, t):
    """v = K F x, c = W_xz v, and eq. 15."""
    white_input(state, work, X, t)
    apply(state.W_xz, work.v, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


def learn_two_compartment(state, work, params, X, t, rates):
    """The two synaptic updates, the turn, the whitening."""
    white, first, W_xz, W_zz, H, z = state.white, work.first, state.W_xz, state.W_zz, state.H, work.y
    state.t[0] += 1
    if is_stuck(white.last, white.run, white.repeated, first.u, 0) or not is_scaled(white, first.v):
        return
    distance_2, weight = weigh(white, first, params, work.ws.events)
    cos_1, sin = plane_of_turn(
        state.turned, white.v_bar, white.negative, W_xz, H, work.c, z, weight, params, first, work.ws
    )
    q, a = step_size(H, z, work.g, rates[t, 0], weight)
    hebb_uncentred(W_xz, a, z, work.v)
    hebb_uncentred(W_zz, a, z, z)
    follow_scaled(H, a, work.g, q)
    turn(W_xz, W_zz, cos_1, sin, first)
    move_whitening(white, first, distance_2, weight, params.horizon)
    if params.average:
        share = averaging_weight(white.n[0], AVERAGING, params.horizon)
        average(state.W_xz_mean, W_xz, share)
        average(state.W_zz_mean, W_zz, share)


def repair_two_compartment(state, work, params):
    """What is rarely needed: see `look_after`."""
    white = state.white
    if is_called_for(white.age, white.due, white.power, white.length, white.level, work.v.shape[0], params.horizon):
        if look_after(white, state.W_xz, state.W_zz, state.H, work.first, work.ws, params):
            state.turned[0] = 0
            copy_matrix(state.W_xz, state.W_xz_mean)
            copy_matrix(state.W_zz, state.W_zz_mean)


def inspect_two_compartment(state, work, params):
    """The guard `silent`; H is recomputed from time to time."""
    W_xz, W_zz, H = state.W_xz, state.W_zz, state.H
    refresh_inverse(W_zz, H, state.t[0], False)
    if params.guards.silent and flip_negative(W_xz, W_zz, H, state.white.v_bar, work.c, work.m, work.ws.events):
        copy_matrix(W_xz, state.W_xz_mean)
        copy_matrix(W_zz, state.W_zz_mean)


def unmixing_two_compartment(state: TwoCompartmentState) -> np.ndarray:
    """W_zz^-1 W_xz K F."""
    return np.asarray(solve_lateral(state.W_zz, state.W_xz) @ whitening_matrix(state))


def whitening_matrix(state: Any) -> np.ndarray:
    """K F, in the precision of the network."""
    return np.asarray((state.white.K @ state.F).astype(state.F.dtype))


_SHAPES = running_whitening.SHAPES | shapes(dk="F", d="white.last") | {"turned": "1:float64"}

INTERNEURON = register(
    Rule(
        "natural_interneuron", InterneuronState, Params,
        _SHAPES | shapes(dd="W_xy M H", md="W_yn") | {"W_xy_mean": "dd:float64", "M_mean": "dd:float64"},
        workspace_interneuron, settle_interneuron, learn_interneuron, unmixing_interneuron,
        repair_interneuron, inspect_interneuron,
        parts={"white": Whitening},
        averages={"W_xy": "W_xy_mean", "M": "M_mean"},
        roots={"W_yn": "M"},
        inverses={"H": "M"},
        learns_by_inverses=True,
        symmetric=("M",),
        projection="F",
    )
)  # fmt: skip

TWO_COMPARTMENT = register(
    Rule(
        "natural_two_compartment", TwoCompartmentState, Params,
        _SHAPES | shapes(dd="W_xz W_zz H") | {"W_xz_mean": "dd:float64", "W_zz_mean": "dd:float64"},
        workspace_two_compartment, settle_two_compartment, learn_two_compartment, unmixing_two_compartment,
        repair_two_compartment, inspect_two_compartment,
        parts={"white": Whitening},
        averages={"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"},
        inverses={"H": "W_zz"},
        learns_by_inverses=True,
        symmetric=("W_zz",),
        projection="F",
    )
)  # fmt: skip
