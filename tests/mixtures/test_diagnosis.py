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
    InterneuronNICA,
    MinimumVolumeCone,
    NonnegativePCA,
    StreamingNICA,
)
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.verdict import diagnose
from bionica.mixtures.verdict.ambiguity import bands
from bionica.mixtures.verdict.count import count_sources
from conftest import reaction

RIGHT = pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
IGNORED = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def mixed(S, k, noise=0.01, seed=0, nonnegative=False):
    rng = np.random.default_rng(seed)
    A = (
        rng.random((S.shape[1], k))
        if nonnegative
        else rng.standard_normal((S.shape[1], k))
    )
    X = S @ A
    return X + noise * X.std() * rng.standard_normal(X.shape)


def sparse(T, d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.random((T, d)) * (rng.random((T, d)) < 0.5)


def names(diagnosis):
    return [one.name for one in diagnosis.findings]


@IGNORED
@pytest.mark.parametrize("k", [20, 200])
def test_noise_that_many_mixtures_average_is_named_and_no_problem(k, share=0.41):
    """White noise leaves its share of the variance in the k - d directions that the
    outputs do not have.
    """
    rng = np.random.default_rng(0)
    X = sparse(2000, 3) @ rng.random((3, k))
    X += np.sqrt(X.var(axis=0).mean() * share / (1 - share)) * rng.standard_normal(
        X.shape
    )
    found = MinimumVolumeCone(3, random_state=0).fit(X).diagnose(X)
    assert found.measures.residual == pytest.approx((1 - 3 / k) * share, rel=0.02)
    if found.ok:
        assert (
            k == 200
            and f"{found.measures.residual:.1%} of the variance of X, looks like noise."
            in found.sentences[0]
        )
    else:
        assert (
            k == 20
            and found.findings[0].values["cause"] == "noise"
            and found.findings[0].remedies == ("average",)
        )


@IGNORED
def test_a_finding_and_the_table_give_one_error():
    """Without noise and one source too few: the finding said 21 %, and the table 83 %."""
    rng = np.random.default_rng(1)
    X = (rng.exponential(size=(300, 4)) * (rng.random((300, 4)) < 0.7)) @ rng.random(
        (4, 8)
    )
    found = MinimumVolumeCone(3, random_state=0).fit(X).diagnose(X)
    (finding,) = (one for one in found.findings if one.name == "uncertain")
    assert (
        finding.values["error"]
        == found.uncertainty_.sources[[*finding.sources]].max()
        > 0.5
    )
    assert finding.text().endswith("(the model).") and names(found)[0] == "directions"


@RIGHT
@pytest.mark.parametrize(
    "estimator", [BatchNICA, MinimumVolumeCone, StreamingNICA, InterneuronNICA]
)
def test_a_right_fit_is_called_right(estimator):
    X = mixed(sparse(10_000, 3), 6)
    found = estimator(3, random_state=0).fit(X).diagnose(X)
    assert found.ok, found.details
    assert found.uncertainty_.correlation.min() > 0.98
    assert all(
        name in found.details and name in found._repr_html_() for name in found.names
    )
    assert len(str(found.uncertainty_).splitlines()) == 1 + len(found.names)


@IGNORED
@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda S, X, rng: X - X.mean(axis=0), "centred"),
        (lambda S, X, rng: X + 5 * rng.random(X.shape[1]), "directions"),
        (
            lambda S, X, rng: mixed(
                np.column_stack([S, rng.exponential(size=(len(S), 1))]), 8
            ),
            "directions",
        ),
        (
            lambda S, X, rng: mixed(S - [0.4, 0, 0], 8),
            {BatchNICA: "negative", MinimumVolumeCone: "duplicate"},
        ),
        (
            lambda S, X, rng: X + 1.5 * X.std() * rng.standard_normal(X.shape),
            "uncertain",
        ),
        (lambda S, X, rng: np.minimum(X, np.quantile(X, 0.8, axis=0)), "ceiling"),
        (lambda S, X, rng: X[:12], "uncertain"),
    ],
    ids=[
        "centred",
        "background",
        "one more source",
        "two signs",
        "noise",
        "clipped",
        "few samples",
    ],
)
@pytest.mark.parametrize("estimator", [BatchNICA, MinimumVolumeCone])
def test_what_is_wrong_is_named(estimator, spoil, expected):
    S = sparse(4000, 3)
    X = spoil(S, mixed(S, 8), np.random.default_rng(1))
    found = estimator(3, random_state=0).fit(X).diagnose(X)
    assert (expected if isinstance(expected, str) else expected[estimator]) in names(
        found
    ), found.details


@IGNORED
def test_transposed_spectra_are_named_and_one_mixture_is_no_fault():
    X = reaction()[2]
    X = X[np.random.default_rng(0).permutation(len(X))]
    assert "transposed" in names(
        MinimumVolumeCone(3, random_state=0).fit(X.T).diagnose(X.T)
    )
    assert BatchNICA(1, random_state=0).fit(X[:, :1]).diagnose(X[:, :1]).ok


@pytest.mark.parametrize("rates", [(0.3, 0.1), (0.05, 0.1)])
def test_true_spectra_lie_inside_the_band_of_a_sheared_solution(rates):
    """From a nonnegative shear of the true solution, the band reaches the true spectra."""
    C, A, _ = reaction(*rates)
    A = A.T
    t = 0.9 * np.min(C[1:, 1] / C[1:, 0])
    sheared = A.copy()
    sheared[:, 0] += t * A[:, 1]
    found = bands(C @ A.T, np.linalg.pinv(sheared), sheared, np.zeros(3))
    true = A[:, 0] * np.linalg.norm(sheared[:, 0]) / np.linalg.norm(A[:, 0])
    inside = (true > found.mixing_low[:, 0] - 0.02) & (
        true < found.mixing_high[:, 0] + 0.02
    )
    assert inside.mean() > 0.9
    known = bands(C @ A.T, np.linalg.pinv(sheared), sheared, np.zeros(3), n_known=1)
    assert known.width[0] < 1e-9 < known.width.max() <= found.width.max() + 0.01
    assert (
        bands(C @ A.T, np.linalg.pinv(A), A, np.zeros(3), n_known=3).width.max() < 1e-9
    )


@pytest.mark.parametrize(
    ("rates", "wide"), [((0.3, 0.1), False), ((0.2, 0.05), False), ((0.05, 0.1), True)]
)
def test_a_band_is_wide_where_nonnegativity_decides_nothing(rates, wide):
    """If B reacts faster than it is formed (k1 < k2), any share of A can be in the
    spectrum of B.
    """
    C, A, X = reaction(*rates)
    A = A.T
    cone = MinimumVolumeCone(3, random_state=0).fit(X)
    found = cone.diagnose(X)
    assert ("ambiguous" in names(found)) == wide
    order = np.argmax(np.corrcoef(C.T, cone.transform(X).T)[:3, 3:], axis=1)
    true = (
        A * np.linalg.norm(cone.mixing_[:, order], axis=0) / np.linalg.norm(A, axis=0)
    )
    error = 2 * found.uncertainty_.mixing[:, order]
    inside = (true > found.band_.mixing_low[:, order] - error) & (
        true < found.band_.mixing_high[:, order] + error
    )
    assert inside.mean() > 0.9


@IGNORED
@pytest.mark.parametrize("rates", [(0.08, 0.03), (0.05, 0.1), (0.2, 0.05)])
def test_a_reaction_with_overlapping_spectra_is_right_or_doubted(rates):
    C = reaction(*rates)[0]
    A = np.exp(
        -(
            (
                (np.linspace(0, 1, 121)[:, None] - [0.27, 0.48, 0.75])
                / [0.13, 0.15, 0.14]
            )
            ** 2
        )
        / 2
    )
    X = C @ A.T + 0.003 * np.random.default_rng(0).standard_normal((len(C), 121))
    cone = MinimumVolumeCone(3, random_state=0).fit(X)
    r = np.abs(np.corrcoef(C.T, cone.transform(X).T)[:3, 3:])
    found = cone.diagnose(X)
    assert r.max(axis=1).min() > 0.9 or "ambiguous" in names(found)
    assert (
        np.sqrt(1 - r.max(axis=1) ** 2)
        < 2 * found.uncertainty_.sources[r.argmax(axis=1)] + 0.02
    ).all()
    assert {"directions", "structure"} & set(
        names(MinimumVolumeCone(2, random_state=0).fit(X).diagnose(X))
    )


def test_sources_and_spectra_that_reach_zero_leave_nothing_open():
    S = sparse(500, 3)
    A = np.eye(6)[:, :3]
    found = bands(S @ A.T, A.T, A, np.zeros(3))
    np.testing.assert_allclose(found.mixing_high, found.mixing_low, atol=1e-12)
    np.testing.assert_allclose(found.sources, 0, atol=1e-6)


@pytest.mark.parametrize("d", [6, 8])
def test_the_verdict_is_the_same_after_fit_partial_fit_save_and_load(tmp_path, d):
    """A clean uniform stream that is too short to settle, cut in other ways."""
    S = np.random.default_rng(3).random((700, d))
    X = mixed(S, d, noise=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = StreamingNICA(d, random_state=0).fit(X)
        streamed = (
            StreamingNICA(d, random_state=0).partial_fit(X[:300]).partial_fit(X[300:])
        )
        streamed.save(tmp_path / "model.bionica")
        loaded = bionica.load(tmp_path / "model.bionica")
        copied = pickle.loads(pickle.dumps(streamed))
        verdicts = [one.diagnose(X) for one in (fitted, streamed, loaded, copied)]
    correlations = np.corrcoef(S.T, streamed.transform(X).T)[:d, d:]
    assert np.abs(correlations).max(axis=1).min() < 0.9
    assert not any(verdict.ok for verdict in verdicts)
    assert len({str(verdict) for verdict in verdicts}) == 1


def test_a_stream_that_settled_is_not_doubted_because_half_of_it_would_not():
    """Halves are learned from again until as many samples were seen."""
    rng = np.random.default_rng(960306)
    d = int(rng.integers(4, 13))
    T = int(np.exp(rng.uniform(np.log(300), np.log(3000))))
    S = rng.random((T, d))
    X = S @ rng.standard_normal((d, d))
    network = StreamingNICA(d, random_state=0).fit(X)
    assert (
        np.abs(np.corrcoef(S.T, network.transform(X).T)[:d, d:]).max(axis=1).min()
        > 0.99
    )
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


def test_X_that_does_not_vary_has_no_scale():
    X = sparse(500, 2) @ np.ones((2, 4))
    estimator = BatchNICA(1, random_state=0).fit(X)
    found = estimator.diagnose(np.tile(X[:1], (50, 1)))
    assert names(found) == ["scale"]


@IGNORED
def test_scale_is_a_finding_for_nonnegative_ica_only():
    X = mixed(sparse(3000, 3), 6)
    found = BatchNICA(3, random_state=0).fit(X).diagnose(3 * X)
    assert names(found)[0] == "scale"
    assert found.findings[0].values["value"] == pytest.approx(9, rel=0.05)
    assert MinimumVolumeCone(3, random_state=0).fit(X).diagnose(3 * X).ok


@pytest.mark.parametrize(
    ("estimator", "factor"),
    [(BatchNICA, 1e-100), (BatchNICA, 1e100), (MinimumVolumeCone, 1e-200)],
)
def test_the_verdict_does_not_depend_on_the_unit_of_X(estimator, factor):
    X = mixed(sparse(3000, 3), 6) * factor
    assert estimator(3, random_state=0).fit(X).diagnose(X).ok


def test_outliers_that_a_fit_leaves_out_do_not_make_it_wrong():
    X = mixed(sparse(5000, 3), 6)
    X[17] *= -1000
    assert BatchNICA(3, random_state=0).fit(X).diagnose(X).ok
    with pytest.warns(ConvergenceWarning):
        spoiled = BatchNICA(3, robust=False, random_state=0).fit(X)
    assert not spoiled.diagnose(X).ok


@IGNORED
def test_estimated_errors_are_near_true_errors():
    """Of 30 sources: the logarithms correlate, and two thirds are within a factor of 2."""
    estimated = []
    true = []
    for seed in range(6):
        T = (500, 1000, 2000, 4000, 8000, 16000)[seed]
        noise = (0.1, 0.05, 0.03, 0.02, 0.01, 0.003)[seed]
        S = np.random.default_rng(seed).exponential(size=(T, 5))
        X = mixed(S, 10, noise=noise, seed=seed)
        nica = BatchNICA(5, random_state=0).fit(X)
        Y = nica.transform(X)
        order = np.argmax(np.corrcoef(S.T, Y.T)[:5, 5:], axis=1)
        scale = np.sum(Y[:, order] * S, axis=0) / np.sum(S**2, axis=0)
        true += list(np.sqrt(np.mean((Y[:, order] - scale * S) ** 2, axis=0)))
        estimated += list(nica.diagnose(X).uncertainty_.sources[order])
    ratio = np.log(estimated) - np.log(true)
    assert np.corrcoef(np.log(estimated), np.log(true))[0, 1] > 0.7
    assert np.mean(np.abs(ratio) < np.log(2)) > 2 / 3


def test_refit_can_be_omitted_and_X_is_left_alone():
    X = mixed(sparse(2000, 3), 6)
    X.flags.writeable = False
    nica = BatchNICA(3, random_state=0).fit(X)
    before = nica.components_.copy()
    assert nica.diagnose(X, refit=False).uncertainty_ is None
    assert nica.diagnose(X).uncertainty_.mixing.shape == (6, 3)
    np.testing.assert_array_equal(before, nica.components_)


@IGNORED
def test_fit_warns_once_with_at_most_three_sentences():
    X = mixed(sparse(2000, 4) - 0.3, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nica = BatchNICA(3, random_state=0).fit(X)
    assert [warning.category for warning in caught] == [ConvergenceWarning]
    found = nica.diagnose(X)
    assert len(found.sentences) <= 3 < len(found.details)
    assert set(names(nica.diagnose(X, refit=False))) <= set(names(found))


def test_refits_and_counts_run_with_one_thread_of_blas():
    X = mixed(sparse(500, 2), 4)
    seen = []

    def spied(function):
        def spy(*arguments):
            seen.extend(
                library["num_threads"]
                for library in threadpool_info()
                if library["user_api"] == "blas"
            )
            return function(*arguments)

        return spy

    nica = BatchNICA(2, random_state=0).fit(X)
    with threadpool_limits(2, "blas"):
        diagnose(
            X,
            nica.components_,
            nica.mixing_,
            spied(lambda rows: (nica.components_, nica.mixing_)),
            n=500,
        )
        refits = len(seen)
        assert count_sources(X, spied(rough_cones)).n_sources == 2
    assert len(seen) > refits > 0
    assert set(seen) == {1}


def test_whitening_offline_and_dask_arrays_are_judged_too():
    da = pytest.importorskip("dask.array")
    X = mixed(sparse(6000, 3), 3, noise=0.0)
    assert NonnegativePCA(3, random_state=0).fit(X).diagnose(X).names == [
        "source_1",
        "source_2",
        "source_3",
    ]
    nica = BatchNICA(3, random_state=0).fit(X)
    assert str(nica.diagnose(da.from_array(X, chunks=(500, 3)))) == str(
        nica.diagnose(X)
    )


@IGNORED
def test_findings_name_the_mixtures_by_their_names():
    pd = pytest.importorskip("pandas")
    X = mixed(sparse(2000, 2), 6)
    X = pd.DataFrame(
        np.minimum(X, np.quantile(X, 0.8, axis=0)),
        columns=[f"{400 + 10 * j} nm" for j in range(6)],
    )
    model = BatchNICA(2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="4[0-5]0 nm"):
        model.fit(X)
    assert "0 nm" in model.diagnose(X).details
    assert (
        "0 nm"
        in bionica.separate(X, 2, method="batch", random_state=0).diagnosis_.details
    )


def test_the_outputs_of_anything_can_be_judged():
    """Without refits, by matrices alone; these must fit X."""
    S = sparse(3000, 3)
    A = np.random.default_rng(0).random((3, 3)) * S.std(axis=0)
    X = S / S.std(axis=0) @ A.T
    assert diagnose(X, np.linalg.inv(A), A).ok
    assert names(diagnose(X.tolist(), 3 * np.linalg.inv(A), A / 3)) == ["scale"]
    with pytest.raises(ValueError, match=r"components has shape \(3, 3\) and mixing"):
        diagnose(X[:, :2], np.linalg.inv(A), A)
    X[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[7, 1\]"):
        diagnose(X, np.linalg.inv(A), A)
