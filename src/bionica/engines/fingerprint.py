"""A digest of the source that a compiled function really reaches.

Numba's disk cache notices an edit of the file that a function is defined in, and of no other. The name of a compiled loop therefore
contains a digest of everything that is compiled into it: the code of its functions, of the functions that these call, the
implementations of generic functions for the classes that occur, and the constants that they read. Comments, docstrings and line
numbers do not count.
"""

import hashlib
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

__all__ = ["digest"]

#: Modules whose functions are part of Numba's language.
_BUILT_IN = {"math", "numpy", "numba", "builtins"}
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


def digest(functions: Iterable[Any], classes: Iterable[type]) -> str:
    """Return the digest of functions that are called with instances of these classes.

    Examples
    --------
    >>> def f(x):
    ...     return x + 1
    >>> before = digest([f], [])
    >>> def f(x):
    ...     return x + 5
    >>> before == digest([f], [])
    False
    """
    walk = _Walk(classes)
    for function in functions:
        walk.value(function)
    walk.generics()
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()[:16]


class _Walk:
    def __init__(self, classes: Iterable[type]) -> None:
        self.lines: list[str] = []
        self.seen: set[int] = set()
        self.classes: dict[type, None] = {}
        self.generic: dict[Any, None] = {}
        for cls in classes:
            self.value(cls)

    def value(self, value: Any, names: Iterable[str] = ()) -> None:
        """Note a value that a function reads; `names` are the attributes that it may read of a module."""
        value = getattr(value, "py_func", value)  # of a function that is compiled already
        if isinstance(value, _CONSTANTS):
            self.lines.append(repr(value))
        elif isinstance(value, tuple | list | set | frozenset):
            for part in sorted(value, key=repr) if isinstance(value, set | frozenset) else value:
                self.value(part)
        elif isinstance(value, types.ModuleType):
            if value.__name__.partition(".")[0] not in _BUILT_IN:
                for name in names:
                    if hasattr(value, name):
                        self.value(getattr(value, name))
        elif id(value) in self.seen:
            return
        elif isinstance(value, type):
            self.seen.add(id(value))
            self.lines.append(f"{value.__module__}.{value.__qualname__}{getattr(value, '_fields', '')}")
            if issubclass(value, tuple):
                self.classes[value] = None
        elif hasattr(value, "registry") and hasattr(value, "dispatch"):
            self.seen.add(id(value))
            self.generic[value] = None
        elif isinstance(value, types.FunctionType):
            self.seen.add(id(value))
            if value.__module__ is None or value.__module__.partition(".")[0] not in _BUILT_IN:
                self.function(value)

    def function(self, function: types.FunctionType) -> None:
        self.lines.append(function.__name__)
        self.value(function.__defaults__ or ())
        for cell in function.__closure__ or ():
            self.value(cell.cell_contents)
        self.code(function.__code__, function.__globals__, function.__doc__)

    def code(self, code: types.CodeType, scope: dict[str, Any], doc: str | None) -> None:
        self.lines += [code.co_code.hex(), repr(code.co_varnames[: code.co_argcount]), repr(code.co_names)]
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant, scope, None)
            elif constant != doc or doc is None:
                self.value(constant)
        for name in code.co_names:
            if name in scope:
                self.value(scope[name], code.co_names)

    def generics(self) -> None:
        """Note the implementations that the classes select, until there are no new ones."""
        done: set[tuple[Any, type]] = set()
        while new := [pair for pair in ((g, c) for g in self.generic for c in self.classes) if pair not in done]:
            done.update(new)
            for generic, cls in new:
                found = generic.dispatch(cls)
                if found is not generic.registry[object]:
                    self.value(found)
