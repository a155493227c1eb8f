"""What `fit` warns of and `diagnose` says, on problems whose sources are known."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

import bionica
from bionica import (
    BatchNICA,
    MinimumVolumeCone,
    StreamingNICA,
)
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.verdict import ambiguity, diagnose
from bionica.mixtures.verdict.count import count_sources
from conftest import names_of, reaction, worst_correlation

RIGHT = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
IGNORED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mixed(S, k, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    X = S @ rng.standard_normal((S.shape[1], k))
    return X + noise * X.std() * rng.standard_normal(X.shape)


def fitted(estimator, X, d=3):
    return estimator(d, random_state=0).fit(X)


def sparse(T, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((T, d)) * (rng.random((T, d)) < 0.5)


@IGNORED
@pytest.mark.parametrize("k", [20, 200])
def test_noise_that_many_mixtures_average_is_named_and_no_problem(k, share=0.41):
    """White noise leaves its share of the variance in the k - d directions that the
    outputs do not have.
    """
    rng = np.random.default_rng(0)
    X = sparse(2000, 3) @ rng.random((3, k))
    noise = np.sqrt(X.var(axis=0).mean() * share / (1 - share))
    X += noise * rng.standard_normal(X.shape)
    found = fitted(MinimumVolumeCone, X).diagnose(X)
    residual = found.measures.residual
    assert residual == pytest.approx((1 - 3 / k) * share, rel=0.02)
    assert found.ok == (k == 200)
    if found.ok:
        said = f"{residual:.1%} of the variance of X, looks like noise."
        assert said in found.sentences[0]
    else:
        assert found.findings[0].values["cause"] == "noise"


@RIGHT
@pytest.mark.parametrize("estimator", [BatchNICA, MinimumVolumeCone, StreamingNICA])
def test_a_right_fit_is_called_right(estimator):
    X = mixed(sparse(10_000, 3), 6)
    found = fitted(estimator, X).diagnose(X)
    assert found.ok, found.details
    assert found.names == ["source_1", "source_2", "source_3"]
    assert found.uncertainty_.correlation.min() > 0.98
    for name in found.names:
        assert name in found.details and name in found._repr_html_()
    assert len(str(found.uncertainty_).splitlines()) == 4


@IGNORED
@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda S, X, rng: X - X.mean(axis=0), ["centred"] * 2),
        (lambda S, X, rng: X + 5 * rng.random(8), ["directions"] * 2),
        (lambda S, X, rng: mixed(S - [0.4, 0, 0], 8), ["negative", "duplicate"]),
        (lambda S, X, rng: X + 2 * rng.standard_normal(X.shape), ["uncertain"] * 2),
        (lambda S, X, rng: X[:12], ["uncertain"] * 2),
    ],
    ids=["centred", "background", "two signs", "noise", "few samples"],
)
def test_what_is_wrong_is_named(spoil, expected):
    S = sparse(4000, 3)
    X = spoil(S, mixed(S, 8), np.random.default_rng(1))
    for estimator, name in zip((BatchNICA, MinimumVolumeCone), expected, strict=True):
        found = fitted(estimator, X).diagnose(X)
        assert name in names_of(found), found.details


@pytest.mark.parametrize("rates", [(0.3, 0.1), (0.05, 0.1)])
def test_true_spectra_lie_inside_the_band_of_a_sheared_solution(rates):
    """From a nonnegative shear of the solution, the band reaches the true spectra."""
    C, A, _ = reaction(*rates)
    X = C @ A
    A = A.T
    sheared = A.copy()
    sheared[:, 0] += 0.9 * np.min(C[1:, 1] / C[1:, 0]) * A[:, 1]

    def bands(A, n_known=0):
        return ambiguity.bands(X, np.linalg.pinv(A), A, np.zeros(3), n_known=n_known)

    found = bands(sheared)
    true = A[:, 0] * np.linalg.norm(sheared[:, 0]) / np.linalg.norm(A[:, 0])
    inside = true > found.mixing_low[:, 0] - 0.02
    inside &= true < found.mixing_high[:, 0] + 0.02
    assert inside.mean() > 0.9
    known = bands(sheared, n_known=1)
    assert known.width[0] < 1e-9 < known.width.max() <= found.width.max() + 0.01
    assert bands(A, n_known=3).width.max() < 1e-9


@pytest.mark.parametrize(
    ("rates", "wide"), [((0.3, 0.1), False), ((0.2, 0.05), False), ((0.05, 0.1), True)]
)
def test_a_band_is_wide_where_nonnegativity_decides_nothing(rates, wide):
    """If B reacts faster than it is formed (k1 < k2), any share of A can be in the
    spectrum of B.
    """
    C, A, X = reaction(*rates)
    cone = fitted(MinimumVolumeCone, X)
    found = cone.diagnose(X)
    assert ("ambiguous" in names_of(found)) == wide
    order = np.argmax(np.corrcoef(C.T, cone.transform(X).T)[:3, 3:], axis=1)
    size = np.linalg.norm(cone.spectra_[order], axis=1) / np.linalg.norm(A, axis=1)
    true = A.T * size
    error = 2 * found.uncertainty_.mixing[:, order]
    inside = true > found.band_.mixing_low[:, order] - error
    inside &= true < found.band_.mixing_high[:, order] + error
    assert inside.mean() > 0.9


def test_sources_and_spectra_that_reach_zero_leave_nothing_open():
    A = np.eye(6)[:, :3]
    found = ambiguity.bands(sparse(500, 3) @ A.T, A.T, A, np.zeros(3))
    np.testing.assert_allclose(found.mixing_high, found.mixing_low, atol=1e-12)
    np.testing.assert_allclose(found.sources, 0, atol=1e-6)


@IGNORED
def test_the_verdict_is_the_same_after_fit_partial_fit_save_and_load(tmp_path):
    """A clean uniform stream that is too short to settle, cut in other ways."""
    X = mixed(np.random.default_rng(3).random((700, 6)), 6, noise=0.0)
    whole = fitted(StreamingNICA, X, 6)
    streamed = StreamingNICA(6, random_state=0).partial_fit(X[:300])
    streamed.partial_fit(X[300:]).save(tmp_path / "model.bionica")
    loaded = bionica.load(tmp_path / "model.bionica")
    copied = pickle.loads(pickle.dumps(streamed))
    verdicts = [one.diagnose(X) for one in (whole, streamed, loaded, copied)]
    assert not any(verdict.ok for verdict in verdicts)
    assert len({str(verdict) for verdict in verdicts}) == 1


def test_a_stream_that_settled_is_not_doubted_because_half_of_it_would_not():
    """Halves are learned from again until as many samples were seen."""
    rng = np.random.default_rng(960306)
    d = int(rng.integers(4, 13))
    T = int(np.exp(rng.uniform(np.log(300), np.log(3000))))
    S = rng.random((T, d))
    X = S @ rng.standard_normal((d, d))
    network = fitted(StreamingNICA, X, d)
    assert worst_correlation(S, network.transform(X)) > 0.99
    assert network.diagnose(X).ok


def test_a_network_whose_outputs_are_huge_says_so_while_it_learns():
    """As published rates do on matrices that they were not tuned for."""
    X = mixed(sparse(1000, 3), 3, noise=0.0)
    init = {"W_xz": 1e6 * np.eye(3), "W_zz": np.eye(3)}
    network = bionica.TwoCompartmentNICA(
        3, average=False, eta0=1e-9, decay=0.0, init=init, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="eta0"):
        assert network.partial_fit_transform(X).max() > 1e5
    with pytest.warns(ConvergenceWarning, match="eta0"):
        network.partial_fit(X)


@IGNORED
def test_scale_is_a_finding_for_nonnegative_ica_only():
    X = mixed(sparse(3000, 3), 6)
    found = fitted(BatchNICA, X).diagnose(3 * X)
    assert names_of(found)[0] == "scale"
    assert found.findings[0].values["value"] == pytest.approx(9, rel=0.05)
    assert fitted(MinimumVolumeCone, X).diagnose(3 * X).ok


@pytest.mark.parametrize(
    ("estimator", "factor"),
    [(BatchNICA, 1e-100), (BatchNICA, 1e100), (MinimumVolumeCone, 1e-200)],
)
def test_the_verdict_does_not_depend_on_the_unit_of_X(estimator, factor):
    X = mixed(sparse(3000, 3), 6) * factor
    assert fitted(estimator, X).diagnose(X).ok


def test_outliers_that_a_fit_leaves_out_do_not_make_it_wrong():
    X = mixed(sparse(5000, 3), 6)
    X[17] *= -1000
    assert fitted(BatchNICA, X).diagnose(X).ok
    with pytest.warns(ConvergenceWarning):
        spoiled = BatchNICA(3, robust=False, random_state=0).fit(X)
    assert not spoiled.diagnose(X).ok


@IGNORED
def test_estimated_errors_are_near_true_errors():
    """Of 30 sources: logarithms correlate, and two thirds are within a factor of 2."""
    estimated = []
    true = []
    for seed, noise in enumerate((0.1, 0.05, 0.03, 0.02, 0.01, 0.003)):
        S = np.random.default_rng(seed).exponential(size=(500 * 2**seed, 5))
        X = mixed(S, 10, noise=noise, seed=seed)
        nica = fitted(BatchNICA, X, 5)
        Y = nica.transform(X)
        order = np.argmax(np.corrcoef(S.T, Y.T)[:5, 5:], axis=1)
        Y = Y[:, order]
        scale = np.sum(Y * S, axis=0) / np.sum(S**2, axis=0)
        true += [*np.sqrt(np.mean((Y - scale * S) ** 2, axis=0))]
        estimated += [*nica.diagnose(X).uncertainty_.sources[order]]
    ratio = np.log(estimated) - np.log(true)
    assert np.corrcoef(np.log(estimated), np.log(true))[0, 1] > 0.7
    assert np.mean(np.abs(ratio) < np.log(2)) > 2 / 3


def test_refit_can_be_omitted_and_X_is_left_alone():
    X = mixed(sparse(2000, 3), 6)
    X.flags.writeable = False
    nica = fitted(BatchNICA, X)
    before = nica.components_.copy()
    assert nica.diagnose(X, refit=False).uncertainty_ is None
    assert nica.diagnose(X).uncertainty_.mixing.shape == (6, 3)
    np.testing.assert_array_equal(before, nica.components_)


@IGNORED
def test_fit_warns_once_with_at_most_three_sentences():
    X = mixed(sparse(2000, 4) - 0.3, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nica = fitted(BatchNICA, X)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    found = nica.diagnose(X)
    assert len(found.sentences) <= 3 < len(found.details)
    assert set(names_of(nica.diagnose(X, refit=False))) <= set(names_of(found))


def test_refits_and_counts_run_with_one_thread_of_blas():
    X = mixed(sparse(500, 2), 4)
    seen = []

    def spied(function):
        def spy(*arguments):
            libraries = [one for one in threadpool_info() if one["user_api"] == "blas"]
            seen.extend(library["num_threads"] for library in libraries)
            return function(*arguments)

        return spy

    nica = fitted(BatchNICA, X, 2)
    model = nica.components_, nica.mixing_
    with threadpool_limits(2, "blas"):
        diagnose(X, *model, spied(lambda rows: model), n=500)
        refits = len(seen)
        count_sources(X, spied(rough_cones))
    assert len(seen) > refits > 0
    assert set(seen) == {1}


def test_dask_arrays_are_judged_too():
    da = pytest.importorskip("dask.array")
    X = mixed(sparse(6000, 3), 3, noise=0.0)
    nica = fitted(BatchNICA, X)
    blocks = da.from_array(X, chunks=(500, 3))
    assert str(nica.diagnose(blocks)) == str(nica.diagnose(X))


@IGNORED
def test_findings_name_the_mixtures_by_their_names():
    pd = pytest.importorskip("pandas")
    X = mixed(sparse(2000, 2), 6)
    X = np.minimum(X, np.quantile(X, 0.8, axis=0))
    frame = pd.DataFrame(X, columns=[f"{400 + 10 * j} nm" for j in range(6)])
    model = BatchNICA(2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="4[0-5]0 nm"):
        model.fit(frame)
    assert "0 nm" in model.diagnose(frame).details
    separated = bionica.separate(frame, 2, method="batch", random_state=0)
    assert "0 nm" in separated.diagnosis_.details


def test_the_outputs_of_anything_can_be_judged(rng):
    """Without refits, by matrices alone; these must fit X."""
    S = sparse(3000, 3)
    A = rng.random((3, 3))
    W = np.linalg.inv(A)
    X = S / S.std(axis=0) @ A.T
    assert diagnose(X, W, A).ok
    assert names_of(diagnose(X.tolist(), 3 * W, A / 3)) == ["scale"]
    with pytest.raises(ValueError, match=r"components has shape \(3, 3\) and mixing"):
        diagnose(X[:, :2], W, A)
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[7, 1\]"):
        diagnose(X, W, A)
