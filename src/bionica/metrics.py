"""How well outputs Y recover sources S: the paper's error, and the scores that other
methods are compared by.

| score               | permutation by | scale by              | perfect | arguments |
|---------------------|----------------|-----------------------|---------|-----------|
| `permutation_error` | smallest error | nothing               | 0       | S, Y      |
| `error_curve`       | smallest final | nothing               | 0       | S, Y      |
| `sinr`              | correlation    | one factor per output | inf dB  | S, Y      |
| `amari_distance`    | invariant      | largest entries of P  | 0       | P = W A   |
| `correlation_floor` | nothing        | nothing               | 0       | S         |
| `spectral_angle`    | smallest angle | invariant             | 0       | spectra   |
| `rmse_abundances`   | smallest error | sum of each sample    | 0       | S, Y      |

S is (n_samples, n_sources) and Y is (n_samples, n_outputs). Sums are in float64.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from bionica.core import samples

__all__ = [
    "amari_distance",
    "correlation_floor",
    "error_curve",
    "match_sources",
    "permutation_error",
    "rmse_abundances",
    "sinr",
    "spectral_angle",
]

Floats = NDArray[np.float64]


def _validated(name: str, array: ArrayLike) -> Floats:
    checked = samples.matrix(array, name, "bionica.metrics", np.float64)
    largest = np.abs(checked).max()
    if largest > 1e140:  # its square overflows in sums
        raise ValueError(
            f"{name} holds {largest:.3g}: the network diverged; use a smaller eta0, or"
            " rescale the mixtures"
        )
    return checked


def _validated_pair(
    S: ArrayLike, Y: ArrayLike, *, surplus_outputs: bool = False
) -> tuple[Floats, Floats]:
    """Return sources and outputs with equal numbers of rows, and of columns unless
    `surplus_outputs`.
    """
    S = _validated("S", S)
    Y = _validated("Y", Y)
    if len(S) != len(Y):
        hint = (
            "rows are samples: transpose it"
            if len(S) == Y.shape[1]
            else "compare the samples that both hold"
        )
        raise ValueError(f"Y has {len(Y)} rows and S has {len(S)}: {hint}")
    n_sources = S.shape[1]
    n_outputs = Y.shape[1]
    if n_outputs < n_sources or (n_outputs > n_sources and not surplus_outputs):
        fewer = (
            "some sources have no output: pass fewer sources, for example S[:,"
            f" :{n_outputs}]"
        )
        more = (
            "choose one output per source, Y[:, match_sources(S, Y,"
            ' by="correlation").permutation]'
        )
        raise ValueError(
            f"Y has {n_outputs} columns and S has {n_sources}:"
            f" {fewer if n_outputs < n_sources else more}"
        )
    return S, Y


def amari_distance(P: ArrayLike) -> float:
    r"""How far P = W A, unmixing times mixing, is from a permutation of scaled sources.

    .. math:: \frac{1}{2d(d-1)} \left[
              \sum_i \left( \sum_j \frac{|p_{ij}|}{\max_k |p_{ik}|} - 1 \right)
              + \sum_j \left( \sum_i \frac{|p_{ij}|}{\max_k |p_{kj}|} - 1 \right)
              \right]

    This is the index of Amari, Cichocki and Yang (1996) divided by its maximum: 0, up
    to rounding, if and only if P has one nonzero entry in every row and every column, 1
    if all entries are equally large. It depends on the scale of single rows, except at
    0: compare methods on outputs of one scale.

    Parameters
    ----------
    P : array-like of shape (n_sources, n_sources)
        `model.components_ @ A`.

    Returns
    -------
    float
        Between 0 and 1. A row or a column of zeros counts as if its entries were equal.
        For d = 1 the distance is 0, or 1 if the one entry is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import amari_distance
    >>> amari_distance([[0.0, -3.0], [0.5, 0.0]])
    0.0
    >>> amari_distance(np.ones((4, 4)))
    1.0
    """
    P = np.abs(_validated("P", P))
    d = len(P)
    if P.shape[1] != d:
        raise ValueError(
            f"P has shape {P.shape} and must be square: pass W @ A, n_sources by"
            " n_sources"
        )
    if d == 1:
        return float(P[0, 0] == 0)
    return (_crosstalk(P) + _crosstalk(P.T)) / (2 * d * (d - 1))


def _crosstalk(P: Floats) -> float:
    """Sum of all entries but the largest of each row, relative to it."""
    largest = P.max(axis=1, keepdims=True)
    return float(
        np.divide(P, largest, out=np.ones_like(P), where=largest > 0).sum() - len(P)
    )


def correlation_floor(S: ArrayLike) -> float:
    r"""The error that correlation among the sources causes: the MSE between S and its
    own ZCA whitening.

    Nonnegative ICA ends with outputs of identity covariance. If the sample covariance C
    of the sources is not the identity, the closest such outputs are C^{-1/2} s, without
    removing the mean. A better learning rule cannot improve a `permutation_error` at
    this floor.

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
    S = _validated("S", S)
    return float(np.mean((S - whitened(S)) ** 2))


def whitened(S: Floats) -> Floats:
    """Return C^{-1/2} s for every source vector s, where C is their covariance."""
    eigenvalues, U = np.linalg.eigh(np.atleast_2d(np.cov(S, rowvar=False, bias=True)))
    n, d = S.shape
    if eigenvalues[0] <= d * np.finfo(np.float64).eps * eigenvalues[-1]:
        cause = (
            f"singular covariance ({n} samples, {d} sources): a source is constant or a"
            " combination of the others"
        )
        raise ValueError(
            f"S has a {cause}, and cannot be whitened. Omit it, or pass more samples"
        )
    return S @ (U / np.sqrt(eigenvalues)) @ U.T


class Matching(NamedTuple):
    """Which output is which source.

    Attributes
    ----------
    permutation : ndarray of shape (n_sources,)
        ``permutation[i]`` is the column of Y that belongs to source i: ``Y[:,
        permutation]`` is ordered like S.
    scale : ndarray of shape (n_sources,)
        The factor that brings each matched output closest to its source, ``<s, y> / <y,
        y>``; 0 for an output of zeros.
    correlation : ndarray of shape (n_sources,)
        Pearson's correlation of each source with its output; 0 where one of the two is
        constant.
    """

    permutation: NDArray[np.intp]
    scale: Floats
    correlation: Floats


def match_sources(
    S: ArrayLike, Y: ArrayLike, *, by: Literal["error", "correlation"] = "error"
) -> Matching:
    """Find the output that belongs to each source, as one optimal assignment over all
    of them.

    Parameters
    ----------
    S, Y : array-like of shape (n_samples, n_sources) and (n_samples, n_outputs)
        The sources and the outputs.
    by : {"error", "correlation"}, default="error"
        "error" minimises the sum of squared differences, for as many outputs as
        sources. "correlation" maximises the sum of absolute correlations and ignores
        scale, sign and offset; surplus outputs stay unmatched.

    Returns
    -------
    Matching
        `permutation`, `scale` and `correlation`, one entry per source. No output
        belongs to two sources.

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
    S, Y = _validated_pair(S, Y, surplus_outputs=by == "correlation")
    n = len(S)
    s_mean = S.mean(axis=0)
    y_mean = Y.mean(axis=0)
    # A constant column is zero, not the rounding error of its mean.
    s, y = (np.where(np.ptp(a, axis=0) > 0, a - a.mean(axis=0), 0.0) for a in (S, Y))
    ss = np.sum(s**2, axis=0)
    yy = np.sum(y**2, axis=0)
    sy = s.T @ y
    norms = np.sqrt(ss)[:, np.newaxis] * np.sqrt(yy)
    correlation = np.divide(sy, norms, out=np.zeros_like(sy), where=norms > 0)
    if by == "correlation":
        cost = -np.abs(correlation)
    else:
        # |s_i - y_j|^2 as variance plus squared difference of the means: large offsets
        # do not cancel.
        cost = (
            ss[:, np.newaxis] + yy - 2 * sy + n * (s_mean[:, np.newaxis] - y_mean) ** 2
        )
    sources, permutation = linear_sum_assignment(cost)
    dot = sy[sources, permutation] + n * s_mean * y_mean[permutation]
    square = yy[permutation] + n * y_mean[permutation] ** 2
    scale = np.divide(dot, square, out=np.zeros_like(dot), where=square > 0)
    return Matching(
        permutation, scale, np.clip(correlation[sources, permutation], -1, 1)
    )


def sinr(S: ArrayLike, Y: ArrayLike, *, per_source: bool = False) -> Any:
    r"""Signal to interference-plus-noise ratio in dB, after one scale per output.

    .. math:: 10 \log_{10} \frac{\sum_i |s_i|^2}{\sum_i |s_i - c_i y_{p(i)}|^2}, \qquad
              c_i = \frac{\langle s_i, y_{p(i)} \rangle}{\langle y_{p(i)}, y_{p(i)}
              \rangle}

    p is the assignment with the largest absolute correlations (`match_sources`).

    Parameters
    ----------
    S, Y : array-like of shape (n_samples, n_sources) and (n_samples, n_outputs)
        The sources, and at least as many outputs, of any order and scale. An offset of
        an output is an error: to compare methods with centred outputs, such as FastICA,
        centre both.
    per_source : bool, default=False
        Whether to return the ratio of each source instead of the ratio of the sums.

    Returns
    -------
    float or ndarray of shape (n_sources,)
        At least 0 dB, the score of an output of zeros. Exact recovery scores inf, or
        about 300 dB because of rounding.

    Notes
    -----
    The ratio of one source is 1 / (1 - r^2), with r the cosine between source and
    output; the scale-invariant SDR is r^2 / (1 - r^2). It is the SINR of the published
    comparison on correlated copula sources (PEM, CorInfoMax, NSM, LDMI).

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
    S, Y = _validated_pair(S, Y, surplus_outputs=True)
    power = np.sum(S**2, axis=0)
    if not power.all():
        raise ValueError(
            f"S[:, {np.argmin(power)}] is zero and has no power to compare with: omit"
            " that source"
        )
    match = match_sources(S, Y, by="correlation")
    # The scale is a least-squares fit, so only rounding can push the residual above the
    # power.
    residual = np.minimum(
        np.sum((S - match.scale * Y[:, match.permutation]) ** 2, axis=0), power
    )
    with np.errstate(divide="ignore"):
        if per_source:
            return 10 * np.log10(power / residual)
        return float(10 * np.log10(power.sum() / residual.sum()))


def permutation_error(S: ArrayLike, Y: ArrayLike) -> float:
    r"""The paper's error at the final time: mean squared difference under the best
    permutation.

    .. math:: \frac{1}{Td} \min_P \sum_{t=1}^T |s_t - P y_t|^2

    The scale is not corrected: NICA's sources have unit variance, and its outputs must
    have it too.

    Parameters
    ----------
    S, Y : array-like of shape (n_samples, n_sources)
        The sources, and the outputs in any order.

    Returns
    -------
    float
        Exactly 0 for exact recovery. For outputs of arbitrary scale use `sinr`.

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
    return float(error_curve(S, Y)[-1])


def error_curve(S: ArrayLike, Y: ArrayLike) -> Floats:
    r"""The paper's cumulative error at every time, with the one permutation that is
    best at the end.

    .. math:: \text{error}(t) = \frac{1}{td} \sum_{t'=1}^t |s_{t'} - P y_{t'}|^2

    Parameters
    ----------
    S, Y : array-like of shape (n_samples, n_sources)
        The sources, and the outputs of the network as each sample arrived
        (`partial_fit_transform`).

    Returns
    -------
    ndarray of shape (n_samples,)
        ``error_curve(S, Y)[-1] == permutation_error(S, Y)`` exactly.

    Notes
    -----
    *Erratum.* The authors' code leaves out the first sample (their `permutation_error`
    at a0cda5a).

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import error_curve
    >>> S = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]])
    >>> Y = S.copy()
    >>> Y[0] = 0.0  # wrong once, and then always right
    >>> error_curve(S, Y)
    array([0.5       , 0.25      , 0.16666667, 0.125     ])
    """
    S, Y = _validated_pair(S, Y)
    squares = np.sum((S - Y[:, match_sources(S, Y).permutation]) ** 2, axis=1)
    return np.cumsum(squares) / (np.arange(1, len(S) + 1) * S.shape[1])


def spectral_angle(
    spectra: ArrayLike, estimates: ArrayLike, *, per_source: bool = False
) -> Any:
    r"""Spectral angle distance (SAD) in radians, under the assignment with the smallest
    sum of angles.

    .. math:: \frac{1}{d} \sum_i
              \arccos \frac{\langle a_i, b_{p(i)} \rangle}{|a_i| |b_{p(i)}|}

    Parameters
    ----------
    spectra, estimates : array-like of shape (n_sources, n_features) and (n_outputs,
    n_features)
        The true spectra, and at least as many estimated ones, such as `model.spectra_`,
        a row each, of any order and scale.
    per_source : bool, default=False
        Whether to return the angle of each source instead of their mean.

    Returns
    -------
    float or ndarray of shape (n_sources,)
        At least 0; `numpy.degrees` of it is in degrees. A spectrum of zeros has the
        angle pi / 2 to all others.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import spectral_angle
    >>> spectra = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    >>> estimates = [[0.0, 3.0, 0.0], [2.0, 2.0, 0.0]]
    >>> np.degrees(spectral_angle(spectra, estimates, per_source=True)).round(6)
    array([45., 0.])
    """
    A = _validated("spectra", spectra)
    B = _validated("estimates", estimates)
    if A.shape[1] != B.shape[1] or len(A) > len(B):
        shapes = f"spectra has shape {A.shape} and estimates {B.shape}"
        raise ValueError(
            f"{shapes}: give a row for each spectrum, of the same channels, and at"
            " least as many estimates"
        )
    a, b = (
        M / np.maximum(np.linalg.norm(M, axis=1, keepdims=True), 1e-300) for M in (A, B)
    )
    # atan2 of |a - b| and |a + b| is accurate for small angles, where arccos of the
    # cosine is not.
    difference, total = (
        np.linalg.norm(a[:, np.newaxis] + sign * b, axis=2) for sign in (-1, 1)
    )
    angles = 2 * np.arctan2(difference, total)
    best = angles[linear_sum_assignment(angles)]
    return best if per_source else float(best.mean())


def rmse_abundances(S: ArrayLike, Y: ArrayLike) -> float:
    r"""Root mean square error of abundances, which sum to one in every sample, under
    the best permutation.

    .. math:: \min_P \left( \frac{1}{Td}
              \sum_{t=1}^T |s_t - P y_t / \sum_i y_{ti}|^2 \right)^{1/2}

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The true abundances; each row sums to one.
    Y : array-like of shape (n_samples, n_sources)
        Nonnegative outputs in any order, with the right scale relative to each other:
        that of ``MinimumVolumeCone(normalize="sum")``. Each row is divided by its sum;
        a row of zeros stays.

    Examples
    --------
    >>> from bionica.metrics import rmse_abundances
    >>> rmse_abundances([[1.0, 0.0], [0.5, 0.5]], [[0.0, 2.0], [1.0, 1.0]])
    0.0
    """
    S, Y = _validated_pair(S, Y)
    totals = S.sum(axis=1)
    if np.abs(totals - 1).max() > 0.01:
        t = int(np.argmax(np.abs(totals - 1)))
        raise ValueError(
            f"S[{t}] sums to {totals[t]:.3g}, and abundances sum to 1: S /"
            " S.sum(axis=1, keepdims=True)"
        )
    if Y.min() < 0:
        t, i = map(int, np.argwhere(Y < 0)[0])
        raise ValueError(
            f"Y[{t}, {i}] is {Y[t, i]:.3g}, and abundances are nonnegative:"
            " np.maximum(Y, 0)"
        )
    sums = Y.sum(axis=1, keepdims=True)
    return float(np.sqrt(permutation_error(S, Y / np.where(sums > 0, sums, 1.0))))
