"""Mixing matrices, the paper's among them, and mixtures."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arguments import Rng, Sources, generator_of, positive_int

NOISE_BLOCK = 1 << 19  # numbers drawn at a time as noise

_PAPER_MIXING = {
    "d3": ((0.031518, 0.38793, 0.061132), (-0.78502, 0.16561, 0.12458), (0.34782, 0.27295, 0.67793)),
    "d10": (
        (-1.61, 0.11, 0.11, 1.26, -0.01, -1.66, 0.45, 0.48, 0.93, -0.57),
        (-0.95, -0.05, 0.35, -0.68, 1.14, 0.71, -0.38, -0.20, -0.20, 2.02),
        (0.54, 2.16, 0.06, -0.08, 0.36, -0.16, -0.22, -1.82, -0.22, 0.40),
        (-0.98, -0.12, -1.45, -0.58, -0.56, 0.34, -0.51, 0.19, -0.44, -0.15),
        (-0.87, 0.54, 0.68, 1.28, 0.63, 1.04, -0.81, 1.08, -0.65, -0.30),
        (0.91, 0.84, 0.45, -0.31, -0.14, -1.46, -0.18, 0.48, -0.41, 0.75),
        (-1.20, 1.29, 0.39, -1.40, 0.84, -2.32, -1.54, -0.26, -1.99, -0.34),
        (1.34, 0.75, -1.29, -0.63, -1.63, -1.05, 0.07, 0.09, -0.67, 0.28),
        (-0.32, -0.38, -0.11, 1.18, -0.41, 0.58, -0.92, 1.09, 0.41, 1.29),
        (2.04, 2.00, -0.50, 0.78, -0.65, -0.93, 0.42, -1.69, -1.16, -0.68),
    ),
    "images": (
        (0.71964649, -1.55757433, -1.94561985),
        (-1.77115767, -0.99092683, 0.35559978),
        (-0.78408667, 1.09213136, -1.36539258),
    ),
}


def mix(
    S: ArrayLike,
    A: ArrayLike | None = None,
    *,
    n_mixtures: int | None = None,
    snr_db: float | None = None,
    rng: Rng = None,
) -> tuple[Sources, Sources]:
    """Mix sources, x = A s, and optionally add noise.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    A : array-like of shape (n_mixtures, n_sources) or None, default=None
        The mixing matrix; None draws independent standard normal entries, as the paper does.
    n_mixtures : int or None, default=None
        Rows of a drawn A; None draws a square one.
    snr_db : float or None, default=None
        Signal-to-noise ratio of every mixture: white Gaussian noise of variance ``mean(x**2) / 10**(snr_db / 10)`` is added
        to the mixture x. The mean counts as signal. None adds no noise.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness, for A and then for the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, n_mixtures)
        The mixtures, in the precision of S.
    A : ndarray of shape (n_mixtures, n_sources)
        A copy of the matrix that was used.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.datasets import mix, sparse_uniform
    >>> S = sparse_uniform(1000, 3, rng=0)
    >>> X, A = mix(S, n_mixtures=5, rng=1)
    >>> X.shape, A.shape, np.allclose(X, S @ A.T)
    ((1000, 5), (5, 3), True)
    """
    S = np.asarray(S)
    if S.dtype != np.float32:
        S = S.astype(np.float64, copy=False)
    if S.ndim != 2 or S.size == 0:
        raise ValueError(f"S has shape {S.shape}: pass (n_samples, n_sources), neither of them 0")
    d = S.shape[1]
    generator = generator_of(rng)
    if A is None:
        k = d if n_mixtures is None else positive_int("n_mixtures", n_mixtures)
        A = generator.standard_normal((k, d))
    A = np.array(A, dtype=S.dtype)
    if A.ndim != 2 or A.shape[1] != d or A.shape[0] == 0:
        raise ValueError(f"A has shape {A.shape} and S has {d} columns: pass A of shape (n_mixtures, {d})")
    if n_mixtures is not None and n_mixtures != A.shape[0]:
        raise ValueError(f"n_mixtures={n_mixtures} but A has {A.shape[0]} rows: omit n_mixtures")
    X = S @ A.T
    if snr_db is not None:
        if not snr_db > -np.inf:
            raise ValueError(f"snr_db={snr_db!r} is no ratio in dB: use 30, for instance, or None for no noise")
        _add_noise(X, float(snr_db), generator)
    return X, A


def paper_mixing(setting: Literal["d3", "d10", "images"]) -> NDArray[np.float64]:
    """The paper's mixing matrix, every entry as printed.

    Parameters
    ----------
    setting : {"d3", "d10", "images"}
        The experiment, as in the paper's appendix "Details of numerical experiments", which prints the 10 x 10 matrix to two
        decimals.

    Returns
    -------
    ndarray of shape (3, 3) or (10, 10)
        A copy.

    Examples
    --------
    >>> from bionica.datasets import paper_mixing
    >>> paper_mixing("d3")[0]
    array([0.031518, 0.38793 , 0.061132])
    """
    if setting not in _PAPER_MIXING:
        raise ValueError(f"setting={setting!r} is unknown: use one of {', '.join(map(repr, _PAPER_MIXING))}")
    return np.array(_PAPER_MIXING[setting])


def _add_noise(X: Sources, snr_db: float, generator: np.random.Generator) -> None:
    power = np.einsum("ij,ij->j", X, X, dtype=np.float64) / X.shape[0]
    amplitude = np.sqrt(power) * 10 ** (-snr_db / 20)
    rows = max(1, NOISE_BLOCK // X.shape[1])
    for start in range(0, X.shape[0], rows):
        block = X[start : start + rows]
        block += (generator.standard_normal(block.shape) * amplitude).astype(X.dtype, copy=False)
