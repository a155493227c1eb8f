"""Initial weights, and which network a state belongs to."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def rule_of(state: Any) -> Any:
    """Return the module of `bionica.networks` that a state belongs to."""
    return sys.modules[type(state).__module__]


def orthonormal_rows(rng: np.random.RandomState, d: int, k: int, dtype: Any) -> Array:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T.astype(dtype))


def guard_seed(rng: np.random.RandomState) -> Array:
    """Draw the seed of the random numbers that guards use."""
    return np.array([rng.randint(1, 2147483562), rng.randint(1, 2147483398)], dtype=np.int64)


def positive_definite(W: Array, name: str) -> Array:
    """Return W if it is symmetric positive definite, else say so."""
    if not np.allclose(W, W.T, rtol=1e-6, atol=0) or not np.linalg.eigvalsh(W)[0] > 0:
        raise ValueError(f"init[{name!r}] must be symmetric positive definite; W @ W.T of any full-rank W is")
    return W
