"""Which class a name in a plan means: `TwoCompartmentNICA`, or with its module, `mylab.rules:MyNetwork`.

Two kinds of estimators can run. Networks have `partial_fit_transform`: each output is compared as its sample arrives.
Offline methods have `fit_transform(X, y)`: the outputs of the final solution are compared. `y` are the sources, for
references that need them; an estimator that separates ignores them.
"""

import hashlib
import inspect
import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from .. import estimators
from ..estimators.network import OnlineNICA
from .plan_checks import PlanError, shown


def find_estimator(name: Any, where: str = "network") -> Any:
    """Return the class that a plan calls `name`: module:Class, one of bionica's, or the last subclass of `OnlineNICA` so called."""
    if isinstance(name, str) and name in _ours():
        return _ours()[name]
    if not isinstance(name, str) or ":" not in name:
        known = {cls.__name__: cls for cls in _subclasses(OnlineNICA) if not inspect.isabstract(cls)} | _ours()
        if not isinstance(name, str) or name not in known:
            choices = ", ".join(sorted(known))
            raise PlanError(f"{where} = {shown(name)} is unknown: choose from {choices}, or give module:Class")
        return known[name]
    module, _, path = name.partition(":")
    try:
        cls = attrgetter(path)(import_module(module))
    except Exception as error:  # whatever a module does while it is imported
        expected = isinstance(error, ImportError | AttributeError | ValueError)
        reason = str(error) if expected else f"{type(error).__name__}: {error}"
        remedy = "install its module, or put it on PYTHONPATH"
        raise PlanError(f"{where} = {shown(name)} cannot be imported ({reason}): {remedy}") from error
    runs = is_online(cls) or hasattr(cls, "fit_transform")
    if not isinstance(cls, type) or inspect.isabstract(cls) or not hasattr(cls, "get_params") or not runs:
        needs = "give a class in the style of scikit-learn with partial_fit_transform or fit_transform"
        raise PlanError(f"{where} = {shown(name)} is not an estimator that can run: {needs}")
    return cls


def is_online(cls: Any) -> bool:
    """Whether a class learns sample by sample."""
    return hasattr(cls, "partial_fit_transform")


@cache
def parameter_defaults(cls: Any) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    return {parameter.name: parameter.default for parameter in inspect.signature(cls).parameters.values()}


def canonical_name(cls: Any) -> str:
    """The name by which another process finds a class, if one can: with its module if it is not one of bionica's."""
    name: str = cls.__name__
    try:
        importable = attrgetter(cls.__qualname__)(sys.modules[cls.__module__]) is cls
    except (KeyError, AttributeError):
        importable = False
    return name if _ours().get(name) is cls or not importable else f"{cls.__module__}:{cls.__qualname__}"


def check_importable(names: Iterable[str]) -> None:
    """Refuse estimators that worker processes cannot import."""
    for name in set(names):
        cls = find_estimator(name)
        if cls.__module__ == "__main__" or (name not in _ours() and ":" not in canonical_name(cls)):
            raise PlanError(
                f"network {name!r} is defined in a script, notebook or function, where worker processes cannot import it: put "
                "it into a module and name it as module:Class, or run in this process (n_jobs=1, --jobs 1)"
            )


def source_digest(name: str) -> str:
    """Digest of the source of an estimator from outside bionica: its module and what that imports from its own package."""
    return _digest(find_estimator(name))


@cache
def _digest(cls: Any) -> str:
    if cls.__module__.startswith("bionica."):
        return ""
    package, used = cls.__module__.partition(".")[0], vars(sys.modules[cls.__module__]).values()
    names = {value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) for value in used}
    names |= {base.__module__ for base in cls.__mro__}
    total = hashlib.sha256()
    for name in sorted(name for name in names if isinstance(name, str) and name.partition(".")[0] == package):
        try:
            total.update(Path(str(getattr(sys.modules.get(name), "__file__", None))).read_bytes())
        except OSError:  # cells of a notebook: results of another definition must not be taken for those of this one
            total.update(uuid4().bytes)
    return total.hexdigest()[:16]


@cache
def _ours() -> dict[str, Any]:
    found = {name: getattr(estimators, name) for name in estimators.__all__}
    return {name: cls for name, cls in found.items() if hasattr(cls, "fit_transform")}


def _subclasses(cls: Any) -> list[Any]:
    return [found for child in cls.__subclasses__() for found in (child, *_subclasses(child))]
