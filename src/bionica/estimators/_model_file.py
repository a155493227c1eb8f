"""Fitted estimators as model files (`io.model_file`), and back.

A network stores its state, whose arrays its rule declares (`networks.rule`). An offline estimator declares its fitted attributes
as `_saved`: a string is an array of floats by its shape (k features, d components, any other letter any length), all of them
finite; `Floats` also bounds its values. `int` is a count, `float` a finite number, `np.dtype` float32 or float64; `Number` also
bounds it. A `Record` has fields of these.

A file may come from anybody, and nothing in it is trusted. Class, parameters, names, shapes and dtypes are checked before the
arrays are read, then their values, then that all of them agree (`Estimator._check_saved`). Every refusal is a ModelFileError.
"""

import inspect
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import io
from .._compat.sklearn import output_container, validate_params
from ..networks import rule as states
from ..networks.rule import RULES, Rule, rule_of
from ._base import Estimator
from ._input import check_finite
from .network import OnlineNICA

Array = NDArray[Any]

_MOST = 2**52  # counts stay where float64 counts exactly


class Floats(NamedTuple):
    """An array: its shape, bounds of its values, and whether they may be NaN or infinite."""

    shape: str
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True


class Number(NamedTuple):
    """A number: its type, its bounds, and whether it may be infinite."""

    type: Any
    low: float = -np.inf
    high: float = np.inf
    finite: bool = True


class Record(NamedTuple):
    """A named tuple or a dict: how to make it, its fields, whether it may be None, and a check that raises ValueError."""

    make: Any
    fields: dict[str, Any]
    optional: bool = False
    check: Callable[[Any], None] | None = None


def stored(estimator: Any) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the numbers of a fitted estimator, by name."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, Any] = {}

    def put(name: str, kind: Any, value: Any) -> None:
        if isinstance(kind, Record):
            fields = value if isinstance(value, dict) else {} if value is None else value._asdict()
            for field, content in fields.items():
                put(f"{name}/{field}", kind.fields[field], content)
        elif isinstance(kind := _kind(kind), Floats):
            arrays[name] = np.asarray(value)
        else:
            numbers[name] = np.dtype(value).name if kind.type is np.dtype else kind.type(value)

    for name, kind in estimator._saved.items():
        put(name, kind, getattr(estimator, name))
    return arrays, numbers


def check_declared(saved: Mapping[str, Any], k: int, declared: Mapping[str, Any], numbers: Mapping[str, Any]) -> None:
    """Raise ValueError unless the arrays, of which only shape and dtype are known, and numbers are those that `saved` declares."""
    lengths = {"k": k}
    for name, kind in _leaves(saved, {*declared, *numbers}):
        if isinstance(kind, Number):
            _number(name, kind, numbers)
            continue
        if name not in declared:
            raise ValueError(f"the array {name} is missing")
        a = declared[name]
        expected = tuple(lengths.setdefault(letter, n) for letter, n in zip(kind.shape, a.shape, strict=False))
        if len(a.shape) != len(kind.shape) or a.shape != expected or a.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} is an array of {a.dtype} with shape {a.shape}, not {kind.shape} with {lengths}")
    if not min(lengths.get(letter, 1) for letter in "kd") > 0:
        raise ValueError(f"there is at least one feature and one component, not {lengths}")
    known = {name for name, _ in _leaves(saved, {*declared, *numbers})}
    if unknown := sorted({*declared, *numbers} - known):
        raise ValueError(f"{unknown[0][:80]!r} belongs to no attribute")


def restored(saved: Mapping[str, Any], arrays: Mapping[str, Array], numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that `stored` took apart, after `check_declared`; raise ValueError for a value out of its bounds."""

    def take(name: str, kind: Any) -> Any:
        if isinstance(kind, Record):
            if kind.optional and not _present(name, {*arrays, *numbers}):
                return None
            record = kind.make(**{field: take(f"{name}/{field}", content) for field, content in kind.fields.items()})
            if kind.check is not None:
                kind.check(record)
            return record
        kind = _kind(kind)
        return _array(name, kind, arrays[name]) if isinstance(kind, Floats) else _number(name, kind, numbers)

    return {name: take(name, kind) for name, kind in saved.items()}


def _kind(kind: Any) -> Floats | Number:
    if isinstance(kind, Floats | Number):
        return kind
    if isinstance(kind, str):
        return Floats(kind.rstrip("~"), finite=not kind.endswith("~"))
    return Number(int, 0, _MOST) if kind is int else Number(kind)


def _leaves(saved: Mapping[str, Any], names: set[str]) -> Iterator[tuple[str, Any]]:
    """The arrays and numbers of `saved` by their full names, without the optional records of which nothing is in `names`."""
    for name, kind in saved.items():
        if not isinstance(kind, Record):
            yield name, _kind(kind)
        elif not kind.optional or _present(name, names):
            yield from _leaves({f"{name}/{field}": content for field, content in kind.fields.items()}, names)


def _present(record: str, names: set[str]) -> bool:
    return any(name.startswith(f"{record}/") for name in names)


def _array(name: str, kind: Floats, a: Array) -> Array:
    with np.errstate(invalid="ignore"):
        outside = (a < kind.low) | (a > kind.high)
    if outside.any() or (kind.finite and not np.isfinite(a).all()):
        raise ValueError(f"{name} holds NaN, infinity or a number outside of {kind.low} to {kind.high}")
    return a


def _number(name: str, kind: Number, numbers: Mapping[str, Any]) -> Any:
    if name not in numbers:
        raise ValueError(f"the number {name} is missing")
    value = numbers[name]
    if kind.type is np.dtype:
        if value not in ("float32", "float64"):
            raise ValueError(f"{name} is {str(value)[:40]!r}, neither float32 nor float64")
        return np.dtype(value)
    allowed = (int, float) if kind.type is float else (kind.type,)
    if type(value) not in allowed:
        raise ValueError(f"{name} is {str(value)[:40]!r}, no {kind.type.__name__}")
    if not kind.low <= value <= kind.high or (kind.finite and not abs(value) < np.inf):
        raise ValueError(f"{name} is {str(value)[:40]}, not in {kind.low} to {kind.high}")
    return kind.type(value)


#: How a network started that waits for its first block.
START = ("_start_seed",)
CALLABLE = {"callable": True}


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
        estimator._check_params()
        attributes = vars(estimator)
        if "_state" in attributes:
            arrays = {f"state/{name}": a for name, a in states.to_arrays(states.copy_state(state)).items()}
        else:
            arrays = {"waiting": attributes["_waiting"]}
        start = {name: attributes[name] for name in START if name in attributes}
        special = {"rule": rule_of(state).name, "start": start}
    else:
        check_is_fitted(estimator)
        validate_params(estimator)
        arrays, numbers = stored(estimator)
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
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if name == "random_state" and not isinstance(value, int | None):
        return None  # spent: what is still random comes from the state
    return value


_LARGEST = 2**62  # of an integer parameter


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
        If the file is truncated, altered or no bionica model, or if the overrides contradict what was learned.

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

    def check(header: dict[str, Any], declared: Mapping[str, Any]) -> None:
        with _refused(path, header):
            _check_declared(_unfitted(path, header), header, declared)

    header, arrays = io.read_model(path, check)
    with _refused(path, header):
        estimator = _unfitted(path, header)
        _fill(estimator, header, arrays)
    saved = header["parameters"]
    functions = [name for name, value in saved.items() if value == CALLABLE and name not in overrides]
    if functions:
        raise io.ModelFileError(
            f"{functions[0]} was a function when this model was saved, and a file holds no code: "
            f"give it again, load(path, {functions[0]}=...)"
        )
    if overrides:
        _override(path, estimator, overrides)
    return estimator


@contextmanager
def _refused(path: Any, header: dict[str, Any]) -> Iterator[None]:
    """Turn whatever wrong content raises into a ModelFileError that says what is wrong."""
    try:
        yield
    except (io.ModelFileError, MemoryError):
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__)[:500]
        name = str(header.get("class"))[:80]
        raise io.ModelFileError(f"{path} does not describe a {name}: {reason}") from error


def _unfitted(path: Any, header: dict[str, Any]) -> Any:
    """Return the estimator that the header describes, its parameters checked; `init` is not yet known."""
    cls = classes().get(str(header.get("class")))
    if cls is None:
        raise io.ModelFileError(
            f"{path} holds a {str(header.get('class'))[:80]!r}, which is none of {sorted(classes())}; if it is "
            "yours, import it first"
        )
    saved = _of_type(header, "parameters", dict)
    parameters = {
        name: value for name, value in saved.items() if value != CALLABLE and not _is_array_names(name, value)
    }
    for name, value in parameters.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ValueError(f"the parameter {name} is {str(value)[:40]}, beyond what a network can count")
    if isinstance(parameters.get("guards"), list):
        parameters["guards"] = tuple(parameters["guards"])
    estimator = cls(**parameters)
    validate_params(estimator)
    k = _of_type(header, "n_features", int)
    names = header.get("feature_names")
    if names is not None:
        if not isinstance(names, list) or len(names) != k or not all(isinstance(name, str) for name in names):
            raise ValueError(f"feature_names are not the names of {k} features")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator.n_features_in_ = k
    if header.get("set_output") not in (None, "default", "pandas", "polars"):
        raise ValueError(f"set_output is {str(header['set_output'])[:40]!r}, which is no container of scikit-learn")
    estimator.set_output(transform=header.get("set_output"))
    return estimator


def _is_array_names(name: str, value: Any) -> bool:
    """Whether a parameter is `init` as the names of its arrays."""
    return name == "init" and isinstance(value, list)


def _of_type(header: dict[str, Any], name: str, kind: type) -> Any:
    if type(header.get(name)) is not kind:
        raise ValueError(f"{name} is {str(header.get(name))[:40]!r}, no {kind.__name__}")
    return header[name]


def _check_declared(estimator: Any, header: dict[str, Any], declared: Mapping[str, Any]) -> None:
    """Check the names, shapes and dtypes of the arrays of a file before they are read."""
    k = estimator.n_features_in_
    own = {name: a for name, a in declared.items() if not name.startswith("init/")}
    init = header["parameters"].get("init")
    names = {f"init/{name}" for name in init} if isinstance(init, list) else set()
    if names != set(declared) - set(own) or any(declared[name].dtype != np.float64 for name in names):
        raise ValueError(f"the arrays of init are not {sorted(names)} in float64")
    if not isinstance(estimator, OnlineNICA):
        check_declared(estimator._saved, k, own, _of_type(header, "numbers", dict))
        return
    rule = _rule(header)
    start: Any = header.get("start") or {}
    if not isinstance(start, dict) or not set(start) <= set(START):
        raise ValueError(f"start is {str(start)[:40]!r}")
    for name, value in start.items():
        if type(value) is not int or not 0 <= value < 2**31:
            raise ValueError(f"start has {name} = {str(value)[:40]!r}")
    if "waiting" not in own:
        states.check_shapes(rule, {_state_name(name): a for name, a in own.items()}, k)
    elif set(own) != {"waiting"} or not estimator._waits():
        raise ValueError(f"a {type(estimator).__name__} does not wait for samples beside {sorted(own)[:5]}")
    else:
        a = own["waiting"]
        if len(a.shape) != 2 or a.shape[1] != k or a.dtype not in (np.float32, np.float64):
            raise ValueError(f"waiting has {a.dtype} of shape {a.shape}, not (n, {k})")


def _rule(header: dict[str, Any]) -> Rule:
    rule = RULES.get(str(header.get("rule")))
    if rule is None:
        raise ValueError(f"no network has the rule {str(header.get('rule'))[:80]!r}")
    return rule


def _state_name(name: str) -> str:
    if not name.startswith("state/"):
        raise ValueError(f"{name[:80]!r} is no array of a state")
    return name.removeprefix("state/")


def _fill(estimator: Any, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Set what was learned, after `_check_declared`, and check that all of it agrees."""
    init = header["parameters"].get("init")
    if isinstance(init, list):
        estimator.init = {name: arrays[f"init/{name}"] for name in init}
        if not all(np.isfinite(a).all() for a in estimator.init.values()):
            raise ValueError("init holds NaN or infinity")
    if not isinstance(estimator, OnlineNICA):
        vars(estimator).update(restored(estimator._saved, arrays, header["numbers"]))
    else:
        estimator._check_params()
        for name, value in (header.get("start") or {}).items():
            setattr(estimator, name, value)
        if "waiting" in arrays:
            check_finite(arrays["waiting"], 0, "waiting")
            estimator._waiting = arrays["waiting"]
            estimator.n_samples_seen_ = len(arrays["waiting"])
        else:
            own = {_state_name(name): a for name, a in arrays.items() if not name.startswith("init/")}
            estimator._adopt(states.from_arrays(_rule(header), own, estimator.n_features_in_))
    estimator._check_saved()


def _override(path: Any, estimator: Any, overrides: dict[str, Any]) -> None:
    """Set parameters that the caller wants to change; those that what was learned depends on can only be repeated."""
    fixed = {name: getattr(estimator, name) for name in estimator._fixed if name in overrides}
    estimator.set_params(**overrides)
    validate_params(estimator)
    changed = [name for name, value in fixed.items() if name != "n_components" and overrides[name] != value]
    reason = "learned with " + ", ".join(f"{name}={fixed[name]!r}" for name in changed)
    if not changed:
        try:
            estimator._check_saved()
            return
        except ValueError as error:
            reason = str(error)
    of = f" of the rule {rule_of(estimator._state).name!r}" if "_state" in vars(estimator) else ""
    given = ", ".join(f"{name}={value!r}" for name, value in overrides.items())
    free = sorted(set(estimator.get_params(deep=False)) - set(estimator._fixed))
    raise io.ModelFileError(
        f"{path} holds weights{of} ({reason}), which {given} contradicts. What can be changed: {', '.join(free)}"
    )
