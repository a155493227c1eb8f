"""The page about one separation: numbers, what they mean, and drawings."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io import import_optional, write_atomically
from .html import Drawing, Gallery, PageTable, Picture, Section, Verdict, page

Array = NDArray[Any]

_TITLE = "What bionica separate found"
_MOST_SOURCES = 12  # in the drawings
_WIDTH, _LEFT = 760, 60


def write_page(
    path: Path,
    summary: dict[str, Any],
    diagnosis: Any,
    Y: Array,
    *,
    mixing: Array | None = None,
    names: Sequence[str] = (),
    images: tuple[Array, Array] | None = None,
) -> None:
    """Write a page that needs no other file and no network; the file is replaced only when the new one is complete.

    In `summary`, names and values for the table, "ok", "diagnosis" and "notes" (sentences) make the verdict. `diagnosis` is what
    `diagnose` measured, Y the sources of some samples to draw, `mixing` how the sources enter the mixtures, and `names` those of
    the mixtures. `images` are mixtures and sources as small pictures, drawn in place of Y.
    """
    sections = [Section("", [_verdict(summary), _numbers(summary)])]
    if images is not None:
        sections.append(Section("Sources", [_gallery(images[1], "source")]))
        sections.append(Section("Mixtures", [_gallery(images[0], "mixture")]))
    else:
        traces = _traces(Y, summary.get("samples", len(Y)))
        sections.append(Section("Sources", ["Of samples spread evenly over the input.", traces]))
    if diagnosis is not None:
        text = "In standard deviations, before values below zero are cut off. A good fit has almost nothing left of 0."
        sections.append(Section("Distribution of each source", [text, _histograms(diagnosis.histogram)]))
        text = "Blue: directions of the sources. Grey: the remaining directions. Logarithmic."
        title = "Variance of the mixtures along their principal directions"
        sections.append(Section(title, [text, _spectrum(diagnosis.inner, diagnosis.outer)]))
    if mixing is not None:
        text = "How strongly each source, of variance 1, enters each mixture; orange is negative."
        more = f" The first 40 of {len(mixing)}." if len(mixing) > 40 else ""
        sections.append(Section("Mixing matrix", [text + more, _matrix(mixing, names)]))
    write_atomically(path, page(_TITLE, "", sections).encode())


def is_report_of(path: Path, model: Path | None) -> bool:
    """Whether a file is a page of `write_page` about a run that saved its network under this name."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    return f"<title>{_TITLE}</title>" in content and f">{escape(str(model))}<" in content


def _verdict(summary: dict[str, Any]) -> Verdict:
    sentences = [sentence[0].upper() + sentence[1:] for sentence in summary["diagnosis"]]
    sentences += summary.get("notes", [])  # which may begin with the name of a file
    return Verdict(summary["ok"], "The fit does not look right yet", sentences)


def _numbers(summary: dict[str, Any]) -> PageTable:
    said = ("ok", "diagnosis", "notes")
    shown = {name: value for name, value in summary.items() if name not in said and value not in (None, [], False)}
    return PageTable((), [(name, _words(value)) for name, value in shown.items()])


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)


def _text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    look = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str, opacity: float = 1, title: str = "") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect {place} class="{kind}" opacity="{opacity:.3f}"><title>{title}</title></rect>'


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _spectrum(inner: Array, outer: Array) -> Drawing:
    """Variances of the mixtures on a scale of powers of ten, those of the sources' directions in blue."""
    values = np.clip(
        np.nan_to_num(np.concatenate([inner, outer])[:60]), 1e-300, 1e308
    )  # squares of large mixtures overflow
    logs = np.maximum(np.log10(values), np.log10(values.max()) - 9)
    low, top = int(np.floor(logs.min() - 0.3)), int(np.ceil(logs.max()))
    scale, width = 160 / (top - low), min(40.0, 690 / len(values))
    body = ""
    for power in range(low, top + 1):
        y = 175 - scale * (power - low)
        body += _line(_LEFT, y, _LEFT + width * len(values), y) + _text(_LEFT - 6, y + 4, f"1e{power}", "end")
    for i, (log, value) in enumerate(zip(logs, values, strict=True)):
        height = scale * (log - low)
        place = (_LEFT + (i + 0.1) * width, 175 - height, 0.8 * width, height)
        body += _rect(*place, "mark" if i < len(inner) else "minor", title=f"{value:.3g}")
    return Drawing(body, _WIDTH, 185, "variance of the mixtures along their principal directions, on a log scale")


def _histograms(histogram: Array) -> Drawing:
    """Distribution of each linear output, from -1 to 4 standard deviations."""
    rows, width = histogram[:_MOST_SOURCES], (_WIDTH - _LEFT - 10) / histogram.shape[1]
    bottom, body = 50 * len(rows), ""
    for tick in range(-1, 5):
        x = _LEFT + (tick + 1) / 5 * width * histogram.shape[1]
        body += _line(x, 0, x, bottom, "axis" if tick == 0 else "line") + _text(x, bottom + 14, str(tick), "middle")
    for i, row in enumerate(rows):
        base, peak = 50 * (i + 1), row.max() or 1.0
        steps = ((_LEFT + width * x, base - 40 * value / peak) for j, value in enumerate(row) for x in (j, j + 1))
        points = _points([(_LEFT, base), *steps, (_LEFT + width * len(row), base)])
        body += f'<polygon points="{points}" class="mark" opacity=".8"/>'
        body += _text(0, base - 15, f"source {i}")
    return Drawing(body, _WIDTH, bottom + 20, "distribution of each output near zero")


def _traces(Y: Array, n: int) -> Drawing:
    """The sources of some samples, in their order."""
    body, bottom = "", 50 * min(Y.shape[1], _MOST_SOURCES)
    for i, y in enumerate(Y.T[:_MOST_SOURCES]):
        base, peak = 50 * (i + 1), float(y.max()) or 1.0
        places = ((_LEFT + 690 * j / max(1, len(y) - 1), base - 42 * (value / peak)) for j, value in enumerate(y))
        body += _line(_LEFT, base, 750, base) + f'<polyline points="{_points(places)}" class="trace"/>'
        body += _text(0, base - 15, f"source {i}")
    ends = _text(_LEFT, bottom + 14, "sample 0") + _text(750, bottom + 14, f"sample {n - 1:,}", "end")
    return Drawing(body + ends, _WIDTH, bottom + 20, "sources of evenly spread samples")


def _matrix(mixing: Array, names: Sequence[str]) -> Drawing:
    """The mixing matrix: how strongly each source enters each mixture."""
    part = mixing[:40, :_MOST_SOURCES]
    largest, left, body = float(np.abs(part).max()) or 1.0, 170, ""
    for j in range(part.shape[1]):
        body += _text(left + 62 * j + 30, 12, f"source {j}", "middle")
    for i, row in enumerate(part):
        body += _text(0, 18 * i + 32, names[i][:28])
        for j, value in enumerate(row):
            body += _rect(left + 62 * j, 18 * i + 19, 60, 17, "mark" if value > 0 else "negative", abs(value) / largest)
            kind = "strong" if abs(value) > 0.6 * largest else ""
            body += _text(left + 62 * j + 30, 18 * i + 32, f"{value:.3g}", "middle", kind)
    return Drawing(body, max(_WIDTH, left + 62 * part.shape[1]), 18 * len(part) + 24, "mixing matrix")


def _gallery(images: Array, caption: str) -> Gallery:
    """Small pictures, each from its smallest value (or 0) in black to its largest in white."""
    imwrite, pictures = import_optional("imageio.v3", "a report on images").imwrite, []
    for i, image in enumerate(images[:_MOST_SOURCES]):
        image = image / (float(np.abs(image).max()) or 1.0)  # so that no difference overflows
        low = min(0.0, float(image.min()))
        grey = np.rint(255 * (image - low) / (float(image.max()) - low or 1.0)).astype(np.uint8)
        pictures.append(Picture(imwrite("<bytes>", grey, extension=".png"), f"{caption} {i}", "png"))
    return Gallery(pictures)
