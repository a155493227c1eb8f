"""A rule and its estimator as a user writes them, outside the package: a rectified Hebbian network with a fixed gain."""

from typing import Any, NamedTuple

import numpy as np

from bionica.estimators.network import NeuralNICA, guard_seed, orthonormal_rows
from bionica.networks.plasticity import follow_input, hebb_input, mean_weight, project
from bionica.networks.rule import Rule, bookkeeping, register, shapes
from bionica.networks.settling import scratch

STRENGTH = 1.0


class State(NamedTuple):
    W: np.ndarray
    x_bar: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    dynamics: Any
    guards: Any


class Work(NamedTuple):
    y: np.ndarray
    zero: np.ndarray
    ws: Any


def workspace(state):
    d = len(state.W)
    return Work(np.zeros(d, state.W.dtype), np.zeros(d, state.W.dtype), scratch(d, state.W.dtype))


def settle(state, work, params, X, t):
    project(state.W, X, t, work.y)
    for i in range(work.y.shape[0]):
        work.y[i] = max(work.y.dtype.type(STRENGTH) * work.y[i], work.y.dtype.type(0))


def learn(state, work, params, X, t, rates):
    state.t[0] += 1
    follow_input(state.x_bar, X, t, mean_weight(rates, state.t[0], 0))
    hebb_input(state.W, rates[t, 0], work.y, work.zero, X, t, state.x_bar)


RULE = register(
    Rule(
        "mylab",
        State,
        Params,
        shapes(dk="W", k="x_bar"),
        workspace,
        settle,
        learn,
        unmixing=lambda state: state.W,
        input_weights="W",
    )
)


class HebbNetwork(NeuralNICA):
    """A network of `mylab`, with the parameters of all networks."""

    def _initial_state(self, k, d, dtype, rng, X):
        W = orthonormal_rows(rng, d, k, dtype)
        return State(W, np.zeros(k, dtype), **bookkeeping(d, guard_seed(rng)))

    def _rule_params(self, state, dtype):
        return Params(*self._common_params(dtype)[:2])
