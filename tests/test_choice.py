"""`--method auto`: which of BatchNICA and MinimumVolumeCone is kept, and how much is lost against the better one."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bionica import BatchNICA, DivergenceError, MinimumVolumeCone
from bionica.datasets import copula_uniform, mix, natural_images, random_sources, sparse_uniform
from bionica.estimators._choice import choose, fit_better
from bionica.metrics import match_sources, sinr

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from real_data_cases.comparison_problems import as_counts, chemistry, problems


def kept(X, S, seed=0):
    """Return the name of the one that is kept, and SINR of the kept one minus that of the better one, all above 60 dB alike."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        batch, cone = (cls(S.shape[1], random_state=seed).fit(X) for cls in (BatchNICA, MinimumVolumeCone))
    choice = choose(batch, cone, X)
    found = {e: min(60.0, sinr(S, e.transform(X))) for e in (batch, cone)}
    return type(choice.kept).__name__, found[choice.kept] - max(found.values())


def mixed(S, k, snr_db, seed):
    rng = np.random.default_rng(seed)
    return mix(S, rng.standard_normal((k, S.shape[1])), snr_db=snr_db, rng=rng)[0]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("snr_db", [None, 30, 20, 10])
@pytest.mark.parametrize("kind", ["exponential", "half_normal", "sparse_uniform"])
def test_independent_sources(kind, snr_db, seed):
    S = random_sources(kind, 10_000, 4, rng=seed)
    for k in (4, 8):
        assert kept(mixed(S, k, snr_db, seed), S)[1] > -0.5


@pytest.mark.parametrize("rho", [0.3, 0.5])
@pytest.mark.parametrize("snr_db", [None, 30, 20])
def test_correlated_sources(rho, snr_db):
    S = copula_uniform(10_000, 5, rho, rng=1)
    assert kept(mixed(S, 10, snr_db, 2), S) == ("MinimumVolumeCone", 0.0)


@pytest.mark.parametrize("concentration", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("noise", [0.01, 0.05, "counts"])
def test_abundances(concentration, noise):
    rng = np.random.default_rng(3)
    S = rng.dirichlet(np.full(4, concentration), 3000)
    X = S @ rng.random((4, 30))
    X = rng.poisson(200 * X).astype(float) if noise == "counts" else X + noise * rng.standard_normal(X.shape)
    assert kept(X, S) == ("MinimumVolumeCone", 0.0)


@pytest.mark.parametrize(("d", "T"), [(3, 20_000), (10, 10_000)])
def test_the_papers_sources(d, T):
    S = sparse_uniform(T, d, rng=0)
    assert kept(mixed(S, d, None, 0), S) == ("MinimumVolumeCone", 0.0)
    for snr_db in (20, 10):
        assert kept(mixed(S, 2 * d, snr_db, 0), S)[1] > -0.5


@pytest.mark.parametrize("snr_db", [40, 15])
def test_a_time_among_the_mixtures_does_not_decide(snr_db):
    """It holds most of the energy; the cone takes it for noise, and nonnegative ICA for a source in place of one of the four."""
    rng = np.random.default_rng(0)
    S = random_sources("exponential", 1000, 4, rng=rng)
    X = mix(S, rng.random((30, 4)), snr_db=snr_db, rng=rng)[0]
    X = np.column_stack([np.cumsum(rng.uniform(0.5, 3, len(X))), X])
    assert kept(X, S) == ("MinimumVolumeCone", 0.0)


@pytest.mark.parametrize("snr_db", [None, 20])
def test_sixty_samples(snr_db):
    S = random_sources("exponential", 60, 4, rng=4)
    assert kept(mixed(S, 10, snr_db, 4), S)[1] > -0.5


def test_images():
    data = pytest.importorskip("skimage.data")
    from pathlib import Path

    S = natural_images(Path(data.__file__).parent, names=("camera", "brick", "gravel"), size=128)
    for k, snr_db in ((3, None), (6, 20)):
        assert kept(mixed(S, k, snr_db, 1), S)[1] > -0.5


def test_a_cone_that_falls_back_or_is_not_explained_is_not_kept():
    S = random_sources("exponential", 2000, 3, rng=0)
    assert kept(mixed(S, 3, 10, 0), S)[0] == "BatchNICA"
    X = mixed(S, 6, 30, 0)
    X[::500] *= -3  # a few samples outside any cone, too few and too small for outliers
    name, lost = kept(X, S)
    assert name == "BatchNICA" and lost > -0.5


def test_only_the_warnings_of_the_kept_one_are_shown():
    S = random_sources("exponential", 2000, 3, rng=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the cone warns that it fell back
        warnings.filterwarnings("ignore", message="BatchNICA")
        choice = fit_better(mixed(S, 3, 10, 0), 3, 0)
    assert type(choice.kept) is BatchNICA
    assert str(choice).startswith("BatchNICA and MinimumVolumeCone were tried; BatchNICA was kept: ")
    few = random_sources("exponential", 60, 4, rng=4)
    with pytest.warns(ConvergenceWarning, match="MinimumVolumeCone saw 60 samples") as seen:
        choice = fit_better(mixed(few, 10, None, 4), 4, 0)
    assert type(choice.kept) is MinimumVolumeCone and len(seen) == 1


def test_gross_outliers_are_told_to_the_cone():
    S = copula_uniform(5000, 3, 0.5, rng=0)
    X = mixed(S, 6, 30, 0)
    X[::1000] *= 1000
    choice = fit_better(X, 3, 0)
    assert type(choice.kept) is MinimumVolumeCone and choice.kept.outliers > 0
    inliers = np.arange(5000) % 1000 > 0
    assert sinr(S[inliers], choice.kept.transform(X[inliers])) > 20


def test_closed_sources_without_noise_which_nica_cannot_whiten():
    rng = np.random.default_rng(0)
    S = rng.dirichlet([1.0, 1.0, 1.0], 2000)
    choice = fit_better(S @ rng.random((3, 8)), 3, 0)
    assert type(choice.kept) is MinimumVolumeCone and "BatchNICA cannot be fitted" in choice.why
    with pytest.raises(ValueError, match="exceeds the rank"):
        fit_better(S @ rng.random((3, 8)), 4, 0)


def test_data_that_the_cone_cannot_fit_leave_nonnegative_ica():
    """Each source is silent in all but a few samples."""
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(2000, 3)) * (rng.random((2000, 3)) < 0.002)
    X = S @ rng.random((3, 6))
    with pytest.raises((ValueError, DivergenceError)):
        MinimumVolumeCone(3, random_state=0).fit(X)
    choice = fit_better(X, 3, random_state=0)
    assert isinstance(choice.kept, BatchNICA)
    assert "MinimumVolumeCone cannot be fitted" in str(choice)


def worst(S, Y):
    return np.abs(match_sources(S, Y, by="correlation").correlation).min()


def test_a_facet_that_hardly_any_of_60_samples_shows_is_in_doubt():
    problem = next(problem for problem in problems() if problem.name.startswith("60 samples"))
    X, S = problem.make(np.random.default_rng(0))
    choice = fit_better(X, 3, 0)
    assert worst(S, choice.kept.transform(X)) > 0.98
    assert "has facets that hardly any sample shows" in choice.why


def test_counts_whose_facets_white_noise_hides_are_fitted_as_counts():
    X, S = chemistry("fluorescence", 3000, as_counts, 20)(np.random.default_rng(13))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of the fit that was dropped nothing is shown
        choice = fit_better(X, 4, 0)
    assert choice.kept.noise == "poisson"
    assert worst(S, choice.kept.transform(X)) > 0.98
    with pytest.warns(ConvergenceWarning):
        assert MinimumVolumeCone(4, random_state=0).fit(X)._solved().fit.fallback
