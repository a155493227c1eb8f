"""Linear algebra of the kernels: how neurons settle (optimality, termination), and what
the guards lift or leave alone.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import bionica
from bionica.circuits import guards, settling
from bionica.engine import rule
from conftest import learned, mixtures

EPS = np.finfo(float).eps
pytestmark = pytest.mark.interpreted


def positive_definite(rng, d, condition):
    Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
    return (Q * np.geomspace(1, 1 / condition, d)) @ Q.T


def kkt_residual(M, c, z):
    """Largest violation of z >= 0, w = Mz - c >= 0, z w = 0, relative to the terms that
    w is a difference of.
    """
    w = M @ z - c
    scale = np.abs(M) @ np.abs(z) + np.abs(c).max() + np.finfo(float).tiny
    return np.abs(np.minimum(z * np.diag(M), w) / scale).max()


def solve(M, c, H=None, firing=0):
    """The fixed point by an inverse H, or by pivoting from a set of firing neurons."""
    z = np.zeros(len(c))
    ws = rule.scratch(len(c), np.float64)
    ws.firing[:] = firing
    M = np.ascontiguousarray(M)
    if H is None:
        settling.pivot(settling.Exact(EPS), M, c, z, ws, True)
    else:
        settling.settle_exactly(
            settling.Exact(EPS), M, np.ascontiguousarray(H), c, z, ws, True
        )
    return z, ws


@settings(max_examples=200, deadline=None)
@given(
    d=st.integers(1, 40),
    condition=st.floats(0, 12),
    scale=st.floats(-100, 100),
    lost=st.sampled_from([0.0, 1e-12, 1e-6, 1e-2, 1.0]),
    bias=st.floats(-2, 2),
    seed=st.integers(0, 10**6),
)
def test_kkt_on_every_positive_definite_matrix(d, condition, scale, lost, bias, seed):
    """From an inverse that lost digits, or any warm start, whether few or most neurons
    fire: complementary to 1e-10.
    """
    rng = np.random.default_rng(seed)
    M = positive_definite(rng, d, 10**condition) * 10**scale
    H = rule.inverse(M) * (1 + lost * rng.standard_normal((d, d)))
    c = rng.standard_normal(d) + bias
    for start in ({"H": H}, {"firing": rng.random(d) < 0.5}):
        z, ws = solve(M, c, **start)
        assert z.min() >= 0
        assert kkt_residual(M, c, z) <= 1e-10
        assert ws.events[rule.REGULARISED] == 0


def test_degenerate_ties(rng):
    """Neurons that neither fire nor strain (z_i = w_i = 0), many at once, from every
    kind of start.
    """
    for d in (2, 5, 12):
        M = positive_definite(rng, d, 100.0)
        z0 = np.where(np.arange(d) % 2, 0.0, 1.0)
        c = M @ z0
        for firing in (np.zeros(d), np.ones(d), np.arange(d) % 2):
            z, _ = solve(M, c, firing=firing.astype(bool))
            assert_allclose(z, z0, atol=1e-12)


def test_nearly_singular_is_regularised_and_counted():
    singular = np.ones((3, 3)) + 1e-18 * np.eye(3)
    z, ws = solve(singular, np.ones(3), firing=np.ones(3, bool))
    assert np.isfinite(z).all()
    assert ws.events[rule.REGULARISED] == 1
    assert_allclose(z.sum(), 1, rtol=1e-6)  # M z = c still holds, nearly


# from 0.1 on M comes close to singular now and then
@pytest.mark.parametrize("eta0", [0.01, 0.05])
@pytest.mark.parametrize(
    "name", ["TwoCompartmentNICA", "InterneuronNICA", "TwoLayerNSM"]
)
@pytest.mark.parametrize(
    "dtype", [float, pytest.param(np.float32, marks=pytest.mark.slow)]
)
def test_the_inverse_stays_the_inverse(name, eta0, dtype):
    """999 updates between two recomputations; large rates make an antisymmetric part
    grow by 1e22 if there is any.
    """
    d = 4
    eps = np.finfo(dtype).eps
    _, X = mixtures(999, d, dtype=dtype)
    network = getattr(bionica, name)(d, eta0=eta0, decay=0.0, random_state=0)
    state = learned(network.partial_fit(X))
    if name == "InterneuronNICA":
        assert_array_equal(network.W_ny_, network.W_yn_.T)
        M = network.W_ny_.astype(float) @ network.W_yn_
    elif name == "TwoCompartmentNICA":
        M = network.W_zz_.astype(float)
    else:
        M = network.W_yy_.astype(float)
    H = state["_state.H_yy" if name == "TwoLayerNSM" else "_state.H"]
    assert_allclose(H @ M, np.eye(d), atol=1e3 * eps * np.linalg.cond(M))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_whitening_layer_keeps_its_inverse(dtype):
    """To 1000 rounding units times the condition number. At rates of 0.1 the trajectory
    is chaotic and H may be lost for hundreds of samples, which are then solved without
    it.
    """
    d = 4
    eps = np.finfo(dtype).eps
    _, X = mixtures(999, d, dtype=dtype)
    network = bionica.TwoLayerNSM(
        d, whitening_eta0=0.01, whitening_decay=0.0, random_state=0
    )
    errors = []
    network.partial_fit(X[:900])
    for x in X[900:]:
        network.learn_one(x)
        W_hg = network.W_hg_.astype(float)
        M = W_hg.T @ W_hg
        error = np.abs(learned(network)["_state.H_hg"] @ M - np.eye(d)).max()
        errors.append(error / (eps * np.linalg.cond(M)))
    assert np.median(errors) < 1e3


def with_singular_values(rng, values, n):
    d = len(values)
    U = np.linalg.qr(rng.standard_normal((d, d)))[0]
    V = np.linalg.qr(rng.standard_normal((n, d)))[0]
    return np.ascontiguousarray((U * values) @ V.T)


@pytest.mark.parametrize(
    "values",
    [
        (2.0, 0.5, 1e-3),
        (1e6, 1.0, 5e-3),
        (1.0, 1e-3, 1e-5),
        (3.0, 1.0, 0.0),
        (0.0, 0.0, 0.0),
        (1.0, 0.5, 0.05),
    ],
)
@pytest.mark.parametrize("n", [3, 5])
def test_small_singular_values_become_one(values, n, rng):
    W = with_singular_values(rng, values, n)
    before = W.copy()
    ws = rule.scratch(3, float)
    guards.lift_singular_values(W, EPS, ws)
    lifted = sum(value < 0.01 for value in values)
    assert ws.events[rule.SPECTRUM] == lifted
    expected = sorted((v if v >= 0.01 else 1.0 for v in values), reverse=True)
    assert_allclose(np.linalg.svd(W, compute_uv=False), expected, rtol=1e-9)
    if not lifted:
        assert_array_equal(W, before)
    # what was large enough is as it was: W and before agree on those directions
    u, s, vt = np.linalg.svd(before, full_matrices=False)
    keep = s >= 0.01
    assert_allclose(
        u[:, keep].T @ W @ vt[keep].T, np.diag(s[keep]), rtol=1e-9, atol=1e-9 * s[0]
    )


@pytest.mark.parametrize(
    "values", [(2.0, 1.0, 1e-3), (5.0, -0.1, 0.5), (1.0, 1e-4, 1e-4), (1.0, -1.0, 0.0)]
)
def test_small_eigenvalues_become_one(values):
    Q = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    W = (Q * values) @ Q.T
    ws = rule.scratch(3, float)
    guards.lift_eigenvalues(W, EPS, ws)
    expected = sorted(value if value >= 0.01 else 1.0 for value in values)
    assert_allclose(np.linalg.eigvalsh(W), expected, rtol=1e-9)
    assert_allclose(W, W.T, atol=1e-12)
    assert ws.events[rule.SPECTRUM] == sum(value < 0.01 for value in values)
