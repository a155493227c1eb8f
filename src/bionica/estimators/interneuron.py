"""Algorithm 1 behind scikit-learn's interface."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from ..networks import interneuron
from ..networks.dynamics import ExactAsymmetric
from ..schedules import Rate
from .documentation import documented
from .online import Array, OnlineNICA, guard_seed, orthonormal_rows


@documented(eta0=0.01, decay=0.001, names="W_xy, W_yn, W_ny", guards=("silent", "row", "spectrum"))
class InterneuronNICA(OnlineNICA):
    """Nonnegative ICA by a single layer of neurons with interneurons (Algorithm 1).

    Online, with local learning rules and nonnegative outputs. See `bionica.networks.interneuron` for the equations.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d; the number of mixtures if None.
    n_interneurons : int, default=None
        Number of interneurons m >= d; d if None.
    decoupled : bool, default=False
        Whether W_ny starts independently of W_yn, instead of as its transpose. Their difference then decays as the product
        of (1 - eta_t) (appendix B).
    {common_parameters}

    Attributes
    ----------
    W_xy_, W_yn_, W_ny_ : ndarray
        Copies of the weights: mixtures to outputs, outputs to interneurons, interneurons to outputs.
    {common_attributes}

    See Also
    --------
    TwoCompartmentNICA : the paper's other network.

    Examples
    --------
    >>> from bionica import InterneuronNICA
    >>> from bionica.datasets import mix, paper_mixing, sparse_uniform
    >>> from bionica.metrics import permutation_error
    >>> S = sparse_uniform(100_000, 3, rng=0)
    >>> X, A = mix(S, paper_mixing("d3"))
    >>> network = InterneuronNICA(3, random_state=0).fit(X)
    >>> bool(permutation_error(S, network.transform(X)) < 1e-3)
    True
    """

    _rule: ClassVar = interneuron
    _own_guards: ClassVar = ("silent", "row", "spectrum")

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnlineNICA._parameter_constraints,
        "n_interneurons": [Interval(Integral, 1, None, closed="left"), None],
        "decoupled": ["boolean"],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_interneurons: int | None = None,
        decoupled: bool = False,
        eta0: Rate = 0.01,
        decay: float = 0.001,
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
        self.n_interneurons = n_interneurons
        self.decoupled = decoupled
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
    def W_xy_(self) -> Array:
        """Weights from mixtures to outputs, (n_components, n_features)."""
        return self._weight("W_xy")

    @property
    def W_yn_(self) -> Array:
        """Weights from outputs to interneurons, (n_interneurons, n_components)."""
        return self._weight("W_yn")

    @property
    def W_ny_(self) -> Array:
        """Weights from interneurons to outputs, (n_components, n_interneurons)."""
        return self._weight("W_ny")

    def _initial_state(self, k: int, d: int, dtype: Any, rng: np.random.RandomState, X: Array | None) -> Any:
        m = d if self.n_interneurons is None else self.n_interneurons
        if m < d:
            raise ValueError(f"n_interneurons={m} is fewer than the {d} outputs; use n_interneurons >= {d}")
        given = self._given_weights({"W_xy": (d, k), "W_yn": (m, d), "W_ny": (d, m)}, dtype)
        W_xy = given.get("W_xy", orthonormal_rows(rng, d, k, dtype))
        W_yn = np.eye(m, d, dtype=dtype)
        W_ny = W_yn.T.copy()
        if self.decoupled:
            # Small enough that W_ny W_yn stays positive definite, where the dynamics have one fixed point.
            spread = 0.2 / np.sqrt(m)
            W_yn += (spread * rng.standard_normal((m, d))).astype(dtype)
            W_ny += (spread * rng.standard_normal((d, m))).astype(dtype)
        if "W_yn" in given or "W_ny" in given:
            W_yn = given["W_yn"] if "W_yn" in given else given["W_ny"].T.copy()
            W_ny = given["W_ny"] if "W_ny" in given else given["W_yn"].T.copy()
        return interneuron.init(W_xy, W_yn, W_ny, guard_seed(rng))

    def _rule_params(self, dtype: Any) -> Any:
        dynamics, guards, window, eps = self._common_params(dtype)
        both_given = isinstance(self.init, dict) and {"W_yn", "W_ny"} <= set(self.init)
        if self.dynamics == "exact" and (self.decoupled or both_given):
            dynamics = ExactAsymmetric(eps)
        return interneuron.Params(dynamics, guards, window, eps)
