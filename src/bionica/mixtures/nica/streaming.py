"""StreamingNICA, the orthant rotation: nonnegative ICA of a stream without a learning
rate. *Beyond the paper.*

K whitens the mixtures, v = K x (see `running_whitening`), and V is turned until o = V v
>= 0. Let o = p + e, its positive and negative parts, which are orthogonal. The rotation
of the plane of a = p/|p| and b = e/|e| that takes o to p puts this sample into the
orthant. If |e| is more than rounding (64 eps |o|) V is turned in that plane by phi:

    tan(phi/2) = lambda tan(theta/2),   tan(theta/2) = |e|/(|o| + |p|)
    V <- T V,   T = I + (cos phi - 1)(a a' + b b') + sin phi (a b' - b a')
    lambda = g (1 + t/(500 d))^-1/2 1.3 |o|^2/(|o|^2 + 0.3 E) (1 + 1/(1 + 10
    |e|^2/|p|^2))

where g is the weight of the sample, t counts the turns (never above the horizon) and E
= d + |v_bar|^2 is the mean of |o|^2. lambda falls where noise makes every sample
violate, and stays where violations are rare. Small samples carry noise, not direction.
Near the solution samples are inequality constraints, and a step past the face (as in
successive over-relaxation) helps sources with few samples near zero.

Outputs are y = max(V_mean v, 0), V_mean the running average of V with c = 11/(age +
10), where age is no more than the horizon. `transform` reads out with polar(V_mean) K.
Outputs exist from the second sample on.

*More mixtures than sources*, k > d: K acts on u = F x. F (d x k) has orthonormal rows,
random at first, and turns towards the d leading directions of the mixtures:

    P <- P + g dx du'
    after n/4 more samples:  A = P K'V' = U'R',  K <- K F A R'^-1,  F <- U,  P <- 0

P is the covariance of x and u since F last changed; U has orthonormal rows and R is
lower triangular (Gram-Schmidt). This is a power step: the columns of C F' lie closer to
the leading directions than those of F'. The columns of A resemble those of the mixing
matrix, so that A has its condition number and not the square of it. K F A R'^-1 U x = K
F x for every x in the span of A: without noise the outputs do not change, and K stays
white. Memory is k x d. With a horizon, a drift that leaves the first directions is
followed. The first step comes after 20 d samples, when the covariance of the start is
removed (it is a multiple of I only until then). The weight of a sample is bounded by
the energy outside of F as well: g <= min(1, 1.5 r/|(I - F'F) dx|^2)^2, r its running
99.5 % quantile.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.core.blas import one_blas_thread
from bionica.core.blocks import Array, some_rows
from bionica.core.online import appended, not_started
from bionica.core.parameters import AUTO, COUNT, PARAMETERS
from bionica.engine.algebra import (
    apply,
    apply_transposed,
    averaging_weight,
    dot,
    dot_rows,
    dot_vectors,
    follow_matrix,
)
from bionica.engine.estimator import RuleEstimator
from bionica.engine.learner import NetworkLearner
from bionica.engine.rule import (
    Rule,
    first_state,
    hot,
    ordered,
    orthonormal_rows,
    register,
    working,
)
from bionica.mixtures.cone.count import rough_cones
from bionica.mixtures.nica import running_whitening as whitening
from bionica.mixtures.separator import MixtureSeparator
from bionica.mixtures.verdict.count import count_sources, undecided
from bionica.mixtures.verdict.findings import Finding, finding

#: Of lambda (see above).
LARGE_ANGLE = 10.0
SMALL = 0.3
TURNS = 500.0


class State(NamedTuple):
    """What the rule remembers."""

    white: whitening.WhiteningState
    # if there are as many mixtures as sources, the identity; then P, x_bar, u_bar and
    # outside stay zero
    F: np.ndarray
    V: np.ndarray
    V_mean: np.ndarray
    turned: np.ndarray  # samples that turned V
    P: np.ndarray
    x_bar: np.ndarray
    u_bar: np.ndarray  # F x_bar
    outside: np.ndarray  # 99.5 % quantile of the energy outside of F
    t: np.ndarray
    fired: np.ndarray
    rng: np.ndarray
    repairs: np.ndarray


class Params(NamedTuple):
    """What the user chose."""

    average: int  # 0: V_mean is part of the rule
    horizon: int  # 0: none
    eps: float  # rounding of the mixtures' dtype
    projects: bool  # whether there are more mixtures than sources


def init(d: int, k: int, dtype: Any, rng: np.random.RandomState) -> Any:
    """Return the rule before its first sample, with a random projection (if k > d) and
    rotation.
    """
    F = orthonormal_rows(rng, d, k) if k > d else np.eye(d)
    V = orthonormal_rows(rng, d, d)
    given = {"white": whitening.start(d, dtype), "F": F, "V": V}
    return first_state(RULE, dtype, rng, given)


def settle(state, work, params, X, row):
    """v = K F x and y = max(V_mean v, 0), without the polar projection of V_mean, which
    is of second order.

    In the first 20 d samples outputs with more than 2 + age/d times the mean energy are
    scaled down to that: K is hardly known.
    """
    white = state.white
    v = work.v
    white_input(state, work, X, row)
    d = v.shape[0]
    shrink = 1.0
    energy = dot_vectors(v, v)
    # otherwise the output overflows, and ends the loop
    if white.age[0] < whitening.START * d and energy < math.inf:
        usual = (2 + white.age[0] / d) * whitening.mean_energy(white.v_bar)
        shrink = math.sqrt(min(1.0, usual / max(energy, 1e-300)))
        shrink = shrink if white.power[0] > 0 else 0.0
    for i in range(d):
        y = shrink * dot(state.V_mean, i, v)
        work.y[i] = 0.0 if y <= 0 else y


def learn(state, work, params, X, row, eta):
    """The sample's weight, the turn, the whitening, the covariance of x and u."""
    white = state.white
    V = state.V
    v = work.v
    dv = work.dv
    a = work.a
    b = work.b
    horizon = params.horizon
    if not whitening.is_usable(white, work.u, v):
        return
    q, g = whitening.weigh(white, v, dv)
    if params.projects:
        g = min(g, weigh_outside(state, work, X, row))
    apply(V, v, work.out)
    cos_1, sin = find_turn(white, work.out, a, b, state.turned, g, params)
    if sin != 0:
        apply_transposed(V, a, work.Va)
        apply_transposed(V, b, work.Vb)
        turn(V, a, b, work.Va, work.Vb, cos_1, sin)
    m = whitening.update_whitening(white, dv, q, g, horizon, work.Va)
    if params.projects:
        gather(state, work, g, m)
    age = white.age[0]
    if horizon > 0:
        age = min(age, float(horizon))
    follow_matrix(state.V_mean, V, averaging_weight(age))


# --- one sample


@hot
def white_input(state, work, X, row):
    """u = F x and v = K u."""
    for i in range(work.u.shape[0]):
        work.u[i] = dot_rows(state.F, i, X, row, X.shape[1])
    apply(state.white.K, work.u, work.v)


@hot
def find_turn(white, out, a, b, turned, g, params):
    """The plane of the turn for these outputs, in a and b; returns cos phi - 1 and sin
    phi.

    No turn, sin phi = 0, if no output is negative or all are.
    """
    d = out.shape[0]
    pp = 0.0
    ee = 0.0
    for i in range(d):
        positive = max(out[i], 0.0)
        pp += positive * positive
        ee += min(out[i], 0.0) * min(out[i], 0.0)
    oo = pp + ee
    if ee <= 64 * params.eps * (64 * params.eps) * oo:
        return 0.0, 0.0
    mean = whitening.mean_energy(white.v_bar)
    turned[0] += 1
    if params.horizon > 0:
        turned[0] = min(turned[0], float(params.horizon))
    if pp == 0:
        return 0.0, 0.0
    p = math.sqrt(pp)
    e = math.sqrt(ee)
    tan = e / (math.sqrt(oo) + p) * g / math.sqrt(1 + turned[0] / (TURNS * d))
    tan *= (
        (1 + SMALL) * oo / (oo + SMALL * mean) * (1 + 1 / (1 + LARGE_ANGLE * ee / pp))
    )
    half = 2 / (1 + tan * tan)
    over_p = 1 / p
    over_e = 1 / e
    for i in range(d):
        positive = out[i] > 0
        a[i] = out[i] * over_p if positive else 0.0
        b[i] = 0.0 if positive else out[i] * over_e
    return half - 2, tan * half


@ordered
def turn(V, a, b, Va, Vb, cos_1, sin):
    """V <- V + (cos_1 (a a' + b b') + sin (a b' - b a')) V, where Va = V'a and Vb =
    V'b.
    """
    for i in range(V.shape[0]):
        along = V.dtype.type(cos_1 * a[i] - sin * b[i])
        across = V.dtype.type(cos_1 * b[i] + sin * a[i])
        for j in range(V.shape[1]):
            V[i, j] = (V[i, j] + along * Va[j]) + across * Vb[j]


@hot
def weigh_outside(state, work, X, row):
    """work.dx <- x - x_bar, work.u <- u - u_bar; returns the bound of g from the energy
    outside of F.
    """
    dx = work.dx
    u = work.u
    outside = state.outside
    d = state.F.shape[0]
    for j in range(dx.shape[0]):
        dx[j] = X[row, j] - state.x_bar[j]
    for i in range(d):
        u[i] -= state.u_bar[i]
    total = dot_vectors(dx, dx)
    r = max(total - dot_vectors(u, u), 1e-13 * total)
    if outside[0] == 0:
        outside[0] = r
    largest = whitening.SPARE * outside[0]
    s = whitening.quantile_step(state.white.age, d)
    outside[0] *= 1 + s if r > outside[0] else 1 - s * whitening.P_2
    return largest / r * (largest / r) if r > largest else 1.0


@hot
def gather(state, work, g, m):
    """P, x_bar and u_bar."""
    P = state.P
    dx = work.dx
    u = work.u
    for i in range(u.shape[0]):
        state.u_bar[i] += m * u[i]
    for j in range(dx.shape[0]):
        state.x_bar[j] += m * dx[j]
        x = g * dx[j]
        for i in range(u.shape[0]):
            P[j, i] += x * u[i]


# --- rarely, in NumPy


def maintain_all(state: State, params: Params) -> None:
    """Maintenance of the whitening, a flip, the power step of F."""
    white = state.white
    F = state.F
    V = state.V
    P = state.P
    was_due = white.age[0] >= white.due[0]
    negative = (V @ white.v_bar).sum() < 0
    if whitening.maintain(white, V, params.horizon, state.repairs):
        for a in (state.turned, state.outside, state.u_bar, state.x_bar, P):
            a[:] = 0
        V[:] = state.V_mean[:] = np.eye(len(V))
        return
    if was_due and negative:  # no turn leads out of the negative orthant
        V *= -1
        state.V_mean[:] = V
    if was_due and params.projects and white.prior[0] == 0:
        A = P @ (V @ white.K).T
        Q, R = np.linalg.qr(A)
        # otherwise A has fewer than d directions
        if (np.abs(np.diag(R)) > 1e-13 * np.linalg.norm(A, axis=0)).all():
            white.K[:] = np.linalg.solve(R.T, (white.K @ (F @ A)).T).T
            F[:] = Q.T
            state.u_bar[:] = F @ state.x_bar
            white.v_bar[:] = white.K @ state.u_bar
        P[:] = 0


def averaged(state: Any) -> Any:
    """Return the network that reads out with polar(V_mean) K; shares memory with
    `state`.
    """
    U, _, W = np.linalg.svd(state.V_mean)
    # no longer the first samples
    age = np.full(1, np.inf) if state.white.power[0] > 0 else state.white.age
    return state._replace(white=state.white._replace(age=age), V_mean=U @ W)


def unmixing(state: State) -> np.ndarray:
    """V_mean K F."""
    return state.V_mean @ state.white.K @ state.F


def is_due(state, params):
    """Whether `maintain_all` is due."""
    return whitening.is_due(state.white)


RULE = register(
    Rule(
        "orthant_rotation",
        State,
        {
            **whitening.SHAPES,
            "F": "dk",
            "P": "kd",
            "V": "dd:float64",
            "V_mean": "dd:float64",
            "x_bar": "k:float64",
            "u_bar": "d:float64",
            "turned": "1:float64",
            "outside": "1:float64",
        },
        working(
            "orthant_rotation", d="y u", k="dx", **{"d:float64": "v dv out a b Va Vb"}
        ),
        settle,
        learn,
        unmixing,
        is_due=is_due,
        maintain=maintain_all,
    )
)


class StreamingNICA(MixtureSeparator, RuleEstimator):
    """Nonnegative ICA of a stream, one sample at a time, without a learning rate.

    Each sample updates the whitening of the mixtures, and turns it in the plane of its
    positive and negative outputs until the outputs are nonnegative
    (`bionica.mixtures.nica.streaming`). One pass ends where `BatchNICA` ends. There is
    nothing to tune. Outputs exist from the second sample on (the first sets the scale).
    They have unit variance; their order is arbitrary. An outlier has almost no weight
    (`bionica.mixtures.nica.running_whitening`), and a sensor that repeats a sample for
    long has no effect.

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures. "auto": as many as two halves of the samples agree on (`count_`),
        in a stream of its first 100 + 20 n_features samples, for which outputs are
        zero.
    horizon : int, default=None
        For mixtures that change: about this many samples are remembered, 1,000 + 100
        n_components or more, and many times the longest silence of a source. It follows
        a drift that is slow beside the horizon, and starts again after an abrupt change
        (counted in `repairs_`). None: all samples weigh the same, and a change is only
        reported.
    n_epochs, shuffle : int, bool, default=1, False
        How often `fit` presents the data, and whether in random order, another in each
        epoch (within the blocks of a Dask array).
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Attributes
    ----------
    components_, mixing_, spectra_ : ndarray
        The unmixing matrix W, (n_components, n_features), with sources max(W x, 0); the
        estimated A, with W A = I; and its transpose, a spectrum in each row.
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples seen (waiting ones too); names of the
        mixtures, if X had string column names.
    count_ : Count
        With n_components="auto": `n_sources`, other `candidates`, and the angle between
        halves for each number that was tried.
    change_detected_ : bool
        Whether the mixing changed while the network learned without a horizon.
    repairs_ : dict of str to int
        How often it restarted after an abrupt change (`restart`).

    See Also
    --------
    BatchNICA : the same solution from all samples at once.
    TwoCompartmentNICA, InterneuronNICA : the paper's networks, whose rules are local.

    Examples
    --------
    >>> from bionica import StreamingNICA, datasets, metrics
    >>> S = datasets.sparse_uniform(20_000, 3, rng=0)
    >>> X, A = datasets.mix(S, n_mixtures=5, rng=0)
    >>> stream = StreamingNICA(3, random_state=0)
    >>> for block in X.reshape(20, 1000, 5):
    ...     Y = stream.partial_fit_transform(block)
    >>> bool(metrics.permutation_error(S[-1000:], Y) < 1e-3)
    True
    """

    _parameter_constraints = PARAMETERS | {"n_components": [COUNT, AUTO, None]}
    _changeable = ("horizon",)
    _repeats = True

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        horizon: int | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.horizon = horizon
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> NetworkLearner:
        if state is None:
            rng = check_random_state(self.random_state)
            state = init(self._number_of_outputs(k, X), k, dtype, rng)
        d, k = state.F.shape
        eps = float(np.finfo(state.F.dtype).eps)
        horizon = int(self.horizon or 0)
        params = Params(0, horizon, eps, d < k)
        return NetworkLearner(state, params, [], averaged)

    # --- a number of sources that a first block decides

    def _begin(self, k: int, dtype: Any, X: Any = None) -> None:
        if self.n_components != "auto":
            super()._begin(k, dtype, X)
            return
        self._waiting = np.empty((0, k), dtype)
        self._learner = None
        rng = check_random_state(self.random_state)
        self._seed = int(rng.randint(2**31 - 1))
        if X is not None:
            self._start(some_rows(X))

    def _start(self, X: Array) -> None:
        """Count the sources of some samples, and begin with as many outputs."""
        self.count_ = count_sources(X.astype(np.float64), rough_cones)
        k = X.shape[1]
        dtype = self._waiting.dtype
        rng = np.random.RandomState(self._seed)
        state = init(self.count_.n_sources, k, dtype, rng)
        self._learner = self._learner_for(k, dtype, state=state)

    def _learn(self, X: Array, keep: bool = False) -> Any:
        if self._learner is not None:
            return super()._learn(X, keep)
        first, rest = np.split(X, [self.n_samples_until_start_])
        self._waiting = appended(self._waiting, first, self._first_block())
        if len(self._waiting) < self._first_block():
            if keep:
                raise not_started(self.n_samples_until_start_)
            return None
        self._flush()
        Y = super()._learn(rest, keep)
        if not keep:
            return None
        silent = np.zeros((len(first), Y.shape[1]), Y.dtype)
        return np.concatenate([silent, Y])

    def _flush(self) -> None:
        waiting = self._waiting
        if len(waiting):
            self._waiting = waiting[:0].copy()
            with one_blas_thread():
                self._start(waiting)
                self._learner.learn(waiting)

    def _first_block(self) -> int:
        """How many samples decide the number of sources."""
        return 100 + 20 * self._waiting.shape[1]

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that are missing until the model starts; outputs are zero before."""
        self._check_fitted()
        if self._learner is not None:
            return 0
        return self._first_block() - len(self._waiting)

    def _restore(self, values: dict[str, Any]) -> None:
        if values.get("_state") is not None:
            super()._restore(values)
            return
        waiting = values["_waiting"]
        self._begin(waiting.shape[1], waiting.dtype)
        self._waiting = waiting
        if not (self._learner is None and 0 < len(waiting) < self._first_block()):
            raise ValueError(f"{len(waiting)} samples wait for a first block")

    # --- what was learned

    @property
    def change_detected_(self) -> bool:
        """Whether the mixing changed while the network learned without a horizon."""
        return bool(self._started().white.changed[0])

    def _problems(self) -> list[Finding]:
        if self._learner is None:
            return []
        problems = undecided(self.count_) if hasattr(self, "count_") else []
        if self._learner.state.white.changed[0]:
            reason = (
                "the mixtures changed: outputs became far more correlated, and past and"
                " present are averaged"
            )
            changed = finding("converged", reason=reason)
            problems.append(changed._replace(remedies=("horizon",)))
        return problems

    def _after_fit(self, rows: Array, n: int) -> None:
        self._warn_about_fit(rows, n, *self._problems())
