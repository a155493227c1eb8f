"""The number of sources: as many as two halves of the samples agree on.

For q = 2, 3, ... a minimum-volume cone is fitted to two random halves of the samples. If one more source is asked for than there
are, it is noise, or a source is cut in two at random: then the worst angle between matched spectra of the halves is large, also
for the next numbers. With angle_q its median over splits, the number with the largest

    jump_q = min_{q < p <= q + 3} log(angle_p) - log(angle_q)                                                             (1)

is taken. Numbers whose jump is at least a third as large are named as candidates. There is one source if no number agrees.

Directions that white noise explains are not tried: of n samples of k mixtures, without the first q directions, noise of variance v
has no direction whose energy exceeds (Johnstone 2001), with a = sqrt(n - q) and b = sqrt(k - q),

    v [(a + b)^2 + 3 (a + b) (1/a + 1/b)^{1/3}].                                                                          (2)

Beyond these, and beyond the rank of X, the angle is 90 degrees. Real instruments leave more than noise, so that (2) is only a
bound. If it is beyond `most`, counting ends three numbers after a clear jump.

The cones are rough: one start by successive projection, walls as wide as the residual of q directions, and the better of two
hardnesses. If X is nonnegative, there is a wall on the spectra too, and that on the sources is softer.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .cone.fit import is_nonnegative, successive_projection
from .cone.objective import Wall, feasible, minimise_on_all, unweighted
from .halves import match
from .outliers import inliers_of

Array = npt.NDArray[Any]

MOST = 12
_ROWS = 50  # samples of each half for each source (but six at least), and channels of the wall on spectra
_SPLITS = 5
_FEW = 200  # samples: of fewer, two subsets of 65 % that overlap are compared in place of halves
_BEYOND = 3  # numbers after q, eq. (1)
_CLEAR = 2.0  # factor of a jump
_ALONE = 45.0  # degrees: if no number is better, there is one source
_FLUCTUATION = 3.0  # of the largest energy of noise, eq. (2)
_ONE_WALL = ((10.0, 0.0), (1.0, 0.0))  # c and m of the walls, one after the other
_BOTH_WALLS = ((0.1, 1e2), (0.1, 1e3), (0.1, 1e4), (1.0, 1e4))  # the last two are compared
_WIDTH = 1e-3  # of the mean of an output: of a wall without noise
_EMPTY = 1e-7  # of the largest singular value: rounding of float32, and of a Gram matrix


class Count(NamedTuple):
    """How many sources there are: `n_sources`, other `candidates`, and the angle in degrees for each number that was tried."""

    n_sources: int
    candidates: tuple[int, ...]
    angles: dict[int, float]


class _Samples(NamedTuple):
    """Samples Z (n, r) in their leading directions B (k, r), the energy of the others, and how many exceed noise, eq. (2)."""

    Z: Array
    B: Array
    left: float
    bound: int


def count_sources(X: Array, *, most: int = MOST, seed: int = 0) -> Count:
    """Count the sources of the samples X (n, k), finite; a few thousand of them are enough.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> S, A = rng.exponential(size=(2000, 3)), rng.random((3, 8))
    >>> count_sources(S @ A + 0.01 * rng.standard_normal((2000, 8))).n_sources
    3
    """
    X = inliers_of(np.asarray(X, np.float64)[:: max(1, len(X) // 4000)])
    n, k = X.shape
    X = X / (float(np.abs(X).max(initial=0.0)) or 1.0)
    samples = _directions(X, most)
    last = min(samples.bound, most, n // 4)
    if last < 2:
        return Count(1, (), {})
    noise = np.sqrt((np.sum(samples.Z[:, last:] ** 2) + samples.left) / (n * k))
    nonnegative = is_nonnegative(X, np.full(k, noise))
    rng, size = np.random.RandomState(seed), n // 2 if n >= _FEW else 13 * n // 20
    pairs = [(order[:size], order[n - size :]) for order in (rng.permutation(n) for _ in range(_SPLITS))]
    angles: dict[int, float] = {}
    for q in range(2, last + 2):
        angles[q] = (
            90.0 if q > samples.bound else float(np.median([_angle(samples, pair, q, nonnegative) for pair in pairs]))
        )
        log = {p: float(np.log(max(angle, 1e-6))) for p, angle in angles.items()}
        jumps = {p: min(log[o] for o in log if p < o <= p + _BEYOND) - log[p] for p in log if p + 1 in log}
        best = max(jumps, key=lambda p: jumps[p], default=2)
        if samples.bound > last and q >= best + _BEYOND and jumps[best] > np.log(_CLEAR):
            break
    if min(angles.values()) > _ALONE:
        return Count(1, (best,), angles)
    return Count(best, tuple(p for p in jumps if p != best and jumps[p] > jumps[best] / 3), angles)


def _angle(samples: _Samples, pair: tuple[Array, Array], q: int, nonnegative: bool) -> float:
    """The worst angle between spectra of q sources of two subsets, of the better hardness."""
    try:
        cones = [_cones(samples, rows, q, nonnegative) for rows in pair]
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return 90.0
    return min(float(match(A, B)[1].max()) for A, B in zip(*cones, strict=True))


def _cones(samples: _Samples, rows: Array, q: int, nonnegative: bool) -> list[Array]:
    """Spectra of rough minimum-volume cones of q sources, one for each hardness."""
    most = _ROWS * max(q, 6)
    x = samples.Z[rows[:: max(1, len(rows) // most)]]
    n, k = len(x), len(samples.B)
    values, vectors = np.linalg.eigh(x.T @ x)
    values, P = values[::-1], vectors[:, ::-1][:, :q]
    data = unweighted(x @ P)
    left = max(values[q:].sum(), 0.0) + samples.left * n / len(samples.Z)
    variance = max(left / max((n - q) * (k - q), 1), 1e-12 * values.sum() / (n * k))
    V = successive_projection(data)
    if nonnegative:
        walled = data._replace(B=samples.B[:: max(1, k // most)] @ P)
        data = walled if feasible(V, walled) else data
    cones = []
    for c, m in _BOTH_WALLS if len(data.B) else _ONE_WALL:
        wall = Wall(np.full(q, c), np.full(q, variance), np.full(q, _WIDTH), np.full(q, m))
        V = minimise_on_all(V, data, wall, tol=_WIDTH)[0]
        cones.append(P @ np.linalg.inv(V))
    return cones[-2:]


def _directions(X: Array, most: int) -> _Samples:
    """X in at most 4 `most` leading directions, mean included and without those that rounding explains."""
    n, k = X.shape
    values, vectors = np.linalg.eigh(X @ X.T if k > n else X.T @ X)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    rank = int(np.sum(values > _EMPTY**2 * values[0]))
    r = min(rank, 4 * most)
    B = np.linalg.qr(X.T @ vectors[:, :r])[0] if k > n else vectors[:, :r]
    bound = 0
    for q in range(min(rank - 1, most + 1)):
        a, b = np.sqrt(n - q), np.sqrt(k - q)
        noise = values[q:].sum() / (a * b) ** 2
        if values[q] > noise * ((a + b) ** 2 + _FLUCTUATION * (a + b) * (1 / a + 1 / b) ** (1 / 3)):
            bound = q + 1
    bound = rank if bound > rank - 2 else bound  # a single direction always looks like noise
    return _Samples(X @ B, B, float(values[r:].sum()), bound)
