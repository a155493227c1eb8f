"""Nonnegative PCA (Plumbley and Oja 2004): whitened mixtures h, outputs y >= 0.

    y_t = [W h_t]_+
    W <- W + eta_t y_t (h_t - W' y_t)'

The mixtures must be noncentered-whitened: offline (`whitening_layer.Fixed`, as the paper does), by a layer that learns
(`Learned`), or beforehand (`Absent`). The rule is not local: a synapse needs W' y, which sums over all outputs.
"""

from typing import Any, NamedTuple

import numpy as np

from . import whitening_layer
from .generic import fma
from .guards import cap_rate, flip_silent
from .plasticity import apply, mean_weight
from .rule import bookkeeping, inspect, learn, repair, settle, workspace
from .settling.pivoting import scratch
from .whitening_layer import learn_whitening, refresh_whitening, whiten


class State(NamedTuple):
    """What the network remembers."""

    layer: Any  # the whitening
    W: np.ndarray  # (d, number of whitened directions)
    t: np.ndarray  # samples seen
    fired: np.ndarray  # whether each output has ever fired
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any  # of the whitening layer
    guards: Any
    mean_window: int  # 0: the whole past, as in the paper
    eps: float


class Work(NamedTuple):
    """Scratch arrays."""

    first: Any
    y: np.ndarray
    ws: Any


def init(layer: Any, W: np.ndarray, rng: np.ndarray) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d = W.shape[0]
    return State(
        layer=layer,
        W=W.copy(),
        **bookkeeping(d, rng),
    )


@workspace.register(State)
def _workspace(state):
    d, k = state.W.shape
    ws = scratch(d, state.W.dtype)
    return Work(whitening_layer.workspace(k, state.W.dtype, ws.events), np.zeros(d, state.W.dtype), ws)


@settle.register(State)
def _settle(state, work, params, X, t):
    whiten(state.layer, work.first, params.dynamics, X, t)
    y = work.y
    apply(state.W, work.first.h, y)
    for i in range(y.shape[0]):
        y[i] = max(y[i], y.dtype.type(0))


@learn.register(State)
def _learn(state, work, params, X, t, rates):
    W, h, y = state.W, work.first.h, work.y
    eta = rates[t, 0]
    state.t[0] += 1
    if params.guards.rate:
        size = rates.dtype.type(0)
        for i in range(y.shape[0]):
            size = fma(y[i], y[i], size)
        eta = cap_rate(eta, size, rates.dtype.type(1), work.ws.events)
    eta = W.dtype.type(eta)
    e = work.first.c  # h - W' y
    for j in range(h.shape[0]):
        e[j] = h[j]
    for i in range(y.shape[0]):
        for j in range(h.shape[0]):
            e[j] = fma(-W[i, j], y[i], e[j])
    for i in range(y.shape[0]):
        a = eta * y[i]
        for j in range(h.shape[0]):
            W[i, j] = fma(a, e[j], W[i, j])
    zeta = rates[t, rates.shape[1] - 1]
    weight = mean_weight(rates, state.t[0], params.mean_window)
    learn_whitening(state.layer, work.first, params.dynamics, X, t, zeta, weight)


@repair.register(State)
def _repair(state, work, params):
    if params.guards.silent:
        flip_silent(state.W, work.y, state.fired, work.ws.events)


@inspect.register(State)
def _inspect(state, work, params):
    refresh_whitening(state.layer, work.first, state.t[0])


def unmixing(state: State) -> np.ndarray:
    """W F: what the network does to a mixture while every neuron fires."""
    return np.asarray(state.W @ whitening_layer.whitening(state.layer))
