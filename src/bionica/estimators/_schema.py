"""What a model file of an offline estimator may hold: declared by the estimator as `_saved`, checked when a file is read.

`_saved` names the fitted attributes. A string is an array of floats by its shape (k features, d components, any other letter any
length), all of them finite; `Floats` also bounds its values. `int` is a count, `float` a finite number, `np.dtype` float32 or
float64; `Number` also bounds it. A `Record` has fields of these.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MOST = 2**52  # counts stay where float64 counts exactly


class Floats(NamedTuple):
    """An array: its shape, bounds of its values, and whether they may be NaN or infinite."""

    shape: str
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True


class Number(NamedTuple):
    """A number: its type, its bounds, and whether it may be infinite."""

    type: Any
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True


class Record(NamedTuple):
    """A named tuple or a dict: how to make it, its fields, whether it may be None, and a check that raises ValueError."""

    make: Any
    fields: dict[str, Any]
    optional: bool = False
    check: Callable[[Any], None] | None = None


def stored(estimator: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the numbers of a fitted estimator, by name."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}

    def put(name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, Record):
            fields = value if isinstance(value, dict) else {} if value is None else value._asdict()
            for field, content in fields.items():
                put(f"{name}/{field}", kind.fields[field], content)
        elif isinstance(kind := _kind(kind), Floats):
            arrays[name] = np.asarray(value)
        else:
            numbers[name] = np.dtype(value).name if kind.type is np.dtype else kind.type(value)

    for name, kind in estimator._saved.items():
        put(name, kind, getattr(estimator, name))
    return arrays, numbers


def check_declared(saved: Mapping[str, Any], k: int, declared: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
    """Raise ValueError unless the arrays, of which only shape and dtype are known, and numbers are those that `saved` declares."""
    lengths = {"k": k}
    for name, kind in _leaves(saved, {*declared, *numbers}):
        if isinstance(kind, Number):
            _number(name, kind, numbers)
            continue
        if name not in declared:
            raise ValueError(f"the array {name} is missing")
        a = declared[name]
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(kind.shape, a.shape, strict=False))
        if len(a.shape) != len(kind.shape) or a.shape != expected or a.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} is an array of {a.dtype} with shape {a.shape}, not {kind.shape} with {lengths}")
    if not min(lengths.get(letter, 1) for letter in "kd") > 0:
        raise ValueError(f"there is at least one feature and one component, not {lengths}")
    known = {name for name, _ in _leaves(saved, {*declared, *numbers})}
    if unknown := sorted({*declared, *numbers} - known):
        raise ValueError(f"{unknown[0][:80]!r} belongs to no attribute")


def restored(saved: Mapping[str, Any], arrays: Mapping[str, Array], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `stored` took apart, after `check_declared`; raise ValueError for a value out of its bounds."""

    def take(name: str, kind: Any) -> Any:
        if isinstance(kind, Record):
            if kind.optional and not _present(name, {*arrays, *numbers}):
                return None
            record = kind.make(**{field: take(f"{name}/{field}", content) for field, content in kind.fields.items()})
            if kind.check is not None:
                kind.check(record)
            return record
        kind = _kind(kind)
        return _array(name, kind, arrays[name]) if isinstance(kind, Floats) else _number(name, kind, numbers)

    return {name: take(name, kind) for name, kind in saved.items()}


def _kind(kind: Any) -> Floats | Number:
    if isinstance(kind, Floats | Number):
        return kind
    if isinstance(kind, str):
        return Floats(kind)
    return Number(int, 0, _MOST) if kind is int else Number(kind)


def _leaves(saved: Mapping[str, Any], names: set[str]) -> Iterator[tuple[str, Any]]:
    """The arrays and numbers of `saved` by their full names, without the optional records of which nothing is in `names`."""
    for name, kind in saved.items():
        if not isinstance(kind, Record):
            yield name, _kind(kind)
        elif not kind.optional or _present(name, names):
            yield from _leaves({f"{name}/{field}": content for field, content in kind.fields.items()}, names)


def _present(record: str, names: set[str]) -> bool:
    return any(name.startswith(f"{record}/") for name in names)


def _array(name: str, kind: Floats, a: Array) -> Array:
    with np.errstate(invalid="ignore"):
        outside = (a < kind.low) | (a > kind.high)
    if outside.any() or (kind.finite and not np.isfinite(a).all()):
        raise ValueError(f"{name} holds NaN, infinity or a number outside of {kind.low} to {kind.high}")
    return a


def _number(name: str, kind: Number, numbers: Mapping[str, Any]) -> Any:
    if name not in numbers:
        raise ValueError(f"the number {name} is missing")
    value = numbers[name]
    if kind.type is np.dtype:
        if value not in ("float32", "float64"):
            raise ValueError(f"{name} is {str(value)[:40]!r}, neither float32 nor float64")
        return np.dtype(value)
    allowed = (int, float) if kind.type is float else (kind.type,)
    if type(value) not in allowed:
        raise ValueError(f"{name} is {str(value)[:40]!r}, no {kind.type.__name__}")
    if not kind.low <= value <= kind.high or (kind.finite and not abs(value) < np.inf):
        raise ValueError(f"{name} is {str(value)[:40]}, not in {kind.low} to {kind.high}")
    return kind.type(value)
