"""What speaks against a fit: measurements on some samples, each with one limit, and the record of those beyond it.

All of it is measured on the weights and on the rows that are given, with u = W x, y = max(u, 0) and the residual e = x - A u.
`fit` reads the list and warns once, `diagnose` adds what refits show, `separate` chooses a method by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
#: measured on seeds 500000 to 500359 and 620000 to 620239 of benchmarks/trust.py. Outputs are {sources}, mixtures {mixtures}.
CHECKS = {
    "collapsed": Check(
        1e100, "{sources}: overflow or constant, the weights collapsed", ("natural", "rescale", "fewer")
    ),
    # Typical largest output of a sample while a network learns: right 1 to 10; rates that fail 1e5 and more.
    "huge": Check(1e3, "outputs are {value:.2g} where 1 is right, because the weights diverge", ("natural", "rescale")),
    # Roughness of neighbouring columns over that of neighbouring rows: transposed spectra 100.
    "transposed": Check(20, "X may be transposed: neighbouring rows are alike, columns are not", ("transpose",)),
    # Sources for each sample.
    "few": Check(0.2, "{n} samples are few for {d} sources", ("more samples", "fewer")),
    # Factor by which the variance of an output of nonnegative ICA differs from 1.
    "scale": Check(
        4, "{sources}: variance {value:.2g} times too large or small", ("same scale", "natural", "more samples")
    ),
    # Share of the variance of an output that is error of the fit, from halves.
    "halves": Check(
        0.08, "{sources}: uncertain by {value:.0%} of the variance, as halves show", ("more samples", "fewer")
    ),
    # Energy of the leading direction of the residual, above that of the others, over that of the weakest source.
    "directions": Check(0.1, "X has more directions than these {d} sources ({value:.2g} of the weakest)", ("count",)),
    # Energy of a direction of the residual over that of the next one, if it has 0.2 % of that of the weakest source.
    "missing": Check(
        10, "X has a direction beyond these {d} sources, {value:.2g} times as strong as the next", ("count",)
    ),
    "noise": Check(0.1, "{sources}: {value:.0%} of the variance is noise", ("average",)),
    # Share of the variance of an output that others make by being subtracted from it.
    "negative": Check(0.007, "{sources}: negative where other outputs are large", ("cone", "mean", "count")),
    # Share of the energy of an output that is negative beyond its noise.
    "centred": Check(0.05, "{sources}: {value:.0%} of the energy is negative", ("mean", "cone", "count")),
    # Tenth lowest value of an output over its standard deviation.
    "untouched": Check(1, "{sources}: hardly ever near zero, so that other sources may fit as well", ("background",)),
    "spectra": Check(
        0.1, "{sources}: {value:.0%} of the spectrum is negative, though X is nonnegative", ("walls", "count")
    ),
    # Width of the band of a spectrum over its largest value, where no facet is touched by samples in which all others vary.
    "ambiguous": Check(0.6, "{sources}: other spectra and sources are as nonnegative", ("known", "background")),
    "duplicate": Check(0.98, "{sources}: nearly alike (correlation {value:.2f})", ("fewer",)),
    # Share of the samples in which a mixture has its largest value.
    "ceiling": Check(
        0.01, "{mixtures}: saturated, the largest value occurs in {value:.1%} of the samples", ("saturated",)
    ),
    # Disagreement (1 - correlation) of the first and the second half of the samples, as a reason for other findings.
    "changed": Check(0.15, "the first and the second half of the samples give other sources", ("horizon",)),
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
    misfit: Floats  # the same, if the residual is not white: as large as its leading direction
    negativity: Floats  # share of the energy of each linear output that is negative
    is_nonnegative: bool  # X, but for noise
    residual: float  # share of the variance of X that the outputs leave unexplained
    findings: tuple[Finding, ...]


def measure(estimator: Any, X: Array, n: int) -> Measures:
    """Measure the weights of an estimator on some rows X, of n. Findings name only remedies that it has not tried."""
    W, A = (np.asarray(M, np.float64) for M in (estimator.components_, estimator.mixing_))
    (d, k), given = W.shape, len(X)
    uncorrelated = estimator._uncorrelated  # nonnegative ICA: unit variance too
    tracking = getattr(estimator, "horizon", None) is not None  # a mixing that changes makes outputs negative
    unit = float(np.abs(X).max(initial=0.0)) or 1.0
    X, W, A = np.asarray(X, np.float64) / unit, W * unit, A / unit
    with np.errstate(all="ignore"):
        spread = (X @ W.T).std(axis=0)
    bad = np.flatnonzero(~((spread > 0) & (spread < CHECKS["collapsed"].limit)))
    if len(bad):
        empty = np.zeros(d)
        return Measures(empty, empty, empty, empty, False, 1.0, (finding("collapsed", sources=bad),))
    smoothness = _smoothness(X)
    X = inliers_of(X)
    U = X @ W.T
    variance, energy = np.maximum(U.var(axis=0), 1e-300), np.maximum(np.mean(U**2, axis=0), 1e-300)
    E, N = X - U @ A.T, np.minimum(U, 0) ** 2
    leverage = np.clip(np.einsum("kd,dk->k", A, W), 0, 1)
    left = np.sqrt(np.mean(E**2, axis=0))
    noise = (W**2) @ (left**2 / np.maximum(1 - leverage, 0.05)) if k > d + 1 else np.zeros(d)
    known = getattr(estimator, "noise_", None)
    if known is not None:
        noise = np.maximum(noise, np.asarray(known, np.float64) ** 2)
    blur = noise
    if k <= d + 1 and known is None:  # of Gaussian noise around a facet, <n^2> / P(u < 0) is 2/3 of the variance
        blur = 1.5 * N.sum(axis=0) / np.maximum(np.sum(U < 0, axis=0), 1)
    misfit = blur
    if k > d + 1:  # a model error that the residual shows in one direction may be as large within the span of A
        white = k / (k - d) * (1 + np.sqrt((k - d) / len(X))) ** 2  # largest energy of white noise with unit variance
        misfit = blur * max(float(_energies(E / np.maximum(left, 1e-300))[0]) / white, 1.0)
    is_nonnegative = bool(np.sum(np.minimum(X, 0) ** 2) < 1e-4 * np.sum(X**2))
    with np.errstate(invalid="ignore"):  # an output that is zero everywhere
        alike = np.nan_to_num(np.corrcoef(np.maximum(U, 0).T)).reshape(d, d) * (1 - np.eye(d))
    top = X.max(axis=0)
    found = [
        *(exceeds("transposed", smoothness) if n < k else []),
        *exceeds("few", d / n, n=n, d=d),
        *(exceeds("scale", np.maximum(variance, 1 / variance)) if uncorrelated else []),
        *_outer_directions(E, A * np.sqrt(energy)),
        *exceeds("noise", np.minimum(blur / variance, 1.0)),
        *(exceeds("negative", _subtracted(U, noise)) if not tracking else []),
        *(exceeds("centred", (N.mean(axis=0) - noise) / energy) if not tracking else []),
        *exceeds("untouched", np.sort(U, axis=0)[min(9, len(U) // 50)] / np.sqrt(variance)),
        *exceeds("duplicate", alike.max(axis=0)),
        *(exceeds("ceiling", np.mean((X == top) & (top > 0), axis=0), "mixtures") if len(X) >= 200 else []),
    ]
    if is_nonnegative:
        below = np.sum(np.minimum(A, 0) ** 2, axis=0) / np.maximum(np.sum(A**2, axis=0), 1e-300)
        found += exceeds("spectra", below)
    if found and len(X) < given:
        found.append(finding("outliers", n=given - len(X)))
    default = getattr(type(estimator), "precondition", None) == "natural"
    tried = set() if default and estimator.precondition != "natural" else {"natural"}
    tried |= set() if uncorrelated else {"cone"}
    tried |= {"walls"} if getattr(estimator, "nonnegative_mixing_", False) else set()
    total = float(np.sum((X - X.mean(axis=0)) ** 2))
    return Measures(
        variance=variance,
        noise=blur,
        misfit=misfit,
        negativity=N.mean(axis=0) / energy,
        is_nonnegative=is_nonnegative,
        residual=float(np.sum((E - E.mean(axis=0)) ** 2)) / total if total else 0.0,
        findings=tuple(one._replace(remedies=tuple(r for r in one.remedies if r not in tried)) for one in found),
    )


def _smoothness(X: Array) -> float:
    """Energy of the differences of neighbouring columns over that of neighbouring rows, both over their variance."""

    def roughness(x: Array) -> float:
        variance = float(np.sum((x - x.mean(axis=0)) ** 2))
        return 0.5 * float(np.sum(np.diff(x, axis=0) ** 2)) / variance if variance > 0 else 1.0

    return roughness(X.T) / max(roughness(X), 1e-300) if min(X.shape) > 2 else 1.0


def _energies(E: Array) -> Array:
    """Energy of the samples E along each of their directions, the largest first."""
    n, k = E.shape
    return np.asarray(np.maximum(np.linalg.eigvalsh(E @ E.T if n < k else E.T @ E)[::-1], 0) / n)


def _outer_directions(E: Array, spectra: Array) -> list[Finding]:
    """Directions of the residual that a source may explain: as strong as a source, or far stronger than the next ones."""
    k, d = spectra.shape
    if k == d:
        return []
    values = _energies(E)[: k - d]
    others = float(values[1:].mean()) * (1 + np.sqrt(k / len(E))) ** 2 if len(values) > 1 else 0.0
    weakest = max(float(np.linalg.svd(spectra, compute_uv=False)[-1]) ** 2, 1e-300)
    ratio = values[0] / max(values[1], 1e-300) if len(values) > 1 and values[0] > 0.002 * weakest else 0.0
    return exceeds("directions", (values[0] - others) / weakest, d=d) or exceeds("missing", ratio, d=d)


def _subtracted(U: Array, noise: Array) -> Array:
    """Share of the variance of each output that is subtracted by the others.

    If u_i = s_i - sum_j t_j s_j, then u_i < 0 where s_i is small, and it falls with s_j there: with slope t_j for sources that are
    often zero, and t_j / 2 for a density at zero. Noise makes outputs negative whatever the others are. The slope of each pair
    counts as far as it exceeds three standard errors (with each sample left out: a few samples may decide it), and as far as
    more than noise varies the other output in these samples: the noise of two outputs is correlated.
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
        reliable = np.maximum(1 - noise * len(u) / energy, 0)
        found[i] = np.sum((reliable * np.maximum(slope - 3 * error, 0)) ** 2)
    return found


def conclude(estimator: Any, rows: Array, n: int, *own: Finding) -> None:
    """Warn once of what speaks against the fit of an estimator to n samples, of which `rows` are some; `own` is what it knows."""
    sentences = [one.text() for one in (*own, *measure(estimator, rows, n).findings)][:3]
    if sentences:
        warn(f"{type(estimator).__name__}: {' '.join(one[:1].upper() + one[1:] for one in sentences)}")


def warn_of_huge_outputs(estimator: Any, Y: Array) -> None:
    """Warn if the outputs of a network, whose variance should be 1, are typically huge while it learns."""
    if estimator._uncorrelated and len(Y):
        for one in exceeds("huge", float(np.median(Y.max(axis=1)))):
            warn(f"{type(estimator).__name__}: {one.text()}")
