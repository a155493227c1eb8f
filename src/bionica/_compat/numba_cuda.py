"""numba-cuda's private names, and what it needs of others. Checked with numba-cuda 0.30.

`np.row_stack` is looked up by numba-cuda and is missing in NumPy 2.5.
`nvvm.compile_ir` compiles LLVM code for the card. It is wrapped, and unrolls the loops of kernels named UNROLLED; all others pass
    through it unchanged. Without the name these kernels give the same numbers, four times slower at d = 10.
"""

import contextlib
import functools
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["UNROLLED", "compile_kernel", "cuda", "simulated"]

#: Name of the kernels whose loops are unrolled.
UNROLLED = "bionica_unrolled"
_FUNCTION = re.compile(r'^define [^@]*@"([^"]+)".*?^}', re.MULTILINE | re.DOTALL)
_CALL = re.compile(r'\bcall [^@]*@"([^"]+)"')
_LABEL = re.compile(r'^"?([\w.]+)"?:')
_BRANCH = re.compile(r'^ +br label %"([^"]+)"$')


@functools.cache
def cuda() -> Any:
    """Return the module `numba.cuda`."""
    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010
    from numba import cuda as module

    with contextlib.suppress(ImportError, AttributeError):
        nvvm: Any = import_module("numba.cuda.cudadrv.nvvm")
        compile_ir = nvvm.compile_ir

        def compile_unrolled(ir: Any, **options: Any) -> Any:
            modules = [ir] if isinstance(ir, str) else ir
            unrolled = any(UNROLLED in text for text in modules)
            return compile_ir(_unroll(modules) if unrolled else modules, **options)

        nvvm.compile_ir = compile_unrolled
    return module


def _unroll(modules: list[str]) -> list[str]:
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
    full = 10**6  # numbers of metadata; Numba's own are small
    loops: list[int] = []

    def change(match: re.Match[str]) -> str:
        head, *body = match[0].splitlines()
        if match[1] not in inside:
            return "\n".join([head if "inline" in head else f"{head} noinline", *body])
        labels = set()
        for i, line in enumerate(body):
            if label := _LABEL.match(line):
                labels.add(label[1])
            elif (branch := _BRANCH.match(line)) and branch[1] in labels:
                loops.append(full + 1 + len(loops))
                body[i] += f", !llvm.loop !{loops[-1]}"
        return "\n".join([head, *body])

    changed = []
    for module in modules:
        loops.clear()
        text = _FUNCTION.sub(change, module)
        notes = [f"!{loop} = distinct !{{!{loop}, !{full}}}" for loop in loops]
        changed.append("\n".join([text, *notes, f'!{full} = !{{!"llvm.loop.unroll.full"}}', ""]))
    return changed


def simulated() -> bool:
    """Whether kernels run in Numba's simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def compile_kernel(text: str, function: str, names: dict[str, Any], file_name: str) -> Any:
    """Return a function of a source text as a CUDA kernel, cached on disk where possible: Numba's cache needs a file of it."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "bionica")
    path, cache = folder / f"{file_name}.py", not simulated()
    try:
        if cache and not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(f".{os.getpid()}")
            part.write_text(text)
            part.replace(path)
    except OSError:
        cache = False
    scope = {**names, "cuda": cuda()}
    exec(compile(text, str(path), "exec"), scope)
    return cuda().jit(fastmath=True, cache=cache)(scope[function])
