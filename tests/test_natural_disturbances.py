"""Natural networks on streams as instruments make them: outliers, frozen sensors, abrupt changes."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bionica
from bionica.datasets import random_sources
from bionica.metrics import permutation_error
from test_estimators import SINGLE_LAYER
from test_streaming_nica import on_and_off

D, HORIZON, BEFORE, AFTER = 3, 1000, 20_000, 5000
single_layer = pytest.mark.parametrize("Single", SINGLE_LAYER, ids=lambda cls: cls.__name__)


def stream(seed=0, n=BEFORE + AFTER, kind="sparse_uniform"):
    """Sources, mixtures and the mixing matrix."""
    rng = np.random.default_rng(seed)
    S, A = random_sources(kind, n, D, rng=rng), rng.standard_normal((D, D))
    return S, S @ A.T, A


def error(network, A, seed=99, kind="sparse_uniform"):
    S = random_sources(kind, 5000, D, rng=np.random.default_rng(seed))
    return permutation_error(S, network.transform(S @ A.T))


@single_layer
@pytest.mark.parametrize("factor", [10.0, 100.0, 1e6, 1e12])
@pytest.mark.parametrize("where", ["first block", "one", "one in 1000"])
def test_outliers(Single, where, factor):
    _, X, A = stream()
    clean = error(Single(D, random_state=0).fit(X), A)
    which = {"first block": [5], "one": [15_000], "one in 1000": np.arange(300, len(X), 1000)}[where]
    X[which] *= factor
    network = Single(D, random_state=0).fit(X)
    assert error(network, A) < 2 * clean
    assert network.repairs_["rate"] > 0


@single_layer
def test_glitches_in_any_direction(Single):
    _, X, A = stream()
    clean = error(Single(D, random_state=0).fit(X), A)
    rng = np.random.default_rng(1)
    X[500::1000] = 1e4 * rng.standard_normal((len(X[500::1000]), D))
    assert error(Single(D, random_state=0).fit(X), A) < 2 * clean


@single_layer
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("horizon", [None, HORIZON])
@pytest.mark.parametrize("value", ["zeros", "last"])
def test_a_frozen_sensor_changes_nothing(Single, value, horizon, dtype):
    """Whether 200 or 20,000 times: from some repetition on, every weight stays as it is to the last bit."""
    _, X, _ = stream()
    X = X.astype(dtype)
    frozen = np.tile(np.zeros_like(X[0]) if value == "zeros" else X[BEFORE - 1], (200, 1))
    short, long = (Single(D, horizon=horizon, random_state=0).partial_fit(X[:BEFORE]).partial_fit(frozen) for _ in "ab")
    for _ in range(100):
        long.partial_fit(frozen)
    assert long.repairs_["frozen"] - short.repairs_["frozen"] == 20_000
    assert all(
        np.array_equal(getattr(long._state, name), getattr(short._state, name))
        for name in short._state._fields
        if name.startswith(("W", "M", "H"))
    )
    assert np.array_equal(long._state.inp.R, short._state.inp.R)


def test_a_frozen_sensor_with_many_channels():
    S = random_sources("sparse_uniform", 1000, D, rng=np.random.default_rng(0))
    X = S @ np.random.default_rng(1).standard_normal((1200, D)).T
    network = bionica.TwoCompartmentNICA(D, horizon=HORIZON, random_state=0).partial_fit(X)
    network.partial_fit(np.tile(X[-1], (1000, 1)))
    assert network.repairs_["frozen"] > 900


@single_layer
@pytest.mark.parametrize("length", [30, 1000, 20_000])
def test_a_frozen_channel(Single, length):
    _, X, A = stream()
    S, middle, _ = stream(seed=7, n=length)
    middle = S @ A.T
    middle[:, 0] = X[BEFORE - 1, 0]
    clean = error(Single(D, horizon=HORIZON, random_state=0).fit(X), A)
    network = Single(D, horizon=HORIZON, random_state=0).partial_fit(X[:BEFORE]).partial_fit(middle)
    assert error(network.partial_fit(X[BEFORE:]), A) < 3 * clean


@single_layer
def test_a_channel_that_starts_late(Single):
    _, X, A = stream()
    clean = error(Single(D, horizon=HORIZON, random_state=0).fit(X), A)
    X[: 2 * HORIZON, 0] = 0
    assert error(Single(D, horizon=HORIZON, random_state=0).fit(X), A) < 3 * clean


@single_layer
def test_often_silent_sources_are_not_frozen(Single):
    """Half of these samples are zero: what is usual does not count as frozen."""
    rng = np.random.default_rng(0)
    S, A = random_sources("sparse_uniform", BEFORE, D, rng=rng), rng.standard_normal((D, D))
    S[rng.random(len(S)) < 0.5] = 0
    assert Single(D, random_state=0).fit(S @ A.T).repairs_["frozen"] == 0


@single_layer
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("change", ["mixing", "gain up", "gain down"])
def test_abrupt_changes_with_a_horizon(Single, change, seed):
    """Five horizons later the error is that of a stream without a change."""
    S, X, A = stream(seed)
    B = np.random.default_rng(100 + seed).standard_normal((D, D))
    B = {"mixing": B, "gain up": 100 * A, "gain down": 0.01 * A}[change]
    clean = error(Single(D, horizon=HORIZON, random_state=0).fit(X), A)
    X[BEFORE:] = S[BEFORE:] @ B.T
    network = Single(D, horizon=HORIZON, random_state=0).fit(X)
    # Some mixing matrices are alike, and samples that are 100 times larger outweigh the past without a restart.
    assert network.repairs_["restart"] > 0 or change != "gain down"
    assert error(network, B) < 3 * clean


@single_layer
def test_no_restart_without_a_change(Single):
    _, X, _ = stream(n=100_000)
    assert Single(D, horizon=HORIZON, random_state=0).fit(X).repairs_["restart"] == 0


@single_layer
def test_without_guards_outliers_do_harm(Single):
    """What the tests above show is the work of the guards."""
    _, X, A = stream()
    X[15_000] *= 1e6
    assert error(Single(D, guards=False, random_state=0).fit(X), A) > 1e-2


def test_float32_survives_ten_million_zeros():
    _, X, A = stream()
    network = bionica.TwoCompartmentNICA(D, random_state=0).fit(X.astype(np.float32))
    before = error(network, A)
    zeros = np.zeros((1_000_000, D), np.float32)
    for _ in range(10):
        network.partial_fit(zeros)
    assert error(network, A) == pytest.approx(before, rel=0.1)


@single_layer
def test_a_change_without_a_horizon_is_reported_once(Single):
    rng = np.random.default_rng(3)
    S = random_sources("exponential", 12_000, 3, rng=rng)
    A, B = rng.standard_normal((2, 3, 3))
    network = Single(3, random_state=0).fit(S[:8000] @ A)
    assert not network.change_detected_
    with pytest.warns(ConvergenceWarning, match="set horizon="):
        network.partial_fit(S[8000:] @ B)
    assert network.change_detected_
    assert "the mixtures changed while it learned" in str(network.diagnose(S[8000:] @ B))
    network.partial_fit(S[8000:] @ B)  # warns no more


@single_layer
def test_sources_that_come_and_go_are_rarely_a_change_of_the_mixing(Single):
    reported, restarted = 0, 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = on_and_off(50_000, D, 1000, rng) @ rng.standard_normal((D, 6)) + 0.05 * rng.standard_normal((50_000, 6))
        network = Single(D, random_state=0)
        with warnings.catch_warnings(action="ignore"):  # of what is counted here
            network.partial_fit(X)
        reported += network.change_detected_
        restarted += Single(D, horizon=10_000, random_state=0).fit(X).repairs_["restart"]
    assert reported <= 1
    assert restarted <= 4


@single_layer
def test_a_restart_uses_no_sample_of_before_the_change(Single):
    """The change comes in the middle of a block."""
    rng = np.random.default_rng(5)
    S = random_sources("half_normal", 18_100, D, rng=rng)
    A, B = rng.standard_normal((2, D, D))
    X = S @ A.T
    X[12_100:] = S[12_100:] @ B.T
    network = Single(D, horizon=HORIZON, random_state=0).fit(X)
    assert network.repairs_["restart"] == 1
    assert error(network, B, kind="half_normal") < 0.01
