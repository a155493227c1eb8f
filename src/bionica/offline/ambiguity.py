"""What nonnegativity leaves open: how far sources and spectra can be sheared into each other and stay nonnegative.

With x = sum_i a_i y_i, the shear of source i by source j,

    y_i -> y_i - t y_j,      a_j -> a_j + t a_i,                                                                           (1)

leaves x as it is. It is allowed as long as y_i and a_j stay nonnegative, but for their errors s and e (the walls of both sides):

    -min over channels of (a_j + e_j) / a_i  <=  t  <=  min over samples of (y_i + s_i) / y_j.                             (2)

The bands hold the curves of all pairs (i, j), each sheared to both ends, from the solution outwards. They are part of what
MCR-BANDS (Jaumot and Tauler 2010) finds by constrained optimisation over all shears together, in closed form. Where sources
touch zero in samples in which the others vary, and spectra are zero where others are not, the bands are as narrow as the errors.

A wide band alone does not make a fit wrong: the smallest cone is the right one if its facets are touched by samples in which all
other sources vary (`support`).
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


_SUPPORTED = 0.1  # 2 % of random nonnegative mixtures have less; kinetics that are ambiguous 0.08
_TOUCHING = 0.02  # standard deviations of a source, beyond its error, in which a sample touches its facet


class Bands(NamedTuple):
    """Range of what nonnegativity allows, for X that is nonnegative.

    Attributes
    ----------
    low, high : ndarray of shape (n_components,)
        Smallest and largest share of the signal that each source may have.
    mixing_low, mixing_high : ndarray of shape (n_features, n_components)
        Range of each channel of the spectra, scaled as the solution is.
    support : ndarray of shape (n_components,)
        How far the other sources vary independently in samples without this one: smallest eigenvalue of their second moment
        there, with unit energy over all samples. 0 if nothing tells where its facet lies.
    """

    low: Array
    high: Array
    mixing_low: Array
    mixing_high: Array
    support: Array

    @property
    def width(self) -> Array:
        """Largest width of the band of each spectrum, over the largest value of the band."""
        return np.asarray((self.mixing_high - self.mixing_low).max(axis=0) / np.maximum(self.mixing_high.max(axis=0), 1e-300))

    @property
    def supported(self) -> bool:
        """Whether all facets are touched by samples in which the other sources vary."""
        return bool(self.support.min() > _SUPPORTED)


def bands(Y: Array, A: Array, source_error: Array, mixing_error: Array) -> Bands:
    """Bands for outputs Y (n, d) and spectra A (k, d), with standard errors (d,) and (k, d).

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.array([[1.0, 0.5], [0.5, 1.0]])   # no sample without a source: half of each may be the other
    >>> found = bands(Y, np.eye(2), np.zeros(2), np.zeros((2, 2)))
    >>> found.mixing_high.max(axis=0)
    array([1., 1.])
    >>> bool(found.mixing_high[1, 0] > 0.4)
    True
    """
    d = A.shape[1]
    Y, A = np.maximum(Y, 0), np.maximum(A, 0)
    size = np.sqrt(np.mean(Y**2, axis=0))
    strength = size * np.linalg.norm(A, axis=0)
    shares = [[s] for s in strength]
    low, high = A.copy(), A.copy()
    for i in range(d):
        for j in range(d):
            if i != j:
                first = -_largest_shear(A[:, j] + 2 * mixing_error[:, j], A[:, i])
                last = _largest_shear(Y[:, i] + 2 * source_error[i], Y[:, j])
                for t in (first, last):
                    source, spectrum = np.maximum(Y[:, i] - t * Y[:, j], 0), np.maximum(A[:, j] + t * A[:, i], 0)
                    shares[i].append(float(np.sqrt(np.mean(source**2))) * np.linalg.norm(A[:, i]))
                    shares[j].append(size[j] * float(np.linalg.norm(spectrum)))
                    shape = spectrum * np.linalg.norm(A[:, j]) / max(float(np.linalg.norm(spectrum)), 1e-300)
                    low[:, j], high[:, j] = np.minimum(low[:, j], shape), np.maximum(high[:, j], shape)
    total = max(float(strength.sum()), 1e-300)
    shares_low, shares_high = (np.array([of(share) / total for share in shares]) for of in (min, max))
    return Bands(shares_low, shares_high, low, high, np.array([_support(Y, i, source_error[i]) for i in range(d)]))


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
