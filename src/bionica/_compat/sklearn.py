"""What scikit-learn does for its own estimators with private names, for ours without them.

`_parameter_constraints` of a class declares what a parameter may be, in scikit-learn's words: an `Interval`, `Options`, a type,
`callable`, None, "array-like", "boolean", "random_state". `check_parameters` checks it, with scikit-learn's messages.
"""

import inspect
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from operator import attrgetter, ge, gt, le, lt
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

__all__ = [
    "AUTO", "COUNT", "NONNEGATIVE", "POSITIVE", "SHARE", "WINDOW", "Interval", "InvalidParameterError", "Options", "StrOptions",
    "check_parameters", "parameter_values", "wrap_output",
]  # fmt: skip


class InvalidParameterError(ValueError, TypeError):
    """A parameter has a type or a value that it may not have."""


@dataclass(frozen=True, eq=False)
class Interval:
    """Numbers of a type (Integral or Real) between two bounds; `closed` is "left", "right", "both" or "neither"."""

    type: Any
    left: float
    right: float | None
    closed: str

    def is_satisfied_by(self, value: Any) -> bool:
        """Whether a value is such a number; NaN is none."""
        above, below = ge if self.closed in ("left", "both") else gt, le if self.closed in ("right", "both") else lt
        right = np.inf if self.right is None else self.right
        return bool(isinstance(value, self.type) and above(value, self.left) and below(value, right))

    def __str__(self) -> str:
        kind, number = ("an int", int) if self.type is Integral else ("a float", float)
        brackets = "[" if self.closed in ("left", "both") else "(", "]" if self.closed in ("right", "both") else ")"
        right = "inf" if self.right is None else number(self.right)
        return f"{kind} in the range {brackets[0]}{number(self.left)}, {right}{brackets[1]}"


@dataclass(frozen=True, eq=False)
class Options:
    """Some values of a type."""

    type: Any
    options: set[Any]

    def is_satisfied_by(self, value: Any) -> bool:
        """Whether a value is one of them."""
        return isinstance(value, self.type) and value in self.options

    def __str__(self) -> str:
        return f"a {self.type.__name__} among {{{', '.join(map(repr, sorted(self.options)))}}}"


def StrOptions(options: set[str]) -> Options:
    """Some strings."""
    return Options(str, options)


#: What a parameter may be: a number of things, of samples to look back on, a positive or nonnegative number, a share.
COUNT = Interval(Integral, 1, None, closed="left")
WINDOW = Interval(Integral, 2, 10**15, closed="both")  # compiled loops count in int64
POSITIVE = Interval(Real, 0, None, closed="neither")
NONNEGATIVE = Interval(Real, 0, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="neither")
AUTO = StrOptions({"auto"})

_SEVERAL = {
    "boolean": (bool, np.bool_),
    "random_state": (Interval(Integral, 0, 2**32 - 1, closed="both"), np.random.RandomState, None),
}


def _satisfies(value: Any, constraint: Any) -> bool:
    if constraint is None or constraint is callable:
        return value is None if constraint is None else callable(value)
    if constraint == "array-like":
        return not np.isscalar(value) and any(hasattr(value, name) for name in ("__len__", "shape", "__array__"))
    return isinstance(value, constraint) if isinstance(constraint, type) else bool(constraint.is_satisfied_by(value))


def _text(constraint: Any) -> str:
    if isinstance(constraint, type):
        return f"an instance of '{constraint.__module__}.{constraint.__qualname__}'".replace("builtins.", "")
    return {callable: "a callable", "array-like": "an array-like"}.get(constraint, str(constraint))


def check_parameters(estimator: Any) -> None:
    """Raise InvalidParameterError if a parameter is nothing of what `_parameter_constraints` allows."""
    constraints = estimator._parameter_constraints
    for name, value in estimator.get_params(deep=False).items():
        allowed = [one for some in constraints.get(name, ()) for one in _SEVERAL.get(some, (some,))]
        if allowed and not any(_satisfies(value, constraint) for constraint in allowed):
            *most, last = map(_text, allowed)
            text = f"{', '.join(most)} or {last}" if most else last
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} must be {text}. Got {value!r} instead."
            )


@cache
def parameter_values(cls: Any) -> Any:
    """Return the function that takes an estimator of this class to the tuple of its class and all its parameters.

    `get_params` reads the signature of `__init__` at every call, 100 us.
    """
    return attrgetter("__class__", *inspect.signature(cls).parameters)


class _Given(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that returns what it was given: scikit-learn wraps the output of `transform`, as `set_output` asks."""

    def transform(self, X: Any) -> Any:
        return self.given

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return self.names()


def wrap_output(Y: Any, X: Any, estimator: Any) -> Any:
    """Return Y in the container that `estimator.set_output` asks for, with the index of X."""
    given = _Given()
    given.__dict__.update(vars(estimator), given=Y, names=estimator.get_feature_names_out)
    return given.transform(X)
