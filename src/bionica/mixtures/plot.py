"""Plots of separations, on matplotlib axes: ``pip install 'bionica[plot]'``.

- `sources`, `images`: sources as time series, or as maps.
- `spectra`, `weights`: the mixing matrix as curves, or as an image.
- `distributions`: linear outputs near zero.
- `number_of_sources`: what was tried to count them.

Every function draws on `ax`, by default on new axes, and returns the axes. None calls
``show``.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bionica.core.plot import (
    Names,
    axes_or_new,
    checked_matrix,
    images,
    largest,
    weights,
)

__all__ = [
    "distributions",
    "images",
    "number_of_sources",
    "sources",
    "spectra",
    "weights",
]


def __dir__() -> list[str]:
    """The public names, which completion shows."""
    return __all__


def _named(names: Names, n: int) -> Sequence[str]:
    return names or [f"source_{i + 1}" for i in range(n)]


def _label_rows(ax: Any, names: Names, n: int) -> Any:
    """Name n curves that are drawn one below the other."""
    ax.set_yticks(-np.arange(n), _named(names, n))
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax


def sources(
    Y: ArrayLike,
    t: ArrayLike | None = None,
    *,
    names: Names = None,
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw sources one below the other, each on its own scale, as time series.

    Parameters
    ----------
    Y : array-like of shape (n_samples, n_sources)
        Sources, as `transform` returns them.
    t : array-like of shape (n_samples,), optional
        Times of the samples; their numbers by default.
    names, label : sequence of str and str, optional
        Names of the sources ("source_1", ... by default), and label of the horizontal
        axis ("sample" or "time").
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures import plot
    >>> ax = plot.sources(np.random.default_rng(0).exponential(size=(100, 3)))
    >>> len(ax.lines)
    3
    """
    Y = checked_matrix(Y, "Y")
    ax = axes_or_new(ax, height=1.0 + 0.8 * Y.shape[1])
    numbers = np.arange(len(Y))
    t = numbers if t is None else np.asarray(t)
    for i, y in enumerate((Y / largest(Y)).T):
        ax.plot(t, 0.9 * y - i, lw=1)
    ax.set_xlabel(label or ("sample" if np.array_equal(t, numbers) else "time"))
    return _label_rows(ax, names, Y.shape[1])


def spectra(
    A: Any,
    channels: ArrayLike | None = None,
    *,
    error: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    names: Names = None,
    label: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the columns of a mixing matrix as curves: the spectra of the sources, each
    with maximum 1.

    Parameters
    ----------
    A : fitted estimator, or array-like of shape (n_features, n_sources)
        The mixing matrix, or an estimator with `mixing_`.
    channels : array-like of shape (n_features,), optional
        Wavelengths, energies or masses; the numbers of the channels by default.
    error : array-like of shape (n_features, n_sources), optional
        Standard error of A (``diagnose(X).uncertainty_.mixing``); a band shows two
        standard errors.
    bounds : two array-like of shape (n_features, n_sources), optional
        The least and the largest A that the data allow (``band_.mixing_low`` and
        ``band_.mixing_high``); a paler band.
    names, label : sequence of str and str, optional
        Names of the sources, and label of the horizontal axis ("channel" by default, or
        "wavelength" if `channels` are given).
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures import plot
    >>> A = np.random.default_rng(0).random((50, 2))
    >>> ax = plot.spectra(A, np.linspace(400, 700, 50), error=0.05 * A)
    >>> ax.get_xlabel(), len(ax.lines), len(ax.collections)
    ('wavelength', 3, 2)
    """
    A = checked_matrix(getattr(A, "mixing_", A), "A")
    ax = axes_or_new(ax)
    label = label or ("channel" if channels is None else "wavelength")
    channels = np.arange(len(A)) if channels is None else np.asarray(channels)
    scale = largest(A)
    bands = []
    if bounds is not None:
        low, high = (checked_matrix(bound, "bounds") / scale for bound in bounds)
        bands.append((0.12, low, high))
    if error is not None:
        wide = 2 * checked_matrix(error, "error")
        if wide.shape != A.shape:
            raise ValueError(
                f"error has shape {wide.shape}, but A has {A.shape}: pass an error for"
                " each weight"
            )
        bands.append((0.25, (A - wide) / scale, (A + wide) / scale))
    A = A / scale
    for i, name in zip(range(A.shape[1]), _named(names, A.shape[1]), strict=True):
        (line,) = ax.plot(channels, A[:, i], lw=1.4, label=name)
        style = {"color": line.get_color(), "lw": 0}
        for alpha, low, high in bands:
            ax.fill_between(channels, low[:, i], high[:, i], alpha=alpha, **style)
    ax.axhline(0, color="0.7", lw=0.8, zorder=0)
    ax.set(xlabel=label, ylabel="weight, maximum 1")
    ax.legend(frameon=False)
    return ax


def distributions(U: ArrayLike, *, names: Names = None, ax: Any = None) -> Any:
    """Draw the distribution of each linear output ``X @ components_.T`` near zero, in
    its own standard deviations.

    If the fit is right, almost no value is negative.

    Parameters
    ----------
    U : array-like of shape (n_samples, n_sources)
        Linear outputs, before negative values are set to zero.
    names : sequence of str, optional
        Names of the sources.
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica.mixtures import plot
    >>> U = 1e-9 * np.random.default_rng(0).exponential(size=(1000, 2))
    >>> ax = plot.distributions(U)
    >>> len(ax.patches), ax.get_xlim() == (-1, 4)
    (2, True)
    """
    U = checked_matrix(U, "U")
    ax = axes_or_new(ax, height=1.0 + 0.6 * U.shape[1])
    edges = np.linspace(-1, 4, 101)
    for i, u in enumerate((U / largest(U)).T):  # so that no square overflows
        counts, _ = np.histogram(u / (u.std() or 1.0), edges)
        heights = 0.9 * counts / max(1, counts.max()) - i
        ax.stairs(heights, edges, baseline=-i, fill=True, color="C0")
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set(xlabel="standard deviations", xlim=(-1, 4))
    return _label_rows(ax, names, U.shape[1])


def number_of_sources(count: Any, *, ax: Any = None) -> Any:
    """Draw the worst angle between the spectra of two halves for each number of sources
    that was tried.

    Parameters
    ----------
    count : fitted estimator, `choice_` or `count_`
        What `bionica.separate` or an estimator with n_components="auto" has tried.
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import BatchNICA, datasets
    >>> from bionica.mixtures import plot
    >>> S = datasets.random_sources("exponential", 500, 3, rng=0)
    >>> X, A = datasets.mix(S, np.random.default_rng(1).random((6, 3)))
    >>> ax = plot.number_of_sources(BatchNICA("auto", random_state=0).fit(X))
    >>> ax.get_yscale()
    'log'
    """
    count = getattr(count, "choice_", None) or getattr(count, "count_", count)
    ax = axes_or_new(ax)
    angles = {q: max(count.angles[q], 0.01) for q in sorted(count.angles)}
    ax.semilogy([*angles], [*angles.values()], "o-", color="0.5")
    marks = {q: (f"or {q}", "none") for q in count.candidates}
    marks = {count.n_sources: (f"{count.n_sources} sources", "C0")} | marks
    for q, (label, color) in marks.items():
        if q in angles:
            ax.plot(q, angles[q], "o", ms=9, mfc=color, label=label)
    ax.set(xlabel="number of sources", ylabel="angle between halves (degrees)")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)
    return ax
