"""`bionica.separate`: number of sources, method, fit and verdict in one call."""

import re
import warnings

import numpy as np
import pytest

import bionica
from bionica import BatchNICA, MinimumVolumeCone, StreamingNICA, separate
from bionica.mixtures import separate as separation
from bionica.mixtures.verdict.count import Count
from bionica.mixtures.verdict.diagnosis import Diagnosis
from conftest import worst_correlation


def problem(kind, T=2000, d=3, k=12, noise=0.003, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "abundances":
        S = rng.dirichlet(np.full(d, 0.5), T)
    else:
        S = rng.random((T, d)) * (rng.random((T, d)) < 0.5)
    X = S @ rng.random((d, k))
    return X + noise * rng.standard_normal(X.shape), S


@pytest.fixture
def frame():
    """Mixtures of three sparse sources with names."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(problem("sparse")[0]).add_prefix("channel ")


@pytest.mark.parametrize("kind", ["abundances", "sparse"])
def test_number_method_and_verdict_are_right(kind):
    X, S = problem(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = separate(X, random_state=0)
    assert found.choice_.n_sources == 3
    assert found.diagnosis_.ok, found.diagnosis_
    assert worst_correlation(S, found.transform(X)) > 0.99
    assert found.choice_.method == type(found).__name__ in str(found.choice_)
    assert set(found.choice_.tried) == {"MinimumVolumeCone"}
    assert found.alternatives_ == {}


def test_a_method_that_cannot_separate_the_data_is_not_kept():
    """Nonnegative ICA cannot separate abundances, which sum to one."""
    X, _ = problem("abundances", d=4, seed=3)
    found = separate(X * np.where(np.arange(12) % 2, 1, -1), 4, random_state=0)
    tried = {name: verdict.ok for name, verdict in found.choice_.tried.items()}
    assert tried == {"BatchNICA": False, "MinimumVolumeCone": True}
    assert type(found).__name__ == "MinimumVolumeCone"
    assert found.choice_.why == "its fit shows no problem, and that of BatchNICA does"


@pytest.mark.parametrize(
    ("method", "cls"),
    [
        ("batch", BatchNICA),
        ("cone", MinimumVolumeCone),
        ("streaming", StreamingNICA),
    ],
)
def test_a_method_can_be_asked_for(method, cls):
    X, _ = problem("sparse", T=5000)
    found = separate(X, 3, method=method, random_state=0)
    assert type(found) is cls
    assert found.choice_.angles == {} and found.choice_.tried == {}
    assert found.diagnosis_.uncertainty_ is not None


def test_a_column_of_times_is_refused(frame):
    frame = frame.rename(columns={"channel 3": "time"})
    frame["time"] = np.arange(len(frame)) / 4
    with pytest.raises(ValueError, match=r"X\.drop\(columns=\['time'\]\)"):
        separate(frame)


@pytest.mark.parametrize("name", ["NO", "index", "time"])
def test_a_column_that_varies_as_a_mixture_is_one_whatever_its_name(frame, name):
    named = frame.rename(columns={"channel 3": name})
    with pytest.warns(UserWarning, match=rf"columns=\['{name}'\]\) omits"):
        found = separate(named, 3, method="batch", random_state=0)
    assert list(found.feature_names_in_) == list(named.columns)


def test_a_column_of_integers_beside_decimals_is_named(frame):
    frame["class"] = np.arange(len(frame)) % 3
    said = r"\['class'\] of X hold integers, unlike the others"
    with pytest.warns(UserWarning, match=said):
        separate(frame, 4, method="batch", random_state=0)


@pytest.mark.parametrize("n_components", [None, 0, -1, 2.5, True, "3"])
def test_a_number_of_sources_that_is_none_is_refused(n_components):
    said = rf"n_components={n_components!r} is not a number of sources: give .* 'auto'"
    with pytest.raises(ValueError, match=said):
        separate(problem("sparse")[0], n_components)


def test_a_horizon_gives_a_stream_of_the_chosen_method():
    X, _ = problem("sparse", T=6000)
    found = separate(X, 3, horizon=2000, random_state=0)
    assert found.horizon == 2000 and hasattr(found, "partial_fit")


def test_the_same_seed_gives_the_same_bits():
    X, _ = problem("sparse")
    first, second = (separate(X, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)
    assert str(first.diagnosis_) == str(second.diagnosis_)


def test_more_rows_than_are_looked_at_give_the_same_method(monkeypatch):
    X, S = problem("abundances", T=6000)
    whole = separate(X, random_state=0).choice_
    monkeypatch.setattr("bionica.mixtures.separate._ROWS", 1000)
    sampled = separate(X, random_state=0)
    assert sampled.choice_.method == whole.method
    assert sampled.choice_.n_sources == 3
    assert worst_correlation(S, sampled.transform(X)) > 0.99


@pytest.fixture
def separated(monkeypatch):
    """`separate` of three sources, with this count."""

    def separated(*counted):
        monkeypatch.setattr(
            separation, "count_sources", lambda X, cones: Count(*counted)
        )
        return separate(problem("abundances", 300)[0], random_state=0)

    return separated


@pytest.mark.parametrize("agreed", [True, False])
def test_every_candidate_of_a_number_that_is_not_decided_is_fitted(
    agreed, monkeypatch, separated
):
    monkeypatch.setattr(Diagnosis, "ok", False)  # of the fit itself
    found = separated(3, (2, 4), {2: 1.0, 3: 2.0, 4: 10.0, 5: 50.0}, agreed)
    assert not found.diagnosis_.ok
    assert found.diagnosis_.findings[0].name == "number"
    assert found.alternatives_.keys() == {2, 4}
    for d, other in found.alternatives_.items():
        assert len(other.components_) == d
        assert other.diagnosis_.uncertainty_ is not None


def test_numbers_whose_fits_show_a_problem_are_no_candidates_beside_a_fit_without(
    separated,
):
    """Two sources leave a signal, and five differ between halves."""
    found = separated(3, (2, 5), {})
    assert found.diagnosis_.ok
    assert found.choice_.candidates == ()
    assert found.alternatives_ == {}
    found = separated(2, (3, 5), {})
    assert not found.diagnosis_.ok
    assert found.choice_.candidates == (3, 5)


def test_outputs_that_are_zero_everywhere_are_never_a_result(monkeypatch):
    monkeypatch.setattr(
        bionica.BatchNICA, "transform", lambda self, X: np.zeros((len(X), 3))
    )
    with pytest.raises(ValueError, match="output 0 is zero in all samples"):
        bionica.separate(problem("abundances", 300)[0], 3, method="batch")


@pytest.mark.parametrize("quantile", [0.95, 0.7])
def test_a_ceiling_is_said_first_and_adds_no_source_and_no_refit(
    quantile, monkeypatch, rng
):
    """Its bends are directions of their own, and were counted as sources."""
    X = rng.gamma(0.5, size=(400, 3)) @ rng.random((3, 60))
    refits = []
    rough_cones = separation.rough_cones

    def counted(*given):
        refits.append(given)
        return rough_cones(*given)

    monkeypatch.setattr(separation, "rough_cones", counted)
    separate(X, random_state=0)
    needed = len(refits)
    clipped = separate(np.minimum(X, np.quantile(X, quantile, axis=0)), random_state=0)
    assert len(refits) <= 2 * needed
    assert len(clipped.components_) == 3
    assert clipped.alternatives_ == {}
    first, *others = clipped.diagnosis_.sentences
    assert "saturated" in first
    assert first.endswith("or set their saturated cells to NaN.")
    assert not re.search("number of sources|more samples", " ".join(others))
