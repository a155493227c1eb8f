"""The cone of more rows than are kept: all of them decide, none are gathered, and
blocks do not matter.
"""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bionica import MinimumVolumeCone
from bionica.core.blocks import ArrayRows, marks
from bionica.datasets import copula_uniform, mix
from bionica.metrics import sinr
from bionica.mixtures.cone import sketch
from bionica.mixtures.cone.fit import Settings
from bionica.mixtures.cone.noise import find_channels
from conftest import reaction, worst_correlation

N = 50_000  # a cone of 3 sources keeps 20,000


def mixed(seed=0, n=N, d=3, k=6, snr_db=None):
    S = copula_uniform(n, d, 0.3, rng=seed)
    return S, mix(S, n_mixtures=k, snr_db=snr_db, rng=seed)[0]


def fitted(X, **options):
    with warnings.catch_warnings(action="ignore"):
        return MinimumVolumeCone(3, random_state=0, **options).fit(X)


def on_all_rows(X, noise="estimate"):
    """W of the fit that holds all rows at once."""
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    known = np.empty((X.shape[1], 0))
    settings = Settings(0.0, np.inf, None, known, 3, noise, seed=seed)
    rows = ArrayRows(X)
    state = sketch.begin(rows, *sketch.sample_rows(rows, len(X)), settings)
    return sketch.readout(state, settings).components


def assert_same(found, expected, tolerance):
    """Of the largest weight."""
    atol = tolerance * np.abs(expected).max()
    assert_allclose(found, expected, atol=atol)


def test_without_noise_the_cone_is_that_of_all_rows():
    _, X = mixed()
    W = fitted(X).components_
    assert (X @ W.T).min() > -1e-7
    assert_same(W, on_all_rows(X), 1e-7)


@pytest.mark.parametrize(
    ("snr_db", "k", "noise"),
    [(30, 6, "estimate"), (40, 3, "estimate"), (None, 6, "poisson")],
)
def test_with_noise_it_is_within_the_error_of_the_fit_to_all_rows(snr_db, k, noise):
    S, X = mixed(1, snr_db=snr_db, k=k)
    if noise == "poisson":
        rng = np.random.default_rng(1)
        S = rng.exponential(size=(N, 3))
        X = rng.poisson(30 * S @ rng.random((3, 8))).astype(float)
    full = X @ on_all_rows(X, noise).T
    whole, half = (X @ fitted(rows, noise=noise).components_.T for rows in (X, X[::2]))

    def error(Y):
        return (np.mean((Y - full) ** 2, axis=0) / np.abs(full).mean(axis=0) ** 2).max()

    assert error(whole) < error(half)
    assert sinr(S, whole) > sinr(S, full) - 0.1


def test_samples_near_facets_fill_their_memory_and_weigh_the_inverse_of_their_share(
    monkeypatch,
):
    bytes_ = 2**17
    calls = []
    solve = sketch.fit_data
    monkeypatch.setattr(sketch, "_BYTES", bytes_)
    monkeypatch.setattr(
        sketch,
        "fit_data",
        lambda data, *args, **kw: calls.append(data) or solve(data, *args, **kw),
    )
    fitted(mixed(1, snr_db=30)[1])
    weights = calls[-1].weights
    assert weights.sum() == pytest.approx(1)
    near = weights < weights.max()
    assert near.sum() == pytest.approx(bytes_ / (8 * 3), rel=0.05)
    assert_allclose(weights[near], weights.min())
    deviation = calls[-1].U - calls[0].mean
    assert (np.abs(weights @ deviation) < 4 * np.sqrt(weights**2 @ deviation**2)).all()


@pytest.mark.parametrize(
    ("snr_db", "options"), [(None, {}), (30, {}), (30, {"outliers": 0.01})]
)
def test_a_dask_array_gives_the_same_for_any_blocks(snr_db, options):
    da = pytest.importorskip("dask.array")
    _, X = mixed(2, snr_db=snr_db)
    X[777] *= 1e5  # an outlier, which is left out
    W = fitted(X, **options).components_
    for chunks in ((7000, 6), (20_001, 2)):
        blocks = da.from_array(X, chunks=chunks)
        assert_same(fitted(blocks, **options).components_, W, 1e-9)
    short = da.from_array(X[:700], chunks=(100, 6))
    expected = fitted(X[:700], **options).components_
    assert_allclose(fitted(short, **options).components_, expected)


@pytest.mark.parametrize(
    ("rates", "noise", "worst", "same"),
    [
        # without noise the sources are hardly determined, and rounding decides
        ((0.2, 0.05), 0, 0.999, 3e-3),
        ((0.05, 0.1), 0.003, 0.95, 1e-6),
    ],
)
def test_a_reaction_is_known_as_a_curve_in_blocks_too_and_not_if_its_rows_are_shuffled(
    rates, noise, worst, same, rng
):
    da = pytest.importorskip("dask.array")
    C, A, _ = reaction(*rates)
    S = np.repeat(C, 170, axis=0)  # a random sample of 20,000 of 40,800 rows is kept
    X = S @ A + noise * rng.standard_normal((len(S), 121))
    shuffled = X[np.random.default_rng(1).permutation(len(X))]
    for rows, curve in ((X, True), (shuffled, False)):
        cone = fitted(rows)
        blocks = da.from_array(rows, chunks=(7000, 50))
        assert_same(fitted(blocks).components_, cone.components_, same)
        # without noise any order will do
        correct = worst_correlation(S, cone.transform(X)) > worst
        assert correct == (curve or noise == 0)


@pytest.mark.parametrize("snr_db", [None, 30])
def test_memory_is_bounded(snr_db):
    _, X = mixed(3, 400_000, k=20, snr_db=snr_db)  # 64 MB
    tracemalloc.start()
    fitted(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**26  # the sketch and a few blocks, whatever the number of rows


@pytest.mark.parametrize("q", [1, 209, 210, 1000, 2097, 2098, 5000])
def test_20_000_samples_are_kept_or_32_megabytes_but_no_fewer_than_2000(q):
    assert sketch.capacity(q) == min(max(2**25 // (8 * q), 2000), 20_000)


def test_marks_are_splitmix64():
    """The upper 53 bits of the published outputs for the seed 0."""
    published = np.array(
        [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F], dtype=np.uint64
    )
    assert_array_equal(marks(np.arange(3.0)), (published >> np.uint64(11)) * 2.0**-53)


@pytest.mark.parametrize("d", [2, 3, 7])
def test_probes_are_tilted_from_each_facet_by_angles_on_all_scales(d):
    """In all directions, by 0.01 to 10, each decade alike; at least 1000."""
    G = sketch._probe_directions(d)
    assert 0 <= len(G) - 1000 < d
    tilts = (G.reshape(d, -1, d) - np.eye(d)[:, np.newaxis]).reshape(-1, d)
    size = np.linalg.norm(tilts, axis=1)
    decades = np.histogram(np.log10(size), [-2, -1, 0, 1])[0]
    assert_allclose(decades / len(G), 1 / 3, atol=0.05)
    assert (size.min(), size.max()) == pytest.approx((0.01, 10), rel=0.05)
    second = np.cov((tilts / size[:, np.newaxis]).T)
    assert_allclose(second, np.eye(d) / d, atol=0.05)


def test_the_random_sample_of_a_union_is_that_of_the_union_of_samples():
    X = np.arange(90_000.0).reshape(30_000, 3)
    whole, rate = sketch.sample_rows(ArrayRows(X), 1000)
    mark = marks(np.arange(30_000.0))
    first = np.argsort(mark)[:1000]
    assert mark[first].max() < rate
    assert_array_equal(whole.number, np.sort(first))
    assert_array_equal(whole.z, X[np.sort(first)])
    # of fewer than twice as many rows, all but the last
    for n, kept in ((1999, 1999), (2000, 1000)):
        assert len(sketch.sample_rows(ArrayRows(X[:n]), 1000)[0].z) == kept


def test_extremes_do_not_depend_on_how_samples_are_cut(rng):
    Y = rng.exponential(size=(4, 3500)) - 0.1
    Y[:, 17] = 0
    q = sketch._probe_directions(4) @ (Y / np.maximum(np.abs(Y).sum(axis=0), 1e-8))
    q[:, 17] = np.inf
    assert_array_equal(sketch.extremes(Y), np.unique(q.argmin(axis=1)))


def test_totals_of_parts_are_those_of_all(rng):
    X = rng.standard_normal((500, 6)) + np.arange(6)
    channels = find_channels(X, 3, "estimate")
    whole, *parts = (
        sketch.totals(rows, sketch.Gate(channels)) for rows in (X, X[:200], X[200:])
    )
    negative = np.sum(np.minimum(X, 0) ** 2, axis=0)
    second = X.T @ X / (500 * channels.scale**2)
    for total in (whole, sketch.merge_totals(*parts)):
        assert (total.least, total.largest) == (X.min(), X.max())
        assert_allclose(total.negative, negative)
        assert_allclose(total.weighted.second, second)
