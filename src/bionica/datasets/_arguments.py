"""Validation of the arguments that the generators share."""

import operator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Rng = int | np.integer[Any] | np.random.Generator | None
Sources = NDArray[np.floating[Any]]


def generator_of(rng: Rng) -> np.random.Generator:
    """Return the Generator that `rng` stands for."""
    if rng is None or isinstance(rng, np.random.Generator):
        return np.random.default_rng(rng)
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool) and rng >= 0:
        return np.random.default_rng(int(rng))
    raise ValueError(f"rng={rng!r}: pass None, an integer >= 0 or a numpy.random.Generator")


def float_dtype(dtype: DTypeLike) -> np.dtype[np.floating[Any]]:
    """Return float64 or float32, or raise ValueError."""
    for result in (np.dtype(np.float64), np.dtype(np.float32)):
        if np.dtype(dtype) == result:
            return result
    raise ValueError(f"dtype={dtype!r}: use numpy.float64 or numpy.float32")


def positive_int(name: str, value: int) -> int:
    """Return a positive integer, or raise ValueError."""
    try:
        count = operator.index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise ValueError(f"{name}={value!r}: pass a positive integer")
    return count
