"""2-layer NSM behind scikit-learn's interface."""

from typing import Any, ClassVar

import numpy as np

from ..kernels.schedules import Rate
from ..networks import two_layer_nsm
from .network import WhiteningLayerNICA, orthonormal_rows, weights


class TwoLayerNSM(WhiteningLayerNICA, weights="W_xh, W_hg, W_hy, W_yy"):
    """Nonnegative ICA by whitening and nonnegative similarity matching in two layers (Pehlevan et al. 2017).

    Online and local, with nonnegative outputs; it needs three times the neurons of `TwoCompartmentNICA`. See
    `bionica.networks.two_layer_nsm` for the equations.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    {examples}
    """

    eta0: Rate | None = 0.1
    decay: float | None = 1e-6

    _own_guards: ClassVar = ("silent", "spectrum")
    _published: ClassVar = {
        "always": {"guards": ("silent",)},
        "d3": {"eta0": 1e-1, "decay": 1e-7},
        "d10": {"eta0": 1e-1, "decay": 1e-6},
        "images": {"eta0": 1e-1, "decay": 1e-6},
    }

    W_xh_ = weights("layer.W_xh", "Weights from mixtures to whitened activities, (n_components, n_features).")
    W_hg_ = weights("layer.W_hg", "Weights from whitened activities to interneurons, (n_components, n_components).")
    W_hy_ = weights("W_hy", "Weights from whitened activities to outputs, (n_components, n_components).")
    W_yy_ = weights("W_yy", "Weights between outputs, (n_components, n_components).")

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        shapes = {"W_xh": (d, k), "W_hg": (d, d), "W_hy": (d, d), "W_yy": (d, d)}
        W = {name: orthonormal_rows(rng, *shapes[name], dtype) for name in ("W_xh", "W_hy")}
        W |= {name: np.eye(d) for name in ("W_hg", "W_yy")} | self._given_weights(shapes, positive_definite="W_yy")
        W_xh, W_hg, W_hy, W_yy = (W[name].astype(dtype) for name in shapes)
        return two_layer_nsm.init(W_xh, W_hg, W_hy, W_yy, rng)
