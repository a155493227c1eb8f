"""Independent sources that are drawn from a distribution."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._arguments import Rng, Sources, float_dtype, generator_of, positive_int

Kind = Literal["sparse_uniform", "exponential", "half_normal", "gamma", "odor"]


def sparse_uniform(n_samples: int, n_sources: int, *, rng: Rng = None, dtype: DTypeLike = np.float64) -> Sources:
    """The paper's sources: 0 with probability 1/2, otherwise uniform on (0, sqrt(48/5)).

    Parameters
    ----------
    n_samples, n_sources, rng, dtype
        As in `random_sources`.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        As `random_sources("sparse_uniform", ...)`: independent entries of mean sqrt(3/5) and variance 1.

    Examples
    --------
    >>> from bionica.datasets import sparse_uniform
    >>> S = sparse_uniform(100_000, 3, rng=0)
    >>> S.shape, float(S.min()), round(float(S.var()), 2), round(float((S == 0).mean()), 2)
    ((100000, 3), 0.0, 1.0, 0.5)
    """
    return random_sources("sparse_uniform", n_samples, n_sources, rng=rng, dtype=dtype)


def random_sources(
    kind: Kind, n_samples: int, n_sources: int, *, rng: Rng = None, dtype: DTypeLike = np.float64
) -> Sources:
    """Independent sources of one family, each of unit variance and infimum 0.

    Parameters
    ----------
    kind : str
        From the best to the worst grounded sources:

        - "odor": 0 with probability 0.9, otherwise exponential;
        - "sparse_uniform": 0 with probability 1/2, otherwise uniform (the paper's);
        - "exponential": its density is largest at 0;
        - "half_normal": its density is flat at 0;
        - "gamma": of shape 2; its density vanishes at 0, the hardest case.
    n_samples, n_sources : int
        Shape of the result.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of the result.

    Returns
    -------
    ndarray of shape (n_samples, n_sources)
        A longer draw of the same seed starts with the shorter one, and blocks drawn from one Generator continue each other.

    Examples
    --------
    >>> from bionica.datasets import random_sources
    >>> S = random_sources("half_normal", 100_000, 2, rng=0)
    >>> bool(S.min() >= 0), round(float(S.var()), 2)
    (True, 1.0)
    """
    if kind not in _DRAWS:
        raise ValueError(f"kind={kind!r} is unknown: use one of {', '.join(map(repr, _DRAWS))}")
    shape = (positive_int("n_samples", n_samples), positive_int("n_sources", n_sources))
    result = float_dtype(dtype)
    return _DRAWS[kind](generator_of(rng), shape).astype(result, copy=False)


def odors(
    n_samples: int,
    n_odorants: int = 5,
    n_receptors: int = 21,
    *,
    p_silent: float = 0.9,
    rng: Rng = None,
    dtype: DTypeLike = np.float64,
) -> tuple[Sources, Sources]:
    """Odorant concentrations, and how strongly each receptor responds to each odorant.

    An odorant is absent from a sample with probability `p_silent`; if present, its concentration is exponential. Affinities
    span orders of magnitude: the entries of A are log-normal, exp(N(0, 1)). A is drawn anew for every seed and is no measured
    data. `mix(S, A)` gives the activities of the receptors.

    Parameters
    ----------
    n_samples : int
        Number of sniffs.
    n_odorants, n_receptors : int, default=5 and 21
        Sources and mixtures; at least as many receptors as odorants.
    p_silent : float, default=0.9
        Probability that an odorant is absent, 0 <= p_silent < 1.
    rng : int, numpy.random.Generator or None, default=None
        Source of randomness.
    dtype : {float64, float32}, default=float64
        Type of both results.

    Returns
    -------
    S : ndarray of shape (n_samples, n_odorants)
        Concentrations, scaled to unit variance.
    A : ndarray of shape (n_receptors, n_odorants)
        Affinities, all positive. The same seed gives the same A for any number of samples.

    Examples
    --------
    >>> from bionica.datasets import mix, odors
    >>> S, A = odors(50_000, rng=0)
    >>> X, _ = mix(S, A)
    >>> X.shape, bool(X.min() >= 0), round(float((S == 0).mean()), 2)
    ((50000, 21), True, 0.9)
    """
    shape = (positive_int("n_samples", n_samples), positive_int("n_odorants", n_odorants))
    n_receptors = positive_int("n_receptors", n_receptors)
    if n_receptors < n_odorants:
        raise ValueError(
            f"n_receptors={n_receptors} is less than n_odorants={n_odorants}, and no linear network could tell the odorants "
            "apart: use at least as many receptors"
        )
    if not 0 <= p_silent < 1:
        raise ValueError(f"p_silent={p_silent!r} is no probability below 1: use 0.9, for instance")
    result = float_dtype(dtype)
    generator = generator_of(rng)
    A = np.exp(generator.standard_normal((n_receptors, n_odorants)))
    S = _draw_odor(generator, shape, p_silent)
    return S.astype(result, copy=False), A.astype(result, copy=False)


# Every family fills its array row by row in one call, so that blocks from one Generator continue each other.


def _draw_sparse_uniform(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.random(shape)
    S *= 2
    S -= 1
    np.maximum(S, 0, out=S)  # given that it exceeds 0, 2u - 1 is uniform on (0, 1)
    S *= np.sqrt(48 / 5)
    return S


def _draw_half_normal(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.standard_normal(shape)
    np.abs(S, out=S)
    S /= np.sqrt(1 - 2 / np.pi)
    return S


def _draw_gamma(generator: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    S = generator.standard_gamma(2.0, shape)
    S /= np.sqrt(2)
    return S


def _draw_odor(generator: np.random.Generator, shape: tuple[int, int], p_silent: float = 0.9) -> NDArray[np.float64]:
    S = generator.standard_exponential(shape)
    S += np.log1p(-p_silent)  # exceeds 0 with probability 1 - p_silent, and then is exponential again
    np.maximum(S, 0, out=S)
    p = 1 - p_silent
    S /= np.sqrt(p * (2 - p))
    return S


_DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]] = {
    "odor": _draw_odor,
    "sparse_uniform": _draw_sparse_uniform,
    "exponential": np.random.Generator.standard_exponential,
    "half_normal": _draw_half_normal,
    "gamma": _draw_gamma,
}
