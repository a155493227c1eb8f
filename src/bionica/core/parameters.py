"""What scikit-learn does for its own estimators with private names, for ours without
them.

`_parameter_constraints` of a class says what each parameter may be, in `Allowed`s;
`Estimator._freeze` checks it.
"""

from collections.abc import Callable
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin


class InvalidParameterError(ValueError, TypeError):
    """A parameter has a type or a value that it may not have."""


class Allowed(NamedTuple):
    """What a parameter may be, in words and as a function of its value."""

    text: str
    holds: Callable[[Any], bool]


def interval(
    kind: Any, left: float, right: float = np.inf, *, closed: str = "[]"
) -> Allowed:
    """Numbers of a kind (Integral or Real) between two bounds, of which those with a
    square bracket are included; not NaN.
    """
    above = ge if closed[0] == "[" else gt
    below = le if closed[1] == "]" and right < np.inf else lt
    number, name = (int, "an int") if kind is Integral else (float, "a float")
    low, high = (
        str(number(bound)) if abs(bound) < np.inf else "inf" for bound in (left, right)
    )
    text = f"{name} in the range {closed[0]}{low}, {high}{']' if below is le else ')'}"
    return Allowed(
        text,
        lambda value: bool(
            isinstance(value, kind) and above(value, left) and below(value, right)
        ),
    )


def options(*values: Any) -> Allowed:
    """Some values of a type."""
    kind = type(values[0])
    text = f"a {kind.__name__} among {{{', '.join(map(repr, sorted(values)))}}}"
    return Allowed(text, lambda value: isinstance(value, kind) and value in values)


def instance(*types: type) -> Allowed:
    """An instance of one of these types."""
    names = " or ".join(
        f"'{one.__module__}.{one.__qualname__}'".replace("builtins.", "")
        for one in types
    )
    return Allowed(f"an instance of {names}", lambda value: isinstance(value, types))


#: What a parameter may be: a number of things, of samples to look back on, a positive
#: or nonnegative number, a share, ...
COUNT = interval(Integral, 1)
WINDOW = interval(Integral, 2, 10**15)  # compiled loops count in int64
POSITIVE = interval(Real, 0, closed="()")
NONNEGATIVE = interval(Real, 0)
SHARE = interval(Real, 0, 1, closed="()")
AUTO = options("auto")
BOOLEAN = instance(bool, np.bool_)
FUNCTION = Allowed("a callable", callable)
ARRAY = Allowed(
    "an array-like",
    lambda value: (
        not np.isscalar(value)
        and any(hasattr(value, name) for name in ("__len__", "__array__"))
    ),
)
RANDOM = interval(Integral, 0, 2**32 - 1), instance(np.random.RandomState), None


class _Given(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that returns what it was given: scikit-learn wraps the output of
    `transform`, as `set_output` asks.
    """

    def transform(self, X: Any) -> Any:
        return self.given

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        return self.names()


def wrap_output(Y: Any, X: Any, estimator: Any) -> Any:
    """Return Y in the container that `estimator.set_output` asks for, with the index of
    X.
    """
    given = _Given()
    given.__dict__.update(
        vars(estimator), given=Y, names=estimator.get_feature_names_out
    )
    return given.transform(X)


#: What parameters may be, by name; a class adds its own.
PARAMETERS: dict[str, Any] = {
    "n_components": [COUNT, None],
    "eta0": [POSITIVE, FUNCTION],
    "decay": [NONNEGATIVE],
    "power": [NONNEGATIVE],
    "mean_window": [WINDOW, None],
    "horizon": [WINDOW, None],
    "average": [BOOLEAN],
    "shuffle": [BOOLEAN],
    "robust": [BOOLEAN],
    "dynamics": [options("exact", "gradient")],
    "gamma": [POSITIVE, None],
    "settle_tol": [SHARE],
    # with a safe gamma, only a singular network needs more
    "settle_steps": [interval(Integral, 1, 10**6)],
    "guards": [BOOLEAN, instance(list, tuple, set, frozenset)],
    "init": [options("random"), instance(dict)],
    "n_epochs": [COUNT],
    "max_iter": [COUNT],
    "random_state": RANDOM,
}
#: The same where None stands for a setting that needs no tuning.
UNTUNED: dict[str, Any] = {
    "eta0": [POSITIVE, FUNCTION, None],
    "decay": [NONNEGATIVE, None],
}


def is_same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are equal."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, np.random.RandomState) and isinstance(b, np.random.RandomState):
        return True  # spent: what is still random comes from the state
    try:
        return a is b or (
            np.shape(a) == np.shape(b) and bool(np.all(np.asarray(a) == np.asarray(b)))
        )
    except (TypeError, ValueError):
        return False
