"""Where a number comes from: versions and machine, in words, for the rows of a table."""

import platform
import re
from contextlib import suppress
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

    processor = platform.processor()
    with suppress(OSError):
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
        processor = found[1] if found else processor
    return f"{platform.system()} {platform.machine()}, {processor}, {cpu_count()} cores"
