"""Loops with constant trip counts are unrolled in what Numba compiles for a GPU, however large they are.

An array is kept in registers only if every index is a constant. LLVM unrolls small loops by itself, and larger ones where metadata
at the branch back to their beginning ask for it. Numba cannot write these: they are added to the text of its LLVM code, in the
kernel and in the `hot` functions that are inlined into it. `cold` functions are kept out of line.
"""

import contextlib
import itertools
import re
import warnings
from collections.abc import Iterator

from ..._compat.numba_cuda import patched_compile_ir

_FUNCTION = re.compile(r'^define [^@]*@"([^"]+)".*?^}', re.MULTILINE | re.DOTALL)
_CALL = re.compile(r'\bcall [^@]*@"([^"]+)"')
_LABEL = re.compile(r'^"?([\w.]+)"?:')
_BRANCH = re.compile(r'^ +br label %"([^"]+)"$')


@contextlib.contextmanager
def unrolled(simulated: bool) -> Iterator[None]:
    """Compile for a GPU with loops unrolled; a warning says if this version of numba-cuda does not allow it."""
    with patched_compile_ir(unroll) as possible:
        if not (possible or simulated):
            warnings.warn(
                "this version of numba-cuda compiles kernels without forced unrolling: networks of 4 to 10 sources run up to five "
                "times slower; bionica is tested with numba-cuda 0.30",
                stacklevel=3,
            )
        yield


def unroll(modules):
    """Return the texts of LLVM modules with metadata for unrolling, and `noinline` where nothing is unrolled."""
    functions = {found[1]: found[0] for module in modules for found in _FUNCTION.finditer(module)}
    inside = new = {name for name, text in functions.items() if text.startswith("define void")}  # the kernel
    while new:
        called = {name for caller in new for name in _CALL.findall(functions[caller])} - inside
        new = {name for name in called if "alwaysinline" in functions.get(name, "").partition("\n")[0]}
        inside = inside | new
    numbers = itertools.count(10**6)  # of metadata; Numba's own are small
    return [_unroll(module, inside, numbers) for module in modules]


def _unroll(module, inside, numbers):
    loops = []

    def change(found):
        lines = found[0].splitlines()
        if found[1] not in inside:
            return "\n".join([lines[0] if "inline" in lines[0] else f"{lines[0]} noinline", *lines[1:]])
        seen = set()
        for i, line in enumerate(lines):
            if label := _LABEL.match(line):
                seen.add(label[1])
            elif (branch := _BRANCH.match(line)) and branch[1] in seen:
                loops.append(next(numbers))
                lines[i] += f", !llvm.loop !{loops[-1]}"
        return "\n".join(lines)

    module = _FUNCTION.sub(change, module)
    full = next(numbers)
    notes = [f"!{loop} = distinct !{{!{loop}, !{full}}}" for loop in loops]
    return "\n".join([module, *notes, f'!{full} = !{{!"llvm.loop.unroll.full"}}', ""])
