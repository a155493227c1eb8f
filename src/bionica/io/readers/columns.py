"""Which columns of a table are mixtures: all but an index, or those that the user names."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evenly_spaced import evenly_rising, strictly_monotonic
from .checks import InputError

Array = NDArray[Any]

#: Rows of a table by which an index is recognised.
INDEX_ROWS = 1000
#: Rows at least by which whole numbers that rise are known as row numbers, and other numbers as times.
NUMBERED_ROWS, TIMED_ROWS = 8, 20

_NUMBER_AND_UNIT = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d.,+-].*)?")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


@dataclass(frozen=True)
class Columns:
    """The columns to read and those to leave out, by name or by number from 1. If both are None: all but an index.

    Examples
    --------
    >>> Columns(skip="time").kept("x.csv", 3, ["time", "a", "b"])
    [1, 2]
    >>> Columns(use="1,3-4").kept("x.npy", 5)
    [0, 2, 3]
    """

    use: str | None = None
    skip: str | None = None

    def kept(
        self, name: str, width: int, header: Sequence[str] | None = None, index: Collection[int] = ()
    ) -> list[int]:
        """Return the indices of the columns to read, of `width` with these names; `index` are those that number the rows."""
        if self.use is not None:
            chosen = self._numbers("--use", self.use, name, width, header)
        else:
            chosen = set(range(width)) - set(index)
        if self.skip is not None:
            chosen -= self._numbers("--skip", self.skip, name, width, header)
        if not chosen:
            raise InputError(f"{name}: no column is left of {width}: name more with --use, or fewer with --skip")
        return sorted(chosen)

    @staticmethod
    def _numbers(option: str, text: str, name: str, width: int, header: Sequence[str] | None) -> set[int]:
        found: set[int] = set()
        for item in (item.strip() for item in text.split(",")):
            if header and item in header:
                found |= {j for j, known in enumerate(header) if known == item}
                continue
            match = _RANGE.fullmatch(item)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            if not 1 <= first <= last <= width:
                known = [column or "one without a name" for column in header or ()]
                names = f"{', '.join(known[:20])} (or 1 to {width})" if header else f"columns 1 to {width}"
                raise InputError(f"{option} {text}: {name} has no column {item!r}; it has {names}")
            found |= set(range(first - 1, last))
        return found


ALL = Columns()


def numbers_and_unit(names: Sequence[str]) -> tuple[Array | None, str | None]:
    """Return the names of columns as numbers, and the unit in which all end; None if they are no finite numbers of one unit.

    Examples
    --------
    >>> numbers_and_unit(["400 nm", "401.5 nm"])
    (array([400. , 401.5]), 'nm')
    """
    found = [match for name in names if (match := _NUMBER_AND_UNIT.fullmatch(name.strip()))]
    if len(found) < len(names) or len({match[2] for match in found}) != 1:
        return None, None
    values = np.array([float(match[1]) for match in found])
    return (values, found[0][2]) if np.isfinite(values).all() else (None, None)


def are_wavelengths(values: Array | None) -> bool:
    """Whether the numbers in a header show that each column is a mixture: they rise or fall strictly.

    Whole numbers from 0 or 1 on, with gaps or without, may also be those of samples, or of columns.
    """
    if values is None or len(values) < 2 or not strictly_monotonic(values[:, np.newaxis]):
        return False
    return not (values.min() in (0, 1) and (values == np.rint(values)).all())


def leading_index(rows: Any, names: Sequence[str] | None = None) -> list[int]:
    """Return the leading columns that are times or row numbers.

    These are columns that rise or fall evenly. If no column behind them is strictly monotonic, they are also columns of whole
    numbers that rise, in 8 rows or more, and a last one that rises or falls strictly in 20 rows or more. None if all columns
    rise evenly, and only even ones if a single mixture would remain, or if the names of all columns are wavelengths.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> times = np.cumsum(rng.random(30))
    >>> leading_index(np.column_stack([times, rng.random((30, 3))]))
    [0]
    """
    if rows.dtype.kind not in "biuf":
        return []
    width, even = rows.shape[1], evenly_rising(rows)
    if len(even) == width:
        return []
    even = [j for i, j in enumerate(even) if i == j]
    monotonic = strictly_monotonic(rows) if len(rows) >= NUMBERED_ROWS else []
    leading = len(monotonic)
    if monotonic != list(range(leading)) or leading > width - 2 or are_wavelengths(numbers_and_unit(names or ())[0]):
        return even
    others = [j for j in monotonic if j not in even and not _are_whole_and_rise(rows[:, j])]
    if others and (others != [leading - 1] or len(rows) < TIMED_ROWS):
        return even
    return monotonic


def _are_whole_and_rise(column: Any) -> bool:
    return bool(column[-1] > column[0] and (column == np.rint(column)).all())


def index_note(name: str, rows: Any, left_out: Sequence[int], width: int, header: Sequence[str] | None = None) -> str:
    """Say that these columns of a table were left out; `rows` are their first rows."""
    names = ", ".join(f"{j + 1} ({header[j]})" if header else f"{j + 1}" for j in left_out)
    how = "evenly" if len(evenly_rising(rows)) == len(left_out) else "from row to row"
    rise = "rise" if len(left_out) > 1 else "rises" if rows[-1, 0] > rows[0, 0] or how == "evenly" else "falls"
    what = f"column{'s' if len(left_out) > 1 else ''} {names} {rise} {how}"
    return f"{name}: {what}, like a time or a row number, and no mixture does: left out (--use 1-{width} reads all columns)"
