"""Many networks at once: a plan of networks x settings x seeds x data in, a tidy table out.

`Plan` says what to run. `run` runs it on all cores, on a Dask cluster or on a GPU, and continues where it was
interrupted. On a CPU, every result has the bits of the estimator alone.
"""

from .plan import Plan
from .run import run
from .table import Table

__all__ = ["Plan", "Table", "run"]
