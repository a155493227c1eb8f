"""The number of sources in mixtures with noise of any kind, and what a user is told about it."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bionica import BatchNICA, MinimumVolumeCone, StreamingNICA, TwoCompartmentNICA
from bionica.datasets import sparse_uniform
from bionica.estimators._source_count import warn_of_count
from bionica.estimators.network import spectrum
from bionica.offline.cone.noise import eigenvalues as second_moment_eigenvalues
from bionica.offline.outliers import inliers_of
from bionica.offline.source_count import count_sources, representative
from bionica.offline.whitening import moments, whitening

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from real_data_cases.counting_problems import chemistry


def second_moment_spectrum(X):
    x = inliers_of(X)
    return count_sources(representative(x) / np.abs(x).max(), second_moment_eigenvalues(x), centred=False)


def covariance_spectrum(X):
    seen = moments(X)
    return count_sources(X, whitening(seen, precision=X.dtype).eigenvalues, seen)


def both(X):
    return covariance_spectrum(X).n_sources, second_moment_spectrum(X).n_sources


def sound(found, d):
    return found.n_sources == found.alternative == np.sum(found.excess > 1) == d


def smooth_spectra(rng, d, k):
    x = np.linspace(0, 1, k)[:, None]
    return np.exp(-0.5 * ((x - np.linspace(0.2, 0.8, d)) / 0.12) ** 2)


@pytest.mark.parametrize("d", [1, 3, 6])
def test_sources_above_white_noise_are_counted(d):
    rng = np.random.default_rng(d)
    for _ in range(10):
        X = rng.exponential(size=(5000, d)) @ rng.standard_normal((d, 12)) + 0.1 * rng.standard_normal((5000, 12))
        assert sound(covariance_spectrum(X), d)


@pytest.mark.parametrize(("d", "k", "n"), [(3, 10, 60), (5, 30, 1000), (10, 100, 300), (10, 20, 20_000)])
def test_noise_that_differs_between_channels_is_not_counted(d, k, n):
    rng = np.random.default_rng(k)
    X = sparse_uniform(n, d, rng=rng) @ rng.standard_normal((d, k))
    level = np.exp(rng.uniform(0, np.log(30), k))
    X += 0.1 * X.std() * level / level.mean() * rng.standard_normal(X.shape)
    assert both(X) == (d, d)


@pytest.mark.parametrize("n", [300, 3000, 20_000])
def test_counts_with_the_noise_of_poisson(n):
    rng = np.random.default_rng(n)
    S = rng.gamma(0.3, size=(n, 4))
    X = S @ smooth_spectra(rng, 4, 100).T
    X = rng.poisson(X * 100 * X.mean() / np.mean(X**2)).astype(float)  # 20 dB
    assert both(X) == (4, 4)


@pytest.mark.parametrize(("n", "seed"), [(1000, 1), (1000, 4), (3000, 9)])
def test_a_dark_channel_of_counts_is_no_source(n, seed):
    """Its noise is all of its variance, and factor analysis from white noise took it for a source of its own."""
    assert both(chemistry("fluorescence", "Poisson 20 dB", n)(np.random.default_rng(seed))) == (4, 4)


def test_channels_with_few_counts_do_not_make_a_source():
    """Factor analysis that begins at the noise for fewer sources only has another optimum here."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 30)[:, None]
    spectra = np.exp(-0.5 * (np.log(np.maximum(x - np.linspace(0.1, 0.5, 4) + 0.15, 0.01) / 0.15) / 0.35) ** 2)
    X = np.maximum(rng.normal(size=(3000, 4)) - 0.5, 0) @ spectra.T
    assert both(rng.poisson(X * 100 * X.mean() / np.mean(X**2)).astype(float)) == (4, 4)


def test_sources_that_sum_to_one_have_one_direction_more_than_the_covariance():
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.full(4, 0.5), 2000) @ smooth_spectra(rng, 4, 60).T
    assert both(X) == (3, 4)
    X += 0.02 * rng.standard_normal(X.shape)
    assert both(X) == (3, 4)
    assert both(np.maximum(X, 0)) == (3, 4)


def test_fewer_samples_than_channels():
    rng = np.random.default_rng(1)
    X = sparse_uniform(120, 5, rng=rng) @ rng.standard_normal((5, 1100))
    X += 0.3 * np.exp(rng.uniform(0, 2, 1100)) * rng.standard_normal(X.shape)
    nica = BatchNICA("auto", random_state=0)
    assert nica.fit(X).components_.shape == (5, 1100)
    assert second_moment_spectrum(X).n_sources == 5


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_without_noise_the_rank_counts(dtype):
    rng = np.random.default_rng(2)
    S = rng.exponential(size=(1000, 4))
    for A in (rng.standard_normal((4, 10)), rng.standard_normal((4, 4)), np.linalg.qr(rng.standard_normal((4, 4)))[0]):
        assert both((S @ A).astype(dtype)) == (4, 4)
    assert both(np.round(100 * S @ rng.standard_normal((4, 12))).astype(dtype)) == (4, 4)


def test_without_a_visible_floor_every_direction_counts():
    X = np.random.default_rng(3).standard_normal((1000, 6))
    for columns in (1, 2, 6):
        found = covariance_spectrum(X[:, :columns])
        assert found.n_sources == columns
        assert found.noise_floor == 0


def test_three_mixtures_of_three_sources():
    """One factor fits any three channels."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        assert both(sparse_uniform(2000, 3, rng=rng) @ rng.standard_normal((3, 3))) == (3, 3)


def test_a_constant_channel_and_a_silent_one_change_nothing():
    rng = np.random.default_rng(4)
    X = rng.exponential(size=(1000, 3)) @ rng.random((3, 10)) + 0.02 * rng.standard_normal((1000, 10))
    assert both(np.hstack([X, np.full((1000, 1), 0.1), np.zeros((1000, 1))]))[0] == 3
    assert both(np.hstack([X, np.zeros((1000, 2))])) == (3, 3)


def test_a_count_does_not_depend_on_units():
    rng = np.random.default_rng(5)
    X = rng.exponential(size=(2000, 4)) @ rng.random((4, 12)) + 0.05 * rng.standard_normal((2000, 12))
    unit = 10.0 ** rng.uniform(-4, 4, 12)
    found, scaled = covariance_spectrum(X), covariance_spectrum(X * unit)
    assert scaled.n_sources == 4
    np.testing.assert_allclose(scaled.excess, found.excess, rtol=1e-6)


def products_of_sources(rng):
    """Sources that do not add up exactly: products of them leave weak directions."""
    S = rng.exponential(size=(3000, 4))
    pairs = np.stack([S[:, i] * S[:, j] for i in range(4) for j in range(i)] + [S[:, i] ** 2 for i in range(4)], axis=1)
    strength = 0.03 * 0.7 ** np.arange(pairs.shape[1])
    X = S @ rng.random((4, 60)) + pairs * strength @ rng.random((pairs.shape[1], 60))
    return X + 0.05 * rng.standard_normal(X.shape)


def test_weak_directions_behind_an_elbow_are_an_alternative():
    found = covariance_spectrum(products_of_sources(np.random.default_rng(6)))
    assert found.n_sources == 4
    assert found.alternative > 6


def test_an_unsure_count_is_said_and_where():
    X = products_of_sources(np.random.default_rng(6))
    with pytest.warns(UserWarning, match=r"BatchNICA: n_components=\"auto\" is unsure: it takes 4 sources") as caught:
        BatchNICA("auto", random_state=0).fit(X)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("seed", [2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (3, 8))])
def test_what_interferes_has_no_mean_and_is_no_source(seed):
    """Power spectrograms of four notes: the largest drop of the eigenvalues alone counts 2, 5 and 2."""
    found = covariance_spectrum(chemistry("four notes", "25 dB", 3000)(np.random.default_rng(seed)))
    assert found.n_sources == 4
    assert found.alternative != 4


@pytest.mark.parametrize(("d", "k"), [(2, 4), (3, 5), (5, 8), (8, 10)])
def test_two_or_three_directions_of_noise_alike_are_a_floor(d, k):
    rng = np.random.default_rng(d)
    X = sparse_uniform(5000, d, rng=rng) @ rng.standard_normal((d, k))
    X += 0.01 * X.std() * rng.standard_normal(X.shape)
    found = covariance_spectrum(X)
    assert (found.n_sources, found.alternative) == (d, k)  # but in doubt
    assert found.noise_floor > 0


def turning(rng, n=20_000, d=3, k=6):
    """Mixtures whose mixing matrix changes from one to another."""
    share = np.linspace(0, 1, n)[:, None]
    S = sparse_uniform(n, d, rng=rng)
    X = (1 - share) * (S @ rng.standard_normal((d, k))) + share * (S @ rng.standard_normal((d, k)))
    return X + 0.03 * X.std() * rng.standard_normal(X.shape)


def test_a_mixing_that_changes_is_counted_in_stretches_and_said():
    X = turning(np.random.default_rng(10))
    found = spectrum(X)
    assert (found.n_sources, found.alternative, found.changes) == (3, 6, True)
    with pytest.warns(UserWarning, match=r"stretches of the samples show 3, and all of them together 6.*Set horizon="):
        warn_of_count("X", "auto", found, 6)


def test_a_source_of_a_single_burst_does_not_look_like_a_change():
    rng = np.random.default_rng(11)
    S = sparse_uniform(20_000, 4, rng=rng)
    S[:, 0] *= (np.arange(20_000) // 300) == 30
    X = S @ rng.standard_normal((4, 6)) + 0.03 * rng.standard_normal((20_000, 6))
    assert not spectrum(X).changes
    assert not spectrum(X[::-1]).changes


def said_before_the_fit(estimator, X, match):
    """The warning is made an error, so that a test does not wait for the fit that follows."""
    with warnings.catch_warnings(), pytest.raises(UserWarning, match=match):
        warnings.simplefilter("error", UserWarning)
        estimator.fit(X)


@pytest.mark.parametrize("Cls", [BatchNICA, MinimumVolumeCone, TwoCompartmentNICA, StreamingNICA])
def test_no_visible_noise_is_said(Cls):
    X = np.random.default_rng(7).exponential(size=(1000, 4)) @ np.random.default_rng(8).standard_normal((4, 4))
    said_before_the_fit(Cls("auto"), X, rf"{Cls.__name__}: n_components=\"auto\" takes 4 of 4 directions for sources")


@pytest.mark.parametrize("Cls", [BatchNICA, TwoCompartmentNICA])
def test_none_on_noisy_mixtures_says_how_many_look_like_noise(Cls):
    rng = np.random.default_rng(8)
    X = rng.exponential(size=(1500, 3)) @ rng.random((3, 24)) + 0.05 * rng.standard_normal((1500, 24))
    said_before_the_fit(Cls(), X, "n_components=None takes all 24 directions of X, and 21 of them look like noise")


def test_a_given_number_is_not_questioned():
    rng = np.random.default_rng(9)
    X = rng.exponential(size=(1000, 3)) @ rng.random((3, 24)) + 0.01 * rng.standard_normal((1000, 24))
    assert sound(BatchNICA(3, random_state=0).fit(X).spectrum_, 3)


# ------------------------------------------------------------------------------------------ outliers


@pytest.mark.parametrize(("n", "k"), [(500, 161), (500, 20), (300, 1200)])
@pytest.mark.parametrize("factor", [100, 1000])
def test_a_sample_that_is_far_too_large_is_no_source(n, k, factor):
    rng = np.random.default_rng(n + k)
    X = rng.exponential(size=(n, 4)) @ smooth_spectra(rng, 4, k).T + 0.01 * rng.standard_normal((n, k))
    X[99] = factor * (X[99] + 0.01 * rng.standard_normal(k))
    assert (spectrum(X).n_sources, second_moment_spectrum(X).n_sources) == (4, 4)
    assert n - 5 < len(inliers_of(X)) < n and not np.any(inliers_of(X)[:, 0] == X[99, 0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sound_samples_are_all_counted(dtype):
    rng = np.random.default_rng(0)
    X = (sparse_uniform(2000, 4, rng=rng) @ rng.standard_normal((4, 12))).astype(dtype)
    for Y in (X, X[:100], np.zeros((300, 5), dtype), X * dtype(1e18)):
        assert inliers_of(Y) is Y


@pytest.mark.parametrize("value", [1.0, 3.0, -2.0, 1e-3, 7e5, 0.1])
@pytest.mark.parametrize("estimator", [BatchNICA, StreamingNICA])
def test_a_constant_mixture_is_counted_as_no_source(estimator, value):
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(2000, 3)) @ rng.random((3, 6)) + 0.01 * rng.standard_normal((2000, 6))
    network = estimator("auto", random_state=0).fit(np.column_stack([X, np.full(2000, value)]))
    assert network.n_components_ == 3


def test_none_takes_what_stands_out_of_the_noise_for_a_cone_of_many_mixtures():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(500, 4)) @ rng.random((4, 60)) + 0.01 * rng.standard_normal((500, 60))
    with pytest.warns(UserWarning, match="56 of the 60 directions of X look like noise, and n_components=None takes 4"):
        assert MinimumVolumeCone(random_state=0).fit(X).n_components_ == 4
