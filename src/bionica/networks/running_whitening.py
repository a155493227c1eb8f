"""The running whitening of a stream, for the natural rules and the orthant rotation: weight of a sample, start, change, restart.

K whitens, K C K' = I for the running covariance C of the input u. For each sample, with v = K u, v_bar = K u_bar, dv = v - v_bar,
q = |dv|^2 and g <= 1 the weight of the sample,

    age <- age + g,  n <- n + g,  w = g/n,  m = g/age                neither n nor age is above the horizon here
    C <- (1-w)(C + w' dv dv')   which is   K <- f (I + beta dv dv') K       w' = w (1-m)/(1-w)
    v_bar <- f (I + beta dv dv')(v_bar + m dv)
    f = (1-w)^-1/2,    beta = ((1 + w' q)^-1/2 - 1)/q

C is not stored. An error of K C K' = I shrinks by 1 - w with every sample.

*Weight.* One sample 10^6 times too large among 10^5 spoils every covariance (error 0.52 where 5e-6 is possible). So

    g = min(1, tau/q)^2        tau = SPARE r_2 min(r_2/r_1, 4)^2, the tail of q extrapolated
    r_i <- r_i (1 + s) if q > r_i, else r_i (1 - s p_i)            the running 98 % and 99.5 % quantiles of q

tau follows the tails of the data, so that large samples of sparse sources keep their weight. g falls faster than 1/q: with
g = tau/q one outlier in 1000 cost a factor of 20 to 200. A sample that equals the one before it is omitted once the run of equal
samples is longer than PATIENCE/(1 - f), where f is the usual share of such samples (half of all where sparse sources are often all
silent): a sensor that repeats itself for a thousand horizons would make C vanish.

*Start.* The first nonzero sample sets the scale and nothing else (it may be an outlier): K = Q / sqrt(power), Q orthonormal,
counted as d + 6 samples with the covariance power I. What is left of them is removed as samples come, C <- C - share I, by rank-1
steps at growing intervals, so that after 100 d samples nothing is left of it, for any condition number. If one of the first samples
is far larger (the first was too small), or if the outputs lose their size (it was an outlier), everything starts again.

*Change.* Sources that come and go (spikes, speech, the peaks of a chromatogram) change the variances of the outputs. The outputs
stay uncorrelated inside of a block, and nonnegative. After a change of the mixing each output is a sum of several sources, so
that the outputs of a block are correlated, and some are negative. Two numbers for each block:

    c = log tr(R^-1)/d       R the correlation matrix of the outputs, each with SILENT added to its variance, so that the rounding
                             or the noise of a silent source does not count; c = 0 where they are uncorrelated
    s                        the share of the energy that is negative

A block is unusual if c > CORRELATED + mean + FAR spreads, or if c > mean and s > NEGATIVE + 3 means + FAR spreads. Means and
spreads are those of about 50 past blocks. With a horizon a block far from its usual size is unusual too, and the whitening starts
again: after 5 horizons 0.7 % of an old covariance is left, more than all of a new one in its thin directions. Without a horizon a
change is only reported. Measured: twelve kinds of sources whose mixing stays, d = 3 and 10, 50,000 samples: no change is reported.

Every n/4 samples C gets 1e-16 power I (1e-10 with a horizon), so that K stays finite if a channel freezes.

Loops that sum store nothing, and divisions are outside of loops: otherwise the compiler chooses between code of different rounding
by where the arrays lie in memory, and results would not be the same bits.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .rule import cold, hot

#: The quantiles r_1 and r_2 are exceeded by these shares of the samples.
P_1, P_2 = 0.02, 0.005
#: The smallest step s of the quantiles, and the factor between r_2 and tau.
STEP, SPARE = 0.05, 1.5
#: So many equal samples in a row pass where equal samples are not usual.
PATIENCE = 30.0
#: The first scale counts as d + PRIOR_SAMPLES samples, and nothing is left of it after START d samples.
PRIOR_SAMPLES, START = 6.0, 100.0
#: If one of the first d + PRIOR_SAMPLES samples has this many times the mean energy, the scale was wrong.
LARGER = 30.0
#: Share of the first sample's power that C never falls below, and with a horizon.
FLOOR, FLOOR_HORIZON = 1e-16, 1e-10
#: Outputs below this share of their usual energy have lost their size, and a block of outputs above this mean variance is a change.
LOST, FAR_LARGER = 3e-4, 10.0
#: A block has between 1 and 10 times this many samples for each source, and 10 more.
BLOCK = 30.0
#: What is added to the variance of each output of a block.
SILENT = 0.01
#: See above; and the past blocks that are needed with a horizon and without, and that are remembered.
CORRELATED, NEGATIVE, FAR = 0.05, 0.01, 15.0
LEAST, LEAST_WITHOUT, REMEMBERED = 8.0, 16.0, 50.0


class Whitening(NamedTuple):
    """What the whitening remembers; counters are arrays of one float64."""

    K: np.ndarray
    v_bar: np.ndarray
    n: np.ndarray  # samples behind C
    age: np.ndarray  # samples since the start
    tails: np.ndarray  # r_1 and r_2
    last: np.ndarray  # the last sample
    run: np.ndarray  # how often it was repeated
    repeated: np.ndarray  # the usual share of repeated samples
    power: np.ndarray  # of the first sample; 0 before it
    prior: np.ndarray  # what is left of the covariance of the start
    due: np.ndarray  # the age at which `tend` is next called
    level: np.ndarray  # running size of the first outputs
    products: np.ndarray  # sum of v v' over a block of samples; the upper triangle is not used
    sums: np.ndarray  # sum of v
    length: np.ndarray  # of the block so far
    negative: np.ndarray  # sum of the negative shares of the energy
    blocks: np.ndarray  # number of past blocks
    usual: np.ndarray  # mean and spread of c, mean and spread of s over past blocks
    changed: np.ndarray  # whether the mixing has changed


#: Shapes of these arrays, for rules that have them as their part `white`. K is float64 for inputs of any dtype: in float32 rounding
#: left an error of 1e-3 after 10^7 samples. The rule declares `white.last`.
SHAPES = {
    "white.K": "dd:float64", "white.v_bar": "d:float64", "white.tails": "2:float64", "white.products": "dd:float64",
    "white.sums": "d:float64", "white.usual": "4:float64", "white.changed": "1:bool",
    **{f"white.{name}": "1:float64" for name in (
        "n", "age", "run", "repeated", "power", "prior", "due", "level", "length", "negative", "blocks",
    )},
}  # fmt: skip


def start(K: np.ndarray, last: np.ndarray, v_bar: Any = None, n: int = 0) -> Whitening:
    """Return a whitening before its first sample; or, with n samples behind it, one that K whitens and v_bar is the mean of."""
    d = len(K)
    one = {name: np.zeros(1) for name in ("run", "repeated", "prior", "length", "negative", "blocks")}
    return Whitening(
        K=K.astype(np.float64), v_bar=np.zeros(d) if v_bar is None else v_bar.astype(np.float64),
        n=np.full(1, float(n)), age=np.full(1, float(n)), tails=np.full(2, 10.0 * d), last=last.copy(),
        power=np.full(1, float(n > 0)), due=np.full(1, 1.25 * n), level=np.ones(1),
        products=np.zeros((d, d)), sums=np.zeros(d), usual=np.zeros(4), changed=np.zeros(1, np.bool_), **one,
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------- one sample


@hot
def energy_of(v):
    """|v|^2."""
    s = 0.0
    for i in range(v.shape[0]):
        s += v[i] * v[i]
    return s


@hot
def mean_energy(v_bar):
    """d + |v_bar|^2."""
    return v_bar.shape[0] + energy_of(v_bar)


@hot
def is_stuck(last, run, repeated, X, t):
    """Whether X[t] continues a run of equal samples that is too long."""
    k = last.shape[0]
    j = 0
    while j < k and X[t, j] == last[j]:
        j += 1
    if j == k:
        run[0] += 1
        return run[0] * (1 - repeated[0]) > PATIENCE
    while j < k:
        last[j] = X[t, j]
        j += 1
    run[0] = 0
    return False


@hot
def is_scaled(white, v):
    """Whether to learn from the sample; otherwise it sets the scale, or shows that the scale was set by a sample too small."""
    return (white.power[0] > 0 and white.age[0] >= v.shape[0] + PRIOR_SAMPLES) or is_scaled_early(white, v)


@hot
def distance(v_bar, run, age, level, v, dv):
    """dv <- v - v_bar; returns |dv|^2. The running size of the first outputs follows."""
    d = v.shape[0]
    for i in range(d):
        dv[i] = v[i] - v_bar[i]
    if run[0] == 0 and age[0] < 2 * START * d:
        size = min(energy_of(v) / mean_energy(v_bar), 1.0)
        if size > 0:
            level[0] += max(1 / (100.0 + 10 * d), 3 / (age[0] + 3)) * (size - level[0])
    return energy_of(dv)


@hot
def sample_weight(tails, q, s):
    """The weight g of a sample at the squared distance q; the quantiles of q follow by steps of s."""
    ratio = min(max(tails[1] / tails[0], 1.0), 4.0)
    tau = SPARE * tails[1] * ratio * ratio
    g = 1.0
    if q > tau:
        g = tau / q
        g *= g
    tails[0] *= 1 + s if q > tails[0] else 1 - s * P_1
    tails[1] *= 1 + s if q > tails[1] else 1 - s * P_2
    return g


@hot
def quantile_step(age, d):
    """The step of a quantile, larger at the beginning."""
    return max(STEP, 1 / (1 + age[0] / (30.0 * d)))


@hot
def add_to_block(products, sums, length, v, g):
    """Add a sample to the covariance of its block, less if its weight is below 1."""
    bounded = math.sqrt(g)
    for i in range(v.shape[0]):
        x = bounded * v[i]
        sums[i] += x
        for j in range(i + 1):
            products[i, j] += x * v[j]
    length[0] += 1


@hot
def count(n, age, prior, run, repeated, g, horizon):
    """Count a sample of weight g; returns w and m."""
    age[0] += g
    n[0] += g
    if horizon > 0:
        n[0] = min(n[0], float(horizon))
    w = g / n[0]
    m = g / min(age[0], float(horizon)) if horizon > 0 else g / age[0]
    prior[0] *= 1 - w
    repeated[0] += w * ((1.0 if run[0] > 0 else 0.0) - repeated[0])
    return w, m


@hot
def factors(w, m, q):
    """f and beta."""
    beta = (1 / math.sqrt(1 + w * (1 - m) / (1 - w) * q) - 1) / q if q > 0 else 0.0
    return 1 / math.sqrt(1 - w), beta


@hot
def move_mean(v_bar, dv, f, beta, m):
    """v_bar <- f (I + beta dv dv')(v_bar + m dv)."""
    along = 0.0
    for i in range(dv.shape[0]):
        along += dv[i] * (v_bar[i] + m * dv[i])
    for i in range(dv.shape[0]):
        v_bar[i] = f * (v_bar[i] + (m + beta * along) * dv[i])


@hot
def whiten(K, G, dv, f, beta):
    """K <- f (I + beta dv dv') K; G is a scratch matrix."""
    d = K.shape[0]
    for j in range(d):
        G[0, j] = 0
    for i in range(d):
        for j in range(d):
            G[0, j] += dv[i] * K[i, j]
    for i in range(d):
        z = f * beta * dv[i]
        for j in range(d):
            K[i, j] = f * K[i, j] + z * G[0, j]


@hot
def is_block_full(length, d, horizon):
    """Whether the block has its length."""
    size = BLOCK * (10.0 + d)
    return length[0] >= min(max(size, 0.25 * horizon), 10 * size)


@hot
def has_lost_size(level, age):
    """Whether the outputs have lost their size: the first sample was an outlier."""
    return level[0] < LOST and age[0] > 10


@hot
def is_called_for(age, due, power, length, level, d, horizon):
    """Whether something is to be done that is rarely needed: `tend`, the test of a block, a restart."""
    call = age[0] >= due[0] or is_block_full(length, d, horizon) or has_lost_size(level, age)
    return call and power[0] > 0


# ---------------------------------------------------------------------------------------------- rarely


@cold
def is_scaled_early(white, v):
    """`is_scaled` for the first samples."""
    size = energy_of(v)
    if white.power[0] > 0:
        if size <= LARGER * mean_energy(white.v_bar):
            return True
        restart(white)
    elif size > 0:  # the rows of K are orthonormal
        set_scale(white, size)
    return False


@cold
def set_scale(white, energy):
    """K <- K / sqrt(energy/d), for a first sample of this energy. Until then outputs are zero."""
    K, d = white.K, white.K.shape[0]
    f = math.sqrt(d / energy)
    for i in range(d):
        for j in range(d):
            K[i, j] *= f
    white.power[0] = 1 / (f * f)
    white.prior[0] = 1.0
    white.n[0] = d + PRIOR_SAMPLES
    white.due[0] = 3.0 * d


@cold
def restart(white):
    """Start again with the rows of K made orthonormal (Gram-Schmidt, twice); the next sample sets the scale."""
    K, d = white.K, white.K.shape[0]
    for i in range(d):
        for _ in range(2):
            for h in range(i):
                s = 0.0
                for j in range(d):
                    s += K[i, j] * K[h, j]
                for j in range(d):
                    K[i, j] -= s * K[h, j]
        s = 0.0
        for j in range(d):
            s += K[i, j] * K[i, j]
        s = 1 / math.sqrt(s)
        for j in range(d):
            K[i, j] *= s
        white.v_bar[i] = 0
    clear_block(white.products, white.sums, white.length, white.negative)
    white.tails[0] = 10.0 * d
    white.tails[1] = 10.0 * d
    white.n[0] = 0
    white.age[0] = 0
    white.power[0] = 0
    white.prior[0] = 0
    white.due[0] = 0
    white.level[0] = 1
    white.blocks[0] = min(white.blocks[0], 1.0)
    for i in range(4):
        white.usual[i] = 0


@cold
def tend(white, horizon, dv, G):
    """Remove what is due of the covariance that the start counted as samples, and add the floor; overwrites dv and G.

    No more than half of it before START d samples, or while the samples have less variance than that in some direction: they may
    not have shown it yet.
    """
    age, prior, d = white.age[0], white.prior, white.K.shape[0]
    if prior[0] > 0:
        share = 0.99 if age > START * d and prior_share(white.K, prior, white.power) <= 0.5 else 0.5
        add_to_covariance(white.K, white.v_bar, -share * prior[0] * white.power[0], dv, G)
        prior[0] *= 1 - share
        if prior[0] < FLOOR:
            end_start(white.K, white.v_bar, white.n, white.age, prior)
    add_to_covariance(white.K, white.v_bar, 0.25 * (FLOOR_HORIZON if horizon > 0 else FLOOR) * white.power[0], dv, G)
    white.due[0] = age + max(float(d), 0.2 * age if prior[0] > 0 else 0.25 * white.n[0])


@cold
def prior_share(K, prior, power):
    """The largest share of the variance along a coordinate that is left from the start."""
    largest = 0.0
    for j in range(K.shape[0]):
        q = 0.0
        for i in range(K.shape[0]):
            q += K[i, j] * K[i, j]
        largest = max(largest, q)
    return prior[0] * power[0] * largest


@cold
def end_start(K, v_bar, n, age, prior):
    """Nothing is left of the start: C is the covariance of `age` samples, and no longer counts those of the start."""
    prior[0] = 0.0
    if age[0] < n[0]:
        f = math.sqrt(age[0] / n[0])
        for i in range(K.shape[0]):
            v_bar[i] *= f
            for j in range(K.shape[0]):
                K[i, j] *= f
        n[0] = age[0]


@cold
def add_to_covariance(K, v_bar, w, dv, G):
    """C <- C + w I, one coordinate after the other; overwrites dv and G."""
    d = K.shape[0]
    for j in range(d):
        q = 0.0
        mean = 0.0
        for i in range(d):
            dv[i] = K[i, j]
        for i in range(d):
            q += dv[i] * dv[i]
            mean += dv[i] * v_bar[i]
        if abs(w * q) < 1e-12:
            continue
        beta = (1 / math.sqrt(max(1 + w * q, 0.005)) - 1) / q
        whiten(K, G, dv, 1.0, beta)
        for i in range(d):
            v_bar[i] += beta * mean * dv[i]


@cold
def is_block_unusual(white, z, horizon):
    """Whether the block that ends here shows a change of the mixing; the next block begins. Overwrites the vector z.

    The block's products and sums are those of the outputs.
    """
    C, mean, d = white.products, white.sums, white.sums.shape[0]
    share = 1 / white.length[0]
    energy = 0.0
    for i in range(d):
        energy += C[i, i]
    for i in range(d):
        mean[i] *= share
        for j in range(i + 1):
            C[i, j] = share * C[i, j] - mean[i] * mean[j]
    variance = 0.0
    for i in range(d):
        variance += C[i, i]
    c = correlation(C, z)
    s = share * white.negative[0]
    clear_block(white.products, white.sums, white.length, white.negative)
    if not energy > 0 or prior_share(white.K, white.prior, white.power) > 0.1:
        return False
    usual, blocks = white.usual, white.blocks[0]
    unusual = c > CORRELATED + usual[0] + FAR * usual[1]
    unusual |= c > usual[0] and s > NEGATIVE + 3 * usual[2] + FAR * usual[3]
    unusual &= blocks >= (LEAST if horizon > 0 else LEAST_WITHOUT)
    # Not in the first block of a stream, where sources appear that were silent until then.
    unusual |= horizon > 0 and blocks > 0 and (variance > FAR_LARGER * d or variance < LOST * d)
    white.blocks[0] += 1
    follow_usual(usual, 0, c, 1 / min(white.blocks[0], REMEMBERED))
    follow_usual(usual, 2, s, 1 / min(white.blocks[0], REMEMBERED))
    return unusual


@cold
def follow_usual(usual, i, value, share):
    """Mean and mean deviation of a number."""
    off = value - usual[i]
    usual[i] += share * off
    usual[i + 1] += share * (abs(off) - usual[i + 1])


@cold
def clear_block(products, sums, length, negative):
    """Begin a block of samples."""
    for i in range(sums.shape[0]):
        sums[i] = 0
        for j in range(sums.shape[0]):
            products[i, j] = 0
    length[0] = 0
    negative[0] = 0


@cold
def correlation(C, z):
    """c of outputs with the covariance C, of which only the lower triangle is read; overwrites C and the vector z."""
    d = C.shape[0]
    for i in range(d):
        z[i] = 1 / math.sqrt(max(C[i, i], 0.0) + SILENT)
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
