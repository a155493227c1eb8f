"""LocalNICA: one layer of 2-compartmental neurons with strictly local rules, for any
mixing matrix, without tuning.

Neurons as in Algorithm 2: dendrites c, somata z >= 0 at rest under lateral weights,
membranes g (0 where a neuron fires):

    c = W_xz x      z = argmin_{z >= 0} z'W_zz z/2 - c'z      g = c - W_zz z <= 0    (1)

The dendrite learns to predict the soma, and the lateral weights learn the covariance of
the outputs. With dx = x - x_bar and dz = z - z_bar, p_j the power of input j, and a, b,
r the rates of neuron i:

    S_ij = [a (dz_i - (W_zz dz)_i) dx_j - b g_i x_j] / (k p_j)                       (2)
    U_ij <- U_ij + m r (G S_ij - U_ij)                     a trace of each synapse   (3)
    W_xz <- W_xz + S + U                                                             (4)
    W_zz <- (1 - r/2) W_zz (1 - r/2) + (sqrt(r) dz)(sqrt(r) dz)'                     (5)

At rest z - c = (z - W_zz z) - g: the two terms of (2) are the two parts of that
prediction error. The first is zero if outputs are white, the second if they are
nonnegative.

*The clock.* Inputs and dendrites measure how fast they change, their pace q = min(1,
<(x_t - x_{t-1})^2> / variance): 1 if samples are independent, otherwise 2 over their
time constant. Rates of a neuron are multiplied by its pace, windows of means are
divided by it, and the neuron's time n advances by q with each sample: a = .07 q, b = .5
q, r = q/(3 (d + 7) + n/100).

Derivation, the use of each part, and what it cannot do: :doc:`/local-nica`. It is not
in the paper.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.network import TWO_COMPARTMENTS, Network, given_weights, weights
from bionica.circuits.settling import REFRESH, Exact, invalidate, invert, settle_lateral
from bionica.core.blocks import Array
from bionica.engine.algebra import (
    FOREVER,
    apply,
    dot,
    dot_vectors,
    follow_matrix,
    project,
)
from bionica.engine.learner import NetworkLearner
from bionica.engine.rule import (
    Rule,
    averaged,
    first_state,
    hot,
    orthonormal_rows,
    register,
    shapes,
    solve_lateral,
    working,
)

#: a and b of eq. 2; r = 1/(R_FIRST (d + 7) + n/R_LATE).
A = 0.07
B = 0.5
R_FIRST = 3.0
R_LATE = 100.0
#: m and G of eq. 3; the network is stable if m G < 3.
LEAK = 0.06
GAIN = 12.0
#: Samples, over the pace, for means and variances, and after which an input is
#: connected; the pace of the first 100 samples.
MEAN = 300.0
VARIANCE = 10_000.0
READY = 10.0
Q_FIRST = 0.05
#: W_xz begins with orthonormal rows times W_FIRST sqrt(k) over the root mean square of
#: each input, W_zz with Z_FIRST I.
W_FIRST = 10.0
Z_FIRST = 5.0


class Activity(NamedTuple):
    """What an input, or a dendrite, knows of its own past."""

    mean: Array
    variance: Array
    change: Array  # mean square of the difference of successive values
    last: Array
    pace: Array


class State(NamedTuple):
    """What the network remembers."""

    W_xz: Array
    U: Array  # the trace; until an input is connected, its initial weights
    W_zz: Array
    H: Array  # the inverse of W_zz
    x: Activity
    c: Activity
    z_bar: Array
    n: Array  # the time of each neuron
    # whether an input has been seen long enough to know its power
    connected: Array
    W_xz_mean: Array  # averages of the weights
    W_zz_mean: Array
    t: Array
    fired: Array
    rng: Array
    repairs: Array


class Params(NamedTuple):
    """What the user chose."""

    dynamics: Any
    average: int  # samples that averages reach back
    horizon: float  # the time at which rates no longer fall


def settle(state, work, params, X, row):
    """Eq. 1; the loop knows every rule's output, here z, as y."""
    project(state.W_xz, X, row, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws, True)


@hot
def watch(own, V, row, t):
    """Take the values V[row] into the statistics of inputs or dendrites; `t` is 1 over
    the number of samples.
    """
    mean, variance, change, last, pace = own
    real = mean.dtype.type
    for j in range(mean.shape[0]):
        step = V[row, j] - last[j]
        weight = max(t, pace[j] * real(1 / VARIANCE))
        mean[j] += max(t, pace[j] * real(1 / MEAN)) * (V[row, j] - mean[j])
        variance[j] += weight * (
            (V[row, j] - mean[j]) * (V[row, j] - mean[j]) - variance[j]
        )
        change[j] += weight * (step * step - change[j])
        last[j] = V[row, j]


def learn(state, work, params, X, row, eta):
    """Eqs. 2 to 5."""
    W_xz = state.W_xz
    U = state.U
    W_zz = state.W_zz
    own = state.x
    pace = state.c.pace
    z = work.y
    dz = work.dz
    g = work.g
    r = work.r
    real = state.W_xz.dtype.type
    (d, k), one, zero, count = W_xz.shape, real(1), real(0), real(state.t[0])
    for i in range(d):
        work.C[0, i] = work.c[i]
    watch(state.x, X, row, one / count)
    watch(state.c, work.C, 0, one / count)
    for i in range(d):
        g[i] = zero if z[i] > 0 else min(work.c[i] - dot(W_zz, i, z), zero)
        state.z_bar[i] += max(one / count, pace[i] * real(1 / MEAN)) * (
            z[i] - state.z_bar[i]
        )
        dz[i] = z[i] - state.z_bar[i]
        state.n[i] = min(state.n[i] + pace[i], real(params.horizon))
        r[i] = pace[i] / (real(R_FIRST) * (d + 7) + state.n[i] * real(1 / R_LATE))
    for j in range(k):
        power = own.variance[j] + own.mean[j] * own.mean[j]
        if not state.connected[j] and power > 0 and count * own.pace[j] >= READY:
            state.connected[j] = True
            for i in range(d):
                W_xz[i, j] = U[i, j] / math.sqrt(power)
                U[i, j] = 0
        work.gain[j] = one / (real(k) * power) if state.connected[j] else zero
    for i in range(d):
        a = real(A) * pace[i] * (dz[i] - dot(W_zz, i, dz))
        b = real(B) * pace[i] * g[i]
        leak = real(LEAK) * r[i]
        for j in range(k):
            S = (a * (X[row, j] - own.mean[j]) - b * X[row, j]) * work.gain[j]
            on = real(state.connected[j])
            U[i, j] += on * leak * (real(GAIN) * S - U[i, j])
            W_xz[i, j] += S + on * U[i, j]
    for i in range(d):
        dz[i] *= math.sqrt(r[i])
        r[i] = one - real(0.5) * r[i]
    for i in range(d):
        for j in range(d):
            W_zz[i, j] = r[i] * r[j] * W_zz[i, j] + dz[i] * dz[j]


def track(state, work, params, eta):
    """H after eq. 5, by Sherman and Morrison; `learn` leaves sqrt(r) dz and 1 - r/2."""
    H = state.H
    dz = work.dz
    r = work.r
    v = work.ws.free
    d = dz.shape[0]
    one = state.H.dtype.type(1)
    for i in range(d):
        r[i] = one / r[i]
    for i in range(d):
        for j in range(d):
            H[i, j] *= r[i] * r[j]
    apply(H, dz, v)
    size = dot_vectors(v, dz)
    if not size >= 0:
        invalidate(H)
        return
    size = one / math.sqrt(one + size)
    for i in range(d):
        v[i] *= size
    for i in range(d):
        for j in range(d):
            H[i, j] -= v[i] * v[j]


def average(state, weight):
    """Of the weights."""
    follow_matrix(state.W_xz_mean, state.W_xz, weight)
    follow_matrix(state.W_zz_mean, state.W_zz, weight)


def inspect(state, work, params):
    """The pace of inputs and dendrites; H is recomputed from time to time."""
    for own in (state.x, state.c):
        for j in range(own.pace.shape[0]):
            if own.variance[j] > 0:
                own.pace[j] = min(
                    own.change[j] / own.variance[j], own.pace.dtype.type(1)
                )
    if state.t[0] % REFRESH == 0:
        invert(state.W_zz, state.H)


def unmixing(state: State) -> Array:
    """W_zz^-1 W_xz."""
    return solve_lateral(state.W_zz, state.W_xz)


RULE = register(
    Rule(
        "local_nica",
        State,
        shapes(
            dk="W_xz U W_xz_mean",
            dd="W_zz H W_zz_mean",
            k="x.mean x.variance x.change x.last x.pace",
            d="c.mean c.variance c.change c.last c.pace z_bar n",
        )
        | {"connected": "k:bool"},
        working("local_nica", d="c y dz g r", k="gain", **{"1d": "C"}),
        settle,
        learn,
        unmixing,
        inspect,
        track,
        average,
        inverses={"H": "W_zz"},
    )
)


class LocalNICA(Network):
    """Nonnegative ICA by a single layer of 2-compartmental neurons whose rules are
    strictly local, for any mixing matrix.

    A model of a circuit, which is not in the paper. One setting separates well- and
    ill-conditioned mixtures, and samples that are alike in time. Equations, derivation
    and limits: :doc:`/local-nica`. To separate data, use `StreamingNICA`, `BatchNICA`
    or `MinimumVolumeCone`: they are more precise.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    horizon : int, default=None
        For mixtures that change: learning rates stop falling, and averages reach back,
        after this many samples. None: rates fall as long as the network learns.
    init : "random" or dict, default="random"
        Initial weights: random, or arrays by name, W_xz (d, k) and W_zz (d, d); those
        that are not given are random. Column j of W_xz is divided by the root mean
        square of input j, which is connected when that is known: after 100 samples, or
        more if they are alike. Outputs are 0 until then.
    n_epochs, shuffle : int, bool, default=1, False
        How often `fit` presents the data, and whether in random order, another in each
        epoch (within the blocks of a Dask array).
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        What the network does to a mixture for which every output fires, with averaged
        weights, as `transform`.
    mixing_, spectra_ : ndarray
        The estimated A, pseudoinverse of `components_`, (n_features, n_components); and
        its transpose, a spectrum in each row.
    W_xz_, W_zz_ : ndarray
        The weights, (n_components, n_features) and (n_components, n_components).
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X
        had string column names.
    repairs_ : dict of str to int
        Samples that were regularised (nearly singular lateral weights).

    See Also
    --------
    TwoCompartmentNICA : the paper's network with such neurons.
    bionica.circuits.reference : the same rule in plain NumPy.

    Examples
    --------
    >>> from bionica import LocalNICA, datasets, metrics
    >>> S = datasets.sparse_uniform(50_000, 3, rng=0)
    >>> X, A = datasets.mix(S, n_mixtures=3, rng=0)
    >>> network = LocalNICA(random_state=0).fit(X)
    >>> bool(metrics.sinr(S, network.transform(X)) > 25)
    True
    """

    _changeable = ("horizon",)
    _circuit = TWO_COMPARTMENTS

    W_xz_ = weights(
        "W_xz", "Weights from mixtures to dendrites, (n_components, n_features)."
    )
    W_zz_ = weights("W_zz", "Weights between outputs, (n_components, n_components).")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        horizon: int | None = None,
        init: str | dict[str, Any] = "random",
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.horizon = horizon
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
                "W_xz": W_FIRST * k**0.5 * orthonormal_rows(rng, d, k),
                "W_zz": Z_FIRST * np.eye(d),
            }
            W |= given_weights(self, W, positive_definite="W_zz")
            x, c = (
                Activity(*(np.full(n, first, dtype) for first in (0, 0, 0, 0, Q_FIRST)))
                for n in (k, d)
            )
            state = first_state(
                RULE, dtype, rng, {"U": W["W_xz"], "W_zz": W["W_zz"], "x": x, "c": c}
            )
        dynamics = Exact(float(np.finfo(dtype).eps))
        horizon = self.horizon or FOREVER
        return NetworkLearner(
            state, Params(dynamics, int(horizon), float(horizon)), [], averaged
        )
