"""Tables in, pictures out; computes nothing."""

from .curves import error_figure
from .diagrams import network_diagram
from .grid_figure import grid_figure
from .images_figure import images_figure
from .learning import learning_figure, weights_figure
from .reproduction_page import Picture, Section, Table, figure_bytes, report_page
from .scatter import scatter_figure
from .separation import separation_figure
from .style import look

__all__ = [
    "Picture",
    "Section",
    "Table",
    "error_figure",
    "figure_bytes",
    "grid_figure",
    "images_figure",
    "learning_figure",
    "look",
    "network_diagram",
    "report_page",
    "scatter_figure",
    "separation_figure",
    "weights_figure",
]
