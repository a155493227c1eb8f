"""Evidence against a fit: measurements on some samples, each with one limit, and the record of those beyond it.

All of it is measured on the weights and on the rows that are given, with u = W x, y = max(u, 0) and the residual e = x - A u.
`fit` reads the list and warns once, `diagnose` adds what refits show, `separate` chooses a method by it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .count import Count
from .halves import is_nonnegative, roughness
from .outliers import inliers_of

Array = NDArray[Any]
Floats = NDArray[np.float64]


class Check(NamedTuple):
    """The limit that a measured value exceeds if something is wrong, what is said then, and keys of remedies."""

    limit: float
    statement: str
    remedies: tuple[str, ...] = ()


# Of the variance of an output. On 300 fresh mixtures of benchmarks/trust.py, number told, this and 0.04 for "directions" call 5 of
# 91 wrong fits right (7 and 9 with 0.06 and 0.1; 10 with "directions" at 0.3), and 6 of 123 right ones wrong (6, 5; 6).
_ERROR = 0.04
_FEW = 20  # samples without a saturated cell
#: All checks, the gravest first. The limits lie between what right fits (worst source above 0.99) and wrong fits (below 0.9)
#: measured on seeds 860000 to 860799, 861000 to 861239, 897000 to 898259 and 980000 to 985259 of benchmarks/trust.py, and on 600
#: problems of another generator. Outputs are {sources}, mixtures {mixtures}.
CHECKS = {
    "constant": Check(0, "X does not vary: all samples are equal, and nothing can be separated"),
    # Cells with the largest value, over those with the next one.
    "ceiling": Check(
        10,
        "{mixtures}: saturated at {level:.9g}, the value of {value:.0f} cells for one with the next lower value",
        ("saturated",),
    ),
    # Factor by which the variance of an output of nonnegative ICA differs from 1; infinite if it is 0 or overflows.
    "scale": Check(4, "{sources}: variance {value:.2g} times too large or small", ("same scale",)),
    # Typical largest output of a sample while a network learns: right 1 to 10; rates that fail 1e5 and more.
    "huge": Check(1e3, "outputs are {value:.2g} where 1 is right, because the weights diverge", ("rates",)),
    # Roughness of neighbouring columns over that of neighbouring rows: transposed spectra 100.
    "transposed": Check(20, "X may be transposed: neighbouring rows are alike, columns are not", ("transpose",)),
    # Least share of a spectrum that is in one mixture, of as many outputs as mixtures of unit variance; colours of a picture: 1.
    "unmixed": Check(
        0.99,
        "each output is one of the mixtures, which are not mixed, or hold more sources than mixtures",
        ("mixtures",),
    ),
    # A reason for other findings: the 1 % quantile of each mixture over its median. Half-silent sources have 0,
    # exponential ones 0.14 to 0.2, abundances 0.08 to 0.32; with 100 counts on 300 it is 0.3.
    "offset": Check(0.25, "no mixture comes near zero (all above {value:.0%} of their median)", ("dark",)),
    # Baselines, batches and autofluorescence are sources too: only who knows the samples can choose.
    "number": Check(0, "the number of sources is not certain: {reason}", ("candidates",)),
    # `Uncertainty.change`: right fits .014 at most, a drift of the mixing, which is fitted well by twice as many sources, .28 and
    # more, real sets .05 at most (ablation.md).
    "changed": Check(0.1, "neither the first nor the second half of X gives these sources", ("parts",)),
    # Energy of the leading direction of the residual, above that of the others and over that of the weakest source.
    "directions": Check(0.04, "X has a signal beyond {d} sources ({value:.2g} times the weakest one)", ("count",)),
    # Largest ratio of successive singular values of the residual: real sets 1 to 4; too few sources (kinetics, HPLC-DAD) 9 to 18.
    "structure": Check(6, "what {d} sources do not explain is not noise: it has a few strong directions", ("count",)),
    # Share of the variance of an output that is noise, or error of the fit as halves of the samples show.
    "uncertain": Check(_ERROR, "{sources}: standard error {error:.0%} of the standard deviation, or more ({cause})"),
    # The same of what nonnegativity leaves open where few samples come near zero (`_enlarged`, `_turned`).
    "facets": Check(
        _ERROR,
        "{sources}: absent from too few samples to be told from the others (error about {error:.0%})",
        ("background", "known"),
    ),
    # Share of the variance of an output that others make by being subtracted from it.
    "negative": Check(0.015, "{sources}: negative where other outputs are large", ("cone", "mean", "count")),
    # Lower quartile of an output below zero, in standard deviations: as if a mean had been subtracted.
    "centred": Check(0.5, "{sources}: a quarter of the values or more are clearly negative", ("mean", "cone", "count")),
    "spectra": Check(0.1, "{sources}: {value:.0%} of the spectrum is negative, and X is not", ("walls", "count")),
    # Standard error of an output or its spectrum in what nonnegativity allows, if the samples follow a curve. The true error was
    # below twice that number in all of 2,100 outputs of made-up reactions, titrations and chromatograms.
    "ambiguous": Check(0.2, "{sources}: not determined by nonnegativity alone", ("known", "background")),
    "duplicate": Check(0.95, "{sources}: nearly alike (correlation {value:.2f})", ("count",)),
    # Reasons for other findings.
    "unsettled": Check(
        0, "the walls of the cone did not settle, and the fit is a stage on their way", ("count", "average")
    ),
    "outliers": Check(0, "{n} samples are outliers and may carry the fit", ("outliers",)),
    "converged": Check(0, "{reason}"),
}
#: What to do, by the names of Python; the command line translates some of them.
REMEDIES = {
    "rates": "lower eta0, or use StreamingNICA, which has no learning rates",
    "more samples": "bring more samples",
    "transpose": "pass X.T",
    "same scale": "pass X in the unit of the fit, learn from more samples, or (local networks) scale X to a variance near 1",
    "count": "check the number of sources",
    "candidates": "compare the fits with each number (alternatives_ of bionica.separate)",
    "average": "average repeated measurements of each sample",
    "cone": "use MinimumVolumeCone if sources are correlated",
    "mean": "do not subtract the mean",
    "background": "bring samples in which some sources are absent",
    "dark": "subtract the dark level of the instrument, if there is one",
    "walls": "use MinimumVolumeCone(nonnegative_mixing=True)",
    "saturated": "leave these mixtures out, or set their saturated cells to NaN",
    "known": "give spectra that you know as known_mixing of MinimumVolumeCone",
    "parts": "fit parts of X if the mixing changes along X, or check the number of sources",
    "mixtures": "measure more mixtures",
    "outliers": "remove them",
}


class Finding(NamedTuple):
    """One piece of evidence against a fit: the name of its check, and what it is about.

    Attributes
    ----------
    sources, mixtures : tuple of int
        Outputs and mixtures that it concerns, counted from 0, the worst first.
    values : dict
        Its numbers: mostly "value" and "limit".
    remedies : tuple of str
        Key of what to do, if there is a remedy.
    """

    name: str
    sources: tuple[int, ...] = ()
    mixtures: tuple[int, ...] = ()
    values: Mapping[str, Any] = {}
    remedies: tuple[str, ...] = ()

    def text(self, sources: Sequence[str] = (), mixtures: Sequence[str] = ()) -> str:
        """One sentence, or two with a remedy, with these names of outputs and mixtures."""
        outputs, columns = _listed("output", self.sources, sources), _listed("mixture", self.mixtures, mixtures)
        statement = CHECKS[self.name].statement.format(sources=outputs, mixtures=columns, **self.values)
        advice = ", or ".join(REMEDIES[key] for key in self.remedies)
        return f"{statement}. {advice[:1].upper()}{advice[1:]}." if advice else f"{statement}."


def _listed(noun: str, indices: Sequence[int], names: Sequence[str], most: int = 4) -> str:
    words = [str(names[i]) if names else f"{noun} {i}" for i in indices[:most]]
    return ", ".join(words) + f" and {len(indices) - most} more" * (len(indices) > most)


def finding(name: str, value: float = 0.0, sources: Any = (), mixtures: Any = (), **values: Any) -> Finding:
    """A finding with the limit and the remedies of its check."""
    limit, _, remedies = CHECKS[name]
    values = {"value": float(value), "error": float(np.sqrt(abs(value))), "limit": limit, **values}
    return Finding(name, tuple(map(int, sources)), tuple(map(int, mixtures)), values, remedies)


def exceeds(name: str, values: ArrayLike, of: str = "sources", **numbers: Any) -> list[Finding]:
    """The finding of a check, if one of these values exceeds its limit: for each source or mixture, or a single one."""
    values = np.asarray(values)
    where = np.argsort(-values, axis=None)[: np.sum(values > CHECKS[name].limit)]
    if not len(where):
        return []
    return [finding(name, values.max(), **({of: where} if values.ndim else {}), **numbers)]


def uncertain(noise: Array, moved: Array, error: Array) -> list[Finding]:
    """The finding of outputs with a large error: shares of their variances that noise has, and that differs between halves.

    What is said is `error`, their standard error with that of the model, which users see beside it.
    """
    total = np.minimum(noise + moved, 1.0)
    worst = int(total.argmax())
    is_noise, is_model = noise[worst] > moved[worst], error[worst] ** 2 > 2 * total[worst]
    cause = "the model" if is_model else "noise" if is_noise else "fits to halves of the samples differ"
    said = np.max(error, where=total > CHECKS["uncertain"].limit, initial=0.0)
    found = exceeds("uncertain", total, cause=cause, error=float(said))
    remedies = (*("count",) * bool(total[worst] > 0.5), "average" if is_noise else "more samples")  # most is no source
    return [one._replace(remedies=() if is_model else remedies) for one in found]  # other findings say what to do


def undecided(count: Count) -> list[Finding]:
    """The finding of a number of sources that the data do not decide."""
    if not count.agreed:
        return [finding("number", reason=f"halves of the samples agree on none, and {count.n_sources} is a guess")]
    others = ", ".join(map(str, count.candidates))
    return [finding("number", reason=f"{count.n_sources}, or {others}")] if others else []


def ranked_findings(found: Iterable[Finding], tried: Collection[str] = ()) -> tuple[Finding, ...]:
    """The findings, the gravest first, each with one remedy at most, which was not `tried` and no graver finding names."""
    named, ranked = set(tried), []
    found = sorted(found, key=lambda one: list(CHECKS).index(one.name))
    names = {one.name for one in found}
    if {"directions", "structure"} & names:  # what is unexplained is no noise
        named.add("average")
    if "ceiling" in names:  # what is cut off is not explained by sources, however many there are
        named |= {"count", "more samples"}
    for one in found:
        ranked.append(one._replace(remedies=tuple(key for key in one.remedies if key not in named)[:1]))
        named |= set(one.remedies)
    return tuple(ranked)


class Measures(NamedTuple):
    """Numbers about outputs on some samples: what the findings compare with their limits, and what a diagnosis shows."""

    variance: Floats
    noise: Floats  # variance of the noise of each output
    error: Floats  # of noise, model error as large as the leading direction of the residual, subtracted outputs, what is left open
    negativity: Floats  # share of the energy of each linear output that is negative
    is_nonnegative: bool  # X, but for noise
    residual: float  # share of the variance of X that the outputs leave unexplained
    findings: tuple[Finding, ...]  # unordered, and without what refits show


def measure(
    X: Array,
    W: Array,
    A: Array,
    n: int,
    *,
    noise: Array | None = None,
    uncorrelated: bool = True,
    tracking: bool = False,
    settled: bool = True,
) -> Measures:
    """Measure components W (d, k) and spectra A (k, d) on rows X, some of n, without outliers.

    `noise` (d,) is the standard deviation of the noise of each output, if the fit knows it. `uncorrelated` outputs have unit
    variance. `tracking`: the mixing changes, which makes outputs negative. `settled`: the walls of a cone did.
    """
    W, A = np.asarray(W, np.float64), np.asarray(A, np.float64)
    d, k = W.shape
    unit = float(np.abs(X).max(initial=0.0)) or 1.0
    X, W, A = np.asarray(X, np.float64) / unit, W * unit, A / unit
    with np.errstate(all="ignore"):
        U = X @ W.T
        spread = U.std(axis=0)
        bad = np.flatnonzero(~((spread > 0) & np.isfinite(spread**4)))
    constant = bool((X == X[0]).all())  # rounding of their mean may leave a spread
    if constant or len(bad):
        empty = np.zeros(d)
        fatal = finding("constant") if constant else finding("scale", np.inf, bad)
        return Measures(empty, empty, empty, empty, False, 1.0, (fatal,))
    E = X - U @ A.T
    square = np.mean(E**2, axis=0)
    variance, energy = np.maximum(spread**2, 1e-300), np.maximum(np.mean(U**2, axis=0), 1e-300)
    own = outside = np.zeros(d) if noise is None else np.asarray(noise, np.float64) ** 2
    each = A**2 @ own  # noise variance of each mixture
    if k > d + 1:  # the directions left out show it
        each = square / np.maximum(1 - np.clip(np.einsum("kd,dk->k", A, W), 0, 1), 0.05)
        own = outside = np.maximum(W**2 @ each, outside)
    elif noise is None:
        own = np.array([_noise_below_zero(U, i) for i in range(d)])
    weakest = max(float(np.linalg.svd(A * np.sqrt(energy), compute_uv=False)[-1]) ** 2, 1e-300)
    gram = E @ E.T if len(X) < k else E.T @ E
    leading, *others = np.maximum(np.linalg.eigvalsh(gram)[::-1], 0)[: max(k - d, 1)] / len(X) * (k > d)
    white = float(np.mean(others)) * (1 + np.sqrt(k / len(X))) ** 2 if others else 0.0  # largest energy of noise alone
    shared = max(leading - max(white, square.max()), 0.0)  # what is in one mixture alone is its noise
    nonnegative = is_nonnegative(X, np.sqrt(each))
    below = np.sum(np.minimum(A, 0) ** 2, axis=0) / np.maximum(np.sum(A**2, axis=0), 1e-300)
    with np.errstate(invalid="ignore"):  # an output that is zero everywhere
        alike = np.nan_to_num(np.corrcoef(np.maximum(U, 0).T)).reshape(d, d) * (1 - np.eye(d))
    subtracted = np.zeros(d) if tracking else _subtracted(U, outside)
    quartile = np.partition(U, len(U) // 4, axis=0)[len(U) // 4]
    parts = A**2 / np.maximum(X.var(axis=0), 1e-300)[:, np.newaxis]  # of spectra, with mixtures of unit variance
    left_open = _turned(U) if uncorrelated else _enlarged(U, _untouched(U, np.sqrt(own), min(roughness(X), 1.0)))
    error = own + shared / weakest * energy + (subtracted + left_open) * variance
    found = [
        *(exceeds("scale", np.maximum(variance, 1 / variance)) if uncorrelated else []),
        *(exceeds("transposed", roughness(X.T) / roughness(X)) if n < k else []),
        *uncertain(own / variance, np.zeros(d), np.sqrt(np.minimum(error / variance, 1.0))),
        *(
            exceeds("directions", max(leading - white, 0.0) / weakest, d=d)
            or exceeds("structure", _structure(E, square, X, d), d=d)
        ),
        *exceeds("facets", left_open),
        *exceeds("negative", subtracted),
        *(exceeds("centred", -quartile / spread) if not tracking else []),
        *(exceeds("spectra", below) if nonnegative else []),
        *(exceeds("unmixed", np.min(parts.max(axis=0) / parts.sum(axis=0))) if 1 < d == k else []),
        *exceeds("duplicate", alike.max(axis=0)),
        *saturation(X, unit),
    ]
    if found:
        found += [] if settled else [finding("unsettled")]
        found += exceeds(
            "offset", float(np.min(np.quantile(X, 0.01, axis=0) / np.maximum(np.median(X, axis=0), 1e-300)))
        )
    if nonnegative:  # no mean was subtracted
        found = [one._replace(remedies=tuple(key for key in one.remedies if key != "mean")) for one in found]
    total = float(X.var(axis=0).sum())
    return Measures(
        variance=variance,
        noise=own,
        error=error,
        negativity=np.mean(np.minimum(U, 0) ** 2, axis=0) / energy,
        is_nonnegative=nonnegative,
        residual=float(np.sum(square - E.mean(axis=0) ** 2)) / total if total else 0.0,
        findings=tuple(found),
    )


def saturation(X: Array, unit: float = 1.0) -> list[Finding]:
    """The finding of mixtures that end at a value which they have too often; `unit` is that of X."""
    ratio = _clipped(X)
    return exceeds("ceiling", ratio, "mixtures", level=unit * float(X[:, ratio.argmax()].max()))


def unsaturated(X: Array) -> Array:
    """The samples without a saturated cell, which are mixtures as all others would be; ValueError if hardly any are."""
    sound = np.asarray(X[~((X == X.max(axis=0)) & (_clipped(X) > CHECKS["ceiling"].limit)).any(axis=1)])
    if len(sound) < min(_FEW, len(X) / 2):
        raise ValueError(
            f"{len(X) - len(sound)} of {len(X)} samples have saturated cells, and the others are too few to count sources: "
            f"give n_components, or {REMEDIES['saturated'].partition(',')[0]}"
        )
    return sound


def _clipped(X: Array) -> Array:
    """How many cells of each mixture, and of those that end at the same value, have their largest value for one that has the next.

    The next one is frequent too in counts and other data of few values. If all samples have the value they were divided by it.
    """
    top, ratio = X.max(axis=0), np.zeros(X.shape[1])
    for value in np.unique(top[(top > 0) & (X.min(axis=0) < top)]):
        alike = X[:, top == value]
        if not (highest := alike == value).any(axis=1).all():
            ratio[top == value] = highest.sum() / np.sum(alike == np.max(alike, where=~highest, initial=-np.inf))
    return ratio


def _structure(E: Array, square: Array, X: Array, d: int) -> float:
    """Largest ratio of successive singular values of the residual E, of the stronger half of them; `square` is <e^2>.

    Mixtures with a large residual count as much as the median one, because what is in one mixture alone is its noise.
    """
    size = np.sqrt(square)
    few = (min(E.shape) - d + 1) // 2 + 1
    if few < 3 or square.sum() < 1e-12 * np.mean(X**2) * X.shape[1]:  # too few to compare, or rounding
        return 0.0
    E = E / np.maximum(size, max(float(np.median(size)), 1e-3 * float(size.max())))
    values = np.linalg.eigvalsh(E @ E.T if len(E) < E.shape[1] else E.T @ E)[::-1][:few]
    return float(np.sqrt(np.max(values[:-1] / np.maximum(values[1:], 1e-12 * values[0]))))


def _untouched(U: Array, noise: Array, independent: float) -> Array:
    """Which outputs have a density that vanishes at zero; `noise` is their standard deviation.

    If P(u < y) = (y / c)^m below the quartile c, then 1 / m is the average of log(c / u) there. m is at most 1 for sources that
    are zero in some samples, or whose density is largest at zero. A cone around sources that are never zero touches the samples
    at corners: m = 2 for two sources, and more for more. Distances below h, the noise, are not seen: with log(c / max(u, h)), the
    average for m = 1 is 1 - h / c. It is rejected by two standard errors, 1 / sqrt(n) each, for n samples below c, of which a
    share is `independent`.
    """
    c, n = np.maximum(np.quantile(U, 0.25, axis=0), 1e-300), len(U) / 4
    h = np.clip(noise, c / n, c)  # the nearest of n samples is as far as c / n
    average = np.maximum(np.log(c / np.maximum(U, h)), 0).sum(axis=0) / n
    return np.asarray(average < 1 - h / c - 2 / np.sqrt(n * independent))


def _enlarged(U: Array, untouched: Array) -> Array:
    """Share of the variance of each output that is another's in the nearest cone whose outputs are uncorrelated.

    A cone that is too small subtracts sources from each other, u_i = s_i - sum_j t_j s_j, which makes outputs correlated. Untouched
    facets may move: with correlations R, the free outputs z become uncorrelated with each other and with the others y by
    s = R_{zz|y}^{-1/2} (z - R_zy R_yy^{-1} y). If sources are uncorrelated, that is their error.
    """
    z, free = U / U.std(axis=0), untouched
    R = np.corrcoef(z.T).reshape(len(free), -1)
    B = R[np.ix_(free, ~free)] @ np.linalg.pinv(R[np.ix_(~free, ~free)])
    values, vectors = np.linalg.eigh(R[np.ix_(free, free)] - B @ R[np.ix_(~free, free)])
    s = (z[:, free] - z[:, ~free] @ B.T) @ (vectors / np.sqrt(np.maximum(values, 1e-3))) @ vectors.T
    share = np.zeros(len(free))
    scale = np.sum(z[:, free] * s, axis=0) / np.sum(s**2, axis=0)
    share[free] = np.mean((z[:, free] - scale * s) ** 2, axis=0)
    return np.asarray(np.minimum(share, 1))


def _turned(U: Array) -> Array:
    """Share of the variance of each output that is another's, if all rotations of two are as likely that make none more negative.

    Outputs i and j of nonnegative ICA can be turned by angles from -a_ji to a_ij, a_ij the least arctan(u_i / u_j) of all samples.
    """
    z, d = U / U.std(axis=0), U.shape[1]
    angle = np.zeros((d, d))
    for j in range(d):
        others = z[z[:, j] > 0]
        angle[:, j] = np.maximum(np.arctan2(others, others[:, j : j + 1]).min(axis=0, initial=np.pi / 2), 0)
    np.fill_diagonal(angle, 0)
    squared = (angle**3 + angle.T**3) / np.maximum(3 * (angle + angle.T), 1e-300)
    return np.asarray(np.minimum(squared.sum(axis=1), 1))


def _noise_below_zero(U: Array, i: int) -> float:
    """Variance of the noise of output i, by its values below zero: their median is half a standard deviation of Gaussian noise.

    Times the share of them that other outputs do not explain: an unmixing that is not exact subtracts those, and is no noise.
    """
    u, y = U[U[:, i] < 0, i], np.maximum(np.delete(U[U[:, i] < 0], i, axis=1), 0)
    free = len(u) - U.shape[1]
    if free <= 0 or not u.var():
        return 0.0
    Z = np.column_stack([np.ones(len(u)), y])
    residual = u - Z @ np.linalg.lstsq(Z, u, rcond=None)[0]
    return float(4 * np.median(u) ** 2 * min(residual @ residual / free / u.var(ddof=1), 1.0))


def _subtracted(U: Array, noise: Array) -> Array:
    """Share of the variance of each output that is subtracted by the others.

    If u_i = s_i - sum_j t_j s_j, then u_i < 0 where s_i is small, and it falls with s_j there: with slope t_j for sources that are
    often zero (R^2 = 1), and t_j / 2 for a density at zero, where the others explain little. So t_j is the slope times 2 - R^2.
    The slope of each pair counts as far as it exceeds three standard errors (with each sample left out: a few samples may decide
    it), and as far as the other output varies in these samples by more than noise: noise and errors of two outputs are correlated.
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
        with np.errstate(over="ignore"):  # of an output that nothing is beside
            certain = np.maximum(1 - noise * len(u) / energy, 0) * np.maximum(slope - 3 * error, 0)
        explained = min(-float(u @ Y @ certain) / max(float(u @ u), 1e-300), 1.0)
        found[i] = np.sum((certain * (2 - explained)) ** 2 * np.minimum(np.sqrt(energy / len(u)), 1))
    return found


def evidence(X: Array, W: Array, A: Array, n: int, **facts: Any) -> list[Finding]:
    """The findings of `measure`. Outliers are looked for only if there are findings that they might explain: it takes longer."""
    found = list(measure(X, W, A, n, **facts).findings)
    sound = inliers_of(X) if found else X
    if len(sound) < len(X):
        found = list(measure(sound, W, A, n, **facts).findings)
        found += [finding("outliers", n=len(X) - len(sound))] if found else []
    return found
