"""What speaks against a fit: measurements on some samples, each with one limit, and the record of those beyond it.

All of it is measured on the weights and on the rows that are given, with u = W x, y = max(u, 0) and the residual e = x - A u.
`fit` reads the list and warns once, `diagnose` adds what refits show, `separate` chooses a method by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..offline.halves import roughness
from ..offline.outliers import inliers_of
from ._input import DaskRows, blocks_of, warn

Array = NDArray[Any]
Floats = NDArray[np.float64]


class Check(NamedTuple):
    """The limit that a measured value exceeds if something is wrong, what is said then, and keys of the remedies."""

    limit: float
    statement: str
    remedies: tuple[str, ...] = ()


#: All checks, the gravest first. The limits lie between what right fits (worst source above 0.99) and wrong fits (below 0.9)
#: measured on seeds 860000 to 860799 and 861000 to 861239 of benchmarks/trust.py. Outputs are {sources}, mixtures {mixtures}.
CHECKS = {
    # Factor by which the variance of an output of nonnegative ICA differs from 1; infinite if it is 0 or overflows.
    "scale": Check(
        4,
        "{sources}: variance {value:.2g} times too large or small",
        ("natural", "same scale", "more samples", "fewer"),
    ),
    # Typical largest output of a sample while a network learns: right 1 to 10; rates that fail 1e5 and more.
    "huge": Check(1e3, "outputs are {value:.2g} where 1 is right, because the weights diverge", ("natural", "rescale")),
    # Roughness of neighbouring columns over that of neighbouring rows: transposed spectra 100.
    "transposed": Check(20, "X may be transposed: neighbouring rows are alike, columns are not", ("transpose",)),
    # Share of the variance of an output that is error of the fit, from halves.
    "halves": Check(
        0.08, "{sources}: uncertain by {value:.0%} of the variance, as halves show", ("more samples", "fewer")
    ),
    # Energy of the leading direction of the residual, above that of the others and over that of the weakest source, times its
    # energy over that of the next one.
    "directions": Check(0.3, "X has a direction beyond these {d} sources ({value:.2g} of the weakest)", ("count",)),
    "noise": Check(0.05, "{sources}: {value:.0%} of the variance is noise", ("average",)),
    # Share of the variance of an output that others make by being subtracted from it.
    "negative": Check(0.035, "{sources}: negative where other outputs are large", ("cone", "mean", "count")),
    # Lower quartile of an output below zero, in standard deviations: as if a mean had been subtracted.
    "centred": Check(0.5, "{sources}: a quarter of the values or more are clearly negative", ("mean", "cone", "count")),
    "spectra": Check(
        0.1, "{sources}: {value:.0%} of the spectrum is negative, though X is nonnegative", ("walls", "count")
    ),
    # Standard error of an output or its spectrum in what nonnegativity allows, if the samples follow a curve. The true error was
    # below twice that number in all of 2,100 outputs of made-up reactions, titrations and chromatograms.
    "ambiguous": Check(0.2, "{sources}: nonnegativity leaves them open by {value:.0%}", ("known", "background")),
    "duplicate": Check(0.9, "{sources}: nearly alike (correlation {value:.2f})", ("fewer",)),
    # Share of the samples in which a mixture has its largest value.
    "ceiling": Check(
        0.05, "{mixtures}: saturated, the largest value occurs in {value:.1%} of the samples", ("saturated",)
    ),
    # Reasons for other findings.
    "changed": Check(0, "the first and the second half of the samples give other sources", ("horizon",)),
    "outliers": Check(0, "{n} samples are outliers and may carry the fit", ("outliers",)),
    "converged": Check(0, "{reason}"),
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
        Which, a key of the table of checks.
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
        statement = CHECKS[self.name].statement.format(
            sources=_listed("output", self.sources, sources),
            mixtures=_listed("mixture", self.mixtures, mixtures),
            **self.values,
        )
        advice = ", or ".join(remedies[key] for key in self.remedies if remedies.get(key))
        return f"{statement}. {advice[:1].upper()}{advice[1:]}." if advice else f"{statement}."


def _listed(noun: str, indices: Sequence[int], names: Sequence[str] | None, most: int = 4) -> str:
    words = [str(i if names is None else names[i]) for i in indices]
    start = "" if names is not None else f"{noun}s " if len(words) > 1 else f"{noun} "
    if len(words) > most:
        return f"{start}{', '.join(words[:most])} and {len(words) - most} others"
    return start + " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def finding(name: str, value: float = 0.0, sources: Any = (), mixtures: Any = (), **values: Any) -> Finding:
    """A finding with the limit and the remedies of its check."""
    limit, _, remedies = CHECKS[name]
    values = {"value": float(value), "limit": limit, **values}
    return Finding(name, tuple(map(int, sources)), tuple(map(int, mixtures)), values, remedies)


def exceeds(name: str, values: ArrayLike, of: str = "sources", **numbers: Any) -> list[Finding]:
    """The finding of a check, if one of these values exceeds its limit: for each source or mixture, or a single one."""
    values = np.asarray(values)
    where = np.flatnonzero(values > CHECKS[name].limit)
    if not len(where):
        return []
    return [finding(name, values.max(), **({of: where} if values.ndim else {}), **numbers)]


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

    variance: Floats
    noise: Floats  # variance of the noise of each output
    misfit: Floats  # and a model error as large as the leading direction of the residual, in the span of the spectra
    negativity: Floats  # share of the energy of each linear output that is negative
    is_nonnegative: bool  # X, but for noise
    residual: float  # share of the variance of X that the outputs leave unexplained
    findings: tuple[Finding, ...]


def measure(estimator: Any, X: Array, n: int) -> Measures:
    """Measure the weights of an estimator on some rows X, of n. Findings name only remedies that it has not tried."""
    W, A = (np.asarray(M, np.float64) for M in (estimator.components_, estimator.mixing_))
    (d, k), given = W.shape, len(X)
    unit = float(np.abs(X).max(initial=0.0)) or 1.0
    X, W, A = np.asarray(X, np.float64) / unit, W * unit, A / unit
    with np.errstate(all="ignore"):
        spread = (X @ W.T).std(axis=0)
        bad = np.flatnonzero(~((spread > 0) & np.isfinite(spread**4)))
    if len(bad):
        empty = np.zeros(d)
        return Measures(empty, empty, empty, empty, False, 1.0, (finding("scale", np.inf, bad),))
    smoothness = roughness(X.T) / roughness(X)
    X = inliers_of(X)
    U = X @ W.T
    variance, energy = np.maximum(U.var(axis=0), 1e-300), np.maximum(np.mean(U**2, axis=0), 1e-300)
    E, N = X - U @ A.T, np.minimum(U, 0) ** 2
    known = getattr(estimator, "noise_", None)
    outside = np.zeros(d)  # variance of the noise that the directions left out show
    if k > d + 1:
        leverage = np.clip(np.einsum("kd,dk->k", A, W), 0, 1)
        outside = (W**2) @ (np.mean(E**2, axis=0) / np.maximum(1 - leverage, 0.05))
    if known is not None:
        outside = np.maximum(outside, np.asarray(known, np.float64) ** 2)
    noise = outside
    if k <= d + 1 and known is None:  # of Gaussian noise around a facet, <n^2> / P(u < 0) is 2/3 of the variance
        noise = 1.5 * N.sum(axis=0) / np.maximum(np.sum(U < 0, axis=0), 1)
    excess, ratio = _leading_residual(E, A * np.sqrt(energy))
    is_nonnegative = bool(np.sum(np.minimum(X, 0) ** 2) < 1e-4 * np.sum(X**2))
    below = np.sum(np.minimum(A, 0) ** 2, axis=0) / np.maximum(np.sum(A**2, axis=0), 1e-300)
    with np.errstate(invalid="ignore"):  # an output that is zero everywhere
        alike = np.nan_to_num(np.corrcoef(np.maximum(U, 0).T)).reshape(d, d) * (1 - np.eye(d))
    top = X.max(axis=0)
    tracking = getattr(estimator, "horizon", None) is not None  # a mixing that changes makes outputs negative
    found = [
        *(exceeds("scale", np.maximum(variance, 1 / variance)) if estimator._uncorrelated else []),
        *(exceeds("transposed", smoothness) if n < k else []),
        *exceeds("directions", excess * ratio, d=d),
        *exceeds("noise", np.minimum(noise / variance, 1.0)),
        *(exceeds("negative", _subtracted(U, outside)) if not tracking else []),
        *(exceeds("centred", -np.quantile(U, 0.25, axis=0) / np.sqrt(variance)) if not tracking else []),
        *(exceeds("spectra", below) if is_nonnegative else []),
        *exceeds("duplicate", alike.max(axis=0)),
        *(exceeds("ceiling", np.mean((X == top) & (top > 0), axis=0), "mixtures") if len(X) >= 200 else []),
    ]
    if found and len(X) < given:
        found.append(finding("outliers", n=given - len(X)))
    default = getattr(type(estimator), "precondition", None) == "natural"
    useless = set() if default and estimator.precondition != "natural" else {"natural"}
    useless |= set() if estimator._uncorrelated else {"cone"}
    useless |= {"walls"} if getattr(estimator, "nonnegative_mixing_", False) else set()
    total = float(np.sum((X - X.mean(axis=0)) ** 2))
    return Measures(
        variance=variance,
        noise=noise,
        misfit=noise + excess * energy,
        negativity=N.mean(axis=0) / energy,
        is_nonnegative=is_nonnegative,
        residual=float(np.sum((E - E.mean(axis=0)) ** 2)) / total if total else 0.0,
        findings=tuple(one._replace(remedies=tuple(r for r in one.remedies if r not in useless)) for one in found),
    )


def _leading_residual(E: Array, spectra: Array) -> tuple[float, float]:
    """Energy of the leading direction of the residual: above noise, over that of the weakest source; and over the next one."""
    (n, k), d = E.shape, spectra.shape[1]
    if k == d:
        return 0.0, 1.0
    values = np.maximum(np.linalg.eigvalsh(E @ E.T if n < k else E.T @ E)[::-1], 0)[: k - d] / n
    others = float(values[1:].mean()) * (1 + np.sqrt(k / n)) ** 2 if len(values) > 1 else 0.0
    weakest = max(float(np.linalg.svd(spectra, compute_uv=False)[-1]) ** 2, 1e-300)
    ratio = float(values[0] / max(values[1], 1e-300)) if len(values) > 1 else 1.0
    return max(float(values[0]) - others, 0.0) / weakest, ratio


def _subtracted(U: Array, noise: Array) -> Array:
    """Share of the variance of each output that is subtracted by the others.

    If u_i = s_i - sum_j t_j s_j, then u_i < 0 where s_i is small, and it falls with s_j there: with slope t_j for sources that are
    often zero, where the others explain all of it (R^2 = 1), and t_j / 2 for a density at zero, where they explain little. So t_j
    is the slope times 2 - R^2. Noise makes outputs negative whatever the others are. The slope of each pair counts as far as
    it exceeds three standard errors (with each sample left out: a few samples may decide it), and as far as more than noise
    varies the other output in these samples: the noise of two outputs is correlated.
    """
    scale = np.maximum(U.std(axis=0), 1e-300)
    U, noise = U / scale, noise / scale**2
    found = np.zeros(U.shape[1])
    for i, below in enumerate((U < 0).T):
        if np.sum(below) < 10:
            continue
        u, Y = U[below, i], np.maximum(U[below], 0)
        u, Y = u - u.mean(), Y - Y.mean(axis=0)
        energy = np.maximum(np.sum(Y**2, axis=0), 1e-300)
        slope = -(u @ Y) / energy
        left_out = (u[:, np.newaxis] + Y * slope) / np.maximum(1 - 1 / len(u) - Y**2 / energy, 1e-3)
        error = np.sqrt(np.sum((Y * left_out) ** 2, axis=0)) / energy
        certain = np.maximum(1 - noise * len(u) / energy, 0) * np.maximum(slope - 3 * error, 0)
        explained = min(-float(u @ Y @ certain) / max(float(u @ u), 1e-300), 1.0)
        found[i] = np.sum((certain * (2 - explained)) ** 2)
    return found


def conclude(estimator: Any, rows: Array, n: int, *more: Finding) -> None:
    """Warn once of what speaks against the fit of an estimator to n samples, of which `rows` are some; it knows of `more`."""
    sentences = [one.text() for one in (*more, *measure(estimator, rows, n).findings)][:3]
    if sentences:
        warn(f"{type(estimator).__name__}: {' '.join(one[:1].upper() + one[1:] for one in sentences)}")


def warn_of_huge_outputs(estimator: Any, Y: Array) -> None:
    """Warn if the outputs of a network, whose variance should be 1, are typically huge while it learns."""
    if estimator._uncorrelated and len(Y):
        for one in exceeds("huge", float(np.median(Y.max(axis=1)))):
            warn(f"{type(estimator).__name__}: {one.text()}")
