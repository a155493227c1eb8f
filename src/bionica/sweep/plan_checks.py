"""Checks of what a plan holds. Every message names the key, the value and the remedy.

A plan may come from somebody else: values of any type, size and depth end in a `PlanError` of one sentence.
"""

import difflib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from math import inf, isfinite, nan
from numbers import Integral, Real
from typing import Any

#: Cases of a plan: a case takes about 0.5 kB, and a row of the table 1 kB.
MOST_CASES = 1_000_000
#: Characters of a name in the table.
LONGEST_NAME = 200


class PlanError(ValueError):
    """A plan that cannot be run as it stands; the message names the key, the value and the remedy.

    Examples
    --------
    >>> from bionica.sweep import Plan, PlanError
    >>> data = {"kind": "sparse_uniform", "d": 3, "T": 0, "mixing": "d3"}
    >>> try:
    ...     Plan.from_dict({"data": [data], "network": [{"name": "StreamingNICA"}]})
    ... except PlanError as error:
    ...     print(error)
    data[0].T = 0...
    """


def shown(value: Any) -> str:
    """A value for a message: its repr, cut where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists in lists in lists ...
        text = f"<{type(value).__name__} too large to be printed>"
    return text if len(text) <= 200 else f"{text[:150]} ... {text[-20:]}"


def check_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return `value` if it is a table of keys and values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PlanError(f"{where} = {shown(value)} is not a table of keys and values")
    return value


def check_keys(given: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that is not allowed, and suggest the nearest one."""
    allowed = list(allowed)
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key[:100], allowed, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise PlanError(f"{where} has no key {shown(key)}: {hint}There are {', '.join(allowed)}")


def check_choice(value: Any, choices: Iterable[str], where: str) -> str:
    """Return `value` if it is one of some words."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise PlanError(f"{where} = {shown(value)} is unknown: choose from {', '.join(choices)}")
    return value


def check_name(value: Any, where: str) -> str:
    """Return `value` if it can name something in the table of results."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME or not value.isprintable():
        raise PlanError(
            f"{where} = {shown(value)}: give the word that names it in the table, at most {LONGEST_NAME} printable characters"
        )
    return value


def check_integer(value: Any, where: str, least: int, most: int | None = None) -> int:
    """Return `value` if it is an integer from `least` to `most`; 1e5 is an integer."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise PlanError(f"{where} = {shown(value)}: give a whole number, {least} or more")
    if most is not None and int(value) > most:
        raise PlanError(f"{where} = {shown(value)}: give {most:,} at most")
    return int(value)


def check_number(value: Any, where: str, most: float = inf) -> float:
    """Return `value` if it is a finite number, of magnitude `most` or less."""
    number = nan
    if not isinstance(value, bool) and isinstance(value, Real):
        with suppress(OverflowError):
            number = float(value)
    if not isfinite(number):
        raise PlanError(f"{where} = {shown(value)}: give a finite number")
    if abs(number) > most:
        raise PlanError(f"{where} = {shown(value)}: give a number from {-most:g} to {most:g}")
    return number
