"""Rough minimum-volume cones, which are compared to count the sources
(`mixtures.verdict.count`).
"""

from bionica.core.blocks import Array, row_sample
from bionica.mixtures.cone.fit import successive_projection
from bionica.mixtures.cone.objective import Wall, feasible, minimise_on_all, unweighted

_FEW = 300  # samples: in more, successive projection finds the largest noise
# c and m of the walls, one after the other; the last two cones are compared
_ROUGH = (10.0, 0.0), (1.0, 0.0)
_ROUGH_SPECTRA = (1.0, 1e2), (1.0, 1e3), (1.0, 1e4)
_WIDTH = 1e-3  # of the mean of an output: of a wall without noise


def rough_cones(U: Array, B: Array, variance: float) -> list[Array]:
    """Two cones of the samples U (n, d) inside walls that differ in hardness; none if
    there is no cone. B as in `Data`.
    """
    data = unweighted(U)._replace(B=B)
    cones = []
    try:
        V = successive_projection(unweighted(U[row_sample(*U.shape, most=_FEW)]))
        if not feasible(V, data):
            data = data._replace(B=B[:0])
        for c, m in _ROUGH_SPECTRA if len(data.B) else _ROUGH:
            wall = Wall.uniform(len(V), c, variance, _WIDTH, m)
            V = minimise_on_all(V, data, wall, tol=_WIDTH)[0]
            cones.append(V)
    except (ArithmeticError, ValueError):  # samples do not determine the facets
        return []
    return cones[-2:]
