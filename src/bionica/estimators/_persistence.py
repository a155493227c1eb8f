"""Fitted estimators to and from model files (`io.model_file`).

A network stores its state, whose arrays its rule declares. An offline estimator declares its fitted attributes as `_saved`: an
array by its shape (k features, d components, any other letter any length), a number by its type, and what has fields by a
`Record` of these. Both are checked when read.
"""

import inspect
import os
import platform
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import io
from .._compat.sklearn import output_container, validate_params
from ..networks import state as states
from ..networks.rule import RULES, rule_of
from ._base import Estimator
from ._online import OnlineNICA

#: How a single-layer network started, and the type that JSON gives back.
_START: dict[str, type] = {"_start_seed": int}
_CALLABLE = {"callable": True}

Array = NDArray[Any]


class Record(NamedTuple):
    """A named tuple or a dict: how to make it, what its fields are, and whether it may be None."""

    make: Any
    fields: dict[str, Any]
    optional: bool = False


def _classes() -> dict[str, Any]:
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
    if _classes().get(type(estimator).__name__) is not type(estimator):
        raise TypeError(
            f"{type(estimator).__name__} is none of {sorted(_classes())}, and load could not make one again; use pickle"
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
        start = {name: attributes[name] for name in _START if name in attributes}
        special = {"rule": rule_of(state).name, "start": start}
    else:
        check_is_fitted(estimator)
        validate_params(estimator)
        arrays, numbers = _stored(estimator)
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


def load(path: str | os.PathLike[str], **overrides: Any) -> Any:
    """Read a network or an offline estimator that `save` wrote, ready to transform or to go on learning.

    Loading runs no code from the file.

    Parameters
    ----------
    path : path
        A file that `save` wrote.
    **overrides
        Parameters that differ from the saved ones; a schedule that was a function must be given again here.

    Returns
    -------
    estimator
        Of the class that was saved. Learning on gives the same bits as if it had never stopped.

    Raises
    ------
    ModelFileError
        If the file is truncated, altered, or no bionica model.

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
    cls = _classes().get(str(header.get("class")))
    if cls is None:
        raise io.ModelFileError(
            f"{path} holds a {header.get('class')!r}, which is none of {sorted(_classes())}; if it is yours, import it first"
        )
    try:
        saved = header["parameters"]
        functions = [name for name, value in saved.items() if value == _CALLABLE and name not in overrides]
        estimator = cls(**_parameters(saved, arrays))
        k = int(header["n_features"])
        state = None
        if not isinstance(estimator, OnlineNICA):
            _restore(estimator, k, arrays, header["numbers"])
        elif "waiting" not in arrays:
            state = _state(header, k, arrays)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration, MemoryError) as error:
        raise io.ModelFileError(f"{path} does not describe a {cls.__name__}: {error}") from error
    if functions:
        raise io.ModelFileError(
            f"{functions[0]} was a function when this model was saved, and a file holds no code: "
            f"give it again, load(path, {functions[0]}=...)"
        )
    if header.get("set_output") not in (None, "default", "pandas", "polars"):
        raise io.ModelFileError(
            f"{path} asks for outputs as {header['set_output']!r}, which is no container of scikit-learn"
        )
    estimator.set_output(transform=header.get("set_output"))
    estimator.set_params(**overrides)
    validate_params(estimator)
    estimator.n_features_in_ = k
    if header.get("feature_names"):
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    if not isinstance(estimator, OnlineNICA):
        return estimator
    estimator._check_params()
    for name in _START:
        if name in (header.get("start") or {}):
            setattr(estimator, name, _START[name](header["start"][name]))
    if state is None:
        estimator._waiting = arrays["waiting"]
        estimator.n_samples_seen_ = len(arrays["waiting"])
        return estimator
    if not isinstance(estimator._rule_params(state, states.precision(state)), rule_of(state).Params):
        changed = ", ".join(f"{name}={value!r}" for name, value in overrides.items()) or "its parameters"
        raise io.ModelFileError(
            f"{path} holds a network of the rule {rule_of(state).name!r}, which {changed} do not belong to"
        )
    estimator._adopt(state)
    return estimator


def _plain(name: str, value: Any) -> Any:
    """Return the parameter as JSON can hold it."""
    if callable(value):
        return _CALLABLE
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if name == "random_state" and not isinstance(value, int | None):
        return None  # spent: what is still random comes from the state
    return value


def _parameters(saved: dict[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    parameters = {name: value for name, value in saved.items() if value != _CALLABLE}
    if isinstance(parameters.get("init"), list):
        parameters["init"] = {weight: arrays[f"init/{weight}"] for weight in parameters["init"]}
    if isinstance(parameters.get("guards"), list):
        parameters["guards"] = tuple(parameters["guards"])
    return parameters


def _state(header: dict[str, Any], k: int, arrays: dict[str, Array]) -> Any:
    """Return the state, every array of it checked against what its rule declares."""
    rule = RULES.get(str(header["rule"]))
    if rule is None:
        raise ValueError(f"no network has the rule {header['rule']!r}")
    own = {name.removeprefix("state/"): a for name, a in arrays.items() if name.startswith("state/")}
    return states.from_arrays(rule, own, k)


def _stored(estimator: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the numbers of a fitted estimator, by name."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}

    def put(name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, Record):
            fields = value if isinstance(value, dict) else {} if value is None else value._asdict()
            for field, content in fields.items():
                put(f"{name}/{field}", kind.fields[field], content)
        elif isinstance(kind, str):
            arrays[name] = np.asarray(value)
        else:
            numbers[name] = np.dtype(value).name if kind is np.dtype else kind(value)

    for name, kind in estimator._saved.items():
        put(name, kind, getattr(estimator, name))
    return arrays, numbers


def _restore(estimator: Any, k: int, arrays: dict[str, Array], numbers: dict[str, Any]) -> None:
    """Set what `_stored` returned; raise KeyError for what is missing, ValueError for an array of the wrong shape or dtype."""
    lengths = {"k": k}

    def take(name: str, kind: Any) -> Any:
        if isinstance(kind, Record):
            if kind.optional and not any(key.startswith(f"{name}/") for key in [*arrays, *numbers]):
                return None
            return kind.make(**{field: take(f"{name}/{field}", content) for field, content in kind.fields.items()})
        if not isinstance(kind, str):
            return kind(numbers[name])
        a = arrays[name]
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(kind, a.shape, strict=False))
        if a.ndim != len(kind) or a.shape != expected or a.dtype.kind != "f":
            raise ValueError(f"{name} is an array of {a.dtype} with shape {a.shape}")
        return a

    vars(estimator).update({name: take(name, kind) for name, kind in estimator._saved.items()})
