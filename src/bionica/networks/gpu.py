"""Many networks at once on a GPU: the same rules and the same steps, one thread a network.

The sizes of everything that a thread keeps must be known to the compiler: for every combination of rule and sizes `kernel` writes
the few lines that load a state, and Numba compiles them with `stream.step` and the rules inside. Outputs are compared with the
sources at once, a few samples at a time, and only sums of squared differences leave the card.

Small networks are kept in registers, which have no address: loops over neurons are unrolled (see `unrolled`), neurons settle by
masks (see `masked`), and what is rare and needs addresses, the guards of every 100 samples and samples that masks do not settle,
works on a copy in the thread's local memory, `home`. Other networks live there altogether.

On a machine without a card the kernels run in Numba's simulator (NUMBA_ENABLE_CUDASIM=1).
"""

import functools
import time
from typing import Any, NamedTuple

import numpy as np

from .compiled import cold
from .guards import EVERY
from .masked import Masked, Pivoted
from .pivoting import Exact
from .rule import inspect, workspace
from .stream import largest_output, step
from .unrolled import unrolled

#: Samples that go through the loop between two looks at the errors; their outputs are local too.
STRIDE = 8
#: Samples after which sums in single precision are added to those in double precision.
FLUSH = 1024
#: Neurons up to which a network is kept in registers and settles by masks.
MASKED = 10
#: Neurons from which the threads of a block wait for each other at every sample. A step is then too long for the cache of
#: instructions, and threads that are at the same place fetch them once (measured: d = 10 gains a tenth, d = 3 loses a quarter).
TOGETHER = 7
#: Matrices that are symmetric: of those in registers only the lower triangle is kept.
SYMMETRIC = ("W_zz", "W_yy", "M")


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


def prepare(batch: Batch, block: int = 128, blocks: int = 0) -> Prepared:
    """Compile for a batch and send it; `block` threads in a block, `blocks` of them (0: one thread a network)."""
    from numba import cuda

    n, (_, T, _), d = len(batch.states), batch.X.shape, batch.S.shape[2]
    block = min(block, n)
    pairs = [_for_card(*pair) for pair in zip(batch.states, batch.params, strict=True)]
    arrays = [np.stack(same, axis=-1) for same in zip(*(_leaves(state) for state, _ in pairs), strict=True)]
    numbers = np.array([[float(x) for x in _numbers(params)] for _, params in pairs]).T.reshape(-1, n)
    compiled = kernel(*kind(batch.states[0], batch.params[0]), d, batch.X.dtype.name)
    on_card = [cuda.to_device(np.ascontiguousarray(a)) for a in (*arrays, numbers.astype(batch.X.dtype))]
    X, S, data, *shared = [cuda.to_device(np.ascontiguousarray(a)) for a in batch[2:]]
    noted = cuda.to_device(np.zeros((len(batch.times), d, d, n)))
    done, repairs = cuda.to_device(np.full(n, T)), cuda.to_device(np.zeros(n, np.int64))
    rest = (*shared, noted, done, repairs, batch.X.dtype.type(largest_output(batch.X.dtype)), STRIDE, *on_card)
    with unrolled():
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
    work = workspace(state)
    state, params = _for_card(state, params)
    return _kind(state), _kind(work), _kind(params)


def _for_card(state, params):
    """A state and parameters as they go to the card: small networks settle by masks, and need no inverse."""
    if isinstance(params.dynamics, Exact) and len(state.fired) <= MASKED:
        return _without_inverse(state), params._replace(dynamics=Masked(params.dynamics.eps))
    return state, params


def _without_inverse(state):
    if isinstance(state, np.ndarray):
        return state
    parts = {name: _without_inverse(part) for name, part in zip(state._fields, state, strict=True)}
    return type(state)(**{**parts, **({"H": state.H[:0]} if "H" in parts else {})})


# ---------------------------------------------------------------------------------------------- parts of the kernel


@cold
def careful_step(state, work, params, X, t, rates, Y, limit):
    """`step` for a network that is in memory."""
    return step(state, work, params, X, t, rates, Y, limit)


@cold
def look(state, work, params):
    """Inspect a network that is in memory."""
    inspect(state, work, params)


@cold
def add_rows(S, Y, rows, part):
    """Add (s_i - y_j)^2 over the first rows."""
    for row in range(rows):
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] += (S[row, i] - Y[row, j]) * (S[row, i] - Y[row, j])


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
    """Writes expressions that build named tuples of local arrays, and the lines that allocate, fill and copy them."""

    def __init__(self, names):
        self.names = names
        self.lines = []
        self.loaded = []
        self.local = 0
        self.number = 0

    def tuple_of(self, kind, load, field=""):
        """Return the expression for a named tuple of arrays; from the arguments a0, a1, ... if `load`, else of zeros."""
        if not isinstance(kind[0], type):
            return self.array(*kind, load, field)
        parts = (self.tuple_of(part, load, field) for field, part in zip(kind[0]._fields, kind[1], strict=True))
        return f"{self.name(kind[0])}({', '.join(parts)})"

    def array(self, shape, dtype, load, field):
        name = self.allocate(shape, dtype)
        if load:
            value = f"a{len(self.loaded)}[{{}}, n]"
            self.loaded.append((name, field, shape))
        self.fill(name, shape, value if load else "0")
        return name

    def allocate(self, shape, dtype):
        name = f"x{self.local}"
        self.local += 1
        size = tuple(max(1, length) for length in shape)
        self.lines.append(f"{name} = cuda.local.array({size}, np.{'bool_' if dtype == 'bool' else dtype})")
        if 0 in shape:
            self.lines.append(f"{name} = {name}[:0]")
        return name

    def fill(self, name, shape, value, symmetric=False):
        """name[i0, i1] = value, with {} in `value` for the indices; if `symmetric`, from the lower triangle."""
        if 0 in shape:
            return
        index = ", ".join(f"i{axis}" for axis in range(len(shape)))
        for axis, length in enumerate(shape):
            self.lines.append("    " * axis + f"for i{axis} in range({length}):")
        target = f"if i1 <= i0: {name}[{index}] = {name}[i1, i0]" if symmetric else f"{name}[{index}]"
        self.lines.append("    " * len(shape) + f"{target} = {value.format(index)}")

    def params(self, kind, dynamics=None):
        """Return the expression for the parameters: switches as they are, numbers from the array `numbers`."""
        if isinstance(kind, tuple):
            parts = ", ".join(self.params(part, dynamics) for part in kind[1])
            return f"{self.name(dynamics if dynamics and kind[0] is Masked else kind[0])}({parts})"
        if isinstance(kind, bool):
            return str(kind)
        self.number += 1
        value = f"numbers[{self.number - 1}, n]"
        return f"int({value})" if kind == "int" else value

    def name(self, cls):
        name = f"{cls.__module__.rpartition('.')[2]}_{cls.__name__}"
        self.names[name] = cls
        return name

    def in_registers(self, state, work, params):
        """Write what keeps a copy of `home` in registers, and copies it back and forth."""
        at_home, self.loaded = self.loaded, []
        made = {"state": self.tuple_of(state, load=True), "work": self.tuple_of(work, load=False)}
        made["allocate"] = self.text(8)
        pairs = list(zip(self.loaded, at_home, strict=True))
        for (name, _, shape), (home, *_) in pairs:
            self.fill(name, shape, f"{home}[{{}}]")
        made["from_home"] = self.text(20)
        for (name, field, shape), (home, *_) in pairs:
            self.fill(home, shape, f"{name}[{{}}]", field in SYMMETRIC)
        made["to_home"] = self.text(20)
        self.number = 0
        return {
            **made,
            "params": self.params(params),
            "counted": "home.repairs[i] + home_work.ws.events[i] + work.ws.events[i]",
        }

    def text(self, indent):
        """Hand out the lines written so far."""
        lines, self.lines = self.lines, []
        return ("\n" + " " * indent).join(lines or ["pass"])


_TEXT = """
def kernel(X, S, data, rates, schedule, times, noted, done, repairs, limit, stride, {arguments}):
    T = X.shape[1]
    d = S.shape[2]
    Y = cuda.local.array(({stride}, {d}), np.{dtype})
    part = cuda.local.array(({d}, {d}), np.{dtype})
    for first in range(cuda.blockIdx.x * cuda.blockDim.x, data.shape[0], cuda.gridsize(1)):
        alive = first + cuda.threadIdx.x < data.shape[0]
        n = min(first + cuda.threadIdx.x, data.shape[0] - 1)
        {load}
        home = {home}
        home_work = {home_work}
        careful = {careful}
        {allocate}
        state = {state}
        work = {work}
        params = {params}
        for i in range(d):
            for j in range(d):
                part[i, j] = 0
        due = {every} - home.t[0] % {every}
        note = 0
        summed = 0
        t = 0
        while t < T:
            rows = min(stride, times[note] - t)
            mixtures = X[data[n], t:]
            etas = rates[schedule[n], t:]
            for row in range(np.uint64(rows)):  # whose numbers cannot be negative: no check
                {together}
                if not alive:
                    continue
                settled = step(state, work, params, mixtures, row, etas, Y, limit)
                due -= 1
                if not settled or due == 0:
                    {to_home}
                    if not settled:
                        alive = careful_step(home, home_work, careful, mixtures, row, etas, Y, limit)
                        if not alive:
                            done[n] = t + np.int64(row)
                    if due == 0:
                        due = {every}
                        look(home, home_work, careful)
                    {from_home}
            sources = S[data[n], t:]
            if not alive:
                pass
            elif rows == {stride}:
                for pair in range(d // {pair}):  # outputs that are read once for two sources
                    for q in range({pair}):
                        i = {pair} * pair + q
                        for j in range({d}):
                            s = part[i, j]
                            for p in range({stride}):
                                difference = sources[p, i] - Y[p, j]
                                s += difference * difference
                            part[i, j] = s
            else:
                add_rows(sources, Y, rows, part)
            t += rows
            summed += rows
            if alive and (summed >= {flush} or t == times[note]):
                summed = 0
                for i in range(d):
                    for j in range(d):
                        noted[note, i, j, n] += part[i, j]
                        part[i, j] = 0
            if t == times[note]:
                note += 1
        total = 0
        for i in range(work.ws.events.shape[0]):
            total += {counted}
        repairs[n] = total
"""


@functools.cache
def kernel(state, work, params, d, dtype):
    """Return the compiled kernel for networks of this kind."""
    from numba import cuda
    from numba.core import config

    functions = {f.__name__: f for f in (step, careful_step, look, add_rows)}
    names: dict[str, Any] = {"cuda": cuda, "np": np, **functions}
    writer = _Writer(names)
    parts = {"home": writer.tuple_of(state, load=True), "home_work": writer.tuple_of(work, load=False)}
    parts |= {"careful": writer.params(params, Pivoted), "load": writer.text(8)}
    arguments = [f"a{i}" for i in range(len(writer.loaded))]
    parts |= {
        "state": "home",
        "work": "home_work",
        "params": "careful",
        "counted": "home.repairs[i] + home_work.ws.events[i]",
    }
    parts |= dict.fromkeys(["allocate", "to_home", "from_home"], "pass")
    if params[1][0][0] is Masked:
        parts |= writer.in_registers(state, work, params)
    parts["together"] = "cuda.syncthreads()" if d >= TOGETHER else "pass"
    text = _TEXT.format(
        arguments=", ".join([*arguments, "numbers"]),
        stride=STRIDE,
        every=EVERY,
        flush=FLUSH,
        d=d,
        pair=2 - d % 2,
        dtype=dtype,
        **parts,
    )
    exec(compile(text, f"<{state[0].__module__} on a GPU>", "exec"), names)
    options = {} if config.ENABLE_CUDASIM else {"lto": False}  # linking again would forget `fastmath`
    return cuda.jit(fastmath=True, **options)(names["kernel"])
