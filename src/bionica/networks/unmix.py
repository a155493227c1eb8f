"""Linear algebra that also answers for a collapsed network: weights that are zero, singular or huge.

For all others these are `numpy.linalg.solve` and `numpy.linalg.pinv`, with the same bits. A singular system gets its least-squares
solution of smallest norm: outputs that nothing determines are zero. A number beyond the range of the dtype becomes the largest.
"""

import numpy as np


def solve_lateral(M: np.ndarray, W: np.ndarray) -> np.ndarray:
    """M^-1 W, what a network with lateral weights M does to its input while every neuron fires."""
    with np.errstate(all="ignore"):
        try:
            V = np.linalg.solve(M, W)
        except np.linalg.LinAlgError:
            V = np.full(W.shape, np.nan)
        if np.isfinite(V).all():
            return np.asarray(V)
        return finite((pseudoinverse(M.astype(np.float64)) @ W).astype(W.dtype))


def pseudoinverse(A: np.ndarray) -> np.ndarray:
    """The pseudoinverse of A."""
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.pinv(A)
        except np.linalg.LinAlgError:
            inverse = np.full(A.T.shape, np.nan)
        if np.isfinite(inverse).all():
            return np.asarray(inverse)
        A = finite(A.astype(np.float64))
        size = 2.0 ** np.round(np.log2(max(float(np.abs(A).max()), np.finfo(np.float64).tiny)))
        return finite((np.linalg.pinv(A / size) / size).astype(inverse.dtype))


def finite(A: np.ndarray) -> np.ndarray:
    """A with 0 for NaN, and the largest numbers of its dtype for what is infinite."""
    return A if np.isfinite(A).all() else np.nan_to_num(A)
