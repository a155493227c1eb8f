"""The loop. Every network, every engine runs this one.

`run` takes one validated C-ordered block of mixtures through a network: settle, hand out the output, learn, repair.
With no rates it only settles (frozen weights). It allocates nothing per sample, releases the GIL, and returns a
status: how many samples went through before an output left the range of its numbers (all of them, if none did).

Numba caches the compiled loop on disk, in a file named after it. It does not notice an edit in the files that the loop calls,
and cannot read the file of a version whose types were elsewhere, so a digest of them all is part of the loop's name. And two
processes that compile different networks at once may write the same cache file (each then loads the other's machine code), so
every combination of network, dynamics and precision has a loop of its own name, and with it a file of its own.
"""

import functools
import hashlib
import threading
import types
from pathlib import Path
from typing import Any

import numba
import numpy as np

from . import (  # noqa: F401  (they register their rules)
    interneuron,
    masked,
    natural_interneuron,
    natural_two_compartment,
    nonnegative_pca,
    two_compartment,
    two_layer_nsm,
    wide,
)
from .compiled import hot, lanes
from .guards import EVERY
from .rule import inspect, learn, repair, settle, workspace

# No "nnan" and "ninf": with them, isnan and comparisons lie about a network that diverged.
FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}


def _digest():
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


_DIGEST = _digest()
_ENTRIES: dict[str, Any] = {}
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


@functools.cache
def _compile(name):
    own = types.FunctionType(loop.__code__, loop.__globals__, name)
    own.__qualname__ = f"{name}_{_DIGEST}"
    own.__module__ = __name__
    # Without _nrt=False Numba counts references to every array of a state at every call, 1.5 us a sample at d = 3.
    return numba.njit(cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy", _nrt=False)(own)


def largest_output(dtype: Any) -> float:
    """Return the largest output that passes: its square stays finite."""
    return float(np.sqrt(np.finfo(dtype).max)) / 16


@functools.cache
def _name(kind):
    # The types of every argument follow from this name and from what `run` asks of its caller.
    rule, layer, dynamics, dtype = kind
    parts = [rule.__module__.rpartition(".")[2], dynamics.__name__, dtype.name]
    if layer is not None:
        parts.insert(1, layer.__name__)
    return "_".join(parts)


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
    for rows in wide.cut(state, params, n, wide.rows(k, state.fired.size, X.itemsize), learning):
        with np.errstate(all="ignore"):  # what leaves the range of its numbers is told by the status
            small = wide.shrink(state, X[rows], learning) or wide.Small(state, np.array(X[rows]), lambda: None)
            done = _run(small.state, params, small.X, rates[rows] if learning else rates, Y[rows] if keeping else Y)
            small.back()
        if done < rows.stop - rows.start:
            return int(rows.start) + done
    return len(X)


def _run(state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray) -> int:
    work = workspace(state)
    learning = rates.shape[0] > 0
    limit = largest_output(X.dtype)
    layer = type(state.layer) if hasattr(state, "layer") else None
    name = _name((type(state), layer, type(params.dynamics), X.dtype))
    entry = _ENTRIES.get(name)
    if entry is None:
        with _COMPILING, lanes():
            compiled = _compile(name)
            done = compiled(state, work, params, X, rates, Y, limit)
            if getattr(compiled, "overloads", None):  # Numba would look up the types of every argument at every call
                (result,) = compiled.overloads.values()
                _ENTRIES[name] = result.entry_point
    else:
        done = entry(state, work, params, X, rates, Y, limit)
    if learning:
        state.repairs[:] += work.ws.events
    return int(done)
