"""Algorithm 2 with natural-gradient steps: see `natural_input` for u, r, p, R and the size of a step, `turn` for the turn.

For each mixture, with u = F x, c = W_xz u and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+,

    W_xz <- W_xz + a (z p' - W_xz)                  p = R u
    W_zz <- W_zz + a (z z' - W_zz)                  a = eta_t q/(1 + q)^2,  q = z' W_zz^-1 z
    W_xz <- W_xz + W_zz T V                         V = W_zz^-1 W_xz of before, T the turn of a sample with some (V u)_i < 0

*Beyond the paper.* Algorithm 2's z x' - (c - c_bar)(x - x_bar)', times R, is z p' - (c - c_bar) r', and the second term averages to
W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. With M = W_zz the two updates give

    V <- V + a M_new^-1 z (p - V'z)'

because W_xz_new = M_new V + a z (p - V'z)'. At the solution z = V u and V'V = R, so that p = R u = V'z: the step is zero for every
sample and every a. (tau = 1/2 of the paper: W_zz learns at 2 eta, as W_xz does.) Measured as a stream: exponential sources, d = 3,
1e-3 with rates of 1/t, 1e-5 with constant ones.
"""

from typing import Any, NamedTuple

import numpy as np

from . import natural_input
from . import turn as turning
from .frozen import is_frozen
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
)
from .natural_input import AVERAGING, observe, step_size
from .plasticity import apply, average, averaging_weight, hebb_uncentred, project
from .rule import Rule, bookkeeping, register, shapes
from .settling.exact import follow_scaled, inverse, refresh_inverse
from .settling.lateral import settle_lateral
from .settling.pivoting import scratch
from .turn import find_turn, turn
from .unmix import solve_lateral


class State(NamedTuple):
    """What the network remembers."""

    inp: natural_input.Input
    W_xz: np.ndarray  # from u
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


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural_input.Workspace
    turn: turning.Workspace
    c: np.ndarray
    p: np.ndarray
    g: np.ndarray  # W_zz^-1 z
    y: np.ndarray
    V: np.ndarray  # a matrix
    ws: Any


def init(inp: natural_input.Input, W_xz: np.ndarray, W_zz: np.ndarray, rng: np.ndarray) -> State:
    """Return a network with this input side and these initial weights (copied)."""
    return State(
        inp=inp,
        W_xz=W_xz.copy(),
        W_zz=W_zz.copy(),
        H=inverse(W_zz),
        W_xz_mean=W_xz.copy(),
        W_zz_mean=W_zz.copy(),
        **bookkeeping(len(W_zz), rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_xz.dtype
    c, p, g, y = np.zeros((4, d), dtype)
    first, turn = natural_input.workspace(d, dtype), turning.workspace(d, dtype)
    return Work(first, turn, c, p, g, y, np.zeros((d, d), dtype), scratch(d, dtype))


def settle(state, work, params, X, t):
    """u = F x, c = W_xz u, and eq. 15."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xz, work.first.u, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


def learn(state, work, params, X, t, rates):
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


def inspect(state, work, params):
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


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz F."""
    return np.asarray(solve_lateral(state.W_zz, state.W_xz) @ state.inp.F)


RULE = register(
    Rule(
        "natural_two_compartment", State, Params,
        natural_input.SHAPES | shapes(dd="W_xz W_zz H W_xz_mean W_zz_mean"),
        workspace, settle, learn, unmixing, inspect=inspect,
        parts={"inp": natural_input.Input},
        averages={"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"},
        inverses={"H": "W_zz"},
        learns_by_inverses=True,
        symmetric=("W_zz",),
        projection="inp.F",
    )
)  # fmt: skip
