"""Taking times."""

import time
from collections.abc import Callable, Mapping
from typing import Any

Contenders = Mapping[str, Callable[[], object]]


def best_of(contenders: Contenders, rounds: int) -> dict[str, float]:
    """Seconds of each contender, the best of so many rounds.

    All of them run in every round, one after the other: what else the machine does in the meantime slows all alike.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, function in contenders.items():
            best[name] = min(best[name], timed(function))
    return best


def timed(function: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def one_thread() -> Any:
    """Keep BLAS to one thread."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)
