"""Amari's distance of a matrix from a scaled permutation."""

import numpy as np
from numpy.typing import ArrayLike

from ._samples import Floats, validated


def amari_distance(P: ArrayLike) -> float:
    r"""How far P = W A, unmixing times mixing, is from a permutation of scaled sources.

    .. math:: \frac{1}{2d(d-1)} \left[ \sum_i \left( \sum_j \frac{|p_{ij}|}{\max_k |p_{ik}|} - 1 \right)
              + \sum_j \left( \sum_i \frac{|p_{ij}|}{\max_k |p_{kj}|} - 1 \right) \right]

    This is the index of Amari, Cichocki and Yang (1996) divided by its maximum 2d(d-1): 0 if and only if P has one nonzero
    entry in every row and every column, 1 if all entries are equally large. Permuting rows or columns, flipping signs,
    transposing P and scaling P as a whole do not change it. Scaling a single row does, except at 0: compare methods on
    outputs of one scale.

    Parameters
    ----------
    P : array-like of shape (n_sources, n_sources)
        `model.components_ @ A`.

    Returns
    -------
    float
        Between 0 and 1. A row of zeros (a dead output) or a column of zeros (a source that reaches no output) has no largest
        entry to divide by. It counts d - 1 before the normalisation, as if its entries were all equal. For d = 1 the distance
        is 0, or 1 if the one entry is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import amari_distance
    >>> amari_distance([[0.0, -3.0], [0.5, 0.0]])
    0.0
    >>> amari_distance(np.ones((4, 4)))
    1.0
    """
    P = np.abs(validated("P", P).astype(np.float64, copy=False))
    d = len(P)
    if P.shape[1] != d:
        raise ValueError(f"P has shape {P.shape} and must be square: pass W @ A, n_sources by n_sources")
    if d == 1:
        return float(P[0, 0] == 0)
    return (_crosstalk(P) + _crosstalk(P.T)) / (2 * d * (d - 1))


def _crosstalk(P: Floats) -> float:
    """Sum of all entries but the largest of each row, relative to it. Nothing is subtracted, which would round."""
    largest = P.max(axis=1, keepdims=True)
    ratio = np.divide(P, largest, out=np.ones_like(P), where=largest > 0)
    ratio[np.arange(len(P)), P.argmax(axis=1)] = 0
    return float(ratio.sum())
