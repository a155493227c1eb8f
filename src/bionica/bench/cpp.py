"""The templated C++ loop of two_compartment.cpp, compiled where a compiler is found, called in this process."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Dimensions that the source instantiates.
SIZES = (3, 10, 50, 200)


def build() -> ctypes.CDLL | None:
    """Compile and load the loop; None where there is no C++ compiler, or none that can."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    source = Path(__file__).with_name("two_compartment.cpp")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "two_compartment.so"
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(source), "-o", str(library)]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return None
        return ctypes.CDLL(str(library))


def run(library: Any, X: Array, rates: Array, tau: float, W_xz: Array, W_zz: Array) -> Array:
    """Learn from X; returns the outputs, and the weights are changed in place."""
    n, d = X.shape
    Z = np.empty((n, d))
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (X, rates)]
    rest = [array.ctypes.data_as(ctypes.c_void_p) for array in (W_xz, W_zz, Z)]
    getattr(library, f"run_{d}")(*pointers, ctypes.c_long(n), ctypes.c_double(tau), *rest)
    return Z
