"""Dependent sources with a known correlation."""

import numpy as np
from numpy.typing import DTypeLike
from scipy import special

from ._arguments import Rng, Sources, float_dtype, generator_of, positive_int


def copula_uniform(
    n_samples: int, n_sources: int, rho: float, *, df: float = 4, rng: Rng = None, dtype: DTypeLike = np.float64
) -> Sources:
    """Dependent sources: uniform on [0, sqrt(12)], coupled by a t-copula of equal correlations.

    NICA assumes uncorrelated sources. These measure the cost of correlation (see `bionica.metrics.correlation_floor`).

    Parameters
    ----------
    n_samples, n_sources, rng, dtype
        As in `random_sources`.
    rho : float
        Correlation of every pair of the underlying t variables, -1/(n_sources - 1) <= rho < 1. Pearson's correlation of the
        uniform sources is slightly nearer 0.
    df : float, default=4
        Degrees of freedom. If they are few, extremes coincide, so that sources with rho = 0 are uncorrelated but dependent;
        inf is the Gaussian copula.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        Every column uniform, of variance 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import copula_uniform
    >>> S = copula_uniform(100_000, 3, rho=0.5, rng=0)
    >>> round(float(S.var()), 1), round(float(np.corrcoef(S.T)[0, 1]), 1)
    (1.0, 0.5)
    """
    n_samples, d = positive_int("n_samples", n_samples), positive_int("n_sources", n_sources)
    lowest = -1 / (d - 1) if d > 1 else -1.0
    if not lowest <= rho < 1:
        raise ValueError(f"rho={rho!r} is no common correlation of {d} variables: use {lowest:.3g} <= rho < 1")
    if not df > 0:
        raise ValueError(f"df={df!r} must be positive: use df=4, or df=float('inf') for a Gaussian copula")
    result = float_dtype(dtype)
    generator = generator_of(rng)

    # The symmetric root of (1 - rho) I + rho 11' is a I + b 11': O(d) per sample, and rho may be negative.
    a = np.sqrt(1 - rho)
    b = (np.sqrt(max(0.0, 1 + (d - 1) * rho)) - a) / d
    Z = generator.standard_normal((n_samples, d))
    Z = a * Z + b * Z.sum(axis=1, keepdims=True)
    if np.isinf(df):
        S = special.ndtr(Z)
    else:
        with np.errstate(divide="ignore", over="ignore"):  # df near 0 draws 0, which puts the sample at a corner
            Z *= np.sqrt(df / generator.chisquare(df, size=(n_samples, 1)))
        S = special.stdtr(df, Z)
    S *= np.sqrt(12)
    return np.asarray(S, dtype=result)
