"""A plan in, a table out."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .engines import choose
from .plan import Plan
from .table import Journal, Outcome, Table, make_table

__all__ = ["run"]

Progress = Callable[[int, int], object]


def run(
    plan: Plan | Mapping[str, Any] | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    n_jobs: int = -1,
    device: str = "auto",
    scheduler: str | None = None,
    backend: str | None = None,
    progress: bool | Progress = False,
) -> Table:
    """Run the cases of a plan on all cores; every result has the bits that one network at a time would have.

    Parameters
    ----------
    plan : Plan, dict or path
        What to run; a path is that of a TOML file.
    output : path, optional
        Folder for the results. Each is kept there as it finishes: a second call runs only what is missing, and after a change of
        the plan what is new in it. Without it, results are in memory alone.
    n_jobs : int, default=-1
        Threads (processes, with `backend`); -1 for as many as there are cores.
    device : {"auto", "cpu", "cuda"}, default="auto"
        What computes.
    scheduler : str, optional
        Address of a Dask scheduler, tcp://host:8786, to run there.
    backend : str, optional
        A backend of joblib, "loky" for one, to run through it.
    progress : bool or callable, default=False
        Whether to show progress on a terminal; or a function of the number of finished cases and of all.

    Returns
    -------
    Table
        A row for each case and time.

    Examples
    --------
    >>> from bionica import sweep
    >>> table = sweep.run({
    ...     "seeds": 2,
    ...     "data": [{"kind": "sparse_uniform", "d": 3, "T": 2000, "mixing": "d3"}],
    ...     "network": [{"name": "TwoCompartmentNICA", "published": "d3", "grid": {"tau": [0.5, 0.8]}}],
    ... })
    >>> len(table), [row["tau"] for row in table.best()]
    (4, [0.5])
    """
    plan = _plan(plan)
    engine, _ = choose(device, n_jobs, scheduler, backend)
    cases = {case.key: case for case in plan.cases()}
    journal = None if output is None else Journal(output)
    outcomes: dict[str, Outcome] = {} if journal is None else journal.read()
    missing = [case for key, case in cases.items() if key not in outcomes]
    if journal is not None:
        journal.begin(plan)
    try:
        done = len(cases) - len(missing)
        with _shown(progress, done, len(cases)) as show, _quiet(), closing(engine(missing)) as found:
            for outcome in found:
                outcomes[outcome.case] = outcome
                if journal is not None:
                    journal.add(cases[outcome.case], outcome)
                done += 1
                show(done, len(cases))
    finally:
        if journal is not None:  # also of what was finished before an interruption
            journal.close()
            table = make_table(plan, outcomes.get)
            if len(table):
                table.write(journal.folder / "results")
    return make_table(plan, outcomes.get)


def _plan(plan: Plan | Mapping[str, Any] | str | os.PathLike[str]) -> Plan:
    if isinstance(plan, Plan):
        return plan
    return Plan.from_dict(plan) if isinstance(plan, Mapping) else Plan.from_toml(Path(plan))


@contextmanager
def _quiet() -> Iterator[None]:
    """Neurons that do not settle are counted in the table; thousands of warnings would say no more."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@contextmanager
def _shown(progress: bool | Progress, done: int, total: int) -> Iterator[Progress]:
    """How to show that a case is finished."""
    if callable(progress):
        yield progress
        return
    from rich.console import Console

    console = Console(stderr=True)
    if not progress or not console.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:.1f} cases/s" if task.speed else "")

    columns = (TextColumn("Cases"), BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        line = bar.add_task("", completed=done, total=total)
        yield lambda done, total: bar.update(line, completed=done)
