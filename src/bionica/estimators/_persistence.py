"""Fitted estimators as the content of a model file (`io.model_file`); `_loading` reads it back.

A network stores its state, whose arrays its rule declares (`networks.rule`). An offline estimator declares its fitted attributes
as `_saved` (`_schema`).
"""

import inspect
import os
import platform
from importlib.metadata import version
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import io
from .._compat.sklearn import output_container, validate_params
from ..networks import rule as states
from ..networks.rule import rule_of
from . import _schema
from ._base import Estimator
from ._online import OnlineNICA

#: How a network started that waits for its first block.
START = ("_start_seed",)
CALLABLE = {"callable": True}

Array = NDArray[Any]


def classes() -> dict[str, Any]:
    """The only classes that a file can name: every estimator that is imported, those of the user included."""
    found: dict[str, Any] = {}
    waiting: list[Any] = [Estimator]
    for cls in waiting:
        waiting += cls.__subclasses__()
        if not inspect.isabstract(cls):
            found[cls.__name__] = cls
    return found


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; see `Estimator.save`."""
    io.write_model(path, *contents(estimator))


def contents(estimator: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what a file of this estimator holds, header and arrays; the arrays are its own, which never change."""
    if classes().get(type(estimator).__name__) is not type(estimator):
        raise TypeError(
            f"{type(estimator).__name__} is none of {sorted(classes())}, and load could not make one again; use pickle"
        )
    special: dict[str, Any]
    if isinstance(estimator, OnlineNICA):
        state = estimator._fitted_state()
        estimator._kept_state()
        estimator._check_params()
        attributes = vars(estimator)
        if "_state" in attributes:
            arrays = {f"state/{name}": a for name, a in states.to_arrays(state).items()}
        else:
            arrays = {"waiting": attributes["_waiting"]}
        start = {name: attributes[name] for name in START if name in attributes}
        special = {"rule": rule_of(state).name, "start": start}
    else:
        check_is_fitted(estimator)
        validate_params(estimator)
        arrays, numbers = _schema.stored(estimator)
        special = {"numbers": numbers}
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name == "init" and isinstance(value, dict):
            arrays |= {f"init/{weight}": np.asarray(a, dtype=np.float64) for weight, a in value.items()}
            parameters[name] = sorted(value)
        else:
            parameters[name] = _plain(name, value)
    header: dict[str, Any] = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        **special,
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "set_output": output_container(estimator),
        "versions": {
            "bionica": version("bionica"),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
            "python": platform.python_version(),
        },
    }
    return header, arrays


def _plain(name: str, value: Any) -> Any:
    """Return the parameter as JSON can hold it."""
    if callable(value):
        return CALLABLE
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if name == "random_state" and not isinstance(value, int | None):
        return None  # spent: what is still random comes from the state
    return value
