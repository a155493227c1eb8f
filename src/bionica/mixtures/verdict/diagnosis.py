"""Whether to believe a fit: `diagnose` measures its weights on X, refits halves of X,
and lists the evidence against it.

Nothing is remembered from the fit, so that the verdict is the same after `fit`,
`partial_fit`, `save` and `load`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import row_sample
from bionica.mixtures.verdict.ambiguity import Bands, bands
from bionica.mixtures.verdict.findings import (
    AMBIGUOUS,
    CHANGED,
    Finding,
    Measures,
    measure,
    ranked_findings,
    uncertain,
)
from bionica.mixtures.verdict.halves import Uncertainty, follows_curve, uncertainty
from bionica.mixtures.verdict.outliers import inliers_of

Array = NDArray[Any]

TOLD = 3  # sentences, the gravest


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What `diagnose` measured: print it, or read `ok`, `findings` and `uncertainty_`.

    Attributes
    ----------
    findings : tuple of Finding
        Evidence against the fit, the gravest first.
    uncertainty_ : Uncertainty or None
        How far each source and spectrum moves if it is learned from another half of the
        samples; None without refits.
    band_ : Bands or None
        If X is nonnegative and its samples follow a smooth curve, so that halves agree
        anyway: the range of shares and spectra that nonnegativity leaves open. None
        otherwise, and without refits.
    measures, names, mixtures
        Numbers about the outputs, their names, and those of the mixtures, if X had
        names.

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
    mixtures: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.findings

    @property
    def unchecked(self) -> str:
        """What was not checked: with as many sources as mixtures there is nothing that
        they do not explain.
        """
        k, d = (0, 0) if self.uncertainty_ is None else self.uncertainty_.mixing.shape
        return (
            ", but with as many sources as mixtures their number cannot be checked"
            if k == d > 1
            else ""
        )

    @property
    def sentences(self) -> list[str]:
        """At most three sentences: what was found, the gravest first, or how sure the
        fit is.
        """
        return self._all[:TOLD]

    @property
    def details(self) -> str:
        """Everything, as text."""
        table = [] if self.uncertainty_ is None else self.uncertainty_.table(self.names)
        return "\n".join([*(f"- {one}" for one in self._all), *map("  ".join, table)])

    @property
    def _all(self) -> list[str]:
        if not self.ok:
            return [one.text(self.names, self.mixtures) for one in self.findings]
        unexplained = f"{self.measures.residual:.1%} of the variance of X"
        sure = [
            f"no problem was found; what the outputs do not explain, {unexplained},"
            " looks like noise."
        ]
        if self.unchecked:
            sure = [f"no problem was found{self.unchecked}."]
        u = self.uncertainty_
        if u is not None:
            sure += [
                "spectra of halves of the samples differ from it by at most"
                f" {u.angle.max():.1f} degrees."
            ]
            error = f"{u.sources.max():.1%} of their standard deviation, or less"
            sure += [
                "the standard error of the outputs, by chance, noise and what was"
                f" measured of the model, is {error}."
            ]
        return sure

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark = (
            "&#10003; no problem was found"
            if self.ok
            else "&#10007; the fit may be wrong"
        )
        return f"<div><p><strong>{mark}</strong></p><pre>{escape(self.details)}</pre></div>"


def diagnose(
    rows: Array,
    W: Array,
    A: Array,
    fit: Callable[[Array], tuple[Array, Array]] | None,
    *,
    n: int,
    sources: Sequence[str] = (),
    mixtures: Sequence[str] = (),
    n_known: int = 0,
    tried: Collection[str] = (),
    tracking: bool = False,
    **facts: Any,
) -> Diagnosis:
    """Judge components W (d, k) and spectra A (k, d) on rows, a sample of n.

    `fit` returns the components and the spectra of some rows; None: no refits. The
    first `n_known` spectra were given, and the remedies `tried` are not named.
    `sources` and `mixtures` are names. `tracking` and `facts` are those of
    `measures.Fit`.
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        sound = inliers_of(rows)
        some = sound[row_sample(*sound.shape)]
        measures = measure(some, W, A, n, tracking=tracking, **facts)
        found = list(measures.findings)
        moved = None
        band = None
        if fit is not None and "scale" not in {one.name for one in found}:
            moved = uncertainty(sound, W, A, fit, measures.error)
            curve = follows_curve(sound, len(W))
            if curve and measures.is_nonnegative:
                band = bands(some, W, A, np.sqrt(measures.noise), n_known)
                found += AMBIGUOUS.beyond(np.maximum(band.sources, band.spectra))
                moved = moved._replace(
                    sources=np.fmin(np.hypot(moved.sources, band.sources), 1.0)
                )
            elif len(W) - n_known > 2 and follows_curve(
                sound, len(W), fills=4 * len(W)
            ):
                # It touches facets in points, and no spectra bound them: most of such
                # fits are wrong.
                found += AMBIGUOUS.beyond(np.ones(len(W)))
                moved = moved._replace(sources=np.ones(len(W)))
            if not (curve or tracking):
                found += CHANGED.beyond(moved.change)
            found = [one for one in found if one.name != "uncertain"]
            found += uncertain(
                measures.noise / measures.variance, moved.share, moved.sources
            )
    return Diagnosis(
        ranked_findings(found, tried),
        moved,
        band,
        measures,
        list(sources),
        list(mixtures),
    )
