"""Pages: text, tables and pictures in one HTML file that needs no network, and the page
about one separation.

A page is a title and sections, and a section is a heading and parts: `text`, `table`,
`picture`, `slides` and `beside` return HTML, and escape what they are given. In text,
`code` stands between backquotes.
"""

import base64
import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bionica import plot
from bionica.core.files import write_atomically
from bionica.io import RowSample, wavelengths_in

Array = NDArray[Any]
Sections = list[tuple[str, list[str]]]

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#555;--paper:#fff;--rule:#ddd;--good:#00694d;--bad:#b00020;--fair:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#a8a8a8;--paper:#15171a;--rule:#34383d;--good:#45c49a;--bad:#ff7d8b;
--fair:#e0ad4e}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:72rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.25rem;margin-top:2.4rem;border-bottom:1px solid var(--rule)}
p{max-width:60rem}.lead,figcaption{color:var(--soft)}figcaption{font-size:.9rem}
figure{margin:1rem 0;overflow-x:auto}img{max-width:100%;height:auto}figure img{background:#fff}
.beside{display:flex;flex-wrap:wrap;gap:1.5rem}.beside>*{flex:1 1 24rem;min-width:0}.beside>figure{flex:0 1 auto}
.beside figcaption{width:0;min-width:100%}
.slides fieldset{border:0;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem .9rem}
.slides [type=range],.slides img{width:100%}.slides label{padding:.2rem 0}.slides figure{margin:.5rem 0}
.caption{font-weight:600;margin:.5rem 0}
.verdict{border-left:4px solid;padding:.1rem .8rem;margin:1rem 0}.verdict p{color:var(--ink);margin:.3rem 0}
.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0}
th,td{padding:.35rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
.facts td{overflow-wrap:anywhere}.facts td:first-child{white-space:nowrap;color:var(--soft)}
th{border-bottom:2px solid var(--soft);white-space:nowrap}
th.number,td.number{text-align:right}td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
td.yes,td.no,td.partly{font-weight:600}td.yes{color:var(--good)}td.no{color:var(--bad)}td.partly{color:var(--fair)}
@media print{:root{color-scheme:light}body{margin:0}h2,figure{break-inside:avoid}h2{break-after:avoid}}
"""
#: Shows the slide of the chosen group that the slider is at.
_SLIDE = (
    "const at = +this.querySelector(':checked').value + "
    "+this.querySelector('[type=range]').value;"
    "this.querySelectorAll('.slide').forEach((slide, i) => slide.hidden = i != at)"
)


def page(title: str, lead: str, sections: Sections) -> str:
    """Build a page, HTML with its pictures: a heading, a sentence below it (if any) and
    sections.

    Examples
    --------
    >>> html = page("Results", "", [("Errors", [table(["network", "error"], [["A < B", 0.00123]])])])
    >>> "A &lt; B" in html and "0.00123" in html
    True
    """
    body = f"<h1>{escape(title)}</h1>" + (text(lead, kind="lead") if lead else "")
    for heading, parts in sections:
        body += (
            "\n<section>"
            + (f"<h2>{escape(heading)}</h2>\n" if heading else "")
            + "\n".join(parts)
            + "</section>"
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link'
        ' rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>{body}\n</body></html>\n"
    )


def text(sentences: str, tag: str = "p", kind: str = "") -> str:
    """Return a paragraph, or another element: escaped, with `code` as such."""
    return (
        f'<{tag} class="{kind}">'
        + re.sub("`([^`]+)`", r"<code>\1</code>", escape(sentences))
        + f"</{tag}>"
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with these headings, if any. Floats are shown with three digits."""
    marks = [
        ' class="number"' * any(type(row[i]) in (int, float) for row in rows)
        for i in range(len(columns))
    ]
    head = "".join(
        f"<th{mark}>{escape(title)}</th>"
        for title, mark in zip(columns, marks, strict=True)
    )
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    head = f"<table><thead><tr>{head}</tr></thead>" if head else '<table class="facts">'
    return f'<div class="table">{head}<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if value is None or type(value) in (int, float):
        shown = (
            "–"
            if value is None
            else f"{value:.3g}"
            if isinstance(value, float)
            else f"{value:,}"
        )
        return f'<td class="number">{shown}</td>'
    words = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    return text(words, "td", words if words in ("yes", "no", "partly") else "")


def picture(data: bytes, caption: str, kind: str = "svg", alt: str = "") -> str:
    """Return the bytes of an "svg", "png" or "jpeg" as a figure; `alt` if the caption
    does not describe it.
    """
    source = f"data:image/{'svg+xml' if kind == 'svg' else kind};base64,{base64.b64encode(data).decode()}"
    image = f'<img alt="{escape(alt or caption)}" src="{source}">'
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def slides(
    name: str, groups: Mapping[str, Sequence[str]], label: str, first: str
) -> str:
    """Return groups of equally many slides, of which one is shown: buttons choose the
    group, and a slider chooses the slide.

    `name` tells them from others on the page, `label` is that of the slider. The last
    slide of the group `first` is shown first.
    """
    last = max(map(len, groups.values())) - 1
    buttons = ""
    shown = ""
    for i, (group, parts) in enumerate(groups.items()):
        mark = " checked" * (group == first)
        button = (
            f'<input type="radio" name="{escape(name)}" value="{i * (last + 1)}"{mark}'
            ' autocomplete="off">'
        )
        buttons += f"<label>{button}{escape(group)}</label>"
        for j, part in enumerate(parts):
            shown += (
                "<div"
                f' class="slide"{"" if group == first and j == last else " hidden"}>{part}</div>'
            )
    slider = f'<input type="range" max="{last}" value="{last}" autocomplete="off">'
    controls = (
        "<fieldset"
        f' aria-label="{escape(name)}">{buttons}</fieldset><label>{escape(label)}{slider}</label>'
    )
    return (
        f'<div class="slides" oninput="{_SLIDE}">{controls}<div'
        f' aria-live="polite">{shown}</div></div>'
    )


def beside(*parts: str) -> str:
    """Return parts side by side, or below each other in a narrow window."""
    return f'<div class="beside">{"".join(parts)}</div>'


def figure_bytes(figure: Any, kind: str) -> bytes:
    """Return a matplotlib figure as "svg", "pdf", "png" or "jpeg"; the same figure
    gives the same bytes.
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "bionica", "svg.fonttype": "path"}):
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def drawing(
    caption: str, width: float, height: float, draw: Callable[..., object], *args: Any,
    keep: list[tuple[str, Any]] | None = None, **options: Any,
) -> str:  # fmt: skip
    """Return what a function of `plot` draws of these arguments on new axes; its name
    and the figure are added to `keep`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    draw(*args, ax=figure.subplots(), **options)
    if keep is not None:
        keep.append((draw.__name__.strip("_"), figure))
    return picture(figure_bytes(figure, "svg"), caption)


# --- one separation

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

    Return the names of its figures and the figures of matplotlib. X are samples of the
    reader, `numbers` their numbers and `labels` what its label columns hold beside
    them. `names` are those of the sources, `lines` the result in words, and `facts`
    names and values for a table. Images are drawn in place of curves.
    """
    figures: list[tuple[str, Any]] = []
    shown = _shown(network, reader, X, numbers, labels, names)
    if len(shown.names) < len(names):
        first = f"the first {len(shown.names)} of {len(names)} sources"
        facts = [*facts, ("drawn", first)]
    show = partial(drawing, keep=figures)
    kind = "good" if network.diagnosis_.ok else "bad"
    verdict = f'<div class="verdict {kind}">{"".join(map(text, lines))}</div>'
    sections = {"": [verdict, table((), facts)]}
    sections |= _uncertainty_sections(show, shown, names)
    if reader.image_shape:
        pixels = _pixels(reader)
        mixed = reader.corrected(reader.fetch(pixels.ravel()))
        maps = network.transform(mixed)
        mixtures = reader.names[:MOST_SOURCES]
        drawn = _images(show, "sources", maps, pixels.shape, shown.names)
        sections["Sources"] = [drawn]
        drawn = _images(show, "mixtures", mixed, pixels.shape, mixtures)
        sections["Mixtures"] = [drawn]
    else:
        d = len(shown.names)
        caption = "Samples spread evenly over the input, each source on its own scale."
        size, Y = (9.0, 0.8 + 0.7 * d), shown.Y[:, :d]
        options: dict[str, Any] = {"names": shown.names, "label": shown.t_label}
        drawn = show(caption, *size, plot.sources, Y, shown.t, **options)
        sections["Sources"] = [drawn]
    sections |= _spectra_section(show, shown)
    if len(shown.A) > len(names):
        sections["Residual"] = [_residual_drawing(show, shown)]
        if reader.image_shape:
            left = mixed - maps @ np.asarray(network.mixing_).T
            drawn = _residual_image(show, left, pixels.shape)
            sections["Residual"].append(drawn)
    sections["Distribution of each source"] = [_distributions(show, shown)]
    if path is not None:
        content = page("What bionica separate found", "", [*sections.items()])
        write_atomically(path, content.encode())
    return figures


class _Shown(NamedTuple):
    """What the sections of a page draw: some samples, and the first sources."""

    network: Any
    reader: Any
    X: Array  # without missing cells and rows
    Y: Array  # all outputs
    t: Array  # numbers of the samples, or the label beside them
    t_label: str
    A: Array  # columns of the mixing of the first sources
    names: Sequence[str]  # of these
    channels: Array
    label: str  # of the channels


def _shown(
    network: Any,
    reader: Any,
    X: Array,
    numbers: Array,
    labels: Sequence[Array],
    names: Sequence[str],
) -> _Shown:
    """Choose what is drawn."""
    rows, t_label = _some(len(X), _DRAWN), "sample"
    X, t = X[rows], numbers[rows]
    for name, column in zip(reader.label_names, labels, strict=False):
        with suppress(ValueError):  # text: names of the samples
            t = np.array([float(str(cell)) for cell in column[rows]])
            t_label = name or t_label
    A, Y = np.asarray(network.mixing_), network.transform(X)
    known = ~np.isnan(Y[:, 0])  # masked pixels have no outputs
    X, Y, t = X[known], Y[known], t[known]
    X = np.where(np.isnan(X), Y @ A.T, X)  # a missing cell has no residual
    d = min(len(names), MOST_SOURCES)
    channels, _ = wavelengths_in(reader.names, any_order=True)
    label = reader.unit or "wavelength"
    if channels is None:
        channels, label = np.arange(1, len(A) + 1), "number of the mixture"
    A, names = A[:, :d], names[:d]
    return _Shown(network, reader, X, Y, t, t_label, A, names, channels, label)


def _uncertainty_sections(
    show: Callable[..., str], shown: _Shown, names: Sequence[str]
) -> dict[str, list[str]]:
    """Draw how certain the sources and their number are."""
    sections, network = {}, shown.network
    uncertainty = network.diagnosis_.uncertainty_
    choice = getattr(network, "choice_", None)
    alternatives = getattr(network, "alternatives_", {})
    if uncertainty is not None:
        why = (
            "Parts of the samples were fitted separately. Agreement does not show that "
            "a source is correct."
        )
        columns, *rows = uncertainty.table(names)
        sections["Uncertainty of each source"] = [text(why), table(columns, rows)]
    if choice is not None and choice.angles:
        caption = (
            "How far two halves of the samples differ, by number of sources. The last "
            "one before a large rise is taken."
        )
        drawn = show(caption, 6.0, 3.2, plot.number_of_sources, choice)
        sections["Number of sources"] = [drawn]
    if alternatives:
        why = (
            "The data do not decide between these numbers. Choose by what is known of "
            "the samples and of the spectra."
        )
        fits = {len(names): network} | alternatives
        drawings = [
            _alternative(show, number, fit, shown.channels, shown.label)
            for number, fit in fits.items()
        ]
        sections["Other numbers of sources"] = [text(why), beside(*drawings)]
    return sections


def _pixels(reader: Any) -> Array:
    """Return the numbers of the pixels that are drawn, as an image."""
    step = -(-max(reader.image_shape[:2]) // _SIDE)
    pixels = np.arange(reader.n_samples).reshape(reader.image_shape)
    return pixels[::step, ::step]


def _spectra_section(show: Callable[..., str], shown: _Shown) -> dict[str, list[str]]:
    """Draw how the sources enter the mixtures: as a matrix if these are few."""
    A, names, diagnosis = shown.A, shown.names, shown.network.diagnosis_
    d = len(names)
    if len(A) < _FEW_MIXTURES:
        caption = "How strongly each source enters each mixture. Orange: negative."
        size, rows = (1.5 + 0.9 * d, 0.6 + 0.35 * len(A)), shown.reader.names
        drawn = show(caption, *size, plot.weights, A, rows=rows, columns=names)
        return {"Mixing matrix": [drawn]}
    caption = "Each spectrum is divided by its largest value."
    options: dict[str, Any] = {"names": names, "label": shown.label}
    if diagnosis.uncertainty_ is not None:
        options["error"] = diagnosis.uncertainty_.mixing[:, :d]
        caption += (
            " The band is two standard errors wide on either side, from fits to halves "
            "of the samples."
        )
    if diagnosis.band_ is not None:
        band = diagnosis.band_
        options["bounds"] = band.mixing_low[:, :d], band.mixing_high[:, :d]
        caption += (
            " The paler band is what nonnegativity leaves open: the samples follow a "
            "curve."
        )
    drawn = show(caption, 9.0, 4.2, plot.spectra, A, shown.channels, **options)
    return {"Spectra of the sources": [drawn]}


def _residual_drawing(show: Callable[..., str], shown: _Shown) -> str:
    """Draw what the sources do not explain."""
    caption = (
        "What the sources leave of each mixture: noise, or a pattern that may be "
        "another source. Orange: negative."
    )
    residual = shown.X - shown.network.inverse_transform(shown.Y)
    labels = (shown.reader.names, shown.t_label, shown.label)
    return show(caption, 9.0, 4.2, _residual, residual, shown.t, *labels)


def _residual_image(
    show: Callable[..., str], left: Array, shape: tuple[int, ...]
) -> str:
    """Draw where the sources leave something of an image."""
    left = np.nan_to_num(left)  # a missing cell has no residual
    size = np.sqrt(np.mean(left**2, axis=1, keepdims=True))
    caption = (
        f"Its root mean square in each pixel, at most {size.max():.2g}. Shot noise "
        "grows with the light, and another source has a shape of its own."
    )
    return _images(show, "residual_image", size, shape, [caption])


def _distributions(show: Callable[..., str], shown: _Shown) -> str:
    """Draw the outputs before negative values are set to zero."""
    d = len(shown.names)
    caption = "Before negative values are set to zero. A good fit has almost none."
    U = (shown.X @ np.asarray(shown.network.components_).T)[:, :d]
    size = (9.0, 0.8 + 0.5 * d)
    return show(caption, *size, plot.distributions, U, names=shown.names)


def _alternative(
    show: Callable[..., str], number: int, fit: Any, channels: Array, label: str
) -> str:
    """Draw the spectra of a fit with another number of sources, with the errors of its
    outputs.
    """
    A, u = np.asarray(fit.mixing_)[:, :MOST_SOURCES], fit.diagnosis_.uncertainty_
    errors = (
        ""
        if u is None
        else "Standard errors: "
        + ", ".join(f"{error:.0%}" for error in u.sources)
        + "."
    )
    caption = (
        f"{number} sources. {errors} {fit.diagnosis_.measures.residual:.2%} of the"
        " variance of X is unexplained."
    )
    names = [str(i + 1) for i in range(A.shape[1])]
    return show(caption, 3.6, 2.6, plot.spectra, A, channels, names=names, label=label)


def _some(n: int, most: int) -> Array:
    """Numbers of at most `most` of n rows, a random one of each stratum: evenly spaced
    rows would alias with periodic data.
    """
    numbers = RowSample(most)
    numbers.add(np.arange(n))
    return numbers.sample()[0]


def _residual(R: Array, t: Array, names: Sequence[str], *labels: str, ax: Any) -> None:
    """Draw residuals as a picture of moderate size: some of the samples, and means over
    neighbouring mixtures.
    """
    rows, width = _some(len(R), _SIDE), -(-R.shape[1] // _SIDE)
    starts = np.arange(0, R.shape[1], width)
    means = (
        np.add.reduceat(R[rows].T, starts)
        / np.diff([*starts, R.shape[1]])[:, np.newaxis]
    )
    plot.weights(means, rows=names[::width], columns=[f"{x:g}" for x in t[rows]], ax=ax)
    ax.set(xlabel=labels[0], ylabel=labels[1])


def _images(
    show: Callable[..., str],
    kind: str,
    Y: Array,
    shape: tuple[int, ...],
    names: Sequence[str],
) -> str:
    """Return the first columns of Y as pictures with these names."""

    def draw(y: Array, ax: Any) -> None:
        plot.images(y[:, np.newaxis], shape, axes=[ax])

    draw.__name__ = kind
    height = 0.1 + 2.8 * shape[0] / shape[1]
    return beside(
        *(show(name, 2.8, height, draw, y) for name, y in zip(names, Y.T, strict=False))
    )
