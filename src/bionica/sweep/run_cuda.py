"""Cases on a GPU: networks of one kind and size run together, one thread each. Different kinds run side by side. The data of a
batch are sent once.

Some cases run on the CPU: offline methods, networks whose gain follows the input (`precondition="scale"`), data without sources to
compare with, and batches whose data do not fit into the memory of the card.
"""

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._compat.numba_cuda import cuda, row_stack
from ..engines.cuda import launch as gpu
from ..engines.cuda.device import gpu_is_visible
from ..networks.rule import to_arrays
from .cases import Case
from .data import LoadedData
from .estimator_names import find_estimator
from .journal import Outcome, outcome_of
from .running_error import ErrorSums, add_outputs, new_sums

NO_GPU = "no NVIDIA GPU or no driver was found"
#: Share of the card's free memory that a batch may take.
MEMORY_SHARE = 0.8
#: Most networks that run together, so that results arrive while others run.
MOST_NETWORKS = 2**16


class _Entry(NamedTuple):
    """A case that is ready to go: its network's state, and the errors of the `first` samples, which it has learned already."""

    case: Case
    state: Any
    params: Any
    X: Any
    S: Any
    first: int
    rates: Any
    sums: ErrorSums


def unavailable() -> str | None:
    """Return None if there is a GPU to compute on, else the reason why not."""
    try:
        if not cuda().is_available():
            return NO_GPU
        cuda().current_context()
    except ImportError as error:
        if not gpu_is_visible():
            return NO_GPU
        return f"Numba's CUDA support is missing ({error}): pip install 'bionica[cuda]'"
    except Exception as error:  # whatever the driver says
        return f"the GPU cannot be used ({error})"
    return None


def run(
    cases: Sequence[Case], on_cpu: Callable[[Sequence[Case]], Generator[Outcome, None, None]]
) -> Generator[Outcome, None, None]:
    """Run cases on the GPU, and those that it cannot take by `on_cpu`; yield their outcomes as they finish."""
    elsewhere = [case for case in cases if _needs_cpu(case)]
    loaded: dict[tuple[str, int, str], LoadedData] = {}
    groups: dict[Any, list[_Entry]] = defaultdict(list)
    schedules: dict[Any, Any] = {}
    for case in (case for case in cases if not _needs_cpu(case)):
        if case.data_key not in loaded:
            loaded[case.data_key] = case.data.load(case.seed, case.dtype)
        entry = _open(case, loaded[case.data_key], schedules)
        if isinstance(entry, Outcome):
            yield entry
        else:
            groups[gpu.kind(entry.state, entry.params), entry.X.shape, entry.case.times].append(entry)
    room = MEMORY_SHARE * cuda().current_context().get_memory_info()[0]
    together: list[list[_Entry]] = []
    left = room
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
    has_rule = hasattr(find_estimator(case.network), "_open")
    return not has_rule or not case.data.d or case.values(["precondition"])["precondition"] == "scale"


def _bytes(entries: list[_Entry]) -> int:
    """Return an upper bound of the memory of a batch on the card."""
    own = sum(a.nbytes for a in to_arrays(entries[0].state).values()) + entries[0].sums.recorded.nbytes
    shared = {id(a): a.nbytes for entry in entries for a in (entry.X, entry.S, entry.rates)}
    return int(own * len(entries) + sum(shared.values()))


def _open(case: Case, data: LoadedData, schedules: dict[Any, Any]) -> _Entry | Outcome:
    """Start a network on the CPU; return an outcome if it cannot be started. `schedules` keeps rates, which seeds share."""
    started = time.perf_counter()
    network, X = case.start(data)
    sums = new_sums(case.times, data.S.shape[1])
    try:
        with np.errstate(all="ignore"):
            state, Y = network._open(X)
            add_outputs(data.S, Y, 0, *sums)
            which = (case.network, case.published, case.params, case.dtype, X.shape, len(Y), case.data.d)
            if which not in schedules:
                rates = network._rates(state, len(X) - len(Y))
                schedules[which] = schedules.setdefault(rates.tobytes(), rates)
    except (ArithmeticError, ValueError) as error:
        return outcome_of(case, 0, time.perf_counter() - started, status=str(error), device="cuda")
    params = network._rule_params(state, X.dtype)
    return _Entry(case, state, params, X, data.S, len(Y), schedules[which], sums)


def _compute(batches: list[list[_Entry]]) -> Iterable[Outcome]:
    """Run batches on the card at once and make outcomes of the results."""
    with row_stack():  # compiles
        prepared = [gpu.prepare(_batch(entries)) for entries in batches]
        seconds = gpu.launch(prepared) / max(1, sum(map(len, batches)))
    for entries, batch in zip(batches, prepared, strict=True):
        found = gpu.collect(batch)
        for i, entry in enumerate(entries):
            repairs = int(found.repairs[i])
            if found.done[i] < len(entry.X) - entry.first:
                status = f"diverged at sample {entry.first + found.done[i]}"
                yield outcome_of(entry.case, repairs, seconds, status=status, device="cuda")
            else:
                entry.sums.recorded[-len(found.noted) :] = entry.sums.total + found.noted[..., i]
                yield outcome_of(entry.case, repairs, seconds, entry.sums, device="cuda")


def _batch(entries: list[_Entry]) -> gpu.Batch:
    first, dtype = entries[0].first, entries[0].X.dtype
    _, different, data = np.unique([id(entry.X) for entry in entries], return_index=True, return_inverse=True)
    _, schedules, schedule = np.unique([id(entry.rates) for entry in entries], return_index=True, return_inverse=True)
    times = entries[0].sums.times
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
