"""Whether the mixing has changed, from blocks of outputs.

Sources that come and go (spikes, speech, the peaks of a chromatogram) change the variances of the outputs. The outputs stay
uncorrelated inside of a block, and nonnegative. After a change of the mixing each output is a sum of several sources, so that the
outputs of a block are correlated, and some are negative. Two numbers for each block:

    c = log tr(K^-1)/d       K the correlation matrix of the outputs, each with SILENT added to its variance, so that the rounding
                             or the noise of a silent source does not count; c = 0 where they are uncorrelated
    s                        the share of the energy that is negative

A block is unusual if c > CORRELATED + mean + FAR spreads, or if c > mean and s > NEGATIVE + 3 means + FAR spreads. These means
and spreads are of some 50 past blocks (at least 8 with a horizon, 16 without). If sources are on and off, blocks are correlated now
and then, and the spreads are large.

Measured: twelve kinds of sources whose mixing stays, d = 3 and 10, 50,000 samples. A comparison of tr C and tr C^-1, for the
covariance C of a block, with the past found a change in 55 of 144 streams without a horizon.
"""

import math

from .generic import cold

#: What is added to the variance of each output.
SILENT = 0.01
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
