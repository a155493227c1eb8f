"""Initial weights: drawn, or given by the user and checked."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def given_weights(init: Any, shapes: dict[str, tuple[int, int]], dtype: Any, owner: str) -> dict[str, Array]:
    """Return copies of the arrays in `init`, checked against `shapes`; nothing if `init` is no dict."""
    if not isinstance(init, dict):
        return {}
    given = {}
    for name, value in init.items():
        if name not in shapes:
            raise ValueError(f"init has no weights {name!r} to set; {owner} has {sorted(shapes)}")
        try:
            W = np.array(value, dtype=dtype, order="C")
        except (TypeError, ValueError) as error:
            raise ValueError(f"init[{name!r}] must be an array of numbers: {error}") from error
        if W.shape != shapes[name]:
            raise ValueError(f"init[{name!r}] has shape {W.shape}; for these mixtures it must be {shapes[name]}")
        if not np.isfinite(W).all():
            raise ValueError(f"init[{name!r}] holds NaN or infinity; give finite weights")
        given[name] = W
    return given


def positive_definite(W: Array, name: str) -> Array:
    """Return W if it is symmetric positive definite, else say so."""
    if not np.allclose(W, W.T, rtol=1e-6, atol=0) or not np.linalg.eigvalsh(W)[0] > 0:
        raise ValueError(f"init[{name!r}] must be symmetric positive definite; W @ W.T of any full-rank W is")
    return W


def orthonormal_rows(rng: np.random.RandomState, d: int, k: int, dtype: Any) -> Array:
    """Draw a d x k matrix (d <= k) with orthonormal rows, uniformly."""
    Q, R = np.linalg.qr(rng.standard_normal((k, d)))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T.astype(dtype))


def guard_seed(rng: np.random.RandomState) -> Array:
    """Draw the seed of the random numbers that guards use."""
    return np.array([rng.randint(1, 2147483562), rng.randint(1, 2147483398)], dtype=np.int64)
