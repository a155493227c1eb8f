"""What the numbers of a `Diagnosis` mean: each number beyond its limit is one sentence with a remedy.

How often `ok` is wrong: `python benchmarks/real_data.py --tables diagnosis` (41 spoiled and 36 sound problems, on seeds that set no
limit) called 0 of 123 wrong fits right, and 1 of 107 right fits wrong: a doubt of the cone itself. It is wrong more often with
fewer than 300 samples, with noise at 20 dB and as many mixtures as sources, and where a source is missing and no direction is left
over to see it (docs/promises.md).
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from ._diagnosis_count import wrong_count
from ._input import CHANGED
from ._percent import explained_percent, percent

if TYPE_CHECKING:
    from ._diagnosis_record import Diagnosis

# The limits, each between what the good and what the bad fits of the table measured.
NEGATIVITY = 0.002  # right fits: up to 0.0016 (odor at T = 1000: 0.004); sources correlated by 0.3: from 0.0015
NEGATIVITY_OUTPUT = 0.01  # of one output: right fits stay below 0.0022 (odor at T = 1000: 0.016)
CORRELATION = 0.1  # beyond what sampling explains; a wrong rotation makes 0.12 to 0.3 after clipping at 0
DUPLICATE = 0.95  # sources are uncorrelated: nothing in between was seen
VARIANCE = 0.25  # beyond what sampling explains; half or twice the right scale is 0.75 or 3 away
FIRING = 0.002  # the sparsest of our sources (odor) fires in 10 % of the samples
NEAR_ZERO = 0.25  # standard deviations; below 0.1 a gamma(2) source has 0.9 % of its samples, too few to count in 1000
GROUNDED = 0.01  # exponential 22 %, half-normal 12 %, uniform 7 %, gamma(2) 5 % near zero; gamma(4) 0.2 %, s + 1 none
TOUCHED = 0.1  # tenth lowest value in standard deviations: photographs 0.06, gamma(6) and half-normal + 0.5 from 0.13
NOISY = 0.08  # share of the variance of an output: 0.04 at 20 dB for twice as many mixtures as sources
DEPENDENCE, DEPENDENT = 0.05, 5e-4  # see `_diagnosis_residual`, and share of the variance of X that it has to be of
CENTRED = 0.05  # mean over standard deviation; 0.23 for odor, the least of our sources
DRIFT = 0.1  # of the root mean square output; a note only, because a network that tracks a mixture moves
CHANGE = 0.15  # between the halves of X; an explanation only, because sources may change too
MEAN_SAMPLES = 1000  # of fewer, the mean of odor-like sources may be 0 within its error
FEW_SAMPLES = 300  # 1 % of fewer (GROUNDED) is less than 3 samples
SAMPLES_PER_SOURCE = 20  # with fewer, the worst source of BatchNICA correlates by 0.4 to 0.97 (d = 2 to 10)
SIGMAS = 4.0  # standard errors, so that the largest of 45 correlations passes


def looks_right(found: "Diagnosis") -> str:
    """The sentence for a fit without problems."""
    count = found.count
    where = "stands out of the noise" if count.noise > 0 else "varies"
    directions = f", which {where} in {count.n_sources} direction{'s'[: count.n_sources != 1]}" if count.sure else ""
    return (
        f"the fit looks right: the outputs explain {explained_percent(found.residual)} of the variance of X{directions}. "
        f"{percent(found.negativity).capitalize()} of the output energy is negative, outputs correlate by at most "
        f"{abs(found.largest_correlation[0]):.1g} and are near zero in {100 * found.grounding.min():.0f} % of the samples or more."
    )


def problems(found: "Diagnosis") -> list[str]:
    """What speaks against the fit, the gravest first. What `fit` has warned of is said if nothing else is found."""
    return list(_problems(found)) or [f"the fit {doubt}." for doubt in found.fit_doubts]


def _problems(found: "Diagnosis") -> Iterator[str]:
    if found.divergence:
        yield (
            f"the outputs overflow ({found.divergence}) If the mixtures are as large as those of the fit, the weights have "
            "collapsed (zero, singular or huge): fit again, with these remedies."
        )
    if found.transposed:
        yield f"the fit {found.transposed}."
    # What an estimator doubts is often the consequence of a wrong number of outputs.
    number = wrong_count(found) if found.model.doubts and found.count.sure else ""
    if number:
        yield number
    for doubt in (doubt for doubt in found.model.doubts if doubt != found.transposed):
        yield f"the fit {doubt}."
    if found.rising:
        yield (
            f"{_listed('mixture', found.rising)} rising or falling from sample to sample throughout, which is a time or an "
            "index and no mixture: leave it out of X and fit again."
        )
    if found.frozen:
        yield (
            f"{_listed('mixture', found.frozen)} frozen at one value in a fifth of the samples or more: a sensor failed; "
            "fit without these samples, or without this mixture."
        )
    if found.changed:
        yield f"the mixtures changed while it learned: {CHANGED}."
    few = list(_few_samples(found))
    others = list(_problems_without_outliers(found, count=not number))
    changing = bool(others) and not found.changed and found.change > CHANGE
    if changing and not found.count.sure:  # a mixing that changes has directions without number
        others = list(_problems_without_outliers(found, count=False))
    scale = list(_scale(found))
    if (others or scale) and len(found.outliers):  # they have affected the fit, and the scale of its outputs
        these = "this sample" if len(found.outliers) == 1 else "these samples"
        remedy = f"remove {these} from X and fit again{_or_robust(found)}"
        yield f"{_outliers(found)}; the fit may follow such outliers: {remedy}."
        scale = []
    yield from few
    if changing and not found.count.sure:
        yield _changing(found)
    yield from others
    yield from scale
    if changing and found.count.sure:
        yield _changing(found)


def _few_samples(found: "Diagnosis") -> Iterator[str]:
    n, d = found.n_samples_seen or found.n_samples_given, len(found.variance)
    if found.model.uncorrelated and n < SAMPLES_PER_SOURCE * d and found.n_samples_given <= n:
        k = found.n_mixtures
        wide = k > n and not found.transposed
        transposed = (
            f" If the {n} rows of X are mixtures and its {k} columns samples, transpose it (X.T)." if wide else ""
        )
        yield (
            f"{n} samples are few for {d} sources, and other rotations may be as nonnegative: bring "
            f"{SAMPLES_PER_SOURCE * d} samples or more, or lower n_components.{transposed}"
        )


def _changing(found: "Diagnosis") -> str:
    remedy = "set horizon=" if found.method.has_horizon else "use StreamingNICA(horizon=...)"
    return (
        f"the first half of the samples differs from the last (by {found.change:.2g}; 0.15 or less is usual): if X is in order of "
        f"time, the mixing changes, or sources come and go. For a mixing that changes, {remedy}, or fit parts of X on their own "
        "(another n_components does not help then)."
    )


def _problems_without_outliers(found: "Diagnosis", count: bool = True) -> Iterator[str]:
    surplus = list(_surplus(found))
    closed = found.closed if found.model.uncorrelated else 0
    if closed:
        yield _closed(found)
    # A silent output or a duplicate leaves a direction of X unexplained, which says nothing about the number of sources, unless
    # the sources were counted. Closed sources vary in one direction less than there are sources.
    number = wrong_count(found) if count and not closed else ""
    if number and (found.count.sure or not surplus or np.isfinite(found.over_noise)):
        yield number
    else:
        yield from surplus
    if not number and found.dependence > DEPENDENCE and found.outside > DEPENDENT:
        yield (
            f"{percent(found.outside)} of the variance of X lies outside of the outputs and is not noise, because it depends on "
            "them: there are more sources, the mixing changes, or sensors are not linear (saturated)."
        )
    if _is_negative(found):
        yield _negative(found)
    value, pair = found.largest_correlation
    far = abs(value) > CORRELATION + SIGMAS / np.sqrt(found.n_samples)
    if found.model.uncorrelated and far and not value > DUPLICATE:
        yield f"{_outputs(pair, 'are')} correlated ({value:.2f}): {_not_settled(found)}."
    high = np.flatnonzero((found.grounding < GROUNDED) & (found.lowest > TOUCHED))
    if len(high):
        yield (
            f"{_outputs(high, 'are')} hardly ever near zero ({found.grounding[high].min():.1%} of the samples, lowest "
            f"values at {found.floor[high].max():.2g} standard deviations), and other rotations may be as nonnegative: subtract a "
            "constant background (a blank measurement) from X, or bring samples in which sources are absent."
        )
    noisy = np.flatnonzero(found.noise_share > NOISY)
    if len(noisy):
        yield (
            f"up to {found.noise_share.max():.0%} of the variance of {_outputs(noisy, '').strip()} is strong noise: average "
            "samples, or bring more mixtures."
        )


def _is_negative(found: "Diagnosis") -> bool:
    """Whether the outputs are more negative than noise explains."""
    explained = max(2 * found.model.negativity, found.noise_negativity)
    return bool(
        found.negativity > NEGATIVITY + explained
        or found.negativity_per_output.max() > NEGATIVITY_OUTPUT + len(found.variance) * explained
    )


def _scale(found: "Diagnosis") -> Iterator[str]:
    """Outputs whose variance is not 1."""
    off = (np.abs(found.variance - 1) > VARIANCE + SIGMAS * found.variance_error) & (found.firing >= FIRING)
    if _is_negative(found):  # clipping at zero alone lowers the variance
        off &= found.variance > 1
    if off.any() and found.model.unit_variance:
        worst = max(found.variance[off], key=lambda v: max(v, 1 / max(v, 1e-300)))
        settled = "the weights have not settled, or " if _learns(found) else ""
        yield (
            f"{_outputs(np.flatnonzero(off), 'have')} variance {worst:.2g} where 1 is right: {settled}"
            "X is on another scale than the data of the fit."
        )


def notes(found: "Diagnosis") -> Iterator[str]:
    """What to know besides."""
    if len(found.outliers) and not list(_problems_without_outliers(found)) and not list(_scale(found)):
        yield (_outliers(found) + "; the fit does not follow such outliers, but check how they were measured.")
    if found.constant:
        yield (
            f"{_listed('mixture', found.constant)} constant: such a sensor tells nothing about the sources; check whether "
            "it is connected, or leave it out."
        )
    if found.drift is not None and found.drift > DRIFT:
        yield f"the outputs changed by {found.drift:.0%} since `before`: still learning, or the mixture drifts."
    if found.n_samples < FEW_SAMPLES:
        yield f"{found.n_samples} samples are few to judge by: pass {FEW_SAMPLES} or more."


def _outliers(found: "Diagnosis") -> str:
    """Which samples hold most of the variance."""
    n = len(found.outliers)
    first = ", ".join(map(str, found.outliers[:5])) + (", ..." if n > 5 else "")
    which = f"sample {first} holds" if n == 1 else f"{n} samples ({first}) hold"
    share = "more than 99 %" if found.outlier_share > 0.99 else f"{100 * found.outlier_share:.0f} %"
    return f"{which} {share} of the variance of a mixture or an output"


def _or_robust(found: "Diagnosis") -> str:
    """The remedy that leaves outliers in X, of which there are at most 1 %."""
    if found.method.leaves_out:
        return ""
    return ", or use BatchNICA" if found.model.uncorrelated else ", or fit with outliers=0.01"


def _learns(found: "Diagnosis") -> bool:
    """Whether more samples move the weights. The cone is computed from the samples so far."""
    return found.method.learns and found.model.uncorrelated


def _not_settled(found: "Diagnosis") -> str:
    if _learns(found):
        return "the weights have not settled; learn from more samples"
    return "the fit has not converged, or the sources are correlated; raise max_iter, or try MinimumVolumeCone"


def _surplus(found: "Diagnosis") -> Iterator[str]:
    """Outputs that are no source of their own."""
    n_groups, group = connected_components(found.correlations > DUPLICATE, directed=False)
    negative = [i for i in found.silent if found.negativity_per_output[i] > 0.5]
    dead = [i for i in found.silent if i not in negative]
    left = n_groups - len(dead)
    refit = (
        "refit with a lower learning rate"
        if found.method.has_rate
        else "fit again, to other samples or with other units"
    )
    remedy = f"try n_components={left}" if left else f"the weights have collapsed; {refit}"
    if dead:
        yield f"{_outputs(dead, 'fire')} in {found.firing[dead].max():.2%} of the samples, that is never: {remedy}."
    if negative:
        other = "" if found.method.name == "BatchNICA" else " or BatchNICA"
        yield f"{_outputs(negative, 'are')} negative throughout and cut off at zero: refit, with more samples{other}."
    for same in (np.flatnonzero(group == g) for g in range(n_groups)):
        if len(same) > 1:
            least = found.correlations[np.ix_(same, same)].min()
            yield f"{_outputs(same, 'are')} nearly the same source (correlation {least:.2f}): {remedy}."


def _closed(found: "Diagnosis") -> str:
    number = "" if found.closed == len(found.inner) else f" and n_components={found.closed}"
    return (
        f"the sources are probably correlated: {found.closed} sources sum to a constant in all samples (abundances), or X has a "
        f"constant background, and nonnegative ICA cannot separate them: try MinimumVolumeCone(normalize='sum'){number}."
    )


def _negative(found: "Diagnosis") -> str:
    worst = int(np.argmax(found.negativity_per_output))
    share = (
        f"{percent(found.negativity)} of the output energy is negative, "
        f"{percent(found.negativity_per_output[worst])} in output {worst}"
    )
    without_mean = found.n_samples >= MEAN_SAMPLES and np.all(
        np.abs(found.mean_over_std) < CENTRED + SIGMAS / np.sqrt(found.n_samples)
    )
    if found.mean_removed or without_mean:
        return (
            f"{share}, and all outputs have mean 0: the mean was removed from X (pass X as it was measured), or the sources are as "
            "often negative as positive."
        )
    correlated = "are correlated (try MinimumVolumeCone), " if found.model.uncorrelated else ""
    causes = f"the sources {correlated}are negative at times, or come with strong noise"
    if not _learns(found):
        few = "the samples are too few (learn from more samples), "
        return f"{share}: {few if found.model.uncorrelated else ''}n_components is wrong, or {causes}."
    return (
        f"{share}: the weights have not settled (learn from more samples, compare BatchNICA) or n_components is wrong; if no "
        f"fit has less, {causes}."
    )


def _listed(noun: str, indices: Collection[int]) -> str:
    """Return "mixtures 1, 2 and 4 are", at most five of them."""
    some = [str(i) for i in indices][:5]
    if len(indices) == 1:
        return f"{noun} {some[0]} is"
    if len(indices) > 5:
        return f"{len(indices)} {noun}s ({', '.join(some)}, ...) are"
    return f"{noun}s {', '.join(some[:-1])} and {some[-1]} are"


def _outputs(indices: Collection[Any], verb: str) -> str:
    """Return "outputs 1, 2 and 4 are", with the verb in the singular for one output."""
    *others, last = (str(i) for i in indices)
    if others:
        return f"outputs {', '.join(others)} and {last} {verb}"
    return f"output {last} {({'are': 'is', 'have': 'has', 'fire': 'fires', '': ''})[verb]}"
