"""A long stream: 5e8 samples through one network. Its memory must not grow, and its outputs must stay right."""

import resource

import numpy as np

from attacks import Row
from bionica import StreamingNICA
from bionica.datasets import mix, sparse_uniform
from bionica.metrics import permutation_error

BLOCK, MOST_MB, MOST_ERROR = 1_000_000, 20, 1e-5


def attack(seed, scale=1.0):
    S = sparse_uniform(BLOCK, 3, rng=seed)
    X, _ = mix(S, n_mixtures=3, rng=seed)
    network = StreamingNICA(3, random_state=seed)
    n, failures, before = max(2, round(500 * scale)), [], 0.0
    for i in range(n):
        network.partial_fit(X)
        if i == n // 10:
            before = _peak()
    grown = _peak() - before
    error = permutation_error(S, network.transform(X))
    if not error < MOST_ERROR:
        failures.append(f"error {error:.1e} after {n * BLOCK:.0e} samples")
    if grown > MOST_MB:
        failures.append(f"memory grew from {before:.0f} MB by {grown:.0f} MB")
    if not all(np.isfinite(value).all() for value in (network.components_, network.mixing_)):
        failures.append("weights are not finite")
    return [Row("soak", f"a stream of {n * BLOCK:.0e} samples", 1, failures, _peak())]


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
