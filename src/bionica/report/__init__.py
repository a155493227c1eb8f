"""Figures and pages from tables and arrays. Nothing is computed here."""

from .figures import learning_figure, separation_figure, weights_figure
from .html import PageTable, Picture, Section, figure_bytes, page

__all__ = [
    "PageTable", "Picture", "Section", "figure_bytes", "learning_figure", "page", "separation_figure", "weights_figure",
]  # fmt: skip
