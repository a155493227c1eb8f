"""Whether to believe a fit: `diagnose` measures its weights on X, refits halves of X,
and lists the evidence against it.

Nothing is remembered from the fit, so that the verdict is the same after `fit`,
`partial_fit`, `save` and `load`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import ArrayLike

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, row_sample
from bionica.core.samples import matrix
from bionica.mixtures.verdict.ambiguity import Bands, bands
from bionica.mixtures.verdict.findings import (
    Finding,
    beyond,
    findings_without_refits,
    ranked_findings,
    uncertain,
)
from bionica.mixtures.verdict.halves import (
    Refit,
    Uncertainty,
    follows_curve,
    uncertainty,
)
from bionica.mixtures.verdict.measures import Fit, Measures
from bionica.mixtures.verdict.outliers import inliers_of

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
    measures : Measures
        `residual`, the share of the variance of X that the outputs do not explain, and
        `is_nonnegative`, whether X is, but for noise.
    names, mixtures : list of str
        Names of the outputs, and of the mixtures, if X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import MinimumVolumeCone
    >>> rng = np.random.default_rng(0)
    >>> X = rng.exponential(size=(2000, 3)) @ rng.random((3, 8))
    >>> X += 0.001 * rng.standard_normal(X.shape)
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
        if self.uncertainty_ is not None:
            k, d = self.uncertainty_.mixing.shape
            if k == d > 1:
                return (
                    ", but with as many sources as mixtures their number cannot be"
                    " checked"
                )
        return ""

    @property
    def sentences(self) -> list[str]:
        """At most three sentences: what was found, the gravest first, or how sure the
        fit is.
        """
        return self._all[:TOLD]

    @property
    def details(self) -> str:
        """Everything, as text."""
        u = self.uncertainty_
        table = [] if u is None else u.table(self.names)
        return "\n".join([*(f"- {one}" for one in self._all), *map("  ".join, table)])

    @property
    def _all(self) -> list[str]:
        if not self.ok:
            return [one.text(self.names, self.mixtures) for one in self.findings]
        sure = (
            "; what the outputs do not explain,"
            f" {self.measures.residual:.1%} of the variance of X, looks like noise"
        )
        sentences = [f"no problem was found{self.unchecked or sure}."]
        u = self.uncertainty_
        if u is not None:
            sentences += [
                "spectra of halves of the samples differ from it by at most"
                f" {u.angle.max():.1f} degrees.",
                "the standard error of the outputs, by chance, noise and what was"
                f" measured of the model, is {u.sources.max():.1%} of their standard"
                " deviation, or less.",
            ]
        return sentences

    def __str__(self) -> str:
        return "\n".join(f"- {sentence}" for sentence in self.sentences)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        mark = "&#10007; the fit may be wrong"
        if self.ok:
            mark = "&#10003; no problem was found"
        text = escape(self.details)
        return f"<div><p><strong>{mark}</strong></p><pre>{text}</pre></div>"


def diagnose(
    X: ArrayLike,
    components: ArrayLike,
    mixing: ArrayLike,
    fit: Refit | None = None,
    *,
    n: int | None = None,
    sources: Sequence[str] = (),
    mixtures: Sequence[str] = (),
    n_known: int = 0,
    tried: Collection[str] = (),
    noise: Array | None = None,
    uncorrelated: bool = True,
    tracking: bool = False,
) -> Diagnosis:
    """Say how far to believe that max(components x, 0) are the sources of x.

    The separators have it as a method. Call it for the outputs of anything else, for
    example of a circuit.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Mixtures.
    components : array-like of shape (n_components, n_features)
        The unmixing matrix.
    mixing : array-like of shape (n_features, n_components)
        The spectrum of each source, in columns.
    fit : callable, default=None
        Maps rows of X to the components and the mixing matrix that are learned from
        them. None: no refits, `uncertainty_` is None, and what only refits show is
        missed.
    n : int, default=None
        How many samples were fitted, if X is a sample of them.
    sources, mixtures : sequence of str, default=()
        Names of outputs and mixtures.
    n_known : int, default=0
        The first `n_known` spectra were given.
    tried : collection of str, default=()
        Remedies that are not named: keys of `findings.REMEDIES`.
    noise : ndarray of shape (n_components,), default=None
        Standard deviation of the noise of each output, if it is known.
    uncorrelated : bool, default=True
        Whether sources are taken to be uncorrelated, and outputs have unit variance:
        nonnegative ICA.
    tracking : bool, default=False
        Whether the mixing changes along X.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import TwoCompartmentNICA
    >>> from bionica.mixtures.verdict import diagnose
    >>> rng = np.random.default_rng(0)
    >>> S = rng.exponential(size=(5000, 2)) * (rng.random((5000, 2)) < 0.5)
    >>> X = S @ np.array([[1.0, 0.3], [0.5, 1.0]])
    >>> circuit = TwoCompartmentNICA(2, random_state=0).fit(X)
    >>> diagnose(X, circuit.components_, circuit.mixing_).ok
    True
    """
    rows = matrix(X, "X", "diagnose")
    W = np.asarray(components, np.float64)
    A = np.asarray(mixing, np.float64)
    k = rows.shape[1]
    if W.shape != A.shape[::-1] or W.shape[1:] != (k,):
        raise ValueError(
            f"components has shape {W.shape} and mixing {A.shape}; for this X they must"
            f" be (n_components, {k}) and ({k}, n_components)"
        )
    with one_blas_thread(), np.errstate(all="ignore"):
        sound = inliers_of(rows)
        judged = Fit(
            sound[row_sample(*sound.shape)],
            W,
            A,
            n or len(rows),
            noise=noise,
            uncorrelated=uncorrelated,
            tracking=tracking,
        )
        found = findings_without_refits(judged)
        moved = None
        band = None
        useless = {"constant", "scale"} & {one.name for one in found}
        if fit is not None and not useless:
            moved = uncertainty(sound, W, A, fit, judged.error)
            moved, band, shown = _left_open(moved, sound, W, A, judged, n_known)
            found += shown
        found += uncertain(judged, moved)
    names = (list(sources), list(mixtures))
    ranked = ranked_findings(found, tried)
    return Diagnosis(ranked, moved, band, judged.measures, *names)


def _left_open(
    moved: Uncertainty, X: Array, W: Array, A: Array, fit: Fit, n_known: int
) -> tuple[Uncertainty, Bands | None, list[Finding]]:
    """The uncertainty with what a curve leaves open, its bands, and what both show."""
    d = len(W)
    band = None
    found = []
    curve = follows_curve(X, d)
    if curve and fit.is_nonnegative:
        noise = np.sqrt(fit.noise)
        band = bands(X[row_sample(*X.shape)], W, A, noise, n_known)
        found += beyond("ambiguous", np.maximum(band.sources, band.spectra))
        error = np.hypot(moved.sources, band.sources)
        moved = moved._replace(sources=np.fmin(error, 1.0))
    elif d - n_known > 2 and follows_curve(X, d, most=4 * d):
        # It touches facets in points, and no spectra bound them: most of such fits are
        # wrong.
        moved = moved._replace(sources=np.ones(d))
        found += beyond("ambiguous", moved.sources)
    if not (curve or fit.tracking):
        found += beyond("changed", moved.change)
    return moved, band, found
