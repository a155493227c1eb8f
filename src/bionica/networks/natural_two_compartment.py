"""Algorithm 2 with natural-gradient steps: see `natural_input` for u, r, p and R.

For each mixture, with u = F x, c = W_xz u and the somata at the fixed point of z <- [z + gamma (c - W_zz z)]_+,

    W_xz <- W_xz + 2 eta_t (z p' - W_xz)            p = R u
    W_zz <- W_zz + (eta_t / tau) (z z' - W_zz)

*Beyond the paper.* Algorithm 2's z x' - (c - c_bar)(x - x_bar)', times R, is z p' - (c - c_bar) r', and the second term averages to
W_xz. Writing W_xz for it leaves the mean of the step and takes out its noise. At the solution z = V u with V = W_zz^-1 W_xz and
V'V = R, so that z p' - W_xz = (z z' - W_zz) V: with 2 eta = eta/tau, tau = 1/2, the noise of the two updates cancels in V.
"""

from typing import Any, NamedTuple

import numpy as np

from . import natural_input
from .guards import cap_rate, flip_silent, lift_eigenvalues
from .natural_input import WINDOW, judge_energy, measure_energy, observe, restore
from .plasticity import apply, average, averaging_weight, hebb_uncentred, project
from .rule import Rule, bookkeeping, register, shapes
from .settling.exact import inverse, refresh_inverse
from .settling.lateral import follow_lateral, settle_lateral
from .settling.pivoting import scratch


class State(NamedTuple):
    """What the network remembers."""

    inp: natural_input.Input
    W_xz: np.ndarray  # from u
    W_zz: np.ndarray
    H: np.ndarray  # the inverse of W_zz
    W_xz_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_zz_mean: np.ndarray
    W_xz_good: np.ndarray  # when the outputs last had the right size
    W_zz_good: np.ndarray
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
    tau: float = 0.5
    average: bool = False


class Work(NamedTuple):
    """Scratch arrays."""

    first: natural_input.Workspace
    c: np.ndarray
    p: np.ndarray
    y: np.ndarray
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
        W_xz_good=W_xz.copy(),
        W_zz_good=W_zz.copy(),
        **bookkeeping(len(W_zz), rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_xz.dtype
    c, p, y = np.zeros((3, d), dtype)
    return Work(natural_input.workspace(d, dtype), c, p, y, scratch(d, dtype))


def settle(state, work, params, X, t):
    """u = F x, c = W_xz u, and eq. 15."""
    project(state.inp.F, X, t, work.first.u)
    apply(state.W_xz, work.first.u, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


def learn(state, work, params, X, t, rates):
    """The input side and the two synaptic updates."""
    W_xz, z = state.W_xz, work.y
    eta = rates[t, 0] * state.inp.brake[0]
    state.t[0] += 1
    q = observe(state.inp, work.first, params.horizon)
    if params.guards.rate:
        eta = cap_rate(eta, q, 0.25, work.ws.events)
    for j in range(work.p.shape[0]):
        work.p[j] = work.first.r[j] + state.inp.v[j]
    hebb_uncentred(W_xz, 2 * eta, z, work.p)
    follow_lateral(params.dynamics, state.H, eta / params.tau, z, work.ws)
    hebb_uncentred(state.W_zz, eta / params.tau, z, z)
    if params.average:
        weight = averaging_weight(state.inp.n[0], params.gamma, params.horizon)
        average(state.W_xz_mean, W_xz, weight)
        average(state.W_zz_mean, state.W_zz, weight)


def repair(state, work, params):
    """The guard `silent`, and what the guard `energy` compares."""
    if params.guards.silent:
        flip_silent(state.W_xz, work.y, state.fired, work.ws.events)
    if params.guards.energy:
        measure_energy(state.inp, work.first, work.y)


def inspect(state, work, params):
    """The guards `spectrum` and `energy`; H is recomputed from time to time."""
    changed = False
    if params.guards.spectrum:
        changed = lift_eigenvalues(state.W_zz, params.eps, work.ws)
    if params.guards.energy and state.t[0] % WINDOW == 0:
        lost, healthy = judge_energy(state.inp, work.ws.events)
        restore(state.W_xz, state.W_xz_mean, state.W_xz_good, lost, healthy)
        restore(state.W_zz, state.W_zz_mean, state.W_zz_good, lost, healthy)
        changed = changed or lost
    refresh_inverse(state.W_zz, state.H, state.t[0], changed)


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz F."""
    return np.asarray(np.linalg.solve(state.W_zz, state.W_xz) @ state.inp.F)


RULE = register(
    Rule(
        "natural_two_compartment", State, Params,
        natural_input.SHAPES | shapes(dd="W_xz W_zz H W_xz_mean W_zz_mean W_xz_good W_zz_good"),
        workspace, settle, learn, unmixing, repair, inspect,
        parts={"inp": natural_input.Input},
        averages={"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"},
        inverses={"H": "W_zz"},
        symmetric=("W_zz",),
        projection="inp.F",
    )
)  # fmt: skip
