"""What the orthant rotation keeps, and what it does rarely: start, restart, removal of the start's covariance.

See `orthant_rotation` for the equations. Loops that sum store nothing, and divisions are outside of loops: otherwise the compiler
chooses between code of different rounding by where the arrays lie in memory, and results would not be the same bits.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from .changes import correlation, is_unusual, n_past
from .generic import cold
from .unmix import finite

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
NOTHING, FLIP, RESTART, TEND = 0.0, 1.0, 2.0, 3.0


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
