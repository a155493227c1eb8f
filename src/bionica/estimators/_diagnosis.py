"""What the outputs themselves say about a fit, for users who have no true sources to compare with.

The model asks for outputs that are nonnegative, of unit variance, uncorrelated and often near zero ("well grounded"). Each
of these is one number here, and a number beyond its limit is one sentence with a remedy. Outputs are counted from 0.

How often `ok` is wrong, measured on BatchNICA with seeds that set no limit: d = 3 to 10, Gaussian A, 20 problems with
T = 1e3, 20 with 1e4 and 5 with 1e5 in each of the rows (fitted, held-out and 30 dB are rows of their own).

| right fits: false alarms                          |         | wrong fits: missed                            |        |
|---------------------------------------------------|---------|-----------------------------------------------|--------|
| sparse uniform, exponential, half-normal          | 0 / 405 | 1 or 3 outputs too many (noise 30 and 20 dB)  | 0 / 135 |
| uniform, dependent but uncorrelated               | 0 / 45  | 1 or 2 outputs too few                        | 0 / 135 |
| odor (all at T = 1e3, held-out)                   | 4 / 90  | correlated, copula rho = 0.3, 0.5             | 0 / 90 |
| gamma(2)                                          | 1 / 90  | sources + 1, gamma(4), Gaussian + 3           | 2 / 135 |
| the first three with noise at 20 dB               | 6 / 45  | one source of both signs (Laplace)            | 3 / 45 |
|                                                   |         | rotated, random, scaled, centred, twin, dead  | 0 / 315 |

The n_components it names is right in 129 of 135 fits with too many outputs (3 wrong, 3 name none) and 133 of 135 with too
few. It needs more mixtures than outputs: with as many, the spectrum has no outside.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing

from ._dask import is_dask

__all__ = ["Diagnosable", "Diagnosis", "diagnose"]

Floats = NDArray[np.float64]

# The limits, each between what the good and what the bad fits of the table measured.
NEGATIVITY = 0.002  # right fits: up to 0.0016 (odor at T = 1000: 0.004); sources correlated by 0.3: from 0.0015 on
NEGATIVITY_OUTPUT = 0.01  # of one output: right fits stay below 0.0022 (odor at T = 1000: 0.016)
CORRELATION = 0.1  # beyond what sampling explains; a wrong rotation makes 0.12 to 0.3 once outputs are cut off at 0
DUPLICATE = 0.95  # sources are uncorrelated: nothing in between was seen
VARIANCE = 0.25  # beyond what sampling explains; half or twice the right scale is 0.75 or 3 away
FIRING = 0.002  # the sparsest of our sources (odor) fires in 10 % of the samples
NEAR_ZERO = 0.25  # standard deviations; below 0.1 a gamma(2) source has 0.9 % of its samples, too few to count in 1000
GROUNDED = 0.01  # exponential 22 %, half-normal 12 %, uniform 7 %, gamma(2) 5 % near zero; gamma(4) 0.2 %, s + 1 none
OUTSIDE = 0.002  # share of the variance; noise at 30 dB leaves 0.001 there
GAP = 0.1  # strongest direction outside over weakest inside: up to 0.04 at 30 dB; sources missing make 0.02 to 1
DROP = 10.0  # in variance, from the weakest source to the noise: 17 at 20 dB for a Gaussian 20 x 10 mixing matrix
CENTRED = 0.05  # mean over standard deviation; 0.23 for odor, the least of our sources
DRIFT = 0.1  # of the root mean square output; a note, as a network that tracks a mixture moves
FEW_SAMPLES = 300  # 1 % of fewer (GROUNDED) is less than 3 samples
SIGMAS = 4.0  # standard errors, so that the largest of 45 correlations passes

EDGES = np.linspace(-1, 4, 101)  # bins of the histogram, in standard deviations
_BLOCK = 1 << 19  # numbers in a block of rows: 4 MiB of float64


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Numbers about a fit, and what they mean: print it, or read `ok` and `sentences`.

    Attributes
    ----------
    negativity, negativity_per_output : float and ndarray of shape (n_components,)
        Share of the energy of the linear outputs ``components_ @ x`` that lies below zero.
    correlations : ndarray of shape (n_components, n_components)
        Of the outputs ``transform(X)``; 0 for one that is constant.
    variance, variance_error : ndarray of shape (n_components,)
        Variance of each output, 1 if the fit is right, and its standard error.
    firing, grounding : ndarray of shape (n_components,)
        Share of the samples in which each output is not zero, and is below a quarter of its standard deviation.
    floor : ndarray of shape (n_components,)
        1 % quantile of each output, in its standard deviations.
    mean_over_std : ndarray of shape (n_components,)
        Mean of each linear output in its standard deviations.
    residual, outside : float
        Share of the variance of X that ``mixing_ @ y`` does not explain, and the part of it that lies in no direction of
        `mixing_` (noise, or sources without an output; the rest is due to outputs cut off at zero).
    inner, outer : ndarray
        Variance of X along the principal directions inside and outside of the span of `mixing_`, the largest first.
    drift : float or None
        Root mean square change of the linear outputs since `before`, relative to what they were, after matching rows.
    histogram : ndarray of shape (n_components, 100)
        Share of the samples between neighbours of `EDGES`, for each linear output in its standard deviations.
    n_samples, n_samples_given : int
        Rows looked at, and rows of X; evenly spaced ones are looked at where they are fewer.
    """

    negativity: float
    negativity_per_output: Floats
    correlations: Floats
    variance: Floats
    variance_error: Floats
    firing: Floats
    grounding: Floats
    floor: Floats
    mean_over_std: Floats
    residual: float
    outside: float
    inner: Floats
    outer: Floats
    drift: float | None
    histogram: Floats
    n_samples: int
    n_samples_given: int

    @property
    def largest_correlation(self) -> tuple[float, tuple[int, int]]:
        """The correlation of two outputs that is largest in size, and the pair; 0 of (0, 0) for a single output."""
        size = np.abs(np.triu(self.correlations, 1))
        i, j = divmod(int(size.argmax()), len(size))
        return (float(self.correlations[i, j]) if i < j else 0.0), (i, j)

    @property
    def silent(self) -> tuple[int, ...]:
        """Outputs that fire in fewer than 2 of 1000 samples."""
        return tuple(map(int, np.flatnonzero(self.firing < FIRING)))

    @property
    def duplicated(self) -> tuple[tuple[int, int], ...]:
        """Pairs of outputs whose correlation is above 0.95."""
        return tuple((int(i), int(j)) for i, j in np.argwhere(np.triu(self.correlations, 1) > DUPLICATE))

    @property
    def ok(self) -> bool:
        """Whether nothing was found that speaks against the fit."""
        return not list(self._problems())

    @property
    def sentences(self) -> list[str]:
        """The findings in words, the gravest first; at least one."""
        good = (
            f"the fit looks right: {self.negativity:.1g} of the output energy is negative, outputs correlate by at most "
            f"{abs(self.largest_correlation[0]):.1g} and are near zero in {self.grounding.min():.0%} of the samples or more."
        )
        return (list(self._problems()) or [good]) + list(self._notes())

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    def _problems(self) -> Iterator[str]:
        surplus = list(self._surplus())
        # A silent output or a twin leaves a direction of X unexplained: no news about the number of sources.
        count = [] if surplus else list(self._count())
        yield from surplus + count
        yield from self._negative()
        noise = SIGMAS / np.sqrt(self.n_samples)
        value, pair = self.largest_correlation
        if CORRELATION + noise < abs(value) and not value > DUPLICATE:
            yield f"{_outputs(pair, 'are')} correlated ({value:.2f}): the weights have not settled; learn from more samples."
        high = np.flatnonzero(self.grounding < GROUNDED)
        if len(high):
            yield (
                f"{_outputs(high, 'are')} hardly ever near zero ({self.grounding[high].min():.1%} of the samples, lowest values at "
                f"{self.floor[high].max():.2g} standard deviations), and other rotations may be as nonnegative: subtract a "
                "constant background (a blank measurement) from X, or bring samples in which sources are absent."
            )
        off = (np.abs(self.variance - 1) > VARIANCE + SIGMAS * self.variance_error) & (self.firing >= FIRING)
        if self._is_negative():  # cut off at zero, an output has less variance for that reason
            off &= self.variance > 1
        if off.any():
            worst = max(self.variance[off], key=lambda v: max(v, 1 / max(v, 1e-300)))
            yield (
                f"{_outputs(np.flatnonzero(off), 'have')} variance {worst:.2g} where 1 is right: the weights have not settled, or "
                "X is on another scale than the data of the fit."
            )

    def _surplus(self) -> Iterator[str]:
        """Outputs that are no source of their own."""
        n_groups, group = connected_components(self.correlations > DUPLICATE, directed=False)
        negative = [i for i in self.silent if self.negativity_per_output[i] > 0.5]
        dead = [i for i in self.silent if i not in negative]
        left = n_groups - len(dead)
        remedy = f"try n_components={left}" if left else "the weights have collapsed; refit with a lower learning rate"
        if dead:
            yield f"{_outputs(dead, 'fire')} in {self.firing[dead].max():.2%} of the samples, that is never: {remedy}."
        if negative:
            yield f"{_outputs(negative, 'are')} negative throughout and cut off at zero: refit, with more samples or BatchNICA."
        for same in (np.flatnonzero(group == g) for g in range(n_groups)):
            if len(same) > 1:
                least = self.correlations[np.ix_(same, same)].min()
                yield f"{_outputs(same, 'are')} nearly the same source (correlation {least:.2f}): {remedy}."

    def _count(self) -> Iterator[str]:
        """Too many outputs, or too few: is the spectrum of X cut where it drops?"""
        if not len(self.outer) or self.outer[0] <= GAP * self.inner[-1]:
            return
        spectrum = np.sort(np.concatenate([self.inner, self.outer]))[::-1]
        spectrum = np.maximum(spectrum, 1e-12 * spectrum[0])
        drops, d = spectrum[:-1] / spectrum[1:], len(self.inner)
        m = int(np.argmax(drops)) + 1 if drops.max() > DROP else len(spectrum)
        if m < d:
            yield f"there are {d} outputs and {m} directions in which X stands out of the noise: try n_components={m}."
        elif self.outside > OUTSIDE:
            unsure = m == len(spectrum) and m > d + 3
            yield (
                f"{self.outside:.2g} of the variance of X lies outside of the {d} outputs, in directions as strong as theirs: "
                + (f"there is strong noise, or up to {m} sources." if unsure else f"try n_components={m}.")
            )

    def _is_negative(self) -> bool:
        return bool(self.negativity > NEGATIVITY or self.negativity_per_output.max() > NEGATIVITY_OUTPUT)

    def _negative(self) -> Iterator[str]:
        worst = int(np.argmax(self.negativity_per_output))
        share = f"{self.negativity:.2g} of the output energy is negative, {self.negativity_per_output[worst]:.2g} in output {worst}"
        if not self._is_negative():
            return
        if np.all(np.abs(self.mean_over_std) < CENTRED + SIGMAS / np.sqrt(self.n_samples)):
            yield f"{share}, and all outputs have mean 0: the mean was removed from X; pass X as it was measured."
        else:
            yield (
                f"{share}: the weights have not settled (learn from more samples, compare BatchNICA) or n_components is wrong; if "
                "no fit has less, the sources are correlated, are negative at times, or come with strong noise."
            )

    def _notes(self) -> Iterator[str]:
        if self.drift is not None and self.drift > DRIFT:
            yield f"the outputs changed by {self.drift:.0%} since `before`: still learning, or the mixture drifts."
        if self.n_samples < FEW_SAMPLES:
            yield f"{self.n_samples} samples are few to judge by: pass {FEW_SAMPLES} or more."

    def plot(self, ax: Any = None) -> Any:
        """Draw, a row for each output: its distribution near zero, its correlations and its negativity.

        Parameters
        ----------
        ax : sequence of three matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Figure
        """
        d = len(self.variance)
        if ax is None:
            import matplotlib.pyplot as plt

            figure = plt.figure(figsize=(11, 1.8 + 0.28 * min(max(d, 6), 24)), layout="constrained")
            ax = figure.subplots(1, 3, width_ratios=(1.3, 1, 0.8))
            figure.suptitle(self.sentences[0].split(":")[0], fontsize=10)
        if np.size(ax) != 3:
            raise ValueError(f"ax={ax!r}: pass three Axes, those of plt.subplots(1, 3) for instance, or None")
        density, matrix, bars = np.ravel(ax)
        for i, row in enumerate(self.histogram):
            density.stairs(i + 0.45 - 0.9 * row / (row.max() or 1), EDGES, baseline=i + 0.45, fill=True, color="C0")
        density.axvline(0, color="0.3", lw=0.8)
        density.set(title="distribution near zero", xlabel="linear output / its std", ylabel="output", xlim=(-1, 4))
        image = matrix.imshow(self.correlations, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        matrix.figure.colorbar(image, ax=matrix)
        matrix.set(title="correlation", xlabel="output")
        bars.barh(np.arange(d), self.negativity_per_output, color="C3")
        bars.axvline(NEGATIVITY_OUTPUT, color="0.3", lw=0.8, ls="--")
        bars.set(title="negative energy", xlabel="share (dashed: limit)", xscale="log", xlim=(1e-6, 1))
        for axis in (density.yaxis, matrix.yaxis, bars.yaxis, matrix.xaxis):
            axis.get_major_locator().set_params(integer=True)
            axis.axes.set_ylim(d - 0.5, -0.5)
        return matrix.figure


class Diagnosable:
    """Mixin: gives an estimator with `components_`, `mixing_` and `transform` the method `diagnose`."""

    def diagnose(self, X: ArrayLike, *, plot: bool = False, before: ArrayLike | None = None) -> Diagnosis:
        """Say, without knowing the sources, whether the fit looks right, and what to do if not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Mixtures, those of the fit or others. Of more than 100,000, as many are looked at, evenly spaced.
        plot : bool, default=False
            Whether to draw the numbers in a new matplotlib figure too.
        before : array-like of shape (n_components, n_features), optional
            An earlier `components_`, to measure how far the weights have moved since.

        Returns
        -------
        Diagnosis

        Examples
        --------
        >>> import numpy as np
        >>> from bionica import BatchNICA
        >>> rng = np.random.default_rng(0)
        >>> X = rng.exponential(size=(5000, 3)) @ rng.standard_normal((3, 6))
        >>> nica = BatchNICA(3, random_state=0).fit(X)
        >>> nica.diagnose(X).ok
        True
        >>> print(nica.diagnose(3 * X))
        - outputs 0, 1 and 2 have variance 9 where 1 is right: the weights have not settled, or X is on another scale ...
        """
        found = diagnose(self, X, before=before)
        if plot:
            found.plot()
        return found


def diagnose(estimator: Any, X: ArrayLike, *, before: ArrayLike | None = None, max_samples: int = 100_000) -> Diagnosis:
    """Measure what `Diagnosis` holds, in a few arrays of max_samples x n_components beside X.

    Parameters
    ----------
    estimator : fitted estimator
        Anything with `components_`, `mixing_` and `transform`.
    X, before
        As in `Diagnosable.diagnose`. X is read in blocks of rows.
    max_samples : int, default=100_000
        Of more rows, as many are looked at, evenly spaced.

    Returns
    -------
    Diagnosis
    """
    if not hasattr(estimator, "components_"):
        raise NotFittedError(f"{type(estimator).__name__} has no components_ to diagnose: call fit first")
    W, M = np.asarray(estimator.components_, np.float64), np.asarray(estimator.mixing_, np.float64)
    data: Any = X if hasattr(X, "shape") else np.asarray(X)
    (d, k), shape = W.shape, data.shape
    if len(shape) != 2 or shape[1] != k or shape[0] < 2:
        raise ValueError(f"X has shape {shape}: pass at least 2 samples of {k} features, (n_samples, {k})")
    W0 = np.empty((0, k)) if before is None else np.asarray(before, np.float64)
    if before is not None and (W0.shape != W.shape or not np.isfinite(W0).all()):
        raise ValueError(f"before has shape {W0.shape}: pass an earlier components_, {W.shape} and finite")
    if max_samples < 2:
        raise ValueError(f"max_samples={max_samples!r} must be 2 or more; 100_000 is the default")
    n, step = min(shape[0], int(max_samples)), max(1, _BLOCK // k)
    rows = np.arange(n) * shape[0] // n
    at = rows
    if is_dask(data):  # these rows come together in one pass over its blocks
        data, at = data[rows].compute(), np.arange(n)
    U, Y, U0 = np.empty((n, d)), np.empty((n, d)), np.empty((n, len(W0)))
    moments = np.zeros((3, 2, k))  # mean and squares about it: of x, of what Y leaves of it, of what U leaves of it
    for part in (slice(start, min(start + step, n)) for start in range(0, n, step)):
        block = _safe_indexing(data, at[part])
        x = _finite(block, rows[part])
        Y[part], U[part], U0[part] = np.asarray(estimator.transform(block)), x @ W.T, x @ W0.T
        weight = len(x) / part.stop
        for seen, e in zip(moments, (x, x - Y[part] @ M.T, x - U[part] @ M.T), strict=True):
            step_of_mean = e.mean(axis=0) - seen[0]
            seen[1] += len(e) * (e.var(axis=0) + step_of_mean**2 * (1 - weight))
            seen[0] += step_of_mean * weight
    total, residual, outside = moments[:, 1].sum(axis=1)

    energy, negative = np.sum(U**2, axis=0), np.sum(np.minimum(U, 0) ** 2, axis=0)
    u, u_std, std = U - U.mean(axis=0), U.std(axis=0), Y.std(axis=0)
    z = _ratio(Y - Y.mean(axis=0), std)
    eigenvalues, vectors = np.linalg.eigh(u.T @ u / n)
    every = slice(None, None, -(-n // max(100, min(1000, 4 * _BLOCK // k))))
    x = _finite(_safe_indexing(data, at[every]), rows[every])
    return Diagnosis(
        negativity=float(_ratio(negative.sum(), energy.sum())),
        negativity_per_output=_ratio(negative, energy),
        correlations=z.T @ z / n,
        variance=std**2,
        variance_error=std**2 * np.sqrt(np.mean((z**2 - 1) ** 2, axis=0) / n),
        firing=np.mean(Y > 1e-6 * np.sqrt(np.mean(Y**2)), axis=0),
        grounding=np.mean(Y <= NEAR_ZERO * std, axis=0),
        floor=_ratio(np.quantile(Y, 0.01, axis=0), std),
        mean_over_std=_ratio(U.mean(axis=0), u_std),
        residual=float(_ratio(residual, total)),
        outside=float(_ratio(outside, total)),
        inner=np.linalg.svd(M @ (vectors * np.sqrt(np.maximum(eigenvalues, 0))), compute_uv=False) ** 2,
        outer=_spectrum(x - x @ W.T @ M.T, k - d),
        drift=None if before is None else _drift(U, U0),
        histogram=np.stack([np.histogram(column, EDGES)[0] / n for column in _ratio(U, u_std).T]),
        n_samples=n,
        n_samples_given=shape[0],
    )


def _spectrum(e: Floats, rank: int) -> Floats:
    """Variances of e in its principal directions, less what sampling adds to the largest (Marchenko and Pastur)."""
    values = np.linalg.svd(e - e.mean(axis=0), compute_uv=False)[:rank] ** 2
    return np.asarray(values / (np.sqrt(len(e)) + np.sqrt(rank)) ** 2)


def _drift(U: Floats, U0: Floats) -> float:
    now, then = linear_sum_assignment(np.sum(U**2, axis=0)[:, np.newaxis] + np.sum(U0**2, axis=0) - 2 * U.T @ U0)
    return float(np.sqrt(_ratio(np.sum((U[:, now] - U0[:, then]) ** 2), np.sum(U0**2))))


def _finite(block: Any, rows: NDArray[np.intp]) -> Floats:
    x = np.asarray(block, dtype=np.float64)
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise ValueError(f"X[{rows[np.argmin(finite)]}] holds NaN or infinity: drop such samples first")
    return x


def _ratio(a: Any, b: Any) -> Any:
    a, b = np.broadcast_arrays(a, b)
    return np.divide(a, b, out=np.zeros(a.shape), where=b > 0)


def _outputs(indices: Collection[Any], verb: str) -> str:
    """Return "outputs 1, 2 and 4 are"; the verb becomes singular for one."""
    *first, last = map(str, indices)
    if first:
        return f"outputs {', '.join(first)} and {last} {verb}"
    return f"output {last} {({'are': 'is', 'have': 'has', 'fire': 'fires'})[verb]}"
