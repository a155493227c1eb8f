"""A page about one separation: numbers, what they mean, and pictures drawn as SVG inside the file."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sink import whole

__all__ = ["write_page"]

Array = NDArray[Any]

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse}td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}svg{display:block;width:100%;height:auto}
.good{border-left:4px solid #2a7}.bad{border-left:4px solid #c62}.verdict{padding-left:.8rem}
text{font:11px system-ui,sans-serif;fill:#444}
"""
_INK = "#2b6cb0"
_SHOWN = 12  # sources in the pictures


def _svg(width: int, height: int, body: str, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _spectrum(inner: Array, outer: Array) -> str:
    """Variances of the mixtures, those of the sources' directions filled."""
    values = np.maximum(np.concatenate([inner, outer])[:60], 1e-300)
    top, low = np.log10(values.max()), max(np.log10(values.min()), np.log10(values.max()) - 8)
    height = 160 * (0.05 + 0.95 * np.clip((np.log10(values) - low) / max(top - low, 1e-9), 0, 1))
    width = min(40.0, 700 / len(values))
    bars = "".join(
        f'<rect x="{40 + i * width:.1f}" y="{175 - h:.1f}" width="{0.8 * width:.1f}" height="{h:.1f}" '
        f'fill="{_INK if i < len(inner) else "#bbb"}"><title>{value:.3g}</title></rect>'
        for i, (h, value) in enumerate(zip(height, values, strict=True))
    )
    ticks = f'<text x="0" y="22">1e{top:.1f}</text><text x="0" y="175">1e{low:.1f}</text>'
    return _svg(760, 190, bars + ticks, "variance of the mixtures along their principal directions, on a log scale")


def _histograms(histogram: Array) -> str:
    """Distribution of each linear output, from -1 to 4 standard deviations."""
    rows, body = histogram[:_SHOWN], ""
    for i, row in enumerate(rows):
        base, peak = 50 * (i + 1), row.max() or 1.0
        steps = ((60 + 6.8 * edge, base - 40 * value / peak) for j, value in enumerate(row) for edge in (j, j + 1))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
        body += f'<polygon points="60,{base} {points} {60 + 6.8 * len(row):.1f},{base}" fill="{_INK}" opacity=".8"/>'
        body += f'<text x="0" y="{base - 15}">source {i}</text>'
    zero = 60 + 6.8 * len(rows[0]) / 5
    body += f'<line x1="{zero}" x2="{zero}" y1="0" y2="{50 * len(rows)}" stroke="#444" stroke-width="1"/>'
    axis = (
        f'<text x="{zero - 3}" y="{50 * len(rows) + 14}">0</text><text x="690" y="{50 * len(rows) + 14}">4 std</text>'
    )
    return _svg(760, 50 * len(rows) + 20, body + axis, "distribution of each output near zero")


def _traces(Y: Array) -> str:
    """The sources of some samples, in their order."""
    body = ""
    for i, y in enumerate(Y.T[:_SHOWN]):
        base, peak = 50 * (i + 1), float(y.max()) or 1.0
        points = " ".join(
            f"{60 + 690 * j / max(1, len(y) - 1):.1f},{base - 42 * v / peak:.1f}" for j, v in enumerate(y)
        )
        body += f'<polyline points="{points}" fill="none" stroke="{_INK}" stroke-width="1"/>'
        body += f'<text x="0" y="{base - 15}">source {i}</text>'
    return _svg(760, 50 * min(Y.shape[1], _SHOWN) + 10, body, "sources of evenly spread samples")


def write_page(path: Path, summary: dict[str, Any], diagnosis: Any, Y: Array) -> None:
    """Write a page that needs no other file and no network.

    Parameters
    ----------
    path : Path
        The file; it is replaced only when the new one is complete.
    summary : dict
        Names and values for the table; "ok" and "diagnosis" (sentences) make the verdict.
    diagnosis : object with `inner`, `outer` and `histogram`, or None
        What `diagnose` measured.
    Y : ndarray of shape (n, n_sources)
        Sources of some samples, to draw.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_page(Path(folder, "page.html"), {"sources": 2, "ok": True, "diagnosis": ["right"]}, None, np.ones((9, 2)))
    ...     Path(folder, "page.html").read_text().count("<svg")
    1
    """
    numbers = {k: v for k, v in summary.items() if k not in ("ok", "diagnosis") and v not in (None, [])}
    table = "".join(
        f"<tr><th>{escape(str(name))}</th><td>{escape(_shown(value))}</td></tr>" for name, value in numbers.items()
    )
    sentences = "".join(f"<li>{escape(str(sentence))}</li>" for sentence in summary["diagnosis"])
    parts = [
        "<h1>What bionica separate found</h1>",
        f'<div class="verdict {"good" if summary["ok"] else "bad"}"><ul>{sentences}</ul></div>',
        f"<table>{table}</table>",
    ]
    if diagnosis is not None:
        parts += [
            "<h2>Variance of the mixtures along their principal directions</h2>"
            "<p>Blue: directions of the sources; grey: what they leave over. Logarithmic.</p>",
            _spectrum(diagnosis.inner, diagnosis.outer),
            "<h2>Distribution of each source</h2><p>Before it is cut off at zero; a good fit has next to nothing left of 0.</p>",
            _histograms(diagnosis.histogram),
        ]
    parts += ["<h2>Sources</h2><p>Of samples spread evenly over the input.</p>", _traces(Y)]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>bionica separate</title>'
        f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'
    )
    with whole(path) as file:
        file.write(page.encode())


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if isinstance(value, float) else str(value)
