"""2-layer NSM (Pehlevan, Mohan and Chklovskii 2017): k mixtures x, d whitened h (with d interneurons g), d outputs y
>= 0.

The first layer whitens (see `whitening_layer`) with its own rate zeta_t. The second rotates into the orthant by
nonnegative similarity matching: with c_t = W_hy h_t and the outputs at the fixed point of y <- [y + gamma (c - W_yy
y)]_+,

    W_hy <- W_hy + eta_t (y_t h_t' - W_hy)
    W_yy <- W_yy + eta_t (y_t y_t' - W_yy)

The paper's text names this network's rates only (appendix C); its rules are those of the paper that introduced it,
with rates that depend on time in place of each neuron's cumulated activity.
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernels import whitening_layer
from ..kernels.guards import flip_silent, lift_eigenvalues
from ..kernels.plasticity import apply, hebb_uncentred, mean_weight
from ..kernels.rule import Rule, bookkeeping, inverse, register, shapes, solve_lateral
from ..kernels.settling import REFRESH, follow_lateral, invert, scratch, settle_lateral
from ..kernels.whitening_layer import Params, learn_whitening, refresh_whitening, whiten


class State(NamedTuple):
    """What the network remembers."""

    layer: whitening_layer.Learned
    W_hy: np.ndarray
    W_yy: np.ndarray
    H: np.ndarray  # the inverse of W_yy
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Work(NamedTuple):
    """Scratch arrays."""

    first: Any
    c: np.ndarray
    y: np.ndarray
    ws: Any


def init(W_xh: np.ndarray, W_hg: np.ndarray, W_hy: np.ndarray, W_yy: np.ndarray, rng: np.random.RandomState) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d = W_hy.shape[0]
    return State(
        layer=whitening_layer.init(W_xh, W_hg),
        W_hy=W_hy.copy(),
        W_yy=W_yy.copy(),
        H=inverse(W_yy),
        **bookkeeping(d, rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_yy), state.W_hy.dtype
    ws = scratch(d, dtype)
    first = whitening_layer.workspace(d, dtype, ws.events)
    return Work(first=first, c=np.zeros(d, dtype), y=np.zeros(d, dtype), ws=ws)


def settle(state, work, params, X, t):
    """The whitening layer, then the outputs."""
    whiten(state.layer, work.first, params.dynamics, X, t)
    apply(state.W_hy, work.first.h, work.c)
    settle_lateral(params.dynamics, state.W_yy, state.H, work.c, work.y, work.ws, True)


def learn(state, work, params, X, t, rates):
    """The updates of both layers."""
    eta = rates[t, 0]
    zeta = rates[t, 1]
    state.t[0] += 1
    weight = mean_weight(rates, state.t[0], params.mean_window)
    follow_lateral(params.dynamics, state.H, eta, work.y, work.ws)
    hebb_uncentred(state.W_yy, eta, work.y, work.y)
    hebb_uncentred(state.W_hy, eta, work.y, work.first.h)
    learn_whitening(state.layer, work.first, params.dynamics, X, t, zeta, weight)
    if params.guards.silent:
        flip_silent(state.W_hy, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guard `spectrum`; inverses are recomputed from time to time."""
    refresh_whitening(state.layer, state.t[0])
    lifted = params.guards.spectrum and lift_eigenvalues(state.W_yy, params.eps, work.ws)
    if lifted or state.t[0] % REFRESH == 0:
        invert(state.W_yy, state.H)


def unmixing(state: State) -> np.ndarray:
    """W_yy^-1 W_hy F, with the whitening layer's F."""
    return np.asarray(solve_lateral(state.W_yy, state.W_hy) @ whitening_layer.whitening(state.layer))


RULE = register(
    Rule(
        "two_layer_nsm", State, Params,
        whitening_layer.LEARNED | shapes(dd="W_hy W_yy H"),
        workspace, settle, learn, unmixing, inspect,
        parts={"layer": whitening_layer.Learned},
        inverses={"H": "W_yy"},
        symmetric=("W_yy",),
        input_weights="layer.W_xh",
        input_mean="layer.x_bar",
    )
)  # fmt: skip
