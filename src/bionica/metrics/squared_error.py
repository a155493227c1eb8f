"""The paper's error: mean squared difference under the best permutation, at the end and at every time."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from ._samples import Array, Floats, float64_blocks, validated_pair
from .matching import PairMoments, match_moments


def permutation_error(S: ArrayLike, Y: ArrayLike) -> float:
    r"""The paper's error at the final time: mean squared difference under the best permutation.

    .. math:: \frac{1}{Td} \min_P \sum_{t=1}^T |s_t - P y_t|^2

    The scale is not corrected: NICA's sources have unit variance, and its outputs must have it too.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    Y : array-like of shape (n_samples, n_sources)
        The outputs, in any order.

    Returns
    -------
    float
        Exactly 0 for exact recovery: the permutation is found from sums of products, then the differences are summed.

    See Also
    --------
    error_curve : the same error at every time.
    sinr : for outputs of arbitrary scale.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import permutation_error
    >>> S = np.random.default_rng(0).exponential(size=(1000, 3))
    >>> permutation_error(S, S[:, [2, 0, 1]])
    0.0
    >>> permutation_error(S, S[:, [2, 0, 1]] + 0.1)
    0.01
    """
    S, Y = validated_pair(S, Y)
    total = 0.0
    for sums in _cumulative_squares(S, Y):
        total = float(sums[-1])
    return total / S.size


def error_curve(S: ArrayLike, Y: ArrayLike) -> Floats:
    r"""The paper's cumulative error at every time, with the one permutation that is best at the end.

    .. math:: \text{error}(t) = \frac{1}{td} \sum_{t'=1}^t |s_{t'} - P y_{t'}|^2

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources, in the order in which the network received them.
    Y : array-like of shape (n_samples, n_sources)
        What the network put out as each sample arrived (`partial_fit_transform`).

    Returns
    -------
    ndarray of shape (n_samples,)
        ``error_curve(S, Y)[-1] == permutation_error(S, Y)`` exactly.

    Notes
    -----
    *Erratum.* The published code plots an exponential average instead of this formula.

    Examples
    --------
    An output that is wrong once and then always right:

    >>> import numpy as np
    >>> from bionica.metrics import error_curve
    >>> S = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]])
    >>> Y = S.copy()
    >>> Y[0] = 0.0
    >>> error_curve(S, Y)
    array([0.5       , 0.25      , 0.16666667, 0.125     ])
    """
    S, Y = validated_pair(S, Y)
    curve = np.concatenate(list(_cumulative_squares(S, Y)))
    curve /= np.arange(1, len(S) + 1) * S.shape[1]
    return curve


def _cumulative_squares(S: Array, Y: Array) -> Iterator[Floats]:
    """Yield the cumulative sums of |s_t - P y_t|^2 in blocks, where P is the permutation that is best at the end."""
    permutation = match_moments(PairMoments.of(S, Y), "error").permutation
    total = 0.0
    for s, y in float64_blocks(S, Y):
        difference = s - y[:, permutation]
        squares = np.einsum("ij,ij->i", difference, difference)
        squares[0] += total
        sums = np.cumsum(squares)
        total = float(sums[-1])
        yield sums
