"""From the cone of a stream to matrices for mixtures: the scale of the outputs.

A cone has no scale: its outputs y have mean 1. They are multiplied by gains g:

    "variance"   g_i = var(y_i)^{-1/2}
    "mean"       g_i = 1 / <y_i>
    "sum"        g minimises <(g' s - 1)^2> over the sources s = y - noise, so that sum_i g_i s_i = 1 if they are closed
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from .stream import State

Array = npt.NDArray[Any]


class Readout(NamedTuple):
    """W (d, k), A (k, d), noise of the scaled outputs (d,), hardness of the wall (d,), and the volume.

    The volume is det(<y y'>)^{-1/2} for outputs of mean 1: that of the simplex whose corners are the edges of the cone, in
    coordinates in which the data have unit second moment.
    """

    components: Array
    mixing: Array
    noise: Array
    wall: Array
    volume: float


def readout(state: State, normalize: str) -> Readout:
    """W and A of the last solution, with outputs scaled as `normalize` says."""
    fit, channels = state.fit, state.channels
    cone, W = fit.cone, fit.components
    g = _gains(state, normalize)
    A = fit.mixing / g
    W = g[:, None] * W
    if channels.subspace is not None:
        W, A = W @ channels.subspace.matrix, channels.subspace.inverse @ A
    second = fit.components @ state.weighted.second @ fit.components.T
    volume = float(np.exp(-0.5 * np.linalg.slogdet(second)[1]))
    wall = np.where(cone.wall.variance > 0, cone.wall.c, np.inf)
    return Readout(W / channels.scale, A * channels.scale, g * cone.noise, wall, volume)


def _gains(state: State, normalize: str) -> Array:
    W, V = state.fit.components, state.fit.cone.V
    mean = W @ state.raw.mean
    second = W @ state.raw.second @ W.T
    if normalize == "sum" and state.fit.has_mean:
        v = np.sqrt(state.fit.cone.wall.variance)
        signal = second - np.outer(v, v) * (V @ V.T)
        g = np.linalg.lstsq(signal, mean, rcond=None)[0]
        if not (g > 0).all():
            g = nnls(second, mean)[0]
        return np.asarray(np.where(g > 0, g, 1 / (len(g) * np.abs(mean))))
    spread = np.sqrt(np.maximum(np.diag(second) - mean**2, 0))
    if (normalize == "mean" and state.fit.has_mean) or not (spread > 1e-12 * np.abs(mean)).all():
        return np.asarray(1 / np.where(mean != 0, np.abs(mean), 1.0))
    return np.asarray(1 / spread)
