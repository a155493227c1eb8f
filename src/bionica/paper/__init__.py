"""The paper's experiments: plans of a sweep, its statements beside our results, and its figures on a page."""

from .page import write_reproduction
from .plans import EXPERIMENTS, Reproduction, paper_grid, plans_of
from .results import best_settings, claims_of, curve_rows, final_rows, grid_means, run_rows

__all__ = [
    "EXPERIMENTS", "Reproduction", "best_settings", "claims_of", "curve_rows", "final_rows", "grid_means", "paper_grid",
    "plans_of", "run_rows", "write_reproduction",
]  # fmt: skip
