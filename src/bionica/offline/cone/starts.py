"""Starts of the cone: the most extreme samples, and the solution of nonnegative ICA.

Successive projection (Araujo et al. 2001; Gillis and Vavasis 2014): divide samples by their component along the mean, choose the
sample farthest out, project its direction out of all samples, and so on; the d chosen samples are the edges of the first cone.
Nonnegative ICA whitens and rotates (`bionica.offline.rotation`). Its solution is the better start if sources are uncorrelated,
but it does not exist for data with a constant sum, whose covariance is singular.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ..rotation import rotate

Array = npt.NDArray[Any]

_LEAST_ALONG = 0.1  # of the mean: noise decides the direction of samples with less
_LEAST_MEAN = 0.05  # of the root mean square of an output


def successive_projection(U: Array) -> Array:
    """V (d, d) such that d samples of U (n_samples, d) are the edges of the cone, with V u_bar = 1.

    Examples
    --------
    >>> import numpy as np
    >>> U = np.vstack([np.eye(2), np.full((8, 2), 0.5)])
    >>> np.sort(successive_projection(U), axis=0)
    array([[0., 0.],
           [2., 2.]])
    """
    u_bar = U.mean(axis=0)
    along = U @ u_bar / (u_bar @ u_bar)
    edges = U[along > _LEAST_ALONG] / along[along > _LEAST_ALONG, None]
    rest = edges.copy()
    chosen = []
    for _ in range(U.shape[1]):
        size = np.einsum("ij,ij->i", rest, rest)
        chosen.append(int(np.argmax(size)))
        q = rest[chosen[-1]] / np.sqrt(max(size[chosen[-1]], 1e-300))
        rest -= np.outer(rest @ q, q)
    return hold_mean(np.linalg.pinv(edges[chosen].T), U)


def hold_mean(V: Array, U: Array) -> Array:
    """Turn facets until every output has a mean of at least 0.05 times its RMS; scale rows so that V u_bar = 1.

    The row that is added is the linear function of u that is nearest to 1.
    """
    u_bar = U.mean(axis=0)
    second = U.T @ U / len(U)
    energy = np.einsum("ij,jk,ik->i", V, second, V)
    V = V / np.sqrt(np.maximum(energy, 1e-300))[:, None]
    one = np.linalg.solve(second, u_bar)
    V = V + np.outer(np.maximum(0, _LEAST_MEAN - V @ u_bar), one / (one @ u_bar))
    return np.asarray(V / (V @ u_bar)[:, None])


def rotation_start(U: Array, variance: float, rng: np.random.RandomState) -> Array | None:
    """Nonnegative ICA's solution for U (n_samples, d); None if the covariance is singular, or nearly so beside the noise.

    It is an approximation that is good enough for a start.
    """
    V = rotate_white(U, variance, rng, thorough=False)
    return None if V is None else hold_mean(V, U)


def rotate_white(U: Array, variance: float, rng: np.random.RandomState, *, thorough: bool = True) -> Array | None:
    """As `rotation_start`, with outputs of unit variance instead of unit mean."""
    d = U.shape[1]
    w, E = np.linalg.eigh(np.cov(U.T, bias=True).reshape(d, d))
    if w[0] <= max(1e-10 * w[-1], 2 * variance):
        return None
    F = (E / np.sqrt(w)).T
    effort: dict[str, Any] = {} if thorough else {"tol": 1e-3, "n_init": 5}
    return np.asarray(rotate(U @ F.T, rng=rng, **effort).R @ F)
