"""Evidence against a fit: checks, each with one limit, and the record of what is beyond
it.

- `CHECKS`: the limit of each check, its sentence and its remedies.
- `Finding`: what was found. `finding` and `beyond` make one of numbers.
- `findings_without_refits`: those of one fit. `evidence` is what `fit` warns of;
  `diagnose` adds what refits show; `separate` chooses a method by them.
- `ranked_findings`: their order, each with one remedy.

The limits lie between what right fits (worst source above 0.99) and wrong fits (below
0.9) measured on seeds 860000 to 860799, 861000 to 861239, 897000 to 898259 and 980000
to 985259 of benchmarks/trust.py, and on 600 problems of another generator.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bionica.core.blocks import Array
from bionica.core.errors import Message
from bionica.mixtures.verdict.halves import Uncertainty, roughness
from bionica.mixtures.verdict.measures import Fit, ceilings, largest_gap
from bionica.mixtures.verdict.outliers import inliers_of

_NAMED = 4  # outputs or mixtures in a sentence; the others are counted

#: What to do, by the names of Python. Parameters are fields (`Message`), and the
#: command line replaces some sentences by their keys.
REMEDIES = {
    "more samples": "bring more samples",
    "transpose": "pass X.T",
    "same scale": (
        "pass X in the unit of the fit, learn from more samples, or (local networks)"
        " scale X to a variance near 1"
    ),
    "count": "check the number of sources",
    "candidates": (
        "compare the fits with each number (alternatives_ of bionica.separate)"
    ),
    "average": "average repeated measurements of each sample",
    "cone": "use MinimumVolumeCone if sources are correlated",
    "mean": "do not subtract the mean",
    "background": "bring samples in which some sources are absent",
    "walls": "use MinimumVolumeCone(nonnegative_mixing=True)",
    "saturated": "leave these mixtures out, or set their saturated cells to NaN",
    "known": "give spectra that you know as known_mixing of MinimumVolumeCone",
    "parts": (
        "fit parts of X if the mixing changes along X, or check the number of sources"
    ),
    "mixtures": "measure more mixtures",
    "horizon": (
        "if the mixing changes, set {horizon:=} to the number of samples to remember"
        " (1,000 + 100 {n_components} or more). If sources are on and off for long, or"
        " neighbouring samples are alike, ignore this. If sensors failed, omit these"
        " samples"
    ),
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

    def without(self, *remedies: str) -> "Finding":
        """The finding without these remedies."""
        left = tuple(key for key in self.remedies if key not in remedies)
        return self._replace(remedies=left)

    def text(self, sources: Sequence[str] = (), mixtures: Sequence[str] = ()) -> str:
        """One sentence, or two with a remedy, by the names of outputs and mixtures."""
        statement = CHECKS[self.name].statement.format(
            sources=_listed("output", self.sources, sources),
            mixtures=_listed("mixture", self.mixtures, mixtures),
            **self.values,
        )
        if not self.remedies:
            return f"{statement}."
        first, *others = self.remedies
        remedy = REMEDIES[first][0].upper() + REMEDIES[first][1:]
        advice = [f"{{{first}:{remedy}}}"]
        advice += [f"{{{key}:{REMEDIES[key]}}}" for key in others]
        return Message("{}. " + ", or ".join(advice) + ".", statement)


def _listed(noun: str, indices: Sequence[int], names: Sequence[str]) -> str:
    words = [str(names[i]) if names else f"{noun} {i}" for i in indices]
    text = ", ".join(words[:_NAMED])
    if len(words) > _NAMED:
        text += f" and {len(words) - _NAMED} more"
    return text


class Check(NamedTuple):
    """The limit that measured values exceed if something is wrong, what is said then,
    and keys of what to do.
    """

    limit: float
    statement: str
    remedies: tuple[str, ...] = ()


#: All checks, the gravest first.
CHECKS = {
    "constant": Check(
        0,
        "X does not vary: all samples are equal, and nothing can be separated",
    ),
    # Cells of a mixture with its largest value, over those with the next one.
    "ceiling": Check(
        10,
        "{mixtures}: saturated at {level:.9g}, the value of {value:.0f} cells for one "
        "with the next lower value",
        ("saturated",),
    ),
    # Factor by which the variance of an output of nonnegative ICA differs from 1,
    # infinite for any fit if the variance is 0 or overflows.
    "scale": Check(
        4,
        "{sources}: variance {value:.2g} times too large or small",
        ("same scale",),
    ),
    # Roughness of neighbouring columns over that of rows: transposed spectra 100.
    "transposed": Check(
        20,
        "X may be transposed: neighbouring rows are alike, columns are not",
        ("transpose",),
    ),
    # Least share of a spectrum that is in one mixture, of as many outputs as mixtures,
    # with mixtures of unit variance; colours of a picture: 1.
    "unmixed": Check(
        0.99,
        "each output is one of the mixtures, which are not mixed, or hold more sources "
        "than mixtures",
        ("mixtures",),
    ),
    "number": Check(
        0,
        "the number of sources is not certain: {reason}",
        ("candidates",),
    ),
    # `Uncertainty.change`: right fits .014 at most, a drift of the mixing, which is
    # fitted well by twice as many sources, .28 and more, real sets .05 at most
    # (ablation.md).
    "changed": Check(
        0.1,
        "neither the first nor the second half of X gives these sources",
        ("parts",),
    ),
    # Energy of the leading direction of the residual, above that of the others, over
    # that of the weakest source. On 300 fresh mixtures of benchmarks/trust.py, number
    # told, this limit and 0.04 of "uncertain" call 5 of 91 wrong fits right (10 with
    # 0.3), and 6 of 123 right ones wrong (6).
    "directions": Check(
        0.04,
        "X has a signal beyond {d} sources ({value:.2g} times the weakest one)",
        ("count",),
    ),
    # Largest ratio of successive singular values of the residual. Real sets 1 to 4; too
    # few sources (kinetics, HPLC-DAD) 9 to 18.
    "structure": Check(
        6,
        "what {d} sources do not explain is not noise: it has a few strong directions",
        ("count",),
    ),
    # Of the variance of an output, as "facets". With 0.06 and 0.1, 7 and 9 of the 91
    # wrong fits (see "directions") are called right, and 6 and 5 of the 123 right ones
    # wrong.
    "uncertain": Check(
        0.04,
        "{sources}: standard error {error:.0%} of the standard deviation, or more "
        "({cause})",
    ),
    # Share of the variance of an output that nonnegativity leaves open, because few
    # samples come near zero (`measures.enlarged`, `measures.turned`).
    "facets": Check(
        0.04,
        "{sources}: absent from too few samples to be told from the others (error"
        " about {error:.0%})",
        ("background", "known"),
    ),
    # Share of the variance of an output that others subtract from it.
    "negative": Check(
        0.015,
        "{sources}: negative where other outputs are large",
        ("cone", "mean", "count"),
    ),
    # Lower quartile of an output below zero, in standard deviations, as if a mean had
    # been subtracted.
    "centred": Check(
        0.5,
        "{sources}: a quarter of the values or more are clearly negative",
        ("mean", "cone", "count"),
    ),
    # Share of the energy of a spectrum that is negative.
    "spectra": Check(
        0.1,
        "{sources}: {value:.0%} of the spectrum is negative, and X is not",
        ("walls", "count"),
    ),
    # Standard error of an output or its spectrum in what nonnegativity allows, if the
    # samples follow a curve. The true error was below twice that number in all of 2,100
    # outputs of made-up reactions, titrations and chromatograms.
    "ambiguous": Check(
        0.2,
        "{sources}: not determined by nonnegativity alone",
        ("known", "background"),
    ),
    # Largest correlation of an output with another one.
    "duplicate": Check(
        0.95,
        "{sources}: nearly alike (correlation {value:.2f})",
        ("count",),
    ),
    # What learning itself says.
    "converged": Check(0, "{reason}"),
}


def finding(
    name: str,
    value: float = 0.0,
    sources: Any = (),
    mixtures: Any = (),
    remedies: tuple[str, ...] | None = None,
    **numbers: Any,
) -> Finding:
    """What a check found with this value, and with other numbers of its sentence."""
    check = CHECKS[name]
    values = {"value": float(value), "error": float(np.sqrt(abs(value)))}
    return Finding(
        name,
        tuple(map(int, sources)),
        tuple(map(int, mixtures)),
        {**values, "limit": check.limit, **numbers},
        check.remedies if remedies is None else remedies,
    )


def beyond(
    name: str, values: ArrayLike, of: str = "sources", **others: Any
) -> list[Finding]:
    """What a check finds in values, one for each source or mixture, or a single one."""
    values = np.asarray(values)
    where = np.argsort(-values, axis=None)[: np.sum(values > CHECKS[name].limit)]
    if not len(where):
        return []
    if values.ndim:
        others[of] = where
    return [finding(name, values.max(), **others)]


def saturation(X: Array, unit: float = 1.0) -> list[Finding]:
    """Cells with the largest value, over those with the next; `unit` is that of X."""
    ratio = ceilings(X)
    level = unit * float(X[:, ratio.argmax()].max())
    return beyond("ceiling", ratio, "mixtures", level=level)


def uncertain(fit: Fit, moved: Uncertainty | None = None) -> list[Finding]:
    """Shares of the variance of outputs that are noise, or differ between halves.

    What is said is their standard error with that of the model, which users see beside
    it. Without refits, halves do not differ.
    """
    if len(fit.without_variance):
        return []
    noise = fit.noise / fit.variance
    if moved is None:
        share = np.zeros(fit.d)
        error = np.sqrt(np.minimum(fit.error / fit.variance, 1.0))
    else:
        share = moved.share
        error = moved.sources
    total = np.minimum(noise + share, 1.0)
    worst = total.argmax()
    remedies = ["count"] if total[worst] > 0.5 else []  # most of it is no source
    if noise[worst] > share[worst]:
        cause = "noise"
        remedies.append("average")
    else:
        cause = "fits to halves of the samples differ"
        remedies.append("more samples")
    if error[worst] ** 2 > 2 * total[worst]:
        cause = "the model"
        remedies = []  # other findings say what to do
    said = float(np.max(error, where=total > CHECKS["uncertain"].limit, initial=0.0))
    return beyond("uncertain", total, cause=cause, error=said, remedies=tuple(remedies))


def findings_without_refits(fit: Fit) -> list[Finding]:
    """All that one fit shows, but how uncertain its outputs are."""
    X = fit.X
    A = fit.A
    if (X == X[0]).all():
        return [finding("constant")]
    if len(fit.without_variance):
        return [finding("scale", np.inf, fit.without_variance)]
    found = saturation(X, fit.unit)
    if fit.uncorrelated:
        found += beyond("scale", np.maximum(fit.variance, 1 / fit.variance))
    if fit.n < fit.k:
        found += beyond("transposed", roughness(X.T) / roughness(X))
    if 1 < fit.d == fit.k:
        parts = A**2 / np.maximum(X.var(axis=0), 1e-300)[:, None]
        shares = parts.max(axis=0) / parts.sum(axis=0)
        found += beyond("unmixed", shares.min())
    signal = beyond("directions", fit.signal, d=fit.d)
    found += signal or beyond("structure", largest_gap(fit), d=fit.d)
    found += beyond("facets", fit.left_open)
    found += beyond("negative", fit.subtracted)
    if not fit.tracking:
        quarter = len(X) // 4
        quartile = np.partition(fit.U, quarter, axis=0)[quarter]
        found += beyond("centred", -quartile / fit.spread)
    if fit.is_nonnegative:
        below = np.sum(np.minimum(A, 0) ** 2, axis=0)
        found += beyond("spectra", below / np.maximum(np.sum(A**2, axis=0), 1e-300))
    with np.errstate(invalid="ignore"):  # an output that is zero everywhere
        alike = np.corrcoef(np.maximum(fit.U, 0).T).reshape(fit.d, fit.d)
    np.fill_diagonal(alike, 0)
    found += beyond("duplicate", np.nan_to_num(alike).max(axis=0))
    if fit.is_nonnegative:  # no mean was subtracted
        found = [one.without("mean") for one in found]
    return found


def evidence(X: Array, W: Array, A: Array, n: int, **facts: Any) -> list[Finding]:
    """The findings of components W (d, k) and spectra A (k, d) on rows X, some of n.

    `facts` as in `Fit`. Outliers are left out if they might explain the findings: they
    are looked for only then, because it takes longer.
    """

    def found_on(rows: Array) -> list[Finding]:
        fit = Fit(rows, W, A, n, **facts)
        return findings_without_refits(fit) + uncertain(fit)

    found = found_on(X)
    sound = inliers_of(X) if found else X
    return found_on(sound) if len(sound) < len(X) else found


def ranked_findings(
    found: Iterable[Finding], tried: Collection[str] = ()
) -> tuple[Finding, ...]:
    """The findings, the gravest first, each with one remedy at most.

    It was not `tried`, and no graver finding names it.
    """
    named = set(tried)
    gravity = list(CHECKS)
    found = sorted(found, key=lambda one: gravity.index(one.name))
    names = {one.name for one in found}
    if {"directions", "structure"} & names:  # what is unexplained is no noise
        named.add("average")
    if "ceiling" in names:  # sources do not explain what is cut off
        named |= {"count", "more samples"}
    ranked = []
    for one in found:
        possible = one.without(*named)
        ranked.append(possible._replace(remedies=possible.remedies[:1]))
        named |= set(one.remedies)
    return tuple(ranked)
