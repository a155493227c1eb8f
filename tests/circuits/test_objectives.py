"""The objectives: minima at the sources, the lemmas of appendix A, where the offline
steps end.
"""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bionica.circuits import reference as o
from bionica.datasets import mix, paper_mixing, sparse_uniform


@pytest.fixture
def sources():
    """Three exactly uncorrelated, well-grounded sources of exactly unit variance: a
    full factorial design.
    """
    levels = [
        np.array([0.0, 0.0, 1.0, 3.0]),
        np.array([0.0, 1.0, 2.0]),
        np.array([0.0, 0.0, 0.0, 0.5, 2.0]),
    ]
    return np.array(list(itertools.product(*(level / level.std() for level in levels))))


def deviations(M):
    return M - M.mean(axis=0)


@pytest.fixture
def A(rng):
    return rng.standard_normal((4, 3))


def test_the_sources_minimise_the_constrained_whitening_objective(sources, A, rng):
    """(3): every nonnegative Y = F X with cov(Y) <= I does no better; permutations do
    as well.
    """
    X = sources @ A.T
    least = o.whitening_objective(sources, X)
    assert o.whitening_excess(sources) < 1e-12
    for order in itertools.permutations(range(3)):
        assert o.whitening_objective(sources[:, order], X) == pytest.approx(
            least, rel=1e-12
        )
    for _ in range(100):
        B = rng.random((3, 3)) ** rng.integers(1, 6)
        Y = sources @ (B / np.linalg.norm(B, 2)).T  # feasible: B >= 0 and B B' <= I
        assert Y.min() >= 0
        assert o.whitening_excess(Y) < 1e-9
        assert o.whitening_objective(Y, X) >= least


def test_whitening_minimises_the_unconstrained_objective(sources, A, rng):
    """(1): any rotation of a whitening is as good, anything shorter is worse, anything
    longer infeasible.
    """
    X = sources @ A.T
    least = o.whitening_objective(sources, X)
    for _ in range(100):
        Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        assert o.whitening_objective(sources @ Q, X) == pytest.approx(least, rel=1e-10)
        assert o.whitening_objective(sources @ (Q * [1, 0.99, 1]), X) > least
        assert o.whitening_excess(sources @ (Q * [1, 1.01, 1])) > 0


def test_the_sources_minimise_the_combined_nsm_objective(sources, A, rng):
    """(4): zero at every permutation of the sources, positive at any other nonnegative
    Z.
    """
    X = sources @ A.T
    for order in itertools.permutations(range(3)):
        assert o.combined_nsm_objective(sources[:, order], X) < 1e-18
    for _ in range(100):
        Z = np.maximum(
            sources + 10 ** rng.uniform(-4, 0) * rng.standard_normal(sources.shape), 0
        )
        assert o.combined_nsm_objective(Z, X) > 1e-9


def test_nsm_without_a_matrix_over_samples(rng):
    Z = rng.random((20, 2))
    Y = rng.standard_normal((20, 3))
    assert o.nsm_objective(Z, Y) == pytest.approx(
        np.sum((Z @ Z.T - Y @ Y.T) ** 2), rel=1e-12
    )


def test_combined_is_nsm_with_the_pseudoinverse(sources, A):
    """X' C_xx^+ X as printed, k > d, rank deficient."""
    X = sources @ A.T
    Z = sources**2
    C = np.cov(X.T, bias=True)
    printed = np.sum(
        (Z @ Z.T - X @ np.linalg.pinv(C, rcond=1e-10, hermitian=True) @ X.T) ** 2
    )
    assert o.combined_nsm_objective(Z, X) == pytest.approx(printed, rel=1e-8)
    values, U = np.linalg.eigh(C)
    F = (U / np.sqrt(np.abs(values))).T[-2:]  # the two leading directions
    Z = Z[:, :2]
    printed = np.sum((Z @ Z.T - X @ F.T @ F @ X.T) ** 2)
    assert o.combined_nsm_objective(Z, X) == pytest.approx(printed, rel=1e-8)


def test_min_max_objectives_as_printed(rng):
    """L_1 and L_2 with samples as columns, as in sections 4.1 and 4.2."""
    T = 7
    k = 4
    d = 3
    m = 5
    X, Y, N = (rng.standard_normal((T, n)) for n in (k, d, m))
    W_xy, W_yn, W_zz = (
        rng.standard_normal(shape) for shape in ((d, k), (m, d), (d, d))
    )
    dX, dY, dN = (M.T for M in map(deviations, (X, Y, N)))
    L_1 = np.trace(2 * dN.T @ W_yn @ dY - 2 * dY.T @ W_xy @ dX - dN.T @ dN) / T
    L_1 += -np.trace(W_yn @ W_yn.T) + np.trace(W_xy @ W_xy.T)
    assert o.interneuron_objective(Y, N, W_xy, W_yn, X) == pytest.approx(L_1, rel=1e-12)
    W_zz = W_zz @ W_zz.T
    Z = Y.T
    C_xx = dX @ dX.T / T
    L_2 = 2 / T * np.trace(Z.T @ W_zz @ Z - 2 * Z.T @ W_xy @ X.T) - np.trace(
        W_zz @ W_zz - 2 * W_xy @ C_xx @ W_xy.T
    )
    assert o.two_compartment_objective(Y, W_xy, W_zz, X) == pytest.approx(
        L_2, rel=1e-12
    )


def gradients(objective, X, **arguments):
    """The derivative by each argument; central differences are exact, because the
    objectives are quadratic in each.
    """
    found = {}
    for name, value in arguments.items():
        found[name] = np.empty(value.shape)
        for i in np.ndindex(*value.shape):
            step = np.zeros(value.shape)
            step[i] = 1e-3
            up, down = (
                objective(**{**arguments, name: value + sign * step}, X=X)
                for sign in (1, -1)
            )
            found[name][i] = (up - down) / 2e-3
    return found


@pytest.mark.parametrize("m", [3, 5])
def test_lemmas_of_appendix_a(sources, A, rng, m):
    """At W_xy = P A', W_yn' W_yn = P A'A P': (Y*, N*) = (P S, W_yn P S) is a saddle of
    L_1, and W_xy, W_yn are stationary.
    """
    X = sources @ A.T
    for order in itertools.permutations(range(3)):
        P = np.eye(3)[list(order)]
        W_xy = P @ A.T
        root = np.linalg.cholesky(P @ A.T @ A @ P.T).T
        W_yn = np.linalg.qr(rng.standard_normal((m, 3)))[0] @ root
        assert_allclose(W_yn.T @ W_yn, P @ A.T @ A @ P.T, atol=1e-12)
        Y = np.linalg.solve(W_yn.T @ W_yn, W_xy @ X.T).T
        assert_allclose(Y, sources @ P.T, atol=1e-10)
        for name, gradient in gradients(
            o.interneuron_objective, X, Y=Y, N=Y @ W_yn.T, W_xy=W_xy, W_yn=W_yn
        ).items():
            assert_allclose(gradient, 0, atol=1e-9, err_msg=name)


def test_errata_of_appendix_a(sources, A):
    """(18) needs a minus for its first term only, and N'N of (20) and (21) a factor
    1/2; otherwise the lemmas do not follow.
    """
    X = sources @ A.T
    Y = sources

    def lagrangian(Y, N, X, sign):
        dX, dY, dN = map(deviations, (X, Y, N))
        return (
            sign * np.sum((dX.T @ dY) ** 2)
            + np.sum((dN.T @ dY) ** 2)
            - len(X) * np.sum(dN**2)
        )

    # dN'dN = dX'dX: with N = X.
    slopes = [
        gradients(lambda Y, X, s=s: lagrangian(Y, X, X, s), X, Y=Y)["Y"]
        for s in (-1, 1)
    ]
    assert_allclose(slopes[0], 0, atol=1e-6)
    assert np.abs(slopes[1]).max() > 1

    W_xy = A.T
    W_yn = np.linalg.cholesky(A.T @ A).T

    def inner(Y, N, X, factor):
        return (
            2
            / len(X)
            * (
                np.sum(N * (Y @ W_yn.T))
                - np.sum(Y * (X @ W_xy.T))
                - factor * np.sum(N**2)
            )
        )

    for factor, stationary in ((0.5, True), (1, False)):
        found = gradients(
            lambda Y, N, X, f=factor: inner(Y, N, X, f), X, Y=Y, N=Y @ W_yn.T
        )
        assert (
            max(np.abs(slope).max() for slope in found.values()) < 1e-9
        ) == stationary


def test_optimal_weights_of_l2(sources, A):
    """W_xz = Z X' C_xx^+ / T and W_zz = Z Z'/T are stationary at the sources, and give
    L_2 = (4) less its constant.
    """
    X = sources @ A.T
    T = len(X)
    C_plus = np.linalg.pinv(np.cov(X.T, bias=True), rcond=1e-10, hermitian=True)
    W_xz = sources.T @ X @ C_plus / T
    W_zz = sources.T @ sources / T
    for name, gradient in gradients(
        o.two_compartment_objective, X, Z=sources, W_xz=W_xz, W_zz=W_zz
    ).items():
        assert_allclose(gradient, 0, atol=1e-8, err_msg=name)
    expanded = -2 * np.sum((sources.T @ X @ C_plus) * (sources.T @ X)) + np.sum(
        (sources.T @ sources) ** 2
    )
    assert o.two_compartment_objective(sources, W_xz, W_zz, X) == pytest.approx(
        expanded / T**2, rel=1e-10
    )


def test_the_steps_of_the_reference_descend_and_ascend_the_objectives(rng):
    """(7) and (8) are half the gradient of L_1, (13) and (14) of L_2: down in the
    feedforward, up in the lateral weights.
    """
    X = mix(sparse_uniform(50, 3, rng=0), paper_mixing("d3"))[0]
    eta = 1e-3
    tau = 0.5
    state = o.interneuron(3, 3, rng, m=4)
    W_xy = state["W_xy"].copy()
    W_yn = state["W_yn"].copy()
    Y = o.offline_interneuron_step(state, X, eta)
    slope = gradients(
        o.interneuron_objective, X, Y=Y, N=Y @ W_yn.T, W_xy=W_xy, W_yn=W_yn
    )
    assert_allclose(state["W_xy"] - W_xy, -eta / 2 * slope["W_xy"], atol=1e-12)
    assert_allclose(state["W_yn"] - W_yn, eta / 2 * slope["W_yn"], atol=1e-12)
    # a product and its transpose
    assert_allclose(state["W_ny"], state["W_yn"].T, rtol=0, atol=1e-15)

    state = o.two_compartment(3, 3, rng, tau)
    W_xz = state["W_xz"].copy()
    W_zz = state["W_zz"].copy()
    Z = o.offline_two_compartment_step(state, X, eta)
    slope = gradients(o.two_compartment_objective, X, Z=Z, W_xz=W_xz, W_zz=W_zz)
    assert_allclose(state["W_xz"] - W_xz, -eta / 2 * slope["W_xz"], atol=1e-12)
    assert_allclose(state["W_zz"] - W_zz, eta / (2 * tau) * slope["W_zz"], atol=1e-12)


def test_algorithm_1_offline_ends_at_the_saddle_of_appendix_a(sources, rng):
    """Lemma 1: from other weights to W_xy = P A', W_yn'W_yn = P A'A P' and Y = P S."""
    A = paper_mixing("d3")
    state = o.interneuron(3, 3, rng, m=4)
    # from which all neurons fire
    state["W_xy"] = A.T + 0.2 * rng.standard_normal((3, 3))
    for _ in range(800):
        Y = o.offline_interneuron_step(state, sources @ A.T, 0.5)
    order = np.argmax(deviations(sources).T @ Y / np.linalg.norm(Y, axis=0), axis=1)
    assert_allclose(Y[:, order], sources, atol=1e-5)
    assert_allclose(state["W_xy"][order], A.T, atol=1e-5)
    assert_allclose(
        (state["W_yn"].T @ state["W_yn"])[np.ix_(order, order)], A.T @ A, atol=1e-5
    )


def test_algorithm_2_offline_ends_at_the_saddle_of_l2(sources, rng):
    """From other weights to Z = P S with W_zz = Z Z'/T, where the gradient of L_2 is
    zero; L_2 falls after the transient.
    """
    A = paper_mixing("d3")
    X = sources @ A.T
    state = o.two_compartment(3, 3, rng, tau=0.5)
    state["W_xz"] = np.linalg.inv(A) + 0.2 * rng.standard_normal((3, 3))
    curve = []
    for _ in range(800):
        W_xz = state["W_xz"].copy()
        W_zz = state["W_zz"].copy()
        Z = o.offline_two_compartment_step(state, X, 0.2)
        curve.append(o.two_compartment_objective(Z, W_xz, W_zz, X))
    assert np.diff(curve[5:]).max() <= 1e-9
    order = np.argmax(deviations(sources).T @ Z / np.linalg.norm(Z, axis=0), axis=1)
    assert_allclose(Z[:, order], sources, atol=1e-5)
    assert_allclose(W_zz, Z.T @ Z / len(Z), atol=1e-5)
