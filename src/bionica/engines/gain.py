"""`precondition="scale"`: every mixture over its running root mean square, a gain that an input neuron can set by itself."""

from typing import Any

import numpy as np

from .._compat.numba import compile_entry

__all__ = ["gain", "scaled"]

_COMPILED: dict[Any, Any] = {}


def gain(power: np.ndarray) -> np.ndarray:
    """One over the root of the mean square; 1 for a mixture that has always been zero."""
    with np.errstate(divide="ignore"):
        return np.where(power > 0, 1 / np.sqrt(power), 1.0)


def scale_rows(X, power, t, horizon, out):
    """out <- X over the running root mean square of its columns, which follows; t samples came before. Rows before an overflow."""
    for row in range(X.shape[0]):
        n = t + row + 1
        if horizon > 0 and n > horizon:
            n = horizon
        for j in range(X.shape[1]):
            x = np.float64(X[row, j])
            power[j] += (x * x - power[j]) / n
            if not power[j] < np.inf:
                return row
            out[row, j] = x / np.sqrt(power[j]) if power[j] > 0 else x
    return X.shape[0]


def scaled(state: Any, params: Any, X: np.ndarray, learning: bool) -> np.ndarray:
    """Return the mixtures as the network sees them; if it learns, `state.x_power` follows, sample by sample.

    Rows after an overflow are infinite, which the loop reports.
    """
    if not learning:
        with np.errstate(all="ignore"):  # the loop reports what overflows
            return np.ascontiguousarray((X * gain(state.x_power)).astype(X.dtype))
    out = np.full(X.shape, np.inf, X.dtype)
    X = np.require(X, X.dtype, ["C", "W", "A"])
    arguments = X, state.x_power, int(state.t[0]), int(params.horizon), out
    if X.dtype not in _COMPILED:
        empty = X[:0], state.x_power, 0, 0, out[:0]
        _COMPILED[X.dtype] = compile_entry(scale_rows, empty, cache=True)
    with np.errstate(all="ignore"):
        _COMPILED[X.dtype](*arguments)
    return out
