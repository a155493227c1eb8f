"""Networks at their defaults, untuned: random mixing matrices, drifts, averaged weights, the wait for a first block."""

import numpy as np
import pytest

import bionica
from bionica import InterneuronNICA, NonnegativePCA, StreamingNICA, TwoCompartmentNICA
from bionica.datasets import mix, paper_mixing, sparse_uniform
from bionica.kernels.rule import to_arrays
from bionica.metrics import permutation_error
from conftest import mixtures

HELD_OUT = 5000


@pytest.mark.parametrize("d", [3, 10])
@pytest.mark.parametrize(("cls", "least"), [(InterneuronNICA, 3), (TwoCompartmentNICA, 3), (StreamingNICA, 5)])
def test_random_matrices(cls, least, d):
    """Five matrices that the settings were not chosen on; `benchmarks/streaming.py --tables local` has the rates of success."""
    separated = 0
    for seed in range(100, 105):
        rng = np.random.default_rng([d, seed])
        A = rng.standard_normal((d, d))
        S = sparse_uniform(100_000 + HELD_OUT, d, rng=rng)
        X = S @ A.T
        network = cls(d, random_state=seed).partial_fit(X[:-HELD_OUT])
        separated += permutation_error(S[-HELD_OUT:], network.transform(X[-HELD_OUT:])) < 0.05
    assert separated >= least


def test_nonnegative_pca_needs_no_offline_whitening():
    """Behind the running whitening it ends where it does behind that of all samples, whatever the units of the mixtures."""
    rng = np.random.default_rng(7)
    S = sparse_uniform(100_000, 3, rng=rng)
    X = S @ (rng.standard_normal((5, 3)) * np.array([[1], [255], [1e-3], [1], [20]])).T
    errors = [
        permutation_error(S, NonnegativePCA(3, whiten=whiten, random_state=0).fit(X).transform(X))
        for whiten in ("online", "offline")
    ]
    assert max(errors) < 2e-3


def test_float32_stays_white():
    _, X = mixtures(200_000, 3, dtype=np.float32)
    network = NonnegativePCA(3, random_state=0)
    for _ in range(10):
        network.partial_fit(X)
    K = network.whitening_.astype(float)
    assert network.W_.dtype == np.float32
    np.testing.assert_allclose(K @ np.cov(X.T.astype(float), bias=True) @ K.T, np.eye(3), atol=0.02)


@pytest.mark.parametrize("cls", [NonnegativePCA])
def test_a_network_that_waits_for_its_first_block(cls, tmp_path):
    """Before it has seen 100 + 20 d samples, 200 at least, it is silent, can be used, saved and gone on with."""
    _, X = mixtures(400, 3)
    first = X[:200].copy()  # as long as the first block: it must not become the memory of the network
    network = cls(3, random_state=0).partial_fit(first[:100])
    first[:] = np.nan
    assert (network.n_samples_seen_, network.n_samples_until_start_) == (100, 100)
    assert np.array_equal(network.partial_fit_transform(X[100:110]), np.zeros((10, 3)))
    assert np.array_equal(network.transform(X), np.zeros((400, 3)))
    assert not hasattr(network, "components_")
    network.save(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model")
    assert loaded.n_samples_seen_ == 110
    fit = cls(3, random_state=0).fit(X)
    for other in (loaded.partial_fit(X[110:]), network.partial_fit(X[110:])):
        for name, array in to_arrays(fit._learner.state).items():
            np.testing.assert_array_equal(to_arrays(other._learner.state)[name], array, err_msg=name)


@pytest.mark.parametrize("cls", [InterneuronNICA, TwoCompartmentNICA])
def test_a_solution_is_a_fixed_point(cls):
    """Appendix A: W_xy = A' and W_yn'W_yn = A'A; or W_zz = <s s'> and W_xz = W_zz A^-1."""
    S = sparse_uniform(20_000, 3, rng=0)
    X, A = mix(S, paper_mixing("d3"))
    W_zz = S.T @ S / len(S)
    if cls is InterneuronNICA:
        init = {"W_xy": A.T, "W_yn": np.linalg.cholesky(A.T @ A).T}
    else:
        init = {"W_zz": W_zz, "W_xz": W_zz @ np.linalg.inv(A)}
    network = cls(3, init=init, eta0=1e-4, decay=0.0, random_state=0).fit(X)
    assert permutation_error(S, network.transform(X)) < 1e-3
    for name, W in init.items():
        np.testing.assert_allclose(getattr(network, f"{name}_"), W, atol=0.1 * np.abs(W).max(), err_msg=name)
