"""What the natural networks share: a fixed projection of the input, its running inverse covariance, averaged weights.

*Beyond the paper.* With the paper's settings on a random mixing matrix most runs fail (Algorithm 2 at d = 3 in 17 of 20): the
covariance of the mixtures sets the step that each direction can bear. A natural-gradient step takes the covariance out. It is
not a local rule; the strictly local networks are beside it (`interneuron`, `two_compartment`).

    u = F x                                     F (d x k): noncentered whitening of a first block of mixtures, onto the
                                                d leading directions; fixed. It takes care of k > d, scale and condition
    u_bar <- u_bar + w (u - u_bar)              w = 1/n, n counts the samples that F and R were started from too;
    R <- inverse of the covariance of u         never below 1/horizon. Sherman and Morrison: with q = du' R du,
                                                R <- (R - R du du' R w/(1 + w q)) / (1 - w), du = u - u_bar before its update
    r = R (u - u_bar)                           the presynaptic vector of the Hebbian updates, and p = R u = r + R u_bar

Because R is the inverse of the covariance, <W (u - u_bar) r'> = W: where the paper's rules subtract an average over samples of this
kind, W itself stands in for it. And the rates of the two kinds of weights can be put in the ratio in which their noise cancels at
the solution (see the rule files): the errors that are left come from rectification alone. Measured on eight problems (sparse
uniform, exponential, half-normal, gamma; d = 3 and 10), started from the offline solution on all 1e5 samples: Algorithm 2 ends at
0.9 to 1.3 times the offline error with both, at 0.8 to 1250 times without.

Averaged weights: each learned matrix W has a mean, mean <- mean + a (W - mean) with a = (gamma + 1)/(n + gamma), never below
(gamma + 1)/horizon; gamma = 0 weighs all samples alike, larger ones forget the beginning. `transform` reads out with the means.
"""

import math
from typing import NamedTuple

import numpy as np

from .generic import cold, hot
from .guards import ENERGY
from .plasticity import apply, dot
from .rule import shapes

#: The guard `energy` looks every so many samples, and never makes the rates slower than this share.
WINDOW = 1000
#: v = R u_bar is recomputed every so many samples, and updated in between.
REFRESH = 64
SLOWEST = 1 / 16


class Input(NamedTuple):
    """The input side of a natural network."""

    F: np.ndarray
    R: np.ndarray
    u_bar: np.ndarray
    v: np.ndarray  # R u_bar
    n: np.ndarray  # (1,) samples behind F, R and u_bar, those of the first block included
    energy: np.ndarray  # (2,) of the outputs and of the whitened input since the guard `energy` last looked
    brake: np.ndarray  # (1,) what that guard has made of the learning rates


#: Shapes of these arrays, for the rules that have them as their part `inp`.
SHAPES = {
    **shapes(dk="inp.F", dd="inp.R", d="inp.u_bar inp.v"),
    "inp.n": "1:int64",
    "inp.energy": "2:float64",
    "inp.brake": "1:float64",
}


class Workspace(NamedTuple):
    """Scratch arrays of the input side."""

    u: np.ndarray
    r: np.ndarray  # R (u - u_bar)
    du: np.ndarray


def start(F: np.ndarray, u_bar: np.ndarray, R: np.ndarray, n: int) -> Input:
    """Return the input side that starts from a block of n samples (arrays are copied)."""
    count = np.array([n], dtype=np.int64)
    return Input(F.copy(), R.copy(), u_bar.copy(), R @ u_bar, count, np.zeros(2), np.ones(1))


def workspace(d, dtype):
    """Allocate scratch arrays."""
    return Workspace(np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(d, dtype))


@hot
def observe(inp, work, horizon):
    """Take the sample work.u in: R, u_bar, v and n move; work.r <- R (u - u_bar). Returns q = (u - u_bar)' R (u - u_bar)."""
    R, u_bar, v, u, r, du = inp.R, inp.u_bar, inp.v, work.u, work.r, work.du
    d = u.shape[0]
    one = R.dtype.type(1)
    inp.n[0] += 1
    w = R.dtype.type(forgetting(inp.n[0], horizon))
    for i in range(d):
        du[i] = u[i] - u_bar[i]
    q = R.dtype.type(0)
    along = R.dtype.type(0)
    for i in range(d):
        r[i] = dot(R, i, du)
        q += r[i] * du[i]
        along += v[i] * du[i]
    shrink = one / (one + w * q)
    grow = one / (one - w)
    f = math.sqrt(w * shrink * grow)
    for i in range(d):
        u_bar[i] += w * du[i]
        v[i] = (v[i] + w * shrink * (one - along) * r[i]) * grow
        du[i] = f * r[i]
    for i in range(d):
        for j in range(d):
            R[i, j] = grow * R[i, j] - du[i] * du[j]
    for i in range(d):
        r[i] *= shrink
    if inp.n[0] % REFRESH == 0:  # rounding errors of v would accumulate
        apply(R, u_bar, v)
    return q


@hot
def forgetting(n, horizon):
    """1/n, and never below 1/horizon where one is set (> 0)."""
    if horizon > 0 and n > horizon:
        return 1.0 / horizon
    return 1.0 / n


@hot
def measure_energy(inp, work, y):
    """Add the energy of the outputs, |y|^2, and of the whitened input, u' R u, to what the guard `energy` compares."""
    s = 0.0
    for i in range(y.shape[0]):
        s += y[i] * y[i]
    inp.energy[0] += s
    s = 0.0
    for j in range(work.u.shape[0]):
        s += work.u[j] * (work.r[j] + inp.v[j])
    inp.energy[1] += s


@cold
def judge_energy(inp, events):
    """Whether the outputs have lost their size since the guard last looked, and whether they are healthy; sets the brake."""
    out, whitened = inp.energy[0], inp.energy[1]
    inp.energy[0] = 0
    inp.energy[1] = 0
    lost = out > 4 * whitened or 4 * out < whitened
    healthy = out <= 2 * whitened and 2 * out >= whitened
    if lost:
        events[ENERGY] += 1
        inp.brake[0] = max(0.5 * inp.brake[0], SLOWEST)
    elif healthy:
        inp.brake[0] = min(1.5 * inp.brake[0], 1.0)
    return lost, healthy


@cold
def restore(W, mean, good, lost, healthy):
    """Go back to the weights `good` if the outputs have lost their size; remember these if they are healthy."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            if lost:
                W[i, j] = good[i, j]
                mean[i, j] = good[i, j]
            elif healthy:
                good[i, j] = W[i, j]
