"""Cases in other processes and on other machines: through joblib's backends, and on a Dask cluster.

Cases travel in batches that share their data. A worker makes the data itself (files must be where the plan says on every machine)
and runs its batch in order. The first batches are the largest, so that all workers finish at about the same time.
"""

import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from itertools import groupby
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .cases import Case
from .data import Data
from .estimator_names import check_importable
from .journal import Outcome
from .run_case import run_case, run_in_order

__all__ = ["WorkerDiedError", "batches", "run_dask", "run_joblib"]

#: Largest and smallest cost of a batch (see `Case.cost`): about 2 s and 0.05 s. Results of a batch arrive together.
LARGEST_BATCH, SMALLEST_BATCH = 120_000_000, 3_000_000
#: How long to wait for a scheduler's answer.
SCHEDULER_TIMEOUT = "10s"


class WorkerDiedError(RuntimeError):
    """A worker process that ended before its batch did."""

    def __init__(self) -> None:
        super().__init__(
            "a worker process died, perhaps for lack of memory: run again with fewer; finished cases are kept"
        )


def run_joblib(cases: Sequence[Case], n_jobs: int, backend: str) -> Generator[Outcome, None, None]:
    """Run cases through a backend of joblib and yield their outcomes as batches finish. Closing the generator stops the workers."""
    from joblib import Parallel, delayed, parallel_config

    options: dict[str, Any] = {}
    if backend == "loky":
        for name in {case.network for case in cases}:
            check_importable(name)
        compile_networks(cases)
        # Workers that loaded another version of a user's estimator are not used again: their arguments differ.
        sources = tuple(sorted({case.source for case in cases}))
        options = {"inner_max_num_threads": 1, "initializer": _start_worker, "initargs": (sources,)}
    with parallel_config(backend, **options):
        parallel = Parallel(n_jobs=n_jobs, batch_size=1, return_as="generator_unordered")
    results = parallel(delayed(run_batch)(batch) for batch in batches(cases, n_jobs))
    try:
        for outcomes in results:
            yield from outcomes
    except BrokenExecutor as error:
        raise WorkerDiedError from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joblib counts the batches that an interruption cancels
            results.close()


def run_dask(cases: Sequence[Case], scheduler: str) -> Generator[Outcome, None, None]:
    """Run cases on a Dask cluster and yield their outcomes as batches finish."""
    try:
        from distributed import Client, KilledWorker, as_completed
    except ImportError as error:
        raise ImportError("a scheduler needs Dask: pip install 'bionica[dask]'") from error
    for name in {case.network for case in cases}:
        check_importable(name)
    try:
        client = Client(scheduler, timeout=SCHEDULER_TIMEOUT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"scheduler={scheduler!r} does not answer: start one with `dask scheduler` ({error})"
        ) from error
    with client:
        n_threads = sum(client.nthreads().values()) or 1
        futures = client.map(run_batch, batches(cases, n_threads), pure=False)
        try:
            for _, outcomes in as_completed(futures, with_results=True):
                yield from outcomes
        except KilledWorker as error:
            raise WorkerDiedError from error
        finally:
            client.cancel(futures)


def batches(cases: Sequence[Case], n_workers: int) -> list[list[Case]]:
    """Cut cases into batches on the same data, each at most a quarter of a worker's share of what is left."""
    left = sum(case.cost for case in cases)
    cut: list[list[Case]] = []
    by_data = sorted(cases, key=lambda case: case.data_key)
    for _, group in groupby(by_data, key=lambda case: case.data_key):
        room = 0.0
        for case in group:
            if room < case.cost / 2 or not cut or cut[-1][0].data_key != case.data_key:
                cut.append([])
                room = min(LARGEST_BATCH, max(SMALLEST_BATCH, left / (4 * n_workers)))
            cut[-1].append(case)
            room -= case.cost
            left -= case.cost
    return cut


def run_batch(batch: list[Case]) -> list[Outcome]:
    """Run the cases of a batch in a worker."""
    return list(run_in_order(batch))


def compile_networks(cases: Sequence[Case]) -> None:
    """Compile every kind of network in this process: the workers load the machine code from the cache."""
    kinds: dict[Any, Case] = {}
    for case in cases:
        words = tuple(item for item in case.params if isinstance(item[1], bool) or not isinstance(item[1], int | float))
        kinds.setdefault((case.network, case.published, words, case.dtype), case)
    for case in kinds.values():
        d = min(case.parameters().get("n_components", 3), 50)
        few = Data("compile", "sparse_uniform", d, d, 100 + 24 * d)  # enough for a natural network to start
        params = tuple(item for item in case.params if item[0] != "n_components")
        run_case(replace(case, data=few, params=params, times=(few.T,)), few.load(0, case.dtype))


def _start_worker(sources: tuple[str, ...]) -> None:
    """Prepare a worker process: the table counts samples that did not settle, so nobody is warned of them."""
    warnings.simplefilter("ignore", ConvergenceWarning)
