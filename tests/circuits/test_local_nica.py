"""LocalNICA: the reference line by line, fixed points, invariances, streams."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bionica import LocalNICA
from bionica.circuits import reference
from bionica.datasets import mix, random_mixing, sparse_uniform
from bionica.metrics import permutation_error
from conftest import learned


def mixtures(n, d, k=None, condition=10):
    """Sparse uniform sources, and mixtures by a matrix of this condition number."""
    S = sparse_uniform(n, d, rng=1)
    return S, mix(S, random_mixing(k or d, d, condition, rng=1))[0]


@pytest.mark.parametrize(("d", "k", "smooth"), [(3, 3, 1), (2, 5, 1), (3, 3, 20)])
def test_equals_the_reference(d, k, smooth):
    """Independent samples and, with a clock that is not 1, means of 20 samples."""
    X = mixtures(1200, d, k)[1]
    X = np.stack(
        [np.convolve(x, np.ones(smooth) / smooth, "same") for x in X.T], axis=1
    )
    expected = reference.local_nica(d, k, np.random.default_rng(5))
    network = LocalNICA(
        d, init={"W_xz": expected["U"].copy(), "W_zz": expected["W_zz"].copy()}
    )
    Y = network.partial_fit_transform(X)
    Z = np.array([reference.local_nica_step(expected, x) for x in X])
    assert_allclose(Y, Z, rtol=1e-9, atol=1e-9 * Z.max())
    arrays = learned(network)
    expected |= {
        f"{part}.{name}": value
        for part in "xc"
        for name, value in expected[part].items()
    }
    names = [name for name in expected if "." in name]
    for name in ("W_xz", "W_zz", "U", "z_bar", "n", *names):
        atol = 1e-9 * np.abs(expected[name]).max()
        assert_allclose(
            arrays[f"_state.{name}"],
            expected[name],
            rtol=1e-9,
            atol=atol,
            err_msg=name,
        )
    assert_allclose(arrays["_state.H"] @ network.W_zz_, np.eye(d), atol=1e-9)


@pytest.mark.parametrize(
    ("k", "dtype"), [(3, np.float64), (3, np.float32), (6, np.float64)]
)
def test_separates(k, dtype):
    S, X = mixtures(40_000, 3, k)
    Y = LocalNICA(3, random_state=0).partial_fit(X.astype(dtype)).transform(X)
    assert permutation_error(S, Y) < 0.005


def test_separates_samples_that_are_alike_in_time():
    """Rectified AR(1) sources with a time constant of 10 samples: without the clock the
    error is above .1.
    """
    rng = np.random.default_rng(3)
    S = np.zeros((80_000, 3))
    noise = rng.standard_normal(S.shape)
    for t in range(1, len(S)):
        S[t] = np.exp(-0.1) * S[t - 1] + noise[t]
    S = np.maximum(S, 0) / np.maximum(S, 0).std(axis=0)
    X = S @ np.linalg.qr(rng.standard_normal((3, 3)))[0].T
    network = LocalNICA(3, random_state=0).partial_fit(X)
    assert permutation_error(S, network.transform(X)) < 0.01


@pytest.mark.parametrize(
    "Q",
    [
        np.eye(3) * 2.0**-10,
        np.diag([2.0**-10, 1, 2.0**10]),
        np.diag([1.0, -1, -1]),
        np.eye(3)[[2, 0, 1]],
    ],
)
def test_scale_sign_and_order_of_inputs_do_not_matter(Q):
    X = mixtures(3000, 3)[1]
    W = 10 * 3**0.5 * np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    unit = np.sign(Q)
    expected = LocalNICA(3, init={"W_xz": W}).partial_fit_transform(X)
    Y = LocalNICA(3, init={"W_xz": W @ unit.T}).partial_fit_transform(X @ Q.T)
    assert_allclose(Y, expected, rtol=1e-9, atol=1e-9 * expected.max())


def test_inputs_connect_when_their_power_is_known():
    """A silent input, and one that begins later, change nothing before they are heard,
    and nothing overflows.
    """
    X = mixtures(2000, 3)[1]
    X = np.column_stack(
        [X, np.zeros(len(X)), np.where(np.arange(len(X)) < 500, 0, X[:, 0])]
    )
    network = LocalNICA(3, random_state=0).partial_fit(X[:100])
    assert not network.transform(X).any()
    network.partial_fit(X[100:500])
    assert network.W_xz_.any(axis=0).tolist() == [True, True, True, False, False]
    network.partial_fit(X[500:])
    assert network.W_xz_.any(axis=0).tolist() == [True, True, True, False, True]
    assert np.isfinite(network.components_).all()


def test_a_horizon_keeps_rates_from_falling():
    X = mixtures(600, 3)[1]
    network = LocalNICA(3, horizon=300, random_state=0).partial_fit(X)
    assert (learned(network)["_state.n"] == 300).all()
    network.set_params(horizon=None).partial_fit(X)
    assert (learned(network)["_state.n"] > 800).all()
