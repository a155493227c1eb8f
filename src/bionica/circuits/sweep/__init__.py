"""Many networks at once: a plan of networks x settings x seeds x data in, a tidy table
out.

`Plan` says what to run. `run` runs it on all cores or on a Dask cluster, and continues
where it was interrupted. Every result has the bits of the estimator alone.
"""

from bionica.circuits.sweep.plan import Plan
from bionica.circuits.sweep.run import run
from bionica.circuits.sweep.table import Table

__all__ = ["Plan", "Table", "run"]
