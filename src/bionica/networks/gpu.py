"""Many networks at once on a GPU: the same rules and the same loop, one thread a network.

A thread keeps its network in local memory, whose sizes the compiler must know: for every combination of rule and sizes `kernel`
writes the few lines that load a state, and Numba compiles them with `stream.loop` and the rules inside. Outputs are compared
with the sources at once, a few samples at a time, and only sums of squared differences leave the card.

On a machine without a card the kernels run in Numba's simulator (NUMBA_ENABLE_CUDASIM=1).
"""

import functools
import time
from typing import Any, NamedTuple

import numpy as np

from .pivoting import Exact, Masked
from .rule import workspace
from .stream import largest_output, loop

#: Samples that go through the loop between two looks at the errors; their outputs are local too.
STRIDE = 8
#: Samples after which sums in single precision are added to those in double precision.
FLUSH = 1024
#: Neurons up to which a thread settles by masks.
MASKED = 6


class Batch(NamedTuple):
    """Networks of one kind and size, and what they learn from.

    Attributes
    ----------
    states : list of State
    params : list of Params
    X : array of shape (n_data, T, k)
    S : array of shape (n_data, T, d)
        Sources.
    data : int array
        Which data each network learns from.
    rates : array of shape (n_schedules, T, r)
    schedule : int array
        Which learning rates each network has.
    times : int64 array
        Numbers of samples after which the sums are noted, in order; the last is T.
    """

    states: list[Any]
    params: list[Any]
    X: np.ndarray
    S: np.ndarray
    data: np.ndarray
    rates: np.ndarray
    schedule: np.ndarray
    times: np.ndarray


class Found(NamedTuple):
    """What comes back.

    Attributes
    ----------
    noted : float64 array of shape (n_times, d, d, n)
        Sums of (s_i - y_j)^2 at the times.
    done : int64 array of shape (n,)
        Samples before the first whose output left the range of its numbers; T if all is well.
    repairs : int64 array of shape (n,)
    """

    noted: np.ndarray
    done: np.ndarray
    repairs: np.ndarray


class Prepared(NamedTuple):
    """A batch that is on the card."""

    compiled: Any
    grid: int
    block: int
    arguments: tuple[Any, ...]
    noted: Any
    done: Any
    repairs: Any


def prepare(batch: Batch, block: int = 64, blocks: int = 0) -> Prepared:
    """Compile for a batch and send it; `block` threads in a block, `blocks` of them (0: one thread a network)."""
    from numba import cuda

    n, (_, T, _), d = len(batch.states), batch.X.shape, batch.S.shape[2]
    state = batch.states[0]
    params = _together(state, batch.params[0])
    arrays = [np.stack(same, axis=-1) for same in zip(*(_leaves(s) for s in batch.states), strict=True)]
    numbers = np.array([[float(x) for x in _numbers(p)] for p in batch.params]).T.reshape(-1, n)
    compiled = kernel(*kind(state, params), d, batch.X.dtype.name)
    on_card = [cuda.to_device(np.ascontiguousarray(a)) for a in (*arrays, numbers.astype(batch.X.dtype))]
    X, S, data, *shared = [cuda.to_device(np.ascontiguousarray(a)) for a in batch[2:]]
    noted = cuda.to_device(np.zeros((len(batch.times), d, d, n)))
    done, repairs = cuda.to_device(np.full(n, T)), cuda.to_device(np.zeros(n, np.int64))
    rest = (*shared, noted, done, repairs, batch.X.dtype.type(largest_output(batch.X.dtype)), *on_card)
    compiled[1, block](X, S, cuda.to_device(np.zeros(0, np.int64)), *rest)  # on no network: compiles
    return Prepared(compiled, blocks or -(-n // block), block, (X, S, data, *rest), noted, done, repairs)


def launch(batches: list[Prepared]) -> float:
    """Run batches on the card at once, and return the seconds that it took."""
    from numba import cuda

    cuda.synchronize()
    started = time.perf_counter()
    for batch in batches:
        batch.compiled[batch.grid, batch.block, cuda.stream()](*batch.arguments)
    cuda.synchronize()
    return time.perf_counter() - started


def collect(batch: Prepared) -> Found:
    """Bring back what was found."""
    noted = np.cumsum(batch.noted.copy_to_host(), axis=0)
    return Found(noted, batch.done.copy_to_host(), batch.repairs.copy_to_host())


def kind(state: Any, params: Any) -> Any:
    """Return what a kernel depends on: networks with the same can go together."""
    return _kind(state), _kind(workspace(state)), _kind(_together(state, params))


def _together(state, params):
    """The parameters with the dynamics that is fastest on a GPU: masks pay for few neurons (measured: d = 3 yes, d = 10 no)."""
    if isinstance(params.dynamics, Exact) and len(state.fired) <= MASKED:
        return params._replace(dynamics=Masked(params.dynamics.eps))
    return params


# ---------------------------------------------------------------------------------------------- the kernel's text


def _leaves(value):
    """Every array of nested named tuples, in order."""
    return [value] if isinstance(value, np.ndarray) else [leaf for part in value for leaf in _leaves(part)]


def _numbers(value):
    """Every number of nested named tuples that is not a switch, in order."""
    if isinstance(value, tuple):
        return [number for part in value for number in _numbers(part)]
    return [] if isinstance(value, bool) else [value]


def _kind(value):
    """What the text of a kernel depends on: types, shapes and switches."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.name
    if isinstance(value, tuple):
        return type(value), tuple(_kind(part) for part in value)
    return value if isinstance(value, bool) else type(value).__name__


class _Writer:
    """Writes expressions that build named tuples of local arrays, and the lines that allocate and fill them."""

    def __init__(self, names):
        self.names = names
        self.lines = []
        self.loaded = 0
        self.local = 0
        self.number = 0

    def tuple_of(self, kind, load):
        """Return the expression for a named tuple of arrays; from the arguments a0, a1, ... if `load`, else of zeros."""
        if not isinstance(kind[0], type):
            return self.array(*kind, load)
        parts = ", ".join(self.tuple_of(part, load) for part in kind[1])
        return f"{self.name(kind[0])}({parts})"

    def array(self, shape, dtype, load):
        name = f"x{self.local}"
        self.local += 1
        source = f"a{self.loaded}"
        self.loaded += load
        empty = 0 in shape
        size = tuple(max(1, length) for length in shape)
        self.lines.append(f"{name} = cuda.local.array({size}, np.{'bool_' if dtype == 'bool' else dtype})")
        if empty:
            self.lines.append(f"{name} = {name}[:0]")
            return name
        index = [f"i{axis}" for axis in range(len(shape))]
        for axis, length in enumerate(shape):
            self.lines.append("    " * axis + f"for {index[axis]} in range({length}):")
        value = f"{source}[{', '.join(index)}, n]" if load else "0"
        self.lines.append("    " * len(shape) + f"{name}[{', '.join(index)}] = {value}")
        return name

    def params(self, kind):
        """Return the expression for the parameters: switches as they are, numbers from the array `numbers`."""
        if isinstance(kind, tuple):
            return f"{self.name(kind[0])}({', '.join(self.params(part) for part in kind[1])})"
        if isinstance(kind, bool):
            return str(kind)
        self.number += 1
        value = f"numbers[{self.number - 1}, n]"
        return f"int({value})" if kind == "int" else value

    def name(self, cls):
        name = f"{cls.__module__.rpartition('.')[2]}_{cls.__name__}"
        self.names[name] = cls
        return name


_TEXT = """
def kernel(X, S, data, rates, schedule, times, noted, done, repairs, limit, {arguments}):
    T = X.shape[1]
    for n in range(cuda.grid(1), data.shape[0], cuda.gridsize(1)):
        {load}
        state = {state}
        work = {work}
        params = {params}
        Y = cuda.local.array(({stride}, {d}), np.{dtype})
        part = cuda.local.array(({d}, {d}), np.{dtype})
        for i in range({d}):
            for j in range({d}):
                part[i, j] = 0
        mixtures = X[data[n]]
        sources = S[data[n]]
        etas = rates[schedule[n]]
        note = 0
        t = 0
        while t < T:
            stop = min(t + {stride}, times[note])
            passed = loop(state, work, params, mixtures[t:stop], etas[t:stop], Y, limit)
            if passed < stop - t:
                done[n] = t + passed
                break
            for row in range(passed):
                for i in range({d}):
                    for j in range({d}):
                        difference = sources[t + row, i] - Y[row, j]
                        part[i, j] += difference * difference
            t = stop
            if t % {flush} == 0 or t == times[note]:
                for i in range({d}):
                    for j in range({d}):
                        noted[note, i, j, n] += part[i, j]
                        part[i, j] = 0
            if t == times[note]:
                note += 1
        total = 0
        for i in range(work.ws.events.shape[0]):
            total += state.repairs[i] + work.ws.events[i]
        repairs[n] = total
"""


@functools.cache
def kernel(state, work, params, d, dtype):
    """Return the compiled kernel for networks of this kind."""
    from numba import cuda

    names: dict[str, Any] = {"cuda": cuda, "np": np, "loop": cuda.jit(device=True)(loop)}
    writer = _Writer(names)
    made = writer.tuple_of(state, load=True)
    text = _TEXT.format(
        arguments=", ".join([f"a{i}" for i in range(writer.loaded)] + ["numbers"]),
        state=made,
        work=writer.tuple_of(work, load=False),
        params=writer.params(params),
        load="\n        ".join(writer.lines),
        stride=STRIDE,
        flush=FLUSH,
        d=d,
        dtype=dtype,
    )
    exec(compile(text, f"<{state[0].__module__} on a GPU>", "exec"), names)
    return cuda.jit(names["kernel"])
