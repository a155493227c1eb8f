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

import math
from typing import Any, NamedTuple

import numpy as np

from .plasticity import apply, dot_rows, multiply, project
from .rule import RESTART, Rule, bookkeeping, cold, finite, hot, n_repairs, register, shapes
from .running_whitening import P_2, SPARE, STEP, correlation, is_unusual, n_past, repeats_too_long, sample_weight

# ---------------------------------------------------------------------------------------------- state
#
# What the orthant rotation keeps, and what it does rarely: start, restart, removal of the start's covariance.
#
# See `orthant_rotation` for the equations. Loops that sum store nothing, and divisions are outside of loops: otherwise the
# compiler
# chooses between code of different rounding by where the arrays lie in memory, and results would not be the same bits.

#: The first scale counts as d + PRIOR_SAMPLES samples, and is removed like age^-(1 + PRIOR_POWER) until START d samples.
PRIOR_SAMPLES, PRIOR_POWER, START = 6.0, 3.0, 100.0
#: Share of the first sample's power that C never falls below, and with a horizon.
FLOOR, FLOOR_HORIZON = 1e-16, 1e-10
#: Outputs below this share of their usual energy have lost their size, and a block of outputs above this mean energy is a change.
LOST, FAR_LARGER = 1e-4, 10.0
# The clock (float64): counts, the average's alpha and delta, and what `watch` compares.
N, AGE, TURNED, ALPHA, DELTA, POWER, PRIOR, REMOVED, DUE, LEVEL, SEEN, CALL, CHANGED = range(13)
# Of the block: the sum of the negative shares. Of past blocks: what `changes` remembers.
NEGATIVE, PAST = 13, 14
n_clock = PAST + n_past

# What `rotation_steps.watch` calls for.
NOTHING, FLIP, START_AGAIN, TEND = 0.0, 1.0, 2.0, 3.0


class Rotation(NamedTuple):
    """What is learned, from the mixtures or from their projection."""

    V: np.ndarray
    D: np.ndarray
    v_bar: np.ndarray
    recent: np.ndarray  # sum of dv dv' over a block of samples; the upper triangle is not used
    recent_sum: np.ndarray  # sum of dv
    x_last: np.ndarray
    tails: np.ndarray
    repeats: np.ndarray
    clock: np.ndarray


def first_rotation(Q: np.ndarray, k: int, dtype: Any) -> Rotation:
    """Return the rotation of k mixtures of this dtype that starts with the orthogonal matrix Q (copied)."""
    d = len(Q)
    clock = np.zeros(n_clock)
    clock[LEVEL] = 1.0
    zeros = np.zeros(d), np.zeros((d, d)), np.zeros(d), np.zeros(k, dtype)
    return Rotation(Q.astype(np.float64), np.eye(d), *zeros, np.full(2, 10.0 * d), np.zeros(2), clock)


@cold
def scale(rot, power):
    """V <- Q / sqrt(power/d), for an input with this sum of squares. Until then outputs are zero (alpha is)."""
    V, clock = rot.V, rot.clock
    d = V.shape[0]
    f = math.sqrt(d / power)
    for i in range(d):
        for j in range(V.shape[1]):
            V[i, j] *= f
    clock[ALPHA] = 1.0
    clock[POWER] = 1 / (f * f)
    clock[PRIOR] = 1.0
    clock[N] = d + PRIOR_SAMPLES
    clock[DUE] = 3.0 * d


@cold
def flip(rot):
    """V <- -V where the mean output is negative too: the sources are the other way round."""
    V, v_bar = rot.V, rot.v_bar
    s = 0.0
    for i in range(v_bar.shape[0]):
        s += v_bar[i]
    if s < 0:
        for i in range(V.shape[0]):
            v_bar[i] = -v_bar[i]
            for j in range(V.shape[1]):
                V[i, j] = -V[i, j]
        forget_average(rot)


@cold
def forget_average(rot):
    """D <- I."""
    for i in range(rot.D.shape[0]):
        for j in range(rot.D.shape[0]):
            rot.D[i, j] = 0
        rot.D[i, i] = 1
    rot.clock[ALPHA] = 1.0
    rot.clock[DELTA] = 0.0


@cold
def restart(rot):
    """Start again with the rows of V made orthonormal (Gram-Schmidt, twice); the next sample sets the scale."""
    V, clock, d = rot.V, rot.clock, rot.V.shape[0]
    for i in range(d):
        for _ in range(2):
            for h in range(i):
                s = 0.0
                for j in range(V.shape[1]):
                    s += V[i, j] * V[h, j]
                for j in range(V.shape[1]):
                    V[i, j] -= s * V[h, j]
        s = 0.0
        for j in range(V.shape[1]):
            s += V[i, j] * V[i, j]
        s = 1 / math.sqrt(s)
        for j in range(V.shape[1]):
            V[i, j] *= s
        rot.v_bar[i] = 0
    forget_average(rot)
    forget_block(rot)
    blocks = min(clock[PAST], 1.0)
    for i in range(n_clock):
        clock[i] = 0.0
    clock[LEVEL] = 1.0
    clock[PAST] = blocks
    rot.tails[0] = 10.0 * d
    rot.tails[1] = 10.0 * d


@cold
def differs(rot, work, horizon):
    """Whether the mixing has changed in the block that ends here, by its outputs (see `changes`); the next block begins.

    With a horizon their size may show a change as well: the mean of |dv|^2 is above 10 d (a channel that was frozen came back), or
    the mean variance is below 1e-4. Not in the first block of a stream, where sources appear that were silent until then.
    """
    C, mean, clock = rot.recent, rot.recent_sum, rot.clock
    d = C.shape[0]
    share = 1 / clock[SEEN]
    large = 0.0
    for i in range(d):
        large += share * C[i, i]
    for i in range(d):
        mean[i] *= share
        for j in range(i + 1):
            C[i, j] = share * C[i, j] - mean[i] * mean[j]
    variance = 0.0
    for i in range(d):
        variance += C[i, i]
    c = correlation(C, work.dv)
    negative = share * clock[NEGATIVE]
    forget_block(rot)
    if not large > 0 or prior_share(rot) > 0.1:
        return False
    first = clock[PAST] == 0
    if is_unusual(clock, PAST, c, negative, horizon):
        return True
    return horizon > 0 and not first and (large > FAR_LARGER * d or variance < LOST * d)


@cold
def forget_block(rot):
    """Begin a block of samples."""
    for i in range(rot.recent.shape[0]):
        rot.recent_sum[i] = 0
        for j in range(rot.recent.shape[0]):
            rot.recent[i, j] = 0
    rot.clock[SEEN] = 0.0
    rot.clock[NEGATIVE] = 0.0


@cold
def prior_share(rot):
    """The largest share of the variance along a coordinate that is left from the start."""
    V, most = rot.V, 0.0
    for j in range(V.shape[1]):
        q = 0.0
        for i in range(V.shape[0]):
            q += V[i, j] * V[i, j]
        most = max(most, q)
    return rot.clock[PRIOR] * rot.clock[POWER] * most


@cold
def remove_prior(rot, work):
    """Take out of C what is due of the covariance that the start counted as samples.

    No more than half of it while the samples have less variance than that in some direction: they may not have shown it yet.
    """
    clock, V = rot.clock, rot.V
    if clock[PRIOR] <= 0:
        return
    share = 0.99 if clock[AGE] > START * V.shape[0] else 0.5
    if clock[REMOVED] > 0 and share == 0.5:
        share = 1 - (clock[REMOVED] / clock[AGE]) ** PRIOR_POWER
    if prior_share(rot) > 0.5:
        share = min(share, 0.5)
    clock[REMOVED] = clock[AGE]
    pseudo_samples(rot, work, -share * clock[PRIOR] * clock[POWER])
    clock[PRIOR] *= 1 - share
    if clock[PRIOR] < FLOOR:
        end_start(rot)


@cold
def end_start(rot):
    """Nothing is left of the start: C is the covariance of `age` samples, and no longer counts those of the start."""
    clock = rot.clock
    clock[PRIOR] = 0.0
    if clock[AGE] < clock[N]:
        f = math.sqrt(clock[AGE] / clock[N])
        for i in range(rot.V.shape[0]):
            rot.v_bar[i] *= f
            for j in range(rot.V.shape[1]):
                rot.V[i, j] *= f
        clock[N] = clock[AGE]


@cold
def pseudo_samples(rot, work, w):
    """C <- C + w I, one coordinate after the other."""
    V, v_bar, dv, G = rot.V, rot.v_bar, work.dv, work.G
    d, m = V.shape
    for j in range(m):
        q = 0.0
        mean = 0.0
        for i in range(d):
            dv[i] = V[i, j]
        for i in range(d):
            q += dv[i] * dv[i]
            mean += dv[i] * v_bar[i]
        if abs(w * q) < 1e-12:
            continue
        beta = (1 / math.sqrt(max(1 + w * q, 0.005)) - 1) / q
        for h in range(m):
            G[0, h] = 0
        for i in range(d):
            for h in range(m):
                G[0, h] += dv[i] * V[i, h]
        for i in range(d):
            v_bar[i] += beta * mean * dv[i]
            for h in range(m):
                V[i, h] += beta * dv[i] * G[0, h]


def average_of(rot: Rotation) -> np.ndarray:
    """D."""
    with np.errstate(all="ignore"):
        return finite(rot.clock[ALPHA] * rot.D + rot.clock[DELTA] * np.eye(len(rot.D)))


def averaged(rot: Rotation) -> Rotation:
    """Return the rotation that reads out with polar(D) V; shares memory with `rot`."""
    U, _, W = np.linalg.svd(average_of(rot))
    clock = rot.clock.copy()
    clock[ALPHA], clock[DELTA], clock[AGE] = 1.0, 0.0, np.inf  # no longer the first samples
    return rot._replace(V=U @ W @ rot.V, D=np.eye(len(U)), clock=clock)


# ---------------------------------------------------------------------------------------------- steps
#
# The steps of one sample that `orthant_rotation` and `projected_rotation` share, in the order in which they are called.
#
# The equations, and the numbers in them, are explained in `orthant_rotation`.

#: Of the averaging, and of lambda: see `orthant_rotation`.
GAMMA = 5.0
RAMP, ANGLE, KAPPA, TURNS = 1000.0, 0.3, 0.3, 500.0
#: A block of outputs, whose covariance is looked at, has between 1 and 10 times this many samples for each source, and 10 more.
BLOCK = 30.0
#: If one of the first d + 6 samples has this many times the mean energy, the scale was wrong.
LARGER = 30.0


@hot
def read_out(rot, work):
    """y = max(D v, 0), without the polar projection of D, which is of second order.

    In the first 100 d samples outputs with more than 2 + age/d times the mean energy are scaled down to that: V is hardly known.
    """
    D, v, y = rot.D, work.v, work.y
    alpha, delta = rot.clock[ALPHA], rot.clock[DELTA]
    d = v.shape[0]
    if rot.clock[AGE] < START * d:
        shrink = math.sqrt(min(1.0, (2 + rot.clock[AGE] / d) * mean_energy(rot) / max(energy_of(v), 1e-300)))
        alpha *= shrink
        delta *= shrink
    for i in range(v.shape[0]):
        s = 0.0
        for j in range(v.shape[0]):
            s += D[i, j] * v[j]
        x = alpha * s + delta * v[i]
        y[i] = x if x > 0 else 0.0


@hot
def energy_of(v):
    """|v|^2."""
    s = 0.0
    for i in range(v.shape[0]):
        s += v[i] * v[i]
    return s


@hot
def mean_energy(rot):
    """E = d + |v_bar|^2."""
    return rot.v_bar.shape[0] + energy_of(rot.v_bar)


@hot
def begin(rot, work, X, t):
    """Whether to learn from the sample, and whether it sets the scale, and nothing else.

    That is the first nonzero one, and one of the next that is far larger: the first was too small.
    """
    clock = rot.clock
    if repeats_too_long(rot.x_last, rot.repeats, X, t):
        return False, False
    size = energy_of(work.v)
    if clock[POWER] == 0:
        return False, size > 0
    if clock[AGE] < rot.v_bar.shape[0] + PRIOR_SAMPLES and size > LARGER * mean_energy(rot):
        restart(rot)
        return False, True
    return True, False


@hot
def distance(rot, work):
    """dv, and q = |dv|^2; the running size of the first outputs."""
    v, dv, clock = work.v, work.dv, rot.clock
    d = v.shape[0]
    for i in range(d):
        dv[i] = v[i] - rot.v_bar[i]
    if rot.repeats[0] == 0 and clock[AGE] < 2 * START * d:
        size = min(energy_of(v) / mean_energy(rot), 1.0)
        if size > 0:
            clock[LEVEL] += max(1 / (100.0 + 10 * d), 3 / (clock[AGE] + 3)) * (size - clock[LEVEL])
    return energy_of(dv)


@hot
def weigh(rot, work, q):
    """The weight g of a sample at the distance q; the sample is added to the covariance of its block, less if g is below 1."""
    dv, recent, clock = work.dv, rot.recent, rot.clock
    d = dv.shape[0]
    least = 1 / (1 + clock[AGE] / (30.0 * d)) if clock[AGE] < 600.0 * d else 0.0
    g = sample_weight(rot.tails, q, least)
    bounded = math.sqrt(g)
    for i in range(d):
        x = bounded * dv[i]
        rot.recent_sum[i] += x
        for j in range(i + 1):
            recent[i, j] += x * dv[j]
    clock[SEEN] += 1
    return g


@hot
def count(rot, g, horizon):
    """Count a sample of weight g; returns w and m."""
    clock, repeats = rot.clock, rot.repeats
    clock[AGE] += g
    clock[N] += g
    if horizon > 0:
        clock[N] = min(clock[N], float(horizon))
    w = g / clock[N]
    mean = g / min(clock[AGE], float(horizon)) if horizon > 0 else g / clock[AGE]
    clock[PRIOR] *= 1 - w
    repeats[1] += w * ((1.0 if repeats[0] > 0 else 0.0) - repeats[1])
    return w, mean


@hot
def move(rot, work, w, m, q, g, params):
    """Whiten and turn V, v_bar and the average; returns the share of the energy that is negative, or 2 if all of it is."""
    V, v_bar, clock, v, dv, a, b, G = rot.V, rot.v_bar, rot.clock, work.v, work.dv, work.a, work.b, work.G
    d = V.shape[0]
    f = 1 / math.sqrt(1 - w)
    beta = (1 / math.sqrt(1 + w * (1 - m) / (1 - w) * q) - 1) / q if q > 0 else 0.0
    along = 0.0
    mean = 0.0
    for i in range(d):
        along += dv[i] * v[i]
        mean += dv[i] * (v_bar[i] + m * dv[i])
    pp = 0.0
    ee = 0.0
    energy = float(d)
    for i in range(d):
        v[i] = f * (v[i] + beta * along * dv[i])
        v_bar[i] = f * (v_bar[i] + (m + beta * mean) * dv[i])
    for i in range(d):
        energy += v_bar[i] * v_bar[i]
        positive = max(v[i], 0.0)
        pp += positive * positive
        ee += min(v[i], 0.0) * min(v[i], 0.0)
    vv = pp + ee

    c = (GAMMA + 1) / (clock[AGE] + GAMMA)
    if params.horizon > 0:
        c = max(c, min(1.0, (GAMMA + 1) / params.horizon))
    clock[ALPHA] *= 1 - c
    clock[DELTA] += c * (1 - clock[DELTA])

    if ee <= (64 * params.eps) ** 2 * vv or pp == 0:
        _whiten(V, G, dv, f, beta)
        return 2.0 if pp == 0 and vv > 0 else 0.0

    clock[TURNED] += 1
    if params.horizon > 0:
        clock[TURNED] = min(clock[TURNED], float(params.horizon))
    p, e = math.sqrt(pp), math.sqrt(ee)
    tan = e / (math.sqrt(vv) + p)
    far = 2 * tan / ANGLE
    extra = 1 + (1 + d / (d + 20)) * clock[AGE] / (clock[AGE] + RAMP) / (1 + far * far)
    tan *= extra * (1 + KAPPA) * vv / (vv + KAPPA * energy) * g / math.sqrt(1 + clock[TURNED] / (TURNS * max(d, 20)))
    cos_1 = 2 / (1 + tan * tan)
    sin = tan * cos_1
    cos_1 -= 2  # cos phi - 1
    over_p, over_e = 1 / p, 1 / e
    for i in range(d):
        positive = v[i] > 0
        a[i] = v[i] * over_p if positive else 0.0
        b[i] = 0.0 if positive else v[i] * over_e
    _whiten_and_turn(V, v_bar, G, dv, a, b, f, beta, cos_1, sin)
    _turn_average(rot.D, a, b, cos_1, sin, clock[ALPHA], clock[DELTA])
    clock[ALPHA] = 1.0
    clock[DELTA] = 0.0
    return min(g * ee / energy, 1.0)


@hot
def _whiten(V, G, dv, f, beta):
    """V <- f (I + beta dv dv') V."""
    d, m = V.shape
    for j in range(m):
        G[0, j] = 0
    for i in range(d):
        for j in range(m):
            G[0, j] += dv[i] * V[i, j]
    for i in range(d):
        z = f * beta * dv[i]
        for j in range(m):
            V[i, j] = f * V[i, j] + z * G[0, j]


@hot
def _whiten_and_turn(V, v_bar, G, dv, a, b, f, beta, cos_1, sin):
    """V <- R f (I + beta dv dv') V and v_bar <- R v_bar, in two passes over V."""
    d, m = V.shape
    ad, bd, am, bm = 0.0, 0.0, 0.0, 0.0
    for i in range(d):
        ad += a[i] * dv[i]
        bd += b[i] * dv[i]
        am += a[i] * v_bar[i]
        bm += b[i] * v_bar[i]
    for j in range(m):
        G[0, j] = 0
        G[1, j] = 0
        G[2, j] = 0
    for i in range(d):
        for j in range(m):
            G[0, j] += dv[i] * V[i, j]
            G[1, j] += a[i] * V[i, j]
            G[2, j] += b[i] * V[i, j]
    for j in range(m):
        G[1, j] = f * (G[1, j] + beta * ad * G[0, j])
        G[2, j] = f * (G[2, j] + beta * bd * G[0, j])
    for i in range(d):
        x = a[i] * cos_1 - b[i] * sin
        y = a[i] * sin + b[i] * cos_1
        z = f * beta * dv[i]
        for j in range(m):
            V[i, j] = f * V[i, j] + z * G[0, j] + x * G[1, j] + y * G[2, j]
        v_bar[i] += x * am + y * bm


@hot
def _turn_average(D, a, b, cos_1, sin, alpha, delta):
    """D <- (alpha D + delta I) R'."""
    d = D.shape[0]
    for i in range(d):
        x = delta * a[i]
        y = delta * b[i]
        for j in range(d):
            x += alpha * D[i, j] * a[j]
            y += alpha * D[i, j] * b[j]
        xa = cos_1 * x + sin * y
        yb = cos_1 * y - sin * x
        for j in range(d):
            D[i, j] = alpha * D[i, j] + xa * a[j] + yb * b[j]
        D[i, i] += delta


@hot
def watch(rot, work, negative, horizon):
    """Compare the outputs with their past; sets what `act` is called for."""
    clock = rot.clock
    d = rot.v_bar.shape[0]
    call = NOTHING
    if negative > 1:
        negative = 1.0
        call = FLIP
    clock[NEGATIVE] += negative
    if clock[AGE] >= clock[DUE]:
        call = TEND
    if clock[LEVEL] < LOST and clock[AGE] > 10:
        call = START_AGAIN
    elif clock[SEEN] >= min(max(BLOCK * (10.0 + d), 0.25 * horizon), 10 * BLOCK * (10.0 + d)) and differs(
        rot, work, horizon
    ):
        if horizon > 0:
            call = START_AGAIN
        else:
            clock[CHANGED] = 1.0
    clock[CALL] = call


@cold
def act(rot, work, horizon):
    """Do what `watch` called for."""
    clock, v_bar = rot.clock, rot.v_bar
    call = clock[CALL]
    clock[CALL] = NOTHING
    if call == START_AGAIN:
        if clock[AGE] >= v_bar.shape[0] + PRIOR_SAMPLES:  # before that the scale was wrong, and nothing has changed
            work.ws.events[RESTART] += 1
        restart(rot)
    elif call == TEND:
        remove_prior(rot, work)
        pseudo_samples(rot, work, 0.25 * (FLOOR if horizon == 0 else FLOOR_HORIZON) * clock[POWER])
        clock[DUE] = clock[AGE] + max(float(v_bar.shape[0]), 0.2 * clock[AGE] if clock[PRIOR] > 0 else 0.25 * clock[N])
    else:
        flip(rot)


# ---------------------------------------------------------------------------------------------- as many mixtures as sources


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

# ---------------------------------------------------------------------------------------------- more mixtures than sources
#
# The orthant rotation of more mixtures than sources, k > d: see `orthant_rotation`, here with V acting on u = F x.
#
# F (d x k) has orthonormal rows, random at first. It turns towards the d leading directions of the mixtures:
#
#     P <- P + g dx du'                                  the covariance of x and u since F last changed
#     after n/4 more samples:  A = P V' = U T,           U orthonormal, T upper triangular (Gram-Schmidt)
#                              V <- V F A T^-1,  F <- U',  P <- 0
#
# This is a power step: the columns of C F' lie closer to the leading directions than those of F'. The columns of A resemble
# those of
# the mixing matrix, so that A has its condition number and not the square of it. V F A T^-1 U' x = V F x for every x in the span
# of A: without noise the outputs do not change, and V stays white. Memory is k x d. With a horizon, a drift that leaves the first
# directions is followed. The first step comes after 20 d samples, when the covariance of the start is removed (it is a
# multiple of
# I only until then).
#
# A power step with the covariances of all the past (for F that was another) ended at 3 to 70 times the error of BatchNICA with
# 20 or 30 dB of noise.
#
# The weight g of a sample is bounded by the energy outside of F as well: g <= min(1, 12 r/|(I - F'F) dx|^2)^2, r its running
# 99.5 % quantile.

#: F stays as it is for so many d samples.
FIXED = 20.0


class ProjectedState(NamedTuple):
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


class ProjectedWork(NamedTuple):
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


def init_projected(F: np.ndarray, Q: np.ndarray, rng: np.ndarray) -> ProjectedState:
    """Return the rule before its first sample, with this projection (d x k) and rotation (d x d); both are copied."""
    d, k = F.shape
    means = np.zeros(k), np.zeros(d)
    return ProjectedState(
        first_rotation(Q, k, F.dtype), F.copy(), np.zeros((k, d), F.dtype), *means, np.zeros(1), **bookkeeping(d, rng)
    )


def workspace_projected(state):
    """Allocate scratch arrays."""
    d, k = state.F.shape
    dtype = state.F.dtype
    v, dv, a, b, u = np.zeros((5, d))
    T, B = np.zeros((2, d, d))
    events = Events(np.zeros(n_repairs, np.int64))
    return ProjectedWork(
        np.zeros(d, dtype), v, dv, a, b, np.zeros((3, d)), events, u, np.zeros(k, dtype), np.zeros((k, d), dtype), T, B
    )


def settle_projected(state, work, params, X, t):
    """u = F x, v = V u and y = max(D v, 0)."""
    project(state.F, X, t, work.u)
    apply(state.rot.V, work.u, work.v)
    read_out(state.rot, work)


def learn_projected(state, work, params, X, t, rates):
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


def repair_projected(state, work, params):
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
    if call == START_AGAIN:
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


def unmixing_projected(state: ProjectedState) -> np.ndarray:
    """D V F."""
    return np.asarray(average_of(state.rot) @ state.rot.V @ state.F)


PROJECTED = register(
    Rule(
        "projected_rotation", ProjectedState, Params,
        ROTATION | shapes(dk="F", kd="P") | {"x_bar": "k:float64", "u_bar": "d:float64", "outside": "1:float64"},
        workspace_projected, settle_projected, learn_projected, unmixing_projected, repair_projected,
        parts={"rot": Rotation},
    )
)  # fmt: skip
