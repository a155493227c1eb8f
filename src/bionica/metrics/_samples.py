"""Validation of S and Y, and their rows in blocks: shared by all scores."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

BLOCK_NUMBERS = 1 << 19  # 4 MiB of float64
_LARGEST = 1e140  # beyond this a sum of squares may overflow

Array = NDArray[Any]
Floats = NDArray[np.float64]


def float64_blocks(*arrays: Array) -> Iterator[tuple[Floats, ...]]:
    """Yield the same block of rows of every array, as float64."""
    step = max(1, BLOCK_NUMBERS // max(a.shape[1] for a in arrays))
    for start in range(0, len(arrays[0]), step):
        yield tuple(np.asarray(a[start : start + step], dtype=np.float64) for a in arrays)


def validated(name: str, array: ArrayLike) -> Array:
    """Return a two-dimensional array of real numbers whose squares can be summed, or raise ValueError."""
    a = np.asarray(array)
    if a.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {a.dtype}: pass real numbers")
    if a.ndim != 2:
        raise ValueError(f"{name} has shape {a.shape} and must have two axes; for one signal, {name}.reshape(-1, 1)")
    if a.size == 0:
        raise ValueError(f"{name} has shape {a.shape} and is empty: pass at least one row and one column")
    n_checked = 0
    for (block,) in float64_blocks(a):
        largest = np.abs(block).max(axis=1)
        usable = largest <= _LARGEST  # False for NaN
        if not usable.all():
            row = int(np.argmin(usable))
            raise ValueError(
                f"{name}[{n_checked + row}] holds {largest[row]}: scores need finite numbers that can be squared. A network "
                "that diverges outputs such values; score the samples before that"
            )
        n_checked += len(block)
    return a


def validated_pair(S: ArrayLike, Y: ArrayLike, *, surplus_outputs: bool = False) -> tuple[Array, Array]:
    """Return sources and outputs with equal numbers of rows, and of columns unless `surplus_outputs`."""
    S, Y = validated("S", S), validated("Y", Y)
    if len(S) != len(Y):
        hint = "rows are samples: transpose it" if len(S) == Y.shape[1] else "compare the samples that both hold"
        raise ValueError(f"Y has {len(Y)} rows and S has {len(S)}: {hint}")
    n_sources, n_outputs = S.shape[1], Y.shape[1]
    if n_outputs < n_sources:
        raise ValueError(
            f"Y has {n_outputs} columns and S has {n_sources}: some sources have no output. Pass every output, or only the "
            f"sources to be compared, S[:, :{n_outputs}] for instance"
        )
    if n_outputs > n_sources and not surplus_outputs:
        raise ValueError(
            f"Y has {n_outputs} columns and S has {n_sources}: this error takes one output per source. Choose them with "
            'Y[:, match_sources(S, Y, by="correlation").permutation]'
        )
    return S, Y
