"""The orthant rotation: nonnegative ICA of a stream without a learning rate. *Beyond the paper.*

V whitens, V C V' = I for the running covariance C of x, and is turned until v = V x >= 0. For each mixture, with v_bar = V x_bar,
dv = v - v_bar, q = |dv|^2, and g <= 1 the weight of a sample that far out (see `disturbances`),

    age <- age + g,  n <- n + g,  w = g/n,  m = g/age                neither n nor age is above the horizon here
    C <- (1-w)(C + w' dx dx')   which is   V <- f (I + beta dv dv') V       w' = w (1-m)/(1-w)
    v <- f (I + beta dv dv') v,    v_bar <- f (I + beta dv dv')(v_bar + m dv)
    f = (1-w)^-1/2,    beta = ((1 + w' q)^-1/2 - 1)/q

C is not stored. An error of V C V' = I shrinks by 1 - w with every sample. Let v = p + e, its positive and negative parts, which
are orthogonal. The rotation of the plane of a = p/|p| and b = e/|e| that takes v to p puts this sample into the orthant. If |e| is
more than rounding (64 eps |v|) V is turned in that plane by phi:

    tan(phi/2) = lambda tan(theta/2),   tan(theta/2) = |e|/(|v| + |p|)
    V <- R V,  v_bar <- R v_bar,   R = I + (cos phi - 1)(a a' + b b') + sin phi (a b' - b a')

    lambda = g (1 + t/(500 max(d, 20)))^-1/2                    t counts these turns, never above the horizon
             (1 + (1 + d/(d + 20)) age/(age + 1000) / (1 + (2 tan(theta/2)/0.3)^2))
             1.3 |v|^2/(|v|^2 + 0.3 E)                          E = d + |v_bar|^2, the mean of |v|^2

The second line turns farther than to the orthant's boundary where violations are small, as they are one-sided evidence. The third
turns less for small samples, which show noise. Where violations are rare lambda stays near 2 to 3, and where noise makes every
sample violate it anneals. Turning to the boundary only costs a factor of 2 to 3 where sources have few samples near zero.

Outputs are y = max(D v, 0), D the average of past rotations as seen from the present V:

    D <- (1-c) D + c I,   c = 6/(age + 5), never below 6/horizon;      D <- D R' at a turn

kept as alpha D + delta I, so that D changes at turns only. `transform` reads out with polar(D) V.

*Start.* The first nonzero sample sets the scale and nothing else (it may be an outlier): V = Q / sqrt(power), Q random orthonormal,
counted as d + 6 samples with the covariance power I. What is left of them is removed as samples come, C <- C - share I, by
rank-1 steps at growing intervals, so that after 100 d samples nothing is left of it, for any condition number. Outputs exist from
the second sample on.

*Disturbances.* Outliers and repeated samples: `disturbances`. Every n/4 samples C gets 1e-16 power I (1e-10 with a horizon), and V
stays finite if a channel freezes. Where the first outputs lose their size (the first sample was an outlier) everything starts
again, and with a horizon also where the mixing has changed abruptly: the outputs of a block are unusually correlated or negative
(`changes`), or far from their usual size. After 5 horizons 0.7 % of an old covariance is left, more than all of a new one in its
thin directions. Without a horizon a change is only reported.
"""

from typing import Any, NamedTuple

import numpy as np

from .guards import n_repairs
from .plasticity import project
from .rotation_state import CALL, NOTHING, Rotation, average_of, first_rotation, n_clock, scale
from .rotation_steps import act, begin, count, distance, move, read_out, watch, weigh
from .rule import Rule, bookkeeping, register


class State(NamedTuple):
    """What the rule remembers."""

    rot: Rotation
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any  # there are none
    guards: Any
    horizon: int  # 0: none
    eps: float  # rounding of the mixtures' dtype


class Events(NamedTuple):
    """Counters of the engine."""

    events: np.ndarray


class Work(NamedTuple):
    """Scratch arrays."""

    y: np.ndarray
    v: np.ndarray
    dv: np.ndarray
    a: np.ndarray
    b: np.ndarray
    G: np.ndarray  # dv'V, a'V and b'V
    ws: Any


def init(Q: np.ndarray, dtype: Any, rng: np.ndarray) -> State:
    """Return the rule before its first sample, for as many mixtures (of this dtype) as sources."""
    return State(first_rotation(Q, len(Q), dtype), **bookkeeping(len(Q), rng))


def workspace(state):
    """Allocate scratch arrays."""
    d = len(state.rot.V)
    v, dv, a, b = np.zeros((4, d))
    return Work(
        np.zeros(d, state.rot.x_last.dtype), v, dv, a, b, np.zeros((3, d)), Events(np.zeros(n_repairs, np.int64))
    )


def settle(state, work, params, X, t):
    """v = V x and y = max(D v, 0)."""
    project(state.rot.V, X, t, work.v)
    read_out(state.rot, work)


def learn(state, work, params, X, t, rates):
    """The sample's weight, the whitening, the turn."""
    state.t[0] += 1
    learns, scales = begin(state.rot, work, X, t)
    if scales:
        power = 0.0
        for j in range(X.shape[1]):
            power += float(X[t, j]) * float(X[t, j])
        scale(state.rot, power)
    if not learns:
        return
    q = distance(state.rot, work)
    g = weigh(state.rot, work, q)
    w, m = count(state.rot, g, params.horizon)
    negative = move(state.rot, work, w, m, q, g, params)
    watch(state.rot, work, negative, params.horizon)


def repair(state, work, params):
    """What is rarely needed: see `watch`."""
    if state.rot.clock[CALL] != NOTHING:
        act(state.rot, work, params.horizon)


def unmixing(state: State) -> np.ndarray:
    """D V."""
    return np.asarray(average_of(state.rot) @ state.rot.V)


#: Shapes of a Rotation. V is in float64 for mixtures of any dtype: it is small, and in float32 rounding left an error of 1e-3
#: after 10^7 samples.
ROTATION = {
    "rot.V": "dd:float64", "rot.D": "dd:float64", "rot.v_bar": "d:float64", "rot.recent": "dd:float64",
    "rot.recent_sum": "d:float64", "rot.x_last": "k", "rot.tails": "2:float64", "rot.repeats": "2:float64",
    "rot.clock": f"{n_clock}:float64",
}  # fmt: skip

RULE = register(
    Rule(
        "orthant_rotation", State, Params, ROTATION,
        workspace, settle, learn, unmixing, repair,
        parts={"rot": Rotation},
    )
)  # fmt: skip
