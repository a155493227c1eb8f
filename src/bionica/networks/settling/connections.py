"""Lateral connections, as the exact solver sees them: the matrix M of the problem in `inverse`, and what it is made of.

`Direct` connections have M itself (W_zz, W_yy). `Through` interneurons M = W_yn' W_yn is not kept: one pass over W_yn gives M z
and the interneurons' n = W_yn z at once, and rows of M are made where they are few.
"""

from typing import NamedTuple

import numpy as np

from ..generic import cold, fma, generic, hot
from ..plasticity import dot


class Direct(NamedTuple):
    """M at hand."""

    M: np.ndarray


class Through(NamedTuple):
    """M = W_yn' W_yn; n gets W_yn z."""

    W_yn: np.ndarray
    n: np.ndarray
    M: np.ndarray  # scratch


@generic
def fewer(lateral, f, d):
    """Whether a problem over f firing neurons in M costs less than one over the d - f silent ones in its inverse."""


@generic
def make_rows(lateral, index, f):
    """lateral.M <- M in the rows of the first f numbers of `index`."""


@generic
def make_whole(lateral):
    """lateral.M <- M."""


@generic
def remain(lateral, z, c, w):
    """w <- c - M z."""


@generic
def largest(lateral):
    """The largest M_ii."""


@fewer.register(Direct)
def _fewer_direct(lateral, f, d):
    return 2 * f < d


@make_rows.register(Direct)
def _have_rows(lateral, index, f):
    pass


@make_whole.register(Direct)
def _have_whole(lateral):
    pass


@remain.register(Direct)
def _remain_direct(lateral, z, c, w):
    for i in range(c.shape[0]):
        w[i] = c[i] - dot(lateral.M, i, z)


@largest.register(Direct)
def _largest_direct(lateral):
    found = lateral.M.dtype.type(0)
    for i in range(lateral.M.shape[0]):
        found = max(found, lateral.M[i, i])
    return found


@fewer.register(Through)
def _fewer_through(lateral, f, d):
    return 6 * f * lateral.n.shape[0] * d < (d - f) * (d - f) * (d - f)


@make_rows.register(Through)
def _make_rows(lateral, index, f):
    multiply_rows(lateral.W_yn, index, f, lateral.M)


@make_whole.register(Through)
def _make_whole(lateral):
    multiply(lateral.W_yn.T, lateral.W_yn, lateral.M)


@remain.register(Through)
def _remain_through(lateral, z, c, w):
    there_and_back(lateral.W_yn, z, lateral.n, c, w)


@largest.register(Through)
def _largest_through(lateral):
    return largest_square(lateral.W_yn)


@hot
def there_and_back(W, z, n, c, w):
    """n <- W z and w <- c - W' n."""
    d = c.shape[0]
    for i in range(d):
        w[i] = c[i]
    for p in range(n.shape[0]):
        n[p] = dot(W, p, z)
        for i in range(d):
            w[i] = fma(-W[p, i], n[p], w[i])


@hot
def largest_square(W):
    """The largest sum of squares of a column."""
    found = W.dtype.type(0)
    for i in range(W.shape[1]):
        s = W.dtype.type(0)
        for p in range(W.shape[0]):
            s = fma(W[p, i], W[p, i], s)
        found = max(found, s)
    return found


@cold
def multiply(W_ny, W_yn, M):
    """M <- W_ny W_yn."""
    for i in range(M.shape[0]):
        _row_of_product(W_ny, W_yn, i, M)


@cold
def multiply_rows(W, index, f, M):
    """M <- W' W in the rows of the first f numbers of `index`."""
    for a in range(f):
        _row_of_product(W.T, W, index[a], M)


@hot
def _row_of_product(A, B, i, M):
    for j in range(M.shape[1]):
        M[i, j] = 0
    for p in range(B.shape[0]):
        a = A[i, p]
        for j in range(M.shape[1]):
            M[i, j] = fma(a, B[p, j], M[i, j])
