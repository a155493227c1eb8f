"""2-layer NSM (Pehlevan, Mohan and Chklovskii 2017): k mixtures x, d whitened h (with d
interneurons g), d outputs y >= 0.

The first layer whitens. With the activity at rest, h = (W_hg' W_hg)^-1 W_xh x and g =
W_hg h, and the running means moved by 1/t,

    W_xh <- W_xh + zeta_t ((h - h_bar)(x - x_bar)' - W_xh)
    W_hg <- W_hg + zeta_t ((g - g_bar)(h - h_bar)' - W_hg)

This is Algorithm 1 without the rectification: h is noncentered-whitened over the d
leading directions of x. The second layer rotates into the orthant by nonnegative
similarity matching: with c_t = W_hy h_t and the outputs at the fixed point of y <- [y +
gamma (c - W_yy y)]_+, solved exactly,

    W_hy <- W_hy + eta_t (y_t h_t' - W_hy)
    W_yy <- W_yy + eta_t (y_t y_t' - W_yy)

The paper's text names this network's rates only (appendix C); its rules are those of
the paper that introduced it, with rates that depend on time in place of each neuron's
cumulated activity.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.guards import flip_silent, lift_eigenvalues
from bionica.circuits.network import Network, OfThePaper, given_weights, weights
from bionica.circuits.settling import (
    REFRESH,
    follow_interneurons,
    follow_lateral,
    invert,
    settle_interneurons,
    settle_lateral,
)
from bionica.core.blocks import Array
from bionica.core.parameters import NONNEGATIVE, PARAMETERS, SHARE
from bionica.engine.algebra import (
    apply,
    follow,
    follow_input,
    hebb,
    hebb_input,
    mean_weight,
    multiply,
    project,
    subtract,
)
from bionica.engine.learner import NetworkLearner, Rate, Schedule
from bionica.engine.rule import (
    Rule,
    first_state,
    orthonormal_rows,
    register,
    scratch,
    shapes,
    solve_lateral,
)


class State(NamedTuple):
    """What the network remembers."""

    W_xh: Array
    W_hg: Array
    W_hy: Array
    W_yy: Array
    M: Array  # W_hg' W_hg
    H_hg: Array  # the inverse of M
    H_yy: Array  # the inverse of W_yy
    x_bar: Array
    h_bar: Array
    g_bar: Array
    t: Array
    fired: Array
    rng: Array
    repairs: Array


class Work(NamedTuple):
    """Scratch arrays."""

    c: Array
    h: Array
    g: Array
    dh: Array
    dg: Array
    p: Array  # W_hg' dg
    y: Array
    zeta: Array
    first: Any  # of the whitening layer
    ws: Any


def workspace(state):
    """Allocate scratch arrays."""
    d = len(state.W_yy)
    dtype = state.W_hy.dtype
    ws = scratch(d, dtype)
    return Work(*np.zeros((7, d), dtype), np.zeros(1), scratch(d, dtype, ws.events), ws)


def settle(state, work, params, X, row):
    """The whitening layer, then the outputs."""
    project(state.W_xh, X, row, work.c)
    settle_interneurons(
        params.dynamics,
        state.W_hg,
        state.W_hg.T,
        state.M,
        state.H_hg,
        work.c,
        work.h,
        work.g,
        work.first,
        False,
    )
    apply(state.W_hy, work.h, work.c)
    settle_lateral(
        params.dynamics, state.W_yy, state.H_yy, work.c, work.y, work.ws, True
    )


def learn(state, work, params, X, row, eta):
    """The running means, and the updates of both layers."""
    h = work.h
    g = work.g
    dh = work.dh
    dg = work.dg
    y = work.y
    zeta = work.zeta[0]
    weight = mean_weight(X, state.t[0], params.mean_window)
    follow_input(state.x_bar, X, row, weight)
    follow(state.h_bar, h, weight)
    follow(state.g_bar, g, weight)
    subtract(h, state.h_bar, dh)
    subtract(g, state.g_bar, dg)
    hebb(state.W_yy, eta, y, y)
    hebb(state.W_hy, eta, y, h)
    hebb(state.W_hg, zeta, dg, dh)
    hebb_input(state.W_xh, zeta, dh, X, row, state.x_bar)


def rate(state, work, params, X, row, rates):
    """eta, and zeta in `work`."""
    work.zeta[0] = rates[row, 1]
    return rates[row, 0]


def track(state, work, params, eta):
    """M and the inverses follow the weights."""
    follow_lateral(params.dynamics, state.H_yy, eta, work.y, work.ws)
    apply(state.W_hg.T, work.dg, work.p)
    follow_interneurons(
        params.dynamics,
        state.M,
        state.H_hg,
        work.zeta[0],
        work.p,
        work.dh,
        work.dg,
        work.first,
    )


def flip(state, work, params):
    """The guard `silent`."""
    if params.guards.silent:
        flip_silent(state.W_hy, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guard `spectrum`; inverses are recomputed from time to time."""
    lifted = params.guards.spectrum and lift_eigenvalues(
        state.W_yy, params.eps, work.ws
    )
    refresh = state.t[0] % REFRESH == 0
    if lifted or refresh:
        invert(state.W_yy, state.H_yy)
    if refresh:
        multiply(state.W_hg.T, state.W_hg, state.M)
        invert(state.M, state.H_hg)


def unmixing(state: State) -> Array:
    """W_yy^-1 W_hy (W_hg' W_hg)^-1 W_xh."""
    return solve_lateral(state.W_yy, state.W_hy) @ solve_lateral(state.M, state.W_xh)


RULE = register(
    Rule(
        "two_layer_nsm",
        State,
        shapes(dk="W_xh", dd="W_hg W_hy W_yy M H_hg H_yy", k="x_bar", d="h_bar g_bar"),
        workspace,
        settle,
        learn,
        unmixing,
        inspect,
        track,
        flip=flip,
        rate=rate,
        inverses={"H_yy": "W_yy", "H_hg": "M"},
    )
)


class TwoLayerNSM(OfThePaper, Network):
    """Nonnegative ICA by whitening and nonnegative similarity matching in two layers
    (Pehlevan et al. 2017).

    Online and local, with nonnegative outputs; it needs three times the neurons of
    `TwoCompartmentNICA`.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    eta0, decay, power : float, default=0.1, 1e-6, 1.0
        Learning rate at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or
        `eta0` as a function of t.
    whitening_eta0, whitening_decay : float, default=0.01, 0.01
        Learning rate of the whitening layer, zeta_t = whitening_eta0 / (1 +
        whitening_decay t).
    mean_window : int, default=None
        Samples of the running means. None: all, as in the paper.
    guards : bool or collection of str, default=True
        Repairs to switch on: all, none, or some of ("silent", "spectrum"); see
        `bionica.circuits.guards`.
    init : "random" or dict, default="random"
        Initial weights: random (orthonormal feedforward, identity lateral), or arrays
        by name for some of W_xh, W_hg, W_hy, W_yy.
    n_epochs, shuffle : int, bool, default=1, False
        How often `fit` presents the data, and whether in random order, another in each
        epoch (within the blocks of a Dask array).
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        What the network does to a mixture for which every output fires; if some are
        silent, the others settle without them.
    mixing_, spectra_ : ndarray
        The estimated A, pseudoinverse of `components_`, (n_features, n_components); and
        its transpose, a spectrum in each row.
    W_xh_, W_hg_, W_hy_, W_yy_ : ndarray
        The weights, (n_components, n_features) and three times (n_components,
        n_components).
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X
        had string column names.
    repairs_ : dict of str to int
        How often each guard acted; samples that were regularised (nearly singular
        lateral weights).

    Examples
    --------
    >>> from bionica import TwoLayerNSM, datasets, metrics
    >>> S = datasets.sparse_uniform(100_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
    >>> network = TwoLayerNSM.as_published("d3", random_state=0).fit(X)
    >>> bool(metrics.permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints = PARAMETERS | {
        "whitening_eta0": [SHARE],
        "whitening_decay": [NONNEGATIVE],
    }
    _changeable = (*Network._changeable, "whitening_eta0", "whitening_decay")
    #: Table 1 (appendix C), to the digit; and what all settings share.
    _published: ClassVar = {
        "always": {"guards": ("silent",)},
        "d3": {"eta0": 1e-1, "decay": 1e-7},
        "d10": {"eta0": 1e-1, "decay": 1e-6},
        "images": {"eta0": 1e-1, "decay": 1e-6},
    }
    _circuit = (
        {
            "x": ("mixtures", 0, 0),
            "h": ("whitened", 1, 0),
            "g": ("interneurons", 2, 1),
            "y": ("outputs", 2, 0),
        },
        (
            ("x", "h", "W_xh_", 1),
            ("h", "g", "W_hg_", 1),
            ("g", "h", "W_hg_.T", -1),
            ("h", "y", "W_hy_", 1),
            ("y", "y", "W_yy_", -1),
        ),
    )

    _guards = ("silent", "spectrum")
    W_xh_ = weights(
        "W_xh",
        "Weights from mixtures to whitened activities, (n_components, n_features).",
    )
    W_hg_ = weights(
        "W_hg",
        "Weights from whitened activities to interneurons, (n_components,"
        " n_components).",
    )
    W_hy_ = weights(
        "W_hy",
        "Weights from whitened activities to outputs, (n_components, n_components).",
    )
    W_yy_ = weights("W_yy", "Weights between outputs, (n_components, n_components).")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eta0: Rate = 0.1,
        decay: float = 1e-6,
        power: float = 1.0,
        whitening_eta0: float = 0.01,
        whitening_decay: float = 0.01,
        mean_window: int | None = None,
        guards: bool | Iterable[str] = True,
        init: str | dict[str, Any] = "random",
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.eta0 = eta0
        self.decay = decay
        self.power = power
        self.whitening_eta0 = whitening_eta0
        self.whitening_decay = whitening_decay
        self.mean_window = mean_window
        self.guards = guards
        self.init = init
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> NetworkLearner:
        if state is None:
            d = self._number_of_outputs(k, X)
            rng = check_random_state(self.random_state)
            W = {
                "W_xh": orthonormal_rows(rng, d, k),
                "W_hy": orthonormal_rows(rng, d, d),
            }
            W |= {name: np.eye(d) for name in ("W_hg", "W_yy")}
            W |= given_weights(self, W, positive_definite="W_yy")
            W_hg = W["W_hg"].astype(dtype)
            state = first_state(RULE, dtype, rng, W | {"M": W_hg.T @ W_hg})
        params = self._params(dtype, self.mean_window or 0)
        rates = (
            Schedule(self.eta0, self.decay, self.power, 1.0),
            Schedule(self.whitening_eta0, self.whitening_decay),
        )
        return NetworkLearner(state, params, rates)
