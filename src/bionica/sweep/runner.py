"""Running a plan: which engine runs the cases, what is still missing, and the table at the end."""

import os
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from . import run_cuda, run_dask, run_processes
from .cases import Case
from .journal import Journal, Outcome
from .memory import in_words, memory_of_machine
from .plan import Plan
from .progress import show_progress
from .run_case import run_in_order
from .table import Table, make_table

DEVICES = ("auto", "cpu", "cuda")
#: Without a number of processes, a sweep that costs less (see `Case.cost`), about 1 s, runs in this one.
SMALL_SWEEP = 60_000_000

#: Rows of a table that is written after an interruption: about 2 s.
QUICK_TABLE = 100_000

PlanLike = Plan | Mapping[str, Any] | str | os.PathLike[str]


class Engine(NamedTuple):
    """Runs cases and yields their outcomes as they finish, in any order; closing the generator stops it."""

    name: str
    run: Callable[[Sequence[Case]], Generator[Outcome, None, None]]


def run(
    plan: PlanLike,
    output: str | os.PathLike[str] | None = None,
    *,
    n_jobs: int = -1,
    device: str = "auto",
    scheduler: str | None = None,
    progress: bool | Callable[[int, int], object] = False,
) -> Table:
    """Run the cases of a plan on all cores; every result has the bits of the estimator alone.

    Parameters
    ----------
    plan : Plan, dict or path
        What to run; a path is that of a TOML file.
    output : path, optional
        Folder for the results. Each result is stored as it finishes: a second call runs only what is missing, and after a change of
        the plan only what is new. Without a folder, results are in memory alone.
    n_jobs : int, default=-1
        Number of processes; -1 for one per core (one process for a sweep of less than about a second), -2 for one less.
    device : {"auto", "cpu", "cuda"}, default="auto"
        What computes. "auto" takes a GPU if there is one; "cuda" warns if there is none, and the CPU computes.
    scheduler : str, optional
        Address of a Dask scheduler, tcp://host:8786, to run there.
    progress : bool or callable, default=False
        Whether to show progress on a terminal; or a function of the number of finished cases and of all cases.

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
    sweep = prepare(plan, output, n_jobs=n_jobs, device=device, scheduler=scheduler)
    with show_progress(sweep.missing, len(sweep.plan.cases()) - len(sweep.missing), progress) as done:
        return sweep.run(done)


@dataclass
class Sweep:
    """A plan that is ready to run: its engine, its journal, what is known and what is missing."""

    plan: Plan
    engine: Engine
    journal: Journal | None
    outcomes: dict[str, Outcome]
    missing: list[Case]

    def run(self, done: Callable[[Case], object] = lambda case: None) -> Table:
        """Run what is missing, store each result as it arrives, and return the table; `done` is called with each case."""
        cases = {case.key: case for case in self.missing}
        if self.journal:
            self.journal.begin(self.plan)
        finished = False
        try:
            # One BLAS thread, here as in worker processes: the same bits, and no thread waits for another.
            with threadpool_limits(1), warnings.catch_warnings(), closing(self.engine.run(self.missing)) as found:
                # The table counts samples that did not settle; thousands of warnings would tell no more.
                warnings.simplefilter("ignore", ConvergenceWarning)
                for outcome in found:
                    self.outcomes[outcome.case] = outcome
                    if self.journal:
                        self.journal.add(cases[outcome.case], outcome)
                    done(cases[outcome.case])
            finished = True
        finally:
            table = self._store(finished)
        return table

    def _store(self, finished: bool) -> Table:
        """Close the journal and write the table; after an interruption too, if that takes no longer than about 2 s."""
        if self.journal:
            self.journal.close()
        if not finished and sum(len(outcome.t) for outcome in self.outcomes.values()) > QUICK_TABLE:
            return Table([], self.plan.swept)
        table = make_table(self.plan, self.outcomes)
        if self.journal and len(table):
            table.write(self.journal.folder / "results")
        if self.journal and self.journal.damaged:
            n = self.journal.damaged
            lines = "1 damaged line" if n == 1 else f"{n:,} damaged lines"
            cases = "its case" if n == 1 else "their cases"
            again = f", and ran {cases} again" if self.missing else ""
            warnings.warn(f"ignored {lines} of {self.journal.path}{again}", stacklevel=4)
        return table


def prepare(
    plan: PlanLike, output: str | os.PathLike[str] | None = None, *, force: bool = False, **options: Any
) -> Sweep:
    """Read a plan and the results that are there, and choose an engine for the rest; see `run`. `force` runs everything again.

    Examples
    --------
    >>> from bionica import sweep
    >>> data = {"kind": "sparse_uniform", "d": 2, "T": 500, "mixing": "random"}
    >>> plan = {"seeds": 3, "data": [data], "network": [{"name": "StreamingNICA"}]}
    >>> prepared = sweep.prepare(plan, n_jobs=1)
    >>> len(prepared.missing), prepared.engine.name
    (3, '1 process')
    """
    if not isinstance(plan, Plan):
        plan = Plan.from_dict(plan) if isinstance(plan, Mapping) else Plan.from_toml(Path(plan))
    journal = None if output is None else Journal(output)
    cases = {case.key: case for case in plan.cases()}
    outcomes = {} if journal is None or force else journal.read(cases)
    missing = [case for key, case in cases.items() if key not in outcomes]
    return Sweep(plan, choose_engine(missing, **options), journal, outcomes, missing)


def choose_engine(
    cases: Sequence[Case], device: str = "auto", n_jobs: int = -1, scheduler: str | None = None
) -> Engine:
    """Return what runs these cases."""
    from joblib import effective_n_jobs

    if device not in DEVICES:
        raise ValueError(f"device={device!r} is unknown: choose from {', '.join(DEVICES)}")
    if n_jobs == 0:
        raise ValueError("n_jobs=0 runs nothing: give a number of processes, or -1 for one per core")
    if scheduler is not None:
        return Engine(f"Dask at {scheduler}", lambda cases: run_dask.run_dask(cases, scheduler))
    workers = min(n_jobs if n_jobs > 0 else int(effective_n_jobs(n_jobs)), max(1, len(cases)))
    workers = _within_memory(cases, workers, given=n_jobs > 0)
    if workers == 1 or (n_jobs < 0 and sum(case.cost for case in cases) < SMALL_SWEEP):
        cpu = Engine("1 process", run_in_order)
    else:
        cpu = Engine(f"{workers} processes", lambda cases: run_processes.run_joblib(cases, workers))
    if device == "cpu":
        return cpu
    reason = run_cuda.unavailable()
    if reason is None:
        return Engine("the GPU", lambda cases: run_cuda.run(cases, cpu.run))
    if device == "cuda":
        warnings.warn(f"device='cuda': {reason}; the CPU computes", stacklevel=3)
    return cpu


def _within_memory(cases: Sequence[Case], workers: int, given: bool) -> int:
    """Return how many runs fit into memory together; refuse a run that does not fit, and a `given` number that does not."""
    largest = max(cases, key=lambda case: case.n_bytes, default=None)
    if largest is None:
        return workers
    there, data = memory_of_machine(), largest.data
    fit = there // largest.n_bytes
    start = f"the data {data.name!r} with T = {data.T}, epochs = {data.epochs}, d = {data.d} and {data.k} mixtures"
    need = f"{start} need {in_words(largest.n_bytes)} of memory for a run, and this machine has {in_words(there)}"
    if fit == 0:
        raise ValueError(f"{need}: use fewer samples, epochs, sources or mixtures")
    if given and fit < workers:
        raise ValueError(f"{need}: {workers} processes are too many, use {fit} at most (n_jobs={fit}, --jobs {fit})")
    return min(workers, fit)
