"""What correlation among the sources costs."""

import numpy as np
from numpy.typing import ArrayLike

from ..offline.whitening import moments
from ._samples import validated


def correlation_floor(S: ArrayLike) -> float:
    r"""The error that correlation among the sources causes: the MSE between S and its own ZCA whitening.

    Every network here ends with outputs of identity covariance. Sources whose sample covariance C is not the identity cannot
    be such outputs. The whitened sources closest to them are

    .. math:: C^{-1/2} s_t, \qquad C = \frac{1}{T} \sum_t (s_t - \bar s)(s_t - \bar s)^\top

    where the mean is transformed and not removed, as in Plumbley's noncentered whitening. Print it beside every
    `permutation_error`: a better learning rule cannot improve an error at the floor.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources, scaled to unit variance; another scale is part of the distance.

    Returns
    -------
    float
        In the units of `permutation_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import correlation_floor
    >>> S = np.random.default_rng(0).exponential(size=(10_000, 3))
    >>> correlation_floor(S) < 1e-3
    True
    >>> S[:, 1] = 0.8 * S[:, 1] + 0.6 * S[:, 0]
    >>> correlation_floor(S) > 0.1
    True
    """
    seen = moments(validated("S", S))
    d = len(seen.mean)
    eigenvalues, U = np.linalg.eigh(seen.covariance)
    if eigenvalues[0] <= d * np.finfo(np.float64).eps * eigenvalues[-1]:
        raise ValueError(
            f"S has a singular covariance ({seen.n} samples, {d} sources): a source is constant or a combination of the "
            "others, and cannot be whitened. Omit it, or pass more samples"
        )
    # mean |s - F s|^2 = tr[(I - F)(C + m m')(I - F)]: the small factor appears twice, so that nothing cancels.
    shrunk = (1 - 1 / np.sqrt(eigenvalues)) * U  # U (I - Lambda^-1/2); its product with U' is I - F
    return float((np.sum(shrunk**2 * eigenvalues) + np.sum((seen.mean @ shrunk) ** 2)) / d)
