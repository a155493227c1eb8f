"""One case: its estimator over all its samples, and the errors of its outputs."""

import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from ..estimators._exceptions import DivergenceError
from .cases import Case
from .data import LoadedData
from .journal import Outcome, failed, finished
from .running_error import add_outputs, new_sums

__all__ = ["run_case", "run_in_order"]


def run_in_order(cases: Sequence[Case]) -> Generator[Outcome, None, None]:
    """Run cases one after the other in this process; neighbours on the same data share the arrays."""
    key, data = None, None
    for case in cases:
        if data is None or case.data_key != key:
            data = None  # not two at a time
            key, data = case.data_key, case.data.load(case.seed, case.dtype)
        yield run_case(case, data)


def run_case(case: Case, data: LoadedData) -> Outcome:
    """Run one case; a setting that diverges or that the estimator refuses is an outcome too."""
    started = time.perf_counter()
    model, X = case.start(data)
    try:
        with np.errstate(all="ignore"):  # the status tells that a setting diverged
            Y = _outputs(model, X, data.S)
    except (DivergenceError, ValueError) as error:
        # A ValueError is a learning rate above what the rule allows: the plan has refused everything else.
        status = f"diverged at sample {error.sample}" if isinstance(error, DivergenceError) else str(error)
        return failed(case, status, 0, time.perf_counter() - started, "cpu")
    sums = new_sums(case.times, data.S.shape[1])
    add_outputs(data.S, Y, 0, *sums)
    repairs = sum(getattr(model, "repairs_", {}).values())
    return finished(case, sums, repairs, time.perf_counter() - started, "cpu")


def _outputs(model: Any, X: Any, S: Any) -> Any:
    """Return the outputs as each sample arrived; of an offline method, those of its final solution."""
    online = hasattr(model, "partial_fit_transform")
    Y = np.ascontiguousarray(model.partial_fit_transform(X) if online else model.fit_transform(X, S))
    if S.shape[1] not in (0, Y.shape[1]):
        raise ValueError(
            f"{type(model).__name__} gives {Y.shape[1]} outputs for {S.shape[1]} sources: set its n_components"
        )
    return Y
