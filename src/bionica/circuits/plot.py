"""Plots of networks, on matplotlib axes: ``pip install 'bionica[plot]'``.

- `circuit`: neurons and synapses.
- `weights`: a matrix, or what `record_weights` recorded.
- `error_curve`: the paper's error.
- `images`: sources that are images.

Every function draws on `ax`, by default on new axes, and returns the axes. None calls
``show``.
"""

from __future__ import annotations  # help() shows ArrayLike, not what it is a union of

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bionica import metrics
from bionica.core import plot as shared
from bionica.core.plot import Names, axes_or_new, images

__all__ = ["circuit", "error_curve", "images", "record_weights", "weights"]

# of the map "PuOr", as in `weights`
_EXCITES = "#542788"
_INHIBITS = "#e08214"

Place = tuple[float, float]


def __dir__() -> list[str]:
    """The public names, which completion shows."""
    return __all__


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
    >>> from bionica.circuits import plot
    >>> S = np.random.default_rng(0).exponential(size=(100, 2))
    >>> ax = plot.error_curve(S, {"almost": S + 0.1})
    >>> ax.get_xscale(), ax.get_yscale()
    ('log', 'log')
    """
    ax = axes_or_new(ax)
    for name, Y in outputs.items():
        error = metrics.error_curve(S, Y)
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
    >>> from bionica import TwoCompartmentNICA, datasets
    >>> from bionica.circuits import plot
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
    >>> from bionica.circuits import plot
    >>> ax = plot.weights(np.eye(3), columns=["red", "green", "blue"])
    >>> len(ax.images), ax.texts[1].get_text()
    (1, '0')
    """
    if isinstance(W, Mapping):
        return _over_time(W)
    return shared.weights(W, rows=rows, columns=columns, ax=ax)


def _over_time(record: Mapping[str, np.ndarray]) -> Any:
    """Draw each kind of recorded weights in axes of its own, with a color for each
    output, and return these axes.
    """
    import matplotlib.pyplot as plt

    names = [name for name in record if name != "n_samples"]
    size = (3.6 * len(names), 3.0)
    figure = plt.figure(figsize=size, layout="constrained")
    axes = figure.subplots(1, len(names), squeeze=False)[0]
    for ax, name in zip(axes, names, strict=True):
        for i, values in enumerate(np.moveaxis(record[name], 1, 0)):
            curves = values.reshape(len(values), -1)
            ax.plot(record["n_samples"], curves, color=f"C{i}", lw=1, alpha=0.8)
        ax.set(xlabel="samples", title=name.rstrip("_"))
    return axes


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
    >>> from bionica import InterneuronNICA, datasets
    >>> from bionica.circuits import plot
    >>> S = datasets.sparse_uniform(10_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
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
    matrices = {(a, b): attrgetter(name)(network) for a, b, name, _ in synapses if name}
    sizes = {}
    for (a, b), W in matrices.items():
        sizes[b], sizes[a] = W.shape
    tallest = max(sizes.values())
    below = max(row for _, _, row in layers.values())
    ax = axes_or_new(ax, 5.0, min(1.6 + 0.7 * tallest * (1 + below), 9.0))
    ax.set_axis_off()
    places = {}
    for symbol, (_, column, row) in layers.items():
        top = (sizes[symbol] - 1) / 2 - row * (tallest + 1)
        places[symbol] = [(column, top - i) for i in range(sizes[symbol])]
    points = 72 * ax.get_window_extent().height / ax.figure.dpi
    room = points / (1 + below) / (tallest + 1)  # for a neuron
    size = float(np.clip(0.6 * room, 3, 20))
    for a, b, name, sign in synapses:
        if name is None:
            for start, end in zip(places[a], places[b], strict=True):
                _connect(ax, start, end, size, "-", lw=0.3 * size, color="0.75")
        else:
            bend = 0.12 if (b, a) in matrices else 0.0
            _draw_synapses(ax, sign * matrices[a, b], places[a], places[b], size, bend)
    for symbol, (title, column, row) in layers.items():
        _draw_neurons(ax, symbol, places[symbol], size)
        if row:
            ax.text(column, places[symbol][-1][1] - 0.45, title, ha="center", va="top")
        else:
            y = (tallest - 1) / 2 + 0.45
            ax.text(column, y, title, ha="center", va="bottom")
    for label, color in (("excites", _EXCITES), ("inhibits", _INHIBITS)):
        ax.plot([], [], color=color, lw=3, label=label)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0.03), ncols=2, frameon=False)
    last = max(column for _, column, _ in layers.values())
    bottom = -tallest / 2 - below * (tallest + 1.5)
    ax.set(xlim=(-0.4, last + 0.5), ylim=(bottom, tallest / 2 + 0.4))
    return ax


def _connect(
    ax: Any, start: Place, end: Place, size: float, arrow: str, **style: Any
) -> None:
    """Draw an arrow between two neurons, up to their edges."""
    gaps = {"shrinkA": 0.55 * size, "shrinkB": 0.6 * size}
    ax.annotate("", end, start, arrowprops={"arrowstyle": arrow, **gaps, **style})


def _draw_synapses(
    ax: Any,
    W: np.ndarray,
    sources: list[Place],
    targets: list[Place],
    size: float,
    bend: float,
) -> None:
    """Draw the synapses between two layers, or within one, as wide as their weights."""
    lateral = sources is targets
    largest = np.abs(W).max(initial=0.0) or 1.0
    if lateral and not W.diagonal().any():
        largest = max(largest, 1.0)  # a leak of 1
    for (i, j), w in np.ndenumerate(W / largest):
        if (lateral and i == j) or abs(w) < 0.01:
            continue
        if lateral:
            bend = (-0.35 if i > j else 0.6) / abs(i - j) ** 0.25
        arrow, color = ("-|>", _EXCITES) if w > 0 else ("|-|, widthA=0", _INHIBITS)
        _connect(
            ax,
            sources[j],
            targets[i],
            size,
            arrow,
            color=color,
            lw=0.25 * size * abs(w),
            alpha=0.85,
            connectionstyle=f"arc3,rad={bend}",
            mutation_scale=0.3 * size,
        )


def _draw_neurons(ax: Any, symbol: str, places: list[Place], size: float) -> None:
    """Draw the neurons of a layer, with their symbols if there is room."""
    for i, place in enumerate(places, 1):
        ax.plot(*place, "o", ms=size, mfc="0.93", mec="0.35", zorder=3)
        if size > 12:
            name = f"${symbol}_{{{i}}}$"
            ax.text(*place, name, ha="center", va="center", zorder=4)
