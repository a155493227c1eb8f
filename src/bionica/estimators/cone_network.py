"""The network for correlated sources behind scikit-learn's interface."""

from dataclasses import field
from typing import Annotated, Any, ClassVar

import numpy as np

from .._compat.sklearn import NONNEGATIVE, POSITIVE
from ..kernels.loop import gain
from ..kernels.schedules import Rate
from ..networks import cone_network
from ..offline.rotation import rotate
from ..samples import Array
from .network import SingleLayerNICA, orthonormal_rows, project, typical_rows, weights


class ConeNetwork(SingleLayerNICA, weights="W_xz, W_zz"):
    """Correlated nonnegative sources by a single layer of 2-compartmental neurons with local rules.

    Inhibition grows with the presynaptic rate until it pushes its target below zero, and each dendrite learns to predict its
    soma. The network ends at the cone of smallest volume that holds the mixtures, as `MinimumVolumeCone` does offline: sources may
    be correlated, but each must reach zero while others are active. Equations and derivation: :doc:`/cone-network` and
    `bionica.networks.cone_network`.

    Parameters
    ----------
    {parameters}
    kappa : float, default=None
        Hardness of the wall: about 1/n^2 if outputs, of mean 1, may fall below zero by n. It grows to this number, from 1. None:
        each neuron finds its own, from how far it is pushed below zero.
    eta0, decay, power : float, default=0.3, 0.0, 1.0
        The learning rate at sample t (from 0) is ``eta0 / (1 + decay * t) ** power``. If `eta0` is a function of t, it is the whole
        schedule. Inhibition learns at the rate eta/(kappa d), dendrites at eta/(kappa^3/4 d).
    dynamics : {"exact", "gradient"}, default="exact"
        How the neurons settle: one after the other until nothing changes, at most `settle_steps` times, or all together by the
        projected gradient iteration of Algorithm 2.
    precondition : {"natural", "scale"} or None, default="natural"
        "natural": it projects mixtures on their leading directions and divides by their second moments, so that the mixing matrix
        does not matter; not a local rule. None: the strictly local rule, slow where the mixing matrix is ill-conditioned, and
        unreliable on `bionica.datasets.odors`. "scale": the same with every mixture over its running root mean square.
    init : "random" or dict, default="random"
        Initial weights: random, or arrays by name, W_xz (d, k) and W_zz (d, d, its diagonal is not used); those that are not given
        are random. The network is silent for its first 100 + 20 d samples, from which it takes the scale of its input and, with
        natural steps, its leading directions and the rotation that makes it nonnegative; then it learns from them too.

    Attributes
    ----------
    {attributes}

    See Also
    --------
    MinimumVolumeCone : the same cone from all samples.
    TwoCompartmentNICA : the paper's network for uncorrelated sources.

    Examples
    --------
    >>> from bionica import ConeNetwork
    >>> from bionica.datasets import copula_uniform, mix
    >>> from bionica.metrics import sinr
    >>> S = copula_uniform(100_000, 3, rho=0.5, rng=0)
    >>> X, A = mix(S, n_mixtures=6, rng=0)
    >>> network = ConeNetwork(3, random_state=0).fit(X)
    >>> bool(sinr(S, network.transform(X)) > 25)
    True
    """

    kappa: Annotated[float | None, POSITIVE, None] = None
    eta0: Annotated[Rate | None, POSITIVE, callable] = 0.3
    decay: Annotated[float | None, NONNEGATIVE] = 0.0
    mean_window: int | None = field(default=None, init=False)  # it has no running means
    _uncorrelated: ClassVar = False  # outputs have unit mean

    _own_guards: ClassVar = ("rate", "restart")
    _waits: ClassVar = True

    W_xz_ = weights("W_xz", "Weights from mixtures to dendrites, (n_components, n_features).")
    kappa_ = property(lambda self: np.exp(self._weight("wall.log_kappa")), doc="Hardness of the wall of each neuron.")

    @property
    def W_zz_(self) -> Array:
        """Inhibition between neurons, (n_components, n_components); zero on the diagonal."""
        W = self._weight("W_zz")
        np.fill_diagonal(W, 0)
        return W

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        given = self._given_weights({"W_xz": (d, k), "W_zz": (d, d)})
        W_zz = given.get("W_zz", np.eye(d)).astype(dtype)
        np.fill_diagonal(W_zz, 1)
        rows = typical_rows(X)
        rows = rows * (np.ptp(rows, axis=0) > 0)  # an offset is no source
        if self.precondition == "natural":
            F, inverse = project(np.vstack([rows, -rows]), d)  # the second moments, not the covariance
            U = rows @ F.T
            W_xz = given["W_xz"] @ inverse if "W_xz" in given else _into_orthant(U, rng)
            F, W_xz = F.astype(dtype), W_xz.astype(dtype)
            return cone_network.init(F, U.mean(axis=0), len(rows), W_xz, W_zz, rng)
        if self.precondition == "scale":
            rows = rows * gain((rows**2).mean(axis=0))
        size = float((rows**2).sum(axis=1).mean() / d) or 1.0
        W_xz = given.get("W_xz", _through(rows.mean(axis=0), orthonormal_rows(rng, d, k, np.float64)))
        return cone_network.init_local(W_xz.astype(dtype), W_zz, size, rng)

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        dynamics, guards, _, eps = self._common_params(dtype)
        if self.dynamics == "exact":
            dynamics = cone_network.Sweeps(4 * eps, int(self.settle_steps))
        # The default is the hardest wall that rounding resolves.
        wall = self.kappa is None, float(self.kappa or eps**-0.75)
        scaled = self.precondition == "scale"
        return cone_network.Params(dynamics, guards, int(self.horizon or 0), eps, bool(self.average), *wall, scaled)


def _into_orthant(U: Array, rng: np.random.RandomState) -> Array:
    """Weights from U, whose second moments are white, that make it as nonnegative as a rotation can; mean outputs are 1."""
    # From random weights a neuron may end at no facet: every second network of ten uniform sources.
    u_bar = U.mean(axis=0)
    power = min(float(u_bar @ u_bar), 0.99)
    K = np.eye(len(u_bar)) + np.outer(u_bar, u_bar) * (((1 - power) ** -0.5 - 1) / max(power, 1e-12))  # covariance 1
    W = rotate(U @ K, n_init=3, rng=rng).R @ K
    W = W * np.where(W @ u_bar < 0, -1.0, 1.0)[:, np.newaxis]
    return np.asarray(W / np.maximum(W @ u_bar, 1e-3)[:, np.newaxis])


def _through(x_bar: Array, W: Array) -> Array:
    """Orthonormal rows scaled by 2/|x_bar|, moved along x_bar so that the mean outputs are 1."""
    size = np.linalg.norm(x_bar)
    if size == 0:
        return W
    W = 2 * W / size  # closer to x_bar, neurons often end at the same facet
    return np.asarray(W + np.outer(1 - W @ x_bar, x_bar) / size**2)
