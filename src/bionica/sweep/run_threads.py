"""Cases in the threads of one process. The compiled loop holds no lock, so threads use all cores, and share their data.

Each thread stays with the data that it has until their cases are through, then takes other data, then helps the others: at most as
many data are in memory as there are threads, and fewer where they are large. A case never depends on the thread that runs it.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence

import numpy as np

from ..estimators._exceptions import DivergenceError
from .data import Problem
from .errors import add_errors, new_score
from .plan import Case
from .table import Outcome, failed, finished

__all__ = ["run", "run_case"]

#: Bytes of data beyond which threads share rather than take other data.
MEMORY = 2**30


def run(cases: Sequence[Case], n_jobs: int) -> Generator[Outcome, None, None]:
    """Run cases in threads and yield their outcomes as they come; closing the generator stops them."""
    work = _Work(cases)
    outcomes: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
    count = min(n_jobs, len(cases))
    threads = [threading.Thread(target=_serve, args=(work, outcomes), daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        for _ in cases:
            outcome = outcomes.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        work.stop()
        for thread in threads:
            thread.join()


def run_case(case: Case, problem: Problem) -> Outcome:
    """Run one case: its network over all its samples, the errors as they come."""
    started = time.perf_counter()
    network, X = case.start(problem)
    score = new_score(case.times, problem.S.shape[1])
    state = None
    try:
        with np.errstate(all="ignore"):  # a setting that diverges says so by its status
            state, Y = network._open(X)
            add_errors(problem.S, Y, 0, len(Y), *score)
            params = network._rule_params(state, X.dtype)
            X, first = X[len(Y) :], len(Y)
            # The estimator's blocks: outputs stay in the cache, and what it says of a divergence is the same.
            blocks = list(network._blocks(*X.shape))
            outputs = np.empty((blocks[0][1] if blocks else 0, state.fired.size), X.dtype)
            for start, stop in blocks:
                network._advance(state, params, X[start:stop], outputs[: stop - start], first + start)
                add_errors(problem.S, outputs, first + start, stop - start, *score)
    except (DivergenceError, ValueError) as error:
        # A ValueError is a learning rate above what the rule can bear; what else could be wrong, the plan has refused.
        status = f"diverged at sample {error.sample}" if isinstance(error, DivergenceError) else str(error)
        repairs = 0 if state is None else int(state.repairs.sum())
        return failed(case, status, repairs, time.perf_counter() - started, "cpu")
    return finished(case, score, int(state.repairs.sum()), time.perf_counter() - started, "cpu")


class _Group:
    """Cases on the same data, which are made when the first is run."""

    def __init__(self, case: Case):
        self.data, self.seed, self.dtype = case.data, case.data.seed_of(case.seed), case.dtype
        self.cases: deque[Case] = deque()
        self.users = 0
        self._problem: Problem | None = None
        self._lock = threading.Lock()

    def problem(self) -> Problem:
        with self._lock:
            if self._problem is None:
                self._problem = self.data.load(self.seed, self.dtype)
            return self._problem

    def forget(self) -> None:
        self._problem = None


class _Work:
    """Hands out cases to threads."""

    def __init__(self, cases: Sequence[Case]):
        groups: dict[tuple[str, int, str], _Group] = {}
        for case in cases:
            key = (case.data.identity, case.data.seed_of(case.seed), case.dtype)
            groups.setdefault(key, _Group(case)).cases.append(case)
        self._fresh = deque(groups.values())
        self._live: list[_Group] = []
        self._lock = threading.Lock()
        self._stopped = False

    def next(self, mine: _Group | None) -> tuple[_Group, Case] | None:
        """The next case for a thread that has the data of `mine`."""
        with self._lock:
            if mine is not None and (self._stopped or not mine.cases):
                self._leave(mine)
                mine = None
            if self._stopped:
                return None
            if mine is None:
                mine = self._choose()
                if mine is None:
                    return None
                mine.users += 1
            return mine, mine.cases.popleft()

    def stop(self) -> None:
        """Let every thread end with the case it has."""
        with self._lock:
            self._stopped = True

    def _choose(self) -> _Group | None:
        waiting = [group for group in self._live if group.cases]
        used = sum(group.data.nbytes for group in self._live)
        if self._fresh and (not waiting or used + self._fresh[0].data.nbytes <= MEMORY):
            group = self._fresh.popleft()
            self._live.append(group)
            return group
        return max(waiting, key=lambda group: len(group.cases), default=None)

    def _leave(self, group: _Group) -> None:
        group.users -= 1
        if not group.users and not group.cases:
            group.forget()
            self._live.remove(group)


def _serve(work: _Work, outcomes: "queue.SimpleQueue[Outcome | BaseException]") -> None:
    """Run cases until there are none."""
    group = None
    try:
        while (found := work.next(group)) is not None:
            group, case = found
            outcomes.put(run_case(case, group.problem()))
    except BaseException as error:  # the thread that asked raises it
        outcomes.put(error)
