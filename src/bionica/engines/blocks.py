"""Wide inputs (k >> d): a block of samples in few coordinates, run by the same loop.

A rule sees its input through inner products alone, so that it would not notice a rotation of the k inputs, and in B samples
it moves in B + 1 directions: those of V = [x_1; ...; x_B; x_bar]. In coordinates of these the block is the same network with
B + 1 inputs. Exactly, and almost all of the work is in products of large matrices:

    G = V V' + s I = C C'                      row i of C (lower triangular) has the coordinates of row i of V
    W~ = W V' C'^-1                            the weights in these coordinates
    the loop, on the rows of C, with W~
    W <- a W + (W~ - a W~_0) C^-1 V            and the mean of the input, and the averaged weights, likewise

What W has in other directions can only be multiplied: by 1 - eta where weights decay, by -1 where a silent neuron is flipped. One
more coordinate, in which W~ starts at 1 and every sample is 0, comes back as that factor a (and a second one, for what averaged
weights keep of their own past).

Nothing depends on the diagonal of G but the size of a sample in the guard `rate`: a sample meets its own trace in W nowhere. Rows
of V are scaled to norm 1 for the Cholesky factor, and s, which makes up for rounding, is 0 unless they depend on each other; then
it changes these sizes by 1e-12 (in single precision, by 1e-3 at most).

Weights that do not learn from the input (F of a natural network or of an offline whitening; all of them in `transform`) take a
block in one product, before the loop, which then finds the identity in their place.

The guards `row` and `spectrum` look at W_xy itself, every 100 samples: a block ends there, and they act on all k coordinates if a
Cholesky factor of W_xy W_xy' says that there is anything to do.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import get_blas_funcs

from ..networks import interneuron, two_compartment, whitening_layer
from ..networks import natural_input as natural
from ..networks.guards import EVERY, ROW_FLOOR, SPECTRUM_FLOOR

#: Where blocks pay: so many inputs at least, weights from them that no longer lie in cache, so many samples in a call
#: (measured: benchmarks/wide.py).
INPUTS, SYNAPSES, SAMPLES = 1000, 2**18, 8
#: A block has so many bytes at most (but 8 samples).
BLOCK_BYTES = 2**28

_FIXED = (natural.Input, whitening_layer.Fixed)
_LEARNED = {
    two_compartment.State: ("W_xz", "W_xz_mean"),
    interneuron.State: ("W_xy", "W_xy_mean"),
    whitening_layer.Learned: ("W_xh", None),
}


class Small(NamedTuple):
    """The network and its block in few coordinates; `back` takes what the network learned into the state that it came from."""

    state: Any
    X: np.ndarray
    back: Callable[[], None]


def rows(k: int, d: int, itemsize: int) -> int:
    """How many samples a block has: as many as neurons, but 32 to 128, and within the bytes of a block."""
    return max(SAMPLES, min(max(32, min(d, 128)), BLOCK_BYTES // (k * itemsize)))


def suits(state: Any, n: int, k: int) -> bool:
    """Whether n samples of k inputs are taken through this network in blocks."""
    known = isinstance(_input_side(state)[1], (*_FIXED, *_LEARNED))
    return known and k >= INPUTS and k * state.fired.size >= SYNAPSES and n >= SAMPLES


def cut(state: Any, n: int, size: int) -> Iterator[slice]:
    """Cut n samples into blocks, which end where guards look at all of the weights."""
    seen, start = int(state.t[0]), 0
    while start < n:
        stop = min(start + size, n, start + EVERY - (seen + start) % EVERY)
        yield slice(start, stop)
        start = stop


def unguarded(state: Any, params: Any) -> Any:
    """The parameters without the guards that look at weights from all inputs."""
    if not isinstance(state, interneuron.State):
        return params
    return params._replace(guards=params.guards._replace(row=False, spectrum=False))


def due(state: Any, params: Any) -> bool:
    """Whether these guards have anything to do after this sample."""
    guards = params.guards
    if not isinstance(state, interneuron.State) or state.t[0] % EVERY or not (guards.row or guards.spectrum):
        return False
    S = state.W_xy @ state.W_xy.T
    if guards.row and not (np.diag(S) >= ROW_FLOOR**2).all():
        return True
    others = state.W_yn.T @ state.W_yn, state.W_ny @ state.W_ny.T
    return bool(guards.spectrum) and not all(_exceeds(A, state.W_xy.shape[1], params.eps) for A in (S, *others))


def _exceeds(S, n, eps):
    """Whether all eigenvalues of S, sums of n products, are well above the floor of the guard `spectrum`."""
    bound = 4 * SPECTRUM_FLOOR**2 + 8 * eps * len(S) * n * np.diag(S).max()
    try:
        return bool(np.isfinite(np.linalg.cholesky(S - bound * np.eye(len(S)))).all())
    except np.linalg.LinAlgError:
        return False


def shrink(state: Any, X: np.ndarray, learning: bool) -> Small | None:
    """Return the network and the block X in few coordinates; None for one sample, or if squares leave the range of numbers."""
    name, side = _input_side(state)
    if isinstance(side, _FIXED):
        return _apply(state, name, side, "F", X)
    weights, mean = _LEARNED[type(side)]
    if not learning:
        return _apply(state, name, side, weights, X)
    return _rotate(state, name, side, weights, mean, X) if len(X) > 1 else None


def _input_side(state):
    """Return the part of a state that meets the input, and its name ('' for the state itself)."""
    for name in ("inp", "layer"):
        if hasattr(state, name):
            return name, getattr(state, name)
    return "", state


def _replace(state, name, side, **arrays):
    side = side._replace(**arrays)
    return state._replace(**{name: side}) if name else side


def _apply(state: Any, name: str, side: Any, weights: str, X: np.ndarray) -> Small:
    W = getattr(side, weights)
    small = _replace(state, name, side, **{weights: np.eye(len(W), dtype=W.dtype)})
    return Small(small, np.ascontiguousarray(X @ W.T), lambda: None)


def _rotate(state: Any, name: str, side: Any, weights: str, mean: str | None, X: np.ndarray) -> Small | None:
    W, x_bar = getattr(side, weights), side.x_bar
    W_mean = getattr(side, mean) if mean else W[:0]
    found = _coordinates(X, x_bar)
    if found is None:
        return None
    C, norm = found
    n, dtype = len(X), X.dtype

    def image(A):
        """A V' C'^-1, and room for the two factors."""
        inner = np.hstack([A @ X.T, (A @ x_bar)[:, np.newaxis]]) / norm
        return np.hstack([np.linalg.solve(C, inner.T).T, np.zeros((len(A), 2))])

    def combination(A):
        """A C^-1: vectors as combinations of the rows of V."""
        return (np.linalg.solve(C.T, A[:, :-2].T).T / norm).astype(dtype)

    before, before_mean = image(W), image(W_mean)
    before[:, -2] = 1
    before_mean[:, -1] = 1
    V = np.hstack([norm[:, np.newaxis] * C, np.zeros((n + 1, 2))]).astype(dtype)
    arrays = {weights: before.astype(dtype), "x_bar": V[n].copy()}
    if mean:
        arrays[mean] = before_mean.astype(dtype)

    def back():
        after, after_mean = arrays[weights].astype(np.float64), arrays.get(mean, before_mean).astype(np.float64)
        a, b, c = after[:, -2:-1], after_mean[:, -2:-1], after_mean[:, -1:]
        if len(W_mean):
            U = combination(after_mean - b * before - c * before_mean)
            _update(W_mean, c, U, X, x_bar)
            _add_rows(W_mean, b, W)
        _update(W, a, combination(after - a * before), X, x_bar)
        share = combination(arrays["x_bar"][np.newaxis].astype(np.float64))[0]
        x_bar[:] = share[:n] @ X + share[n] * x_bar

    return Small(_replace(state, name, side, **arrays), V[:n].copy(), back)


def _update(W, factor, U, X, x_bar):
    """W <- factor W + U V, in place: a second W may not fit."""
    gemm, ger = get_blas_funcs(("gemm", "ger"), (W,))
    common = float(np.abs(factor).max())  # a neuron's factor differs from the others' by its sign, if at all
    for i in np.flatnonzero(factor[:, 0] != common):
        W[i] *= factor[i, 0] / common if common else 0
    gemm(1, X.T, U[:, :-1].T.copy("F"), common, W.T, overwrite_c=1)
    ger(1, x_bar, U[:, -1].copy(), a=W.T, overwrite_a=1)


def _add_rows(A, factor, W):
    """A <- A + factor W, row by row."""
    for row, f, w in zip(A, factor.astype(A.dtype), W, strict=True):
        row += f * w


def _coordinates(X, x_bar):
    """C, lower triangular with rows of norm 1, and norms: norm C is a root of V V', V = [X; x_bar]; None if V is out of range."""
    n = len(X)
    G = np.empty((n + 1, n + 1))
    G[:n, :n] = X @ X.T
    G[n, :n] = G[:n, n] = X @ x_bar
    G[n, n] = x_bar @ x_bar
    norm = np.sqrt(np.diag(G))
    info = np.finfo(X.dtype)
    alive = norm > 0
    if not (np.isfinite(G).all() and (norm[alive] > info.tiny**0.4).all() and norm.max() < info.max**0.4):
        return None
    norm[~alive] = info.eps * (norm.max() or 1.0)
    G /= norm
    G /= norm[:, np.newaxis]
    enough = 32 * (n + 1) * float(info.eps)
    for shift in (0.0, enough, 1000 * enough):
        np.fill_diagonal(G, 1 + shift)
        try:
            C = np.linalg.cholesky(G)
        except np.linalg.LinAlgError:
            continue
        if shift or np.diag(C).min() ** 2 > enough:
            return C, norm
    return None
