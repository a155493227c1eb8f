"""The warnings of `fit`: one for a fit that is probably wrong, none for a sound one, and what a notebook shows of them."""

import re
import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

import bionica
from bionica import BatchNICA, MinimumVolumeCone, NonnegativePCA, OfflineNICA, StreamingNICA, TwoCompartmentNICA
from bionica.estimators._fit_doubts import RowCollector
from conftest import NETWORKS

NATURAL = [BatchNICA, StreamingNICA, TwoCompartmentNICA, bionica.InterneuronNICA]
ALL = [*NETWORKS, BatchNICA, MinimumVolumeCone, OfflineNICA]


def said(estimator, X):
    """The warning of `fit`, which is at most one and points at the caller; an empty string if there is none."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        estimator.fit(X)
    caught = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    assert len(caught) <= 1
    assert all(w.filename == __file__ for w in caught)
    return str(caught[0].message) if caught else ""


def mixing(rng, d, k):
    A = rng.standard_normal((d, k))
    while np.linalg.cond(A) > 10:
        A = rng.standard_normal((d, k))
    return A


def noisy(rng, X, decibels):
    return X + X.std() * 10 ** (-decibels / 20) * rng.standard_normal(X.shape)


SOURCES = {
    "sparse uniform": lambda rng, size: rng.uniform(0, 3, size) * (rng.random(size) < 0.5),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "half-normal": lambda rng, size: np.abs(rng.standard_normal(size)),
    "uniform": lambda rng, size: rng.random(size),
    "lognormal": lambda rng, size: rng.lognormal(0, 1, size) * (rng.random(size) < 0.7),
}


@pytest.mark.parametrize("decibels", [np.inf, 40, 20])
@pytest.mark.parametrize("name", SOURCES)
def test_no_warning_about_sound_data(name, decibels):
    rng = np.random.default_rng(0)
    for Estimator in (*NATURAL, MinimumVolumeCone):
        d, k, n = [(2, 6, 3000), (3, 12, 10_000), (5, 20, 20_000)][
            rng.integers(2 if Estimator is MinimumVolumeCone else 3)
        ]
        X = noisy(rng, SOURCES[name](rng, (n, d)) @ mixing(rng, d, k), decibels)
        assert said(Estimator(d, random_state=0), X) == ""


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("Estimator", ALL)
def test_few_samples(Estimator, n):
    X = np.random.default_rng(0).exponential(size=(n, 3)) @ mixing(np.random.default_rng(1), 3, 6)
    if n == 1 and Estimator in (BatchNICA, MinimumVolumeCone):
        with pytest.raises(ValueError, match="minimum of 2"):
            Estimator().fit(X)
    elif n == 1 and Estimator in (NonnegativePCA, OfflineNICA):
        with pytest.raises((ValueError, bionica.DivergenceError), match=r"no variance to whiten|diverged"):
            Estimator().fit(X)
    else:
        assert re.search(rf"^{Estimator.__name__} .*saw {n} sample", said(Estimator(1, random_state=0), X))


def spectra(rng, n, k, d=3):
    """n smooth spectra of k channels, with noise."""
    channel = np.linspace(0, 1, k)
    lines = np.exp(-0.5 * ((channel - rng.random((d, 1))) / rng.uniform(0.02, 0.1, (d, 1))) ** 2) + 0.02
    return rng.exponential(size=(n, d)) @ lines + 0.002 * rng.standard_normal((n, k))


@pytest.mark.parametrize("Estimator", [BatchNICA, StreamingNICA, TwoCompartmentNICA, MinimumVolumeCone])
def test_a_transposed_X(Estimator):
    rng = np.random.default_rng(0)
    wide = spectra(rng, 100, 300)
    assert "transposed" not in said(Estimator(3, random_state=0), wide)  # fewer samples than channels, and right
    transposed = spectra(rng, 300, 100).T
    assert "may have been given X transposed: of its 100 rows" in said(Estimator(3, random_state=0), transposed)
    few = (rng.exponential(size=(500, 3)) @ mixing(rng, 3, 6)).T
    assert "saw 6 samples" in said(Estimator(2, random_state=0), few)


def test_spectra_that_change_slowly_are_not_taken_for_transposed():
    rng = np.random.default_rng(0)
    S = np.abs(np.sin(np.arange(300)[:, np.newaxis] / [17, 29, 41]))
    channel = np.linspace(0, 1, 900)
    X = S @ np.exp(-0.5 * ((channel - [[0.2], [0.5], [0.7]]) / 0.05) ** 2) + 1e-3 * rng.standard_normal((300, 900))
    assert "transposed" not in said(BatchNICA(3, random_state=0), X)


def correlated(rng, n, d, rho=0.5):
    C = np.full((d, d), rho) + (1 - rho) * np.eye(d)
    return -np.log(norm.sf(rng.standard_normal((n, d)) @ np.linalg.cholesky(C).T))


@pytest.mark.parametrize("Estimator", NATURAL)
def test_sources_that_are_not_those_of_the_model(Estimator):
    rng = np.random.default_rng(0)
    A = mixing(rng, 3, 6)
    nica = Estimator(3, random_state=0)
    X = rng.exponential(size=(5000, 3)) @ A
    assert "correlated (try MinimumVolumeCone)" in said(nica, correlated(rng, 5000, 3) @ A)
    assert "sum to a constant" in said(nica, noisy(rng, rng.dirichlet([0.7] * 3, 5000) @ rng.random((3, 20)), 50))
    assert "mean may have been removed" in said(nica, X - X.mean(axis=0))
    assert "mean may have been removed" in said(nica, rng.standard_normal((5000, 3)) @ A)
    assert "cannot tell some sources apart" in said(nica, (3 + rng.exponential(size=(5000, 3))) @ A)
    assert "of the output energy is negative" in said(nica, noisy(rng, X, 0))


def test_the_cone_is_sure_of_correlated_sources_and_not_of_gaussian_ones():
    rng = np.random.default_rng(0)
    A = mixing(rng, 3, 6)
    cone = MinimumVolumeCone(3, random_state=0)
    assert said(cone, correlated(rng, 5000, 3) @ A) == ""
    assert "fits poorly" in said(cone, rng.standard_normal((5000, 3)) @ A)


@pytest.mark.parametrize("Estimator", [StreamingNICA, TwoCompartmentNICA])
def test_a_network_that_has_not_settled(Estimator):
    rng = np.random.default_rng(0)
    X = rng.random((2000, 20)) @ np.linalg.qr(rng.standard_normal((20, 20)))[0]
    assert "has not settled" in said(Estimator(20, random_state=0), X)
    assert said(BatchNICA(20, random_state=0), X) == ""


def test_outliers_at_regular_intervals_are_no_doubt():
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(50_000, 3)) @ mixing(rng, 3, 3)
    X[500::1000] *= 1e6
    assert said(StreamingNICA(3, random_state=0), X) == ""


def test_several_doubts_are_one_warning():
    rng = np.random.default_rng(0)
    X = correlated(rng, 3000, 3) @ mixing(rng, 3, 6)
    text = said(BatchNICA(3, max_iter=2, random_state=0), X)
    assert text.startswith("BatchNICA fits poorly")
    assert "It also did not converge in max_iter=2" in text


def test_learning_on_warns_of_nothing():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StreamingNICA(3, random_state=0).partial_fit(X).learn_one(X[0]).partial_fit_transform(X)


def test_collected_rows():
    X = np.arange(30_000.0).reshape(-1, 2)
    collector = RowCollector(X.shape)
    for block in (X[:1], X[1:7000], X[7000:]):
        assert all(seen is block for seen in collector.passing(block))
    rows = collector.rows
    assert rows.some.shape == (2000, 2) and rows.n == 15_000 and len(rows.part) == 0
    assert np.all(np.diff(rows.some[:, 0]) > 0) and len(np.unique(np.diff(rows.some[:, 0]))) > 2
    last = RowCollector(X.shape, last=100)
    list(last.passing(X))
    np.testing.assert_array_equal(last.rows.some, X[-100:])
