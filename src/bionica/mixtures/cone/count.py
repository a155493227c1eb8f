"""The number of sources, counted by rough minimum-volume cones: `mixtures.verdict.count` with
`fit.rough_cones`.
"""

from typing import Any

from numpy.typing import NDArray

from bionica.core.blas import one_blas_thread
from bionica.mixtures.cone.fit import rough_cones
from bionica.mixtures.verdict import count
from bionica.mixtures.verdict.findings import unsaturated


def count_sources(X: NDArray[Any], *, most: int = 12, seed: int = 0) -> count.Count:
    """Count the sources of the samples X (n, k), finite; a few thousand are enough. In
    white noise, more than `most` are counted.

    Samples with saturated cells are left out: a ceiling bends the mixtures, and would
    be counted as sources.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S, A = rng.exponential(size=(2000, 3)), rng.random((3, 8))
    >>> count_sources(S @ A + 0.01 * rng.standard_normal((2000, 8))).n_sources
    3
    """
    with one_blas_thread():
        return count.count_sources(unsaturated(X), rough_cones, most=most, seed=seed)
