"""Streams that need no tuning: StreamingNICA and its running whitening.

The rule against its transcription, its mathematics, recovery, and streams as
instruments make them.
"""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import naive
from bionica import BatchNICA, StreamingNICA
from bionica.datasets import mix, random_mixing, random_sources
from bionica.engine.rule import orthonormal_rows
from bionica.metrics import permutation_error
from conftest import learned

KINDS = ["sparse_uniform", "exponential", "half_normal", "gamma", "odor"]
D = 3
HORIZON = 1000
BEFORE = 20_000
AFTER = 5000


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


@pytest.mark.parametrize(("d", "k"), [(3, 5), (8, 8)])
def test_bits_do_not_depend_on_where_the_arrays_lie(d, k):
    X = disturbed("exponential", 1500, d, k)
    first = StreamingNICA(d, horizon=300, random_state=0).fit(X)
    memory = []
    for n in range(1, 30):
        memory.append(np.empty(8 * n + 1))  # moves what is allocated next
        again = StreamingNICA(d, horizon=300, random_state=0)
        again.partial_fit(X[: 10 * n]).partial_fit(X[10 * n :])
        assert_array_equal(first.components_, again.components_)


def test_outputs_are_white_whatever_the_condition_number():
    """K C K' = I for the covariance C of all samples but the first, which only sets the
    scale.
    """
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(5000, 4))
    U, _, W = np.linalg.svd(rng.standard_normal((4, 4)))
    for condition in (1, 1e3, 1e6):
        X = S @ ((U * np.geomspace(1, 1 / condition, 4)) @ W)
        stream = StreamingNICA(4, random_state=0).partial_fit(X[:1])
        stream._learner.state.white.tails[:] = 1e9  # every sample has weight 1
        white = stream.partial_fit(X[1:])._learner.state.white
        assert white.prior[0] == 0
        assert white.age[0] == white.n[0] == len(X) - 1
        assert_allclose(
            white.K @ np.cov(X[1:].T, bias=True) @ white.K.T,
            np.eye(4),
            atol=1e-11 + 1e-16 * condition**2,
        )
        assert_allclose(
            white.v_bar, white.K @ X[1:].mean(axis=0), rtol=1e-11 + 1e-14 * condition
        )


def test_outputs_do_not_depend_on_scale_and_exist_from_the_second_sample_on():
    X = mixed("sparse_uniform", 2000, 3, 3)[1]
    Y = [
        StreamingNICA(3, random_state=0).partial_fit_transform(scale * X)
        for scale in (1.0, 2.0**-40, 2.0**40)
    ]
    assert_allclose(Y[1], Y[0], rtol=1e-9, atol=1e-12)
    assert_allclose(Y[2], Y[0], rtol=1e-9, atol=1e-12)
    assert (Y[0][1:20].sum(axis=1) > 0).sum() > 10


# --- recovery


@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_reaches_the_offline_error(kind):
    """Square and tall, condition 1 to 1000, any scale: held-out error at most 3 times
    that of BatchNICA.
    """
    for seed in range(2):
        rng = np.random.default_rng(seed)
        d = (3, 6)[seed]
        S = random_sources(kind, 35_000, d, rng=rng)
        A = random_mixing(d * (1 + seed), d, 10 ** rng.uniform(0, 3), rng=rng)
        X = S @ A.T * 10 ** rng.uniform(-3, 3)
        errors = [
            permutation_error(S[-5000:], estimator.fit(X[:-5000]).transform(X[-5000:]))
            for estimator in (
                StreamingNICA(d, random_state=seed),
                BatchNICA(d, random_state=seed),
            )
        ]
        assert errors[0] <= 3 * errors[1]


# --- disturbances


@pytest.mark.parametrize("factor", [10.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize(
    "where", ["first", "early", "one", "one in 1000", "any direction"]
)
def test_outliers_leave_no_trace(where, factor):
    _, X, A = square()
    clean = error(StreamingNICA(D, random_state=0).fit(X), A)
    rows = {"first": [0], "early": [5], "one": [15_000]}.get(
        where, np.arange(300, len(X), 1000)
    )
    if where == "any direction":
        X[rows] = factor * np.random.default_rng(1).standard_normal((len(rows), D))
    X[rows] *= factor
    assert error(StreamingNICA(D, random_state=0).fit(X), A) < 2 * clean


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("horizon", [None, HORIZON])
@pytest.mark.parametrize("value", ["zeros", "last"])
def test_a_stuck_sensor_changes_nothing(value, horizon, dtype):
    """Whether 200 or 20,000 times: from some repetition on, every weight stays as it is
    to the last bit, and is a good one.
    """
    _, X, A = square()
    X = X.astype(dtype)
    stuck = np.zeros_like(X[:200]) if value == "zeros" else X[[BEFORE - 1] * 200]
    clean, short, long = (
        StreamingNICA(D, horizon=horizon, random_state=0).partial_fit(X[:BEFORE])
        for _ in range(3)
    )
    short.partial_fit(stuck)
    long.partial_fit(stuck).partial_fit(np.tile(stuck, (100, 1)))
    first, last = map(learned, (short, long))
    # others are recomputed from these
    for name in ("white.K", "white.v_bar"):
        assert_array_equal(first[f"_state.{name}"], last[f"_state.{name}"])
    assert error(long, A) < 3 * error(clean, A)
    clean.partial_fit(X[BEFORE:])
    assert error(long.partial_fit(X[BEFORE:]), A) < 2 * error(clean, A)


# --- changes


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("change", ["mixing", "gain up", "gain down"])
def test_abrupt_changes_with_a_horizon(change, seed):
    """Five horizons later the error is that of a stream without a change."""
    S, X, A = square(seed)
    B = np.random.default_rng(100 + seed).standard_normal((D, D))
    B = {"mixing": B, "gain up": 100 * A, "gain down": 0.01 * A}[change]
    clean = error(StreamingNICA(D, horizon=HORIZON, random_state=0).fit(X), A)
    X[BEFORE:] = S[BEFORE:] @ B.T
    assert (
        error(StreamingNICA(D, horizon=HORIZON, random_state=0).fit(X), B) < 3 * clean
    )


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


def on_and_off(n, d, dwell, rng):
    """Exponential sources, each on and off for random times of this mean; first on."""
    on = [
        np.repeat(np.arange(1, n + 1) % 2, rng.exponential(dwell, n).astype(int) + 1)[
            :n
        ]
        for _ in range(d)
    ]
    S = rng.exponential(size=(n, d)) * np.transpose(on)
    return S / S.std(axis=0)


@pytest.mark.parametrize(("dwell", "noise"), [(100, 0.0), (1000, 0.05)])
def test_sources_that_come_and_go_are_rarely_a_change_of_the_mixing(dwell, noise):
    reported = 0
    restarted = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = on_and_off(50_000, D, dwell, rng) @ rng.standard_normal(
            (D, 6)
        ) + noise * rng.standard_normal((50_000, 6))
        network = StreamingNICA(D, random_state=0)
        with warnings.catch_warnings(action="ignore"):  # of what is counted here
            network.partial_fit(X)
        reported += network.change_detected_
        restarted += (
            StreamingNICA(D, horizon=10_000, random_state=0).fit(X).repairs_["restart"]
        )
    assert reported <= 3
    assert restarted <= 6
