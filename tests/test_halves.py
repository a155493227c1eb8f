"""Agreement between halves of the samples: matching, standard errors, and the number of sources."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica import BatchNICA
from bionica.offline.halves import agreement, match, splits, uncertainty
from bionica.offline.source_count import count_sources


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


def test_splits_are_disjoint_halves_in_order():
    for first, second in splits(11, 3, np.random.RandomState(0)):
        assert_array_equal(np.sort(np.concatenate([first, second])), range(11))
        assert (np.diff(first) > 0).all() and (np.diff(second) > 0).all()


def test_a_fit_that_fails_does_not_agree():
    def fails(rows):
        raise np.linalg.LinAlgError("singular")

    assert agreement(np.ones((10, 2)), fails) == 90.0
    assert agreement(np.ones((10, 2)), lambda rows: np.eye(2)) == 0.0


def leading(rows):
    """Least squares for x = a s with s the first column: components and mixing of a single source."""
    a = rows.T @ rows[:, 0] / (rows[:, 0] @ rows[:, 0])
    return np.array([[1.0, 0, 0]]), a[:, np.newaxis]


@pytest.mark.parametrize("n", [15, 400])
def test_standard_errors_of_spectra_are_those_of_least_squares(n):
    """Of a linear regression the standard error is known: sigma / sqrt(n <s^2>), for halves and for the jackknife."""
    estimates, true = [], 0.1 / np.sqrt(n / 3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        s = rng.random(n)
        X = s[:, None] * [1.0, 2.0, 3.0] + 0.1 * rng.standard_normal((n, 3)) * [0, 1, 1]
        moved = uncertainty(X, *leading(X), leading, np.zeros(1))
        assert moved.split == ("jackknife" if n < 20 else "random")
        estimates.append(moved.mixing[1:, 0])
    assert np.sqrt(np.mean(np.square(estimates))) == pytest.approx(true, rel=0.35)


def mixtures(kind, T, d, k, snr_db, seed):
    rng = np.random.default_rng(seed)
    draw = {
        "exponential": lambda: rng.exponential(size=(T, d)),
        "sparse": lambda: rng.random((T, d)) * (rng.random((T, d)) < 0.5),
        "abundances": lambda: rng.dirichlet(np.full(d, 0.5), T),
    }
    X = draw[kind]() @ rng.random((d, k))
    return X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (-snr_db / 20)


@pytest.mark.parametrize(
    ("kind", "T", "d", "k", "snr_db"),
    [
        ("exponential", 2000, 3, 10, 30),
        ("sparse", 3000, 5, 12, 25),
        ("abundances", 2000, 4, 30, 25),
        ("sparse", 300, 2, 6, 30),
    ],
)
def test_sources_are_counted(kind, T, d, k, snr_db):
    assert count_sources(mixtures(kind, T, d, k, snr_db, seed=1)).n_sources == d


def test_without_noise_the_rank_ends_the_count():
    rng = np.random.default_rng(0)
    S = rng.random((1000, 4)) * (rng.random((1000, 4)) < 0.5)
    found = count_sources(S @ rng.standard_normal((4, 9)))
    assert found.n_sources == 4
    assert found.angles[5] == 90.0


def test_a_single_source_and_none():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(1000, 1)) @ rng.random((1, 6))
    assert count_sources(X).n_sources == 1
    assert count_sources(X + 0.01 * rng.standard_normal(X.shape)).n_sources == 1
    assert count_sources(np.zeros((10, 3))).n_sources == 1


def test_the_count_does_not_depend_on_units_or_order():
    X = mixtures("sparse", 1000, 3, 8, 30, seed=2)
    assert count_sources(1e-150 * X).n_sources == count_sources(1e100 * X[:, ::-1]).n_sources == 3


@pytest.mark.parametrize("seed", range(4))
def test_clipped_heavy_tails_in_four_mixtures_are_counted(seed):
    rng = np.random.default_rng(seed)
    X = rng.pareto(2.2, (500, 3)) @ rng.standard_normal((3, 4))
    X = np.minimum(X, np.quantile(X, 0.98))
    with pytest.warns():
        nica = BatchNICA("auto", random_state=0).fit(X)
    assert nica.n_components_ == nica.count_.n_sources
    nica.diagnose(X)
