"""The loop. Every network, every engine runs this one.

`run` takes one validated C-ordered block of mixtures through a network: settle, return the output, learn, repair. Without rates it
only settles (frozen weights). It allocates nothing per sample and releases the GIL.

A loop is compiled for each combination of rule, classes of its parameters and precision, and cached on disk in a file of its own.
The file's name contains a digest of all the source that the loop reaches (see `fingerprint`), so that an edited or redefined rule
is compiled again, and two rules of the same name never meet. A rule whose State cannot be imported (typed into a notebook, say) is
compiled in memory.
"""

import functools
import importlib
import logging
import re
import threading
import types
from typing import Any

import numpy as np

from .. import networks  # noqa: F401  (the rules register themselves)
from .._compat.numba import COMPILING, compile_entry
from ..networks.generic import hot
from ..networks.guards import EVERY
from ..networks.rule import Rule, rule_of
from ..networks.state import copy, precision
from . import blocks
from .diverged import Diverged
from .fingerprint import digest
from .gain import scaled

__all__ = ["Diverged", "compiled_loop", "largest_output", "plain", "run"]

_LOG = logging.getLogger("bionica")
#: A compilation that takes longer than this is announced.
_PATIENCE = 2.0

_ENTRIES: dict[Any, Any] = {}


# ---------------------------------------------------------------------------------------------- compiled


def step(state, work, params, X, t, rates, Y, limit):
    """Take X[t] through a network; False, and nothing is learned, if its output is NaN or beyond `limit`."""
    y = work.y
    settle(state, work, params, X, t)  # noqa: F821  (the functions of the rule: see `bound`)
    within = True
    for i in range(y.shape[0]):
        within &= abs(y[i]) <= limit
    if not within:
        return False
    if Y.shape[0] > 0:
        for i in range(y.shape[0]):
            Y[t, i] = y[i]
    if rates.shape[0] > 0:
        learn(state, work, params, X, t, rates)  # noqa: F821
        repair(state, work, params)  # noqa: F821
    return True


def loop(state, work, params, X, rates, Y, limit, every):
    """Take the rows of X through a network; returns how many went through before an output was beyond `limit`."""
    for t in range(X.shape[0]):
        if not step(state, work, params, X, t, rates, Y, limit):
            return t
        if rates.shape[0] > 0 and state.t[0] % every == 0:
            inspect(state, work, params)  # noqa: F821
    return X.shape[0]


def inspect_once(state, work, params):
    """The guards that look every 100 samples, for engines that run the loop without them."""
    inspect(state, work, params)  # noqa: F821


_jitable = functools.cache(hot)


@functools.cache
def bound(rule: Rule) -> dict[str, Any]:
    """The functions above for a rule: copies whose globals hold the functions of the rule."""
    scope = {name: _jitable(getattr(rule, name)) for name in ("settle", "learn", "repair", "inspect")}
    for function in (step, loop, inspect_once):
        own = types.FunctionType(function.__code__, {**globals(), **scope}, function.__name__)
        scope[function.__name__] = hot(own) if function is step else own
    return scope


# ---------------------------------------------------------------------------------------------- called


def largest_output(dtype: Any) -> float:
    """Return the largest output that passes: its square stays finite."""
    return float(np.sqrt(np.finfo(dtype).max)) / 16


def run(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> None:
    """Stream the rows of X through the network, learning in place.

    Parameters
    ----------
    state : State of a rule
        Changed in place if `rates` has rows, else left alone.
    params : Params of the same rule
    X : (n, k) C-ordered array of the state's dtype, writable and aligned
        Read-only and unaligned arrays are accepted where `blocks.suits` them.
    rates : (n, r) float64 array, or (0, r) for frozen weights
    Y : (n, d) array for the outputs, or (0, d) if they are not needed

    Raises
    ------
    Diverged
        At the first sample whose output leaves the range of its dtype. The state is then not to be used any more, and Y holds NaN.
    """
    rule = rule_of(state)
    params = plain(params)
    if getattr(params, "scaled", False):
        X = scaled(state, params, X, learning=len(rates) > 0)
    try:
        if blocks.suits(rule, state, *X.shape):
            blocks.run(rule, state, params, X, rates, Y, _run_rows, inspect_alone)
        else:
            _run_rows(state, params, X, rates, Y)
    except BaseException:
        Y[:] = np.nan  # nobody reads what was not computed
        raise


def plain(params: Any) -> Any:
    """Params of Python's own int, float and bool: other types would be compiled for separately."""
    if isinstance(params, tuple):
        return type(params)(*map(plain, params))
    return params.item() if isinstance(params, np.generic) else params


def _run_rows(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray, every: int = EVERY) -> None:
    """Run the compiled loop over rows. The only place that sees its status, which becomes an exception here."""
    rule = rule_of(state)
    work = rule.workspace(state)
    limit = largest_output(X.dtype)
    entry = compiled_loop(state, work, params, X, rates, Y)
    with np.errstate(all="ignore"):  # with the JIT off, as it is without
        done = entry(state, work, params, X, rates, Y, limit, every)
    if rates.shape[0] > 0:
        state.repairs[:] += work.ws.events
    if done < len(X):
        raise Diverged(int(done))


def compiled_loop(state: Any, work: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> Any:
    """Return the compiled loop for arguments of these types."""
    empty = (state, work, params, X[:0], rates[:0], Y[:0], largest_output(X.dtype), EVERY)
    return _entry("loop", rule_of(state), params, X.dtype, empty)


def inspect_alone(state: Any, params: Any) -> None:
    """Run the guards that look every 100 samples."""
    rule = rule_of(state)
    work = rule.workspace(state)
    a_copy = copy(state), rule.workspace(state), params
    _entry("inspect_once", rule, params, precision(state), a_copy)(state, work, params)
    state.repairs[:] += work.ws.events


def _entry(kind: str, rule: Rule, params: Any, dtype: Any, arguments: tuple[Any, ...]) -> Any:
    """The compiled function of this kind; it is compiled by a call with `arguments`, which must not matter."""
    key = kind, rule, _classes(params), dtype
    entry = _ENTRIES.get(key)
    if entry is None:
        with COMPILING:  # of threads that meet a network first, one compiles and the others wait
            entry = _ENTRIES.get(key) or _compile(kind, rule, params, dtype, arguments)
            _ENTRIES[key] = entry
    return entry


def _compile(kind, rule, params, dtype, arguments):
    function = bound(rule)[kind]
    name = _name(kind, rule, params, dtype, arguments)
    own = types.FunctionType(function.__code__, function.__globals__, name)
    own.__qualname__ = name
    own.__module__ = __name__
    said = threading.Timer(_PATIENCE, _LOG.info, [f"compiling {rule.name}, once ..."])
    said.daemon = True
    said.start()
    try:
        return compile_entry(own, arguments, cache=_is_importable(rule.State))
    finally:
        said.cancel()


def _name(kind, rule, params, dtype, arguments):
    """The name of the compiled function: what it contains decides on its cache file."""
    classes = [value for value in _flat(_classes((arguments[0], arguments[1], params))) if isinstance(value, type)]
    content = digest([bound(rule)[kind]], classes)
    readable = re.sub(r"\W", "_", f"{rule.name}_{type(params.dynamics).__name__}_{dtype.name}")
    return f"{kind}_{readable}_{content}"


def _classes(value):
    """The classes of nested named tuples."""
    return (type(value), *map(_classes, value)) if isinstance(value, tuple) else type(value)


def _flat(value):
    return [part for parts in value for part in _flat(parts)] if isinstance(value, tuple) else [value]


def _is_importable(cls: type) -> bool:
    """Whether another process finds this very class by its name."""
    if cls.__module__ == "__main__":
        return False
    try:
        found: Any = importlib.import_module(cls.__module__)
        for name in cls.__qualname__.split("."):
            found = getattr(found, name)
    except (ImportError, AttributeError):
        return False
    return found is cls
