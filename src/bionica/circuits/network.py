"""The base of the networks: guards, settling, weights, what went wrong, `as_published`.

Network         estimator of a network that a rule moves
weights         an attribute that shows a weight matrix
given_weights   the weights that the user gives as `init`
OfThePaper      mixin of the networks that are in the paper
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np

from bionica.circuits.guards import Guards, Params
from bionica.circuits.settling import Exact, ProjectedGradient
from bionica.core.blocks import Array, row_sample
from bionica.core.errors import Diverged, Message
from bionica.core.samples import given_matrix, warn
from bionica.engine.algebra import FOREVER
from bionica.engine.estimator import RuleEstimator
from bionica.engine.rule import UNSETTLED

#: The number of sources of each of the paper's problems.
SOURCES = {"d3": 3, "d10": 10, "images": 3}
#: Outputs have variance or mean 1; rates that fail make them 1e5 and more.
_HUGE = 1e3


class Network(RuleEstimator):
    """Base of the networks; a subclass says what learns (`_learner_for`)."""

    _changeable: ClassVar[tuple[str, ...]] = ("eta0", "decay", "power")
    #: What `plot.circuit` draws: layers by symbol (title, column, row), and synapses
    #: between them, (from, to, attribute with the weights, sign with which they enter).
    #: Attribute None: the two layers are compartments of the same neurons.
    _circuit: ClassVar[Any] = None
    #: The guards that it has.
    _guards: ClassVar[tuple[str, ...]] = ()

    def _params(
        self, dtype: Any, window: int = 0, symmetric: bool = True, **own: Any
    ) -> Params:
        """What its rule is run with, from the parameters; neurons settle exactly only
        if the lateral weights are symmetric.
        """
        eps = float(np.finfo(dtype).eps)
        dynamics: Any = Exact(eps)
        if getattr(self, "dynamics", "exact") == "gradient" or not symmetric:
            tolerance = max(float(self.settle_tol), 64 * eps)
            steps = int(self.settle_steps)
            dynamics = ProjectedGradient(float(self.gamma or 0), tolerance, steps)
        average = FOREVER if getattr(self, "average", False) else 0
        chosen = self._guards if self.guards is True else self.guards or ()
        unknown = set(chosen) - set(self._guards)
        if unknown:
            raise ValueError(
                f"guards={self.guards!r} names {sorted(map(str, unknown))};"
                f" {type(self).__name__} has {self._guards}"
            )
        guards = Guards(*(name in chosen for name in Guards._fields))
        return Params(dynamics, guards, average, int(window), eps, **own)

    # --- what went wrong while it learned

    def _problems(self) -> list[str]:
        if not self._learner.state.repairs[UNSETTLED]:
            return []
        remedy = "lower eta0"
        if "settle_steps" in self._config:
            remedy = (
                "raise settle_steps or settle_tol, change gamma, or use"
                " dynamics='exact' and decoupled=False"
            )
        return [
            "the neurons did not settle for some samples (repairs_ counts them):"
            f" {remedy}."
        ]

    def _warn(self, problems: Sequence[str]) -> None:
        for problem in problems:
            warn(Message("{}: {}", type(self).__name__, problem))

    def _after_fit(self, rows: Array, n: int) -> None:
        self._warn(self._problems())

    def _after_block(self, rows: Any, n_before: int) -> None:
        """Look for huge outputs whenever the number of samples doubles: it takes 0.3
        ms.
        """
        n = self._learner.n_samples_seen
        doubled = n.bit_length() > n_before.bit_length()
        if doubled and isinstance(rows, np.ndarray):
            some = rows[row_sample(*rows.shape, most=32)]
            with suppress(Diverged):  # the next sample will say so
                self._after_outputs(self._learner.outputs(some))

    def _after_outputs(self, Y: Array) -> None:
        """Warn of outputs that are far too large."""
        if not len(Y):
            return
        typical = float(np.median(Y[row_sample(*Y.shape)].max(axis=1)))
        if typical > _HUGE:
            template = (
                "outputs are {} where 1 is right, because the weights diverge."
                " {rates:Lower eta0, or use StreamingNICA, which has no learning"
                " rates}."
            )
            self._warn([Message(template, f"{typical:.2g}")])


def weights(name: str, doc: str) -> Any:
    """A read-only attribute of a network: a copy of a weight matrix, so that the user
    cannot change the network through it.
    """

    def read(network: Network) -> Array:
        return np.array(getattr(network._started(), name))

    return property(read, doc=doc)


class OfThePaper:
    """Mixin of the networks that are in the paper: `as_published`."""

    _published: ClassVar[dict[str, dict[str, Any]]]

    @classmethod
    def as_published(cls, setting: str, **overrides: Any) -> Self:
        """Return the paper's network with its hyperparameters for this setting: table 1
        (appendix C).

        Parameters
        ----------
        setting : {"d3", "d10", "images"}
            The three or ten sparse uniform sources, or the three natural images.
        **overrides
            Parameters that differ from the paper's, for example `random_state`.
        """
        if setting not in SOURCES:
            raise ValueError(
                f"setting={setting!r} is not one of the paper's; choose from"
                f" {sorted(SOURCES)}"
            )
        published = {**cls._published["always"], **cls._published[setting]}
        return cls(**{"n_components": SOURCES[setting], **published, **overrides})


#: What `plot.circuit` draws of a network of neurons with a dendrite and a soma.
TWO_COMPARTMENTS: Any = (
    {"x": ("mixtures", 0, 0), "c": ("dendrites", 1, 0), "z": ("somata", 2, 0)},
    (("x", "c", "W_xz_", 1), ("c", "z", None, 1), ("z", "z", "W_zz_", -1)),
)


def given_weights(
    network: Any, default: dict[str, Array], positive_definite: str = ""
) -> dict[str, Array]:
    """The arrays in `init` of a network in float64, of the shapes of the default ones;
    one may have to be positive definite.
    """
    if not isinstance(network.init, dict):
        return {}
    given = {}
    for name, value in network.init.items():
        if name not in default:
            raise ValueError(
                f"init has no weights {name!r} to set; {type(network).__name__} has"
                f" {sorted(default)}"
            )
        shape = default[name].shape
        W = given_matrix(value, f"init[{name!r}]", str(shape))
        if W.shape != shape:
            raise ValueError(
                f"init[{name!r}] has shape {W.shape}; for these mixtures it must be"
                f" {shape}"
            )
        if name == positive_definite:
            definite = np.allclose(W, W.T) and np.linalg.eigvalsh(W)[0] > 0
            if not definite:
                raise ValueError(
                    f"init[{name!r}] must be symmetric positive definite; W @ W.T of"
                    " any full-rank W is"
                )
        given[name] = W
    return given
