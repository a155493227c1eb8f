"""Algorithm 2 behind scikit-learn's interface."""

from collections.abc import Iterable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from ..networks import two_compartment
from ..schedules import Rate
from .documentation import documented
from .online import Array, OnlineNICA, guard_seed, orthonormal_rows, positive_definite


@documented(eta0=0.1, decay=0.01, names="W_xz, W_zz", guards=("silent", "spectrum", "rate"))
class TwoCompartmentNICA(OnlineNICA):
    """Nonnegative ICA by a single layer of 2-compartmental neurons (Algorithm 2).

    Online, with local learning rules and nonnegative outputs. See `bionica.networks.two_compartment` for the equations.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d; the number of mixtures if None.
    tau : float, default=0.8
        The lateral weights W_zz learn at the rate eta/tau. Every eta must be below tau.
    {common_parameters}

    Attributes
    ----------
    W_xz_, W_zz_ : ndarray
        Copies of the weights: mixtures to outputs, and between outputs.
    {common_attributes}

    See Also
    --------
    InterneuronNICA : the paper's other network.

    Examples
    --------
    >>> from bionica import TwoCompartmentNICA
    >>> from bionica.datasets import mix, paper_mixing, sparse_uniform
    >>> from bionica.metrics import permutation_error
    >>> S = sparse_uniform(100_000, 3, rng=0)
    >>> X, A = mix(S, paper_mixing("d3"))
    >>> network = TwoCompartmentNICA(3, random_state=0).fit(X)
    >>> bool(permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _rule: ClassVar = two_compartment
    _own_guards: ClassVar = ("silent", "spectrum", "rate")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnlineNICA._parameter_constraints,
        "tau": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        tau: float = 0.8,
        eta0: Rate = 0.1,
        decay: float = 0.01,
        power: float = 1.0,
        dynamics: str = "exact",
        gamma: float | None = None,
        settle_tol: float = 1e-10,
        settle_steps: int = 10_000,
        mean_window: int | None = None,
        precondition: None = None,
        average: bool = False,
        init: str | dict[str, ArrayLike] = "random",
        guards: bool | Iterable[str] = True,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.tau = tau
        self.eta0 = eta0
        self.decay = decay
        self.power = power
        self.dynamics = dynamics
        self.gamma = gamma
        self.settle_tol = settle_tol
        self.settle_steps = settle_steps
        self.mean_window = mean_window
        self.precondition = precondition
        self.average = average
        self.init = init
        self.guards = guards
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state
        self.verbose = verbose

    @property
    def W_xz_(self) -> Array:
        """Weights from mixtures to outputs, (n_components, n_features)."""
        return self._weight("W_xz")

    @property
    def W_zz_(self) -> Array:
        """Weights between outputs, (n_components, n_components)."""
        return self._weight("W_zz")

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Array | None) -> Any:
        given = self._given_weights({"W_xz": (d, k), "W_zz": (d, d)}, dtype)
        W_xz = given.get("W_xz", orthonormal_rows(rng, d, k, dtype))
        W_zz = positive_definite(given.get("W_zz", np.eye(d, dtype=dtype)), "W_zz")
        return two_compartment.init(W_xz, W_zz, guard_seed(rng))

    def _rule_params(self, dtype: Any) -> Any:
        return two_compartment.Params(*self._common_params(dtype), float(self.tau))

    def _rates(self, t0: int, n: int) -> Array:
        bound = f"tau={self.tau:g}"
        rates = self._checked_rates(self.eta0, self.decay, self.power, t0, n, "eta0", self.tau, bound)
        return rates[:, np.newaxis]
