"""The cone of the samples that a stream keeps near each facet: rounds of wall and cone, from the last cone."""

from typing import Any

import numpy as np
import numpy.typing as npt

from .fit import FINAL, Cone, cone_of
from .kept_samples import Kept
from .leakage import leakage, next_wall
from .objective import Facets, Wall, minimise

Array = npt.NDArray[Any]

_ROUNDS = 4


class KeptFacets:
    """The kept samples in coordinates, per facet, with weights."""

    def __init__(self, kept: Kept, U: Array, weight: Array, total: float) -> None:
        of = [np.flatnonzero(kept.facet == i) for i in range(len(kept.rates))]
        self.U, self.weights, self.total = [U[i] for i in of], [weight[i] for i in of], total


def settle_on_kept(
    V: Array, facets: KeptFacets, u_bar: Array, wall: Wall, *, known: bool, haste: float
) -> tuple[Cone, float]:
    """As `fit.settle`, on samples that were kept per facet; also the mean negative energy of the outputs."""
    d, n = len(V), facets.total
    n_iter = 0
    for _ in range(_ROUNDS):
        V = V / (V @ u_bar)[:, None]
        size = np.linalg.norm(V, axis=1)
        s = np.sqrt(wall.variance) * size
        Y = [V @ u.T for u in facets.U]
        leaks = [
            leakage(y[i] / s[i], (y.sum(axis=0) - y[i]) / (d - 1) if d > 1 else np.ones(y.shape[1]), w, n)
            for i, (y, w) in enumerate(zip(Y, facets.weights, strict=True))
        ]
        last = wall
        wall, moved = next_wall(last, leaks, size, known=known, largest=np.inf, kappa=FINAL, may_vanish=False)
        wall = wall._replace(c=last.c * (wall.c / last.c) ** (haste / 2))  # average over solutions
        if d == 1 or not wall.variance.any():
            break
        P, _, more = minimise(Facets(Y, [w / n for w in facets.weights], V @ V.T), wall, tol=1e-2 * float(s.min()))
        V = P @ V
        n_iter += more
        if moved < 0.05:
            break
    V = V / (V @ u_bar)[:, None]
    negative = sum(
        float(w @ np.minimum(V[i] @ u.T, 0) ** 2) for i, (u, w) in enumerate(zip(facets.U, facets.weights, strict=True))
    )
    return cone_of(V, wall, leaks, n_iter, True), negative / n
