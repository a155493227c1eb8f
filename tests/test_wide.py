"""Blocks of wide inputs give what the sequential loop gives; starts that never see a covariance of k x k."""

import tracemalloc

import numpy as np
import pytest

import bionica
from bionica.kernels import blocks as wide
from bionica.kernels.rule import REPAIRS, to_arrays
from bionica.metrics import permutation_error

K, D, N = 60, 4, 330
# Without `frozen`, which watches the mixtures of a narrow input, and u of a wide one.
NATURAL = {"guards": ("silent", "spectrum", "rate", "restart")}
PLAIN = {"precondition": None, "init": "random", "eta0": 0.01, "decay": 0.001}
RULES = {
    "interneuron": (bionica.InterneuronNICA, {**PLAIN, "average": False}),
    "interneuron averaged": (bionica.InterneuronNICA, {**PLAIN, "average": True}),
    "two-compartment": (bionica.TwoCompartmentNICA, {**PLAIN, "average": False}),
    "two-compartment averaged": (bionica.TwoCompartmentNICA, {**PLAIN, "average": True}),
    "two-compartment scaled": (
        bionica.TwoCompartmentNICA,
        {**PLAIN, "precondition": "scale", "average": True, "eta0": 1e-3},
    ),
    "natural interneuron": (bionica.InterneuronNICA, NATURAL),
    "natural two-compartment": (bionica.TwoCompartmentNICA, NATURAL),
    "2-layer NSM": (bionica.TwoLayerNSM, {"eta0": 0.01}),
    "nonnegative PCA, online": (bionica.NonnegativePCA, {"whiten": "online"}),
    "nonnegative PCA, offline": (bionica.NonnegativePCA, {}),
}


def problem(n=N, k=K, d=D, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    S = rng.uniform(0, np.sqrt(48 / 5), (n, d)) * (rng.random((n, d)) < 0.5)
    A = np.linalg.qr(rng.standard_normal((k, d)))[0]
    return S, S @ A.T + noise * rng.standard_normal((n, k))


@pytest.fixture
def blocks(monkeypatch):
    """Have the loop take blocks of so many samples, whatever the width; 0: never."""

    def force(size):
        monkeypatch.setattr(wide, "INPUTS", 1 if size else 10**9)
        monkeypatch.setattr(wide, "SYNAPSES", 0)
        monkeypatch.setattr(wide, "SAMPLES", 1)
        monkeypatch.setattr(wide, "rows", lambda k, d, itemsize: size)

    return force


def learned(Network, params, X):
    """Every array of the network, and its outputs while it learned and after."""
    network = Network(D, random_state=0, **params)
    if Network is bionica.NonnegativePCA and "whiten" not in params:
        network.fit(X[:100])
    Y = network.partial_fit_transform(X)
    return {"outputs": Y, "transform": network.transform(X), **to_arrays(network._state)}


def assert_alike(white, expected, tolerance=1e-10):
    assert white.keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype.kind == "f":
            size = max(1.0, float(np.abs(value).max(initial=0.0)))
            np.testing.assert_allclose(white[name], value, rtol=0, atol=tolerance * size, err_msg=name)
        else:
            np.testing.assert_array_equal(white[name], value, err_msg=name)


def repairs(white, name):
    return white["repairs"][REPAIRS.index(name)]


@pytest.mark.parametrize(
    ("rule", "dynamics"),
    [
        *((rule, "exact") for rule in RULES),
        ("two-compartment averaged", "gradient"),
        ("natural interneuron", "gradient"),
    ],
)
def test_blocks_equal_the_sequential_loop(blocks, rule, dynamics):
    Network, params = RULES[rule]
    _, X = problem()
    for guards in (params.get("guards", True), False):
        chosen = {**params, "dynamics": dynamics, "guards": guards}
        blocks(0)
        expected = learned(Network, chosen, X)
        for size in (2, 7, 64, 1000):
            blocks(size)
            assert_alike(learned(Network, chosen, X), expected)


@pytest.mark.parametrize("average", [False, True])
def test_guards_that_act(blocks, average):
    """Silent neurons flipped, rates capped, rows replaced and singular values lifted inside and between blocks."""
    _, X = problem(seed=2)
    acted = set()
    rng = np.random.default_rng(0)
    W = 0.2 * rng.standard_normal((D, K)) - X.mean(axis=0)
    cases = [
        (bionica.TwoCompartmentNICA, "W_xz", X, True),
        (bionica.InterneuronNICA, "W_xy", 0.02 * X, True),
        (bionica.InterneuronNICA, "W_xy", 0.02 * X, ["silent", "spectrum"]),
    ]
    for Network, name, data, guards in cases:
        params = {**PLAIN, "average": average, "init": {name: W}, "eta0": 0.3, "decay": 0.1, "guards": guards}
        blocks(0)
        expected = learned(Network, params, data)
        acted |= {name for name in REPAIRS if repairs(expected, name)}
        for size in (13, 64):
            blocks(size)
            assert_alike(learned(Network, params, data), expected)
    assert {"silent", "rate", "row", "spectrum"} <= acted


@pytest.mark.parametrize("rule", ["natural two-compartment", "2-layer NSM"])
def test_single_precision(blocks, rule):
    Network, params = RULES[rule]
    X = problem()[1].astype(np.float32)
    blocks(0)
    expected = learned(Network, params, X)
    blocks(40)
    white = learned(Network, params, X)
    assert white["outputs"].dtype == np.float32
    assert_alike(white, expected, 2e-3)


def hard(rng):
    _, X = problem(noise=0.0)
    yield "rank d", X
    yield "all alike", np.repeat(X[:1], len(X), axis=0)
    yield "silence", X * (np.arange(len(X)) % 3 > 0)[:, np.newaxis]
    yield "sizes of all kinds", X * 10.0 ** rng.uniform(-6, 1, (len(X), 1))
    yield "a far mean", X + 1.0


@pytest.mark.parametrize("rule", [rule for rule in RULES if "natural" not in rule])
def test_hard_blocks(blocks, rng, rule):
    """Samples that depend on each other, whose Gram matrix is singular, and samples of very different size."""
    Network, params = RULES[rule]
    params = {**params, "eta0": 1e-4}
    for name, X in hard(rng):
        if name == "all alike" and "offline" in rule:
            continue  # nothing to whiten
        blocks(0)
        expected = learned(Network, params, X)
        blocks(64)
        white = learned(Network, params, X)
        try:
            assert_alike(white, expected)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


@pytest.mark.parametrize("rule", RULES)
def test_chunks_of_a_wide_stream_agree_to_rounding(monkeypatch, rule):
    monkeypatch.setattr(wide, "SYNAPSES", 0)
    Network, params = RULES[rule]
    _, X = problem(230, 1200)
    ends = []
    for step in (230, 50, 3):
        network = Network(D, random_state=0, **params)
        if Network is bionica.NonnegativePCA and "whiten" not in params:
            network.fit(X[:100])
        for start in range(0, len(X), step):
            network.partial_fit(X[start : start + step])
        ends.append(to_arrays(network._state))
    for end in ends[1:]:
        assert_alike(end, ends[0])


@pytest.mark.parametrize("name", ["TwoCompartmentNICA", "InterneuronNICA", "NonnegativePCA"])
def test_wide_fits_stay_below_a_covariance(name):
    """k x k would be 800 MB; the data are 16 MB."""
    S, X = problem(200, 10_000, 3)
    tracemalloc.start()
    try:
        network = getattr(bionica, name)(3, random_state=0).fit(X)
        stream = getattr(bionica, name)(3, random_state=0)
        for start in range(0, 200, 40):
            stream.partial_fit(X[start : start + 40])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * X.nbytes
    if name != "NonnegativePCA":
        assert permutation_error(S, network.transform(X)) < 0.05
