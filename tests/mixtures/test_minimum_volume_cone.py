"""MinimumVolumeCone: the gradient, exactness, recovery, invariances, the stream,
honesty; then the scikit-learn contract.
"""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bionica
from bionica import MinimumVolumeCone
from bionica.datasets import copula_uniform, mix
from bionica.metrics import sinr
from bionica.mixtures.cone.fit import hold_mean, rotation, successive_projection
from bionica.mixtures.cone.noise import on_a_grid
from bionica.mixtures.cone.objective import (
    Facets,
    Wall,
    minimise_on_all,
    near_facets,
    objective,
    unweighted,
    value_and_gradient,
)
from bionica.mixtures.verdict.halves import match
from conftest import bands, reaction, worst_correlation

# What a fit warns of is tested with the findings.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def draw(kind, n, d, seed=0):
    rng = np.random.default_rng(seed)
    if kind.startswith("copula"):
        return copula_uniform(n, d, float(kind[6:]), rng=rng)
    if kind == "sparse":
        return rng.uniform(0, 1, (n, d)) * (rng.random((n, d)) < 0.5)
    if kind == "exponential":
        return rng.exponential(size=(n, d))
    return rng.dirichlet(np.full(d, float(kind)), size=n)


def noisy(X, size, seed=1000):
    return X + size * np.random.default_rng(seed).standard_normal(X.shape)


def streamed(X, d, **parameters):
    return MinimumVolumeCone(d, random_state=0, **parameters).partial_fit(X)


def problem(kind, n, d, k, snr_db=None, seed=0):
    S = draw(kind, n, d, seed)
    X, A = mix(S, n_mixtures=k, snr_db=snr_db, rng=np.random.default_rng(seed + 1000))
    return S, X, A


def knows_mixing(S, X, A):
    return sinr(S, np.maximum(X @ np.linalg.pinv(A).T, 0))


def fitted(X, d, **parameters):
    return MinimumVolumeCone(d, random_state=0, **parameters).fit(X)


# --- the objective


def facets_and_wall(d=4, n=300, seed=0, spectral=True, n_known=0):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((d, d))
    Y = rng.exponential(size=(d, n)) - 0.3
    limits = [(1, 20), (0.01, 0.1), (0.01, 0.1), (20, 40)]
    wall = Wall(*(rng.uniform(*limit, d) for limit in limits))
    spectra = rng.exponential(size=(25 if spectral else 0, d)) - 0.3
    amounts = np.zeros((d, d, d))
    amounts[1] = np.cov(rng.standard_normal((d, 9)))
    weights = rng.random((d, n)) / n
    near = [(Y + 0.1 * i, weights[i]) for i in range(d)]
    return Facets(near, V @ V.T, spectra, n_known, amounts), wall


@pytest.mark.parametrize("n_known", [0, 2])
@pytest.mark.parametrize("spectral", [False, True])
def test_gradient_agrees_with_finite_differences(spectral, n_known):
    """Both walls; columns of P that belong to known spectra change in scale only."""
    facets, wall = facets_and_wall(spectral=spectral, n_known=n_known)
    rng = np.random.default_rng(1)
    free = np.ones((4, 4))
    free[:, :n_known] = np.eye(4)[:, :n_known]
    P = np.eye(4) + 0.1 * free * rng.standard_normal((4, 4))
    gradient = value_and_gradient(P, facets, wall)[1]
    assert not gradient[free == 0].any()
    for _ in range(10):
        E = 1e-5 * free * rng.standard_normal((4, 4))
        up, down = (value_and_gradient(P + h * E, facets, wall)[0] for h in (1, -1))
        # rounding
        slope = pytest.approx((up - down) / 2, rel=1e-6, abs=1e-13)
        assert np.vdot(gradient, E) == slope


@pytest.mark.parametrize(("kind", "size"), [("0.5", 1.0), ("copula0.5", 0.5)])
def test_noise_as_large_as_the_mean_does_not_let_a_facet_run_away(kind, size):
    """Beside a wall on spectra; 1e-12 of noise changes nothing."""
    A = bands((0.2, 0.35, 0.6, 0.8), 0.07, 40, 0.02)
    S = draw(kind, 1000, 4, 105)
    S = S / S.mean(axis=0)
    X = noisy(S @ A, size / np.sqrt(np.diag(np.linalg.inv(A @ A.T)).max()), 105)
    cone, other = (
        fitted(data, 4, nonnegative_mixing=True)
        for data in (X, X * noisy(1 + 0 * X, 1e-12))
    )
    # rounds end if nothing changes by 10 %
    assert match(cone.mixing_, other.mixing_)[1].max() < 1
    assert cone.noise_.max() < 2
    known = np.maximum(X @ np.linalg.pinv(A), 0)
    assert worst_correlation(S, cone.transform(X)) > worst_correlation(S, known) - 0.1


def test_the_minimum_is_stationary_and_no_small_change_is_better(rng):
    B = np.maximum(rng.standard_normal((25, 4)), 0) + 0.1
    U = rng.exponential(size=(300, 4)) + 0.05 * rng.standard_normal((300, 4))
    data = unweighted(U)._replace(B=B)
    wall = Wall(np.full(4, 5.0), np.full(4, 0.01), np.zeros(4), np.full(4, 30.0))
    V, _, n_iter = minimise_on_all(np.eye(4) + 0.1, data, wall, tol=1e-9)
    assert n_iter < 100
    for _ in range(3):  # the width of the wall is measured at the base
        V, _, _ = minimise_on_all(V, data, wall, tol=1e-9)
    V, Y = data.outputs(V)
    facets = near_facets(Y, V, np.full(4, np.inf), data)
    value, gradient = value_and_gradient(np.eye(4), facets, wall)
    assert np.abs(gradient).max() < 1e-3
    least = objective(V, data, wall)
    assert value - np.linalg.slogdet(V)[1] == pytest.approx(least)
    for size in np.repeat([1e-2, 3e-2], 20):
        other = V + size * rng.standard_normal((4, 4))
        assert objective(other, data, wall) >= least - 1e-6


def test_samples_near_a_facet_are_those_within_its_wall_or_the_500_nearest(rng):
    U = rng.exponential(size=(2000, 2))
    weights = rng.random(2000)
    data = unweighted(U)._replace(weights=weights)
    V = np.array([[1.0, -0.1], [0.2, 1.0]])
    Y = V @ U.T
    few = Y[0] <= np.sort(Y[0])[499]
    many = Y[1] < 0.8
    assert many.sum() > 500
    facets = near_facets(Y, V, np.array([0.01, 0.8]), data)
    for i, rows in enumerate((few, many)):
        assert_array_equal(facets.near[i][0], Y[:, rows])
        assert_array_equal(facets.near[i][1], weights[rows])
    # all that there are
    assert near_facets(Y[:, :400], V, np.zeros(2), data).near[0][0].shape == (2, 400)


def test_a_start_is_turned_towards_the_mean_until_each_output_has_a_tenth_of_its_rms(
    rng,
):
    data = unweighted(rng.exponential(size=(50, 3)))
    V = np.array([[1.0, -1.0, -0.2], [0.1, 1.0, -0.1], [0.0, 0.0, 1.0]])
    turned = hold_mean(V, data)
    missing = 0.1 * np.sqrt(np.mean((data.U @ V.T) ** 2, axis=0)) - V @ data.mean
    assert missing[0] > 0 > missing[1:].max()
    V[0] += missing[0] * data.mean / (data.mean @ data.mean)
    assert_allclose(turned, V / (V @ data.mean)[:, np.newaxis], rtol=1e-12)


def test_a_start_keeps_known_edges(rng):
    """The edge of the first source, which all other facets hold."""
    data = unweighted(rng.exponential(size=(50, 3)))
    known = np.array([[1.0], [0.5], [0.2]])
    V = np.array([[1.0, 0.0, 0.0], [-0.5, 1.0, 0.0], [-0.2, 0.0, 1.0]])
    held = hold_mean(-V, data._replace(known=known))
    assert_allclose(held[1:] @ known, 0, atol=1e-12)
    assert_allclose(held @ data.mean, 1)


@pytest.mark.parametrize("unit", [1e-4, 1e4])
@pytest.mark.parametrize(("size", "used"), [(0.09, False), (0.11, True)])
def test_an_edge_is_no_sample_of_less_than_a_tenth_of_the_mean(size, used, unit, rng):
    """Small samples are pure, others are not; what counts is their length along the
    mean.
    """
    S = rng.dirichlet(np.full(3, 9), 3000)
    V = successive_projection(unweighted(unit * np.vstack([S, size * np.eye(3)])))
    entries = np.sort(np.abs(V / V.max(axis=1, keepdims=True)), axis=1)
    assert np.allclose(entries[:, :2], 0, atol=1e-9) == used


@pytest.mark.parametrize("unit", [1e-4, 1e4])
def test_sources_are_not_rotated_if_noise_is_half_of_the_weakest_direction(unit, rng):
    U = unit * rng.exponential(size=(500, 2))
    weakest = np.linalg.eigvalsh(np.cov(U.T, bias=True))[0]
    for share, exists in ((0.52, False), (0.48, True)):
        V = rotation(unweighted(U), share * weakest, rng)
        assert (V is not None) == exists
    assert_allclose(np.cov(V @ U.T, bias=True), np.eye(2), atol=1e-9)
    assert rotation(unweighted(unit * rng.dirichlet([1, 1, 1], 500)), 0.0, rng) is None


# --- recovery


@pytest.mark.parametrize(
    ("kind", "d", "k", "least"),
    [
        ("sparse", 3, 3, 100),
        ("sparse", 5, 10, 100),
        ("exponential", 3, 3, 60),
        ("exponential", 5, 10, 60),
        ("copula0.5", 3, 6, 50),
    ],
)
def test_without_noise_it_is_exact(kind, d, k, least):
    S, X, _ = problem(kind, 20_000, d, k)
    cone = fitted(X, d)
    assert sinr(S, cone.transform(X)) > least
    assert cone.negativity_ < 1e-12
    assert_array_equal(cone.noise_, 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("seed", [2, 3])
def test_digitised_sources_are_seen_to_have_no_noise(seed, stream):
    """k = d: the darkest pixels of an image look like the tail of a noise."""
    rng = np.random.default_rng(seed)
    dark = rng.random((20_000, 3)) < 0.2
    bright = 255 * rng.random((20_000, 3)) ** 1.5 + 8
    S = np.round(np.where(dark, 10 + 2.5 * rng.standard_normal((20_000, 3)), bright))
    S -= S.min(axis=0)
    X = S @ rng.standard_normal((3, 3))
    cone = (streamed if stream else fitted)(X, 3)
    assert sinr(S, cone.transform(X)) > 40
    assert_array_equal(cone.noise_, 0)


def test_a_grid_is_told_from_noise_and_from_repeated_samples(rng):
    X = np.round(30 * rng.random((3000, 3))) @ rng.standard_normal((3, 3))
    gauss = noisy(X, 1e-4)
    thousand = np.arange(1000)
    between = [np.interp(np.arange(3000) / 3, thousand, x) for x in gauss[:1000].T]
    # squares of some units are no float64
    for grid in (X, X.astype(np.float32), 2.0**600 * X, 2.0**-600 * X):
        assert on_a_grid(grid)
    for data in (
        gauss,
        np.tile(gauss[:1000], (3, 1)),
        gauss[rng.integers(0, 3000, 3000)],
        # quantised mixtures, or one of them: the noise remains unknown
        np.round(20 * gauss),
        np.column_stack([X, np.round(X[:, 0] / 50)]),
        np.transpose(between),
    ):
        assert not on_a_grid(data)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.7])
@pytest.mark.parametrize("snr", [30, 20])
def test_correlated_sources_are_recovered_as_if_the_mixing_were_known(rho, snr):
    S, X, A = problem(f"copula{rho}", 20_000, 5, 10, snr)
    cone = fitted(X, 5)
    assert sinr(S, cone.transform(X)) > knows_mixing(S, X, A) - 0.5
    noise = (X - S @ A.T) @ cone.components_.T
    assert_allclose(cone.noise_, noise.std(axis=0), rtol=0.15)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_tails_of_outputs_correct_noise_that_one_left_out_direction_cannot_tell(seed):
    """k = d + 1: the noise of the mixtures differs by factors of ten, and one direction
    shows one number.
    """
    S, X, A = problem("exponential", 20_000, 3, 4, 25, seed=seed)
    assert sinr(S, fitted(X, 3).transform(X)) > knows_mixing(S, X, A) - 1


@pytest.mark.parametrize("alpha", ["0.1", "0.5", "1"])
def test_abundances_that_sum_to_one(alpha):
    S = draw(alpha, 3000, 4)
    X = S @ bands((0.2, 0.4, 0.6, 0.8), 0.15, 100)
    X = noisy(X, 0.01 * X.std(), 1)
    cone = fitted(X, 4, normalize="sum")
    Y = cone.transform(X)
    assert worst_correlation(S, Y) > 0.999
    assert_allclose((X @ cone.components_.T).sum(axis=1), 1, atol=0.05)
    assert_allclose(Y.max(axis=0), S.max(), rtol=0.15)
    for name, moment in (("variance", np.std), ("mean", np.mean)):
        U = X @ fitted(X, 4, normalize=name).components_.T
        assert_allclose(moment(U, axis=0), 1, rtol=1e-9)


def test_counts(rng):
    S = draw("0.5", 3000, 3)
    A = rng.random((3, 30))
    X = rng.poisson(200 * S @ A).astype(float)
    cone = fitted(X, 3, noise="poisson")
    assert worst_correlation(S, cone.transform(X)) > 0.99
    X[5, 7] = -1
    with pytest.raises(
        ValueError,
        match=(
            r"noise='poisson' takes X for counts, but X\[5, 7\] is"
            r" -1:.*noise='estimate'"
        ),
    ):
        fitted(X, 3, noise="poisson")


def test_outliers_cost_little_if_they_are_declared():
    S, X, _ = problem("copula0.5", 10_000, 4, 8, 30)
    rng = np.random.default_rng(5)
    bad = rng.random(len(X)) < 0.02
    dirty = np.where(bad[:, None], 10 * X.std() * rng.standard_normal(X.shape), X)
    clean = sinr(S, fitted(X, 4).transform(X))
    assert sinr(S, fitted(dirty, 4, outliers=0.02).transform(X)) > clean - 1


@pytest.mark.parametrize("n", [150, 2200])
def test_very_many_mixtures(n, rng):
    """k = 1100: wider than long, and longer than wide."""
    S = draw("copula0.3", n, 3)
    X = noisy(S @ rng.random((3, 1100)), 0.1, 1)
    cone = fitted(X, 3)
    assert worst_correlation(S, cone.transform(X)) > 0.98
    assert_allclose(cone.components_ @ cone.mixing_, np.eye(3), atol=1e-9)
    if n > 2000:
        stream = streamed(X[:2000], 3).partial_fit(X[2000:])
        assert worst_correlation(S, stream.transform(X)) > 0.98


# --- spectra that are nonnegative too


@pytest.mark.parametrize(("k1", "k2"), [(0.08, 0.03), (0.2, 0.05), (0.3, 0.1)])
def test_a_second_wall_finds_spectra_whose_sources_do_not_reach_zero(k1, k2):
    """The last product is never absent once it is there: without the wall on the
    spectra they are negative.
    """
    C, A, X = reaction(k1, k2)
    cone = fitted(X, 3)
    assert cone.nonnegative_mixing_
    assert worst_correlation(C, cone.transform(X)) > 0.99
    assert np.minimum(cone.mixing_, 0).min() > -0.01 * cone.mixing_.max()
    signed = fitted(X, 3, nonnegative_mixing=False)
    assert not signed.nonnegative_mixing_
    assert worst_correlation(A.T, cone.mixing_) > worst_correlation(A.T, signed.mixing_)


def test_a_stream_knows_that_stored_samples_follow_a_curve(rng):
    C, A, _ = reaction(0.05, 0.1)
    X = noisy(np.repeat(C, 10, axis=0) @ A, 0.003)
    shuffled = X[rng.permutation(2400)]
    whole, stream, smallest = (
        worst_correlation(C, model.transform(C @ A))
        for model in (fitted(X, 3), streamed(X, 3), fitted(shuffled, 3))
    )
    assert stream > whole - 0.01 > smallest


@pytest.mark.parametrize(
    ("message", "known"),
    [
        ("reshape", np.ones(6)),
        ("transpose", np.ones((1, 6))),
        ("zero", np.zeros((6, 1))),
        ("NaN.*give", np.full((6, 1), np.nan)),
        ("of X", np.eye(7)),
        ("dependent", np.ones((6, 2))),
        ("more than", np.eye(6)[:, :4]),
    ],
)
def test_known_spectra_that_cannot_be_are_refused(message, known, rng):
    with pytest.raises(ValueError, match=message):
        fitted(rng.random((50, 6)), 3, known_mixing=known)


def test_a_known_spectrum_gives_amounts_in_its_units():
    """The same sample has the same amount in fits to different samples."""
    C = draw("0.5", 600, 3)
    A = np.random.default_rng(1).random((3, 20))
    X = noisy(C @ A, 0.002)
    known = 7 * A[1:2].T
    for rows in (slice(None), C[:, 1] < 0.5):
        cone = fitted(X[rows], 3, known_mixing=known)
        assert_allclose(cone.spectra_[0], 7 * A[1], rtol=1e-6)
        assert_allclose(cone.transform(X)[:, 0], C[:, 1] / 7, atol=0.03 / 7)
    total = fitted(X, 3, known_mixing=known, normalize="sum").transform(X).sum(axis=1)
    assert np.abs(total - 1).mean() < 0.1


@pytest.fixture
def never_absent():
    """Sources of which none reaches zero but one, in 20 samples; and mixtures."""
    rng = np.random.default_rng(0)
    S = rng.uniform(0.3, 1.3, (800, 3))
    S[:20, 1] = 0
    return S, noisy(S @ bands((0.25, 0.45, 0.7), 0.1, 60, 0.05), 0.01)


@pytest.mark.parametrize("chunks", [None, (300, 60)])
def test_known_amounts_find_sources_that_are_never_absent(never_absent, chunks):
    """Those of 5 % of the samples, in any units and order."""
    S, X = never_absent
    known = np.full((800, 3), np.nan)
    order = [2, 0, 1]
    known[100:140] = [1, 100, 0.01] * S[100:140, order]
    data = X
    if chunks:
        data = pytest.importorskip("dask.array").from_array(X, chunks=chunks)
    cone = MinimumVolumeCone(3, random_state=0).fit(data, known_sources=known)
    correlations = np.corrcoef(S[:, order].T, cone.transform(X).T)[:3, 3:]
    unknown = worst_correlation(S, fitted(X, 3).transform(X))
    assert correlations.diagonal().min() > 0.999 > unknown + 0.01


def test_known_zeros_show_a_facet_that_no_other_sample_shows(never_absent):
    S, X = never_absent
    zeros = np.full((800, 3), np.nan)
    zeros[:20, 0] = 0
    Y = MinimumVolumeCone(3, random_state=0).fit_transform(X, known_sources=zeros)
    assert np.corrcoef(S[:, 1], Y[:, 0])[0, 1] > 0.95
    assert Y[:20, 0].mean() < 0.05 * Y[:, 0].mean()


def test_known_amounts_that_cannot_be_are_refused(never_absent):
    S, X = never_absent
    for wrong in (S[:9], S[:, :2], -S, S + np.inf, [["much"]]):
        with pytest.raises(ValueError, match="known_sources"):
            MinimumVolumeCone(3).fit(X, known_sources=wrong)
    with pytest.raises(ValueError, match=r"known_sources.*horizon=None"):
        MinimumVolumeCone(3, horizon=1000).fit(X, known_sources=S)


# --- outliers that were not declared


@pytest.mark.parametrize(
    ("cells", "value"), [((17,), 1e9), ((3017,), 1e6), ((17, 2), 1e3)]
)
def test_one_sample_that_is_far_too_large_changes_nothing(cells, value):
    """A row of the first block or of a later one, or one cell."""
    S, X, _ = problem("exponential", 4000, 3, 5, 40)
    clean = sinr(S, fitted(X, 3).transform(X))
    spoiled = X.copy()
    spoiled[cells] *= value
    for learn in (fitted, streamed):
        assert sinr(S, learn(spoiled, 3).transform(X)) > clean - 1


def test_a_block_of_declared_outliers_is_skipped():
    """All samples of a block lie outside the cone; the next is learned from."""
    S, X, _ = problem("exponential", 8000, 3, 6, 40)
    X[4000:5000] *= -100
    stream = streamed(X, 3, outliers=0.01)
    assert stream.n_samples_seen_ == 8000
    X[4000:5000] /= -100
    assert sinr(S, stream.transform(X)) > 30


# --- invariances


def test_scale_and_order_of_samples_and_mixtures_do_not_matter(rng):
    _, X, _ = problem("copula0.3", 5000, 3, 6, 30)
    rows = rng.permutation(len(X))
    columns = rng.permutation(6)
    Y = fitted(X, 3).transform(X)
    assert_array_equal(fitted(1024 * X, 3).transform(1024 * X), Y)
    for other, agreement in ((1e-6 * X, 100), (X[:, columns], 60)):
        assert sinr(Y, fitted(other, 3).transform(other)) > agreement
    assert sinr(Y, fitted(X[rows], 3).transform(X)) > 40


def test_float32_agrees():
    _, X, _ = problem("copula0.5", 5000, 3, 6, 30)
    single = fitted(X.astype(np.float32), 3)
    Y = single.transform(X.astype(np.float32))
    assert Y.dtype == single.components_.dtype == np.float32
    assert sinr(fitted(X, 3).transform(X), Y) > 50


# --- the stream


@pytest.mark.parametrize(
    ("kind", "d", "k", "snr"),
    [("copula0.5", 5, 10, 30), ("copula0.5", 4, 8, 20), ("exponential", 3, 3, 40)],
)
def test_one_pass_ends_where_the_batch_ends(kind, d, k, snr):
    S, X, _ = problem(kind, 30_000, d, k, snr)
    batch = sinr(S, fitted(X, d).transform(X))
    assert sinr(S, streamed(X, d).transform(X)) > batch - 0.5


@pytest.mark.parametrize(
    "order", ["by their least source", "by their purity", "by a source", "by a share"]
)
def test_one_pass_without_noise_in_any_order(order):
    S, X, _ = problem("copula0.3", 20_000, 3, 6)
    by = {
        "by their least source": -S.min(axis=1),
        "by their purity": S.max(axis=1) / S.sum(axis=1),
        "by a source": -S[:, 0],
        "by a share": S[:, 0] / S.sum(axis=1),
    }
    stream = streamed(X[np.argsort(by[order])], 3)
    assert sinr(S, stream.transform(X)) > 60


@pytest.mark.parametrize(
    ("k", "noise", "snr"),
    [(6, "estimate", 30), (3, "estimate", 40), (6, "poisson", None), (6, 0.05, 30)],
)
def test_any_chunking_gives_the_same_bits(k, noise, snr, tmp_path, rng):
    _, X, _ = problem("copula0.3", 6500, 3, k, snr)
    if noise == "poisson":
        X = rng.poisson(100 * (X - X.min())).astype(float)
    whole, cut, single = (
        MinimumVolumeCone(3, noise=noise, outliers=0.01, random_state=0)
        for _ in range(3)
    )
    at_once = whole.partial_fit_transform(X)
    blocks = np.split(X, [1, 2, 1999, 2001, 4321])
    outputs = [cut.partial_fit_transform(block) for block in blocks]
    assert_array_equal(np.concatenate(outputs), at_once)
    assert not at_once[:2000].any()
    assert at_once[2000:].any(axis=1).mean() > 0.9
    for x in X[:2600]:
        single.learn_one(x)
    single.save(tmp_path / "model.bionica")
    resumed = bionica.load(tmp_path / "model.bionica")
    for other in (resumed, pickle.loads(pickle.dumps(single))):
        other.partial_fit(X[2600:])
        assert_array_equal(other.components_, whole.components_)
        assert other.n_samples_seen_ == 6500
    one = whole.transform_one(X[7])
    assert_allclose(one, whole.transform(X[7:8])[0], rtol=1e-12)


@pytest.mark.parametrize("seed", [500, 504, 505])
def test_noise_that_the_first_block_does_not_show_is_noticed_later(seed):
    """k = d, 50 dB: 2000 samples look as if there were no noise, and the smallest cone
    around all samples would follow it.
    """
    S = copula_uniform(20_000, 5, 0.5, rng=seed)
    X, _ = mix(S, n_mixtures=5, snr_db=50, rng=seed)
    stream = streamed(X, 5)
    assert stream.noise_.all()
    # its last solution
    batch = fitted(X[:15_000], 5)
    assert sinr(S, stream.transform(X)) > sinr(S, batch.transform(X)) - 1


def test_before_the_start_outputs_are_zero():
    _, X, _ = problem("copula0.3", 3000, 3, 6, 40)
    stream = MinimumVolumeCone(3, random_state=0)
    stream.learn_one(X[0])
    stream.partial_fit(X[1:1500])
    assert stream.n_samples_until_start_ == 500
    assert not stream.transform(X).any()
    assert not hasattr(stream, "components_")
    stream.partial_fit(X[1500:2000])
    assert stream.n_samples_until_start_ == 0
    assert_allclose(stream.components_, fitted(X[:2000], 3).components_)


def test_a_drifting_mixture_is_followed(rng):
    S = copula_uniform(60_000, 3, 0.5, rng=0)
    A, B = rng.standard_normal((2, 3, 6))
    # a full turn in 1e6 samples
    turn = np.linspace(0, 2 * np.pi * 0.06, len(S))[:, None]
    X = np.cos(turn) * (S @ A) + np.sin(turn) * (S @ B)
    X = noisy(X, 0.02 * X.std())
    model = MinimumVolumeCone(3, horizon=3000, random_state=0)
    Y = model.partial_fit_transform(X)
    for start in range(10_000, 60_000, 5000):
        part = slice(start, start + 5000)
        assert sinr(S[part], Y[part]) > 20
    # judged on the samples that it remembers
    with warnings.catch_warnings(action="error"):
        fit = fitted(X, 3, horizon=3000)
    assert sinr(S[-2000:], fit.transform(X[-2000:])) > 20


def test_memory_is_bounded():
    _, X, _ = problem("copula0.5", 20_000, 3, 6, 30)
    stream = MinimumVolumeCone(3, random_state=0)
    sizes = [len(pickle.dumps(stream.partial_fit(X))) for _ in range(15)]
    assert max(sizes[8:]) < 1.1 * max(sizes[:8])


# --- saving, honesty, bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": -1}, "'noise' parameter.*Got -1"),
        ({"n_components": 7}, "n_components=7 sources cannot be found in n_features=6"),
        ({"n_components": 4}, "exceeds the rank of the data.*=None .keeps 3"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    _, X, _ = problem("copula0.3", 2000, 3, 6)
    for learn in ("fit", "partial_fit"):
        model = MinimumVolumeCone(**{"n_components": 3} | parameters)
        with pytest.raises(ValueError, match=message):
            getattr(model, learn)(X)
        assert not hasattr(model, "components_")


def test_overflow_leaves_the_model_as_it_was():
    _, X, _ = problem("copula0.3", 3000, 3, 6, 30)
    cone = streamed(X, 3)
    before = pickle.dumps(cone)
    with pytest.raises(bionica.DivergenceError, match="rescale"):
        cone.partial_fit(np.full((1000, 6), 1e200))
    assert pickle.dumps(cone) == before
    with pytest.raises(ValueError, match="rank 0"):
        fitted(np.zeros((50, 3)), 1)


@pytest.mark.parametrize(("spectral", "kappa"), [(False, 0.1), (True, 1.0)])
def test_the_width_of_a_wall_is_that_of_equation_2(spectral, kappa):
    """One sample below one facet; noise s_i^2 = v |V_i|^2 of outputs, and their mean 1
    at the base.
    """
    U = np.array([[1.5, 1.0], [-0.2, 1.0], [1.7, 1.0]])
    data = unweighted(U)._replace(B=np.eye(2) if spectral else np.empty((0, 2)))
    V, _ = data.outputs(np.eye(2))
    c = 3.0
    v = 0.04
    e = 0.1
    wall = Wall(np.full(2, c), np.full(2, v), np.full(2, e), np.zeros(2))
    facets = near_facets(V @ U.T, V, np.full(2, np.inf), data)
    base = v * (V @ V.T).diagonal()
    for change in (0.0, -0.3):
        turned = np.add(V, [[0.0, change], [0.0, 0.0]])
        P = turned @ np.linalg.inv(V)
        mean = turned @ data.mean
        noise = v * (turned @ turned.T).diagonal()
        width = (1 + kappa) / (1 / noise + kappa / (base * mean**2)) + (e * mean) ** 2
        below = (np.minimum(U @ turned.T, 0) ** 2).mean(axis=0)
        value = np.log(mean).sum() - np.linalg.slogdet(P)[1]
        value += 0.5 * c * np.sum(below / width)
        found, _ = value_and_gradient(P, facets, wall)
        assert found == pytest.approx(value, rel=1e-12)
