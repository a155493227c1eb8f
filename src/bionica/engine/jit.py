"""How the loop is compiled, with private names of Numba.

Each name is looked up once, by `_private`; without it the package gives the same
results, as said here.

`entry_point` of a compiled function
    Calling it directly saves the look-up of the types of every argument. Without it the
    compiled function is called.
`_nrt=False`
    Without it Numba counts references to every array of a state at every call.
`_one_module`
    Numba optimises and assembles every function that the loop calls, and gives it a
    wrapper for C, although only the loop is ever called from Python. Here the called
    functions are linked into the loop, and the loop alone is optimised: a first fit
    takes half of the time. If a name is missing, or linking fails, Numba compiles as it
    always does.
`TypingError`
    A mistake in a rule. Without the name it is reported in Numba's words, after more
    attempts to compile.
"""

import gc
import importlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numba
import numpy as np


def _private(module: str, name: str, otherwise: Any = None) -> Any:
    """Return a private name of Numba, or `otherwise` if this version has none."""
    try:
        return getattr(importlib.import_module(module), name, otherwise)
    except ImportError:
        return otherwise


#: Of threads that compile, one goes on and the others wait.
COMPILING = threading.RLock()

_LOG = logging.getLogger("bionica")
TYPING_ERROR: Any = _private("numba.core.errors", "TypingError", ())
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
if hasattr(_private("numba.core.options", "DefaultOptions"), "_nrt"):
    _OPTIONS["_nrt"] = False
_warned: set[str] = set()


def compile_entry(
    function: Callable[..., Any], arguments: tuple[Any, ...], cache: bool
) -> Any:
    """Compile a function for these arguments, by calling it with them, and return what
    to call from then on.

    Where nothing can be cached (a read-only folder, a full disk, a damaged file) it
    compiles without a cache and says so once.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return np.errstate(all="ignore")(function)  # compiled code does not warn
    collects = gc.isenabled()
    with COMPILING:
        # it takes an eighth of the time of a compilation, for 100 MB that it would free
        gc.disable()
        try:
            return _compile(function, arguments, cache)
        finally:
            if collects:
                gc.enable()


def _compile(
    function: Callable[..., Any], arguments: tuple[Any, ...], cache: bool
) -> Any:
    failure = None
    cached_or_not = (True, False) if cache else (False,)
    for cached, linked in itertools.product(cached_or_not, (True, False)):
        compiled = None
        linking = _one_module(function.__qualname__) if linked else nullcontext()
        try:
            compiled = numba.njit(cache=cached, **_OPTIONS)(function)
            with linking:
                compiled(*arguments)
        except TYPING_ERROR:
            raise
        except Exception as error:
            failure = failure or error
            if not getattr(compiled, "signatures", ()):
                # otherwise it is compiled, and could not be written to the cache
                continue
        if failure:
            _warn(failure)
        overload = next(iter(getattr(compiled, "overloads", {}).values()), None)
        return getattr(overload, "entry_point", compiled)
    assert failure is not None
    raise failure


def _warn(error: Exception) -> None:
    text = (
        "compiled code cannot be cached, or took longer to compile:"
        f" {type(error).__name__}: {error}"
    )
    if text not in _warned:
        _warned.add(text)
        _LOG.warning(text)


#: What a library of Numba must have to be linked.
_LIBRARY = (
    "_linking_libraries",
    "_final_module",
    "_finalized",
    "_get_module_for_linking",
    "_ensure_finalized",
)


@contextmanager
def _one_module(name: str) -> Iterator[None]:
    """Link what the function `name` calls into its module without optimising or
    assembling it before; in this thread only.
    """
    Library: Any = _private("numba.core.codegen", "JITCodeLibrary")
    Codegen = _private("numba.core.codegen", "JITCPUCodegen")
    Context = _private("numba.core.cpu", "CPUContext")
    make_function = _private("numba._dynfunc", "make_function")
    create: Any = getattr(Codegen, "create_library", None)
    execute: Any = getattr(Context, "get_executable", None)
    wrap: Any = getattr(Context, "create_cfunc_wrapper", None)
    if not all((Library, make_function, create, execute, wrap)):
        yield
        return
    here = threading.get_ident()
    Linked = _linked(Library)

    def create_library(self: Any, library: str, **options: Any) -> Any:
        if library != name and threading.get_ident() == here:
            linked = Linked(self, library, **options)
            if all(hasattr(linked, attribute) for attribute in _LIBRARY):
                return linked
        return create(self, library, **options)

    def create_cfunc_wrapper(self: Any, library: Any, *rest: Any) -> None:
        if not isinstance(library, Linked):
            wrap(self, library, *rest)

    def get_executable(self: Any, library: Any, description: Any, env: Any) -> Any:
        if not isinstance(library, Linked):
            return execute(self, library, description, env)
        library._ensure_finalized()
        # Placeholder: Numba needs a callable here; it is never executed.
        return make_function(
            description.lookup_module(), description.qualname, "", 0, env, (library,)
        )

    Codegen.create_library = create_library
    Context.get_executable = get_executable
    Context.create_cfunc_wrapper = create_cfunc_wrapper
    try:
        yield
    finally:
        Codegen.create_library = create
        Context.get_executable = execute
        Context.create_cfunc_wrapper = wrap


def _linked(Library: Any) -> Any:
    """The class of libraries that are linked before they are optimised."""

    class Linked(Library):  # type: ignore[misc]
        def finalize(self) -> None:
            for library in dict.fromkeys(self._linking_libraries):
                if hasattr(self, "_reload_init"):  # since Numba 0.62
                    self._reload_init.update(library._reload_init)
                module = library._get_module_for_linking()
                self._final_module.link_in(module, preserve=True)
            self._finalized = True

    return Linked
