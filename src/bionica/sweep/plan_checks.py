"""Checks of what a plan holds. Every message names the key, the value and the remedy."""

import difflib
from collections.abc import Iterable, Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any


class PlanError(ValueError):
    """A plan that cannot be run as it stands; the message names the key, the value and the remedy."""


def check_mapping(value: Any, where: str) -> Mapping[str, Any]:
    """Return `value` if it is a table of keys and values."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise PlanError(f"{where} = {value!r} is not a table of keys and values")
    return value


def check_keys(given: Mapping[str, Any], allowed: Iterable[str], where: str) -> None:
    """Refuse a key that is not allowed, and suggest the nearest one."""
    allowed = list(allowed)
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise PlanError(f"{where} has no key {key!r}: {hint}There are {', '.join(allowed)}")


def check_choice(value: Any, choices: Iterable[str], where: str) -> str:
    """Return `value` if it is one of some words."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise PlanError(f"{where} = {value!r} is unknown: choose from {', '.join(choices)}")
    return value


def check_name(value: Any, where: str) -> str:
    """Return `value` if it can name something in the table of results."""
    if not isinstance(value, str) or not value:
        raise PlanError(f"{where} = {value!r}: give the word that names it in the table")
    return value


def check_integer(value: Any, where: str, least: int) -> int:
    """Return `value` if it is an integer, `least` or more; 1e5 is an integer."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise PlanError(f"{where} = {value!r}: give a whole number, {least} or more")
    return int(value)


def check_number(value: Any, where: str) -> float:
    """Return `value` if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(float(value)):
        raise PlanError(f"{where} = {value!r}: give a finite number")
    return float(value)
