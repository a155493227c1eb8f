"""The whitening layer of Pehlevan et al. (2017): k mixtures x, d whitened activities h, d interneurons g.

For each mixture, with the activity at the fixed point of h <- h + gamma (W_xh x - W_hg' g), g <- g + gamma (W_hg h -
g), that is h = (W_hg' W_hg)^-1 W_xh x and g = W_hg h, and the running means moved by 1/t,

    W_xh <- W_xh + zeta_t ((h - h_bar)(x - x_bar)' - W_xh)
    W_hg <- W_hg + zeta_t ((g - g_bar)(h - h_bar)' - W_hg)

This is Algorithm 1 without the rectification: h is noncentered-whitened over the d leading directions of x.
Nonnegative PCA can use it, a fixed matrix (whitening offline, as the paper does), or nothing.

The layer keeps B = W_hg^-1: h = B B' W_xh x. B is updated by Sherman and Morrison's formula as W_hg learns, and recomputed every
1000 samples. Every h is checked against W_hg itself; if B has lost digits, W_hg' W_hg is factorised.
"""

from typing import Any, NamedTuple

import numpy as np

from .plasticity import absolute_sum, apply, dot, dot_rows, follow, follow_input, hebb, hebb_input, multiply, project
from .rule import cold, generic, hot, shapes, solve_lateral
from .settling import (
    REFRESH,
    Exact,
    ProjectedGradient,
    accepted,
    invert,
    iterate_interneurons,
    linear,
    overflow,
    scratch,
)


class Learned(NamedTuple):
    """A whitening layer that learns."""

    W_xh: np.ndarray
    W_hg: np.ndarray
    B: np.ndarray  # the inverse of W_hg
    x_bar: np.ndarray
    h_bar: np.ndarray
    g_bar: np.ndarray


class Fixed(NamedTuple):
    """Whitening by a matrix that was computed offline."""

    F: np.ndarray


class Absent(NamedTuple):
    """No whitening: the mixtures are passed on as they are."""

    width: np.ndarray  # k


#: Shapes of these arrays, for the rules that have a layer as their part `layer`.
LEARNED = shapes(dk="layer.W_xh", dd="layer.W_hg layer.B", k="layer.x_bar", d="layer.h_bar layer.g_bar")


class Work(NamedTuple):
    """Scratch arrays."""

    c: np.ndarray
    h: np.ndarray
    g: np.ndarray
    ws: Any


def inverse(W_hg: np.ndarray) -> np.ndarray:
    """W_hg^-1 for a new layer; zeros if W_hg is singular, and then factorisations do the work."""
    with np.errstate(all="ignore"):
        try:
            B = np.linalg.inv(W_hg.astype(np.float64)).astype(W_hg.dtype)
        except np.linalg.LinAlgError:
            return np.zeros_like(W_hg)
    return B if np.isfinite(B).all() else np.zeros_like(B)


def init(W_xh: np.ndarray, W_hg: np.ndarray) -> Learned:
    """Return a layer that has seen nothing, with these initial weights (copied)."""
    d, k = W_xh.shape
    return Learned(
        W_xh=W_xh.copy(),
        W_hg=W_hg.copy(),
        B=inverse(W_hg),
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
def refresh_whitening(layer, work, seen):
    """Recompute the inverse now and then; `seen` is the number of samples."""


@whiten.register(Learned)
def _whiten_learned(layer, work, dynamics, X, t):
    project(layer.W_xh, X, t, work.c)
    settle_whitening(dynamics, layer.W_hg, layer.B, work.c, work.h, work.g, work.ws)


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
    learn_feedback(dynamics, layer.W_hg, layer.B, zeta, work.h, layer.h_bar, work.g, layer.g_bar, work.ws)
    hebb_input(layer.W_xh, zeta, work.h, layer.h_bar, X, t, layer.x_bar)


@refresh_whitening.register(Learned)
def _refresh_learned(layer, work, seen):
    if seen % REFRESH == 0 or absolute_sum(layer.B[0]) == 0:  # singular when it was last needed
        _invert(layer.W_hg, layer.B, work.ws)


@learn_whitening.register(Fixed)
@learn_whitening.register(Absent)
def _learn_nothing(layer, work, dynamics, X, t, zeta, weight):
    pass


@refresh_whitening.register(Fixed)
@refresh_whitening.register(Absent)
def _refresh_nothing(layer, work, seen):
    pass


def whitening(layer: Any) -> np.ndarray:
    """The matrix that the layer applies."""
    if isinstance(layer, Learned):
        return solve_lateral(layer.W_hg.T @ layer.W_hg, layer.W_xh)
    if isinstance(layer, Fixed):
        return layer.F
    return np.eye(int(layer.width[0]))


# ---------------------------------------------------------------------------------------------- dynamics


@generic
def settle_whitening(dynamics, W_hg, B, c, h, g, ws):
    """Settle h = (W_hg' W_hg)^-1 c and g = W_hg h."""


@generic
def learn_feedback(dynamics, W_hg, B, zeta, h, h_bar, g, g_bar, ws):
    """W_hg <- W_hg + zeta (dg dh' - W_hg), and its inverse B."""


@settle_whitening.register(ProjectedGradient)
def _settle_gradient(dynamics, W_hg, B, c, h, g, ws):
    iterate_interneurons(dynamics, W_hg, W_hg.T, c, h, g, ws, False)


@learn_feedback.register(ProjectedGradient)
def _learn_gradient(dynamics, W_hg, B, zeta, h, h_bar, g, g_bar, ws):
    hebb(W_hg, zeta, g, g_bar, h, h_bar)


@learn_feedback.register(Exact)
def _learn_exact(dynamics, W_hg, B, zeta, h, h_bar, g, g_bar, ws):
    kept = follow_inverse(B, zeta, h, h_bar, g, g_bar, ws)
    hebb(W_hg, zeta, g, g_bar, h, h_bar)
    if not kept:
        _invert(W_hg, B, ws)


@settle_whitening.register(Exact)
def _settle_exact(dynamics, W_hg, B, c, h, g, ws):
    c_sum = absolute_sum(c)
    if not c_sum < np.inf:
        overflow(h)
        return
    solve(B, c, h, g)
    if not solved(dynamics.eps, W_hg, c, c_sum, h, g, ws):
        solve_without_inverse(dynamics.eps, W_hg, c, h, g, ws)


@hot
def solve(B, c, h, g):
    """h <- B B' c, by way of g."""
    for p in range(g.shape[0]):
        g[p] = 0
    for i in range(c.shape[0]):
        v = c[i]
        for p in range(g.shape[0]):
            g[p] += B[i, p] * v
    apply(B, g, h)


@hot
def solved(eps, W_hg, c, c_sum, h, g, ws):
    """g <- W_hg h and ws.w <- c - W_hg' g; returns whether that is small beside the terms of the sum."""
    d, w = c.shape[0], ws.w
    zero = c.dtype.type(0)
    for i in range(d):
        w[i] = c[i]
    for p in range(g.shape[0]):
        v = dot(W_hg, p, h)
        g[p] = v
        for i in range(d):
            w[i] -= W_hg[p, i] * v
    worst = zero
    for i in range(d):
        worst = max(worst, abs(w[i]))
    eps = c.dtype.type(eps)
    return accepted(eps, worst, c_sum, zero) or accepted(eps, worst, c_sum, _largest_square(W_hg) * absolute_sum(h))


@cold
def _largest_square(W):
    """The largest sum of squares of a column."""
    largest = W.dtype.type(0)
    for i in range(W.shape[1]):
        s = W.dtype.type(0)
        for p in range(W.shape[0]):
            s += W[p, i] * W[p, i]
        largest = max(largest, s)
    return largest


@cold
def solve_without_inverse(eps, W_hg, c, h, g, ws):
    """h and g without B."""
    multiply(W_hg.T, W_hg, ws.M)
    linear(Exact(eps), ws.M, c, h, ws)
    apply(W_hg, h, g)


@cold
def _invert(W_hg, B, ws):
    """B <- W_hg^-1, as (W_hg' W_hg)^-1 W_hg'."""
    multiply(W_hg.T, W_hg, ws.M)
    invert(ws.M, ws.L)
    for i in range(B.shape[0]):
        for p in range(B.shape[1]):
            B[i, p] = dot_rows(ws.L, i, W_hg, p, W_hg.shape[1])


@hot
def follow_inverse(B, zeta, h, h_bar, g, g_bar, ws):
    """B after W_hg <- W_hg + zeta (dg dh' - W_hg); False where the formula would lose digits, and B is left alone."""
    d = h.shape[0]
    dg, Bdg, Bdh = ws.free, ws.w, ws.v  # B' dh the last
    one = B.dtype.type(1)
    zeta = B.dtype.type(zeta)
    for p in range(d):
        dg[p] = g[p] - g_bar[p]
        Bdh[p] = 0
    q = B.dtype.type(0)
    for i in range(d):
        dh = h[i] - h_bar[i]
        Bdg[i] = dot(B, i, dg)
        q += dh * Bdg[i]
        for p in range(d):
            Bdh[p] += dh * B[i, p]
    grow = one / (one - zeta)
    below = one + zeta * grow * q
    if not (zeta < one and below > B.dtype.type(0.1)):
        return False
    f = zeta * grow * grow / below
    for i in range(d):
        a = f * Bdg[i]
        for p in range(d):
            B[i, p] = grow * B[i, p] - a * Bdh[p]
    return True
