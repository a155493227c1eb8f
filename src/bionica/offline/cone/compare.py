"""Whether the cone of a stream is worse than one from a new start (see `stream`). The noise of the coordinates is known."""

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from .fit import Cone, cone_of, outputs
from .leakage import leakages
from .objective import value

Array = npt.NDArray[Any]

_WORSE = 3e-3  # value of the objective, and logarithm of the volume, per source
_UNEXPLAINED = 2.0  # times the discrepancy of the other cone


def seen_on(U: Array, cone: Cone) -> Cone:
    """The cone with what U (n_samples, d) shows near its facets. The noise of coordinates has unit variance."""
    V, Y = outputs(U, cone.V)
    return cone_of(V, cone.wall, leakages(Y, np.linalg.norm(V, axis=1)), cone.n_iter, cone.converged)


def worse(last: Cone, new: Cone, U: Array) -> bool:
    """Whether the cone `last` has a worse objective than `new` on U, and is larger or leaves more outside than noise explains.

    Objectives are compared inside the wall of `new`. This alone would not do: a wide cone with hard walls that touches no samples
    is a minimum inside its own wall, too.
    """
    margin = _WORSE * len(U.T)
    excess = [max(1.0, np.max(cone.rho / np.maximum(cone.expected_rho, 1e-300))) for cone in (last, new)]
    if excess[1] > _UNEXPLAINED * excess[0]:
        return False
    log_volume = [-float(np.linalg.slogdet(cone.V)[1]) for cone in (last, new)]
    order = linear_sum_assignment(-np.abs(last.V @ np.linalg.inv(new.V)))[1]
    wall = new.wall._replace(c=new.wall.c[order])
    gain = value(*outputs(U, last.V), wall) - value(*outputs(U, new.V), new.wall)
    return gain > margin and (log_volume[0] > log_volume[1] + margin or excess[0] > _UNEXPLAINED * excess[1])
