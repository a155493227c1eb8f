"""Cases on a GPU: networks of one kind and size go together, one thread each; different kinds run side by side; the data of a
batch are sent once.

What a GPU cannot take is run on the CPU: networks whose gain follows the input (`precondition="scale"`), data without sources to
compare with, and batches whose data do not fit into the card's memory.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engines.cuda import launch as gpu
from ..networks.state import to_arrays
from . import run_threads as engine_cpu
from .data import Problem
from .errors import Score, add_errors, new_score
from .plan import Case
from .table import Outcome, failed, finished

__all__ = ["available", "run"]

#: Share of the card's free memory that a batch may take.
SHARE = 0.8
#: Networks that go together at most, so that results come while others run.
NETWORKS = 2**16


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
    elsewhere = [case for case in cases if _is_for_cpu(case)]
    problems: dict[tuple[str, int, str], Problem] = {}
    groups: dict[Any, list[_Entry]] = defaultdict(list)
    for case in cases:
        if _is_for_cpu(case):
            continue
        key = (case.data.identity, case.data.seed_of(case.seed), case.dtype)
        if key not in problems:
            problems[key] = case.data.load(key[1], case.dtype)
        entry = _open(case, problems[key])
        if isinstance(entry, Outcome):
            yield entry
        else:
            groups[gpu.kind(entry.state, entry.params), entry.X.shape, entry.case.times].append(entry)
    free, _ = _cuda().current_context().get_memory_info()
    together: list[list[_Entry]] = []
    left = SHARE * free
    for batch in (batch for entries in groups.values() for batch in _cut(entries)):
        need = _bytes(batch)
        if need > SHARE * free:
            warnings.warn("the data do not fit into the GPU's memory: their cases run on the CPU", stacklevel=2)
            elsewhere += [entry.case for entry in batch]
            continue
        if need > left:
            yield from _compute(together)
            together, left = [], SHARE * free
        together.append(batch)
        left -= need
    yield from _compute(together)
    if elsewhere:
        yield from engine_cpu.run(elsewhere, n_jobs)


def _is_for_cpu(case: Case) -> bool:
    return case.value("precondition") == "scale" or not case.data.d


def _cut(entries: list[_Entry]) -> Iterable[list[_Entry]]:
    """Cut the networks of one kind into batches; those on the same data stay together, for threads that go together."""
    entries = sorted(entries, key=lambda entry: id(entry.X))
    return (entries[i : i + NETWORKS] for i in range(0, len(entries), NETWORKS))


def _bytes(entries: list[_Entry]) -> int:
    """Return what a batch takes on the card, or a little more."""
    own = sum(a.nbytes for a in to_arrays(entries[0].state).values()) + entries[0].score.noted.nbytes
    shared = {id(a): a.nbytes for entry in entries for a in (entry.X, entry.S, entry.rates)}
    return int(own * len(entries) + sum(shared.values()))


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


def _compute(batches: list[list[_Entry]]) -> Iterable[Outcome]:
    """Run batches on the card at once and turn what comes back into outcomes."""
    prepared = [gpu.prepare(_batch(entries)) for entries in batches]
    seconds = gpu.launch(prepared) / max(1, sum(map(len, batches)))
    for entries, batch in zip(batches, prepared, strict=True):
        found = gpu.collect(batch)
        for i, entry in enumerate(entries):
            repairs = int(found.repairs[i])
            if found.done[i] < len(entry.X) - entry.first:
                status = f"diverged at sample {entry.first + found.done[i]}"
                yield failed(entry.case, status, repairs, seconds, "cuda")
            else:
                entry.score.noted[-len(found.noted) :] = entry.score.total + found.noted[..., i]
                yield finished(entry.case, entry.score, repairs, seconds, "cuda")


def _batch(entries: list[_Entry]) -> gpu.Batch:
    first, dtype = entries[0].first, entries[0].X.dtype
    X, data = _distinct([entry.X for entry in entries])
    S, _ = _distinct([entry.S for entry in entries], [entry.X for entry in entries])
    rates, schedule = _alike([entry.rates for entry in entries])
    times = entries[0].score.times
    return gpu.Batch(
        [entry.state for entry in entries],
        [entry.params for entry in entries],
        np.stack([x[first:] for x in X]),
        np.stack([s[first:] for s in S]).astype(dtype),
        data,
        np.stack(rates).astype(dtype),
        schedule,
        times[times > first] - first,
    )


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
