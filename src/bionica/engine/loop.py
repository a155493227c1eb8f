"""The loop, which every network runs (see `learner`).

It takes the rows of a C-ordered block through a network: settle, return the output,
learn, repair. Without rates it only settles (frozen weights). It allocates nothing per
sample and releases the GIL.

A loop is compiled for each combination of rule, types of its parameters and precision,
and cached on disk in a file of its own. The file's name contains a digest of all the
source that the loop may reach (see `digest`), so that an edited or redefined rule is
compiled again. A rule that is typed into a notebook is compiled in memory.
"""

import functools
import hashlib
import linecache
import logging
import re
import sys
import threading
import types
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numba
import numpy as np

from bionica.core.blas import one_blas_thread
from bionica.engine.algebra import averaging_weight
from bionica.engine.jit import COMPILING, TYPING_ERROR, compile_entry
from bionica.engine.rule import (
    BOOKKEEPING,
    COMPILED,
    INSPECT_EVERY,
    Rule,
    hot,
    in_buffers,
    rule_of,
    to_arrays,
)

_LOG = logging.getLogger("bionica")
#: A compilation that takes longer than this many seconds is announced.
_PATIENCE = 2.0
#: Compiled loops by rule, types of its parameters and precision.
_ENTRIES: dict[Any, Any] = {}
#: In place of learning rates: the weights are frozen.
NO_RATES = np.empty((0, 1))


# --- compiled


def step(state, work, params, X, row, rates, Y, limit):
    """Take X[row] through a network; False, and nothing is learned, if its output is
    NaN or beyond `limit`.
    """
    y = work.y
    # settle and the other names that ruff does not know: see `specialize`
    settle(state, work, params, X, row)  # noqa: F821
    within = True
    for i in range(y.shape[0]):
        within &= abs(y[i]) <= limit
    if not within:
        return False
    if Y.shape[0] > 0:
        for i in range(y.shape[0]):
            Y[row, i] = y[i]
    if rates.shape[0] > 0:
        state.t[0] += 1
        eta = rate(state, work, params, X, row, rates)  # noqa: F821
        learn(state, work, params, X, row, eta)  # noqa: F821
        track(state, work, params, eta)  # noqa: F821
        if params.average > 0:
            weight = averaging_weight(min(state.t[0], params.average))
            average(state, weight)  # noqa: F821
        flip(state, work, params)  # noqa: F821
    return True


def loop(state, work, params, X, start, rates, Y, limit):
    """Take the rows of X from `start` on through a network.

    Returns the first row that was not taken: the one before which maintenance is due,
    or ~row if the output of that row is beyond `limit`.
    """
    for row in range(start, X.shape[0]):
        if rates.shape[0] > 0 and is_due(state, params):  # noqa: F821
            return row
        if not step(state, work, params, X, row, rates, Y, limit):
            return ~row
        if rates.shape[0] > 0 and state.t[0] % INSPECT_EVERY == 0:
            inspect(state, work, params)  # noqa: F821
    return X.shape[0]


def specialize(rule: Rule, name: str) -> types.FunctionType:
    """Return the loop for a rule, under this name: a copy whose globals hold the
    functions of the rule.
    """
    scope = globals() | {each: hot(getattr(rule, each)) for each in COMPILED}
    scope["step"] = hot(types.FunctionType(step.__code__, scope, "step"))
    own = types.FunctionType(loop.__code__, scope, name)
    own.__qualname__ = name
    own.__module__ = __name__
    return own


# --- called


@functools.cache
def largest_output(dtype: Any) -> float:
    """Return the largest output that passes: its square stays finite."""
    return float(np.sqrt(np.finfo(dtype).max)) / 16


def prepare(state: Any, params: Any, X: np.ndarray) -> Callable[..., int]:
    """Return `take_rows` with the loop that is compiled for arguments of these types,
    and scratch arrays for this state.

    It is called with the state, params, X (n, k), rates (n, r) or NO_RATES, and Y (n,
    d) for the outputs or (0, d); compiled code checks neither shapes nor dtypes.
    """
    rule = rule_of(state)
    if rule.step is not None:
        return functools.partial(take_rows_plainly, rule)
    _check_fields(rule, params)
    work = rule.workspace(state)
    key = rule, numba.typeof(params), X.dtype
    if key not in _ENTRIES:
        _check_fields(rule, work)
        Y = np.empty((0, state.fired.size), X.dtype)
        empty = (state, work, params, X[:0], 0, NO_RATES, Y, largest_output(X.dtype))
        # if several threads meet a network first, one compiles and the others wait
        with COMPILING:
            if key not in _ENTRIES:
                _ENTRIES[key] = _compile(*key, empty)
    return functools.partial(take_rows, _ENTRIES[key], work, rule.maintain)


def _check_fields(rule: Rule, record: Any) -> None:
    """Raise TypeError if Params or Work of a rule hold what compiled code does not
    take.
    """
    for name, value in zip(record._fields, record, strict=True):
        if hasattr(value, "_fields"):
            _check_fields(rule, value)
        elif not isinstance(value, int | float | str | np.generic | np.ndarray | None):
            raise TypeError(
                f"{type(record).__name__}.{name} of the rule {rule.name!r} is a"
                f" {type(value).__name__}: compiled code takes numbers, arrays and"
                " NamedTuples of these"
            )


def take_rows(
    entry: Any,
    work: Any,
    maintain: Any,
    state: Any,
    params: Any,
    X: np.ndarray,
    rates: np.ndarray,
    Y: np.ndarray,
) -> int:
    """Run the compiled loop; returns the number of rows before an output left the range
    of its dtype.
    """
    n = len(X)
    done = 0
    limit = largest_output(X.dtype)
    work.ws.events[:] = 0
    while 0 <= (done := entry(state, work, params, X, done, rates, Y, limit)) < n:
        with one_blas_thread(), np.errstate(all="ignore"):
            maintain(state, params)
    if len(rates):
        state.repairs[:] += work.ws.events
    return int(done if done >= 0 else ~done)


def take_rows_plainly(
    rule: Rule, state: Any, params: Any, X: np.ndarray, rates: np.ndarray, Y: np.ndarray
) -> int:
    """Run a rule in plain NumPy, whose `params` are a dict; returns what `take_rows`
    does.

    Without rates every row begins with the same state, which is not changed.
    """
    limit = largest_output(X.dtype)
    learns = len(rates) > 0
    X = X.view()
    X.flags.writeable = False  # it may be the user's
    state, buffers = (state, []) if learns else in_buffers(state)
    before = [buffer.copy() for buffer in buffers]
    arrays = to_arrays(state)
    for name in BOOKKEEPING.keys() - {"fired"}:
        del arrays[name]
    with np.errstate(all="ignore"):
        for row, x in enumerate(X):
            names = Names(arrays, **params, t=int(state.t[0]), seed=int(state.rng[0]))
            try:
                y = rule.step(names, x, rates[row, 0] if learns else 0.0)
            except np.linalg.LinAlgError as error:
                raise RuntimeError(
                    f"step of {rule.name} failed at sample {int(state.t[0])}: {error}"
                ) from error
            if np.shape(y) != state.fired.shape:
                raise ValueError(
                    f"step of {rule.name} returned an array of shape {np.shape(y)}:"
                    f" return the {state.fired.size} outputs"
                )
            if not (np.abs(y) <= limit).all():
                return row
            if len(Y):
                Y[row] = y
            state.t[0] += learns
            for name, array in arrays.items():
                if names[name] is not array:  # state["W"] = ... in place of +=
                    array[...] = names[name]
            for buffer, saved in zip(buffers, before, strict=True):
                buffer[:] = saved
    return len(X)


class Names(dict[str, Any]):
    """What a step knows by name: arrays of the state, parameters, t (samples before
    this one), and rng (another for each t).
    """

    def __missing__(self, name: str) -> Any:
        if name != "rng":
            raise KeyError(f"{name}: the network has {sorted(self)}, and rng")
        return self.setdefault("rng", np.random.default_rng([self["seed"], self["t"]]))


# --- compilation


def _compile(rule, types_of_params, dtype, arguments):
    """Compile the loop for a rule, and return what to call."""
    functions = [getattr(rule, each) for each in COMPILED]
    content = digest(str(types_of_params), loop, *functions)
    name = re.sub(r"\W", "_", f"loop_{rule.name}_{dtype.name}_{content}")
    own = specialize(rule, name)
    timer = threading.Timer(_PATIENCE, announce, [f"compiling {rule.name}, once ..."])
    timer.daemon = True
    timer.start()
    try:
        return compile_entry(own, arguments, cache=rule.learn.__module__ != "__main__")
    except TYPING_ERROR as error:
        text = str(error)
    finally:
        timer.cancel()
    raise _mistake(rule, own, arguments, text)


def announce(text: str) -> None:
    """Log, and write to standard error in an interactive session where the log has no
    handler.
    """
    _LOG.info(text)
    is_logged = _LOG.hasHandlers() and _LOG.isEnabledFor(logging.INFO)
    if hasattr(sys, "ps1") and not is_logged:
        sys.stderr.write(f"bionica: {text}\n")
        sys.stderr.flush()


def _mistake(rule: Rule, function: Any, arguments: Any, text: str) -> Exception:
    """What is wrong with a rule that Numba refuses in about a hundred lines.

    A mistake that is one in Python too is raised as Python shows it, by taking one
    sample through the loop without compiling.
    """
    state, work, params, X, _, _, Y, limit = arguments
    ones = np.ones((1, X.shape[1]), X.dtype)
    rates = np.zeros((1, 8))
    function(*deepcopy((state, work)), params, ones, 0, rates, Y, limit)
    codes = [(getattr(rule, name).__code__, name) for name in COMPILED]
    for file, line in re.findall(r"at (.+) \((\d+)\)", text):  # the innermost first
        before = [
            (code.co_firstlineno, name)
            for code, name in codes
            if code.co_filename == file and code.co_firstlineno <= int(line)
        ]
        if before:
            name = max(before)[1]
            return TypeError(
                f"{name} of the rule {rule.name!r} cannot be compiled: {file}, line"
                f" {line}: {linecache.getline(file, int(line)).strip()}\nCompiled"
                " functions loop over indices and allocate nothing. In plain NumPy"
                " write a bionica.circuits.plain.PlainNetwork"
            )
    return TypeError(f"the rule {rule.name!r} cannot be compiled: {text}")


def digest(text: str, *functions: Any) -> str:
    """Return a digest of a text, of the source files that these functions may reach,
    and of their own code.

    Numba's disk cache notices an edit of the file that a function is defined in, and of
    no other. Files are those of the modules of the functions and of all modules that
    these import from, without Python's own and other installed packages.
    """
    content = hashlib.sha256(text.encode())
    packages = {function.__module__.partition(".")[0] for function in functions}
    files = set()
    waiting = [function.__module__ for function in functions]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        package = name.partition(".")[0]
        installed = package in sys.stdlib_module_names or "-packages" in str(file)
        if file is None or file in files or (installed and package not in packages):
            continue
        files.add(file)
        for value in list(vars(module).values()):
            is_module = isinstance(value, types.ModuleType)
            origin = "__name__" if is_module else "__module__"
            waiting.append(str(getattr(value, origin, "")))
    for file in sorted(files):
        content.update(Path(file).read_bytes())
    for function in functions:
        code = function.__code__
        constants = [
            each for each in code.co_consts if not isinstance(each, types.CodeType)
        ]
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        content.update(repr([code.co_code, constants, cells]).encode())
    return content.hexdigest()[:16]
