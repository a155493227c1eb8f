"""Numba's private names. Checked with 0.61 to 0.68.

`entry_point` of a compiled function: calling it directly saves the look-up of the types of every argument, 30 us for a network.
`_nrt=False`: without it Numba counts references to every array of a state at every call, 1.5 us a sample at d = 3.
`one_module`: Numba optimises and assembles every function that the loop calls, and gives it a wrapper for C, although only the
    loop is ever called from Python. Here the called functions are linked into the loop, and the loop alone is optimised: a first
    fit takes half of the time. If a future Numba lacks one of the names, it compiles as it always does.
"""

import contextlib
import gc
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numba
import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import NumbaError

__all__ = ["COMPILING", "compile_entry", "jit_is_off"]

#: Of threads that compile, one goes on and the others wait. Taken before Numba's own lock.
COMPILING = threading.RLock()

_LOG = logging.getLogger("bionica")
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
_warned: set[str] = set()


def jit_is_off() -> bool:
    """Whether NUMBA_DISABLE_JIT is set."""
    return bool(getattr(numba.config, "DISABLE_JIT"))  # noqa: B009  (not known to mypy)


def compile_entry(function: Callable[..., Any], arguments: tuple[Any, ...], cache: bool) -> Any:
    """Compile a function for these arguments, by calling it with them, and return what to call from then on.

    Where nothing can be cached (a read-only folder, a full disk, a damaged file) it compiles without a cache and says so once.
    """
    if jit_is_off():
        return np.errstate(all="ignore")(function)  # compiled code does not warn
    collects = gc.isenabled()
    with COMPILING:
        gc.disable()  # it takes an eighth of the time of a compilation, for 100 MB that it would free
        try:
            return _compile(function, arguments, cache)
        finally:
            if collects:
                gc.enable()


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...], cache: bool) -> Any:
    for cached in (True, False) if cache else (False,):
        try:
            compiled = numba.njit(cache=cached, **_OPTIONS)(function)
        except RuntimeError as error:  # no folder for the cache
            _warn(error)
            continue
        try:
            with _one_module(function.__qualname__):
                compiled(*arguments)
        except NumbaError:
            raise
        except Exception as error:
            if not cached:
                raise
            _warn(error)
            if not compiled.overloads:
                continue  # the cache could not be read; otherwise it could not be written
        return next(iter(compiled.overloads.values())).entry_point
    raise AssertionError("the last attempt returns or raises")


def _warn(error: Exception) -> None:
    text = f"compiled code cannot be cached and is compiled again in each process: {type(error).__name__}: {error}"
    if text not in _warned:
        _warned.add(text)
        _LOG.warning(text)


@contextlib.contextmanager
def _one_module(name: str) -> Iterator[None]:
    """Link what the function `name` calls into its module without optimising or assembling it before; in this thread only."""
    try:
        numba_functions: Any = importlib.import_module("numba._dynfunc")
        from numba.core import codegen, cpu

        Library: Any = codegen.JITCodeLibrary
        Codegen: Any = codegen.JITCPUCodegen
        Context: Any = cpu.CPUContext
        create, execute, wrap = Codegen.create_library, Context.get_executable, Context.create_cfunc_wrapper
    except (ImportError, AttributeError):
        yield
        return
    here = threading.get_ident()

    class Linked(Library):  # type: ignore[misc]
        def finalize(self) -> None:
            for library in dict.fromkeys(self._linking_libraries):
                if hasattr(self, "_reload_init"):  # since Numba 0.62
                    self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

    def create_library(self: Any, library: str, **options: Any) -> Any:
        if library == name or threading.get_ident() != here:
            return create(self, library, **options)
        return Linked(self, library, **options)

    def create_cfunc_wrapper(self: Any, library: Any, *rest: Any) -> None:
        if not isinstance(library, Linked):
            wrap(self, library, *rest)

    def get_executable(self: Any, library: Any, description: Any, env: Any) -> Any:
        if not isinstance(library, Linked):
            return execute(self, library, description, env)
        library._ensure_finalized()
        # Nobody calls it: it stands for the function in Numba's tables.
        return numba_functions.make_function(description.lookup_module(), description.qualname, "", 0, env, (library,))

    Codegen.create_library, Context.get_executable = create_library, get_executable
    Context.create_cfunc_wrapper = create_cfunc_wrapper
    try:
        yield
    finally:
        Codegen.create_library, Context.get_executable, Context.create_cfunc_wrapper = create, execute, wrap


# A child of `os.fork` has the locks of the compiler as they were, but not the threads that would release them, and would wait for
# ever when it compiles. So nothing is compiled while the process is copied.


def _before_fork() -> None:
    COMPILING.acquire()
    global_compiler_lock.acquire()


def _after_fork() -> None:
    global_compiler_lock.release()
    COMPILING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
