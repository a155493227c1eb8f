"""Private names of scikit-learn, which third-party estimators need for its own behaviour.

`sklearn.utils._param_validation`
    `Interval`, `Options` and `StrOptions` declare what a parameter may be, in the `_parameter_constraints` of an estimator.
    `BaseEstimator._validate_params` and the decorator `_fit_context` of `sklearn.base` check it, with scikit-learn's messages.
`sklearn.utils._set_output._wrap_data_with_container`
    What `set_output` does to `transform`, for methods of other names.
`_sklearn_output_config` of an estimator
    Where `set_output` keeps its setting.
`BaseEstimator._get_param_names`
    The names of the parameters; `get_params` reads the signature of `__init__` at every call, 100 us.
`sklearn.utils._safe_indexing`
    Rows of an array, a data frame or a list.

Checked with scikit-learn 1.6.0 and 1.9.1.
"""

from functools import cache
from operator import attrgetter
from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils._set_output import _wrap_data_with_container

__all__ = [
    "Interval",
    "Options",
    "StrOptions",
    "fit_context",
    "output_container",
    "parameter_ids",
    "safe_indexing",
    "validate_params",
    "wrap_output",
]


def validate_params(estimator: Any) -> None:
    """Raise scikit-learn's InvalidParameterError for a parameter that breaks the estimator's constraints."""
    estimator._validate_params()


def parameter_ids(estimator: Any) -> tuple[int, ...]:
    """Return the ids of the values of all parameters: the same as long as no parameter is replaced."""
    return tuple(map(id, _values(estimator.__class__)(estimator)))


@cache
def _values(cls: Any) -> Any:
    # With a second name attrgetter returns a tuple, however few parameters there are.
    return attrgetter("__class__", *cls._get_param_names())


def output_container(estimator: Any) -> str | None:
    """Return what `set_output(transform=...)` was given last; None if it was not called."""
    config: dict[str, str] = getattr(estimator, "_sklearn_output_config", {})
    return config.get("transform")


def wrap_output(Y: Any, X: Any, estimator: Any) -> Any:
    """Return Y in the container that `estimator.set_output` asks for, with the index of X."""
    return _wrap_data_with_container("transform", Y, X, estimator)
