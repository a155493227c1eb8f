"""The single-layer networks at their defaults: no tuning, whatever the mixing; and what goes with it."""

import numpy as np
import pytest

import bionica
from bionica.datasets import mix, sparse_uniform
from bionica.metrics import permutation_error
from conftest import mixtures
from test_estimators import SINGLE_LAYER, same_bits

single_layer = pytest.mark.parametrize("Single", SINGLE_LAYER, ids=lambda cls: cls.__name__)
HELD_OUT = 5000


@single_layer
@pytest.mark.filterwarnings("ignore:the mixtures changed:sklearn.exceptions.ConvergenceWarning")
def test_drifting_mixtures_are_tracked_with_a_horizon(Single):
    n = 60_000
    S = sparse_uniform(n, 2, rng=0)
    angle = 2 * np.pi * np.arange(n) / n
    X = np.column_stack(
        [np.cos(angle) * S[:, 0] - np.sin(angle) * S[:, 1], np.sin(angle) * S[:, 0] + np.cos(angle) * S[:, 1]]
    )
    tail = slice(-n // 10, None)
    errors = [
        permutation_error(S[tail], Single(2, horizon=horizon, random_state=0).partial_fit_transform(X)[tail])
        for horizon in (1000, None)
    ]
    assert errors[0] < 0.02
    assert errors[1] > 10 * errors[0]


@single_layer
def test_average_is_read_out_and_does_not_touch_the_running_outputs(Single):
    _, X = mixtures(2000, 3)
    with_average, without = (Single(3, average=average, random_state=0) for average in (True, False))
    assert np.array_equal(with_average.partial_fit_transform(X), without.partial_fit_transform(X))
    assert not np.allclose(with_average.transform(X), without.transform(X))


@single_layer
def test_scale_makes_the_local_network_indifferent_to_units(Single):
    _, X = mixtures(20_000, 3)
    units = np.array([1.0, 255.0, 1e-3])
    eta0, decay = (Single._published["d3"][name] for name in ("eta0", "decay"))
    new = [Single(3, precondition="scale", eta0=eta0, decay=decay, random_state=0) for _ in range(3)]
    networks = [network.fit(X * u) for network, u in zip(new, (1.0, 4.0, units), strict=True)]
    outputs = [network.transform(X * u) for network, u in zip(networks, (1.0, 4.0, units), strict=True)]
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-9)
    # 255 and 1e-3 round differently, and the search from random weights amplifies rounding.
    np.testing.assert_allclose(outputs[2], outputs[0], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("d", [3, 10])
@pytest.mark.parametrize("precondition", [None, "scale"])
@single_layer
def test_local_networks_separate_most_random_matrices(Single, precondition, d):
    """Five matrices beyond those that the setting was chosen on; the benchmark local_networks.py has the rates of success."""
    separated = 0
    for seed in range(100, 105):
        rng = np.random.default_rng([d, seed])
        A = rng.standard_normal((d, d))
        S = sparse_uniform(100_000 + HELD_OUT, d, rng=rng)
        X = S @ A.T
        network = Single(d, precondition=precondition, random_state=seed).partial_fit(X[:-HELD_OUT])
        separated += permutation_error(S[-HELD_OUT:], network.transform(X[-HELD_OUT:])) < 0.05
    assert separated >= 3


def test_float32_stays_white():
    _, X = mixtures(200_000, 3, dtype=np.float32)
    network = bionica.TwoCompartmentNICA(3, random_state=0)
    for _ in range(10):
        network.partial_fit(X)
    white = network._state.white
    X = X.astype(float) @ network._state.F.T
    np.testing.assert_allclose(white.K @ np.cov(X.T, bias=True) @ white.K.T, np.eye(3), atol=0.02)
    assert network._state.W.dtype == np.float32


@single_layer
def test_waiting_network(Single, tmp_path):
    """Before it has seen 100 + 20 d samples a natural network is silent, can be used, saved and gone on with."""
    _, X = mixtures(400, 3)
    first = X[:160].copy()  # as long as the first block: it must not become the memory of the network
    network = Single(3, random_state=0).partial_fit(first[:100])
    assert not np.shares_memory(network._waiting, first)
    assert network.n_samples_seen_ == 100
    assert np.array_equal(network.partial_fit_transform(X[100:110]), np.zeros((10, 3)))
    assert np.array_equal(network.transform(X), np.zeros((400, 3)))
    assert not hasattr(network, "components_")
    network.save(tmp_path / "model")
    loaded = bionica.load(tmp_path / "model")
    assert loaded.n_samples_seen_ == 110
    assert same_bits(loaded.partial_fit(X[110:]), network.partial_fit(X[110:]))
    assert same_bits(network, Single(3, random_state=0).fit(X))


@single_layer
def test_given_weights_of_a_natural_network(Single):
    """Weights in the paper's terms: started at a solution, it stays there."""
    S = sparse_uniform(10_000, 3, rng=0)
    X, A = mix(S, bionica.datasets.paper_mixing("d3"))
    if Single is bionica.InterneuronNICA:
        init = {"W_xy": np.linalg.inv(A), "W_yn": np.eye(3)}
    else:
        W_zz = S.T @ S / len(S)
        init = {"W_zz": W_zz, "W_xz": W_zz @ np.linalg.inv(A)}
    network = Single(3, init=init, random_state=0).fit(X)
    assert permutation_error(S, network.transform(X)) < 1e-3


def test_parameters_are_checked_at_every_call(tmp_path):
    _, X = mixtures(300, 3)
    for method in ("partial_fit", "learn_one", "save"):
        network = bionica.InterneuronNICA(3, random_state=0).fit(X).set_params(eta0=-1)
        argument = {"partial_fit": X, "learn_one": X[0], "save": tmp_path / "model"}[method]
        with pytest.raises(ValueError, match="eta0"):
            getattr(network, method)(argument)
