"""The whitening layer of Pehlevan et al. (2017): k mixtures x, d whitened activities h, d interneurons g.

For each mixture, with the activity at the fixed point of h <- h + gamma (W_xh x - W_hg' g), g <- g + gamma (W_hg h -
g), that is h = (W_hg' W_hg)^-1 W_xh x and g = W_hg h, and the running means moved by 1/t,

    W_xh <- W_xh + zeta_t ((h - h_bar)(x - x_bar)' - W_xh)
    W_hg <- W_hg + zeta_t ((g - g_bar)(h - h_bar)' - W_hg)

This is Algorithm 1 without the rectification: h is noncentered-whitened over the d leading directions of x. As there, M = W_hg'W_hg
and its inverse H follow the weights (see `settling`). Nonnegative PCA can use this layer or a fixed matrix (whitening offline, as
the paper does).
"""

from typing import Any, NamedTuple

import numpy as np

from .plasticity import (
    apply_transposed,
    follow,
    follow_input,
    hebb_input,
    hebb_uncentred,
    multiply,
    project,
    subtract,
)
from .rule import cold, hot, inverse, shapes, solve_lateral
from .settling import REFRESH, follow_interneurons, invert, scratch, settle_interneurons


class Learned(NamedTuple):
    """A whitening layer that learns."""

    W_xh: np.ndarray
    W_hg: np.ndarray
    M: np.ndarray  # W_hg' W_hg
    H: np.ndarray  # the inverse of M
    x_bar: np.ndarray
    h_bar: np.ndarray
    g_bar: np.ndarray


class Fixed(NamedTuple):
    """Whitening by a matrix that was computed offline."""

    F: np.ndarray


#: Shapes of these arrays, for the rules that have a layer as their part `layer`.
LEARNED = shapes(dk="layer.W_xh", dd="layer.W_hg layer.M layer.H", k="layer.x_bar", d="layer.h_bar layer.g_bar")


class Params(NamedTuple):
    """What the user chose, of rules with such a layer."""

    dynamics: Any
    guards: Any
    mean_window: int  # 0: the whole past, as in the paper
    eps: float


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    h: np.ndarray
    g: np.ndarray
    dh: np.ndarray
    dg: np.ndarray
    p: np.ndarray  # W_hg' dg
    ws: Any


def init(W_xh: np.ndarray, W_hg: np.ndarray) -> Learned:
    """Return a layer that has seen nothing, with these initial weights (copied)."""
    d, k = W_xh.shape
    M = W_hg.T @ W_hg
    x_bar, (h_bar, g_bar) = np.zeros(k, W_xh.dtype), np.zeros((2, d), W_xh.dtype)
    return Learned(W_xh.copy(), W_hg.copy(), M, inverse(M), x_bar, h_bar.copy(), g_bar.copy())


def workspace(d, dtype, events):
    """Allocate scratch arrays for d whitened directions."""
    return Work(*np.zeros((6, d), dtype), scratch(d, dtype, events))


@hot
def whiten(layer, work, dynamics, X, t):
    """work.h <- the whitened x_t."""
    W_hg, M, H, c = layer.W_hg, layer.M, layer.H, work.c
    project(layer.W_xh, X, t, c)
    settle_interneurons(dynamics, W_hg, W_hg.T, M, H, c, work.h, work.g, work.ws, False)


@hot
def learn_whitening(layer, work, dynamics, X, t, zeta, weight):
    """The layer's synaptic updates; `weight` is that of the running means."""
    h, g, dh, dg, p = work.h, work.g, work.dh, work.dg, work.p
    follow_input(layer.x_bar, X, t, weight)
    follow(layer.h_bar, h, weight)
    follow(layer.g_bar, g, weight)
    subtract(h, layer.h_bar, dh)
    subtract(g, layer.g_bar, dg)
    apply_transposed(layer.W_hg, dg, p)
    follow_interneurons(dynamics, layer.M, layer.H, zeta, p, dh, dg, work.ws)
    hebb_uncentred(layer.W_hg, zeta, dg, dh)
    hebb_input(layer.W_xh, zeta, h, layer.h_bar, X, t, layer.x_bar)


@cold
def refresh_whitening(layer, seen):
    """Recompute the inverse now and then; `seen` is the number of samples."""
    if seen % REFRESH == 0:
        multiply(layer.W_hg.T, layer.W_hg, layer.M)
        invert(layer.M, layer.H)


def whitening(layer: Any) -> np.ndarray:
    """The matrix that the layer applies."""
    return solve_lateral(layer.M, layer.W_xh) if isinstance(layer, Learned) else layer.F
