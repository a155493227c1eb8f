"""Rows in blocks, samples of rows, moments and linear maps.

What is computed from all rows is a sum over blocks of them (`fold`): NumPy arrays in
blocks that fit in cache (`row_blocks`), Dask arrays block by block (`ChunkedRows`),
joined as a tree (`joined`). Moments are (n, mean, scatter), joined by the pairwise
update of Chan, Golub and LeVeque (1983), which stays accurate when the mean is large
compared with the spread. They are float64 for any data.

`finite` and `pseudoinverse` are linear algebra that also answers for weights that are
zero, singular or huge.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from bionica.core.blas import one_blas_thread

Array = npt.NDArray[Any]
T = TypeVar("T")

WIDE = 1000  # features: with more, matrices of features x features are avoided
_CHUNK = 1 << 19  # numbers in a block of `ArrayRows`
# blocks stay in cache, and BLAS multiplies narrow ones in a single thread
_BLOCK_BYTES = 1 << 17
# rows: the kernels of BLAS compute every row of such a tile in the same order
_TILE = 48
# features: with more, padding a few rows to a tile costs too much memory
_PADDED = 4096
# squares of numbers up to this size, and of their inverses, are far from the limits of
# float64
_SAFE = 2.0**200


class ChunkedRows(ABC):
    """A matrix whose rows are read in blocks; `X[rows]` returns some of them as a NumPy
    array.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @abstractmethod
    def __getitem__(self, rows: slice | Array) -> Array: ...

    @abstractmethod
    def fold_numbered(
        self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any
    ) -> T:
        """Return ``of_block(block, number of its first row, *arguments)`` for every
        block, joined as a tree.
        """


class ArrayRows(ChunkedRows):
    """The rows of an array in memory, in blocks of a few megabytes; `first` is the
    number of its first row.
    """

    def __init__(self, X: Array, first: int = 0) -> None:
        self.X = X
        self.shape = X.shape
        self.dtype = X.dtype
        self._first = first

    def fold_numbered(
        self, of_block: Callable[..., T], join: Callable[[T, T], T], *arguments: Any
    ) -> T:
        """One block after the other."""
        n, k = self.shape
        step = max(1000, _CHUNK // k)
        return joined(
            (
                of_block(self.X[i : i + step], self._first + i, *arguments)
                for i in range(0, n, step)
            ),
            join,
        )

    def __getitem__(self, rows: slice | Array) -> Array:
        return self.X[rows]


def joined(parts: Iterable[T], join: Callable[[T, T], T]) -> T:
    """Join neighbours two by two, as a tree.

    Of n parts, at most log2(n) + 1 wait to be joined.
    """
    waiting: list[tuple[int, T]] = []  # how many levels of the tree a part has passed
    for part in parts:
        level = 0
        total = part
        while waiting and waiting[-1][0] == level:
            level = level + 1
            total = join(waiting.pop()[1], total)
        waiting.append((level, total))
    total = waiting.pop()[1]
    while waiting:
        total = join(waiting.pop()[1], total)
    return total


def fold(
    X: Array | ChunkedRows,
    of_block: Callable[..., T],
    join: Callable[[T, T], T],
    *arguments: Any,
) -> T:
    """``of_block(block, *arguments)`` for every block of X, joined as a tree; an array
    is one block.
    """
    if not isinstance(X, ChunkedRows):
        return of_block(X, *arguments)
    return X.fold_numbered(_without_number, join, of_block, *arguments)


def _without_number(
    block: Array, _: int, of_block: Callable[..., T], *arguments: Any
) -> T:
    return of_block(block, *arguments)


def row_blocks(n_rows: int, n_columns: int, itemsize: int = 8) -> Iterator[slice]:
    """Slices that cut an array into blocks of rows which fit in cache; square blocks
    for a very wide array.
    """
    step = max(64, n_columns, _BLOCK_BYTES // (n_columns * itemsize))
    step += -step % _TILE
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def row_sample(
    n: int, k: int, *, most: int = 4000, numbers: int = 1 << 21, seed: int = 0
) -> npt.NDArray[np.int64]:
    """Which of n rows of k numbers to look at: one random row of each stratum, in their
    order.

    There are at most `most` of them, and about `numbers` numbers. Evenly spaced rows
    would alias with periodic data.
    """
    size = min(n, most, max(200, numbers // max(k, 1)))
    edges = np.arange(size + 1) * n // max(size, 1)
    return np.random.RandomState(seed).randint(edges[:-1], edges[1:], dtype=np.int64)


def some_rows(
    X: Any,
    most: int = 4000,
    numbers: int = 1 << 21,
    last: int | None = None,
    finite: bool = False,
) -> Array:
    """The `row_sample` of X (an array or `ChunkedRows`), or as many of the `last` ones.

    `finite`: those with NaN are left out, because learning reports them later.
    """
    n, k = X.shape
    index = row_sample(n, k, most=most, numbers=numbers)
    if last is not None:
        index = np.arange(n - min(len(index), max(4 * last, 1000), n), n)
    rows = np.ascontiguousarray(X[index], dtype=np.float64)
    return rows[np.isfinite(rows).all(axis=1)] if finite else rows


def collected(X: Any, rows: list[Array], last: int | None = None) -> Iterator[Array]:
    """Yield the blocks of X, an array or `ChunkedRows` that can be iterated.

    Adds a `row_sample`, of the `last` ones, to `rows`: blocks are read once.
    """
    n = min(last or X.shape[0], X.shape[0])
    index = X.shape[0] - n + row_sample(n, X.shape[1])
    first = 0
    for block in [X] if isinstance(X, np.ndarray) else X:
        rows.append(rows_of(block, first, index).astype(np.float64))
        first += len(block)
        yield block
        del block  # before the next one is computed


def rows_of(block: Array, first: int, index: Array | None = None) -> Array:
    """The rows of a block with numbers in `index`, which is sorted; all by default."""
    if index is None:
        return block
    start, stop = np.searchsorted(index, [first, first + len(block)])
    return block[index[start:stop] - first]


def marks(number: Array) -> Array:
    """Uniform on (0, 1), one per row number (the finaliser of splitmix64).

    Rows with small marks are a random sample, whatever the order in which blocks come.
    That of a union is the sample of the union of both samples.
    """
    with np.errstate(over="ignore"):
        h = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        h ^= h >> np.uint64(31)
    return (h >> np.uint64(11)) * 2.0**-53


def smallest_marks(mark: Array, most: int, rate: float) -> tuple[Array, float]:
    """Which marks are below `rate` and among the `most` smallest, and the rate below
    which they are.
    """
    below = mark < rate
    if np.count_nonzero(below) > most:
        rate = float(np.partition(mark[below], most)[most])
        below = mark < rate
    return below, rate


def cell(owner: Any, row: int | str, column: int, argument: str = "X") -> str:
    """Return "X[3, 1]", or "X[3, 'name']" if `owner` knows the names of features."""
    names = getattr(owner, "feature_names_in_", None)
    name = column if names is None else repr(str(names[column]))
    return f"{argument}[{row}, {name}]"


def check_finite(
    block: Array, first: int, owner: Any, argument: str = "X", missing: bool = False
) -> None:
    """Raise ValueError for the first infinity or NaN of the rows of X from `first` on.

    NaN may be `missing`. `owner` is the estimator, or its name.
    """
    sound = np.isfinite(block)
    if missing and not sound.all():
        sound |= np.isnan(block)
    if sound.all():
        return
    row, column = map(int, np.argwhere(~sound)[0])
    value = "infinity"
    fits = ""
    if np.isnan(block[row, column]):
        value = "NaN"
        fits = (
            ", or use fit of MinimumVolumeCone or BatchNICA in memory, with"
            " n_components, which estimates NaN"
        )
    name = owner
    model = ""
    if not isinstance(owner, str):
        name = type(owner).__name__
        model = " The model is unchanged."
    raise ValueError(
        f"Input {argument} contains {value}: "
        f"{cell(owner, first + row, column, argument)} is {value}. {name} needs finite "
        "numbers here; drop such samples "
        f"({argument}[np.isfinite({argument}).all(axis=1)]){fits}.{model}"
    )


@one_blas_thread()
def linear_map(X: Array, matrix: Array) -> Array:
    """X @ matrix.T in the precision of X. Whatever the strides of X, at most one block
    of rows is copied.

    A row has the same bits however X is cut into calls, up to 4,096 features. BLAS
    chooses its kernel by the shape of a product, so that every product has the same
    one: a tile of 48 rows, padded with zeros. Sums are float64, because some kernels
    for float32 (Haswell, Zen) add in another order in every second half of a tile.
    """
    k = X.shape[1]
    right = np.ascontiguousarray(matrix.T, dtype=np.float64)
    out = np.empty((X.shape[0], right.shape[1]), dtype=X.dtype)
    for rows in row_blocks(len(X), k, X.itemsize):
        block = np.ascontiguousarray(X[rows], dtype=np.float64)
        n = len(block)
        height = _TILE if k <= _PADDED else len(block)
        if n % height:
            block = np.concatenate([block, np.zeros((-n % height, k))])
        tiles = block.reshape(-1, height, k) @ right
        out[rows] = tiles.reshape(len(block), -1)[:n]
    return out


def largest(X: Array) -> float:
    """Largest absolute value, or 1 if all are 0."""
    return max(float(X.max()), -float(X.min())) or 1.0


def unit_of(X: Array) -> float:
    """A power of two near the largest absolute value, if its square is near the limits
    of float64; otherwise 1.
    """
    size = largest(X)
    return 1.0 if 1 / _SAFE < size < _SAFE else float(2.0 ** np.floor(np.log2(size)))


class Moments(NamedTuple):
    """Weight (their number, unless old rows decay), mean and scatter (the sum of
    centred outer products) of rows.
    """

    n: float
    mean: Array
    scatter: Array

    @property
    def covariance(self) -> Array:
        """C_xx, the scatter over the number of samples."""
        return self.scatter / (self.n or 1)

    @property
    def second(self) -> Array:
        """The second moment <x x'>, mean included."""
        return self.covariance + np.outer(self.mean, self.mean)


def merge_moments(a: Moments, b: Moments, decay: float = 1) -> Moments:
    """The moments of two disjoint sets of rows together (Chan, Golub and LeVeque 1983,
    eq. 2.1); `decay` is the weight of a.
    """
    if not a.n or not b.n:
        return a if a.n else b
    old = decay * a.n  # an integer without decay
    n = old + b.n
    delta = b.mean - a.mean
    scatter = decay * a.scatter + b.scatter
    scatter += np.outer(delta, delta * (old * (b.n / n)))
    return Moments(n, a.mean + delta * (b.n / n), scatter)


def moments(X: Array | ChunkedRows, F: Array | None = None) -> Moments:
    """Moments of the rows x of X, or of F x, in float64; the same to rounding for any
    chunking of the rows.
    """
    return fold(X, _moments_of_block, merge_moments, F)


def _moments_of_block(X: Array, F: Array | None) -> Moments:
    k = X.shape[1] if F is None else len(F)
    total = Moments(0, np.zeros(k), np.zeros((k, k)))
    # the caller checks that the moments are finite
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in row_blocks(*X.shape):
            block = X[rows].astype(np.float64)  # a copy, which is centred in place
            if F is not None:
                block = block @ F.T
            weights = np.full(len(block), 1.0 / len(block))
            mean = weights @ block
            block -= mean
            # the rounding error of the mean, corrected in both moments
            residual = weights @ block
            scatter = block.T @ block
            scatter -= np.outer(residual, residual * len(block))
            # rounding, of a constant column
            np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
            total = merge_moments(total, Moments(len(block), mean + residual, scatter))
    return total


def finite(A: Array) -> Array:
    """A with 0 for NaN, and the largest numbers of its dtype for what is infinite."""
    return A if np.isfinite(A).all() else np.nan_to_num(A)


def pseudoinverse(A: Array) -> Array:
    """The pseudoinverse of A, scaled by a power of two so that no product overflows."""
    with np.errstate(all="ignore"):
        A = finite(A)
        size = max(float(np.abs(A).max()), np.finfo(A.dtype).tiny)
        scale = A.dtype.type(2.0 ** np.round(np.log2(size)))
        return finite((np.linalg.pinv(A / scale) / scale).astype(A.dtype))


def shapes(**fields: str) -> dict[str, str]:
    """Shapes of fields by name, from names by shape: ``shapes(dk="W_xz W_xz_mean",
    d="c_bar")``.
    """
    return {name: dims for dims, names in fields.items() for name in names.split()}
