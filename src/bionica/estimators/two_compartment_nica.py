"""Algorithm 2 behind scikit-learn's interface."""

from typing import Annotated, Any, ClassVar

import numpy as np

from .._compat.sklearn import POSITIVE
from ..networks import natural, two_compartment
from .network import Setting, SingleLayerNICA, orthonormal_rows, weights


class TwoCompartmentNICA(SingleLayerNICA, weights="W_xz, W_zz"):
    """Nonnegative ICA by a single layer of 2-compartmental neurons (Algorithm 2).

    Nonnegative outputs, one sample at a time, no tuning: at its defaults it takes natural-gradient steps
    (`bionica.networks.natural`). With ``precondition=None`` it is the paper's network with its strictly local rules
    (`bionica.networks.two_compartment`; see Notes); `as_published` has the paper's settings.

    Parameters
    ----------
    {parameters}
    tau : float, default=None
        The lateral weights W_zz learn at the rate eta/tau. Every eta must be below tau. Natural steps have tau = 0.5, where the
        noise of the two kinds of weights cancels, and accept no other. None, for local networks: 0.8 if `eta0` or `decay` is
        named, else see Notes.

    Attributes
    ----------
    {attributes}

    See Also
    --------
    InterneuronNICA : the paper's other network.

    Notes
    -----
    {local}
    decay=1e-5 max(10, d), running means over a window of 300 samples (`mean_window`), and eta0=0.06, tau=0.3 with "scale" or
    eta0=0.0375/d, tau=0.19/d with None, which assumes sources and entries of the mixing matrix near unit variance. Such rates
    need the guard `rate`, which lowers eta to `0.5/|x - x_bar|^2`: an output neuron receives all of x, so it can know this sum,
    but a single synapse cannot.

    Examples
    --------
    {examples}
    """

    tau: Annotated[float | None, POSITIVE, None] = None

    _own_guards: ClassVar = ("silent", "spectrum", "rate", "restart")
    _published: ClassVar = {
        "always": {"guards": ("silent", "spectrum")},
        "d3": {"eta0": 1e-1, "decay": 1e-2, "tau": 0.8},
        "d10": {"eta0": 1e-3, "decay": 1e-4, "tau": 0.03},
        "images": {"eta0": 1e-2, "decay": 1e-4, "tau": 0.5},
    }

    W_xz_ = weights("W_xz", "Weights from mixtures to outputs, (n_components, n_features).")
    W_zz_ = weights("W_zz", "Weights between outputs, (n_components, n_components).")

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        given = self._given_weights({"W_xz": (d, k), "W_zz": (d, d)}, positive_definite="W_zz")
        if self.precondition != "natural":
            W_xz = given.get("W_xz", orthonormal_rows(rng, d, k, dtype))
            W_zz = given.get("W_zz", np.eye(d))
            return two_compartment.init(W_xz.astype(dtype), W_zz.astype(dtype), rng)
        F, inverse, V, u_bar = self._natural_start(X, d, rng)
        W_zz = given.get("W_zz", np.eye(d) + np.outer(V @ u_bar, V @ u_bar))
        W_xz = given["W_xz"] @ inverse if "W_xz" in given else W_zz @ V
        F, W_xz, W_zz = F.astype(dtype), W_xz.astype(dtype), W_zz.astype(dtype)
        return natural.init(natural.TwoCompartmentState, F, W_xz, W_zz, rng)

    def _local_setting(self, d: int) -> Setting:
        decay = 1e-5 * max(10, d)
        if self.precondition == "scale":
            return Setting(eta0=0.06, decay=decay, tau=0.3, mean_window=300)
        # The power of the mixtures grows like d^2 and not like d; the rate of W_zz, eta/tau, is the same.
        return Setting(eta0=0.0375 / d, decay=decay, tau=0.19 / d, mean_window=300)

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        dynamics, guards, _, eps = self._common_params(dtype)
        average, horizon = bool(self.average), int(self.horizon or 0)
        if self.precondition == "natural":
            if self.tau not in (None, 0.5):
                raise ValueError(
                    f"tau={self.tau}: natural steps change W_xz and W_zz at the same rate, which is tau=0.5; use tau=None, or "
                    "precondition=None for the paper's rule"
                )
            return natural.Params(dynamics, guards, horizon, eps, average)
        scaled, setting = self.precondition == "scale", self._setting(state.fired.size)
        window, tau = int(setting.mean_window), float(setting.tau)
        return two_compartment.Params(dynamics, guards, window, eps, horizon, tau, average, scaled)
