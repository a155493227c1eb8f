"""Many networks at once: a plan of networks x settings x seeds x data in, a tidy table out.

`Plan` says what to run, `run` runs it, on all cores, through joblib or on a Dask cluster, and goes on where it was interrupted. The
result of a case is that of the estimator alone, bit for bit.
"""

from .checks import PlanError
from .plan import Case, Network, Plan
from .runner import run
from .table import Outcome, Table

__all__ = ["Case", "Network", "Outcome", "Plan", "PlanError", "Table", "run"]
