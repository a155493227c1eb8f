"""Which engine runs the cases: one place that chooses by device, scheduler and backend.

An engine takes cases and yields an `Outcome` for each as it is there, in any order.
"""

import warnings
from collections.abc import Callable, Generator, Sequence

from . import run_cuda as engine_cuda
from . import run_threads as engine_cpu
from . import run_workers as clusters
from .plan import Case
from .table import Outcome

__all__ = ["DEVICES", "Engine", "choose"]

Engine = Callable[[Sequence[Case]], Generator[Outcome, None, None]]

DEVICES = ("auto", "cpu", "cuda")


def choose(
    device: str = "auto", n_jobs: int = -1, scheduler: str | None = None, backend: str | None = None
) -> tuple[Engine, str]:
    """Return the engine and its name.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        "auto" takes a GPU where there is one; "cuda" says so where there is none, and the CPU computes.
    n_jobs : int
        Threads or processes; -1 for as many as there are cores, -2 for one less.
    scheduler : str, optional
        Address of a Dask scheduler.
    backend : str, optional
        A backend of joblib.
    """
    from joblib import effective_n_jobs
    from joblib.parallel import BACKENDS

    if device not in DEVICES:
        raise ValueError(f"device={device!r} is unknown: choose from {', '.join(DEVICES)}")
    if n_jobs == 0:
        raise ValueError("n_jobs=0 runs nothing: give a number of threads, or -1 for as many as there are cores")
    if scheduler is not None and backend is not None:
        raise ValueError(f"scheduler={scheduler!r} and backend={backend!r} are two ways to run: give one of them")
    if scheduler is not None:
        return lambda cases: clusters.run_dask(cases, scheduler), f"Dask at {scheduler}"
    if backend is not None:
        names = sorted(name for name, kind in BACKENDS.items() if kind.supports_return_generator)
        if backend not in names:
            raise ValueError(
                f"backend={backend!r} is none of joblib's that hand out results as they come: choose from {', '.join(names)}"
            )
        return lambda cases: clusters.run_joblib(cases, n_jobs, backend), f"joblib's {backend}"
    threads = n_jobs if n_jobs > 0 else int(effective_n_jobs(n_jobs))
    if device != "cpu":
        why = engine_cuda.available()
        if why is None:
            return lambda cases: engine_cuda.run(cases, threads), "the GPU"
        if device == "cuda":
            warnings.warn(f"device='cuda': {why}; the CPU computes", stacklevel=3)
    return lambda cases: engine_cpu.run(cases, threads), f"{threads} {'thread' if threads == 1 else 'threads'}"
