"""Pages: text, tables and pictures in one HTML file that needs no network.

A page is a title and sections, and a section is a heading and parts: `text`, `table`,
`picture`, `slides` and `beside` return HTML, and escape what they are given. In text,
`code` stands between backquotes. `figure_bytes` makes pictures of matplotlib's figures.
"""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Sections = list[tuple[str, list[str]]]

_STYLE = """
:root{color-scheme:light dark;--ink:#1a1a1a;--soft:#555;--paper:#fff;--rule:#ddd;\
--good:#00694d;--bad:#b00020;--fair:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8e8;--soft:#a8a8a8;\
--paper:#15171a;--rule:#34383d;--good:#45c49a;--bad:#ff7d8b;
--fair:#e0ad4e}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);\
max-width:72rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin-bottom:.2rem}\
h2{font-size:1.25rem;margin-top:2.4rem;border-bottom:1px solid var(--rule)}
p{max-width:60rem}.lead,figcaption{color:var(--soft)}figcaption{font-size:.9rem}
figure{margin:1rem 0;overflow-x:auto}\
img{max-width:100%;height:auto}figure img{background:#fff}
.beside{display:flex;flex-wrap:wrap;gap:1.5rem}\
.beside>*{flex:1 1 24rem;min-width:0}.beside>figure{flex:0 1 auto}
.beside figcaption{width:0;min-width:100%}
.slides fieldset{border:0;margin:0;padding:0;\
display:flex;flex-wrap:wrap;gap:.2rem .9rem}
.slides [type=range],.slides img{width:100%}.slides label{padding:.2rem 0}\
.slides figure{margin:.5rem 0}
.caption{font-weight:600;margin:.5rem 0}
.verdict{border-left:4px solid;padding:.1rem .8rem;margin:1rem 0}\
.verdict p{color:var(--ink);margin:.3rem 0}
.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0}
th,td{padding:.35rem .7rem;border-bottom:1px solid var(--rule);\
text-align:left;vertical-align:top}
.facts td{overflow-wrap:anywhere}\
.facts td:first-child{white-space:nowrap;color:var(--soft)}
th{border-bottom:2px solid var(--soft);white-space:nowrap}
th.number,td.number{text-align:right}\
td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
td.yes,td.no,td.partly{font-weight:600}td.yes{color:var(--good)}\
td.no{color:var(--bad)}td.partly{color:var(--fair)}
@media print{:root{color-scheme:light}body{margin:0}\
h2,figure{break-inside:avoid}h2{break-after:avoid}}
"""
#: Shows the slide of the chosen group that the slider is at.
_SLIDE = (
    "const at = +this.querySelector(':checked').value +"
    " +this.querySelector('[type=range]').value;this.querySelectorAll('.slide')"
    ".forEach((slide, i) => slide.hidden = i != at)"
)


def page(title: str, lead: str, sections: Sections) -> str:
    """Build a page, HTML with its pictures: a heading, a sentence below it (if any) and
    sections.

    Examples
    --------
    >>> errors = table(["network", "error"], [["A < B", 0.00123]])
    >>> html = page("Results", "", [("Errors", [errors])])
    >>> "A &lt; B" in html and "0.00123" in html
    True
    """
    body = f"<h1>{escape(title)}</h1>"
    if lead:
        body += text(lead, kind="lead")
    for heading, parts in sections:
        body += "\n<section>"
        if heading:
            body += f"<h2>{escape(heading)}</h2>\n"
        body += "\n".join(parts) + "</section>"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'<link rel="icon" href="data:,"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>{body}\n</body></html>\n"
    )


def text(sentences: str, tag: str = "p", kind: str = "") -> str:
    """Return a paragraph, or another element: escaped, with `code` as such."""
    content = re.sub("`([^`]+)`", r"<code>\1</code>", escape(sentences))
    return f'<{tag} class="{kind}">{content}</{tag}>'


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with these headings, if any. Floats have three digits."""
    head = ""
    for i, title in enumerate(columns):
        numbers = any(type(row[i]) in (int, float) for row in rows)
        mark = ' class="number"' if numbers else ""
        head += f"<th{mark}>{escape(title)}</th>"
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    head = f"<table><thead><tr>{head}</tr></thead>" if head else '<table class="facts">'
    return f'<div class="table">{head}<tbody>{body}</tbody></table></div>'


def _cell(value: object) -> str:
    if value is None:
        return '<td class="number">–</td>'
    if type(value) is float:
        return f'<td class="number">{value:.3g}</td>'
    if type(value) is int:
        return f'<td class="number">{value:,}</td>'
    words = str(value)
    if isinstance(value, bool):
        words = "yes" if value else "no"
    return text(words, "td", words if words in ("yes", "no", "partly") else "")


def picture(data: bytes, caption: str, kind: str = "svg", alt: str = "") -> str:
    """Return the bytes of an "svg", "png" or "jpeg" as a figure; `alt` if the caption
    does not describe it.
    """
    mime = "svg+xml" if kind == "svg" else kind
    source = f"data:image/{mime};base64,{base64.b64encode(data).decode()}"
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
        mark = " checked" if group == first else ""
        buttons += (
            f'<label><input type="radio" name="{escape(name)}"'
            f' value="{i * (last + 1)}"{mark} autocomplete="off">'
            f"{escape(group)}</label>"
        )
        for j, part in enumerate(parts):
            mark = "" if group == first and j == last else " hidden"
            shown += f'<div class="slide"{mark}>{part}</div>'
    return (
        f'<div class="slides" oninput="{_SLIDE}">'
        f'<fieldset aria-label="{escape(name)}">{buttons}</fieldset>'
        f'<label>{escape(label)}<input type="range" max="{last}" value="{last}"'
        f' autocomplete="off"></label><div aria-live="polite">{shown}</div></div>'
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
