"""X of the user as an array: what is refused, and what an error names."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from ._exceptions import check_finite


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if an exception leaves the block."""
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def from_tensor(X: Any) -> Any:
    """Return a torch tensor as an array of its precision, which scikit-learn would not keep; anything else as it is.

    A tensor that requires gradients raises TypeError.
    """
    if not hasattr(X, "requires_grad"):
        return X
    if X.requires_grad:
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__} that requires gradients, and gradients do not pass through the "
            "estimators: pass X.detach() (and .cpu() if it is on a GPU)"
        )
    return np.asarray(X)


def validated(estimator: Any, X: Any, *, finite: bool = True, **options: Any) -> NDArray[Any]:
    """Return X as scikit-learn's `validate_data` does, float32 or float64; an error about a NaN names its row and feature.

    With `finite=False` the caller checks that, block by block.
    """
    options = {"dtype": [np.float64, np.float32], **options}
    with unchanged_on_error(estimator):
        data = np.asarray(validate_data(estimator, from_tensor(X), ensure_all_finite=False, **options))
        if finite:
            check_finite(data, 0, estimator)
    return data
