"""`bionica doctor`: what is installed, what it runs on, and whether it works."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from .console import Console, one_line

REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "typer", "rich")
OPTIONAL = {
    "plot": ("matplotlib", "scikit-image"),
    "io": ("h5py", "zarr", "pyarrow", "pillow", "tifffile", "openpyxl", "defusedxml"),
    "dask": ("dask", "distributed"),
    "cuda": ("numba-cuda",),
}


def doctor(json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say which versions, threads, cache, GPU and optional packages there are, and run a short self test.

    For example: bionica doctor --json

    Exit status: 0 if the self test passes, 1 if not, 2 wrong usage, 130 interrupted.
    """
    console = Console(json=json)
    with console.session(interrupted="Interrupted"):
        findings = examine()
        lines = [
            f"{name:16} " + (", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value)
            for name, value in findings.items()
        ]
        console.result(lines, findings)
    if not findings["self test"].startswith("passed"):
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Collect what `bionica doctor` prints."""
    import numba

    from .. import __version__
    from .._compat.numba_cuda import cuda
    from ..engines.cuda import gpu_is_visible
    from ..sweep.cuda import unavailable

    config: Any = numba.config
    missing = [extra for extra, names in OPTIONAL.items() if "missing" in map(installed, names)]
    return {
        "bionica": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores",
        "required": {name: installed(name) for name in REQUIRED},
        "optional": {name: installed(name) for names in OPTIONAL.values() for name in names},
        "to install": ", ".join(f"'bionica[{extra}]'" for extra in missing if extra != "cuda" or gpu_is_visible()),
        "threading layer": f"{config.THREADING_LAYER}, {config.NUMBA_NUM_THREADS} threads",
        "self test": self_test(),
        "compiled code": cache(),
        "GPU": unavailable() or str(cuda().get_current_device().name),
    }


def installed(name: str) -> str:
    """Return the version of a package, or 'missing'."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def cache() -> str:
    """Say where compiled loops are kept, how many there are, and whether new ones can be kept."""
    from numba import config

    from .. import engines

    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return "the JIT is off (NUMBA_DISABLE_JIT): everything runs interpreted, hundreds of times slower"
    folder = Path(config.CACHE_DIR or Path(engines.__file__).parent / "__pycache__")  # type: ignore[attr-defined]
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        return f"{folder} cannot be written to, so processes may compile again: set NUMBA_CACHE_DIR to another folder"
    return f"{sum(1 for _ in folder.rglob('*.nbc'))} loops in {folder}"


def self_test() -> str:
    """Separate a small problem online and compare with what is known."""
    from .. import StreamingNICA
    from ..datasets import mix, sparse_uniform
    from ..metrics import permutation_error

    S = sparse_uniform(20_000, 3, rng=0)
    X, _ = mix(S, rng=0)
    try:
        network = StreamingNICA(3, random_state=0).fit(X)
        start = time.perf_counter()
        network.partial_fit(X)
        rate = len(X) / (time.perf_counter() - start)
        error = permutation_error(S, network.transform(X))
    except Exception as failure:  # whatever fails here is a finding
        return f"FAILED: {type(failure).__name__}: {one_line(str(failure))[:300]}"
    return f"{'passed' if error < 1e-3 else 'FAILED'}: error {error:.1e}, {rate:,.0f} samples a second"
