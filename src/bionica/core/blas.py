"""The number of threads of BLAS, which belongs to the process: one counted limit for
all threads that call bionica.

Nested or parallel limits of threadpoolctl restore what each of them found, so that a
process may end with one thread for good.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

_LOCK = Lock()
_before: list[int] = []  # threads of each library before the limit
_inside = 0  # calls that need the limit now


@cache
def _libraries() -> list[Any]:
    """The BLAS of NumPy, of SciPy, and of what else was loaded first."""
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(numbers: Iterable[int]) -> None:
    _free_openblas()
    for library, number in zip(_libraries(), numbers, strict=True):
        library.set_num_threads(number)


def _free_openblas() -> None:
    """Let the next thread that sets the number of threads of OpenBLAS do so: from
    threadpoolctl 3.8 on, the first thread that sets it keeps it, and calls from others
    do nothing.
    """
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


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
        _set_threads([1] * len(_before))
        _inside += 1
    try:
        yield
    finally:
        with _LOCK:
            _inside -= 1
            if not _inside:
                _set_threads(_before)
                _free_openblas()
