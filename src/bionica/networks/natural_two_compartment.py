"""Algorithm 2 with natural-gradient steps: see `natural` for u, r, p and R.

For each mixture, with u = F x, c = W_xz u and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+,

    W_xz <- W_xz + 2 eta_t (z p' - W_xz)            p = R u
    W_zz <- W_zz + (eta_t / tau) (z z' - W_zz)

*Beyond the paper.* Algorithm 2's z x' - (c - c_bar)(x - x_bar)', times R, is z p' - (c - c_bar) r', and the second term averages to
W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. At the solution z = V u with V = W_zz^-1 W_xz and
V'V = R, so that z p' - W_xz = (z z' - W_zz) V: with 2 eta = eta/tau, tau = 1/2, the noise of the two updates cancels in V.
"""

from typing import Any, NamedTuple

import numpy as np

from . import natural_input as natural
from .guards import cap_rate, flip_silent, lift_eigenvalues
from .natural_input import WINDOW, average, averaging_weight, judge_energy, measure_energy, observe, restore
from .plasticity import apply, hebb_raw, project
from .rule import bookkeeping, inspect, learn, repair, settle, workspace
from .settling.exact import inverse
from .settling.gradient import follow_lateral, refresh_lateral, settle_lateral
from .settling.pivoting import scratch


class State(NamedTuple):
    """What the network remembers."""

    inp: natural.Input
    W_xz: np.ndarray  # (d, d), from u
    W_zz: np.ndarray  # (d, d)
    H: np.ndarray  # (d, d) the inverse of W_zz
    W_xz_mean: np.ndarray  # (d, d), or (0, d) when weights are not averaged
    W_zz_mean: np.ndarray
    W_xz_good: np.ndarray  # when the outputs last had the right size
    W_zz_good: np.ndarray
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
    tau: float


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural.Workspace
    c: np.ndarray
    p: np.ndarray
    y: np.ndarray
    ws: Any


def init(inp: natural.Input, W_xz: np.ndarray, W_zz: np.ndarray, averaged: bool, rng: np.ndarray) -> State:
    """Return a network with this input side and these initial weights (copied)."""
    d = len(W_zz)
    rows = slice(None) if averaged else slice(0)
    return State(
        inp=inp,
        W_xz=W_xz.copy(),
        W_zz=W_zz.copy(),
        H=inverse(W_zz),
        W_xz_mean=W_xz[rows].copy(),
        W_zz_mean=W_zz[rows].copy(),
        W_xz_good=W_xz.copy(),
        W_zz_good=W_zz.copy(),
        **bookkeeping(d, rng),
    )


@workspace.register(State)
def _workspace(state):
    d = len(state.W_zz)
    dtype = state.W_xz.dtype
    zeros = [np.zeros(d, dtype) for _ in range(3)]
    return Work(natural.workspace(d, dtype), *zeros, scratch(d, dtype))


@settle.register(State)
def _settle(state, work, params, X, t):
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xz, work.first.u, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


@learn.register(State)
def _learn(state, work, params, X, t, rates):
    W_xz, z = state.W_xz, work.y
    eta = rates[t, 0] * state.inp.brake[0]
    state.t[0] += 1
    q = observe(state.inp, work.first, params.horizon)
    if params.guards.rate:
        eta = cap_rate(eta, q, 0.25, work.ws.events)
    for j in range(work.p.shape[0]):
        work.p[j] = work.first.r[j] + state.inp.v[j]
    hebb_raw(W_xz, 2 * eta, z, work.p)
    follow_lateral(params.dynamics, state.H, eta / params.tau, z, work.ws)
    hebb_raw(state.W_zz, eta / params.tau, z, z)
    weight = averaging_weight(state.inp.n[0], params.gamma, params.horizon)
    average(state.W_xz_mean, W_xz, weight)
    average(state.W_zz_mean, state.W_zz, weight)


@repair.register(State)
def _repair(state, work, params):
    if params.guards.silent:
        flip_silent(state.W_xz, work.y, state.fired, work.ws.events)
    if params.guards.energy:
        measure_energy(state.inp, work.first, work.y)


@inspect.register(State)
def _inspect(state, work, params):
    changed = False
    if params.guards.spectrum:
        changed = lift_eigenvalues(state.W_zz, params.eps, work.ws)
    if params.guards.energy and state.t[0] % WINDOW == 0:
        lost, healthy = judge_energy(state.inp, work.ws.events)
        restore(state.W_xz, state.W_xz_mean, state.W_xz_good, lost, healthy)
        restore(state.W_zz, state.W_zz_mean, state.W_zz_good, lost, healthy)
        changed = changed or lost
    refresh_lateral(params.dynamics, state.W_zz, state.H, state.t[0], changed)


def averaged(state: State) -> State:
    """Return the network that reads out with its averaged weights."""
    if not len(state.W_xz_mean):
        return state
    return state._replace(W_xz=state.W_xz_mean, W_zz=state.W_zz_mean, H=inverse(state.W_zz_mean))


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz F: what the network does to a mixture while every neuron fires."""
    return np.asarray(np.linalg.solve(state.W_zz, state.W_xz) @ state.inp.F)
