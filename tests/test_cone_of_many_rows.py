"""The cone of more rows than are kept: all of them decide, none are gathered, and blocks do not matter."""

import tracemalloc
import warnings

import numpy as np
import pytest

from bionica import MinimumVolumeCone
from bionica.cone import sketch, stream
from bionica.cone.fit import Settings
from bionica.datasets import copula_uniform, mix
from bionica.metrics import sinr
from bionica.offline.whitening import ArrayRows, joined

N = 50_000  # a cone of 3 sources keeps 20,000


def mixed(seed=0, n=N, d=3, k=6, snr_db=None):
    S = copula_uniform(n, d, 0.3, rng=seed)
    return S, mix(S, n_mixtures=k, snr_db=snr_db, rng=seed)[0]


def fitted(X, **options):
    with warnings.catch_warnings(action="ignore"):
        return MinimumVolumeCone(3, random_state=0, **options).fit(X)


def on_all_rows(X, noise="estimate"):
    """W of the fit that holds all rows at once."""
    settings = Settings(0.0, np.inf, None, np.empty((X.shape[1], 0)))
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    return stream.readout(stream.begin(X, 3, noise, settings, seed), "variance")[0]


def test_without_noise_the_cone_is_that_of_all_rows():
    _, X = mixed()
    cone = fitted(X)
    Y = X @ cone.components_.T
    assert Y.min() > -1e-7
    np.testing.assert_allclose(cone.components_, on_all_rows(X), atol=1e-7 * np.abs(cone.components_).max())


@pytest.mark.parametrize(("snr_db", "k", "noise"), [(30, 6, "estimate"), (40, 3, "estimate"), (None, 6, "poisson")])
def test_with_noise_it_is_within_the_error_of_the_fit_to_all_rows(snr_db, k, noise):
    S, X = mixed(1, snr_db=snr_db, k=k)
    if noise == "poisson":
        rng = np.random.default_rng(1)
        S = rng.exponential(size=(N, 3))
        X = rng.poisson(30 * S @ rng.random((3, 8))).astype(float)
    W, full = fitted(X, noise=noise).components_, on_all_rows(X, noise)
    half = fitted(X[::2], noise=noise).components_
    size = np.abs(X @ full.T).mean(axis=0)

    def error(V):
        return np.sqrt(np.mean((X @ (V - full).T / size) ** 2, axis=0)).max()

    assert error(W) < error(half)
    assert sinr(S, X @ W.T) > sinr(S, X @ full.T) - 0.1


@pytest.mark.parametrize(("snr_db", "options"), [(None, {}), (30, {}), (30, {"outliers": 0.01})])
def test_a_dask_array_gives_the_same_for_any_blocks(snr_db, options):
    da = pytest.importorskip("dask.array")
    _, X = mixed(2, snr_db=snr_db)
    X[777] *= 1e5  # an outlier, which is left out
    cone = MinimumVolumeCone(**{"n_components": 3, "random_state": 0} | options).fit(X)
    for chunks in ((7000, 6), (20_001, 2)):
        other = MinimumVolumeCone(**{"n_components": 3, "random_state": 0} | options).fit(
            da.from_array(X, chunks=chunks)
        )
        np.testing.assert_allclose(other.components_, cone.components_, atol=1e-9 * np.abs(cone.components_).max())
        np.testing.assert_array_equal(other._learner.state.samples.number, cone._learner.state.samples.number)


@pytest.mark.parametrize("snr_db", [None, 30])
def test_memory_is_bounded(snr_db):
    _, X = mixed(3, 400_000, k=20, snr_db=snr_db)  # 64 MB
    tracemalloc.start()
    fitted(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**26  # the sketch and a few blocks, whatever the number of rows


def test_wide_rows_are_projected_on_the_leading_directions_of_all():
    rng = np.random.default_rng(0)
    S = rng.exponential(size=(9000, 3))
    X = S @ rng.random((3, 1100)) + 0.5 * rng.standard_normal((9000, 1100))  # 4,000 to 8,000 rows are kept
    assert sinr(S, fitted(X).transform(X)) > 27


def test_the_random_sample_of_a_union_is_that_of_the_union_of_samples():
    X = np.arange(90_000.0).reshape(30_000, 3)
    whole, rate = sketch.sample_rows(ArrayRows(X), 1000)
    assert len(whole.z) == 1000
    assert (sketch.marks(whole.number) < rate).all()
    assert (np.diff(whole.number) > 0).all()
    np.testing.assert_array_equal(whole.z, X[whole.number.astype(int)])
    mark = sketch.marks(np.arange(30_000.0))
    np.testing.assert_array_equal(np.sort(np.argsort(mark)[:1000]), whole.number)


def test_extremes_do_not_depend_on_how_samples_are_cut():
    Y = np.random.default_rng(0).exponential(size=(4, 3500)) - 0.1
    Y[:, 17] = 0
    q = sketch._probe_directions(4) @ (Y / np.maximum(np.abs(Y).sum(axis=0), 1e-8))
    q[:, 17] = np.inf
    np.testing.assert_array_equal(sketch.extremes(Y), np.unique(q.argmin(axis=1)))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 100])
def test_parts_are_joined_in_order_as_a_tree(n):
    depth = joined(((1, [i]) for i in range(n)), lambda a, b: (1 + max(a[0], b[0]), a[1] + b[1]))
    assert depth[1] == list(range(n))
    assert depth[0] <= 1 + np.ceil(np.log2(n))
