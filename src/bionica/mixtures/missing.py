"""Missing values: what the model x = A s + noise says of the NaN of X.

With o the channels that a sample has, EM for s ~ N(0, I), not centred, and noise N(0,
sigma^2):

    C = (A_o' A_o + sigma^2 I)^{-1}                            (1)
    s = C A_o' x_o                                             (2)
    a_j = (sum_t s s' + sigma^2 C)^{-1} sum_t s x_j            (3)
    sigma^2 = <(x_j - a_j' s)^2 + sigma^2 a_j' C a_j>          (4)

(1) and (2) are of each sample, (3) is row j of A, over the samples that have channel j,
and (4) is an average over all cells that are there.

A missing cell becomes a_j' s, plus noise as large as the residual of its channel.
Without this noise spectra are as accurate, but the noise of the outputs is found 7 to
14 % too low where 30 % of the cells are missing (`benchmarks/missing.py`).
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.linalg import inv, solve, svd

from bionica.core.blocks import Array, cell, row_blocks, row_sample
from bionica.core.dask import DaskRows
from bionica.core.errors import Message
from bionica.core.samples import warn

_ITERATIONS = 500
# of sigma: the root mean square change of a predicted cell in the last iteration
_SETTLED = 1e-3
_EXACT = 1e-12  # smallest sigma^2, of the mean square of X
_HIDDEN = 0.05  # share of the cells that `predicted_rank` hides


def has_missing(X: Array) -> bool:
    """Whether X holds NaN; without an array of its size."""
    return np.isnan(X.min())


def _products(there: Array, A: Array, B: Array) -> Array:
    """The sum of a_j b_j' over the channels j that each sample has, (n, d, d)."""
    d = A.shape[1]
    products = (A[:, :, None] * B[:, None, :]).reshape(-1, d * d)
    return (there @ products).reshape(-1, d, d)


def _scores(Z: Array, there: Array, A: Array, noise: float) -> tuple[Array, Array]:
    """Eqs. (1) and (2) for the rows of Z, which is 0 where a cell is missing: s (n, d)
    and C (n, d, d).
    """
    C = inv(_products(there, A, A) + noise * np.eye(A.shape[1]))
    return np.einsum("tij,tj->ti", C, Z @ A), C


def _low_rank(X: Array, d: int) -> tuple[Array, Array, float]:
    """A (k, d), the root mean square of the residual of each channel (k,), and sigma^2,
    by EM.
    """
    there = ~np.isnan(X)
    n_there = there.sum(axis=0)
    m = there.astype(float)
    Z = np.where(there, X, 0.0).astype(float)
    filled = np.where(there, Z, Z.sum(axis=0) / n_there)
    _, values, V = svd(filled, full_matrices=False)
    floor = _EXACT * np.sum(Z**2) / m.sum()
    A = V[:d].T * (values[:d] / np.sqrt(len(X)))
    noise = max(np.sum(values[d:] ** 2) / X.size, floor)
    before: Any = np.inf
    for _ in range(_ITERATIONS):
        s, C = _scores(Z, m, A, noise)
        second = (s[:, :, None] * s[:, None, :] + noise * C).reshape(-1, d * d)
        second = (m.T @ second).reshape(-1, d, d)
        A = solve(second, (Z.T @ s)[:, :, None])[:, :, 0]
        predicted = s @ A.T
        squares = np.sum((m * (Z - predicted)) ** 2, axis=0)
        # sum of a_j' C a_j, by eq. (1)
        spread = len(X) * d - noise * np.einsum("tii->", C)
        noise = max((squares.sum() + noise * spread) / m.sum(), floor)
        change = ((predicted - before) ** 2).mean()
        if np.sqrt(change) < _SETTLED * np.sqrt(noise):
            break
        before = predicted
    return A, np.sqrt(squares / n_there), noise


def _predicted(X: Array, A: Array, noise: float) -> Array:
    """a_j' s for every cell of X."""
    there = ~np.isnan(X)
    return _scores(np.where(there, X, 0.0), there.astype(float), A, noise)[0] @ A.T


def completed(X: Array, d: int) -> Array:
    """A copy of X with its NaN replaced, by d directions. Each row and each column must
    hold a number.

    Of many rows, A is found on a sample. Values are not below 0 if X has none there.
    """
    A, residual, noise = _low_rank(X[row_sample(*X.shape)], d)
    rng = np.random.RandomState(0)
    least = np.nanmin(X)
    X = X.copy()
    for rows in row_blocks(*X.shape):
        block = X[rows]
        t = np.flatnonzero(np.isnan(block).any(axis=1))
        x = block[t].astype(float)
        guess = _predicted(x, A, noise) + residual * rng.standard_normal(x.shape)
        if least >= 0:
            guess = np.maximum(guess, 0)
        block[t] = np.where(np.isnan(x), guess, x)
    return X


def predicted_rank(X: Array, most: int = 12) -> int:
    """The number of directions, at most `most`, above which hidden cells are not
    predicted better by 1 %.
    """
    X = X[row_sample(*X.shape)]
    hidden = ~np.isnan(X) & (np.random.RandomState(0).random_sample(X.shape) < _HIDDEN)
    best = 1
    least = np.inf
    for d in range(1, min(most, *X.shape) + 1):
        known = np.where(hidden, np.nan, X)
        A, _, noise = _low_rank(known, d)
        error = np.sum((_predicted(known, A, noise) - X)[hidden] ** 2)
        if error < 0.99 * least:
            best = d
            least = error
        elif d == best + 2:
            break
    return best


def _solvers(X: Array, W: Array, A: Array) -> Iterator[tuple[Array, Array, Array]]:
    """For blocks of rows: the numbers of those that determine y, which of their cells
    are there, and W_o A_o (n, d, d).
    """
    k, d = A.shape
    for rows in row_blocks(*X.shape):
        there = ~np.isnan(X[rows])
        P = _products(there.astype(float), W.T, A)
        values = svd(P, compute_uv=False)
        known = values[:, -1] > k * np.finfo(np.float64).eps * values[:, 0]
        known &= there.sum(axis=1) >= d
        yield np.arange(len(X))[rows][known], there[known], P[known]


def outputs(X: Array, W: Array, A: Array) -> Array:
    """W x for rows with missing values: (W_o A_o)^{-1} W_o x_o, which is W x if x = A
    s, or if nothing is missing.

    It solves y = W x for the x whose missing cells are those of A y. Rows that do not
    determine y (fewer numbers than outputs, or dependent ones) are NaN.
    """
    Y = np.full((len(X), len(W)), np.nan)
    for rows, there, P in _solvers(X, W, A):
        Wx = np.where(there, X[rows], 0.0) @ W.T
        Y[rows] = solve(P, Wx[:, :, None])[:, :, 0]
    return Y


def noise_of_outputs(X: Array, W: Array, A: Array) -> Array:
    """The standard deviation of the noise of `outputs` for the rows of X, (d,): a
    sample without its best channels has more.

    The noise of a channel is the residual of its cells, as far as the d outputs leave
    it. With few channels they leave little, and the noise is found too small: by 37 %
    for two outputs of five channels with unequal noise, by 1 % of twenty.
    """
    residual = X - outputs(X, W, A) @ A.T
    left = np.maximum(1 - np.clip(np.einsum("kd,dk->k", A, W), 0, 1), 0.05)
    channels = np.nan_to_num(np.nanmean(residual**2, axis=0)) / left
    total = np.zeros(len(W))
    n = 0
    for rows, there, P in _solvers(X, W, A):
        B = solve(P, W * there[:, None, :])
        total += (B**2 @ channels).sum(axis=0)
        n += len(rows)
    return np.sqrt(total / max(n, 1))


def completed_rows(owner: Any, X: Any, n_components: Any) -> Any:
    """X with its missing values estimated, by `n_components` directions; rows with
    fewer numbers are left out, with a warning.
    """
    if isinstance(X, DaskRows) or not has_missing(X):
        return X
    auto = n_components == "auto"
    counts = (~np.isnan(X)).sum(axis=1)
    short = counts < (1 if auto else n_components)
    if short.any():
        fewer = "no number"
        if not auto:
            fewer = Message("fewer numbers than {n_components:={}}", n_components)
        template = "{}: left out of X, because they have {}: {} sample(s)."
        warn(Message(template, type(owner).__name__, fewer, short.sum()), UserWarning)
        X = X[~short]
        if len(X) and not has_missing(X):
            return X
    if not len(X):
        raise ValueError("X holds no number: leave this mixture out")
    empty = np.isnan(X).all(axis=0)
    if empty.any():
        where = cell(owner, ":", int(np.argmax(empty)))
        raise ValueError(f"{where} holds no number: leave this mixture out")
    d = predicted_rank(X) if auto else min(n_components, *X.shape)
    return completed(X, d)
