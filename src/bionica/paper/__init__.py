"""The paper's experiments: a frozen configuration in, tidy tables out.

`Reproduction` says what to run, `tasks_of` cuts it into runs, `run_all` runs those that are still `pending` in the `Store`, and
`summary`, `grid` and `claims` turn what it holds into tables.
"""

from ..io import write_atomically
from ..io.tables import write_table
from .claims import claims_of
from .config import EXPERIMENTS, Reproduction, Task, tasks_of
from .grid import best_settings, grid_means
from .plans import paper_grid
from .problems import image_digest, image_sources, mix_images
from .reference import NOTES
from .runner import pending, run_all
from .store import Result, Store
from .summary import curve_rows, final_rows, run_rows

__all__ = [
    "EXPERIMENTS",
    "NOTES",
    "Reproduction",
    "Result",
    "Store",
    "Task",
    "best_settings",
    "claims_of",
    "curve_rows",
    "final_rows",
    "grid_means",
    "image_digest",
    "image_sources",
    "mix_images",
    "paper_grid",
    "pending",
    "run_all",
    "run_rows",
    "tasks_of",
    "write_atomically",
    "write_table",
]
