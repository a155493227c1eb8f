"""The guards' linear algebra: what is lifted, what is left alone, also where a matrix has lost a direction altogether."""

import numpy as np
import pytest

from bionica.kernels.guards import lift_eigenvalues, lift_singular_values, standard_normal, uniform
from bionica.kernels.rule import SPECTRUM, scratch

pytestmark = pytest.mark.interpreted
EPS = np.finfo(float).eps


def with_singular_values(rng, values, n):
    d = len(values)
    U = np.linalg.qr(rng.standard_normal((d, d)))[0]
    V = np.linalg.qr(rng.standard_normal((n, d)))[0]
    return np.ascontiguousarray((U * values) @ V.T)


@pytest.mark.parametrize(
    "values",
    [(2.0, 0.5, 1e-3), (1e6, 1.0, 5e-3), (1.0, 1e-3, 1e-5), (3.0, 1.0, 0.0), (0.0, 0.0, 0.0), (1.0, 0.5, 0.05)],
)
@pytest.mark.parametrize("n", [3, 5])
def test_small_singular_values_become_one(values, n):
    W = with_singular_values(np.random.default_rng(0), values, n)
    before = W.copy()
    ws = scratch(3, float)
    lift_singular_values(W, EPS, ws)
    lifted = sum(value < 0.01 for value in values)
    assert ws.events[SPECTRUM] == lifted
    expected = sorted([value if value >= 0.01 else 1.0 for value in values], reverse=True)
    np.testing.assert_allclose(np.linalg.svd(W, compute_uv=False), expected, rtol=1e-9)
    if not lifted:
        np.testing.assert_array_equal(W, before)
    if lifted < 3 and min(values) > 0:  # what was large enough is as it was: W and before agree on those directions
        u, s, vt = np.linalg.svd(before, full_matrices=False)
        keep = s >= 0.01
        np.testing.assert_allclose(u[:, keep].T @ W @ vt[keep].T, np.diag(s[keep]), rtol=1e-9, atol=1e-9 * s[0])


def test_opposite_eigenvalues():
    W = np.array([[0.0, 1.0], [1.0, 0.0]])
    lift_eigenvalues(W, EPS, scratch(2, float))
    np.testing.assert_allclose(np.linalg.eigvalsh(W), [1, 1])


@pytest.mark.parametrize("values", [(2.0, 1.0, 1e-3), (5.0, -0.1, 0.5), (1.0, 1e-4, 1e-4)])
def test_small_eigenvalues_become_one(values):
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    W = (Q * values) @ Q.T
    ws = scratch(3, float)
    lift_eigenvalues(W, EPS, ws)
    expected = sorted(value if value >= 0.01 else 1.0 for value in values)
    np.testing.assert_allclose(np.linalg.eigvalsh(W), expected, rtol=1e-9)
    np.testing.assert_allclose(W, W.T, atol=1e-12)
    assert ws.events[SPECTRUM] == sum(value < 0.01 for value in values)


def test_random_rows_are_standard_normal():
    rng = np.array([12345], dtype=np.int64)
    draws = np.array([standard_normal(rng) for _ in range(4000)])
    assert abs(draws.mean()) < 0.06
    assert abs(draws.std() - 1) < 0.04
    numbers = np.array([uniform(rng) for _ in range(4000)])
    assert 0 < numbers.min() < numbers.max() < 1
    assert abs(numbers.mean() - 0.5) < 0.02
