"""Signal to interference-plus-noise ratio."""

from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from ._samples import Floats, float64_blocks, validated_pair
from .matching import PairMoments, match_moments


@overload
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = ..., per_source: Literal[False] = ...) -> float: ...
@overload
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = ..., per_source: Literal[True]) -> Floats: ...
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = False, per_source: bool = False) -> float | Floats:
    r"""Signal to interference-plus-noise ratio in dB, after one scale per output.

    .. math:: 10 \log_{10} \frac{\sum_i |s_i|^2}{\sum_i |s_i - c_i y_{p(i)}|^2}, \qquad
              c_i = \frac{\langle s_i, y_{p(i)} \rangle}{\langle y_{p(i)}, y_{p(i)} \rangle}

    where p is the assignment with the largest absolute correlations (`match_sources`).

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    Y : array-like of shape (n_samples, n_outputs)
        The outputs, at least as many as sources, of any order and scale.
    center : bool, default=False
        Whether to remove the means of S and Y first. By default they are kept: a nonnegative source has a zero that a scale
        leaves in place, so an offset of the output is an error. Center to score a method that returns centred outputs, as
        FastICA does. Do not compare centred with uncentred scores: if its mean counts as signal, a uniform source in white
        noise scores 6 dB more.
    per_source : bool, default=False
        Whether to return the ratio of each source instead of the ratio of the sums.

    Returns
    -------
    float or ndarray of shape (n_sources,)
        At least 0 dB, the score of a silent output. Exact recovery scores inf, or the 300 dB that rounding leaves.

    Notes
    -----
    The ratio of one source is 1 / (1 - r^2), with r the cosine between source and output (the correlation, if centred). The
    scale-invariant SDR, which is BSS Eval's SDR (`mir_eval.separation`) with filters of one tap, is r^2 / (1 - r^2). So
    ``10**(sinr / 10) == 1 + 10**(si_sdr / 10)``: 0.04 dB apart at 20 dB. BSS Eval allows each source a filter of 512 taps and
    thus scores no lower than the scale-invariant SDR. The default is the SINR of the published comparison on correlated
    copula sources (PEM, CorInfoMax, NSM, LDMI), with an assignment instead of an argmax per source.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import sinr
    >>> rng = np.random.default_rng(0)
    >>> S = rng.exponential(size=(10_000, 3))
    >>> noise = rng.standard_normal(S.shape) * np.sqrt(np.mean(S**2) / 100)
    >>> round(sinr(S, 7 * (S + noise)))
    20
    """
    S, Y = validated_pair(S, Y, surplus_outputs=True)
    d = S.shape[1]
    moments = PairMoments.of(S, Y)
    match = match_moments(moments, "correlation")
    order = match.permutation
    if center:
        s_mean, y_mean = moments.s_mean, moments.y_mean[order]
        yy = moments.yy[order]
        scale = np.divide(moments.sy[np.arange(d), order], yy, out=np.zeros(d), where=yy > 0)
    else:
        s_mean = y_mean = np.zeros(d)
        scale = match.scale

    without_power = moments.ss + (moments.s_mean - s_mean) ** 2 == 0
    if without_power.any():
        column, fault = int(np.argmax(without_power)), "constant" if center else "zero throughout"
        raise ValueError(f"S[:, {column}] is {fault} and has no power to compare with: omit that source")
    power, residual = np.zeros(d), np.zeros(d)
    for s, y in float64_blocks(S, Y):
        s = s - s_mean
        difference = s - scale * (y[:, order] - y_mean)
        power += np.einsum("ij,ij->j", s, s)
        residual += np.einsum("ij,ij->j", difference, difference)
    # The scale is a least-squares fit, so only rounding can push the residual above the power.
    residual = np.minimum(residual, power)
    with np.errstate(divide="ignore"):
        if per_source:
            return np.asarray(10 * np.log10(power / residual))
        return float(10 * np.log10(power.sum() / residual.sum()))
