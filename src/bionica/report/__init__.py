"""Figures and pages from tables and arrays. Nothing is computed here."""

from .figures import error_figure, images_figure, learning_figure, look, separation_figure, weights_figure
from .html import PageTable, Picture, Section, figure_bytes, page
from .paper_figures import grid_figure, network_diagram, scatter_figure

__all__ = [
    "PageTable", "Picture", "Section", "error_figure", "figure_bytes", "grid_figure", "images_figure", "learning_figure", "look",
    "network_diagram", "page", "scatter_figure", "separation_figure", "weights_figure",
]  # fmt: skip
