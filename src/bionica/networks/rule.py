"""What a learning rule is: functions of its State, found by type in Python and in Numba alike.

A rule file defines `State` (a NamedTuple of arrays) and `Params` (a NamedTuple of scalars) and registers

    workspace(state) -> work                 scratch arrays, a NamedTuple made anew for each call from outside
    settle(state, work, params, X, t)        work.y <- the output for the mixture X[t]; changes `work` only
    learn(state, work, params, X, t, rates)  the synaptic updates for that mixture; changes `state`
    repair(state, work, params)              the guards of every sample, after the updates; changes `state`
    inspect(state, work, params)             the guards of every 100 samples, after those; changes `state`
    finish(state, params)                    what the loop leaves for the end of a block, if anything; changes `state`

Of several matrices `learn` changes those last that `settle` reads first: what was touched last is still in the cache.

The loop in `stream` calls these names. Registered functions carry no annotations: `numba.extending.overload` refuses
them.
"""

import functools
from typing import Any

import numpy as np

from .generic import generic
from .guards import n_repairs


@functools.singledispatch
def workspace(state: Any) -> Any:
    """Scratch arrays for one run over `state`; called from Python only."""
    raise TypeError(f"no workspace() is registered for {type(state).__name__}")


@functools.singledispatch
def finish(state: Any, params: Any) -> None:
    """Write what the loop did not keep up to date; called from Python only, after the loop."""


def bookkeeping(d: int, rng: np.ndarray) -> dict[str, np.ndarray]:
    """Return what every State ends with: samples seen, who has ever fired, random numbers, repairs."""
    return {
        "t": np.zeros(1, np.int64),
        "fired": np.zeros(d, np.bool_),
        "rng": rng.copy(),
        "repairs": np.zeros(n_repairs, np.int64),
    }


@generic
def settle(state, work, params, X, t):
    """work.y <- the network's output for X[t], with the weights as they are."""


@generic
def learn(state, work, params, X, t, rates):
    """The synaptic updates that follow `settle`."""


@generic
def repair(state, work, params):
    """The guards that follow `learn`."""


@generic
def inspect(state, work, params):
    """The guards that look every 100 samples, and what is computed anew then."""
