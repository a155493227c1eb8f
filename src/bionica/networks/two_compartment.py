"""Algorithm 2, Bio-NICA with 2-compartmental neurons: k mixtures x, dendrites c, d somatic outputs z >= 0.

For each mixture x_t, with c_t = W_xz x_t and the somata at the fixed point of the dynamics (eq. 15; see `dynamics`),

    z_t <- [z_t + gamma (c_t - W_zz z_t)]_+

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t      c_bar <- c_bar + (c_t - c_bar)/t

and then the weights:

    W_xz <- W_xz + 2 eta_t (z_t x_t' - (c_t - c_bar)(x_t - x_bar)')
    W_zz <- W_zz + (eta_t / tau) (z_t z_t' - W_zz)

W_zz stays positive definite while eta_t < tau.

*Erratum.* The text of section 4.2 replaces the averages Z X'/T and Z Z'/T by products of centred activities. The
objective L_2 and the algorithm box use z_t x_t' and z_t z_t' uncentred; the box is what converges to the sources, and
what is here.
"""

from typing import Any, NamedTuple

import numpy as np

from .generic import fma
from .guards import cap_rate, flip_silent, lift_eigenvalues
from .natural_input import average, averaging_weight
from .plasticity import follow, follow_input, hebb_raw, mean_weight, project
from .rule import bookkeeping, inspect, learn, repair, settle, workspace
from .settling.exact import inverse
from .settling.gradient import follow_lateral, refresh_lateral, settle_lateral
from .settling.pivoting import scratch


class State(NamedTuple):
    """What the network remembers."""

    W_xz: np.ndarray  # (d, k)
    W_zz: np.ndarray  # (d, d)
    H: np.ndarray  # (d, d) the inverse of W_zz
    x_bar: np.ndarray
    c_bar: np.ndarray
    W_xz_mean: np.ndarray  # averaged weights; without rows when they are not averaged
    W_zz_mean: np.ndarray
    x_power: np.ndarray  # (k,) running mean of x^2, in double precision, behind `precondition="scale"`; else empty
    t: np.ndarray  # samples seen
    fired: np.ndarray  # whether each output has ever fired
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Any
    mean_window: int  # 0: the whole past, as in the paper
    eps: float
    gamma: float  # of the averaging
    horizon: int  # of the averaging; 0: none
    tau: float


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    y: np.ndarray  # the paper's z; every rule's output goes by this name here
    ws: Any


def init(W_xz: np.ndarray, W_zz: np.ndarray, rng: np.ndarray, averaged: bool = False, scaled: bool = False) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d, k = W_xz.shape
    dtype = W_xz.dtype
    rows = slice(None) if averaged else slice(0)
    return State(
        W_xz=W_xz.copy(),
        W_zz=W_zz.copy(),
        H=inverse(W_zz),
        x_bar=np.zeros(k, dtype),
        c_bar=np.zeros(d, dtype),
        W_xz_mean=W_xz[rows].copy(),
        W_zz_mean=W_zz[rows].copy(),
        x_power=np.zeros(k if scaled else 0),
        **bookkeeping(d, rng),
    )


@workspace.register(State)
def _workspace(state):
    d = state.W_zz.shape[0]
    dtype = state.W_xz.dtype
    return Work(c=np.zeros(d, dtype), y=np.zeros(d, dtype), ws=scratch(d, dtype))


@settle.register(State)
def _settle(state, work, params, X, t):
    project(state.W_xz, X, t, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws)


@learn.register(State)
def _learn(state, work, params, X, t, rates):
    W_xz, x_bar, c_bar, c, z = state.W_xz, state.x_bar, state.c_bar, work.c, work.y
    eta = rates[t, 0]
    state.t[0] += 1
    weight = mean_weight(rates, state.t[0], params.mean_window)
    follow_input(x_bar, X, t, weight)
    follow(c_bar, c, weight)
    if params.guards.rate:
        size = rates.dtype.type(0)
        for j in range(x_bar.shape[0]):
            size = fma(X[t, j] - x_bar[j], X[t, j] - x_bar[j], size)
        eta = cap_rate(eta, size, rates.dtype.type(0.5), work.ws.events)
    follow_lateral(params.dynamics, state.H, eta / params.tau, z, work.ws)
    hebb_raw(state.W_zz, eta / params.tau, z, z)
    double = W_xz.dtype.type(eta + eta)
    for i in range(W_xz.shape[0]):
        a = double * z[i]
        b = double * (c[i] - c_bar[i])
        for j in range(W_xz.shape[1]):
            W_xz[i, j] = fma(a, X[t, j], fma(-b, X[t, j] - x_bar[j], W_xz[i, j]))
    averaging = averaging_weight(state.t[0], params.gamma, params.horizon)
    average(state.W_xz_mean, state.W_xz, averaging)
    average(state.W_zz_mean, state.W_zz, averaging)


@repair.register(State)
def _repair(state, work, params):
    if params.guards.silent:
        flip_silent(state.W_xz, work.y, state.fired, work.ws.events)


@inspect.register(State)
def _inspect(state, work, params):
    lifted = False
    if params.guards.spectrum:
        lifted = lift_eigenvalues(state.W_zz, params.eps, work.ws)
    refresh_lateral(params.dynamics, state.W_zz, state.H, state.t[0], lifted)


def averaged(state: State) -> State:
    """Return the network that reads out with its averaged weights."""
    if not len(state.W_xz_mean):
        return state
    return state._replace(W_xz=state.W_xz_mean, W_zz=state.W_zz_mean, H=inverse(state.W_zz_mean))


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz: what the network does to a mixture while every neuron fires."""
    return np.linalg.solve(state.W_zz, state.W_xz)
