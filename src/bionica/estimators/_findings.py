"""What speaks against a fit: measurements on some samples, each with one limit, and the record of those beyond it.

All of it is measured on the weights and on the rows that are given, with u = W x, y = max(u, 0), the residual e = x - A u and
n = min(u, 0). `fit` reads the list and warns once, `diagnose` adds what refits show, `separate` chooses a method by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..offline.outliers import inliers_of
from ..offline.rotation import descend
from ._dask import DaskRows, blocks_of
from ._warn import warn

Array = NDArray[Any]
Floats = NDArray[np.float64]

#: All limits. Set on seeds 210000 to 210149 of benchmarks/trust.py, between what right fits (worst source above 0.99) and wrong
#: fits (below 0.9) measured there; in brackets the extremes of both.
LIMITS = {
    "halves": 0.85,  # correlation of an output between halves (right: 0.91 and more; streams of 1,300 samples 0.82)
    "scale": 4.0,  # factor by which the variance of an output of nonnegative ICA differs from 1 (right: up to 1.4)
    "transposed": 0.05,  # roughness of neighbouring rows over that of neighbouring columns (transposed spectra: 0.01)
    "few": 5,  # samples for each source: halves of fewer say nothing
    "directions": 0.1,  # energy of a direction of the residual over that of the weakest source (right: 0.01; missing: 0.1 to 5)
    "noise": 0.15,  # noise in the variance of an output (right: 0.02 and less)
    "negative": 1e-4,  # negative energy that grows with the other outputs (right: 1e-5; correlated, two signs: 5e-4)
    "energy": 0.05,  # share of the energy of an output that is negative beyond its noise (mean removed: 0.5)
    "unsettled": 0.2,  # sin^2 by which a descent turns an output of nonnegative ICA (right: 0.02; streams that stopped: 0.3)
    "untouched": 0.2,  # tenth lowest value of an output over its standard deviation (right: 0.16; with an offset: 0.5)
    "spectra": 0.1,  # negative energy of a spectrum where X is nonnegative (right: 0.01)
    "ambiguous": 0.7,  # width of the band of a spectrum over its largest value (kinetics: right up to 0.3, wrong 1.0)
    "support": 0.1,  # of a facet, below which a wide band is a finding (2 % of random nonnegative mixtures; kinetics: 0.08)
    "duplicate": 0.98,  # correlation of two outputs
    "huge": 1e3,  # typical largest output of a sample while a network learns (right: 1 to 10; rates that fail: 1e5 and more)
    "ceiling": 0.01,  # samples in which a mixture has its largest value
}
#: Statement and remedies of each finding, the gravest first. Outputs are {sources}, mixtures {mixtures}.
_STATEMENTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "collapsed": ("{sources}: overflow or constant, the weights have collapsed", ("natural", "rescale", "fewer")),
    "huge": ("outputs are {value:.2g} where 1 is right, because the weights have diverged", ("natural", "rescale")),
    "transposed": (
        "X may be transposed, because neighbouring rows are alike and neighbouring columns are not",
        ("transpose",),
    ),
    "few": ("{n} samples are few for {d} sources", ("more samples", "fewer")),
    "scale": ("{sources}: variance {value:.2g} where 1 is right", ("same scale", "natural", "more samples")),
    "unsettled": (
        "{sources}: not settled, other outputs of the same samples are less negative",
        ("more samples", "natural"),
    ),
    "halves": (
        "{sources}: uncertain, because two halves of the samples give outputs that correlate by {value:.2f}",
        ("more samples", "fewer"),
    ),
    "directions": (
        "X has more directions than these {d} sources explain ({value:.0%} of the weakest source)",
        ("count",),
    ),
    "noise": ("{sources}: {value:.0%} of the variance is noise", ("average",)),
    "negative": ("{sources}: more negative than noise explains ({value:.2g} of the energy)", ("cone", "mean", "count")),
    "untouched": ("{sources}: hardly ever near zero, so that other sources may fit as well", ("background",)),
    "spectra": (
        "{sources}: {value:.0%} of the energy of the spectrum is negative, although X is nonnegative",
        ("walls", "count"),
    ),
    "ambiguous": (
        "{sources}: other spectra and sources are as nonnegative (up to {value:.0%} of the largest channel)",
        ("known", "background"),
    ),
    "duplicate": ("{sources}: nearly alike (correlation {value:.2f})", ("fewer",)),
    "ceiling": (
        "{mixtures}: the largest value occurs in {value:.1%} of the samples, as of a saturated sensor",
        ("saturated",),
    ),
    "changed": (
        "the first and the second half of the samples give other sources (correlation {value:.2f}): the mixing changes, or "
        "sources are present in a part of the samples only",
        ("horizon",),
    ),
    "outliers": ("{n} samples are outliers and may carry the fit", ("outliers",)),
    "converged": ("{reason}", ()),
}
#: What to do, in Python. The command line has its own words for some of them.
REMEDIES = {
    "natural": "use the default precondition='natural'",
    "rescale": "rescale X",
    "fewer": "lower n_components",
    "more samples": "bring more samples",
    "transpose": "pass X.T",
    "same scale": "pass X in the unit of the fit",
    "count": "try another n_components (bionica.separate counts)",
    "average": "average samples, or bring more mixtures",
    "cone": "use MinimumVolumeCone if sources are correlated",
    "mean": "pass X with its mean",
    "background": "subtract a constant background, or bring samples in which sources are absent",
    "walls": "use MinimumVolumeCone(nonnegative_mixing=True)",
    "saturated": "leave these mixtures or samples out",
    "known": "give spectra that you know as known_mixing",
    "horizon": "set horizon= if the mixing changes",
    "outliers": "remove them",
}


class Finding(NamedTuple):
    """One thing that speaks against a fit.

    Attributes
    ----------
    name : str
        Which, a key of the table of limits or "collapsed", "changed", "outliers", "converged".
    sources, mixtures : tuple of int
        Outputs and mixtures that it concerns, counted from 0.
    values : dict
        Its numbers: mostly "value" and "limit".
    remedies : tuple of str
        Keys of what to do, the first most likely.
    """

    name: str
    sources: tuple[int, ...] = ()
    mixtures: tuple[int, ...] = ()
    values: Mapping[str, Any] = {}
    remedies: tuple[str, ...] = ()

    def text(
        self,
        sources: Sequence[str] | None = None,
        mixtures: Sequence[str] | None = None,
        remedies: Mapping[str, str] = REMEDIES,
    ) -> str:
        """One sentence, with these names of outputs and mixtures and these words for the remedies."""
        statement = _STATEMENTS[self.name][0].format(
            sources=_listed("output", self.sources, sources),
            mixtures=_listed("mixture", self.mixtures, mixtures),
            **self.values,
        )
        advice = ", or ".join(remedies[key] for key in self.remedies if remedies.get(key))
        return f"{statement}. {advice[:1].upper()}{advice[1:]}." if advice else f"{statement}."


def _listed(noun: str, indices: Sequence[int], names: Sequence[str] | None, most: int = 4) -> str:
    if names is None:
        words = [str(i) for i in indices]
        start = f"{noun}s " if len(words) > 1 else f"{noun} "
    else:
        words, start = [str(names[i]) for i in indices], ""
    if len(words) > most:
        return f"{start}{', '.join(words[:most])} and {len(words) - most} others"
    return start + " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def finding(name: str, sources: Any = (), value: float = 0.0, *, mixtures: Any = (), **values: Any) -> Finding:
    """A finding with the remedies of its name."""
    values = {"value": float(value), "limit": LIMITS.get(name), **values}
    return Finding(name, tuple(map(int, sources)), tuple(map(int, mixtures)), values, _STATEMENTS[name][1])


class RowCollector:
    """Collects about 4,000 evenly spaced rows while a fit reads the blocks of X; of the `last` rows only, for a horizon."""

    def __init__(self, shape: tuple[int, int], last: int | None = None) -> None:
        self.n = shape[0]
        last = self.n if last is None else min(last, self.n)
        self._wanted = self.n - last + row_sample(last, shape[1])
        self._read = 0
        self._parts: list[Array] = []

    def passing(self, X: Array | DaskRows) -> Iterator[Array]:
        """Yield the blocks of X, and collect rows in the first pass."""
        for block in blocks_of(X):
            if self._read < self.n:
                first, stop = np.searchsorted(self._wanted, [self._read, self._read + len(block)])
                self._parts.append(block[self._wanted[first:stop] - self._read].astype(np.float64))
                self._read += len(block)
            yield block
            del block  # before the next one is computed

    @property
    def rows(self) -> Array:
        """What was collected."""
        return np.concatenate(self._parts)


def row_sample(n: int, k: int, most: int = 4000, numbers: int = 1 << 21) -> NDArray[np.intp]:
    """Which of n rows of k numbers to look at: evenly spaced, at most `most`, and about `numbers` numbers."""
    most = min(n, most, max(200, numbers // max(k, 1)))
    return np.arange(most) * n // max(most, 1)


class Measures(NamedTuple):
    """Numbers about outputs on some samples: what the findings compare with their limits, and what a diagnosis shows."""

    n_samples: int
    n_outliers: int
    variance: Floats
    noise: Floats  # variance of the noise of each output; 0 if it is not known
    negativity: Floats  # share of the energy of each linear output that is negative
    correlations: Floats
    is_nonnegative: bool  # X, but for noise
    residual: float  # share of the variance of X that the outputs leave unexplained
    findings: tuple[Finding, ...]


def measure(
    X: Array,
    W: Array,
    A: Array,
    *,
    n: int | None = None,
    uncorrelated: bool = True,
    noise: Array | None = None,
    tracking: bool = False,
) -> Measures:
    """Measure the components W (d, k) and spectra A (k, d) on some rows X, of n.

    `uncorrelated`: as nonnegative ICA asks of its outputs, which have unit variance then. `noise` is the standard deviation of
    that of the outputs, if the estimator knows it. `tracking`: the mixing changes, which makes outputs negative.
    """
    given, d, k = len(X), len(W), W.shape[1]
    n = given if n is None else n
    unit = float(np.abs(X).max(initial=0.0)) or 1.0
    X, W, A = np.asarray(X, np.float64) / unit, np.asarray(W, np.float64) * unit, np.asarray(A, np.float64) / unit
    with np.errstate(all="ignore"):
        U = X @ W.T
        std = U.std(axis=0)
    bad = np.flatnonzero(~(np.isfinite(U).all(axis=0) & (std > 0) & (std < 1e100)))
    if len(bad):
        empty = np.zeros(d)
        return Measures(given, 0, empty, empty, empty, np.eye(d), False, 1.0, (finding("collapsed", bad),))
    transposed = _smoothness(X)
    inliers = inliers_of(X)
    n_outliers = given - len(inliers)
    X, U = inliers, inliers @ W.T
    std, energy = np.maximum(U.std(axis=0), 1e-300), np.maximum(np.mean(U**2, axis=0), 1e-300)
    E = X - U @ A.T
    N, Y = np.minimum(U, 0) ** 2, np.maximum(U, 0)
    leverage = np.clip(np.einsum("kd,dk->k", A, W), 0, 1)
    output_noise = (W**2) @ (np.mean(E**2, axis=0) / np.maximum(1 - leverage, 0.05)) if k > d else np.zeros(d)
    if noise is not None:
        output_noise = np.maximum(output_noise if k > d + 1 else 0.0, np.asarray(noise, np.float64) ** 2)
    is_nonnegative = bool(np.sum(np.minimum(X, 0) ** 2) < 1e-4 * np.sum(X**2))
    with np.errstate(invalid="ignore"):  # an output that is zero everywhere
        correlations = np.nan_to_num(np.corrcoef(Y.T)).reshape(d, d) if d > 1 else np.eye(1)
    total = float(np.sum((X - X.mean(axis=0)) ** 2))

    def found() -> Iterator[Finding]:
        if n < k and transposed < LIMITS["transposed"]:
            yield finding("transposed", value=transposed)
        if n < LIMITS["few"] * d:
            yield finding("few", value=n / d, n=n, d=d)
        off = np.maximum(std**2, 1 / std**2)
        if uncorrelated and off.max() > LIMITS["scale"]:
            yield finding("scale", np.flatnonzero(off > LIMITS["scale"]), std[np.argmax(off)] ** 2)
        elif uncorrelated and d > 1 and not tracking:
            turned = _turned(U)
            if turned.max() > LIMITS["unsettled"]:
                yield finding("unsettled", np.flatnonzero(turned > LIMITS["unsettled"]), turned.max())
        gap = _outer_direction(E, A * np.sqrt(energy))
        if gap > LIMITS["directions"]:
            yield finding("directions", value=gap, d=d)
        share = output_noise / std**2
        if share.max() > LIMITS["noise"]:
            yield finding("noise", np.flatnonzero(share > LIMITS["noise"]), min(share.max(), 1.0))
        dependent = _dependent(N, Y) / energy
        # Nonnegative ICA makes chance correlations exactly zero, which turns right outputs by about 1 / sqrt(n).
        limit = LIMITS["negative"] + (d - 1) / (4 * n) * uncorrelated
        negative = (dependent > limit) | (N.mean(axis=0) > output_noise + LIMITS["energy"] * energy)
        if negative.any() and not tracking:
            yield finding("negative", np.flatnonzero(negative), np.max(N.mean(axis=0) / energy))
        lowest = np.sort(U, axis=0)[min(9, len(U) // 50)] / std
        if lowest.max() > LIMITS["untouched"]:
            yield finding("untouched", np.flatnonzero(lowest > LIMITS["untouched"]), lowest.max())
        if is_nonnegative:
            below = np.sum(np.minimum(A, 0) ** 2, axis=0) / np.maximum(np.sum(A**2, axis=0), 1e-300)
            if below.max() > LIMITS["spectra"]:
                yield finding("spectra", np.flatnonzero(below > LIMITS["spectra"]), below.max())
        alike = np.triu(correlations, 1)
        if d > 1 and alike.max() > LIMITS["duplicate"]:
            yield finding("duplicate", np.unravel_index(np.argmax(alike), alike.shape), alike.max())
        top = np.mean((X == X.max(axis=0)) & (X.max(axis=0) > 0), axis=0)  # 0: all sources are silent
        if len(X) >= 200 and top.max() > LIMITS["ceiling"]:
            yield finding("ceiling", value=top.max(), mixtures=np.flatnonzero(top > LIMITS["ceiling"]))

    listed = sorted(found(), key=lambda one: list(_STATEMENTS).index(one.name))
    if listed and n_outliers:
        listed.append(finding("outliers", n=n_outliers))
    return Measures(
        n_samples=given,
        n_outliers=n_outliers,
        variance=std**2,
        noise=output_noise,
        negativity=N.mean(axis=0) / energy,
        correlations=correlations,
        is_nonnegative=is_nonnegative,
        residual=float(np.sum((E - E.mean(axis=0)) ** 2)) / total if total else 0.0,
        findings=tuple(listed),
    )


def _smoothness(X: Array) -> float:
    """Energy of the differences of neighbouring rows over that of neighbouring columns, both over their variance."""

    def roughness(x: Array) -> float:
        variance = float(np.sum((x - x.mean(axis=0)) ** 2))
        return 0.5 * float(np.sum(np.diff(x, axis=0) ** 2)) / variance if variance > 0 else 1.0

    return roughness(X) / max(roughness(X.T), 1e-300) if min(X.shape) > 2 else 1.0


def _turned(U: Array) -> Array:
    """By how much a descent turns each of the outputs U, once white: sin^2 of the angle, 0 if it hardly gains anything."""
    d = U.shape[1]
    w, V = np.linalg.eigh(np.cov(U.T, bias=True))
    if w[0] <= 1e-10 * w[-1]:
        return np.ones(d)
    Z = np.ascontiguousarray(U @ (V / np.sqrt(w)) @ V.T)
    before = 0.5 * float(np.sum(np.minimum(Z, 0) ** 2)) / len(Z)
    if before < 1e-5 * d:
        return np.zeros(d)
    end = descend(Z, np.eye(d), tol=1e-3, max_iter=50)
    return np.asarray(1 - np.max(end.x**2, axis=1)) if end.value < before / 2 else np.zeros(d)


def _outer_direction(E: Array, spectra: Array) -> float:
    """Energy of the leading direction of the residual, above that of the others, over that of the weakest source."""
    k, d = spectra.shape
    if k == d:
        return 0.0
    gram = E @ E.T if len(E) < k else E.T @ E
    values = np.maximum(np.linalg.eigvalsh(gram)[::-1][: k - d], 0) / len(E)
    others = float(values[1:].mean()) * (1 + np.sqrt(k / len(E))) ** 2 if len(values) > 1 else 0.0
    weakest = float(np.linalg.svd(spectra, compute_uv=False)[-1]) ** 2
    return max(float(values[0]) - others, 0.0) / max(weakest, 1e-300)


def _dependent(N: Array, Y: Array) -> Array:
    """Negative energy of each output that grows with the sum of the others, beyond three standard errors.

    Noise makes outputs negative whatever the others do. Samples outside of the cone are more negative the larger they are.
    """
    others = Y.sum(axis=1)[:, np.newaxis] - Y
    if not others.any():
        return np.zeros(N.shape[1])
    each = N * (others / np.maximum(others.mean(axis=0), 1e-300) - 1)
    return np.asarray(each.mean(axis=0) - 3 * each.std(axis=0) / np.sqrt(len(each)))


def conclude(estimator: Any, rows: Array, n: int, *own: Finding) -> None:
    """Warn once of what speaks against the fit of an estimator to n samples, of which `rows` are some; `own` is what it knows."""
    found = measure_of(estimator, rows, n).findings
    told = [*own, *found][:3]
    if told:
        name = type(estimator).__name__
        warn(f"{name}: {' '.join(sentence[:1].upper() + sentence[1:] for sentence in (one.text() for one in told))}")


def warn_of_huge_outputs(estimator: Any, Y: Array) -> None:
    """Warn if the outputs of a network, whose variance should be 1, are typically huge while it learns."""
    if estimator._uncorrelated and len(Y) and (size := float(np.median(Y.max(axis=1)))) > LIMITS["huge"]:
        warn(f"{type(estimator).__name__}: {finding('huge', value=size).text()}")


def measure_of(estimator: Any, rows: Array, n: int) -> Measures:
    """`measure` for the weights of an estimator, with the remedies that it has not tried."""
    measures = measure(
        rows,
        estimator.components_,
        estimator.mixing_,
        n=n,
        uncorrelated=estimator._uncorrelated,
        noise=getattr(estimator, "noise_", None),
        tracking=getattr(estimator, "horizon", None) is not None,
    )
    tried = {"natural"} if getattr(estimator, "precondition", "natural") == "natural" else set()
    tried |= set() if estimator._uncorrelated else {"cone"}
    tried |= {"walls"} if getattr(estimator, "nonnegative_mixing_", False) else set()
    untried = (
        one._replace(remedies=tuple(key for key in one.remedies if key not in tried)) for one in measures.findings
    )
    return measures._replace(findings=tuple(untried))
