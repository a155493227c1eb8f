"""Whether what the outputs leave unexplained is noise, for `diagnose`.

The residual of x = A s + noise depends linearly on the outputs, if at all: the noise of an output and that of the residual may be
correlated. It does not depend on their squares and products, whatever the strength of the noise in each mixture and sample
(Poisson counts). It does if a source is missing, if the mixing changes (on average only near the middle of X is the residual
small), or if the sensors are not linear. Share of the residual that squares and products explain: at most 0.01 in 100 right fits
(spectra, photographs, counts, correlated sources), 0.64 to 0.72 for saturated sensors, 0.25 to 0.5 for a mixing that changes and
0.03 to 0.9 for a missing source. A missing source that is independent of all others does not show here.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LARGE = 3.0  # standard deviations, to which outputs are clipped, so that no few samples decide
_SAMPLES_PER_TERM = 10
_SIGMAS = 3.0


def dependence(residual: Floats, outputs: Floats) -> float:
    """Share of the variance of the residual (n, k) that squares and products of the outputs (n, d) explain, beyond chance."""
    n, std = len(outputs), outputs.std(axis=0)
    u = outputs[:, std > 0]
    whole = (u - u.mean(axis=0)) / std[std > 0]
    u = np.clip(whole, -_LARGE, _LARGE)
    i, j = np.triu_indices(u.shape[1])
    if n < _SAMPLES_PER_TERM * len(i):
        i = j = np.arange(u.shape[1])
    if not len(i) or n < _SAMPLES_PER_TERM * len(i):
        return 0.0
    linear = np.linalg.qr(np.column_stack([np.ones(n), whole, u]))[0]
    residual, products = (part - linear @ (linear.T @ part) for part in (residual, u[:, i] * u[:, j]))
    total = float(np.sum(residual**2))
    if not total > 0:
        return 0.0
    explained = float(np.sum((np.linalg.qr(products)[0].T @ residual) ** 2)) / total
    chance = (len(i) + _SIGMAS * np.sqrt(2 * len(i))) / n  # its mean and spread for a residual of one direction
    return float(max((explained - chance) / (1 - chance), 0.0))
