"""Algorithm 1 with natural-gradient steps: see `natural_input` for u, r, R and the size of a step, `turn` for the turn.

For each mixture, with u = F x and the activity at the fixed point of y <- [y + gamma (W_xy u - W_ny n)]_+,
n <- n + gamma (W_yn y - n), M = W_yn'W_yn and V = M^-1 W_xy,

    W_xy <- W_xy + a (dy r' - W_xy)                 r = R (u - u_bar),  dy = y - V u_bar
    W_yn <- sqrt(1 - a) (W_yn + b W_yn M^-1 dy dy') a = eta_t q/(1 + q)^2,  q = dy' M^-1 dy,  k = a/(1 - a)
    W_ny  = W_yn'                                   b = (sqrt(1 + k q) - 1)/q
    W_xy <- W_xy + M T V                            V of before, T the turn of a sample with some (V u)_i < 0

*Beyond the paper.* The update of W_yn is a square root of M <- (1 - a) M + a dy dy': with G = I + b M^-1 dy dy', G'M G = M + (2
b + b^2 q) dy dy' = M + k dy dy'. Hence V <- V + a M_new^-1 dy (r - V'dy)', which is zero for every sample and every a where y =
V u and V'V = R. The paper's W_yn <- W_yn + (a/2)(dn dy' - W_yn) does this only to first order and only at M = I; and y - y_bar
with a running mean of y is not V (u - u_bar) while V moves. Measured as a stream at eta = 0.1: exponential sources, d = 3,
1.5e-5 with both, 1e-3 to 3e-2 with the square root alone.

The square root needs W_ny = W_yn'. Networks in which the two start apart (`decoupled`, appendix B) are those of `interneuron`.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from . import natural_input
from . import turn as turning
from .frozen import is_frozen
from .generic import hot
from .natural_guards import (
    copy_matrix,
    flip_negative,
    floor_covariance,
    has_changed,
    is_due,
    lift_spectrum,
    quiet_scale,
    restart,
    scale_matrix,
    symmetric_function,
)
from .natural_input import AVERAGING, observe, step_size
from .plasticity import apply, average, averaging_weight, hebb_uncentred, multiply_transposed, project, subtract
from .rule import Rule, bookkeeping, register, shapes
from .settling.exact import REFRESH, follow_scaled, inverse, invert
from .settling.lateral import settle_interneurons
from .settling.pivoting import scratch
from .turn import find_turn, turn
from .unmix import solve_lateral


class State(NamedTuple):
    """What the network remembers."""

    inp: natural_input.Input
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


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural_input.Workspace
    turn: turning.Workspace
    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    dy: np.ndarray
    m: np.ndarray  # V u_bar
    g: np.ndarray  # M^-1 dy
    dn: np.ndarray  # W_yn M^-1 dy
    V: np.ndarray  # a matrix
    ws: Any


def init(inp: natural_input.Input, W_xy: np.ndarray, W_yn: np.ndarray, rng: np.ndarray) -> State:
    """Return a network with this input side and these initial weights (copied)."""
    M = W_yn.T @ W_yn
    return State(
        inp=inp,
        W_xy=W_xy.copy(),
        W_yn=W_yn.copy(),
        M=M,
        H=inverse(M),
        W_xy_mean=W_xy.copy(),
        M_mean=M.copy(),
        **bookkeeping(len(W_xy), rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    c, y, dy, mean, g = np.zeros((5, d), dtype)
    n, dn = np.zeros((2, m), dtype)
    first, turn = natural_input.workspace(d, dtype), turning.workspace(d, dtype)
    return Work(first, turn, c, y, n, dy, mean, g, dn, np.zeros((d, d), dtype), scratch(d, dtype))


def settle(state, work, params, X, t):
    """u = F x, and eq. 9 with W_xy u."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xy, work.first.u, work.c)
    W_yn = state.W_yn
    settle_interneurons(params.dynamics, W_yn, W_yn.T, state.M, state.H, work.c, work.y, work.n, work.ws)


def learn(state, work, params, X, t, rates):
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


def inspect(state, work, params):
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


def unmixing(state: State) -> np.ndarray:
    """(W_yn'W_yn)^-1 W_xy F."""
    return np.asarray(solve_lateral(state.M, state.W_xy) @ state.inp.F)


RULE = register(
    Rule(
        "natural_interneuron", State, Params,
        natural_input.SHAPES | shapes(dd="W_xy W_xy_mean M M_mean H", md="W_yn"),
        workspace, settle, learn, unmixing, inspect=inspect,
        parts={"inp": natural_input.Input},
        averages={"W_xy": "W_xy_mean", "M": "M_mean"},
        roots={"W_yn": "M"},
        inverses={"H": "M"},
        learns_by_inverses=True,
        symmetric=("M",),
        projection="inp.F",
    )
)  # fmt: skip
