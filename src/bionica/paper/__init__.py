"""The paper's experiments: plans of a sweep, its statements beside our results, and the data of its figures.

`plans_of` gives the plan of every experiment, `results` turns the tables of their sweeps into the numbers of the figures, and
`claims_of` sets the paper's statements beside them.
"""

from .claims import claims_of
from .example_plan import paper_grid
from .figure_data import check_images, figure1_points, figure5_images
from .plans import EXPERIMENTS, Reproduction, plans_of
from .reference import NOTES
from .results import best_settings, curve_rows, final_rows, grid_means, run_rows

__all__ = [
    "EXPERIMENTS", "NOTES", "Reproduction", "best_settings", "check_images", "claims_of", "curve_rows", "figure1_points",
    "figure5_images", "final_rows", "grid_means", "paper_grid", "plans_of", "run_rows",
]  # fmt: skip
