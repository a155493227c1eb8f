"""Samples that a stream should not learn from, or less: outliers and frozen sensors.

*Beyond the paper.* One sample 10^6 times too large among 10^5 spoiled every estimate of a covariance (error 0.52 where 5e-6 is
possible), and a sensor that repeats itself for a thousand horizons made it vanish.

Weight of a sample at the squared Mahalanobis distance q:

    g = min(1, tau/q)^2        tau = SPARE r_2 min(r_2/r_1, 4)^2, the tail of q extrapolated
    r_i <- r_i (1 + s) if q > r_i, else r_i (1 - s p_i)            the running 98 % and 99.5 % quantiles of q

tau follows the tails of the data, so that large samples of sparse sources keep their weight. g falls faster than 1/q, so that one
outlier in 1000 leaves no trace: with g = tau/q it cost a factor of 20 to 200.

A sample that equals the one before it is left out once the run of equal samples is longer than PATIENCE/(1 - f), where f is the
usual share of such samples (half of all where sparse sources are often all silent). No threshold on q is involved.
"""

from .generic import hot

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
