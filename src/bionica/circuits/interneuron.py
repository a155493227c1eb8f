"""Algorithm 1, Bio-NICA with interneurons: k mixtures x, d outputs y >= 0, m >= d
interneurons n.

For each mixture x_t, with the activity at the fixed point of the dynamics (eq. 9; see
`settling`),

    y_t <- [y_t + gamma (W_xy x_t - W_ny n_t)]_+     n_t <- n_t + gamma (W_yn y_t - n_t)

the running means are moved by 1/t,

    x_bar <- x_bar + (x_t - x_bar)/t
    y_bar <- y_bar + (y_t - y_bar)/t
    n_bar <- n_bar + (n_t - n_bar)/t

and then the weights (eqs. 7 and 8, online):

    W_xy <- W_xy + eta_t ((y_t - y_bar)(x_t - x_bar)' - W_xy)
    W_ny <- W_ny + eta_t ((y_t - y_bar)(n_t - n_bar)' - W_ny)
    W_yn <- W_yn + eta_t ((n_t - n_bar)(y_t - y_bar)' - W_yn)

W_ny and W_yn are separate synapses. The difference W_ny - W_yn' shrinks by (1 - eta_t)
at each sample (appendix B); if the two are equal at the beginning they stay so
(`coupled`), and M = W_ny W_yn is symmetric. At the optimum W_xy = P A' and W_yn' W_yn =
P A'A P' for a permutation P (appendix A).

*Beyond the paper.* The untuned settings, where neither eta0 nor decay is given: eta0 =
0.02, decay = 2e-4, running means over 300 samples. `transform` reads out with averaged
weights.

The guards are not local: `spectrum` needs all weights of a layer, `row` those of a
neuron (appendix C). With ``guards=()`` every synapse learns from what its two neurons
know.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.guards import flip_silent, lift_singular_values, replace_rows
from bionica.circuits.network import Network, OfThePaper, given_weights, weights
from bionica.circuits.settling import (
    REFRESH,
    follow_interneurons,
    invert,
    settle_interneurons,
)
from bionica.core.blocks import Array
from bionica.core.parameters import BOOLEAN, COUNT, PARAMETERS, UNTUNED
from bionica.engine.algebra import (
    apply,
    follow,
    follow_input,
    follow_matrix,
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

    W_xy: Array
    W_yn: Array
    W_ny: Array
    # W_ny W_yn; if they are not coupled only after each refresh, because nothing reads
    # it
    M: Array
    H: Array  # the inverse of M
    x_bar: Array
    y_bar: Array
    n_bar: Array
    W_xy_mean: Array  # averages of the weights
    W_yn_mean: Array
    W_ny_mean: Array
    coupled: Array  # whether W_ny was W_yn' at the beginning
    t: Array
    fired: Array
    rng: Array
    repairs: Array


def settle(state, work, params, X, row):
    """Eq. 9."""
    project(state.W_xy, X, row, work.c)
    settle_interneurons(
        params.dynamics,
        state.W_yn,
        state.W_ny,
        state.M,
        state.H,
        work.c,
        work.y,
        work.n,
        work.ws,
        True,
    )


def learn(state, work, params, X, row, eta):
    """The running means and the three synaptic updates."""
    x_bar = state.x_bar
    y_bar = state.y_bar
    n_bar = state.n_bar
    y = work.y
    n = work.n
    dy = work.dy
    dn = work.dn
    weight = mean_weight(X, state.t[0], params.mean_window)
    follow_input(x_bar, X, row, weight)
    follow(y_bar, y, weight)
    follow(n_bar, n, weight)
    subtract(y, y_bar, dy)
    subtract(n, n_bar, dn)
    hebb_input(state.W_xy, eta, dy, X, row, x_bar)  # (7)
    hebb(state.W_ny, eta, dy, dn)  # (8), transposed
    hebb(state.W_yn, eta, dn, dy)  # (8)


def track(state, work, params, eta):
    """M and H follow the weights."""
    apply(state.W_ny, work.dn, work.p)
    follow_interneurons(
        params.dynamics, state.M, state.H, eta, work.p, work.dy, work.dn, work.ws
    )


def average(state, weight):
    """Of the weights."""
    follow_matrix(state.W_xy_mean, state.W_xy, weight)
    follow_matrix(state.W_yn_mean, state.W_yn, weight)
    follow_matrix(state.W_ny_mean, state.W_ny, weight)


def flip(state, work, params):
    """The guard `silent`."""
    if params.guards.silent:
        flip_silent(state.W_xy, work.y, state.fired, work.ws.events)


def inspect(state, work, params):
    """The guards `row` and `spectrum`; M and H are recomputed from time to time."""
    changed = False
    if params.guards.row:
        replace_rows(state.W_xy, state.rng, work.ws.events)
    if params.guards.spectrum:
        lift_singular_values(state.W_xy, params.eps, work.ws)
        changed = lift_singular_values(state.W_yn.T, params.eps, work.ws)
        changed = lift_singular_values(state.W_ny, params.eps, work.ws) or changed
    if changed or state.t[0] % REFRESH == 0:
        multiply(state.W_ny, state.W_yn, state.M)
        invert(state.M, state.H)


def unmixing(state: State) -> Array:
    """(W_ny W_yn)^-1 W_xy."""
    return solve_lateral(state.W_ny @ state.W_yn, state.W_xy)


RULE = register(
    Rule(
        "interneuron",
        State,
        shapes(
            dk="W_xy W_xy_mean",
            md="W_yn W_yn_mean",
            dm="W_ny W_ny_mean",
            dd="M H",
            k="x_bar",
            d="y_bar",
            m="n_bar",
        )
        | {"coupled": "1:bool"},
        working("interneuron", d="c y dy p", m="n dn"),
        settle,
        learn,
        unmixing,
        inspect,
        track,
        average,
        flip,
        products={"M": ("W_ny", "W_yn")},
        inverses={"H": "M"},  # of coupled networks
    )
)


class InterneuronNICA(OfThePaper, Network):
    """Nonnegative ICA by a single layer of neurons with interneurons: Algorithm 1 of
    the paper, with its local rules.

    A model of a circuit: each synapse learns from what its two neurons know (the
    guards, repairs of appendix C, know more). `as_published` has the paper's settings;
    the default ones separate most mixing matrices up to a condition number of about 30
    (:doc:`/paper/convergence`). To separate data, use `StreamingNICA`, `BatchNICA` or
    `MinimumVolumeCone`.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    n_interneurons : int, default=None
        Number of interneurons m >= d; d if None.
    decoupled : bool, default=False
        Whether W_ny starts independently of W_yn, instead of as its transpose (appendix
        B). Neurons then always settle by the iteration, which is slower: the exact
        solver needs a symmetric W_ny W_yn.
    eta0, decay, power : float, default=None, None, 1.0
        Learning rate at sample t (from 0), ``eta0 / (1 + decay * t) ** power``, or
        `eta0` as a function of t. None: 0.02 and 2e-4 if both are None, else 0.01 and
        0.001.
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
        Repairs to switch on: all, none, or some of ("silent", "row", "spectrum"); see
        `bionica.circuits.guards`.
    init : "random" or dict, default="random"
        Initial weights: random (orthonormal feedforward, identity lateral), or arrays
        by name for some of W_xy, W_yn, W_ny.
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
    W_xy_, W_yn_, W_ny_ : ndarray
        The weights, (n_components, n_features), (n_interneurons, n_components) and
        (n_components, n_interneurons).
    n_components_, n_features_in_, n_samples_seen_, feature_names_in_ : int, int, int,
    ndarray
        Outputs, mixtures per sample, samples learned from; names of the mixtures, if X
        had string column names.
    repairs_ : dict of str to int
        How often each guard acted; samples that were regularised (nearly singular
        lateral weights) or did not settle.

    See Also
    --------
    TwoCompartmentNICA : the paper's other network.
    bionica.circuits.reference : the same algorithm in plain NumPy.

    Examples
    --------
    >>> from bionica import InterneuronNICA, datasets, metrics
    >>> S = datasets.sparse_uniform(100_000, 3, rng=0)
    >>> X, A = datasets.mix(S, datasets.paper_mixing("d3"))
    >>> network = InterneuronNICA.as_published("d3", random_state=0).fit(X)
    >>> bool(metrics.permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _parameter_constraints = (
        PARAMETERS | UNTUNED | {"n_interneurons": [COUNT, None], "decoupled": [BOOLEAN]}
    )
    #: Table 1 (appendix C), to the digit; and what all settings share.
    _published: ClassVar = {
        "always": {"average": False},
        "d3": {"eta0": 1e-2, "decay": 1e-3},
        "d10": {"eta0": 1e-2, "decay": 1e-3},
        "images": {"eta0": 1e-3, "decay": 1e-6},
    }
    _circuit = (
        {
            "x": ("mixtures", 0, 0),
            "y": ("principal neurons", 1, 0),
            "n": ("interneurons", 2, 0),
        },
        (("x", "y", "W_xy_", 1), ("y", "n", "W_yn_", 1), ("n", "y", "W_ny_", -1)),
    )

    _guards = ("silent", "row", "spectrum")
    W_xy_ = weights(
        "W_xy", "Weights from mixtures to outputs, (n_components, n_features)."
    )
    W_yn_ = weights(
        "W_yn", "Weights from outputs to interneurons, (n_interneurons, n_components)."
    )
    W_ny_ = weights(
        "W_ny", "Weights from interneurons to outputs, (n_components, n_interneurons)."
    )

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_interneurons: int | None = None,
        decoupled: bool = False,
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
        self.n_interneurons = n_interneurons
        self.decoupled = decoupled
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
        if state is None:
            state = self._initial_state(k, self._number_of_outputs(k, X), dtype)
        m = len(state.W_yn)
        if m != (self.n_interneurons or m):
            raise ValueError(
                f"n_interneurons={self.n_interneurons}, but the weights have {m}"
                " interneurons"
            )
        untuned = self.eta0 is None and self.decay is None
        eta0, decay = (0.02, 2e-4) if untuned else (1e-2, 1e-3)
        rates = Schedule(
            eta0 if self.eta0 is None else self.eta0,
            decay if self.decay is None else self.decay,
            self.power,
            1.0,
        )
        window = self.mean_window or (300 if untuned else 0)
        params = self._params(dtype, window, state.coupled[0])
        return NetworkLearner(
            state, params, [rates], averaged if self.average else None
        )

    def _initial_state(self, k: int, d: int, dtype: Any) -> Any:
        rng = check_random_state(self.random_state)
        m = self.n_interneurons or d
        if m < d:
            raise ValueError(
                f"n_interneurons={m} is fewer than the {d} outputs; use n_interneurons"
                f" >= {d}"
            )
        W_xy = orthonormal_rows(rng, d, k)
        W = {"W_xy": W_xy, "W_yn": np.eye(m, d), "W_ny": np.eye(d, m)}
        given = given_weights(self, W)
        W["W_yn"] = given.get("W_yn", given.get("W_ny", W["W_ny"]).T)
        W |= {"W_ny": W["W_yn"].T} | given
        for name in ("W_yn", "W_ny") if self.decoupled else ():
            # Small enough that W_ny W_yn stays positive definite, where the dynamics
            # have one fixed point.
            apart = 0.2 / np.sqrt(m) * rng.standard_normal(W[name].shape)
            W[name] = W[name] if name in given else W[name] + apart
        coupled = np.array_equal(W["W_ny"].astype(dtype), W["W_yn"].T.astype(dtype))
        return first_state(RULE, dtype, rng, W | {"coupled": [coupled]})
