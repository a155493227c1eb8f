"""Figures and pages from tables and arrays. Nothing is computed here."""

from .error_curves import error_figure
from .grid_figure import grid_figure
from .html import PageTable, Picture, Section, figure_bytes, page
from .image_figures import images_figure, separation_figure
from .learning_figures import learning_figure, weights_figure
from .network_diagrams import network_diagram
from .scatter_figure import scatter_figure
from .style import look

__all__ = [
    "PageTable",
    "Picture",
    "Section",
    "error_figure",
    "figure_bytes",
    "grid_figure",
    "images_figure",
    "learning_figure",
    "look",
    "network_diagram",
    "page",
    "scatter_figure",
    "separation_figure",
    "weights_figure",
]
