"""Run the cases of a plan in this process, in others or on a Dask cluster, and keep
each result as it finishes.

The folder of a sweep holds

- journal.jsonl: a line for each finished case. One that a kill has cut off is skipped,
  and its case runs again.
- results.csv: the table, a row for each case and time, written again at the end of each
  run.

The error at time t is the paper's, `metrics.error_curve`.
"""

import json
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

import bionica
from bionica import metrics
from bionica.circuits.sweep.plan import (
    Case,
    CaseData,
    Plan,
    errors_named,
    is_online,
    source_digest,
)
from bionica.circuits.sweep.table import Row, Table, table_bytes
from bionica.core.blas import one_blas_thread
from bionica.core.errors import DivergenceError
from bionica.io import check_folder, import_optional, write_own

PlanLike = Plan | Mapping[str, Any] | str | os.PathLike[str]

JOURNAL = "journal.jsonl"
RESULTS = "results.csv"
#: Without a number of processes, a sweep that costs less (see `Case.cost`), about 4 s,
#: runs in this one: others take 2 s to start.
SMALL_SWEEP = 240_000_000
_FAILED = (
    "a worker failed or is gone: run again, with fewer processes if memory was short;"
    " finished cases are kept"
)


#: The result of one case. `case` is its key, and `status` is "ok", "diverged at sample
#: n", or why it could not run. `error` is that at the times of the case, and
#: `last_tenth` that over the last tenth of the samples: None if the case failed.
#: `sinr`, `amari` and `held_out_error` are those of the final network on samples that
#: were held out. `condition` is the condition number of the mixing matrix, if known.
#: `repairs` counts how often guards acted, and samples were regularised or did not
#: settle. `versions` and `machine` say what computed it.
_OUTCOME: Row = {
    "case": "",
    "error": None,
    "last_tenth": None,
    "sinr": None,
    "amari": None,
    "held_out_error": None,
    "condition": None,
    "status": "ok",
    "repairs": 0,
    "seconds": 0.0,
    "versions": (
        f"bionica {bionica.__version__} python {platform.python_version()} "
        + " ".join(
            f"{name} {version(name)}" for name in ("numpy", "numba", "scikit-learn")
        )
    ),
    "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
}


@one_blas_thread()  # the same bits everywhere, and no thread waits for another
def run_case(case: Case) -> Row:
    """Run one case; a setting that diverges or that the estimator refuses is an outcome
    too.
    """
    samples = case.load()  # an error of the data ends the sweep
    outcome = {**_OUTCOME, "case": case.key}
    if samples.A is not None:
        outcome["condition"] = float(np.linalg.cond(samples.A))
    started = time.perf_counter()
    try:
        transformer, model, *_, Y = learn(case)
        if case.data.d != Y.shape[1]:
            raise ValueError(
                f"{Y.shape[1]} outputs for {case.data.d} sources: set n_components"
            )
        outcome["seconds"] = time.perf_counter() - started
        errors = matched_errors(samples.S, Y, case.times)
        if case.data.held_out and hasattr(model, "transform"):
            outcome |= held_out_scores(samples, transformer, model)
    except (ArithmeticError, ValueError) as error:
        # Parameters that the rule refuses, for example a learning rate above its limit,
        # or an overflow.
        outcome["seconds"] = time.perf_counter() - started
        outcome["status"] = str(error)
        if isinstance(error, DivergenceError):
            outcome["status"] = f"diverged at sample {error.sample}"
        return outcome
    outcome["error"], outcome["last_tenth"] = errors
    outcome["repairs"] = sum(getattr(model, "repairs_", {}).values())
    return outcome


def held_out_scores(samples: CaseData, transformer: Any, model: Any) -> Row:
    """Score what `transform` makes of the samples that were held out."""
    S = samples.held_out_S
    Y = model.transform(transformer.transform(samples.held_out_X))
    error = metrics.permutation_error(S, Y)
    scores = {"sinr": metrics.sinr(S, Y), "held_out_error": error}
    if samples.A is not None and hasattr(model, "components_"):
        W = model.components_ @ transformer.transform(samples.A.T).T
        scores["amari"] = metrics.amari_distance(W)
    return scores


def learn(case: Case) -> tuple[Any, ...]:
    """Return the transformer of a case, the estimator after it has learned, the
    sources, the mixtures that it got, its outputs.
    """
    S, X, *_ = case.load()
    # The table counts samples that did not settle, and the status tells that a setting
    # diverged.
    with (
        np.errstate(all="ignore"),
        warnings.catch_warnings(action="ignore", category=ConvergenceWarning),
    ):
        model = case.estimator()
        transformer = FunctionTransformer()  # the identity
        if getattr(model, "_takes_whitened", False):
            transformer = bionica.NoncenteredWhitener(model.n_components)
        X = transformer.fit_transform(X)
        if is_online(model):
            Y = model.partial_fit_transform(X)
        else:
            Y = model.fit_transform(X, S)
        return transformer, model, S, X, Y


def matched_errors(
    S: np.ndarray, Y: np.ndarray, times: Sequence[int]
) -> tuple[list[float], float]:
    """Return the error at each of the times, and the error over the last tenth of the
    samples.

    Sources and outputs are matched over all samples; the last time is their number.
    """
    Y = Y[:, metrics.match_sources(S, Y).permutation]
    squares = np.mean((S - Y) ** 2, axis=1)
    errors = np.cumsum(squares)[np.array(times) - 1] / times
    tail = max(1, len(S) // 10)
    return errors.tolist(), float(np.mean(squares[-tail:]))


def read_journal(path: Path) -> dict[str, Row]:
    """Return the outcomes by the keys of their cases; a line that is not whole is
    skipped.
    """
    outcomes = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            outcome = json.loads(line)
            outcomes[outcome["case"]] = outcome
    return outcomes


def _start_worker(parent: int, *versions: str) -> None:
    """Prepare a worker process: Ctrl-C is for its parent, and if that is killed, the
    worker ends too.
    """

    def end_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # on Windows the parent may be a launcher
        threading.Thread(target=end_with_parent, daemon=True).start()


def run(
    plan: PlanLike,
    output: str | os.PathLike[str] | None = None,
    *,
    n_jobs: int = -1,
    scheduler: str | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Table:
    """Run the cases of a plan on all cores; every result has the bits of the estimator
    alone.

    Parameters
    ----------
    plan : Plan, dict or path
        What to run; a path is that of a TOML file.
    output : path, optional
        Folder for the results. Each result is stored as it finishes: a second call runs
        only what is missing, and after a change of the plan only what is new. By
        default results are only returned.
    n_jobs : int, default=-1
        Number of processes; -1 for one per core (one process for a sweep of less than
        about 4 seconds), -2 for one less.
    scheduler : str, optional
        Address of a Dask scheduler, tcp://host:8786, to run there.
    force : bool, default=False
        Whether to run everything again, and to replace a table in `output` that was not
        written by a sweep.
    progress : callable, optional
        Called after each case with the number of finished cases and of all cases.

    Returns
    -------
    Table
        A row for each case and time.

    Examples
    --------
    >>> from bionica.circuits import sweep
    >>> data = {"kind": "sparse_uniform", "d": 3, "T": 2000, "mixing": "d3"}
    >>> network = {"name": "TwoCompartmentNICA", "published": "d3"}
    >>> network["grid"] = {"tau": [0.5, 0.8]}
    >>> table = sweep.run({"seeds": 2, "data": [data], "network": [network]})
    >>> len(table), [row["tau"] for row in table.best()]
    (4, [0.5])
    """
    sweep = Sweep(plan, output, n_jobs=n_jobs, scheduler=scheduler, force=force)
    if progress is None:
        return sweep.run()
    total = len(sweep.outcomes) + len(sweep.missing)
    return sweep.run(lambda case: progress(len(sweep.outcomes), total))


class Sweep:
    """A plan that is ready to run; the parameters are those of `run`.

    `outcomes` has what is known, `missing` the cases that are not, both by their keys,
    and `engine` says what will run them.
    """

    def __init__(
        self,
        plan: PlanLike,
        output: str | os.PathLike[str] | None = None,
        *,
        n_jobs: int = -1,
        scheduler: str | None = None,
        force: bool = False,
    ):
        if isinstance(plan, Mapping):
            plan = Plan.from_dict(plan)
        elif not isinstance(plan, Plan):
            plan = Plan.from_toml(plan)
        self.plan = plan
        self.cases = plan.cases()
        self.missing = {case.key: case for case in self.cases}
        self.outcomes: dict[str, Row] = {}
        self.folder = None if output is None else Path(output)
        if self.folder is not None:
            check_folder(self.folder, [RESULTS], replace=force)
            known = {} if force else read_journal(self.folder / JOURNAL)
            for key in known.keys() & self.missing.keys():
                errors = known[key]["error"] or ()
                if len(errors) in (0, len(self.missing[key].times)):
                    self.outcomes[key] = known[key]
                    del self.missing[key]
        if n_jobs == 0:
            raise ValueError(
                "n_jobs=0: give a number of processes, or -1 for one per core"
            )
        cost = sum(case.cost for case in self.missing.values())
        if n_jobs < 0 and cost < SMALL_SWEEP:
            n_jobs = 1
        self.n_jobs = min(effective_n_jobs(n_jobs), max(1, len(self.missing)))
        self.engine = "1 process" if self.n_jobs == 1 else f"{self.n_jobs} processes"
        self.scheduler = scheduler
        if scheduler is not None:
            self.engine = f"Dask at {scheduler}"

    def run(self, done: Callable[[Case], object] = lambda case: None) -> Table:
        """Run what is missing, store each result as it arrives, and return the table;
        `done` is called with each case.
        """
        try:
            with closing(self._run_cases()) as outcomes:
                for outcome in outcomes:
                    self.outcomes[outcome["case"]] = outcome
                    # a line begins with its line break, which also ends one that a kill
                    # has cut off
                    if self.folder:
                        self.folder.mkdir(parents=True, exist_ok=True)
                        with (self.folder / JOURNAL).open("a") as file:
                            file.write("\n" + json.dumps(outcome))
                    done(self.missing[outcome["case"]])
            # a cluster that is gone may end without an error
            if self.missing.keys() - self.outcomes.keys():
                raise RuntimeError(_FAILED)
        finally:  # after an interruption too
            table = self._table()
            if self.folder and len(table):
                write_own(self.folder / RESULTS, table_bytes(table))
        return table

    def _run_cases(self) -> Generator[Row]:
        """Yield the outcomes of what is missing as they finish, in any order; closing
        the generator stops the others.
        """
        # long ones first; neighbours share their data
        cases = sorted(
            self.missing.values(),
            key=lambda case: (-case.cost, case.data.name, case.seed),
        )
        backend = {"backend": "loky", "n_jobs": self.n_jobs}
        if self.scheduler is None:
            # joblib reuses workers whose arguments are equal: not those that loaded
            # another version of a user's estimator.
            digests = sorted({source_digest(case.network.cls) for case in cases})
            backend["initializer"] = _start_worker
            backend["initargs"] = (os.getpid(), *digests, *sys.path)
            # of libraries that `one_blas_thread` does not know
            backend["inner_max_num_threads"] = 1
        else:
            distributed = import_optional("distributed", "a scheduler", "dask")
            where = (
                f"scheduler={self.scheduler!r} does not answer, start one with `dask"
                " scheduler`"
            )
            with errors_named(where):
                client = distributed.Client(
                    self.scheduler, timeout=10, set_as_default=False
                )
            backend = {"backend": "dask", "n_jobs": -1, "client": client}
            backend["wait_for_workers_timeout"] = 30
        try:
            with parallel_config(**backend):
                parallel = Parallel(return_as="generator_unordered")
            # joblib warns of cases that an interruption cancels.
            with (
                warnings.catch_warnings(action="ignore"),
                closing(parallel(map(delayed(run_case), cases))) as outcomes,
            ):
                yield from outcomes
        except (BrokenExecutor, CancelledError, TimeoutError, ImportError) as error:
            raise RuntimeError(f"{_FAILED} ({error})") from error
        finally:
            if self.scheduler is not None:
                client.close(timeout=3)

    def _table(self) -> Table:
        """Join the cases with their outcomes; a case that has not run has no row."""
        rows = []
        settings = [network.settings[0] for network in self.plan.networks]
        swept = list(dict.fromkeys(name for params in settings for name, _ in params))
        for case in self.cases:
            if case.key not in self.outcomes:
                continue
            outcome = dict(self.outcomes[case.key])
            params = case.estimator().get_params(deep=False)
            row = {
                "case": case.key,
                "data": case.data.name,
                "network": case.network.label,
                **{name: params.get(name) for name in swept},
                "seed": case.seed,
                "dtype": case.dtype,
            }
            del outcome["case"]
            errors = outcome.pop("error") or [None] * len(case.times)
            for t, error in zip(case.times, errors, strict=True):
                rows.append({**row, "t": t, "error": error, **outcome})
        return Table(rows, swept)
