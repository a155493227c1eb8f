"""What the separators of mixtures have, and networks have not: a verdict on their fit.

MixtureSeparator   `diagnose`, and the warnings of `fit`
EstimatesMissing   `fit` and `transform` of arrays with missing values (NaN)
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

import warnings
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from bionica.core import samples
from bionica.core.blocks import Array, row_sample, some_rows
from bionica.core.errors import Message
from bionica.core.estimator import Separator
from bionica.core.samples import warn
from bionica.mixtures import missing
from bionica.mixtures.verdict.count import Count
from bionica.mixtures.verdict.diagnosis import TOLD, Diagnosis, diagnose
from bionica.mixtures.verdict.findings import Finding, evidence, ranked_findings

# most samples and numbers of X that halves are drawn from
_REFIT_ROWS = 100_000
_REFIT_NUMBERS = 1 << 23
# samples on which a fit is checked: at most a tenth of its time
_CHECK_ROWS = 1000


class MixtureSeparator(Separator):
    """Base of BatchNICA, StreamingNICA and MinimumVolumeCone."""

    #: Whether outputs are uncorrelated and have unit variance: nonnegative ICA.
    _uncorrelated: ClassVar[bool] = True
    #: Whether it needs many samples to settle, so that refits present theirs again.
    _repeats: ClassVar[bool] = False
    #: With n_components="auto": the number of sources, and what else the data allow.
    count_: Count

    def diagnose(self, X: ArrayLike, *, refit: bool = True) -> Diagnosis:
        """Say, without knowing the sources, how far to believe the fit, and what to do
        if not.

        Halves of X, without outliers, are fitted by clones of this estimator. Of more
        than 100,000 samples, or 2^23 numbers (64 MB), a sample is used (the last
        samples, with a horizon).

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_features)
            Mixtures, those of the fit or others.
        refit : bool, default=True
            Whether to fit halves of X. Without, `uncertainty_` is None, and what only
            refits show is missed.

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
        self._check_fitted()
        W = self.components_.astype(float)
        A = self.mixing_.astype(float)
        takes_missing = self._takes_missing()
        data = samples.rows(self, X, min_samples=2, missing=takes_missing)
        horizon = self._config.get("horizon")
        rows = some_rows(data, _REFIT_ROWS, _REFIT_NUMBERS, last=horizon)
        facts = self._facts()
        # a sample without its best channels has more noise
        if missing.has_missing(rows):
            noise = missing.noise_of_outputs(rows, W, A)
            of_fit = facts["noise"]
            facts["noise"] = noise if of_fit is None else np.maximum(noise, of_fit)
            rows = missing.completed_rows(self, rows, len(W))
        known = self._config.get("known_mixing")
        fit = _refits(self, len(rows)) if refit else None
        return diagnose(
            rows,
            W,
            A,
            fit,
            n=data.shape[0],
            n_known=0 if known is None else np.shape(known)[1],
            tried=self._tried(),
            **names_of(self),
            **facts,
        )

    def _facts(self) -> dict[str, Any]:
        """What `verdict.measures.Fit` must know of the method."""
        return {
            "noise": getattr(self, "noise_", None),
            "uncorrelated": self._uncorrelated,
            "tracking": self._config.get("horizon") is not None,
        }

    def _tried(self) -> set[str]:
        """Remedies that it is or has."""
        has = {
            "cone": not self._uncorrelated,
            "walls": getattr(self, "nonnegative_mixing_", False),
            "known": self._config.get("known_mixing") is not None,
        }
        return {remedy for remedy in has if has[remedy]}

    def _warn_about_fit(self, rows: Array, n: int, *problems: Finding) -> None:
        """Warn once of the evidence against a fit to n samples, of which `rows` are
        some, after the `problems` that it had.
        """
        rows = rows[row_sample(*rows.shape, most=_CHECK_ROWS)]
        findings = evidence(rows, self.components_, self.mixing_, n, **self._facts())
        self._warn((*problems, *ranked_findings(findings, self._tried())))

    def _warn(self, findings: Sequence[Finding]) -> None:
        """Warn of findings, the gravest first."""
        if findings:
            names = names_of(self)
            texts = [one.text(**names) for one in findings[:TOLD]]
            template = "{}: " + " ".join(["{}"] * len(texts))
            warn(Message(template, type(self).__name__, *texts))


class EstimatesMissing(MixtureSeparator):
    """Base of BatchNICA and MinimumVolumeCone: X may hold NaN."""

    n_components: Any

    def _completed(self, X: Any) -> Any:
        """X of `fit`, with its missing values estimated."""
        takes_missing = self._takes_missing()
        rows = samples.rows(self, X, reset=True, min_samples=2, missing=takes_missing)
        return missing.completed_rows(self, rows, self.n_components)

    def _takes_missing(self) -> bool:
        """Missing values hide the rank of X (n_components=None), and streams with a
        horizon refuse them.
        """
        horizon = getattr(self, "horizon", None)
        return self.n_components is not None and horizon is None

    def _transformed(self, X: Array) -> Array:
        if not (self._takes_missing() and len(X) and missing.has_missing(X)):
            return super()._transformed(X)
        gaps = np.isnan(X).any(axis=1)
        W = self.components_.astype(float)
        A = self.mixing_.astype(float)
        Y = np.empty((len(X), len(W)), X.dtype)
        Y[~gaps] = super()._transformed(X[~gaps])
        Y[gaps] = np.maximum(missing.outputs(X[gaps].astype(float), W, A), 0)
        return Y


def names_of(estimator: Any) -> dict[str, Any]:
    """The names of outputs and mixtures, as `Finding.text` takes them.

    Mixtures may have none.
    """
    mixtures = getattr(estimator, "feature_names_in_", ())
    return {
        "sources": [*estimator.get_feature_names_out()],
        "mixtures": [*map(str, mixtures)],
    }


def _refits(estimator: Any, n: int) -> Callable[[Array], tuple[Array, Array]]:
    """Fits clones of an estimator, each from another start, so that what was not
    learned differs.

    A stream learns from its rows again until it has seen n samples, as many as the fit:
    half as many may be too few to settle.
    """
    seeds = count(1)
    d = len(estimator.components_)

    def fit(rows: Array) -> tuple[Array, Array]:
        k = rows.shape[1]
        other = clone(estimator)
        given = {**estimator._config, "n_components": d, "random_state": next(seeds)}
        names = given.keys() & other.get_params()
        other.set_params(**{name: given[name] for name in names})
        try:
            with warnings.catch_warnings(action="ignore"):
                other.fit(np.resize(rows, (n, k)) if estimator._repeats else rows)
            return other.components_.astype(float), other.mixing_.astype(float)
        except (ValueError, ArithmeticError):  # these rows do not determine a fit
            return np.zeros((d, k)), np.zeros((k, d))

    return fit
