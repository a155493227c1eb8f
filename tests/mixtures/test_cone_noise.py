"""What the cone believes about noise: counts, channels, distances outside, gains of
closed data, memory; each by its definition.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from bionica import MinimumVolumeCone
from bionica.core.blocks import ArrayRows
from bionica.mixtures.cone import fit, sketch
from bionica.mixtures.cone.fit import (
    Cone,
    Settings,
    better,
    distance_outside,
    largest_distance,
)
from bionica.mixtures.cone.noise import (
    FIRST_C,
    Leakage,
    channel_noise,
    coordinates,
    find_channels,
    leakages,
    next_wall,
)
from bionica.mixtures.cone.objective import Wall, unweighted
from conftest import bands

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def closed(n, d=3, k=12, noise=0.0, seed=0):
    """Sources that sum to one, and their mixtures."""
    rng = np.random.default_rng(seed)
    S = rng.dirichlet(np.full(d, 0.5), n)
    X = S @ bands(np.linspace(0.2, 0.8, d), 0.15, k, 0.05)
    return S, X + noise * rng.standard_normal((n, k))


@pytest.mark.parametrize("power", [-900, 900])
@pytest.mark.parametrize("noise", ["estimate", 0.1])
def test_channels_do_not_depend_on_the_unit_of_powers_of_two(power, noise):
    X = closed(50, k=30, noise=0.01)[1]
    unit = 2.0**power
    plain = find_channels(X, 3, noise)
    scaled = find_channels(X * unit, 3, noise if noise == "estimate" else noise * unit)
    assert scaled.scale == plain.scale * unit
    assert_array_equal(scaled.rows(X * unit), plain.rows(X))
    assert_array_equal(scaled.noise, plain.noise)


def test_of_two_cones_the_one_that_settled_is_better_then_the_objective_then_less_noise(
    monkeypatch,
):
    """Angles are in degrees: rows that are turned by 30 degrees in a tie; none if the
    second wins.
    """
    turned = np.array([[np.cos(np.pi / 6), 0.5], [-0.5, np.cos(np.pi / 6)]])

    def cone(V, converged, noise=1.0):
        wall = Wall(np.ones(2), np.full(2, noise), np.ones(2), np.ones(2))
        return Cone(V, wall, 1, converged)

    settled = cone(np.eye(2), True)
    same = cone(np.eye(2), False)
    other = cone(turned, False)
    quiet = cone(np.eye(2), False, 0.5)
    assert better(None, settled, other, 5.0) == (settled, 5.0)
    assert better(None, other, settled, 5.0) == (settled, 0.0)
    assert better(None, other, same, 5.0) == (other, pytest.approx(30))
    assert better(None, other, quiet, 50.0) == (quiet, 50.0)
    monkeypatch.setattr(
        fit, "objective", lambda V, data, wall: 7.0 if V is turned else 3.0
    )
    worse = cone(turned, True, 0.5)
    assert better(None, worse, settled, 5.0) == (settled, 0.0)
    assert better(None, settled, worse, 5.0) == (settled, 5.0)


# --- counts


def test_weights_make_the_noise_of_counts_the_same_in_every_sample(rng):
    """z = w x / scale; totals differ by a factor of 50, and `noise` is the standard
    deviation of each channel.
    """
    expected = rng.permutation(np.geomspace(100, 5000, 4000))[:, None] * closed(4000)[1]
    counts = rng.poisson(expected).astype(float)
    channels = find_channels(counts, 3, "poisson")
    assert channels.counts
    Z = channels.rows(counts)
    weight = Z[:, 0] / np.maximum(counts[:, 0], 1e-9)
    error = (Z - weight[:, None] * expected) ** 2
    assert_allclose(np.sqrt(error.mean(axis=0)), channels.noise, rtol=0.05)
    few = expected.sum(axis=1) < np.median(expected.sum(axis=1))
    assert error[few].sum() == pytest.approx(error[~few].sum(), rel=0.05)
    plain = channels.rows(counts, weighted=False)
    assert_allclose(plain, counts / channels.scale)


# --- channels and coordinates


@pytest.mark.parametrize(("shared", "independent"), [(0.0, True), (0.1, False)])
def test_the_noise_of_channels_is_fitted_only_if_it_is_independent(shared, independent):
    """Eq. (3); otherwise it is what is left out of each channel, over the share of it
    that is left out.
    """
    rng = np.random.default_rng(1)
    n = 20_000
    D = np.geomspace(0.02, 0.1, 9)
    X = rng.exponential(size=(n, 3)) @ rng.standard_normal((3, 9))
    X += D * rng.standard_normal((n, 9))
    X += shared * rng.standard_normal((n, 1)) * rng.standard_normal(9)
    second = X.T @ X / n
    values, directions = np.linalg.eigh(second)
    rest = directions[:, :6] ** 2
    left_out = (rest @ values[:6]) / rest.sum(axis=1)
    found = channel_noise(second, 3, n, values, directions)
    assert_allclose(
        found, D**2 if independent else left_out, rtol=0.25 if independent else 1e-9
    )
    assert np.allclose(found, left_out) != independent


@pytest.mark.parametrize(("q", "d", "freedom"), [(3, 1, 0), (5, 2, 1), (10, 3, 18)])
@pytest.mark.parametrize("excess", [0.97, 1.03])
def test_noise_is_that_of_channels_up_to_twice_the_misfit_of_chance(
    q, d, freedom, excess
):
    """Two channels with noise correlated by r: the misfit is -n log(1 - r^2). Chance:
    the mean of chi-squared, and two standard deviations (of one degree more, because
    there may be none). A channel without noise has that of the others, or a thousandth.
    """
    n = 5000
    limit = 2 * (freedom + 2 * np.sqrt(2 * freedom + 1))
    second = np.diag([100.0] * d + [4.0] * (q - d))
    second[-1, -2] = second[-2, -1] = 4 * np.sqrt(1 - np.exp(-excess * limit / n))
    axes = np.linalg.eigh(second)
    found = channel_noise(second, d, n, *axes)
    assert_allclose(found[:d], 4 if excess < 1 else 0.004, rtol=1e-6)
    assert_allclose(found[d:], 4, rtol=1e-6)
    # fewer than three samples for each channel
    few = channel_noise(second, d, 3 * q - 1, *axes)
    assert_allclose(few[:d], 0.004, rtol=1e-6)


def in_coordinates(X, known=None):
    """The channels of three sources, and their coordinates."""
    n, k = X.shape
    channels = find_channels(X, 3, "estimate")
    Z = channels.rows(X)
    known = np.empty((k, 0)) if known is None else known
    return channels, Z, coordinates(Z.T @ Z / n, 3, n, channels, known)


def test_coordinates_are_those_of_white_noise_and_known_spectra_are_kept():
    rng = np.random.default_rng(2)
    A = rng.random((10, 3))
    E = np.geomspace(0.05, 0.5, 10) * rng.standard_normal((20_000, 10))
    channels, _, at = in_coordinates(
        rng.exponential(size=(20_000, 3)) @ A.T + E, A[:, :1]
    )
    assert_allclose(at.matrix @ at.inverse, np.eye(3), atol=1e-9)
    assert_allclose(at.inverse @ (at.matrix @ A[:, 0]), A[:, 0], atol=1e-9)
    noise = np.cov(at.matrix @ (E / channels.scale).T)
    assert_allclose(noise, at.variance * np.eye(3), atol=0.1)
    assert at.known and at.variance == pytest.approx(1, abs=0.1)


def test_an_error_of_the_model_counts_as_noise_of_every_coordinate():
    """theta_{d+1} is the noise variance where it exceeds what is expected of white
    noise: here of a baseline that varies.
    """
    rng = np.random.default_rng(2)
    n = 5000
    X = rng.exponential(size=(n, 3)) @ rng.random((3, 30))
    X += 0.01 * rng.standard_normal((n, 30))
    X += 0.02 * rng.standard_normal((n, 1)) * rng.standard_normal(30)
    _, Z, at = in_coordinates(X)
    white = (Z - Z @ at.matrix.T @ at.inverse.T) / at.channel_noise
    theta = np.linalg.eigvalsh(white.T @ white / n)[-1]
    expected = theta / (1 + np.sqrt(27 / n)) ** 2
    assert at.variance == pytest.approx(expected, rel=0.02)
    assert at.variance > 3


# --- outliers


SETTINGS = Settings(0.0, np.inf, None, np.empty((12, 0)), 3, normalize="sum")


def begun(X):
    rows = ArrayRows(X)
    sample = sketch.sample_rows(rows, len(X))
    return sketch.begin(rows, *sample, SETTINGS)


def test_the_distance_outside_is_that_off_the_subspace_and_beyond_a_facet(rng):
    found = begun(closed(3000, noise=0.01)[1]).fit
    at = found.coordinates
    inside = found.mixing.sum(axis=1)  # all outputs are 1
    V = found.cone.V
    facet = V[1] / np.linalg.norm(V[1])
    u = at.matrix @ inside
    beyond = at.inverse @ (u - (u @ facet + 5.0) * facet)  # by 5 standard deviations
    assert (V @ at.matrix @ beyond)[[0, 2]].min() > 0
    off = at.channel_noise * rng.standard_normal(12)
    off -= at.inverse @ (at.matrix @ off)
    off /= np.linalg.norm(off / at.channel_noise)
    Z = np.stack([inside, beyond, inside + 3 * off, beyond + 12 * off])
    assert_allclose(distance_outside(Z, found), [0, 5, 3, 13], atol=1e-9)


def test_declared_outliers_are_their_share_and_three_standard_errors_of_their_number():
    distance = np.arange(10_000.0)
    assert largest_distance(distance, 0.04) == pytest.approx(
        (1 - 0.04 - 3 * 0.002) * 9999
    )
    # most samples are no outliers
    assert largest_distance(distance[:10], 0.4) == pytest.approx(0.3 * 9)


# --- leakage


def parts_below(z):
    """The parts of an atom, a unit density and a unit slope at zero, blurred by unit
    noise, that lie below z: by quadrature.
    """
    density, slope = (
        quad(lambda y, power=power: y**power * norm.cdf(z - y), 0, z + 9)[0]
        for power in (0, 1)
    )
    return [norm.cdf(z), density, slope]


@pytest.mark.parametrize(
    ("atom", "density", "slope", "others"),
    [
        (0.2, 0.1, -0.01, (0.5, 1.0, 2.0)),
        (0.02, 0.1, 0.01, (0.5, 1.0, 2.0)),  # an atom below 0.3 of the density is none
        (-0.02, 0.1, 0.01, (0.5, 1.0, 2.0)),
        # the density is at least 0.3 of that of the second window
        (0.2, 0.0, 0.01, (0.5, 1.0, 2.0)),
        (0.0, 0.0, 0.01, (0.5, 1.0, 1.0)),  # so is the force
        # or 0.3 of that of an atom beside outputs of mean 1
        (0.2, 0.01, 0.0, (0.0, 0.0, 0.0)),
    ],
)
def test_the_force_follows_from_the_windows(atom, density, slope, others):
    """Eqs. (5) and (6), of one sample in each window, with the weights that such a
    source has; `others` are beside each part.
    """
    below = np.array([[0.0] * 3, *map(parts_below, (2.0, 4.0, 6.0))])
    windows = np.diff(below, axis=0)
    parts = np.array([atom, density, slope])
    weights = windows @ parts
    assert weights.min() > 0
    s = 0.1
    beside = [*(windows @ (parts * others) / weights), 1.0]
    Y = np.array([s * np.array([-0.7, 3.0, 5.0, 7.0]), beside, beside])
    found = leakages(Y, np.array([s, 1e-9, 1e-9]), np.array([*weights, 1.0]))
    flat = weights[1] / 2
    root = np.sqrt(2 * np.pi)
    force = density * others[1] / 4 + slope * others[2] / (3 * root)
    density = max(density, 0.3 * flat)
    atom = max(0, atom - 0.3 * density)
    force += atom * others[0] / root
    force = max(force, 0.3 * beside[1] * flat / 4, 0.3 * atom / root)
    rho = (atom / 2 + 2 * density / (3 * root)) / (atom / 2 + density / root)
    assert found.force[0] == pytest.approx(force, rel=1e-6)
    assert found.discrepancy[0] == pytest.approx(0.7**2 / rho, rel=1e-6)
    assert (found.n_near[0], found.n_below[0]) == (3, 1)


# --- walls


def test_the_hardness_balances_the_leakage():
    """Eq. (4): c_i <[-z_i]_+ y_j> / s_i = 1; the noise that tails show is pooled by the
    number of samples that show it.
    """
    size = np.array([1.0, 2.0, 4.0])
    force = np.array([0.01, 0.02, 0.1])
    wall = Wall(np.full(3, 3.0), np.full(3, 0.04), np.zeros(3), np.full(3, 1e5))
    leaks = Leakage(force, size, np.full(3, 500.0), np.full(3, 30.0))
    known, change = next_wall(wall, leaks, size, known=True)
    assert_allclose(known.c * force, 0.2 * size)
    assert_allclose(known.variance, 0.04)
    assert change == pytest.approx(np.abs(np.log(known.c / 3)).max())
    one, _ = next_wall(wall, leaks, size, 10.0, known=True, one=True)
    assert_allclose(one.c, 10 * np.exp(np.log(known.c).mean()))
    leaks_of_few = leaks._replace(n_near=np.array([29.0, 30.0, 31.0]))
    few, _ = next_wall(wall, leaks_of_few, size, known=True)
    assert_allclose(few.c, [FIRST_C, *known.c[1:]])
    # 30 samples of each output below zero, and a prior that counts for 30
    for prior, pooled in (({"prior": 0.01}, 0.01), ({}, 0.08)):
        shown, _ = next_wall(wall, leaks, size, known=False, **prior)
        assert_allclose(shown.variance, np.sqrt(0.04 * size * pooled))
    shown, _ = next_wall(wall, leaks, size, known=False, prior=0.01)
    again = next_wall(wall._replace(c=shown.c), leaks, size, known=False, prior=0.01)
    assert again[1] == pytest.approx(np.log(2))


@pytest.fixture
def tightened():
    """Samples of three sources, and their facets from outside."""
    rng = np.random.default_rng(3)
    U = rng.dirichlet(np.full(3, 0.7), 900) @ rng.random((3, 3))
    start = np.linalg.inv(U[:3].mean(axis=0) + np.eye(3))
    return U, lambda: fit.tighten(U, start, U.mean(axis=0))


@pytest.mark.parametrize(("n_near", "noisy"), [(29.0, False), (30.0, True)])
def test_noise_that_too_few_samples_show_is_none(n_near, noisy):
    wall = Wall(np.full(2, np.nan), np.full(2, 0.04), np.zeros(2), np.full(2, 1e5))
    leaks = Leakage(np.full(2, 0.01), np.ones(2), np.full(2, n_near), np.full(2, 10.0))
    found, change = next_wall(wall, leaks, np.full(2, 2.0), known=False)
    assert found.variance.any() == noisy
    assert noisy or change == 0
    assert_allclose(found.e, 0 if noisy else 0.4)


@pytest.mark.parametrize("share", [0.0027, 0.0033])
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_spectra_hold_if_0_3_percent_of_the_energy_of_each_is_negative(share, unit):
    A = np.eye(4, 2)
    A[2, 1] = -np.sqrt(share / (1 - share))
    V = np.array([[1.0, -0.2], [0.3, 1.0]])
    data = unweighted(np.ones((1, 2)))._replace(B=unit * A @ V)
    assert fit._spectra_hold(V, data) == (share < 0.003)
    # spectra that may be negative
    assert fit._spectra_hold(V, data._replace(B=-data.B[:0]))


def test_facets_that_have_not_settled_say_so(tightened, monkeypatch):
    monkeypatch.setattr(fit, "MAX_ROUNDS", 1)
    _, sweeps, settled = tightened[1]()
    assert (sweeps, settled) == (1, False)


def test_sources_come_in_the_order_of_their_share_of_the_data(rng):
    """The energy of the spectrum times the variance of the amounts, whatever each of
    them is.
    """
    A = np.array([[3.0, 0.1, 0.1, 0.2], [0.1, 1.0, 0.1, 0.3], [1.2, 1.1, 1.2, 1.3]])
    for amounts in ([1.0, 5.0, 1.0], [0.1, 1.0, 3.0], [1.0, 1.0, 1.0]):
        X = rng.exponential(amounts, size=(3000, 3)) @ A
        found = MinimumVolumeCone(3, random_state=0).fit(X)
        parts = np.sum(found.mixing_**2, axis=0) * found.transform(X).var(axis=0)
        assert (np.diff(parts) < 0).all()


def test_dark_samples_hide_no_facet(tightened):
    """More samples at the apex than are given to a linear program, in any unit: they
    touch every facet, and say nothing.
    """
    U, tighten = tightened
    V, _, settled = tighten()
    dark = np.vstack([np.zeros((1500, 3)), 1e-12 * U[:1], U])
    found, _, also = fit.tighten(dark, V + 0.01, U.mean(axis=0))
    assert settled and also
    assert_allclose(found, V, atol=1e-7)
    assert (V @ U.T).min() > -1e-9


@pytest.mark.parametrize(("noise", "hidden"), [(1.2, True), (0.3, False)])
def test_facets_that_noise_hides_are_those_of_nonnegative_ica(noise, hidden, rng):
    """Signed mixtures with noise above the mean of the outputs: these are uncorrelated,
    as the rotation makes them.
    """
    S = 10 * rng.exponential(size=(4000, 3)) * (rng.random((4000, 3)) < 0.1)
    A = np.linalg.qr(rng.standard_normal((8, 3)))[0]
    X = S @ A.T + noise * rng.standard_normal((4000, 8))
    kind = {"normalize": "mean", "nonnegative_mixing": False}
    cone = MinimumVolumeCone(3, **kind, random_state=0).fit(X)
    assert (cone.noise_.max() > 1) == hidden
    correlation = np.corrcoef(cone.components_ @ X.T)
    assert np.allclose(correlation, np.eye(3), atol=1e-9) == hidden


# --- gains


def test_the_noise_does_not_change_the_gains_of_closed_data():
    """g minimises <(g' s - 1)^2> over the sources, not over outputs with noise of
    covariance v V V'.
    """
    _, X = closed(3000)
    state = begun(X)
    W = sketch.readout(state, SETTINGS).components
    assert_allclose((X @ W.T).sum(axis=1), 1, atol=1e-6)
    inverse = state.fit.coordinates.inverse
    v = 0.01
    raw = state.raw
    raw = raw._replace(scatter=raw.scatter + raw.n * v * inverse @ inverse.T)
    cone = state.fit.cone
    cone = cone._replace(wall=cone.wall._replace(variance=np.full(3, v)))
    noisy = state._replace(raw=raw, fit=state.fit._replace(cone=cone))
    assert_allclose(sketch.readout(noisy, SETTINGS).components, W, rtol=1e-9)


def test_gains_are_nonnegative_least_squares_and_those_of_zero_a_share_of_the_mean():
    """Sources (1, 0, 0), (0, 1, 0) and (1, 1, 2) sum to one with gains (1, 1, -1 / 2),
    and nearly so with (2, 2, 0) / 3.
    """
    state = begun(closed(3000)[1])
    S = np.array([[1.0, 0, 0], [0, 1, 0], [1, 1, 2]])
    A = state.fit.mixing
    scatter = 3 * A @ np.cov(S.T, bias=True) @ A.T
    raw = state.raw._replace(n=3.0, mean=A @ S.mean(axis=0), scatter=scatter)
    state = state._replace(raw=raw)
    total, mean = (
        sketch.readout(state, SETTINGS._replace(normalize=by)).components
        for by in ("sum", "mean")
    )
    # gains times means of sources
    factors = np.array([4 / 9, 4 / 9, 1 / 3])
    assert_allclose(total, mean * factors[:, np.newaxis], rtol=1e-6)


# --- streams


@pytest.mark.parametrize(
    ("horizon", "solved"),
    [
        # the number has grown by half, in blocks of 1000
        (None, [3000, 5000, 8000, 12_000]),
        # a quarter of the horizon, in blocks
        (6000, [3000, 5000, 7000, 9000, 11_000, 13_000]),
        (1000, range(3000, 14_000, 1000)),
    ],
)
def test_the_cone_is_solved_when_samples_grew_by_half_or_a_quarter_horizon(
    horizon, solved, monkeypatch
):
    found = []
    solve = sketch.solve
    monkeypatch.setattr(
        sketch,
        "solve",
        lambda state, settings: found.append(state.n) or solve(state, settings),
    )
    MinimumVolumeCone(3, horizon=horizon, random_state=0).partial_fit(
        closed(13_500, noise=0.01)[1]
    )
    assert found == [*solved]


@pytest.mark.parametrize(("asked", "after"), [("auto", False), (True, True)])
def test_the_wall_on_spectra_falls_with_the_first_block_that_is_negative(asked, after):
    _, X = closed(4000, noise=0.005)
    cone = MinimumVolumeCone(3, nonnegative_mixing=asked, random_state=0)
    for rows in (X[:2000], X[2000:3000]):
        assert cone.partial_fit(rows).nonnegative_mixing_
    negative = X[3000:] - 0.3 * X[3000:].mean()
    assert cone.partial_fit(negative).nonnegative_mixing_ == after


def test_a_horizon_weighs_samples_by_their_age_and_forgets_those_older_than_two(
    monkeypatch,
):
    horizon = 2000
    n = 9000
    X = closed(n, noise=0.01)[1] * np.linspace(1, 2, n)[:, None]
    weights = []
    fit_data = sketch.fit_data

    def recorded(data, *arguments, **options):
        weights.append(data.weights)
        return fit_data(data, *arguments, **options)

    monkeypatch.setattr(sketch, "fit_data", recorded)
    cone = MinimumVolumeCone(3, horizon=horizon, normalize="mean", random_state=0)
    Y = X @ cone.partial_fit(X).components_.T
    age = np.arange(2 * horizon)[::-1]
    assert_allclose(weights[-1] / weights[-1][-1], np.exp(-age / horizon))
    # of means: by blocks of 1000 after the first 2000
    block = np.maximum(np.arange(n) // 1000 + 1, 2)
    weight = np.exp((1000 * block - n) / horizon)
    assert_allclose(weight @ Y / weight.sum(), 1, rtol=1e-9)
