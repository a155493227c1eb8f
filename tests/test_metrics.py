"""The scores against their definitions, written out naively, and against other people's
implementations.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm

from bionica import metrics
from bionica.metrics import (
    amari_distance,
    correlation_floor,
    error_curve,
    match_sources,
    permutation_error,
    sinr,
)

# a first example may meet a cold BLAS
unhurried = settings(deadline=None, max_examples=50)
seeds = st.integers(0, 2**32 - 1)
few = st.integers(1, 5)


def brute_force_error(S, Y):
    return min(
        np.mean((S - Y[:, list(p)]) ** 2)
        for p in itertools.permutations(range(S.shape[1]))
    )


def noisy_copy(rng, n_samples, d, noise=0.3):
    """Sources, and the same in another order with noise; Y[:, order] belongs to S."""
    S = rng.exponential(size=(n_samples, d))
    order = rng.permutation(d)
    Y = np.empty_like(S)
    Y[:, order] = S + noise * rng.standard_normal(S.shape)
    return S, Y, order


@unhurried
@given(
    seed=seeds,
    d=few,
    n_samples=st.integers(1, 20),
    offset=st.sampled_from([0.0, 10.0, -1e4]),
)
def test_permutation_error_is_the_minimum_over_all_permutations(
    seed, d, n_samples, offset
):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n_samples, d)) + offset
    Y = rng.exponential(size=(n_samples, d)) * rng.exponential(size=d) + offset
    assert permutation_error(S, Y) == pytest.approx(
        brute_force_error(S, Y), rel=1e-10, abs=1e-300
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_exact_recovery_is_exactly_zero(dtype, rng):
    S = (100 * rng.exponential(size=(3000, 7))).astype(dtype)
    Y = S[:, rng.permutation(7)]
    assert permutation_error(S, Y) == 0.0
    assert not error_curve(S, Y).any()


@unhurried
@given(seed=seeds, d=few, n_samples=st.integers(1, 30))
def test_error_curve_is_the_cumulative_mean(seed, d, n_samples):
    S, Y, _ = noisy_copy(np.random.default_rng(seed), n_samples, d)
    P = match_sources(S, Y).permutation
    naive = [np.mean((S[:t] - Y[:t, P]) ** 2) for t in range(1, n_samples + 1)]
    assert_allclose(error_curve(S, Y), naive, rtol=1e-12)
    assert error_curve(S, Y)[-1] == permutation_error(S, Y)


@unhurried
@given(seed=seeds, d=st.integers(1, 4), surplus=st.integers(0, 2))
def test_match_by_correlation_is_the_best_of_all_injections(seed, d, surplus):
    rng = np.random.default_rng(seed)
    S = rng.random((12, d))
    Y = rng.standard_normal((12, d + surplus))
    R = np.abs(np.corrcoef(S.T, Y.T)[:d, d:])
    best = max(
        sum(R[i, p[i]] for i in range(d))
        for p in itertools.permutations(range(d + surplus), d)
    )
    match = match_sources(S, Y, by="correlation")
    assert len(set(match.permutation)) == d
    assert np.abs(match.correlation).sum() == pytest.approx(best)


@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_a_match_follows_the_unit_of_the_outputs(unit):
    S, Y, order = noisy_copy(np.random.default_rng(2), 50, 3)
    plain, scaled = (match_sources(S, y, by="correlation") for y in (Y, unit * Y))
    assert_array_equal(scaled.permutation, order)
    assert_allclose(scaled.correlation, plain.correlation, rtol=1e-9)
    assert_allclose(scaled.scale * unit, plain.scale, rtol=1e-9)
    assert plain.scale.min() > 0.5


def dB(ratio):
    return 10 * np.log10(ratio)


def test_sinr_is_signal_power_over_residual_power(rng):
    S, Y, order = noisy_copy(rng, 400, 4)
    s = S
    y = Y[:, order]
    c = np.sum(s * y, axis=0) / np.sum(y**2, axis=0)
    power = (s**2).sum(axis=0)
    residual = ((s - c * y) ** 2).sum(axis=0)
    assert sinr(S, Y) == pytest.approx(dB(power.sum() / residual.sum()), rel=1e-12)
    assert_allclose(sinr(S, Y, per_source=True), dB(power / residual), rtol=1e-12)


@unhurried
@given(seed=seeds, surplus=st.integers(0, 2))
def test_sinr_is_blind_to_scale_order_and_surplus_outputs(seed, surplus):
    rng = np.random.default_rng(seed)
    S, Y, _ = noisy_copy(rng, 200, 3, noise=0.2)
    factor = rng.uniform(0.1, 10, 3) * rng.choice([-1, 1], 3)
    changed = np.hstack([factor * Y, 1e-3 * rng.standard_normal((200, surplus))])
    assert sinr(S, changed[:, rng.permutation(3 + surplus)]) == pytest.approx(
        sinr(S, Y), rel=1e-9
    )


def test_sinr_of_perfect_and_of_silent_outputs(rng):
    S = rng.exponential(size=(1000, 3))
    assert sinr(S, S) > 280
    assert sinr(np.eye(4), np.eye(4)) == np.inf
    Y = S.copy()
    Y[:, 1] = 0
    ratios = sinr(S, Y, per_source=True)
    assert ratios[1] == 0
    assert ratios[[0, 2]].min() > 280
    assert sinr(S, np.zeros_like(S)) == 0


def naive_amari(P):
    P, d = np.abs(P), len(P)
    rows = sum(P[i].sum() / P[i].max() - 1 for i in range(d))
    columns = sum(P[:, j].sum() / P[:, j].max() - 1 for j in range(d))
    return (rows + columns) / (2 * d * (d - 1))


@unhurried
@given(seed=seeds, d=st.integers(2, 8))
def test_amari_is_its_definition_between_0_and_1_and_invariant(seed, d):
    rng = np.random.default_rng(seed)
    P = rng.standard_normal((d, d))
    value = amari_distance(P)
    assert value == pytest.approx(naive_amari(P))
    assert 0 < value < 1
    signs = rng.choice([-1, 1], (d, d))
    for Q in (P[rng.permutation(d)], P[:, rng.permutation(d)], P.T, -3 * P, signs * P):
        assert amari_distance(Q) == pytest.approx(value)


# A dead output, or two outputs with one source, which leaves the other unseen: its row
# or column counts d - 1.
@pytest.mark.parametrize(
    ("P", "value"),
    [
        ([[1, 0.25], [0.25, 1]], 0.25),
        ([[1, 0], [0, 0]], 0.5),
        ([[1, 0], [1, 0]], 0.5),
        ([[0.0]], 1),
        ([[2.0]], 0),
    ],
)
def test_amari_known_values(P, value):
    assert amari_distance(P) == pytest.approx(value)


@unhurried
@given(seed=seeds, d=few)
def test_floor_is_the_distance_to_the_noncentered_zca_whitening(seed, d):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(100, d)) @ rng.random((d, d)) + 0.1 * rng.random((100, d))
    W = S @ np.linalg.inv(sqrtm(np.atleast_2d(np.cov(S.T, bias=True))))
    assert_allclose(np.cov(W.T, bias=True).reshape(d, d), np.eye(d), atol=1e-8)
    assert correlation_floor(S) == pytest.approx(np.mean((S - W) ** 2), rel=1e-7)


def test_the_spectral_angle_is_that_of_every_assignment_tried(rng):
    A = rng.random((3, 7))
    B = rng.random((4, 7))
    cosine = (A @ B.T) / np.linalg.norm(A, axis=1)[:, None] / np.linalg.norm(B, axis=1)
    best = min(
        np.arccos(cosine[range(3), order]).mean()
        for order in itertools.permutations(range(4), 3)
    )
    assert_allclose(metrics.spectral_angle(A, B), best, rtol=1e-12)
    tiny = A + 1e-9 * rng.standard_normal(A.shape)  # arccos would return 0 or 1e-8
    unit, moved = (M / np.linalg.norm(M, axis=1)[:, np.newaxis] for M in (A, tiny))
    expected = np.linalg.norm(moved - unit, axis=1)
    found = metrics.spectral_angle(A, 7 * tiny[::-1], per_source=True)
    assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(
        ValueError, match=r"spectra has shape \(3, 7\) and estimates \(2, 7\)"
    ):
        metrics.spectral_angle(A, B[:2])


def test_the_error_of_abundances(rng):
    S = rng.dirichlet([1, 1, 1], 50)
    Y = S + 0.1 * rng.random(S.shape)
    shares = Y / Y.sum(axis=1, keepdims=True)
    expected = np.sqrt(np.mean((S - shares) ** 2))
    assert_allclose(metrics.rmse_abundances(S, 5 * Y[:, [1, 2, 0]]), expected)
    assert metrics.rmse_abundances(S[:1], np.zeros((1, 3))) == pytest.approx(
        np.sqrt(np.mean(S[0] ** 2))
    )
    metrics.rmse_abundances(1.009 * S, Y)
    with pytest.raises(ValueError, match=r"S\[\d+\] sums to 1.01,"):
        metrics.rmse_abundances(1.011 * S, Y)
    with pytest.raises(ValueError, match=r"Y\[0, 0\] is -"):
        metrics.rmse_abundances(S, -Y)


def test_a_constant_output_is_correlated_with_nothing(rng):
    S = rng.random((100, 2))
    match = match_sources(
        S, np.column_stack([S[:, 1], np.full(100, 0.1)]), by="correlation"
    )
    assert_allclose(match.correlation, [0, 1])
    assert list(match.permutation) == [1, 0]


ONES = np.ones((5, 3))
ZERO = np.ones((5, 3)) * [1, 0, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: permutation_error(ONES, ONES.T),
            "Y has 3 rows and S has 5: rows are samples: transpose it",
        ),
        (
            lambda: permutation_error(ONES, ONES[:, :2]),
            r"Y has 2 columns and S has 3: .*S\[:, :2\]$",
        ),
        (
            lambda: permutation_error(ONES[:, :2], ONES),
            r"Y has 3 columns and S has 2: .*Y\[:, match_sources",
        ),
        (
            lambda: permutation_error(ONES, ONES[1:]),
            "Y has 4 rows and S has 5: compare the samples that both hold",
        ),
        (
            lambda: permutation_error(1.1e140 * ONES, ONES),
            r"S holds 1.1e\+140: the network diverged",
        ),
        (lambda: amari_distance(ONES), r"P has shape \(5, 3\) and must be square"),
        (
            lambda: correlation_floor(ONES),
            r"singular covariance \(5 samples, 3 sources\)",
        ),
        (lambda: match_sources(ONES, ONES, by="scale"), "by='scale' is unknown"),
        (lambda: sinr(ZERO, ONES), r"S\[:, 1\] is zero"),
    ],
)
def test_errors_say_what_to_change(call, message):
    assert permutation_error(0.9e140 * ONES, 0.9e140 * ONES) == 0
    with pytest.raises(ValueError, match=message):
        call()


def test_metrics_take_what_estimators_take():
    S = np.ma.masked_array(np.ones((3, 2)), mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(
        ValueError, match=r"S\[1, 1\] is NaN. bionica.metrics needs finite numbers"
    ):
        metrics.permutation_error(S, np.ones((3, 2)))
    assert metrics.permutation_error(np.ones((3, 2), ">f4"), np.ones((3, 2))) == 0
