"""How many sources the mixtures show, beside the number of outputs, for `diagnose`.

`bionica.offline.source_count` counts. It is believed if it sees a floor of noise, or if the mixtures have no noise at all (their
rank is below that of noise), and if it has no second-best number. With hardly more mixtures than sources it sees no floor; then
the drop of the spectrum decides, if it is large (`n_directions`).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..offline.cone.channels import eigenvalues as second_moment_eigenvalues
from ..offline.source_count import count_sources
from ..offline.whitening import largest, leading, moments, whitening
from ._percent import percent

if TYPE_CHECKING:
    from ._diagnosis_record import Diagnosis

ROWS, ROWS_WIDE, WIDE = 4000, 600, 300  # samples that are counted in, for up to 300 mixtures and for more
LEAST_SAMPLES = 100  # fewer are not counted beyond doubt
GAP = 0.1  # strongest direction outside over weakest inside: up to 0.04 at 30 dB; missing sources make 0.02 to 1
GAP_SURE = 0.003  # the same, where sources were counted beyond doubt; weaker sources hardly change the others
OUTSIDE = 0.002  # share of the variance; noise at 30 dB leaves 0.001 there
OVER_NOISE = 1.5  # with all sources 0.7 to 1.25, with one missing 1.3 (noise at 10 dB) to 30
CLEAR = 30.0  # drop to the noise that is believed if all mixtures have outputs; 6 for copula sources with rho = 0.5
DROP = 10.0  # in variance, from the weakest source to the noise: 17 at 20 dB for a Gaussian 20 x 10 mixing matrix
DROP_TO_FLOOR = 3.0  # the same to at least three directions that differ less than that


class Count(NamedTuple):
    """Sources that the mixtures show, and whether this is beyond doubt.

    `strength[j]` is the variance of direction j without that of the noise, which is `noise` in every mixture on average, 0.0 if
    unknown.
    """

    n_sources: int
    sure: bool
    strength: NDArray[np.float64]
    noise: float


def counted(x: NDArray[Any], centred: bool) -> Count:
    """Count the sources in the samples x (n, k). `centred`: in the covariance, not the second moment."""
    n, k = x.shape
    if not k:
        return Count(0, False, np.empty(0), 0.0)
    size = largest(x)
    x = x / x.dtype.type(size)
    if not centred:
        values = second_moment_eigenvalues(x)
    elif k > WIDE:
        values = leading(x).eigenvalues
    else:
        values = whitening(moments(x), precision=x.dtype).eigenvalues
    rank = len(values)
    if rank < 2 or n < 3:
        return Count(rank, False, size**2 * np.asarray(values, np.float64), 0.0)
    found = count_sources(x, values, centred=centred)
    exact = rank < min(k, n - 1)
    sure = n >= LEAST_SAMPLES and found.n_sources == found.alternative and (found.noise_floor > 0 or exact)
    strength = size**2 * np.maximum(np.asarray(values, np.float64) - found.noise_floor, 0.0)
    return Count(found.n_sources, sure, strength, size**2 * found.noise_floor if sure else 0.0)


def wrong_count(found: "Diagnosis") -> str:
    """The sentence about outputs that are too many or too few; empty if the number may be right."""
    count, d, k = found.count, len(found.inner), found.n_mixtures
    m = count.n_sources
    if count.sure and m < d:
        # With an output for every mixture, some sources may look like noise beside a strong one.
        clear = k > d + 1 or count.strength[m - 1] > CLEAR * count.noise
        return _too_many(d, m) if clear else ""
    if count.sure:
        if m > d and count.strength[d] > GAP_SURE * count.strength[d - 1]:
            return _too_few(found, f"and X stands out of the noise in {m} directions", f"try n_components={m}")
        return ""
    # Noise that is independent between mixtures cannot explain what is outside, though the estimator takes it for noise.
    no_noise = m > d + 1 and (k - d) ** 2 > k + d
    if not len(found.outer) or found.outer[0] <= GAP * found.inner[-1]:
        return ""
    if found.over_noise < OVER_NOISE and not no_noise:
        return ""
    m = n_directions(found.spectrum)
    if m < d and m > 1:
        return _too_many(d, m)
    if m > d and found.outside > OUTSIDE:
        unsure = m == len(found.spectrum) and m > d + 2
        advice = f"there is strong noise, or up to {m} sources" if unsure else f"try n_components={m}"
        return _too_few(found, "in directions as strong as theirs", advice)
    return ""


def _too_many(d: int, m: int) -> str:
    return f"there are {d} outputs and {m} directions in which X stands out of the noise: try n_components={m}."


def _too_few(found: "Diagnosis", where: str, advice: str) -> str:
    return f"{percent(found.outside)} of the variance of X lies outside of the {len(found.inner)} outputs, {where}: {advice}."


def n_directions(spectrum: Any) -> int:
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
