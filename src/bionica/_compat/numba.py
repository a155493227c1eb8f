"""Numba's private names. Each is looked up once, by `_private`; without it the package gives the same results, as said here.

`entry_point` of a compiled function: calling it directly saves the look-up of the types of every argument, 30 us for a network.
    Without it the compiled function is called.
`_nrt=False`: without it Numba counts references to every array of a state at every call, 1.5 us a sample at d = 3.
`TypingError`: a mistake in a rule. Without the name it is reported in Numba's words, after more attempts to compile.
"""

import importlib
import logging
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

__all__ = ["TYPING_ERROR", "compile_entry", "jit_is_off"]


def _private(module: str, name: str, otherwise: Any = None) -> Any:
    """Return a private name of Numba, or `otherwise` if this version has none."""
    try:
        return getattr(importlib.import_module(module), name, otherwise)
    except ImportError:
        return otherwise


_LOG = logging.getLogger("bionica")
TYPING_ERROR: Any = _private("numba.core.errors", "TypingError", ())
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
if hasattr(_private("numba.core.options", "DefaultOptions"), "_nrt"):
    _OPTIONS["_nrt"] = False
_warned: set[str] = set()


def jit_is_off() -> bool:
    """Whether NUMBA_DISABLE_JIT is set."""
    return numba.njit(_private) is _private


def compile_entry(function: Callable[..., Any], arguments: tuple[Any, ...], cache: bool) -> Any:
    """Compile a function for these arguments, by calling it with them, and return what to call from then on.

    Where nothing can be cached (a read-only folder, a full disk, a damaged file) it compiles without a cache and says so once.
    """
    if jit_is_off():
        return np.errstate(all="ignore")(function)  # compiled code does not warn
    failure = None
    for cached in (True, False) if cache else (False,):
        compiled: Any = None
        try:
            compiled = numba.njit(cache=cached, **_OPTIONS)(function)
            compiled(*arguments)
        except TYPING_ERROR:
            raise
        except Exception as error:
            failure = failure or error
            if not getattr(compiled, "signatures", ()):
                continue  # otherwise it is compiled, and could not be written to the cache
        if failure:
            _warn(failure)
        overload = next(iter(getattr(compiled, "overloads", {}).values()), None)
        return getattr(overload, "entry_point", compiled)
    assert failure is not None
    raise failure


def _warn(error: Exception) -> None:
    text = f"compiled code cannot be cached: {type(error).__name__}: {error}"
    if text not in _warned:
        _warned.add(text)
        _LOG.warning(text)
