"""Algorithm 1 behind scikit-learn's interface."""

from typing import Annotated, Any, ClassVar

import numpy as np

from .._compat.sklearn import COUNT
from ..kernels.settling import ProjectedGradient
from ..networks import interneuron, natural
from ..samples import Array
from .network import Setting, SingleLayerNICA, orthonormal_rows, weights


class InterneuronNICA(SingleLayerNICA, weights="W_xy, W_yn, W_ny"):
    """Nonnegative ICA by a single layer of neurons with interneurons (Algorithm 1).

    Nonnegative outputs, one sample at a time, no tuning: at its defaults it takes natural-gradient steps
    (`bionica.networks.natural`). With ``precondition=None`` it is the paper's network with its strictly local rules
    (`bionica.networks.interneuron`; see Notes); `as_published` has the paper's settings.

    Parameters
    ----------
    {parameters}
    n_interneurons : int, default=None
        Number of interneurons m >= d; d if None.
    decoupled : bool, default=False
        Whether W_ny starts independently of W_yn, instead of as its transpose. Their difference then decays as the product
        of (1 - eta_t) (appendix B), and neurons always settle by the iteration (``dynamics="gradient"``), because the exact
        solver needs a symmetric W_ny W_yn. A sample of the paper's problems then takes 5 us instead of 0.1 us (3 sources) or
        400 us instead of 1 us (10 sources, where 20 % of the samples do not settle in 10,000 steps; `repairs_` counts them).
        Not with natural steps, which need W_ny = W_yn'.

    Attributes
    ----------
    {attributes}

    See Also
    --------
    TwoCompartmentNICA : the paper's other network.

    Notes
    -----
    {local}
    eta0=0.02, decay=2e-4, and running means over a window of 300 samples (`mean_window`).

    Examples
    --------
    {examples}
    """

    n_interneurons: Annotated[int | None, COUNT, None] = None
    decoupled: Annotated[bool, "boolean"] = False

    _own_guards: ClassVar = ("silent", "row", "spectrum", "rate", "restart")
    _published: ClassVar = {
        "always": {"guards": ("silent", "row", "spectrum")},
        "d3": {"eta0": 1e-2, "decay": 1e-3},
        "d10": {"eta0": 1e-2, "decay": 1e-3},
        "images": {"eta0": 1e-3, "decay": 1e-6},
    }

    W_xy_ = weights("W_xy", "Weights from mixtures to outputs, (n_components, n_features).")

    @property
    def W_yn_(self) -> Array:
        """Weights from outputs to interneurons, (n_interneurons, n_components); with natural steps the root of W_yn'W_yn."""
        state = self._started()
        if self.precondition != "natural":
            return self._weight("W_yn")
        values, Q = np.linalg.eigh(state.M.astype(np.float64))
        root = np.zeros((self._n_interneurons(len(Q)), len(Q)), state.M.dtype)
        root[: len(Q)] = (Q * np.sqrt(np.maximum(values, 0))) @ Q.T
        return root

    @property
    def W_ny_(self) -> Array:
        """Weights from interneurons to outputs, (n_components, n_interneurons)."""
        return self._weight("W_ny") if self.precondition != "natural" else self.W_yn_.T.copy()

    def _n_interneurons(self, d: int) -> int:
        m = d if self.n_interneurons is None else self.n_interneurons
        if m < d:
            raise ValueError(f"n_interneurons={m} is fewer than the {d} outputs; use n_interneurons >= {d}")
        return m

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        m, is_natural = self._n_interneurons(d), self.precondition == "natural"
        given = self._given_weights({"W_xy": (d, k), "W_yn": (m, d), "W_ny": (d, m)})
        if is_natural:
            F, inverse, V, _ = self._natural_start(X, d, rng)
            W_xy = given["W_xy"] @ inverse if "W_xy" in given else V
        else:
            W_xy = given.get("W_xy", orthonormal_rows(rng, d, k, dtype)).astype(dtype)
        W_yn = given.get("W_yn", given["W_ny"].T if "W_ny" in given else np.eye(m, d))
        W_ny = given.get("W_ny", W_yn.T)
        if self.decoupled and not {"W_yn", "W_ny"} & set(given):
            # Small enough that W_ny W_yn stays positive definite, where the dynamics have one fixed point.
            W_yn, W_ny = (W + 0.2 / np.sqrt(m) * rng.standard_normal(W.shape) for W in (W_yn, W_ny))
        W_yn, W_ny = np.array(W_yn, dtype, order="C"), np.array(W_ny, dtype, order="C")
        if not is_natural:
            return interneuron.init(W_xy, W_yn, W_ny, rng)
        if not np.array_equal(W_ny, W_yn.T):
            raise ValueError(
                "natural steps need W_ny = W_yn': use decoupled=False and give one of the two in init, or precondition=None "
                "for the paper's rule"
            )
        F, W_xy = F.astype(dtype), W_xy.astype(dtype)
        return natural.init(natural.InterneuronState, F, W_xy, W_yn.T @ W_yn, rng)

    def _local_setting(self, d: int) -> Setting:
        return Setting(eta0=0.02, decay=2e-4, mean_window=300)

    def _rule_params(self, state: Any, dtype: Any) -> Any:
        dynamics, guards, _, eps = self._common_params(dtype)
        average, horizon = bool(self.average), int(self.horizon or 0)
        m = self._n_interneurons(state.fired.size)
        if len(getattr(state, "W_yn", range(m))) != m:
            raise ValueError(f"n_interneurons={m}, but the weights have {len(state.W_yn)} interneurons: call fit")
        if self.precondition == "natural":
            return natural.Params(dynamics, guards, horizon, eps, average)
        if self.dynamics == "exact" and not getattr(state, "coupled", (True,))[0]:
            dynamics = ProjectedGradient(0.0, max(float(self.settle_tol), 64 * eps), int(self.settle_steps))
        scaled, window = self.precondition == "scale", int(self._setting(state.fired.size).mean_window)
        return interneuron.Params(dynamics, guards, window, eps, horizon, average, scaled)
