"""The same cases in other processes and on other machines: through joblib's backends, and on a Dask cluster.

Cases travel in batches that share their data. A worker makes the data itself (files must be where the plan says on every machine)
and runs its batch one case after the other.
"""

from collections.abc import Generator, Sequence
from functools import lru_cache

from .data import Data, Problem
from .plan import Case
from .run_threads import run_case
from .table import Outcome

__all__ = ["WorkerDiedError", "batches", "run_dask", "run_joblib"]

#: Samples of a batch: some seconds of work, so that sending it costs nothing beside it.
BATCH_SAMPLES = 3_000_000
#: How long to wait for a scheduler's answer.
PATIENCE = "10s"


class WorkerDiedError(RuntimeError):
    """A worker that ended before its batch did."""

    def __init__(self) -> None:
        super().__init__(
            "a worker died, for want of memory perhaps: run again with fewer of them; finished cases are kept"
        )


def run_joblib(cases: Sequence[Case], n_jobs: int, backend: str) -> Generator[Outcome, None, None]:
    """Run cases through a backend of joblib and yield their outcomes as they come."""
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    parallel = Parallel(n_jobs=n_jobs, backend=backend, return_as="generator_unordered")
    try:
        for outcomes in parallel(delayed(run_batch)(batch) for batch in batches(cases)):
            yield from outcomes
    except TerminatedWorkerError as error:
        raise WorkerDiedError from error


def run_dask(cases: Sequence[Case], scheduler: str) -> Generator[Outcome, None, None]:
    """Run cases on a Dask cluster and yield their outcomes as they come."""
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise ImportError("a scheduler needs Dask: pip install 'bionica[dask]'") from error
    try:
        client = Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"scheduler={scheduler!r} does not answer: start one with `dask scheduler` ({error})"
        ) from error
    with client:
        futures = client.map(run_batch, batches(cases), pure=False)
        try:
            for _, outcomes in as_completed(futures, with_results=True):
                yield from outcomes
        except KilledWorker as error:
            raise WorkerDiedError from error
        finally:
            client.cancel(futures)


def batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Cut cases into lists that share their data and are of some seconds each."""
    groups: dict[tuple[str, int, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.data.identity, case.data.seed_of(case.seed), case.dtype), []).append(case)
    cut = []
    for group in groups.values():
        size = max(1, BATCH_SAMPLES // group[0].data.n_samples)
        cut += [group[start : start + size] for start in range(0, len(group), size)]
    return cut


def run_batch(batch: list[Case]) -> list[Outcome]:
    """Run the cases of a batch one after the other; what a worker does."""
    problem = _problem(batch[0].data, batch[0].data.seed_of(batch[0].seed), batch[0].dtype)
    return [run_case(case, problem) for case in batch]


@lru_cache(maxsize=2)  # successive batches often have the same data
def _problem(data: Data, seed: int, dtype: str) -> Problem:
    return data.load(seed, dtype)
