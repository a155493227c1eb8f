"""Many networks at once on a GPU: the same rules and the same steps, one thread a network.

The sizes of everything that a thread keeps must be known to the compiler: for every combination of rule and sizes `_kernel` writes
the few lines that load a state, and Numba compiles them with `loop.step` and the rule inside. Kernels are cached on disk. Outputs
are compared with the sources at once, a few samples at a time, and only sums of squared differences leave the card.

Networks of at most 10 neurons are kept in registers, which have no address: neurons settle by masks (see `masked`). What is rare
and needs addresses, the guards of every 100 samples and samples that masks do not settle, works on a copy in the thread's local
memory, `local`. From 4 neurons on the compiler unrolls loops only if it is told to: `_unroll` is the one function that does it. It
gives five times the speed at d = 10, and nothing at d = 3.

On a machine without a card the kernels run in Numba's simulator (NUMBA_ENABLE_CUDASIM=1).
"""

import contextlib
import functools
import itertools
import re
import shutil
import time
import types
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._compat import numba_cuda
from ..networks.guards import EVERY
from ..networks.rule import Rule, cold, leaves, rule_of
from ..networks.settling import Exact
from .loop import bound, digest, largest_output
from .masked import Masked, Pivoted

#: Neurons up to which a network is kept in registers and settles by masks, and from which its loops are unrolled by force.
MASKED, UNROLLED = 10, 4
#: Samples that go through the loop between two looks at the errors; their outputs are local too.
STRIDE = 8
#: Samples after which sums in single precision are added to those in double precision.
FLUSH = 1024


def gpu_is_visible() -> bool:
    """Whether the driver shows a GPU as a device (Linux), or its tool nvidia-smi is installed (any system)."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or shutil.which("nvidia-smi") is not None


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


class Results(NamedTuple):
    """What comes back.

    Attributes
    ----------
    sums : float64 array of shape (n_times, d, d, n)
        Sums of (s_i - y_j)^2 at the times; NaN for a network that diverged.
    done : int64 array of shape (n,)
        Samples before the first whose output left the range of its numbers; T if all is well.
    repairs : int64 array of shape (n,)
    """

    sums: np.ndarray
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


# ------------------------------------------------------------------------------------------ called


def prepare(batch: Batch, block: int = 128, unrolled: bool = True) -> Prepared:
    """Compile for a batch and send it; `block` threads in a block. `unrolled` is for measuring what forced unrolling gains."""
    cuda = numba_cuda.cuda()
    n, (_, T, _), d = len(batch.states), batch.X.shape, batch.S.shape[2]
    block = min(block, n)
    arrays = [np.stack(same, axis=-1) for same in zip(*map(leaves, batch.states), strict=True)]
    params = [_on_card(state, params) for state, params in zip(batch.states, batch.params, strict=True)]
    numbers = np.array([[float(x) for x in _numbers(p)] for p in params]).T.reshape(-1, n)
    unrolled = unrolled and UNROLLED <= d <= MASKED
    compiled = _kernel(
        rule_of(batch.states[0]), *kind(batch.states[0], batch.params[0]), d, batch.X.dtype.name, unrolled
    )
    on_card = [cuda.to_device(np.ascontiguousarray(a)) for a in (*arrays, numbers.astype(batch.X.dtype))]
    X, S, data, *shared = [cuda.to_device(np.ascontiguousarray(a)) for a in batch[2:]]
    noted = cuda.to_device(np.zeros((len(batch.times), d, d, n)))
    done, repairs = cuda.to_device(np.full(n, T)), cuda.to_device(np.zeros(n, np.int64))
    rest = (*shared, noted, done, repairs, batch.X.dtype.type(largest_output(batch.X.dtype)), STRIDE, *on_card)
    with _unrolling() if unrolled else contextlib.nullcontext(), numba_cuda.row_stack():
        compiled[1, block](X, S, cuda.to_device(np.zeros(0, np.int64)), *rest)  # on no network: compiles
    return Prepared(compiled, -(-n // block), block, (X, S, data, *rest), noted, done, repairs)


def compile_in_processes(batches: list[Batch]) -> None:
    """Compile the kernels of several kinds at once, each in a process, because Numba compiles one at a time."""
    from joblib import Parallel, cpu_count, delayed

    few = [
        Batch(
            b.states[:1], b.params[:1], b.X[:1, :STRIDE], b.S[:1, :STRIDE], b.data[:1] * 0, b.rates[:1],
            b.schedule[:1] * 0, b.times,
        )
        for b in batches
    ]  # fmt: skip
    if len(few) > 1 and not numba_cuda.simulated():
        with contextlib.suppress(Exception):  # then they are compiled in this process
            Parallel(min(len(few), cpu_count()))(delayed(_compile)(batch) for batch in few)


def _compile(batch: Batch) -> None:
    prepare(batch)


def launch(batches: list[Prepared]) -> float:
    """Run batches on the card at once, and return the seconds that it took."""
    cuda = numba_cuda.cuda()
    cuda.synchronize()
    started = time.perf_counter()
    for batch in batches:
        batch.compiled[batch.grid, batch.block, cuda.stream()](*batch.arguments)
    cuda.synchronize()
    return time.perf_counter() - started


def collect(batch: Prepared) -> Results:
    """Bring back the results."""
    noted, done = np.cumsum(batch.noted.copy_to_host(), axis=0), batch.done.copy_to_host()
    noted[..., done < batch.arguments[0].shape[1]] = np.nan  # a caller that ignores `done` sees it
    return Results(noted, done, batch.repairs.copy_to_host())


def kind(state: Any, params: Any) -> Any:
    """Return what a kernel depends on: networks with the same can go together."""
    return _kind(state), _kind(rule_of(state).workspace(state)), _kind(_on_card(state, params))


def _on_card(state, params):
    """Parameters as they go to the card: small networks settle by masks."""
    if isinstance(params.dynamics, Exact) and len(state.fired) <= MASKED:
        return params._replace(dynamics=Masked(params.dynamics.eps))
    return params


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


# ------------------------------------------------------------------------------------------ the kernel


def careful_step(state, work, params, X, t, rates, Y, limit):
    """`step` for a network that is in memory."""
    return step(state, work, params, X, t, rates, Y, limit)  # noqa: F821  (of the rule)


def look(state, work, params):
    """Inspect a network that is in memory."""
    inspect(state, work, params)  # noqa: F821


_TEXT = """
def kernel(X, S, data, rates, schedule, times, noted, done, repairs, limit, stride, {arguments}):
    T = X.shape[1]
    d = S.shape[2]
    Y = cuda.local.array(({stride}, {d}), np.{dtype})
    part = cuda.local.array(({d}, {d}), np.{dtype})
    for n in range(cuda.grid(1), data.shape[0], cuda.gridsize(1)):
        {load}
        local = {local}
        local_work = {local_work}
        careful = {careful}
        state = {state}
        work = {work}
        params = {params}
        for i in range(d):
            for j in range(d):
                part[i, j] = 0
        due = {every} - local.t[0] % {every}
        alive = True
        note = 0
        summed = 0
        t = 0
        while alive and t < T:
            rows = min(stride, times[note] - t)
            mixtures = X[data[n], t:]
            etas = rates[schedule[n], t:]
            for row in range(np.uint64(rows)):  # whose numbers cannot be negative: no check
                settled = step(state, work, params, mixtures, row, etas, Y, limit)
                due -= 1
                if not settled or due == 0:
                    {to_local}
                    if not settled:
                        alive = careful_step(local, local_work, careful, mixtures, row, etas, Y, limit)
                        if not alive:
                            done[n] = t + np.int64(row)
                            break
                    if due == 0:
                        due = {every}
                        look(local, local_work, careful)
                    {from_local}
            sources = S[data[n], t:]
            for i in range(d):
                for j in range({d}):
                    s = part[i, j]
                    for p in range({stride}):
                        if p < rows:
                            difference = sources[p, i] - Y[p, j]
                            s += difference * difference
                    part[i, j] = s
            t += rows
            summed += rows
            if summed >= {flush} or t == times[note]:
                summed = 0
                for i in range(d):
                    for j in range(d):
                        noted[note, i, j, n] += part[i, j]
                        part[i, j] = 0
            if t == times[note]:
                note += 1
        total = 0
        for i in range(work.ws.events.shape[0]):
            total += local.repairs[i] + local_work.ws.events[i] + work.ws.events[i]
        repairs[n] = total
"""


def _build(kind, leaf, names, field=""):
    """The expression for nested named tuples; `leaf` writes what is none, `names` gets the classes."""
    if not (isinstance(kind, tuple) and isinstance(kind[0], type)):
        return leaf(kind, field)
    cls, parts = kind
    name = f"{cls.__module__.rpartition('.')[2]}_{cls.__name__}"
    names[name] = cls
    return f"{name}({', '.join(_build(part, leaf, names, f) for f, part in zip(cls._fields, parts, strict=True))})"


def _fill(name, shape, value, symmetric=False):
    """Lines for name[i0, i1] = value, with {} in `value` for the indices; if `symmetric`, from the lower triangle."""
    index = ", ".join(f"i{axis}" for axis in range(len(shape)))
    loops = ["    " * axis + f"for i{axis} in range({length}):" for axis, length in enumerate(shape)]
    target = f"if i1 <= i0: {name}[{index}] = {name}[i1, i0]" if symmetric else f"{name}[{index}]"
    return [*loops, "    " * len(shape) + f"{target} = {value.format(index)}"]


def _arrays(prefix, state, work, names):
    """Expressions for a state and its scratch arrays, the lines that allocate and load them, and what is loaded."""
    lines, loaded, count = [], [], itertools.count()

    def array(kind, field, load):
        (shape, dtype), name = kind, f"{prefix}{next(count)}"
        lines.append(f"{name} = cuda.local.array({shape}, np.{'bool_' if dtype == 'bool' else dtype})")
        lines.extend(_fill(name, shape, f"a{len(loaded)}[{{}}, n]" if load else "0"))
        if load:
            loaded.append((name, field, shape))
        return name

    expressions = [_build(kind, functools.partial(array, load=kind is state), names) for kind in (state, work)]
    return *expressions, lines, loaded


def _numbers_of(params, names):
    """The expression for parameters: switches as they are, numbers from the array `numbers`."""
    count = itertools.count()

    def number(kind, _):
        if isinstance(kind, bool):
            return str(kind)
        value = f"numbers[{next(count)}, n]"
        return f"int({value})" if kind == "int" else value

    return _build(params, number, names)


@functools.cache
def _kernel(rule: Rule, state: Any, work: Any, params: Any, d: int, dtype: str, unrolled: bool) -> Any:
    """Return the compiled kernel for networks of this rule and kind."""
    scope = bound(rule)
    names: dict[str, Any] = {"np": np, "step": scope["step"]}
    for function in (careful_step, look):
        names[function.__name__] = cold(types.FunctionType(function.__code__, {**globals(), **scope}))
    (dynamics, of_dynamics), *others = params[1]
    masked = dynamics is Masked
    careful = (params[0], ((Pivoted if masked else dynamics, of_dynamics), *others))
    local, local_work, lines, in_local = _arrays("x", state, work, names)
    fast, fast_work, more, in_registers = _arrays("r", state, work, names)
    to_local, from_local = [], []
    for (x, field, shape), (r, *_) in zip(in_local, in_registers, strict=True):
        # Inverses that only the exact solver reads are not read here: their copies cost nothing as long as nothing fills them.
        if not (masked and field in rule.inverses):
            from_local += _fill(r, shape, f"{x}[{{}}]")
            to_local += _fill(x, shape, f"{r}[{{}}]", masked and field in rule.symmetric)
    text = _TEXT.format(
        arguments=", ".join([*(f"a{i}" for i in range(len(in_local))), "numbers"]),
        load=("\n" + " " * 8).join(lines + more),
        to_local=("\n" + " " * 20).join(to_local),
        from_local=("\n" + " " * 20).join(from_local),
        local=local, local_work=local_work, careful=_numbers_of(careful, names),
        state=fast, work=fast_work, params=_numbers_of(params, names),
        stride=STRIDE, every=EVERY, flush=FLUSH, d=d, dtype=dtype,
    )  # fmt: skip
    content = digest(careful_step, rule.settle, rule.learn, rule.inspect, text=text)
    return numba_cuda.compile_kernel(text, names, f"{rule.name}_{content}{'_unrolled' if unrolled else ''}")


# ------------------------------------------------------------------------------------------ unrolling

_FUNCTION = re.compile(r'^define [^@]*@"([^"]+)".*?^}', re.MULTILINE | re.DOTALL)
_CALL = re.compile(r'\bcall [^@]*@"([^"]+)"')
_LABEL = re.compile(r'^"?([\w.]+)"?:')
_BRANCH = re.compile(r'^ +br label %"([^"]+)"$')


@contextlib.contextmanager
def _unrolling():
    """Compile with loops unrolled; a warning says if this version of numba-cuda does not allow it."""
    with numba_cuda.patched_compile_ir(_unroll) as possible:
        if not (possible or numba_cuda.simulated()):
            warnings.warn(
                "this version of numba-cuda compiles kernels without forced unrolling: networks of 4 to 10 sources run up to five "
                "times slower; bionica is tested with numba-cuda 0.30",
                stacklevel=3,
            )
        yield


def _unroll(modules):
    """Return the texts of LLVM modules with metadata for unrolling, and `noinline` where nothing is unrolled.

    An array is kept in registers only if every index is a constant. LLVM unrolls small loops by itself, and larger ones where
    metadata of the branch back to their beginning ask for it. Numba cannot write these: they are added to the text of its LLVM
    code, in the kernel and in the `hot` functions that are inlined into it. `cold` functions are kept out of line.
    """
    functions = {match[1]: match[0] for module in modules for match in _FUNCTION.finditer(module)}
    inside = new = {name for name, text in functions.items() if text.startswith("define void")}  # the kernel
    while new:
        called = {name for caller in new for name in _CALL.findall(functions[caller])} - inside
        new = {name for name in called if "alwaysinline" in functions.get(name, "").partition("\n")[0]}
        inside = inside | new
    numbers = itertools.count(10**6)  # of metadata; Numba's own are small
    return [_unroll_module(module, inside, numbers) for module in modules]


def _unroll_module(module, inside, numbers):
    loops = []

    def change(match):
        lines = match[0].splitlines()
        if match[1] not in inside:
            return "\n".join([lines[0] if "inline" in lines[0] else f"{lines[0]} noinline", *lines[1:]])
        labels = set()
        for i, line in enumerate(lines):
            if label := _LABEL.match(line):
                labels.add(label[1])
            elif (branch := _BRANCH.match(line)) and branch[1] in labels:
                loops.append(next(numbers))
                lines[i] += f", !llvm.loop !{loops[-1]}"
        return "\n".join(lines)

    module = _FUNCTION.sub(change, module)
    full = next(numbers)
    notes = [f"!{loop} = distinct !{{!{loop}, !{full}}}" for loop in loops]
    return "\n".join([module, *notes, f'!{full} = !{{!"llvm.loop.unroll.full"}}', ""])
