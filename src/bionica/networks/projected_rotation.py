"""The orthant rotation of more mixtures than sources, k > d: see `orthant_rotation`, here with V acting on u = F x.

F (d x k) has orthonormal rows, random at first. It turns towards the d leading directions of the mixtures:

    P <- P + g dx du'                                  the covariance of x and u since F last changed
    after n/4 more samples:  A = P V' = U T,           U orthonormal, T upper triangular (Gram-Schmidt)
                             V <- V F A T^-1,  F <- U',  P <- 0

This is a power step: the columns of C F' lie closer to the leading directions than those of F'. The columns of A resemble those of
the mixing matrix, so that A has its condition number and not the square of it. V F A T^-1 U' x = V F x for every x in the span
of A: without noise the outputs do not change, and V stays white. Memory is k x d. With a horizon, a drift that leaves the first
directions is followed. The first step comes after 20 d samples, when the covariance of the start is removed (it is a multiple of
I only until then).

A power step with the covariances of all the past (for F that was another) ended at 3 to 70 times the error of BatchNICA with
20 or 30 dB of noise.

The weight g of a sample is bounded by the energy outside of F as well: g <= min(1, 12 r/|(I - F'F) dx|^2)^2, r its running
99.5 % quantile.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .disturbances import P_2, SPARE, STEP
from .generic import cold, hot
from .guards import n_repairs
from .orthant_rotation import ROTATION, Events, Params
from .plasticity import apply, dot_rows, multiply, project
from .rotation_state import (
    AGE,
    CALL,
    NOTHING,
    POWER,
    PRIOR,
    RESTART,
    TEND,
    Rotation,
    average_of,
    end_start,
    first_rotation,
    pseudo_samples,
    scale,
)
from .rotation_steps import act, begin, count, distance, energy_of, move, read_out, watch, weigh
from .rule import Rule, bookkeeping, register, shapes

#: F stays as it is for so many d samples.
FIXED = 20.0


class State(NamedTuple):
    """What the rule remembers."""

    rot: Rotation
    F: np.ndarray
    P: np.ndarray
    x_bar: np.ndarray
    u_bar: np.ndarray  # F x_bar
    outside: np.ndarray  # 99.5 % quantile of the energy outside of F
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Work(NamedTuple):
    """Scratch arrays."""

    y: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    a: np.ndarray
    b: np.ndarray
    G: np.ndarray
    ws: Any
    u: np.ndarray
    dx: np.ndarray
    A: np.ndarray
    T: np.ndarray
    B: np.ndarray


def init(F: np.ndarray, Q: np.ndarray, rng: np.ndarray) -> State:
    """Return the rule before its first sample, with this projection (d x k) and rotation (d x d); both are copied."""
    d, k = F.shape
    means = np.zeros(k), np.zeros(d)
    return State(
        first_rotation(Q, k, F.dtype), F.copy(), np.zeros((k, d), F.dtype), *means, np.zeros(1), **bookkeeping(d, rng)
    )


def workspace(state):
    """Allocate scratch arrays."""
    d, k = state.F.shape
    dtype = state.F.dtype
    v, dv, a, b, u = np.zeros((5, d))
    T, B = np.zeros((2, d, d))
    events = Events(np.zeros(n_repairs, np.int64))
    return Work(
        np.zeros(d, dtype), v, dv, a, b, np.zeros((3, d)), events, u, np.zeros(k, dtype), np.zeros((k, d), dtype), T, B
    )


def settle(state, work, params, X, t):
    """u = F x, v = V u and y = max(D v, 0)."""
    project(state.F, X, t, work.u)
    apply(state.rot.V, work.u, work.v)
    read_out(state.rot, work)


def learn(state, work, params, X, t, rates):
    """The sample's weight, its covariance, the whitening, the turn."""
    rot = state.rot
    state.t[0] += 1
    learns, scales = begin(rot, work, X, t)
    if scales:
        forget_input(state)
        scale(rot, energy_of(work.u))
    if not learns:
        return
    q = distance(rot, work)
    g = min(weigh(rot, work, q), weigh_outside(state, work, X, t))
    w, m = count(rot, g, params.horizon)
    gather(state, work, g, m)
    negative = move(rot, work, w, m, q, g, params)
    watch(rot, work, negative, params.horizon)


def repair(state, work, params):
    """What is rarely needed: see `rotation_steps.watch`."""
    if state.rot.clock[CALL] != NOTHING:
        act_projected(state, work, params.horizon)


@hot
def weigh_outside(state, work, X, t):
    """work.dx <- x - x_bar, work.u <- u - u_bar; returns the bound of g from the energy outside of F."""
    dx, u, outside, d = work.dx, work.u, state.outside, state.F.shape[0]
    all_of_it = 0.0
    for j in range(dx.shape[0]):
        dx[j] = X[t, j] - state.x_bar[j]
    for j in range(dx.shape[0]):
        all_of_it += dx[j] * dx[j]
    inside = 0.0
    for i in range(d):
        u[i] -= state.u_bar[i]
    for i in range(d):
        inside += u[i] * u[i]
    r = max(all_of_it - inside, 1e-13 * all_of_it)
    if outside[0] == 0:
        outside[0] = r
    most = 8 * SPARE * outside[0]
    s = max(STEP, 1 / (1 + state.rot.clock[AGE] / (30.0 * d)))
    outside[0] *= 1 + s if r > outside[0] else 1 - s * P_2
    return (most / r) ** 2 if r > most else 1.0


@hot
def gather(state, work, g, m):
    """P, x_bar and u_bar."""
    P, dx, u = state.P, work.dx, work.u
    for i in range(u.shape[0]):
        state.u_bar[i] += m * u[i]
    for j in range(dx.shape[0]):
        state.x_bar[j] += m * dx[j]
        x = g * dx[j]
        for i in range(u.shape[0]):
            P[j, i] += x * u[i]


@cold
def act_projected(state, work, horizon):
    """Do what `watch` called for, and turn F."""
    rot, clock = state.rot, state.rot.clock
    call = clock[CALL]
    turns = call == TEND and clock[AGE] >= FIXED * state.F.shape[0]
    if turns and clock[PRIOR] > 0:
        for _ in range(6):
            pseudo_samples(rot, work, -0.99 * clock[PRIOR] * clock[POWER])
            clock[PRIOR] *= 0.01
        end_start(rot)
    act(rot, work, horizon)
    if turns:
        turn_projection(state, work)
    if call == RESTART:
        forget_input(state)
    elif turns:
        forget_covariance(state)


@cold
def forget_input(state):
    """Forget everything about the mixtures but F."""
    state.outside[0] = 0
    for i in range(state.u_bar.shape[0]):
        state.u_bar[i] = 0
    for j in range(state.x_bar.shape[0]):
        state.x_bar[j] = 0
    forget_covariance(state)


@cold
def forget_covariance(state):
    """P <- 0."""
    for j in range(state.P.shape[0]):
        for i in range(state.P.shape[1]):
            state.P[j, i] = 0


@cold
def turn_projection(state, work):
    """A = P V' = U T, V <- V F A T^-1, F <- U'; nothing if A has fewer than d directions."""
    V, F, A, T = state.rot.V, state.F, work.A, work.T
    d, k = F.shape
    for j in range(k):
        for i in range(d):
            A[j, i] = dot_rows(state.P, j, V, i, d)
    multiply(F, A, T)
    multiply(V, T, work.B)
    if not orthonormalise(A, T):
        return
    for i in range(d):  # V T = B
        for c in range(d):
            s = work.B[i, c]
            for j in range(c):
                s -= V[i, j] * T[j, c]
            V[i, c] = s / T[c, c]
    for i in range(d):
        for j in range(k):
            F[i, j] = A[j, i]
    apply(F, state.x_bar, state.u_bar)
    apply(V, state.u_bar, state.rot.v_bar)


@cold
def orthonormalise(A, T):
    """A <- U and T, with A = U T (Gram-Schmidt, twice); False if a column depends on those before it."""
    k, d = A.shape
    for c in range(d):
        before = 0.0
        for j in range(k):
            before += A[j, c] * A[j, c]
        for i in range(d):
            T[i, c] = 0
        for _ in range(2):
            for i in range(c):
                s = 0.0
                for j in range(k):
                    s += A[j, i] * A[j, c]
                T[i, c] += s
                for j in range(k):
                    A[j, c] -= s * A[j, i]
        after = 0.0
        for j in range(k):
            after += A[j, c] * A[j, c]
        if not after > 1e-26 * before:
            return False
        T[c, c] = math.sqrt(after)
        one = 1 / T[c, c]
        for j in range(k):
            A[j, c] *= one
    return True


def unmixing(state: State) -> np.ndarray:
    """D V F."""
    return np.asarray(average_of(state.rot) @ state.rot.V @ state.F)


RULE = register(
    Rule(
        "projected_rotation", State, Params,
        ROTATION | shapes(dk="F", kd="P") | {"x_bar": "k:float64", "u_bar": "d:float64", "outside": "1:float64"},
        workspace, settle, learn, unmixing, repair,
        parts={"rot": Rotation},
    )
)  # fmt: skip
