"""Algorithms 1 and 2 in the offline setting (section 4): all the data at each step.

Each iteration settles every sample with the present weights, then takes one descent-ascent step on the objective.

Algorithm 1, on L_1 (5), with (Y, N) at the fixed point of (6):

    Y <- [Y + gamma (W_xy X - W_yn' N)]_+,   N <- N + gamma (W_yn Y - N)          (6)
    W_xy <- W_xy + eta (dY dX'/T - W_xy)                                          (7)
    W_yn <- W_yn + eta (dN dY'/T - W_yn)                                          (8)

Algorithm 2, on L_2 (12), with Z at the fixed point of Z <- [Z + gamma (W_xz X - W_zz Z)]_+:

    W_xz <- W_xz + 2 eta (Z X'/T - W_xz C_xx)                                     (13)
    W_zz <- W_zz + (eta / tau) (Z Z'/T - W_zz)                                    (14)

The samples settle exactly, by the compiled solver of the online networks (`kernels.settling`): it finds the fixed point of (6).
Besides X, at most two arrays of the size of the outputs are kept.

The objective need not fall: a step descends in W_xy (W_xz) and ascends in W_yn (W_zz), and the solution is a saddle. The gradient
goes to zero, and the stopping rule tests the gradient.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels.guards import Guards
from ..kernels.learner import NetworkLearner
from ..kernels.rule import first_state
from ..kernels.settling import Exact
from ..networks import two_compartment
from .whitening import moments

Array = NDArray[Any]
Weights = dict[str, Array]


class Descent(NamedTuple):
    """The result of an offline run.

    `weights` by the paper's names; `objective` L_1 or L_2 at each iteration; `gradient` the largest entry of the last step over
    eta, relative to the weights, not finite after an overflow; `converged` whether it fell below the tolerance.
    """

    weights: Weights
    objective: Array
    gradient: float
    converged: bool


def offline_interneuron(X: Array, W_xy: Array, W_yn: Array, *, eta: float, tol: float, max_iter: int) -> Descent:
    """Algorithm 1 offline, from the weights W_xy (d, k) and W_yn (m, d), with a learning rate eta below 1.

    X is (n_samples, k), float64 and C-ordered. The run ends when no weight would change by more than `tol` of the largest with
    eta = 1, or after `max_iter` iterations.
    """

    def step(weights: Weights, Y: Array) -> tuple[float, Weights]:
        W_xy, W_yn = weights.values()
        dY = Y - Y.mean(axis=0)
        C_yx, C_yy = dY.T @ X / len(X), dY.T @ dY / len(X)
        C_ny = W_yn @ C_yy  # N = W_yn Y
        objective = np.sum(W_yn * C_ny) - 2 * np.sum(W_xy * C_yx) - np.sum(W_yn**2) + np.sum(W_xy**2)
        return float(objective), {"W_xy": eta * (C_yx - W_xy), "W_yn": eta * (C_ny - W_yn)}

    return _iterate(X, {"W_xy": W_xy, "W_yn": W_yn}, step, eta, tol, max_iter)


def offline_two_compartment(
    X: Array,
    W_xz: Array,
    W_zz: Array,
    *,
    eta: float,
    tau: float,
    tol: float,
    max_iter: int,
) -> Descent:
    """Algorithm 2 offline, from the weights W_xz (d, k) and W_zz (d, d); otherwise as `offline_interneuron`.

    The learning rate eta is below tau, and below the inverse of the largest eigenvalue of cov(X).
    """
    C_xx = moments(X).covariance
    T = len(X)

    def step(weights: Weights, Z: Array) -> tuple[float, Weights]:
        W_xz, W_zz = weights.values()
        zx, zz, W_xz_C = Z.T @ X / T, Z.T @ Z / T, W_xz @ C_xx
        objective = 2 * np.sum(W_zz * zz) - 4 * np.sum(W_xz * zx) - np.sum(W_zz**2) + 2 * np.sum(W_xz_C * W_xz)
        return float(objective), {"W_xz": 2 * eta * (zx - W_xz_C), "W_zz": eta / tau * (zz - W_zz)}

    # eta has the units of 1/cov(X), eta/tau has none: only the latter can judge the size of a step.
    return _iterate(X, {"W_xz": W_xz, "W_zz": W_zz}, step, eta / tau, tol, max_iter)


def _iterate(
    X: Array,
    start: Weights,
    step: Callable[[Weights, Array], tuple[float, Weights]],
    rate: float,
    tol: float,
    max_iter: int,
) -> Descent:
    """Settle all samples and step, until the gradient is below `tol` or a weight overflows; Diverged if an output does."""
    weights = {name: np.array(W, dtype=np.float64, order="C") for name, W in start.items()}
    W_in = next(iter(weights.values()))
    objective: list[float] = []
    gradient = np.inf
    while gradient > tol and len(objective) < max_iter:
        Y = outputs(weights, X)
        W_in[~(Y > 0).any(axis=0)] *= -1  # outputs that fire for no sample, as online (appendix C)
        with np.errstate(over="ignore", invalid="ignore"):
            value, changes = step(weights, Y)
            for name, change in changes.items():
                weights[name] += change
            gradient = max(float(np.abs(changes[name]).max() / np.abs(W).max()) for name, W in weights.items()) / rate
        objective.append(value)
        if not np.isfinite(gradient):
            break
    return Descent(weights, np.array(objective), gradient, gradient <= tol)


def outputs(weights: Weights, X: Array) -> Array:
    """Return the outputs of the samples X, with frozen weights; Diverged if one overflows, with the first such sample.

    Algorithm 1 rests where Algorithm 2 does with W_zz = W_yn' W_yn.
    """
    W, M = weights.values()
    M = M if "W_zz" in weights else M.T @ M
    state = first_state(two_compartment.RULE, np.float64, np.random.RandomState(0), {"W_xz": W, "W_zz": M})
    eps = float(np.finfo(np.float64).eps)
    with np.errstate(over="ignore", invalid="ignore"):
        return NetworkLearner(state, two_compartment.Params(Exact(eps), Guards(), 0, 0, eps, 1.0), []).outputs(X)
