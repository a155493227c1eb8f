"""Algorithm 1, Bio-NICA with interneurons: k mixtures x, d outputs y >= 0, m >= d interneurons n.

For each mixture x_t, with the activity at the fixed point of the dynamics (eq. 9; see `settling`),

    y_t <- [y_t + gamma (W_xy x_t - W_ny n_t)]_+      n_t <- n_t + gamma (W_yn y_t - n_t)

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t      y_bar <- y_bar + (y_t - y_bar)/t      n_bar <- n_bar + (n_t - n_bar)/t

and then the weights (eqs. 7 and 8, online):

    W_xy <- W_xy + eta_t ((y_t - y_bar)(x_t - x_bar)' - W_xy)
    W_ny <- W_ny + eta_t ((y_t - y_bar)(n_t - n_bar)' - W_ny)
    W_yn <- W_yn + eta_t ((n_t - n_bar)(y_t - y_bar)' - W_yn)

W_ny and W_yn are separate synapses. The difference W_ny - W_yn' shrinks by (1 - eta_t) at each sample (appendix B); if the two are
equal at the beginning they stay so (`coupled`), and M = W_ny W_yn is symmetric.
At the optimum W_xy = P A' and W_yn' W_yn = P A'A P' for a permutation P (appendix A).
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernels.guards import flip_silent, lift_singular_values, replace_rows
from ..kernels.plasticity import (
    AVERAGING,
    average,
    averaging_weight,
    follow,
    follow_input,
    hebb_input,
    hebb_uncentred,
    mean_weight,
    multiply,
    product_and_hebb,
    project,
    subtract,
)
from ..kernels.rule import Rule, bookkeeping, inverse, register, shapes, solve_lateral
from ..kernels.settling import REFRESH, follow_interneurons, invert, scratch, settle_interneurons


class State(NamedTuple):
    """What the network remembers."""

    W_xy: np.ndarray
    W_yn: np.ndarray
    W_ny: np.ndarray
    M: np.ndarray  # W_ny W_yn; if they are not coupled only after each refresh, because nothing reads it
    H: np.ndarray  # the inverse of M
    x_bar: np.ndarray
    y_bar: np.ndarray
    n_bar: np.ndarray
    W_xy_mean: np.ndarray  # averages of the weights, kept where `Params.average` is set
    W_yn_mean: np.ndarray
    W_ny_mean: np.ndarray
    x_power: np.ndarray  # running mean of x^2, kept where `Params.scaled` is set
    coupled: np.ndarray  # whether W_ny was W_yn' at the beginning
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
    average: bool = False
    scaled: bool = False  # whether mixtures are divided by their running root mean square


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    y: np.ndarray
    n: np.ndarray
    dy: np.ndarray
    dn: np.ndarray
    p: np.ndarray  # W_ny dn
    ws: Any


def init(W_xy: np.ndarray, W_yn: np.ndarray, W_ny: np.ndarray, rng: np.random.RandomState) -> State:
    """Return a network that has seen nothing, with these initial weights (copied)."""
    d, k = W_xy.shape
    dtype = W_xy.dtype
    M = W_ny @ W_yn
    return State(
        W_xy=W_xy.copy(),
        W_yn=W_yn.copy(),
        W_ny=W_ny.copy(),
        M=M,
        H=inverse(M),
        x_bar=np.zeros(k, dtype),
        y_bar=np.zeros(d, dtype),
        n_bar=np.zeros(len(W_yn), dtype),
        W_xy_mean=W_xy.copy(),
        W_yn_mean=W_yn.copy(),
        W_ny_mean=W_ny.copy(),
        x_power=np.zeros(k),
        coupled=np.array([np.array_equal(W_ny, W_yn.T)]),
        **bookkeeping(d, rng),
    )


def workspace(state):
    """Allocate scratch arrays."""
    m, d = state.W_yn.shape
    dtype = state.W_xy.dtype
    c, y, dy, p = np.zeros((4, d), dtype)
    n, dn = np.zeros((2, m), dtype)
    return Work(c, y, n, dy, dn, p, scratch(d, dtype))


def settle(state, work, params, X, t):
    """Eq. 9."""
    W_yn, W_ny, M, H, c, ws = state.W_yn, state.W_ny, state.M, state.H, work.c, work.ws
    project(state.W_xy, X, t, c)
    settle_interneurons(params.dynamics, W_yn, W_ny, M, H, c, work.y, work.n, ws, True)


def learn(state, work, params, X, t, rates):
    """The running means and the three synaptic updates."""
    W_xy, W_yn, W_ny, y, n, dy, dn = state.W_xy, state.W_yn, state.W_ny, work.y, work.n, work.dy, work.dn
    eta = rates[t, 0]
    state.t[0] += 1
    weight = mean_weight(rates, state.t[0], params.mean_window)
    follow_input(state.x_bar, X, t, weight)
    follow(state.y_bar, y, weight)
    follow(state.n_bar, n, weight)
    subtract(y, state.y_bar, dy)
    subtract(n, state.n_bar, dn)
    product_and_hebb(W_ny, eta, dy, dn, work.p)
    follow_interneurons(params.dynamics, state.M, state.H, eta, work.p, dy, dn, work.ws)
    hebb_uncentred(W_yn, eta, dn, dy)
    hebb_input(W_xy, eta, y, state.y_bar, X, t, state.x_bar)
    if params.average:
        weight = averaging_weight(state.t[0], AVERAGING, params.horizon)
        average(state.W_xy_mean, W_xy, weight)
        average(state.W_yn_mean, W_yn, weight)
        average(state.W_ny_mean, W_ny, weight)
    if params.guards.silent:
        flip_silent(state.W_xy, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guards `row` and `spectrum`; M and H are recomputed from time to time."""
    changed = False
    if params.guards.row:
        replace_rows(state.W_xy, state.rng, work.ws.events)
    if params.guards.spectrum:
        lift_singular_values(state.W_xy, params.eps, work.ws)
        changed = lift_singular_values(state.W_yn.T, params.eps, work.ws)
        changed = lift_singular_values(state.W_ny, params.eps, work.ws) or changed
    if changed or state.t[0] % REFRESH == 0:
        multiply(state.W_ny, state.W_yn, state.M)
        invert(state.M, state.H)


def unmixing(state: State) -> np.ndarray:
    """(W_ny W_yn)^-1 W_xy."""
    return solve_lateral(state.W_ny @ state.W_yn, state.W_xy)


RULE = register(
    Rule(
        "interneuron", State, Params,
        shapes(
            dk="W_xy W_xy_mean", md="W_yn W_yn_mean", dm="W_ny W_ny_mean", dd="M H", k="x_bar", d="y_bar", m="n_bar"
        ) | {"x_power": "k:float64", "coupled": "1:bool"},
        workspace, settle, learn, unmixing, inspect,
        averages={"W_xy": "W_xy_mean", "W_yn": "W_yn_mean", "W_ny": "W_ny_mean"},
        products={"M": ("W_ny", "W_yn")},
        inverses={"H": "M"},
        symmetric=("M",),  # of coupled networks
        input_weights="W_xy",
        inspects_input=True,
    )
)  # fmt: skip
