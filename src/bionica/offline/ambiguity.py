"""What nonnegativity leaves open: how far sources and spectra can be sheared into each other and stay nonnegative.

With x = sum_i a_i y_i, the shear of source i by source j,

    y_i -> y_i - t y_j,      a_j -> a_j + t a_i,                                                                           (1)

leaves x as it is. It is allowed as long as y_i and a_j stay nonnegative, but for their errors s and e (the walls of both sides):

    -min over channels of (a_j + e_j) / a_i  <=  t  <=  min over samples of (y_i + s_i) / y_j.                             (2)

The bands hold the curves of random compositions of such shears, from the solution outwards. They are part of what MCR-BANDS (Jaumot
and Tauler 2010) finds by constrained optimisation. Where sources touch zero in samples in which the others vary, and spectra are
zero where others are not, the bands are as narrow as the errors: s of the noise of the outputs, and e of least squares.

A wide band alone does not make a fit wrong: the smallest cone is the right one if its facets are touched by samples in which all
other sources vary (`support`).
"""

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


_SUPPORTED = 0.12  # 2 % of random nonnegative mixtures have less; kinetics that are ambiguous 0.08
_SHEARS = 240  # in walks from the solution, in which each pair is sheared once; five walks at least
_TOUCHING = 0.02  # standard deviations of a source, beyond its error, in which a sample touches its facet


class Bands(NamedTuple):
    """Range of what nonnegativity allows, for X that is nonnegative.

    Attributes
    ----------
    low, high : ndarray of shape (n_components,)
        Smallest and largest share of the signal that each source may have.
    mixing_low, mixing_high : ndarray of shape (n_features, n_components)
        Range of each channel of the spectra, scaled as the solution is.
    sources : ndarray of shape (n_components,)
        By how much each output changes: root mean square over samples and compositions.
    support : ndarray of shape (n_components,)
        How far the other sources vary independently in samples without this one: smallest eigenvalue of their second moment
        there, with unit energy over all samples. 0 if nothing tells where its facet lies.
    """

    low: Array
    high: Array
    mixing_low: Array
    mixing_high: Array
    sources: Array
    support: Array

    @property
    def width(self) -> Array:
        """Largest width of the band of each spectrum, over the largest value of the band."""
        return np.asarray(
            (self.mixing_high - self.mixing_low).max(axis=0) / np.maximum(self.mixing_high.max(axis=0), 1e-300)
        )

    @property
    def supported(self) -> bool:
        """Whether all facets are touched by samples in which the other sources vary."""
        return bool(self.support.min() > _SUPPORTED)


def bands(X: Array, W: Array, A: Array, source_error: Array) -> Bands:
    """Bands of components W (d, k) and spectra A (k, d) on samples X (n, k). `source_error` (d,) is the noise of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.5], [0.5, 1.0]])   # no sample without a source: half of each may be the other
    >>> found = bands(X, np.eye(2), np.eye(2), np.zeros(2))
    >>> found.mixing_high.max(axis=0)
    array([1., 1.])
    >>> bool(found.mixing_high[1, 0] > 0.4)
    True
    """
    d = A.shape[1]
    U = X @ W.T
    residual = np.sqrt(np.mean((X - U @ A.T) ** 2, axis=0))
    mixing_error = np.outer(residual, np.sqrt(np.maximum(np.diag(np.linalg.pinv(U.T @ U)), 0)))  # of least squares
    Y, A = np.maximum(U, 0), np.maximum(A, 0)
    norm = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    total = max(float(np.linalg.norm(Y, axis=0) @ norm), 1e-300)
    support = np.array([_support(Y, i, source_error[i]) for i in range(d)])
    moved = np.zeros(d)
    shares, low, high = [np.linalg.norm(Y, axis=0) * norm / total], A.copy(), A.copy()
    rng, pairs = np.random.RandomState(0), list(permutations(range(d), 2))
    n_walks = max(_SHEARS // max(len(pairs), 1), 5)
    for _ in range(n_walks):
        Z, B = Y.copy(), A.copy()
        for i, j in (pairs[p] for p in rng.permutation(len(pairs))):
            most = 0.9 * norm[j] / norm[i]
            first = -min(_largest_shear(B[:, j] + 2 * mixing_error[:, j], B[:, i]), most)
            last = min(_largest_shear(Z[:, i] + 2 * source_error[i], Z[:, j]), most)
            t = first + (last - first) * np.clip(2 * rng.random_sample() - 0.5, 0, 1)  # half of the steps end at a wall
            Z[:, i] -= t * Z[:, j]
            spectrum = B[:, j] + t * B[:, i]
            length = max(float(np.linalg.norm(spectrum)) / norm[j], 0.1)
            B[:, j], Z[:, j] = spectrum / length, Z[:, j] * length
            low[:, j], high[:, j] = np.minimum(low[:, j], B[:, j]), np.maximum(high[:, j], B[:, j])
        shares.append(np.linalg.norm(Z, axis=0) * norm / total)
        scale = np.linalg.norm(Y, axis=0) / np.maximum(np.linalg.norm(Z, axis=0), 1e-300)
        moved += np.mean((Z * scale - Y) ** 2, axis=0) / n_walks
    return Bands(np.min(shares, axis=0), np.max(shares, axis=0), np.maximum(low, 0), high, np.sqrt(moved), support)


def _support(Y: Array, i: int, error: float) -> float:
    touching = Y[:, i] <= 2 * error + _TOUCHING * Y[:, i].std()
    others = np.delete(Y, i, axis=1)
    if not touching.any() or not others.size:
        return 0.0 if others.size else 1.0
    Z = others[touching] / np.maximum(np.sqrt(np.mean(others**2, axis=0)), 1e-300)
    return float(np.linalg.eigvalsh(Z.T @ Z / len(Z))[0])


def _largest_shear(wall: Array, taken: Array) -> float:
    """The largest t with wall >= t taken; 0 if nothing is taken."""
    where = taken > 1e-9 * taken.max(initial=0.0)
    return float(np.min(wall[where] / taken[where], initial=1e9)) if where.any() else 0.0
