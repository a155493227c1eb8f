"""Wide inputs (k >> d): weights turn with the mixtures, and nothing has a covariance of
k x k.
"""

import tracemalloc

import numpy as np
import pytest

import bionica
from bionica.metrics import permutation_error
from conftest import NETWORKS

D = 4


def problem(n, k, d=D):
    rng = np.random.default_rng(0)
    S = rng.uniform(0, np.sqrt(48 / 5), (n, d)) * (rng.random((n, d)) < 0.5)
    A = np.linalg.qr(rng.standard_normal((k, d)))[0]
    return S, S @ A.T + 0.01 * rng.standard_normal((n, k))


def start(Network, X):
    """A network before its first sample; NonnegativePCA, whose streams are whitened
    already, after a fit to X.
    """
    network = Network(D, random_state=0)
    return network.fit(X) if Network is bionica.NonnegativePCA else network


# few samples
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", NETWORKS)
def test_wide_fits_stay_below_a_covariance(cls):
    """k x k would be 800 MB; the data are 16 MB."""
    S, X = problem(200, 10_000)
    tracemalloc.start()
    try:
        network = cls(D, random_state=0).fit(X)
        stream = start(cls, X)
        for first in range(0, 200, 40):
            stream.partial_fit(X[first : first + 40])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * X.nbytes
    if cls is bionica.StreamingNICA:
        assert permutation_error(S, network.transform(X)) < 0.05
