"""What speaks against a fit, found on at most 2000 of its samples: sentences without their subject, each with a remedy.

Let u = W x be the linear outputs, n = min(u, 0) and y = max(u, 0). `fit` of nonnegative ICA is in doubt if

- there are fewer than 30 samples for each source, or X looks transposed (`_is_transposed`);
- the sources are closed (`_diagnosis_closure`), or all outputs have mean zero;
- outputs are correlated, or their variance is far from one: a network has not settled. It has not settled either if a descent from
  its outputs (`offline.rotation`), on the same samples, turns them far away and leaves half of the negative energy;
- the sources are correlated: the negative energy exceeds 0.002 of the energy and is larger where other outputs are large,

      sum_{i != j} <n_i^2 y_j> > 1.2 sum_{i != j} <n_i^2> <y_j>,                                                          (1)

  because the data fill a cone that is not an orthant. Noise makes outputs negative whatever the others do;
- more than 0.02 of the energy is negative, for other reasons;
- an output is never near zero, so that other rotations are as nonnegative. (`diagnose`, which sees all samples, is stricter.)
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..offline.rotation import descend
from ._dask import DaskRows, blocks_of
from ._diagnosis_closure import closed_sources
from ._diagnosis_sentences import CENTRED, CORRELATION, NEAR_ZERO, SIGMAS

Array = NDArray[Any]
Floats = NDArray[np.float64]

SAMPLES_PER_SOURCE = 30  # with fewer, `fit` warns
_POOR_FIT = 0.02  # Gaussian data reach 0.03; sources with noise at 10 dB stay below
_ROWS = 2000  # most rows that are looked at
_NUMBERS = 1 << 17  # most numbers in them, unless that is fewer than 100 rows
_GOLDEN = (np.sqrt(5) - 1) / 2
_CHANNELS = 100  # closed sources are closed in any of the mixtures
_CLOSURE_ROWS = 500
_NO_SIGN = 0.1  # negative energy: at least 0.25 without the mean
_VARIANCE = 4.0  # or a quarter; sound fits of heavy tails are within 0.7 to 1.4
_TURNED = 0.2  # sin^2 of the angle of an output; sampling alone turns by up to 0.05
_SMALL = 1e-5  # negative energy that is not worth a descent
_DEPENDENT = 0.002  # negative energy; sound fits of 50 samples for each source have up to 0.001
_RATIO = 1.2  # of (1): 1.26 to 3 for sources correlated by 0.3 and 0.5, up to 1.15 for noise at 0 dB
_GROUNDED = 0.0005  # share of the samples near zero: photographs have 0.0006, and are separated
_FEWEST_TO_GROUND = 1000  # samples, to judge that share
_SMOOTH = 0.2  # `_roughness` of neighbours that are alike: 0 for a smooth curve
_ROUGH = 0.5  # of neighbours that are not: 1 for white noise
_FAR = 10.0  # times the energy of 99 % of the samples


class Rows(NamedTuple):
    """Some samples of a fit, the number of all of them, and a part of X without gaps (only if X is wide)."""

    some: Floats
    n: int
    part: Array


class RowCollector:
    """Collects rows for `fit_doubts` while a fit reads the blocks of X.

    The rows are nearly evenly spaced. Their distances differ, so that a disturbance at regular intervals is not missed.
    """

    def __init__(self, shape: tuple[int, int], last: int | None = None) -> None:
        """Collect from an X of this shape, or from its `last` rows."""
        self.n, k = shape
        last = self.n if last is None else min(last, self.n)
        count = np.arange(min(last, _ROWS, max(100, _NUMBERS // k)))
        self._wanted = self.n - last + ((count + count * _GOLDEN % 1) * (last / len(count))).astype(np.intp)
        self._seen, self._part = 0, np.empty((0, k))
        self._some: list[Array] = []

    def passing(self, X: Array | DaskRows) -> Iterator[Array]:
        """Yield the blocks of X, and collect rows in the first pass."""
        for block in blocks_of(X):
            if not self._seen:
                self._part = neighbours(block, self.n)
            if self._seen < self.n:
                first, stop = np.searchsorted(self._wanted, [self._seen, self._seen + len(block)])
                self._some.append(block[self._wanted[first:stop] - self._seen].astype(np.float64))
                self._seen += len(block)
            yield block
            del block  # before the next one is computed

    @property
    def rows(self) -> Rows:
        """What was collected."""
        return Rows(np.concatenate(self._some), self.n, self._part)


def collected(X: Array) -> Rows:
    """The rows of an array that `fit_doubts` looks at."""
    collector = RowCollector(X.shape)
    for _ in collector.passing(X):
        pass
    return collector.rows


def neighbours(block: Array, n: int) -> Array:
    """A part of the first block of an X of n rows that shows whether X is transposed: empty if X is not wide."""
    return (block[:, : max(2, _NUMBERS // len(block))] if n < block.shape[1] else block[:0]).copy()


def input_doubts(rows: Rows, d: int) -> list[str]:
    """What speaks against X itself, for d sources."""
    n, k = rows.n, rows.some.shape[1]
    found = transposition(rows)
    if n < SAMPLES_PER_SOURCE * d and not found:
        columns = f". If the {k} columns of X are the samples, pass X.T" if k > n else ""
        found.append(
            f"saw {n} sample{'s' if n > 1 else ''}, which {'are' if n > 1 else 'is'} few for {d} source{'s' if d > 1 else ''}: the "
            f"result is mostly chance; bring at least {SAMPLES_PER_SOURCE * d} samples, or lower n_components{columns}"
        )
    return found


def transposition(rows: Rows) -> list[str]:
    """The doubt that X is transposed, if there is one."""
    if not _is_transposed(rows.part):
        return []
    return [
        f"may have been given X transposed: of its {rows.n} rows and {rows.some.shape[1]} columns neighbouring rows are alike and "
        "neighbouring columns are not. Rows are samples, columns are mixtures (channels): pass X.T, unless the rows are samples in "
        "their order in time"
    ]


def fit_doubts(
    rows: Rows,
    W: Array,
    *,
    settling: str = "",
    tracking: bool = False,
    negativity: float | None = None,
    grounding: bool = True,
) -> list[str]:
    """What speaks against nonnegative ICA with the unmixing matrix W, the gravest first.

    `settling` is the remedy for a network that has not settled; an empty string is for methods that end at a minimum. `tracking`
    says that the mixtures change, which alone makes outputs negative. `negativity` is that of all samples, if it is known.
    `grounding` says whether to look for outputs that are hardly ever near zero.
    """
    d = len(W)
    found = input_doubts(rows, d)
    if found:
        return found
    with np.errstate(all="ignore"):  # a collapsed network may overflow
        x = rows.some
        U = _without_outliers(np.nan_to_num(x @ W.T.astype(np.float64), posinf=0.0, neginf=0.0))
        std = U.std(axis=0)
        if not std.all():
            return [
                f"has {int(np.sum(std == 0))} output(s) that never change: the weights have collapsed, or X varies in fewer "
                f"than {d} directions; lower n_components"
            ]
        share = float(np.sum(np.minimum(U, 0) ** 2) / np.sum(U**2)) if negativity is None else negativity
        centred = np.all(np.abs(U.mean(axis=0)) < (CENTRED + SIGMAS / np.sqrt(len(U))) * std)
        if centred and share > _NO_SIGN:
            return [
                f"fits poorly: {share:.2g} of the output energy is negative, and all outputs have mean zero: the mean may have "
                "been removed from X, or the sources are not nonnegative; pass X as it was measured"
            ]
        closed = _closed(x, d)
        if closed:
            found.append(
                f"separates sources that sum to a constant ({closed} of them, like abundances), or X has a constant background: "
                "nonnegative ICA cannot separate these; try MinimumVolumeCone(normalize='sum')"
                + (f" and n_components={closed}" if closed != d else "")
            )
        ungrounded = _ungrounded(U) if grounding and not closed and len(U) >= _FEWEST_TO_GROUND else []
        unsettled = _unsettled(U) if settling and not ungrounded else ""
        if unsettled:
            return [*found, f"has not settled: {unsettled}; {settling}"]
        return found + _negative(U, share, tracking) + ungrounded


def _without_outliers(U: Floats) -> Floats:
    """U without rows whose energy is far beyond that of 99 % of the rows."""
    energy = np.einsum("ij,ij->i", U, U)
    limit = _FAR * float(np.quantile(energy, 0.99))
    return U[energy <= limit] if 0 < limit < energy.max() else U


def _is_transposed(part: Array) -> bool:
    """Whether neighbouring rows are alike and neighbouring columns are not."""
    if len(part) < 3:
        return False
    part = part / max(float(np.abs(part).max()), 1e-300)
    return _roughness(part) < _SMOOTH and _roughness(part.T) > _ROUGH


def _roughness(x: Array) -> float:
    """Energy of the differences of neighbouring rows over twice the variance of the columns."""
    variance = float(np.sum((x - x.mean(axis=0)) ** 2))
    return 0.5 * float(np.sum(np.diff(x, axis=0) ** 2)) / variance if variance > 0 else 1.0


def _closed(x: Floats, d: int) -> int:
    n, k = x.shape
    some = x[:: -(-n // _CLOSURE_ROWS), :: max(1, k // max(_CHANNELS, 4 * d))]
    return closed_sources(some[:, some.min(axis=0) < some.max(axis=0)], d)


def _unsettled(U: Floats) -> str:
    """Why these outputs are not those of a network that has settled, or an empty string."""
    n, d = U.shape
    C = np.cov(U.T, bias=True).reshape(d, d)
    std = np.sqrt(np.diag(C))
    largest = float(np.abs(C / std / std[:, None] - np.eye(d)).max())
    if largest > CORRELATION + SIGMAS / np.sqrt(n):
        return f"its outputs are correlated ({largest:.2g})"
    if not 1 / _VARIANCE < std.min() ** 2 <= std.max() ** 2 < _VARIANCE:
        worst = max(std**2, key=lambda v: max(v, 1 / v))
        return f"an output has variance {worst:.2g} instead of 1"
    w, V = np.linalg.eigh(C)
    Z = U @ (V / np.sqrt(w)) @ V.T
    before = 0.5 * float(np.sum(np.minimum(Z, 0) ** 2)) / n
    if d < 2 or before < _SMALL * d:
        return ""
    end = descend(Z, np.eye(d), tol=1e-3, max_iter=50)
    turned = 1 - float(np.min(np.max(end.x**2, axis=1)))  # of the output that turned most
    if turned < _TURNED or end.value > before / 2:
        return ""
    return f"other outputs of these samples have {end.value / before:.1%} of its negative energy"


def _negative(U: Floats, share: float, tracking: bool) -> list[str]:
    N, Y = np.minimum(U, 0) ** 2, np.maximum(U, 0)
    others = Y.sum(axis=1)[:, np.newaxis] - Y
    ratio = float(np.sum(N * others) / max(float(N.sum(axis=0) @ others.mean(axis=0)), 1e-300))
    if share > _DEPENDENT and ratio > _RATIO and not tracking:
        return [
            f"fits poorly: {share:.2g} of the output energy is negative, most where other outputs are large. The sources are "
            "correlated (try MinimumVolumeCone), are negative at times, or n_components is wrong"
        ]
    return poor_fit(share)


def poor_fit(share: float) -> list[str]:
    """The doubt about outputs with this share of negative energy, if there is one."""
    if share <= _POOR_FIT:
        return []
    return [
        f"fits poorly: {share:.2g} of the output energy is negative. The sources may not be nonnegative, the mean may have been "
        "removed from X, n_components may be wrong, or the noise may be strong"
    ]


def _ungrounded(U: Floats) -> list[str]:
    near = np.mean(np.maximum(U, 0) <= NEAR_ZERO * U.std(axis=0), axis=0)
    if near.min() >= _GROUNDED:
        return []
    return [
        f"cannot tell some sources apart: output {int(near.argmin())} is near zero in {near.min():.1%} of the samples only, so "
        "that other rotations may be as nonnegative. Sources must often be near zero: subtract a constant background, or bring "
        "samples in which sources are absent"
    ]
