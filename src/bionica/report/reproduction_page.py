"""A page of text, tables and pictures in one HTML file that needs no network."""

import base64
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

_STYLE = """
:root{color-scheme:light}
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;max-width:72rem;margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.7rem;margin-bottom:.2rem}h2{font-size:1.25rem;margin-top:2.4rem;border-bottom:1px solid #ddd}
p{max-width:60rem}.lead{color:#555}
figure{margin:1rem 0;overflow-x:auto}img{max-width:100%;height:auto}figcaption{color:#555;font-size:.9rem}
.table{overflow-x:auto}code{white-space:nowrap}table{border-collapse:collapse;font-size:.9rem;margin:.8rem 0}
th,td{padding:.35rem .7rem;border-bottom:1px solid #e3e3e3;text-align:left;vertical-align:top}
th{border-bottom:2px solid #999;white-space:nowrap}
th.number,td.number{text-align:right}td.number{font-variant-numeric:tabular-nums;white-space:nowrap}
@media(max-width:40rem){table.text thead{display:none}table.text tr{display:block;padding:.6rem 0;border-bottom:1px solid #999}
table.text td{display:block;border:0;padding:.1rem 0}table.text td:first-child{font-weight:600}code{white-space:normal}}
td.yes,td.no,td.partly{font-weight:600}td.yes{color:#00694d}td.no{color:#b00020}td.partly{color:#8a5a00}
"""


@dataclass(frozen=True)
class Table:
    """A table of the page: what heads its columns, if anything, and its rows; numbers are set to three digits."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Picture:
    """A figure of the page: an SVG document (or "png"), and what it shows; `alt`, if the caption does not say that."""

    svg: bytes
    caption: str
    kind: str = "svg"
    alt: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it: paragraphs, tables, pictures."""

    title: str
    parts: Sequence[str | Table | Picture]


def figure_bytes(figure: Any, kind: str) -> bytes:
    """A figure as "svg" or "png"; the same figure gives the same bytes.

    Examples
    --------
    >>> from bionica.report import network_diagram
    >>> figure_bytes(network_diagram("InterneuronNICA"), "png")[1:4]
    b'PNG'
    """
    from matplotlib import rc_context

    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "bionica", "svg.fonttype": "path"}):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def report_page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Set a page.

    Parameters
    ----------
    title, lead : str
        What heads the page.
    sections : sequence of Section
        What it holds.

    Returns
    -------
    str
        HTML, pictures included.

    Examples
    --------
    >>> page = report_page("Results", "", [Section("Errors", [Table(["network", "error"], [["A < B", 0.00123]])])])
    >>> "A &lt; B" in page and "0.00123" in page
    True
    """
    body = "\n".join(
        f"<section><h2>{escape(section.title)}</h2>\n" + "\n".join(map(_part, section.parts)) + "</section>"
        for section in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f'<body><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>\n{body}\n</body></html>\n'
    )


def _part(part: str | Table | Picture) -> str:
    if isinstance(part, str):
        return f"<p>{_text(part)}</p>"
    if isinstance(part, Picture):
        data = base64.b64encode(part.svg).decode()
        caption = escape(part.caption)
        source = f"data:image/{'png' if part.kind == 'png' else 'svg+xml'};base64,{data}"
        return f'<figure><img alt="{escape(part.alt) or caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'
    columns = list(zip(*part.rows, strict=True)) or [()] * len(part.columns)
    head = "".join(_heading(title, column) for title, column in zip(part.columns, columns, strict=False))
    rows = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in part.rows)
    numbers = any(isinstance(cell, int | float) for row in part.rows for cell in row)
    kind = "" if numbers else ' class="text"'
    return f'<div class="table"><table{kind}>{f"<thead><tr>{head}</tr></thead>" if head else ""}<tbody>{rows}</tbody></table></div>'


def _heading(title: str, cells: Sequence[object]) -> str:
    """A heading, to the right where numbers stand below it."""
    numbers = any(isinstance(cell, int | float) for cell in cells)
    return f'<th class="number">{escape(title)}</th>' if numbers else f"<th>{escape(title)}</th>"


def _text(text: str) -> str:
    """Text with `code` set as such; equations and numbers such as 1e-05 are kept on one line."""
    text = re.sub("`([^`]+)`", r"<code>\1</code>", escape(text))
    text = re.sub(r"(\de?-)(?=\w)", r"\1&#8288;", text)
    return re.sub(r" = (?=\d)", "&nbsp;=&nbsp;", text)


def _cell(value: object) -> str:
    if value is None:
        return '<td class="number">–</td>'
    if isinstance(value, int | float):
        text = f"{value:.3g}" if isinstance(value, float) else f"{value:,}"
        return f'<td class="number">{text}</td>'
    text = str(value)
    kind = f' class="{text}"' if text in ("yes", "no", "partly") else ""
    return f"<td{kind}>{_text(text)}</td>"
