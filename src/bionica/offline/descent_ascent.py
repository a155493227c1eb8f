"""Algorithms 1 and 2 in the offline setting (section 4): all the data at each step.

Each iteration settles every sample with the weights as they are, then takes one descent-ascent step on the objective.

Algorithm 1, on L_1, with (Y, N) at the fixed point of eq. (7):

    W_xy <- W_xy + eta (dY dX'/T - W_xy)                                          (8)
    W_yn <- W_yn + eta (dN dY'/T - W_yn)                                          (9)

Algorithm 2, on L_2, with Z at the fixed point of Z <- [Z + gamma (W_xz X - W_zz Z)]_+:

    W_xz <- W_xz + 2 eta (Z X'/T - W_xz C_xx)                                     (13)
    W_zz <- W_zz + (eta / tau) (Z Z'/T - W_zz)                                    (14)

The samples settle exactly through the same compiled solver as online (`networks.inverse`), or by the printed projected
gradient on blocks of samples, which is matrix products; the steps in the weights are matrix products too. At most one array of the
size of the outputs is kept besides X.

The value of the objective need not fall: a step descends in W_xy (W_xz) and ascends in W_yn (W_zz), and they meet at a saddle.
Measured on the paper's d = 3 problem: L_2 falls from the fifth iteration on; L_1 falls, undershoots its final value by
1e-4 of it at most, and rises back to it while W_yn catches up. What goes to zero is the gradient, and the stopping rule
looks at that.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..engines.loop import run
from ..networks import guards, interneuron, two_compartment
from ..networks.settling import pivoting
from .chunked import row_blocks
from .whitening import moments

__all__ = ["Offline", "offline_interneuron", "offline_two_compartment"]

Array = NDArray[Any]

_SEED = np.array([1, 1])
_OFF = guards.Guards(*5 * (False,))
_EPS = float(np.finfo(np.float64).eps)
_FROZEN = np.empty((0, 1))


class Offline(NamedTuple):
    """What an offline run learned.

    `weights` by the paper's names; `objective` L_1 or L_2 at each iteration; `gradient` the largest entry of the last step over
    eta, relative to the weights; `converged` whether that fell below the tolerance.
    """

    weights: dict[str, Array]
    objective: Array
    gradient: float
    converged: bool


class Settling(NamedTuple):
    """How the samples settle: `exact`, or by at most `steps` steps of the gradient down to the tolerance `tol`."""

    exact: bool = True
    gamma: float | None = None
    tol: float = 1e-8
    steps: int = 10_000


def offline_interneuron(
    X: Array, W_xy: Array, W_yn: Array, *, eta: float, tol: float, max_iter: int, settling: Settling | None = None
) -> Offline:
    """Algorithm 1 offline.

    Parameters
    ----------
    X : ndarray of shape (n_samples, k)
        Float64, C-ordered.
    W_xy, W_yn : ndarray of shape (d, k) and (m, d)
        Initial weights; not changed.
    eta : float
        Learning rate, below 1.
    tol : float
        Stop when no weight would change by more than this share of the largest, with eta = 1.
    max_iter : int
        Most iterations.
    settling : Settling, optional
        How the samples settle; exactly by default.

    Returns
    -------
    Offline

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import mix, sparse_uniform
    >>> X, A = mix(sparse_uniform(2000, 2, rng=0), rng=0)
    >>> offline_interneuron(X, np.eye(2), np.eye(2), eta=0.5, tol=1e-6, max_iter=500).converged
    True
    """
    settling = settling or Settling()
    x_mean = X.mean(axis=0)
    Y = np.zeros((len(X), len(W_xy)))
    N = np.zeros((0 if settling.exact else len(X), len(W_yn)))

    def step(weights: list[Array]) -> tuple[float, list[Array]]:
        W_xy, W_yn = weights
        if settling.exact:
            state = interneuron.init(W_xy, W_yn, np.ascontiguousarray(W_yn.T), _SEED)
            run(state, interneuron.Params(pivoting.Exact(_EPS), _OFF, 0, _EPS, 0.0, 0), X, _FROZEN, Y)
        else:
            _settle_interneurons(X, W_xy, W_yn, Y, N, settling)
        _flip_silent(W_xy, Y)
        C_yx, C_yy = _covariances(Y, X, x_mean)
        C_ny = W_yn @ C_yy  # N = W_yn Y
        objective = (
            2 * np.sum(W_yn * C_ny) - 2 * np.sum(W_xy * C_yx) - np.sum(C_ny * W_yn) - np.sum(W_yn**2) + np.sum(W_xy**2)
        )
        return float(objective), [eta * (C_yx - W_xy), eta * (C_ny - W_yn)]

    return _iterate({"W_xy": W_xy, "W_yn": W_yn}, step, eta, tol, max_iter)


def offline_two_compartment(
    X: Array,
    W_xz: Array,
    W_zz: Array,
    *,
    eta: float,
    tau: float,
    tol: float,
    max_iter: int,
    settling: Settling | None = None,
) -> Offline:
    """Algorithm 2 offline.

    Parameters
    ----------
    X : ndarray of shape (n_samples, k)
        Float64, C-ordered.
    W_xz, W_zz : ndarray of shape (d, k) and (d, d)
        Initial weights; not changed.
    eta, tau : float
        Learning rate and ratio of rates: eta < tau, and eta below the inverse of the largest eigenvalue of cov(X).
    tol, max_iter, settling
        As in `offline_interneuron`.

    Returns
    -------
    Offline

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import mix, sparse_uniform
    >>> X, A = mix(sparse_uniform(2000, 2, rng=0), [[1.0, 0.5], [-0.5, 1.0]])
    >>> offline_two_compartment(X, np.eye(2), np.eye(2), eta=0.2, tau=0.5, tol=1e-4, max_iter=500).converged
    True
    """
    settling = settling or Settling()
    C_xx = moments(X).covariance
    T = len(X)
    Z = np.zeros((T, len(W_xz)))

    def step(weights: list[Array]) -> tuple[float, list[Array]]:
        W_xz, W_zz = weights
        if settling.exact:
            state = two_compartment.init(W_xz, W_zz, _SEED)
            run(state, two_compartment.Params(pivoting.Exact(_EPS), _OFF, 0, _EPS, 0.0, 0, tau), X, _FROZEN, Z)
        else:
            _settle_lateral(X, W_xz, W_zz, Z, settling)
        _flip_silent(W_xz, Z)
        zx, zz, W_xz_C = Z.T @ X / T, Z.T @ Z / T, W_xz @ C_xx
        objective = 2 * np.sum(W_zz * zz) - 4 * np.sum(W_xz * zx) - np.sum(W_zz**2) + 2 * np.sum(W_xz_C * W_xz)
        return float(objective), [2 * eta * (zx - W_xz_C), eta / tau * (zz - W_zz)]

    # eta has the units of 1/cov(X), eta/tau has none: only the latter can judge the size of a step.
    return _iterate({"W_xz": W_xz, "W_zz": W_zz}, step, eta / tau, tol, max_iter)


def _iterate(
    start: dict[str, Array],
    step: Callable[[list[Array]], tuple[float, list[Array]]],
    rate: float,
    tol: float,
    max_iter: int,
) -> Offline:
    weights = [np.array(W, dtype=np.float64, order="C") for W in start.values()]
    objective: list[float] = []
    gradient = np.inf
    while gradient > tol and len(objective) < max_iter:
        value, changes = step(weights)
        objective.append(value)
        for W, change in zip(weights, changes, strict=True):
            W += change
        gradient = max(np.abs(c).max() / np.abs(W).max() for c, W in zip(changes, weights, strict=True)) / rate
        if not np.isfinite(gradient):
            break
    return Offline(dict(zip(start, weights, strict=True)), np.array(objective), float(gradient), bool(gradient <= tol))


def _flip_silent(W: Array, Y: Array) -> None:
    """Flip the weights of outputs that fire for no sample, as online (appendix C)."""
    W[~(Y > 0).any(axis=0)] *= -1


def _covariances(Y: Array, X: Array, x_mean: Array) -> tuple[Array, Array]:
    """Return dY dX'/T and dY dY'/T, block by block."""
    y_mean = Y.mean(axis=0)
    yx, yy = np.zeros((Y.shape[1], X.shape[1])), np.zeros((Y.shape[1], Y.shape[1]))
    for rows in row_blocks(len(X), X.shape[1]):
        dY = Y[rows] - y_mean
        yx += dY.T @ (X[rows] - x_mean)
        yy += dY.T @ dY
    return yx / len(X), yy / len(X)


def _settle_lateral(X: Array, W_xz: Array, W_zz: Array, Z: Array, settling: Settling) -> None:
    """Z <- [Z + gamma (W_xz X - W_zz Z)]_+ until convergence, warm-started from Z, a block of samples at a time."""
    gamma = settling.gamma or 1 / np.trace(W_zz)
    for rows in row_blocks(len(X), X.shape[1]):
        c, z = X[rows] @ W_xz.T, Z[rows]
        for _ in range(settling.steps):
            new = np.maximum(z + gamma * (c - z @ W_zz), 0)
            change = np.abs(new - z).max()
            z = new
            if change <= settling.tol * gamma * np.abs(c).max():
                break
        Z[rows] = z


def _settle_interneurons(X: Array, W_xy: Array, W_yn: Array, Y: Array, N: Array, settling: Settling) -> None:
    """Eq. (7) until convergence, warm-started from Y and N, a block of samples at a time."""
    gamma = settling.gamma or 0.5 / max(float(np.sum(W_yn**2)), 1.0)
    for rows in row_blocks(len(X), X.shape[1]):
        c, y, n = X[rows] @ W_xy.T, Y[rows], N[rows]
        for _ in range(settling.steps):
            new = np.maximum(y + gamma * (c - n @ W_yn), 0)
            step_n = gamma * (new @ W_yn.T - n)
            change, change_n = np.abs(new - y).max(), np.abs(step_n).max()
            y, n = new, n + step_n
            if max(change, change_n) <= settling.tol * gamma * max(np.abs(c).max(), np.abs(n).max()):
                break
        Y[rows], N[rows] = y, n
