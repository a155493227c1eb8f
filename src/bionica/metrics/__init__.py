"""How well outputs Y recover sources S: the paper's error, and the scores that other methods are quoted with.

| score                 | order fixed by     | scale fixed by        | perfect | reads                   |
|-----------------------|--------------------|-----------------------|---------|-------------------------|
| `permutation_error`   | least error        | nothing               | 0       | S, Y                    |
| `error_curve`         | least final error  | nothing               | 0       | S, Y                    |
| `sinr`                | correlation        | one factor per output | inf dB  | S, Y                    |
| `amari_distance`      | nothing: invariant | largest entries of P  | 0       | P = W A                 |
| `correlation_floor`   | nothing            | nothing               | 0       | S alone                 |

S is (n_samples, n_sources) and Y is (n_samples, n_outputs). Arrays are read in blocks of rows and all sums
are taken in float64, so a score costs a few megabytes beside its arguments, memory maps included.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

__all__ = [
    "Matching",
    "amari_distance",
    "correlation_floor",
    "error_curve",
    "match_sources",
    "permutation_error",
    "sinr",
]

_BLOCK = 1 << 19  # numbers in a block of rows: 4 MiB of float64
_LARGEST = 1e140  # beyond this a sum of squares may overflow

Floats = NDArray[np.float64]


class Matching(NamedTuple):
    """Which output is which source.

    Attributes
    ----------
    permutation : ndarray of shape (n_sources,)
        ``permutation[i]`` is the column of Y that belongs to source i: ``Y[:, permutation]`` lines up with S.
    scale : ndarray of shape (n_sources,)
        The factor that brings each matched output closest to its source, ``<s, y> / <y, y>``; 0 for a silent
        output. Means are not removed: a nonnegative source has a zero, and a factor keeps it.
    correlation : ndarray of shape (n_sources,)
        Pearson's correlation of each source with its output; 0 where one of the two is constant.
    """

    permutation: NDArray[np.intp]
    scale: Floats
    correlation: Floats


def permutation_error(S: ArrayLike, Y: ArrayLike) -> float:
    r"""The paper's error at the final time: mean squared difference under the best permutation.

    .. math:: \frac{1}{Td} \min_P \sum_{t=1}^T |s_t - P y_t|^2

    No scale is corrected: NICA's sources have unit variance, and so must its outputs.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    Y : array-like of shape (n_samples, n_sources)
        The outputs, in any order.

    Returns
    -------
    float
        0 for exact recovery, and exactly 0: the minimum is found from one matrix product, then the error is
        summed anew from the differences themselves.

    See Also
    --------
    error_curve : the same error as it was at every time.
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
    S, Y = _pair(S, Y)
    last = 0.0
    for cumulative in _cumulative_error(S, Y):
        last = float(cumulative[-1])
    return float(last / (S.shape[0] * S.shape[1]))


def error_curve(S: ArrayLike, Y: ArrayLike) -> Floats:
    r"""The paper's cumulative error at every time, with the one permutation that is best at the end.

    .. math:: \text{error}(t) = \frac{1}{td} \sum_{t'=1}^t |s_{t'} - P y_{t'}|^2

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources, in the order in which the network met them.
    Y : array-like of shape (n_samples, n_sources)
        What the network put out as each sample arrived (`partial_fit_transform`).

    Returns
    -------
    ndarray of shape (n_samples,)
        ``error_curve(S, Y)[-1]`` and ``permutation_error(S, Y)`` are the same bits.

    Notes
    -----
    *Erratum.* The published code plots an exponential average in place of this formula.

    Examples
    --------
    An output that is wrong once and right ever after:

    >>> import numpy as np
    >>> from bionica.metrics import error_curve
    >>> S = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, 4.0]])
    >>> Y = S.copy()
    >>> Y[0] = 0.0
    >>> error_curve(S, Y)
    array([0.5       , 0.25      , 0.16666667, 0.125     ])
    """
    S, Y = _pair(S, Y)
    n_samples, n_sources = S.shape
    curve = np.concatenate(list(_cumulative_error(S, Y)))
    curve /= np.arange(1, n_samples + 1) * n_sources
    return curve


def match_sources(S: ArrayLike, Y: ArrayLike, *, by: Literal["error", "correlation"] = "error") -> Matching:
    """Find the output that belongs to each source, as one optimal assignment over all of them.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    Y : array-like of shape (n_samples, n_outputs)
        The outputs.
    by : {"error", "correlation"}, default="error"
        "error" minimises the sum of squared differences, as `permutation_error` does; it needs as many
        outputs as sources. "correlation" maximises the sum of absolute correlations, blind to the scale, the
        sign and the offset of each output; outputs beyond the number of sources are left unmatched.

    Returns
    -------
    Matching
        `permutation`, `scale` and `correlation`, one entry per source.

    Notes
    -----
    The Hungarian method (`scipy.optimize.linear_sum_assignment`) is exact. Giving each source its most
    correlated output, as is often done, may hand one output to two sources.

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
    S, Y = _pair(S, Y, surplus_outputs=by == "correlation")
    return _match(S, Y, by)


@overload
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = ..., per_source: Literal[False] = ...) -> float: ...
@overload
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = ..., per_source: Literal[True]) -> Floats: ...
def sinr(S: ArrayLike, Y: ArrayLike, *, center: bool = False, per_source: bool = False) -> float | NDArray[np.float64]:
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
        Whether means are removed from S and Y first. They are kept by default: a nonnegative source has a
        zero that a scale leaves in place, so an offset of the output is an error like any other. Center to
        score a method that returns centred outputs, as FastICA does. Do not compare one with the other: with
        its mean counted as signal, a uniform source in white noise scores 6 dB more.
    per_source : bool, default=False
        Whether to return each source's own ratio in place of the ratio of the sums.

    Returns
    -------
    float or ndarray of shape (n_sources,)
        Never below 0 dB, which is the score of a silent output. Exact recovery scores inf, or the 300 dB that
        rounding leaves.

    Notes
    -----
    One source's ratio is 1 / (1 - r^2), with r the cosine between source and output (the correlation, if
    centred). The scale-invariant SDR, which is BSS Eval's SDR (`mir_eval.separation`) with filters of one
    tap, is r^2 / (1 - r^2): it splits the output where this splits the source. The two are one score,
    ``10**(sinr / 10) == 1 + 10**(si_sdr / 10)``, 0.04 dB apart at 20 dB. BSS Eval itself allows each source
    a filter of 512 taps and so scores no lower than the scale-invariant SDR. The default is the SINR of the
    published comparison on correlated copula sources (PEM, CorInfoMax, NSM, LDMI), with an assignment in
    place of an argmax per source.

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
    S, Y = _pair(S, Y, surplus_outputs=True)
    n_sources = S.shape[1]
    moments = _moments(S, Y)
    match = _match(S, Y, "correlation", moments)
    if center:
        s_mean, y_mean = moments.s_mean, moments.y_mean[match.permutation]
        yy = moments.yy[match.permutation]
        sy = moments.sy[np.arange(n_sources), match.permutation]
        scale = np.divide(sy, yy, out=np.zeros(n_sources), where=yy > 0)
    else:
        s_mean = y_mean = np.zeros(n_sources)
        scale = match.scale

    powerless = moments.ss + (moments.s_mean - s_mean) ** 2 == 0
    if powerless.any():
        column = int(np.argmax(powerless))
        state = "constant" if center else "zero throughout"
        raise ValueError(f"S[:, {column}] is {state} and has no power to compare with: leave that source out")
    power, residual = np.zeros(n_sources), np.zeros(n_sources)
    for s, y in _blocks(S, Y):
        s = s - s_mean
        difference = s - scale * (y[:, match.permutation] - y_mean)
        power += np.einsum("ij,ij->j", s, s)
        residual += np.einsum("ij,ij->j", difference, difference)
    # The scale is a least-squares fit, so only rounding can push the residual above the power.
    residual = np.minimum(residual, power)

    with np.errstate(divide="ignore"):
        if per_source:
            return np.asarray(10 * np.log10(power / residual))
        return float(10 * np.log10(power.sum() / residual.sum()))


def amari_distance(P: ArrayLike) -> float:
    r"""How far P = W A, unmixing times mixing, is from a permutation of scaled sources.

    .. math:: \frac{1}{2d(d-1)} \left[ \sum_i \Big( \sum_j \frac{|p_{ij}|}{\max_k |p_{ik}|} - 1 \Big)
              + \sum_j \Big( \sum_i \frac{|p_{ij}|}{\max_k |p_{kj}|} - 1 \Big) \right]

    This is Amari, Cichocki and Yang's (1996) index divided by its maximum 2d(d-1): 0 if and only if P has one
    nonzero entry in every row and every column, 1 if all entries are equally large. Permuting rows or
    columns, flipping signs, transposing and scaling P as a whole change nothing. Scaling a single row does,
    except at 0: compare methods on outputs of one scale.

    Parameters
    ----------
    P : array-like of shape (n_sources, n_sources)
        `model.components_ @ A`.

    Returns
    -------
    float
        Between 0 and 1. A row of zeros (a dead output) or a column of zeros (a source that reaches no output)
        has no largest entry to divide by and counts as the worst row or column possible, d - 1 before the
        normalisation, as if its entries were all equal. For d = 1 it is 0, or 1 if the one entry is 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.metrics import amari_distance
    >>> amari_distance([[0.0, -3.0], [0.5, 0.0]])
    0.0
    >>> amari_distance(np.ones((4, 4)))
    1.0
    """
    P = np.abs(_samples("P", P).astype(np.float64, copy=False))
    d = P.shape[0]
    if P.shape[1] != d:
        raise ValueError(f"P has shape {P.shape} and must be square: pass W @ A, n_sources by n_sources")
    if d == 1:
        return float(P[0, 0] == 0)
    return float((_crosstalk(P) + _crosstalk(P.T)) / (2 * d * (d - 1)))


def correlation_floor(S: ArrayLike) -> float:
    r"""The error that correlation among the sources costs: MSE between S and its own ZCA-whitening.

    Every network here ends with outputs of identity covariance. Sources whose sample covariance C is not the
    identity cannot be such outputs; the whitened sources closest to them are

    .. math:: C^{-1/2} s_t, \qquad C = \frac1T \sum_t (s_t - \bar s)(s_t - \bar s)^\top

    where the mean is transformed along and not removed, as in Plumbley's noncentered whitening. Print it
    beside every `permutation_error`: an error at the floor cannot be improved by a better learning rule.

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
    S = _samples("S", S)
    n_samples, n_sources = S.shape
    mean = _means(S)
    C = np.zeros((n_sources, n_sources))
    for (s,) in _blocks(S):
        s = s - mean
        C += s.T @ s
    C /= n_samples
    eigenvalues, U = np.linalg.eigh(C)
    if eigenvalues[0] <= n_sources * np.finfo(np.float64).eps * eigenvalues[-1]:
        raise ValueError(
            f"S has a singular covariance ({n_samples} samples, {n_sources} sources): a source is constant "
            "or a combination of the others, and cannot be whitened. Leave it out, or pass more samples"
        )
    # mean |s - F s|^2 = tr[(I - F)(C + m m')(I - F)]: the small factor appears twice, so nothing cancels.
    shrunk = (1 - 1 / np.sqrt(eigenvalues)) * U  # U (I - Lambda^-1/2); its product with U' is I - F
    return float((np.sum(shrunk**2 * eigenvalues) + np.sum((mean @ shrunk) ** 2)) / n_sources)


class _Moments(NamedTuple):
    """Means, and centred sums of products, of the columns of S and Y."""

    s_mean: Floats
    y_mean: Floats
    ss: Floats
    yy: Floats
    sy: Floats


def _moments(S: NDArray[np.generic], Y: NDArray[np.generic]) -> _Moments:
    s_mean, y_mean = _means(S), _means(Y)
    ss, yy = np.zeros(S.shape[1]), np.zeros(Y.shape[1])
    sy = np.zeros((S.shape[1], Y.shape[1]))
    for s, y in _blocks(S, Y):
        s, y = s - s_mean, y - y_mean
        ss += np.einsum("ij,ij->j", s, s)
        yy += np.einsum("ij,ij->j", y, y)
        sy += s.T @ y
    # What is left of a constant column is the rounding of its mean.
    ss[ss <= S.shape[0] * (1e-14 * s_mean) ** 2] = 0
    yy[yy <= Y.shape[0] * (1e-14 * y_mean) ** 2] = 0
    sy[ss == 0] = 0
    sy[:, yy == 0] = 0
    return _Moments(s_mean, y_mean, ss, yy, sy)


def _match(
    S: NDArray[np.generic],
    Y: NDArray[np.generic],
    by: Literal["error", "correlation"],
    moments: _Moments | None = None,
) -> Matching:
    s_mean, y_mean, ss, yy, sy = moments or _moments(S, Y)
    n_samples = S.shape[0]
    norms = np.sqrt(ss)[:, None] * np.sqrt(yy)
    correlation = np.divide(sy, norms, out=np.zeros_like(sy), where=norms > 0)
    if by == "correlation":
        cost = -np.abs(correlation)
    else:
        # |s_i - y_j|^2, the part about the means and the part between them: large offsets cancel nowhere.
        cost = ss[:, None] + yy - 2 * sy + n_samples * (s_mean[:, None] - y_mean) ** 2
    sources, permutation = linear_sum_assignment(cost)

    dot = sy[sources, permutation] + n_samples * s_mean * y_mean[permutation]
    square = yy[permutation] + n_samples * y_mean[permutation] ** 2
    scale = np.divide(dot, square, out=np.zeros_like(dot), where=square > 0)
    return Matching(permutation, scale, np.clip(correlation[sources, permutation], -1, 1))


def _cumulative_error(S: NDArray[np.generic], Y: NDArray[np.generic]) -> Iterator[Floats]:
    """Running sums of |s_t - P y_t|^2, block after block, P the permutation that is best at the end."""
    permutation = _match(S, Y, "error").permutation
    total = 0.0
    for s, y in _blocks(S, Y):
        difference = s - y[:, permutation]
        squares = np.einsum("ij,ij->i", difference, difference)
        squares[0] += total
        cumulative = np.cumsum(squares)
        total = float(cumulative[-1])
        yield cumulative


def _crosstalk(P: Floats) -> float:
    """Sum of all entries but each row's largest, relative to it; without subtracting 1, which would round."""
    largest = P.max(axis=1, keepdims=True)
    ratio = np.divide(P, largest, out=np.ones_like(P), where=largest > 0)
    ratio[np.arange(len(P)), P.argmax(axis=1)] = 0
    return float(ratio.sum())


def _means(A: NDArray[np.generic]) -> Floats:
    total = np.zeros(A.shape[1])
    for (a,) in _blocks(A):
        total += a.sum(axis=0)
    return np.asarray(total / A.shape[0])


def _blocks(*arrays: NDArray[np.generic]) -> Iterator[tuple[Floats, ...]]:
    """The same rows of every array, in float64."""
    rows = max(1, _BLOCK // max(a.shape[1] for a in arrays))
    for start in range(0, arrays[0].shape[0], rows):
        yield tuple(np.asarray(a[start : start + rows], dtype=np.float64) for a in arrays)


def _pair(
    S: ArrayLike, Y: ArrayLike, *, surplus_outputs: bool = False
) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    S, Y = _samples("S", S), _samples("Y", Y)
    if S.shape[0] != Y.shape[0]:
        hint = "rows are samples: transpose it" if S.shape[0] == Y.shape[1] else "compare the samples that both hold"
        raise ValueError(f"Y has {Y.shape[0]} rows and S has {S.shape[0]}: {hint}")
    d, n_outputs = S.shape[1], Y.shape[1]
    if n_outputs < d:
        raise ValueError(
            f"Y has {n_outputs} columns and S has {d}: some sources have no output. Pass every output, or "
            f"only the sources to be compared, S[:, :{n_outputs}] for instance"
        )
    if n_outputs > d and not surplus_outputs:
        raise ValueError(
            f"Y has {n_outputs} columns and S has {d}: this error takes one output per source. Choose them "
            'with Y[:, match_sources(S, Y, by="correlation").permutation]'
        )
    return S, Y


def _samples(name: str, array: ArrayLike) -> NDArray[np.generic]:
    a = np.asarray(array)
    if a.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {a.dtype}: pass real numbers")
    if a.ndim != 2:
        raise ValueError(f"{name} has shape {a.shape} and must have two axes; for one signal, {name}.reshape(-1, 1)")
    if a.size == 0:
        raise ValueError(f"{name} has shape {a.shape} and is empty: pass at least one row and one column")
    row = 0
    for (block,) in _blocks(a):
        largest = np.abs(block).max(axis=1)
        usable = largest <= _LARGEST  # false for NaN
        if not usable.all():
            first = int(np.argmin(usable))
            raise ValueError(
                f"{name}[{row + first}] holds {largest[first]}: scores need finite numbers that can be "
                "squared. A network that diverges puts out such values; score the samples before it did"
            )
        row += len(block)
    return a
