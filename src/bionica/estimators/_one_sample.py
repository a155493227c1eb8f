"""What estimators that learn one sample at a time share: a vector as a row."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


class OneSample:
    """Mixin with `_row`."""

    def _row(self, x: ArrayLike) -> Array:
        """Return the mixture x as an array of one row."""
        names, known = getattr(x, "index", None), getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and not callable(names) and list(names) != list(known):
            raise ValueError(
                f"x has the feature names {list(names)}; the network learned from {list(known)}, in this order"
            )
        row = np.asarray(x)
        if row.dtype != np.float32:
            try:
                row = row.astype(np.float64, casting="same_kind") if row.dtype != object else row.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise ValueError(f"x must be a vector of real numbers, got {x!r}: {error}") from error
        width = getattr(self, "n_features_in_", row.size)
        if row.ndim != 1 or row.size == 0 or row.size != width:
            raise ValueError(
                f"x has shape {row.shape}; {type(self).__name__} needs one mixture of "
                f"{width if row.size else 'at least 1'} numbers. For several use partial_fit or transform."
            )
        return row[np.newaxis]
