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

from .guards import EVERY, orthogonalise_rows
from .plasticity import apply, dot, dot_rows, multiply
from .rule import RATE, RESTART, SILENT, SPECTRUM, cold, hot, shapes
from .settling import invert

# ---------------------------------------------------------------------------------------------- weight of a sample
#
# Samples that a stream should not learn from, or less: outliers and frozen sensors.
#
# *Beyond the paper.* One sample 10^6 times too large among 10^5 spoiled every estimate of a covariance (error 0.52 where 5e-6 is
# possible), and a sensor that repeats itself for a thousand horizons made it vanish.
#
# Weight of a sample at the squared Mahalanobis distance q:
#
#     g = min(1, tau/q)^2        tau = SPARE r_2 min(r_2/r_1, 4)^2, the tail of q extrapolated
#     r_i <- r_i (1 + s) if q > r_i, else r_i (1 - s p_i)            the running 98 % and 99.5 % quantiles of q
#
# tau follows the tails of the data, so that large samples of sparse sources keep their weight. g falls faster than 1/q, so
# that one
# outlier in 1000 leaves no trace: with g = tau/q it cost a factor of 20 to 200.
#
# A sample that equals the one before it is left out once the run of equal samples is longer than PATIENCE/(1 - f), where f is the
# usual share of such samples (half of all where sparse sources are often all silent). No threshold on q is involved.

#: The quantiles r_1 and r_2 are exceeded by these shares of the samples.
P_1, P_2 = 0.02, 0.005
#: The smallest step s of the quantiles, and the factor between r_2 and tau.
STEP, SPARE = 0.05, 1.5
#: So many equal samples in a row pass where equal samples are not usual.
PATIENCE = 30.0


@hot
def repeats_too_long(x_last, repeats, X, t):
    """Whether X[t] continues a run of equal samples that is too long. `repeats` holds the length of the run and f."""
    k = x_last.shape[0]
    j = 0
    while j < k and X[t, j] == x_last[j]:
        j += 1
    if j == k:
        repeats[0] += 1
        return repeats[0] * (1 - repeats[1]) > PATIENCE
    while j < k:
        x_last[j] = X[t, j]
        j += 1
    repeats[0] = 0
    return False


@hot
def sample_weight(tails, q, least):
    """The weight g of a sample at the squared distance q; `tails` holds r_1 and r_2, which move by steps of `least` or STEP."""
    ratio = min(max(tails[1] / tails[0], 1.0), 4.0)
    tau = SPARE * tails[1] * ratio * ratio
    g = 1.0
    if q > tau:
        g = tau / q
        g *= g
    s = max(STEP, least)
    tails[0] *= 1 + s if q > tails[0] else 1 - s * P_1
    tails[1] *= 1 + s if q > tails[1] else 1 - s * P_2
    return g


# ---------------------------------------------------------------------------------------------- unusual blocks
#
# Whether the mixing has changed, from blocks of outputs.
#
# Sources that come and go (spikes, speech, the peaks of a chromatogram) change the variances of the outputs. The outputs stay
# uncorrelated inside of a block, and nonnegative. After a change of the mixing each output is a sum of several sources, so
# that the
# outputs of a block are correlated, and some are negative. Two numbers for each block:
#
#     c = log tr(K^-1)/d       K the correlation matrix of the outputs, each with SILENT added to its variance, so that the
# rounding
#                              or the noise of a silent source does not count; c = 0 where they are uncorrelated
#     s                        the share of the energy that is negative
#
# A block is unusual if c > CORRELATED + mean + FAR spreads, or if c > mean and s > NEGATIVE + 3 means + FAR spreads. These means
# and spreads are of some 50 past blocks (at least 8 with a horizon, 16 without). If sources are on and off, blocks are
# correlated now
# and then, and the spreads are large.
#
# Measured: twelve kinds of sources whose mixing stays, d = 3 and 10, 50,000 samples. A comparison of tr C and tr C^-1, for the
# covariance C of a block, with the past found a change in 55 of 144 streams without a horizon.

#: What is added to the variance of each output.
FLOOR_OF_VARIANCE = 0.01
#: See above.
CORRELATED, NEGATIVE, FAR = 0.05, 0.01, 15.0
#: Past blocks that are needed with a horizon and without, and that are remembered.
LEAST, LEAST_WITHOUT, REMEMBERED = 8.0, 16.0, 50.0
#: A record of the past: the number of blocks, mean and spread of c, mean and spread of s.
n_past = 5


@cold
def correlation(C, z):
    """c of outputs with the covariance C, of which only the lower triangle is read; overwrites C and the vector z."""
    d = C.shape[0]
    for i in range(d):
        z[i] = 1 / math.sqrt(max(C[i, i], 0.0) + FLOOR_OF_VARIANCE)
    for i in range(d):
        for j in range(i):
            C[i, j] *= z[i] * z[j]
        C[i, i] = 1
    for j in range(d):  # Cholesky
        for h in range(j):
            for i in range(j, d):
                C[i, j] -= C[i, h] * C[j, h]
        pivot = 1 / math.sqrt(max(C[j, j], 1e-10))
        C[j, j] = 1 / pivot
        for i in range(j + 1, d):
            C[i, j] *= pivot
    trace = 0.0
    for j in range(d):  # columns of the inverse of the factor
        for i in range(j, d):
            s = 1.0 if i == j else 0.0
            for h in range(j, i):
                s -= C[i, h] * z[h]
            z[i] = s / C[i, i]
            trace += z[i] * z[i]
    return math.log(trace / d)


@cold
def is_unusual(past, at, c, s, horizon):
    """Whether a block with these numbers is unusual; it joins the past, whose record begins at `at`."""
    unusual = c > CORRELATED + past[at + 1] + FAR * past[at + 2]
    unusual |= c > past[at + 1] and s > NEGATIVE + 3 * past[at + 3] + FAR * past[at + 4]
    unusual &= past[at] >= (LEAST if horizon > 0 else LEAST_WITHOUT)
    past[at] += 1
    _follow(past, at + 1, c, 1 / min(past[at], REMEMBERED))
    _follow(past, at + 3, s, 1 / min(past[at], REMEMBERED))
    return unusual


@cold
def _follow(past, at, value, share):
    """Mean and mean deviation of a number."""
    off = value - past[at]
    past[at] += share * off
    past[at + 1] += share * (abs(off) - past[at + 1])


# ---------------------------------------------------------------------------------------------- input

#: eta of the natural steps.
ETA = 0.05
#: gamma of the averaged weights.
AVERAGING = 10.0
#: The quantiles of q move by 1/(1 + n/(SLOW d)) at least: faster at the beginning.
SLOW = 30.0
#: v = R u_bar is recomputed every so many samples, and updated in between.
REFRESH_MEAN = 64


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


class InputWork(NamedTuple):
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


def input_workspace(d, dtype):
    """Allocate scratch arrays."""
    return InputWork(np.zeros(d, dtype), np.zeros(d, dtype), np.zeros(d, dtype))


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
    if inp.n[0] % REFRESH_MEAN == 0:  # rounding errors of v would accumulate
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


# ---------------------------------------------------------------------------------------------- guards
#
# Guards of the natural networks, every 100 samples that were learned from; W, M, H = M^-1 and V = H W as in above.
#
#     silent     an output with a negative mean, V_i u_bar < 0, has its sign flipped: row i of W, row and column i of M and H
#                (and column i of W_yn). V'V and the dynamics of the others stay. The averages restart
#     spectrum   if the mean of q_s over the samples is below d/20, M and W are scaled down together; if an eigenvalue of M is
#                about 1000 times smaller than their mean, eigenvalues below 1 % of the largest are lifted, and W <- M V: V stays.
#                The covariance of u gets a floor: R <- R - f R R is (R^-1 + f I)^-1 to first order, f is 1e-6 of the weight that
#                the samples had
#     restart    with a horizon: the mixing has changed abruptly if the outputs of the last max(100 + 20 d, horizon/5) samples are
#                unusually correlated or negative (see `changes`), or if their covariance C_s has tr(R C_s) above 10 d or below
#                3e-4 d, or full rank for the first time. At the end of the next block, C_s and u_s being those of that block, the
#                network keeps its rotation, and nothing else:
#                R <- C_s^-1, u_bar <- u_s, V <- (V C_s V')^-1/2 V, M <- I (+ m m', m = V u_bar: Algorithm 2), n <- the length of
#                the block. Blocks that do not have full rank are left out. Without a horizon the change is only reported
#
# *Beyond the paper.* An exponential memory alone cannot follow an abrupt change: after 5 horizons 0.7 % of the old covariance is
# left, and a new mixing matrix is thin by 1e3 where the old one was not (without `restart` 12 of 16 problems ended at 57 to 9270
# times the clean error, with it at 0.6 to 1.1 times).

#: tr(R C_s)/d of a change, above or below.
FAR_LARGER, LOST = 10.0, 3e-4
#: Floor of the covariance of u, which was white in the first block.
COVARIANCE_FLOOR = 1e-6
#: Largest tr(M)/d times the largest diagonal element of M^-1, and what smaller eigenvalues are lifted to as a share of the largest.
SPREAD, LIFTED = 1e3, 1e-2
#: Range of tr(M)/d.
SMALLEST, LARGEST = 1e-6, 1e6
#: The least mean of q_s/d.
QUIET = 0.05


@cold
def is_due(inp):
    """Whether 100 samples were learned from since the guards last looked."""
    return inp.recent[1] >= EVERY


@cold
def quiet_scale(inp, d):
    """What M is to be multiplied with; 1 if it is not too large for the outputs. The count of samples restarts."""
    size = inp.recent[0] / (inp.recent[1] * d)
    inp.recent[0] = 0
    inp.recent[1] = 0
    return max(size, 0.01) if 0 < size < QUIET else 1.0


@cold
def scale_matrix(W, factor):
    """W <- factor W."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            W[i, j] *= factor


@cold
def copy_matrix(W, mean):
    """mean <- W."""
    for i in range(W.shape[0]):
        for j in range(W.shape[1]):
            mean[i, j] = W[i, j]


@cold
def floor_covariance(inp, horizon, A):
    """R <- R - f R R; A is a scratch matrix."""
    R = inp.R
    trace = 0.0
    for i in range(R.shape[0]):
        trace += R[i, i]
    f = COVARIANCE_FLOOR * EVERY * forgetting(inp.n[0], horizon)
    f = min(f, 0.5 / trace) if trace > 0 else 0.0
    for i in range(R.shape[0]):
        for j in range(i + 1):
            A[i, j] = dot_rows(R, i, R, j, R.shape[0])
    for i in range(R.shape[0]):
        for j in range(i + 1):
            R[i, j] -= f * A[i, j]
            R[j, i] = R[i, j]
    apply(R, inp.u_bar, inp.v)


@cold
def lift_spectrum(W, M, H, V, ws):
    """Lift small eigenvalues of M and keep V = H W; True if there were any; ws.u then has the eigenvalues, ws.L the vectors."""
    d = M.shape[0]
    top = 0.0
    mean = 0.0
    for i in range(d):
        top = max(top, H[i, i])
        mean += M[i, i] / d
    if 0 < top and top * mean < SPREAD and SMALLEST < mean < LARGEST:
        return False
    multiply(H, W, V)
    for i in range(d):
        for j in range(d):
            if not math.isfinite(V[i, j]) or not math.isfinite(M[i, j]):
                return False
    values, U = ws.u, ws.L
    copy_matrix(M, ws.M)
    orthogonalise_rows(ws.M, U)
    largest = 0.0
    for i in range(d):
        values[i] = dot_rows(ws.M, i, U, i, d)
        largest = max(largest, values[i])
    unit = largest if largest > 0 and not SMALLEST < largest < LARGEST else 1.0
    for i in range(d):
        values[i] = max(values[i], LIFTED * largest) / unit if largest > 0 else 1.0
    symmetric_function(values, U, 1.0, M)
    symmetric_function(values, U, -1.0, H)
    if top > 0:
        multiply(M, V, W)
    ws.events[SPECTRUM] += 1
    return True


@cold
def symmetric_function(values, U, power, A):
    """A <- sum_p values_p^power U_p U_p', in the first rows of A; others become 0."""
    d = U.shape[0]
    for i in range(A.shape[0]):
        for j in range(d):
            A[i, j] = 0
    for p in range(d):
        f = values[p] ** power
        for i in range(d):
            for j in range(i + 1):
                A[i, j] += f * (U[p, i] * U[p, j])
    for i in range(d):
        for j in range(i):
            A[j, i] = A[i, j]


@cold
def flip_negative(W, M, H, u_bar, c, m, events):
    """Flip the sign of every output with a negative mean m_i; True if there were any."""
    d = M.shape[0]
    apply(W, u_bar, c)
    apply(H, c, m)
    flipped = False
    for i in range(d):
        if m[i] < 0:
            flipped = True
            events[SILENT] += 1
            for j in range(d):
                W[i, j] = -W[i, j]
            for j in range(d):
                if j != i:
                    M[i, j] = -M[i, j]
                    M[j, i] = -M[j, i]
                    H[i, j] = -H[i, j]
                    H[j, i] = -H[j, i]
    return flipped


@cold
def has_changed(inp, W, H, V, c, m, params, ws):
    """Whether the mixing has changed: without a horizon in the block that ends here, with one in the block before it.

    So that the block that the network restarts from has no samples of before the change. Otherwise the next block begins.
    """
    d, horizon = inp.R.shape[0], params.horizon
    if not inp.n_block[0] >= (max(100 + 20 * d, horizon // 5) if horizon > 0 else 300 + 30 * d):
        return False
    changed = False
    if 2 * inp.n[0] > horizon and (horizon > 0 or inp.n[0] > 200 + 100 * d):
        if horizon == 0:
            changed = outputs_changed(inp, W, H, V, c, m, horizon, ws)
        elif has_full_rank(inp.C_block, params.eps, ws):
            changed = inp.changed[0]
            inp.changed[0] |= inp.past[0] == 0 and inp.n[0] > horizon  # no block had full rank until now
            inp.changed[0] |= outputs_changed(inp, W, H, V, c, m, horizon, ws)
            size = 0.0
            for i in range(d):
                for j in range(d):
                    size += inp.R[i, j] * inp.C_block[i, j]
            inp.changed[0] |= size > FAR_LARGER * d or size < LOST * d
    if not changed:
        inp.n_block[0] = 0
    return changed


@cold
def outputs_changed(inp, W, H, V, c, m, horizon, ws):
    """Whether the outputs of the block are unusual; V, c and m are scratch arrays."""
    d = inp.R.shape[0]
    multiply(H, W, V)
    output_covariance(inp.C_block, V, c, ws.M)
    apply(V, inp.u_bar, m)
    energy = float(d)
    for i in range(d):
        energy += m[i] * m[i]
    return is_unusual(inp.past, 0, correlation(ws.M, c), inp.negative[0] / (inp.n_block[0] * energy), horizon)


@cold
def output_covariance(C, V, c, A):
    """A <- V C V'; c is a scratch vector."""
    d = C.shape[0]
    for i in range(d):
        for j in range(d):
            c[j] = dot_rows(C, j, V, i, d)
        for j in range(d):
            A[i, j] = dot(V, j, c)


@cold
def has_full_rank(C, eps, ws):
    """Whether a block with the covariance C can be started from."""
    invert(C, ws.M)
    size = 0.0
    inverse = 0.0
    for i in range(C.shape[0]):
        size += C[i, i]
        inverse += ws.M[i, i]
    return inverse > 0 and size * inverse < C.shape[0] * min(1e10, 0.1 / eps)


@cold
def restart(inp, W, M, H, V, c, m, uncentred, ws):
    """Start from the moments of the block: V keeps its rotation; M <- I, or I + m m' if `uncentred`."""
    d = M.shape[0]
    C, U, values = inp.C_block, ws.L, ws.u
    multiply(H, W, V)
    output_covariance(C, V, c, ws.M)
    orthogonalise_rows(ws.M, U)
    largest = 0.0
    for i in range(d):
        values[i] = dot_rows(ws.M, i, U, i, d)
        largest = max(largest, values[i])
    if not largest > 0:
        return
    for i in range(d):
        values[i] = max(values[i], 1e-14 * largest)
    symmetric_function(values, U, -0.5, ws.M)
    multiply(ws.M, V, W)
    invert(C, inp.R)
    for i in range(d):
        inp.u_bar[i] = inp.u_block[i]
    apply(inp.R, inp.u_bar, inp.v)
    apply(W, inp.u_bar, m)
    mm = 0.0
    for i in range(d):
        if m[i] < 0:
            m[i] = -m[i]
            for j in range(d):
                W[i, j] = -W[i, j]
        mm += m[i] * m[i]
    if not uncentred:
        mm = 0.0
    for i in range(d):
        for j in range(d):
            V[i, j] = W[i, j]
            M[i, j] = m[i] * m[j] if uncentred else 0.0
            H[i, j] = -M[i, j] / (1 + mm)
        M[i, i] += 1
        H[i, i] += 1
    multiply(M, V, W)
    inp.n[0] = inp.n_block[0]
    inp.n_block[0] = 0
    inp.turned[0] = 0
    inp.changed[0] = False
    for i in range(n_past):
        inp.past[i] = 0
    ws.events[RESTART] += 1
