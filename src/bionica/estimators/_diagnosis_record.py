"""What `diagnose` returns: numbers about the outputs of a fit, and what they mean in words."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _diagnosis_sentences as wording
from ._diagnosis_count import Count
from ._diagnosis_html import page
from ._plots import plot_diagnosis

Floats = NDArray[np.float64]


class Model(NamedTuple):
    """What an estimator asks of its outputs, beside that they are nonnegative and often near zero.

    Whether they are uncorrelated and have unit variance; the negativity that the noise which it has found explains; the standard
    deviation of that noise in every mixture, or None if it looks for none; what it has itself found to speak against its fit, as
    sentences without their subject.
    """

    uncorrelated: bool = True
    unit_variance: bool = True
    negativity: float = 0.0
    noise: Floats | None = None
    doubts: tuple[str, ...] = ()


class Method(NamedTuple):
    """What can be changed about an estimator, so that a remedy fits it.

    Its name, whether more samples or iterations move its weights, whether it has a learning rate and a parameter `horizon`, and
    whether it leaves outliers out.
    """

    name: str
    learns: bool
    has_rate: bool
    has_horizon: bool
    leaves_out: bool

    @classmethod
    def of(cls, estimator: Any) -> "Method":
        """Read it from the methods and parameters of an estimator."""
        learns = hasattr(estimator, "partial_fit") or not hasattr(estimator, "fit")
        name, has_rate, has_horizon = (
            type(estimator).__name__,
            hasattr(estimator, "eta0"),
            hasattr(estimator, "horizon"),
        )
        leaves_out = name == "BatchNICA" or bool(getattr(estimator, "outliers", 0.0))
        return cls(name, learns, has_rate, has_horizon, leaves_out)


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """Numbers about a fit, and what they mean: print it, or read `ok` and `sentences`.

    Attributes
    ----------
    negativity, negativity_per_output : float and ndarray of shape (n_components,)
        Share of the energy of the linear outputs ``components_ @ x`` that is negative.
    correlations : ndarray of shape (n_components, n_components)
        Of the outputs ``transform(X)``; 0 for a constant output.
    variance, variance_error : ndarray of shape (n_components,)
        Variance of each output, 1 if the fit is right, and its standard error.
    firing, grounding : ndarray of shape (n_components,)
        Share of the samples in which each output is not zero, and is below a quarter of its standard deviation.
    floor, lowest : ndarray of shape (n_components,)
        1 % quantile and tenth lowest value of each output, in its standard deviations.
    noise_share : ndarray of shape (n_components,)
        Share of the variance of each output that is noise, with the noise that the estimator or the count of sources has found; 0
        if they have found none.
    mean_over_std : ndarray of shape (n_components,)
        Mean of each linear output in its standard deviations.
    residual, outside : float
        Share of the variance of X that ``mixing_ @ y`` does not explain, and the part of it outside the span of `mixing_`
        (noise, or sources without an output). The rest is due to outputs that are clipped at zero.
    inner, outer : ndarray
        Variance of X along the principal directions inside and outside the span of `mixing_`, the largest first.
    spectrum : ndarray
        Variance of X along its principal directions, the largest first; of at most 1,000 samples.
    dependence : float
        Share of what lies outside that squares and products of the outputs explain, beyond chance; 0 for noise.
    over_noise : float
        Variance of X along the strongest direction outside the span of `mixing_`, over that of the noise that the estimator has
        found: about 1 if noise is all that is outside. Infinite if the estimator has found none.
    count : Count
        How many sources the mixtures show (`n_sources`), and whether this is beyond doubt (`sure`).
    drift : float or None
        Root mean square change of the linear outputs since `before`, relative to their earlier values, after matching rows.
    histogram : ndarray of shape (n_components, 100)
        Share of the samples between neighbours of `EDGES`, for each linear output in its standard deviations.
    n_samples, n_samples_given, n_mixtures : int
        Rows that were used, rows and columns of X. At most 100,000 are used, evenly spaced, without the outliers.
    outliers, outlier_share : ndarray of int, float
        The few rows of X (at most 1 %) that hold more than half of the variance of a mixture or of an output, and the largest
        share that they hold. All other numbers are computed without them.
    constant : tuple of int
        Mixtures that have the same value in all samples.
    rising : tuple of int
        Mixtures that rise or fall from sample to sample throughout, such as a time or an index.
    transposed : str
        What shows that X is transposed, otherwise empty. Only a fit to fewer samples than mixtures is looked at.
    frozen : tuple of int
        Mixtures that keep one value in a fifth of the samples or more, one after another.
    change : float
        How far the first half of the samples differs from the last, 0 to 1: beyond 0.15 the mixing changes, or the correlations
        of the sources do. It says nothing if the samples are in random order.
    mean_removed : bool
        Whether all mixtures have mean 0 to rounding.
    closed : int
        Number of sources, mean included, if they sum to a constant or X has a constant background; otherwise 0.
    changed : bool
        Whether the estimator noticed, while it learned, that the mixing changed (`change_detected_`).
    model : Model
        What the estimator asks of its outputs.
    method : Method
        What can be changed about the estimator.
    n_samples_seen : int
        Samples that the estimator has learned from, or 0 if it does not say.
    fit_doubts : tuple of str
        What `fit` has warned of, as sentences without their subject. They are said if nothing else speaks against the fit.
    divergence : str
        What `transform` raised, if its outputs overflow; the numbers are then those of the linear outputs, clipped at 0. Otherwise
        empty.

    Examples
    --------
    >>> from bionica import BatchNICA
    >>> from bionica.datasets import mix, sparse_uniform
    >>> X, _ = mix(sparse_uniform(2000, 3, rng=0), rng=0)
    >>> diagnosis = BatchNICA().fit(X).diagnose(X)
    >>> diagnosis.ok, diagnosis.n_mixtures
    (True, 3)
    """

    negativity: float
    negativity_per_output: Floats
    correlations: Floats
    variance: Floats
    variance_error: Floats
    firing: Floats
    grounding: Floats
    floor: Floats
    lowest: Floats
    noise_share: Floats
    mean_over_std: Floats
    residual: float
    outside: float
    inner: Floats
    outer: Floats
    spectrum: Floats
    dependence: float
    over_noise: float
    count: Count
    drift: float | None
    histogram: Floats
    n_samples: int
    n_samples_given: int
    n_mixtures: int
    outliers: NDArray[np.intp]
    outlier_share: float
    constant: tuple[int, ...]
    rising: tuple[int, ...]
    transposed: str
    frozen: tuple[int, ...]
    change: float
    mean_removed: bool
    closed: int
    changed: bool
    model: Model
    method: Method
    n_samples_seen: int = 0
    fit_doubts: tuple[str, ...] = ()
    divergence: str = ""

    @property
    def largest_correlation(self) -> tuple[float, tuple[int, int]]:
        """The correlation of two outputs with the largest absolute value, and the pair; 0 of (0, 0) for a single output."""
        size = np.abs(np.triu(self.correlations, 1))
        i, j = divmod(int(size.argmax()), len(size))
        return (float(self.correlations[i, j]) if i < j else 0.0), (i, j)

    @property
    def noise_negativity(self) -> float:
        """Upper bound of the negativity that noise explains: half of its energy, if the sources are mostly silent."""
        energy = 1 + self.mean_over_std**2  # of linear outputs, in their variance
        return float(0.5 * np.max(self.noise_share / energy, initial=0.0))

    @property
    def silent(self) -> tuple[int, ...]:
        """Outputs that fire in fewer than 2 of 1000 samples."""
        return tuple(map(int, np.flatnonzero(self.firing < wording.FIRING)))

    @property
    def duplicated(self) -> tuple[tuple[int, int], ...]:
        """Pairs of outputs whose correlation is above 0.95."""
        pairs = np.argwhere(np.triu(self.correlations, 1) > wording.DUPLICATE)
        return tuple((int(i), int(j)) for i, j in pairs)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that speaks against the fit."""
        return not list(wording.problems(self))

    @property
    def sentences(self) -> list[str]:
        """The findings in words, the gravest first; at least one. Outputs, mixtures and samples are counted from 0."""
        found = list(wording.problems(self)) or [wording.looks_right(self)]
        return found + list(wording.notes(self))

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The same as HTML, with a table of the outputs: what a notebook shows."""
        return page(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw one row per output: its distribution near zero, its correlations and its negativity.

        Parameters
        ----------
        ax : sequence of three matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Figure
        """
        return plot_diagnosis(self, ax)
