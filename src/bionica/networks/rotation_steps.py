"""The steps of one sample that `orthant_rotation` and `projected_rotation` share, in the order in which they are called.

The equations, and the numbers in them, are explained in `orthant_rotation`.
"""

import math

from .disturbances import repeats_too_long, sample_weight
from .generic import cold, hot
from .guards import RESTART as RESTARTED
from .rotation_state import (
    AGE,
    ALPHA,
    CALL,
    CHANGED,
    DELTA,
    DUE,
    FLIP,
    FLOOR,
    FLOOR_HORIZON,
    LEVEL,
    LOST,
    NEGATIVE,
    NOTHING,
    POWER,
    PRIOR,
    PRIOR_SAMPLES,
    RESTART,
    SEEN,
    START,
    TEND,
    TURNED,
    N,
    differs,
    flip,
    pseudo_samples,
    remove_prior,
    restart,
)  # fmt: skip

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
        call = RESTART
    elif clock[SEEN] >= min(max(BLOCK * (10.0 + d), 0.25 * horizon), 10 * BLOCK * (10.0 + d)) and differs(
        rot, work, horizon
    ):
        if horizon > 0:
            call = RESTART
        else:
            clock[CHANGED] = 1.0
    clock[CALL] = call


@cold
def act(rot, work, horizon):
    """Do what `watch` called for."""
    clock, v_bar = rot.clock, rot.v_bar
    call = clock[CALL]
    clock[CALL] = NOTHING
    if call == RESTART:
        if clock[AGE] >= v_bar.shape[0] + PRIOR_SAMPLES:  # before that the scale was wrong, and nothing has changed
            work.ws.events[RESTARTED] += 1
        restart(rot)
    elif call == TEND:
        remove_prior(rot, work)
        pseudo_samples(rot, work, 0.25 * (FLOOR if horizon == 0 else FLOOR_HORIZON) * clock[POWER])
        clock[DUE] = clock[AGE] + max(float(v_bar.shape[0]), 0.2 * clock[AGE] if clock[PRIOR] > 0 else 0.25 * clock[N])
    else:
        flip(rot)
