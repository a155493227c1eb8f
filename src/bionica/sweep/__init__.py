"""Many networks at once: a plan of networks x settings x seeds x data in, a tidy table out.

`Plan` says what to run. `run` runs it on all cores, on a Dask cluster or on a GPU, and continues where it was
interrupted. On a CPU, every result has the bits of the estimator alone.
"""

from .cases import Case, Network
from .journal import Outcome
from .plan import Plan
from .plan_checks import PlanError
from .run_processes import WorkerDiedError
from .runner import prepare, run
from .table import Table

__all__ = ["Case", "Network", "Outcome", "Plan", "PlanError", "Table", "WorkerDiedError", "prepare", "run"]
