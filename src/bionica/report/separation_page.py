"""A page about one separation: numbers, what they mean, and pictures inside the file."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io import atomic_file, import_optional

__all__ = ["write_page"]

Array = NDArray[Any]

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top;font-weight:400}
td{overflow-wrap:anywhere}th{color:#555}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin:2rem 0 0}p{margin:.2rem 0 .6rem}svg{display:block;width:100%;height:auto}
.good{border-left:4px solid #2a7}.bad{border-left:4px solid #c62}.verdict{padding:.1rem .8rem;margin-bottom:1rem}
.verdict h2{margin:0}figure{display:inline-block;margin:.4rem .6rem .2rem 0}figure img{width:12rem;display:block}
figcaption{font-size:.8rem;color:#444}text{font:11px system-ui,sans-serif;fill:#444}
"""
_INK, _RED = "#2b6cb0", "#c05621"
_SHOWN = 12  # sources in the pictures
_WIDTH, _LEFT = 760, 60


def _svg(height: float, body: str, label: str, width: float = _WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(label)}" xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str = "#ddd") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _spectrum(inner: Array, outer: Array) -> str:
    """Variances of the mixtures, those of the sources' directions filled, on a scale of powers of ten."""
    values = np.maximum(np.concatenate([inner, outer])[:60], 1e-300)
    logs = np.maximum(np.log10(values), np.log10(values.max()) - 9)
    low, top = int(np.floor(logs.min() - 0.3)), int(np.ceil(logs.max()))
    scale, width = 160 / (top - low), min(40.0, 690 / len(values))
    body = ""
    for power in range(low, top + 1):
        y = 175 - scale * (power - low)
        body += _line(_LEFT, y, _LEFT + width * len(values), y) + _text(_LEFT - 6, y + 4, f"1e{power}", "end")
    for i, (log, value) in enumerate(zip(logs, values, strict=True)):
        height = scale * (log - low)
        body += (
            f'<rect x="{_LEFT + (i + 0.1) * width:.1f}" y="{175 - height:.1f}" width="{0.8 * width:.1f}" '
            f'height="{height:.1f}" fill="{_INK if i < len(inner) else "#bbb"}"><title>{value:.3g}</title></rect>'
        )
    return _svg(185, body, "variance of the mixtures along their principal directions, on a log scale")


def _histograms(histogram: Array) -> str:
    """Distribution of each linear output, from -1 to 4 standard deviations."""
    rows, width = histogram[:_SHOWN], (_WIDTH - _LEFT - 10) / histogram.shape[1]
    bottom, body = 50 * len(rows), ""
    for tick in range(-1, 5):
        x = _LEFT + (tick + 1) / 5 * width * histogram.shape[1]
        body += _line(x, 0, x, bottom, "#444" if tick == 0 else "#ddd") + _text(x, bottom + 14, str(tick), "middle")
    for i, row in enumerate(rows):
        base, peak = 50 * (i + 1), row.max() or 1.0
        steps = ((_LEFT + width * x, base - 40 * value / peak) for j, value in enumerate(row) for x in (j, j + 1))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
        body += f'<polygon points="{_LEFT},{base} {points} {_LEFT + width * len(row):.1f},{base}" fill="{_INK}" opacity=".8"/>'
        body += _text(0, base - 15, f"source {i}")
    return _svg(bottom + 20, body, "distribution of each output near zero")


def _traces(Y: Array, n: int) -> str:
    """The sources of some samples, in their order."""
    body, bottom = "", 50 * min(Y.shape[1], _SHOWN)
    for i, y in enumerate(Y.T[:_SHOWN]):
        base, peak = 50 * (i + 1), float(y.max()) or 1.0
        points = " ".join(
            f"{_LEFT + 690 * j / max(1, len(y) - 1):.1f},{base - 42 * v / peak:.1f}" for j, v in enumerate(y)
        )
        body += _line(_LEFT, base, 750, base)
        body += f'<polyline points="{points}" fill="none" stroke="{_INK}" stroke-width="1"/>'
        body += _text(0, base - 15, f"source {i}")
    ends = _text(_LEFT, bottom + 14, "sample 0") + _text(750, bottom + 14, f"sample {n - 1:,}", "end")
    return _svg(bottom + 20, body + ends, "sources of evenly spread samples")


def _mixing(mixing: Array, names: Sequence[str]) -> str:
    """The mixing matrix: how strongly each source enters each mixture."""
    part = mixing[:40, :_SHOWN]
    largest, left, body = float(np.abs(part).max()) or 1.0, 170, ""
    for j in range(part.shape[1]):
        body += _text(left + 62 * j + 30, 12, f"source {j}", "middle")
    for i, row in enumerate(part):
        body += _text(0, 18 * i + 32, names[i][:28])
        for j, value in enumerate(row):
            body += (
                f'<rect x="{left + 62 * j}" y="{18 * i + 19}" width="60" height="17" fill="{_INK if value > 0 else _RED}" '
                f'opacity="{abs(value) / largest:.3f}"/>'
            )
            colour = ' style="fill:#fff"' if abs(value) > 0.6 * largest else ""
            body += f'<text x="{left + 62 * j + 30}" y="{18 * i + 32}" text-anchor="middle"{colour}>{value:.3g}</text>'
    return _svg(18 * len(part) + 24, body, "mixing matrix", max(_WIDTH, left + 62 * part.shape[1]))


def _images(images: Array, caption: str) -> str:
    """Small pictures, each from its smallest value (or 0) in black to its largest in white."""
    imwrite, page = import_optional("imageio.v3", "a report on images").imwrite, ""
    for i, image in enumerate(images[:_SHOWN]):
        low = min(0.0, float(image.min()))
        grey = np.rint(255 * (image - low) / (float(image.max()) - low or 1.0)).astype(np.uint8)
        data = base64.b64encode(imwrite("<bytes>", grey, extension=".png")).decode()
        picture = f'<img alt="{caption} {i}" src="data:image/png;base64,{data}"/>'
        page += f"<figure>{picture}<figcaption>{caption} {i}</figcaption></figure>"
    return page


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
    """Write a page that needs no other file and no network.

    Parameters
    ----------
    path : Path
        The file; it is replaced only when the new one is complete.
    summary : dict
        Names and values for the table; "ok" and "diagnosis" (sentences) make the verdict, "notes" a list.
    diagnosis : object with `inner`, `outer` and `histogram`, or None
        What `diagnose` measured.
    Y : ndarray of shape (n, n_sources)
        Sources of some samples, to draw.
    mixing : ndarray of shape (n_mixtures, n_sources), optional
        How the sources enter the mixtures.
    names : sequence of str
        Of the mixtures, as many as `mixing` has rows.
    images : pair of ndarray, optional
        Mixtures and sources as small pictures, drawn in place of Y.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder, "page.html"), {"sources": 2, "ok": True, "diagnosis": ["right"]}, None, np.ones((9, 2)))
    ...     Path(folder, "page.html").read_text().count("<svg")
    1
    """
    parts = ["<h1>What bionica separate found</h1>", _verdict(summary), _table(summary)]
    if images is not None:
        parts += ["<h2>Sources</h2>", _images(images[1], "source"), "<h2>Mixtures</h2>", _images(images[0], "mixture")]
    else:
        parts += [
            "<h2>Sources</h2><p>Of samples spread evenly over the input.</p>",
            _traces(Y, summary.get("samples", len(Y))),
        ]
    if diagnosis is not None:
        parts += [
            "<h2>Distribution of each source</h2><p>In standard deviations, before it is cut off at zero; a good fit has next to "
            "nothing left of 0.</p>",
            _histograms(diagnosis.histogram),
            "<h2>Variance of the mixtures along their principal directions</h2>"
            "<p>Blue: directions of the sources; grey: what they leave over. Logarithmic.</p>",
            _spectrum(diagnosis.inner, diagnosis.outer),
        ]
    if mixing is not None:
        more = f" The first 40 of {len(mixing)}." if len(mixing) > 40 else ""
        parts += [
            f"<h2>Mixing matrix</h2><p>How strongly each source, of variance 1, enters each mixture; red is negative.{more}</p>",
            _mixing(mixing, names),
        ]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>bionica separate</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )
    with atomic_file(path) as file:
        file.write(page.encode())


def _verdict(summary: dict[str, Any]) -> str:
    said = [sentence[0].upper() + sentence[1:] for sentence in summary["diagnosis"]]
    said += summary.get("notes", [])  # which may begin with the name of a file
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in said)
    title = "" if summary["ok"] else "<h2>The fit does not look right yet</h2>"
    return f'<div class="verdict {"good" if summary["ok"] else "bad"}">{title}{sentences}</div>'


def _table(summary: dict[str, Any]) -> str:
    told = ("ok", "diagnosis", "notes")
    numbers = {name: value for name, value in summary.items() if name not in told and value not in (None, [], False)}
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(_shown(value))}</td></tr>" for name, value in numbers.items())
    return f"<table>{''.join(rows)}</table>"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)
