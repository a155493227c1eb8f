"""Nonnegative PCA (Plumbley and Oja 2004): whitened mixtures h, outputs y >= 0.

    y_t = [W h_t]_+
    W <- W + eta_t y_t (h_t - W' y_t)'

The mixtures must be noncentered-whitened: offline (`Offline`, as the paper does; by the identity if they are white already) or by
a layer that learns (`Online`). The rule is not local: a synapse needs W' y, which sums over all outputs.
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernels import whitening_layer
from ..kernels.guards import cap_rate, flip_silent
from ..kernels.plasticity import apply, dot_vectors, mean_weight, project
from ..kernels.rule import Rule, bookkeeping, hot, register
from ..kernels.settling import scratch
from ..kernels.whitening_layer import Params, learn_whitening, refresh_whitening, whiten


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


@hot
def rectify(W, h, y):
    """y = [W h]_+."""
    apply(W, h, y)
    for i in range(y.shape[0]):
        y[i] = max(y[i], y.dtype.type(0))


def settle(state, work, params, X, t):
    """h = F x and y = [W h]_+."""
    project(state.layer.F, X, t, work.first.h)
    rectify(state.W, work.first.h, work.y)


def settle_online(state, work, params, X, t):
    """The whitening layer, and y = [W h]_+."""
    whiten(state.layer, work.first, params.dynamics, X, t)
    rectify(state.W, work.first.h, work.y)


@hot
def learn_rotation(state, work, params, rates, t):
    """The update of W."""
    W, h, y = state.W, work.first.h, work.y
    eta = rates[t, 0]
    state.t[0] += 1
    if params.guards.rate:
        eta = cap_rate(eta, dot_vectors(y, y), rates.dtype.type(1), work.ws.events)
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
    if params.guards.silent:
        flip_silent(state.W, work.y, state.fired, work.ws.events)


def learn(state, work, params, X, t, rates):
    """The update of W."""
    learn_rotation(state, work, params, rates, t)


def learn_online(state, work, params, X, t, rates):
    """The updates of W and of the whitening layer."""
    learn_rotation(state, work, params, rates, t)
    weight = mean_weight(rates, state.t[0], params.mean_window)
    learn_whitening(state.layer, work.first, params.dynamics, X, t, rates[t, 1], weight)


def inspect_online(state, work, params):
    """The whitening layer's inverse is recomputed from time to time."""
    refresh_whitening(state.layer, state.t[0])


def unmixing(state: State) -> np.ndarray:
    """W F."""
    return np.asarray(state.W @ whitening_layer.whitening(state.layer))


OFFLINE = register(
    Rule(
        "nonnegative_pca", Offline, Params, {"layer.F": "hk", "W": "dh"}, workspace, settle, learn, unmixing,
        parts={"layer": whitening_layer.Fixed}, projection="layer.F",
    )
)  # fmt: skip

ONLINE = register(
    Rule(
        "nonnegative_pca_online", Online, Params, {**whitening_layer.LEARNED, "W": "dd"}, workspace, settle_online,
        learn_online, unmixing, inspect_online, parts={"layer": whitening_layer.Learned},
        input_weights="layer.W_xh", input_mean="layer.x_bar",
    )
)  # fmt: skip
