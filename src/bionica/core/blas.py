"""The number of threads of BLAS, which belongs to the process: one counted limit for
all threads that call bionica.

Nested or parallel limits of threadpoolctl restore what each of them found, so that a
process may end with one thread for good.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_blas_thread"]

_LOCK = Lock()
_before: list[int] = []  # threads of each library before the limit
_inside = 0  # calls that need the limit now


@cache
def _libraries() -> list[Any]:
    """The BLAS of NumPy, of SciPy, and of what else was loaded first."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Context, or decorator, in which BLAS uses one thread, so that sums have the same
    bits on any number of cores.

    The first call to enter remembers the number of threads, and the last to leave
    restores it. Products of blocks that fit in cache are not faster with more threads.
    """
    global _before, _inside
    with _LOCK:
        if not _inside:
            _before = [library.get_num_threads() for library in _libraries()]
        # BLAS that runs on OpenMP counts threads for each caller
        for library in _libraries():
            library.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                for library, threads in zip(_libraries(), _before, strict=True):
                    library.set_num_threads(threads)
