"""Streams that need no tuning: StreamingNICA and its running whitening.

The rule against its transcription, its mathematics, recovery, and streams as
instruments make them.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import naive
from bionica import BatchNICA, StreamingNICA
from bionica.datasets import mix, random_sources
from bionica.engine.rule import orthonormal_rows
from bionica.metrics import permutation_error

KINDS = ["sparse_uniform", "exponential", "half_normal", "gamma", "odor"]
D = 3
HORIZON = 1000
BEFORE = 20_000
AFTER = 5000


def fit_error(X, A, horizon=None):
    """On other samples, after a stream."""
    return error(StreamingNICA(D, horizon=horizon, random_state=0).fit(X), A)


def held_out(S, X, n):
    """Errors of StreamingNICA and BatchNICA on the last n samples."""
    d = S.shape[1]
    return [
        permutation_error(S[-n:], cls(d, random_state=0).fit(X[:-n]).transform(X[-n:]))
        for cls in (StreamingNICA, BatchNICA)
    ]


def mixed(kind, T, d, k, seed=0, snr_db=None):
    rng = np.random.default_rng(seed)
    S = random_sources(kind, T, d, rng=rng)
    return S, mix(S, n_mixtures=k, snr_db=snr_db, rng=rng)[0]


def square(seed=0, n=BEFORE + AFTER, kind="sparse_uniform"):
    """Sources, mixtures and the mixing matrix."""
    rng = np.random.default_rng(seed)
    S = random_sources(kind, n, D, rng=rng)
    A = rng.standard_normal((D, D))
    return S, S @ A.T, A


def error(network, A, kind="sparse_uniform"):
    S = random_sources(kind, 5000, D, rng=np.random.default_rng(99))
    return permutation_error(S, network.transform(S @ A.T))


def disturbed(kind, T, d, k, seed=0):
    """Outliers (the first sample too), a silence, noise, and an abrupt change of the
    mixing.
    """
    X = mixed(kind, T, d, k, seed)[1]
    X[T // 2 :] = mixed(kind, T - T // 2, d, k, seed + 1)[1]
    X += 0.01 * np.random.default_rng(seed).standard_normal(X.shape)
    X[0] *= 1e9
    X[T // 10] *= 1e6
    X[T // 4 : T // 4 + 200] = 0
    return X


# --- the rule of StreamingNICA


def compared(X, d, horizon, atol):
    """StreamingNICA and its transcription after X, which went the same way."""
    rng = np.random.RandomState(0)
    k = X.shape[1]
    first = orthonormal_rows(rng, d, k)
    matrices = (first, None) if k == d else (orthonormal_rows(rng, d, d), first)
    ours = StreamingNICA(d, horizon=horizon, random_state=0)
    rule = naive.OrthantRotation(*matrices, horizon or 0)
    assert_allclose(ours.partial_fit_transform(X), [rule.step(x) for x in X], atol=atol)
    assert ours.repairs_["restart"] == rule.restarts
    return ours, rule


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("kind", "d", "k", "horizon"),
    [
        ("sparse_uniform", 3, 3, None),
        ("odor", 3, 6, 500),
        ("half_normal", 5, 10, None),
        ("gamma", 1, 3, None),
    ],
)
def test_it_is_the_transcribed_rule(kind, d, k, horizon):
    ours, rule = compared(mixed(kind, 2000, d, k)[1], d, horizon, 1e-10)
    assert_allclose(
        ours.components_,
        rule.components,
        rtol=1e-9,
        atol=1e-10 * np.abs(rule.components).max(),
    )


@pytest.mark.interpreted
@pytest.mark.parametrize("k", [3, 7])
def test_it_is_the_transcribed_rule_when_disturbed(k):
    _, rule = compared(disturbed("sparse_uniform", 9000, 3, k), 3, 500, 1e-8)
    assert rule.restarts >= 2  # the outlier at first, and the change


def test_outputs_do_not_depend_on_scale_and_exist_from_the_second_sample_on():
    X = mixed("sparse_uniform", 2000, 3, 3)[1]
    plain, *scaled = (
        StreamingNICA(3, random_state=0).partial_fit_transform(scale * X)
        for scale in (1.0, 2.0**-40, 2.0**40)
    )
    for Y in scaled:
        assert_allclose(Y, plain, rtol=1e-9, atol=1e-12)
    assert plain[1:20].any(axis=1).sum() > 10


# --- recovery


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("seed", "d", "k"), [(0, 3, 3), (1, 6, 12)])
def test_one_pass_reaches_the_offline_error(kind, seed, d, k):
    """Square and tall, condition 1 to 1000, any scale: held-out error at most 3 times
    that of BatchNICA.
    """
    rng = np.random.default_rng(seed)
    S = random_sources(kind, 35_000, d, rng=rng)
    U, _, Vt = np.linalg.svd(rng.standard_normal((k, d)), full_matrices=False)
    A = (U * np.geomspace(1, 10 ** -rng.uniform(0, 3), d)) @ Vt
    X = S @ A.T * 10 ** rng.uniform(-3, 3)
    ours, offline = held_out(S, X, 5000)
    assert ours <= 3 * offline


# --- disturbances


@pytest.mark.parametrize("factor", [10.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("where", ["first", "early", "one", "many", "any direction"])
def test_outliers_leave_no_trace(where, factor):
    _, X, A = square()
    clean = fit_error(X, A)
    rows = {"first": [0], "early": [5], "one": [15_000]}
    rows = rows.get(where, np.arange(300, len(X), 1000))
    if where == "any direction":
        X[rows] = factor * np.random.default_rng(1).standard_normal((len(rows), D))
    X[rows] *= factor
    assert fit_error(X, A) < 2 * clean


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("horizon", [None, HORIZON])
@pytest.mark.parametrize("value", ["zeros", "last"])
def test_a_stuck_sensor_changes_nothing(value, horizon, dtype):
    """Whether 200 or 20,000 times: from some repetition on, every weight stays as it is
    to the last bit, and is a good one.
    """
    _, X, A = square()
    X = X.astype(dtype)
    last = X[BEFORE - 1 : BEFORE] * (value == "last")
    clean, short, long = (
        StreamingNICA(D, horizon=horizon, random_state=0).partial_fit(X[:BEFORE])
        for _ in range(3)
    )
    short.partial_fit(np.repeat(last, 200, axis=0))
    long.partial_fit(np.repeat(last, 20_200, axis=0))
    assert_array_equal(short.components_, long.components_)
    assert error(long, A) < 3 * error(clean, A)
    for network in (clean, long):
        network.partial_fit(X[BEFORE:])
    assert error(long, A) < 2 * error(clean, A)


# --- changes


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("change", ["mixing", "gain up", "gain down"])
def test_abrupt_changes_with_a_horizon(change, seed):
    """Five horizons later the error is that of a stream without a change."""
    S, X, A = square(seed)
    clean = fit_error(X, A, HORIZON)
    B = np.random.default_rng(100 + seed).standard_normal((D, D))
    B = {"mixing": B, "gain up": 100 * A, "gain down": 0.01 * A}[change]
    X[BEFORE:] = S[BEFORE:] @ B.T
    assert fit_error(X, B, HORIZON) < 3 * clean


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_change_without_a_horizon_is_reported_once(dtype):
    rng = np.random.default_rng(3)
    S = random_sources("exponential", 16_000, 3, rng=rng).astype(dtype)
    A, B = rng.standard_normal((2, 3, 3)).astype(dtype)
    network = StreamingNICA(3, random_state=0).fit(S[:12_000] @ A)
    assert not network.change_detected_
    with pytest.warns(ConvergenceWarning, match="set horizon="):
        network.partial_fit(S[12_000:] @ B)
    assert network.change_detected_
    network.partial_fit(S[12_000:] @ B)  # warns no more
    assert network.repairs_["restart"] == 0


@pytest.mark.parametrize("change", ["swapped sensors", "gain of a sensor"])
def test_changes_of_few_sensors_are_reported(change):
    X = mixed("exponential", 30_000, 3, 3, seed=3, snr_db=20)[1]
    if change == "swapped sensors":
        X[15_000:, :2] = X[15_000:, 1::-1]
    else:
        X[15_000:, 0] *= 5
    network = StreamingNICA(3, random_state=0).partial_fit(X[:15_000])
    with pytest.warns(ConvergenceWarning, match="the mixtures changed"):
        network.partial_fit(X[15_000:])


def test_sound_streams_are_not_reported():
    for kind in KINDS:
        for d, k, snr_db in ((3, 3, None), (5, 10, 20)):
            _, X = mixed(kind, 30_000, d, k, snr_db=snr_db)
            assert not StreamingNICA(d, random_state=0).fit(X).change_detected_
            assert (
                StreamingNICA(d, horizon=3000, random_state=0)
                .fit(X)
                .repairs_["restart"]
                == 0
            )


def on_and_off(n, d, dwell, rng):
    """Exponential sources, on and off for random times of this mean, on at first."""

    def on():
        times = rng.exponential(dwell, n).astype(int) + 1
        return np.repeat(np.arange(1, n + 1) % 2, times)[:n]

    S = np.transpose([on() for _ in range(d)]) * rng.exponential(size=(n, d))
    return S / S.std(axis=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("dwell", "noise"), [(100, 0.0), (1000, 0.05)])
def test_sources_that_come_and_go_are_rarely_a_change_of_the_mixing(dwell, noise):
    reported = 0
    restarted = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        S = on_and_off(50_000, D, dwell, rng)
        X = S @ rng.standard_normal((D, 6)) + noise * rng.standard_normal((50_000, 6))
        network = StreamingNICA(D, random_state=0).partial_fit(X)
        reported += network.change_detected_
        other = StreamingNICA(D, horizon=10_000, random_state=0).fit(X)
        restarted += other.repairs_["restart"]
    assert reported <= 3
    assert restarted <= 6
