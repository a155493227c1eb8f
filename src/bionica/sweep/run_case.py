"""One case: its estimator over all its samples, and the errors of its outputs."""

import time
from collections.abc import Generator, Iterator, Sequence
from itertools import groupby

import numpy as np

from ..estimators._input import DivergenceError
from .cases import Case
from .data import LoadedData
from .estimator_names import is_online
from .journal import Outcome, outcome_of
from .running_error import add_outputs, new_sums
from .stoppable import in_thread


def run_in_order(cases: Sequence[Case]) -> Generator[Outcome, None, None]:
    """Run cases one after the other in a thread of this process; closing the generator stops it."""
    yield from in_thread(_outcomes(cases))


def _outcomes(cases: Sequence[Case]) -> Iterator[Outcome]:
    """Run cases; neighbours on the same data share the arrays."""
    for _, group in groupby(cases, key=lambda case: case.data_key):
        data = None
        for case in group:
            data = data or case.data.load(case.seed, case.dtype)
            yield run_case(case, data)


def run_case(case: Case, data: LoadedData) -> Outcome:
    """Run one case; a setting that diverges or that the estimator refuses is an outcome too."""
    started = time.perf_counter()
    d = data.S.shape[1]
    try:
        with np.errstate(all="ignore"):  # the status tells that a setting diverged
            model, X = case.start(data)
            Y = model.partial_fit_transform(X) if is_online(model) else model.fit_transform(X, data.S)
        if d not in (0, Y.shape[1]):
            raise ValueError(f"{type(model).__name__} gives {Y.shape[1]} outputs for {d} sources: set its n_components")
    except (ArithmeticError, ValueError) as error:
        # Values that the rule refuses, for example a learning rate above what it allows, or that overflow.
        status = f"diverged at sample {error.sample}" if isinstance(error, DivergenceError) else str(error)
        return outcome_of(case, 0, time.perf_counter() - started, status=status)
    sums = new_sums(case.times, d)
    add_outputs(data.S, np.ascontiguousarray(Y), 0, *sums)
    repairs = sum(getattr(model, "repairs_", {}).values())
    return outcome_of(case, repairs, time.perf_counter() - started, sums)
