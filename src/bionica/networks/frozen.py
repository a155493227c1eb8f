"""Frozen channels: a sensor that repeats exactly the same value carries no information.

Channel j is stuck when it has repeated itself more than 20 + 4 longest_j times, longest_j being its longest run so far (a run
counts as that limit at most): sparse data teach it how long their own zeros last. While any channel is stuck nothing is learned
and nothing is forgotten. After 10 horizons (10,000 samples without one) a stuck channel
is taken as it is, unless all are stuck. A channel that has never
varied is not stuck.

*Beyond the paper.* With horizon=10,000, 100,000 zeros and then 1e6 good samples ended at an error of 1.6: the inverse
covariance had grown by 1/(1 - 1/horizon) a sample. With this guard the zeros change nothing.
"""

from .generic import hot
from .guards import FROZEN

SPARE, RUNS = 20, 4
#: A stuck channel is taken as it is after so many horizons, or samples without a horizon.
PATIENCE, LASTING = 10, 10_000
#: Inputs with so many channels are wide.
WIDE = 1000


@hot
def is_frozen(inp, u, X, t, horizon, events):
    """Whether the mixture X[t] comes from a frozen sensor; follows the runs of the channels.

    The channels of a wide input are those of u: blocks of wide inputs are projected before the loop (`engines.blocks`), and the
    mixtures are not at hand.
    """
    last, run, longest = inp.last, inp.run, inp.longest
    wide = last.shape[0] >= WIDE
    stuck = False
    every = True
    most = 0
    for j in range(u.shape[0] if wide else X.shape[1]):
        limit = SPARE + RUNS * longest[j]
        now = u[j] if wide else X[t, j]
        if now == last[j] and run[j] >= 0:
            run[j] += 1
            most = max(most, run[j])
            if longest[j] >= 0:
                over = run[j] > limit
                every &= over
                stuck |= over and run[j] <= (PATIENCE * horizon if horizon > 0 else LASTING)
        else:
            if run[j] >= 0:
                longest[j] = max(longest[j], min(run[j], limit))
                every = False
            run[j] = 0
            last[j] = now
    if not (stuck or (every and most > SPARE)):
        return False
    events[FROZEN] += 1
    return True
