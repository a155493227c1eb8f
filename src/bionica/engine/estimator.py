"""An estimator that a rule moves, sample by sample, in the compiled loop."""

from abc import abstractmethod
from copy import deepcopy
from typing import Any

import numpy as np

from bionica.core.blocks import Array, finite, pseudoinverse
from bionica.core.estimator import Separator
from bionica.core.model_file import Record
from bionica.core.online import OnlineEstimator, not_started
from bionica.engine.learner import NetworkLearner
from bionica.engine.rule import BOOKKEEPING, REPAIRS, RULES, rule_of


class RuleEstimator(Separator, OnlineEstimator):
    """Base of the networks and of StreamingNICA; a subclass has `_learner_for`."""

    #: None until a first block has started it (StreamingNICA).
    _learner: Any
    _private = ("_waiting", "_learner")

    @abstractmethod
    def _learner_for(
        self, k: int, dtype: Any, X: Any = None, state: Any = None
    ) -> NetworkLearner:
        """Return what learns from k mixtures: from the start, with all data X of `fit`
        or without (a stream), or from a state.
        """

    def _begin(self, k: int, dtype: Any, X: Any = None) -> None:
        self._waiting = np.empty((0, k), dtype)
        self._learner = self._learner_for(k, dtype, X)

    def _learn(self, X: Array, keep: bool = False) -> Any:
        return self._learner.learn(X, keep)

    def _outputs(self, X: Array) -> Array:
        return self._learner.outputs(X)

    def _check_config(self) -> bool:
        changed = super()._check_config()
        if changed and self._learner is not None:  # the same state, with other rates
            self._continue_from(self._learner.state)
        return changed

    def _continue_from(self, state: Any) -> None:
        """Make what learns from a state."""
        self._learner = self._learner_for(
            self.n_features_in_, self._waiting.dtype, state=state
        )

    def _started(self) -> Any:
        """Return the state; NotFittedError if the model has not started."""
        self._check_fitted()
        if self._learner is None:
            raise not_started(self.n_samples_until_start_)
        return self._learner.state

    def _backup(self) -> Any:
        learner = vars(self).get("_learner")
        return None if learner is None else (learner, learner.backup())

    def _undo(self, backup: Any) -> None:
        if backup is not None:
            learner, state = backup
            learner.restore(state)

    # --- model files

    def _records(self, rule: str | None) -> dict[str, Any]:
        if rule is None:
            return super()._records(rule)
        if rule not in RULES:
            raise ValueError(f"no network has the rule {str(rule)[:80]!r}")
        schemas = {**RULES[rule].shapes, **BOOKKEEPING}
        state = Record(RULES[rule].State, schemas)
        return {**super()._records(rule), "_state": state}

    def _rule_name(self) -> str | None:
        return None if self._learner is None else rule_of(self._learner.state).name

    def _to_save(self) -> dict[str, Any]:
        state = None if self._learner is None else self._learner.state
        return {"_waiting": self._waiting, "_state": state}

    def _restore(self, values: dict[str, Any]) -> None:
        self._waiting = values["_waiting"]
        if len(self._waiting):
            raise ValueError(f"{len(self._waiting)} samples wait for a block of 0")
        self._continue_from(values["_state"])
        super()._restore({})

    def __getstate__(self) -> dict[str, Any]:
        own = super().__getstate__()
        if "_learner" in own:
            # A copy must not share what learning changes in place.
            own["_learner"] = deepcopy(own["_learner"])
        return own

    # --- what was learned

    @property
    def components_(self) -> Array:
        """The unmixing matrix, (n_components, n_features): what the network does to a
        mixture for which every output fires.
        """
        self._started()
        state = self._learner.readout()
        with np.errstate(all="ignore"):  # a collapsed network may overflow
            W = np.asarray(rule_of(state).unmixing(state))
        return finite(W).astype(self._learner.dtype)

    @property
    def mixing_(self) -> Array:
        """The mixing matrix, (n_features, n_components): pseudoinverse of
        `components_`.
        """
        return pseudoinverse(self.components_)

    @property
    def n_samples_seen_(self) -> int:
        """Samples seen, including those that wait for the start."""
        self._check_fitted()
        n_waiting = len(self._waiting)
        return n_waiting + (self._learner.n_samples_seen if self._learner else 0)

    @property
    def n_samples_until_start_(self) -> int:
        """Samples that are missing until the model starts; outputs are zero before."""
        self._check_fitted()
        return 0

    @property
    def repairs_(self) -> dict[str, int]:
        """How often each guard acted; samples that were regularised (nearly singular
        lateral weights) or did not settle.
        """
        counts = map(int, self._started().repairs)
        return dict(zip(REPAIRS, counts, strict=True))

    @property
    def _n_features_out(self) -> int:
        self._started()
        return self._learner.n_outputs
