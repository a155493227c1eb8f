"""The four algorithms as one types them off the paper: NumPy, a quadratic program for each sample, no guards.

What a reader of the paper would write in an afternoon, and what the compiled networks are timed against. The quadratic program is
quadprog's where that is installed, else SciPy's nnls on the Cholesky factor.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Settle = Callable[[Array, Array], Array]


def solver() -> tuple[str, Settle]:
    """Name and function of the quadratic programming: min z'Mz/2 - c'z over z >= 0."""
    try:
        from quadprog import solve_qp
    except ImportError:
        return "SciPy's nnls", _nnls

    def settle(M: Array, c: Array) -> Array:
        z = solve_qp((M + M.T) / 2, c, np.eye(len(c)), np.zeros(len(c)))[0]
        return np.asarray(np.maximum(z, 0))

    return "quadprog", settle


def _nnls(M: Array, c: Array) -> Array:
    from scipy.linalg import solve_triangular
    from scipy.optimize import nnls

    L = np.linalg.cholesky((M + M.T) / 2)
    return np.asarray(nnls(L.T, solve_triangular(L, c, lower=True))[0])


def two_compartment(X: Array, W_xz: Array, W_zz: Array, rates: Array, tau: float, settle: Settle) -> Array:
    """Algorithm 2."""
    x_bar, c_bar = np.zeros(X.shape[1]), np.zeros(len(W_zz))
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), start=1):
        c = W_xz @ x
        z = settle(W_zz, c)
        x_bar = x_bar + (x - x_bar) / t
        c_bar = c_bar + (c - c_bar) / t
        W_xz = W_xz + 2 * eta * (np.outer(z, x) - np.outer(c - c_bar, x - x_bar))
        W_zz = W_zz + eta / tau * (np.outer(z, z) - W_zz)
        outputs.append(z)
    return np.array(outputs)


def interneuron(X: Array, W_xy: Array, W_yn: Array, W_ny: Array, rates: Array, settle: Settle) -> Array:
    """Algorithm 1."""
    x_bar, y_bar, n_bar = np.zeros(X.shape[1]), np.zeros(len(W_xy)), np.zeros(len(W_yn))
    outputs = []
    for t, (x, eta) in enumerate(zip(X, rates, strict=True), start=1):
        y = settle(W_ny @ W_yn, W_xy @ x)
        n = W_yn @ y
        x_bar = x_bar + (x - x_bar) / t
        y_bar = y_bar + (y - y_bar) / t
        n_bar = n_bar + (n - n_bar) / t
        W_xy = W_xy + eta * (np.outer(y - y_bar, x - x_bar) - W_xy)
        W_ny = W_ny + eta * (np.outer(y - y_bar, n - n_bar) - W_ny)
        W_yn = W_yn + eta * (np.outer(n - n_bar, y - y_bar) - W_yn)
        outputs.append(y)
    return np.array(outputs)


def two_layer_nsm(
    X: Array, W_xh: Array, W_hg: Array, W_hy: Array, W_yy: Array, rates: Array, zetas: Array, settle: Settle
) -> Array:
    """2-layer NSM."""
    x_bar, h_bar, g_bar = np.zeros(X.shape[1]), np.zeros(len(W_xh)), np.zeros(len(W_hg))
    outputs = []
    for t, (x, eta, zeta) in enumerate(zip(X, rates, zetas, strict=True), start=1):
        h = np.linalg.solve(W_hg.T @ W_hg, W_xh @ x)
        g = W_hg @ h
        y = settle(W_yy, W_hy @ h)
        x_bar = x_bar + (x - x_bar) / t
        h_bar = h_bar + (h - h_bar) / t
        g_bar = g_bar + (g - g_bar) / t
        W_xh = W_xh + zeta * (np.outer(h - h_bar, x - x_bar) - W_xh)
        W_hg = W_hg + zeta * (np.outer(g - g_bar, h - h_bar) - W_hg)
        W_hy = W_hy + eta * (np.outer(y, h) - W_hy)
        W_yy = W_yy + eta * (np.outer(y, y) - W_yy)
        outputs.append(y)
    return np.array(outputs)


def nonnegative_pca(X: Array, W: Array, F: Array, rates: Array) -> Array:
    """Online nonnegative PCA of mixtures that F whitens."""
    outputs = []
    for x, eta in zip(X, rates, strict=True):
        h = F @ x
        y = np.maximum(W @ h, 0)
        W = W + eta * (np.outer(y, h) - np.outer(y, y) @ W)
        outputs.append(y)
    return np.array(outputs)
