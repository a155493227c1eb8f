"""A single sample, which is a vector or a dict of feature names to numbers, as an array of one row."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._input import from_tensor

Array = NDArray[Any]
Sample = ArrayLike | Mapping[str, float]


class OneSample:
    """Mixin with `_row` and `_remember_features`."""

    def _row(self, x: Sample) -> Array:
        """Return the mixture x as an array of one row."""
        row = x if type(x) is np.ndarray else np.asarray(self._in_order(x))
        if row.dtype != np.float64 and row.dtype != np.float32:
            try:
                row = row.astype(np.float64, casting="same_kind") if row.dtype != object else row.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
        width = self.__dict__.get("n_features_in_", row.size)
        if row.ndim != 1 or row.size == 0 or row.size != width:
            raise ValueError(
                f"x has shape {row.shape}; {type(self).__name__} needs one mixture of "
                f"{width if row.size else 'at least 1'} numbers. For several use partial_fit or transform."
            )
        return row[np.newaxis]

    def _in_order(self, x: Sample) -> Any:
        """Return the values of x in the order of the features, if x has names."""
        x = from_tensor(x)
        names, known = _names(x), getattr(self, "feature_names_in_", None)
        if not isinstance(x, Mapping):
            if known is not None and names is not None and names != list(known):
                raise ValueError(
                    f"x has the feature names {names}; {type(self).__name__} learned from {list(known)}, in this order"
                )
            return x
        if known is None:
            if hasattr(self, "n_features_in_"):
                raise ValueError(
                    f"x is a dict, but this {type(self).__name__} learned from arrays, and which key is which column is unknown: "
                    f"pass an array of {self.n_features_in_} numbers, or learn from dicts or data frames from the first sample on"
                )
            if not all(isinstance(name, str) for name in x):
                raise ValueError(f"x is a dict with the keys {list(x)}; feature names must be strings")
            return list(x.values())
        if len(x) != len(known) or any(name not in x for name in known):
            missing, unknown = [n for n in known if n not in x], [n for n in x if n not in set(known)]
            said = [f"lacks {missing}"] * bool(missing) + [f"has the unknown {unknown}"] * bool(unknown)
            raise ValueError(f"x {' and '.join(said)}; {type(self).__name__} learned from the features {list(known)}")
        return [x[name] for name in known]

    def _remember_features(self, x: Sample, row: Array) -> None:
        """Store the number of features, and with the first sample their names if it has any."""
        names = None if hasattr(self, "n_features_in_") else _names(x)
        self.n_features_in_ = row.shape[1]
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.array(names, dtype=object)


def _names(x: Any) -> list[Any] | None:
    """Return the keys of a mapping, the index of a pandas Series, or None."""
    if isinstance(x, Mapping):
        return list(x)
    index = getattr(x, "index", None)  # a method of a list
    return None if index is None or callable(index) else list(index)
