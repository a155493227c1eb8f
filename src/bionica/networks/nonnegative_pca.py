"""Nonnegative PCA (Plumbley and Oja 2004): whitened mixtures h, outputs y >= 0.

    y_t = [W h_t]_+
    W <- W + eta_t y_t (h_t - W' y_t)'

The mixtures must be noncentered-whitened: offline (`Offline`, as the paper does; by the identity if they are white already) or by
a layer that learns (`Online`). The rule is not local: a synapse needs W' y, which sums over all outputs.
"""

from typing import Any, NamedTuple

import numpy as np

from . import whitening_layer
from .guards import cap_rate, flip_silent
from .plasticity import apply, mean_weight
from .rule import Rule, bookkeeping, register
from .settling import scratch
from .whitening_layer import Params, learn_whitening, refresh_whitening, whiten


class State(NamedTuple):
    """What the network remembers."""

    layer: Any
    W: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Offline(State):
    """Whitened by a fixed matrix."""


class Online(State):
    """Whitened by a layer that learns."""


class Work(NamedTuple):
    """Scratch arrays."""

    first: Any
    y: np.ndarray
    ws: Any


def init(layer: Any, W: np.ndarray, rng: np.random.RandomState) -> State:
    """Return a network that has seen nothing, with this whitening and these initial weights (copied)."""
    Kind = Online if isinstance(layer, whitening_layer.Learned) else Offline
    return Kind(layer=layer, W=W.copy(), **bookkeeping(len(W), rng))


def workspace(state):
    """Allocate scratch arrays."""
    d, k = state.W.shape
    ws = scratch(d, state.W.dtype)
    return Work(whitening_layer.workspace(k, state.W.dtype, ws.events), np.zeros(d, state.W.dtype), ws)


def settle(state, work, params, X, t):
    """y = [W h]_+."""
    whiten(state.layer, work.first, params.dynamics, X, t)
    y = work.y
    apply(state.W, work.first.h, y)
    for i in range(y.shape[0]):
        y[i] = max(y[i], y.dtype.type(0))


def learn(state, work, params, X, t, rates):
    """The update of W, and those of the whitening layer."""
    W, h, y = state.W, work.first.h, work.y
    eta = rates[t, 0]
    state.t[0] += 1
    if params.guards.rate:
        size = rates.dtype.type(0)
        for i in range(y.shape[0]):
            size += y[i] * y[i]
        eta = cap_rate(eta, size, rates.dtype.type(1), work.ws.events)
    eta = W.dtype.type(eta)
    e = work.first.c  # h - W' y
    for j in range(h.shape[0]):
        e[j] = h[j]
    for i in range(y.shape[0]):
        a = y[i]
        for j in range(h.shape[0]):
            e[j] -= W[i, j] * a
    for i in range(y.shape[0]):
        a = eta * y[i]
        for j in range(h.shape[0]):
            W[i, j] += a * e[j]
    zeta = rates[t, rates.shape[1] - 1]
    weight = mean_weight(rates, state.t[0], params.mean_window)
    learn_whitening(state.layer, work.first, params.dynamics, X, t, zeta, weight)
    if params.guards.silent:
        flip_silent(state.W, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The whitening layer's inverse is recomputed from time to time."""
    refresh_whitening(state.layer, state.t[0])


def unmixing(state: State) -> np.ndarray:
    """W F."""
    return np.asarray(state.W @ whitening_layer.whitening(state.layer))


def _declare(name, cls, layer, shapes, **rest):
    functions = workspace, settle, learn, unmixing, inspect
    return register(Rule(name, cls, Params, shapes, *functions, parts={"layer": layer}, **rest))


OFFLINE = _declare(
    "nonnegative_pca", Offline, whitening_layer.Fixed, {"layer.F": "hk", "W": "dh"}, projection="layer.F"
)
ONLINE = _declare(
    "nonnegative_pca_online",
    Online,
    whitening_layer.Learned,
    {**whitening_layer.LEARNED, "W": "dd"},
    input_weights="layer.W_xh",
    input_mean="layer.x_bar",
)
