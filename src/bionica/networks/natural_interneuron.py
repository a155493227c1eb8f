"""Algorithm 1 with natural-gradient steps: see `natural` for u, r and R.

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

from . import natural_input as natural
from .generic import fma
from .guards import cap_rate, flip_silent
from .natural_input import WINDOW, average, averaging_weight, forgetting, judge_energy, measure_energy, observe, restore
from .plasticity import apply, follow, project
from .rule import bookkeeping, finish, inspect, learn, repair, settle, workspace
from .settling.exact import inverse
from .settling.gradient import (
    learn_interneurons,
    lift_interneurons,
    refresh_interneurons,
    separate,
    settle_interneurons,
)
from .settling.pivoting import scratch


class State(NamedTuple):
    """What the network remembers."""

    inp: natural.Input
    W_xy: np.ndarray  # (d, d), from u
    W_yn: np.ndarray  # (m, d)
    W_ny: np.ndarray  # (d, m)
    M: np.ndarray  # (d, d) W_ny W_yn; without rows in a network that began with W_ny = W_yn', where it is not kept
    H: np.ndarray  # (d, d) the inverse of W_ny W_yn
    y_bar: np.ndarray
    n_bar: np.ndarray
    W_xy_mean: np.ndarray  # (d, d), or (0, d) when weights are not averaged
    W_yn_mean: np.ndarray
    W_ny_mean: np.ndarray
    W_xy_good: np.ndarray  # when the outputs last had the right size
    W_yn_good: np.ndarray
    W_ny_good: np.ndarray
    t: np.ndarray  # samples learned from
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Any
    horizon: int  # 0: none
    eps: float
    gamma: float  # of the averaging


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural.Workspace
    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    ws: Any


def init(
    inp: natural.Input,
    W_xy: np.ndarray,
    W_yn: np.ndarray,
    W_ny: np.ndarray,
    y_bar: np.ndarray,
    averaged: bool,
    rng: np.ndarray,
) -> State:
    """Return a network with this input side, these initial weights and this mean output (copied)."""
    d = len(W_xy)
    rows = slice(None) if averaged else slice(0)
    return State(
        inp=inp,
        W_xy=W_xy.copy(),
        W_yn=W_yn.copy(),
        W_ny=W_ny.copy(),
        M=(W_ny @ W_yn)[: 0 if np.array_equal(W_ny, W_yn.T) else d],
        H=inverse(W_ny @ W_yn),
        y_bar=y_bar.copy(),
        n_bar=W_yn @ y_bar,
        W_xy_mean=W_xy[rows].copy(),
        W_yn_mean=W_yn[rows].copy(),
        W_ny_mean=W_ny[rows].copy(),
        W_xy_good=W_xy.copy(),
        W_yn_good=W_yn.copy(),
        W_ny_good=W_ny.copy(),
        **bookkeeping(d, rng),
    )


@workspace.register(State)
def _workspace(state):
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    c, y, n = np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(m, dtype)
    return Work(natural.workspace(d, dtype), c, y, n, scratch(d, dtype))


@settle.register(State)
def _settle(state, work, params, X, t):
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xy, work.first.u, work.c)
    W_yn, W_ny = state.W_yn, state.W_ny
    settle_interneurons(params.dynamics, W_yn, W_ny, state.M, state.H, work.c, work.y, work.n, work.ws)


@learn.register(State)
def _learn(state, work, params, X, t, rates):
    W_xy, y, y_bar, r = state.W_xy, work.y, state.y_bar, work.first.r
    eta = rates[t, 0] * state.inp.brake[0]
    state.t[0] += 1
    q = observe(state.inp, work.first, params.horizon)
    if params.guards.rate:
        eta = cap_rate(eta, q, 0.5, work.ws.events)
    weight = forgetting(state.inp.n[0], params.horizon)
    follow(y_bar, y, weight)
    follow(state.n_bar, work.n, weight)
    rate = W_xy.dtype.type(eta)
    for i in range(y.shape[0]):
        a = y[i] - y_bar[i]
        for j in range(r.shape[0]):
            W_xy[i, j] = fma(rate, fma(a, r[j], -W_xy[i, j]), W_xy[i, j])
    W_yn, W_ny, n, n_bar = state.W_yn, state.W_ny, work.n, state.n_bar
    learn_interneurons(params.dynamics, W_yn, W_ny, state.M, state.H, 0.5 * eta, y, y_bar, n, n_bar, work.ws)
    weight = averaging_weight(state.inp.n[0], params.gamma, params.horizon)
    average(state.W_xy_mean, W_xy, weight)
    average(state.W_yn_mean, state.W_yn, weight)
    if separate(params.dynamics):
        average(state.W_ny_mean, W_ny, weight)


@repair.register(State)
def _repair(state, work, params):
    if params.guards.silent:
        flip_silent(state.W_xy, work.y, state.fired, work.ws.events)
    if params.guards.energy:
        measure_energy(state.inp, work.first, work.y)


@inspect.register(State)
def _inspect(state, work, params):
    changed = False
    if params.guards.spectrum:
        # Not W_xy: its size is that of R, and the thresholds of appendix C would mean nothing.
        changed = lift_interneurons(params.dynamics, state.W_yn, state.W_ny, params.eps, work.ws)
    if params.guards.energy and state.t[0] % WINDOW == 0:
        lost, healthy = judge_energy(state.inp, work.ws.events)
        restore(state.W_xy, state.W_xy_mean, state.W_xy_good, lost, healthy)
        restore(state.W_yn, state.W_yn_mean, state.W_yn_good, lost, healthy)
        if separate(params.dynamics):
            restore(state.W_ny, state.W_ny_mean, state.W_ny_good, lost, healthy)
        changed = changed or lost
    refresh_interneurons(params.dynamics, state.W_yn, state.W_ny, state.M, state.H, work.ws, state.t[0], changed)


@finish.register(State)
def _finish(state, params):
    if not separate(params.dynamics):
        state.W_ny[:] = state.W_yn.T
        state.W_ny_good[:] = state.W_yn_good.T
        if len(state.W_ny_mean):
            state.W_ny_mean[:] = state.W_yn_mean.T


def averaged(state: State) -> State:
    """Return the network that reads out with its averaged weights."""
    if not len(state.W_xy_mean):
        return state
    W_yn, W_ny = state.W_yn_mean, state.W_ny_mean
    M = W_ny @ W_yn
    return state._replace(W_xy=state.W_xy_mean, W_yn=W_yn, W_ny=W_ny, M=M[: len(state.M)], H=inverse(M))


def unmixing(state: State) -> np.ndarray:
    """(W_ny W_yn)^-1 W_xy F: what the network does to a mixture while every neuron fires."""
    return np.asarray(np.linalg.solve(state.W_ny @ state.W_yn, state.W_xy) @ state.inp.F)
