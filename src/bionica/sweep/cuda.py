"""Cases on a GPU: networks of one kind and size run together, one thread each, and the data of a batch are sent once.

Some cases run on the CPU: offline methods, networks with a running whitening (their rules are attended to in Python) or a gain that
follows the input (`precondition="scale"`), data without sources to compare with, and batches whose data do not fit into the memory
of the card.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._compat.numba_cuda import cuda, row_stack
from ..engines import cuda as gpu
from ..networks.rule import rule_of, to_arrays
from .plan import Case
from .run import Outcome, errors, squared_sums, sum_times

Array = NDArray[Any]

NO_GPU = "no NVIDIA GPU or no driver was found"
#: Share of the card's free memory that a batch may take.
MEMORY_SHARE = 0.8
#: Most networks that run together, so that results arrive while others run.
MOST_NETWORKS = 2**16


class _Entry(NamedTuple):
    """A case that is ready to go: its network's state, and the sums of errors of the `first` samples, which it has learned."""

    case: Case
    state: Any
    params: Any
    X: Array
    S: Array
    first: int
    rates: Array
    sums: Array


def unavailable() -> str | None:
    """Return None if there is a GPU to compute on, else the reason why not."""
    try:
        if not cuda().is_available():
            return NO_GPU
        cuda().current_context()
    except ImportError as error:
        return (
            f"Numba's CUDA support is missing ({error}): pip install 'bionica[cuda]'"
            if gpu.gpu_is_visible()
            else NO_GPU
        )
    except Exception as error:  # whatever the driver says
        return f"the GPU cannot be used ({error})"
    return None


def run(cases: Sequence[Case], on_cpu: Callable[[Sequence[Case]], Generator[Outcome]]) -> Generator[Outcome]:
    """Run cases on the GPU, and those that it cannot take by `on_cpu`; yield their outcomes as they finish."""
    elsewhere = [case for case in cases if _needs_cpu(case)]
    groups: dict[Any, list[_Entry]] = defaultdict(list)
    shared: dict[Any, Any] = {}
    for case in (case for case in cases if not _needs_cpu(case)):
        entry = _open(case, shared)
        if isinstance(entry, Outcome):
            yield entry
        elif rule_of(entry.state).attend:
            elsewhere.append(case)
        else:
            groups[gpu.kind(entry.state, entry.params), entry.X.shape, entry.first, case.times].append(entry)
    room = left = MEMORY_SHARE * cuda().current_context().get_memory_info()[0]
    together: list[list[_Entry]] = []
    for entries in groups.values():
        entries.sort(key=lambda entry: id(entry.X))  # neighbouring threads share reads
        for batch in (entries[i : i + MOST_NETWORKS] for i in range(0, len(entries), MOST_NETWORKS)):
            need = _bytes(batch)
            if need > room:
                warnings.warn("data too large for the memory of the GPU: their cases run on the CPU", stacklevel=2)
                elsewhere += [entry.case for entry in batch]
                continue
            if need > left:
                yield from _compute(together)
                together, left = [], room
            together.append(batch)
            left -= need
    yield from _compute(together)
    if elsewhere:
        yield from on_cpu(elsewhere)


def _needs_cpu(case: Case) -> bool:
    has_rule = hasattr(case.network.cls, "_open")
    return not has_rule or not case.data.d or case.parameters().get("precondition") == "scale"


def _bytes(entries: list[_Entry]) -> int:
    """Return an upper bound of the memory of a batch on the card."""
    own = sum(a.nbytes for a in to_arrays(entries[0].state).values()) + entries[0].sums.nbytes
    arrays = {id(a): a.nbytes for entry in entries for a in (entry.X, entry.S, entry.rates)}
    return int(own * len(entries) + sum(arrays.values()))


def _open(case: Case, shared: dict[Any, Any]) -> _Entry | Outcome:
    """Start a network on the CPU; return an outcome if it cannot be started. `shared` keeps data and rates for the next case."""
    started = time.perf_counter()
    model, transformer = case.start()
    if case.data_key not in shared:
        shared[case.data_key] = case.data.load(case.seed, case.dtype)
    S, X = shared[case.data_key]
    if transformer is not None:
        if (whitened := (case.data_key, repr(transformer))) not in shared:
            shared[whitened] = np.ascontiguousarray(transformer.fit_transform(X))
        X = shared[whitened]
    try:
        with np.errstate(all="ignore"):
            state, Y = model._open(X)
            rates = model._rates(state, len(X) - len(Y))
    except (ArithmeticError, ValueError) as error:
        seconds = time.perf_counter() - started
        return Outcome(case.key, str(error), list(case.times), None, None, 0, seconds, "cuda")
    rates = shared.setdefault((rates.shape, rates.tobytes()), rates)
    times = np.array(sum_times(case.times))
    sums = np.zeros((len(times), case.data.d, case.data.d))
    if first := len(Y):
        early = squared_sums(S[:first], Y, [*times[times < first], first])
        sums[:] = early[-1]
        sums[: len(early) - 1] = early[:-1]
    return _Entry(case, state, model._rule_params(state, X.dtype), X, S, first, rates, sums)


def _compute(batches: list[list[_Entry]]) -> Generator[Outcome]:
    """Run batches on the card at once and make outcomes of the results."""
    made = list(map(_batch, batches))
    gpu.compile_in_processes(made)
    with row_stack():  # compiles
        prepared = list(map(gpu.prepare, made))
        seconds = gpu.launch(prepared) / max(1, sum(map(len, batches)))
    for entries, batch in zip(batches, prepared, strict=True):
        results = gpu.collect(batch)
        for i, entry in enumerate(entries):
            repairs, times = int(results.repairs[i]), entry.case.times
            if results.done[i] < len(entry.X) - entry.first:
                status = f"diverged at sample {entry.first + results.done[i]}"
                yield Outcome(entry.case.key, status, list(times), None, None, repairs, seconds, "cuda")
            else:
                entry.sums[-len(results.sums) :] += results.sums[..., i]
                yield Outcome(entry.case.key, "ok", list(times), *errors(entry.sums, times), repairs, seconds, "cuda")


def _batch(entries: list[_Entry]) -> gpu.Batch:
    first, dtype = entries[0].first, entries[0].X.dtype
    _, different, data = np.unique([id(entry.X) for entry in entries], return_index=True, return_inverse=True)
    _, schedules, schedule = np.unique([id(entry.rates) for entry in entries], return_index=True, return_inverse=True)
    times = np.array(sum_times(entries[0].case.times))
    return gpu.Batch(
        [entry.state for entry in entries],
        [entry.params for entry in entries],
        np.stack([entries[i].X[first:] for i in different]),
        np.stack([entries[i].S[first:] for i in different]).astype(dtype),
        data,
        np.stack([entries[i].rates for i in schedules]).astype(dtype),
        schedule,
        times[times > first] - first,
    )
