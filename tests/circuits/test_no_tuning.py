"""Networks at their defaults, untuned: random mixing matrices, drifts, averaged
weights, the wait for a first block.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica import (
    InterneuronNICA,
    NoncenteredWhitener,
    NonnegativePCA,
    StreamingNICA,
    TwoCompartmentNICA,
)
from bionica.datasets import sparse_uniform
from bionica.metrics import permutation_error
from conftest import mixtures

HELD_OUT = 5000


@pytest.mark.parametrize("d", [3, 10])
@pytest.mark.parametrize(
    ("cls", "least"),
    [(InterneuronNICA, 3), (TwoCompartmentNICA, 3), (StreamingNICA, 5)],
)
def test_random_matrices(cls, least, d):
    """Five matrices that the settings were not chosen on; `benchmarks/streaming.py
    --tables local` has the rates of success.
    """
    separated = 0
    for seed in range(100, 105):
        rng = np.random.default_rng([d, seed])
        A = rng.standard_normal((d, d))
        S = sparse_uniform(100_000 + HELD_OUT, d, rng=rng)
        X = S @ A.T
        network = cls(d, random_state=seed).partial_fit(X[:-HELD_OUT])
        separated += (
            permutation_error(S[-HELD_OUT:], network.transform(X[-HELD_OUT:])) < 0.05
        )
    assert separated >= least


def test_nonnegative_pca_whitens_in_fit_alone():
    """A stream is whitened by the user, with the same result; what continues a fit
    stays behind its whitening.
    """
    _, X = mixtures(1000, 3, 5)
    network, stream = (NonnegativePCA(3, random_state=0) for _ in range(2))
    whitener = NoncenteredWhitener(3).fit(X)
    Z = whitener.transform(X)
    assert_allclose(
        network.fit(X).transform(X), stream.partial_fit(Z).transform(Z), atol=1e-9
    )
    assert_array_equal(stream.whitening_, np.eye(3))
    assert_allclose(
        network.partial_fit_transform(X), stream.partial_fit_transform(Z), atol=1e-9
    )
    assert_allclose(network.whitening_, whitener.components_, rtol=1e-9)
    for learn, given in (
        ("partial_fit", X),
        ("partial_fit_transform", X),
        ("learn_one", X[0]),
    ):
        raw = NonnegativePCA(3, random_state=0)
        with pytest.raises(ValueError, match=r"NoncenteredWhitener\(3\), or call fit"):
            getattr(raw, learn)(given)
        assert not hasattr(raw, "n_features_in_")
