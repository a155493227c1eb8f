"""The builder of every page: text, tables and pictures in one HTML file that needs no network.

A page adapts to light and dark, to a telephone and to a printer. Text is escaped. In text, `code` stands between backquotes.
"""

import base64
import io
import re
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#555;--paper:#fff;--rule:#ddd;--blue:#2b6cb0;--orange:#c05621;--grey:#b5b5b5;
--good:#00694d;--bad:#b00020;--fair:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#a8a8a8;--paper:#15171a;--rule:#34383d;--blue:#6aa9e8;--orange:#e08a55;
--grey:#6b7076;--good:#45c49a;--bad:#ff7d8b;--fair:#e0ad4e}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:72rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.25rem;margin-top:2.4rem;border-bottom:1px solid var(--rule)}
p{max-width:60rem}.lead,figcaption{color:var(--soft)}figcaption{font-size:.9rem}
figure{margin:1rem 0;overflow-x:auto}img{max-width:100%;height:auto}figure>img{background:#fff}
.gallery figure{display:inline-block;margin:.4rem .6rem .2rem 0}.gallery img{width:12rem;display:block}
svg{display:block;width:100%;max-width:60rem;height:auto}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
svg .line{stroke:var(--rule)}svg .axis{stroke:var(--soft)}svg .mark{fill:var(--blue)}svg .minor{fill:var(--grey)}
svg .negative{fill:var(--orange)}svg .trace{fill:none;stroke:var(--blue)}svg .strong{fill:var(--paper)}
.verdict{border-left:4px solid;padding:.1rem .8rem;margin:1rem 0}
.verdict h2{margin:0;border:0}.verdict p{color:var(--ink);margin:.3rem 0}
.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}code{white-space:nowrap}table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0}
th,td{padding:.35rem .7rem;border-bottom:1px solid var(--rule);text-align:left;vertical-align:top}
.facts td{overflow-wrap:anywhere}.facts td:first-child{white-space:nowrap;color:var(--soft)}
th{border-bottom:2px solid var(--soft);white-space:nowrap}.word{white-space:nowrap}
th.number,td.number{text-align:right}td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
td.yes,td.no,td.partly{font-weight:600}td.yes{color:var(--good)}td.no{color:var(--bad)}td.partly{color:var(--fair)}
@media(max-width:40rem){table.text thead{display:none}
table.text tr{display:block;padding:.6rem 0;border-bottom:1px solid var(--soft)}
table.text td{display:block;border:0;padding:.1rem 0}table.text td:first-child{font-weight:600}code{white-space:normal}
svg{min-width:34rem}
figure:has(svg)::before{content:"Wider than the window: scroll sideways";position:sticky;left:0;font-size:.8rem;color:var(--soft)}}
@media print{:root{color-scheme:light}body{margin:0}h2,figure{break-inside:avoid}}
"""


class PageTable(NamedTuple):
    """A table of a page: the headings of its columns, if any, and its rows. Numbers are shown with three digits."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Picture(NamedTuple):
    """A figure of a page: the bytes of an "svg" or "png", its caption, and `alt` if the caption does not describe it."""

    data: bytes
    caption: str
    kind: str = "svg"
    alt: str = ""


class Drawing(NamedTuple):
    """SVG elements that take their colours from the style of the page, and what they show."""

    elements: str
    width: float
    height: float
    label: str


class Gallery(NamedTuple):
    """Small pictures side by side."""

    pictures: Sequence[Picture]


class Verdict(NamedTuple):
    """Sentences on whether something is right, with a heading if it is not."""

    good: bool
    heading: str
    sentences: Sequence[str]


Part = str | PageTable | Picture | Drawing | Gallery | Verdict


class Section(NamedTuple):
    """A heading, if any, and what stands under it."""

    title: str
    parts: Sequence[Part]


def figure_bytes(figure: Any, kind: str) -> bytes:
    """Return a matplotlib figure as "svg" or "png"; the same figure gives the same bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "bionica", "svg.fonttype": "path"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Build a page, HTML with its pictures: a heading, a sentence below it (if any) and sections.

    Examples
    --------
    >>> html = page("Results", "", [Section("Errors", [PageTable(["network", "error"], [["A < B", 0.00123]])])])
    >>> "A &lt; B" in html and "0.00123" in html
    True
    """
    parts = [f"<h1>{escape(title)}</h1>"]
    if lead:
        parts.append(f'<p class="lead">{_text(lead)}</p>')
    for section in sections:
        heading = f"<h2>{escape(section.title)}</h2>\n" if section.title else ""
        parts.append(f"<section>{heading}" + "\n".join(map(_part, section.parts)) + "</section>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>{body}\n</body></html>\n"
    )


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{_text(part)}</p>"
    if isinstance(part, Picture):
        data = base64.b64encode(part.data).decode()
        source = f"data:image/{'png' if part.kind == 'png' else 'svg+xml'};base64,{data}"
        alt, caption = escape(part.alt or part.caption), escape(part.caption)
        return f'<figure><img alt="{alt}" src="{source}"><figcaption>{caption}</figcaption></figure>'
    if isinstance(part, Drawing):
        size = f'viewBox="0 0 {part.width:.0f} {part.height:.0f}" xmlns="http://www.w3.org/2000/svg"'
        return f'<figure><svg {size} role="img" aria-label="{escape(part.label)}">{part.elements}</svg></figure>'
    if isinstance(part, Gallery):
        return f'<div class="gallery">{"".join(map(_part, part.pictures))}</div>'
    if isinstance(part, Verdict):
        heading = "" if part.good else f"<h2>{escape(part.heading)}</h2>"
        sentences = "".join(f"<p>{_text(sentence)}</p>" for sentence in part.sentences)
        return f'<div class="verdict {"good" if part.good else "bad"}">{heading}{sentences}</div>'
    return _table(part)


def _table(table: PageTable) -> str:
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    numeric = [any(map(_is_number, column)) for column in columns]
    head = "".join(
        ('<th class="number">' if number else "<th>") + escape(title) + "</th>"
        for title, number in zip(table.columns, numeric, strict=False)
    )
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in table.rows)
    kind = "numbers" if any(numeric) else "text" if head else "text facts"
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'<div class="table"><table class="{kind}">{head}<tbody>{rows}</tbody></table></div>'


def _is_number(cell: object) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _cell(value: object) -> str:
    if value is None:
        return '<td class="number">–</td>'
    if _is_number(value):
        return f'<td class="number">{f"{value:.3g}" if isinstance(value, float) else f"{value:,}"}</td>'
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    kind = f' class="{text}"' if text in ("yes", "no", "partly") else ""
    return f"<td{kind}>{_text(text)}</td>"


def _text(text: str) -> str:
    """Escape text, with `code` as such; 1e-05, 2-layer and x = 3 are not broken over lines."""
    text = re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
    text = re.sub(r"\b(\d[\d.]*e-\d+|\d-[a-z]{1,12})\b", r'<span class="word">\1</span>', text)
    return re.sub(r" = (?=\d)", "&nbsp;=&nbsp;", text)
