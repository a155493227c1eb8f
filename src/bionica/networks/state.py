"""A network's state as a flat dict of named arrays, and back."""

from typing import Any

import numpy as np


def to_arrays(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Name every array of a state; those of a layer inside it as 'layer.W'."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in zip(state._fields, state, strict=True):
        if isinstance(value, np.ndarray):
            arrays[prefix + name] = value
        else:
            arrays.update(to_arrays(value, f"{prefix}{name}."))
    return arrays


def leaves(value: Any) -> list[np.ndarray]:
    """Every array of nested named tuples, in order."""
    return [value] if isinstance(value, np.ndarray) else [leaf for part in value for leaf in leaves(part)]


def from_arrays(template: Any, arrays: dict[str, np.ndarray], prefix: str = "") -> Any:
    """Build a state like `template` from copies of `arrays`.

    Raises
    ------
    ValueError
        If an array is missing or has not the template's shape and dtype.
    """
    values = []
    for name, value in zip(template._fields, template, strict=True):
        if not isinstance(value, np.ndarray):
            values.append(from_arrays(value, arrays, f"{prefix}{name}."))
            continue
        new = arrays.get(prefix + name)
        if new is None or new.shape != value.shape or new.dtype != value.dtype:
            found = "nothing" if new is None else f"{new.dtype} of shape {new.shape}"
            raise ValueError(f"{prefix}{name}: {value.dtype} of shape {value.shape} was expected, found {found}")
        values.append(np.array(new, order="C"))
    return type(template)(*values)


def copy(state: Any) -> Any:
    """Return a state that shares no memory with this one."""
    return type(state)(*(value.copy() if isinstance(value, np.ndarray) else copy(value) for value in state))


def writable(state: Any) -> Any:
    """Return this state, or a copy of one that lies in read-only memory (a memory-mapped model): the loop knows one type."""
    return state if all(a.flags.writeable for a in to_arrays(state).values()) else copy(state)
