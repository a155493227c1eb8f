"""What the natural networks share: a fixed projection of the input, its running inverse covariance, the size of a step.

*Beyond the paper.* With the paper's settings on a random mixing matrix most runs fail (Algorithm 2 at d = 3 in 17 of 20): the
covariance of the mixtures sets the step that each direction can bear. A natural-gradient step takes the covariance out. It is
not a local rule; the strictly local networks are beside it (`interneuron`, `two_compartment`).

    u = F x                                     F (d x k): noncentered whitening of a first block of mixtures, onto the
                                                d leading directions; fixed. It takes care of k > d, scale and condition
    u_bar <- u_bar + w (u - u_bar)              w = 1/n, n counts the samples that F and R were started from too;
    R <- inverse of the covariance of u         never below 1/horizon. Sherman and Morrison: with q = du' R du,
                                                R <- (R - R du du' R w/(1 + w q)) / (1 - w), du = u - u_bar before its update
    r = R (u - u_bar)                           the presynaptic vector of the Hebbian updates, and p = R u = r + R u_bar

Guard `rate`: a sample that is far out counts less, w <- g w and a <- g a with the weight g(q) of `disturbances`, and it turns V by
less. Without it one sample 1e6 times too large left an error of 0.5. If one sample in 1000 is 10 to 1e6 times too large, the error
is 0.8 to 1.4 times the clean one (exponential, half-normal and sparse-uniform sources, d = 3 to 10); with a weight that is only
bounded, w <- w min(1, (400 + 4 d)/q), it was up to 2000 times.

Both networks learn weights W from u and lateral weights M (W_zz, or W_yn'W_yn); V = M^-1 W is what they do while every neuron
fires. With a postsynaptic vector s and a presynaptic vector p they take the step

    W <- (1 - a) W + a s p'        M <- (1 - a) M + a s s'        a = eta q_s/(1 + q_s)^2,  q_s = s' M^-1 s,  eta = 0.05
    hence V <- V + a M_new^-1 s (p - V's)'

which is zero, whatever a, where s = V u (or V (u - u_bar)), p = R u (or r) and V'V = R: at the solution the noise of the two
updates cancels exactly, not only to first order. So eta need not fall. With V = (I + E) V_0, V_0'V_0 = R and small E, the step
is E <- E - b M^-1 s s'(E + E') for some b > 0: it makes V'V = R, and leaves the rotation to samples that are rectified and to
`turn`. The factor q_s/(1 + q_s) keeps samples of silent sources from making M vanish. With eta = 0.2 the step diverges at d = 3,
0.1 was stable.

Averaged weights: mean <- mean + c (W - mean) with c = (gamma + 1)/(n + gamma), gamma = 10, never below (gamma + 1)/horizon.
`transform` reads out with the means.

Measured (`benchmarks/streaming.py`), one pass over 1e5 samples of 100 random problems for each d (five kinds of sources, condition
1 to 1000, scale 1e-3 to 1e3): held-out error over that of BatchNICA on the same data, median / 95 %: Algorithm 1 1.06 / 1.93 at
d = 3, 1.16 / 1.74 at d = 10; Algorithm 2 1.05 / 1.82 and 1.16 / 1.78. With rates of 1/t exponential sources at d = 3 ended at 50
to 80 times the error of BatchNICA, half-normal ones at d = 10 at 200 to 3000 times.
"""

import math
from typing import NamedTuple

import numpy as np

from .changes import n_past
from .disturbances import sample_weight
from .generic import hot
from .guards import RATE
from .plasticity import apply, dot
from .rule import shapes

#: eta of the natural steps.
ETA = 0.05
#: gamma of the averaged weights.
AVERAGING = 10.0
#: The quantiles of q move by 1/(1 + n/(SLOW d)) at least: faster at the beginning.
SLOW = 30.0
#: v = R u_bar is recomputed every so many samples, and updated in between.
REFRESH = 64


class Input(NamedTuple):
    """The input side of a natural network."""

    F: np.ndarray
    R: np.ndarray  # float64 always: in float32 the rounding of many small changes adds up
    u_bar: np.ndarray
    v: np.ndarray  # R u_bar
    n: np.ndarray  # (1,) samples behind F, R and u_bar, those of the first block included
    tails: np.ndarray  # (2,) running quantiles of q: see `disturbances`
    turned: np.ndarray  # (1,) samples that turned V: see `turn`
    recent: np.ndarray  # (2,) sum of q_s and number of samples since `natural_guards` last looked
    C_block: np.ndarray  # covariance and mean of u over the last n_block samples: see `natural_guards`
    u_block: np.ndarray
    n_block: np.ndarray
    negative: np.ndarray  # (1,) sum of the negative energy of the outputs over these samples
    past: np.ndarray  # what past blocks were like: see `changes`
    last: np.ndarray  # the last mixture, how often each channel has repeated it, and its longest run: see `frozen`
    run: np.ndarray
    longest: np.ndarray
    changed: np.ndarray  # (1,) whether the mixing changed: ever without a horizon, in the last block with one


#: Shapes of these arrays, for the rules that have them as their part `inp`.
SHAPES = {
    **shapes(dk="inp.F", dd="inp.C_block", d="inp.u_bar inp.v inp.u_block", k="inp.last"),
    "inp.R": "dd:float64",
    "inp.n": "1:int64",
    "inp.tails": "2:float64",
    "inp.turned": "1:float64",
    "inp.recent": "2:float64",
    "inp.n_block": "1:int64",
    "inp.negative": "1:float64",
    "inp.past": f"{n_past}:float64",
    "inp.run": "k:int64",
    "inp.longest": "k:int64",
    "inp.changed": "1:bool",
}


class Workspace(NamedTuple):
    """Scratch arrays of the input side."""

    u: np.ndarray
    r: np.ndarray  # R (u - u_bar)
    du: np.ndarray


def start(F: np.ndarray, u_bar: np.ndarray, n: int) -> Input:
    """Return the input side that starts from a block of n samples, which F whitens (arrays are copied)."""
    d, k = F.shape
    never = np.full(k, -1, np.int64)
    return Input(
        F=F.copy(), R=np.eye(d), u_bar=u_bar.copy(), v=u_bar.copy(), n=np.array([n], np.int64),
        tails=np.full(2, 10.0 * d), turned=np.zeros(1), recent=np.zeros(2),
        C_block=np.zeros((d, d), F.dtype), u_block=np.zeros_like(u_bar), n_block=np.zeros(1, np.int64),
        negative=np.zeros(1), past=np.zeros(n_past),
        last=np.zeros(k, F.dtype), run=never, longest=never.copy(), changed=np.zeros(1, np.bool_),
    )  # fmt: skip


def workspace(d, dtype):
    """Allocate scratch arrays."""
    return Workspace(np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(d, dtype))


@hot
def observe(inp, work, params, events):
    """Take the sample work.u in: R, u_bar, v and n move; work.r <- R (u - u_bar). Returns the weight of the sample, 1 or less."""
    R, u_bar, v, u, r, du = inp.R, inp.u_bar, inp.v, work.u, work.r, work.du
    d = u.shape[0]
    one = R.dtype.type(1)
    inp.n[0] += 1
    w = R.dtype.type(forgetting(inp.n[0], params.horizon))
    for i in range(d):
        du[i] = u[i] - u_bar[i]
    q = R.dtype.type(0)
    along = R.dtype.type(0)
    for i in range(d):
        r[i] = dot(R, i, du)
        q += r[i] * du[i]
        along += v[i] * du[i]
    share = u.dtype.type(1)
    if params.guards.rate:
        share = u.dtype.type(sample_weight(inp.tails, q, 1.0 / (1.0 + inp.n[0] / (SLOW * d))))
        events[RATE] += share < 1
    if params.guards.restart:
        observe_block(inp, u, share)
    w *= share
    shrink = one / (one + w * q)
    grow = one / (one - w)
    f = math.sqrt(w * shrink * grow)
    for i in range(d):
        u_bar[i] += w * du[i]
        v[i] = (v[i] + w * shrink * (one - along) * r[i]) * grow
        du[i] = f * r[i]
    # Exactly symmetric: an antisymmetric part would grow by 1/(1 - w) a sample.
    for i in range(d):
        for j in range(d):
            R[i, j] = grow * R[i, j] - du[i] * du[j]
    for i in range(d):
        r[i] *= shrink
    if inp.n[0] % REFRESH == 0:  # rounding errors of v would accumulate
        apply(R, u_bar, v)
    return share


@hot
def observe_block(inp, u, share):
    """Take u into the mean and the covariance of the block, with this share of the weight of a sample."""
    C, u_block = inp.C_block, inp.u_block
    one = C.dtype.type(1)
    inp.n_block[0] += 1
    if inp.n_block[0] == 1:
        inp.negative[0] = 0
        for i in range(u.shape[0]):
            u_block[i] = inp.u_bar[i]
            for j in range(u.shape[0]):
                C[i, j] = 0
    w = share / C.dtype.type(inp.n_block[0])
    for i in range(u.shape[0]):
        a = u[i] - u_block[i]
        for j in range(u.shape[0]):
            C[i, j] = (one - w) * (C[i, j] + w * (a * (u[j] - u_block[j])))
    for i in range(u.shape[0]):
        u_block[i] += w * (u[i] - u_block[i])


@hot
def forgetting(n, horizon):
    """1/n, and never below 1/horizon where one is set (> 0)."""
    if horizon > 0 and n > horizon:
        return 1.0 / horizon
    return 1.0 / n


@hot
def step_size(inp, H, s, g, eta, share):
    """g <- H s and q_s = s'g; returns q_s and a = eta q_s/(1 + q_s)^2, times the weight of the sample."""
    q = H.dtype.type(0)
    one = H.dtype.type(1)
    for i in range(s.shape[0]):
        g[i] = dot(H, i, s)
        q += g[i] * s[i]
    inp.recent[0] += q
    inp.recent[1] += 1
    return q, H.dtype.type(eta) * share * (q / (one + q)) / (one + q)
