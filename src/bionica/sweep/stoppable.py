"""Work in a thread that can be left at once, and that ends after its block of samples.

Python handles a signal in the main thread, between two of its instructions. A network in compiled code reaches the next instruction
when a block of samples is done, and one sample that does not settle may take hours. So cases run in a thread, and the main
thread waits.
"""

import ctypes
import threading
from collections.abc import Generator, Iterable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

T = TypeVar("T")

#: Seconds between looks for a signal on systems where a signal does not end the waiting (Windows).
_LOOK = 0.5


def in_thread(work: Iterable[T]) -> Generator[T, None, None]:
    """Yield what `work` yields, computed in a thread; closing the generator stops the thread and does not wait for it."""
    results: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def compute() -> None:
        # OpenMP counts threads for each thread of Python: the caller's limit does not hold here.
        threadpool_limits(1, user_api="openmp")
        try:
            for result in work:
                results.put(("result", result))
        except BaseException as error:
            results.put(("error", error))
        else:
            results.put(("end", None))

    thread = threading.Thread(target=compute, name="bionica-sweep", daemon=True)  # the process may end before it
    thread.start()
    ended = False
    try:
        while True:
            kind, value = _wait(results)
            ended = kind != "result"
            if kind == "error":
                raise value
            if ended:
                return
            yield value
    finally:
        if not ended and thread.is_alive():  # identifiers are used again
            stop(thread.ident)


def stop(thread: int | None) -> None:
    """Raise SystemExit in a thread, by its identifier, at its next instruction of Python. It must be alive.

    A thread that ends by SystemExit prints nothing.
    """
    if thread is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))


def _wait(results: "SimpleQueue[tuple[str, Any]]") -> tuple[str, Any]:
    while True:
        try:
            return results.get(timeout=_LOOK)
        except Empty:
            continue
