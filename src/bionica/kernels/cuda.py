"""Many networks at once on a GPU: the same rules and the same steps, one thread a network.

The sizes of everything that a thread keeps must be known to the compiler: for every combination of rule and sizes `_source` writes
the few lines that load a state, and Numba compiles them with `loop.step` and the rule inside. Kernels are cached on disk. Outputs
are compared with the sources at once, a few samples at a time, and only sums of squared differences leave the card.

Networks of few neurons are kept in registers, which have no address: neurons settle by masks (see `masked`). What is rare and needs
addresses, the guards of every 100 samples and samples that masks do not settle, works on a copy in the thread's local memory,
`local`. The compiler keeps arrays of more than 3 neurons in registers only if it is told to unroll all loops, see
`_compat.numba_cuda`: four times the speed at d = 10, and nothing at d = 3 (benchmarks/results/gpu.md).

On a machine without a card the kernels run in Numba's simulator (NUMBA_ENABLE_CUDASIM=1).
"""

import contextlib
import functools
import itertools
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._compat import numba_cuda
from .guards import EVERY
from .loop import bound, digest, largest_output
from .masked import Masked, Pivoted
from .rule import COMPILED, Rule, cold, rule_of, to_arrays
from .settling import Exact

#: Numbers of neurons with which the loops of a network are unrolled by force. Loops over fewer are unrolled anyway. More neurons
#: do not fit into registers; they settle as on the CPU.
UNROLLED = range(4, 11)
#: Samples that go through the loop between two looks at the errors; their outputs are local too.
STRIDE = 8
#: Samples after which sums in single precision are added to those in double precision.
FLUSH = 1024
#: Threads in a block.
THREADS = 128


class Batch(NamedTuple):
    """Networks of one kind and size, and what they learn from."""

    states: list[Any]
    params: list[Any]
    X: np.ndarray  # (n_data, T, k)
    S: np.ndarray  # (n_data, T, d), sources
    data: np.ndarray  # which data each network learns from
    rates: np.ndarray  # (n_schedules, T, r)
    schedule: np.ndarray  # which learning rates each network has
    times: np.ndarray  # numbers of samples after which the sums are noted, in order; the last is T


class Results(NamedTuple):
    """What comes back."""

    sums: np.ndarray  # (n_times, d, d, n): of (s_i - y_j)^2 up to the times; of a network that diverged, to be ignored
    done: np.ndarray  # samples before the first whose output left the range of its numbers; T if all is well
    repairs: np.ndarray
    seconds: float  # on the card


# ------------------------------------------------------------------------------------------ called


def prepare(batch: Batch) -> Callable[[], Results]:
    """Compile for a batch and send it to the card; return the function that runs it there."""
    cuda = numba_cuda.cuda()
    n, (_, T, _), d, dtype = len(batch.states), batch.X.shape, batch.S.shape[2], batch.X.dtype
    kernel = _compiled(rule_of(batch.states[0]), *_source(batch.states[0], batch.params[0], dtype))
    arrays = [
        np.stack(same, axis=-1) for same in zip(*(to_arrays(state).values() for state in batch.states), strict=True)
    ]
    numbers = np.array(
        [_numbers(_on_card(s, p)) for s, p in zip(batch.states, batch.params, strict=True)], dtype
    ).T.reshape(-1, n)
    X, S, data, *shared = [cuda.to_device(np.ascontiguousarray(a)) for a in batch[2:]]
    on_card = [cuda.to_device(np.ascontiguousarray(a)) for a in (numbers, *arrays)]
    limit = dtype.type(largest_output(dtype))

    def run(grid: int, data: Any) -> Results:
        results = (np.zeros((len(batch.times), d, d, n)), np.full(n, T), np.zeros(n, np.int64))
        there = [cuda.to_device(a) for a in results]
        cuda.synchronize()
        started = time.perf_counter()
        kernel[grid, min(THREADS, n)](X, S, data, *shared, *there, limit, *on_card)
        cuda.synchronize()
        seconds = time.perf_counter() - started
        sums, done, repairs = (a.copy_to_host() for a in there)
        return Results(np.cumsum(sums, axis=0), done, repairs, seconds)

    run(1, cuda.to_device(np.zeros(0, data.dtype)))  # on no network: compiles
    return functools.partial(run, -(-n // THREADS), data)


def compile_in_processes(batches: list[Batch]) -> None:
    """Compile the kernels of several kinds at once, each in a process, because Numba compiles one at a time."""
    from joblib import Parallel, cpu_count, delayed

    if len(batches) > 1 and not numba_cuda.simulated():
        with contextlib.suppress(Exception):  # then they are compiled in this process
            Parallel(min(len(batches), cpu_count()))(delayed(_compile)(batch) for batch in batches)


def _compile(batch: Batch) -> None:
    prepare(batch)


def kernel_signature(value: Any) -> Any:
    """Return what a kernel depends on, of nested named tuples: networks of the same kind, and parameters, can go together."""
    if isinstance(value, tuple):
        return type(value), *map(kernel_signature, value)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype
    return value if isinstance(value, bool) else type(value)


def _on_card(state, params, exactly=Masked):
    """Parameters as they go to the card, where this settles small networks exactly."""
    small = len(state.fired) < UNROLLED.stop
    masked = small and isinstance(params.dynamics, Exact)
    return params._replace(dynamics=exactly(params.dynamics.eps)) if masked else params


def _numbers(value):
    """Every number of nested named tuples that is not a switch, in order."""
    if isinstance(value, tuple):
        return [number for part in value for number in _numbers(part)]
    return [] if isinstance(value, bool) else [value]


# ------------------------------------------------------------------------------------------ the kernel


def slow_path(state, work, params, X, row, rates, Y, limit, settled, due):
    """What is rare, for a network that is in memory: `step`, if the sample has not settled, and guards if `due` is 0."""
    if not settled and not step(state, work, params, X, row, rates, Y, limit):  # noqa: F821  (of the rule)
        return False
    if due == 0:
        inspect(state, work, params)  # noqa: F821
    return True


_TEXT = """
def {name}(X, S, data, rates, schedule, times, sums, done, repairs, limit, numbers, {arguments}):
    T = X.shape[1]
    Y = cuda.local.array(({stride}, {d}), np.{dtype})
    part = cuda.local.array(({d}, {d}), np.{dtype})
    for n in range(cuda.grid(1), data.shape[0], cuda.gridsize(1)):
        {load}
        local = {local}
        local_work = {local_work}
        pivoted = {pivoted}
        state = {state}
        work = {work}
        params = {params}
        for i in range({d}):
            for j in range({d}):
                part[i, j] = 0
        due = {every} - local.t[0] % {every}
        alive = True
        note = 0
        t = 0
        while alive and t < T:
            rows = min({stride}, times[note] - t)
            mixtures = X[data[n], t:]
            etas = rates[schedule[n], t:]
            for row in range(np.uint64(rows)):  # whose numbers cannot be negative: no check
                settled = step(state, work, params, mixtures, row, etas, Y, limit)
                due -= 1
                if not settled or due == 0:
                    {to_local}
                    alive = slow_path(local, local_work, pivoted, mixtures, row, etas, Y, limit, settled, due)
                    {from_local}
                    if due == 0:
                        due = {every}
                    if not alive:
                        done[n] = t + np.int64(row)
                        break
            sources = S[data[n], t:]
            for i in range(S.shape[2]):
                for j in range({d}):
                    s = part[i, j]
                    for p in range({stride}):
                        if p < rows:
                            difference = sources[p, i] - Y[p, j]
                            s += difference * difference
                    part[i, j] = s
            t += rows
            if t % {flush} < rows or t == times[note]:
                for i in range(S.shape[2]):
                    for j in range({d}):
                        sums[note, i, j, n] += part[i, j]
                        part[i, j] = 0
            if t == times[note]:
                note += 1
        count = 0
        for i in range(work.ws.events.shape[0]):
            count += local.repairs[i] + local_work.ws.events[i] + work.ws.events[i]
        repairs[n] = count
"""


def _expression(value, leaf, names):
    """Write nested named tuples as an expression; `leaf` writes what they hold, `names` gets their classes."""
    if not isinstance(value, tuple):
        return leaf(value)
    name = f"{type(value).__module__.rpartition('.')[2]}_{type(value).__name__}"
    names[name] = type(value)
    return f"{name}({', '.join(_expression(part, leaf, names) for part in value)})"


def _assignments(name, shape, value, symmetric=False):
    """Lines for name[i0, i1] = value, with {} in `value` for the indices; if `symmetric`, from the lower triangle."""
    index = ", ".join(f"i{axis}" for axis in range(len(shape)))
    loops = ["    " * axis + f"for i{axis} in range({length}):" for axis, length in enumerate(shape)]
    target = f"if i1 <= i0: {name}[{index}] = {name}[i1, i0]" if symmetric else f"{name}[{index}]"
    return [*loops, "    " * len(shape) + f"{target} = {value.format(index)}"]


def _source(state: Any, params: Any, dtype: Any) -> tuple[str, tuple[tuple[str, Any], ...]]:
    """Return the kernel for such a network, and the classes that it names."""
    rule, d, on_card = rule_of(state), len(state.fired), _on_card(state, params)
    masked = isinstance(on_card.dynamics, Masked)
    work, load = rule.workspace(state), []
    names: dict[str, Any] = {}

    def arrays(value, prefix, content):
        """The expression, after lines that make its arrays prefix0, prefix1 ..., which hold content0, content1 ..."""
        count = itertools.count()

        def leaf(array):
            i = next(count)
            dtype = "bool_" if array.dtype == bool else array.dtype.name
            load.append(f"{prefix}{i} = cuda.local.array({array.shape}, np.{dtype})")
            load.extend(_assignments(f"{prefix}{i}", array.shape, content.format(i)))
            return f"{prefix}{i}"

        return _expression(value, leaf, names)

    def parameters(params):
        count = itertools.count()

        def number(value):
            if isinstance(value, bool):
                return str(value)
            return f"int(numbers[{next(count)}, n])" if isinstance(value, int) else f"numbers[{next(count)}, n]"

        return _expression(params, number, names)

    to_local, from_local = [], []
    for i, (field, array) in enumerate(to_arrays(state).items()):
        # Masks read no inverse, and of a symmetric matrix the lower triangle: the compiler omits what is not read.
        if not (masked and field in rule.inverses):
            to_local += _assignments(f"x{i}", array.shape, f"r{i}[{{}}]", masked and field in rule.symmetric)
            from_local += _assignments(f"r{i}", array.shape, f"x{i}[{{}}]")
    text = _TEXT.format(
        name=numba_cuda.UNROLLED if d in UNROLLED else "bionica", d=d, dtype=dtype.name,
        arguments=", ".join(f"a{i}" for i in range(len(to_arrays(state)))), stride=STRIDE, every=EVERY, flush=FLUSH,
        local=arrays(state, "x", "a{}[{{}}, n]"), local_work=arrays(work, "v", "0"),
        state=arrays(state, "r", "a{}[{{}}, n]"), work=arrays(work, "w", "0"),
        params=parameters(on_card), pivoted=parameters(_on_card(state, params, Pivoted)),
        load=("\n" + " " * 8).join(load),
        to_local=("\n" + " " * 20).join(to_local), from_local=("\n" + " " * 20).join(from_local),
    )  # fmt: skip
    return text, tuple(names.items())


@functools.cache
def _compiled(rule: Rule, text: str, classes: tuple[tuple[str, Any], ...]) -> Any:
    scope = bound(rule)
    rare = cold(types.FunctionType(slow_path.__code__, {**globals(), **scope}))
    names = {"np": np, "step": scope["step"], "slow_path": rare, **dict(classes)}
    content = digest(slow_path, *(getattr(rule, each) for each in COMPILED), text=text)
    function = text.split("(", 1)[0].split()[-1]
    return numba_cuda.compile_kernel(text, function, names, f"kernel_{rule.name}_{content}")
