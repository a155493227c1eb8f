"""Cases on a Dask cluster, in batches as in other processes. A cluster that is gone ends the sweep with a sentence."""

import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any
from uuid import uuid4

from .cases import Case
from .estimator_names import check_importable
from .journal import Outcome
from .run_processes import WorkerDiedError, batches, run_batch
from .stoppable import stop

#: Seconds to wait for a scheduler's answer, for a first worker, and for an answer when the sweep ends.
SCHEDULER_TIMEOUT, WORKERS_TIMEOUT, END_TIMEOUT = 10.0, 30.0, 3.0
#: Seconds between looks for results, and for workers.
_LOOK, _LOOK_FOR_WORKERS = 0.02, 1.0

#: On a worker: the threads that run batches of each sweep, and the sweeps that have ended.
_RUNNING: dict[str, set[int]] = {}
_STOPPED: set[str] = set()
_LOCK = threading.Lock()


def run_dask(cases: Sequence[Case], scheduler: str) -> Generator[Outcome, None, None]:
    """Run cases on a Dask cluster and yield their outcomes as batches finish; closing the generator stops them."""
    try:
        from distributed import Client, KilledWorker
    except ImportError as error:
        raise ImportError("a scheduler needs Dask: pip install 'bionica[dask]'") from error
    check_importable(case.network for case in cases)
    try:
        client = Client(scheduler, timeout=SCHEDULER_TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"scheduler={scheduler!r} does not answer: start one with `dask scheduler` ({error})"
        ) from error
    sweep = uuid4().hex
    try:
        watch = _Watch(client, scheduler)
        while not watch.n_threads:
            watch.look()
            time.sleep(_LOOK)
        futures = client.map(run_named, batches(cases, watch.n_threads), sweep=sweep, pure=False)
        yield from _results(client, futures, watch)
    except KilledWorker as error:
        raise WorkerDiedError from error
    finally:
        # Running batches end after their block of samples. A cluster that is gone does not answer.
        _within(END_TIMEOUT, lambda: client.run(stop_named, sweep, on_error="ignore"), client.close)


def _results(client: Any, futures: list[Any], watch: "_Watch") -> Generator[Outcome, None, None]:
    from distributed import as_completed

    found = as_completed(futures, loop=client.loop, with_results=True)
    futures.clear()  # the cluster forgets a result that was fetched
    while not found.is_empty():
        if not found.has_ready():
            watch.look()
            time.sleep(_LOOK)
            continue
        future, outcomes = next(found)
        if future.status != "finished":  # cancelled, as the connection is lost
            raise watch.scheduler_is_gone()
        yield from outcomes


class _Watch:
    """Looks now and then whether the scheduler and its workers are still there."""

    def __init__(self, client: Any, scheduler: str):
        self.client, self.scheduler = client, scheduler
        self.n_threads = 0
        self._looked = -_LOOK_FOR_WORKERS
        self._seen = time.monotonic()

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_FOR_WORKERS:
            return
        self._looked = now
        answers: list[dict[str, int]] = []
        if self.client.status == "running":
            _within(SCHEDULER_TIMEOUT, lambda: answers.append(self.client.nthreads()))
        if not answers:
            raise self.scheduler_is_gone()
        self.n_threads = sum(answers[0].values())
        if self.n_threads:
            self._seen = now
        elif now - self._seen >= WORKERS_TIMEOUT:
            raise WorkerDiedError(
                f"the Dask scheduler {self.scheduler} has no workers: start some with `dask worker {self.scheduler}` and run "
                "again; finished cases are kept"
            )

    def scheduler_is_gone(self) -> WorkerDiedError:
        return WorkerDiedError(
            f"the Dask scheduler {self.scheduler} does not answer any more: start it and run again; finished cases are kept"
        )


def _within(seconds: float, *actions: Callable[[], object]) -> None:
    """Wait for actions for some seconds at most. A connection that is lost may never answer, and may raise anything."""

    def act() -> None:
        for action in actions:
            try:
                action()
            except Exception:
                continue

    thread = threading.Thread(target=act, name="bionica-dask", daemon=True)
    thread.start()
    thread.join(seconds)


def run_named(batch: list[Case], sweep: str) -> list[Outcome]:
    """Run a batch on a worker, where `stop_named` can end it."""
    me = threading.get_ident()
    try:
        with _LOCK:
            if sweep in _STOPPED:
                return []
            _RUNNING.setdefault(sweep, set()).add(me)
        try:
            return run_batch(batch)
        finally:
            with _LOCK:
                _RUNNING[sweep].discard(me)
    except SystemExit:
        return []


def stop_named(sweep: str) -> None:
    """End the batches of a sweep on this worker, each after its block of samples."""
    with _LOCK:
        _STOPPED.add(sweep)
        for thread in _RUNNING.get(sweep, ()):
            stop(thread)
