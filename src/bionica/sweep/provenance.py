"""Where a number comes from: versions and machine, in words, for the rows of a table."""

import platform
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from .. import __version__

__all__ = ["machine", "versions"]


@lru_cache
def versions() -> str:
    """Versions of what computes."""
    packages = " ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn"))
    return f"bionica {__version__} python {platform.python_version()} {packages}"


@lru_cache
def machine() -> str:
    """The machine in words."""
    from joblib import cpu_count

    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":", 1)[1].strip() for line in _lines(cpuinfo) if line.startswith("model name")]
    return (
        f"{platform.system()} {platform.machine()}, {names[0] if names else platform.processor()}, {cpu_count()} cores"
    )


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
