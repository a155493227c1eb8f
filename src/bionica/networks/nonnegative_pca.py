"""Nonnegative PCA (Plumbley and Oja 2004): whitened mixtures h, outputs y >= 0.

    y_t = [W h_t]_+
    W <- W + eta_t y_t (h_t - W' y_t)'

The mixtures must be noncentered-whitened: offline, as the paper does, or by the running whitening of `StreamingNICA`
(`kernels.running_whitening`). The rule is not local: a synapse needs W' y, which sums over all outputs.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ..estimator import OfThePaper, OnlineEstimator, offline_only_in_fit, weights
from ..kernels import running_whitening as fronts
from ..kernels.guards import Params, cap_rate, flip_silent
from ..kernels.learner import Buffered, NetworkLearner, Rate, Schedule
from ..kernels.plasticity import apply, dot_vectors
from ..kernels.rule import Rule, first_state, orthonormal_rows, scratch
from ..kernels.settling import Exact
from ..offline.whitening import leading, moments, padded_whitening, whitening
from ..samples import Array, given_weights
from ..trust.outliers import inliers_of, without_outliers


class State(NamedTuple):
    """What the network remembers; `front` whitens."""

    front: Any
    W: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Work(NamedTuple):
    """Scratch arrays."""

    front: fronts.FrontWork
    y: np.ndarray
    e: np.ndarray  # h - W' y
    ws: Any


def workspace(state):
    """Allocate scratch arrays."""
    (d, k), dtype = state.W.shape, state.W.dtype
    front = fronts.front_work(state.front, k, dtype)
    return Work(front, np.zeros(d, dtype), np.zeros_like(front.h), scratch(d, dtype))


def settle(state, work, params, X, row):
    """y = [W h]_+."""
    fronts.enter(state.front, work.front, X, row)
    apply(state.W, work.front.h, work.y)
    for i in range(work.y.shape[0]):
        work.y[i] = max(work.y[i], work.y.dtype.type(0))


def learn(state, work, params, X, row, eta):
    """The update of W, then the whitening."""
    W, h, y, e = state.W, work.front.h, work.y, work.e
    g = fronts.weigh_input(state.front, work.front, work.ws.events)
    if g == 0:
        return
    eta = W.dtype.type(g * eta)
    for j in range(h.shape[0]):
        e[j] = h[j]
    for i in range(y.shape[0]):
        for j in range(h.shape[0]):
            e[j] -= W[i, j] * y[i]
    for i in range(y.shape[0]):
        a = eta * y[i]
        for j in range(h.shape[0]):
            W[i, j] += a * e[j]
    fronts.adapt(state.front, work.front, g, 0, state.t[0], y.shape[0])


def rate(state, work, params, X, row, rates):
    """The guard `rate`."""
    eta = rates[row, 0]
    if params.guards.rate:
        eta = cap_rate(eta, dot_vectors(work.y, work.y), rates.dtype.type(1), work.ws.events)
    return eta


def flip(state, work):
    """The guard `silent`."""
    flip_silent(state.W, work.y, state.fired, work.ws.events)


def maintain_whitening(state: State, params: Params) -> None:
    """That of the running whitening; after a wrong scale in the first samples W starts again from the identity."""
    if fronts.maintain(state.front.white, state.W, 0, state.repairs):
        state.W[:] = np.eye(len(state.W))


def unmixing(state: State) -> np.ndarray:
    """W F."""
    return fronts.through_front(state.W, state.front)


#: By the value of `whiten`.
RULES = fronts.behind_fronts(
    Rule("nonnegative_pca", State, Params, {"W": "dh"}, workspace, settle, learn, unmixing, flip=flip, rate=rate),
    "bare", maintain_whitening,
)  # fmt: skip


class NonnegativePCA(OfThePaper, OnlineEstimator):
    """Nonnegative ICA by noncentered whitening and online nonnegative PCA (Plumbley and Oja 2004).

    Its learning rule is not local, and neither is its whitening.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number of mixtures.
    whiten : {"online", "offline"} or False, default="online"
        How the mixtures are whitened (noncentered). "online": by the running whitening of `StreamingNICA`, which starts from the
        first 100 + 20 d samples (200 at least); outputs are zero until then. "offline": once, by `fit`, from all the data but
        outliers, as the paper does; `partial_fit` and `learn_one` need a `fit` before. False: the mixtures are white already.
    eta0, decay, power : float, default=0.01, 1e-5, 1.0
        Learning rate at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or `eta0` as a function of t.
    guards : bool or collection of str, default=True
        Repairs to switch on: all, none, or some of ("silent", "rate"); see `bionica.kernels.guards`.
    init : "random" or dict, default="random"
        Initial weights: random (orthonormal), or an array, ``{"W": W}``.
    n_epochs, shuffle : int, bool, default=1, False
        How often `fit` presents the data, and whether in random order, another in each epoch (within the blocks of a Dask array).
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        What the network does to a mixture for which every output fires; if some are silent, the others settle without them.
    mixing_, spectra_ : ndarray
        The estimated A, pseudoinverse of `components_`, (n_features, n_components); and its transpose, a spectrum in each row.
    W_, whitening_ : ndarray
        Weights from the whitened mixtures, (n_components, n_components), and the whitening, (n_components, n_features).
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int, ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X had string column names.
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

    #: Table 1 (appendix C), to the digit; and what all settings share. At d = 3 and on images the authors' code differs: the table
    #: is meant.
    _published: ClassVar[dict[str, dict[str, Any]]] = {
        "always": {"guards": ("silent",), "whiten": "offline"},
        "d3": {"eta0": 1e-2, "decay": 1e-5},
        "d10": {"eta0": 1e-2, "decay": 1e-5},
        "images": {"eta0": 1e-3, "decay": 1e-5},
    }
    _circuit: ClassVar = {"h": ("whitened mixtures", 0, 0), "y": ("outputs", 1, 0)}, (("h", "y", "W_", 1),)

    _guards: ClassVar = ("silent", "rate")
    W_ = weights("W", "Weights from the whitened mixtures to the outputs, (n_components, n_components).")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        whiten: str | bool = "online",
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
        self.whiten = whiten
        self.eta0, self.decay, self.power = eta0, decay, power
        self.guards = guards
        self.init = init
        self.n_epochs, self.shuffle = n_epochs, shuffle
        self.random_state = random_state

    @property
    def whitening_(self) -> Array:
        """The whitening matrix that is applied to the mixtures."""
        state = self._started()
        return fronts.through_front(np.eye(state.W.shape[1], dtype=state.W.dtype), state.front)

    def _learner_for(self, k: int, dtype: Any, X: Any = None, state: Any = None) -> Any:
        offline_only_in_fit(self, X, state)
        eps = float(np.finfo(dtype).eps)
        params = Params(Exact(eps), self._chosen_guards(), 0, 0, eps)
        rates = [Schedule(self.eta0, self.decay, self.power, 1.0)]
        if state is not None:
            return NetworkLearner(state, params, rates)
        d, rng = self._number_of_outputs(k, X), check_random_state(self.random_state)
        W = {"W": orthonormal_rows(rng, d, k if self.whiten is False else d)}
        front: Any = fronts.Raw(np.ones(1))
        if self.whiten == "offline":
            front = fronts.Fixed(_offline_whitening(X, d).astype(dtype))
        elif self.whiten == "online":
            front = fronts.Running(fronts.start(d, dtype), np.zeros((d, k), dtype))  # until there is a first block
        state = first_state(RULES[self.whiten], dtype, rng, W | given_weights(self, W) | {"front": front})
        if self.whiten != "online":
            return NetworkLearner(state, params, rates)
        return Buffered(k, dtype, fronts.first_block(d), partial(_behind_running_whitening, state, params, rates), d)


def _behind_running_whitening(state: Any, params: Params, rates: Any, block: Array) -> NetworkLearner:
    """The network that has learned from its first block."""
    d, rows = len(state.W), inliers_of(block)
    F = padded_whitening(rows, d)[0]
    front = fronts.Running(fronts.start(d, block.dtype, (rows @ F.T).mean(axis=0), len(rows)), F.astype(block.dtype))
    learner = NetworkLearner(state._replace(front=front), params, rates)
    learner.learn(block)
    return learner


def _offline_whitening(X: Any, d: int) -> Array:
    if isinstance(X, np.ndarray):
        white = leading(inliers_of(X), d)
    else:
        white = whitening(without_outliers(X, moments(X), d)[1], d, precision=X.dtype)
    if white.rank < d:
        raise ValueError(
            f"n_components={d} exceeds the rank of X: its {len(X)} samples vary in {white.rank} directions. Use "
            f"n_components <= {white.rank}, samples that differ, or whiten='online'"
        )
    return white.matrix
