"""The drawings of the page about one separation, as SVG. Sources, mixtures and samples are counted from 1."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .html import Drawing

Array = NDArray[Any]

MOST_SOURCES = 12
_WIDTH, _LEFT, _RIGHT = 760, 76, 750
_PANEL = 70  # height of a spectrum


def traces(Y: Array, first: int, n: int) -> Drawing:
    """The sources of some of the n samples, without the first ones, in their order."""
    body, bottom = "", 50 * min(Y.shape[1], MOST_SOURCES)
    for i, y in enumerate(Y.T[:MOST_SOURCES]):
        base, peak = 50 * (i + 1), float(y.max()) or 1.0
        places = (
            (_LEFT + (_RIGHT - _LEFT) * j / max(1, len(y) - 1), base - 42 * (value / peak)) for j, value in enumerate(y)
        )
        body += _line(_LEFT, base, _RIGHT, base) + f'<polyline points="{_points(places)}" class="trace"/>'
        body += _text(0, base - 15, f"source {i + 1}")
    ends = _text(_LEFT, bottom + 14, f"sample {first + 1:,}") + _text(_RIGHT, bottom + 14, f"sample {n:,}", "end")
    return Drawing(body + ends, _WIDTH, bottom + 20, "sources of evenly spread samples")


def curves(mixing: Array, axis: Sequence[float] | None, title: str = "number of the mixture") -> Drawing:
    """The spectrum of each source, all mixtures, each scaled by its largest value; over `axis` or the number of the mixture.

    `title` stands below the axis.
    """
    x = np.arange(1, len(mixing) + 1) if axis is None else np.asarray(axis, float)
    order = np.argsort(x)
    x = x[order]
    span = float(x[-1] - x[0])
    shown = np.nan_to_num(mixing[order, :MOST_SOURCES].T)
    bottom, body = _PANEL * len(shown), ""

    def place(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - float(x[0])) / span

    for tick in nice_ticks(float(x[0]), float(x[-1])):
        at = place(tick)
        anchor = "end" if at > _RIGHT - 20 else "middle"
        body += _line(at, 0, at, bottom) + _text(at, bottom + 16, f"{tick:.10g}", anchor)
    for i, values in enumerate(shown):
        peak = float(values[np.abs(values).argmax()])
        spectrum = values / (abs(peak) or 1.0)  # so that no difference overflows
        low, high = min(0.0, float(spectrum.min())), max(0.0, float(spectrum.max()))
        scale = (_PANEL - 14) / ((high - low) or 1.0)
        zero = _PANEL * (i + 1) - 4 + scale * low
        outline = _outline(x, spectrum, _RIGHT - _LEFT)
        places = _points((place(at), zero - scale * value) for at, value in outline)
        body += _line(_LEFT, zero, _RIGHT, zero, "axis") + f'<polyline points="{places}" class="trace"/>'
        middle = _PANEL * (i + 0.5)
        body += _text(0, middle, f"source {i + 1}") + _text(0, middle + 14, f"peak {peak:.3g}")
    body += _text((_LEFT + _RIGHT) / 2, bottom + 34, title, "middle")
    return Drawing(body, _WIDTH, bottom + 40, "spectrum of each source")


def nice_ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten from `low` to `high`, at most so many, at least one.

    Examples
    --------
    >>> nice_ticks(400, 700)
    [400.0, 450.0, 500.0, 550.0, 600.0, 650.0, 700.0]
    """
    power = 10.0 ** np.floor(np.log10((high - low) / most))
    step = next(power * nice for nice in (1, 2, 5, 10, 20) if (high - low) / (power * nice) <= most - 1)
    first = int(np.ceil(low / step - 1e-9))
    return [float(step * j) for j in range(first, int(np.floor(high / step + 1e-9)) + 1)]


def _outline(x: Array, y: Array, width: int) -> Iterable[tuple[float, float]]:
    """The points of a curve; of more than two to a pixel, the lowest and the highest value in each pixel."""
    if len(x) <= 2 * width:
        return zip(x.tolist(), y.tolist(), strict=True)
    edges = np.linspace(0, len(x), width + 1).astype(int)
    pixels = [slice(a, b) for a, b in pairwise(edges.tolist())]
    return ((float(x[p.start]), float(end)) for p in pixels for end in (y[p].min(), y[p].max()))


def matrix(mixing: Array, names: Sequence[str]) -> Drawing:
    """The mixing matrix: how strongly each source enters each mixture."""
    part = mixing[:, :MOST_SOURCES]
    largest, left, body = float(np.abs(part).max()) or 1.0, 170, ""
    for j in range(part.shape[1]):
        body += _text(left + 62 * j + 30, 12, f"source {j + 1}", "middle")
    for i, row in enumerate(part):
        body += _text(0, 18 * i + 32, names[i][:28])
        for j, value in enumerate(row):
            body += _rect(left + 62 * j, 18 * i + 19, 60, 17, "mark" if value > 0 else "negative", abs(value) / largest)
            kind = "strong" if abs(value) > 0.6 * largest else ""
            body += _text(left + 62 * j + 30, 18 * i + 32, f"{value:.3g}", "middle", kind)
    return Drawing(body, max(_WIDTH, left + 62 * part.shape[1]), 18 * len(part) + 24, "mixing matrix")


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
