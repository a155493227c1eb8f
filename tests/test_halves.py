"""Agreement between halves of the samples: matching and standard errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica.trust.halves import match, uncertainty


def test_matching_undoes_permutation_sign_and_scale():
    rng = np.random.default_rng(0)
    A, order = rng.standard_normal((8, 4)), [2, 0, 3, 1]
    found, degrees = match(A, -3 * A[:, order])
    assert_array_equal(np.array(order)[found], range(4))
    assert_allclose(degrees, 0, atol=1e-5)


def test_the_angle_is_that_between_the_columns():
    A = np.eye(3)[:, :2]
    B = A.copy()
    B[:, 1] = [0, np.cos(0.2), np.sin(0.2)]
    assert_allclose(match(A, B)[1], [0, np.degrees(0.2)], atol=1e-6)


def leading(rows):
    """Least squares for x = a s with s the first column: components and mixing of a single source."""
    a = rows.T @ rows[:, 0] / (rows[:, 0] @ rows[:, 0])
    return np.array([[1.0, 0, 0]]), a[:, np.newaxis]


@pytest.mark.parametrize("n", [15, 400])
def test_standard_errors_of_spectra_are_those_of_least_squares(n):
    """Of a linear regression the standard error is known: sigma / sqrt(n <s^2>)."""
    estimates, true = [], 0.1 / np.sqrt(n / 3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        s = rng.random(n)
        X = s[:, None] * [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal((n, 3)) * [0, 1, 1]
        moved = uncertainty(X, *leading(X), leading, np.zeros(1))
        estimates.append(moved.mixing[1:, 0])
    assert np.sqrt(np.mean(np.square(estimates))) == pytest.approx(true, rel=0.35)
