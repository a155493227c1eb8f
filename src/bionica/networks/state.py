"""A network's state as a flat dict of named arrays, and back."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .rule import BOOKKEEPING, Rule, rule_of

#: Counters stay where float64 counts exactly and one more never overflows; -1 means never. The seeds are those of `guards.uniform`.
_MOST = 2**52
_COUNTERS = {"t": (0, _MOST), "repairs": (0, _MOST), "rng": (1, 2147483562)}


def to_arrays(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Name every array of a state; those of a part as 'part.name'."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            arrays.update(to_arrays(value, f"{prefix}{name}."))
    return arrays


def check_shapes(rule: Rule, arrays: Mapping[str, Any], k: int) -> None:
    """Raise ValueError if the shapes and dtypes of `arrays` are not those of a state of this rule for k mixtures.

    `arrays` needs to have shapes and dtypes only: a file declares them before it is read.
    """
    sizes, dtype = {"k": k}, None
    shapes = {**rule.shapes, **BOOKKEEPING}
    if unknown := sorted(set(arrays) - set(shapes)):
        raise ValueError(f"{unknown[0][:80]!r} is no array of the rule {rule.name!r}")
    for name, spec in shapes.items():
        if name not in arrays:
            raise ValueError(f"{name} is missing")
        array = arrays[name]
        letters, _, wanted = spec.partition(":")
        dims = [int(letters)] if letters.isdigit() else [sizes.setdefault(s, n) for s, n in zip(letters, array.shape)]  # noqa: B905
        dtype = dtype if wanted or dtype is not None else array.dtype
        expected = np.dtype(wanted) if wanted else dtype
        if (
            array.shape != tuple(dims)
            or len(dims) != (1 if letters.isdigit() else len(letters))
            or array.dtype != expected
        ):
            raise ValueError(
                f"{name}: {expected} of shape {spec} with {sizes} was expected, found {array.dtype} {array.shape}"
            )
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"weights must be float32 or float64, not {dtype}")
    if not min(sizes.values()) > 0:
        raise ValueError(f"a network has at least one of everything, not {sizes}")


def from_arrays(rule: Rule, arrays: Mapping[str, np.ndarray], k: int) -> Any:
    """Build a state of this rule for k mixtures from copies of `arrays`.

    Raises
    ------
    ValueError
        If an array is missing, or its shape, dtype or byte order is not what the rule declares, or it holds NaN, infinity or a
        counter out of range.
    """
    check_shapes(rule, arrays, k)
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinity")
        low, high = _COUNTERS.get(name, (-1, _MOST))
        if array.dtype.kind == "i" and not (low <= array.min() and array.max() <= high):
            raise ValueError(f"{name} holds {array.min()} to {array.max()}, not {low} to {high}")
    return _build(rule.State, rule, arrays, "")


def _build(cls, rule, arrays, prefix):
    return cls(*(
        _build(rule.parts[name], rule, arrays, f"{name}.") if name in rule.parts and not prefix
        else np.array(arrays[prefix + name], order="C")
        for name in cls._fields
    ))  # fmt: skip


def leaves(value: Any) -> list[np.ndarray]:
    """Every array of nested named tuples, in order."""
    return [value] if isinstance(value, np.ndarray) else [leaf for part in value for leaf in leaves(part)]


def copy(state: Any) -> Any:
    """Return a state that shares no memory with this one."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else copy(value) for value in state))


def in_one_buffer(state: Any) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """Return a copy of a state whose arrays lie in one buffer, the buffer, and all its floats: one view for each precision."""
    arrays = sorted(leaves(state), key=lambda a: a.dtype.char)
    sizes = [-(-a.nbytes // 64) * 64 for a in arrays]
    buffer = np.zeros(sum(sizes), np.uint8)
    offsets = np.cumsum([0, *sizes])
    places = {id(a): slice(offsets[i], offsets[i] + a.nbytes) for i, a in enumerate(arrays)}

    def placed(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return type(value)(*map(placed, value))
        copied = buffer[places[id(value)]].view(value.dtype).reshape(value.shape)
        copied[...] = value
        return copied

    floats = []
    for dtype in {a.dtype for a in arrays if a.dtype.kind == "f"}:
        own = [i for i, a in enumerate(arrays) if a.dtype == dtype]
        floats.append(buffer[offsets[own[0]] : offsets[own[-1] + 1]].view(dtype))
    return placed(state), buffer, floats


def writable(state: Any) -> Any:
    """Return this state, or a copy of one in read-only memory (a memory-mapped model): the loop is compiled for one type."""
    return state if all(a.flags.writeable for a in leaves(state)) else copy(state)


def precision(state: Any) -> np.dtype[Any]:
    """The dtype of a network: that of the arrays for which its rule declares none."""
    arrays = to_arrays(state)
    return next(arrays[name].dtype for name, spec in rule_of(state).shapes.items() if ":" not in spec)
