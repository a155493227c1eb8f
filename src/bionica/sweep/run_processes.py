"""Cases in other processes.

Cases travel in batches that share their data. A worker makes the data itself (files must be where the plan says on every machine)
and runs its batch in order. The first batches are the largest, so that all workers finish at about the same time.
"""

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Generator, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from .cases import Case
from .data import Data, LoadedData
from .estimator_names import check_importable, find_estimator, is_online, parameter_defaults
from .journal import Outcome
from .run_case import run_case

#: Largest and smallest cost of a batch (see `Case.cost`): about 2 s and 0.05 s. Results of a batch arrive together.
LARGEST_BATCH, SMALLEST_BATCH = 120_000_000, 3_000_000


_DIED = "a worker process died, perhaps for lack of memory: run again with fewer processes; finished cases are kept"


class WorkerDiedError(RuntimeError):
    """Workers that ended before their work did, or that cannot be reached any more.

    What finished before is in the journal: the same `bionica.sweep.run` with the same folder runs what is missing.

    Examples
    --------
    >>> from bionica.sweep import WorkerDiedError
    >>> issubclass(WorkerDiedError, RuntimeError)
    True
    """

    def __init__(self, message: str = _DIED) -> None:
        super().__init__(message)


def run_joblib(cases: Sequence[Case], n_jobs: int) -> Generator[Outcome, None, None]:
    """Run cases in processes and yield their outcomes as batches finish; closing the generator stops the workers."""
    from joblib import Parallel, delayed, parallel_config

    check_importable(case.network for case in cases)
    compile_networks(cases)
    # joblib reuses workers whose arguments are equal: not those that loaded another version of a user's estimator.
    start = (os.getpid(), *sorted({case.source for case in cases}), *sys.path)
    with parallel_config("loky", inner_max_num_threads=1, initializer=_start_worker, initargs=start):
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


def batches(cases: Sequence[Case], n_workers: int) -> list[list[Case]]:
    """Cut cases into batches on the same data, each about a quarter of a worker's share of what is left; long cases first."""
    left = sum(case.cost for case in cases)
    cut: list[list[Case]] = []
    room = 0.0
    for case in sorted(cases, key=lambda case: (-case.cost, case.data_key)):
        if not cut or cut[-1][0].data_key != case.data_key or room < case.cost / 2:
            cut.append([])
            room = min(LARGEST_BATCH, max(SMALLEST_BATCH, left / (4 * n_workers)))
        cut[-1].append(case)
        room -= case.cost
        left -= case.cost
    return cut


def run_batch(batch: list[Case]) -> list[Outcome]:
    """Run the cases of a batch in a worker."""
    data = _load(batch[0].data, batch[0].data.seed_of(batch[0].seed), batch[0].dtype)
    return [run_case(case, data) for case in batch]


@lru_cache(maxsize=1)  # the next batch may have the same data
def _load(data: Data, seed: int, dtype: str) -> LoadedData:
    return data.load(seed, dtype)


def compile_networks(cases: Sequence[Case]) -> None:
    """Compile every kind of network in this process: the workers load the machine code from the cache."""
    kinds: dict[Any, Case] = {}
    for case in cases:
        words = tuple(item for item in case.params if isinstance(item[1], bool) or not isinstance(item[1], int | float))
        kinds.setdefault((case.network, case.published, words, case.dtype), case)
    for case in (case for case in kinds.values() if is_online(find_estimator(case.network))):
        d = min(case.parameters().get("n_components", 3), 50)
        few = Data("compile", "sparse_uniform", d, d, 100 + 24 * d)  # enough for a natural network to start
        params = tuple(item for item in case.params if item[0] != "n_components")
        if "settle_steps" in parameter_defaults(find_estimator(case.network)):
            params = (*params, ("settle_steps", 1))  # results do not matter, and neurons need not settle
        run_case(replace(case, data=few, params=params, times=(few.T,)), few.load(0, case.dtype))


def _start_worker(parent: int, *versions: str) -> None:
    """Prepare a worker process of the process `parent`.

    The table counts samples that did not settle, so nobody is warned of them. A terminal sends Ctrl-C to the workers too: this
    process ends them, and they would only print tracebacks. If this process is killed, they end too.
    """
    warnings.simplefilter("ignore", ConvergenceWarning)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # on Windows the parent may be a launcher
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even in the middle of a case."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
