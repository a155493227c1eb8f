"""Algorithm 1, Bio-NICA with interneurons: k mixtures x, d outputs y >= 0, m >= d interneurons n.

For each mixture x_t, with the activity at the fixed point of the dynamics (eq. 11; see `dynamics`),

    y_t <- [y_t + gamma (W_xy x_t - W_ny n_t)]_+      n_t <- n_t + gamma (W_yn y_t - n_t)

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t      y_bar <- y_bar + (y_t - y_bar)/t      n_bar <- n_bar + (n_t - n_bar)/t

and then the weights:

    W_xy <- W_xy + eta_t ((y_t - y_bar)(x_t - x_bar)' - W_xy)
    W_ny <- W_ny + eta_t ((y_t - y_bar)(n_t - n_bar)' - W_ny)
    W_yn <- W_yn + eta_t ((n_t - n_bar)(y_t - y_bar)' - W_yn)

W_ny and W_yn are separate synapses. The difference W_ny - W_yn' shrinks by (1 - eta_t) at each sample (appendix B); if there is
none at the beginning there never is, and only W_yn is learned in the loop (see `dynamics.separate`).
At the optimum W_xy = P A' and W_yn' W_yn = P A'A P' for a permutation P (appendix A).
"""

from typing import Any, NamedTuple

import numpy as np

from .guards import flip_silent, lift_singular_values, replace_rows
from .natural_input import average, averaging_weight
from .plasticity import follow, follow_input, hebb_input, mean_weight, project
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

    W_xy: np.ndarray  # (d, k)
    W_yn: np.ndarray  # (m, d)
    W_ny: np.ndarray  # (d, m)
    M: np.ndarray  # (d, d) W_ny W_yn; without rows in a network that began with W_ny = W_yn', where it is not kept
    H: np.ndarray  # (d, d) the inverse of W_ny W_yn
    x_bar: np.ndarray
    y_bar: np.ndarray
    n_bar: np.ndarray
    W_xy_mean: np.ndarray  # averaged weights; without rows when they are not averaged
    W_yn_mean: np.ndarray
    W_ny_mean: np.ndarray
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


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    ws: Any


def init(
    W_xy: np.ndarray, W_yn: np.ndarray, W_ny: np.ndarray, rng: np.ndarray, averaged: bool = False, scaled: bool = False
) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d, k = W_xy.shape
    m = W_yn.shape[0]
    dtype = W_xy.dtype
    rows = slice(None) if averaged else slice(0)
    return State(
        W_xy=W_xy.copy(),
        W_yn=W_yn.copy(),
        W_ny=W_ny.copy(),
        M=(W_ny @ W_yn)[: 0 if np.array_equal(W_ny, W_yn.T) else d],
        H=inverse(W_ny @ W_yn),
        x_bar=np.zeros(k, dtype),
        y_bar=np.zeros(d, dtype),
        n_bar=np.zeros(m, dtype),
        W_xy_mean=W_xy[rows].copy(),
        W_yn_mean=W_yn[rows].copy(),
        W_ny_mean=W_ny[rows].copy(),
        x_power=np.zeros(k if scaled else 0),
        **bookkeeping(d, rng),
    )


@workspace.register(State)
def _workspace(state):
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    return Work(c=np.zeros(d, dtype), y=np.zeros(d, dtype), n=np.zeros(m, dtype), ws=scratch(d, dtype))


@settle.register(State)
def _settle(state, work, params, X, t):
    project(state.W_xy, X, t, work.c)
    W_yn, W_ny = state.W_yn, state.W_ny
    settle_interneurons(params.dynamics, W_yn, W_ny, state.M, state.H, work.c, work.y, work.n, work.ws)


@learn.register(State)
def _learn(state, work, params, X, t, rates):
    eta = rates[t, 0]
    state.t[0] += 1
    weight = mean_weight(rates, state.t[0], params.mean_window)
    follow_input(state.x_bar, X, t, weight)
    follow(state.y_bar, work.y, weight)
    follow(state.n_bar, work.n, weight)
    W_yn, W_ny, y, n = state.W_yn, state.W_ny, work.y, work.n
    learn_interneurons(params.dynamics, W_yn, W_ny, state.M, state.H, eta, y, state.y_bar, n, state.n_bar, work.ws)
    hebb_input(state.W_xy, eta, y, state.y_bar, X, t, state.x_bar)
    averaging = averaging_weight(state.t[0], params.gamma, params.horizon)
    average(state.W_xy_mean, state.W_xy, averaging)
    average(state.W_yn_mean, state.W_yn, averaging)
    if separate(params.dynamics):
        average(state.W_ny_mean, W_ny, averaging)


@repair.register(State)
def _repair(state, work, params):
    if params.guards.silent:
        flip_silent(state.W_xy, work.y, state.fired, work.ws.events)


@inspect.register(State)
def _inspect(state, work, params):
    lifted = False
    if params.guards.row:
        replace_rows(state.W_xy, state.rng, work.ws.events)
    if params.guards.spectrum:
        lift_singular_values(state.W_xy, params.eps, work.ws)
        lifted = lift_interneurons(params.dynamics, state.W_yn, state.W_ny, params.eps, work.ws)
    refresh_interneurons(params.dynamics, state.W_yn, state.W_ny, state.M, state.H, work.ws, state.t[0], lifted)


@finish.register(State)
def _finish(state, params):
    if not separate(params.dynamics):
        state.W_ny[:] = state.W_yn.T
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
    """(W_ny W_yn)^-1 W_xy: what the network does to a mixture while every neuron fires."""
    return np.linalg.solve(state.W_ny @ state.W_yn, state.W_xy)
