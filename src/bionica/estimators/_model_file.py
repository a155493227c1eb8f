"""Fitted estimators as model files (`io.model_file`), and back.

`_saved` declares the attributes that make up a fitted estimator: a string is an array by its schema, `int`, `float` and `bool` are
numbers, `np.dtype` is a precision, and a `Record` is a named tuple of these. For a network these are its state, whose
arrays its rule declares (`networks.rule`), or the samples that wait for its start. All of them become arrays with dotted names.

Nothing in a file is trusted: class, parameters and the schema are checked first, then the values, then that all of them agree
(`Estimator._check_saved`). Every refusal is a ModelFileError.
"""

import inspect
import os
from collections.abc import Iterator, Mapping
from functools import reduce
from importlib.metadata import version
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .. import io
from .._compat.sklearn import output_container
from ..io.model_file import check_arrays, refused
from ..networks.rule import BOOKKEEPING, RULES, rule_of
from ._base import Estimator
from .network import OnlineNICA

Array = NDArray[Any]

_SPECS = {int: ":count", float: ":float64", bool: ":bool", np.dtype: "0:float"}
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
            fields[name] = Record(hint, inside) if hasattr(hint, "_fields") else self.schemas.get(name, hint)
        return fields


def _leaves(name: str, kind: Any) -> Iterator[tuple[str, Any]]:
    """The name and kind of every array of an attribute."""
    if isinstance(kind, Record):
        for field, content in kind.fields().items():
            yield from _leaves(f"{name}.{field}", content)
    else:
        yield name, kind


def _to_array(own: Any, name: str, kind: Any) -> Array:
    """The array with this dotted name, of the attributes `own`."""
    first, *inside = name.split(".")
    value = reduce(getattr, inside, own[first])
    return np.empty(0, value) if kind is np.dtype else np.asarray(kind(value) if isinstance(kind, type) else value)


def _from_arrays(name: str, kind: Any, arrays: Mapping[str, Array]) -> Any:
    """The value of an attribute from its arrays."""
    if isinstance(kind, Record):
        return kind.make(**{field: _from_arrays(f"{name}.{field}", k, arrays) for field, k in kind.fields().items()})
    a = arrays[name]
    return a.dtype if kind is np.dtype else kind(a[()]) if isinstance(kind, type) else a


def _attributes(estimator: Any, rule: Any, present: set[str]) -> dict[str, Any]:
    """What a file of this estimator holds, of which the attributes `present` are there."""
    if not isinstance(estimator, OnlineNICA):
        saved = estimator._saved
        return {name: kind for name, kind in saved.items() if name in present or not getattr(kind, "optional", False)}
    if "_waiting" in present:
        return {"_waiting": "wk", "_start_seed": int}
    if rule not in RULES:
        raise ValueError(f"no network has the rule {str(rule)[:80]!r}")
    return {"_state": Record(RULES[rule].State, {**RULES[rule].shapes, **BOOKKEEPING}, RULES[rule].parts)}


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
    rule = rule_of(own["_state"]).name if "_state" in own else None
    saved = _attributes(estimator, rule, {name for name, value in own.items() if value is not None})
    header = {
        "class": name,
        "parameters": {name: _plain(name, value) for name, value in estimator.get_params(deep=False).items()},
        "rule": rule,
        "n_features": estimator.n_features_in_,
        "feature_names": [str(name) for name in getattr(estimator, "feature_names_in_", [])] or None,
        "set_output": output_container(estimator),
        "versions": {name: version(name) for name in ("bionica", "numpy", "scikit-learn")},
    }
    return header, {key: _to_array(own, key, kind) for item in saved.items() for key, kind in _leaves(*item)}


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
        Parameters that differ from the saved ones; a schedule that was a function must be given again here. Parameters on which
        the learned weights depend, `n_components` for example, cannot be changed.

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
        estimator = _unfitted(header, path)
        saved = _attributes(estimator, header.get("rule"), {name.partition(".")[0] for name in arrays})
        kinds = [leaf for item in saved.items() for leaf in _leaves(*item)]
        schema = {name: kind if isinstance(kind, str) else _SPECS[kind] for name, kind in kinds}
        check_arrays(arrays, schema, estimator.n_features_in_)
        vars(estimator).update(dict.fromkeys(getattr(estimator, "_saved", {})))
        vars(estimator).update({name: _from_arrays(name, kind, arrays) for name, kind in saved.items()})
        if vars(estimator).get("_start_seed", 0) >= 2**31:
            raise ValueError(f"the seed of the start is {estimator._start_seed}")
        estimator._check_saved()
    functions = [name for name, value in header["parameters"].items() if value == _CALLABLE and name not in overrides]
    if functions:
        raise io.ModelFileError(
            f"{functions[0]} was a function when {path} was saved, and a file holds no code: give it again, "
            f"load(path, {functions[0]}=...)"
        )
    if overrides:
        _override(path, estimator, overrides)
    return estimator


def _unfitted(header: dict[str, Any], path: Any) -> Any:
    """Return the estimator that the header describes, its parameters checked."""
    cls = _classes().get(str(header.get("class")))
    if cls is None:
        raise io.ModelFileError(
            f"{path} holds a {str(header.get('class'))[:80]!r}, which is none of {sorted(_classes())}: if it is yours, import its "
            "module first"
        )
    parameters = {name: value for name, value in _of_type(header, "parameters", dict).items() if value != _CALLABLE}
    for name, value in parameters.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"the parameter {name} is {str(value)[:40]}, beyond what a network can count")
    if isinstance(parameters.get("guards"), list):
        parameters["guards"] = tuple(parameters["guards"])
    if isinstance(parameters.get("init"), dict):
        parameters["init"] = {name: np.array(W, dtype=np.float64) for name, W in parameters["init"].items()}
    estimator = cls(**parameters)
    estimator._validate_params()
    estimator.n_features_in_ = k = _of_type(header, "n_features", int)
    names = header.get("feature_names")
    if names is not None:
        if not isinstance(names, list) or len(names) != k or not all(isinstance(name, str) for name in names):
            raise ValueError(f"feature_names are not the names of {k} features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if header.get("set_output") not in (None, "default", "pandas", "polars"):
        raise ValueError(f"set_output is {str(header['set_output'])[:40]!r}, which is no container of scikit-learn")
    estimator.set_output(transform=header.get("set_output"))
    return estimator


def _of_type(header: dict[str, Any], name: str, kind: type) -> Any:
    if type(header.get(name)) is not kind:
        raise ValueError(f"{name} is {str(header.get(name))[:40]!r}, no {kind.__name__}")
    return header[name]


def _override(path: Any, estimator: Any, overrides: dict[str, Any]) -> None:
    """Set parameters that the caller wants to change; those that what was learned depends on can only be repeated."""
    before = estimator.get_params(deep=False)
    estimator.set_params(**overrides)
    estimator._validate_params()
    try:
        for name in set(estimator._fixed) & set(overrides) - {"n_components"}:
            if overrides[name] != before[name]:
                raise ValueError(f"learned with {name}={before[name]!r}")
        estimator._check_saved()
    except ValueError as error:
        given = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
        free = ", ".join(sorted(set(before) - set(estimator._fixed)))
        raise io.ModelFileError(f"{path} ({error}) contradicts {given}. What can be changed: {free}") from error
