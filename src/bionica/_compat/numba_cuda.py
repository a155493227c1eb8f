"""numba-cuda's private names, and what it needs of others. Checked with numba-cuda 0.30.

`np.row_stack` is looked up by numba-cuda and is missing in NumPy 2.5.
`nvvm.compile_ir` compiles LLVM code for the card. It is wrapped, and unrolls the loops of kernels named UNROLLED; all others pass
    through it unchanged. Without the name in a future numba-cuda these kernels are four times slower.
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
            return compile_ir([*map(_unroll, modules)] if unrolled else modules, **options)

        nvvm.compile_ir = compile_unrolled
    return module


def _unroll(module: str) -> str:
    """Return the text of an LLVM module with metadata for unrolling, and `noinline` where nothing is unrolled.

    An array is kept in registers only if every index is a constant. LLVM unrolls small loops by itself, and larger ones where
    metadata of the branch back to their beginning ask for it. Numba cannot write these: they are added to the text of its LLVM
    code, in the kernel and in the `hot` functions that are inlined into it. `cold` functions are kept out of line.
    """
    lines, inlined = [], False
    loops: list[int] = []
    labels: set[str] = set()
    full = 10**6  # numbers of metadata; Numba's own are small
    for line in module.splitlines():
        if line.startswith("define"):
            labels, inlined = set(), line.startswith("define void") or "alwaysinline" in line
            line += "" if inlined or "inline" in line else " noinline"
        elif label := _LABEL.match(line):
            labels.add(label[1])
        elif inlined and (branch := _BRANCH.match(line)) and branch[1] in labels:
            loops.append(full + 1 + len(loops))
            line += f", !llvm.loop !{loops[-1]}"
        lines.append(line)
    lines += [f"!{loop} = distinct !{{!{loop}, !{full}}}" for loop in loops]
    return "\n".join([*lines, f'!{full} = !{{!"llvm.loop.unroll.full"}}', ""])


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
