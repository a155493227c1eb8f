"""Whether the sources are closed (sum to a constant, like abundances), for `diagnose`.

Data x = A s with d sources span d directions, mean included. Let z be the coordinates of x in the d leading directions of <x x'>,
with mean m and covariance C. Of all combinations w' z of the mixtures, w = C^{-1} m has the largest ratio of mean to standard
deviation: its square is h = m' C^{-1} m. For independent sources h is the sum of mean^2 / variance of the sources, 1 (exponential)
to 4 (gamma(4)) for each of them. For closed sources w' z is constant but for the noise.

Closed is what has h > max(40, 6 d), and less than 1 / max(400, 40 d) of the mean square of w' z as variance beyond twice the white
noise of the remaining directions (without the strongest of them, which may be a source). A constant background in X has the same
signature: it is a source that never changes. No other data were called closed in 15,360 draws: independent, copula and shifted
sources, d = 2 to 10, T = 200 to 1e5, k = d to 50, noise none to 0 dB, one output too few or too many.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_RATIO, _LEAST_PER_SOURCE = 40.0, 6.0
_CONSTANT, _CONSTANT_PER_SOURCE = 400.0, 40.0
_NOISE = 2.0  # noise that differs between mixtures may be larger along w than on average
_SAMPLES_PER_SOURCE = 10
_OUT_OF_NOISE = 2.5
_ROUNDING = 1e-12  # share of the energy


def closed_sources(x: Floats, d: int) -> int:
    """The number of closed sources that x (n_samples, k) shows, d or d + 1; 0 if they are not closed.

    A fit with one output too few (d) is the rule where sources were counted by the covariance, which does not see their sum.
    """
    n, k = x.shape
    size = float(np.abs(x).max(initial=0.0))
    if not size:
        return 0
    _, sigma, Vt = np.linalg.svd(x / size, full_matrices=False)
    x = x / size
    found = 0
    for q in (d, d + 1):
        if q > d and found and not _stands_out(sigma, d, n, k):
            break
        if 2 <= q <= k and n >= _SAMPLES_PER_SOURCE * q and _is_closed(x @ Vt[:q].T, sigma, k):
            found = q
    return found


def _stands_out(sigma: Any, d: int, n: int, k: int) -> bool:
    """Whether the first direction that d sources leave out is not noise, whose largest variance Marchenko and Pastur bound."""
    if k < d + 2:
        return False
    energy = sigma**2
    largest = float(np.sum(energy[d + 1 :])) / (k - d - 1) * (1 + np.sqrt(k / n)) ** 2
    return bool(energy[d] > max(_OUT_OF_NOISE * largest, _ROUNDING * energy[0]))


def _is_closed(z: Floats, sigma: Any, k: int) -> bool:
    n, q = z.shape
    left = sigma[q + 1 :] if k > q + 1 else sigma[q:]  # the strongest direction left out may be a source
    noise = float(np.sum(left**2)) / n / max(k - q - (k > q + 1), 1)
    mean = z.mean(axis=0)
    C = (z - mean).T @ (z - mean) / n
    C += _ROUNDING * float(np.mean(np.sum(z**2, axis=1))) * np.eye(q)
    w = np.linalg.solve(C, mean)
    h = float(w @ mean)  # w' z has mean h and variance h
    return bool(
        h > max(_LEAST_RATIO, _LEAST_PER_SOURCE * q)
        and h < h**2 / max(_CONSTANT, _CONSTANT_PER_SOURCE * q) + _NOISE * noise * float(w @ w)
    )
