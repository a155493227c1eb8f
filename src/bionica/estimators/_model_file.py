"""Fitted estimators as model files (`io.model_file`), and back.

`_saved` declares the attributes that make up a fitted estimator: a string is an array, or a number, by its schema, and a
`Record` is a named tuple of these. The state of a network is a record that its rule declares (`networks.rule`). All of them
become arrays with dotted names.

Nothing in a file is trusted: class, parameters and the schema are checked first, then the values, then that all of them agree
(`Estimator._check_saved`). Every refusal is a ModelFileError.
"""

import inspect
import os
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .. import io
from ..io.model_file import check_arrays, refused
from ..networks.rule import BOOKKEEPING, RULES, rule_of
from ._base import Estimator
from .network import OnlineNICA

Array = NDArray[Any]

_SCALARS = {int: ":count", float: ":float64", bool: ":bool"}
_CALLABLE = {"callable": True}
_LARGEST = 2**62  # of an integer parameter


class Record(NamedTuple):
    """A class of named tuples; schemas of its arrays by dotted name; parts without a type hint; whether it may be None."""

    make: Any
    schemas: Mapping[str, str]
    parts: Mapping[str, Any] = {}
    optional: bool = False

    def fields(self) -> dict[str, Any]:
        """What each field is, in the form of `_saved`."""
        fields: dict[str, Any] = {}
        for name, hint in {**get_type_hints(self.make), **self.parts}.items():
            inside = {key.partition(".")[2]: spec for key, spec in self.schemas.items() if key.startswith(f"{name}.")}
            fields[name] = Record(hint, inside) if hasattr(hint, "_fields") else self.schemas.get(name)
            fields[name] = fields[name] or _SCALARS[hint]
        return fields


def _flat(name: str, value: Any) -> dict[str, Array]:
    """The arrays of an attribute by dotted name."""
    if not hasattr(value, "_fields"):
        return {name: np.asarray(value)}
    return {key: a for field in value._fields for key, a in _flat(f"{name}.{field}", getattr(value, field)).items()}


def _schema(name: str, kind: Any) -> dict[str, str]:
    """The schemas of an attribute's arrays by dotted name."""
    if isinstance(kind, str):
        return {name: kind}
    return {
        key: spec for field, part in kind.fields().items() for key, spec in _schema(f"{name}.{field}", part).items()
    }


def _built(name: str, kind: Any, arrays: Mapping[str, Array]) -> Any:
    """The value of an attribute from its arrays."""
    if isinstance(kind, str):
        return arrays[name].item() if kind.startswith(":") else arrays[name]
    return kind.make(**{field: _built(f"{name}.{field}", part, arrays) for field, part in kind.fields().items()})


def _saved(estimator: Any, rule: Any) -> dict[str, Any]:
    """What a file of this estimator holds; `rule` is the name of a network's rule, or None."""
    if rule is None:
        return dict(estimator._saved)
    if rule not in RULES:
        raise ValueError(f"no network has the rule {str(rule)[:80]!r}")
    schemas = {**RULES[rule].shapes, **BOOKKEEPING}
    return {**estimator._saved, "_state": Record(RULES[rule].State, schemas, RULES[rule].parts)}


def _classes() -> dict[str, Any]:
    """The only classes that a file can name: every estimator that is imported, those of the user included."""
    classes: dict[str, Any] = {}
    waiting: list[Any] = [Estimator]
    for cls in waiting:
        waiting += cls.__subclasses__()
        if not inspect.isabstract(cls):
            classes[cls.__name__] = cls
    return classes


def contents(estimator: Any) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what a file of this estimator holds, header and arrays, which never change."""
    name = type(estimator).__name__
    if _classes().get(name) is not type(estimator):
        raise TypeError(f"{name} is none of {sorted(_classes())}, and load could not make one again; use pickle")
    estimator._check_is_fitted()
    estimator._validate_params()
    own = estimator.__getstate__()  # a copy of a network's state
    rule = rule_of(own["_state"]).name if isinstance(estimator, OnlineNICA) and estimator._state is not None else None
    header = {
        "class": name,
        "parameters": {name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        "rule": rule,
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "versions": {name: version(name) for name in ("bionica", "numpy", "scikit-learn")},
    }
    kept = [name for name in _saved(estimator, rule) if own[name] is not None]
    return header, {key: a for name in kept for key, a in _flat(name, own[name]).items()}


def _plain(name: str, value: Any) -> Any:
    """Return the parameter as JSON can hold it."""
    if callable(value):
        return _CALLABLE
    if isinstance(value, dict):
        return {key: np.asarray(content, dtype=np.float64).tolist() for key, content in value.items()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if name == "random_state" and not isinstance(value, int | None):
        return None  # spent: what is still random comes from the state
    return value


def load(path: str | os.PathLike[str], **overrides: Any) -> Any:
    """Read a network or an offline estimator that `save` wrote, ready to transform or to go on learning.

    Loading runs no code from the file.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    **overrides
        Parameters that differ from the saved ones; a schedule that was a function must be given again here. The number of
        sources and the learning rule cannot be changed.

    Returns
    -------
    estimator
        Of the class that was saved. Learning on gives the same bits as if it had never stopped.

    Raises
    ------
    ModelFileError
        If the file is truncated, damaged or no bionica model, or if the overrides contradict what was learned.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, bionica
    >>> X = np.random.default_rng(0).exponential(size=(100, 2))
    >>> network = bionica.TwoCompartmentNICA(random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "model.bionica"
    ...     network.save(path)
    ...     again = bionica.load(path)
    >>> bool(np.array_equal(again.transform(X), network.transform(X)))
    True
    """
    header, arrays = io.read_model(path)
    with refused(path):
        parameters = header["parameters"]
        for name, value in parameters.items():
            if isinstance(value, int) and abs(value) > _LARGEST:
                raise ValueError(f"the parameter {name} is {str(value)[:40]}, beyond what a network can count")
            if value == _CALLABLE and name not in overrides:
                raise io.ModelFileError(
                    f"{name} was a function when {path} was saved, and a file holds no code: give it again, load(path, {name}=...)"
                )
        if isinstance(parameters.get("guards"), list):
            parameters["guards"] = tuple(parameters["guards"])
        if str(header["class"]) not in (classes := _classes()):
            raise io.ModelFileError(
                f"{path} holds a {str(header['class'])[:80]!r}, which is none of {sorted(classes)}: if it is yours, import its "
                "module first"
            )
        estimator = classes[str(header["class"])](**{name: v for name, v in parameters.items() if v != _CALLABLE})
        estimator._validate_params()
        estimator.n_features_in_ = k = header["n_features"]
        if type(k) is not int:
            raise ValueError(f"n_features is {str(k)[:40]!r}")
        if (names := header["feature_names"]) is not None:
            if not isinstance(names, list) or len(names) != k or not all(isinstance(name, str) for name in names):
                raise ValueError(f"feature_names are not the names of {k} features")
            estimator.feature_names_in_ = np.array(names, dtype=object)
        saved, present = _saved(estimator, header["rule"]), {name.partition(".")[0] for name in arrays}
        absent = [name for name, kind in saved.items() if getattr(kind, "optional", False) and name not in present]
        vars(estimator).update(dict.fromkeys(absent))
        saved = {name: kind for name, kind in saved.items() if name not in absent}
        schema = {key: spec for name, kind in saved.items() for key, spec in _schema(name, kind).items()}
        check_arrays(arrays, schema, k)
        vars(estimator).update({name: _built(name, kind, arrays) for name, kind in saved.items()})
        estimator._check_saved()
    if overrides:
        estimator.set_params(**overrides)._validate_params()
        try:
            estimator._check_saved()
        except ValueError as error:
            given = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
            raise io.ModelFileError(f"{given} contradicts what {path} holds: {error}") from error
    return estimator
