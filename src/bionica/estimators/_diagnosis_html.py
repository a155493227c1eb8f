"""A `Diagnosis` as a few lines of HTML for notebooks: no scripts, no files, every text escaped."""

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ._diagnosis_sentences import FIRING, GROUNDED, NEGATIVITY_OUTPUT

if TYPE_CHECKING:
    from ._diagnosis_record import Diagnosis

_MOST_ROWS = 20


def page(found: "Diagnosis") -> str:
    """Mark, sentences, and a table of the outputs with what is beyond its limit in bold."""
    mark, title = ("&#10003;", "the fit looks right") if found.ok else ("&#10007;", "the fit does not look right")
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in found.sentences)
    head = "".join(f"<th>{name}</th>" for name in ("output", "firing", "negativity", "grounding"))
    d = len(found.variance)
    rows = "".join(_row(found, i) for i in range(min(d, _MOST_ROWS)))
    more = f"<p>and {d - _MOST_ROWS} more outputs</p>" if d > _MOST_ROWS else ""
    return (
        f"<div><p><strong>{mark} {title}</strong></p><ul>{sentences}</ul>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}</div>"
    )


def _row(found: "Diagnosis", i: int) -> str:
    firing, negativity, grounding = (
        float(np.asarray(column)[i]) for column in (found.firing, found.negativity_per_output, found.grounding)
    )
    cells = (
        _cell(f"{firing:.1%}", firing < FIRING),
        _cell(f"{negativity:.1e}", negativity > NEGATIVITY_OUTPUT),
        _cell(f"{grounding:.1%}", grounding < GROUNDED),
    )
    return f"<tr><td>{i}</td>{''.join(cells)}</tr>"


def _cell(text: str, beyond: bool) -> str:
    text = escape(text)
    return f"<td><strong>{text}</strong></td>" if beyond else f"<td>{text}</td>"
