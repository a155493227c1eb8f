"""Plots of sources, spectra, fits and learning, on matplotlib axes: ``pip install
'bionica[plot]'``.

Every function draws on `ax`, by default on new axes, and returns the axes. None calls
``show``.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Mapping, Sequence
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bionica.metrics import error_curve as errors_over_time

__all__ = [
    "circuit",
    "distributions",
    "error_curve",
    "images",
    "number_of_sources",
    "record_weights",
    "sources",
    "spectra",
    "weights",
]

Names = Sequence[str] | None


def __dir__() -> list[str]:
    """The public names, which completion shows."""
    return __all__


# rows and columns whose numbers are written, and that have labels of their own
_NUMBERS = 12
_LABELS = 30


def _axes(ax: Any, width: float = 6.4, height: float = 3.6) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(width, height), layout="constrained").add_subplot()


def _matrix(values: ArrayLike, name: str) -> np.ndarray:
    if hasattr(values, "get_params"):
        raise TypeError(
            f"{name} is a {type(values).__name__}: pass a matrix, such as what its"
            " transform(X) returns"
        )
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(
            f"{name} has shape {matrix.shape}: pass a matrix, (n_samples, n_sources) or"
            " weights"
        )
    return matrix


def _largest(values: np.ndarray) -> np.ndarray:
    """Return the largest absolute value of each column, or a tiny number: a divisor."""
    return np.asarray(
        np.maximum(np.nanmax(np.abs(values), axis=0, initial=0.0), np.finfo(float).tiny)
    )


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
    >>> from bionica import plot
    >>> ax = plot.sources(np.random.default_rng(0).exponential(size=(100, 3)))
    >>> len(ax.lines)
    3
    """
    Y = _matrix(Y, "Y")
    ax = _axes(ax, height=1.0 + 0.8 * Y.shape[1])
    t = np.arange(len(Y)) if t is None else np.asarray(t)
    for i, y in enumerate((Y / _largest(Y)).T):
        ax.plot(t, 0.9 * y - i, lw=1)
    ax.set_xlabel(
        label or ("sample" if np.array_equal(t, np.arange(len(Y))) else "time")
    )
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
    >>> from bionica import plot
    >>> A = np.random.default_rng(0).random((50, 2))
    >>> ax = plot.spectra(A, np.linspace(400, 700, 50), error=0.05 * A)
    >>> ax.get_xlabel(), len(ax.lines), len(ax.collections)
    ('wavelength', 3, 2)
    """
    A = _matrix(getattr(A, "mixing_", A), "A")
    ax = _axes(ax)
    label = label or ("channel" if channels is None else "wavelength")
    channels = np.arange(len(A)) if channels is None else np.asarray(channels)
    largest = _largest(A)
    bands = (
        []
        if bounds is None
        else [(0.12, *(_matrix(bound, "bounds") / largest for bound in bounds))]
    )
    if error is not None:
        wide = 2 * _matrix(error, "error")
        if wide.shape != A.shape:
            raise ValueError(
                f"error has shape {wide.shape}, but A has {A.shape}: pass an error for"
                " each weight"
            )
        bands.append((0.25, (A - wide) / largest, (A + wide) / largest))
    for i, (column, name) in enumerate(
        zip((A / largest).T, _named(names, A.shape[1]), strict=True)
    ):
        (line,) = ax.plot(channels, column, lw=1.4, label=name)
        for alpha, low, high in bands:
            ax.fill_between(
                channels,
                low[:, i],
                high[:, i],
                color=line.get_color(),
                alpha=alpha,
                lw=0,
            )
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
    >>> from bionica import plot
    >>> ax = plot.distributions(1e-9 * np.random.default_rng(0).exponential(size=(1000, 2)))
    >>> len(ax.patches), ax.get_xlim() == (-1, 4)
    (2, True)
    """
    U = _matrix(U, "U")
    ax = _axes(ax, height=1.0 + 0.6 * U.shape[1])
    edges = np.linspace(-1, 4, 101)
    for i, u in enumerate((U / _largest(U)).T):  # so that no square overflows
        counts, _ = np.histogram(u / (u.std() or 1.0), edges)
        ax.stairs(
            0.9 * counts / max(1, counts.max()) - i,
            edges,
            baseline=-i,
            fill=True,
            color="C0",
        )
    ax.axvline(0, color="0.3", lw=0.8)
    ax.set(xlabel="standard deviations", xlim=(-1, 4))
    return _label_rows(ax, names, U.shape[1])


def images(
    Y: ArrayLike, shape: tuple[int, ...], *, names: Names = None, axes: Any = None
) -> Any:
    """Draw sources as images side by side, from 0 (black) to their 99.9 % quantile.

    Parameters
    ----------
    Y : array-like of shape (n_pixels, n_sources)
        Sources, one row per pixel, or per colour of a pixel.
    shape : (int, int) or (int, int, 3)
        Height and width, and 3 for colours.
    names : sequence of str, optional
        Titles.
    axes : sequence of matplotlib Axes, optional
        One for each source; a new figure by default. Returned, as an array.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import plot
    >>> plot.images(np.random.default_rng(0).random((100, 3)), (10, 10)).shape
    (3,)
    """
    Y = _matrix(Y, "Y")
    if prod(shape) != len(Y):
        raise ValueError(
            f"shape={shape} has {prod(shape)} pixels, but Y has {len(Y)} rows: pass"
            " height and width"
        )
    if axes is None:
        import matplotlib.pyplot as plt

        figure = plt.figure(
            figsize=(2.4 * Y.shape[1], 2.4 * shape[0] / shape[1] + 0.4),
            layout="constrained",
        )
        axes = figure.subplots(1, Y.shape[1], squeeze=False)[0]
    axes = np.ravel(axes)
    # in range of float32
    for ax, y, title in zip(
        axes, (Y / _largest(Y)).T, names or [""] * len(axes), strict=True
    ):
        # NaN: masked
        limits = {
            "vmin": min(0.0, np.nanmin(y)),
            "vmax": np.nanquantile(y, 0.999) or None,
        }
        ax.imshow(
            (np.clip(y, 0, 1) if len(shape) == 3 else y).reshape(shape),
            cmap="gray",
            **limits,
        )
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, fontsize=10)
    return axes


def error_curve(
    S: ArrayLike, outputs: Mapping[str, ArrayLike], *, ax: Any = None
) -> Any:
    """Draw the paper's cumulative error against the number of samples, one curve for
    each network.

    Parameters
    ----------
    S : array-like of shape (n_samples, n_sources)
        The sources.
    outputs : mapping of str to array-like of shape (n_samples, n_sources)
        Outputs of each network as each sample arrived: what `partial_fit_transform`
        returned.
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import plot
    >>> S = np.random.default_rng(0).exponential(size=(100, 2))
    >>> ax = plot.error_curve(S, {"almost": S + 0.1})
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    ax = _axes(ax)
    for name, Y in outputs.items():
        error = errors_over_time(S, Y)
        ax.plot(np.arange(1, len(error) + 1), error, lw=1.5, label=name)
    ax.set(xscale="log", yscale="log", xlabel="samples, t", ylabel="error(t)")
    ax.grid(alpha=0.25)
    ax.legend(frameon=False)
    return ax


def record_weights(
    network: Any, X: ArrayLike, every: int = 100
) -> dict[str, np.ndarray]:
    """Learn from X with a network, and record its weights after every so many samples.

    Parameters
    ----------
    network : estimator with `partial_fit` and weights (attributes `W...._`)
        It continues to learn from its current weights.
    X : array-like of shape (n_samples, n_features)
        Mixtures.
    every : int, default=100
        Samples between two records.

    Returns
    -------
    dict of str to ndarray
        "n_samples": how many samples the network had learned from; and under the name
        of its attribute each kind of weights, (n_records, n_outputs, n_inputs).
        `weights` draws them.

    Examples
    --------
    >>> from bionica import TwoCompartmentNICA, datasets, plot
    >>> X, A = datasets.mix(datasets.sparse_uniform(1000, 3, rng=0), rng=0)
    >>> record = plot.record_weights(TwoCompartmentNICA(3, random_state=0), X)
    >>> list(record), record["W_zz_"].shape
    (['n_samples', 'W_xz_', 'W_zz_'], (10, 3, 3))
    """
    if every < 1:
        raise ValueError(f"every={every} must be at least 1")
    names = sorted(
        name for name in dir(type(network)) if name[0] == "W" and name[-1] == "_"
    )
    if not names:
        raise ValueError(
            f"{type(network).__name__} has no weights: pass a network, for example"
            " TwoCompartmentNICA"
        )
    rows = np.asarray(X)
    records: dict[str, list[Any]] = {name: [] for name in ("n_samples", *names)}
    for start in range(0, len(rows), every):
        network.partial_fit(rows[start : start + every])
        records["n_samples"].append(network.n_samples_seen_)
        for name in names:
            records[name].append(getattr(network, name))
    return {name: np.array(values) for name, values in records.items()}


def weights(
    W: ArrayLike | Mapping[str, np.ndarray],
    *,
    rows: Names = None,
    columns: Names = None,
    ax: Any = None,
) -> Any:
    """Draw a matrix of weights as an image, with zero white and the numbers of a small
    matrix; or recorded weights over time.

    Parameters
    ----------
    W : array-like of shape (n_outputs, n_inputs), or what `record_weights` returned
        Weights, for example `network.W_xy_`. Records are drawn as lines, each kind of
        weights in axes of its own.
    rows, columns : sequence of str, optional
        Names of the rows and columns; their numbers by default.
    ax : matplotlib Axes, optional
        Where to draw a matrix; returned. Records are drawn in a new figure, whose axes
        are returned.

    Examples
    --------
    >>> import numpy as np
    >>> from bionica import plot
    >>> ax = plot.weights(np.eye(3), columns=["red", "green", "blue"])
    >>> len(ax.images), ax.texts[1].get_text()
    (1, '0')
    """
    if isinstance(W, Mapping):
        return _over_time(W)
    W = _matrix(W, "W")
    ax = _axes(ax, *np.clip([1.2 + 0.6 * W.shape[1], 1.2 + 0.4 * W.shape[0]], 3.0, 9.0))
    largest = float(np.abs(W).max(initial=0.0)) or 1.0
    image = ax.imshow(
        W / largest,
        cmap="PuOr",
        vmin=-1,
        vmax=1,
        aspect="auto",
        interpolation="nearest",
    )
    if max(W.shape) <= _NUMBERS:
        for (i, j), value in np.ndenumerate(W):
            color = "white" if abs(value) > 0.6 * largest else "black"
            ax.text(j, i, f"{value:.2g}", ha="center", va="center", color=color)
    else:
        ax.figure.colorbar(image, ax=ax, label=f"in units of {largest:.3g}")
    # inches: 5 lines of text or 10 letters fit in one
    width, height = ax.get_window_extent().size / ax.figure.dpi
    for axis, names, title, room in (
        (ax.xaxis, columns, "input", width),
        (ax.yaxis, rows, "output", height),
    ):
        if names is None:
            axis.get_major_locator().set_params(integer=True)
            axis.set_label_text(title)
        else:
            shown = range(
                0,
                len(names),
                max(1, -(-len(names) // min(_LABELS, int(5 * room) or 1))),
            )
            labels = [names[i] for i in shown]
            rotation = (
                90
                if axis is ax.xaxis
                and sum(len(label) + 1 for label in labels) > 10 * room
                else 0
            )
            axis.set_ticks(shown, labels, rotation=rotation)
    ax.tick_params(length=0)
    return ax


def _over_time(record: Mapping[str, np.ndarray]) -> Any:
    """Draw each kind of recorded weights in axes of its own, with a color for each
    output, and return these axes.
    """
    import matplotlib.pyplot as plt

    names = [name for name in record if name != "n_samples"]
    axes = plt.subplots(
        1,
        len(names),
        figsize=(3.6 * len(names), 3.0),
        layout="constrained",
        squeeze=False,
    )[1][0]
    for axis, name in zip(axes, names, strict=True):
        for i, values in enumerate(np.moveaxis(record[name], 1, 0)):
            axis.plot(
                record["n_samples"],
                values.reshape(len(values), -1),
                color=f"C{i}",
                linewidth=1,
                alpha=0.8,
            )
        axis.set(xlabel="samples", title=name.rstrip("_"))
    return axes


# of the map "PuOr", as in `weights`
_EXCITES = "#542788"
_INHIBITS = "#e08214"


def circuit(network: Any, *, ax: Any = None) -> Any:
    """Draw the neurons of a network that has learned, and its synapses, as wide as
    their weights.

    Purple arrows excite, orange bars inhibit. The widest synapse between two layers has
    the largest of their weights; lateral synapses are compared with a neuron's own
    leak, the diagonal of their weights, which is not drawn. Nor are synapses below 1 %.
    A grey bar joins the compartments of a neuron.

    Parameters
    ----------
    network : estimator
        A network that has learned: `InterneuronNICA`, `TwoCompartmentNICA`,
        `LocalNICA`, `TwoLayerNSM` or `NonnegativePCA`.
    ax : matplotlib Axes, optional
        Where to draw; returned.

    Examples
    --------
    >>> from bionica import InterneuronNICA, datasets, plot
    >>> X, A = datasets.mix(datasets.sparse_uniform(10_000, 3, rng=0), datasets.paper_mixing("d3"))
    >>> ax = plot.circuit(InterneuronNICA.as_published("d3", random_state=0).fit(X))
    >>> ax.texts[-1].get_text()
    'interneurons'
    """
    if getattr(network, "_circuit", None) is None:
        raise ValueError(
            f"{type(network).__name__} has no circuit: pass a network, for example"
            " TwoCompartmentNICA"
        )
    layers, synapses = network._circuit
    weights = {(a, b): attrgetter(name)(network) for a, b, name, _ in synapses if name}
    sizes = {
        symbol: n
        for (a, b), W in weights.items()
        for symbol, n in zip((b, a), W.shape, strict=True)
    }
    tallest = max(sizes.values())
    below = max(row for _, _, row in layers.values())
    ax = _axes(ax, 5.0, min(1.6 + 0.7 * tallest * (1 + below), 9.0))
    ax.set_axis_off()
    # points for a neuron
    room = (
        72 * ax.get_window_extent().height / ax.figure.dpi / (1 + below) / (tallest + 1)
    )
    size = float(np.clip(0.6 * room, 3, 20))

    def place(symbol: str, i: int) -> tuple[float, float]:
        _, column, row = layers[symbol]
        return column, (sizes[symbol] - 1) / 2 - i - row * (tallest + 1)

    def connect(a: tuple[float, float], b: tuple[float, float], **style: Any) -> None:
        ax.annotate(
            "",
            b,
            a,
            arrowprops={"shrinkA": 0.55 * size, "shrinkB": 0.6 * size, **style},
        )

    for a, b, name, sign in synapses:
        if name is None:
            for i in range(sizes[a]):
                connect(
                    place(a, i),
                    place(b, i),
                    arrowstyle="-",
                    lw=0.3 * size,
                    color="0.75",
                )
            continue
        W = sign * weights[a, b]
        lateral = a == b
        largest = np.abs(W).max(initial=0.0) or 1.0
        if lateral and not W.diagonal().any():
            largest = max(largest, 1.0)  # a leak of 1
        for (i, j), w in np.ndenumerate(W / largest):
            if (lateral and i == j) or abs(w) < 0.01:
                continue
            bend = (
                (-0.35 if i > j else 0.6) / abs(i - j) ** 0.25
                if lateral
                else 0.12 * ((b, a) in weights)
            )
            head, color = ("-|>", _EXCITES) if w > 0 else ("|-|, widthA=0", _INHIBITS)
            style = {
                "arrowstyle": head,
                "color": color,
                "lw": 0.25 * size * abs(w),
                "alpha": 0.85,
            }
            path = {"connectionstyle": f"arc3,rad={bend}", "mutation_scale": 0.3 * size}
            connect(place(a, j), place(b, i), **style, **path)
    for symbol, (title, column, row) in layers.items():
        for i in range(sizes[symbol]):
            ax.plot(*place(symbol, i), "o", ms=size, mfc="0.93", mec="0.35", zorder=3)
            if size > 12:
                ax.text(
                    *place(symbol, i),
                    f"${symbol}_{{{i + 1}}}$",
                    ha="center",
                    va="center",
                    zorder=4,
                )
        y, side = (
            (place(symbol, sizes[symbol] - 1)[1] - 0.45, "top")
            if row
            else ((tallest - 1) / 2 + 0.45, "bottom")
        )
        ax.text(column, y, title, ha="center", va=side)
    for label, color in (("excites", _EXCITES), ("inhibits", _INHIBITS)):
        ax.plot([], [], color=color, lw=3, label=label)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.03), ncols=2, frameon=False)
    last = max(column for _, column, _ in layers.values())
    ax.set(
        xlim=(-0.4, last + 0.5),
        ylim=(-tallest / 2 - below * (tallest + 1.5), tallest / 2 + 0.4),
    )
    return ax


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
    >>> from bionica import BatchNICA, plot
    >>> X = np.random.default_rng(0).exponential(size=(500, 3)) @ np.random.default_rng(1).random((3, 6))
    >>> ax = plot.number_of_sources(BatchNICA("auto", random_state=0).fit(X))
    >>> ax.get_yscale()
    'log'
    """
    count = getattr(count, "choice_", None) or getattr(count, "count_", count)
    ax = _axes(ax)
    numbers = sorted(count.angles)
    angles = np.maximum([count.angles[q] for q in numbers], 0.01)
    ax.semilogy(numbers, angles, "o-", color="0.5")
    for q in (count.n_sources, *count.candidates):
        if q in count.angles:
            label = f"{q} sources" if q == count.n_sources else f"or {q}"
            ax.plot(
                q,
                max(count.angles[q], 0.01),
                "o",
                ms=9,
                mfc="C0" if q == count.n_sources else "none",
                label=label,
            )
    ax.set(xlabel="number of sources", ylabel="angle between halves (degrees)")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(frameon=False)
    return ax
