"""Noncentered whitening: identity covariance, any chunking, any rank, any scale; then
the scikit-learn contract.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bionica.core.blocks import largest, linear_map, merge_moments, moments, row_sample
from bionica.core.samples import mixtures_come_first
from bionica.mixtures.nica.whitener import NoncenteredWhitener


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


# --- moments


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 60),
    k=st.integers(1, 5),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    offset=st.sampled_from([0.0, 1.0, 1e8]),
    seed=st.integers(0, 2**16),
)
def test_any_chunking_gives_the_moments_of_the_whole(n, k, cuts, offset, seed):
    X = np.random.default_rng(seed).standard_normal((n, k)) + offset
    total = None
    for chunk in np.split(X, sorted(c for c in cuts if c < n)):
        if len(chunk):
            total = (
                moments(chunk)
                if total is None
                else merge_moments(total, moments(chunk))
            )
    exact = X - offset  # exact in floating point up to the rounding of X itself
    mean = exact.mean(axis=0)
    scatter = (exact - mean).T @ (exact - mean)
    assert total.n == n
    np.testing.assert_allclose(
        total.mean - offset, mean, atol=4e-16 * max(1, offset) * 4
    )
    np.testing.assert_allclose(
        total.scatter, scatter, atol=1e-12 * n + 1e-7 * (offset > 1)
    )


def test_a_sample_has_one_random_row_of_each_stratum():
    n = 8000
    most = 400
    rows = row_sample(n, 3, most=most)
    np.testing.assert_array_equal(rows // (n // most), np.arange(most))
    assert 150 < np.sum(rows % 2) < 250  # rows that alternate are both met
    np.testing.assert_array_equal(rows, row_sample(n, 3, most=most))
    assert not np.array_equal(rows, row_sample(n, 3, most=most, seed=1))
    np.testing.assert_array_equal(row_sample(7, 3, most=most), np.arange(7))
    assert [len(row_sample(n, k, most=most)) for k in (5000, 10**6)] == [
        min(most, 419),
        200,
    ]  # 2^21 numbers, or 200 rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("k", "d"), [(3, 3), (30, 100), (256, 20), (1000, 3), (4096, 1), (4096, 5)]
)
def test_rows_have_the_same_bits_however_they_are_cut(dtype, k, d):
    """Kernels of BLAS differ by the shape of a product: which sizes differ depends on
    the processor.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1100, k)).astype(dtype)
    M = rng.standard_normal((d, k))
    expected = linear_map(X, M)
    np.testing.assert_allclose(
        expected, X @ M.T.astype(dtype), atol=1e4 * np.finfo(dtype).eps
    )
    for step in (1, 7, 48, 1000):
        n = min(60 * step, len(X))
        parts = [
            linear_map(X[start : min(start + step, n)], M)
            for start in range(0, n, step)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), expected[:n])
    np.testing.assert_array_equal(linear_map(np.asfortranarray(X), M), expected)
    np.testing.assert_array_equal(
        linear_map(np.repeat(X, 2, axis=0)[5::2], M), expected[2:]
    )


# --- the whitening matrix


@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 3), (5, 20), (50, 50)])
def test_identity_covariance_and_the_mean_stays(d, k):
    X = mixtures(3000, d, k)
    whitener = NoncenteredWhitener(d)
    Z = whitener.fit_transform(X)
    assert off_identity(Z) < 1e-10
    np.testing.assert_allclose(
        Z.mean(axis=0), whitener.components_ @ X.mean(axis=0), atol=1e-10
    )
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
    np.testing.assert_allclose(
        np.abs(whitener.components_), np.abs((U / np.sqrt(w)).T), rtol=1e-8
    )
    np.testing.assert_allclose(whitener.explained_variance_, w, rtol=1e-10)
    np.testing.assert_allclose(
        whitener.components_ @ whitener.mixing_, np.eye(3), atol=1e-12
    )


@pytest.mark.parametrize("spread", [1e3, 1e6, 1e9])
def test_the_units_of_the_features_do_not_matter(spread):
    X = mixtures(3000, 12) * np.geomspace(1 / spread, spread, 12)
    whitener = NoncenteredWhitener().fit(X)
    assert whitener.rank_ == 12
    Z = whitener.transform(X)
    assert off_identity(Z) < 1e-10
    np.testing.assert_allclose(
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
    np.testing.assert_allclose(
        whitener.inverse_transform(Z),
        X,
        atol=scale * (1e-9 if dtype == np.float64 else 1e-4),
    )


def test_a_constant_feature_is_left_out_and_comes_back():
    X = np.column_stack([mixtures(500, 3), np.full(500, 7.0), np.full(500, 1 / 3)])
    whitener = NoncenteredWhitener().fit(X)
    assert whitener.rank_ == 3
    np.testing.assert_allclose(
        whitener.inverse_transform(whitener.transform(X)), X, atol=1e-9
    )


def test_more_components_than_rank_is_an_error_that_says_what_to_do():
    with pytest.raises(
        ValueError,
        match=r"n_components=4 exceeds the rank.*n_components=None \(keeps 3\)",
    ):
        NoncenteredWhitener(4).fit(mixtures(100, 3, 8))


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


@pytest.mark.parametrize(("shape", "limit"), [((40, 60, 40), 0.5), ((20, 60, 40), 2.0)])
def test_the_axis_of_the_mixtures_has_clearly_fewer_directions(shape, limit):
    """`share` is that of the energy beyond ten directions, relative to white noise; the
    shortest axis may have more of it.
    """
    for ratio in (0.8 * limit, 1.25 * limit):
        cube = np.random.default_rng(0).standard_normal(shape)
        for axis, share in ((0, 0.3 * ratio), (2, 0.3)):
            n = shape[axis]
            beyond = share * (1 - 10 / shape[axis])
            scale = np.sqrt(
                np.where(np.arange(n) < 10, (1 - beyond) / 10, beyond / (n - 10))
            )
            cube = np.moveaxis(np.moveaxis(cube, axis, -1) * scale, -1, axis)
        assert mixtures_come_first(cube) == (ratio < limit)


def test_an_axis_of_length_one_is_not_that_of_the_mixtures():
    assert not mixtures_come_first(np.random.default_rng(0).random((1, 5, 6)))


def test_the_largest_value_has_either_sign_and_is_a_divisor():
    assert largest(np.array([[-3.0, 1.0]])) == 3
    assert largest(np.array([[-1.0, 2.0]])) == 2
    assert largest(np.zeros((2, 2))) == 1
