"""numba-cuda's private names, and what it needs of others. Checked with numba-cuda 0.30.

`nvvm.compile_ir` is replaced while kernels are compiled, to unroll their loops (see `engines.cuda`).
`np.row_stack` is looked up by numba-cuda and is missing in NumPy 2.5: it is there only while numba-cuda is imported and compiles.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["compile_kernel", "cuda", "patched_compile_ir", "row_stack", "simulated"]

_PATCHING = threading.RLock()


@contextlib.contextmanager
def row_stack() -> Iterator[None]:
    """Lend NumPy the function `row_stack` where it has none."""
    with _PATCHING:
        missing = not hasattr(np, "row_stack")
        if missing:
            setattr(np, "row_stack", np.vstack)  # noqa: B010
        try:
            yield
        finally:
            if missing:
                delattr(np, "row_stack")


def cuda() -> Any:
    """Return the module `numba.cuda`."""
    with row_stack():
        from numba import cuda as module
    return module


@contextlib.contextmanager
def patched_compile_ir(change: Callable[[list[str]], list[str]]) -> Iterator[bool]:
    """Apply `change` to the LLVM modules that are compiled meanwhile; yields whether that is possible."""
    try:
        from numba.cuda.cudadrv import nvvm

        compile_ir = nvvm.compile_ir
    except (ImportError, AttributeError):
        yield False
        return
    with _PATCHING:
        nvvm.compile_ir = lambda ir, **options: compile_ir(change([ir] if isinstance(ir, str) else ir), **options)
        try:
            yield True
        finally:
            nvvm.compile_ir = compile_ir


def simulated() -> bool:
    """Whether kernels run in Numba's simulator."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0")


def compile_kernel(text: str, names: dict[str, Any], name: str) -> Any:
    """Return the function `kernel` of a source text as a CUDA kernel, cached on disk under this name where possible."""
    module = cuda()
    path = _source_file(text, name)
    scope = {**names, "cuda": module}
    exec(compile(text, str(path or f"<{name} on a GPU>"), "exec"), scope)
    if path is None or simulated():
        return module.jit(fastmath=True)(scope["kernel"])
    return module.jit(fastmath=True, cache=True)(scope["kernel"])


def _source_file(text: str, name: str) -> Path | None:
    """Write the source where Numba's cache can find it again; None if there is no place to write."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    folders = [Path(chosen)] if chosen else []
    folders += [Path(__file__).parents[1] / "engines" / "__pycache__", Path.home() / ".cache" / "bionica"]
    for folder in folders:
        path = folder / f"kernel_{name}.py"
        try:
            if not path.exists() or path.read_text() != text:
                folder.mkdir(parents=True, exist_ok=True)
                part = path.with_suffix(f".{os.getpid()}")
                part.write_text(text)
                part.replace(path)
        except OSError:
            continue
        return path
    return None
