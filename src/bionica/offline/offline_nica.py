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
The objective need not fall: a step descends in W_xy (W_xz) and ascends in W_yn (W_zz), and the solution is a saddle. The gradient
goes to zero, and the stopping rule tests the gradient.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .. import samples
from .._compat.blas import one_blas_thread
from .._compat.sklearn import NONNEGATIVE, POSITIVE, options
from ..estimator import PARAMETERS, Estimator, Separator
from ..kernels.guards import Guards
from ..kernels.learner import NetworkLearner
from ..kernels.loop import Diverged
from ..kernels.rule import first_state, orthonormal_rows, pseudoinverse, shapes, solve_lateral
from ..kernels.settling import Exact
from ..networks import two_compartment
from ..samples import Array
from ..trust.findings import CONVERGED
from .whitening import moments, row_sample

Weights = dict[str, Array]
#: From weights and outputs: the objective, and what each weight changes by.
Step = Callable[[Weights, Array], tuple[float, Weights]]


class Descent(NamedTuple):
    """Weights by the paper's names, L_1 or L_2 at each iteration, and whether the gradient fell below the tolerance."""

    weights: Weights
    objective: Array
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
    X: Array, W_xz: Array, W_zz: Array, *, eta: float, tau: float, tol: float, max_iter: int
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


def _iterate(X: Array, start: Weights, step: Step, rate: float, tol: float, max_iter: int) -> Descent:
    """Settle all samples and step, until no step over eta exceeds `tol` of the largest weight; Diverged after an overflow."""
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
            raise Diverged(0, X)
    return Descent(weights, np.array(objective), gradient <= tol)


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


class OfflineNICA(Separator, Estimator):
    """The paper's two networks in the offline setting: gradient descent-ascent on L_1 or L_2 with all the data (section 4).

    For studying the objectives and the limits of the online networks. `BatchNICA` finds the sources faster and more accurately.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d; the rank of X if None.
    network : {"interneuron", "two_compartment"}, default="interneuron"
        Algorithm 1 (objective L_1) or Algorithm 2 (objective L_2).
    eta : float, default=None
        Learning rate. None: 0.5 for Algorithm 1; for Algorithm 2 a quarter of the inverse of the largest eigenvalue of cov(X).
        W_xz overshoots at four times that.
    tau : float, default=None
        Algorithm 2's ratio of learning rates, eta < tau. None: 2.5 eta.
    tol : float, default=5e-5
        Stop when no weight would change by more than this share of the largest, at eta = 1.
    max_iter : int, default=1000
        Largest number of iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_, mixing_, spectra_ : ndarray
        The unmixing matrix W, (n_components, n_features), with sources max(W x, 0); the estimated A, with W A = I; and its
        transpose, a spectrum in each row.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int, ndarray
        Outputs, mixtures per sample, samples seen; names of the mixtures, if X had string column names.
    objective_curve_ : ndarray of shape (n_iterations,)
        L_1 or L_2 at each iteration. It need not fall monotonically: see `bionica.offline.offline_nica`.
    n_iter_ : int
        Iterations made.

    Examples
    --------
    >>> from bionica import datasets, metrics, offline
    >>> S = datasets.sparse_uniform(10_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
    >>> network = offline.OfflineNICA(3, network="two_compartment", random_state=0).fit(X)
    >>> bool(metrics.permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PARAMETERS, "network": [options("interneuron", "two_compartment")],
        "eta": [POSITIVE, None], "tau": [POSITIVE, None], "tol": [NONNEGATIVE],
    }  # fmt: skip
    _saved: ClassVar = shapes(dk="components_ _W", kd="mixing_", dd="_M", t="objective_curve_") | {
        **dict.fromkeys(("n_iter_", "n_samples_seen_"), ":count")
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        network: str = "interneuron",
        eta: float | None = None,
        tau: float | None = None,
        tol: float = 5e-5,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.network = network
        self.eta = eta
        self.tau = tau
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    @one_blas_thread()
    def _fit(self, X: ArrayLike) -> None:
        data = np.array(samples.rows(self, X, reset=True, min_samples=2, dtype=np.float64), order="C")
        self.n_samples_seen_, d = len(data), self._number_of_outputs(data.shape[1], data)
        if not np.ptp(data, axis=0).any():
            raise ValueError(f"The {len(data)} sample(s) of X do not vary: pass at least two samples that differ")
        m = moments(data)
        if not np.isfinite(m.scatter).all():
            raise Diverged(0, data)
        eigenvalues, vectors = np.linalg.eigh(m.covariance)
        # Weights outside the leading directions would never be unlearned if X does not span them.
        W = orthonormal_rows(check_random_state(self.random_state), d, d) @ vectors[:, ::-1][:, :d].T
        solution = self._run(data, W, float(eigenvalues[-1]))
        self._W, self._M = W, M = solution.weights.values()
        self.components_ = solve_lateral(M if "W_zz" in solution.weights else M.T @ M, W)
        self.mixing_ = pseudoinverse(self.components_)
        self.objective_curve_ = solution.objective
        self.n_iter_ = len(solution.objective)
        reason = f"no convergence in max_iter={self.max_iter} iterations: raise max_iter or tol, or lower eta"
        problems = () if solution.converged else (CONVERGED.finding(reason=reason),)
        self._warn_about_fit(data[row_sample(*data.shape)], self.n_samples_seen_, *problems)

    def _run(self, X: Array, W: Array, largest_eigenvalue: float) -> Descent:
        common: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if self.network == "interneuron":
            eta = 0.5 if self.eta is None else self.eta
            if eta >= 1:
                raise ValueError(f"eta={eta} is not below 1, where the weights overshoot: lower eta")
            return offline_interneuron(X, W, np.eye(len(W)), eta=eta, **common)
        eta = 0.25 / (largest_eigenvalue or 1.0) if self.eta is None else self.eta
        tau = 2.5 * eta if self.tau is None else self.tau
        if not eta < min(tau, 1 / max(largest_eigenvalue, 1e-300)):
            raise ValueError(
                f"eta={eta:g} must be below tau={tau:g} and below 1/{largest_eigenvalue:g}, the inverse of the largest "
                "eigenvalue of cov(X): lower eta, leave it None, or rescale mixtures that are too small"
            )
        return offline_two_compartment(X, W, np.eye(len(W)), eta=eta, tau=tau, **common)

    @property
    def weights_(self) -> dict[str, Array]:
        """The learned weights by the paper's names: W_xy, W_yn or W_xz, W_zz."""
        names = ("W_xy", "W_yn") if self._config["network"] == "interneuron" else ("W_xz", "W_zz")
        return dict(zip(names, (self._W, self._M), strict=True))

    def _outputs(self, X: Array) -> Array:
        return outputs(self.weights_, np.array(X, dtype=np.float64, order="C"))
