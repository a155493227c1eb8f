"""How far a sweep is: a bar on a terminal, or a line now and then."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count

from .cases import Case


@contextmanager
def show_progress(
    cases: Sequence[Case],
    finished: int = 0,
    progress: bool | Callable[[int, int], object] = True,
    noun: str = "cases",
    line_every: float | None = None,
) -> Iterator[Callable[[Case], object]]:
    """Yield a function to call with each case as it finishes; `finished` others were there before.

    `progress` is whether to show it on standard error, or a function of the number of finished cases and of all cases.
    `line_every` is the number of seconds between lines if standard error is not a terminal; None prints none.
    """
    total, numbers = finished + len(cases), count(finished + 1)
    if callable(progress) or not progress:
        yield lambda case: progress(next(numbers), total) if callable(progress) else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    work, done = sum(case.cost for case in cases), 0
    started = last = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), TextColumn("left"))
    off = not cases or not console.is_terminal
    with Progress(*columns, console=console, transient=True, refresh_per_second=4, disable=off) as bar:
        task = bar.add_task(f"{finished:,} of {total:,} {noun}", total=work)

        def advance(case: Case) -> None:
            nonlocal last, done
            done += case.cost
            text, now = f"{next(numbers):,} of {total:,} {noun}", time.monotonic()
            bar.update(task, completed=done, description=text)
            if off and line_every is not None and now - last >= line_every and done < work:
                last, left = now, (now - started) * (work - done) / done
                console.print(f"{text}, about {left:.0f} s left", highlight=False, soft_wrap=True)

        yield advance
