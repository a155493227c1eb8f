"""Each number that findings compare with a limit, on data for which it is known; the
limit lies between the two that are tried.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import hadamard

from bionica import MinimumVolumeCone
from bionica.core.whitening import rank_of
from bionica.mixtures.separate import _better
from bionica.mixtures.verdict import ambiguity, count, measures
from bionica.mixtures.verdict.diagnosis import Diagnosis, diagnose
from bionica.mixtures.verdict.findings import (
    beyond,
    evidence,
    finding,
    findings_without_refits,
    ranked_findings,
    uncertain,
)
from bionica.mixtures.verdict.halves import (
    Uncertainty,
    follows_curve,
    is_nonnegative,
    match,
    roughness,
    uncertainty,
)
from conftest import bands, names_of

N = 4000


def sources(d=3, n=N, seed=0):
    """Nonnegative, uncorrelated, of unit variance, and half of them zero."""
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return S / S.std(axis=0)


def found(X, W=None, A=None, **facts):
    W = np.eye(X.shape[1]) if W is None else W
    fit = measures.Fit(
        X,
        W,
        np.linalg.pinv(W) if A is None else A,
        len(X),
        **{"noise": np.zeros(len(W)), **facts},
    )
    return {one.name: one for one in findings_without_refits(fit) + uncertain(fit)}


def scaled(value):
    """The second output has this variance, in units of 1."""
    return found(sources() * [1, np.sqrt(value), 1])


def noisy(value):
    """This share of the variance of the second output is noise."""
    return found(sources(), noise=np.array([0, np.sqrt(value), 0]))


def unexplained(value):
    """A direction beyond the sources has this energy, over the weakest source's."""
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 4)))[0]
    S = sources(4)
    S *= np.sqrt([1, 1, 1, value]) / np.sqrt(np.mean(S**2, axis=0))
    return found(S @ Q.T, Q[:, :3].T)


def subtracted(value):
    """t s_3 is subtracted from the first output; t^2 is this share of its variance."""
    S = sources()
    S[:, 0] = 6 * np.random.default_rng(1).random(N) * (np.arange(N) % 4 == 0)
    S[:, 0] -= np.sqrt(value * S[:, 0].var() / (1 - value)) * S[:, 2]
    return found(S, uncorrelated=False)


def centred(value):
    """The lower quartile of the first output lies so many standard deviations below
    zero.
    """
    return found(sources() - [value, 0, 0])


def diagnosed(S, A, **facts):
    """The verdict on the true model of exact mixtures, which each half finds too."""
    model = np.linalg.pinv(A), A
    return diagnose(S @ A.T, *model, lambda rows: model, n=len(S), **facts)


def negative_spectrum(value):
    """This share of the energy of the first spectrum is negative."""
    A = np.zeros((5, 3))
    A[:3] = np.eye(3)
    A[3, 0] = -np.sqrt(value / (1 - value))
    S = sources()
    X = np.column_stack([S, np.zeros((N, 2))])
    return found(X, np.eye(3, 5), A, noise=np.full(3, 1e-3))


def alike(value):
    """The correlation of two outputs."""
    S = sources(4)
    S[:, 1] = S[:, 0] + np.sqrt(1 / value**2 - 1) * S[:, 3]
    return found(S[:, :3], uncorrelated=False)


def saturated(value):
    """So many samples of the first mixture have its largest value."""
    X = sources()
    X[:, 0] = np.minimum(X[:, 0], np.sort(X[:, 0])[-value])
    return found(X, uncorrelated=False)


def unmixed(value):
    """This share of the first spectrum is in one mixture; the first source is in the
    second mixture too.
    """
    A = np.eye(3)
    A[1, 0] = np.sqrt((1 - value) / (2 * value - 1))
    return found(sources() @ A.T, np.linalg.inv(A), A)


@pytest.mark.parametrize(
    ("name", "data", "below", "above", "which"),
    [
        ("scale", scaled, 3.0, 5.0, [1]),
        ("scale", lambda value: scaled(1 / value), 3.0, 5.0, [1]),
        ("uncertain", noisy, 0.03, 0.05, [1]),
        ("directions", unexplained, 0.03, 0.05, []),
        ("negative", subtracted, 0.011, 0.02, [0]),
        ("centred", centred, 0.4, 0.6, [0]),
        ("spectra", negative_spectrum, 0.08, 0.13, [0]),
        ("duplicate", alike, 0.94, 0.96, [0, 1]),
        ("ceiling", saturated, 9, 11, [0]),
        ("unmixed", unmixed, 0.985, 0.995, []),
    ],
)
def test_a_finding_has_the_number_of_its_definition_and_is_given_above_its_limit(
    name, data, below, above, which
):
    assert name not in data(below)
    one = data(above)[name]
    assert one.values["value"] == pytest.approx(above, rel=0.1)
    assert sorted(one.sources or one.mixtures) == which


def test_neighbouring_rows_that_are_alike_are_spectra():
    """Roughness of a sinusoid with steps of angle h is 1 - cos h; the limit of the
    ratio is 20.
    """
    t = np.arange(200)
    # ratios 15 and 32, for columns without order
    for step, transposed in ((0.37, False), (0.25, True)):
        rows = np.column_stack([np.cos(step * t), np.sin(step * t)])
        assert roughness(rows) == pytest.approx(1 - np.cos(step), rel=0.02)
        X = rows @ np.random.default_rng(0).standard_normal((2, 300)) + 3
        assert ("transposed" in found(X, np.linalg.pinv(X)[:, :2].T)) == transposed


def test_structure_is_the_largest_ratio_of_successive_singular_values_of_the_residual(
    rng,
):
    U = np.linalg.qr(rng.standard_normal((500, 8)))[0]
    nothing = (np.zeros((2, 8)), np.zeros((8, 2)), 500)
    for ratio in (5.0, 7.0):
        # the last ones are not looked at
        E = U * [ratio**2, ratio**2, ratio, ratio, ratio, 1, 1, 1e-3] @ hadamard(8)
        value = measures.largest_gap(measures.Fit(E, *nothing))
        assert value == pytest.approx(ratio, rel=1e-6)
        assert bool(beyond("structure", value, d=2)) == (ratio > 6)
    rounding = measures.Fit(E, *nothing)
    rounding.residual = 1e-7 * rounding.X
    rounding.square = 1e-14 * rounding.square
    assert measures.largest_gap(rounding) == 0


def test_the_noise_of_an_output_is_what_other_directions_show_in_each_mixture(rng):
    """Mixture k leaves 1 - (A W)_kk of its noise variance D_k^2; the output has sum_k
    W_ik^2 D_k^2.
    """
    A = rng.random((8, 3))
    D = np.geomspace(0.01, 0.1, 8)
    W = np.linalg.pinv(A / D[:, np.newaxis]) / D
    X = sources(3, 50_000) @ A.T + D * rng.standard_normal((50_000, 8))
    noise = measures.Fit(X, W, A, len(X)).noise
    assert_allclose(noise, W**2 @ D**2, rtol=0.02)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_what_is_subtracted_is_no_noise(noise):
    """As many mixtures as sources: the noise is that below zero which other outputs do
    not explain.
    """
    U = sources(n=20_000)
    U[:, 0] = 9.0 * (U[:, 0] > 0) - 0.5 * U[:, 1]
    U += noise * np.random.default_rng(1).standard_normal(U.shape)
    found = measures.Fit(U, np.eye(3), np.eye(3), len(U)).noise
    assert_allclose(np.sqrt(found), noise, rtol=0.7, atol=1e-6)


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_what_is_subtracted_does_not_depend_on_the_units_of_outputs(unit):
    U = sources(2, 2000) @ [[1.0, 0.0], [-0.3, 1.0]]
    U += 0.1 * np.random.default_rng(1).standard_normal(U.shape)
    noise = np.array([0.3, 0.5])
    share = measures.subtracted(U, noise)
    assert share[0] > 0
    scaled_share = measures.subtracted(unit * U, unit**2 * noise)
    assert_allclose(scaled_share, share, rtol=1e-9)


def test_slopes_that_chance_explains_are_not_subtracted(rng):
    """Three standard errors: of 300 pairs of independent outputs with noise, chance
    exceeds them once or never.
    """
    shares = [
        measures.subtracted(rng.standard_normal((120, 3)), np.zeros(3))
        for _ in range(50)
    ]
    assert np.count_nonzero(shares) <= 3
    assert measures.subtracted(sources(n=9), np.zeros(3)).tolist() == [0, 0, 0]


def test_the_standard_error_of_a_slope_is_that_of_residuals_with_each_sample_left_out(
    rng,
):
    y = rng.random(15)
    U = np.column_stack([-0.5 - y + 0.05 * rng.standard_normal(15), y])
    u, y = ((column - column.mean()) / column.std() for column in U.T)
    left_out = []
    for i in range(15):
        line = np.polyfit(np.delete(y, i), np.delete(u, i), 1)
        left_out.append(u[i] - np.polyval(line, y[i]))
    slope = -(u @ y) / (y @ y)
    certain = slope - 3 * np.sqrt(np.sum((y * left_out) ** 2)) / (y @ y)
    explained = -(u @ y) * certain / (u @ u)
    expected = (certain * (2 - explained)) ** 2
    assert measures.subtracted(U, np.zeros(2))[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("draw", "untouched"),
    [
        (lambda rng: rng.exponential(size=(N, 3)), False),
        (lambda rng: rng.random((N, 3)) * (rng.random((N, 3)) < 0.5), False),
        # the density falls from zero on
        (lambda rng: rng.dirichlet([1, 1, 1], N), False),
        (lambda rng: rng.gamma(2, size=(N, 3)), True),  # m = 2
    ],
)
def test_a_facet_is_untouched_if_the_density_vanishes_there(draw, untouched, rng):
    S = draw(rng)
    assert (measures.untouched(S, np.zeros(3), 1.0) == untouched).all()
    assert not measures.untouched(S, S.std(axis=0), 1.0).any()  # noise hides it
    assert not measures.untouched(S, np.zeros(3), 4 / N).any()  # samples of a curve


@pytest.mark.parametrize("free", [[True, True], [True, False]])
def test_what_a_cone_that_is_too_small_subtracts_is_left_open(free, rng):
    """u_1 = s_1 - t s_2 of independent sources, and u_2 = s_2 - t s_1 if both facets
    are free.
    """
    S = 0.5 + rng.random((50_000, 2))
    t = 1 / 3
    U = S @ (np.eye(2) - t * np.array([[0, free[1]], [1, 0]]))
    true = S[:, 0] * (S[:, 0] @ U[:, 0]) / (S[:, 0] @ S[:, 0])
    share = measures.enlarged(U, np.array(free))
    assert share[0] == pytest.approx(
        np.mean((U[:, 0] - true) ** 2) / U[:, 0].var(), rel=0.05
    )
    assert measures.enlarged(U, np.array([False, False])).tolist() == [0, 0]
    assert measures.enlarged(S, np.array(free)).max() < 1e-3  # uncorrelated


def test_outputs_of_nonnegative_ica_turn_until_one_is_negative():
    """Angles from -a to b are as likely: the mean of sin^2 is about (a^3 + b^3) / 3 (a
    + b).
    """
    angles = np.linspace(0.2, np.pi / 2 - 0.1, 1000)
    U = np.column_stack([np.cos(angles), np.sin(angles)])
    scale = U.std(axis=0)
    b = np.arctan2(np.sin(0.2) / scale[1], np.cos(0.2) / scale[0])
    a = np.arctan2(np.sin(0.1) / scale[0], np.cos(0.1) / scale[1])
    assert_allclose(measures.turned(U), (a**3 + b**3) / (3 * (a + b)), rtol=1e-6)
    assert measures.turned(np.eye(3)[[0, 1, 2, 0]]).max() == 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_sources_that_are_never_zero_are_doubted_and_those_that_are_sometimes_are_not(
    rng,
):
    A = rng.random((2, 12))
    for offset, names in ((0.0, []), (0.5, ["facets"])):
        X = (offset + rng.random((1500, 2))) @ A
        X += 0.003 * rng.standard_normal(X.shape)
        diagnosis = MinimumVolumeCone(2, random_state=0).fit(X).diagnose(X, refit=False)
        assert names_of(diagnosis) == names
    assert "Bring samples in which some sources are absent" in str(diagnosis)


@pytest.mark.parametrize("uncorrelated", [False, True])
@pytest.mark.parametrize("row", [0.0, 1e200])
def test_an_output_without_variance_or_with_one_that_overflows_is_the_only_finding(
    row, uncorrelated
):
    W = np.array([[1.0, 0, 0], [0, row, 0]])
    one = evidence(sources(), W, np.eye(3, 2), N, uncorrelated=uncorrelated)
    assert [(each.name, each.sources, each.values["value"]) for each in one] == [
        ("scale", (1,), np.inf)
    ]


@pytest.mark.parametrize(("n", "least"), [(100, 20), (30, 15)])
def test_samples_below_a_ceiling_are_20_or_half_at_least(n, least, rng):
    X = rng.random((n, 3))

    def clipped(below):
        return np.minimum(X, [np.sort(X[:, 0])[below], 1, 1])

    sound = X[X[:, 0] < np.sort(X[:, 0])[least]]
    assert np.array_equal(count.unsaturated(clipped(least)), sound)
    assert np.array_equal(count.unsaturated(X), X)
    message = f"{n - least + 1} of {n} samples have saturated cells, and the others"
    message += " are too few to count sources: give n_c"
    with pytest.raises(ValueError, match=message):
        count.unsaturated(clipped(least - 1))


def test_as_many_sources_as_mixtures_are_not_checked(rng):
    """The colours of a picture of four dyes cannot hold three sources, and pass every
    other check.
    """
    diagnosis = diagnosed(sources(3, 1000), rng.random((3, 3)).T)
    assert diagnosis.ok
    assert "their number cannot be checked" in diagnosis.unchecked
    assert diagnosis.unchecked in str(diagnosis)


@pytest.mark.parametrize(
    ("n", "said"), [(4, "mixture 3: "), (5, "mixture 3 and 1 more: ")]
)
def test_four_mixtures_are_named_and_the_others_counted(n, said):
    assert (
        finding("ceiling", 11, mixtures=range(n), level=1.0)
        .text()
        .startswith(f"mixture 0, mixture 1, mixture 2, {said}")
    )


def test_the_error_of_a_band_is_the_root_mean_square_sine_to_its_first_member():
    """Whatever the scale and the sign of the members: sines 0, 0.6, 0.6 and 1."""
    rows = np.array([[[1.0, 0.0]], [[4.0, 3.0]], [[-8.0, 6.0]], [[0.0, 0.1]]])
    assert ambiguity._error(rows) == pytest.approx(np.sqrt((0.36 + 0.36 + 1) / 4))


def test_a_constant_mixture_is_not_saturated():
    X = np.column_stack([sources(), np.full(N, 7.0)])
    assert "ceiling" not in found(X, np.eye(3, 4), np.eye(4, 3), uncorrelated=False)


def test_the_number_is_named_first_and_each_remedy_once_unless_it_was_tried():
    """What is unexplained is noise only if it has no direction of its own."""

    def ranked(found, *tried):
        return [(one.name, one.remedies) for one in ranked_findings(found, *tried)]

    count = finding("directions", d=3)
    first = ("directions", ("count",))
    noise = finding("uncertain", cause="noise")._replace(remedies=("average",))
    others = [("negative", ("mean",)), ("duplicate", ())]
    tried = {"cone"}
    assert ranked([finding("duplicate"), finding("negative"), count], tried) == [
        first,
        *others,
    ]
    assert ranked([noise, count]) == [first, ("uncertain", ())]
    assert ranked([noise]) == [("uncertain", ("average",))]


def doubts(noise, share, error):
    """Of two outputs, by the shares of noise and of all that moves them."""
    fit = measures.Fit(sources(2), np.eye(2), np.eye(2), N, noise=np.sqrt(noise))
    one = fit.variance = np.ones(2)
    return uncertain(
        fit, Uncertainty(one, one, np.array(error), one, np.array(share), 0.0)
    )


@pytest.mark.parametrize(
    ("explained", "error", "cause", "remedies", "value"),
    [
        (([0.01, 0.03], [0.01, 0.02]), [0.5, 0.3], "noise", ("average",), 0.05),
        (([0.01, 0.02], [0.01, 0.03]), [0.5, 0.3], "differ", ("more samples",), 0.05),
        (([0.01, 0.03], [0.01, 0.02]), [0.1, 0.8], "model", (), 0.05),
        # a share is at most 1
        (([0.1, 0.9], [0.1, 0.8]), [0.3, 0.5], "noise", ("count", "average"), 1),
    ],
)
def test_noise_halves_or_the_model_are_named_as_the_cause_of_an_error(
    explained, error, cause, remedies, value
):
    *_, one = doubts(*explained, error)
    assert one.values["cause"].split()[-1] == cause
    assert one.remedies == remedies
    assert one.values["value"] == pytest.approx(value)
    assert one.values["error"] == error[1]


def test_the_angle_is_that_between_columns_in_any_order_sign_and_scale(rng):
    A = np.eye(8)[:, :4]
    B = A[:, [2, 0, 3, 1]].copy()
    B[:, 1] += np.tan(0.2) * np.eye(8)[:, 7]
    found, degrees = match(A, -3 * rng.random(4) * B)
    assert found.tolist() == [1, 3, 0, 2]
    assert_allclose(degrees, [np.degrees(0.2), 0, 0, 0], atol=1e-5)


@pytest.mark.parametrize(("sigma", "nonnegative"), [(0.9, False), (1.1, True)])
def test_noise_explains_half_its_variance_below_zero(sigma, nonnegative, rng):
    X = rng.standard_normal((20_000, 4))
    units = np.array([1e-3, 1, 10, 1e3])
    assert is_nonnegative(units * X, units * sigma) == nonnegative
    # of directions, not of mixtures
    assert is_nonnegative(1e-3 * X, np.full(2, 1e-3 * sigma)) == nonnegative
    assert is_nonnegative(np.abs(X), np.zeros(4))
    assert not is_nonnegative(X, np.zeros(4))


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_without_noise_only_rounding_may_be_negative(unit):
    """Of the largest entry, whatever the unit."""
    for least, nonnegative in ((-1e-13, True), (-1e-11, False)):
        assert (
            is_nonnegative(unit * np.array([[1.0, 0.5], [0.3, least]]), np.zeros(2))
            == nonnegative
        )


# --- halves


def leading(rows):
    """Least squares for x = a s with s the first column: components and mixing of a
    single source.
    """
    a = rows.T @ rows[:, 0] / (rows[:, 0] @ rows[:, 0])
    return np.array([[1.0, 0, 0]]), a[:, np.newaxis]


@pytest.mark.parametrize("n", [15, 400])
def test_standard_errors_of_spectra_are_those_of_least_squares(n):
    """Of a linear regression it is known: sigma / sqrt(n <s^2>), orthogonal to the
    spectrum a, which has any scale.
    """
    a = np.array([1.0, 2.0, 3.0])
    P = np.eye(3) - np.outer(a, a) / 14
    variance = np.diag(P @ np.diag([0, 1, 1]) @ P)[1:].mean() * 0.01 / (n / 3)
    estimates = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.random((n, 1)) * a + 0.1 * rng.standard_normal((n, 3)) * [0, 1, 1]
        moved = uncertainty(X, *leading(X), leading, np.zeros(1))
        estimates.append(moved.mixing[1:, 0])
    assert np.mean(np.square(estimates)) == pytest.approx(variance, rel=0.8)


@pytest.mark.parametrize(
    ("n", "periods", "curve"),
    [(200, 4, True), (200, 5, False), (4000, 4, True), (4000, 5, False)],
)
def test_rows_follow_a_curve_if_fewer_than_d_of_them_are_independent(n, periods, curve):
    """Of a circle with steps of angle h, n (1 - cos h) are: 1.6 for 4 turns in 200
    steps, 2.5 for 5. 100 rows a source are used.
    """
    angle = 2 * np.pi * periods * np.arange(n) / n
    assert (
        follows_curve(np.column_stack([3 + np.cos(angle), 3 + np.sin(angle)]), 2)
        == curve
    )


@pytest.mark.parametrize(
    ("d", "n_known", "doubted"), [(2, 0, False), (3, 0, True), (3, 1, False)]
)
def test_a_curve_of_both_signs_leaves_three_unknown_sources_open(
    d, n_known, doubted, rng
):
    """It touches the facets of three sources in points, those of two at its ends."""
    S = bands(np.linspace(0.3, 0.7, d), 0.12, 300).T
    A = rng.standard_normal((8, d))
    verdict = diagnosed(S, A, n_known=n_known, uncorrelated=False)
    assert ("ambiguous" in names_of(verdict)) == doubted
    assert (verdict.uncertainty_.sources.min() == 1) == doubted


@pytest.mark.parametrize("value", [0.15, 0.25])
@pytest.mark.parametrize("of", ["sources", "spectra"])
def test_a_range_above_a_fifth_of_an_output_or_a_spectrum_is_ambiguous(
    value, of, monkeypatch, rng
):
    S = bands([0.4, 0.6], 0.1, 300).T
    A = rng.random((8, 2))
    shares = {"sources": np.zeros(2), "spectra": np.zeros(2), of: np.full(2, value)}
    band = ambiguity.Bands(A, A, **shares)
    monkeypatch.setattr("bionica.mixtures.verdict.diagnosis.bands", lambda *given: band)
    verdict = diagnosed(S, A, uncorrelated=False)
    assert ("ambiguous" in names_of(verdict)) == (value > 0.2)
    assert (verdict.uncertainty_.sources >= shares["sources"]).all()


def test_halves_are_random_or_of_time_and_the_scale_of_fits_does_not_count(rng):
    calls = []
    A = rng.random((6, 3))
    X = rng.exponential(size=(N, 3)) @ A.T
    W = np.linalg.pinv(A)

    def fit(rows):
        calls.append(rows)
        return 1e3 * W, A / 1e3

    assert uncertainty(X, W, A, fit, np.zeros(3)).mixing.max() < 1e-12
    assert_array_equal(np.vstack(calls[4:]), X)
    first = X[:, 0]
    for halves in (calls[:2], calls[2:4]):
        assert_array_equal(np.sort(np.vstack(halves)[:, 0]), np.sort(first))
        assert 0.45 < np.mean(np.isin(halves[0][:, 0], first[: N // 2])) < 0.55


# --- the number of sources, and the method


def turned(angles):
    """`cones` for which the spectra of two halves of q sources differ by an angle."""
    halves = itertools.cycle((False, True))

    def cones(Z, B, variance):
        q = Z.shape[1]
        angle = np.radians(angles[q]) if next(halves) else 0.0
        R = np.eye(q)
        R[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return [R / np.linalg.norm(Z, axis=0)]

    return cones


def counted(d, angles):
    X = sources(d) @ (np.eye(d) + np.random.default_rng(0).random((d, d)))
    return count.count_sources(X, turned(angles))


@pytest.mark.parametrize(("angle", "agreed"), [(12.0, True), (18.0, False)])
def test_halves_agree_below_15_degrees(angle, agreed):
    of_two = counted(2, {2: angle})
    assert of_two.n_sources == 2
    assert of_two.agreed == agreed
    assert of_two.angles[2] == pytest.approx(angle, abs=1.0)


def test_the_number_of_sources_has_the_largest_jump():
    """Eq. (1): sqrt(q) times the least log of tan(angle_p) / tan(angle_q) of the three
    numbers after q.
    """
    # the jump of 7 is 0.31 of the largest
    angles = {2: 2.0, 3: 4.0, 4: 1.0, 5: 10.0, 6: 30.0, 7: 30.0, 8: 45.0}
    of_eight = counted(8, angles)
    tangent = {q: np.tan(np.radians(angle)) for q, angle in of_eight.angles.items()}
    tangent |= {9: 4.0, 10: 4.0, 11: 4.0}
    jump = {
        q: np.sqrt(q) * np.log(min(tangent[q + i] for i in (1, 2, 3)) / tangent[q])
        for q in range(2, 9)
    }
    best = max((q for q in jump if of_eight.angles[q] < 15), key=jump.get)
    assert of_eight.n_sources == best == 4
    others = {q for q in jump if q != best and jump[q] > jump[best] / 3}
    assert set(of_eight.candidates) == others


@pytest.mark.parametrize(
    ("n", "size", "most"), [(200, 100, 12), (199, 129, 12), (24, 15, 7)]
)
def test_halves_or_two_thirds_of_few_samples_are_compared_for_numbers_up_to_a_quarter(
    n, size, most, rng
):
    """Two subsets of 65 % of fewer than 200 samples, which hold all of them; all
    directions are above the noise.
    """
    U = np.linalg.qr(rng.standard_normal((n, 12)))[0]
    seen = []

    def cones(Z, B, variance):
        seen.append(Z)
        return [np.eye(Z.shape[1])]

    found = count.count_sources(U * 2.0 ** -np.arange(12), cones)
    assert {len(Z) for Z in seen} == {size}
    assert max(Z.shape[1] for Z in seen) == most
    for pair in zip(seen[::2], seen[1::2], strict=True):
        assert len(np.unique(np.vstack(pair)[:, 0])) == n
    assert found.n_sources <= most


def test_a_number_on_which_halves_agree_far_better_than_on_the_next_is_named():
    """An angle of .08 degrees is as good as .57 where the number is chosen, but not
    where candidates are.
    """
    angles = {2: 0.08, 3: 1.0, 4: 1.15, 5: 8.0, 6: 45.0, 7: 34.0, 8: 45.0}
    of_eight = counted(8, angles)
    assert of_eight.n_sources == 4 and 2 in of_eight.candidates


def edge(energy, q, n, k, sign):
    """Eq. (2): the largest energy (sign 1) or the least (-1) of white noise in the
    directions after the first q.
    """
    a = np.sqrt(n - q)
    b = sign * np.sqrt(k - q)
    variance = energy[q:].sum() / ((n - q) * (k - q))
    return variance * ((a + b) ** 2 + 3 * (a + b) * np.cbrt(1 / a + 1 / b))


@pytest.mark.parametrize(("n", "k", "q"), [(100, 12, 2), (4000, 30, 1), (50, 12, 0)])
def test_white_noise_explains_directions_between_the_limits_of_equation_2(n, k, q):
    noise = np.geomspace(1.2, 1, k)
    for index, sign, bounds in (
        (q, 1, ((q, True), (q + 1, True))),
        (-1, -1, ((q, True), (q, False))),
    ):
        for factor, bound in zip((0.99, 1.01)[::sign], bounds, strict=True):
            energy = np.array([1e9] * q + [n] * (k - q)) * noise
            for _ in range(50):  # the limit depends on the energy
                energy[index] = factor * edge(energy, q, n, k, sign)
            assert count._bound(energy, k, n, k) == bound
    for rank in (3, 4):  # all others are zero, or there are none
        assert count._bound(10.0 ** -np.arange(0, 16, 4), rank, n, 4) == (
            rank,
            rank < 4,
        )


@pytest.mark.parametrize("case", ["drift", "shuffled", "absent from one half"])
def test_a_changing_mixing_is_found_by_halves_in_time_but_no_absent_source(
    case,
    rng,
):
    """X = S A' + t S D' has twice as many nonnegative sources, s and t s, which fit it
    well in any other order.
    """
    n = 900
    S = sources(2, n, seed=1)
    if case == "absent from one half":
        S[: n // 2, 0] = 0
    else:
        S = np.hstack([S, np.linspace(0, 1, n)[:, np.newaxis] * S])
    d = S.shape[1]
    X = S @ rng.random((d, 12)) + 1e-3 * rng.standard_normal((n, 12))
    if case == "shuffled":
        X = rng.permutation(X)
    diagnosis = MinimumVolumeCone(d, random_state=0).fit(X).diagnose(X)
    assert names_of(diagnosis) == (["changed"] if case == "drift" else [])
    assert (diagnosis.uncertainty_.change > 0.1) == (case == "drift")


def verdict(share, *findings, nonnegative=False):
    zero = np.zeros(3)
    moved = Uncertainty(zero, zero, zero, zero, np.array([0.0, share]), 0.0)
    return Diagnosis(findings, moved, None, SimpleNamespace(is_nonnegative=nonnegative))


WRONG = finding("duplicate")
NOISE = finding("uncertain", cause="noise")  # which no method removes


@pytest.mark.parametrize(
    ("batch", "cone", "better"),
    [
        (verdict(0.04), verdict(0.1), "batch"),
        (verdict(0.06), verdict(0.1), "cone"),
        (verdict(0.04), verdict(0.1, nonnegative=True), "cone"),
        (verdict(0.9), verdict(0.1, WRONG), "batch"),
        (verdict(0.01, WRONG), verdict(0.1), "cone"),
        (verdict(0.01, NOISE), verdict(0.1), "batch"),
    ],
)
def test_batch_nica_is_kept_if_it_is_twice_as_certain(batch, cone, better):
    assert _better({"batch": batch, "cone": cone})[0] == better


# --- which samples are judged, and what is singular


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_direction_counts_if_rounding_cannot_make_it(dtype, rng):
    """Of k features of equal variance: more than k (4 eps_64 + eps^2) of the largest
    variance.
    """
    U = np.linalg.qr(rng.standard_normal((500, 4)))[0]
    eps = [np.finfo(kind).eps.astype(float) for kind in (np.float64, dtype)]
    limit = np.sqrt(4 * (4 * eps[0] + eps[1] ** 2))
    for size, rank in ((1.15 * limit, 4), (0.85 * limit, 3)):
        X = (U * [1, 1, 1, size] @ hadamard(4)).astype(dtype)
        assert rank_of(X, centred=False) == rank


def test_a_signal_beyond_the_sources_adds_to_the_error_of_each(rng):
    """By the energy of the output times that of the residual's leading direction over
    that of the weakest source.
    """
    Q = np.linalg.qr(rng.standard_normal((8, 4)))[0]
    S = sources(4)
    S *= np.sqrt([1, 2, 4, 0.2]) / np.sqrt(np.mean(S**2, axis=0))
    W = Q[:, :3].T
    facts = {"noise": np.zeros(3), "uncorrelated": False}
    seen = measures.Fit(S @ Q.T, W, W.T, N, **facts)
    # what one mixture holds may be its noise
    square = np.square(S[:, 3:] @ Q[:, 3:].T).mean(axis=0).max()
    assert_allclose(
        (seen.error - seen.noise)[:2] / np.array([1, 2]),
        0.2 - square,
        rtol=0.05,
    )
