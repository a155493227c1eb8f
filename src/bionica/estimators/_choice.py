"""Which of `BatchNICA` and `MinimumVolumeCone` explains the same data better, without knowing the sources.

Nonnegative ICA is a special case of the cone: it asks for uncorrelated sources as well. So the cone is kept, unless one of these
speaks against it. They are looked at in this order, with the noise that the cone has estimated.

1. The cone is no solution. It has returned that of nonnegative ICA itself (the noise hides its facets, or the mean was removed),
   two of its sources are the same (correlation beyond 0.95), or it leaves more than ten times as much of the energy of X
   unexplained as BatchNICA, which keeps the leading directions of X (the cone takes what varies alone in a mixture for noise).
   The mixture that the cone explains worst is left out of this comparison: a time in large units may hold most of the energy.
2. There are as many mixtures as sources, so that the noise is only guessed; it is large (a fifth of the mean of an output), or
   larger than 3 % and does not explain the outputs of the cone (discrepancy, see 3); and the sources are uncorrelated. BatchNICA
   needs no noise level and is then as good or better.
3. The cone is doubtful: an output is more than twice as negative as the noise explains, hardly any samples lie at a facet, or
   most of them lie at the apex. Then the discrepancies decide. The discrepancy of a fit is the negative energy of an output over
   what the noise explains (`bionica.offline.cone.leakage`, eq. 5), for the worst output. Below 1.65 it is explained and counts
   as 1.65. The cone is kept if its discrepancy is lower by a factor of 1.5, or if that of BatchNICA is below 0.3: then the noise
   should make its outputs more negative than they are, so that they do not come near zero. Beyond 20 the noise explains neither
   of them (outliers, sources that are negative at times), and BatchNICA is kept, which suffers less.

A cone that sees no facets in counts (nonnegative integers) is fitted once more with `noise="poisson"`: for fluorescence spectra as
counts at 20 dB this was needed in 4 of 24 draws, and the correlation of the worst source rose from 0.92 or less to 0.98 or more.

`benchmarks/correlated.py --tables choice` prints how much is lost against the better of the two.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from ..offline.cone.noise import leakages
from ._input import DivergenceError
from ._percent import percent
from .batch_nica import BatchNICA
from .minimum_volume_cone import MinimumVolumeCone

Array = npt.NDArray[Any]

_ROWS = 20_000
_EXPLAINED = float(np.exp(0.5))  # as in `offline.cone.fit.explained`
_UNTOUCHED = 0.3
_DOUBTFUL, _HOPELESS = 2.0, 20.0
_CLEARLY = 1.5
_SMALL_NOISE, _LARGE_NOISE = 0.03, 0.2  # of the mean of an output
_UNCORRELATED = 0.03  # root mean square correlation, beyond sampling error
_SAME = 0.95
_LOST, _LEAST_LOST = 10.0, 0.01  # 24 to 42 for spectrograms at low noise; up to 2.5 where the cone is right
_LEAST = 1e-8  # noise over the mean, where there is none


class Choice(NamedTuple):
    """The estimator that was kept, and why, as the end of the sentence "... was kept: ..."."""

    kept: Any
    why: str

    def __str__(self) -> str:
        return f"BatchNICA and MinimumVolumeCone were tried; {type(self.kept).__name__} was kept: {self.why}."


class _Seen(NamedTuple):
    """What a fit shows: negative share of the output energy, discrepancy, correlations of the sources, residual of each mixture."""

    negativity: float
    discrepancy: float
    correlations: Array
    residual: Array


def fit_better(
    X: Array,
    n_components: int,
    random_state: int | None = None,
    advance: Callable[[int, str], None] = lambda n, status: None,
) -> Choice:
    """Fit both to X and keep the better one; only the warnings of that one are shown.

    Counts are fitted a second time, as counts, if the cone sees no facets.

    `advance(n, name)` is told how many fits have ended, and which one begins. The cone is told the share of
    outliers that BatchNICA has left out.
    """
    batch, cone = (
        BatchNICA(n_components, random_state=random_state),
        MinimumVolumeCone(n_components, random_state=random_state),
    )
    advance(0, "BatchNICA")
    failure = refused = None
    with warnings.catch_warnings(record=True) as of_batch:
        warnings.simplefilter("always")
        try:
            batch.fit(X)
            cone.set_params(outliers=batch.n_outliers_ / len(X))
        except (ValueError, DivergenceError) as error:
            failure = error
    advance(1, "MinimumVolumeCone")
    with warnings.catch_warnings(record=True) as of_cone:
        warnings.simplefilter("always")
        try:
            cone.fit(X)
            if cone._solved().fit.fallback and _are_counts(X):
                # The noise of counts differs between samples too, which may hide the facets.
                of_cone.clear()
                poisson = clone(cone).set_params(noise="poisson").fit(X)
                cone = cone if poisson._solved().fit.fallback else poisson
        except (ValueError, DivergenceError) as error:
            if failure is not None:
                raise failure from None
            refused = error
    advance(1, "")
    if refused is not None:
        choice = Choice(batch, f"MinimumVolumeCone cannot be fitted ({_reason(refused)})")
    elif failure is None:
        choice = choose(batch, cone, X)
    else:
        # The sources of closed data (that sum to a constant) vary in fewer directions than there are sources.
        choice = Choice(cone, f"BatchNICA cannot be fitted ({_reason(failure)})")
    for warning in of_cone if choice.kept is cone else of_batch:
        warnings.warn(warning.message, warning.category, stacklevel=2)
    return choice


def _are_counts(X: Array) -> bool:
    return bool(np.all(X >= 0) and np.all(X == np.floor(X)))


def _reason(error: Exception) -> str:
    """What an error says before its remedy; a message may begin with the name of the estimator."""
    return re.sub(r"^[A-Za-z]+: ", "", str(error)).split(":")[0]


def choose(batch: Any, cone: Any, X: Array) -> Choice:
    """Keep `batch` (a BatchNICA) or `cone` (a MinimumVolumeCone), both fitted to X with the same n_components.

    At most 20,000 samples of X are used, evenly spaced, without the share of outliers that the cone was told (those of largest
    norm).
    """
    X = np.asarray(X[:: -(-len(X) // _ROWS)], dtype=np.float64)
    if cone.outliers:
        norm = np.linalg.norm(X @ np.asarray(batch.components_, np.float64).T, axis=1)
        X = X[norm <= np.quantile(norm, 1 - cone.outliers)]
    fit = cone._solved().fit
    if fit.fallback or not fit.has_mean:
        return Choice(batch, "MinimumVolumeCone sees no facets of a cone in these data")
    mine, other = (_seen(estimator, cone, X) for estimator in (cone, batch))
    if np.abs(mine.correlations).max(initial=0.0) > _SAME:
        return Choice(batch, "MinimumVolumeCone found the same source twice")
    noisy = bool(fit.cone.wall.variance.any())
    unexplained, by_batch = _unexplained(mine, other, X)
    if noisy and unexplained > max(_LOST * by_batch, _LEAST_LOST):
        return Choice(
            batch,
            f"it leaves {percent(by_batch)} of the energy of the mixtures unexplained, against "
            f"{percent(unexplained)} with MinimumVolumeCone",
        )
    size = float(np.sqrt(np.mean(mine.correlations**2))) if mine.correlations.size else 0.0
    uncorrelated = size < _UNCORRELATED + 2 / np.sqrt(len(X))
    least = _SMALL_NOISE if mine.discrepancy > _EXPLAINED else _LARGE_NOISE
    if uncorrelated and not fit.coordinates.known and fit.cone.noise.max() > least:
        return Choice(batch, f"the sources are uncorrelated (root mean square {size:.2g}), and the noise is not known")
    doubt = _doubt(mine) if noisy else ""
    if doubt and not _clearly_better(mine, other):
        return Choice(batch, f"MinimumVolumeCone {doubt}, and BatchNICA is explained no worse")
    if mine.negativity <= other.negativity:
        share = f"{percent(mine.negativity)} of its output energy is negative"
        return Choice(cone, f"{share}, against {percent(other.negativity)} with BatchNICA")
    explained = ", as the noise explains" if noisy else ""
    sources = "uncorrelated" if uncorrelated else f"correlated ({size:.2g}, root mean square), which BatchNICA excludes"
    return Choice(
        cone, f"{percent(mine.negativity)} of its output energy is negative{explained}, and its sources are {sources}"
    )


def _doubt(mine: _Seen) -> str:
    """What speaks against the cone; nothing if nothing does."""
    return "is more negative than the noise explains" if mine.discrepancy > _DOUBTFUL else ""


def _clearly_better(mine: _Seen, other: _Seen) -> bool:
    """Whether the noise explains the cone clearly better than BatchNICA."""
    if mine.discrepancy > _HOPELESS:
        return False
    ours, theirs = (max(seen.discrepancy, _EXPLAINED) for seen in (mine, other))
    return theirs > _CLEARLY * ours or other.discrepancy < _UNTOUCHED


def _seen(estimator: Any, cone: Any, X: Array) -> _Seen:
    W = np.asarray(estimator.components_, np.float64)
    U = X @ W.T
    N = _noise_covariance(W, cone)
    mean = np.abs(U.mean(axis=0))
    mean[mean == 0] = 1.0
    noise = np.sqrt(np.diag(N))
    leaks = leakages(np.ascontiguousarray((U / mean).T), np.maximum(noise / mean, _LEAST), np.full(len(U), 1 / len(U)))
    covariance = np.cov(U.T, bias=True).reshape(N.shape)
    spread = np.sqrt(np.maximum(np.diag(covariance - N), 1e-300))
    correlations = ((covariance - N) / spread / spread[:, None])[~np.eye(len(N), dtype=bool)]
    return _Seen(
        negativity=float(np.sum(np.minimum(U, 0) ** 2) / max(np.sum(U**2), 1e-300)),
        discrepancy=max(k.rho / max(k.expected_rho, 1e-3) for k in leaks),
        correlations=correlations,
        residual=np.sum((X - U @ np.asarray(estimator.mixing_, np.float64).T) ** 2, axis=0),
    )


def _unexplained(mine: _Seen, other: _Seen, X: Array) -> tuple[float, float]:
    """Shares of the energy of X that the cone and BatchNICA do not explain, without the mixture that the cone explains worst."""
    kept = np.arange(X.shape[1]) != np.argmax(mine.residual)
    energy = max(float(np.sum(X[:, kept] ** 2)), 1e-300)
    return float(mine.residual[kept].sum()) / energy, float(other.residual[kept].sum()) / energy


def _noise_covariance(W: Array, cone: Any) -> Array:
    """Covariance of the noise of the outputs W x, with the noise that the cone has found.

    If it was found from the outputs (k = d), each has its own variance; an output of W takes that of the most similar one.
    """
    state = cone._solved()
    at, channels = state.fit.coordinates, state.channels
    W = W * channels.scale
    if channels.subspace is not None:
        W = W @ channels.subspace.inverse
    if at.channel_noise.any():
        return np.asarray((W * at.channel_noise**2) @ W.T)
    V, of_cone = W @ at.inverse, state.fit.cone.V
    similar = np.argmax(np.abs(V @ of_cone.T) / np.linalg.norm(of_cone, axis=1), axis=1)
    noise = np.sqrt(state.fit.cone.wall.variance[similar])
    return np.asarray(np.outer(noise, noise) * (V @ V.T))
