"""Algorithm 2, Bio-NICA with 2-compartmental neurons: k mixtures x, dendrites c, d
somatic outputs z >= 0.

For each mixture x_t, with c_t = W_xz x_t and the somata at the fixed point of the
dynamics (eq. 15; see `settling`),

    z_t <- [z_t + gamma (c_t - W_zz z_t)]_+

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t      c_bar <- c_bar + (c_t - c_bar)/t

and then the weights (eqs. 13 and 14, online):

    W_xz <- W_xz + 2 eta_t (z_t x_t' - (c_t - c_bar)(x_t - x_bar)')
    W_zz <- W_zz + (eta_t / tau) (z_t z_t' - W_zz)

W_zz stays positive definite while eta_t < tau.

*Erratum.* The text of section 4.2 replaces the averages Z X'/T and Z Z'/T by products
of centred activities. The objective L_2 and the algorithm box use z_t x_t' and z_t z_t'
uncentred; the box is what converges to the sources, and what is here.

*Beyond the paper.* The untuned settings, where neither eta0 nor decay is given: eta0 =
0.0375/d, decay = 1e-5 max(10, d), tau = 0.19/d, running means over 300 samples. They
assume sources and entries of the mixing matrix near unit variance: the power of the
mixtures then grows like d^2, and the rate of W_zz, eta/tau, is the same for every d.
Such rates need the guard `rate`, which lowers eta to 0.5/|x - x_bar|^2. That sum over
the inputs is an assumption beyond the paper: a neuron receives W_xz x, and a single
synapse knows one input. `transform` reads out with averaged weights.

The guards are not local: `spectrum` needs all weights of a layer (appendix C). With
``guards=()`` every synapse learns from what its two neurons know.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.guards import cap_rate, flip_silent, lift_eigenvalues
from bionica.circuits.network import (
    TWO_COMPARTMENTS,
    Network,
    OfThePaper,
    given_weights,
    weights,
)
from bionica.circuits.settling import REFRESH, follow_lateral, invert, settle_lateral
from bionica.core.blocks import Array
from bionica.core.parameters import PARAMETERS, POSITIVE, UNTUNED
from bionica.engine.algebra import (
    distance,
    follow,
    follow_input,
    follow_matrix,
    hebb,
    mean_weight,
    project,
)
from bionica.engine.learner import NetworkLearner, Rate, Schedule
from bionica.engine.rule import (
    Rule,
    averaged,
    first_state,
    orthonormal_rows,
    register,
    shapes,
    solve_lateral,
    working,
)


class State(NamedTuple):
    """What the network remembers."""

    W_xz: Array
    W_zz: Array
    H: Array  # the inverse of W_zz
    x_bar: Array
    c_bar: Array
    W_xz_mean: Array  # averages of the weights
    W_zz_mean: Array
    t: Array
    fired: Array
    rng: Array
    repairs: Array


def settle(state, work, params, X, row):
    """c = W_xz x, and eq. 15; the loop knows every rule's output, here z, as y."""
    project(state.W_xz, X, row, work.c)
    settle_lateral(params.dynamics, state.W_zz, state.H, work.c, work.y, work.ws, True)


def learn(state, work, params, X, row, eta):
    """The running means and the two synaptic updates."""
    W_xz = state.W_xz
    x_bar = state.x_bar
    c_bar = state.c_bar
    c = work.c
    z = work.y
    weight = mean_weight(X, state.t[0], params.mean_window)
    follow_input(x_bar, X, row, weight)
    follow(c_bar, c, weight)
    hebb(state.W_zz, eta / params.tau, z, z)  # (14)
    two_eta = W_xz.dtype.type(eta + eta)
    for i in range(W_xz.shape[0]):  # (13)
        a = two_eta * z[i]
        b = two_eta * (c[i] - c_bar[i])
        for j in range(W_xz.shape[1]):
            W_xz[i, j] += a * X[row, j] - b * (X[row, j] - x_bar[j])


def track(state, work, params, eta):
    """H follows W_zz."""
    follow_lateral(params.dynamics, state.H, eta / params.tau, work.y, work.ws)


def average(state, weight):
    """Of the weights."""
    follow_matrix(state.W_xz_mean, state.W_xz, weight)
    follow_matrix(state.W_zz_mean, state.W_zz, weight)


def rate(state, work, params, X, row, rates):
    """The guard `rate`, with x - x_bar as it is after x_bar has moved."""
    eta = rates[row, 0]
    if params.guards.rate:
        rest = X.dtype.type(1) - mean_weight(X, state.t[0], params.mean_window)
        size = rest * rest * distance(X, row, state.x_bar)
        eta = cap_rate(eta, size, rates.dtype.type(0.5), work.ws.events)
    return eta


def flip(state, work, params):
    """The guard `silent`."""
    if params.guards.silent:
        flip_silent(state.W_xz, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guard `spectrum`; H is recomputed from time to time."""
    lifted = params.guards.spectrum and lift_eigenvalues(
        state.W_zz, params.eps, work.ws
    )
    if lifted or state.t[0] % REFRESH == 0:
        invert(state.W_zz, state.H)


def unmixing(state: State) -> Array:
    """W_zz^-1 W_xz."""
    return solve_lateral(state.W_zz, state.W_xz)


RULE = register(
    Rule(
        "two_compartment",
        State,
        shapes(dk="W_xz W_xz_mean", dd="W_zz H W_zz_mean", k="x_bar", d="c_bar"),
        working("two_compartment", d="c y"),
        settle,
        learn,
        unmixing,
        inspect,
        track,
        average,
        flip,
        rate,
        inverses={"H": "W_zz"},
    )
)


class TwoCompartmentNICA(OfThePaper, Network):
    """Nonnegative ICA by a single layer of 2-compartmental neurons: Algorithm 2 of the
    paper, with its local rules.

    A model of a circuit: each synapse learns from what its two neurons know (the
    guards, repairs of appendix C, know more). `as_published` has the paper's settings;
    the default ones separate nearly all mixing matrices up to a condition number of 10
    (:doc:`/paper/convergence`). To separate data, use `StreamingNICA`, `BatchNICA` or
    `MinimumVolumeCone`.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    tau : float, default=None
        The lateral weights W_zz learn at the rate eta/tau. Every eta must be below tau.
        None: 0.19/d if `eta0` and `decay` are None, else 0.8.
    eta0, decay, power : float, default=None, None, 1.0
        Learning rate at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or
        `eta0` as a function of t. None: 0.0375/d and 1e-5 max(10, d) if both are None,
        else 0.1 and 0.01.
    mean_window : int, default=None
        Samples of the running means. None: 300 if both rates are None, else all, as in
        the paper.
    average : bool, default=True
        Whether `transform` reads out with weights averaged over the samples;
        `partial_fit_transform` never does.
    dynamics : {"exact", "gradient"}, default="exact"
        How the neurons settle: exactly (a nonnegative quadratic program), or by the
        iteration of the algorithm box.
    gamma, settle_tol, settle_steps : float, float, int, default=None, 1e-10, 10000
        Of the gradient dynamics: the step (None: a safe one), the relative error of the
        activities at the end, and the most steps.
    guards : bool or collection of str, default=True
        Repairs to switch on: all, none, or some of ("silent", "spectrum", "rate"); see
        `bionica.circuits.guards`.
    init : "random" or dict, default="random"
        Initial weights: random (orthonormal feedforward, identity lateral), or arrays
        by name for some of W_xz, W_zz.
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
    W_xz_, W_zz_ : ndarray
        The weights, (n_components, n_features) and (n_components, n_components).
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X
        had string column names.
    repairs_ : dict of str to int
        How often each guard acted; samples that were regularised (nearly singular
        lateral weights) or did not settle.

    See Also
    --------
    InterneuronNICA : the paper's other network.
    bionica.circuits.reference : the same algorithm in plain NumPy.

    Examples
    --------
    >>> from bionica import TwoCompartmentNICA, datasets, metrics
    >>> S = datasets.sparse_uniform(100_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
    >>> network = TwoCompartmentNICA.as_published("d3", random_state=0).fit(X)
    >>> bool(metrics.permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints = PARAMETERS | UNTUNED | {"tau": [POSITIVE, None]}
    #: Table 1 (appendix C), to the digit; and what all settings share. On images the
    #: authors' code differs: the table is meant.
    _published: ClassVar = {
        "always": {"average": False, "guards": ("silent", "spectrum")},
        "d3": {"eta0": 1e-1, "decay": 1e-2, "tau": 0.8},
        "d10": {"eta0": 1e-3, "decay": 1e-4, "tau": 0.03},
        "images": {"eta0": 1e-2, "decay": 1e-4, "tau": 0.5},
    }
    _circuit = TWO_COMPARTMENTS

    _guards = ("silent", "spectrum", "rate")
    W_xz_ = weights(
        "W_xz", "Weights from mixtures to outputs, (n_components, n_features)."
    )
    W_zz_ = weights("W_zz", "Weights between outputs, (n_components, n_components).")

    def __init__(
        self,
        n_components: int | None = None,
        *,
        tau: float | None = None,
        eta0: Rate | None = None,
        decay: float | None = None,
        power: float = 1.0,
        mean_window: int | None = None,
        average: bool = True,
        dynamics: str = "exact",
        gamma: float | None = None,
        settle_tol: float = 1e-10,
        settle_steps: int = 10_000,
        guards: bool | Iterable[str] = True,
        init: str | dict[str, Any] = "random",
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.tau = tau
        self.eta0 = eta0
        self.decay = decay
        self.power = power
        self.mean_window = mean_window
        self.average = average
        self.dynamics = dynamics
        self.gamma = gamma
        self.settle_tol = settle_tol
        self.settle_steps = settle_steps
        self.guards = guards
        self.init = init
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> NetworkLearner:
        d = self._number_of_outputs(k, X) if state is None else len(state.W_zz)
        if state is None:
            rng = check_random_state(self.random_state)
            W = {"W_xz": orthonormal_rows(rng, d, k), "W_zz": np.eye(d)}
            state = first_state(
                RULE, dtype, rng, W | given_weights(self, W, positive_definite="W_zz")
            )
        untuned = self.eta0 is None and self.decay is None
        eta0, decay, tau = 1e-1, 1e-2, 0.8
        if untuned:
            eta0, decay, tau = 0.0375 / d, 1e-5 * max(10, d), 0.19 / d
        tau = float(tau if self.tau is None else self.tau)
        rates = Schedule(
            eta0 if self.eta0 is None else self.eta0,
            decay if self.decay is None else self.decay,
            self.power,
            tau,
            "lower eta0 or raise tau",
        )
        window = self.mean_window or (300 if untuned else 0)
        params = self._params(dtype, window, tau=tau)
        return NetworkLearner(
            state, params, [rates], averaged if self.average else None
        )
