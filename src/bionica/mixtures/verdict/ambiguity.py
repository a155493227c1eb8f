"""What nonnegativity leaves open: how far sources and spectra can be mixed into each
other and stay nonnegative.

With x = A y, the shear y -> y + t p (q' y), A -> A - t (A p) q' with q' p = 0 leaves x
as it is. It is allowed as long as outputs and spectra stay nonnegative, but for what is
negative already, and for two of their errors: s of the noise of the outputs, and e of
least squares. For given p and q this is an interval of t. A random walk by such shears,
uniform in these intervals (hit-and-run), visits all that is allowed. Shears of two
sources would miss most of it, because one often makes room for another. MCR-BANDS
(Jaumot and Tauler 2010) finds the ends of the same set by constrained optimisation.

A wide band alone does not make a fit wrong. Of all cones that are allowed, the smallest
is the right one if samples are spread over its facets. Samples that follow a curve are
not (`halves.follows_curve`).
"""

from typing import NamedTuple

import numpy as np
from numpy.linalg import norm, pinv

from bionica.core.blocks import Array, row_sample

# of the walk; every fifth is looked at
_STEPS = 3000
_SEEN = 5
_ROWS = 500  # of the samples


class Bands(NamedTuple):
    """Range of what nonnegativity allows, for X that is nonnegative.

    Attributes
    ----------
    mixing_low, mixing_high : ndarray of shape (n_features, n_components)
        Range of each channel of the spectra, scaled as the solution is.
    sources : ndarray of shape (n_components,)
        Standard error of each output, in its standard deviations, if all that is
        allowed is as likely.
    spectra : ndarray of shape (n_components,)
        Standard error of each spectrum, over its norm.
    """

    mixing_low: Array
    mixing_high: Array
    sources: Array
    spectra: Array

    @property
    def width(self) -> Array:
        """Largest width of the band of each spectrum, over its largest value."""
        return (self.mixing_high - self.mixing_low).max(axis=0) / np.maximum(
            self.mixing_high.max(axis=0), 1e-300
        )


def bands(X: Array, W: Array, A: Array, source_error: Array, n_known: int = 0) -> Bands:
    """Bands of components W (d, k) and spectra A (k, d) on samples X (n, k).
    `source_error` (d,) is the noise of the outputs.

    The first `n_known` spectra are given, and stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> # no sample without a source: half of each may be the other
    >>> X = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> bands(X, np.eye(2), np.eye(2), np.zeros(2)).mixing_high.round(1)
    array([[1. , 0.4],
           [0.4, 1. ]])
    """
    U = X @ W.T
    residual = np.sqrt(np.mean((X - U @ A.T) ** 2, axis=0))
    variance = np.maximum(np.diag(pinv(U.T @ U)), 0)
    mixing_error = np.outer(residual, np.sqrt(variance))  # of least squares
    # Rows are sources; outputs have mean 1 throughout, and what may be negative of a
    # spectrum follows its size.
    scale = np.maximum(np.abs(U.mean(axis=0)), 1e-300)
    length = np.maximum(norm(A, axis=0), 1e-300)
    y = (U[row_sample(*U.shape, most=_ROWS)] / scale).T
    lowest_y = np.minimum(y, 0) - 2 * (source_error / scale)[:, None]
    lowest_a = (np.minimum(A, 0) - 2 * mixing_error).T / length[:, None]
    ys, spectra = _walk(y, (A * scale).T, lowest_y, lowest_a, n_known)
    size = np.maximum(norm(spectra, axis=2), 1e-300)
    shapes = np.maximum(spectra, 0) / size[..., None]
    return Bands(
        shapes.min(axis=0).T * length,
        shapes.max(axis=0).T * length,
        _error(ys - ys.mean(axis=2, keepdims=True)),
        _error(spectra),
    )


def _walk(
    y: Array, a: Array, lowest_y: Array, lowest_a: Array, n_known: int
) -> tuple[Array, Array]:
    """Outputs y (d, n) and spectra a (d, k) that shears lead to, the given ones first.

    They are above `lowest_y`, and `lowest_a` times the size of the spectrum.
    """
    d = len(y)
    start = y.mean(axis=1)
    rng = np.random.RandomState(0)
    ys = [y]
    spectra = [a]
    for step in range(_STEPS if d > max(1, n_known) else 0):
        i = rng.randint(n_known * (step % 2), d)
        p = rng.standard_normal(d) * (rng.uniform(size=d) < 0.5)
        p[i] = 0
        q = np.eye(d)[i]
        if step % 2 == 0:
            p, q = q, p * (np.arange(d) >= n_known)
        change = np.hstack([np.outer(p, q @ y), -np.outer(q, p @ a)])
        size = norm(a, axis=1, keepdims=True)
        room = np.hstack([y - lowest_y, a - lowest_a * size])
        with np.errstate(divide="ignore", invalid="ignore"):
            t = -np.maximum(room, 0) / change
        low = np.max(t[change > 0], initial=-1.0)
        high = np.min(t[change < 0], initial=1.0)
        t = rng.uniform(low, high)
        shear = np.eye(d) + t * np.outer(p, q)
        mean = shear @ y.mean(axis=1) / start
        y = shear @ y / mean[:, None]
        a = (a - t * np.outer(q, p @ a)) * mean[:, None]
        if step % _SEEN == 0:
            ys.append(y)
            spectra.append(a)
    return np.array(ys), np.array(spectra)


def _error(rows: Array) -> Array:
    """Root mean square sine of the angle between each row of the first matrix and that
    row of all, (m, d, n).
    """
    energy = np.sum(rows**2, axis=2)
    product = np.sum(rows * rows[0], axis=2)
    cosine2 = product**2 / np.maximum(energy * energy[0], 1e-300)
    return np.sqrt(np.maximum(1 - cosine2.mean(axis=0), 0))
