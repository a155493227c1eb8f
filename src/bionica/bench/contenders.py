"""What is timed: problems, our networks on them, and the same learning in C++ and line by line in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import datasets, estimators
from ..engines import loop as stream
from ..networks.schedules import learning_rates
from . import cpp, line_by_line

Array = NDArray[np.float64]

WEIGHTS = {
    "TwoCompartmentNICA": ("W_xz", "W_zz"),
    "InterneuronNICA": ("W_xy", "W_yn", "W_ny"),
    "TwoLayerNSM": ("W_xh", "W_hg", "W_hy", "W_yy"),
    "NonnegativePCA": ("W",),
}
NETWORKS = tuple(WEIGHTS)
#: Those that have defaults beyond the paper.
SINGLE_LAYER = NETWORKS[:2]
PAPER: dict[str, Any] = {"precondition": None, "average": False, "init": "random"}
DECAY, TAU = 1e-3, 0.8


def first_rate(d: int) -> float:
    """Return the first learning rate: Algorithm 1 by the paper's rule does not bear 0.01 with 200 outputs."""
    return 0.01 if d < 100 else 0.001


def problem(n: int, d: int, k: int | None = None) -> Array:
    """Sparse uniform sources, mixed by a matrix with orthonormal columns."""
    rng = np.random.default_rng(0)
    S = datasets.sparse_uniform(n, d, rng=rng)
    return np.ascontiguousarray(S @ np.linalg.qr(rng.standard_normal((k or d, d)))[0].T)


def paper_network(name: str, d: int, X: Array) -> Any:
    """The paper's rule after X."""
    options = PAPER if name in SINGLE_LAYER else {}
    options = options | ({"tau": TAU} if name == "TwoCompartmentNICA" else {})
    return getattr(estimators, name)(d, eta0=first_rate(d), decay=DECAY, random_state=0, **options).fit(X)


def default_network(name: str, d: int, X: Array) -> Any:
    """Our defaults (natural steps, averaged weights) after X, repeated until the network has what it starts with.

    The offline start is not what is timed, and left out.
    """
    network = getattr(estimators, name)(d, init="random", random_state=0).fit(X)
    while network.n_samples_until_start_:
        network.partial_fit(X)
    return network


def in_the_loop_for_all(network: Any, X: Array) -> Callable[[], None]:
    """A network learning from X in the loop for all sizes, whether there is one for its own or not."""

    def learn() -> None:
        many, stream.MANY = stream.MANY, len(X) + 1
        try:
            network.partial_fit(X)
        finally:
            stream.MANY = many

    return learn


def in_its_own_loop(network: Any, X: Array) -> Callable[[], object] | None:
    """A network learning from X in a loop that is compiled for its size, now; None if it is not small."""
    state, d = network._state, network._n_features_out
    params, rates = network._rule_params(state, X.dtype), network._rates(state, 1)
    if not stream.tailor(state, params, X[:1], rates, np.empty((0, d))):
        return None
    return lambda: network.partial_fit(X)


def in_cpp(library: Any, network: Any, X: Array) -> Callable[[], Array]:
    """Algorithm 2 in C++, going on from the weights of a network."""
    rates = learning_rates(network.eta0, DECAY, 1.0, network.n_samples_seen_, len(X))
    W_xz, W_zz = (np.ascontiguousarray(W, dtype=np.float64) for W in (network.W_xz_, network.W_zz_))
    return lambda: cpp.run(library, X, rates, TAU, W_xz.copy(), W_zz.copy())


def in_numpy(network: Any, X: Array, settle: line_by_line.Settle) -> Callable[[], Array]:
    """The same rule in NumPy, going on from the weights of a network."""
    name = type(network).__name__
    rates = learning_rates(network.eta0, DECAY, 1.0, network.n_samples_seen_, len(X))
    weights = {part: getattr(network, f"{part}_") for part in WEIGHTS[name]}
    if name == "TwoCompartmentNICA":
        return lambda: line_by_line.two_compartment(X, **weights, rates=rates, tau=TAU, settle=settle)
    if name == "InterneuronNICA":
        return lambda: line_by_line.interneuron(X, **weights, rates=rates, settle=settle)
    if name == "TwoLayerNSM":
        rate = network.whitening_eta0, network.whitening_decay, network.whitening_power
        zetas = learning_rates(*rate, network.n_samples_seen_, len(X))
        return lambda: line_by_line.two_layer_nsm(X, **weights, rates=rates, zetas=zetas, settle=settle)
    F = network.whitening_
    return lambda: line_by_line.nonnegative_pca(X, **weights, F=F, rates=rates)
