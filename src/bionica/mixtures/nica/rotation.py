"""The rotation of whitened data into the nonnegative orthant (section 2.1 of the paper;
Plumbley 2003).

Given z = F x with unit covariance and its mean, find the orthogonal R that minimises
the energy outside the nonnegative orthant:

    J(R) = <|min(R z, 0)|^2> / 2,       R R' = I

With y = R z and n = min(y, 0), moving along R <- exp(E) R with E' = -E changes J by <G,
E>, where G = <n y'>. So the gradient on the group is the skew part of G, and J = tr(G)
/ 2: one pass over the data and two matrix products give both. J is nearly flat at the
solution for sources without an atom at zero (it grows with the cube of the angle), so
that the plain alternation Y = max(Z R', 0), R = polar(Y'Z) needs thousands of passes;
L-BFGS on the group needs 20 to 150.
"""

import operator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from bionica.core.blocks import Array, ChunkedRows, fold, row_blocks, row_sample
from bionica.mixtures.nica.lbfgs import Minimum, minimise

_TOL = 0.03  # times n_samples ** -0.5, about the statistical error of the best rotation
_START_TOL = 1e-4  # of the descents on subsets
_AGREE = 1.05  # two starts within 5 % of each other are equally good


class Rotation(NamedTuple):
    """The result of `rotate`: R (d, d) and J on all rows.

    `n_iter` counts the iterations of the winning start and of the descents that
    continued it; `converged` says whether the last met `tol`; `confirmed` says whether
    two of `n_starts` starts ended at the best J; `ambiguity` is the `disagreement` of
    these two after both descended on all rows.
    """

    R: Array
    objective: float
    n_iter: int
    converged: bool
    n_starts: int
    confirmed: bool
    ambiguity: float


def value_and_gradient(Z: Array | ChunkedRows, R: Array) -> tuple[float, Array]:
    """J(R) and its gradient on the orthogonal group, a skew-symmetric matrix."""
    G = fold(Z, _products, operator.add, R) / Z.shape[0]
    return 0.5 * float(np.trace(G)), 0.5 * (G - G.T)


def _products(Z: Array, R: Array) -> Array:
    """The sum of n y' over the rows of a block."""
    right = np.ascontiguousarray(R.T, dtype=Z.dtype)
    G = np.zeros(R.shape)
    for rows in row_blocks(len(Z), len(R), Z.itemsize):
        y = Z[rows] @ right
        G += np.minimum(y, 0).T @ y
    return G


def descend(
    Z: Array | ChunkedRows, R: Array, *, tol: float = 1e-5, max_iter: int = 500
) -> Minimum:
    """Minimise J from the orthogonal R; Z is whitened, its mean included.

    The descent ends when the next step would rotate no pair of outputs by more than
    `tol` radians, or after `max_iter` steps.
    """
    end = minimise(
        partial(value_and_gradient, Z), R, tol=tol, max_iter=max_iter, retract=_cayley
    )
    # without accumulated rounding
    return end._replace(x=linalg.polar(end.x)[0])


def _cayley(R: Array, E: Array) -> Array:
    """(I - E/2)^{-1} (I + E/2) R: orthogonal, and exp(E) R to second order."""
    identity = np.eye(len(E))
    return np.linalg.solve(identity - E / 2, identity + E / 2) @ R


def disagreement(R1: Array, R2: Array) -> float:
    """How far two rotations are from giving the same sources: 0 if they differ by a
    permutation, at most 1.
    """
    return max(0.0, 1.0 - float(np.mean(np.max((R1 @ R2.T) ** 2, axis=1))))


def rotate(
    Z: Array | ChunkedRows,
    *,
    tol: float | None = None,
    max_iter: int = 500,
    n_init: int = 10,
    rng: np.random.RandomState,
) -> Rotation:
    """The rotation of Z into the nonnegative orthant, with as many starts as needed to
    trust it.

    Random starts run on a random subset of max(2000, 100 d) rows until the best J was
    reached twice, at most `n_init`. The best continues on a larger subset (sizes are 1
    : r : r^2, at most 16 MB), then on all rows, and so does one that ends at the same J
    at another rotation. The smaller subset is drawn from the larger: Z is read once for
    both.

    Z (n_samples, d) is whitened, its mean included. `tol` is that of the last descent
    (see `descend`), by default 0.03 / sqrt(n_samples), a small part of the statistical
    error; `max_iter` is that of each descent.
    """
    T, d = Z.shape
    tol = _TOL / np.sqrt(T) if tol is None else tol
    resolution = d * _START_TOL**2  # by how much the J of a start may be off
    few = max(2000, 100 * d)
    many = max(few, min(round(np.sqrt(few * T)), 2**21 // d))
    larger = _random_rows(Z, many, rng)[:]
    subset = _random_rows(larger, few, rng)
    starts, confirmed = _starts(subset, resolution, max_iter, n_init, rng)

    best = starts[0]
    equal = [start for start in starts if _as_good(start, best, resolution)]
    rival = max(equal, key=lambda start: disagreement(best.x, start.x))
    rivals = [best]
    if disagreement(best.x, rival.x) > 1e-2:
        rivals.append(rival)

    stages = [(Z, tol)]
    if len(subset) < len(larger) < T:
        stages.insert(0, (larger, _START_TOL))
    for rows, accuracy in stages:
        for i, old in enumerate(rivals):
            end = descend(rows, old.x, tol=accuracy, max_iter=max_iter)
            rivals[i] = end._replace(n_iter=old.n_iter + end.n_iter)

    best = min(rivals, key=lambda end: end.value)
    # A rival that is worse on all rows does not make the result ambiguous.
    ambiguity = max(
        disagreement(best.x, end.x) for end in rivals if _as_good(end, best, resolution)
    )
    return Rotation(
        R=best.x,
        objective=best.value,
        n_iter=best.n_iter,
        converged=best.converged,
        n_starts=len(starts),
        confirmed=confirmed or d == 1,
        ambiguity=ambiguity,
    )


def _starts(
    subset: Array,
    resolution: float,
    max_iter: int,
    n_init: int,
    rng: np.random.RandomState,
) -> tuple[list[Minimum], bool]:
    """Where descents from random starts end, the best first; whether two agree."""
    d = subset.shape[1]
    if d == 1:
        sign = np.sign(subset.sum(keepdims=True, axis=0, dtype=float))
        return [descend(subset, sign, tol=_START_TOL, max_iter=max_iter)], False
    starts: list[Minimum] = []
    confirmed = False
    # If nothing is negative, other rotations may be as nonnegative, and only other
    # starts can show them.
    while len(starts) < n_init and not (confirmed and starts[0].value > resolution):
        start = np.linalg.qr(rng.standard_normal((d, d)))[0]
        starts.append(descend(subset, start, tol=_START_TOL, max_iter=max_iter))
        starts.sort(key=lambda end: end.value)
        confirmed = len(starts) > 1 and _as_good(starts[1], starts[0], resolution)
    return starts, confirmed


def _as_good(end: Minimum, best: Minimum, resolution: float) -> bool:
    return end.value <= _AGREE * best.value + resolution


def _random_rows(Z: Any, size: int, rng: np.random.RandomState) -> Any:
    """A sample of `size` rows of Z, or Z itself if that would save little."""
    if 3 * size >= Z.shape[0]:
        return Z
    numbers = size * Z.shape[1]
    seed = rng.randint(2**31 - 1)
    return Z[row_sample(*Z.shape, most=size, numbers=numbers, seed=seed)]
