"""ConeNetwork: the naive version, the gradient that it follows, its fixed point, correlated sources, disturbances."""

import itertools
import warnings

import numpy as np
import pytest

import naive
from bionica import ConeNetwork
from bionica.datasets import copula_uniform, mix
from bionica.kernels.rule import to_arrays
from bionica.metrics import sinr
from test_reference import initial_state

FRONTS = ["online", "offline", False]


def correlated(n, d, k, rho=0.5, seed=0, noise=None):
    """Sources and mixtures; noise in dB below the mixtures."""
    rng = np.random.default_rng(seed)
    S = copula_uniform(n, d, rho=rho, rng=rng)
    X, _ = mix(S, n_mixtures=k, rng=rng)
    return S, X if noise is None else X + rng.standard_normal(X.shape) * X.std() * 10 ** (-noise / 20)


def learned(X, d=3, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ConeNetwork(d, random_state=0, **parameters).fit(X)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("whiten", "d", "k", "horizon", "kappa"),
    [
        ("online", 3, 5, None, None),
        ("online", 3, 5, 80, None),
        ("online", 1, 2, 80, 30.0),
        ("offline", 3, 5, None, None),
        ("offline", 3, 3, 80, 30.0),
        (False, 3, 5, 80, None),
        (False, 3, 5, None, 30.0),
        (False, 1, 2, None, None),
    ],
)
def test_it_is_the_naive_network(whiten, d, k, horizon, kappa, monkeypatch):
    X = correlated(400, d, k, seed=1)[1]
    X[45::90] *= 40  # far out
    network = ConeNetwork(d, whiten=whiten, kappa=kappa, horizon=horizon, decay=1e-3, random_state=0)
    state, learner = initial_state(network, X, monkeypatch), network._learner_for(k, X.dtype, X)
    options, W_xz = {"kappa": kappa, "horizon": horizon}, state.W_xz
    if whiten is False:
        options["size"] = state.front.size[0]
    else:
        options["F"] = state.front.F
    if whiten == "online":
        white = state.front.white
        options["white"] = naive.RunningWhitening(white.K, horizon or 0, white.v_bar, white.n[0])
    expected, weights = naive.cone_network(X, W_xz, state.W_zz, 0.3 / (1 + 1e-3 * np.arange(400)), **options)
    expected[: getattr(learner, "block", 0)] = 0  # of the first block
    np.testing.assert_allclose(learner.learn(X, keep=True), expected, rtol=1e-9, atol=1e-9)
    arrays = to_arrays(learner.state)
    if whiten == "online":
        arrays |= {name: arrays[name] @ arrays["front.white.K"] for name in ("W_xz", "W_xz_mean")}
    for name, W in weights.items():
        np.testing.assert_allclose(arrays[name], W, rtol=1e-9, atol=1e-9, err_msg=name)


def relative_gradient(Y, kappa):
    """kappa <n_i z_j> - <z_j> of samples weighed as the network weighs them, zero on the diagonal."""
    Y = Y / np.maximum(1, np.abs(Y).mean(axis=1, keepdims=True))
    n, z = np.maximum(-Y, 0), np.maximum(Y, 0)
    return (kappa * n.T @ z / len(Y) - z.mean(axis=0)) * (1 - np.eye(Y.shape[1]))


def without_rows_of(V, A):
    """A less what is parallel to the rows of V: those are scaled by homeostasis."""
    return A - np.sum(A * V, axis=1, keepdims=True) / np.sum(V * V, axis=1, keepdims=True) * V


@pytest.mark.parametrize("whiten", FRONTS)
def test_the_mean_update_follows_the_relative_gradient(whiten):
    """From W_zz = I, inhibition moves to minus the gradient G; with that inhibition, the dendrites move along G W_xz."""
    rng = np.random.default_rng(3)
    S, X = correlated(20_000, 3, 3, seed=3)
    X = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / len(X)).T)  # white
    V = np.linalg.lstsq(X, S / S.mean(axis=0), rcond=None)[0].T
    V = (np.eye(3) + 0.2 * rng.standard_normal((3, 3))) @ V
    kappa, eta, d = 1.0, 1e-9, 3
    options = {"kappa": kappa, "eta0": eta, "whiten": whiten}
    G = relative_gradient(X @ V.T, kappa)
    Q = learned(X, init={"W_xz": V}, **options).W_zz_
    np.testing.assert_allclose(Q, -eta * len(X) / (kappa * d) * G, rtol=1e-5, atol=1e-9)
    moved = learned(X, init={"W_xz": V, "W_zz": -0.01 * G}, **options).W_xz_ - V
    moved, wanted = without_rows_of(V, moved), without_rows_of(V, G @ V)
    assert np.sum(moved * wanted) > 0.95 * np.linalg.norm(moved) * np.linalg.norm(wanted)


def test_fixed_point():
    """<n_i z_j> = <z_j> / kappa for i != j, and |v_i| has mean 1, where learning ends: the gradient is zero."""
    X = correlated(200_000, 3, 3, seed=4)[1]
    Y = X @ learned(X, kappa=100.0, decay=1e-3, power=0.5).components_.T
    activity = np.abs(Y).mean(axis=1, keepdims=True)
    weight = np.minimum(1, activity)
    np.testing.assert_allclose(
        relative_gradient(Y, 100.0) / (weight / activity * np.maximum(Y, 0)).mean(axis=0), 0, atol=0.08
    )
    np.testing.assert_allclose((weight * np.abs(Y)).mean(axis=0) / weight.mean(), 1, atol=0.03)


@pytest.mark.parametrize(("d", "rho", "lost"), [(3, 0.0, 2), (3, 0.5, 3), (5, 0.7, 6)])
def test_correlated_sources_in_one_pass(d, rho, lost):
    """As good as the true mixing matrix, but for `lost` dB, where nonnegative ICA ends below 12 dB."""
    rng = np.random.default_rng(5)
    S = copula_uniform(100_000, d, rho=rho, rng=rng)
    X, A = mix(S, n_mixtures=2 * d, rng=rng)
    X += rng.standard_normal(X.shape) * X.std() * 10**-1.5
    least = sinr(S, np.maximum(X @ np.linalg.pinv(A).T, 0)) - lost
    network = learned(X, d)
    assert sinr(S, network.transform(X)) > least
    assert not network.change_detected_
    assert sinr(S[-20_000:], network.partial_fit_transform(X[-20_000:])) > least - 2


@pytest.mark.parametrize("whiten", ["online", "offline"])
def test_abundances(whiten):
    """The covariance of sources that sum to one is singular."""
    rng = np.random.default_rng(0)
    S, A = rng.dirichlet(np.full(3, 0.5), 60_000), rng.uniform(size=(6, 3))
    X = S @ A.T
    X += rng.standard_normal(X.shape) * X.std() * 10**-1.5
    best = sinr(S, np.maximum(X @ np.linalg.pinv(A).T, 0))
    assert sinr(S, learned(X, whiten=whiten).transform(X)) > best - 2


def test_scale_and_mixing_matrix_do_not_matter():
    S, X = correlated(60_000, 3, 3, seed=6)
    stretched = X @ np.array([[1e3, 0, 0], [1e3, 1, 0], [0, 0.1, 1e-3]])
    assert sinr(S, learned(stretched).transform(stretched)) > 25


@pytest.mark.parametrize("whiten", FRONTS)
def test_an_outlier(whiten):
    S, X = correlated(60_000, 3, 3, seed=12)
    X = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / len(X)).T)  # the local network needs it
    clean = sinr(S, learned(X, whiten=whiten).transform(X))
    X[30_000] *= -1e6
    spoiled = learned(X, whiten=whiten)
    X[30_000] *= -1e-6
    assert clean > 20
    assert sinr(S, spoiled.transform(X)) > clean - 3


@pytest.mark.parametrize("whiten", FRONTS)
@pytest.mark.parametrize("horizon", [None, 20_000])
def test_zeros_change_little(whiten, horizon):
    S, X = correlated(60_000, 3, 3, seed=12)
    X = X @ np.linalg.inv(np.linalg.cholesky(X.T @ X / len(X)).T)
    network = learned(X, whiten=whiten, horizon=horizon)
    before = sinr(S, network.transform(X))
    network.partial_fit(np.zeros((100_000, 3)))
    # With a horizon the average ends at the last weights.
    assert sinr(S, network.transform(X)) > before - (1.5 if whiten == "offline" else 1)


@pytest.mark.parametrize("seed", [1, 8])
def test_an_abrupt_change_with_a_horizon(seed):
    """It follows, whether it restarts (seed 1) or moves there (seed 8)."""
    X = correlated(60_000, 3, 3, seed=seed)[1]
    T, Z = correlated(150_000, 3, 3, seed=seed + 1)
    network = learned(X, horizon=20_000).partial_fit(Z)
    assert sinr(T[-20_000:], network.transform(Z[-20_000:])) > 30


def test_one_mixture_one_source_and_a_constant_channel():
    _, X = correlated(3000, 1, 1)
    assert abs(np.corrcoef(learned(X, 1).transform(X)[:, 0], X[:, 0])[0, 1]) > 0.999
    for seed, whiten in itertools.product(range(4), FRONTS):  # homeostasis turns no large sample around
        X = np.random.default_rng(seed).exponential(size=(5000, 1)) * np.linspace(1, 2, 1 + 3 * (seed % 2))
        assert 0.5 < learned(X, 1, whiten=whiten).transform(X).mean() < 1.5
    S, X = correlated(60_000, 3, 3, seed=10)
    X = np.hstack([X, np.full((len(X), 1), 2.0)])
    network = learned(X)
    assert np.isfinite(network.transform(X)).all()
    assert sinr(S, network.transform(X)) > 15
