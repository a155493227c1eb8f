"""Both of the paper's rules with natural-gradient steps: the same networks, learning in white coordinates.

*Beyond the paper.* With the paper's settings on a random mixing matrix most runs fail (Algorithm 2 at d = 3 in 17 of 20): the
covariance of the mixtures sets the step that each direction can bear. A natural-gradient step takes the covariance out. It is
not a local rule; the strictly local networks are beside it (`interneuron`, `two_compartment`).

    u = F x                        F (d x k): noncentered whitening of a first block of mixtures, onto the d leading directions;
                                   fixed. It takes care of k > d, scale and condition
    v = K u                        the running whitening of u (see `running_whitening`), with the mean v_bar
    W, M                           weights from v (W_xy or W_xz), and lateral weights (W_yn'W_yn or W_zz); V = M^-1 W is what the
                                   network does while every neuron fires

With a postsynaptic vector s and a presynaptic vector p both networks take the step

    W <- (1 - a) W + a s p'        M <- (1 - a) M + a s s'        a = g eta r/(1 + r)^2,  r = |s|^2,  eta = 0.05
    hence V <- V + a M_new^-1 s (p - V's)'

where g is the weight of the sample. The step is zero, whatever a, where s = V p and V'V = I: at the solution the noise of the two
updates cancels exactly, not only to first order. So eta need not fall. The factor r/(1 + r) keeps samples of silent sources
from making M vanish. With s' M^-1 s in place of r, M of Algorithm 1 collapses where sources are mostly silent. A sample with a
negative (V v)_i turns V as in `orthant_rotation`: W <- W + M T V, T the rotation less the identity, and V of before the step.

Algorithm 1, with the activity at the fixed point of y <- [y + gamma (W_xy v - W_ny n)]_+, n <- n + gamma (W_yn y - n):

    s = y - V v_bar,  p = v - v_bar
    W_yn <- sqrt(1 - a) (W_yn + b W_yn M^-1 s s')   b = (sqrt(1 + k q) - 1)/q,  k = a/(1 - a),  q = s'M^-1 s
    W_ny  = W_yn'

The update of W_yn is a square root of that of M: with G = I + b M^-1 s s', G'M G = M + (2 b + b^2 q) s s' = M + k s s'. Outputs and
updates depend on W_yn through M alone. So the state holds M, and W_yn is read from it as a root (every root is a rotation of the
interneurons away from the others). The paper's W_yn <- W_yn + (a/2)(dn dy' - W_yn) follows M only to first order and only at M = I;
and y - y_bar with a running mean of y is not V (v - v_bar) while V moves. Measured as a stream at eta = 0.1: exponential sources,
d = 3, 1.5e-5 with both, 1e-3 to 3e-2 with the square root alone. The square root needs W_ny = W_yn'. Networks in which the two
start apart (`decoupled`, appendix B) are those of `interneuron`.

Algorithm 2, with c = W_xz v and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+:

    s = z,  p = v

Its z x' - (c - c_bar)(x - x_bar)' becomes, in white coordinates, z v' - (c - c_bar)(v - v_bar)', and the second term averages to
W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. (tau = 1/2 of the paper: W_zz learns at 2 eta, as
W_xz does.) Measured as a stream: exponential sources, d = 3, 1e-3 with rates of 1/t, 1e-5 with constant ones.

Averaged weights: mean <- mean + c (W - mean) with c = (gamma + 1)/(n + gamma), gamma = 10, never below (gamma + 1)/horizon.
`transform` reads out with the means.

Guards. `silent`: an output with a negative mean, (V v_bar)_i < 0, has its sign flipped when the rule is attended to. `rate`: the
weight of a sample is below 1 for outliers. `restart`: with a horizon the network starts again where the mixing has changed: K <-
the rows of V K made orthonormal, W and M <- I. Without a horizon the change is only reported.
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernels.orthant_rotation import find_turn, turn, white_input
from ..kernels.plasticity import apply, apply_transposed, average, averaging_weight, dot_vectors, hebb_uncentred
from ..kernels.rule import RATE, SILENT, Rule, bookkeeping, hot, inverse, register, shapes, solve_lateral
from ..kernels.running_whitening import SHAPES, Whitening, is_due, is_usable, start, tend, weigh, whiten
from ..kernels.settling import follow_outer, scratch, settle_lateral

#: eta of the natural steps, and gamma of the averaged weights.
ETA, AVERAGING = 0.05, 10.0


class State(NamedTuple):
    """What the network remembers."""

    white: Whitening
    F: np.ndarray
    turned: np.ndarray  # samples that turned V
    W: np.ndarray
    M: np.ndarray
    H: np.ndarray  # the inverse of M
    W_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    M_mean: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class InterneuronState(State):
    """Of Algorithm 1."""


class TwoCompartmentState(State):
    """Of Algorithm 2."""


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Any
    horizon: int  # 0: none
    eps: float
    average: bool = False


class Work(NamedTuple):
    """Scratch arrays."""

    v: np.ndarray  # K u, in float64 like `dv` and `w`
    dv: np.ndarray
    w: np.ndarray
    u: np.ndarray  # F x
    c: np.ndarray
    y: np.ndarray
    m: np.ndarray  # V v_bar
    s: np.ndarray
    a: np.ndarray  # the plane of the turn
    b: np.ndarray
    Va: np.ndarray  # V'a
    Vb: np.ndarray
    ws: Any


def init(Kind: Any, F: np.ndarray, W: np.ndarray, M: np.ndarray, rng: np.random.RandomState) -> Any:
    """Return a network before its first sample, with this projection and these weights (copied)."""
    d = len(F)
    return Kind(
        white=start(d, F.dtype), F=F.copy(), turned=np.zeros(1),
        W=W.copy(), M=M.copy(), H=inverse(M), W_mean=W.astype(float), M_mean=M.astype(float), **bookkeeping(d, rng),
    )  # fmt: skip


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.M), state.M.dtype
    return Work(*np.zeros((3, d)), *np.zeros((9, d), dtype), scratch(d, dtype))


# ---------------------------------------------------------------------------------------------- one sample


def settle(state, work, params, X, t):
    """v = K F x, and eq. 9 or 15 with W v."""
    white_input(state, work, X, t)
    apply(state.W, work.v, work.c)
    settle_lateral(params.dynamics, state.M, state.H, work.c, work.y, work.ws, True)


def learn_interneuron(state, work, params, X, t, rates):
    """s = y - V v_bar and p = v - v_bar."""
    learn(state, work, params, rates[t, 0], True)


def learn_two_compartment(state, work, params, X, t, rates):
    """s = z and p = v."""
    learn(state, work, params, rates[t, 0], False)


@hot
def learn(state, work, params, eta, centred):
    """The synaptic updates, the turn, the whitening."""
    white, W, M, H, ws = state.white, state.W, state.M, state.H, work.ws
    state.t[0] += 1
    if not is_usable(white, work.u, work.v):
        return
    distance_2, weight = weigh(white, work.v, work.dv, params.guards.rate, params.horizon)
    ws.events[RATE] += weight < 1
    cos_1, sin = plane_of_turn(state, work, params, weight)
    s, p = work.y, work.v
    if centred:
        s, p = work.s, work.dv
        apply(W, white.v_bar, work.c)
        apply(H, work.c, work.m)
        for i in range(s.shape[0]):
            s[i] = work.y[i] - work.m[i]
    one = H.dtype.type(1)
    r = dot_vectors(s, s)
    a = H.dtype.type(eta) * H.dtype.type(weight) * (r / (one + r)) / (one + r)
    hebb_uncentred(W, a, s, p)
    hebb_uncentred(M, a, s, s)
    follow_outer(params.dynamics, H, a, s, ws)
    if sin != 0:
        apply(M, work.a, ws.u)
        apply(M, work.b, ws.v)
        turn(W, ws.u, ws.v, work.Va, work.Vb, cos_1, sin)
    whiten(white, work.dv, distance_2, weight, params.horizon, work.w)
    if params.average:
        share = averaging_weight(white.n[0], AVERAGING, params.horizon)
        average(state.W_mean, W, share)
        average(state.M_mean, M, share)


@hot
def plane_of_turn(state, work, params, g):
    """The plane of the turn for outputs y of c = W v, in work.a, b, Va and Vb; returns cos phi - 1 and sin phi."""
    W, H, ws = state.W, state.H, work.ws
    silent = False
    for i in range(work.y.shape[0]):
        silent |= not work.y[i] > 0
    if not silent:
        return 0.0, 0.0
    apply(H, work.c, ws.free)
    cos_1, sin = find_turn(state.white, ws.free, work.a, work.b, state.turned, g, params)
    if sin != 0:
        apply(H, work.a, ws.u)
        apply(H, work.b, ws.v)
        apply_transposed(W, ws.u, work.Va)
        apply_transposed(W, ws.v, work.Vb)
    return cos_1, sin


# ---------------------------------------------------------------------------------------------- rarely, in NumPy


def attend(state: State, params: Params) -> None:
    """H is recomputed; what the whitening asks for (`tend`); the guard `silent`."""
    W, M, H = state.W, state.M, state.H
    H[:] = inverse(M)
    V = H @ W
    negative = V @ state.white.v_bar < 0
    if tend(state, V, params):
        for A in (W, M, H):
            A[:] = np.eye(len(M))
        state.turned[0] = 0
    elif params.guards.silent and negative.any():
        sign = np.where(negative, -1, 1).astype(M.dtype)
        W *= sign[:, np.newaxis]
        M *= np.outer(sign, sign)
        H *= np.outer(sign, sign)
        state.repairs[SILENT] += np.count_nonzero(negative)
    else:
        return
    state.W_mean[:], state.M_mean[:] = W, M


# ---------------------------------------------------------------------------------------------- the rules


def unmixing(state: State) -> np.ndarray:
    """V K F."""
    return np.asarray(solve_lateral(state.M, state.W) @ whitening_matrix(state))


def whitening_matrix(state: Any) -> np.ndarray:
    """K F, in the precision of the network."""
    return np.asarray((state.white.K @ state.F).astype(state.F.dtype))


def _declare(name, Kind, learn):
    return register(
        Rule(
            name, Kind, Params,
            SHAPES | shapes(dk="F", dd="W M H")
            | {"turned": "1:float64", "W_mean": "dd:float64", "M_mean": "dd:float64"},
            workspace, settle, learn, unmixing, is_due=is_due, attend=attend,
            parts={"white": Whitening}, averages={"W": "W_mean", "M": "M_mean"}, inverses={"H": "M"}, symmetric=("M",),
            projection="F",
        )
    )  # fmt: skip


INTERNEURON = _declare("natural_interneuron", InterneuronState, learn_interneuron)
TWO_COMPARTMENT = _declare("natural_two_compartment", TwoCompartmentState, learn_two_compartment)
