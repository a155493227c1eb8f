"""Nonnegative PCA behind scikit-learn's interface."""

from typing import Annotated, Any, ClassVar

import numpy as np

from .._compat.sklearn import Options, StrOptions
from ..kernels import whitening_layer
from ..networks import nonnegative_pca
from ..offline.whitening import leading, moments, whitening
from ..samples import Array
from ..trust.outliers import inliers_of, without_outliers
from .network import WhiteningLayerNICA, orthonormal_rows, weights


class NonnegativePCA(WhiteningLayerNICA, weights="W, and W_xh, W_hg with whiten='online'"):
    """Nonnegative ICA by noncentered whitening and online nonnegative PCA (Plumbley and Oja 2004).

    Its learning rule is not local. See `bionica.networks.nonnegative_pca` for the equations.

    Parameters
    ----------
    {parameters}
    whiten : {"offline", "online"} or False, default="offline"
        How the mixtures are whitened (noncentered). "offline": `fit` computes the whitening from all the data but outliers
        (see `BatchNICA`), as the paper does, and keeps it; a fresh network that starts with `partial_fit` or `learn_one`
        whitens online. "online": by a whitening layer that learns sample by sample (that of `TwoLayerNSM`). False: they are
        whitened already.
    dynamics : {"exact", "gradient"}, default="exact"
        How the online whitening layer settles; nothing else has dynamics.

    Attributes
    ----------
    {attributes}

    Examples
    --------
    {examples}
    """

    whiten: Annotated[str | bool, StrOptions({"offline", "online"}), Options(bool, {False})] = "offline"
    decay: float | None = 1e-5

    _own_guards: ClassVar = ("silent", "rate")
    _published: ClassVar = {
        "always": {"guards": ("silent",)},
        "d3": {"eta0": 1e-2, "decay": 1e-5},
        "d10": {"eta0": 1e-2, "decay": 1e-5},
        "images": {"eta0": 1e-3, "decay": 1e-5},
    }

    W_ = weights("W", "Weights from the whitened mixtures to the outputs, (n_components, n_components).")

    @property
    def whitening_(self) -> Array:
        """The whitening matrix that is applied to the mixtures."""
        return np.array(whitening_layer.whitening(self._started().layer))

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Any) -> Any:
        shapes = {"W": (d, k if self.whiten is False else d)}
        if online := self.whiten == "online" or (self.whiten == "offline" and X is None):
            shapes |= {"W_xh": (d, k), "W_hg": (d, d)}
        given = {name: W.astype(dtype) for name, W in self._given_weights(shapes).items()}
        W = given.get("W", orthonormal_rows(rng, *shapes["W"], dtype))
        layer: Any
        if online:
            W_xh = given.get("W_xh", orthonormal_rows(rng, d, k, dtype))
            layer = whitening_layer.init(W_xh, given.get("W_hg", np.eye(d, dtype=dtype)))
        elif self.whiten == "offline":
            if isinstance(X, np.ndarray):
                white = leading(inliers_of(X), d)
            else:
                white = whitening(without_outliers(X, moments(X), d)[1], d, precision=X.dtype)
            if white.rank < d:
                raise ValueError(
                    f"n_components={d} exceeds the rank of X: its {len(X)} samples vary in {white.rank} directions. Use "
                    f"n_components <= {white.rank}, samples that differ, or whiten='online'"
                )
            layer = whitening_layer.Fixed(white.matrix.astype(dtype))
        else:
            layer = whitening_layer.Fixed(np.eye(k, dtype=dtype))
        return nonnegative_pca.init(layer, W, rng)

    def _check_saved(self) -> None:
        super()._check_saved()
        F = getattr(self._state.layer, "F", None)  # None: the layer learns
        suits = {"offline": True, "online": F is None, False: F is not None and np.array_equal(F, np.eye(*F.shape))}
        if not suits[self.whiten]:
            raise ValueError(f"whiten={self.whiten!r}, but the whitening {'learns' if F is None else 'is fixed'}")
