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

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from bionica.core.blocks import row_sample

Array = npt.NDArray[Any]

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
        """Largest width of the band of each spectrum, over the largest value of the
        band.
        """
        return np.asarray(
            (self.mixing_high - self.mixing_low).max(axis=0)
            / np.maximum(self.mixing_high.max(axis=0), 1e-300)
        )


def bands(X: Array, W: Array, A: Array, source_error: Array, n_known: int = 0) -> Bands:
    """Bands of components W (d, k) and spectra A (k, d) on samples X (n, k).
    `source_error` (d,) is the noise of the outputs.

    The first `n_known` spectra are given, and stay as they are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.5], [0.5, 1.0]])   # no sample without a source: half of each may be the other
    >>> bands(X, np.eye(2), np.eye(2), np.zeros(2)).mixing_high.round(1)
    array([[1. , 0.4],
           [0.4, 1. ]])
    """
    d = len(W)
    U = X @ W.T
    residual = np.sqrt(np.mean((X - U @ A.T) ** 2, axis=0))
    # of least squares
    mixing_error = np.outer(
        residual, np.sqrt(np.maximum(np.diag(np.linalg.pinv(U.T @ U)), 0))
    )
    # Rows are sources; outputs have mean 1 throughout, and what may be negative of a
    # spectrum follows its size.
    scale = np.maximum(np.abs(U.mean(axis=0)), 1e-300)
    norm = np.maximum(np.linalg.norm(A, axis=0), 1e-300)
    Y = (U[row_sample(*U.shape, most=_ROWS)] / scale).T
    y = Y
    a = (A * scale).T
    lowest_y = np.minimum(y, 0) - 2 * (source_error / scale)[:, None]
    lowest_a = (np.minimum(A, 0) - 2 * mixing_error).T / norm[:, None]
    rng = np.random.RandomState(0)
    visited = [(y, a)]
    for step in range(_STEPS if d > max(1, n_known) else 0):
        i = rng.randint(n_known * (step % 2), d)
        one = np.eye(d)[i]
        others = rng.standard_normal(d) * (rng.uniform(size=d) < 0.5)
        others[i] = 0
        p, q = (others, one) if step % 2 else (one, others * (np.arange(d) >= n_known))
        change = np.hstack([np.outer(p, q @ y), -np.outer(q, p @ a)])
        room = np.hstack(
            [y - lowest_y, a - lowest_a * np.linalg.norm(a, axis=1, keepdims=True)]
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            t = -np.maximum(room, 0) / change
        t = rng.uniform(
            np.max(t[change > 0], initial=-1.0), np.min(t[change < 0], initial=1.0)
        )
        shear = np.eye(d) + t * np.outer(p, q)
        mean = shear @ y.mean(axis=1) / Y.mean(axis=1)
        y = shear @ y / mean[:, None]
        a = (a - t * np.outer(q, p @ a)) * mean[:, None]
        if step % _SEEN == 0:
            visited.append((y, a))
    Ys, As = (np.array(side) for side in zip(*visited, strict=True))
    size = np.maximum(np.linalg.norm(As, axis=2), 1e-300)
    spectra = np.maximum(As, 0) / size[..., None]
    return Bands(
        spectra.min(axis=0).T * norm,
        spectra.max(axis=0).T * norm,
        _error(Ys - Ys.mean(axis=2, keepdims=True)),
        _error(As),
    )


def _error(rows: Array) -> Array:
    """Root mean square sine of the angle between each row of the first matrix and that
    row of all, (m, d, n).
    """
    energy = np.sum(rows**2, axis=2)
    cosine2 = np.sum(rows * rows[0], axis=2) ** 2 / np.maximum(
        energy * energy[0], 1e-300
    )
    return np.asarray(np.sqrt(np.maximum(1 - cosine2.mean(axis=0), 0)))
