"""Algorithm 2, Bio-NICA with 2-compartmental neurons: k mixtures x, dendrites c, d somatic outputs z >= 0.

For each mixture x_t, with c_t = W_xz x_t and the somata at the fixed point of the dynamics (eq. 15; see `settling`),

    z_t <- [z_t + gamma (c_t - W_zz z_t)]_+

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t      c_bar <- c_bar + (c_t - c_bar)/t

and then the weights (eqs. 13 and 14, online):

    W_xz <- W_xz + 2 eta_t (z_t x_t' - (c_t - c_bar)(x_t - x_bar)')
    W_zz <- W_zz + (eta_t / tau) (z_t z_t' - W_zz)

W_zz stays positive definite while eta_t < tau.

*Erratum.* The text of section 4.2 replaces the averages Z X'/T and Z Z'/T by products of centred activities. The
objective L_2 and the algorithm box use z_t x_t' and z_t z_t' uncentred; the box is what converges to the sources, and
what is here.
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernels.guards import cap_rate, flip_silent, lift_eigenvalues
from ..kernels.plasticity import (
    AVERAGING,
    average,
    averaging_weight,
    follow,
    follow_input,
    hebb_uncentred,
    mean_weight,
    project,
)
from ..kernels.rule import Rule, bookkeeping, inverse, register, shapes, solve_lateral
from ..kernels.settling import REFRESH, follow_lateral, invert, scratch, settle_lateral


class State(NamedTuple):
    """What the network remembers."""

    W_xz: np.ndarray
    W_zz: np.ndarray
    H: np.ndarray  # the inverse of W_zz
    x_bar: np.ndarray
    c_bar: np.ndarray
    W_xz_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_zz_mean: np.ndarray
    x_power: np.ndarray  # running mean of x^2, kept where `Params.scaled` is set
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Any
    mean_window: int  # 0: the whole past, as in the paper
    eps: float
    horizon: int = 0  # of the averaging; 0: none
    tau: float = 0.8
    average: bool = False
    scaled: bool = False  # whether mixtures are divided by their running root mean square


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    y: np.ndarray  # the paper's z; the loop knows every rule's output by this name
    ws: Any


def init(W_xz: np.ndarray, W_zz: np.ndarray, rng: np.random.RandomState) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d, k = W_xz.shape
    dtype = W_xz.dtype
    return State(
        W_xz=W_xz.copy(),
        W_zz=W_zz.copy(),
        H=inverse(W_zz),
        x_bar=np.zeros(k, dtype),
        c_bar=np.zeros(d, dtype),
        W_xz_mean=W_xz.copy(),
        W_zz_mean=W_zz.copy(),
        x_power=np.zeros(k),
        **bookkeeping(d, rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_xz.dtype
    return Work(c=np.zeros(d, dtype), y=np.zeros(d, dtype), ws=scratch(d, dtype))


def settle(state, work, params, X, t):
    """c = W_xz x, and eq. 15."""
    project(state.W_xz, X, t, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws, True)


def learn(state, work, params, X, t, rates):
    """The running means and the two synaptic updates."""
    W_xz, x_bar, c_bar, c, z = state.W_xz, state.x_bar, state.c_bar, work.c, work.y
    eta = rates[t, 0]
    state.t[0] += 1
    weight = mean_weight(rates, state.t[0], params.mean_window)
    follow_input(x_bar, X, t, weight)
    follow(c_bar, c, weight)
    if params.guards.rate:
        size = rates.dtype.type(0)
        for j in range(x_bar.shape[0]):
            size += (X[t, j] - x_bar[j]) * (X[t, j] - x_bar[j])
        eta = cap_rate(eta, size, rates.dtype.type(0.5), work.ws.events)
    follow_lateral(params.dynamics, state.H, eta / params.tau, z, work.ws)
    hebb_uncentred(state.W_zz, eta / params.tau, z, z)
    double = W_xz.dtype.type(eta + eta)
    for i in range(W_xz.shape[0]):
        a = double * z[i]
        b = double * (c[i] - c_bar[i])
        for j in range(W_xz.shape[1]):
            W_xz[i, j] += a * X[t, j] - b * (X[t, j] - x_bar[j])
    if params.average:
        weight = averaging_weight(state.t[0], AVERAGING, params.horizon)
        average(state.W_xz_mean, state.W_xz, weight)
        average(state.W_zz_mean, state.W_zz, weight)
    if params.guards.silent:
        flip_silent(state.W_xz, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guard `spectrum`; H is recomputed from time to time."""
    lifted = params.guards.spectrum and lift_eigenvalues(state.W_zz, params.eps, work.ws)
    if lifted or state.t[0] % REFRESH == 0:
        invert(state.W_zz, state.H)


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz."""
    return solve_lateral(state.W_zz, state.W_xz)


RULE = register(
    Rule(
        "two_compartment", State, Params,
        shapes(dk="W_xz W_xz_mean", dd="W_zz H W_zz_mean", k="x_bar", d="c_bar") | {"x_power": "k:float64"},
        workspace, settle, learn, unmixing, inspect,
        averages={"W_xz": "W_xz_mean", "W_zz": "W_zz_mean"},
        inverses={"H": "W_zz"},
        symmetric=("W_zz",),
        input_weights="W_xz",
    )
)  # fmt: skip
