"""The number of sources on which halves of the samples agree."""

import sys
import warnings
from functools import partial

import numpy as np
import pytest

from bionica import BatchNICA, MinimumVolumeCone, StreamingNICA
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.verdict import count
from bionica.mixtures.verdict.count import Count
from conftest import reaction

count_sources = partial(count.count_sources, cones=rough_cones)


def mixtures(kind, T, d, k, snr_db, seed):
    rng = np.random.default_rng(seed)
    draw = {
        "exponential": lambda: rng.exponential(size=(T, d)),
        "sparse": lambda: rng.random((T, d)) * (rng.random((T, d)) < 0.5),
        "abundances": lambda: rng.dirichlet(np.full(d, 0.5), T),
    }
    X = draw[kind]() @ rng.random((d, k))
    return X + rng.standard_normal(X.shape) * np.sqrt(np.mean(X**2)) * 10 ** (
        -snr_db / 20
    )


@pytest.mark.parametrize(
    "problem",
    [
        ("exponential", 2000, 3, 10, 30),
        ("sparse", 3000, 5, 12, 25),
        ("abundances", 2000, 4, 30, 25),
    ],
)
def test_sources_are_counted(problem):
    assert count_sources(mixtures(*problem, seed=1)).n_sources == problem[2]


def test_fit_of_a_stream_counts_in_all_samples(rng):
    """A source that is silent in the first samples is counted by `fit`, which has all
    of X, and not by a stream.
    """
    S = rng.exponential(size=(4000, 3))
    S[:500, 2] = 0
    X = S @ rng.random((3, 6)) + 0.01 * rng.standard_normal((4000, 6))
    with warnings.catch_warnings(action="ignore"):
        fit = StreamingNICA("auto", random_state=0).fit(X)
        stream = StreamingNICA("auto", random_state=0).partial_fit(X)
    assert (fit.count_.n_sources, fit.n_components_) == (3, 3)
    assert (stream.count_.n_sources, stream.n_components_) == (2, 2)


def test_without_noise_the_rank_ends_the_count(rng):
    S = rng.random((1000, 4)) * (rng.random((1000, 4)) < 0.5)
    found = count_sources(S @ rng.standard_normal((4, 9)))
    assert found.n_sources == 4
    assert found.angles[5] == 90.0


def test_more_than_twelve_sources_are_counted_if_the_noise_is_white(rng):
    S = rng.random((3000, 20)) * (rng.random((3000, 20)) < 0.5)
    X = S @ rng.standard_normal((20, 100))
    found = count_sources(X + 0.1 * X.std() * rng.standard_normal(X.shape))
    assert found.n_sources == 20
    assert found.angles[21] == 90.0


def test_a_single_source_and_none(rng):
    X = rng.exponential(size=(1000, 1)) @ rng.random((1, 6))
    for data in (X, X + 0.01 * rng.standard_normal(X.shape), np.zeros((10, 3))):
        assert count_sources(data).n_sources == 1


def test_rows_that_alternate_are_all_looked_at(rng):
    """A pump that is on in every second sample, of which every other one would be taken
    if rows were evenly spaced.
    """
    S = rng.exponential(size=(8000, 3))
    S[::2, 2] = 0
    X = S @ rng.random((3, 10)) + 0.01 * rng.standard_normal((8000, 10))
    assert (
        count_sources(X).n_sources == count_sources(rng.permutation(X)).n_sources == 3
    )


def test_the_count_does_not_depend_on_units_or_order():
    X = mixtures("sparse", 1000, 3, 8, 30, seed=2)
    for data in (1e-150 * X, 1e100 * X[:, ::-1]):
        assert count_sources(data).n_sources == 3


@pytest.mark.parametrize(("k1", "k2", "noise"), [(0.2, 0.05, 3e-3), (0.3, 0.1, 1e-3)])
def test_a_reaction_in_three_steps_has_three_sources(k1, k2, noise):
    """A -> B -> C, whose concentrations sum to one and depend on each other: spectra
    must be nonnegative too.
    """
    assert count_sources(reaction(k1, k2, noise, seed=5)[2]).n_sources == 3


@pytest.mark.parametrize("nonnegative", [True, False])
def test_directions_that_are_no_sources_are_not_counted(nonnegative):
    """Spectra that vary a little from sample to sample leave weak directions far above
    the noise, which no halves agree on.
    """
    rng = np.random.default_rng(3)
    S = rng.dirichlet(np.full(3, 0.5), 600)
    A = rng.random((3, 16)) if nonnegative else rng.standard_normal((3, 16))
    weak = 0.01 * rng.standard_normal((600, 6)) @ rng.standard_normal((6, 16))
    X = S @ A + weak + 1e-4 * rng.standard_normal((600, 16))
    counted = count_sources(X)
    assert 3 in (counted.n_sources, *counted.candidates)
    assert counted.n_sources < 6


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("cls", [BatchNICA, MinimumVolumeCone, StreamingNICA])
@pytest.mark.parametrize(
    ("count", "said"),
    [
        (Count(2, (3,), {}), [": 2, or 3. Compare the fits"]),
        (
            Count(2, (), {}, False),
            [": halves of the samples agree on none, and 2 is a guess"],
        ),
        (Count(2, (), {}), []),
    ],
)
def test_a_number_that_the_data_do_not_decide_is_said_once(
    cls, learn, count, said, monkeypatch, rng
):
    if not hasattr(cls, learn):
        return
    X = rng.exponential(size=(2500, 2)) @ rng.random((2, 4))
    X += 0.01 * rng.standard_normal((2500, 4))
    monkeypatch.setattr(
        sys.modules[cls.__module__], "count_sources", lambda X, cones: count
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = getattr(cls("auto", random_state=0), learn)(X)
        if learn == "partial_fit":
            model.partial_fit(X)
    assert model.count_ == count
    assert len(model.components_) == 2
    texts = [str(one.message) for one in caught if "not certain" in str(one.message)]
    assert len(texts) == len(said)
    assert all(part in text for part, text in zip(said, texts, strict=True))
