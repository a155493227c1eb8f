"""Algorithms 1 and 2 on all the data at once, behind scikit-learn's interface."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..engines.loop import run
from ..networks import guards, interneuron, two_compartment
from ..networks.settling import pivoting
from ..offline.descent_ascent import Settling, offline_interneuron, offline_two_compartment
from ..offline.whitening import moments
from ._dask import is_dask
from ._diagnosis import Diagnosable
from ._exceptions import check_finite
from ._initial_weights import orthonormal_rows
from ._offline_schema import Saved

__all__ = ["OfflineNICA"]

Array = NDArray[Any]


class OfflineNICA(Saved, Diagnosable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The paper's two networks in the offline setting: gradient descent-ascent on L_1 or L_2 with all the data (section 4).

    For studying the objectives and where the online networks go. To just get the sources, `BatchNICA` is faster and more accurate.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d; the number of mixtures if None.
    network : {"interneuron", "two_compartment"}, default="interneuron"
        Algorithm 1 (objective L_1) or Algorithm 2 (objective L_2).
    eta : float, default=None
        Learning rate. None: 0.5 for Algorithm 1; for Algorithm 2 a quarter of the inverse of the largest eigenvalue of cov(X),
        four times below where W_xz overshoots.
    tau : float, default=None
        Algorithm 2's ratio of learning rates, eta < tau. None: 2.5 eta.
    dynamics : {"exact", "gradient"}, default="exact"
        How the samples settle: exactly, one after the other; or by the paper's projected gradient on all of them, matrix by matrix.
    gamma : float, default=None
        Step of the gradient dynamics; None takes one that is safe.
    settle_tol, settle_steps : float, int, default=1e-8, 10000
        When the gradient dynamics stop.
    tol : float, default=5e-5
        Stop when no weight would change by more than this share of the largest, at eta = 1.
    max_iter : int, default=1000
        Most iterations.
    random_state : int, RandomState instance or None, default=None
        Seed of the initial weights.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        The learned weights by the paper's names: W_xy, W_yn or W_xz, W_zz.
    components_, mixing_ : ndarray
        The unmixing matrix, and its pseudoinverse.
    objective_curve_ : ndarray of shape (n_iter_,)
        L_1 or L_2 at each iteration. It need not fall monotonically: see `bionica.offline.descent_ascent`.
    n_iter_ : int
        Iterations made.
    n_features_in_ : int
        Mixtures per sample.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the mixtures, if X had string column names.

    Examples
    --------
    >>> from bionica import OfflineNICA
    >>> from bionica.datasets import mix, paper_mixing, sparse_uniform
    >>> from bionica.metrics import permutation_error
    >>> S = sparse_uniform(10_000, 3, rng=0)
    >>> X, A = mix(S, paper_mixing("d3"))
    >>> network = OfflineNICA(3, network="two_compartment", random_state=0).fit(X)
    >>> bool(permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "network": [StrOptions({"interneuron", "two_compartment"})],
        "eta": [Interval(Real, 0, None, closed="neither"), None],
        "tau": [Interval(Real, 0, None, closed="neither"), None],
        "dynamics": [StrOptions({"exact", "gradient"})],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "settle_tol": [Interval(Real, 0, 1, closed="neither")],
        "settle_steps": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        network: str = "interneuron",
        eta: float | None = None,
        tau: float | None = None,
        dynamics: str = "exact",
        gamma: float | None = None,
        settle_tol: float = 1e-8,
        settle_steps: int = 10_000,
        tol: float = 5e-5,
        max_iter: int = 1000,
        random_state: Any = None,
    ):
        self.n_components = n_components
        self.network = network
        self.eta = eta
        self.tau = tau
        self.dynamics = dynamics
        self.gamma = gamma
        self.settle_tol = settle_tol
        self.settle_steps = settle_steps
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: None = None) -> Self:
        """Learn the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Mixtures.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        self._validate_params()
        data = self._validated(X, reset=True)
        k = data.shape[1]
        d = k if self.n_components is None else self.n_components
        if d > k:
            raise ValueError(
                f"n_components={d} sources cannot be found in n_features={k} mixtures; use n_components <= {k}"
            )
        covariance = moments(data).covariance
        # Within the leading directions: what X does not span would never be unlearned.
        leading = np.linalg.eigh(covariance)[1][:, ::-1][:, :d]
        W = orthonormal_rows(check_random_state(self.random_state), d, d, np.float64) @ leading.T
        settling = Settling(self.dynamics == "exact", self.gamma, self.settle_tol, self.settle_steps)
        if self.network == "interneuron":
            eta = 0.5 if self.eta is None else self.eta
            if eta >= 1:
                raise ValueError(f"eta={eta} is not below 1, where the weights overshoot: lower eta")
            found = offline_interneuron(
                data, W, np.eye(d), eta=eta, tol=self.tol, max_iter=self.max_iter, settling=settling
            )
        else:
            largest = float(np.linalg.eigvalsh(covariance)[-1])
            eta = (0.25 / largest if largest > 0 else 0.25) if self.eta is None else self.eta
            tau = 2.5 * eta if self.tau is None else self.tau
            if eta >= tau or eta * largest >= 1:
                raise ValueError(
                    f"eta={eta:g} must be below tau={tau:g} and below 1/{largest:g}, the inverse of the largest eigenvalue "
                    "of cov(X): lower eta, or leave it None"
                )
            found = offline_two_compartment(
                data, W, np.eye(d), eta=eta, tau=tau, tol=self.tol, max_iter=self.max_iter, settling=settling
            )
        if not found.converged:
            warnings.warn(
                f"OfflineNICA did not converge in max_iter={self.max_iter} iterations (gradient {found.gradient:.1e}, "
                f"tol={self.tol:g}): raise max_iter or tol, or lower eta",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.weights_ = found.weights
        self.objective_curve_ = found.objective
        self.n_iter_ = len(found.objective)
        self.components_ = self._rule().unmixing(self._frozen_state())
        self.mixing_ = np.linalg.pinv(self.components_)
        return self

    def transform(self, X: ArrayLike) -> Any:
        """Return the sources of the mixtures X: each sample settles with the learned weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Mixtures.

        Returns
        -------
        Y : ndarray of shape (n_samples, n_components)
            Nonnegative.
        """
        check_is_fitted(self)
        data = self._validated(X, reset=False)
        Y = np.empty((len(data), len(self.components_)))
        eps = float(np.finfo(np.float64).eps)
        common = (pivoting.Exact(eps), guards.Guards(*5 * (False,)), 0, eps, 0.0, 0)
        tau = () if self.network == "interneuron" else (1.0,)
        run(self._frozen_state(), self._rule().Params(*common, *tau), data, np.empty((0, 1)), Y)
        return Y

    def inverse_transform(self, Y: ArrayLike) -> Array:
        """Return the mixtures that the sources Y make: Y times the transpose of `mixing_`."""
        check_is_fitted(self)
        _refuse_dask(Y)
        return np.asarray(np.asarray(Y) @ self.mixing_.T)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _rule(self) -> Any:
        return interneuron if self.network == "interneuron" else two_compartment

    def _frozen_state(self) -> Any:
        seed = np.array([1, 1])
        W = self.weights_
        if self.network == "interneuron":
            return interneuron.init(W["W_xy"], W["W_yn"], np.ascontiguousarray(W["W_yn"].T), seed)
        return two_compartment.init(W["W_xz"], W["W_zz"], seed)

    def _validated(self, X: ArrayLike, reset: bool) -> Array:
        _refuse_dask(X)
        data = np.array(validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite=False), order="C")
        check_finite(data, 0, type(self).__name__)
        return data


def _refuse_dask(X: Any) -> None:
    if is_dask(X):
        raise TypeError(
            "X is a Dask array, and OfflineNICA needs all of it in memory: pass X.compute(), or use BatchNICA or an online "
            "network, which read it block by block"
        )
