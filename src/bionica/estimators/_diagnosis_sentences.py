"""What the numbers of a `Diagnosis` mean: each number beyond its limit is one sentence with a remedy.

How often `ok` is wrong, measured on BatchNICA with seeds that set no limit: d = 3 to 10, Gaussian A, 20 problems with
T = 1e3, 20 with 1e4 and 5 with 1e5 for each kind of fit (fitted, held-out and 30 dB are separate kinds).

| right fits: false alarms                          |         | wrong fits: missed                            |         |
|---------------------------------------------------|---------|-----------------------------------------------|---------|
| sparse uniform, exponential, half-normal          | 0 / 405 | 1 or 3 outputs too many (noise 30 and 20 dB)  | 0 / 135 |
| uniform, dependent but uncorrelated               | 0 / 45  | 1 or 2 outputs too few                        | 0 / 135 |
| odor (all at T = 1e3, held-out)                   | 4 / 90  | correlated, copula rho = 0.3, 0.5             | 0 / 90  |
| gamma(2)                                          | 1 / 90  | sources + 1, gamma(4), Gaussian + 3           | 2 / 135 |
| the first three with noise at 20 dB               | 6 / 45  | one source of both signs (Laplace)            | 3 / 45  |
|                                                   |         | rotated, random, scaled, centred, twin, dead  | 0 / 315 |

The n_components that it proposes is right in 129 of 135 fits with too many outputs (3 wrong, 3 propose none) and 133 of 135
with too few. It needs more mixtures than outputs; with as many there are no directions outside the outputs.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from ._exceptions import CHANGED

if TYPE_CHECKING:
    from ._diagnosis import Diagnosis

# The limits, each between what the good and what the bad fits of the table measured.
NEGATIVITY = 0.002  # right fits: up to 0.0016 (odor at T = 1000: 0.004); sources correlated by 0.3: from 0.0015
NEGATIVITY_OUTPUT = 0.01  # of one output: right fits stay below 0.0022 (odor at T = 1000: 0.016)
CORRELATION = 0.1  # beyond what sampling explains; a wrong rotation makes 0.12 to 0.3 after clipping at 0
DUPLICATE = 0.95  # sources are uncorrelated: nothing in between was seen
VARIANCE = 0.25  # beyond what sampling explains; half or twice the right scale is 0.75 or 3 away
FIRING = 0.002  # the sparsest of our sources (odor) fires in 10 % of the samples
NEAR_ZERO = 0.25  # standard deviations; below 0.1 a gamma(2) source has 0.9 % of its samples, too few to count in 1000
GROUNDED = 0.01  # exponential 22 %, half-normal 12 %, uniform 7 %, gamma(2) 5 % near zero; gamma(4) 0.2 %, s + 1 none
OUTSIDE = 0.002  # share of the variance; noise at 30 dB leaves 0.001 there
GAP = 0.1  # strongest direction outside over weakest inside: up to 0.04 at 30 dB; missing sources make 0.02 to 1
OVER_NOISE = 1.5  # with all sources 0.7 to 1.25, with one missing 1.3 (noise at 10 dB) to 30
DROP = 10.0  # in variance, from the weakest source to the noise: 17 at 20 dB for a Gaussian 20 x 10 mixing matrix
DROP_TO_FLOOR = 3.0  # the same to at least three directions that differ less than that
CENTRED = 0.05  # mean over standard deviation; 0.23 for odor, the least of our sources
DRIFT = 0.1  # of the root mean square output; a note only, because a network that tracks a mixture moves
FEW_SAMPLES = 300  # 1 % of fewer (GROUNDED) is less than 3 samples
SIGMAS = 4.0  # standard errors, so that the largest of 45 correlations passes


def looks_right(found: "Diagnosis") -> str:
    """The sentence for a fit without problems."""
    return (
        f"the fit looks right: {found.negativity:.1g} of the output energy is negative, outputs correlate by at most "
        f"{abs(found.largest_correlation[0]):.1g} and are near zero in {found.grounding.min():.0%} of the samples or more."
    )


def problems(found: "Diagnosis") -> Iterator[str]:
    """What speaks against the fit, the gravest first."""
    if found.divergence:
        yield (
            f"the outputs overflow ({found.divergence}) If the mixtures are as large as those of the fit, the weights have "
            "collapsed (zero, singular or huge): fit again, with these remedies."
        )
    for doubt in found.model.doubts:
        yield f"the fit {doubt}."
    if found.changed:
        yield f"the mixtures changed while it learned: {CHANGED}."
    others = list(_problems_without_outliers(found))
    if others and len(found.outliers):  # they have affected the fit
        yield (
            _outliers(found) + "; the fit may follow such outliers: remove them from X and fit again, or use BatchNICA."
        )
    yield from others


def _problems_without_outliers(found: "Diagnosis") -> Iterator[str]:
    surplus = list(_surplus(found))
    closed = found.closed if found.model.uncorrelated else 0
    if closed:
        yield _closed(found)
    # A silent output or a duplicate leaves a direction of X unexplained, which says nothing about the number of sources, unless
    # that direction is known not to be noise. Closed sources vary in one direction less than there are sources.
    count = [] if closed or found.closed == len(found.inner) else list(_wrong_count(found))
    yield from count if np.isfinite(found.over_noise) and count else surplus or count
    explained = 2 * found.model.negativity
    is_negative = (
        found.negativity > NEGATIVITY + explained
        or found.negativity_per_output.max() > NEGATIVITY_OUTPUT + len(found.variance) * explained
    )
    if is_negative:
        yield _negative(found)
    value, pair = found.largest_correlation
    far = abs(value) > CORRELATION + SIGMAS / np.sqrt(found.n_samples)
    if found.model.uncorrelated and far and not value > DUPLICATE:
        yield f"{_outputs(pair, 'are')} correlated ({value:.2f}): the weights have not settled; learn from more samples."
    high = np.flatnonzero(found.grounding < GROUNDED)
    if len(high):
        yield (
            f"{_outputs(high, 'are')} hardly ever near zero ({found.grounding[high].min():.1%} of the samples, lowest values at "
            f"{found.floor[high].max():.2g} standard deviations), and other rotations may be as nonnegative: subtract a "
            "constant background (a blank measurement) from X, or bring samples in which sources are absent."
        )
    off = (np.abs(found.variance - 1) > VARIANCE + SIGMAS * found.variance_error) & (found.firing >= FIRING)
    if is_negative:  # clipping at zero alone lowers the variance
        off &= found.variance > 1
    if off.any() and found.model.unit_variance:
        worst = max(found.variance[off], key=lambda v: max(v, 1 / max(v, 1e-300)))
        yield (
            f"{_outputs(np.flatnonzero(off), 'have')} variance {worst:.2g} where 1 is right: the weights have not settled, or "
            "X is on another scale than the data of the fit."
        )


def notes(found: "Diagnosis") -> Iterator[str]:
    """What to know besides."""
    if len(found.outliers) and not list(_problems_without_outliers(found)):
        yield (_outliers(found) + "; the fit does not follow such outliers, but check how they were measured.")
    if found.constant:
        yield (
            f"{_listed('mixture', found.constant)} constant: such a sensor tells nothing about the sources; check whether it is "
            "connected, or leave it out."
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


def _listed(noun: str, indices: Collection[int]) -> str:
    """Return "mixtures 1, 2 and 4 are", at most five of them."""
    first = list(map(str, indices))[:5]
    if len(indices) == 1:
        return f"{noun} {first[0]} is"
    if len(indices) > 5:
        return f"{len(indices)} {noun}s ({', '.join(first)}, ...) are"
    return f"{noun}s {', '.join(first[:-1])} and {first[-1]} are"


def _surplus(found: "Diagnosis") -> Iterator[str]:
    """Outputs that are no source of their own."""
    n_groups, group = connected_components(found.correlations > DUPLICATE, directed=False)
    negative = [i for i in found.silent if found.negativity_per_output[i] > 0.5]
    dead = [i for i in found.silent if i not in negative]
    left = n_groups - len(dead)
    remedy = f"try n_components={left}" if left else "the weights have collapsed; refit with a lower learning rate"
    if dead:
        yield f"{_outputs(dead, 'fire')} in {found.firing[dead].max():.2%} of the samples, that is never: {remedy}."
    if negative:
        yield f"{_outputs(negative, 'are')} negative throughout and cut off at zero: refit, with more samples or BatchNICA."
    for same in (np.flatnonzero(group == g) for g in range(n_groups)):
        if len(same) > 1:
            least = found.correlations[np.ix_(same, same)].min()
            yield f"{_outputs(same, 'are')} nearly the same source (correlation {least:.2f}): {remedy}."


def _wrong_count(found: "Diagnosis") -> Iterator[str]:
    """Too many outputs or too few, if the spectrum of X drops elsewhere than behind the outputs."""
    if not len(found.outer) or found.outer[0] <= GAP * found.inner[-1] or found.over_noise < OVER_NOISE:
        return
    d, m = len(found.inner), _n_directions(found.spectrum)
    if m < d:
        yield f"there are {d} outputs and {m} directions in which X stands out of the noise: try n_components={m}."
    elif m > d and found.outside > OUTSIDE:
        unsure = m == len(found.spectrum) and m > d + 2
        yield (
            f"{found.outside:.2g} of the variance of X lies outside of the {d} outputs, in directions as strong as theirs: "
            + (f"there is strong noise, or up to {m} sources." if unsure else f"try n_components={m}.")
        )


def _n_directions(spectrum: Any) -> int:
    """How many directions stand out of the noise: before the largest drop, relative to how much the variances below it differ.

    The largest drop alone may lie between correlated sources, whose first direction is strong. If no drop is large, all
    directions stand out.
    """
    spectrum = np.maximum(spectrum, 1e-12 * spectrum[0])
    drops, spread = spectrum[:-1] / spectrum[1:], spectrum[1:] / spectrum[-1]
    if not len(drops):
        return len(spectrum)
    best = int(np.argmax(drops / spread))
    least = DROP_TO_FLOOR if len(drops) - best > 2 else DROP
    return best + 1 if drops[best] > max(least, spread[best]) else len(spectrum)


def _closed(found: "Diagnosis") -> str:
    number = "" if found.closed == len(found.inner) else f" and n_components={found.closed}"
    return (
        f"the sources are probably correlated: {found.closed} sources sum to a constant in all samples (abundances), or X has a "
        f"constant background, and nonnegative ICA cannot separate them: try MinimumVolumeCone(normalize='sum'){number}."
    )


def _negative(found: "Diagnosis") -> str:
    worst = int(np.argmax(found.negativity_per_output))
    share = (
        f"{found.negativity:.2g} of the output energy is negative, "
        f"{found.negativity_per_output[worst]:.2g} in output {worst}"
    )
    if np.all(np.abs(found.mean_over_std) < CENTRED + SIGMAS / np.sqrt(found.n_samples)):
        return f"{share}, and all outputs have mean 0: the mean was removed from X; pass X as it was measured."
    remedy = " (try MinimumVolumeCone)" if found.model.uncorrelated else ""
    return (
        f"{share}: the weights have not settled (learn from more samples, compare BatchNICA) or n_components is wrong; if no "
        f"fit has less, the sources are correlated{remedy}, are negative at times, or come with strong noise."
    )


def _outputs(indices: Collection[Any], verb: str) -> str:
    """Return "outputs 1, 2 and 4 are", with the verb in the singular for one output."""
    *first, last = map(str, indices)
    if first:
        return f"outputs {', '.join(first)} and {last} {verb}"
    return f"output {last} {({'are': 'is', 'have': 'has', 'fire': 'fires'})[verb]}"
