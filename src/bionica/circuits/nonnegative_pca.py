"""Nonnegative PCA (Plumbley and Oja 2004): whitened mixtures h = F x, outputs y >= 0.

    y_t = [W h_t]_+
    W <- W + eta_t y_t (h_t - W' y_t)'

F is the noncentered whitening of all samples, as in the paper, or the identity where
the mixtures of a stream are whitened already. The rule is not local: a synapse needs W'
y, which sums over all outputs.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.guards import cap_rate, flip_silent
from bionica.circuits.network import Network, OfThePaper, given_weights, weights
from bionica.core.blocks import Array, moments
from bionica.core.errors import Message
from bionica.core.whitening import leading, whitening
from bionica.engine.algebra import apply, dot_vectors, project
from bionica.engine.learner import NetworkLearner, Rate, Schedule
from bionica.engine.rule import (
    Rule,
    first_state,
    orthonormal_rows,
    register,
    shapes,
    working,
)


class State(NamedTuple):
    """What the network remembers."""

    F: Array
    W: Array
    t: Array
    fired: Array
    rng: Array
    repairs: Array


def settle(state, work, params, X, row):
    """y = [W h]_+."""
    project(state.F, X, row, work.h)
    apply(state.W, work.h, work.y)
    for i in range(work.y.shape[0]):
        work.y[i] = max(work.y[i], work.y.dtype.type(0))


def learn(state, work, params, X, row, eta):
    """The update of W, by way of e = h - W' y."""
    W = state.W
    h = work.h
    y = work.y
    e = work.e
    eta = W.dtype.type(eta)
    for j in range(h.shape[0]):
        e[j] = h[j]
    for i in range(y.shape[0]):
        for j in range(h.shape[0]):
            e[j] -= W[i, j] * y[i]
    for i in range(y.shape[0]):
        a = eta * y[i]
        for j in range(h.shape[0]):
            W[i, j] += a * e[j]


def rate(state, work, params, X, row, rates):
    """The guard `rate`."""
    eta = rates[row, 0]
    if params.guards.rate:
        eta = cap_rate(
            eta, dot_vectors(work.y, work.y), rates.dtype.type(1), work.ws.events
        )
    return eta


def flip(state, work, params):
    """The guard `silent`."""
    if params.guards.silent:
        flip_silent(state.W, work.y, state.fired, work.ws.events)


def unmixing(state: State) -> Array:
    """W F."""
    return state.W @ state.F


RULE = register(
    Rule(
        "nonnegative_pca",
        State,
        shapes(dk="F", dd="W"),
        working("nonnegative_pca", d="h y e"),
        settle,
        learn,
        unmixing,
        flip=flip,
        rate=rate,
    )
)


class NonnegativePCA(OfThePaper, Network):
    """Nonnegative ICA by noncentered whitening and online nonnegative PCA (Plumbley and
    Oja 2004).

    Its learning rule is not local, and neither is its whitening. `fit` whitens with all
    samples (noncentered), as the paper does; `partial_fit` and `learn_one` continue
    behind that whitening. Without a `fit`, `partial_fit`, `partial_fit_transform` and
    `learn_one` take mixtures that are whitened already, as many as outputs: put
    `NoncenteredWhitener` in front.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    eta0, decay, power : float, default=0.01, 1e-5, 1.0
        Learning rate at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or
        `eta0` as a function of t.
    guards : bool or collection of str, default=True
        Repairs to switch on: all, none, or some of ("silent", "rate"); see
        `bionica.circuits.guards`.
    init : "random" or dict, default="random"
        Initial weights: random (orthonormal), or an array, ``{"W": W}``.
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
    W_, whitening_ : ndarray
        Weights from the whitened mixtures, (n_components, n_components), and the
        whitening, (n_components, n_features): that of `fit`, or the identity.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X
        had string column names.
    repairs_ : dict of str to int
        How often each guard acted.

    Examples
    --------
    >>> from bionica import NonnegativePCA, datasets, metrics
    >>> S = datasets.sparse_uniform(100_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
    >>> network = NonnegativePCA.as_published("d3", random_state=0).fit(X)
    >>> bool(metrics.permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    #: Table 1 (appendix C), to the digit; and what all settings share. At d = 3 and on
    #: images the authors' code differs: the table is meant.
    _published: ClassVar = {
        "always": {"guards": ("silent",)},
        "d3": {"eta0": 1e-2, "decay": 1e-5},
        "d10": {"eta0": 1e-2, "decay": 1e-5},
        "images": {"eta0": 1e-3, "decay": 1e-5},
    }
    _circuit = (
        {"h": ("whitened mixtures", 0, 0), "y": ("outputs", 1, 0)},
        (("h", "y", "W_", 1),),
    )

    _takes_whitened = True  # in a stream, and so in a sweep
    _guards = ("silent", "rate")
    W_ = weights(
        "W",
        "Weights from the whitened mixtures to the outputs, (n_components,"
        " n_components).",
    )
    whitening_ = weights(
        "F",
        "The whitening matrix that is applied to the mixtures, (n_components,"
        " n_features).",
    )

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eta0: Rate = 0.01,
        decay: float = 1e-5,
        power: float = 1.0,
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
            W = {"W": orthonormal_rows(rng, d, d)}
            if X is None and d < k:
                raise ValueError(
                    f"n_components={d}, but X has {k} mixtures: those of a stream must"
                    " be whitened already, as many as outputs. Whiten them by"
                    f" NoncenteredWhitener({d}), or call fit, which whitens with all"
                    " samples"
                )
            F = np.eye(d) if X is None else _whitening_of(X, d)
            state = first_state(RULE, dtype, rng, W | given_weights(self, W) | {"F": F})
        rates = [Schedule(self.eta0, self.decay, self.power, 1.0)]
        return NetworkLearner(state, self._params(dtype), rates)


def _whitening_of(X: Any, d: int) -> Array:
    """F from all samples of an array or a Dask array."""
    if isinstance(X, np.ndarray):
        white = leading(np.ascontiguousarray(X), d)  # the same bits for any strides
    else:
        white = whitening(moments(X), d, precision=X.dtype)
    if not white.rank:
        raise ValueError(
            f"The {X.shape[0]} samples of X do not vary, so there is nothing to whiten"
            " (rank 0)"
        )
    if white.rank < d:
        raise ValueError(
            Message(
                "{n_components:={}} exceeds the rank of X: its {} samples vary in {}"
                " directions. Use {n_components} <= {}, or samples that differ",
                d,
                X.shape[0],
                white.rank,
                white.rank,
            )
        )
    return white.matrix
