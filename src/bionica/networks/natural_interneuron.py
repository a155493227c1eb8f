"""Algorithm 1 with natural-gradient steps: see `natural_input` for u, r and R.

For each mixture, with u = F x and the activity at the fixed point of y <- [y + gamma (W_xy u - W_ny n)]_+,
n <- n + gamma (W_yn y - n), and the running means of y and n moved like that of u,

    W_xy <- W_xy + eta_t ((y - y_bar) r' - W_xy)                      r = R (u - u_bar)
    W_yn <- W_yn + eta_t/2 ((n - n_bar)(y - y_bar)' - W_yn)
    W_ny <- W_ny + eta_t/2 ((y - y_bar)(n - n_bar)' - W_ny)

The fixed point is W_xy = cov(y, u) C_uu^-1 and, since the outputs then have unit covariance, W_ny W_yn = I.

*Beyond the paper.* At the solution y - y_bar = V (u - u_bar) with V'V = R, so that the update of W_xy is
eta (dy dy' - I) V, and that of M = W_ny W_yn twice the rate of W_yn times (dy dy' - I): with half of eta there, the noise of
the two cancels in V = M^-1 W_xy.
"""

from typing import Any, NamedTuple

import numpy as np

from . import natural_input
from .guards import cap_rate, flip_silent, lift_singular_values, lift_transposed
from .natural_input import WINDOW, forgetting, judge_energy, measure_energy, observe, restore
from .plasticity import (
    apply,
    average,
    averaging_weight,
    follow,
    hebb_uncentred,
    multiply,
    product_and_hebb,
    project,
    subtract,
)
from .rule import Rule, bookkeeping, register, shapes
from .settling.exact import REFRESH, inverse, invert
from .settling.lateral import follow_interneurons, settle_interneurons
from .settling.pivoting import scratch


class State(NamedTuple):
    """What the network remembers."""

    inp: natural_input.Input
    W_xy: np.ndarray  # from u
    W_yn: np.ndarray
    W_ny: np.ndarray
    M: np.ndarray  # W_ny W_yn
    H: np.ndarray  # the inverse of M
    y_bar: np.ndarray
    n_bar: np.ndarray
    W_xy_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_yn_mean: np.ndarray
    W_ny_mean: np.ndarray
    W_xy_good: np.ndarray  # when the outputs last had the right size
    W_yn_good: np.ndarray
    W_ny_good: np.ndarray
    coupled: np.ndarray  # whether W_ny was W_yn' at the beginning
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
    gamma: float = 0.0  # of the averaging
    average: bool = False


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural_input.Workspace
    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    dy: np.ndarray
    dn: np.ndarray
    p: np.ndarray  # W_ny dn
    W: np.ndarray  # a matrix of the shape of W_ny
    ws: Any


def init(
    inp: natural_input.Input, W_xy: np.ndarray, W_yn: np.ndarray, W_ny: np.ndarray, y_bar: np.ndarray, rng: np.ndarray
) -> State:
    """Return a network with this input side, these initial weights and this mean output (copied)."""
    M = W_ny @ W_yn
    weights = {"W_xy": W_xy, "W_yn": W_yn, "W_ny": W_ny}
    return State(
        inp=inp,
        **{name + suffix: W.copy() for suffix in ("", "_mean", "_good") for name, W in weights.items()},
        M=M,
        H=inverse(M),
        y_bar=y_bar.copy(),
        n_bar=W_yn @ y_bar,
        coupled=np.array([np.array_equal(W_ny, W_yn.T)]),
        **bookkeeping(len(W_xy), rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    c, y, dy, p = np.zeros((4, d), dtype)
    n, dn = np.zeros((2, m), dtype)
    W = np.zeros((d, m), dtype)
    return Work(natural_input.workspace(d, dtype), c, y, n, dy, dn, p, W, scratch(d, dtype))


def settle(state, work, params, X, t):
    """u = F x, and eq. 9 with W_xy u."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xy, work.first.u, work.c)
    settle_interneurons(params.dynamics, state.W_yn, state.W_ny, state.M, state.H, work.c, work.y, work.n, work.ws)


def learn(state, work, params, X, t, rates):
    """The input side, the running means and the three synaptic updates."""
    W_xy, W_yn, W_ny, y, n, dy, dn = state.W_xy, state.W_yn, state.W_ny, work.y, work.n, work.dy, work.dn
    eta = rates[t, 0] * state.inp.brake[0]
    state.t[0] += 1
    q = observe(state.inp, work.first, params.horizon)
    if params.guards.rate:
        eta = cap_rate(eta, q, 0.5, work.ws.events)
    weight = forgetting(state.inp.n[0], params.horizon)
    follow(state.y_bar, y, weight)
    follow(state.n_bar, n, weight)
    subtract(y, state.y_bar, dy)
    subtract(n, state.n_bar, dn)
    hebb_uncentred(W_xy, eta, dy, work.first.r)
    product_and_hebb(W_ny, 0.5 * eta, dy, dn, work.p)
    follow_interneurons(params.dynamics, W_yn, state.M, state.H, 0.5 * eta, work.p, dy, dn, work.ws)
    hebb_uncentred(W_yn, 0.5 * eta, dn, dy)
    if params.average:
        weight = averaging_weight(state.inp.n[0], params.gamma, params.horizon)
        average(state.W_xy_mean, W_xy, weight)
        average(state.W_yn_mean, W_yn, weight)
        average(state.W_ny_mean, W_ny, weight)


def repair(state, work, params):
    """The guard `silent`, and what the guard `energy` compares."""
    if params.guards.silent:
        flip_silent(state.W_xy, work.y, state.fired, work.ws.events)
    if params.guards.energy:
        measure_energy(state.inp, work.first, work.y)


def inspect(state, work, params):
    """The guards `spectrum` and `energy`; M and H are recomputed from time to time."""
    changed = False
    if params.guards.spectrum:
        # Not W_xy: its size is that of R, and the thresholds of appendix C would mean nothing.
        changed = lift_transposed(state.W_yn, work.W, params.eps, work.ws)
        changed = lift_singular_values(state.W_ny, params.eps, work.ws) or changed
    if params.guards.energy and state.t[0] % WINDOW == 0:
        lost, healthy = judge_energy(state.inp, work.ws.events)
        restore(state.W_xy, state.W_xy_mean, state.W_xy_good, lost, healthy)
        restore(state.W_yn, state.W_yn_mean, state.W_yn_good, lost, healthy)
        restore(state.W_ny, state.W_ny_mean, state.W_ny_good, lost, healthy)
        changed = changed or lost
    if changed or state.t[0] % REFRESH == 0:
        multiply(state.W_ny, state.W_yn, state.M)
        invert(state.M, state.H)


def unmixing(state: State) -> np.ndarray:
    """(W_ny W_yn)^-1 W_xy F."""
    return np.asarray(np.linalg.solve(state.W_ny @ state.W_yn, state.W_xy) @ state.inp.F)


RULE = register(
    Rule(
        "natural_interneuron", State, Params,
        natural_input.SHAPES | shapes(
            dd="W_xy W_xy_mean W_xy_good M H", md="W_yn W_yn_mean W_yn_good", dm="W_ny W_ny_mean W_ny_good",
            d="y_bar", m="n_bar",
        ) | {"coupled": "1:bool"},
        workspace, settle, learn, unmixing, repair, inspect,
        parts={"inp": natural_input.Input},
        averages={"W_xy": "W_xy_mean", "W_yn": "W_yn_mean", "W_ny": "W_ny_mean"},
        products={"M": ("W_ny", "W_yn")},
        inverses={"H": "M"},
        symmetric=("M",),  # of coupled networks
        projection="inp.F",
    )
)  # fmt: skip
