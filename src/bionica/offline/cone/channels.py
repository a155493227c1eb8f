"""What is done to mixtures before anything else: scale, weights of Poisson counts, the subspace of many channels.

    z = B' (w x / scale)

`scale` is a power of two near the largest entry, so that no square overflows. w makes the noise of counts uniform, and is 1 for
other noise (`channel_noise.poisson_weights`); the cone does not change if samples are scaled. B is the leading subspace of more
than 1000 channels (`wide_channels`), otherwise the identity.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .channel_noise import poisson_variance, poisson_weights
from .coordinates import second_moment_eigenvalues
from .grid import on_a_grid
from .wide_channels import WIDE, Subspace, blocks, gram_eigenvalues, leading_subspace

Array = npt.NDArray[Any]


class Poisson(NamedTuple):
    """Typical total count of a sample over the scale, and the standard deviation (k,) of the weighted channels."""

    mean_total: float
    level: Array


class Channels(NamedTuple):
    """How mixtures become channels. The noise of x / scale has standard deviation `level`, unless it is to be estimated."""

    scale: float
    level: float
    estimate: bool
    poisson: Poisson | None
    subspace: Subspace | None

    def scaled(self, X: Array) -> Array:
        """Rows of X over the scale, (n_samples, k), float64."""
        return np.divide(X, self.scale, dtype=np.float64)

    def weighted(self, X: Array) -> Array:
        """Rows of X over the scale, with the weights of Poisson counts: (n_samples, k), float64."""
        X = self.scaled(X)
        return X if self.poisson is None else X * poisson_weights(X, self.poisson.mean_total)[:, None]

    def raw(self, X: Array) -> Array:
        """Rows of X over the scale, in the subspace: (n_samples, q)."""
        return self._projected(X, self.scaled)

    def rows(self, X: Array) -> Array:
        """Rows z of the channels: weighted, in the subspace: (n_samples, q)."""
        return self._projected(X, self.weighted)

    def _projected(self, X: Array, of: Callable[[Array], Array]) -> Array:
        if self.subspace is None:
            return of(X)
        return np.concatenate([of(X[rows]) @ self.subspace.matrix.T for rows in blocks(X)])

    @property
    def noise(self) -> Any:
        """Standard deviation of the noise of the channels, one or (q,); None if it is to be estimated."""
        if self.subspace is not None:
            return self.subspace.noise
        if self.poisson is not None:
            return self.poisson.level
        return None if self.estimate else self.level


def find_channels(X: Array, d: int, noise: Any) -> Channels:
    """The channels for X (n_samples, k), finite. `noise` is "estimate", "poisson" or a standard deviation."""
    largest = max(float(X.max()), -float(X.min())) or 1.0
    scale = float(2.0 ** np.clip(np.round(np.log2(largest)), -1000, 1000))
    poisson = None
    if noise == "poisson":
        total = max(float(X.sum(axis=1, dtype=np.float64).mean()) / scale, 1e-300)
        weights = poisson_weights(X / scale, total)
        weighted = (weights**2) @ X / scale / len(X)
        # Counts x have noise of variance x; x / scale has x / scale^2.
        poisson = Poisson(total, np.sqrt(poisson_variance(weighted) / scale))
    level = 0.0 if isinstance(noise, str) else float(noise) / scale
    found = Channels(scale, level, noise == "estimate" and not noiseless(X, d), poisson, None)
    if X.shape[1] <= WIDE:
        return found
    if poisson is not None:
        return found._replace(subspace=leading_subspace(found.weighted(X), d, poisson.level))
    return found._replace(subspace=leading_subspace(X, d, found.noise, unit=scale))


def noiseless(X: Array, d: int) -> bool:
    """Whether noise that would have to be told from the tails (k = d) is ruled out."""
    return X.shape[1] == d and on_a_grid(X)


def eigenvalues(X: Array) -> Array:
    """Eigenvalues of the second moment of X, over the square of its largest entry. Their number is the rank."""
    x = X / _largest(X)
    if X.shape[1] > WIDE:
        return gram_eigenvalues(x)
    x = x.astype(np.float64)
    return second_moment_eigenvalues(x.T @ x / len(x), single=X.dtype == np.float32)


def _largest(X: Array) -> float:
    return max(float(X.max()), -float(X.min())) or 1.0
