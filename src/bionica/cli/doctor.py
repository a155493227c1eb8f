"""`bionica doctor`: what is installed, what it runs on, and whether it works."""

import json
from typing import Annotated, Any

import typer

REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "typer", "rich")
OPTIONAL = {
    "plot": ("matplotlib", "scikit-image"),
    "io": ("h5py", "zarr", "pyarrow", "imageio", "tifffile"),
    "dask": ("dask", "distributed"),
    "cuda": ("numba-cuda",),
}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Say which versions, threads, cache, GPU and optional packages are there, and run a short self test.

    Exit code 0 if the self test passes, 1 if not.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    findings = examine()
    if as_json:
        typer.echo(json.dumps(findings, indent=1))
    else:
        table = Table(show_header=False, box=None)
        for name, value in findings.items():
            if isinstance(value, dict):
                value = ", ".join(f"{key} {entry}" for key, entry in value.items())
            table.add_row(name, escape(str(value)))
        Console().print(table)
    if not findings["self test"].startswith("passed"):
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Collect what `bionica doctor` prints."""
    import os
    import platform

    from .. import __version__

    return {
        "bionica": __version__,
        "python": f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores",
        "required": {name: installed(name) for name in REQUIRED},
        "optional": {name: installed(name) for names in OPTIONAL.values() for name in names},
        "to install": ", ".join(
            f"pip install 'bionica[{extra}]'" for extra, names in OPTIONAL.items() if "missing" in map(installed, names)
        ),
        "threading layer": threading_layer(),
        "compiled code": cache(),
        "GPU": gpu(),
        "self test": self_test(),
    }


def installed(name: str) -> str:
    """Return the version of a package, or 'missing'."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def threading_layer() -> str:
    """Name the layer that Numba would use for parallel loops."""
    config = numba_config()
    return f"{config.THREADING_LAYER}, {config.NUMBA_NUM_THREADS} threads"


def numba_config() -> Any:
    """Return Numba's settings."""
    import numba

    return numba.config


def cache() -> str:
    """Say where compiled loops are kept, how many there are, and whether new ones can be."""
    import os
    from pathlib import Path

    from ..engines import loop as stream

    config = numba_config()
    if config.DISABLE_JIT:
        return "the JIT is off (NUMBA_DISABLE_JIT): everything runs interpreted, hundreds of times slower"
    folder = Path(config.CACHE_DIR or Path(stream.__file__).parent / "__pycache__")
    loops = len(list(folder.rglob("stream.*.nbc"))) if folder.is_dir() else 0
    parent = folder if folder.is_dir() else folder.parent
    kept = f"{loops} loops in {folder}"
    return kept if os.access(parent, os.W_OK) else f"{kept} (not writable: set NUMBA_CACHE_DIR to a folder that is)"


def gpu() -> str:
    """Say which GPU Numba sees."""
    if installed("numba-cuda") == "missing":
        return "numba-cuda is not installed (pip install 'bionica[cuda]')"
    try:
        import importlib

        cuda: Any = importlib.import_module("numba.cuda")
        return str(cuda.get_current_device().name) if cuda.is_available() else "none that numba-cuda can use"
    except Exception as error:  # a driver can fail in any way, and the doctor must go on
        return f"none ({error})"


def self_test() -> str:
    """Separate a small problem online and compare with what is known."""
    import time

    from .. import TwoCompartmentNICA
    from ..datasets import mix, sparse_uniform
    from ..metrics import permutation_error

    S = sparse_uniform(20_000, 3, rng=0)
    X, _ = mix(S, rng=0)
    network = TwoCompartmentNICA(3, random_state=0).fit(X)
    start = time.perf_counter()
    network.partial_fit(X)
    rate = len(X) / (time.perf_counter() - start)
    error = permutation_error(S, network.transform(X))
    return f"{'passed' if error < 1e-3 else 'FAILED'}: error {error:.1e}, {rate:,.0f} samples a second"
