"""The four networks as in nica_algorithms.py of the authors
(github.com/flatironinstitute/bio-nica) at commit 19a1437.

authors_runs.py compares them with the outputs of that file. `bionica.reference` has the
rules of the paper; what differs:

- The running mean of x is over all mixtures, those of y and n are over min(t, 100).
  That of c has weight 1/100 from the start.
- A neuron whose outputs in the first 100 mixtures sum to exactly 0 is flipped once,
  after the next one. The authors' solver may put out 1e-17 for 0, so that silent
  neurons of theirs may stay silent.
- Algorithm 1 settles with 1e-10 added to every entry of W_ny W_yn.
- Algorithm 2: with the repairs W_zz becomes V Lambda V', where V is from the solver for
  matrices that need not be symmetric. V is not orthogonal if eigenvalues are equal, and
  after the first mixture d - 1 of them are: W_zz changes by up to a fifth, in a way
  that depends on the last bits of the first mixture. Later it stays the same. Complex
  eigenvalues end the run.
- 2-layer NSM: 0.1 I is added to W_yy if its determinant is below 1e-4.
- Nonnegative PCA: mixtures are whitened by C_xx^-1/2, with the covariance over T - 1.
- Repairs are made after mixtures 1, 101, 201, ...: rows of W_xy with a norm below 0.1
  become random, eigenvalues of W_zz below 1e-4 become 1. Singular values are not looked
  at.
"""

from typing import Any

import numpy as np

import bionica
from bionica.circuits import reference
from bionica.circuits.reference import Array, State


def interneuron_step(state: State, x: Array, eta: float) -> Array:
    """Algorithm 1 for one mixture."""
    W_xy = state["W_xy"]
    W_yn = state["W_yn"]
    W_ny = state["W_ny"]
    state["t"] += 1
    y = reference.settle(W_ny @ W_yn + 1e-10, W_xy @ x)
    n = W_yn @ y
    for mean, now, window in (
        ("x_bar", x, np.inf),
        ("y_bar", y, 100),
        ("n_bar", n, 100),
    ):
        state[mean] += (now - state[mean]) / min(state["t"], window)
    dx = x - state["x_bar"]
    dy = y - state["y_bar"]
    dn = n - state["n_bar"]
    W_xy += eta * (np.outer(dy, dx) - W_xy)
    W_ny += eta * (np.outer(dy, dn) - W_ny)
    if state["t"] % 100 == 1:
        small = np.linalg.norm(W_xy, axis=1) < 0.1
        W_xy[small] = state["rng"].standard_normal((small.sum(), len(x))) / np.sqrt(
            len(x)
        )
    W_yn[:] = W_ny.T
    return y


def two_compartment_step(state: State, x: Array, eta: float) -> Array:
    """Algorithm 2 for one mixture."""
    W_xz = state["W_xz"]
    W_zz = state["W_zz"]
    c = W_xz @ x
    # at first W_zz = I, and the last bit matters
    z = reference.settle(W_zz, c) if state["t"] else np.maximum(c, 0)
    state["t"] += 1
    state["x_bar"] += (x - state["x_bar"]) / state["t"]
    state["c_bar"] += (c - state["c_bar"]) / 100
    W_xz += (
        2 * eta * (np.outer(z, x) - np.outer(c - state["c_bar"], x - state["x_bar"]))
    )
    W_zz += eta / state["tau"] * (np.outer(z, z) - W_zz)
    if state["t"] % 100 == 1:
        Lambda, V = np.linalg.eig(W_zz)
        if Lambda.imag.any():
            raise ArithmeticError(
                f"W_zz has complex eigenvalues after mixture {state['t']}, which ends"
                " the authors' code"
            )
        # complex with NumPy 2.5, whatever they are
        Lambda = Lambda.real
        V = V.real
        W_zz[:] = V * np.where(Lambda < 1e-4, 1, Lambda) @ V.T
    return z


def two_layer_nsm_step(state: State, x: Array, eta: float) -> Array:
    """2-layer NSM for one mixture."""
    y = reference.two_layer_nsm_step(state, x, eta)
    if np.linalg.det(state["W_yy"]) < 1e-4:
        state["W_yy"] += 0.1 * np.eye(len(y))
    return y


#: Start and step of each network, and its feedforward weights; the last of them are
#: flipped if silent.
_NETWORKS: dict[str, Any] = {
    "InterneuronNICA": (reference.interneuron, interneuron_step, ("W_xy",)),
    "TwoCompartmentNICA": (reference.two_compartment, two_compartment_step, ("W_xz",)),
    "TwoLayerNSM": (reference.two_layer_nsm, two_layer_nsm_step, ("W_xh", "W_hy")),
    "NonnegativePCA": (
        reference.nonnegative_pca,
        reference.nonnegative_pca_step,
        ("W",),
    ),
}


def run(
    network: str,
    setting: str,
    X: Array,
    init: dict[str, Array],
    flipped: Array | None = None,
) -> Array:
    """Return the outputs of a network with the hyperparameters of table 1, as each
    mixture arrived.

    `network` is a class of bionica by its name, `setting` as in `as_published`, `init`
    has the feedforward weights by their names. `flipped` are the neurons that are
    flipped; None: those that were silent.
    """
    start, step, forward = _NETWORKS[network]
    table = getattr(bionica, network).as_published(setting).get_params()
    (T, k), d = X.shape, table["n_components"]
    own = {"tau": table["tau"]} if "tau" in table else {}
    if network == "NonnegativePCA":
        Lambda, U = np.linalg.eigh(np.cov(X.T))
        own["F"] = U / np.sqrt(Lambda) @ U.T
    state = start(d, k, np.random.default_rng(0), **own)
    state |= {name: np.array(init[name], dtype=float) for name in forward}
    Y = np.empty((T, d))
    for t, eta in enumerate(
        reference.learning_rate(np.arange(T), table["eta0"], table["decay"])
    ):
        Y[t] = step(state, X[t], eta)
        if t == 100:
            silent = Y[:100].sum(axis=0) == 0
            state[forward[-1]][silent if flipped is None else flipped] *= -1
    return Y
