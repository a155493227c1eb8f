"""`diagnose`: each planted defect is found by its own sentence, and a right fit by none."""

import dataclasses
import sys
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel
from numpy.testing import assert_allclose
from scipy.stats import ortho_group
from sklearn.exceptions import NotFittedError

from bionica.datasets import copula_uniform, mix, random_sources
from bionica.estimators._diagnosis import EDGES, Diagnosable, diagnose
from bionica.estimators._diagnosis_closure import closed_sources
from bionica.estimators._diagnosis_count import counted
from bionica.estimators._diagnosis_residual import dependence
from bionica.estimators._diagnosis_time import change_between_halves, frozen_columns, rising_columns
from bionica.estimators._percent import percent
from bionica.estimators.batch_nica import BatchNICA
from bionica.estimators.interneuron_nica import InterneuronNICA
from bionica.estimators.minimum_volume_cone import MinimumVolumeCone
from bionica.estimators.streaming_nica import StreamingNICA

T = 4000


class Linear(Diagnosable):
    """y = max(W x, 0), with any W: what a fit may end in."""

    def __init__(self, W, mixing=None):
        self.components_ = np.asarray(W, float)
        self.mixing_ = np.linalg.pinv(self.components_) if mixing is None else mixing

    def transform(self, X):
        return np.maximum(np.asarray(X) @ self.components_.T, 0)


def mixed(S, k=None, seed=1):
    """Return the mixtures and the unmixing matrix of sources S."""
    A = np.linalg.qr(np.random.default_rng(seed).standard_normal((k or S.shape[1], k or S.shape[1])))[0][
        :, : S.shape[1]
    ]
    return S @ A.T, A.T


def noisy(X, dB, seed=2):
    return X + np.random.default_rng(seed).standard_normal(X.shape) * np.sqrt(X.var(axis=0).mean() * 10 ** (-dB / 10))


def fitted(X, n_components):
    return BatchNICA(n_components, n_init=3, random_state=0).fit(X)


@pytest.fixture(scope="module")
def S():
    S = random_sources("sparse_uniform", T, 5, rng=0)
    return S / S.std(axis=0)


def only(found, *parts):
    """Assert that there is one problem, and its sentence has these parts."""
    assert not found.ok
    assert len(found.sentences) == 1, str(found)
    for part in parts:
        assert part in found.sentences[0]


# ------------------------------------------------------------------------------------------ the numbers


def test_numbers_follow_their_definitions(rng):
    X, W = rng.standard_normal((500, 4)) + 0.5, rng.standard_normal((3, 4))
    found = diagnose(Linear(W), X)
    U = X @ W.T
    Y = np.maximum(U, 0)
    energy, negative = U**2, np.minimum(U, 0) ** 2
    assert_allclose(found.negativity, negative.sum() / energy.sum())
    assert_allclose(found.negativity_per_output, negative.sum(axis=0) / energy.sum(axis=0))
    assert_allclose(found.correlations, np.corrcoef(Y.T))
    assert_allclose(found.variance, Y.var(axis=0))
    assert_allclose(found.firing, (Y > 0).mean(axis=0), atol=2e-3)
    assert_allclose(found.grounding, (Y <= Y.std(axis=0) / 4).mean(axis=0))
    assert_allclose(found.floor, np.quantile(Y, 0.01, axis=0) / Y.std(axis=0))
    assert_allclose(found.mean_over_std, U.mean(axis=0) / U.std(axis=0))
    total = X.var(axis=0).sum()
    assert_allclose(found.residual, (X - Y @ np.linalg.pinv(W).T).var(axis=0).sum() / total)
    assert_allclose(found.outside, (X - U @ np.linalg.pinv(W).T).var(axis=0).sum() / total)
    assert_allclose(found.inner.sum(), total * (1 - found.outside))
    assert found.histogram.shape == (3, len(EDGES) - 1)
    assert (found.n_samples, found.n_samples_given, found.drift) == (500, 500, None)
    value, (i, j) = found.largest_correlation
    assert i < j and value == found.correlations[i, j]
    assert abs(value) == np.abs(np.triu(found.correlations, 1)).max()


def test_variance_error_is_that_of_the_variance(rng):
    X = rng.exponential(size=(400, 200, 1))
    found = [diagnose(Linear([[1.0]]), x) for x in X]
    assert_allclose(np.mean([f.variance_error for f in found]), np.std([f.variance for f in found]), rtol=0.25)


def test_blocks_change_nothing(monkeypatch, S):
    X, W = mixed(S, 7)
    X = noisy(X, 20) + 1e4
    whole = diagnose(Linear(W), X)
    monkeypatch.setattr("bionica.estimators._diagnosis._BLOCK", 7 * 33)
    cut = diagnose(Linear(W), X)
    for name in ("negativity", "correlations", "variance", "grounding", "residual", "outside", "inner"):
        assert_allclose(getattr(cut, name), getattr(whole, name), rtol=1e-7, atol=1e-12)


def test_scale_and_order_of_the_mixtures_do_not_matter(S, rng):
    X, W = mixed(S, 7)
    X = noisy(X, 25)
    a = diagnose(Linear(W), X)
    b = diagnose(Linear(W / 1e6), X * 1e6)
    for name in ("negativity", "correlations", "variance", "grounding", "residual", "outside"):
        assert_allclose(getattr(b, name), getattr(a, name), rtol=1e-9, atol=1e-12)
    assert b.sentences == a.sentences


@pytest.mark.parametrize(
    ("draw", "grounded"),
    [
        (lambda r, n: random_sources("sparse_uniform", n, 1, rng=r), True),
        (lambda r, n: r.exponential(size=(n, 1)), True),
        (lambda r, n: np.abs(r.standard_normal((n, 1))), True),
        (lambda r, n: r.random((n, 1)), True),
        (lambda r, n: r.gamma(4, size=(n, 1)), False),
        (lambda r, n: r.exponential(size=(n, 1)) + 1, False),
        (lambda r, n: np.abs(r.standard_normal((n, 1)) + 4), False),
    ],
)
@pytest.mark.parametrize("n", [1000, 30_000])
def test_grounding_separates_sources(draw, grounded, n, rng):
    s = draw(rng, n)
    found = diagnose(Linear([[1 / s.std()]]), s)
    assert found.ok == grounded
    if not grounded:
        only(found, "output 0 is hardly ever near zero", "background")


# ------------------------------------------------------------------------------------------ right fits


@pytest.mark.parametrize("kind", ["odor", "sparse_uniform", "exponential", "half_normal"])
@pytest.mark.parametrize(("n", "d", "k"), [(1000, 3, 3), (1000, 10, 12), (20_000, 6, 12)])
def test_right_fits_are_ok(kind, n, d, k):
    X = random_sources(kind, 2 * n, d, rng=5) @ np.random.default_rng(6).standard_normal((d, k))
    nica = fitted(X[:n], d)
    for part in (X[:n], X[n:]):
        found = diagnose(nica, part)
        assert found.ok, str(found)
        assert len(found.sentences) == 1 and "looks right" in str(found)
    assert (found.silent, found.duplicated) == ((), ())


def test_noise_at_30_dB_is_ok(S):
    X = noisy(mixed(S, 10)[0], 30)
    assert diagnose(fitted(X, 5), X).ok


def test_uncorrelated_but_dependent_sources_are_ok():
    X, _ = mixed(copula_uniform(T, 4, 0.0, rng=0))
    assert diagnose(fitted(X, 4), X).ok


# ------------------------------------------------------------------------------------------ planted defects


def test_silent(S):
    X, W = mixed(S)
    found = diagnose(Linear(W * [[1], [1], [0], [1], [1]]), X)
    assert found.silent == (2,)
    only(found, "output 2 fires in 0.00% of the samples", "n_components=4")


def test_all_silent(S):
    X, W = mixed(S)
    found = diagnose(Linear(0 * W), X)
    assert found.silent == (0, 1, 2, 3, 4)
    assert "outputs 0, 1, 2, 3 and 4 fire" in found.sentences[0] and "collapsed" in found.sentences[0]


def test_flipped_sign(S):
    X, W = mixed(S)
    found = diagnose(Linear(W * [[1], [1], [1], [-1], [1]]), X)
    assert "output 3 is negative throughout" in found.sentences[0]
    assert "n_components=" not in str(found)


def test_duplicated(S):
    X, W = mixed(S)
    found = diagnose(Linear(W[[0, 1, 2, 2, 4]] + 0.01 * W[[0, 0, 1, 0, 0]]), X)
    assert found.duplicated == ((2, 3),)
    only(found, "outputs 2 and 3 are nearly the same source (correlation 1.00)", "n_components=4")


def test_three_of_a_kind_are_one_sentence(S):
    X, W = mixed(S)
    found = diagnose(Linear(W[[0, 1, 1, 1, 4]]), X)
    assert found.duplicated == ((1, 2), (1, 3), (2, 3))
    only(found, "outputs 1, 2 and 3 are", "n_components=3")


@pytest.mark.parametrize("kind", ["sparse_uniform", "half_normal"])
@pytest.mark.parametrize("surplus", [1, 3])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_too_many(kind, surplus):
    X = noisy(mixed(random_sources(kind, T, 5, rng=0), 10)[0], 30)
    found = diagnose(fitted(X, 5 + surplus), X)
    assert not found.ok
    assert f"{5 + surplus} outputs and 5 directions" in found.sentences[0]
    assert "n_components=5." in found.sentences[0]


@pytest.mark.parametrize("missing", [1, 2])
@pytest.mark.parametrize("dB", [30, 300])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_too_few(S, missing, dB):
    X = noisy(mixed(S, 10)[0], dB)
    found = diagnose(fitted(X, 5 - missing), X)
    assert "lies outside of the" in found.sentences[0]
    assert "n_components=5." in found.sentences[0]


def test_noise_as_strong_as_sources_is_named(S):
    X, W = mixed(S, 10)
    assert "strong noise" in diagnose(Linear(W), noisy(X, 3)).sentences[0]


@pytest.mark.parametrize("rho", [0.3, 0.5])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_correlated_sources(rho):
    X, _ = mixed(copula_uniform(T, 5, rho, rng=0))
    only(diagnose(fitted(X, 5), X), "energy is negative", "sources are correlated")


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_source_of_both_signs(S):
    S = np.column_stack([S[:, :4], np.random.default_rng(0).laplace(size=T)])
    X, _ = mixed(S)
    assert any("negative at times" in s for s in diagnose(fitted(X, 5), X).sentences)


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_mean_removed(S):
    X, _ = mixed(S)
    X = X - X.mean(axis=0)
    only(diagnose(fitted(X, 5), X), "the mean was removed from X")


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_shifted_sources(S):
    X, _ = mixed(S + 1)
    only(diagnose(fitted(X, 5), X), "hardly ever near zero", "background")


@pytest.mark.parametrize("seed", range(5))
def test_wrong_rotation_and_random_weights(S, seed):
    X, W = mixed(S)
    rotated = diagnose(Linear(ortho_group.rvs(5, random_state=seed) @ W), X)
    assert any("energy is negative" in s for s in rotated.sentences)
    random = diagnose(Linear(np.random.default_rng(seed).standard_normal((5, 5))), X)
    assert any("energy is negative" in s for s in random.sentences)


def test_correlated_outputs(S):
    X, W = mixed(S)
    W = W.copy()
    W[1] = 0.9 * W[1] + 0.435 * W[3]
    only(diagnose(Linear(W), X), "outputs 1 and 3 are correlated (0.4", "not settled")


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_wrong_scale(S, factor):
    X, W = mixed(S)
    only(
        diagnose(Linear(W * [[1], [factor], [1], [1], [1]]), X),
        f"output 1 has variance {factor**2:.2g}",
        "another scale",
    )


def test_several_findings_come_in_order_of_gravity(S):
    X, W = mixed(S)
    found = diagnose(Linear(W[[0, 0, 2, 3, 4]] * [[1], [1], [0], [3], [1]]), X)
    assert [s.split(" (")[0].split(":")[0] for s in found.sentences] == [
        "output 2 fires in 0.00% of the samples, that is never",
        "outputs 0 and 1 are nearly the same source",
        "output 3 has variance 9 where 1 is right",
    ]
    assert str(found) == "\n".join(f"- {s}" for s in found.sentences)


# ------------------------------------------------------------------------------------------ drift, samples, input


def test_drift(S):
    X, W = mixed(S)
    order = [3, 0, 4, 1, 2]
    est = Linear(W)
    assert diagnose(est, X, before=W[order]).drift == 0
    moved = est.diagnose(X, before=W[order] * 0.8)
    assert_allclose(moved.drift, 0.25)
    assert moved.ok and "changed by 25% since" in moved.sentences[-1]


def test_few_samples_are_named(S):
    X, W = mixed(S)
    assert "100 samples are few" in diagnose(Linear(W), X[:100]).sentences[-1]
    assert diagnose(Linear(W), X[:2]).sentences


def test_one_output():
    x = np.random.default_rng(0).exponential(size=(T, 1))
    found = diagnose(Linear([[1.0]]), x)
    assert found.ok and found.largest_correlation == (0.0, (0, 0))
    assert "variance 0 " in diagnose(Linear([[1.0]]), np.ones((T, 1))).sentences[-2]


def test_long_data_are_thinned_evenly_in_bounded_memory():
    n = 300_000
    X = np.random.default_rng(0).exponential(size=(n, 4))
    X[1::3] = np.nan  # rows that are not looked at
    X[2::3] = np.nan
    tracemalloc.start()
    found = diagnose(Linear(np.eye(4)), X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found.n_samples, found.n_samples_given) == (100_000, n) and found.ok
    assert peak < 100_000 * 4 * 8 * 12
    assert diagnose(Linear(np.eye(4)), X[::3], max_samples=1000).n_samples == 1000


def test_frames_and_lists():
    pd = pytest.importorskip("pandas")
    X = random_sources("exponential", 1000, 3, rng=0)
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(1000)[::-1] * 0.5)
    nica = fitted(frame, 3).set_output(transform="pandas")
    assert diagnose(nica, frame).sentences == diagnose(fitted(X, 3), X.tolist()).sentences


def test_the_estimator_and_the_data_are_left_alone(S):
    X, _ = mixed(S)
    nica, before = fitted(X, 5), X.copy()
    W = nica.components_.copy()
    X.flags.writeable = False
    diagnose(nica, X)
    assert (X == before).all() and (nica.components_ == W).all()


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        (np.ones((5, 2)), {}, r"X has shape \(5, 2\).*3 features"),
        (np.ones(3), {}, r"X has shape \(3,\)"),
        (np.ones((1, 3)), {}, "at least 2 samples"),
        ([[1, 2, 3], [1, 2, 3], [np.nan, 0, 0]], {}, r"X\[2\] holds NaN"),
        (np.ones((5, 3)), {"before": np.eye(2)}, r"before has shape \(2, 2\)"),
        (np.ones((5, 3)), {"max_samples": 1}, "max_samples=1"),
    ],
)
def test_bad_input_is_refused(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        diagnose(Linear(np.eye(3)), X, **arguments)


def test_not_fitted():
    with pytest.raises(NotFittedError, match="BatchNICA has no components_"):
        diagnose(BatchNICA(), np.ones((5, 3)))


# ------------------------------------------------------------------------------------------ the picture


def test_plot(S, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, W = mixed(S)
    found = Linear(W).diagnose(X, plot=True)
    (number,) = plt.get_fignums()
    assert len(plt.figure(number).axes) == 4  # with the colour bar
    figure, axes = plt.subplots(1, 3)
    assert found.plot(axes) is figure
    assert [axis.get_ylim() for axis in axes] == [(4.5, -0.5)] * 3
    figure.canvas.draw()
    with pytest.raises(ValueError, match="three Axes"):
        found.plot(axes[0])
    plt.close("all")


def test_matplotlib_is_not_needed(S, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    X, W = mixed(S)
    assert Linear(W).diagnose(X).ok


# ------------------------------------------------------------------------------------------ closed sources


def abundances(d, k, noise, n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(d, 0.5), n) @ rng.random((d, k))
    return X + noise * np.sqrt(np.mean(X**2)) * rng.standard_normal(X.shape)


@pytest.mark.parametrize(("d", "k"), [(2, 6), (3, 20), (5, 10), (10, 40)])
@pytest.mark.parametrize("noise", [1e-3, 0.03, 0.1])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_closed_sources_are_named(d, k, noise):
    X = abundances(d, k, noise)
    for outputs in (d, d - 1):  # the covariance shows d - 1 directions
        found = diagnose(fitted(X, outputs), X)
        assert found.closed == d and not found.ok
        assert "sources are probably correlated" in found.sentences[0] and "sum to a constant" in found.sentences[0]
        assert "try MinimumVolumeCone(normalize='sum')" in found.sentences[0]
        assert (f"n_components={d}." in found.sentences[0]) == (outputs < d)
        assert "directions in which X stands out" not in str(found)


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_closed_sources_without_noise():
    X = abundances(3, 8, 0.0)
    assert diagnose(fitted(X, 2), X).closed == 3


def test_the_cone_is_not_blamed_for_closed_sources():
    X = abundances(4, 20, 0.01)
    found = MinimumVolumeCone(4, random_state=0).fit(X).diagnose(X)
    assert found.closed == 4 and found.ok, str(found)


@pytest.mark.parametrize("n", [200, 1000, pytest.param(100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("d", [2, 3, 5, 10])
def test_other_sources_are_not_closed(d, n):
    rng = np.random.default_rng([d, n])
    draws = [random_sources(kind, n, d, rng=rng) for kind in ("sparse_uniform", "odor", "exponential", "half_normal")]
    draws += [rng.random((n, d)), rng.gamma(4, size=(n, d)), rng.exponential(size=(n, d)) + 1]
    draws += [copula_uniform(n, d, rho, rng=rng) for rho in (0.0, 0.5)]
    for S in draws:
        for k in (d, 2 * d, 50):
            X = S @ rng.standard_normal((d, k))
            X = X[:: -(-n // 1000)]
            for noise in (0.0, 0.03, 0.3, 1.0):
                x = X + noise * np.sqrt(np.mean(X**2)) * rng.standard_normal(X.shape)
                assert [closed_sources(x, q) for q in (d - 1, d)] == [0, 0]


# ------------------------------------------------------------------------------------------ the number of sources


@pytest.mark.parametrize("rho", [0.3, 0.5])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_the_drop_between_correlated_sources_is_not_that_to_the_noise(rho, seed):
    """Their first direction is ten times as strong as the others."""
    rng = np.random.default_rng(seed)
    X = mix(copula_uniform(T, 5, rho, rng=rng), rng.standard_normal((10, 5)), snr_db=20, rng=rng)[0]
    assert "n_components=" not in str(diagnose(fitted(X, 5), X))


@pytest.mark.parametrize("snr_db", [None, 30])
@pytest.mark.filterwarnings("ignore:MinimumVolumeCone:sklearn.exceptions.ConvergenceWarning")
def test_a_cone_with_too_few_outputs_is_not_right(snr_db):
    """It takes the missing source for noise of the mixtures, which would be independent between them."""
    X = mix(
        random_sources("exponential", T, 4, rng=0), np.random.default_rng(1).standard_normal((10, 4)), snr_db=snr_db
    )[0]
    right, few = (MinimumVolumeCone(d, random_state=0).fit(X).diagnose(X) for d in (4, 3))
    assert right.ok and not right.over_noise < 0.5
    assert "try n_components=4" in few.sentences[0], str(few)


def test_local_networks_with_more_mixtures_than_sources():
    """Their weights may be oblique: what lies outside of the outputs' directions then says nothing about the number of sources."""
    rng = np.random.default_rng(0)
    S = random_sources("sparse_uniform", 20_000, 3, rng=rng)
    X = mix(S, rng.standard_normal((6, 3)), snr_db=30, rng=rng)[0]
    found = InterneuronNICA(3, precondition="scale", random_state=0).fit(X).diagnose(X)
    assert found.outside > 0.1 and found.ok, str(found)


def test_a_sample_beyond_1e100_is_an_outlier():
    """Its square overflows. `transform` may do so too, but the diagnosis answers."""
    rng = np.random.default_rng(0)
    X = rng.exponential(size=(500, 3)) @ rng.random((3, 4))
    nica = BatchNICA(3, random_state=0).fit(X)
    spoiled = X.copy()
    spoiled[7] = 1e150
    found = nica.diagnose(spoiled)
    assert found.outliers.tolist() == [7]
    assert found.residual == pytest.approx(nica.diagnose(np.delete(X, 7, axis=0)).residual)


@pytest.mark.parametrize("kind", ["Dirichlet", "copula"])
@pytest.mark.filterwarnings("ignore:MinimumVolumeCone:sklearn.exceptions.ConvergenceWarning")
def test_a_cone_without_one_of_four_correlated_sources_is_not_right(kind, rng):
    """The missing direction is weak beside the others, but it is no noise."""
    S = rng.dirichlet(np.full(4, 0.5), T) if kind == "Dirichlet" else copula_uniform(T, 4, 0.5, rng=rng)
    X = mix(S, rng.random((20, 4)), snr_db=40, rng=rng)[0]
    right, few = (MinimumVolumeCone(d, random_state=0).fit(X).diagnose(X) for d in (4, 3))
    assert right.ok, str(right)
    assert not few.ok and "try n_components=4." in str(few)


@pytest.mark.parametrize("surplus", [1, 3])
@pytest.mark.filterwarnings("ignore:MinimumVolumeCone:sklearn.exceptions.ConvergenceWarning")
def test_a_cone_with_too_many_outputs_is_told_how_many(surplus, rng):
    X = mix(random_sources("exponential", T, 4, rng=rng), n_mixtures=20, snr_db=30, rng=rng)[0]
    found = MinimumVolumeCone(4 + surplus, random_state=0).fit(X).diagnose(X)
    assert not found.ok and "try n_components=4." in str(found)


def test_outputs_for_all_mixtures_may_be_sources(rng):
    """With as many mixtures as sources, weak sources look like noise beside strong ones."""
    for _ in range(10):
        X = random_sources("sparse_uniform", 2000, 5, rng=rng) @ rng.standard_normal((5, 5))
        assert diagnose(fitted(X, 5), X).ok


def test_counting_finds_no_floor_in_few_mixtures(rng):
    count = counted(random_sources("exponential", T, 3, rng=rng) @ rng.standard_normal((3, 3)), centred=True)
    assert not count.sure and count.noise == 0
    assert counted(np.empty((10, 0)), centred=True).n_sources == 0


# ------------------------------------------------------------------------------------------ the data


def noisy_mixtures(rng, d=4, k=8, n=T, dB=30):
    return mix(random_sources("exponential", n, d, rng=rng), n_mixtures=k, snr_db=dB, rng=rng)[0]


@pytest.mark.parametrize("slope", [0.1, -3.0])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_an_evenly_rising_mixture_is_named(slope, rng):
    X = np.column_stack([noisy_mixtures(rng), 5 + slope * np.arange(T)])
    found = diagnose(fitted(X, 5), X)
    assert found.rising == (8,) and not found.ok
    assert "mixture 8 is rising or falling from sample to sample" in str(found) and "leave it out of X" in str(found)
    assert fitted(X[:, :8], 4).diagnose(X[:, :8]).rising == ()


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("sign", [1, -1])
def test_a_time_that_rises_unevenly_is_named(sign, rng):
    X = np.column_stack([sign * np.cumsum(rng.uniform(0.5, 3, T)), noisy_mixtures(rng)])
    found = fitted(X, 4).diagnose(X)
    assert found.rising == (0,) and not found.ok
    assert "mixture 0 is rising or falling from sample to sample throughout" in str(found)


def test_numbers_of_samples_with_a_gap_are_named(rng):
    rows = np.arange(500)
    X = np.column_stack([np.delete(np.arange(501.0), 100), noisy_mixtures(rng, n=500)])
    assert rising_columns(X, rows) == (0,)
    assert rising_columns(X[90:109], rows[90:109]) == ()  # 19 samples


def test_sources_that_rise_or_decay_are_no_time(rng):
    n = 60
    rows, t = np.arange(n), np.linspace(0, 1, n)[:, np.newaxis]
    decays = np.hstack([np.exp(-3 * t), 1 - np.exp(-3 * t), t * np.exp(-3 * t)]) @ rng.random((3, 40))
    assert rising_columns(decays, rows) == ()
    X = noisy_mixtures(rng, k=12, n=n)
    for order in (X[:, 0], -X[:, 5]):  # samples that are sorted by a mixture
        assert rising_columns(X[np.argsort(order)], rows) == ()
    strength = np.concatenate([[1.0], np.full(19, 0.03)])  # a titration: the strongest mixture alone rises throughout
    ramp = t * strength + 0.002 * rng.standard_normal((n, 20))
    assert (np.diff(ramp, axis=0) > 0).all(axis=0).sum() == 1
    assert rising_columns(ramp, rows) == ()


def test_rising_columns_know_the_numbers_of_the_rows(rng):
    rows = np.sort(rng.choice(1000, 100, replace=False))
    x = np.column_stack([rows * 0.25 + 1e6, rows + 0.01 * rng.standard_normal(100), np.ones(100), rows**2])
    assert rising_columns(x, rows) == (0,)
    assert rising_columns(x[:3], rows[:3]) == ()


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_a_sensor_that_fails_is_named(rng):
    X = noisy_mixtures(rng, k=4)
    X[T // 2 :, 1] = 0.7
    found = diagnose(fitted(X, 4), X)
    assert found.frozen == (1,) and "mixture 1 is frozen at one value" in str(found) and not found.ok


def test_dark_channels_and_constant_columns_are_not_frozen(rng):
    x = np.column_stack([rng.poisson(0.1, 2000), np.zeros(2000), rng.random(2000), np.repeat([0, 1], 1000)]).astype(
        float
    )
    assert frozen_columns(x) == (3,)
    assert frozen_columns(x[:50]) == ()
    assert frozen_columns(x[:, [3, 3]]) == ()  # no source was active


@pytest.mark.parametrize("n", [10, 30])
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_few_samples_are_not_right(n, rng):
    X = noisy_mixtures(rng, 3, 6, n)
    found = diagnose(fitted(X, 3), X)
    assert not found.ok and f"{n} samples are few for 3 sources" in str(found)
    assert "transpose" not in str(found)


def test_few_new_samples_are_not_blamed_on_the_fit(rng):
    X = noisy_mixtures(rng)
    assert diagnose(fitted(X, 4), X[:40]).ok


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_transposed_data_are_named(rng):
    X = noisy_mixtures(rng, 4, 40, 500).T
    assert "If the 40 rows of X are mixtures and its 500 columns samples, transpose it (X.T)" in str(
        fitted(X, 4).diagnose(X)
    )


def spectra(rng, n=200, k=4000, d=4, noise=0.01):
    """Return n samples in random order of d smooth spectra at k wavelengths."""
    at = np.linspace(0, 1, k)
    A = np.exp(-0.5 * ((at - rng.uniform(0.1, 0.9, (d, 1))) / 0.1) ** 2)
    return rng.exponential(size=(n, d)) @ A + noise * rng.standard_normal((n, k))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_to_transposed_spectra_is_not_right(rng):
    X = spectra(rng, 500, 161).T
    nica = fitted(X, 4)
    found = nica.diagnose(X)
    assert not found.ok and "may have been given X transposed: of its 161 rows and 500 columns" in found.sentences[0]
    assert "pass X.T" in found.sentences[0] and sum("transpose" in sentence for sentence in found.sentences) == 1


def test_wide_spectra_in_random_order_are_not_transposed(rng):
    X = spectra(rng)
    found = fitted(X, 4).diagnose(X)
    assert not found.transposed and found.ok, str(found)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_new_samples_in_order_of_time_are_not_transposed(rng):
    S = np.abs(np.cumsum(rng.standard_normal((3000, 3)), axis=0)) / 30
    X = S @ rng.random((3, 150))
    assert diagnose(fitted(X[:100], 3), X[:100]).transposed
    assert not diagnose(fitted(X, 3), X[:100]).transposed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_few_raw_samples_are_not_said_to_have_lost_their_mean(seed):
    rng = np.random.default_rng(seed)
    X = noisy_mixtures(rng, 4, 8, 20)
    assert "mean was removed" not in str(diagnose(fitted(X, 4), X))
    X = noisy_mixtures(rng, 4, 8, 60).T[:, :20]  # some of the mixtures as samples: of both signs
    assert "mean was removed" not in str(diagnose(fitted(X, 4), X))
    X = X - X.mean(axis=0)
    found = diagnose(fitted(X, 4), X)
    assert found.mean_removed and "the mean was removed from X" in str(found)


# ------------------------------------------------------------------------------------------ what is not linear, or changes


def turned(S, rng, radians, k):
    """Return mixtures by a matrix that turns evenly."""
    A, B = rng.standard_normal((k, S.shape[1])), rng.standard_normal((k, S.shape[1]))
    angle = np.linspace(0, radians, len(S))[:, np.newaxis]
    return np.cos(angle) * (S @ A.T) + np.sin(angle) * (S @ B.T)


@pytest.mark.parametrize("k", [4, 10])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_drift_is_named(k, rng):
    X = turned(random_sources("exponential", T, 4, rng=rng), rng, 1.5, k)
    found = diagnose(fitted(X, 4), X)
    assert not found.ok and found.change > 0.15
    assert "the mixing changes" in str(found) and "use StreamingNICA(horizon=...)" in str(found)
    assert "n_components=1." not in str(found)
    found = StreamingNICA(4, random_state=0).fit(X).diagnose(X)
    assert not found.ok and "horizon=" in str(found) and "StreamingNICA" not in str(found)


def test_samples_in_random_order_do_not_change(rng):
    x = noisy_mixtures(rng)
    assert change_between_halves(x, x[:, :4]) < 0.02
    assert change_between_halves(x[:100], x[:100, :4]) == 0


@pytest.mark.filterwarnings("ignore:MinimumVolumeCone:sklearn.exceptions.ConvergenceWarning")
def test_saturated_sensors_are_not_noise(rng):
    X = noisy_mixtures(rng, 4, 9, dB=40)
    straight, bent = X, np.tanh(X / X.std(axis=0))
    right, wrong = (MinimumVolumeCone(4, random_state=0).fit(X).diagnose(X) for X in (straight, bent))
    assert right.ok and right.dependence < 0.02
    assert not wrong.ok and wrong.dependence > 0.2


@pytest.mark.parametrize("noise", ["white", "poisson", "none"])
def test_noise_does_not_depend_on_the_outputs(noise, rng):
    U = rng.exponential(size=(2000, 4))
    E = rng.standard_normal((2000, 6)) * (np.sqrt(U.sum(axis=1, keepdims=True)) if noise == "poisson" else 1)
    E += U @ rng.standard_normal((4, 6))  # a part that depends on them linearly
    assert dependence(0 * E if noise == "none" else E, U) < 0.02
    assert dependence(E + (U**2) @ rng.standard_normal((4, 6)), U) > 0.1
    assert dependence(E[:15], U[:15]) == 0


@pytest.mark.filterwarnings("ignore:MinimumVolumeCone:sklearn.exceptions.ConvergenceWarning")
def test_strong_noise_is_not_right(rng):
    X = noisy_mixtures(rng, 4, 8, dB=0)
    found = MinimumVolumeCone(4, random_state=0).fit(X).diagnose(X)
    assert not found.ok and found.noise_share.max() > 0.2 and "strong noise" in str(found)
    assert fitted(noisy_mixtures(rng), 4).diagnose(noisy_mixtures(rng)).noise_share.shape == (4,)


# ------------------------------------------------------------------------------------------ the words


@pytest.mark.filterwarnings("ignore:BatchNICA:sklearn.exceptions.ConvergenceWarning")
def test_remedies_fit_the_estimator(rng):
    """BatchNICA has no learning rate, does not learn on, and cannot be compared with itself."""
    X = mixed(copula_uniform(T, 5, 0.5, rng=rng))[0]
    nica = fitted(X, 5)
    for found in (diagnose(nica, X), diagnose(nica, 0 * X), diagnose(nica, -X), diagnose(nica, 9 * X)):
        assert not found.ok
        for words in ("learning rate", "BatchNICA", "settled"):
            assert words not in str(found)
    collapsed = InterneuronNICA(5, random_state=0).fit(X)
    assert "lower learning rate" in str(diagnose(collapsed, 0 * X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_outlier_is_to_be_removed_and_is_no_other_scale(rng):
    X = spectra(rng, 500, 40)
    X[99] *= 1000
    cone = MinimumVolumeCone(4, random_state=0).fit(X)
    found = cone.diagnose(X)
    assert not found.ok and list(found.outliers) == [99]
    assert "remove this sample from X and fit again, or fit with outliers=0.01." in str(found)
    assert "another scale" not in str(found) and "BatchNICA" not in str(found)
    assert MinimumVolumeCone(4, outliers=0.01, random_state=0).fit(X).diagnose(X).ok
    W = fitted(np.delete(X, 99, axis=0), 4).components_
    found = diagnose(Linear(W / 3), X)  # its outputs have variance 1 with the outlier, as it were
    assert not found.ok and "and fit again, or use BatchNICA." in str(found) and "another scale" not in str(found)


def test_right_fits_are_said_to_explain_the_variance(rng):
    X = noisy_mixtures(rng)
    found = fitted(X, 4).diagnose(X)
    explained = 100 * (1 - found.residual)
    said = f"the outputs explain {np.floor(100 * explained) / 100:.2f} % of the variance of X"
    assert f"{said}, which stands out of the noise in 4 directions. " in str(found)
    assert f"{percent(found.negativity)} of the output energy is negative" in str(found)
    X = random_sources("exponential", 1000, 3, rng=rng) @ rng.random((3, 8))
    assert "more than 99.99 % of the variance of X, which varies in 3 directions." in str(fitted(X, 3).diagnose(X))


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "none"),
        (1e-7, "less than 0.0001 %"),
        (1e-5, "0.001 %"),
        (0.0123, "1.2 %"),
        (0.4, "40 %"),
        (0.999, "100 %"),
        (1.0, "100 %"),
    ],
)
def test_shares_are_percentages(share, said):
    assert percent(share) == said


def test_repr_is_the_sentences(S):
    X, W = mixed(S)
    found = diagnose(Linear(W * 3), X)
    assert repr(found) == str(found) == "\n".join(f"- {sentence}" for sentence in found.sentences)


class Tags(HTMLParser):
    """Balanced tags, their names, and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.text = [], set(), ""

    def handle_starttag(self, tag, attrs):
        assert not attrs
        self.open.append(tag)
        self.names.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("d", [5, 30])
def test_html_parses_and_is_escaped(d, rng):
    X, W = mixed(random_sources("exponential", T, d, rng=rng))
    found = diagnose(Linear(W), X)
    wrong = dataclasses.replace(found, divergence="<script>alert(1)</script> & more")
    for diagnosis, mark in ((found, "✓"), (wrong, "✗")):
        tags = Tags()
        tags.feed(diagnosis._repr_html_())
        tags.close()
        assert not tags.open
        assert tags.names <= {"div", "p", "strong", "ul", "li", "table", "thead", "tbody", "tr", "th", "td"}
        assert mark in tags.text
        for sentence in diagnosis.sentences:
            assert sentence in tags.text
    assert ("10 more outputs" in tags.text) == (d == 30)


@pytest.mark.parametrize("seed", [0, 2, 8, 9])
def test_a_cone_with_a_constant_mixture_is_not_called_right(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.exponential(size=(2000, 3)) @ rng.random((3, 6)), np.full(2000, 3.0)])
    found = MinimumVolumeCone(3, random_state=0).fit(X).diagnose(X)
    assert not found.ok and "constant and not zero" in str(found)
    assert MinimumVolumeCone(3, random_state=0).fit(X[:, :6]).diagnose(X[:, :6]).ok


@pytest.mark.filterwarnings("ignore:InterneuronNICA has not settled")
def test_what_fit_warned_of_is_not_called_right():
    rng = np.random.default_rng(108)
    X = rng.random((3000, 8)) @ rng.random((8, 20))
    X += 0.003 * X.std() * rng.standard_normal(X.shape)
    network = InterneuronNICA(8, random_state=0).fit(X)
    found = network.diagnose(X)
    assert found.sentences[0].startswith("the fit has not settled") and not found.ok
    assert found.fit_doubts == network._known_doubts()


# ------------------------------------------------------------------------------------------ the table of the benchmarks


def test_table_of_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from real_data_cases import diagnosis_sound, diagnosis_spoiled, diagnosis_table

    assert len(diagnosis_spoiled.problems()) >= 30 and len(diagnosis_sound.problems()) >= 30
    for module, names in (
        (diagnosis_spoiled, ("batch, mean removed", "batch, 10 samples, d = 3")),
        (diagnosis_sound, ()),
    ):
        chosen = [p for p in module.problems() if p.name in names] or module.problems()[:1]
        monkeypatch.setattr(module, "problems", lambda chosen=chosen: chosen)
    table = diagnosis_table.diagnosing(range(8000, 8001), Parallel(1))
    assert "| spoiled, called right | 0 of 2 | 0 | 0 |" in table
    assert "| sound, called wrong | 0 of 1 | 0 | 0 |" in table
    assert "mean was removed" in table
