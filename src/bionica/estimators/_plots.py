"""The figures that estimators draw; matplotlib is imported when one is drawn."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..offline.source_count import Spectrum
from ._diagnosis_sentences import NEGATIVITY_OUTPUT

if TYPE_CHECKING:
    from ._diagnosis_record import Diagnosis

EDGES = np.linspace(-1, 4, 101)  # bins of the histogram of a Diagnosis, in standard deviations


def plot_spectrum(spectrum: Spectrum, ax: Any = None) -> Any:
    """Draw eigenvalues and the noise floor; return the Axes."""
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.figure(layout="constrained").add_subplot()
    index = np.arange(1, len(spectrum.eigenvalues) + 1)
    is_source = index <= spectrum.n_sources
    doubt = "" if spectrum.alternative == spectrum.n_sources else f" (or {spectrum.alternative})"
    ax.semilogy(index[is_source], spectrum.eigenvalues[is_source], "o", label=f"{spectrum.n_sources} sources{doubt}")
    if spectrum.noise_floor:
        ax.semilogy(index[~is_source], spectrum.eigenvalues[~is_source], "o", mfc="none", label="noise")
        ax.axhline(spectrum.noise_floor, lw=0.8, ls="--", color="0.5")
    ax.set(xlabel="direction", ylabel="variance", title="Spectrum of the mixtures")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)
    return ax


def plot_diagnosis(found: "Diagnosis", ax: Any = None) -> Any:
    """Draw distributions near zero, correlations and negativity, one row per output; return the Figure."""
    d = len(found.variance)
    if ax is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(figsize=(11, 1.8 + 0.28 * min(max(d, 6), 24)), layout="constrained")
        ax = figure.subplots(1, 3, width_ratios=(1.3, 1, 0.8))
        figure.suptitle(found.sentences[0].split(":")[0], fontsize=10)
    if np.size(ax) != 3:
        raise ValueError(f"ax={ax!r}: pass three Axes, those of plt.subplots(1, 3) for instance, or None")
    density, matrix, bars = np.ravel(ax)
    for i, row in enumerate(found.histogram):
        density.stairs(i + 0.45 - 0.9 * row / (row.max() or 1), EDGES, baseline=i + 0.45, fill=True, color="C0")
    density.axvline(0, color="0.3", lw=0.8)
    density.set(title="distribution near zero", xlabel="linear output / its std", ylabel="output", xlim=(-1, 4))
    image = matrix.imshow(found.correlations, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
    matrix.figure.colorbar(image, ax=matrix)
    matrix.set(title="correlation", xlabel="output")
    bars.barh(np.arange(d), found.negativity_per_output, color="C3")
    bars.axvline(NEGATIVITY_OUTPUT, color="0.3", lw=0.8, ls="--")
    bars.set(title="negative energy", xlabel="share (dashed: limit)", xscale="log", xlim=(1e-6, 1))
    for axis in (density.yaxis, matrix.yaxis, bars.yaxis, matrix.xaxis):
        axis.get_major_locator().set_params(integer=True)
        axis.axes.set_ylim(d - 0.5, -0.5)
    return matrix.figure
