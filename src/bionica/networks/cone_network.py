"""ConeNetwork: a single layer of 2-compartmental neurons with local rules that separates correlated sources.

*Beyond the paper.* Algorithms 1 and 2 assume uncorrelated sources. Here only nonnegativity is used: the network learns the cone of
smallest volume that holds the mixtures (the objective of `cone`). For each mixture x: dendrites c = W_xz x, membranes and
rates at the fixed point of

    v_i = c_i - sum_{j != i} W_ij z_j       z_i = [v_i]_+       n_i = [-v_i]_+                             W = W_zz, W_ii = 1    (1)

and with w = 1/max(1, mean |v|), the divisive normalisation of the layer, for i != j

    W_ij   <- W_ij + a_i (w z_j (1 - kappa_i w n_i) - W_ij)         inhibition grows with the presynaptic rate until it pushes
                                                                    neuron i below zero                                          (2)
    W_xz,i <- W_xz,i + b_i (v_i - c_i) x'P / (1 + b_i x'P x)        the dendrite learns to predict the membrane                  (3)
    W_xz,i <- W_xz,i (1 + h), or W_xz,i / (1 - h) if h < 0          homeostasis: |v_i| has mean 1; h = b_i w mean|v| (1 - |v_i|) (4)
    a_i = eta / (kappa_i d)           b_i = eta / (kappa_i^3/4 d)                                                                (5)

kappa_i = 1/n^2 is the hardness of a wall of width n. Each neuron finds its own from the samples that push it below zero. With
s = kappa_i^1/2 w n_i > 0 and z_bar the mean of w z_j over j != i, each of them moves

    p_i <- p_i + .04 (z_bar - p_i)     m_i <- m_i + .04 z_bar (s - m_i)     q_i <- q_i + .04 p_i (s^2 - q_i)                     (6)
    log kappa_i <- log kappa_i + 1.25 eta/d z_bar (r_i - .6), from 0, never below;     r_i = min(1, m_i^2/q_i)                   (7)

x is the input of the layer, and P = <x x'>^-1. The layer stands behind a whitening (`kernels.running_whitening`): the running one,
x = K F x_t and P = I - x_bar x_bar'/(1 + |x_bar|^2), or a fixed one, P = I; neither is local. Without a whitening
P = 3 I/<x'x/d>, the strictly local rule, which fails for most ill-conditioned mixing matrices. Cones are not tied to the whitening,
so that W_xz K stays as it is when K moves, but in the first samples after a restart.

Derivation, what is not known to a single synapse, and the limits of r_i: :doc:`/cone-network`. Samples count by z_bar in (6): with
a memory in plain samples kappa diverges where sources are silent for 90 % of the time. s and |v_i| count as 5 times their usual
size at most, so that one outlier does no harm. A given kappa is reached from 1 by r_i = 1 in (7): a network that starts with a hard
wall does not move. With a horizon kappa_i is at most (eta horizon/d)^2, the wall that (2) can still move by its own width in that
time.
"""

import math
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._compat.sklearn import POSITIVE
from ..estimator import PARAMETERS, TWO_COMPARTMENTS, OnlineEstimator, offline_only_in_fit
from ..kernels import running_whitening as fronts
from ..kernels.guards import Guards
from ..kernels.learner import Buffered, NetworkLearner, Rate, Schedule
from ..kernels.plasticity import FOREVER, apply, dot, dot_vectors, follow_matrix
from ..kernels.rule import (
    SILENT,
    UNSETTLED,
    Rule,
    averaged,
    first_state,
    hot,
    orthonormal_rows,
    scratch,
    shapes,
    solve_lateral,
)
from ..kernels.settling import settle_lateral
from ..offline.rotation import rotate
from ..offline.whitening import padded_whitening
from ..samples import Array, given_weights
from ..trust.outliers import inliers_of

#: Eqs. 6 and 7: how fast kappa moves, the memory in samples below zero, the r_i at which it stops.
HARDENING, MEMORY, SHAPE = 1.25, 0.04, 0.6
#: Largest s and |v_i| in units of their usual size.
BOUND = 5.0


class Sweeps(NamedTuple):
    """Settle neuron after neuron until no rate changes by more than `tol` of the largest, `n` times at most."""

    tol: float
    n: int


@settle_lateral.register(Sweeps)
def _settle_by_sweeps(dynamics, M, H, c, z, ws, rectified):
    for i in range(c.shape[0]):
        z[i] = max(c[i], c.dtype.type(0))
    for _ in range(dynamics.n):
        change = c.dtype.type(0)
        largest = c.dtype.type(0)
        for i in range(c.shape[0]):
            new = max(c[i] - (dot(M, i, z) - z[i]), c.dtype.type(0))
            change = max(change, abs(new - z[i]))
            largest = max(largest, new)
            z[i] = new
        if change <= dynamics.tol * largest:
            return
    ws.events[UNSETTLED] += 1


class Facet(NamedTuple):
    """What each neuron knows of its facet."""

    log_kappa: np.ndarray
    p: np.ndarray  # eq. 6
    m: np.ndarray
    q: np.ndarray


class State(NamedTuple):
    """What the network remembers; `front` whitens."""

    front: Any
    facet: Facet
    W_xz: np.ndarray  # from what the front puts into the layer
    W_zz: np.ndarray
    W_xz_mean: np.ndarray  # averages of the weights
    W_zz_mean: np.ndarray
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    guards: Guards  # none: the mean of |v| is kept at 1
    average: int  # samples that averages reach back; 0: they are not kept
    horizon: int  # 0: none
    adapts: bool  # whether each neuron finds its kappa; otherwise it grows to the largest
    kappa: float  # the largest


class Work(NamedTuple):
    """Scratch arrays."""

    front: fronts.FrontWork
    c: np.ndarray
    membrane: np.ndarray
    y: np.ndarray  # z; the loop knows every rule's output by this name
    b: np.ndarray
    ws: Any


def workspace(state):
    """Allocate scratch arrays."""
    d, dtype = len(state.W_zz), state.W_zz.dtype
    return Work(fronts.front_work(state.front, state.W_xz.shape[1], dtype), *np.zeros((4, d), dtype), scratch(d, dtype))


def settle(state, work, params, X, row):
    """Eq. 1."""
    fronts.enter(state.front, work.front, X, row)
    apply(state.W_xz, work.front.h, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.W_zz, work.c, work.y, work.ws, True)


@hot
def inhibit(state, work, params, eta, rate):
    """Eqs. 2, 5, 6 and 7, where eta is `rate` times the weight of the sample; work.membrane and work.b become v and b.

    Returns w mean |v|.
    """
    W_zz, facet, c, z, v = state.W_zz, state.facet, work.c, work.y, work.membrane
    d = z.shape[0]
    real = W_zz.dtype.type
    one, zero = real(1), real(0)
    total = active = zero
    for i in range(d):
        v[i] = c[i] - (dot(W_zz, i, z) - z[i])
        total += abs(v[i])
        active += z[i]
    w = one / max(one, total / d)
    step = real(eta / d)
    top = math.log(params.kappa)
    bottom = min(top, 0.0)
    if params.horizon > 0:
        top = max(bottom, min(top, 2 * math.log(max(rate * params.horizon / d, 1.0))))
    for i in range(d):
        kappa = math.exp(facet.log_kappa[i])
        root = math.sqrt(kappa)
        push = one
        others = active - z[i]
        if v[i] < 0:
            s = min(-w * root * v[i], real(BOUND) * math.sqrt(facet.q[i]))
            push = one - root * s
            if others > 0:
                z_bar = w * others / (d - 1)
                facet.p[i] += real(MEMORY) * (z_bar - facet.p[i])
                facet.m[i] += real(MEMORY) * z_bar * (s - facet.m[i])
                facet.q[i] += real(MEMORY) * facet.p[i] * (s * s - facet.q[i])
                r = one
                if params.adapts and facet.m[i] * facet.m[i] < facet.q[i]:
                    r = facet.m[i] * facet.m[i] / facet.q[i]
                new = facet.log_kappa[i] + real(HARDENING) * step * z_bar * (r - real(SHAPE))
                facet.log_kappa[i] = min(max(new, real(bottom)), real(top))
        a = step / kappa
        for j in range(d):
            if j != i:
                W_zz[i, j] += a * (w * z[j] * push - W_zz[i, j])
        work.b[i] = step / (root * math.sqrt(root))
    return w * total / d


def learn(state, work, params, X, row, eta):
    """Eqs. 2 to 7, then the whitening."""
    front, W_xz, c, v, b, p = state.front, state.W_xz, work.c, work.membrane, work.b, work.front.p
    d, one = c.shape[0], b.dtype.type(1)
    g = fronts.weigh_input(front, work.front, work.ws.events)
    if g == 0:
        return
    activity = inhibit(state, work, params, g * eta, eta)
    size = fronts.presynaptic(front, work.front)
    for i in range(d):
        h = b[i] * activity * (one - min(abs(v[i]), b.dtype.type(BOUND)))
        grow = one + h if h > 0 else one / (one - h)  # a large sample could make 1 + h negative
        f = b[i] / (one + b[i] * size) * (v[i] - c[i])
        for j in range(W_xz.shape[1]):
            W_xz[i, j] = grow * W_xz[i, j] + f * p[j]
    f, beta = fronts.adapt(front, work.front, g, params.horizon, state.t[0], d)
    if beta != 0:
        keep_product(W_xz, work.front.dv, f, beta)
        if params.average > 0:
            keep_product(state.W_xz_mean, work.front.dv, f, beta)


def average(state, weight):
    """Of the weights."""
    follow_matrix(state.W_xz_mean, state.W_xz, weight)
    follow_matrix(state.W_zz_mean, state.W_zz, weight)


@hot
def keep_product(W, dv, f, beta):
    """W <- W (I + beta dv dv')^-1 / f, so that W K stays as it is when K <- f (I + beta dv dv') K."""
    shrink = beta / (1 + beta * dot_vectors(dv, dv))
    over_f = 1 / f
    for i in range(W.shape[0]):
        s = shrink * dot(W, i, dv)
        for j in range(dv.shape[0]):
            W[i, j] = over_f * (W[i, j] - s * dv[j])


def maintain_whitening(state: State, params: Params) -> None:
    """That of the running whitening; after an abrupt change the network starts again, with outputs of positive mean."""
    white, W_xz, W_zz = state.front.white, state.W_xz, state.W_zz
    if fronts.maintain(white, W_xz, params.horizon, state.repairs):
        W_xz[:] = W_zz[:] = np.eye(len(W_zz))
        for a, first in zip(state.facet, (0, 1, 1, 1), strict=True):
            a[:] = first
    else:
        negative = W_xz @ white.v_bar < 0
        if white.prior[0] == 0 or not negative.any():
            return
        W_xz[negative] *= -1
        state.repairs[SILENT] += np.count_nonzero(negative)
    state.W_xz_mean[:], state.W_zz_mean[:] = W_xz, W_zz


def unmixing(state: State) -> np.ndarray:
    """W_zz^-1 W_xz, times the matrix of the whitening."""
    return fronts.through_front(solve_lateral(state.W_zz, state.W_xz), state.front)


#: By the value of `whiten`.
RULES = fronts.behind_fronts(
    Rule(
        "cone_network", State, Params,
        shapes(d="facet.log_kappa facet.p facet.m facet.q", dh="W_xz W_xz_mean", dd="W_zz W_zz_mean"),
        workspace, settle, learn, unmixing, average=average, parts={"facet": Facet},
    ),
    "local", maintain_whitening,
)  # fmt: skip


class ConeNetwork(OnlineEstimator):
    """Correlated nonnegative sources by a single layer of 2-compartmental neurons with local rules, behind a whitening.

    Inhibition grows with the presynaptic rate until it pushes its target below zero, and each dendrite learns to predict its
    soma. The network ends at the cone of smallest volume that holds the mixtures, as `MinimumVolumeCone` does offline: sources may
    be correlated, but each must reach zero while others are active. Equations and derivation: :doc:`/cone-network` and
    `bionica.networks.cone_network`.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number of mixtures.
    kappa : float, default=None
        Hardness of the wall: about 1/n^2 if outputs, of mean 1, may fall below zero by n. It grows to this number, from 1. None:
        each neuron finds its own, from how far it is pushed below zero.
    whiten : {"online", "offline"} or False, default="online"
        What stands before the layer. "online": the running whitening of `StreamingNICA`, so that the mixing matrix does not matter.
        "offline": one that `fit` computes from all the data but outliers; `partial_fit` and `learn_one` need a `fit` before.
        Neither is local. False: nothing; the network is strictly local, and the random start decides whether it separates.
    eta0, decay, power : float, default=0.3, 0.0, 1.0
        Learning rate eta at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or `eta0` as a function of t.
    average : bool, default=True
        Whether `transform` reads out with weights averaged over the samples; `partial_fit_transform` never does.
    init : "random" or dict, default="random"
        Initial weights: random, or arrays by name for some of W_xz (d, k), W_zz (d, d; its diagonal is not used). The network is
        silent for its first 100 + 20 d samples, 200 at least, from which it starts (with "offline", for none).
    horizon : int, default=None
        For mixtures that change: what the network remembers of its input and how it averages reach back about this many samples,
        and behind a running whitening it restarts after an abrupt change. None: it weighs all samples alike.
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
    W_xz_, W_zz_ : ndarray
        The weights, through the whitening, (n_components, n_features), and between neurons, (n_components, n_components).
    kappa_ : ndarray of shape (n_components,)
        Hardness of the wall of each neuron.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int, ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X had string column names.
    repairs_ : dict of str to int
        How often each guard acted; samples that were regularised (nearly singular lateral weights) or did not settle.
    change_detected_ : bool
        Whether the mixing changed while the network learned behind a running whitening without a horizon.

    See Also
    --------
    MinimumVolumeCone : the same cone from all samples.
    TwoCompartmentNICA : the paper's network for uncorrelated sources.

    Examples
    --------
    >>> from bionica import ConeNetwork, datasets, metrics
    >>> S = datasets.copula_uniform(100_000, 3, rho=0.5, rng=0)
    >>> X, A = datasets.mix(S, n_mixtures=6, rng=0)
    >>> network = ConeNetwork(3, random_state=0).fit(X)
    >>> bool(metrics.sinr(S, network.transform(X)) > 25)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **PARAMETERS, "kappa": [POSITIVE, None],
    }  # fmt: skip
    _changeable: ClassVar = (*OnlineEstimator._changeable, "horizon")
    _uncorrelated: ClassVar = False  # outputs have unit mean
    _circuit: ClassVar = TWO_COMPARTMENTS  # W_xz_ includes the whitening

    kappa_ = property(lambda self: np.exp(self._weight("facet.log_kappa")), doc="Hardness of the wall of each neuron.")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kappa: float | None = None,
        whiten: str | bool = "online",
        eta0: Rate = 0.3,
        decay: float = 0.0,
        power: float = 1.0,
        average: bool = True,
        init: str | dict[str, Any] = "random",
        horizon: int | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kappa = kappa
        self.whiten = whiten
        self.eta0, self.decay, self.power = eta0, decay, power
        self.average = average
        self.init = init
        self.horizon = horizon
        self.n_epochs, self.shuffle = n_epochs, shuffle
        self.random_state = random_state

    @property
    def W_xz_(self) -> Array:
        """Weights from mixtures to dendrites, through the whitening, (n_components, n_features)."""
        state = self._started()
        return np.array(fronts.through_front(state.W_xz, state.front))

    @property
    def W_zz_(self) -> Array:
        """Inhibition between neurons, (n_components, n_components); zero on the diagonal."""
        W = self._weight("W_zz")
        np.fill_diagonal(W, 0)
        return W

    def _learner_for(self, k: int, dtype: Any, X: Any = None, state: Any = None) -> Any:
        offline_only_in_fit(self, X, state)
        eps, horizon = float(np.finfo(dtype).eps), int(self.horizon or 0)
        dynamics = Sweeps(4 * eps, 10_000)
        # The default is the hardest wall that rounding resolves.
        wall = self.kappa is None, float(self.kappa or eps**-0.75)
        params = Params(dynamics, Guards(), (horizon or FOREVER) * bool(self.average), horizon, *wall)
        finish = partial(
            NetworkLearner, params=params, rates=[Schedule(self.eta0, self.decay, self.power)],
            readout=averaged if self.average else None,
        )  # fmt: skip
        if state is not None:
            return finish(state)
        d = self._number_of_outputs(k, X)
        given = given_weights(self, {"W_xz": np.zeros((d, k)), "W_zz": np.zeros((d, d))})
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        begin = partial(_begin, self.whiten, d, given, seed, np.dtype(dtype), finish)
        if self.whiten == "offline":
            return begin(X[:])
        return Buffered(k, dtype, fronts.first_block(d), begin, d)


def _begin(
    whiten: Any, d: int, given: dict[str, Array], seed: int, dtype: Any, finish: Any, X: Array
) -> NetworkLearner:
    """The network that starts from a first block, and has learned from it; or from all data, if it whitens offline."""
    rng = np.random.RandomState(seed)
    W_zz = given.get("W_zz", np.eye(d)).astype(dtype)
    np.fill_diagonal(W_zz, 1)
    rows = inliers_of(np.asarray(X, np.float64))
    rows = rows * (np.ptp(rows, axis=0) > 0)  # an offset is no source
    if whiten is False:
        front: Any = fronts.Raw(np.array([float((rows**2).sum(axis=1).mean() / d) or 1.0]))
        W_xz = given.get("W_xz", _through(rows.mean(axis=0), orthonormal_rows(rng, d, rows.shape[1])))
    else:
        # Of second moments: those of abundances, whose sum is constant, are not singular, while their covariance is. The running
        # whitening, K = I of the covariance, adapts.
        F, inverse = padded_whitening(rows, d, centred=False)
        U, F = rows @ F.T, F.astype(dtype)
        running = fronts.Running(fronts.start(d, dtype, U.mean(axis=0), len(U)), F)
        front = fronts.Fixed(F) if whiten == "offline" else running
        W_xz = given["W_xz"] @ inverse if "W_xz" in given else _into_orthant(U, rng)
    facet = Facet(np.zeros(d, dtype), *np.ones((3, d), dtype))
    weights = {"front": front, "facet": facet, "W_xz": W_xz, "W_zz": W_zz}
    learner: NetworkLearner = finish(first_state(RULES[whiten], dtype, rng, weights))
    if whiten != "offline":
        learner.learn(X)
    return learner


def _into_orthant(U: Array, rng: np.random.RandomState) -> Array:
    """Weights from U, whose second moments are white, that make it as nonnegative as a rotation can; mean outputs are 1."""
    # From random weights a neuron may end at no facet: every second network of ten uniform sources.
    u_bar = U.mean(axis=0)
    power = min(float(u_bar @ u_bar), 0.99)
    K = np.eye(len(u_bar)) + np.outer(u_bar, u_bar) * (((1 - power) ** -0.5 - 1) / max(power, 1e-12))  # covariance 1
    W = rotate(U @ K, n_init=3, rng=rng).R @ K
    W = W * np.where(W @ u_bar < 0, -1.0, 1.0)[:, np.newaxis]
    return np.asarray(W / np.maximum(W @ u_bar, 1e-3)[:, np.newaxis])


def _through(x_bar: Array, W: Array) -> Array:
    """Orthonormal rows scaled by 2/|x_bar|, moved along x_bar so that the mean outputs are 1."""
    size = np.linalg.norm(x_bar)
    if size == 0:
        return W
    W = 2 * W / size  # closer to x_bar, neurons often end at the same facet
    return np.asarray(W + np.outer(1 - W @ x_bar, x_bar) / size**2)
