"""Blocks of rows: moments, samples and products in any chunking; the axis of a cube."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bionica.core import blocks
from bionica.core.samples import mixtures_come_first


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
            own = blocks.moments(chunk)
            total = own if total is None else blocks.merge_moments(total, own)
    assert total.n == n
    assert_allclose(total.mean, X.mean(axis=0), rtol=1e-14, atol=1e-14)
    exact = X - X.mean(axis=0)
    atol = 1e-12 * n + 1e-7 * (offset > 1)
    assert_allclose(total.scatter, exact.T @ exact, atol=atol)


def test_a_sample_has_one_random_row_of_each_stratum():
    n = 8000
    most = 400
    rows = blocks.row_sample(n, 3, most=most)
    assert_array_equal(rows // (n // most), np.arange(most))
    assert 150 < np.sum(rows % 2) < 250  # rows that alternate are both met
    assert_array_equal(rows, blocks.row_sample(n, 3, most=most))
    assert not np.array_equal(rows, blocks.row_sample(n, 3, most=most, seed=1))
    assert_array_equal(blocks.row_sample(7, 3, most=most), np.arange(7))
    assert [len(blocks.row_sample(n, k, most=most)) for k in (5000, 10**6)] == [
        min(most, 419),
        200,
    ]  # 2^21 numbers, or 200 rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("k", "d"), [(3, 3), (30, 100), (256, 20), (1000, 3), (4096, 1), (4096, 5)]
)
def test_rows_have_the_same_bits_however_they_are_cut(dtype, k, d, rng):
    """Kernels of BLAS differ by the shape of a product: which sizes differ depends on
    the processor.
    """
    X = rng.standard_normal((1100, k)).astype(dtype)
    M = rng.standard_normal((d, k))
    expected = blocks.linear_map(X, M)
    assert_allclose(expected, X @ M.T.astype(dtype), atol=1e4 * np.finfo(dtype).eps)
    for step in (1, 7, 48, 1000):
        n = min(60 * step, len(X))
        parts = [
            blocks.linear_map(part, M) for part in np.split(X[:n], range(step, n, step))
        ]
        assert_array_equal(np.concatenate(parts), expected[:n])
    assert_array_equal(blocks.linear_map(np.asfortranarray(X), M), expected)
    strided = np.repeat(X, 2, axis=0)[5::2]
    assert_array_equal(blocks.linear_map(strided, M), expected[2:])


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


def test_an_axis_of_length_one_is_not_that_of_the_mixtures(rng):
    assert not mixtures_come_first(rng.random((1, 5, 6)))


def test_the_largest_value_has_either_sign_and_is_a_divisor():
    assert blocks.largest(np.array([[-3.0, 1.0]])) == 3
    assert blocks.largest(np.array([[-1.0, 2.0]])) == 2
    assert blocks.largest(np.zeros((2, 2))) == 1
