"""The scores against their definitions, written out naively, and against other people's implementations."""

import itertools
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from bionica.metrics import amari_distance, correlation_floor, error_curve, match_sources, permutation_error, sinr

PAPER_IMAGES = Path(__file__).parents[1] / ".." / "shared" / "data" / "natural_images" / "sources.npy"

unhurried = settings(deadline=None, max_examples=50)  # a first example may meet a cold BLAS
seeds = st.integers(0, 2**32 - 1)
few = st.integers(1, 5)


def brute_force_error(S, Y):
    return min(np.mean((S - Y[:, list(p)]) ** 2) for p in itertools.permutations(range(S.shape[1])))


def noisy_copy(rng, n_samples, d, noise=0.3):
    """Sources, and the same in another order with noise; Y[:, order] belongs to S."""
    S = rng.exponential(size=(n_samples, d))
    order = rng.permutation(d)
    Y = np.empty_like(S)
    Y[:, order] = S + noise * rng.standard_normal(S.shape)
    return S, Y, order


# ---------------------------------------------------------------- permutation_error, error_curve


@unhurried
@given(seed=seeds, d=few, n_samples=st.integers(1, 20), offset=st.sampled_from([0.0, 10.0, -1e4]))
def test_permutation_error_is_the_minimum_over_all_permutations(seed, d, n_samples, offset):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n_samples, d)) + offset
    Y = rng.exponential(size=(n_samples, d)) * rng.exponential(size=d) + offset
    assert permutation_error(S, Y) == pytest.approx(brute_force_error(S, Y), rel=1e-10, abs=1e-300)


def test_permutation_error_is_the_minimum_at_d_500():
    rng = np.random.default_rng(0)
    S, Y = rng.random((40, 500)), rng.random((40, 500))  # nothing in common: every assignment is a close call
    cost = cdist(S.T, Y.T, "sqeuclidean")
    best = cost[linear_sum_assignment(cost)].sum() / S.size
    assert permutation_error(S, Y) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_exact_recovery_is_exactly_zero(dtype):
    rng = np.random.default_rng(1)
    S = (100 * rng.exponential(size=(3000, 7))).astype(dtype)
    Y = S[:, rng.permutation(7)]
    assert permutation_error(S, Y) == 0.0
    assert not error_curve(S, Y).any()


def test_tiny_errors_are_not_drowned_by_large_sources():
    rng = np.random.default_rng(2)
    S = 1e6 + rng.random((500, 4))
    delta = 1e-6 * rng.standard_normal(S.shape)
    expected = np.mean(((S + delta) - S) ** 2)
    assert permutation_error(S, (S + delta)[:, [3, 1, 0, 2]]) == pytest.approx(expected, rel=1e-12)


def test_the_permutation_is_found_under_offsets_far_larger_than_the_signal():
    rng = np.random.default_rng(3)
    S, Y, order = noisy_copy(rng, 2000, 6, noise=0.05)
    assert np.array_equal(match_sources(S + 1e9, Y + 1e9).permutation, order)


@unhurried
@given(seed=seeds, d=few, n_samples=st.integers(1, 30))
def test_error_curve_is_the_cumulative_mean(seed, d, n_samples):
    S, Y, _ = noisy_copy(np.random.default_rng(seed), n_samples, d)
    P = match_sources(S, Y).permutation
    naive = [np.mean((S[:t] - Y[:t, P]) ** 2) for t in range(1, n_samples + 1)]
    np.testing.assert_allclose(error_curve(S, Y), naive, rtol=1e-12)


@pytest.mark.parametrize("block", [1, 5, 64, 1 << 19])
def test_curve_ends_at_the_error_to_the_bit_and_blocks_do_not_matter(monkeypatch, block):
    S, Y, _ = noisy_copy(np.random.default_rng(4), 999, 3)
    expected = np.mean((S - Y[:, match_sources(S, Y).permutation]) ** 2)
    monkeypatch.setattr("bionica.metrics.BLOCK_NUMBERS", block)
    curve = error_curve(S, Y)
    assert curve.shape == (999,)
    assert curve[-1] == permutation_error(S, Y)
    assert curve[-1] == pytest.approx(expected, rel=1e-12)


@unhurried
@given(seed=seeds, d=few)
def test_error_does_not_know_the_order_of_sources_outputs_or_samples(seed, d):
    rng = np.random.default_rng(seed)
    S, Y, _ = noisy_copy(rng, 50, d)
    error = permutation_error(S, Y)
    shuffle = rng.permutation(50)
    assert permutation_error(S[:, rng.permutation(d)], Y[:, rng.permutation(d)]) == pytest.approx(error)
    assert permutation_error(S[shuffle], Y[shuffle]) == pytest.approx(error)
    assert permutation_error(Y, S) == pytest.approx(error)


def test_scale_is_not_corrected():
    S = np.random.default_rng(5).exponential(size=(1000, 3))
    assert permutation_error(S, 1.5 * S) == pytest.approx(0.25 * np.mean(S**2))


@pytest.mark.parametrize("score", [permutation_error, sinr, lambda S, Y: correlation_floor(S)])
def test_memory_does_not_grow_with_the_number_of_samples(score):
    S = np.random.default_rng(6).random((1_000_000, 6), dtype=np.float32)  # 48 MB as float64
    Y = S[:, ::-1]
    tracemalloc.start()
    score(S, Y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6


# ---------------------------------------------------------------- match_sources


@pytest.mark.parametrize("by", ["error", "correlation"])
@pytest.mark.parametrize("d", [1, 2, 30, 500])
def test_match_finds_a_planted_permutation(by, d):
    S, Y, order = noisy_copy(np.random.default_rng(d), 600, d, noise=0.2)
    match = match_sources(S, Y, by=by)
    assert np.array_equal(match.permutation, order)
    r = [np.corrcoef(S[:, i], Y[:, order[i]])[0, 1] for i in range(min(d, 30))]
    c = [S[:, i] @ Y[:, order[i]] / (Y[:, order[i]] @ Y[:, order[i]]) for i in range(min(d, 30))]
    np.testing.assert_allclose(match.correlation[:30], r, rtol=1e-10)
    np.testing.assert_allclose(match.scale[:30], c, rtol=1e-10)


@unhurried
@given(seed=seeds, d=st.integers(1, 4), surplus=st.integers(0, 2))
def test_match_by_correlation_is_the_best_of_all_injections(seed, d, surplus):
    rng = np.random.default_rng(seed)
    S, Y = rng.random((12, d)), rng.standard_normal((12, d + surplus))
    R = np.abs(np.corrcoef(S.T, Y.T)[:d, d:])
    best = max(sum(R[i, p[i]] for i in range(d)) for p in itertools.permutations(range(d + surplus), d))
    match = match_sources(S, Y, by="correlation")
    assert len(set(match.permutation)) == d
    assert np.abs(match.correlation).sum() == pytest.approx(best)


@unhurried
@given(seed=seeds)
def test_match_by_correlation_is_blind_to_scale_sign_and_offset(seed):
    rng = np.random.default_rng(seed)
    S, Y, order = noisy_copy(rng, 300, 4, noise=0.1)
    factor = rng.uniform(0.1, 10, 4) * rng.choice([-1, 1], 4)
    plain, changed = (match_sources(S, y, by="correlation") for y in (Y, factor * Y))
    assert np.array_equal(changed.permutation, order)
    np.testing.assert_allclose(changed.scale * factor[order], plain.scale, rtol=1e-10)
    np.testing.assert_allclose(changed.correlation, plain.correlation * np.sign(factor[order]), rtol=1e-10)
    shifted = match_sources(S, Y + 5.0, by="correlation")
    np.testing.assert_allclose(shifted.correlation, plain.correlation, rtol=1e-9)


def test_one_output_is_never_given_to_two_sources():
    rng = np.random.default_rng(7)
    s, other, noise = rng.standard_normal((3, 1000))
    S = np.column_stack([s, s + 0.5 * other])  # both correlate best with output 0
    Y = np.column_stack([s + 0.2 * other, noise])
    assert sorted(match_sources(S, Y, by="correlation").permutation) == [0, 1]


def test_silent_and_constant_outputs_have_no_correlation():
    rng = np.random.default_rng(8)
    S = rng.random((100, 3))
    Y = np.column_stack([np.full(100, 0.1), np.zeros(100), S[:, 0]])
    match = match_sources(S, Y, by="correlation")
    assert match.permutation[0] == 2
    assert sorted(match.correlation)[:2] == [0, 0]
    silent = int(np.flatnonzero(match.permutation == 1)[0])
    assert match.scale[silent] == 0
    flat = np.column_stack([np.full(100, 0.1), S[:, 0]])
    assert match_sources(flat, S[:, :2], by="correlation").correlation[0] == 0


# ---------------------------------------------------------------- sinr


def dB(ratio):
    return 10 * np.log10(ratio)


@pytest.mark.parametrize("center", [False, True])
def test_sinr_is_signal_power_over_residual_power(center):
    rng = np.random.default_rng(9)
    S, Y, order = noisy_copy(rng, 400, 4)
    s, y = S, Y[:, order]
    if center:
        s, y = s - s.mean(axis=0), y - y.mean(axis=0)
    c = [np.linalg.lstsq(y[:, [i]], s[:, i], rcond=None)[0][0] for i in range(4)]
    power, residual = (s**2).sum(axis=0), ((s - c * y) ** 2).sum(axis=0)
    assert sinr(S, Y, center=center) == pytest.approx(dB(power.sum() / residual.sum()), rel=1e-12)
    np.testing.assert_allclose(sinr(S, Y, center=center, per_source=True), dB(power / residual), rtol=1e-12)
    cosine = (s * y).sum(axis=0) / np.linalg.norm(s, axis=0) / np.linalg.norm(y, axis=0)
    np.testing.assert_allclose(sinr(S, Y, center=center, per_source=True), dB(1 / (1 - cosine**2)), rtol=1e-9)


@unhurried
@given(seed=seeds, surplus=st.integers(0, 2))
def test_sinr_is_blind_to_scale_order_and_surplus_outputs(seed, surplus):
    rng = np.random.default_rng(seed)
    S, Y, _ = noisy_copy(rng, 200, 3, noise=0.2)
    factor = rng.uniform(0.1, 10, 3) * rng.choice([-1, 1], 3)
    changed = np.hstack([factor * Y, 1e-3 * rng.standard_normal((200, surplus))])
    assert sinr(S, changed[:, rng.permutation(3 + surplus)]) == pytest.approx(sinr(S, Y), rel=1e-9)


@pytest.mark.parametrize("level", [0, 10, 20, 40])
def test_sinr_reads_the_level_of_added_noise(level):
    rng = np.random.default_rng(10)
    S = rng.exponential(size=(100_000, 2))
    noise = rng.standard_normal(S.shape) * np.sqrt(np.mean(S**2, axis=0) / 10 ** (level / 10))
    # A fitted scale gains a little on loud noise: 1 + SNR in place of SNR.
    assert sinr(S, S + noise) == pytest.approx(dB(1 + 10 ** (level / 10)), abs=0.1)


def test_sinr_of_perfect_and_of_silent_outputs():
    rng = np.random.default_rng(11)
    S = rng.exponential(size=(1000, 3))
    assert sinr(S, S) > 280
    assert sinr(S, S[:, [1, 2, 0]] * [3, 0.7, 1e-5]) > 280
    assert sinr(np.eye(4), np.eye(4)) == np.inf
    Y = S.copy()
    Y[:, 1] = 0
    ratios = sinr(S, Y, per_source=True)
    assert ratios[1] == 0
    assert ratios[[0, 2]].min() > 280
    assert sinr(S, Y) == pytest.approx(dB((S**2).sum() / (S[:, 1] ** 2).sum()))
    assert sinr(S, np.zeros_like(S)) == 0


@unhurried
@given(seed=seeds, center=st.booleans())
def test_sinr_is_never_negative(seed, center):
    rng = np.random.default_rng(seed)
    S, Y = rng.random((50, 3)), rng.standard_normal((50, 3))
    assert sinr(S, Y, center=center) > 0
    # Outputs orthogonal to every source, to rounding: here rounding alone decides on which side of 0 dB.
    Y -= S @ np.linalg.lstsq(S, Y, rcond=None)[0]
    assert (sinr(S, Y, center=center, per_source=True) >= 0).all()


def test_centering_makes_sinr_blind_to_offsets_and_costs_the_mean():
    rng = np.random.default_rng(12)
    S = np.sqrt(12) * rng.random((50_000, 2))  # mean^2 is three times the variance
    Y = S + 0.01 * rng.standard_normal(S.shape)
    assert sinr(S, Y + 100, center=True) == pytest.approx(sinr(S, Y, center=True), rel=1e-9)
    assert sinr(S, Y + 1) < sinr(S, Y) - 10
    assert sinr(S, Y) - sinr(S, Y, center=True) == pytest.approx(dB(4), abs=0.05)


@pytest.fixture
def separation():
    """mir_eval's BSS Eval: deprecated there since 0.8, and announced to be removed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("mir_eval.separation")
        if not hasattr(module, "bss_eval_sources"):
            pytest.skip("this mir_eval has no bss_eval_sources")
        yield module


def test_sinr_agrees_with_mir_eval_at_one_tap(separation):
    S, Y, order = noisy_copy(np.random.default_rng(13), 2000, 3)
    ours = sinr(S, Y, per_source=True)
    for i in range(3):
        parts = separation._bss_decomp_mtifilt(S.T, Y[:, order[i]], i, 1)
        si_sdr = separation._bss_source_crit(*parts)[0]
        assert 10 ** (ours[i] / 10) == pytest.approx(1 + 10 ** (si_sdr / 10), rel=1e-9)


def test_sinr_and_order_stand_beside_bss_eval(separation):
    rng = np.random.default_rng(14)
    S, Y, order = noisy_copy(rng, 6000, 2, noise=0.1)
    S, Y = S - S.mean(axis=0), Y - Y.mean(axis=0)
    sdr, _, _, permutation = separation.bss_eval_sources(S.T, Y.T)
    si_sdr = dB(10 ** (sinr(S, Y, per_source=True) / 10) - 1)
    assert np.array_equal(permutation, order)
    assert np.array_equal(permutation, match_sources(S, Y, by="correlation").permutation)
    # 512 taps can only explain more, and with white sources explain little more.
    assert (sdr >= si_sdr - 1e-9).all()
    np.testing.assert_allclose(sdr, si_sdr, atol=0.6)


# ---------------------------------------------------------------- amari_distance


def scaled_permutation(rng, d):
    return (np.diag(rng.uniform(0.1, 10, d) * rng.choice([-1, 1], d)))[rng.permutation(d)]


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


@unhurried
@given(seed=seeds, d=st.integers(2, 8), exponent=st.integers(-40, -1))
def test_amari_is_zero_for_scaled_permutations_only(seed, d, exponent):
    rng = np.random.default_rng(seed)
    P = scaled_permutation(rng, d)
    assert amari_distance(P) == 0
    i, j = np.argwhere(P == 0)[0]
    P[i, j] = 10.0**exponent
    assert amari_distance(P) > 0


@pytest.mark.parametrize(
    ("P", "value"),
    [
        ([[1, 0.25], [0.25, 1]], 0.25),
        (np.ones((5, 5)), 1),
        ([[2.0]], 0),
        ([[0.0]], 1),
        (np.zeros((3, 3)), 1),
        # A dead output: its row counts 1 = d - 1, its source's column as well, the rest nothing.
        ([[1, 0], [0, 0]], (1 + 1) / 4),
        # Two outputs with one source, which leaves the other source unseen.
        ([[1, 0], [1, 0]], (1 + 1) / 4),
    ],
)
def test_amari_known_values(P, value):
    assert amari_distance(P) == pytest.approx(value)


# ---------------------------------------------------------------- correlation_floor


def whiten(C):
    """C^(-1/2), symmetric."""
    w, U = np.linalg.eigh(C)
    return (U / np.sqrt(w)) @ U.T


def colored(rng, n_samples, C, mean=0.0):
    """Samples whose covariance (with 1/n) is C exactly."""
    Z = rng.standard_normal((n_samples, len(C)))
    Z -= Z.mean(axis=0)
    Z = Z @ whiten(Z.T @ Z / n_samples)
    return Z @ np.linalg.cholesky(C).T + mean


@unhurried
@given(seed=seeds, d=few)
def test_floor_is_the_distance_to_the_noncentered_zca_whitening(seed, d):
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(100, d)) @ rng.random((d, d)) + 0.1 * rng.random((100, d))
    W = S @ whiten(np.atleast_2d(np.cov(S.T, bias=True)))
    np.testing.assert_allclose(np.cov(W.T, bias=True).reshape(d, d), np.eye(d), atol=1e-8)
    assert correlation_floor(S) == pytest.approx(np.mean((S - W) ** 2), rel=1e-7)


@pytest.mark.parametrize("r", [-0.9, -0.1, 0.0, 0.3, 0.8])
def test_floor_of_two_correlated_sources(r):
    S = colored(np.random.default_rng(15), 500, np.array([[1, r], [r, 1]]))
    expected = ((np.sqrt(1 + r) - 1) ** 2 + (np.sqrt(1 - r) - 1) ** 2) / 2
    assert correlation_floor(S) == pytest.approx(expected, rel=1e-9, abs=1e-25)
    # S + 2 has mean (2, 2), which the whitening shrinks by 1/sqrt(1 + r).
    assert correlation_floor(S + 2) == pytest.approx(expected + (2 - 2 / np.sqrt(1 + r)) ** 2, rel=1e-9, abs=1e-25)


def test_no_other_whitening_is_closer():
    rng = np.random.default_rng(16)
    C = np.array([[1, 0.4, -0.2], [0.4, 1, 0.3], [-0.2, 0.3, 1]])
    S = colored(rng, 400, C)
    for _ in range(50):
        rotation = np.linalg.qr(np.eye(3) + 0.1 * rng.standard_normal((3, 3)))[0]
        assert np.mean((S - S @ whiten(C) @ rotation) ** 2) > correlation_floor(S)


def test_floor_does_not_depend_on_order():
    S = np.random.default_rng(17).exponential(size=(200, 4))
    assert correlation_floor(S[::-1, [2, 0, 3, 1]]) == pytest.approx(correlation_floor(S))


def test_floor_of_the_synthetic_sources():
    rng = np.random.default_rng(18)
    floors = [correlation_floor(np.maximum(0, rng.uniform(-1, 1, (100_000, 3))) * np.sqrt(48 / 5)) for _ in range(5)]
    assert 2e-6 < np.mean(floors) < 5e-5


@pytest.mark.skipif(not PAPER_IMAGES.exists(), reason=f"{PAPER_IMAGES.name} of the paper is not here")
def test_floor_of_the_papers_images():
    assert correlation_floor(np.load(PAPER_IMAGES).T) == pytest.approx(0.0326, abs=5e-5)


# ---------------------------------------------------------------- what is refused, and what is left alone

S3 = np.arange(12.0).reshape(4, 3) ** 2 % 7
NAN = np.where(np.arange(12).reshape(4, 3) == 7, np.nan, S3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: permutation_error(S3, S3[:, :2]),
            r"Y has 2 columns and S has 3: some sources have no output",
        ),
        (lambda: permutation_error(S3[:, :2], S3), r"Y has 3 columns and S has 2: .*match_sources"),
        (lambda: error_curve(S3[:, :2], S3), r"Y has 3 columns and S has 2"),
        (lambda: match_sources(S3[:, :2], S3), r"Y has 3 columns and S has 2"),
        (lambda: match_sources(S3, S3[:, :2], by="correlation"), r"Y has 2 columns and S has 3"),
        (lambda: sinr(S3, S3[:, :2]), r"Y has 2 columns and S has 3"),
        (lambda: permutation_error(S3, S3.T), r"Y has 3 rows and S has 4: rows are samples: transpose"),
        (lambda: permutation_error(S3, S3[:2]), r"Y has 2 rows and S has 4: compare"),
        (lambda: permutation_error(S3[:, 0], S3), r"S has shape \(4,\).*reshape\(-1, 1\)"),
        (lambda: permutation_error(S3[:0], S3[:0]), r"S has shape \(0, 3\) and is empty"),
        (lambda: permutation_error(S3, NAN), r"Y\[2\] holds nan"),
        (lambda: permutation_error(S3, S3 * 1e200), r"Y\[0\] holds .*diverges"),
        (lambda: permutation_error(S3 + 1j, S3), r"S has dtype complex128"),
        (lambda: match_sources(S3, S3, by="scale"), r"by='scale' is unknown"),
        (lambda: sinr(S3 * [1, 0, 1], S3), r"S\[:, 1\] is zero throughout"),
        (lambda: sinr(S3 * [1, 0, 1] + 0.1, S3, center=True), r"S\[:, 1\] is constant"),
        (lambda: amari_distance(S3), r"P has shape \(4, 3\) and must be square"),
        (lambda: amari_distance([[np.inf]]), r"P\[0\] holds inf"),
        (
            lambda: correlation_floor(S3[:, [0, 1, 1]]),
            r"S has a singular covariance \(4 samples, 3 sources\)",
        ),
        (lambda: correlation_floor(S3[:1]), r"singular covariance"),
    ],
)
def test_errors_name_the_parameter_and_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@unhurried
@given(seed=seeds)
def test_arguments_are_left_alone_and_may_be_lists_views_or_float32(seed):
    S, Y, _ = noisy_copy(np.random.default_rng(seed), 30, 3)
    copies = S.copy(), Y.copy()
    S.flags.writeable = Y.flags.writeable = False
    for score in (permutation_error, sinr):
        value = score(S, Y)
        assert score(S.tolist(), Y.tolist()) == value
        assert score(np.asfortranarray(S), Y[:, ::-1]) == pytest.approx(value)
        assert score(S.astype(np.float32), Y.astype(np.float32)) == pytest.approx(value, rel=1e-4)
    match_sources(S, Y), error_curve(S, Y), correlation_floor(S)
    assert np.array_equal(S, copies[0])
    assert np.array_equal(Y, copies[1])
