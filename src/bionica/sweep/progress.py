"""How far a sweep is: a bar on a terminal, or a line now and then."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from .cases import Case

__all__ = ["show_progress"]


@contextmanager
def show_progress(
    cases: Sequence[Case],
    finished: int = 0,
    progress: bool | Callable[[int, int], object] = True,
    noun: str = "cases",
    line_every: float | None = None,
) -> Iterator[Callable[[Case], object]]:
    """Yield a function to call with each case as it finishes.

    Parameters
    ----------
    cases : sequence of Case
        What is going to run.
    finished : int
        Cases that were there before.
    progress : bool or callable
        Whether to show progress on standard error; or a function of the number of finished cases and of all cases.
    noun : str
        What the cases are called.
    line_every : float, optional
        Seconds between lines where standard error is no terminal; None prints none.
    """
    total, numbers = finished + len(cases), count(finished + 1)
    if callable(progress):
        yield lambda case: progress(next(numbers), total)
        return
    if not progress or not cases:
        yield lambda case: None
        return
    from rich.console import Console

    console = Console(stderr=True)
    work = sum(case.cost for case in cases)
    if not console.is_terminal:
        yield (lambda case: None) if line_every is None else _lines(console, work, numbers, total, noun, line_every)
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(f"{finished:,} of {total:,} {noun}", total=work)

        def advance(case: Case) -> None:
            bar.update(task, advance=case.cost, description=f"{next(numbers):,} of {total:,} {noun}")

        yield advance


def _lines(
    console: Any, work: int, numbers: Iterator[int], total: int, noun: str, every: float
) -> Callable[[Case], object]:
    started = last = time.monotonic()
    done = 0

    def advance(case: Case) -> None:
        nonlocal last, done
        done += case.cost
        number, now = next(numbers), time.monotonic()
        if now - last >= every and number < total:
            last = now
            left = (now - started) * (work - done) / done
            console.print(f"{number:,} of {total:,} {noun}, about {left:.0f} s left", highlight=False, soft_wrap=True)

    return advance
