"""Cases on a GPU: networks of one kind and size go together, one thread each; the data of a batch are sent once.

What a GPU cannot take is run on the CPU: networks whose gain follows the input (`precondition="scale"`), data without sources to
compare with, and batches whose data do not fit into the card's memory.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..networks import gpu
from ..networks.state import to_arrays
from . import engine_cpu
from .data import Problem
from .errors import Score, add_errors, new_score
from .plan import Case
from .table import Outcome, failed, finished

__all__ = ["available", "run"]

#: Share of the card's free memory that a batch may take.
SHARE = 0.8


class _Entry(NamedTuple):
    """A case that is ready to go: its network's state, what it has learned already, and what is left."""

    case: Case
    state: Any
    params: Any
    X: Any
    S: Any
    first: int
    rates: Any
    score: Score


def available() -> str | None:
    """Return None if there is a GPU to compute on, else why there is none."""
    try:
        cuda = _cuda()
        if not cuda.is_available():
            return "no NVIDIA GPU or no driver was found"
        cuda.current_context()
    except ImportError as error:
        return f"Numba's CUDA support is missing ({error}): pip install 'bionica[cuda]'"
    except Exception as error:  # whatever the driver says
        return f"the GPU cannot be used ({error})"
    return None


def _cuda() -> Any:
    # NumPy 2.5 has no row_stack any more, which numba-cuda still looks up.
    if not hasattr(np, "row_stack"):
        setattr(np, "row_stack", np.vstack)  # noqa: B010
    from numba import cuda

    return cuda


def run(cases: Sequence[Case], n_jobs: int) -> Generator[Outcome, None, None]:
    """Run cases on the GPU, those that it cannot take in threads, and yield their outcomes as they come."""
    elsewhere = [case for case in cases if case.value("precondition") == "scale" or not case.data.d]
    problems: dict[tuple[str, int, str], Problem] = {}
    groups: dict[Any, list[_Entry]] = defaultdict(list)
    for case in cases:
        if case in elsewhere:
            continue
        key = (case.data.identity, case.data.seed_of(case.seed), case.dtype)
        if key not in problems:
            problems[key] = case.data.load(key[1], case.dtype)
        entry = _open(case, problems[key])
        if isinstance(entry, Outcome):
            yield entry
        else:
            groups[gpu.kind(entry.state, entry.params), entry.X.shape, entry.case.times].append(entry)
    for entries in groups.values():
        for batch in _batches(entries):
            if batch is None:
                warnings.warn("the data do not fit into the GPU's memory: their cases run on the CPU", stacklevel=2)
                elsewhere += [entry.case for entry in entries]
                break
            yield from _compute(batch)
    if elsewhere:
        yield from engine_cpu.run(elsewhere, n_jobs)


def _open(case: Case, problem: Problem) -> _Entry | Outcome:
    """Start a network on the CPU; an outcome if it cannot be started."""
    started = time.perf_counter()
    network, X = case.start(problem)
    score = new_score(case.times, problem.S.shape[1])
    try:
        with np.errstate(all="ignore"):
            state, Y = network._open(X)
            add_errors(problem.S, Y, 0, len(Y), *score)
            rates = network._rates(state, len(X) - len(Y))
    except (ArithmeticError, ValueError) as error:
        return failed(case, str(error), 0, time.perf_counter() - started, "cuda")
    return _Entry(case, state, network._rule_params(state, X.dtype), X, problem.S, len(Y), rates, score)


def _batches(entries: list[_Entry]) -> Generator[list[_Entry] | None, None, None]:
    """Cut entries so that a batch fits into the card's memory; None if not even one does."""
    free, _ = _cuda().current_context().get_memory_info()
    left = SHARE * free
    batch: list[_Entry] = []
    seen: set[int] = set()
    for entry in entries:
        own = sum(a.nbytes for a in to_arrays(entry.state).values()) + entry.score.noted.nbytes
        shared = entry.X.nbytes + entry.S.nbytes + entry.rates.nbytes
        need = own + (0 if id(entry.X) in seen else shared)
        if need > left and batch:
            yield batch
            batch, seen, left = [], set(), SHARE * free
            need = own + shared
        if need > left:
            yield None
            return
        seen.add(id(entry.X))
        batch.append(entry)
        left -= need
    if batch:
        yield batch


def _compute(entries: list[_Entry]) -> Iterable[Outcome]:
    """Run a batch and turn what comes back into outcomes."""
    entries = sorted(entries, key=lambda entry: id(entry.X))  # threads that go together read the same data
    head = entries[0]
    first, dtype = head.first, head.X.dtype
    X, data = _distinct([entry.X for entry in entries])
    S, _ = _distinct([entry.S for entry in entries], [entry.X for entry in entries])
    rates, schedule = _alike([entry.rates for entry in entries])
    times = head.score.times[head.score.times > first] - first
    batch = gpu.Batch(
        [entry.state for entry in entries],
        [entry.params for entry in entries],
        np.stack([x[first:] for x in X]),
        np.stack([s[first:] for s in S]).astype(dtype),
        data,
        np.stack(rates).astype(dtype),
        schedule,
        times,
    )
    found = gpu.run(batch)
    seconds = found.seconds / len(entries)
    for i, entry in enumerate(entries):
        repairs = int(found.repairs[i])
        if found.done[i] < batch.X.shape[1]:
            yield failed(entry.case, f"diverged at sample {first + found.done[i]}", repairs, seconds, "cuda")
            continue
        entry.score.noted[-len(times) :] = entry.score.total + found.noted[..., i]
        yield finished(entry.case, entry.score, repairs, seconds, "cuda")


def _distinct(arrays: list[Any], by: list[Any] | None = None) -> tuple[list[Any], Any]:
    """Return each array once, and for every one its number; `by` are the arrays that tell which are the same."""
    place: dict[int, int] = {}
    kept: list[Any] = []
    for array, marker in zip(arrays, by or arrays, strict=True):
        if place.setdefault(id(marker), len(place)) == len(kept):
            kept.append(array)
    return kept, np.array([place[id(marker)] for marker in by or arrays])


def _alike(arrays: list[Any]) -> tuple[list[Any], Any]:
    """Return each of the arrays that differ in what they hold, and for every one its number."""
    place: dict[bytes, int] = {}
    kept: list[Any] = []
    which: list[int] = []
    for array in arrays:
        key = array.tobytes()
        if key not in place:
            place[key] = len(kept)
            kept.append(array)
        which.append(place[key])
    return kept, np.array(which)
