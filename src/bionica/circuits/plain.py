"""Networks in plain NumPy: a learning rule as it is printed, which runs wherever a
compiled one does.

A class says which arrays the network has, what it does with a mixture, and what it does
while every output fires. It is an estimator: `fit`, `partial_fit`, `transform`, `save`,
a sweep and `circuits.plot.record_weights` take it. Compiled rules are faster
(:doc:`/write-your-own-rule`).
"""

import inspect
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from bionica.circuits.network import Network, given_weights, weights
from bionica.core.blocks import Array
from bionica.engine.learner import NetworkLearner, Rate, Schedule
from bionica.engine.rule import (
    BOOKKEEPING,
    Rule,
    first_state,
    orthonormal_rows,
    register,
    state_class,
    to_arrays,
)

__all__ = ["PlainNetwork"]


class PlainNetwork(Network):
    """Base of networks whose learning rule is a function in plain NumPy. A subclass has
    `shapes`, `step` and `unmixing`.

    A subclass with parameters of its own has an `__init__` that lists all of its
    parameters and stores each of them.

    Parameters
    ----------
    n_components : int, default=None
        Number of sources d. None: the rank of the X of `fit`; in a stream, the number
        of mixtures.
    eta0, decay, power : float, default=0.01, 0.001, 1.0
        The learning rate at sample t (from 0) is ``eta0 / (1 + decay * t) ** power``,
        as in the paper. If `eta0` is a function of t, it is the whole schedule.
    init : "random" or dict, default="random"
        Initial arrays: those of `start`, or arrays by the names of `shapes`. They are
        copied.
    n_epochs, shuffle : int, bool, default=1, False
        How often `fit` presents the data, and whether in random order, another in each
        epoch (within the blocks of a Dask array).
    random_state : int, RandomState instance or None, default=None
        Seed of all that is random. A saved model keeps it if it is an int.

    Examples
    --------
    Algorithm 2 of the paper, as printed:

    >>> import numpy as np
    >>> from bionica.circuits.plain import PlainNetwork
    >>> from bionica.circuits.reference import settle
    >>> class AsPrinted(PlainNetwork):
    ...     # d outputs, k mixtures
    ...     shapes = {"W_xz": "dk", "W_zz": "dd", "x_bar": "k", "c_bar": "d"}
    ...
    ...     @staticmethod
    ...     def step(state, x, eta):
    ...         names = ("W_xz", "W_zz", "x_bar", "c_bar")
    ...         W_xz, W_zz, x_bar, c_bar = (state[name] for name in names)
    ...         t, tau = state["t"] + 1, 0.8
    ...         c = W_xz @ x
    ...         z = settle(W_zz, c)  # (15)
    ...         x_bar += (x - x_bar) / t
    ...         c_bar += (c - c_bar) / t
    ...         W_xz += 2 * eta * (np.outer(z, x) - np.outer(c - c_bar, x - x_bar))
    ...         W_zz += eta / tau * (np.outer(z, z) - W_zz)
    ...         return z
    ...
    ...     @staticmethod
    ...     def unmixing(state):
    ...         return np.linalg.solve(state["W_zz"], state["W_xz"])
    >>> S = np.random.default_rng(0).exponential(size=(500, 2))
    >>> X = S @ np.array([[1.0, 0.2], [0.4, 1.0]])
    >>> AsPrinted(eta0=0.02, random_state=0).partial_fit(X).W_zz_.shape
    (2, 2)
    """

    #: The shape of every array by its name: "dk" is (d, k), d outputs and k mixtures.
    #: Names that begin with W are attributes, W_.
    shapes: ClassVar[dict[str, str]]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        missing = [
            name for name in ("shapes", "step", "unmixing") if not hasattr(cls, name)
        ]
        if missing:
            raise TypeError(
                f"{cls.__name__} needs {' and '.join(missing)}: see"
                " bionica.circuits.plain.PlainNetwork"
            )
        name = f"{cls.__module__}.{cls.__qualname__}"
        State = state_class(
            name, [(each, np.ndarray) for each in (*cls.shapes, *BOOKKEEPING)]
        )
        cls._rule = register(
            Rule(
                name,
                State,
                cls.shapes,
                None,
                None,
                None,
                unmixing=lambda state: cls.unmixing(to_arrays(state)),
                step=lambda *arguments: cls.step(*arguments),
            )
        )
        for name in cls.shapes:
            if name.startswith("W"):
                setattr(cls, f"{name}_", weights(name, f"The weights {name}."))

    _rule: ClassVar[Rule]
    step: ClassVar[Any]
    unmixing: ClassVar[Any]

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eta0: Rate = 0.01,
        decay: float = 1e-3,
        power: float = 1.0,
        init: str | dict[str, Any] = "random",
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.eta0 = eta0
        self.decay = decay
        self.power = power
        self.init = init
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def start(self, d: int, k: int, rng: np.random.RandomState) -> dict[str, Array]:
        """Return the arrays before the first mixture.

        Here a W of shape "dk" has orthonormal rows, others are I; the rest is 0.
        """
        sizes = {"d": d, "k": k}
        arrays = {}
        for name, letters in self.shapes.items():
            if set(letters) - set(sizes):
                raise ValueError(
                    f"{type(self).__name__} has {name} of shape {letters!r}, and"
                    " lengths other than d and k are not known: write start(self, d,"
                    " k, rng), which returns the arrays"
                )
            shape = tuple(sizes[letter] for letter in letters)
            arrays[name] = np.zeros(shape)
            if name.startswith("W") and letters == "dk":
                arrays[name] = orthonormal_rows(rng, d, k)
            elif name.startswith("W") and letters[1:]:
                arrays[name] = np.eye(shape[0], shape[-1])
        return arrays

    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> NetworkLearner:
        if state is None:
            d = self._number_of_outputs(k, X)
            rng = check_random_state(self.random_state)
            arrays = {
                name: np.array(A, dtype)
                for name, A in self.start(d, k, rng).items()
                if name in self.shapes
            }
            sizes = {"d": d, "k": k}
            for name, letters in self.shapes.items():
                start = f"start of {type(self).__name__}"
                if name not in arrays:
                    raise ValueError(
                        f"{start} returned no {name}: it returns all arrays of shapes"
                    )
                shape = arrays[name].shape
                pairs = zip(letters, shape, strict=False)
                known = tuple(sizes.setdefault(letter, n) for letter, n in pairs)
                if len(letters) != len(shape) or known != shape:
                    raise ValueError(
                        f"{start} has {name} of shape {shape}, not {letters!r}: {sizes}"
                    )
            state = first_state(
                self._rule,
                dtype,
                rng,
                {"fired": np.zeros(d)} | arrays | given_weights(self, arrays),
            )
        common = inspect.signature(PlainNetwork).parameters
        own = {
            name: deepcopy(value)
            for name, value in self.get_params(deep=False).items()
            if name not in common
        }
        return NetworkLearner(state, own, [Schedule(self.eta0, self.decay, self.power)])
