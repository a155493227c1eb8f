"""How much memory runs take, and how much there is: asked before anything is allocated."""

import os
from contextlib import suppress
from pathlib import Path

#: More bytes than this no machine has for one run: the plan is refused wherever it would run.
MOST_BYTES = 2**44
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_of_machine() -> int:
    """Bytes of memory of this machine, or of the container that it runs in; `MOST_BYTES` if the system does not say."""
    found = [MOST_BYTES]
    with suppress(AttributeError, ValueError, OSError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit in _LIMITS:
        with suppress(OSError, ValueError):  # a file that does not exist, or "max"
            found.append(int(Path(limit).read_text()))
    return min(size for size in found if size > 0)


def in_words(size: int) -> str:
    """A number of bytes, which may be far beyond any memory."""
    return f"{min(size, 10**30) / 1e9:.3g} GB"
