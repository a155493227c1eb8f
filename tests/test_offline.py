"""The networks on all the data at once: where they end, what they minimise, the scikit-learn contract."""

import copy
import itertools
from functools import partial

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning

import bionica
from bionica import reference
from bionica.datasets import mix, paper_mixing, sparse_uniform
from bionica.metrics import permutation_error
from bionica.offline import OfflineNICA, objectives
from bionica.offline.offline_nica import offline_interneuron, offline_two_compartment
from test_objectives import gradients

NETWORKS = ["interneuron", "two_compartment"]


@pytest.fixture(scope="module")
def papers_problem():
    S = sparse_uniform(20_000, 3, rng=0)
    return S, mix(S, paper_mixing("d3"))[0]


@pytest.mark.parametrize("network", NETWORKS)
def test_error_within_twice_that_of_batch_nica(papers_problem, network):
    S, X = papers_problem
    offline = OfflineNICA(3, network=network, random_state=0).fit(X)
    batch = bionica.BatchNICA(3, random_state=0).fit(X)
    assert permutation_error(S, offline.transform(X)) < 2 * permutation_error(S, batch.transform(X))
    np.testing.assert_allclose(offline.components_ @ offline.mixing_, np.eye(3), atol=1e-9)
    assert np.mean((offline.inverse_transform(offline.transform(X)) - X) ** 2) < 1e-3


def test_objective_after_the_transient(papers_problem):
    """L_2 falls all the way; L_1 ends within 1e-4 of its least value (it undershoots while W_yn catches up)."""
    _, X = papers_problem
    curve = OfflineNICA(3, network="two_compartment", random_state=0).fit(X).objective_curve_
    assert (np.diff(curve[5:]) <= 1e-12).all()
    curve = OfflineNICA(3, network="interneuron", random_state=0).fit(X).objective_curve_
    assert curve[-1] - curve.min() < 1e-4 * abs(curve[-1])
    assert curve[-1] < curve[5]


def test_the_end_is_stationary_and_the_recorded_objective_is_the_objective(papers_problem):
    _, X = papers_problem
    X = X[:3000]
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    found = offline_interneuron(X, W, np.eye(4, 3), eta=0.5, tol=1e-9, max_iter=2000)
    assert found.converged
    W_xy, W_yn = found.weights["W_xy"], found.weights["W_yn"]
    Y = settled(X, W_xy, W_yn.T @ W_yn)
    fixed = partial(objectives.interneuron_objective, Y=Y, N=Y @ W_yn.T)
    assert max(np.abs(g).max() for g in gradients(fixed, X, W_xy=W_xy, W_yn=W_yn).values()) < 1e-7
    assert found.objective[-1] == pytest.approx(
        objectives.interneuron_objective(Y, Y @ W_yn.T, W_xy, W_yn, X), abs=1e-8
    )
    # Appendix A at the end of the road: W_xy = P A', up to what 3000 samples allow.
    A = paper_mixing("d3")
    order = linear_sum_assignment(-(W_xy @ A / np.linalg.norm(A, axis=0)))[1]
    np.testing.assert_allclose(W_xy, A.T[order], atol=0.06)

    found = offline_two_compartment(X, W, np.eye(3), eta=0.2, tau=0.5, tol=1e-9, max_iter=3000)
    assert found.converged
    W_xz, W_zz = found.weights["W_xz"], found.weights["W_zz"]
    Z = settled(X, W_xz, W_zz)
    fixed = partial(objectives.two_compartment_objective, Z=Z)
    assert max(np.abs(g).max() for g in gradients(fixed, X, W_xz=W_xz, W_zz=W_zz).values()) < 1e-6
    assert found.objective[-1] == pytest.approx(objectives.two_compartment_objective(Z, W_xz, W_zz, X), abs=1e-7)


def settled(X, W, M):
    return np.array([reference.settle(M, W @ x) for x in X])


@pytest.mark.parametrize(("d", "k", "m"), [(3, 3, 3), (3, 5, 4), (1, 1, 2)])
def test_the_same_steps_as_the_reference(d, k, m):
    rng = np.random.default_rng(0)
    X, A = mix(sparse_uniform(300, d, rng=rng), n_mixtures=k, rng=rng)
    networks = {
        "interneuron": reference.interneuron(d, k, rng, m) | {"W_xy": A.T.copy()},
        "two_compartment": reference.two_compartment(d, k, rng, tau=0.5) | {"W_xz": np.linalg.pinv(A)},
    }
    for name, n in itertools.product(networks, (1, 20)):
        state = copy.deepcopy(networks[name])
        start = {weight: state[weight].copy() for weight in ("W_xy", "W_yn", "W_xz", "W_zz") if weight in state}
        if name == "interneuron":
            found = offline_interneuron(X, **start, eta=0.3, tol=0, max_iter=n)
            Y = [reference.offline_interneuron_step(state, X, 0.3) for _ in range(n)]
        else:
            found = offline_two_compartment(X, **start, eta=0.05, tau=0.5, tol=0, max_iter=n)
            Y = [reference.offline_two_compartment_step(state, X, 0.05) for _ in range(n)]
        assert (np.array(Y).max(axis=1) > 0).all()  # no output is silent, which would be repaired here
        for weight, W in found.weights.items():
            np.testing.assert_allclose(W, state[weight], rtol=1e-10, atol=1e-12, err_msg=weight)


def test_the_steps_of_the_reference_descend_and_ascend_the_objectives(papers_problem):
    """(7) and (8) are half the gradient of L_1, (13) and (14) of L_2: down in the feedforward, up in the lateral weights."""
    X, eta, tau = papers_problem[1][:50], 1e-3, 0.5
    rng = np.random.default_rng(0)
    state = reference.interneuron(3, 3, rng, m=4)
    W_xy, W_yn = state["W_xy"].copy(), state["W_yn"].copy()
    Y = reference.offline_interneuron_step(state, X, eta)
    slope = gradients(objectives.interneuron_objective, X, Y=Y, N=Y @ W_yn.T, W_xy=W_xy, W_yn=W_yn)
    np.testing.assert_allclose(state["W_xy"] - W_xy, -eta / 2 * slope["W_xy"], atol=1e-12)
    np.testing.assert_allclose(state["W_yn"] - W_yn, eta / 2 * slope["W_yn"], atol=1e-12)
    np.testing.assert_allclose(state["W_ny"], state["W_yn"].T, rtol=0, atol=1e-15)  # a product and its transpose

    state = reference.two_compartment(3, 3, rng, tau)
    W_xz, W_zz = state["W_xz"].copy(), state["W_zz"].copy()
    Z = reference.offline_two_compartment_step(state, X, eta)
    slope = gradients(objectives.two_compartment_objective, X, Z=Z, W_xz=W_xz, W_zz=W_zz)
    np.testing.assert_allclose(state["W_xz"] - W_xz, -eta / 2 * slope["W_xz"], atol=1e-12)
    np.testing.assert_allclose(state["W_zz"] - W_zz, eta / (2 * tau) * slope["W_zz"], atol=1e-12)


def test_more_mixtures_and_more_interneurons_than_sources():
    S = sparse_uniform(5000, 3, rng=1)
    X, _ = mix(S, n_mixtures=6, rng=1)
    for network in NETWORKS:
        Y = OfflineNICA(3, network=network, max_iter=5000, random_state=1).fit(X).transform(X)
        assert permutation_error(S, Y) < 5e-3
    found = offline_interneuron(X, np.eye(3, 6), np.eye(5, 3), eta=0.5, tol=1e-6, max_iter=5)
    assert found.weights["W_yn"].shape == (5, 3)


def test_errors_and_warnings_say_what_to_do(papers_problem):
    _, X = papers_problem
    with pytest.warns(ConvergenceWarning, match="max_iter=3.*raise max_iter"):
        OfflineNICA(3, max_iter=3, random_state=0).fit(X)
    for parameters, message in (
        ({"n_components": 4}, "n_components=4"),
        ({"eta": 1.5}, "lower eta"),
        ({"eta": 5.0, "network": "two_compartment"}, "lower eta"),
        ({"eta": 0.5, "tau": 0.1, "network": "two_compartment"}, r"below tau=0\.1"),
        ({"network": "both"}, "network"),
    ):
        with pytest.raises(ValueError, match=message):
            OfflineNICA(**parameters).fit(X)
    for constant, message in ((X[:1], "a minimum of 2"), (np.repeat(X[:1], 9, axis=0), "do not vary")):
        with pytest.raises(ValueError, match=message):
            OfflineNICA().fit(constant)
    with pytest.raises(ValueError, match=r"X\[1, 0\] is NaN"):
        OfflineNICA().fit([[1.0, 2.0], [np.nan, 1.0]])


def test_small_scales_do_not_pass_for_convergence():
    """The stopping rule has no units: what has not converged says so, whatever the scale."""
    S = sparse_uniform(3000, 3, rng=0)
    X, _ = mix(S, n_mixtures=6, rng=1)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        OfflineNICA(3, network="two_compartment", max_iter=20, random_state=0).fit(1e-3 * X)
