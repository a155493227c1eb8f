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

Rules whose guards look at all weights from the input (`Rule.inspects_input`) do so every 100 samples: that sample is a block of its
own, taken through the network as it is.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import get_blas_funcs

from .guards import EVERY
from .rule import Rule

#: Where blocks pay: so many inputs at least, weights from them that no longer lie in cache, so many samples in a call
#: (measured: benchmarks/speed.py, growth).
INPUTS, SYNAPSES, SAMPLES = 1000, 2**18, 8
#: A block has so many bytes at most (but 8 samples).
BLOCK_BYTES = 2**28


class Reduced(NamedTuple):
    """The network and its block in few coordinates; `back` takes what the network learned into the state that it came from."""

    state: Any
    X: np.ndarray
    back: Callable[[], None]


def rows(k: int, d: int, itemsize: int) -> int:
    """How many samples a block has: as many as neurons, but 32 to 128, and within the bytes of a block."""
    return max(SAMPLES, min(max(32, min(d, 128)), BLOCK_BYTES // (k * itemsize)))


def suits(rule: Rule, state: Any, n: int, k: int) -> bool:
    """Whether n samples of k inputs are taken through this network in blocks."""
    declared = bool(rule.projection or rule.input_weights)
    return declared and k >= INPUTS and k * state.fired.size >= SYNAPSES and n >= SAMPLES


def run(
    rule: Rule,
    state: Any,
    params: Any,
    X: np.ndarray,
    rates: np.ndarray,
    Y: np.ndarray,
    run_rows: Callable[..., int],
) -> int:
    """Take X through the network in blocks, each by `run_rows`; returns the number of rows before an output left its range."""
    learning, keeping = len(rates) > 0, len(Y) > 0
    for part in _cut(int(state.t[0]), len(X), X.shape[1], state.fired.size, X.itemsize, rule.inspects_input):
        with np.errstate(all="ignore"):  # the status tells what overflows
            block = np.ascontiguousarray(X[part])  # products have other bits for other strides
            reduced = None
            if rule.projection or not learning:
                reduced = _apply(state, rule.projection or rule.input_weights, block)
            elif len(block) > 1:
                reduced = _rotate(rule, state, params, block)
            reduced = reduced or Reduced(state, np.array(block), lambda: None)
            part_rates, part_Y = rates[part] if learning else rates, Y[part] if keeping else Y
            done = run_rows(reduced.state, params, reduced.X, part_rates, part_Y)
            if done < len(reduced.X):
                return int(part.start) + done
            reduced.back()
    return len(X)


def _cut(seen: int, n: int, k: int, d: int, itemsize: int, last_alone: bool) -> Iterator[slice]:
    """Cut n samples into blocks of at most 100, of which the last one is alone if guards look at the weights from all inputs."""
    size, start = rows(k, d, itemsize), 0
    while start < n:
        left = EVERY - (seen + start) % EVERY
        stop = min(start + size, n, start + max(left - last_alone, 1))
        yield slice(start, stop)
        start = stop


def _get(state: Any, name: str) -> Any:
    return reduce(getattr, name.split("."), state)


def _replace(state: Any, **arrays: Any) -> Any:
    """Replace fields of a state; those of a part are named 'part.name'."""
    for name, array in arrays.items():
        part, _, field = name.rpartition(".")
        state = state._replace(**{part: getattr(state, part)._replace(**{field: array})} if part else {field: array})
    return state


def _apply(state: Any, weights: str, X: np.ndarray) -> Reduced:
    """Return the network behind weights that do not learn, and what they make of the block."""
    W = _get(state, weights)
    reduced = _replace(state, **{weights: np.eye(len(W), dtype=W.dtype)})
    return Reduced(reduced, np.ascontiguousarray(X @ W.T), lambda: None)


def _rotate(rule: Rule, state: Any, params: Any, X: np.ndarray) -> Reduced | None:
    """Return the network and the block X in coordinates of the block; None if squares overflow."""
    weights = rule.input_weights
    mean = rule.averages.get(weights) if getattr(params, "average", False) else None
    W, x_bar = _get(state, weights), _get(state, rule.input_mean)
    W_mean = _get(state, mean) if mean else W[:0]
    coordinates = _coordinates(X, x_bar)
    if coordinates is None:
        return None
    C, norm = coordinates
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
    arrays = {weights: before.astype(dtype), rule.input_mean: V[n].copy()}
    if mean:
        arrays[mean] = before_mean.astype(dtype)

    def back():
        after, after_mean = arrays[weights].astype(np.float64), arrays.get(mean, before_mean).astype(np.float64)
        a, b, c = after[:, -2:-1], after_mean[:, -2:-1], after_mean[:, -1:]
        if len(W_mean):
            U = combination(after_mean - b * before - c * before_mean)
            _update(W_mean, c, U, X, x_bar)
            for row, factor, w in zip(W_mean, b.astype(dtype), W, strict=True):
                row += factor * w
        _update(W, a, combination(after - a * before), X, x_bar)
        share = combination(arrays[rule.input_mean][np.newaxis].astype(np.float64))[0]
        x_bar[:] = share[:n] @ X + share[n] * x_bar

    return Reduced(_replace(state, **arrays), V[:n].copy(), back)


def _update(W, factor, U, X, x_bar):
    """W <- factor W + U V, in place: a second W may not fit."""
    gemm, ger = get_blas_funcs(("gemm", "ger"), (W,))
    common = float(np.abs(factor).max())  # a neuron's factor differs from the others' by its sign, if at all
    for i in np.flatnonzero(factor[:, 0] != common):
        W[i] *= factor[i, 0] / common if common else 0
    gemm(1, X.T, U[:, :-1].T.copy("F"), common, W.T, overwrite_c=1)
    ger(1, x_bar, U[:, -1].copy(), a=W.T, overwrite_a=1)


def _coordinates(X, x_bar):
    """C, lower triangular with rows of norm 1, and norms: norm C is a root of V V', V = [X; x_bar]; None if squares overflow."""
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
