"""What the names and the values of columns say: labels, wavelengths, mixtures.

- `label_columns`: which columns are not mixtures, by their names.
- `integer_columns`: which columns may be labels, by their values.
- `wavelengths_in`: names of columns as numbers.
- `ROW_NAMES`, `SAMPLE_NAMES`, `CHANNEL_NAMES`: names that say what a column holds.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]

_NUMBER_AND_UNIT = re.compile(
    r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\d.,+-].*)?"
)
_UNIT = r"\s*([\[(/,].*|[ _]([^\W\d_]{1,4}|cm\^?-1))?"  # "time (s)", "time_min"
#: Names that programs write for the index of the rows.
_INDEX_NAMES = re.compile(r"|unnamed: \d+|__index_level_\d+__", re.IGNORECASE)
#: Names of a column that numbers the rows or says when they were measured.
ROW_NAMES = re.compile(
    r"((\w+\.?[ _]|r\.)?time|timestamp|datetime|date|elapsed|rt"
    rf"|zeit|uhrzeit|datum|index|row){_UNIT}|t\s*[\[(/].*"
    r"|sample|sample[ _](id|no\.?|number|name)|name|label|probe|id|nr\.?|no\.?",
    re.IGNORECASE,
)
#: Names of columns, if these are the samples.
SAMPLE_NAMES = re.compile(
    r"(sample|probe|specimen|spectrum|spektrum|messung)[ _.-]?\d+", re.IGNORECASE
)
#: Names of a column that holds the wavelength, or another channel, of each row.
CHANNEL_NAMES = re.compile(
    r"(wave[ _]?(length|number)s?|wellenl(ä|ae)nge|wellenzahl|raman[ _]shift"
    rf"|m/?z|lambda|λ|nm){_UNIT}|cm(\^?-1|⁻¹)|1/cm|channel|kanal",
    re.IGNORECASE,
)


def label_columns(
    names: Sequence[str], values: Callable[[int], ArrayLike]
) -> tuple[list[int], list[int]]:
    """Return the label columns, and those that are named so but vary as mixtures do.

    A label has no name, or is a word where the names of most columns are wavelengths,
    or is named as a time, an index or a wavelength (or is a word where the other names
    are numbers) and never turns back: its values only rise, only fall, or are not
    numbers. `values` returns numbers of a column, in their order; NaN where there is
    none.
    """
    if len(names) < 2:
        return [], []
    names = [name.strip() for name in names]
    words = [j for j, name in enumerate(names) if not _NUMBER_AND_UNIT.fullmatch(name)]
    numbers = [name for name in names if _NUMBER_AND_UNIT.fullmatch(name)]
    few = 2 * len(words) < len(names)
    if few and wavelengths_in(numbers)[0] is not None:
        return words, []
    if not few or wavelengths_in(numbers, counts=True)[0] is None:
        patterns = (_INDEX_NAMES, ROW_NAMES, CHANNEL_NAMES)
        words = [j for j in words if any(one.fullmatch(names[j]) for one in patterns)]
    doubtful = [
        j
        for j in words
        if not _INDEX_NAMES.fullmatch(names[j]) and _turns_back(values(j))
    ]
    return [j for j in words if j not in doubtful], doubtful


def integer_columns(X: Array) -> list[int]:
    """Return the columns of different integers, as labels are, if most others are not.

    They are none if at least half of all columns hold integers.
    """
    integers = (X == np.rint(X)).all(axis=0)
    if 2 * integers.sum() >= X.shape[1]:
        return []
    varying = integers & (np.ptp(X, axis=0) > 0)
    return np.flatnonzero(varying).tolist()


def wavelengths_in(
    names: Sequence[str], *, counts: bool = False, any_order: bool = False
) -> tuple[Array | None, str | None]:
    """Return names of columns as numbers, and the unit in which all end.

    None if they do not rise or fall strictly. Those of detectors that overlap do not,
    and are returned with `any_order`.

    Whole numbers from 0 or 1 on, with gaps or without, are numbers of columns: None,
    unless `counts` allows those without a unit.
    """
    matches = [_NUMBER_AND_UNIT.fullmatch(name.strip()) for name in names]
    units = {match and match[2] for match in matches}
    if len(names) < 2 or None in matches or len(units) > 1:
        return None, None
    values = np.array([float(match[1]) for match in matches if match])
    (unit,) = units
    are_counts = values.min() in (0, 1) and bool((values == np.rint(values)).all())
    if are_counts and (unit or not counts):
        return None, None
    if not np.isfinite(values).all() or not (any_order or is_monotonic(values)):
        return None, None
    return values, unit


def _turns_back(values: ArrayLike) -> bool:
    """Whether numbers both rise and fall. NaN is ignored."""
    numbers = np.asarray(values, np.float64)
    steps = np.diff(numbers[~np.isnan(numbers)])
    return bool((steps > 0).any() and (steps < 0).any())


def is_monotonic(values: Array) -> bool:
    """Whether numbers rise strictly, or fall strictly."""
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())
