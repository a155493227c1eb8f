"""Whether to believe a fit: `diagnose` measures its weights on X, refits halves of X, and lists the evidence against it.

Nothing is remembered from the fit, so that the verdict is the same after `fit`, `partial_fit`, `save` and `load`.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ..kernels.loop import announce
from ..samples import DivergenceError, evenly_spaced, row_sample
from .ambiguity import Bands, bands
from .findings import CHECKS, Finding, Measures, concluded, exceeds, finding, measure, uncertain
from .halves import Uncertainty, follows_curve, uncertainty
from .outliers import inliers_of

Array = NDArray[Any]

_REFIT_ROWS, _REFIT_NUMBERS = 100_000, 1 << 24  # most samples and numbers of X that halves are drawn from
_TOLD = 3  # sentences, the gravest


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What `diagnose` measured: print it, or read `ok`, `findings` and `uncertainty_`.

    Attributes
    ----------
    findings : tuple of Finding
        Evidence against the fit, the gravest first.
    uncertainty_ : Uncertainty or None
        How far each source and spectrum moves if it is learned from another half of the samples; None without refits.
    band_ : Bands or None
        If X is nonnegative and its samples follow a smooth curve, so that halves agree anyway: the range of shares and spectra
        that nonnegativity leaves open. None otherwise, and without refits.
    measures, names
        Numbers about the outputs, and their names.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import MinimumVolumeCone
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(2000, 3)) @ rng.random((3, 8)) + 0.001 * rng.standard_normal((2000, 8))
    >>> diagnosis = MinimumVolumeCone(3, random_state=0).fit(X).diagnose(X)
    >>> diagnosis.ok, diagnosis.uncertainty_.correlation.round(2)
    (True, array([1., 1., 1.]))
    """

    findings: tuple[Finding, ...]
    uncertainty_: Uncertainty | None
    band_: Bands | None
    measures: Measures
    names: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.findings

    @property
    def sentences(self) -> list[str]:
        """At most three sentences: what was found, the gravest first, or how sure the fit is."""
        return self._all[:_TOLD]

    @property
    def details(self) -> str:
        """Everything, as text."""
        table = [] if self.uncertainty_ is None else self.uncertainty_.table(self.names)
        return "\n".join([*(f"- {one}" for one in self._all), *map("  ".join, table)])

    @property
    def _all(self) -> list[str]:
        if not self.ok:
            return [one.text(self.names) for one in self.findings]
        sure = [f"no problem was found: {self.measures.residual:.1%} of the variance of X is unexplained."]
        if (u := self.uncertainty_) is not None:
            sure += [f"spectra of halves of the samples differ from it by at most {u.angle.max():.1f} degrees."]
            sure += [
                f"the standard error of the outputs is {u.sources.max():.1%} of their standard deviation, or less."
            ]
        return sure

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark = "&#10003; no problem was found" if self.ok else "&#10007; the fit may be wrong"
        return f"<div><p><strong>{mark}</strong></p><pre>{escape(self.details)}</pre></div>"

    def plot(self, ax: Any = None) -> Any:
        """Draw what halves, noise and negative energy say about each output: `bionica.plot.diagnosis`."""
        from ..plot import diagnosis

        return diagnosis(self, ax=ax)


class Diagnosable:
    """Mixin: gives an estimator with `components_` and `mixing_` the method `diagnose`."""

    components_: Any
    mixing_: Any
    get_feature_names_out: Any
    #: Whether outputs are uncorrelated and have unit variance: nonnegative ICA.
    _uncorrelated: ClassVar[bool] = True

    def diagnose(self, X: ArrayLike, *, refit: bool = True) -> Diagnosis:
        """Say, without knowing the sources, how far to believe the fit, and what to do if not.

        Halves of X, without outliers, are fitted by clones of this estimator: a network learns from each of them as a stream. Of
        more than 100,000 samples, or 2^24 numbers, an evenly spaced sample is used (the last samples, with a horizon).

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, those of the fit or others.
        refit : bool, default=True
            Whether to fit halves of X. Without, `uncertainty_` is None, and what only refits show is missed.

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
        >>> nica.diagnose(3 * X, refit=False).findings[0].name
        'scale'
        """
        if not hasattr(self, "components_"):
            raise NotFittedError(f"{type(self).__name__} has no components_ to diagnose: call fit first")
        W, A = (np.asarray(M, np.float64) for M in (self.components_, self.mixing_))
        k = W.shape[1]
        data: Any = X if hasattr(X, "shape") else np.asarray(X)
        if len(data.shape) != 2 or data.shape[1] != k or data.shape[0] < 2:
            raise ValueError(f"X has shape {data.shape}: pass at least 2 samples of {k} features, (n_samples, {k})")
        horizon = getattr(self, "horizon", None)
        rows = evenly_spaced(data, _REFIT_ROWS, _REFIT_NUMBERS, horizon)
        some = rows[row_sample(len(rows), k)]
        measures = measure(self, some, data.shape[0])
        found, moved, band = list(measures.findings), None, None
        if refit and not any(one.name == "scale" for one in found):
            with np.errstate(all="ignore"):
                moved = uncertainty(inliers_of(rows), W, A, _refits(self, len(W), len(rows)), measures.error)
            if measures.is_nonnegative and follows_curve(rows, len(W)):
                known = getattr(self, "known_mixing", None)
                band = bands(some, W, A, np.sqrt(measures.noise), 0 if known is None else np.shape(known)[1])
                found += exceeds("ambiguous", np.maximum(band.sources, band.spectra))
                moved = moved._replace(sources=np.fmin(np.hypot(moved.sources, band.sources), 1.0))
            found = [one for one in found if one.name != "uncertain"]
            found += uncertain(measures.noise / measures.variance, moved.share)
            limit = CHECKS["uncertain"].limit  # correlations fall by twice the share
            if found and moved.share.max() < limit < (1 - moved.contiguous.min()) / 2 and horizon is None:
                found.append(finding("changed"))
        names = [str(name) for name in self.get_feature_names_out()]
        return Diagnosis(concluded(self, found), moved, band, measures, names)


def _refits(estimator: Any, d: int, n: int) -> Callable[[Array], tuple[Array, Array]]:
    """Fits clones of an estimator, each from another start, so that what was not learned differs; says so if it takes long.

    A network learns from its rows again until it has seen n samples, as many as the fit: half as many may be too few to settle.
    """
    seeds, begun = count(1), [time.monotonic()]

    def fit(rows: Array) -> tuple[Array, Array]:
        other, seed = clone(estimator).set_params(n_components=d), next(seeds)
        if begun and seed > 1 and (left := (time.monotonic() - begun[0]) / (seed - 1) * (7 - seed)) > 2:
            begun.clear()
            announce(f"{type(estimator).__name__}.diagnose fits parts of X: about {left:.0f} s more")
        if "random_state" in other.get_params():
            other.set_params(random_state=seed)
        try:
            with warnings.catch_warnings(action="ignore"):
                other.fit(np.resize(rows, (n, rows.shape[1])) if "n_epochs" in other.get_params() else rows)
            return np.asarray(other.components_, np.float64), np.asarray(other.mixing_, np.float64)
        except (ValueError, ArithmeticError, DivergenceError):  # these rows do not determine a fit
            k = rows.shape[1]
            return np.zeros((d, k)), np.zeros((k, d))

    return fit
