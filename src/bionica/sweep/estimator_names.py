"""Which class a name in a plan means.

A plan names an estimator by its class, `TwoCompartmentNICA`, or by module and class, `mylab.rules:MyNetwork`. Two kinds can run:

- networks, which have `partial_fit_transform`: their outputs are compared as each sample arrives;
- offline methods, which have `fit_transform(X, y)`: the outputs of the final solution are compared. `y` are the sources, for
  references that need them; an estimator that separates ignores them.
"""

import hashlib
import inspect
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from .. import estimators
from ..estimators._online import OnlineNICA
from .plan_checks import PlanError

__all__ = [
    "canonical_name",
    "find_estimator",
    "is_online",
    "known_estimators",
    "missing_in_workers",
    "parameter_defaults",
    "source_digest",
]


def known_estimators() -> dict[str, Any]:
    """Every class that a plan can name without its module.

    These are the estimators of bionica and all concrete subclasses of `OnlineNICA` that were defined or imported. bionica's own
    come first: a user's class of the same name is reached by module and class.
    """
    subclasses = {cls.__name__: cls for cls in _subclasses(OnlineNICA) if not inspect.isabstract(cls)}
    return subclasses | _ours()


def find_estimator(name: Any, where: str = "network") -> Any:
    """Return the class that a plan calls `name`.

    Examples
    --------
    >>> find_estimator("sklearn.decomposition:FastICA").__name__
    'FastICA'
    """
    if isinstance(name, str) and name in _ours():
        return _ours()[name]
    if not isinstance(name, str) or ":" not in name:
        known = known_estimators()
        if not isinstance(name, str) or name not in known:
            raise PlanError(
                f"{where} = {name!r} is unknown: choose from {', '.join(sorted(known))}, or give module:Class, mylab.rules:MyNetwork "
                "for one"
            )
        return known[name]
    module, _, path = name.partition(":")
    try:
        cls: Any = import_module(module)
        for part in path.split("."):
            cls = getattr(cls, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise PlanError(
            f"{where} = {name!r} cannot be imported ({error}): install its module, or put it on PYTHONPATH"
        ) from error
    if not isinstance(cls, type) or inspect.isabstract(cls) or not hasattr(cls, "get_params"):
        raise PlanError(f"{where} = {name!r} is not an estimator: give a class in the style of scikit-learn")
    if not is_online(cls) and not hasattr(cls, "fit_transform"):
        raise PlanError(
            f"{where} = {name!r} has neither partial_fit_transform nor fit_transform: there is nothing to run"
        )
    return cls


@cache
def parameter_defaults(cls: Any) -> dict[str, Any]:
    """The parameters of an estimator and their defaults."""
    return {parameter.name: parameter.default for parameter in inspect.signature(cls).parameters.values()}


def is_online(cls: Any) -> bool:
    """Whether a class learns sample by sample."""
    return hasattr(cls, "partial_fit_transform")


def canonical_name(cls: Any) -> str:
    """The name by which another process finds a class: without its module if it is one of bionica's estimators."""
    name: str = cls.__name__
    if _ours().get(name) is cls:
        return name
    found: Any = sys.modules.get(cls.__module__)
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return name if found is not cls else f"{cls.__module__}:{cls.__qualname__}"


def missing_in_workers(name: str) -> str | None:
    """Return why worker processes cannot import an estimator, or None if they can."""
    cls = find_estimator(name)
    if canonical_name(cls) == cls.__name__ and cls.__name__ not in _ours():
        return f"{cls.__qualname__} is defined inside a function"
    if cls.__module__ == "__main__":
        return f"{cls.__qualname__} is defined in the script or notebook itself"
    return None


def source_digest(name: str) -> str:
    """Digest of the source of an estimator from outside bionica: its module and what that imports from its own package.

    bionica's own estimators have none: results depend on bionica's version.
    """
    cls = find_estimator(name)
    return "" if cls.__module__.startswith("bionica.") else _digest(cls)


@cache
def _ours() -> dict[str, Any]:
    found = {name: getattr(estimators, name) for name in estimators.__all__}
    return {name: cls for name, cls in found.items() if hasattr(cls, "fit_transform")}


@cache
def _digest(cls: Any) -> str:
    package = cls.__module__.partition(".")[0]
    module = sys.modules[cls.__module__]
    used = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in vars(module).values()
    }
    names = {
        cls.__module__,
        *(base.__module__ for base in cls.__mro__),
        *(name for name in used if isinstance(name, str)),
    }
    total = hashlib.sha256()
    for name in sorted(name for name in names if name.partition(".")[0] == package):
        total.update(_source(sys.modules.get(name)))
    return total.hexdigest()[:16]


def _source(module: ModuleType | None) -> bytes:
    try:
        return Path(str(getattr(module, "__file__", None))).read_bytes()
    except OSError:
        return uuid4().bytes  # a notebook's cells: never take results of another definition for those of this one


def _subclasses(cls: Any) -> list[Any]:
    """All subclasses, in the order of their definition."""
    return [found for child in cls.__subclasses__() for found in (child, *_subclasses(child))]
