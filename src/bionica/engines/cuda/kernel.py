"""The kernel that takes networks of one kind through their samples on a GPU, one thread a network (see `launch`).

`kernel` writes the lines that load a state and copy it between registers and the thread's memory; Numba compiles them with
`loop.step` and the rule inside. Kernels are cached on disk.
"""

import functools
import types
from typing import Any

import numpy as np

from ..._compat.numba_cuda import compile_kernel
from ...networks.guards import EVERY
from ...networks.rule import Rule, cold
from ..loop import bound, digest
from .masked import Masked, Pivoted

#: Samples that go through the loop between two looks at the errors; their outputs are local too.
STRIDE = 8
#: Samples after which sums in single precision are added to those in double precision.
FLUSH = 1024
#: Neurons from which the threads of a block wait for each other at every fourth sample. A step is then too long for the cache of
#: instructions, and threads that are at the same place fetch them once (measured: d = 10 gains a fifth, a sixth if they wait at
#: every sample).
TOGETHER = 7


# ---------------------------------------------------------------------------------------------- parts of the kernel


def careful_step(state, work, params, X, t, rates, Y, limit):
    """`step` for a network that is in memory."""
    return step(state, work, params, X, t, rates, Y, limit)  # noqa: F821  (of the rule)


def look(state, work, params):
    """Inspect a network that is in memory."""
    inspect(state, work, params)  # noqa: F821


@cold
def add_rows(S, Y, rows, part):
    """Add (s_i - y_j)^2 over the first rows."""
    for row in range(rows):
        for i in range(part.shape[0]):
            for j in range(part.shape[1]):
                part[i, j] += (S[row, i] - Y[row, j]) * (S[row, i] - Y[row, j])


# ---------------------------------------------------------------------------------------------- the kernel's text


class _Writer:
    """Writes expressions that build named tuples of local arrays, and the lines that allocate, fill and copy them."""

    def __init__(self, names, rule):
        self.names = names
        self.rule = rule
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
        # Inverses that only the exact solver reads are not read here: their copies cost nothing as long as nobody fills them.
        unread = () if self.rule.learns_by_inverses else self.rule.inverses
        pairs = [pair for pair in zip(self.loaded, at_home, strict=True) if pair[0][1] not in unread]
        for (name, _, shape), (home, *_) in pairs:
            self.fill(name, shape, f"{home}[{{}}]")
        made["from_home"] = self.text(20)
        for (name, field, shape), (home, *_) in pairs:
            self.fill(home, shape, f"{name}[{{}}]", field in self.rule.symmetric)
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
                for i in range(d):
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
def kernel(rule: Rule, state: Any, work: Any, params: Any, d: int, dtype: str) -> Any:
    """Return the compiled kernel for networks of this rule and kind."""
    scope = bound(rule)
    functions = {"step": scope["step"], "add_rows": add_rows}
    for function in (careful_step, look):
        functions[function.__name__] = cold(types.FunctionType(function.__code__, {**globals(), **scope}))
    names: dict[str, Any] = {"np": np, **functions}
    writer = _Writer(names, rule)
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
    parts["together"] = "if row % 4 == 0: cuda.syncthreads()" if d >= TOGETHER else "pass"
    text = _TEXT.format(
        arguments=", ".join([*arguments, "numbers"]),
        stride=STRIDE,
        every=EVERY,
        flush=FLUSH,
        d=d,
        dtype=dtype,
        **parts,
    )
    classes = [value for value in names.values() if isinstance(value, type)]
    content = digest([*functions.values(), text], classes)
    return compile_kernel(text, names, f"{rule.name}_{content}")
