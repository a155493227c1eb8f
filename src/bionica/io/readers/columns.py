"""Which columns of a table are mixtures: all but an index, or those that the user names."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ..evenly_spaced import evenly_rising
from .checks import InputError

#: Rows of a table by which an index is recognised.
INDEX_ROWS = 1000

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


def leading_index(rows: Any) -> list[int]:
    """Return the columns before the first that does not rise evenly, none if all do: times and row numbers."""
    width, rising = rows.shape[1], evenly_rising(rows) if rows.dtype.kind in "biuf" else []
    if len(rising) == width:
        return []
    return [j for i, j in enumerate(rising) if i == j]


def index_note(name: str, left_out: Sequence[int], width: int, header: Sequence[str] | None = None) -> str:
    """Say that columns which rise evenly were left out."""
    names = ", ".join(f"{j + 1} ({header[j]})" if header else f"{j + 1}" for j in left_out)
    what = f"column {names} rises" if len(left_out) == 1 else f"columns {names} rise"
    return f"{name}: {what} evenly, like a time or a row number, and no mixture does: left out (--use 1-{width} reads all columns)"
