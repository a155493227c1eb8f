"""The running whitening of `StreamingNICA`: weight of a sample, start, change, restart.

K whitens, K C K' = I for the running covariance C of the input u. For each sample, with
v = K u, v_bar = K u_bar, dv = v - v_bar, q = |dv|^2 and g <= 1 the weight of the
sample,

    age <- age + g,  n <- n + g,  w = g/n,  m = g/age,  w' = w (1-m)/(1-w)
    C <- (1-w)(C + w' dv dv')   which is   K <- f (I + beta dv dv') K
    v_bar <- f (I + beta dv dv')(v_bar + m dv)
    f = (1-w)^-1/2,    beta = ((1 + w' q)^-1/2 - 1)/q

where neither n nor age is above the horizon. C is not stored. An error of K C K' = I
shrinks by 1 - w with every sample.

*Weight.* One sample 10^6 times too large among 10^5 spoils every covariance (error 0.52
where 5e-6 is possible). So

    g = min(1, tau/q)^2        tau = SPARE r_2 (r_2/r_1)^2, the tail of q extrapolated
    r_i <- r_i (1 + s) if q > r_i, else r_i (1 - s p_i)

where r_1 and r_2 are the running 98 % and 99.5 % quantiles of q. tau follows the tails
of the data, so that large samples of sparse sources keep their weight. g falls faster
than 1/q: with g = tau/q one outlier in 1000 cost a factor of 20 to 200. A sample that
equals the PATIENCE samples before it is omitted: a sensor that repeats itself for a
thousand horizons would make C vanish.

*Start.* The first nonzero sample sets the scale and nothing else (it may be an
outlier): K = Q / sqrt(power), Q orthonormal, counted as d + 6 samples with the
covariance power I. What is left of them is removed as samples come, C <- C - share I,
by rank-1 steps at growing intervals, so that after 20 d samples nothing is left of it,
for any condition number. If one of the first samples is far larger (the first was too
small), or if the outputs lose their size (it was an outlier), everything starts again.

*Change.* Sources that come and go (spikes, speech, the peaks of a chromatogram) change
the variances of the outputs. The outputs stay uncorrelated inside of a block. After a
change of the mixing each output is a sum of several sources, and they are correlated:

    c = log tr(R^-1)/d

R is the correlation matrix of the outputs, each with SILENT added to its variance, so
that the rounding or the noise of a silent source does not count; c = 0 where they are
uncorrelated.

A block is unusual if c > CORRELATED + mean + FAR spreads, those of about PAST past
blocks. With a horizon a block far from its usual size is unusual too, and the whitening
starts again: after 5 horizons 0.7 % of an old covariance is left, more than all of a
new one in its thin directions. Without a horizon a change is only reported.

Every n/4 samples, in NumPy (`maintain`), a block may end, and C gets 1e-16 power I
(1e-10 with a horizon), so that K stays finite if a channel freezes.

Reduction loops must not also write arrays, and divisions are outside of loops:
otherwise the compiler chooses between vectorised and scalar code, which round
differently, by where the arrays lie in memory.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from bionica.core.blocks import shapes
from bionica.engine.algebra import apply_transposed, dot_vectors
from bionica.engine.rule import RESTART, cold, hot

#: The quantiles r_1 and r_2 are exceeded by these shares of the samples.
P_1 = 0.02
P_2 = 0.005
#: The smallest step s of the quantiles, and the factor between r_2 and tau.
STEP = 0.05
SPARE = 1.5
#: Longest run of identical samples; later repeats are ignored.
PATIENCE = 30
#: The first scale counts as d + PRIOR_SAMPLES samples, and nothing is left of it after
#: START d samples. With 0 for PRIOR_SAMPLES outliers of 10 times from sample 300 on
#: (one in 1,000) leave 6.8 times the error at d = 3.
PRIOR_SAMPLES = 6.0
START = 20.0
#: If one of the first d + PRIOR_SAMPLES samples has LARGER times the mean energy, or if
#: outputs fall below LOST times their usual energy, the scale was wrong. With a horizon
#: a block of outputs with such variances is a change.
LARGER = 30.0
LOST = 3e-4
#: Share of the first sample's power that C never falls below, and with a horizon
#: (1e-16: a frozen channel makes C singular).
FLOOR = 1e-16
FLOOR_HORIZON = 1e-10
#: A block has BLOCK (d + 10) samples; maintenance runs after LONGEST times as many at
#: the latest (without it, errors 40,000 samples after a change with a horizon of
#: 100,000 are 1.0 to 2.1 times as large).
BLOCK = 30.0
LONGEST = 25.0
#: What is added to the variance of each output of a block.
SILENT = 0.01
#: See above.
CORRELATED = 0.05
FAR = 15.0
PAST = 8.0


class WhiteningState(NamedTuple):
    """What the whitening remembers; counters are arrays of one float64."""

    K: np.ndarray
    v_bar: np.ndarray
    n: np.ndarray  # samples behind C
    age: np.ndarray  # samples since the start
    tails: np.ndarray  # r_1 and r_2
    last: np.ndarray  # the last sample
    run: np.ndarray  # how often it was repeated
    power: np.ndarray  # of the first sample; 0 before it
    prior: np.ndarray  # what is left of the covariance of the start
    due: np.ndarray  # the age at which maintenance is due
    level: np.ndarray  # running size of the first outputs
    products: np.ndarray  # sum of v v' over the block
    sums: np.ndarray  # sum of v
    length: np.ndarray  # of the block so far
    blocks: np.ndarray  # number of past blocks
    usual: np.ndarray  # mean and spread of c over past blocks
    changed: np.ndarray  # whether the mixing has changed


#: Shapes of these arrays, by their names in the State of StreamingNICA. K is float64
#: for inputs of any dtype: in float32 rounding left an error of 1e-3 after 10^7
#: samples.
SHAPES = shapes(
    **{
        "d": "white.last",
        "d:float64": "white.v_bar white.sums",
        "dd:float64": "white.K white.products",
        "2:float64": "white.tails white.usual",
        "1:bool": "white.changed",
        "1:samples": "white.n white.age",
        "1:float64": "white.run white.power white.prior white.due white.level"
        " white.length white.blocks",
    }
)


def start(d: int, dtype: Any) -> WhiteningState:
    """Return a whitening before its first sample."""
    zeros = WhiteningState(*(np.zeros(1) for _ in WhiteningState._fields))
    return zeros._replace(
        K=np.eye(d),
        v_bar=np.zeros(d),
        tails=np.full(2, 10.0 * d),
        last=np.zeros(d, dtype),
        level=np.ones(1),
        products=np.zeros((d, d)),
        sums=np.zeros(d),
        usual=np.zeros(2),
        changed=np.zeros(1, bool),
    )


# --- one sample


@hot
def mean_energy(v_bar):
    """d + |v_bar|^2."""
    return v_bar.shape[0] + dot_vectors(v_bar, v_bar)


@hot
def is_usable(white, u, v):
    """Whether to learn from u: not if it prolongs a long run of equal samples, sets the
    scale, or shows that it is wrong.
    """
    last = white.last
    d = u.shape[0]
    j = 0
    while j < d and u[j] == last[j]:
        j += 1
    white.run[0] = white.run[0] + 1 if j == d else 0
    if white.run[0] > PATIENCE:
        return False
    while j < d:
        last[j] = u[j]
        j += 1
    return (white.power[0] > 0 and white.age[0] >= d + PRIOR_SAMPLES) or is_scaled(
        white, v
    )


@cold
def is_scaled(white, v):
    """Whether the scale is right for one of the first samples; otherwise it sets the
    scale, or everything starts again.
    """
    K = white.K
    d = v.shape[0]
    size = dot_vectors(v, v)
    if white.power[0] > 0:
        if size <= LARGER * mean_energy(white.v_bar):
            return True
        white.level[0] = 0
    elif size > 0:  # K, whose rows are orthonormal, is divided by the root of the power
        f = math.sqrt(d / size)
        for i in range(d):
            for j in range(d):
                K[i, j] *= f
        white.power[0] = 1 / (f * f)
        white.prior[0] = 1.0
        white.n[0] = d + PRIOR_SAMPLES
        white.due[0] = white.n[0]
    return False


@hot
def quantile_step(age, d):
    """The step of a quantile, larger at the beginning."""
    return max(STEP, 1 / (1 + age[0] / (START * d)))


@hot
def block_length(d):
    """The number of samples in a block."""
    return BLOCK * (10 + d)


@hot
def weigh(white, v, dv):
    """dv <- v - v_bar; returns |dv|^2 and the weight g of the sample.

    The quantiles and the running size of the first outputs follow, and the sample is
    added to the block.
    """
    v_bar = white.v_bar
    tails = white.tails
    level = white.level
    age = white.age
    d = v.shape[0]
    for i in range(d):
        dv[i] = v[i] - v_bar[i]
    if white.run[0] == 0 and white.blocks[0] == 0:
        size = min(dot_vectors(v, v) / mean_energy(v_bar), 1.0)
        if size > 0:
            level[0] += 3 / (age[0] + 6) * (size - level[0])
    q = dot_vectors(dv, dv)
    g = 1.0
    ratio = max(tails[1] / tails[0], 1.0)
    tau = SPARE * tails[1] * ratio * ratio
    if q > tau:
        g = tau / q
        g *= g
    s = quantile_step(age, d)
    tails[0] *= 1 + s if q > tails[0] else 1 - s * P_1
    tails[1] *= 1 + s if q > tails[1] else 1 - s * P_2
    # the last samples before maintenance is due
    if white.due[0] - age[0] <= block_length(d):
        bounded = math.sqrt(g)
        for i in range(d):
            x = bounded * v[i]
            white.sums[i] += x
            for j in range(d):
                white.products[i, j] += x * v[j]
        white.length[0] += 1
    return q, g


@hot
def update_whitening(white, dv, q, g, horizon, scratch):
    """Count a sample of weight g, K <- f (I + beta dv dv') K, v_bar <- f (I + beta dv
    dv')(v_bar + m dv); returns m.
    """
    K = white.K
    v_bar = white.v_bar
    n = white.n
    age = white.age
    age[0] += g
    n[0] += g
    m = g / age[0]
    if horizon > 0:
        n[0] = min(n[0], float(horizon))
        m = max(m, g / horizon)
    w = g / n[0]
    white.prior[0] *= 1 - w
    beta = (1 / math.sqrt(1 + w * (1 - m) / (1 - w) * q) - 1) / q if q > 0 else 0.0
    f = 1 / math.sqrt(1 - w)
    along = dot_vectors(dv, v_bar) + m * q
    apply_transposed(K, dv, scratch)
    for i in range(dv.shape[0]):
        v_bar[i] = f * (v_bar[i] + (m + beta * along) * dv[i])
        z = f * beta * dv[i]
        for j in range(dv.shape[0]):
            K[i, j] = f * K[i, j] + z * scratch[j]
    return m


@hot
def is_due(white):
    """Whether maintenance is due: see `maintain`."""
    return white.power[0] > 0 and (
        white.age[0] >= white.due[0] or white.level[0] < LOST
    )


# --- rarely, in NumPy


#: Fields reset at the start of each block.
_BLOCK = ("products", "sums", "length")


def maintain(
    white: WhiteningState, V: np.ndarray, horizon: int, repairs: np.ndarray
) -> bool:
    """Test a block, start again, remove what is left of the start, add the floor. V
    takes v to the outputs.

    Returns whether everything starts again, with the rows of V K made orthonormal and a
    scale that the next sample sets: the scale was wrong, or the block that ends here
    shows a change of the mixing. Without a horizon a change is only noted.
    """
    K = white.K
    v_bar = white.v_bar
    age = white.age[0]
    n = white.n
    prior = white.prior
    d = len(white.K)
    changed = white.length[0] >= block_length(d) and is_unusual(white, V, horizon)
    white.changed[0] |= changed and horizon == 0
    wrong = white.level[0] < LOST
    white.level[0] = max(white.level[0], float(wrong))
    if wrong or (changed and horizon > 0):
        # In the first samples the scale was wrong, and nothing has changed.
        repairs[RESTART] += age >= d + PRIOR_SAMPLES
        Q, R = np.linalg.qr((V @ K).T)
        K[:] = (Q * np.where(np.diag(R) < 0, -1.0, 1.0)).T
        for name in ("v_bar", "n", "age", "power", "prior", "due", "usual", *_BLOCK):
            getattr(white, name)[...] = 0
        white.tails[:] = 10.0 * d
        white.blocks[0] = min(white.blocks[0], 1.0)
        return True
    if age < white.due[0]:
        return False
    # Half of the covariance that the start counted as samples is removed each time
    # before START d samples, and then all, in steps: 0.99 of a variance can be removed
    # without losing digits. Then C is the covariance of `age` samples.
    steps = [0.25 * (FLOOR_HORIZON if horizon > 0 else FLOOR) * white.power[0]]
    if prior[0] > 0:
        for share in [0.5] if age < START * d else 9 * [0.99]:
            steps.append(-share * prior[0] * white.power[0])
            prior[0] *= 1 - share
    U, s, _ = np.linalg.svd(K)
    factor = np.ones(d)
    for w in steps:  # C <- C + w I is K <- (I + w K K')^-1/2 K
        factor /= np.sqrt(np.maximum(1 + w * (s * factor) ** 2, 0.005))
    if age >= START * d and prior[0] > 0:
        prior[0] = 0.0
        factor *= math.sqrt(min(age / n[0], 1))
        n[0] = min(age, n[0])
    B = (U * factor) @ U.T
    K[:] = B @ K
    v_bar[:] = B @ v_bar
    white.due[0] = age + max(d, min(0.25 * n[0], LONGEST * block_length(d)))
    return False


def is_unusual(white: WhiteningState, V: np.ndarray, horizon: int) -> bool:
    """Whether the block that ends here is unlike those before it; the next block
    begins.
    """
    d = len(white.sums)
    usual = white.usual
    blocks = white.blocks
    length = white.length[0]
    C = V @ white.products @ V.T / length
    mean = V @ white.sums / length
    for name in _BLOCK:
        getattr(white, name)[...] = 0
    C -= mean[:, np.newaxis] * mean
    variances = C.ravel()[:: d + 1]
    variance = float(variances.sum())
    if not variance > 0 or white.prior[0] > 0:
        return False
    variances += SILENT
    # tr(R^-1), where R is C over the roots of its diagonal, on both sides. If sources
    # sum to one, C is singular and rounding sets the sign.
    c = math.log(abs(np.linalg.inv(C).ravel()[:: d + 1] @ variances) / d)
    unusual = blocks[0] >= PAST and c > CORRELATED + usual[0] + FAR * usual[1]
    # Not in the first block of a stream, where sources appear that were silent until
    # then.
    unusual |= horizon > 0 and blocks[0] > 0 and not LOST * d <= variance <= LARGER * d
    blocks[0] += 1
    # the mean, and the mean deviation
    usual[0] += (c - usual[0]) / min(blocks[0], PAST)
    usual[1] += (abs(c - usual[0]) - usual[1]) / min(blocks[0], PAST)
    return bool(unusual)
