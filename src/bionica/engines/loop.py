"""The loop. Every network, every engine runs this one.

`run` takes one validated C-ordered block of mixtures through a network: settle, hand out the output, learn, repair.
With no rates it only settles (frozen weights). It allocates nothing per sample, releases the GIL, and returns a
status: how many samples went through before an output left the range of its numbers (all of them, if none did).

Numba caches the compiled loop on disk, in a file named after it. It does not notice an edit in the files that the loop calls,
and cannot read the file of a version whose types were elsewhere, so a digest of them all is part of the loop's name. And two
processes that compile different networks at once may write the same cache file (each then loads the other's machine code), so
every combination of network, dynamics and precision has a loop of its own name, and with it a file of its own.

A small network can have a loop compiled for its size (see `tailored`), which gives the same bits in less time. Such a loop is
compiled once blocks of many samples have spent `PAYS` seconds in the loop for all sizes, never in the midst of a live stream of
few samples at a time; from then on, and in later processes, it is found on disk and used at once.
"""

import functools
import hashlib
import threading
import time
import types
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import config

from ..networks.generic import hot, lanes
from ..networks.guards import EVERY
from ..networks.rule import finish, inspect, learn, repair, settle, workspace
from . import blocks as wide
from . import tailored
from .cuda import masked  # noqa: F401  (they register their rules)


def _digest():
    package = Path(__file__).parents[1]
    files = sorted([*(package / "networks").rglob("*.py"), *(package / "engines").rglob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


#: Seconds that blocks of at least `MANY` samples spend in the loop for all sizes before one is compiled for theirs.
PAYS = 20.0
MANY = 1024

_DIGEST = _digest()
_ENTRIES: dict[str, Any] = {}
_SPENT: dict[Any, float] = {}  # seconds in the loop for all sizes, by name and size
_COMPILING = threading.Lock()  # of threads that meet a network first, one compiles and the others wait


@hot
def step(state, work, params, X, t, rates, Y, limit):
    """Take X[t] through a network; False, and nothing is learned, if its output is beyond `limit` or no number."""
    y = work.y
    settle(state, work, params, X, t)
    within = True
    for i in range(y.shape[0]):
        within &= abs(y[i]) <= limit
    if not within:
        return False
    if Y.shape[0] > 0:
        for i in range(y.shape[0]):
            Y[t, i] = y[i]
    if rates.shape[0] > 0:
        learn(state, work, params, X, t, rates)
        repair(state, work, params)
    return True


def loop(state, work, params, X, rates, Y, limit):
    """Take the rows of X through a network; see `run`. Compiled below, and for a GPU in `gpu`."""
    for t in range(X.shape[0]):
        if not step(state, work, params, X, t, rates, Y, limit):
            return t
        if rates.shape[0] > 0 and state.t[0] % EVERY == 0:
            inspect(state, work, params)
    return X.shape[0]


# Without _nrt=False Numba counts references to every array of a state at every call, 1.5 us a sample at d = 3.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}


@functools.cache
def _compile(name):
    own = types.FunctionType(loop.__code__, loop.__globals__, name)
    own.__qualname__ = f"{name}_{_DIGEST}"
    own.__module__ = __name__
    return numba.njit(cache=True, **_OPTIONS)(own)


def _compile_for(name, state, k):
    inlined = numba.njit(forceinline=True, **_OPTIONS)(loop)
    return numba.njit(cache=True, **_OPTIONS)(tailored.write(state, workspace(state), k, inlined, f"{name}_{_DIGEST}"))


def largest_output(dtype: Any) -> float:
    """Return the largest output that passes: its square stays finite."""
    return float(np.sqrt(np.finfo(dtype).max)) / 16


def _name(state, params, dtype):
    """The name of the loop for all sizes: the types of its arguments follow from it and from what `run` asks of its caller."""
    layer = type(state.layer) if hasattr(state, "layer") else None
    return _joined(type(state), layer, type(params.dynamics), dtype)


@functools.cache
def _joined(rule, layer, dynamics, dtype):
    parts = [rule.__module__.rpartition(".")[2], layer and layer.__name__, dynamics.__name__, dtype.name]
    return "_".join(filter(None, parts))


def run(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> int:
    """Stream the rows of X through the network, learning in place.

    Parameters
    ----------
    state : State of a rule
        Changed in place if `rates` has rows, else left alone.
    params : Params of the same rule
    X : (n, k) C-ordered array of the state's dtype; writable and aligned, unless `wide.suits` it
    rates : (n, r) float64 array, or (0, r) for frozen weights
    Y : (n, d) array for the outputs, or (0, d) when nobody wants them

    Returns
    -------
    int
        Number of samples before the first whose output left the range of its dtype; `len(X)` if all is well.
    """
    n, k = X.shape
    if not wide.suits(state, n, k):
        return _run(state, params, X, rates, Y)
    learning, keeping = rates.shape[0] > 0, Y.shape[0] > 0
    inside = wide.unguarded(state, params)
    for rows in wide.cut(state, n, wide.rows(k, state.fired.size, X.itemsize)):
        with np.errstate(all="ignore"):  # what leaves the range of its numbers is told by the status
            small = wide.shrink(state, X[rows], learning) or wide.Small(state, np.array(X[rows]), lambda: None)
            done = _run(small.state, inside, small.X, rates[rows] if learning else rates, Y[rows] if keeping else Y)
            small.back()
            if done < rows.stop - rows.start:
                return int(rows.start) + done
            if learning and wide.due(state, params):
                _inspect_alone(state, params)
    return len(X)


def tailor(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> bool:
    """Compile the loop for the size of this network now; False if it is not small. Arguments as for `run`, without rows too."""
    size = _name_for(_name(state, params, X.dtype), state, X.shape[1])
    if size:
        _entry(size, lambda: _compile_for(size, state, X.shape[1]), state, params, X, rates, Y)
    return bool(size)


def _run(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> int:
    call = state, params, X, rates, Y
    work = workspace(state)
    name = _name(state, params, X.dtype)
    size = _name_for(name, state, X.shape[1]) if len(X) >= MANY else ""
    if size and _pays(name, size):
        tailor(*call)
    entry = _ENTRIES.get(size) or _entry(name, lambda: _compile(name), *call)
    started = time.perf_counter()
    with np.errstate(all="ignore"):  # with the JIT off, as it is without
        done = entry(state, work, params, X, rates, Y, largest_output(X.dtype))
    if size:
        _SPENT[size] += time.perf_counter() - started
    if rates.shape[0] > 0:
        state.repairs[:] += work.ws.events
        finish(state, params)
    return int(done)


def _inspect_alone(state: Any, params: Any) -> None:
    """The guards that `wide.unguarded` left out."""
    work = workspace(state)
    with _COMPILING:
        _compiled_inspection()(state, work, params)
    state.repairs[:] += work.ws.events
    finish(state, params)


def _inspect(state, work, params):
    inspect(state, work, params)


@functools.cache
def _compiled_inspection():
    return numba.njit(**_OPTIONS)(_inspect)


def _name_for(name, state, k):
    """The name of the loop for the size of this network; empty where there is none."""
    sizes = None if config.DISABLE_JIT else tailored.shapes(state, k)
    return "" if sizes is None else f"{name}_{hashlib.sha256(repr(sizes).encode()).hexdigest()[:8]}"


def _pays(name, size):
    """Whether a loop for this size is on disk, or the loop for all sizes has taken so long that one pays."""
    if size not in _SPENT:
        on_disk = any(Path(_compile(name).stats.cache_path).glob(f"*{size}_{_DIGEST}*.nbi"))
        _SPENT[size] = PAYS if on_disk else 0.0
    return size not in _ENTRIES and _SPENT[size] >= PAYS


def _entry(name, make, state, params, X, rates, Y):
    """The compiled loop of this name."""
    if name not in _ENTRIES:
        with _COMPILING, lanes():
            if name not in _ENTRIES:
                compiled = make()
                compiled(state, workspace(state), params, X[:0], rates[:0], Y[:0], largest_output(X.dtype))
                # Numba would look up the types of every argument at every call.
                overloads = getattr(compiled, "overloads", None)
                _ENTRIES[name] = next(iter(overloads.values())).entry_point if overloads else compiled
    return _ENTRIES[name]
