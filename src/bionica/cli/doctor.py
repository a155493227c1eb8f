"""`bionica doctor`: what is installed, what it runs on, and whether it works."""

import os
import platform
import time
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from bionica.cli.console import Console, one_line

PACKAGES = {
    "required": ("numpy", "scipy", "scikit-learn", "numba", "typer", "rich"),
    "bionica[plot]": ("matplotlib", "scikit-image"),
    "bionica[io]": (
        "h5py",
        "zarr",
        "pyarrow",
        "pillow",
        "tifffile",
        "openpyxl",
        "defusedxml",
    ),
    "bionica[dask]": ("dask", "distributed"),
}


def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON.")
    ] = False,
) -> None:
    """Say which versions, threads, cache and optional packages there are, and run a
    self test: status 1 if it fails.
    """
    console = Console(json=json)
    with console.session(interrupted="Interrupted"):
        findings = examine()
        console.result(
            [f"{name}: {value}" for name, value in findings.items()], findings
        )
    if not findings["self test"].startswith("passed"):
        raise typer.Exit(1)


def examine() -> dict[str, str]:
    """Collect what `bionica doctor` prints."""
    import numba

    from bionica import __version__, engine

    tested = self_test()  # it compiles what is counted
    config: Any = numba.config
    folder = Path(config.CACHE_DIR or Path(engine.__file__).parent / "__pycache__")
    compiled = f"{sum(1 for _ in folder.rglob('*.nbc'))} loops in {folder}"
    if config.DISABLE_JIT:
        compiled = (
            "the JIT is off (NUMBA_DISABLE_JIT): everything runs interpreted, hundreds"
            " of times slower"
        )
    elif not os.access(folder if folder.exists() else folder.parent, os.W_OK):
        compiled = (
            f"{folder} cannot be written to, so processes may compile again: set"
            " NUMBA_CACHE_DIR"
        )

    def version(name: str) -> str:
        return next(
            (found.version for found in metadata.distributions(name=name)), "missing"
        )

    packages = {
        extra: ", ".join(f"{name} {version(name)}" for name in names)
        for extra, names in PACKAGES.items()
    }
    return {
        "bionica": __version__,
        "python": (
            f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()}"
            " cores"
        ),
        **packages,
        "threading layer": (
            f"{config.THREADING_LAYER}, {config.NUMBA_NUM_THREADS} threads"
        ),
        "self test": tested,
        "compiled code": compiled,
    }


def self_test() -> str:
    """Separate a small problem online and compare with what is known."""
    from bionica import StreamingNICA
    from bionica.datasets import mix, sparse_uniform
    from bionica.metrics import permutation_error

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
    return (
        f"{'passed' if error < 1e-3 else 'FAILED'}: error {error:.1e}, {rate:,.0f}"
        " samples a second"
    )
