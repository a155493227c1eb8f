"""The whitening layer of Pehlevan et al. (2017): k mixtures x, d whitened activities h, d interneurons g.

For each mixture, with the activity at the fixed point of h <- h + gamma (W_xh x - W_hg' g), g <- g + gamma (W_hg h -
g), that is h = (W_hg' W_hg)^-1 W_xh x and g = W_hg h, and the running means moved by 1/t,

    W_xh <- W_xh + zeta_t ((h - h_bar)(x - x_bar)' - W_xh)
    W_hg <- W_hg + zeta_t ((g - g_bar)(h - h_bar)' - W_hg)

This is Algorithm 1 without the rectification: h is noncentered-whitened over the d leading directions of x.
Nonnegative PCA can use it, a fixed matrix (whitening offline, as the paper does), or nothing.
"""

from typing import Any, NamedTuple

import numpy as np

from .compiled import generic
from .dynamics import follow_interneurons, inverse, refresh_interneurons, settle_interneurons
from .pivoting import scratch
from .plasticity import follow, follow_input, hebb, hebb_input, project


class Learned(NamedTuple):
    """A whitening layer that learns."""

    W_xh: np.ndarray  # (d, k)
    W_hg: np.ndarray  # (d, d)
    M: np.ndarray  # (d, d) W_hg' W_hg
    H: np.ndarray  # (d, d) its inverse
    x_bar: np.ndarray
    h_bar: np.ndarray
    g_bar: np.ndarray


class Fixed(NamedTuple):
    """Whitening by a matrix that was computed offline."""

    F: np.ndarray  # (d, k)


class Absent(NamedTuple):
    """No whitening: the mixtures are passed on as they are."""

    width: np.ndarray  # (1,): k


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    h: np.ndarray
    g: np.ndarray
    ws: Any


def init(W_xh: np.ndarray, W_hg: np.ndarray) -> Learned:
    """Return a layer that has seen nothing, with these initial weights (copied)."""
    d, k = W_xh.shape
    return Learned(
        W_xh=W_xh.copy(),
        W_hg=W_hg.copy(),
        M=W_hg.T @ W_hg,
        H=inverse(W_hg.T @ W_hg),
        x_bar=np.zeros(k, W_xh.dtype),
        h_bar=np.zeros(d, W_xh.dtype),
        g_bar=np.zeros(d, W_xh.dtype),
    )


def workspace(d, dtype, events):
    """Allocate scratch arrays for d whitened directions."""
    return Work(c=np.zeros(d, dtype), h=np.zeros(d, dtype), g=np.zeros(d, dtype), ws=scratch(d, dtype, events))


@generic
def whiten(layer, work, dynamics, X, t):
    """work.h <- the whitened x_t."""


@generic
def learn_whitening(layer, work, dynamics, X, t, zeta, weight):
    """The layer's synaptic updates; `weight` is that of the running means."""


@generic
def refresh_whitening(layer, dynamics, seen):
    """What is computed anew now and then; `seen` is the number of samples."""


@whiten.register(Learned)
def _whiten_learned(layer, work, dynamics, X, t):
    project(layer.W_xh, X, t, work.c)
    settle_interneurons(dynamics, layer.W_hg, layer.W_hg.T, layer.M, layer.H, work.c, work.h, work.g, work.ws, False)


@whiten.register(Fixed)
def _whiten_fixed(layer, work, dynamics, X, t):
    project(layer.F, X, t, work.h)


@whiten.register(Absent)
def _whiten_absent(layer, work, dynamics, X, t):
    for j in range(work.h.shape[0]):
        work.h[j] = X[t, j]


@learn_whitening.register(Learned)
def _learn_learned(layer, work, dynamics, X, t, zeta, weight):
    follow_input(layer.x_bar, X, t, weight)
    follow(layer.h_bar, work.h, weight)
    follow(layer.g_bar, work.g, weight)
    hebb_input(layer.W_xh, zeta, work.h, layer.h_bar, X, t, layer.x_bar)
    W_hg, M, H = layer.W_hg, layer.M, layer.H
    follow_interneurons(dynamics, W_hg, W_hg.T, M, H, zeta, work.h, layer.h_bar, work.g, layer.g_bar, work.ws)
    hebb(W_hg, zeta, work.g, layer.g_bar, work.h, layer.h_bar)


@refresh_whitening.register(Learned)
def _refresh_learned(layer, dynamics, seen):
    refresh_interneurons(dynamics, layer.W_hg, layer.W_hg.T, layer.M, layer.H, seen, False)


@learn_whitening.register(Fixed)
@learn_whitening.register(Absent)
def _learn_nothing(layer, work, dynamics, X, t, zeta, weight):
    pass


@refresh_whitening.register(Fixed)
@refresh_whitening.register(Absent)
def _refresh_nothing(layer, dynamics, seen):
    pass


def whitening(layer: Any) -> np.ndarray:
    """The matrix that the layer applies."""
    if isinstance(layer, Learned):
        return np.linalg.solve(layer.W_hg.T @ layer.W_hg, layer.W_xh)
    if isinstance(layer, Fixed):
        return layer.F
    return np.eye(int(layer.width[0]))
