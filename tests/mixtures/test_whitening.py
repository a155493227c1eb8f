"""Noncentered whitening: identity covariance, any chunking, any rank, any scale; then
the scikit-learn contract.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bionica import NoncenteredWhitener


def mixtures(n_samples=2000, d=5, k=None, seed=0, condition=None):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n_samples, d))
    A = rng.standard_normal((k or d, d))
    if condition:
        U, _, Vt = np.linalg.svd(A, full_matrices=False)
        A = (U * np.geomspace(1, 1 / condition, d)) @ Vt
    return S @ A.T


def off_identity(Z):
    Z = Z.astype(np.float64)
    return np.abs(
        np.cov(Z.T, bias=True).reshape(Z.shape[1], -1) - np.eye(Z.shape[1])
    ).max()


# --- the whitening matrix


@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 3), (5, 20), (50, 50)])
def test_identity_covariance_and_the_mean_stays(d, k):
    X = mixtures(3000, d, k)
    whitener = NoncenteredWhitener(d)
    Z = whitener.fit_transform(X)
    assert off_identity(Z) < 1e-10
    assert_allclose(Z.mean(axis=0), whitener.components_ @ X.mean(axis=0), atol=1e-10)
    assert np.linalg.norm(Z.mean(axis=0)) > 0.5


def test_the_matrix_is_the_one_of_the_paper():
    """F = Lambda^{-1/2} U' on the leading eigenvectors, up to the signs of
    eigenvectors.
    """
    X = mixtures(2000, 4, 4)
    w, U = np.linalg.eigh(np.cov(X.T, bias=True))
    w = w[::-1][:3]
    U = U[:, ::-1][:, :3]
    whitener = NoncenteredWhitener(3).fit(X)
    assert_allclose(np.abs(whitener.components_), np.abs((U / np.sqrt(w)).T), rtol=1e-8)
    assert_allclose(whitener.explained_variance_, w, rtol=1e-10)
    assert_allclose(whitener.components_ @ whitener.mixing_, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("spread", [1e3, 1e6, 1e9])
def test_the_units_of_the_features_do_not_matter(spread):
    X = mixtures(3000, 12) * np.geomspace(1 / spread, spread, 12)
    whitener = NoncenteredWhitener().fit(X)
    assert whitener.rank_ == 12
    Z = whitener.transform(X)
    assert off_identity(Z) < 1e-10
    assert_allclose(
        whitener.inverse_transform(Z) / X.std(axis=0), X / X.std(axis=0), atol=1e-9
    )


# --- rank


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e5])
def test_rank_deficient_input_is_recognised(dtype, scale):
    X = (scale * mixtures(2000, 3, 8)).astype(dtype)
    whitener = NoncenteredWhitener().fit(X)
    assert whitener.rank_ == 3
    Z = whitener.transform(X)
    assert Z.shape == (2000, 3)
    assert Z.dtype == dtype
    assert off_identity(Z) < (1e-10 if dtype == np.float64 else 1e-4)
    assert_allclose(
        whitener.inverse_transform(Z),
        X,
        atol=scale * (1e-9 if dtype == np.float64 else 1e-4),
    )


def test_a_constant_feature_is_left_out_and_comes_back():
    X = np.column_stack([mixtures(500, 3), np.full(500, 7.0), np.full(500, 1 / 3)])
    whitener = NoncenteredWhitener().fit(X)
    assert whitener.rank_ == 3
    assert_allclose(whitener.inverse_transform(whitener.transform(X)), X, atol=1e-9)


def test_overflow_is_an_error_that_says_what_to_do():
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match=r"overflows.*Divide X"),
    ):
        NoncenteredWhitener().fit(1e200 * mixtures(10, 2))


# --- streaming


def test_partial_fit_waits_for_enough_samples():
    X = mixtures(100, 3)
    whitener = NoncenteredWhitener(3).partial_fit(X[:2])
    with pytest.raises(ValueError, match=r"n_components=3 exceeds the rank.*2 samples"):
        whitener.transform(X)
    assert off_identity(whitener.partial_fit(X[2:]).transform(X)) < 1e-10
