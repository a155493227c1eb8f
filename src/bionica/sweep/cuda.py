"""Cases on a GPU: networks of one kind and size run together, one thread each, and the data of a batch are sent once.

Some cases run on the CPU: offline methods, networks with a running whitening (their rules need periodic maintenance in Python),
those that are scored on held-out samples, and those that cannot be started.
Where a weight overflows, the CPU names that sample, and a GPU the next whose output does.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._compat.numba_cuda import cuda
from ..estimator import OnlineEstimator
from ..kernels import cuda as gpu
from ..kernels.learner import NetworkLearner
from ..kernels.rule import rule_of
from .plan import Case
from .run import Outcome, matched_errors, sum_times


class _Entry(NamedTuple):
    """A case that is ready to go: its network's state, and what it learns from."""

    case: Case
    state: Any
    params: Any
    X: np.ndarray
    S: np.ndarray
    rates: np.ndarray
    condition: float | None


def unavailable() -> str | None:
    """Return None if there is a GPU to compute on, else the reason why not."""
    try:
        if not cuda().is_available():
            return "no NVIDIA GPU or no driver was found"
        cuda().current_context()
    except Exception as error:  # of an import, or whatever the driver says
        return f"no GPU can be used ({error}); where there is one, pip install 'bionica[cuda]'"
    return None


def run(cases: Sequence[Case], on_cpu: Callable[[Sequence[Case]], Generator[Outcome]]) -> Generator[Outcome]:
    """Run cases on the GPU, and those that it cannot take by `on_cpu`; yield their outcomes as they finish."""
    elsewhere = []
    groups: dict[Any, list[_Entry]] = defaultdict(list)
    shared: dict[Any, Any] = {}
    for case in cases:
        if (entry := _open(case, shared)) is None:
            elsewhere.append(case)
        else:
            groups[gpu.kernel_signature(entry[1:3]), entry.X.shape, case.times].append(entry)
    gpu.compile_in_processes([_batch(entries[:1]) for entries in groups.values()])
    for entries in groups.values():
        yield from _compute(sorted(entries, key=lambda entry: id(entry.X)))  # neighbouring threads share reads
    if elsewhere:
        yield from on_cpu(elsewhere)


def _open(case: Case, shared: dict[Any, Any]) -> _Entry | None:
    """Start a network, or return None if the CPU is needed. `shared` keeps data and rates."""
    transformer, model = case.start()
    if not isinstance(model, OnlineEstimator) or case.data.held_out:
        return None
    if case.data_key not in shared:
        shared[case.data_key] = case.data.load(*case.data_key[1:])
    samples = shared[case.data_key]
    S, X = samples.S, samples.X
    try:
        if transformer is not None:
            if (whitened := (case.data_key, repr(transformer))) not in shared:
                shared[whitened] = np.ascontiguousarray(transformer.fit_transform(X))
            X = shared[whitened]
        with np.errstate(all="ignore"):
            learner = model._learner_for(X.shape[1], X.dtype)
            if not isinstance(learner, NetworkLearner) or (rule := rule_of(learner.state)).maintain or rule.step:
                return None
            rates = learner.rates_at(0, len(X))
    except (ArithmeticError, ValueError):  # the CPU finds the same, and says why
        return None
    rates = shared.setdefault((rates.shape, rates.tobytes()), rates)
    return _Entry(case, learner.state, learner.params, X, S, rates, samples.condition)


def _compute(entries: list[_Entry]) -> Generator[Outcome]:
    """Run networks on the card and make outcomes of the results."""
    results = gpu.prepare(_batch(entries))()
    seconds = results.seconds / len(entries)
    for i, (case, *_, condition) in enumerate(entries):
        diverged = results.done[i] < case.times[-1]
        status = f"diverged at sample {results.done[i]}" if diverged else "ok"
        error, last_tenth = (None, None) if diverged else matched_errors(results.sums[..., i], case.times)
        yield Outcome(case.key, status, error, last_tenth, int(results.repairs[i]), seconds, condition, device="cuda")


def _batch(entries: list[_Entry]) -> gpu.Batch:
    dtype = entries[0].X.dtype
    _, different, data = np.unique([id(entry.X) for entry in entries], return_index=True, return_inverse=True)
    _, schedules, schedule = np.unique([id(entry.rates) for entry in entries], return_index=True, return_inverse=True)
    return gpu.Batch(
        [entry.state for entry in entries],
        [entry.params for entry in entries],
        np.stack([entries[i].X for i in different]),
        np.stack([entries[i].S for i in different]).astype(dtype),
        data,
        np.stack([entries[i].rates for i in schedules]).astype(dtype),
        schedule,
        np.array(sum_times(entries[0].case.times)),
    )
