"""Private names of scikit-learn, which third-party estimators need for its own behaviour.

`sklearn.utils._param_validation`
    `Interval`, `Options` and `StrOptions` declare what a parameter may be (`_parameter_constraints` of an estimator).
    `BaseEstimator._validate_params` and the decorator `_fit_context` of `sklearn.base` check it, with scikit-learn's messages.
`sklearn.utils._set_output._wrap_data_with_container`
    What `set_output` does to `transform`, for methods of other names.
`BaseEstimator._get_param_names`
    The names of the parameters; `get_params` reads the signature of `__init__` at every call, 100 us.
`sklearn.utils._safe_indexing`
    Rows of an array, a data frame or a list.

Checked with scikit-learn 1.6.0 and 1.9.1.
"""

from functools import cache
from numbers import Integral, Real
from operator import attrgetter
from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils._set_output import _wrap_data_with_container

__all__ = [
    "AUTO", "COUNT", "NONNEGATIVE", "POSITIVE", "SHARE", "WINDOW", "Interval", "Options", "StrOptions", "fit_context",
    "parameter_values", "safe_indexing", "wrap_output",
]  # fmt: skip

#: What a parameter may be: a number of things, of samples to look back on, a positive or nonnegative number, a share.
COUNT = Interval(Integral, 1, None, closed="left")
WINDOW = Interval(Integral, 2, 10**15, closed="both")  # compiled loops count in int64
POSITIVE = Interval(Real, 0, None, closed="neither")
NONNEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="neither")
AUTO = StrOptions({"auto"})


@cache
def parameter_values(cls: Any) -> Any:
    """Return the function that takes an estimator of this class to the tuple of its class and all its parameters."""
    return attrgetter("__class__", *cls._get_param_names())


def wrap_output(Y: Any, X: Any, estimator: Any) -> Any:
    """Return Y in the container that `estimator.set_output` asks for, with the index of X."""
    return _wrap_data_with_container("transform", Y, X, estimator)
