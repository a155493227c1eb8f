"""The page about one separation: numbers, what they mean, and drawings."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..io import import_optional, write_atomically
from .html import Gallery, PageTable, Picture, Section, Verdict, page
from .separation_drawings import MOST_SOURCES, curves, matrix, traces

Array = NDArray[Any]

_TITLE = "What bionica separate found"
_FEW_MIXTURES = 8  # fewer are shown as a matrix, not as curves


def write_page(
    path: Path,
    summary: dict[str, Any],
    diagnosis: Any,
    Y: Array,
    *,
    first: int = 0,
    mixing: Array | None = None,
    names: Sequence[str] = (),
    axis: Sequence[float] | None = None,
    axis_title: str = "number of the mixture",
    images: tuple[Array, Array] | None = None,
) -> None:
    """Write a page that needs no other file and no network; the file is replaced only when the new one is complete.

    In `summary`, names and values for the table, "ok", "diagnosis" and "notes" (sentences) make the verdict. `diagnosis` is what
    `diagnose` measured. Y are the sources of some samples to draw, from the one on that has `first` samples before it. `mixing` is
    how the sources enter the mixtures, `names` are those of the mixtures, `axis` their wavelengths or the like, and `axis_title`
    stands below these. `images` are mixtures and sources as small pictures, drawn in place of Y. On the page, sources, mixtures
    and samples are counted from 1.
    """
    sections = [Section("", [_verdict(summary), _numbers(summary)])]
    if images is not None:
        sections.append(Section("Sources", [_gallery(images[1], "source")]))
        sections.append(Section("Mixtures", [_gallery(images[0], "mixture")]))
    else:
        drawing = traces(Y, first, summary.get("samples", len(Y)))
        text = f"Of samples spread evenly over the {'end of the ' if first else ''}input." + _first(Y.shape[1])
        sections.append(Section("Sources", [text, drawing]))
    if mixing is not None:
        sections.append(_mixing_section(mixing, names, axis, axis_title))
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


def _first(n_sources: int) -> str:
    """Say that not all sources are drawn, if so."""
    return f" The first {MOST_SOURCES} of {n_sources} sources." if n_sources > MOST_SOURCES else ""


def _mixing_section(mixing: Array, names: Sequence[str], axis: Sequence[float] | None, axis_title: str) -> Section:
    """How the sources enter the mixtures: curves over the mixtures, or a table if these are few."""
    more = _first(mixing.shape[1])
    if len(mixing) < _FEW_MIXTURES:
        text = "How strongly each source, of variance 1, enters each mixture; orange is negative."
        return Section("Mixing matrix", [text + more, matrix(mixing, names)])
    over = "the number of the mixture" if axis is None else "the numbers in the header"
    text = f"How strongly each source enters each mixture, over {over}; in the unit of the mixtures, for a source of variance 1."
    return Section("Spectra of the sources", [text + more, curves(mixing, axis, axis_title)])


def _gallery(images: Array, caption: str) -> Gallery:
    """Small pictures, each from its smallest value (or 0) in black to its largest in white."""
    imwrite, pictures = import_optional("imageio.v3", "a report on images").imwrite, []
    for i, image in enumerate(images[:MOST_SOURCES]):
        image = image / (float(np.abs(image).max()) or 1.0)  # so that no difference overflows
        low = min(0.0, float(image.min()))
        grey = np.rint(255 * (image - low) / (float(image.max()) - low or 1.0)).astype(np.uint8)
        pictures.append(Picture(imwrite("<bytes>", grey, extension=".png"), f"{caption} {i + 1}", "png"))
    return Gallery(pictures)
