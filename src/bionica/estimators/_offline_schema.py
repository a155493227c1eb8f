"""What the offline estimators store in model files (`io.model_file`): each class declares it as `_saved`, checked when read.

`_saved` names the fitted attributes. An array is described by its shape (k features, d components, any other letter any
length), a number by its type, and what has fields by a `Record` of these.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Record", "restore", "stored"]

Array = NDArray[Any]


class Record(NamedTuple):
    """A named tuple or a dict: how to make it, what its fields are, and whether it may be None."""

    make: Any
    fields: dict[str, Any]
    optional: bool = False


def stored(estimator: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the numbers of a fitted estimator, by name."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}

    def put(name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, Record):
            fields = value if isinstance(value, dict) else {} if value is None else value._asdict()
            for field, content in fields.items():
                put(f"{name}/{field}", kind.fields[field], content)
        elif isinstance(kind, str):
            arrays[name] = np.asarray(value)
        else:
            numbers[name] = np.dtype(value).name if kind is np.dtype else kind(value)

    for name, kind in estimator._saved.items():
        put(name, kind, getattr(estimator, name))
    return arrays, numbers


def restore(estimator: Any, k: int, arrays: dict[str, Array], numbers: dict[str, Any]) -> None:
    """Set what `stored` returned; raise KeyError for what is missing, ValueError for an array of the wrong shape or dtype."""
    lengths = {"k": k}

    def take(name: str, kind: Any) -> Any:
        if isinstance(kind, Record):
            if kind.optional and not any(key.startswith(f"{name}/") for key in [*arrays, *numbers]):
                return None
            return kind.make(**{field: take(f"{name}/{field}", content) for field, content in kind.fields.items()})
        if not isinstance(kind, str):
            return kind(numbers[name])
        a = arrays[name]
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(kind, a.shape, strict=False))
        if a.ndim != len(kind) or a.shape != expected or a.dtype.kind != "f":
            raise ValueError(f"{name} is an array of {a.dtype} with shape {a.shape}")
        return a

    vars(estimator).update({name: take(name, kind) for name, kind in estimator._saved.items()})
