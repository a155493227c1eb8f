"""The page about one separation: the result in words, and what was found in pictures.

`write_separation` writes it, and returns its figures.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from bionica.core.blocks import Array
from bionica.core.files import write_atomically
from bionica.core.page import Sections, beside, figure_bytes, page, picture, table, text
from bionica.core.plot import new_figure
from bionica.io import RowSample, wavelengths_in
from bionica.mixtures import plot

MOST_SOURCES = 12  # that are drawn
_FEW_MIXTURES = 8  # fewer are shown as a matrix, not as curves
_DRAWN = 500  # samples
_SIDE = 240  # pixels of a side of an image, about


def write_separation(
    path: Path | None,
    network: Any,
    reader: Any,
    X: Array,
    *,
    numbers: Array,
    labels: Sequence[Array],
    names: Sequence[str],
    lines: Sequence[str],
    facts: Sequence[tuple[str, str]],
) -> list[tuple[str, Any]]:
    """Write the page about a fitted estimator with `diagnosis_`.

    X are samples of the reader, `numbers` their numbers and `labels` what its label
    columns hold beside them. `names` are those of the sources, `lines` the result in
    words, and `facts` names and values for a table. Images are drawn in place of
    curves. Returns the names of the figures and the figures of matplotlib.
    """
    d = len(names)
    if d > MOST_SOURCES:
        facts = [*facts, ("drawn", f"the first {MOST_SOURCES} of {d} sources")]
    kind = "good" if network.diagnosis_.ok else "bad"
    verdict = f'<div class="verdict {kind}">{"".join(map(text, lines))}</div>'
    sections = [("", [verdict, table((), facts)])]
    uncertainty = network.diagnosis_.uncertainty_
    if uncertainty is not None:
        why = (
            "Parts of the samples were fitted separately. Agreement does not show that"
            " a source is correct."
        )
        columns, *rows = uncertainty.table(names)
        parts = [text(why), table(columns, rows)]
        sections.append(("Uncertainty of each source", parts))
    drawings = _Drawings(network, reader, X, numbers, labels, names)
    choice = getattr(network, "choice_", None)
    if choice is not None and choice.angles:
        sections.append(("Number of sources", [drawings.number_of_sources(choice)]))
    alternatives = getattr(network, "alternatives_", {})
    if alternatives:
        parts = drawings.other_numbers({d: network} | alternatives)
        sections.append(("Other numbers of sources", parts))
    sections += drawings.image() if reader.image_shape else drawings.curves()
    sections.append(("Distribution of each source", [drawings.distributions()]))
    if path is not None:
        content = page("What bionica separate found", "", sections)
        write_atomically(path, content.encode())
    return drawings.figures


class _Drawings:
    """Draws some of the samples, and the first of the sources."""

    def __init__(
        self,
        network: Any,
        reader: Any,
        X: Array,
        numbers: Array,
        labels: Sequence[Array],
        names: Sequence[str],
    ) -> None:
        self.figures: list[tuple[str, Any]] = []
        self.network = network
        self.reader = reader
        rows = _some(len(X), _DRAWN)
        t = numbers[rows]
        self.t_label = "sample"
        for name, column in zip(reader.label_names, labels, strict=False):
            with suppress(ValueError):  # text: names of the samples
                t = np.array([float(str(cell)) for cell in column[rows]])
                self.t_label = name or self.t_label
        X = X[rows]
        Y = network.transform(X)
        A = network.mixing_
        known = ~np.isnan(Y[:, 0])  # masked pixels have no outputs
        self.t = t[known]
        self.Y = Y[known]
        X = X[known]
        self.X = np.where(np.isnan(X), self.Y @ A.T, X)  # missing: no residual
        self.mixing = A
        self.names = names[:MOST_SOURCES]
        self.A = A[:, :MOST_SOURCES]
        self.label = reader.unit or "wavelength"
        self.channels, _ = wavelengths_in(reader.names, any_order=True)
        if self.channels is None:
            self.channels = np.arange(1, len(A) + 1)
            self.label = "number of the mixture"

    def _show(
        self,
        name: str,
        caption: str,
        width: float,
        height: float,
        draw: Any,
        *args: Any,
        **options: Any,
    ) -> str:
        """Return what `draw` draws of these arguments on new axes, in inches."""
        figure = new_figure(width, height)
        draw(*args, ax=figure.subplots(), **options)
        self.figures.append((name, figure))
        return picture(figure_bytes(figure, "svg"), caption)

    def number_of_sources(self, choice: Any) -> str:
        caption = (
            "How far two halves of the samples differ, by number of sources. The last"
            " one before a large rise is taken."
        )
        draw = plot.number_of_sources
        return self._show("number_of_sources", caption, 6.0, 3.2, draw, choice)

    def other_numbers(self, fits: Mapping[int, Any]) -> list[str]:
        """Spectra and errors of fits with other numbers of sources."""
        why = (
            "The data do not decide between these numbers. Choose by what is known of"
            " the samples and of the spectra."
        )
        drawn = []
        for number, fit in fits.items():
            errors = ""
            uncertainty = fit.diagnosis_.uncertainty_
            if uncertainty is not None:
                percents = ", ".join(f"{error:.0%}" for error in uncertainty.sources)
                errors = f"Standard errors: {percents}."
            residual = fit.diagnosis_.measures.residual
            caption = (
                f"{number} sources. {errors} {residual:.2%} of the variance of X is"
                " unexplained."
            )
            A = fit.mixing_[:, :MOST_SOURCES]
            numbers = [str(i + 1) for i in range(A.shape[1])]
            drawn.append(self._spectra(caption, 3.6, 2.6, A, names=numbers))
        return [text(why), beside(*drawn)]

    def curves(self) -> Sections:
        """Sources, mixing and residual of samples in a row."""
        caption = "Samples spread evenly over the input, each source on its own scale."
        d = len(self.names)
        size = (9.0, 0.8 + 0.7 * d)
        given = (plot.sources, self.Y[:, :d], self.t)
        options: dict[str, Any] = {"names": self.names, "label": self.t_label}
        drawn = self._show("sources", caption, *size, *given, **options)
        return [("Sources", [drawn]), self._mixing(), *self._residual()]

    def image(self) -> Sections:
        """Sources, mixtures, mixing and residual of an image."""
        reader = self.reader
        step = -(-max(reader.image_shape[:2]) // _SIDE)
        pixels = np.arange(reader.n_samples).reshape(reader.image_shape)[::step, ::step]
        X = reader.corrected(reader.fetch(pixels.ravel()))
        Y = self.network.transform(X)
        shape = pixels.shape
        sources = self._maps("sources", Y, shape, self.names)
        mixtures = self._maps("mixtures", X, shape, reader.names[:MOST_SOURCES])
        mixing = self._mixing()
        residual = self._residual()
        if residual:
            left = np.nan_to_num(X - Y @ self.mixing.T)  # missing: no residual
            size = np.sqrt(np.mean(left**2, axis=1, keepdims=True))
            caption = (
                f"Its root mean square in each pixel, at most {size.max():.2g}. Shot"
                " noise grows with the light, and another source has a shape of its"
                " own."
            )
            residual[0][1].append(self._maps("residual_image", size, shape, [caption]))
        return [("Sources", [sources]), ("Mixtures", [mixtures]), mixing, *residual]

    def _maps(
        self, name: str, Y: Array, shape: tuple[int, ...], captions: Sequence[str]
    ) -> str:
        """The first columns of Y as images."""

        def draw(y: Array, ax: Any) -> None:
            plot.images(y[:, None], shape, axes=[ax])

        height = 0.1 + 2.8 * shape[0] / shape[1]
        columns = zip(captions, Y.T, strict=False)
        shown = [self._show(name, title, 2.8, height, draw, y) for title, y in columns]
        return beside(*shown)

    def _mixing(self) -> tuple[str, list[str]]:
        """How sources enter mixtures: a matrix if these are few, otherwise spectra."""
        A = self.A
        k, d = A.shape
        if k < _FEW_MIXTURES:
            caption = "How strongly each source enters each mixture. Orange: negative."
            size = (1.5 + 0.9 * d, 0.6 + 0.35 * k)
            names = {"rows": self.reader.names, "columns": self.names}
            drawn = self._show("weights", caption, *size, plot.weights, A, **names)
            return "Mixing matrix", [drawn]
        caption = "Each spectrum is divided by its largest value."
        options = {}
        uncertainty = self.network.diagnosis_.uncertainty_
        if uncertainty is not None:
            options["error"] = uncertainty.mixing[:, :d]
            caption += (
                " The band is two standard errors wide on either side, from fits to"
                " halves of the samples."
            )
        band = self.network.diagnosis_.band_
        if band is not None:
            options["bounds"] = band.mixing_low[:, :d], band.mixing_high[:, :d]
            caption += (
                " The paler band is what nonnegativity leaves open: the samples follow"
                " a curve."
            )
        drawn = self._spectra(caption, 9.0, 4.2, A, names=self.names, **options)
        return "Spectra of the sources", [drawn]

    def _spectra(
        self, caption: str, width: float, height: float, A: Array, **options: Any
    ) -> str:
        options["label"] = self.label
        given = (plot.spectra, A, self.channels)
        return self._show("spectra", caption, width, height, *given, **options)

    def _residual(self) -> Sections:
        """What the sources leave, if there are more mixtures than sources."""
        if self.mixing.shape[0] <= self.mixing.shape[1]:
            return []
        caption = (
            "What the sources leave of each mixture: noise, or a pattern that may be"
            " another source. Orange: negative."
        )
        R = self.X - self.network.inverse_transform(self.Y)
        rows = _some(len(R), _SIDE)
        width = -(-R.shape[1] // _SIDE)
        starts = np.arange(0, R.shape[1], width)
        counts = np.diff([*starts, R.shape[1]])
        means = np.add.reduceat(R[rows].T, starts) / counts[:, None]
        names = {
            "rows": self.reader.names[::width],
            "columns": [f"{t:g}" for t in self.t[rows]],
        }

        def draw(ax: Any) -> None:
            plot.weights(means, ax=ax, **names)
            ax.set(xlabel=self.t_label, ylabel=self.label)

        return [("Residual", [self._show("residual", caption, 9.0, 4.2, draw)])]

    def distributions(self) -> str:
        """Linear outputs of the sources that are drawn."""
        caption = "Before negative values are set to zero. A good fit has almost none."
        d = len(self.names)
        U = (self.X @ self.network.components_.T)[:, :d]
        size = (9.0, 0.8 + 0.5 * d)
        draw = plot.distributions
        return self._show("distributions", caption, *size, draw, U, names=self.names)


def _some(n: int, most: int) -> Array:
    """Numbers of at most `most` of n rows, a random one of each stratum: evenly spaced
    rows would alias with periodic data.
    """
    numbers = RowSample(most)
    numbers.add(np.arange(n))
    return numbers.sample()[0]
