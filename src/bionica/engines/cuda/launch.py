"""Many networks at once on a GPU: the same rules and the same steps, one thread a network.

The sizes of everything that a thread keeps must be known to the compiler: for every combination of rule and sizes `kernel` writes
the few lines that load a state, and Numba compiles them with `loop.step` and the rule inside. Outputs are compared with the
sources at once, a few samples at a time, and only sums of squared differences leave the card.

Small networks are kept in registers, which have no address: loops over neurons are unrolled (see `unrolled`), neurons settle by
masks (see `masked`), and what is rare and needs addresses, the guards of every 100 samples and samples that masks do not settle,
works on a copy in the thread's local memory, `home`. Other networks live there altogether.

On a machine without a card the kernels run in Numba's simulator (NUMBA_ENABLE_CUDASIM=1).
"""

import time
from typing import Any, NamedTuple

import numpy as np

from ..._compat import numba_cuda
from ..._compat.numba_cuda import row_stack, simulated
from ...networks.rule import leaves, rule_of
from ...networks.settling import Exact
from ..loop import largest_output, plain
from .kernel import STRIDE, kernel
from .masked import Masked
from .unrolling import unrolled

#: Neurons up to which a network is kept in registers and settles by masks.
MASKED = 10


class Batch(NamedTuple):
    """Networks of one kind and size, and what they learn from.

    Attributes
    ----------
    states : list of State
    params : list of Params
    X : array of shape (n_data, T, k)
    S : array of shape (n_data, T, d)
        Sources.
    data : int array
        Which data each network learns from.
    rates : array of shape (n_schedules, T, r)
    schedule : int array
        Which learning rates each network has.
    times : int64 array
        Numbers of samples after which the sums are noted, in order; the last is T.
    """

    states: list[Any]
    params: list[Any]
    X: np.ndarray
    S: np.ndarray
    data: np.ndarray
    rates: np.ndarray
    schedule: np.ndarray
    times: np.ndarray


class Found(NamedTuple):
    """What comes back.

    Attributes
    ----------
    noted : float64 array of shape (n_times, d, d, n)
        Sums of (s_i - y_j)^2 at the times; NaN for a network that diverged.
    done : int64 array of shape (n,)
        Samples before the first whose output left the range of its numbers; T if all is well.
    repairs : int64 array of shape (n,)
    """

    noted: np.ndarray
    done: np.ndarray
    repairs: np.ndarray


class Prepared(NamedTuple):
    """A batch that is on the card."""

    compiled: Any
    grid: int
    block: int
    arguments: tuple[Any, ...]
    noted: Any
    done: Any
    repairs: Any


def prepare(batch: Batch, block: int = 128, blocks: int = 0) -> Prepared:
    """Compile for a batch and send it; `block` threads in a block, `blocks` of them (0: one thread a network)."""
    cuda = numba_cuda.cuda()
    n, (_, T, _), d = len(batch.states), batch.X.shape, batch.S.shape[2]
    block = min(block, n)
    arrays = [np.stack(same, axis=-1) for same in zip(*map(leaves, batch.states), strict=True)]
    params = [_on_card(state, params) for state, params in zip(batch.states, batch.params, strict=True)]
    numbers = np.array([[float(x) for x in _numbers(p)] for p in params]).T.reshape(-1, n)
    compiled = kernel(rule_of(batch.states[0]), *kind(batch.states[0], batch.params[0]), d, batch.X.dtype.name)
    on_card = [cuda.to_device(np.ascontiguousarray(a)) for a in (*arrays, numbers.astype(batch.X.dtype))]
    X, S, data, *shared = [cuda.to_device(np.ascontiguousarray(a)) for a in batch[2:]]
    noted = cuda.to_device(np.zeros((len(batch.times), d, d, n)))
    done, repairs = cuda.to_device(np.full(n, T)), cuda.to_device(np.zeros(n, np.int64))
    rest = (*shared, noted, done, repairs, batch.X.dtype.type(largest_output(batch.X.dtype)), STRIDE, *on_card)
    with unrolled(simulated()), row_stack():
        compiled[1, block](X, S, cuda.to_device(np.zeros(0, np.int64)), *rest)  # on no network: compiles
    return Prepared(compiled, blocks or -(-n // block), block, (X, S, data, *rest), noted, done, repairs)


def launch(batches: list[Prepared]) -> float:
    """Run batches on the card at once, and return the seconds that it took."""
    cuda = numba_cuda.cuda()
    cuda.synchronize()
    started = time.perf_counter()
    for batch in batches:
        batch.compiled[batch.grid, batch.block, cuda.stream()](*batch.arguments)
    cuda.synchronize()
    return time.perf_counter() - started


def collect(batch: Prepared) -> Found:
    """Bring back what was found."""
    noted, done = np.cumsum(batch.noted.copy_to_host(), axis=0), batch.done.copy_to_host()
    noted[..., done < batch.arguments[0].shape[1]] = np.nan  # a caller that ignores `done` sees it
    return Found(noted, done, batch.repairs.copy_to_host())


def kind(state: Any, params: Any) -> Any:
    """Return what a kernel depends on: networks with the same can go together."""
    return _kind(state), _kind(rule_of(state).workspace(state)), _kind(_on_card(state, params))


def _on_card(state, params):
    """Parameters as they go to the card: small networks settle by masks."""
    params = plain(params)
    if isinstance(params.dynamics, Exact) and len(state.fired) <= MASKED:
        return params._replace(dynamics=Masked(params.dynamics.eps))
    return params


def _numbers(value):
    """Every number of nested named tuples that is not a switch, in order."""
    if isinstance(value, tuple):
        return [number for part in value for number in _numbers(part)]
    return [] if isinstance(value, bool) else [value]


def _kind(value):
    """What the text of a kernel depends on: types, shapes and switches."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.name
    if isinstance(value, tuple):
        return type(value), tuple(_kind(part) for part in value)
    return value if isinstance(value, bool) else type(value).__name__
