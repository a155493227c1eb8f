"""What nonnegativity leaves open: how far sources and spectra can be sheared into each other and stay nonnegative.

With x = sum_i a_i y_i, the shear of source i by source j,

    y_i -> y_i - t y_j,      a_j -> a_j + t a_i,                                                                           (1)

leaves x as it is. It is allowed as long as y_i and a_j stay nonnegative, but for their errors s and e (the walls of both sides):

    -min over channels of (a_j + 2 e_j) / a_i  <=  t  <=  min over samples of (y_i + 2 s_i) / y_j.                         (2)

A band adds up what each of these shears changes. Where sources touch zero, and spectra are zero where others are not, the bands are
as narrow as the errors: s of the noise of the outputs, and e of least squares. They are part of what MCR-BANDS (Jaumot and Tauler
2010) finds by constrained optimisation.

A wide band alone does not make a fit wrong. Of all cones that (2) allows, the smallest is the right one if samples are spread over
its facets. Samples that follow a curve are not (`halves.follows_curve`).
"""

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Bands(NamedTuple):
    """Range of what nonnegativity allows, for X that is nonnegative.

    Attributes
    ----------
    low, high : ndarray of shape (n_components,)
        Smallest and largest share of the signal that each source may have.
    mixing_low, mixing_high : ndarray of shape (n_features, n_components)
        Range of each channel of the spectra, scaled as the solution is.
    sources : ndarray of shape (n_components,)
        By how much each output changes, in its standard deviations: root mean square over samples and over shears, if all that
        are allowed are as likely.
    """

    low: Array
    high: Array
    mixing_low: Array
    mixing_high: Array
    sources: Array

    @property
    def width(self) -> Array:
        """Largest width of the band of each spectrum, over the largest value of the band."""
        return np.asarray(
            (self.mixing_high - self.mixing_low).max(axis=0) / np.maximum(self.mixing_high.max(axis=0), 1e-300)
        )


def bands(X: Array, W: Array, A: Array, source_error: Array, n_known: int = 0) -> Bands:
    """Bands of components W (d, k) and spectra A (k, d) on samples X (n, k). `source_error` (d,) is the noise of the outputs.

    The first `n_known` spectra are given, and stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.5], [0.5, 1.0]])   # no sample without a source: half of each may be the other
    >>> bands(X, np.eye(2), np.eye(2), np.zeros(2)).mixing_high.round(2)
    array([[1.  , 0.45],
           [0.45, 1.  ]])
    """
    U = X @ W.T
    residual = np.sqrt(np.mean((X - U @ A.T) ** 2, axis=0))
    mixing_error = np.outer(residual, np.sqrt(np.maximum(np.diag(np.linalg.pinv(U.T @ U)), 0)))  # of least squares
    Y, A = np.maximum(U, 0), np.maximum(A, 0)
    size, norm = np.linalg.norm(Y, axis=0), np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    shares = [size * norm]
    low, high, moved = A.copy(), A.copy(), np.zeros(len(W))
    for i, j in permutations(range(len(W)), 2):
        if j < n_known:
            continue
        first = -_largest_shear(A[:, j] + 2 * mixing_error[:, j], A[:, i])
        last = _largest_shear(Y[:, i] + 2 * source_error[i], Y[:, j])
        moved[i] += (first**2 + first * last + last**2) / 3 * Y[:, j].var()  # if t is uniform between them
        for t in (first, last):
            spectrum, share = np.maximum(A[:, j] + t * A[:, i], 0), shares[0].copy()
            length = max(float(np.linalg.norm(spectrum)), 0.1 * norm[j])  # some of every spectrum remains
            share[i], share[j] = np.linalg.norm(Y[:, i] - t * Y[:, j]) * norm[i], size[j] * length
            shares.append(share)
            change = spectrum * norm[j] / length - A[:, j]
            low[:, j] += np.minimum(change, 0)
            high[:, j] += np.maximum(change, 0)
    share = np.array(shares) / max(float(shares[0].sum()), 1e-300)
    return Bands(
        share.min(axis=0),
        share.max(axis=0),
        np.maximum(low, 0),
        high,
        np.sqrt(moved / np.maximum(Y.var(axis=0), 1e-300)),
    )


def _largest_shear(wall: Array, taken: Array) -> float:
    """The largest t with wall >= t taken; 0 if nothing is taken."""
    where = taken > 1e-9 * taken.max(initial=0.0)
    return float(np.min(wall[where] / taken[where])) if where.any() else 0.0
