"""The paper's experiments: plans of a sweep, its statements beside our results, and its
figures on a page.
"""

from bionica.circuits.paper.page import write_reproduction
from bionica.circuits.paper.plans import (
    EXPERIMENTS,
    MAPS,
    MATRICES,
    Reproduction,
    paper_grid,
    plans_of,
)
from bionica.circuits.paper.results import claims_of, final_rows

__all__ = [
    "EXPERIMENTS",
    "MAPS",
    "MATRICES",
    "Reproduction",
    "claims_of",
    "final_rows",
    "paper_grid",
    "plans_of",
    "write_reproduction",
]
