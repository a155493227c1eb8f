"""Which output belongs to which source."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from ._samples import Array, Floats, float64_blocks, validated_pair


class Matching(NamedTuple):
    """Which output is which source.

    Attributes
    ----------
    permutation : ndarray of shape (n_sources,)
        ``permutation[i]`` is the column of Y that belongs to source i: ``Y[:, permutation]`` is ordered like S.
    scale : ndarray of shape (n_sources,)
        The factor that brings each matched output closest to its source, ``<s, y> / <y, y>``; 0 for a silent output. Means
        are not removed: a factor keeps the zero of a nonnegative source.
    correlation : ndarray of shape (n_sources,)
        Pearson's correlation of each source with its output; 0 where one of the two is constant.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import match_sources
    >>> S = np.array([[0.0, 1.0], [2.0, 0.0], [1.0, 3.0]])
    >>> match = match_sources(S, 2 * S[:, ::-1], by="correlation")
    >>> match.permutation.tolist(), match.scale.tolist()
    ([1, 0], [0.5, 0.5])
    """

    permutation: NDArray[np.intp]
    scale: Floats
    correlation: Floats


def match_sources(S: ArrayLike, Y: ArrayLike, *, by: Literal["error", "correlation"] = "error") -> Matching:
    """Find the output that belongs to each source, as one optimal assignment over all of them.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    Y : array-like of shape (n_samples, n_outputs)
        The outputs.
    by : {"error", "correlation"}, default="error"
        "error" minimises the sum of squared differences, as `permutation_error` does. It needs as many outputs as sources.
        "correlation" maximises the sum of absolute correlations and ignores the scale, sign and offset of each output.
        Surplus outputs stay unmatched.

    Returns
    -------
    Matching
        `permutation`, `scale` and `correlation`, one entry per source.

    Notes
    -----
    The assignment is exact (`scipy.optimize.linear_sum_assignment`). Taking the most correlated output of each source, as is
    often done, may assign one output to two sources.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import match_sources
    >>> S = np.random.default_rng(0).exponential(size=(1000, 3))
    >>> match = match_sources(S, S[:, [2, 0, 1]] * [1.0, 2.0, 4.0], by="correlation")
    >>> match.permutation
    array([1, 2, 0])
    >>> match.scale
    array([0.5 , 0.25, 1. ])
    """
    if by not in ("error", "correlation"):
        raise ValueError(f'by={by!r} is unknown: use by="error" or by="correlation"')
    return match_moments(PairMoments.of(*validated_pair(S, Y, surplus_outputs=by == "correlation")), by)


class PairMoments(NamedTuple):
    """Number of rows, means, and centred sums of products of the columns of S and Y."""

    n: int
    s_mean: Floats
    y_mean: Floats
    ss: Floats
    yy: Floats
    sy: Floats

    @classmethod
    def of(cls, S: Array, Y: Array) -> "PairMoments":
        """Compute them in two passes: means, then products of what is centred."""
        n = len(S)
        s_mean = sum(s.sum(axis=0) for (s,) in float64_blocks(S)) / n
        y_mean = sum(y.sum(axis=0) for (y,) in float64_blocks(Y)) / n
        ss, yy, sy = np.zeros(S.shape[1]), np.zeros(Y.shape[1]), np.zeros((S.shape[1], Y.shape[1]))
        for s, y in float64_blocks(S, Y):
            s, y = s - s_mean, y - y_mean
            ss += np.einsum("ij,ij->j", s, s)
            yy += np.einsum("ij,ij->j", y, y)
            sy += s.T @ y
        # A constant column leaves the rounding error of its mean.
        ss[ss <= n * (1e-14 * s_mean) ** 2] = 0
        yy[yy <= n * (1e-14 * y_mean) ** 2] = 0
        sy[ss == 0] = 0
        sy[:, yy == 0] = 0
        return cls(n, s_mean, y_mean, ss, yy, sy)


def match_moments(moments: PairMoments, by: Literal["error", "correlation"]) -> Matching:
    """Match sources and outputs whose moments are known."""
    n, s_mean, y_mean, ss, yy, sy = moments
    norms = np.sqrt(ss)[:, np.newaxis] * np.sqrt(yy)
    correlation = np.divide(sy, norms, out=np.zeros_like(sy), where=norms > 0)
    if by == "correlation":
        cost = -np.abs(correlation)
    else:
        # |s_i - y_j|^2 as variance plus squared difference of the means: large offsets do not cancel.
        cost = ss[:, np.newaxis] + yy - 2 * sy + n * (s_mean[:, np.newaxis] - y_mean) ** 2
    sources, permutation = linear_sum_assignment(cost)
    dot = sy[sources, permutation] + n * s_mean * y_mean[permutation]
    square = yy[permutation] + n * y_mean[permutation] ** 2
    scale = np.divide(dot, square, out=np.zeros_like(dot), where=square > 0)
    return Matching(permutation, scale, np.clip(correlation[sources, permutation], -1, 1))
