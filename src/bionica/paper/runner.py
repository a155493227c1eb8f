"""Running what is not there yet, on all cores."""

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from .. import metrics
from ..estimators import DivergenceError, NoncenteredWhitener
from ..estimators._published import SOURCES
from ..sweep import Case
from ..sweep import run_threads as engine_cpu
from ..sweep.data import Data
from ..sweep.provenance import machine, versions
from .config import Task
from .contenders import Array, is_offline, outputs
from .problems import presentations, problem
from .store import Result, Store

#: Times at which a curve is stored.
N_TIMES = 200
#: Points of a cloud of figure 1.
N_POINTS = 1000


def pending(tasks: Sequence[Task], store: Store) -> list[Task]:
    """The tasks whose results are not stored."""
    return [task for task in tasks if store.get(task) is None]


def run_all(
    tasks: Sequence[Task], store: Store, *, jobs: int = 1, done: Callable[[Task], object] | None = None
) -> None:
    """Run tasks and store each result as it is there.

    Parameters
    ----------
    tasks : sequence of Task
        What to run.
    store : Store
        Where results go.
    jobs : int
        Processes; threads for the grid search, whose runs are cases of a sweep.
    done : callable, optional
        Called with each as it finishes.
    """
    grid = [task for task in tasks if task.experiment == "table1"]
    for task in _search(grid, store, jobs):
        if done is not None:
            done(task)
    tasks = [task for task in tasks if task.experiment != "table1"]
    if jobs == 1 or len(tasks) < 2:
        finished: Iterable[Task] = (execute(task, store) for task in tasks)
    else:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        finished = parallel(delayed(execute)(task, store) for task in tasks)
    for task in finished:
        if done is not None:
            done(task)


def _search(tasks: Sequence[Task], store: Store, jobs: int) -> Iterator[Task]:
    """Run the tasks of the grid search as a sweep does, and store each result as it is there."""
    cases = {case.key: (task, case) for task in tasks for case in [as_case(task)]}
    for outcome in engine_cpu.run([case for _, case in cases.values()], jobs):
        task, case = cases[outcome.case]
        header = {name: getattr(outcome, name) for name in ("status", "last_tenth", "seconds", "versions", "machine")}
        header |= {"error": outcome.error and outcome.error[-1], "n_samples": case.data.n_samples, "task": task.file}
        store.put(Result(task, header, {}))
        yield task


def as_case(task: Task) -> Case:
    """A task as the case of a sweep."""
    data = _data(task.setting, task.n_samples, task.epochs, task.images)
    return Case(task.network, task.network, task.setting, task.params, task.seed, data, "float64", (data.n_samples,))


@lru_cache
def _data(setting: str, n_samples: int, epochs: int, images: str | None) -> Data:
    if setting == "images":
        body = {"kind": "images", "epochs": epochs} | ({} if images is None else {"path": images})
    else:
        body = {"kind": "sparse_uniform", "d": SOURCES[setting], "T": n_samples, "mixing": setting}
    return Data.from_dict(body, setting, Path())


def execute(task: Task, store: Store) -> Task:
    """Run one task, store its result, and return the task."""
    S, X = problem(task)
    started = time.perf_counter()
    found: dict[str, Any] = {"status": "ok", "error": None, "last_tenth": None}
    arrays: dict[str, Array] = {}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # FastICA need not converge: its error says so.
            warnings.simplefilter("ignore")
            found["error"], found["last_tenth"], arrays = _measure(task, S, X)
    except DivergenceError as error:
        found["status"] = f"diverged at sample {error.sample}"
    found |= {
        "seconds": time.perf_counter() - started,
        "n_samples": len(S),
        "versions": versions(),
        "machine": machine(),
    }
    found["task"] = task.file
    store.put(Result(task, found, arrays))
    return task


def _measure(task: Task, S: Array, X: Array) -> tuple[float, float | None, dict[str, Array]]:
    if task.network == "correlation floor":
        return metrics.correlation_floor(S), None, {}
    Y = outputs(task.network, task.setting, S, X, task.seed, dict(task.params))
    if task.experiment == "figure1":
        return metrics.permutation_error(S, Y), None, _scatter(S, X, Y)
    if is_offline(task.network):
        return metrics.permutation_error(S, Y), None, {}
    curve = metrics.error_curve(S, Y)
    n = len(curve)
    t = np.unique(np.geomspace(1, n, N_TIMES).round().astype(np.int64))
    arrays = {"t": t, "error": curve[t - 1]}
    if task.keep_outputs:
        arrays["recovered"] = _last_presentation(task, S, Y)
    tail = max(1, n // 10)
    last_tenth = (curve[-1] * n - (curve[n - tail - 1] * (n - tail) if n > tail else 0.0)) / tail
    return float(curve[-1]), float(last_tenth), arrays


def _scatter(S: Array, X: Array, Y: Array) -> dict[str, Array]:
    """The point clouds of figure 1, and three sources to follow."""
    wanted = np.array([[0.45, 2.6], [2.5, 0.55], [1.9, 1.9]])
    tracked = np.array([np.argmin(((S[:N_POINTS] - point) ** 2).sum(axis=1)) for point in wanted])
    Y = Y[:, metrics.match_sources(S, Y).permutation]
    Z = np.asarray(NoncenteredWhitener(2).fit_transform(X))
    clouds = {"sources": S, "mixtures": X, "whitened": Z, "recovered": Y}
    return {**{name: cloud[:N_POINTS] for name, cloud in clouds.items()}, "tracked": tracked}


def _last_presentation(task: Task, S: Array, Y: Array) -> Array:
    """What the network put out as it met each pixel for the last time, in reading order."""
    n = len(S) // task.epochs
    order = presentations(n, task.epochs, task.seed)[-1]
    recovered = np.empty((n, Y.shape[1]), np.float32)
    recovered[order] = Y[-n:, metrics.match_sources(S, Y).permutation]
    return recovered
