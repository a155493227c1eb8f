"""Outliers: a fit with them is the fit without these rows; sound data lose no row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica import BatchNICA, NoncenteredWhitener
from bionica.core.blocks import moments
from bionica.core.whitening import whitening
from bionica.datasets import random_sources
from bionica.mixtures.verdict.outliers import (
    are_inliers,
    is_inlier,
    metric,
    without_outliers,
)

T = 20_000


def mixed(kind="exponential", n_samples=T, d=4, k=None, seed=0):
    S = random_sources(kind, n_samples, d, rng=seed)
    return S, S @ np.random.default_rng(seed + 1).standard_normal((d, k or d))


def spoiled(X, how, size, seed=0):
    """X with one outlier, or 1 in 1,000; and which rows they are."""
    rng = np.random.default_rng(seed)
    X = X.copy()
    n = 1 if how == "one" else len(X) // 1000
    rows = rng.choice(len(X), n, replace=False)
    if how == "gaussian":
        X[rows] = size * X.std() * rng.standard_normal((n, X.shape[1]))
    elif how == "channel":
        X[rows, 0] += size * X.std()
    elif how == "decades":
        X[rows] *= np.geomspace(100, size, n)[:, np.newaxis]
    else:
        X[rows] *= size
    return X, np.isin(np.arange(len(X)), rows)


HOW = [
    ("one", 1e12),
    ("many", 1e3),
    ("many", 1e12),
    ("decades", 1e12),
    ("gaussian", 100),
    ("channel", 1e3),
]


@pytest.mark.parametrize(
    "kind", ["odor", "sparse_uniform", "exponential", "half_normal", "gamma"]
)
@pytest.mark.parametrize("n", [200, 1000, 10_000])
def test_sound_data_lose_no_sample(kind, n):
    for seed in range(10):
        for d, k in ((1, 1), (3, 3), (5, 12)):
            X = mixed(kind, n, d, k, seed)[1]
            seen = moments(X)
            rows, same = without_outliers(X, seen, d)
            assert rows is X and same is seen


# squares of the outer two are no float64
@pytest.mark.parametrize("unit", [2.0**-600, 1.0, 2.0**600])
def test_outliers_are_found_in_every_unit(unit):
    X, is_outlier = spoiled(mixed()[1], "many", 1e3)
    assert_array_equal(are_inliers(unit * X), ~is_outlier)


@pytest.mark.parametrize("n", [1000, 4000])
def test_outliers_of_many_features_are_found_in_the_units_of_each(n, rng):
    """40 are projected on 32 directions: all of them with 4000 samples, 20 and the
    distance outside with 1000; one is constant.
    """
    X, is_outlier = spoiled(mixed(n_samples=n, d=40)[1], "channel", 1e3)
    X[:, 7] = 3.0
    units = 2.0 ** rng.integers(-30, 30, 40)
    units[0] = 2.0**-30  # of the outliers
    assert_array_equal(are_inliers(X), ~is_outlier)
    assert_array_equal(are_inliers(units * X), ~is_outlier)


@pytest.mark.parametrize(("how", "size"), HOW)
@pytest.mark.parametrize(("kind", "k"), [("sparse_uniform", 4), ("exponential", 9)])
def test_moments_are_those_of_the_other_rows(kind, k, how, size):
    clean = mixed(kind, k=k)[1]
    X, is_outlier = spoiled(clean, how, size)
    rows, seen = without_outliers(X, moments(X), 4)
    lost = ~is_inlier(X, rows.limit)
    assert np.sum(lost & ~is_outlier) <= 6  # sound samples
    # Outliers that remain are of the size of sound samples: X times 1e3 may still be
    # small.
    sane = moments(clean[~lost])
    F = whitening(sane, 4).matrix
    assert np.abs(F @ (seen.mean - sane.mean)).max() < 1e-3
    assert_allclose(F @ seen.covariance @ F.T, np.eye(4), atol=0.02)


# a source of 20 samples
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_samples_that_alone_show_a_source_are_kept():
    X = mixed("sparse_uniform")[1]
    X[:, 3] = 0
    X[::1000, 3] = 5.0
    assert without_outliers(X, moments(X), 4)[0] is X
    assert BatchNICA(robust=False, random_state=0).fit(X).components_.shape == (4, 4)


def test_the_fit_is_that_of_the_other_rows():
    X, is_outlier = spoiled(mixed("sparse_uniform")[1] + 0.0, "gaussian", 1e6)
    found = BatchNICA(random_state=0, tol=1e-8).fit(X)
    best = BatchNICA(random_state=0, tol=1e-8).fit(X[~is_outlier])
    assert found.n_outliers_ == is_outlier.sum()
    assert_allclose(found.components_, best.components_, atol=1e-6)
    assert_allclose(found.mean_, best.mean_, rtol=1e-10)
    assert found.negativity_ == pytest.approx(best.negativity_, rel=1e-3)
    assert_array_equal(found.fit_transform(X), found.transform(X))


def test_the_whitener_is_robust_if_asked():
    X, is_outlier = spoiled(mixed()[1], "gaussian", 1e6)
    found = NoncenteredWhitener(robust=True).fit(X).components_
    best = NoncenteredWhitener().fit(X[~is_outlier]).components_
    naive = NoncenteredWhitener().fit(X).components_
    assert_allclose(found, best, rtol=0.02, atol=0.02)
    assert np.abs(naive).max() < 1e-3 * np.abs(best).max()


def test_the_least_distance_outside_the_signal_follows_the_unit(rng):
    X = mixed(k=9)[1] + 0.1 * rng.standard_normal((1, 9))
    floors = [metric(unit * X, 4).outside.floor for unit in (1.0, 1024.0)]
    assert floors[1] == pytest.approx(1024.0**2 * floors[0], rel=1e-6)
