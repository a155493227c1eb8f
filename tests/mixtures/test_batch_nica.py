"""BatchNICA: the gradient on the group, optimality, recovery, invariances, honesty;
then the scikit-learn contract.
"""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm
from sklearn.exceptions import ConvergenceWarning

from bionica import BatchNICA
from bionica.datasets import random_sources
from bionica.metrics import permutation_error
from bionica.mixtures.nica.rotation import descend, value_and_gradient

KINDS = ["sparse_uniform", "exponential", "half_normal", "gamma"]


def mixed(kind, n_samples, d, k=None, seed=0):
    S = random_sources(kind, n_samples, d, rng=seed)
    return S, S @ np.random.default_rng(seed + 1).standard_normal((d, k or d))


def white(kind, n_samples, d, seed=0):
    _, X = mixed(kind, n_samples, d, seed=seed)
    w, U = np.linalg.eigh(np.cov(X.T, bias=True))
    return X @ (U / np.sqrt(w))


def random_rotation(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def objective(Z, R):
    return 0.5 * np.sum(np.minimum(Z @ R.T, 0) ** 2) / len(Z)


# --- the rotation


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_agrees_with_finite_differences(kind):
    Z = white(kind, 3000, 4)
    rng = np.random.default_rng(1)
    R = random_rotation(4)
    value, gradient = value_and_gradient(Z, R)
    assert value == pytest.approx(objective(Z, R))
    assert_array_equal(gradient, -gradient.T)
    for _ in range(5):
        E = rng.standard_normal((4, 4))
        E -= E.T
        slope = (
            objective(Z, expm(1e-5 * E) @ R) - objective(Z, expm(-1e-5 * E) @ R)
        ) / 2e-5
        assert np.vdot(gradient, E) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_is_a_minimum(kind, rng):
    """Skew part of the gradient zero, and no small rotation better."""
    Z = white(kind, 4000, 5)
    found = descend(Z, random_rotation(Z.shape[1], 0), tol=1e-8)
    assert found.converged
    assert_allclose(found.x @ found.x.T, np.eye(5), atol=1e-13)
    assert np.abs(value_and_gradient(Z, found.x)[1]).max() < 1e-7
    assert found.value == pytest.approx(objective(Z, found.x), abs=1e-15)
    for size in (1e-3, 1e-2, 1e-1):
        for _ in range(20):
            E = size * rng.standard_normal((5, 5))
            assert objective(Z, expm(E - E.T) @ found.x) >= found.value


# --- recovery and invariances


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "k"), [(2, 2), (4, 8), (10, 10)])
def test_sources_are_recovered_on_held_out_data(kind, d, k):
    S, X = mixed(kind, 20_000, d, k)
    nica = BatchNICA(d, random_state=0).fit(X[:15_000])
    Y = nica.transform(X[15_000:])
    assert permutation_error(S[15_000:], Y) < 2e-3
    assert Y.min() >= 0
    assert_allclose(nica.components_ @ nica.mixing_, np.eye(d), atol=1e-9)
    U = X[:15_000] @ nica.components_.T
    assert_allclose(np.cov(U.T, bias=True), np.eye(d), atol=1e-9)
    outside = np.sum(np.minimum(U, 0) ** 2) / np.sum(U**2)
    assert nica.negativity_ == pytest.approx(outside, rel=1e-6)
    assert outside < 1e-3


def test_the_estimator_is_at_a_stationary_point_of_all_rows():
    _, X = mixed("exponential", 20_000, 4)
    nica = BatchNICA(random_state=0, tol=1e-8).fit(X)
    assert np.abs(value_and_gradient(X @ nica.components_.T, np.eye(4))[1]).max() < 1e-8


def test_order_and_sources_do_not_depend_on_the_seed():
    _, X = mixed("exponential", 20_000, 5)
    one, other = (
        BatchNICA(random_state=seed, tol=1e-8).fit_transform(X) for seed in (0, 1)
    )
    assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("scale", [1e100, 1e-100, 1e-200, 1e150])
def test_any_unit_gives_the_same_sources(scale):
    _, X = mixed("exponential", 3000, 3, 5)
    here = BatchNICA(3, random_state=0).fit(X)
    there = BatchNICA(3, random_state=0).fit(X * scale)
    assert_allclose(there.transform(X * scale), here.transform(X), atol=1e-6)
    assert_allclose(there.mixing_ / scale, here.mixing_, atol=1e-6)


@pytest.mark.parametrize("scales", [np.full(4, 1e3), np.geomspace(1e-6, 1e6, 4)])
def test_any_invertible_change_of_the_mixtures_changes_nothing(scales):
    _, X = mixed("sparse_uniform", 5000, 4)
    change = np.random.default_rng(9).standard_normal((4, 4))
    Y, *others = (
        BatchNICA(random_state=0, tol=1e-8).fit_transform(data)
        for data in (X, X * scales, X @ change)
    )
    for other in others:
        assert permutation_error(Y, other) < 1e-12


# --- honesty


def warned(X, **parameters):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        BatchNICA(random_state=0, **parameters).fit(X)
    # the warning points at the caller
    assert all(w.filename == __file__ for w in caught)
    return " ".join(str(w.message) for w in caught)


@pytest.mark.parametrize("d", [2, 5, 10])
def test_sources_that_nonnegativity_cannot_separate_are_reported(d):
    S = 2 + random_sources("exponential", 3000, d, rng=0)
    assert "equally nonnegative" in warned(
        S @ np.random.default_rng(1).standard_normal((d, d))
    )


def test_an_unconfirmed_minimum_is_reported():
    rng = np.random.default_rng(10)
    # correlated: more negative than the model predicts
    X = rng.random((3000, 10)) + 0.3 * rng.random((3000, 1))
    assert "n_init" in warned(X, n_init=1)
    assert "n_init" not in warned(X)


def test_memory_is_two_copies_of_the_data():
    # judging the fit takes 9 MB, whatever the number of samples
    _, X = mixed("sparse_uniform", 120_000, 30)
    tracemalloc.start()
    BatchNICA(random_state=0).fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * X.nbytes  # beside X itself


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float64, 1e-8), (np.float32, 1e-3)]
)
def test_more_features_than_samples_give_the_solution_of_the_covariance(
    dtype, tolerance, monkeypatch
):
    rng = np.random.default_rng(5)
    X = rng.exponential(size=(80, 3)) @ rng.random((3, 1100))
    X = (X + 1e-3 * rng.standard_normal(X.shape)).astype(dtype)
    fast = BatchNICA(3, random_state=0, tol=1e-10).fit(X)
    monkeypatch.setattr("bionica.mixtures.nica.batch.wider_than_long", lambda X: False)
    slow = BatchNICA(3, random_state=0, tol=1e-10).fit(X)
    Y = fast.transform(X)
    assert Y.dtype == fast.components_.dtype == fast.mixing_.dtype == dtype
    assert_allclose(Y, slow.transform(X), atol=tolerance)
    assert_allclose(fast.mixing_, slow.mixing_, atol=tolerance)
    identity = fast.components_ @ fast.mixing_
    assert_allclose(identity, np.eye(3), atol=tolerance)
