"""Fitted estimators from model files (`io.model_file`), which may come from anybody.

Nothing in a file is trusted. Class, parameters, names, shapes and dtypes are checked before the arrays are read, then their values,
then that all of them agree (`Estimator._check_saved`). Every refusal is a ModelFileError.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import io
from .._compat.sklearn import validate_params
from ..networks import rule as states
from ..networks.rule import RULES, Rule, rule_of
from . import _schema
from ._exceptions import check_finite
from ._first_block import FirstBlock
from ._online import OnlineNICA
from ._persistence import CALLABLE, START, classes

_LARGEST = 2**62  # of an integer parameter

Array = NDArray[Any]


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
        _schema.check_declared(estimator._saved, k, own, _of_type(header, "numbers", dict))
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
    elif set(own) != {"waiting"} or not isinstance(estimator, FirstBlock):
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
        vars(estimator).update(_schema.restored(estimator._saved, arrays, header["numbers"]))
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
