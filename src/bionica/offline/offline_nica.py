"""Algorithms 1 and 2 on all the data at once, behind scikit-learn's interface."""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from .. import samples
from .._compat.blas import one_blas_thread
from .._compat.sklearn import NONNEGATIVE, POSITIVE, options
from ..estimator import PARAMETERS, Estimator, Separator
from ..kernels.loop import Diverged
from ..kernels.rule import orthonormal_rows, pseudoinverse, shapes, solve_lateral
from ..samples import Array
from ..trust.findings import finding
from ..trust.outliers import without_outliers
from .descent_ascent import Descent, offline_interneuron, offline_two_compartment, outputs
from .whitening import moments, row_sample


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
    robust : bool, default=True
        Whether to leave outliers out of the fit, as `BatchNICA` does.
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The unmixing matrix W, with sources max(W x, 0).
    mixing_ : ndarray of shape (n_features, n_components)
        The estimated A; `components_ @ mixing_` is the identity.
    spectra_ : ndarray of shape (n_components, n_features)
        The spectrum of each source, a row each: `mixing_.T`.
    n_components_, n_features_in_ : int
        Outputs, and mixtures per sample.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the mixtures, if X had string column names.
    n_samples_seen_ : int
        Samples seen, including outliers.
    objective_curve_ : ndarray of shape (n_iterations,)
        L_1 or L_2 at each iteration. It need not fall monotonically: see `bionica.offline.descent_ascent`.
    n_iter_, n_outliers_ : int
        Iterations made, and samples that the fit left out as outliers.

    Examples
    --------
    >>> from bionica.offline import OfflineNICA
    >>> from bionica.datasets import mix, paper_mixing, sparse_uniform
    >>> from bionica.metrics import permutation_error
    >>> S = sparse_uniform(10_000, 3, rng=0)
    >>> X, A = mix(S, paper_mixing("d3"))
    >>> network = OfflineNICA(3, network="two_compartment", random_state=0).fit(X)
    >>> bool(permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PARAMETERS, "network": [options("interneuron", "two_compartment")],
        "eta": [POSITIVE, None], "tau": [POSITIVE, None], "tol": [NONNEGATIVE],
    }  # fmt: skip
    _saved: ClassVar = shapes(dk="components_ _W", kd="mixing_", dd="_M", t="objective_curve_") | {
        **dict.fromkeys(("n_iter_", "n_samples_seen_", "n_outliers_"), ":count")
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
        robust: bool = True,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.network = network
        self.eta = eta
        self.tau = tau
        self.tol = tol
        self.max_iter = max_iter
        self.robust = robust
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
        if self.robust:
            inliers, m = without_outliers(data, m, self.n_components)
            data = inliers[:]
        eigenvalues, vectors = np.linalg.eigh(m.covariance)
        # Weights outside the leading directions would never be unlearned if X does not span them.
        W = orthonormal_rows(check_random_state(self.random_state), d, d) @ vectors[:, ::-1][:, :d].T
        solution = self._run(data, W, float(eigenvalues[-1]))
        if not np.isfinite(solution.gradient):
            raise Diverged(0, data)
        self._W, self._M = W, M = solution.weights.values()
        self.components_ = solve_lateral(M if "W_zz" in solution.weights else M.T @ M, W)
        self.mixing_ = pseudoinverse(self.components_)
        self.objective_curve_ = solution.objective
        self.n_iter_ = len(solution.objective)
        self.n_outliers_ = self.n_samples_seen_ - len(data)
        reason = f"no convergence in max_iter={self.max_iter} iterations: raise max_iter or tol, or lower eta"
        problems = () if solution.converged else (finding("converged", reason=reason),)
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
